"""The functions behind `python -m common weights make|extract|check`; their errors are shown to the user."""

from pathlib import Path

import numpy as np

from ..files import replacing
from ..text import aligned, printable
from ..topology import Graph, build, load_model, read_onnx_with_parameters
from .checking import findings
from .extraction import extract
from .files import Parameters, check_suffix, load, save
from .sources import model, network

WIDTHS = (1.0, 0.75, 0.5, 0.35, 1.3, 1.4)  # width multipliers of published MobileNetV2 models
NAME_WIDTH = 100  # characters shown of a parameter's name, which can have any length in a file


def make_file(source: str, out: Path, input_size: int | None = None, force: bool = False) -> None:
    """Write a source as an ONNX file, or its folded parameters as .npz, by the suffix of `out`.

    input_size: height and width of the network's input. force: replace `out` if it exists. ValueError for another
    suffix, an unknown source, or an existing file; RuntimeError for a failed download; OSError as for files.replacing.
    """
    suffix = check_suffix(out, ".onnx", ".npz")
    refuse_overwrite(out, force)
    if suffix == ".npz":
        return save(out, network(source, input_size)[1])
    content = model(source, input_size).SerializeToString()
    with replacing(out) as file:
        file.write(content)


def extract_file(onnx: Path, out: Path, raw: bool = False, force: bool = False) -> Parameters:
    """Write the parameters of an ONNX file's layers, or all its initializers as stored (`raw`), as .npz; return them.

    ValueError for another suffix, an existing file, or a name or dtype that `save` refuses; errors of
    `topology.load_model`; OSError as for files.replacing.
    """
    check_suffix(out, ".npz")
    refuse_overwrite(out, force)
    parameters = extract(onnx) if raw else read_onnx_with_parameters(onnx)[1]
    save(out, parameters)
    return parameters


def check_file(file: Path, onnx: Path | None = None) -> tuple[list[str], int]:
    """Compare a file's parameters with a network's layers: (lines to print, how many parameters do not fit).

    The network is that of `onnx`, or of the file itself if it is an ONNX file, else nearest_mobilenet. Errors as for
    `load` and `topology.load_model`.
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
        rows.append((printable(finding.name, NAME_WIDTH), *shown, finding.problem or "ok"))
    lines = [printable(graph.name, NAME_WIDTH), "", *aligned(rows, right=(3, 4))]
    wrong = sum(bool(finding.problem) for finding in found)
    count = sum(array.size for array in parameters.values())
    lines += ["", f"{len(found)} parameters of {count:,} numbers, {wrong or 'none'} out of order"]
    return lines, wrong


def nearest_mobilenet(parameters: Parameters) -> Graph:
    """The MobileNetV2, of those with WIDTHS, in which most of the parameters fit."""
    classifier = parameters.get("classifier.1.weight")
    classes = 1000 if classifier is None or classifier.ndim == 0 else max(1, len(classifier))
    batch_norm = any(name.endswith("running_mean") for name in parameters)
    candidates = [build(width, classes, batch_norm=batch_norm) for width in WIDTHS]
    return min(candidates, key=lambda graph: sum(bool(f.problem) for f in findings(graph, parameters)))


def refuse_overwrite(out: Path, force: bool) -> None:
    """Raise ValueError if `out` exists and `force` is false."""
    if out.exists() and not force:
        raise ValueError(printable(f"{out} exists; --force replaces it"))
