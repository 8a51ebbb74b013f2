"""How an operator's float32 products are computed: the argument `arithmetic` of gemm, pointwise and conv2d.

pointwise(x, w, arithmetic="fma")                   without tensor cores
pointwise(x, w, arithmetic="tf32x3")                three products of TF32 numbers, include/tf32x3.h
pointwise(x, w, arithmetic=Halves.of(w, bound=6))   three products of halves, include/pair_of_halves.h, where |x| ≤ 6
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import cuda
from ..cuda.arrays import are_shapes_only
from .pair_of_halves import scale_of, split

PRODUCTS = ("fma", "tf32x3", "halves")
GROUP = 16  # numbers of a row that are stored together: those of an mma
SLICE = 32  # and of the six wgmma of a sum


@dataclass(frozen=True, eq=False)
class Halves:
    """The scales of a product's factors, and the weights as pairs of halves.

    weight             (O, C) or (O, C, 1, 1) float32, of the backend; unchanged as long as this is in use
    x_scale, w_scale   powers of two for the other factor and for the weights, see include/pair_of_halves.h
    """

    weight: Any
    x_scale: float
    w_scale: float

    @classmethod
    def of(cls, weight: Any, bound: float) -> "Halves":
        """For weights of an array of the backend, and another factor whose magnitudes are at most `bound`.

        ValueError for a bound that is no magnitude, see pair_of_halves.scale_of; TypeError for other weights.
        """
        if getattr(weight, "dtype", None) != np.float32:
            raise TypeError(f"weight must be a float32 array, got {getattr(weight, 'dtype', type(weight).__name__)}")
        largest = float(np.abs(cuda.asnumpy(weight)).max(initial=0))
        return cls(weight, scale_of(bound), scale_of(largest))

    @property
    def words(self) -> Any:
        """What the rungs of pointwise read in place of the weights, as float32: (O · C' + 4,), C' = C up to a multiple
        of GROUP.

        Each GROUP numbers of a row are 64 bytes as include/pair_of_halves.h describes them; behind the last row are
        x_scale and 1 / (x_scale · w_scale).
        """
        if are_shapes_only():
            groups = -(-self.weight[0].size // GROUP)
            return cuda.empty((len(self.weight) * GROUP * groups + 4,), np.float32)  # of a plan: not to be kept
        return self._words

    @cached_property
    def _words(self) -> Any:
        return cuda.asarray(packed(cuda.asnumpy(self.weight).reshape(len(self.weight), -1), self.x_scale, self.w_scale))

    @property
    def rows(self) -> Any:
        """What a wgmma reads in place of the weights, (O, 2·C') float16, C' = C up to a multiple of SLICE.

        Each SLICE numbers of a row are as many high halves and then the low ones, in the order of
        include/wgmma_halves.h.
        """
        if are_shapes_only():
            slices = -(-self.weight[0].size // SLICE)
            return cuda.empty((len(self.weight), 2 * SLICE * slices), np.float16)  # of a plan: not to be kept
        return self._rows

    @cached_property
    def _rows(self) -> Any:
        weight = cuda.asnumpy(self.weight).reshape(len(self.weight), -1)
        whole = np.pad(weight, ((0, 0), (0, -weight.shape[1] % SLICE)))
        parts = np.stack(split(whole, self.w_scale)).reshape(2, len(weight), -1, 4, 2, 2, 2)  # … slice, t, step, j, e
        ordered = parts.transpose(1, 2, 0, 4, 5, 3, 6)  # o, slice, high or low, step, j, t, e
        return cuda.asarray(np.ascontiguousarray(ordered).reshape(len(weight), -1))


def packed(weight: np.ndarray, x_scale: float, w_scale: float) -> np.ndarray:
    """Halves.words of weights (O, C), on the host."""
    outs, channels = weight.shape
    whole = np.pad(weight, ((0, 0), (0, -channels % GROUP)))
    parts = np.stack(split(whole, w_scale)).reshape(2, outs, -1, 2, 2, 4)  # high or low, o, group, piece, of a pair, t
    words = np.ascontiguousarray(parts.transpose(1, 2, 0, 3, 5, 4)).view(np.float32).ravel()
    return np.concatenate([words, np.array([x_scale, 1 / (x_scale * w_scale), 0, 0], np.float32)])


def checked(arithmetic: Any, x: Any, weight: Any) -> str | None:
    """The name, of PRODUCTS, of an operator's argument `arithmetic`; None for None.

    x, weight: the operator's arrays. ValueError for an unknown name, for arrays of another dtype than float32, and for
    Halves of weights of another shape.
    """
    if arithmetic is None:
        return None
    name = "halves" if isinstance(arithmetic, Halves) else arithmetic
    if name not in (PRODUCTS if isinstance(arithmetic, Halves) else PRODUCTS[:2]):
        raise ValueError(f'arithmetic must be "fma", "tf32x3", Halves of the weights or None, got {arithmetic!r}')
    if x.dtype != np.float32:
        raise ValueError(f"arithmetic must be None for {x.dtype} arrays, got {name!r}")
    if isinstance(arithmetic, Halves) and arithmetic.weight.size != weight.size:
        raise ValueError(f"arithmetic must be Halves of weights {weight.shape}, got {arithmetic.weight.shape}")
    return name
