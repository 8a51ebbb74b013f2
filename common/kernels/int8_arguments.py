"""Checks of the int8 operators' arguments, and their values as the kernels take them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cuda import checks
from . import vectors
from .int8 import DEPTH, HIGH, LOW
from .one_sum import one_sum

DTYPE = ("int8",)
INT8 = (np.dtype(np.int8),)
INT32 = (np.dtype(np.int32),)
FLOAT32 = (np.dtype(np.float32),)


def nhwc(name: str, value: Any, shape: tuple) -> Any:
    """`value`, an int8 array (N, C, H, W) in NHWC. shape and errors as of checks.array."""
    return checks.array(name, value, shape, allowed=("NHWC",), dtypes=INT8)


def output(out: Any, shape: tuple[int, ...], like: Any) -> Any:
    """`out`, checked, or a new int8 array of this shape in NHWC. Errors as of checks.array."""
    if out is None:
        return checks.output(None, shape, like=like, layout="NHWC")
    return nhwc("out", out, shape)


def int8_number(name: str, value: Any) -> int:
    """`value` as an int. ValueError unless it is an integer from −128 to 127."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not LOW <= value <= HIGH:
        raise ValueError(f"{name} must be an integer from {LOW} to {HIGH}, got {value!r}")
    return int(value)


def clamp(value: Any) -> tuple[int, int]:
    """`bounds` as (low, high). ValueError unless they are two integers of int8 in order."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"bounds must be a pair (low, high) of integers from {LOW} to {HIGH}, got {value!r}")
    low, high = (int8_number("bounds", bound) for bound in value)
    if low > high:
        raise ValueError(f"bounds must be a pair (low, high) in order, got {value!r}")
    return low, high


def numbers(name: str, value: Any, count: int) -> tuple[np.float32, ...]:
    """`value` as `count` float32. ValueError unless they are so many finite numbers."""
    right = isinstance(value, (tuple, list)) and len(value) == count
    if not right or not all(isinstance(v, (int, float, np.number)) and math.isfinite(v) for v in value):
        raise ValueError(f"{name} must be {count} finite numbers, got {value!r}")
    return tuple(map(np.float32, value))


def scale(name: str, value: Any) -> np.float32:
    """`value` as a float32. ValueError unless it is a finite number above 0."""
    right = isinstance(value, (int, float, np.number)) and math.isfinite(value) and np.float32(value) > 0
    if not right or not np.isfinite(np.float32(value)):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return np.float32(value)


def offset(name: str, value: Any) -> int:
    """`value`, 0 or 128: how much lower the arrays are than the numbers in a model's file. ValueError for another."""
    if value not in (0, 128):
        raise ValueError(f"{name} must be 0, or 128 for a model in uint8, got {value!r}")
    return int(value)


def small_switch(small: bool, bounds: tuple[int, int], adds: bool) -> int:
    """SMALL of requantize.h, 0 to 3. small: int8.small_sums; adds: a residual is added, and bounds are of its sum."""
    full = tuple(bounds) == (LOW, HIGH)
    if small and (full or adds):
        return 2 if full and adds else 1
    return 3 if full else 0


def depth(products: int) -> None:
    """ValueError unless so many products per sum cannot overflow an int32; see int8.DEPTH."""
    if products > DEPTH:
        raise ValueError(f"weight must have at most {DEPTH} weights per output, got {products}")


@dataclass
class Epilogue:
    """What happens to the sums of a product, checked. channels: of the output; products: per sum; shape: of the output.

    TypeError and ValueError, at its construction, name the argument that does not fit.
    """

    channels: int
    products: int
    bias: Any
    multiplier: Any
    zero_point: int
    bounds: tuple[int, int]
    shape: tuple[int, ...]
    residual: Any
    residual_scales: Any
    residual_offset: int = 0
    residual_first: bool = False
    one_step: Any = None

    def __post_init__(self) -> None:
        depth(self.products)
        if self.bias is not None:
            checks.array("bias", self.bias, (self.channels,), dtypes=INT32)
        checks.array("multiplier", self.multiplier, (self.channels,), dtypes=FLOAT32)
        if self.one_step is not None:
            checks.array("one_step", self.one_step, (3, self.channels), dtypes=INT32)
        self.zero_point = int8_number("zero_point", self.zero_point)
        self.bounds = clamp(self.bounds)
        self.residual_offset = offset("residual_offset", self.residual_offset)
        if self.residual is None:
            self.residual_scales = (np.float32(0),) * 3
        else:
            nhwc("residual", self.residual, self.shape)
            self.residual_scales = numbers("residual_scales", self.residual_scales, 3)

    @property
    def numbers(self) -> tuple[Any, ...]:
        """zero_point, low, high, scale_a, scale_b, shift, offset: the kernels' last arguments."""
        return self.zero_point, *self.bounds, *self.residual_scales, self.residual_offset

    def ends_as(self, small: int) -> tuple[dict[str, int], tuple[Any, ...]]:
        """(switches, numbers) for a kernel that adds residuals with add_four: if `small`, of requantize.h, is 2 or 3.

        It takes two fma for a sum where one_sum finds them.
        """
        adds = self.residual is not None and small >= 2
        made = one_sum(self.residual_scales, self.residual_offset, self.residual_first) if adds else None
        if made is None:
            return self.switches, self.numbers
        return {"ONE_SUM": 1 if made.of_residual else 2}, (self.zero_point, *self.bounds, *made.numbers)

    @property
    def in_one_step(self) -> bool:
        """Whether a kernel that can may requantize by one_step: it clamps to all codes, before a residual is added."""
        return self.one_step is not None and (self.residual is not None or self.bounds == (LOW, HIGH))

    def constants(self, in_one_step: bool) -> tuple[Any, Any]:
        """(bias, multiplier) as the kernels take them; in_one_step: of one_step, offsets behind the multipliers."""
        return (self.one_step[0], self.one_step[1:].view(np.float32)) if in_one_step else (self.bias, self.multiplier)

    @property
    def switches(self) -> dict[str, int]:
        """The -D numbers of epilogue_int8.h that differ from the default."""
        return {"RESIDUAL_FIRST": 1} if self.residual_first else {}

    def piece(self, out: Any, channels: int) -> int:
        """Bytes of an output row, 1 to 16, that a kernel may store or load at once: rows and parameters are aligned."""
        parameters = [array for array in (self.bias, self.multiplier) if array is not None]
        if any(vectors.address(array) % vectors.WIDEST for array in parameters):
            return 1
        rows = [vectors.address(array) for array in (self.residual, out) if array is not None]
        return math.gcd(vectors.WIDEST, channels, *rows)
