"""The suite "two-of-four": 1×1 convolutions whose weights have two zeros in four, which tensor cores can skip.

As matrix products in fp16, weight (O, C) times x (C, pixels), by PyTorch: with dense weights, and with the same pruned
weights as its semi-structured tensors, whose kernels are NVIDIA's cuSPARSELt or CUTLASS. Both are timed in turn, each
in a CUDA graph; every result is compared with float64. Zeros of weights are known beforehand, those of activations are
not: this is the sparsity that the hardware was made for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from ..cuda.graphs import gpu, on_stream
from ..measure import timing
from ..measure.roofline import ARITHMETIC, Work
from ..network.compare import relative_error
from ..optimize.sparse import Shape
from ..optimize.sparse_layers import NETWORKS, distinct
from ..report.results import record
from . import driver
from .driver import Measured

SAMPLES = 15
ALLOWED = 2e-3  # relative error of fp16 products with sums in fp32
MULTIPLE = 32  # PyTorch's semi-structured halves: rows and columns of the weight; pixels are a multiple of 8


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """networks: whose 1×1 convolutions."""

    networks: tuple[str, ...] = ()

    CHOICES: ClassVar = {
        "networks": (NETWORKS, ("mobilenetv2", "resnet-50")), "batches": (None, (1, 32, 256)),
        "precisions": (("fp16",), ("fp16",)),
    }  # fmt: skip


def pruned(weight: np.ndarray) -> np.ndarray:
    """The weight with the two smallest of every four neighbours of a row set to zero. ValueError if C is no 4-fold."""
    if weight.shape[1] % 4:
        raise ValueError(f"weight must have a multiple of 4 columns, got {weight.shape[1]}")
    fours = weight.reshape(weight.shape[0], -1, 4)
    kept = np.zeros(fours.shape, bool)
    largest = np.argsort(-np.abs(fours), axis=-1, kind="stable")[..., :2]
    np.put_along_axis(kept, largest, True, axis=-1)
    return np.where(kept, fours, 0).reshape(weight.shape).astype(weight.dtype)


def products(options: Options, batch: int) -> list[Shape]:
    """The distinct dense 1×1 convolutions of stride 1 with channels that semi-structured tensors take."""
    return [
        one.shape
        for one in distinct(options.networks, batch)
        if one.shape.kernel == (1, 1) and one.shape.stride == (1, 1) and one.shape.groups == 1
        and one.shape.channels % MULTIPLE == 0 and one.shape.outputs % MULTIPLE == 0
    ]  # fmt: skip


def measure(shape: Shape, options: Options, console: Console) -> Measured:
    """(records of the dense and of the two-of-four product, whether both are right)"""
    import torch
    from torch.sparse import to_sparse_semi_structured

    random = np.random.default_rng(0)
    pixels = shape.batch * shape.height * shape.width
    pixels += -pixels % 8
    weight = pruned(random.standard_normal((shape.outputs, shape.channels)).astype(np.float16))
    x = random.standard_normal((shape.channels, pixels)).astype(np.float16)
    want = weight.astype(np.float64) @ x[:, :4096].astype(np.float64)
    dense, there = (torch.from_numpy(array).cuda() for array in (weight, x))
    of = {"torch-dense": dense, "torch-two-of-four": to_sparse_semi_structured(dense)}
    launches = {name: lambda w=w: torch.mm(w, there) for name, w in of.items()}
    errors = {name: relative_error(run()[:, :4096].float().cpu().numpy(), want) for name, run in launches.items()}
    if wrong := [f"{name} by {error:.1e}" for name, error in errors.items() if not error <= ALLOWED]:
        console.print(f"{shape}, batch {shape.batch}: [red]wrong[/]: {', '.join(wrong)}", soft_wrap=True)
        return [], False
    timed = timing.compare(launches, samples=options.samples or SAMPLES)
    console.print(f"{shape}, batch {shape.batch}: " + ", ".join(f"{n} {timed[n].median_us:.2f} µs" for n in launches))
    moved = 2 * (pixels * (shape.channels + shape.outputs) + shape.outputs * shape.channels)
    return [
        record(
            "two-of-four", str(shape), name, precision="fp16", arithmetic=ARITHMETIC["fp16"], batch=shape.batch,
            timing=timed[name], work=Work(moved, 2 * shape.macs), error=errors[name], shape=str(shape),
        )
        for name in launches
    ], True  # fmt: skip


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether right) per shape and batch. NoGpu on the simulator."""
    gpu()
    with on_stream():
        for batch in options.batches:
            for shape in products(options, batch):
                yield measure(shape, options, console)


def ratios(records: Any) -> dict[tuple[str, int], float]:
    """By (shape, batch), the time of the dense product over that of the two-of-four one."""
    us = {(r["shape"], r["batch"], r["implementation"]): r["median_us"] for r in records}
    keys = dict.fromkeys((shape, batch) for shape, batch, _ in us)
    return {
        (shape, batch): us[shape, batch, "torch-dense"] / us[shape, batch, "torch-two-of-four"]
        for shape, batch in keys
        if {(shape, batch, name) for name in ("torch-dense", "torch-two-of-four")} <= us.keys()
    }


bench = driver.suite("two-of-four", run)
