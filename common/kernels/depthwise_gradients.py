"""What the two gradients of a depthwise convolution share: checks, the numbers they are compiled for, their blocks."""

from typing import Any

import numpy as np

from ..cuda import checks, layout
from .ladder import Ladder

DTYPES = (*checks.DTYPES, np.dtype(np.float64))
LINE = 128  # bytes that neighbouring threads read together


def sizes(name: str, value: Any, count: int) -> tuple[int, ...]:
    """So many sizes of at least 1, as ints. ValueError for anything else."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) != count or not all(isinstance(size, (int, np.integer)) and size >= 1 for size in given):
        raise ValueError(f"{name} must be {count} integers of at least 1, got {value!r}")
    return tuple(map(int, given))


def check_accumulate(accumulate: Any, out: Any) -> bool:
    """Whether to add to what is in `out`, which must then be there. ValueError otherwise."""
    if accumulate and out is None:
        raise ValueError("out must be an array when accumulate is True, as the gradient is added to it, got None")
    return bool(accumulate)


def layout_of(ladder: Ladder, variant: str | None, **arrays: Any) -> str:
    """The layout that all arrays have; of arrays that have both, as with a single pixel, the one that the rung takes.

    Arrays may be None. ValueError if there is no such layout.
    """
    where = layout.shared_layout(**arrays)
    rung = ladder.rungs.get(variant) if variant else None
    if rung and where not in rung.layouts and all(a is None or layout.has(a, "NHWC") for a in arrays.values()):
        return "NHWC"
    return where


def numbers(
    kernel: tuple[int, int], stride: tuple[int, int], pads: checks.Pads, dilation: tuple[int, int]
) -> dict[str, int]:
    """The -D numbers of a convolution: kernel KH, KW, stride SH, SW, dilation DH, DW, padding above and left PH, PW."""
    return {
        "KH": kernel[0], "KW": kernel[1], "SH": stride[0], "SW": stride[1], "DH": dilation[0], "DW": dilation[1],
        "PH": pads[0][0], "PW": pads[1][0],
    }  # fmt: skip


# what a rung is compiled for unless told
DEFAULT = {"NHWC": 0, "ACCUMULATE": 0, **numbers((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))}


def channels(where: str, c: int, each: int, itemsize: int, most: int = 32) -> tuple[int, int]:
    """(threads of a block that lie side by side along the channels, how many times as many all channels take).

    NCHW: (1, C), as neighbours lie along rows. NHWC, with `each` channels a thread: as many threads as read a line of
    128 bytes, or half as many where fewer are then left over; a power of two, at most `most`.
    """
    if where == "NCHW":
        return 1, c
    threads = c // each
    side = 1 << (min(most, LINE // (each * itemsize), 1 << (threads - 1).bit_length()).bit_length() - 1)
    half = max(1, side // 2)
    if checks.blocks(threads, half) * half < checks.blocks(threads, side) * side:
        side = half
    return side, checks.blocks(threads, side)
