"""Rooflines: bytes and FLOPs of an operator from its shape, and the time for them at a card's measured rates.

    work = conv2d_work((1, 32, 112, 112), (16, 32, 1, 1))
    peaks = Peaks.recorded(results.load("NVIDIA H200"))
    roof_us(work, "fp32", peaks), bound(work, "fp32", peaks), share(work, "fp32", peaks, measured_us)

Bytes: every input read once and every output written once. FLOPs: two per multiply-add (S. Williams, A. Waterman,
D. Patterson, "Roofline", 2009). The peaks are measured on the card (bench/peaks.py), not taken from a data sheet.

The roof is at copy bandwidth, from DRAM. A kernel can be faster than this: its data may be in the L2 cache, or it reads
more than it writes, and reads are faster than copies. l2_us is the time at the L2 cache's bandwidth.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..cuda import checks


@dataclass(frozen=True)
class Work:
    """The least memory traffic, in bytes, and the arithmetic, in floating-point operations, of a computation."""

    bytes: int
    flops: int

    def __add__(self, other: "Work") -> "Work":
        return Work(self.bytes + other.bytes, self.flops + other.flops)

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOPs per byte."""
        return self.flops / self.bytes


# ---- Work from shapes


def _shape(name: str, shape: Sequence[int], dimensions: int | None = None) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in shape)
    if (dimensions is not None and len(sizes) != dimensions) or not sizes or min(sizes) < 1:
        wanted = f"{dimensions} positive sizes" if dimensions else "positive sizes"
        raise ValueError(f"{name} must be {wanted}, got {tuple(shape)}")
    return sizes


def conv2d_work(
    x_shape: Sequence[int],
    weight_shape: Sequence[int],
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    itemsize: int = 4,
    bias: bool = True,
    residual: bool = False,
) -> Work:
    """Work of a convolution fused with bias, residual and activation; x (N, C, H, W), weight (O, C/groups, kH, kW).

    bytes = itemsize · (N·C·H·W + O·(C/groups)·kH·kW + O [bias] + N·O·oH·oW [residual] + N·O·oH·oW)
    FLOPs = 2 · N·O·oH·oW · (C/groups)·kH·kW; the additions of bias and residual are not counted.
    stride, padding, dilation as for kernels.conv2d. ValueError for shapes that do not fit.
    """
    n, c, h, w = _shape("x_shape", x_shape, 4)
    o, per_group, kh, kw = _shape("weight_shape", weight_shape, 4)
    if c % per_group or o % (c // per_group):
        raise ValueError(
            f"weight_shape must be (multiple of groups, {c} channels of x / groups, kH, kW), got {tuple(weight_shape)}"
        )
    shapes = (n, c, h, w), (o, per_group, kh, kw)
    out = math.prod(checks.convolution(*shapes, stride, padding, dilation, c // per_group)[-1])
    elements = n * c * h * w + o * per_group * kh * kw + (o if bias else 0) + (out if residual else 0) + out
    return Work(itemsize * elements, 2 * out * per_group * kh * kw)


def gemm_work(m: int, n: int, k: int, itemsize: int = 4, bias: bool = False) -> Work:
    """Work of C (m, n) = A (m, k) · B (k, n) + bias (n).

    bytes = itemsize · (m·k + k·n + n [bias] + m·n), FLOPs = 2·m·n·k.
    """
    m, n, k = _shape("m, n, k", (m, n, k))
    return Work(itemsize * (m * k + k * n + (n if bias else 0) + m * n), 2 * m * n * k)


def pool_work(x_shape: Sequence[int], itemsize: int = 4) -> Work:
    """Work of global average pooling: bytes = itemsize · (N·C·H·W + N·C), FLOPs = N·C·H·W, one addition per element."""
    n, c, h, w = _shape("x_shape", x_shape, 4)
    return Work(itemsize * (n * c * h * w + n * c), n * c * h * w)


def add_work(shape: Sequence[int], itemsize: int = 4) -> Work:
    """Work of out = a + b: bytes = 3 · itemsize · elements, FLOPs = elements."""
    elements = math.prod(_shape("shape", shape))
    return Work(3 * itemsize * elements, elements)


# ---- The card


class Recorded(Protocol):
    """Interface of common.report.results.Results, the records of a card, as far as it is used here."""

    def suite(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The records of a suite; empty if there are none."""


@dataclass(frozen=True)
class Peaks:
    """Measured peaks of a card: bandwidths in B/s (a copy's bytes are read + written), FLOP/s by kind of arithmetic.

    read_bytes_per_s: reading DRAM. l2_copy_bytes_per_s, l2_read_bytes_per_s: arrays that stay in the L2 cache, of the
    size that is fastest. These three, tensor_int8 and tensor_fp8 are None where they were not measured.
    """

    copy_bytes_per_s: float
    fma_fp32: float
    tensor_tf32: float | None  # cards before sm_80 have none
    tensor_fp16: float | None  # a CPU has none
    read_bytes_per_s: float | None = None
    l2_copy_bytes_per_s: float | None = None
    l2_read_bytes_per_s: float | None = None
    tensor_int8: float | None = None
    tensor_fp8: float | None = None

    @classmethod
    def recorded(cls, recorded: Recorded) -> "Peaks":
        """The peaks in the records of the suite "peaks". ValueError if one is missing, other than that of tf32."""
        rates = {r["case"]: rate(r) for r in recorded.suite("peaks")}
        missing = [case for case in CASES if case not in rates and case != "tensor-tf32"]
        if missing:
            raise ValueError(f"the results hold no peak of {', '.join(missing)}")
        l2_copy, l2_read = (
            max((v for case, v in rates.items() if case.startswith(f"{name}-")), default=None) for name in L2
        )
        return cls(
            rates["copy"], rates["fma-fp32"], rates.get("tensor-tf32"), rates["tensor-fp16"], rates.get("read"),
            l2_copy, l2_read, rates.get("tensor-int8"), rates.get("tensor-fp8"),
        )  # fmt: skip

    def flops_per_s(self, precision: str) -> float:
        """The arithmetic roof of a precision in FLOP/s: FMA units for fp32, tensor cores for all others.

        3xtf32 and 3xfp16 compute one product of fp32's accuracy from three tf32 or fp16 products. ValueError for an
        unknown precision, or where the card has no such tensor cores.
        """
        on_tensor_cores = {"tf32": self.tensor_tf32, "fp16": self.tensor_fp16}
        thrice = {f"3x{name}": None if rate is None else rate / 3 for name, rate in on_tensor_cores.items()}
        roofs = {"fp32": self.fma_fp32, **on_tensor_cores, **thrice, "int8": self.tensor_int8, "fp8": self.tensor_fp8}
        if precision not in roofs:
            raise ValueError(f"precision must be one of {', '.join(roofs)}, got {precision!r}")
        roof = roofs[precision]
        if roof is None:
            raise ValueError(f"no peak was measured for {precision}: this card has no tensor cores for it")
        return roof


ARITHMETIC = {  # the key "arithmetic" of records, by the precision whose roof applies
    "fp32": "fp32",
    "tf32": "tensor-core tf32, fp32 accumulate",
    "3xtf32": "tensor-core tf32 three times, fp32 accumulate",
    "3xfp16": "tensor-core fp16 three times, fp32 accumulate",
    "fp16": "tensor-core fp16, fp32 accumulate",
    "int8": "tensor-core int8, int32 accumulate",
    "fp8": "tensor-core fp8 (e4m3), fp32 accumulate",
}
FP16_ON_FMA = "fp16 storage, fp32 arithmetic"
INT8_ON_ALUS = "int8, int32 arithmetic"


def roof_of(arithmetic: str) -> str:
    """The precision, for Peaks.flops_per_s, whose roof applies to a record's "arithmetic". ValueError if unknown."""
    roofs = {words: roof for roof, words in ARITHMETIC.items()} | {FP16_ON_FMA: "fp32", INT8_ON_ALUS: "int8"}
    if arithmetic not in roofs:
        raise ValueError(f"arithmetic must be one of {'; '.join(roofs)}, got {arithmetic!r}")
    return roofs[arithmetic]


CASES = ("copy", "fma-fp32", "tensor-tf32", "tensor-fp16")  # of the suite "peaks", that Peaks needs
L2 = ("l2-copy", "l2-read")  # of the same suite, one record per size: "l2-copy-8MB"


def rate(record: Mapping[str, Any]) -> float:
    """The rate that a record of the suite "peaks" measured: B/s for copies and reads (no FLOPs), FLOP/s for others."""
    return (record["flops"] or record["bytes"]) / record["median_us"] * 1e6


def memory_us(work: Work, peaks: Peaks) -> float:
    """The µs for the bytes at the bandwidth of a copy from DRAM to DRAM."""
    return work.bytes / peaks.copy_bytes_per_s * 1e6


def l2_us(work: Work, peaks: Peaks) -> float:
    """The µs for the bytes at the bandwidth of a copy within the L2 cache. ValueError if it was not measured."""
    if peaks.l2_copy_bytes_per_s is None:
        raise ValueError("the results hold no bandwidth of the L2 cache")
    return work.bytes / peaks.l2_copy_bytes_per_s * 1e6


def arithmetic_us(work: Work, precision: str, peaks: Peaks) -> float:
    """The µs for the FLOPs at the precision's peak."""
    return work.flops / peaks.flops_per_s(precision) * 1e6


def roof_us(work: Work, precision: str, peaks: Peaks) -> float:
    """The roof at copy bandwidth, from DRAM, as a time in µs: the longer of memory_us and arithmetic_us."""
    return max(memory_us(work, peaks), arithmetic_us(work, precision, peaks))


floor_us = roof_us  # its name in the notebooks of chapters 04 to 06


def bound(work: Work, precision: str, peaks: Peaks) -> str:
    """Which of the two takes longer: "memory" or "arithmetic"."""
    return "memory" if memory_us(work, peaks) >= arithmetic_us(work, precision, peaks) else "arithmetic"


def share(work: Work, precision: str, peaks: Peaks, measured_us: float) -> float:
    """The share of the roof reached, roof_us / measured_us. Above 1 if L2 served bytes, or reads outnumber writes."""
    if not measured_us > 0:
        raise ValueError(f"measured_us must be above 0, got {measured_us}")
    return roof_us(work, precision, peaks) / measured_us
