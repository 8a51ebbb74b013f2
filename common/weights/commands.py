"""What `python -m common weights make|extract|check` do; their errors are written for the user."""

from pathlib import Path

import numpy as np

from ..files import replacing
from ..text import aligned, printable
from ..topology import Graph, build, load_model, read_onnx_with_parameters
from .checking import findings
from .extraction import extract
from .files import Parameters, check_suffix, load, save
from .sources import model, network

WIDTHS = (1.0, 0.75, 0.5, 0.35, 1.3, 1.4)  # that MobileNetV2 is published in
NAME_WIDTH = 100  # characters that are shown of a parameter's name, which a file may make of any length


def make_file(source: str, out: Path, input_size: int | None = None, force: bool = False) -> None:
    """Write a source as an ONNX file, or its folded parameters as .npz, as the name of `out` ends.

    input_size: height and width of the network's input. force: replace `out` if it exists. ValueError for another
    ending, an unknown source, or a file that exists; RuntimeError for a failed download; OSError as of files.replacing.
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

    ValueError for another ending, a file that exists, or a name or dtype that a .npz does not keep; what
    `topology.load_model` raises; OSError as of files.replacing.
    """
    check_suffix(out, ".npz")
    refuse_overwrite(out, force)
    parameters = extract(onnx) if raw else read_onnx_with_parameters(onnx)[1]
    save(out, parameters)
    return parameters


def check_file(file: Path, onnx: Path | None = None) -> tuple[list[str], int]:
    """Lines to print, one for each parameter of the file compared with the layers of a network; how many do not fit.

    The network is that of `onnx`, or of the file itself if it is an ONNX file, or else the MobileNetV2 that
    the shapes in the file come nearest to. Raises what `load` and `topology.load_model` raise.
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
    """The MobileNetV2, of the published widths, that most of the parameters fit."""
    classifier = parameters.get("classifier.1.weight")
    classes = 1000 if classifier is None or classifier.ndim == 0 else max(1, len(classifier))
    batch_norm = any(name.endswith("running_mean") for name in parameters)
    candidates = [build(width, classes, batch_norm=batch_norm) for width in WIDTHS]
    return min(candidates, key=lambda graph: sum(bool(f.problem) for f in findings(graph, parameters)))


def refuse_overwrite(out: Path, force: bool) -> None:
    """ValueError if `out` exists, unless the caller asked to replace it."""
    if out.exists() and not force:
        raise ValueError(printable(f"{out} exists; --force replaces it"))
