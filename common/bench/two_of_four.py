"""The suite "two-of-four": 1×1 convolutions whose weights have two zeros in four, which tensor cores can skip.

As matrix products in fp16, weight (O, C) times x (C, pixels), by PyTorch: with dense weights, and with the same pruned
weights as its semi-structured tensors, once with the kernels of cuSPARSELt and once with those of CUTLASS, as far as
this PyTorch has them. All are timed in turn, each in a CUDA graph; every result is compared with float64. Zeros of
weights are known beforehand, those of activations are not: this is the sparsity that the hardware was made for.
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
DENSE, LIBRARIES = "torch-dense", ("torch-two-of-four-cusparselt", "torch-two-of-four-cutlass")
WARM_UP_US = 5_000.0  # of each product
COLUMNS = 4096  # random columns of x, repeated to all pixels; as many of the result are compared
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


def sparse_weights(dense: Any, x: Any, console: Console) -> dict[str, Any]:
    """The pruned weight as a semi-structured tensor of each library of LIBRARIES that this PyTorch has.

    cuSPARSELt searches for its fastest algorithm for x.
    """
    import torch
    from torch.sparse import SparseSemiStructuredTensorCUSPARSELT as Cusparselt
    from torch.sparse import SparseSemiStructuredTensorCUTLASS as Cutlass

    found = {}
    for name, library in zip(LIBRARIES, (Cusparselt, Cutlass), strict=True):
        try:
            weight = library.from_dense(dense)
            if library is Cusparselt:
                weight.alg_id_cusparselt = torch._cslt_sparse_mm_search(weight.packed, x)
            torch.mm(weight, x)
            found[name] = weight
        except Exception as error:  # RuntimeError and NotImplementedError, by version and library
            console.print(f"{name} is left out: {str(error).splitlines()[0]}", markup=False, soft_wrap=True)
    return found


def measure(shape: Shape, options: Options, console: Console) -> Measured:
    """(records of the dense and of the two-of-four products, whether all are right)"""
    import torch

    random = np.random.default_rng(0)
    pixels = shape.batch * shape.height * shape.width
    pixels += -pixels % 8
    weight = pruned(random.standard_normal((shape.outputs, shape.channels)).astype(np.float16))
    few = random.standard_normal((shape.channels, min(pixels, COLUMNS))).astype(np.float16)
    want = weight.astype(np.float64) @ few.astype(np.float64)
    dense = torch.from_numpy(weight).cuda()
    x = torch.from_numpy(few).cuda().repeat(1, -(-pixels // COLUMNS))[:, :pixels].contiguous()
    of = {DENSE: dense, **sparse_weights(dense, x, console)}
    launches = {name: lambda w=w: torch.mm(w, x) for name, w in of.items()}
    errors = {name: relative_error(run()[:, :COLUMNS].float().cpu().numpy(), want) for name, run in launches.items()}
    if wrong := [f"{name} by {error:.1e}" for name, error in errors.items() if not error <= ALLOWED]:
        console.print(f"{shape}, batch {shape.batch}: [red]wrong[/]: {', '.join(wrong)}", soft_wrap=True)
        return [], False
    if len(of) == 1:
        return [], True
    timed = timing.compare(
        {name: timing.Benchmark(call, warm_up_us=WARM_UP_US) for name, call in launches.items()},
        samples=options.samples or SAMPLES,
    )
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
    """By (shape, batch), the time of the dense product over that of the fastest two-of-four one."""
    dense: dict[tuple[str, int], float] = {}
    sparse: dict[tuple[str, int], float] = {}
    for r in records:
        key, us = (r["shape"], r["batch"]), r["median_us"]
        of = dense if r["implementation"] == DENSE else sparse
        of[key] = min(us, of.get(key, us))
    return {key: dense[key] / sparse[key] for key in dense if key in sparse}


bench = driver.suite("two-of-four", run)
