"""What `python -m common weights make|extract|check` do; their errors are written for the user."""

from pathlib import Path

import numpy as np

from ..text import aligned
from ..topology import Graph, build, load_model, read_onnx_with_parameters
from .checking import findings
from .extraction import extract
from .files import Parameters, by_suffix, load, save, write_atomically
from .sources import model, network

WIDTHS = (1.0, 0.75, 0.5, 0.35, 1.3, 1.4)  # that MobileNetV2 is published in


def make_file(source: str, out: Path, input_size: int | None = None, force: bool = False) -> None:
    """A source as an ONNX file, or its folded parameters as .npz or .txt."""

    def write_onnx_file(path: Path) -> None:
        content = model(source, input_size).SerializeToString()
        write_atomically(path, lambda file: file.write(content))

    def write_parameters(path: Path) -> None:
        save(path, network(source, input_size)[1])

    write = by_suffix(out, {".onnx": write_onnx_file, ".npz": write_parameters, ".txt": write_parameters})
    keep_unless(force, out)
    write(out)


def extract_file(onnx: Path, out: Path, raw: bool = False, force: bool = False) -> Parameters:
    """The parameters of an ONNX file's layers, or all its initializers as stored, as .npz or .txt."""
    by_suffix(out, {".npz": save, ".txt": save})
    keep_unless(force, out)
    parameters = extract(onnx) if raw else read_onnx_with_parameters(onnx)[1]
    save(out, parameters)
    return parameters


def check_file(file: Path, onnx: Path | None = None) -> tuple[list[str], int]:
    """A line for each parameter of the file, compared with the layers of a network; and how many do not fit.

    The network is that of `onnx`, or of the file itself if it is an ONNX file, or else the MobileNetV2 that
    the shapes in the file come nearest to.
    """
    if file.suffix.lower() == ".onnx":
        graph, parameters = read_onnx_with_parameters(load_model(file))
    else:
        parameters = load(file)
        graph = nearest_mobilenet(parameters)
    if onnx is not None:
        graph, _ = read_onnx_with_parameters(onnx)

    rows = [("parameter", "shape", "dtype", "least", "greatest", "")]
    found = list(findings(graph, parameters))
    for finding in found:
        array = finding.array
        shown = ("", "", "", "")
        if array is not None:
            least, greatest = (f"{bound(array):.4g}" if array.size else "" for bound in (np.min, np.max))
            shown = (" × ".join(map(str, array.shape)), array.dtype.name, least, greatest)
        rows.append((finding.name, *shown, finding.problem or "ok"))
    lines = [graph.name, "", *aligned(rows, right=(3, 4))]
    wrong = sum(bool(finding.problem) for finding in found)
    count = sum(array.size for array in parameters.values())
    lines += ["", f"{len(found)} parameters of {count:,} numbers, {wrong or 'none'} out of order"]
    return lines, wrong


def nearest_mobilenet(parameters: Parameters) -> Graph:
    """The MobileNetV2, of the published widths, that most of the parameters fit."""
    classifier = parameters.get("classifier.1.weight")
    classes = 1000 if classifier is None or classifier.ndim == 0 else max(1, len(classifier))
    batch_norm = any(name.endswith("running_mean") for name in parameters)
    candidates = [build(width, classes, batch_norm=batch_norm) for width in WIDTHS]
    return min(candidates, key=lambda graph: sum(bool(f.problem) for f in findings(graph, parameters)))


def keep_unless(force: bool, out: Path) -> None:
    if out.exists() and not force:
        raise ValueError(f"{out} exists; --force replaces it")
