"""Shared by the launchers of the two gradients of a depthwise convolution: checks, -D options, block shapes."""

from typing import Any

import numpy as np

from ..cuda import checks, layout
from .ladder import Ladder

DTYPES = (*checks.DTYPES, np.dtype(np.float64))
LINE = 128  # bytes of a cache line, which neighbouring threads should read together


def check_sizes(name: str, value: Any, count: int) -> tuple[int, ...]:
    """`value` as `count` ints. Raises ValueError unless it is that many integers of at least 1."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) != count or not all(isinstance(size, (int, np.integer)) and size >= 1 for size in given):
        raise ValueError(f"{name} must be {count} integers of at least 1, got {value!r}")
    return tuple(map(int, given))


def check_accumulate(accumulate: Any, out: Any) -> bool:
    """`accumulate` as a bool. Raises ValueError if it is set without an array `out` to add to."""
    if accumulate and out is None:
        raise ValueError("out must be an array when accumulate is True, as the gradient is added to it, got None")
    return bool(accumulate)


def layout_of(ladder: Ladder, variant: str | None, **arrays: Any) -> str:
    """The common layout of the arrays, which may be None; if they fit both (one pixel or channel), the variant's.

    Raises ValueError if the arrays have no layout in common.
    """
    where = layout.shared_layout(**arrays)
    rung = ladder.rungs.get(variant) if variant else None
    if rung and where not in rung.layouts and all(a is None or layout.has(a, "NHWC") for a in arrays.values()):
        return "NHWC"
    return where


def geometry_defines(
    kernel: tuple[int, int], stride: tuple[int, int], pads: checks.Pads, dilation: tuple[int, int]
) -> dict[str, int]:
    """The -D options of a convolution: kernel KH, KW, stride SH, SW, dilation DH, DW, top and left padding PH, PW."""
    return {
        "KH": kernel[0], "KW": kernel[1], "SH": stride[0], "SW": stride[1], "DH": dilation[0], "DW": dilation[1],
        "PH": pads[0][0], "PW": pads[1][0],
    }  # fmt: skip


# the -D options that a rung is compiled with by default
DEFAULT = {"NHWC": 0, "ACCUMULATE": 0, **geometry_defines((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))}


def channel_threads(where: str, c: int, each: int, itemsize: int, most: int = 32) -> tuple[int, int]:
    """(threads of a block along the channels, number of such groups that cover all C channels).

    NCHW: (1, C), as neighbouring threads lie along rows. NHWC, with `each` channels per thread: as many threads as read
    one line of 128 bytes, or half as many if that leaves fewer idle; a power of two, at most `most`.
    """
    if where == "NCHW":
        return 1, c
    threads = c // each
    side = 1 << (min(most, LINE // (each * itemsize), 1 << (threads - 1).bit_length()).bit_length() - 1)
    half = max(1, side // 2)
    if checks.blocks(threads, half) * half < checks.blocks(threads, side) * side:
        side = half
    return side, checks.blocks(threads, side)
