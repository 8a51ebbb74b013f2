"""Ranges: which interval of a tensor's numbers its codes cover, chosen from a histogram of the numbers.

A wide range represents the largest numbers and rounds all others coarsely; a narrow one saturates the largest and
rounds the others finely. Each function of METHODS takes a Histogram and returns (low, high) with low ≤ 0 ≤ high, since
0.0, the padding's number, must be a code.

    minmax      everything that calibration saw
    percentile  all but the outermost numbers, 0.01 % on each side
    entropy     the least Kullback–Leibler divergence between the numbers and their quantized form (S. Migacz, "8-bit
                Inference with TensorRT", GTC 2017), with at most 1 % of them saturated
    mse         the least mean squared error of rounding and saturation together
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..topology import Grid
from ..topology.grids import RANGES

Range = tuple[float, float]

BINS = 2048
STEPS = 255  # between the lowest and the highest of 256 codes
OUTSIDE = 1e-4  # the share of numbers on each side that "percentile" saturates
SATURATED = 0.01  # the largest share of the numbers that "entropy" saturates
SHARES = np.linspace(1.0, 0.02, 99)  # of the largest number: the ends that "entropy" and "mse" try, the widest first


@dataclass
class Histogram:
    """Counts of a tensor's numbers in BINS bins of equal width from `low` to `high`, the least and the greatest."""

    low: float
    high: float
    counts: NDArray[np.float64]

    @classmethod
    def over(cls, low: float, high: float) -> "Histogram":
        """An empty histogram from `low` to `high`."""
        return cls(low, high, np.zeros(BINS))

    def add(self, values: np.ndarray) -> None:
        """Count an array's numbers."""
        if self.high > self.low:
            self.counts += np.histogram(values, BINS, (self.low, self.high))[0]

    @property
    def centres(self) -> np.ndarray:
        """The middle of each bin."""
        width = (self.high - self.low) / BINS
        return self.low + width * (np.arange(BINS) + 0.5)


def minmax(histogram: Histogram) -> Range:
    """(least, greatest)."""
    return min(histogram.low, 0.0), max(histogram.high, 0.0)


def percentile(histogram: Histogram) -> Range:
    """The range without the OUTSIDE share of the numbers on each side."""
    total = histogram.counts.sum()
    if not total:
        return minmax(histogram)
    below = np.cumsum(histogram.counts) / total
    first, last = (int(np.searchsorted(below, share)) for share in (OUTSIDE, 1 - OUTSIDE))
    centres = histogram.centres
    return min(float(centres[first]), 0.0), max(float(centres[min(last, BINS - 1)]), 0.0)


def squared_error(histogram: Histogram, low: float, high: float) -> float:
    """Σ (x − quantized x)² over the histogram's numbers, taken to be in the middles of their bins."""
    x, step = histogram.centres, (high - low) / STEPS
    rounded = low + np.rint((np.clip(x, low, high) - low) / step) * step
    return float((histogram.counts * (x - rounded) ** 2).sum())


def divergence(histogram: Histogram, low: float, high: float) -> float:
    """Σ p·log(p / q): p the numbers saturated to the range, q the same after each code's numbers are spread evenly.

    Numbers in the bin of 0.0 are left out: a ReLU makes many, and every range represents them exactly. The divergence
    of few, often repeated numbers (a plain background) prefers ranges that saturate most others, so it is infinite for
    a range that saturates more than the share SATURATED.
    """
    centres, step = histogram.centres, (high - low) / STEPS
    counts = histogram.counts.copy()
    counts[np.abs(centres).argmin()] = 0
    inside = (centres >= low) & (centres <= high)
    within, below, above = counts[inside], counts[centres < low].sum(), counts[centres > high].sum()
    if below + above > SATURATED * counts.sum() or not within.sum():
        return np.inf
    code = np.rint((centres[inside] - low) / step).astype(int)
    used = within > 0
    each = np.bincount(code, within, STEPS + 1) / np.maximum(np.bincount(code, used, STEPS + 1), 1)
    p, q = within.copy(), np.where(used, each[code], 0.0)
    p[0] += below
    p[-1] += above
    p, q = p / p.sum(), np.maximum(q / q.sum(), 1e-12)
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())


def searched(cost: Callable[[Histogram, float, float], float]) -> Callable[[Histogram], Range]:
    """The method that minimizes a cost(histogram, low, high): first over the upper end, then over the lower end."""

    def method(histogram: Histogram) -> Range:
        low, high = minmax(histogram)
        if high > 0:
            high = min((high * share for share in SHARES), key=lambda end: cost(histogram, low, end))
        if low < 0:
            low = min((low * share for share in SHARES), key=lambda end: cost(histogram, end, high))
        return float(low), float(high)

    return method


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "minmax": minmax,
    "percentile": percentile,
    "entropy": searched(divergence),
    "mse": searched(squared_error),
}


def grid_over(low: float, high: float, dtype: str = "uint8") -> Grid:
    """The grid with 256 codes over a range that contains 0; its ends move by up to half a step, to make 0 a code."""
    scale = np.float32((high - low) / STEPS)
    if not scale > 0:
        scale = np.float32(1.0)  # a tensor of zeros
    least, greatest = RANGES[dtype]
    return Grid.of(float(scale), int(np.clip(np.rint(least - low / scale), least, greatest)), dtype)
