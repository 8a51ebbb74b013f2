"""The suite "late": 1×1 convolutions with few pixels and many channels, rung by rung and tile by tile, beside cuDNN.

Each layer of LAYERS on random arrays, fp16 and NHWC: the rungs on tensor cores, the candidate tiles of rung 8 (see
kernels/pointwise/persistent.py) in the order of their estimates, cuDNN; for the linear layer also gemm and cuBLAS; for
the head with its pool each of them followed by global_avg_pool, and both in one kernel. All are checked against float64
and then timed in turn, in one process.

A record's "order" is that of the rung in its ladder, or of the candidate among the candidates, from 1.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console

from .. import cuda, cudnn, kernels
from ..cuda import layout as layouts
from ..cuda.graphs import on_stream
from ..kernels.pointwise import persistent
from ..measure.roofline import ARITHMETIC, Work, conv2d_work
from ..optimize import head
from ..report.results import Record, record
from . import driver
from .driver import Measured
from .kernels import FAILURES, Implementation, checked, timed
from .operators import CHECKED, TUNED, convolved, float64
from .problems import DTYPES, Launch, Problem, Setup, drawn

PRECISION = "fp16"
SAMPLES = 20
TILES = 12  # candidates of a layer
RUNGS = ("tensor_cores", "streaming", "warpgroups")


@dataclass(frozen=True)
class Layer:
    """A 1×1 convolution of images of side × side pixels; a linear layer has one pixel. pool: of each image the mean."""

    kind: str
    side: int
    channels: int
    outputs: int
    activation: str | None = None
    residual: bool = False
    pool: bool = False

    @property
    def shape(self) -> str:
        """As text: "7×7 960>160 +residual"."""
        pixels = f"{self.side}×{self.side} " if self.side > 1 else ""
        more = " +residual" if self.residual else " +pool" if self.pool else ""
        return f"{pixels}{self.channels}>{self.outputs}{more}"

    @property
    def case(self) -> str:
        """The "case" of its records."""
        return f"{self.kind} {self.shape}"


LAYERS = (
    Layer("expand", 14, 96, 576, "relu6"),
    Layer("project", 14, 576, 96, residual=True),
    Layer("project", 7, 576, 160),
    Layer("expand", 7, 160, 960, "relu6"),
    Layer("project", 7, 960, 160, residual=True),
    Layer("project", 7, 960, 320),
    Layer("head", 7, 320, 1280, "relu6"),
    Layer("head", 7, 320, 1280, "relu6", pool=True),
    Layer("linear", 1, 1280, 1000),
)


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. cases: of LAYERS. tiles: how many candidates of rung 8. tune: let cuDNN time its plans."""

    cases: tuple[str, ...] = ()
    tiles: int = TILES
    tune: bool = True

    CHOICES: ClassVar = {
        "cases": (tuple(layer.case for layer in LAYERS), tuple(layer.case for layer in LAYERS)),
        "batches": (None, (256,)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tiles < 1:
            raise ValueError(f"tiles must be at least 1, got {self.tiles}")


def setup_of(layer: Layer, batch: int, tune: bool | int) -> Setup:
    """Random arrays of a layer, its result in float64 for the first images, and the libraries' launches."""
    x = drawn(0, (batch, layer.channels, layer.side, layer.side), PRECISION, "NHWC")
    weight = drawn(1, (layer.outputs, layer.channels, 1, 1), PRECISION, "NHWC")
    bias, shape = drawn(2, (layer.outputs,), PRECISION), (batch, layer.outputs, layer.side, layer.side)
    given = {
        "x": x, "weight": weight, "bias": bias, "activation": layer.activation,
        "residual": drawn(3, shape, PRECISION, "NHWC") if layer.residual else None,
        "out": layouts.empty((*shape[:2], 1, 1) if layer.pool else shape, DTYPES[PRECISION], "NHWC"),
    }  # fmt: skip
    want = convolved(x[:CHECKED], weight, bias, 1, 0, 1, 1)
    if layer.residual:
        want = want + float64(given["residual"][:CHECKED])
    want = want.clamp(0, 6) if layer.activation == "relu6" else want
    want = want.mean((2, 3), keepdim=True) if layer.pool else want
    peers = {"cudnn + our pool" if layer.pool else "cudnn": launch_of(layer, given, cudnn.conv2d, tune=tune)}
    if layer.side == 1:
        peers["cublas"] = functools.partial(cudnn.gemm, **as_product(given))
    return Setup("NHWC", given, want, layer.channels, peers)


def launch_of(layer: Layer, given: Mapping[str, Any], convolution: Callable[..., Any], **options: Any) -> Launch:
    """The call of a convolution; with a pool, into an array of its own that the pool reads."""
    if not layer.pool:
        return functools.partial(convolution, **given, **options)
    n, _, h, w = given["x"].shape
    hidden = layouts.empty((n, layer.outputs, h, w), DTYPES[PRECISION], "NHWC")

    def both() -> None:
        convolution(**{**given, "out": hidden}, **options)
        kernels.global_avg_pool(hidden, out=given["out"])

    return both


def as_product(given: Mapping[str, Any]) -> dict[str, Any]:
    """A convolution of one pixel as the arguments of gemm, over the same arrays."""
    a, b, out = (layouts.as_stored(given[name]).reshape(len(given[name]), -1) for name in ("x", "weight", "out"))
    return {"a": a, "b": b, "bias": given["bias"], "transpose_b": True, "out": out}


def named(tile: Mapping[str, int]) -> str:
    """A tile of rung 8 as the name of an implementation: "persistent 64×240, 2 teams, 8 stages, weights stay"."""
    text = f"persistent {tile['BM']}×{tile['BN']}, {tile['TEAMS']} team{'s' if tile['TEAMS'] > 1 else ''}"
    return f"{text}, {tile['STAGES']} stages{', weights stay' if tile['KEEP'] else ''}"


def implementations(layer: Layer, setup: Setup, tiles: int) -> Iterator[Implementation]:
    """The rungs before the eighth, the eighth with each of its first candidates, and the libraries."""
    made = functools.partial(Implementation, arithmetic=ARITHMETIC[PRECISION], setup=setup)
    given, ladder, rungs = setup.given, kernels.variants("pointwise"), (*RUNGS, "persistent")
    able = [rung for rung in rungs if kernels.requires("pointwise", rung) <= cuda.compute_capability()]
    for rung in (one for one in able if one != "persistent"):
        launch = launch_of(layer, given, kernels.pointwise, variant=rung)
        yield made(rung, "pointwise", ladder.index(rung) + 1, launch=launch)
    if "persistent" in able:
        pixels = layer.side**2
        found = persistent.candidates(len(given["x"]) * pixels, layer.channels, layer.outputs, tiles)
        for order, tile in enumerate(found, 1):
            launch = launch_of(layer, given, kernels.pointwise, variant="persistent", tile=tile)
            yield made(named(tile), "pointwise", order, launch=launch)
    if layer.pool:
        fused = {name: given[name] for name in ("x", "weight", "bias", "activation", "out")}
        yield made("pointwise_pool", "pointwise", 0, launch=functools.partial(head.pointwise_pool, **fused))
        shape = head.Head(layer.side**2, layer.channels, layer.outputs)
        found = head.pooled_tiles(shape, len(given["x"]), tiles) if "persistent" in able else []
        for order, tile in enumerate(found, 1):
            launch = functools.partial(head.pointwise_pool, **fused, tile=tile)
            yield made(f"pooled by {named(tile)}", "pointwise", order, launch=launch)
    if layer.side == 1:
        yield made("gemm", "gemm", 0, launch=functools.partial(kernels.gemm, **as_product(given)))
    for name, peer in setup.peers.items():
        yield made(name, "pointwise", len(ladder) + 1, launch=peer)


def work_of(layer: Layer, batch: int) -> Work:
    """Work of a layer that reads and writes each array once; with a pool, no outputs but the means."""
    item, images = DTYPES[PRECISION].itemsize, (batch, layer.channels, layer.side, layer.side)
    filters = (layer.outputs, layer.channels, 1, 1)
    work = conv2d_work(images, filters, 1, 0, 1, item, True, layer.residual)
    outputs = batch * layer.outputs * layer.side**2
    return Work(work.bytes - item * (outputs - batch * layer.outputs), work.flops + outputs) if layer.pool else work


def measure(layer: Layer, batch: int, options: Options, console: Console) -> Measured:
    """(records of all implementations with correct results, whether all results were correct)."""
    work = work_of(layer, batch)
    setup = setup_of(layer, batch, TUNED if options.tune else False)
    problem = Problem(layer.kind, layer.shape, 1, batch, PRECISION, work, ("pointwise",), lambda: iter((setup,)))
    errors, right = checked(problem, implementations(layer, setup, options.tiles), console)
    try:
        times = timed(list(errors), options.samples or SAMPLES)
    except FAILURES as failure:
        console.print(f"{layer.case}, batch {batch}: timing [red]fails[/]: {failure}", markup=True)
        return [], False
    return [
        record(
            "late", layer.case, one.name, precision=PRECISION, arithmetic=one.arithmetic, batch=batch,
            timing=times[one], work=work, error=error, layout="NHWC", operator=one.operator, order=one.order,
        )
        for one, error in errors.items()
    ], right  # fmt: skip


def show(records: Sequence[Record], console: Console) -> None:
    """Print a layer's implementations, the fastest first."""
    for title in dict.fromkeys(f"{r['case']}, batch {r['batch']}" for r in records):
        rows = [
            {"implementation": r["implementation"]} | driver.cells(r)
            | {"TB/s": f"{r['bytes'] / r['median_us'] / 1e6:.2f}"}
            | {"TFLOP/s": f"{r['flops'] / r['median_us'] / 1e6:.0f}"}
            for r in sorted(records, key=lambda r: r["median_us"])
            if title == f"{r['case']}, batch {r['batch']}"
        ]  # fmt: skip
        console.print(driver.table(rows, 1, title))


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether all were correct) per layer and batch size. NoGpu on the simulator."""
    with on_stream():
        for layer in LAYERS:
            for batch in options.batches if layer.case in options.cases else ():
                records, right = measure(layer, batch, options, console)
                show(records, console)
                yield records, right


bench = driver.suite(
    "late", run, lambda new: driver.same(new, "suite", "case", "batch", which=lambda r: r["suite"] == "late")
)
