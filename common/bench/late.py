"""The suite "late": 1×1 convolutions with few pixels and many channels, rung by rung and tile by tile, beside cuDNN.

Each layer of LAYERS on random arrays in NHWC: the rungs on tensor cores, the candidate tiles of rung 8, of rung 9 for
fp32 (see kernels/pointwise/persistent.py), in the order of their estimates, and cuDNN; for the linear layer also gemm
and cuBLAS; for the head with its pool, in fp16, each followed by global_avg_pool, and both in one kernel. All are
checked against float64 and then timed in turn, in one process.

A record's "order" is that of the rung in its ladder, or of the candidate among the candidates, from 1; of all else it
is the number behind the ladder's last.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape

from .. import cuda, cudnn, kernels
from ..cuda import layout as layouts
from ..cuda.graphs import on_stream
from ..kernels.halves import Halves
from ..kernels.pointwise import persistent
from ..measure.roofline import ARITHMETIC, Work, conv2d_work
from ..optimize import head
from ..report.results import Record, record
from . import driver
from .driver import Measured
from .kernels import FAILURES, Implementation, checked, compile_ahead, timed
from .operators import CHECKED, TUNED, convolved, float64
from .problems import DTYPES, Launch, Problem, Setup, drawn

SAMPLES = 20
TILES = 12  # candidates of a layer
RUNGS = {"fp16": ("tensor_cores", "streaming", "warpgroups"), "fp32": ("tensor_cores", "streaming")}
PERSISTENT = {"fp16": "persistent", "fp32": "persistent_halves"}  # the rung with candidates


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
    """What to time. cases: of LAYERS. tiles: how many candidates of rungs 8 and 9. tune: let cuDNN time its plans."""

    cases: tuple[str, ...] = ()
    tiles: int = TILES
    tune: bool = True

    CHOICES: ClassVar = {
        "cases": (tuple(layer.case for layer in LAYERS), tuple(layer.case for layer in LAYERS)),
        "batches": (None, (256,)), "precisions": (tuple(PERSISTENT), ("fp16",)),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tiles < 1:
            raise ValueError(f"tiles must be at least 1, got {self.tiles}")


def setup_of(layer: Layer, batch: int, precision: str, tune: bool | int) -> Setup:
    """Random arrays of a layer, its result in float64 for the first images, and the libraries' launches."""
    x = drawn(0, (batch, layer.channels, layer.side, layer.side), precision, "NHWC")
    weight = drawn(1, (layer.outputs, layer.channels, 1, 1), precision, "NHWC")
    bias, shape = drawn(2, (layer.outputs,), precision), (batch, layer.outputs, layer.side, layer.side)
    given = {
        "x": x, "weight": weight, "bias": bias, "activation": layer.activation,
        "residual": drawn(3, shape, precision, "NHWC") if layer.residual else None,
        "out": layouts.empty((*shape[:2], 1, 1) if layer.pool else shape, DTYPES[precision], "NHWC"),
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
    hidden = layouts.empty((n, layer.outputs, h, w), given["x"].dtype, "NHWC")

    def both() -> None:
        convolution(**{**given, "out": hidden}, **options)
        kernels.global_avg_pool(hidden, out=given["out"])

    return both


def as_product(given: Mapping[str, Any]) -> dict[str, Any]:
    """A convolution of one pixel as the arguments of gemm, over the same arrays."""
    a, b, out = (layouts.as_stored(given[name]).reshape(len(given[name]), -1) for name in ("x", "weight", "out"))
    return {"a": a, "b": b, "bias": given["bias"], "transpose_b": True, "out": out}


def named(rung: str, tile: Mapping[str, int]) -> str:
    """A rung's tile as the name of an implementation: "persistent 64×240, 2 teams, 8 stages, weights stay"."""
    text = f"{rung} {tile['BM']}×{tile['BN']}, {tile['TEAMS']} team{'s' if tile['TEAMS'] > 1 else ''}"
    split = f", {tile['SPLIT']} blocks a tile" if "SPLIT" in tile else ""
    return f"{text}, {tile['STAGES']} stages{', weights stay' if tile['KEEP'] else ''}{split}"


def implementations(layer: Layer, setup: Setup, precision: str, tiles: int) -> Iterator[Implementation]:
    """The rungs before, rung 8 or 9 with each of its first candidates, and the libraries."""
    given, ladder, rung = setup.given, kernels.variants("pointwise"), PERSISTENT[precision]
    shape = len(given["x"]) * layer.side**2, layer.channels, layer.outputs
    able = kernels.requires("pointwise", rung) <= cuda.compute_capability()
    made = functools.partial(Implementation, setup=setup)
    rungs = [one for one in RUNGS[precision] if kernels.requires("pointwise", one) <= cuda.compute_capability()]
    of_halves: dict[str, Any] = {}
    if precision == "fp32":
        of_halves["arithmetic"] = Halves.of(given["weight"], float(abs(given["x"]).max()))
    for one in rungs:
        order, how = ladder.index(one) + 1, kernels.arithmetic("pointwise", one, precision)
        yield made(one, "pointwise", order, how, launch=launch_of(layer, given, kernels.pointwise, variant=one))
        if of_halves:
            launch = launch_of(layer, given, kernels.pointwise, variant=one, **of_halves)
            yield made(f"{one} of halves", "pointwise", order, ARITHMETIC["3xfp16"], launch=launch)
    how = kernels.arithmetic("pointwise", rung, precision)
    found = persistent.candidates(*shape, tiles, itemsize=DTYPES[precision].itemsize) if able else []
    for order, tile in enumerate(found, 1):
        launch = launch_of(layer, given, kernels.pointwise, variant=rung, tile=tile, **of_halves)
        yield made(named(rung, tile), "pointwise", order, how, launch=launch)
    if layer.pool:
        fused = {name: given[name] for name in ("x", "weight", "bias", "activation", "out")}
        yield made(
            "pointwise_pool", "pointwise", len(ladder) + 1, how, launch=functools.partial(head.pointwise_pool, **fused)
        )
        whole = head.Head(layer.side**2, layer.channels, layer.outputs)
        for order, tile in enumerate(head.pooled_tiles(whole, len(given["x"]), tiles) if able else (), 1):
            launch = functools.partial(head.pointwise_pool, **fused, tile=tile)
            yield made(f"pooled by {named(rung, tile)}", "pointwise", order, how, launch=launch)
    if layer.side == 1:
        launch = functools.partial(kernels.gemm, **as_product(given))
        yield made(
            "gemm", "gemm", len(ladder) + 1, ARITHMETIC[precision if precision == "fp16" else "3xtf32"], launch=launch
        )
    for name, peer in setup.peers.items():
        yield made(name, "pointwise", len(ladder) + 1, ARITHMETIC[precision], launch=peer)


def work_of(layer: Layer, batch: int, precision: str) -> Work:
    """Work of a layer that reads and writes each array once; with a pool, no outputs but the means."""
    item, images = DTYPES[precision].itemsize, (batch, layer.channels, layer.side, layer.side)
    filters = (layer.outputs, layer.channels, 1, 1)
    work = conv2d_work(images, filters, 1, 0, 1, item, True, layer.residual)
    outputs = batch * layer.outputs * layer.side**2
    return Work(work.bytes - item * (outputs - batch * layer.outputs), work.flops + outputs) if layer.pool else work


def measure(layer: Layer, batch: int, precision: str, options: Options, console: Console) -> Measured:
    """(records of all implementations with correct results, whether all results were correct)."""
    work, setup = work_of(layer, batch, precision), setup_of(layer, batch, precision, TUNED if options.tune else False)
    problem = Problem(layer.kind, layer.shape, 1, batch, precision, work, ("pointwise",), lambda: iter((setup,)))
    ones = list(implementations(layer, setup, precision, options.tiles))
    compile_ahead(ones)
    errors, right = checked(problem, ones, console)
    try:
        times = timed(list(errors), options.samples or SAMPLES)
    except FAILURES as failure:
        console.print(f"{layer.case}, batch {batch}: timing [red]fails[/]: {escape(str(failure))}")
        return [], False
    return [
        record(
            "late", layer.case, one.name, precision=precision, arithmetic=one.arithmetic, batch=batch,
            timing=times[one], work=work, error=error, layout="NHWC", operator=one.operator, order=one.order,
        )
        for one, error in errors.items()
    ], right  # fmt: skip


def show(records: Sequence[Record], console: Console) -> None:
    """Print a layer's implementations, the fastest first."""
    if not records:
        return
    rows = [
        {"implementation": r["implementation"]} | driver.cells(r)
        | {"TB/s": f"{r['bytes'] / r['median_us'] / 1e6:.2f}"}
        | {"TFLOP/s": f"{r['flops'] / r['median_us'] / 1e6:.0f}"}
        for r in sorted(records, key=lambda r: r["median_us"])
    ]  # fmt: skip
    first = records[0]
    console.print(driver.table(rows, 1, f"{first['case']}, batch {first['batch']}, {first['precision']}"))


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether all were correct) per precision, layer and batch size. NoGpu on the simulator."""
    with on_stream():
        for precision in options.precisions:
            for layer in LAYERS:
                if layer.case not in options.cases or (layer.pool and precision == "fp32"):
                    continue
                for batch in options.batches:
                    records, right = measure(layer, batch, precision, options, console)
                    show(records, console)
                    yield records, right


bench = driver.suite(
    "late",
    run,
    lambda new: driver.same(new, "suite", "case", "batch", "precision", which=lambda r: r["suite"] == "late"),
)
