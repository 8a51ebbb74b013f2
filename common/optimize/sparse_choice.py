"""Where sparse kernels pay: the fastest implementation of each layer, and the gain for a network.

    gain = choose(records, "resnet-50", 1, "fp32")      records of the suite "sparse"; print(gain) states the gain
    Network(model, layout="NHWC", operators=operators(gain.schemes))

Only separate convolutions are compared: a network with fused blocks (common.optimize.blocks) does not write the
activations whose zeros a kernel could skip. The schemes of sparse.py that skip nothing (sparse.DENSE) count as dense
implementations, so that any gain comes from skipped zeros.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import kernels
from ..cuda import layout as layouts
from . import sparse
from .sparse import PREFIX, skips
from .sparse_layers import convolutions


@dataclass(frozen=True)
class Choice:
    """One shape: how many layers have it, the fastest implementation without skipping, and the fastest of all."""

    shape: str
    count: int
    dense: str
    dense_us: float
    best: str
    best_us: float


@dataclass(frozen=True)
class Gain:
    """The total time of a network's convolutions, without sparse kernels and with them where they are faster.

    missing: shapes without records; they are in neither total.
    """

    network: str
    choices: tuple[Choice, ...]
    missing: tuple[str, ...] = ()

    @property
    def dense_us(self) -> float:
        """Total µs without sparse kernels."""
        return sum(one.count * one.dense_us for one in self.choices)

    @property
    def best_us(self) -> float:
        """Total µs with the fastest implementation of each shape."""
        return sum(one.count * one.best_us for one in self.choices)

    @property
    def schemes(self) -> dict[str, str]:
        """Shape → scheme, for the shapes where a sparse kernel is the fastest."""
        chosen = [one for one in self.choices if skips(one.best)]
        return {one.shape: one.best.removeprefix(PREFIX) for one in chosen}

    def __str__(self) -> str:
        of, layers = sum(one.count for one in self.choices), sum(1 for _ in self.choices)
        if not of:
            return f"{self.network}: nothing was measured"
        wins = sum(one.count for one in self.choices if skips(one.best))
        left = f"; {len(self.missing)} shapes were not measured" if self.missing else ""
        if not wins:
            return f"{self.network}: no gain, no sparse kernel is the fastest of any of {layers} shapes{left}"
        share = 1 - self.best_us / self.dense_us
        return (
            f"{self.network}: {self.dense_us:,.1f} µs without sparse kernels, {self.best_us:,.1f} µs with them in"
            f" {wins} of {of} convolutions: {share:.1%} less{left}"
        )


def choose(records: Iterable[Mapping[str, Any]], network: str, batch: int, precision: str) -> Gain:
    """The fastest implementation of each of a network's convolutions, at the sparsity that was recorded for each.

    A sparse kernel is chosen only if its 95th percentile is below the 5th percentile of the fastest dense one.
    """
    times: dict[str, dict[str, float]] = {}
    ranges: dict[tuple[str, str], tuple[float, float]] = {}
    for r in records:
        if (r.get("kind"), r["batch"], r["precision"]) == ("given", batch, precision) and "median_us" in r:
            times.setdefault(r["shape"], {})[r["implementation"]] = r["median_us"]
            ranges[r["shape"], r["implementation"]] = r["p5_us"], r["p95_us"]
    counts: dict[str, int] = {}
    for one in convolutions(network, batch):
        counts[str(one.shape)] = counts.get(str(one.shape), 0) + 1
    choices, missing = [], []
    for shape, count in counts.items():
        found = times.get(shape, {})
        dense = {name: us for name, us in found.items() if not skips(name)}
        if not dense:
            missing.append(shape)
            continue
        first, best = min(dense, key=lambda n: dense[n]), min(found, key=lambda n: found[n])
        if skips(best) and ranges[shape, best][1] >= ranges[shape, first][0]:
            best = first
        choices.append(Choice(shape, count, first, found[first], best, found[best]))
    return Gain(network, tuple(choices), tuple(missing))


def operators(schemes: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Functions for Network(operators=…, layout="NHWC"): sparse kernels for these shapes, else common.kernels.

    schemes: shape → scheme, as Gain.schemes. Weights are packed at their first use.
    """
    packed: dict[int, tuple[Any, Any]] = {}  # id(weight) → (weight, packed); holding the weight keeps its id unique

    def conv2d(
        x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        **named: Any,
    ) -> Any:  # fmt: skip
        from ..cuda import checks

        s, pads, d, made = checks.convolution(x.shape, weight.shape, stride, padding, dilation, groups)
        n, c, h, w = x.shape
        shape = sparse.Shape(n, c, h, w, made[1], tuple(weight.shape[2:]), s, pads, groups)
        scheme = schemes.get(str(shape)) if d == (1, 1) and layouts.has(x, "NHWC") else None
        if scheme is None:
            return kernels.conv2d(x, weight, bias, stride, padding, dilation, groups, **named)
        if id(weight) not in packed and sparse.kind_of(shape, scheme) != "tiles":
            packed[id(weight)] = weight, sparse.pack(weight, groups)
        rows = packed[id(weight)][1] if id(weight) in packed else None
        return sparse.conv2d(x, weight, bias, stride, padding, groups, scheme=scheme, packed=rows, **named)

    def pointwise(x: Any, weight: Any, bias: Any = None, **named: Any) -> Any:
        return conv2d(x, weight, bias, **named)

    return {"conv2d": conv2d, "pointwise": pointwise}
