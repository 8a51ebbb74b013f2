"""The function behind `python -m common quantize`: calibration pictures and a model file; errors go to the user."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..files import replacing
from ..images import ImageError
from ..images.packing import find_pictures
from ..network.reference import OnnxRuntimeBackend
from ..text import printable
from ..topology import Graph
from .calibration import outputs
from .equalization import equalized
from .quantizer import Quantized, calibrated, check, with_grids
from .sensitivity import Sensitivity, agreement, check_wanted, choose, relative_error, sensitivities


@dataclass(frozen=True)
class Report:
    """What quantization did to a network, measured on the calibration pictures.

    error       ‖output − output in float32‖ / ‖output in float32‖
    agreement   the share of pictures with the same most likely class
    in_float    names of the layers that stay in float32
    ranking     the sensitivity of each layer, the largest first; empty if it was not measured
    by_onnx_runtime   `agreement`, of ONNX Runtime on this machine's processor, as it computes by default
    """

    pictures: int
    error: float
    agreement: float
    in_float: tuple[str, ...]
    ranking: tuple[Sensitivity, ...]
    by_onnx_runtime: float


def calibration_pictures(
    folder: str | os.PathLike, prepare: Callable[[Path], np.ndarray], most: int,
    on_skip: Callable[[str], None] = lambda line: None,
) -> np.ndarray:  # fmt: skip
    """Up to `most` pictures of a folder as inputs (N, C, H, W) float32, evenly spaced in the order of their names.

    prepare: makes an input (1, C, H, W) of a file, or raises ImageError. on_skip: is called with the name and reason of
    each file that is no picture. ValueError for `most` below 1, a folder that does not exist or that has no readable
    picture; OSError for one that cannot be opened.
    """
    if most < 1:
        raise ValueError(f"pictures must be at least 1, got {most}")
    if os.path.isdir(folder):
        os.listdir(folder)  # raises if it cannot be read
    files = find_pictures([folder])
    chosen = [files[i] for i in sorted({round(i) for i in np.linspace(0, len(files) - 1, min(most, len(files)))})]
    found = []
    for _, path in chosen:
        try:
            found.append(prepare(path))
        except ImageError as error:
            on_skip(str(error))
    if not found:
        reason = f"expected pictures to calibrate with, none of {len(files)} files is one"
        raise ValueError(printable(f"{os.fspath(folder)}: {reason}"))
    return np.concatenate(found)


def quantize_file(
    graph: Graph, parameters: dict[str, np.ndarray], x: np.ndarray, out: str | os.PathLike, *, ranges: str = "mse",
    per_channel: bool = True, equalize: bool = False, wanted: float | None = None, in_float: Sequence[str] = (),
    force: bool = False, weight_bits: int = 8,
) -> Report:  # fmt: skip
    """Quantize a network and write it to `out`, a .onnx file, whole or not at all.

    x: calibration pictures (N, C, H, W). ranges, per_channel, equalize, in_float, weight_bits: as of
    quantizer.quantize. wanted: the agreement with float32 to reach by keeping the most sensitive layers in float32;
    None: keep those of `in_float`.
    force: replace `out` if it exists. ValueError as of quantizer.quantize and sensitivity.choose, for another suffix,
    for an existing file, and for both `wanted` and `in_float`; OSError as of files.replacing.
    """
    path = Path(out)
    if path.suffix.lower() != ".onnx":
        raise ValueError(printable(f"out must end in .onnx, got {path}"))
    if path.exists() and not force:
        raise ValueError(printable(f"{path} exists; --force replaces it"))
    if wanted is not None and in_float:
        raise ValueError("in_float must be left out where an agreement is wanted")
    if wanted is not None:
        check_wanted(wanted)
    check(graph, x)
    with replacing(path) as file:  # before the work, so that a path that cannot be written is found first
        reference = outputs(graph, parameters, x)
        scaled = equalized(graph, parameters, x) if equalize else parameters
        grids = calibrated(graph, scaled, x, ranges)
        ranking: list[Sensitivity] = []
        made: Quantized
        kept = tuple(in_float)
        if wanted is None:
            made = with_grids(graph, scaled, grids, per_channel=per_channel, in_float=kept, weight_bits=weight_bits)
        else:
            ranking = sensitivities(graph, scaled, grids, x, per_channel=per_channel, weight_bits=weight_bits)
            made, kept = choose(
                graph, scaled, grids, x, ranking, wanted, per_channel=per_channel, weight_bits=weight_bits
            )
        y = outputs(made.graph, made.parameters, x)
        model = made.model()
        theirs = OnnxRuntimeBackend(model, exact=False)(x)
        file.write(model.SerializeToString())
    return Report(
        len(x), relative_error(y, reference), agreement(y, reference), kept, tuple(ranking),
        agreement(theirs, reference),
    )  # fmt: skip
