"""Grids: the real numbers that stored integers stand for, (code − zero_point) · scale."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}  # the codes of each type


@dataclass(frozen=True)
class Grid:
    """The numbers (code − zero_point) · scale for the codes of an integer type.

    scale        float32 numbers above 0: one, or one per index of dimension 0 of the array
    zero_point   as many codes, which stand for 0.0
    dtype        "int8", "uint8" or "int32" (biases)

    ValueError for another type, a scale that is not a positive finite number, a zero point that is no code, or another
    number of zero points than of scales.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        if self.dtype not in RANGES:
            raise ValueError(f"codes must be {', '.join(RANGES)}, got {self.dtype}")
        if not self.scale or len(self.scale) != len(self.zero_point):
            raise ValueError(f"it has {len(self.scale)} scales and {len(self.zero_point)} zero points")
        for scale in self.scale:
            if not 0 < scale < math.inf:
                raise ValueError(f"a scale must be a positive finite number, got {scale:g}")
        for zero_point in self.zero_point:
            if not self.low <= zero_point <= self.high:
                raise ValueError(f"a zero point of {self.dtype} must be {self.low} to {self.high}, got {zero_point}")

    @classmethod
    def of(cls, scale: "np.ndarray | float", zero_point: "np.ndarray | int", dtype: str) -> "Grid":
        """The grid of a scale or a vector of scales, rounded to float32, and its zero point or points."""
        import numpy as np

        scales = np.asarray(scale, np.float32).reshape(-1)
        points = np.broadcast_to(np.asarray(zero_point).reshape(-1), scales.shape)
        return cls(tuple(map(float, scales)), tuple(map(int, points)), dtype)

    @property
    def low(self) -> int:
        """The smallest code."""
        return RANGES[self.dtype][0]

    @property
    def high(self) -> int:
        """The largest code."""
        return RANGES[self.dtype][1]

    @property
    def is_per_channel(self) -> bool:
        """Whether indices of dimension 0 have scales of their own."""
        return len(self.scale) > 1

    def codes(self, values: "np.ndarray") -> "np.ndarray":
        """clamp(round(values / scale) + zero_point), halves to even: the array's codes, as ONNX's QuantizeLinear.

        values: float32 of any shape; with several scales dimension 0 has as many indices. NaN becomes the lowest code.
        """
        import numpy as np

        scale, zero_point = self._along(values)
        wide = np.float64 if self.dtype == "int32" else np.float32  # a float32 has too few bits for a code of int32
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.rint(np.asarray(values, wide) / scale).astype(np.float64) + zero_point
        return np.fmin(np.fmax(steps, self.low), self.high).astype(self.dtype)

    def values(self, codes: "np.ndarray") -> "np.ndarray":
        """(codes − zero_point) · scale in float32, as ONNX's DequantizeLinear."""
        import numpy as np

        scale, zero_point = self._along(codes)
        return (codes.astype(np.int64) - zero_point).astype(np.float32) * scale

    def has(self, values: "np.ndarray") -> bool:
        """Whether each of the float32 numbers is exactly one of the grid's."""
        import numpy as np

        if self.is_per_channel and len(values) != len(self.scale):
            return False
        return np.array_equal(self.values(self.codes(values)), values)

    def _along(self, array: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
        """(scale float32, zero_point int64) in a shape that broadcasts along the array's dimension 0."""
        import numpy as np

        shape = (-1,) + (1,) * (array.ndim - 1) if self.is_per_channel else ()
        return np.array(self.scale, np.float32).reshape(shape), np.array(self.zero_point, np.int64).reshape(shape)

    def __str__(self) -> str:
        scales = f"{len(self.scale)} scales" if self.is_per_channel else f"{self.scale[0]:.4g}"
        points = sorted({*self.zero_point})
        return f"{self.dtype}, {scales}, zero point {points[0]}" + (f" to {points[-1]}" if len(points) > 1 else "")
