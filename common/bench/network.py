"""The suite "network": the whole MobileNetV2 on this project's kernels, cuDNN and the peers; checked, then timed.

    ours      this project's kernels         graph: the launches captured in a CUDA graph and replayed;
              optimized for latency below batch 16 and for throughput from there on, unless --optimize is given
    ours-fma  the same, without tensor cores: fp32 products and sums by FMA alone, as the libraries in fp32
    ours-steps  the same as ours without its optimizations: one kernel per step of the network, as in chapter 05
    ours-fp16 ours in fp16, beside ours in int8: timed with them, for the ratio; no records of its own
    cudnn     the same steps on cuDNN        graph, and eager: launched from Python one after the other
    the others: peers.py

All implementations at one batch size and precision are timed in one process, one sample of each in turn, on the same
pictures. An implementation whose error against ONNX Runtime exceeds network.compare's tolerance is reported with its
error and not timed. Records have this error, and as "error_float64" the error against the network in float64.

In int8 all run the network quantized after training. What is checked there is "deviation", the error against its
integer steps on the CPU (quantize.Integers), whose bits are those of ours; the other errors show the loss.

A record's times are of calls back to back. Of calls over one set of buffers it also has those of single calls, see
measure.timing: "lone_us", one call after an idle gap, on the host's clock; "cold_us", one call with a cold L2 cache.
"""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import cuda
from ..cuda import graphs
from ..cuda.layout import LAYOUTS
from ..measure import timing
from ..measure.roofline import ARITHMETIC, Work
from ..network import Network
from ..network.compare import TOLERANCES, relative_error, top
from ..network.reference import run_layer
from ..network.steps import fuse
from ..quantize import IntegerKernels, Integers
from ..report.results import record, rounded_us
from . import driver
from .driver import Measured, choose
from .operators import TUNED, pictures, work_of
from .peers import INT8, PEERS, PRECISIONS, Built, Model, switches

BATCHES = (1, 8, 32, 256)
CHECKED = 32  # pictures on which every implementation is checked, at any batch size
SAMPLES = 50
THROUGHPUT_FROM = 16  # batch size
STEP_BY_STEP = "step by step"  # in the "case" of records of ours-steps, or of ours with --optimize none

BESIDE_INT8 = "ours-fp16"
# A quantized network's codes, where convolutions are sums of floats: of a sum that is nearly half-way between two codes
# the rounding decides. ONNX Runtime on a CPU is then off by 2.6e-2 from its own integer kernels; the network in fp32 is
# by 6.1e-2
IN_FLOATS = 4e-2
# implementations that are backends of Network
STEPS = {
    "ours": "kernels", "ours-fma": "kernels", "ours-steps": "kernels", "cudnn": "cudnn", BESIDE_INT8: "kernels",
}  # fmt: skip
OURS = dict.fromkeys((name for name in STEPS if name != "cudnn"), "ours")  # the "implementation" of their records
NAMES = {"ours": "ours'", BESIDE_INT8: "our fp16's", "cudnn": "cuDNN's"}  # those that all others are compared with
CHOSEN = tuple(name for name in STEPS if name != BESIDE_INT8)
IMPLEMENTATIONS = (*CHOSEN, *PEERS)
SLOW = ("torch-compile",)  # compile for minutes: only if named explicitly
_BOTH: tuple[str, ...] = ("NCHW", "NHWC")
_FAST: dict[str, tuple[str, ...]] = {"fp32": ("NCHW",), "tf32": ("NHWC",), "fp16": ("NHWC",)}
# the memory layouts timed by default; libraries need NHWC to use tensor cores
DEFAULT_LAYOUTS: dict[str, dict[str, tuple[str, ...]]] = {
    "ours": {"fp32": ("NHWC",), "fp16": ("NHWC",), INT8: ("NHWC",)},
    BESIDE_INT8: {INT8: ("NHWC",)},
    "ours-fma": {"fp32": ("NHWC",)},
    "ours-steps": {"fp32": ("NHWC",), "fp16": ("NHWC",)},
    "cudnn": {**_FAST, "fp32": _BOTH},
    "torch-eager": dict.fromkeys(PRECISIONS, _BOTH),
    "torch-graph": dict.fromkeys(PRECISIONS, _BOTH),
    "torch-compile": {**_FAST, "fp32": _BOTH},
    "xla": dict.fromkeys(PRECISIONS, ("NHWC",)),
    "onnxruntime-cuda": {**dict.fromkeys(PRECISIONS, _BOTH), INT8: ("NCHW",)},
    "tensorrt": dict.fromkeys((*PRECISIONS, INT8), ("NCHW",)),  # the input's; its engines choose their own
}
# arithmetic of the 1×1 convolutions in ours, nearly all of the multiply-adds; depthwise layers run on FMA units
OUR_ARITHMETIC = {"fp32": ARITHMETIC["3xfp16"], "fp16": ARITHMETIC["fp16"], INT8: ARITHMETIC[INT8]}
FMA, FMA_ONLY = "fma", "FMA only"  # of ours-fma: Network's argument `arithmetic`; in the "case" of records of ours

ITEMSIZES = {"fp32": 4, "tf32": 4, "fp16": 2, INT8: 1}  # bytes per element, of the least memory traffic
CALLED = {"call": "called", "replay": "called with replay"}  # modes, and what they add to the "case" of records
MODES = ("hot", "rotating", "host", *CALLED)
OPTIMIZE = ("none", "latency", "throughput")


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. backends: of IMPLEMENTATIONS, or "kernels" for ours. layouts: by default DEFAULT_LAYOUTS.

    mode: "hot", the same buffers in every call; "rotating", sets of buffers, together more than twice the L2 cache;
    "host", from an array on the host to logits on the host; "call", net(x) from Python, from a PyTorch tensor on the
    GPU to another, and "replay", the same of Network(replay=True). optimize: of OPTIMIZE, for ours; None: by the batch
    size. tune: let cuDNN time its plans.
    """

    backends: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    mode: str = "hot"
    optimize: str | None = None
    tune: bool = True

    CHOICES: ClassVar = {
        "backends": (IMPLEMENTATIONS, ()), "batches": (None, BATCHES), "layouts": (LAYOUTS, ()),
        "precisions": ((*PRECISIONS, INT8), PRECISIONS),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("optimize", (self.optimize or "none",), OPTIMIZE)
        choose("mode", (self.mode,), MODES)
        known = IMPLEMENTATIONS if self.mode == "hot" else CHOSEN
        names = known if self.mode == "hot" else [name for name in NAMES if name in CHOSEN]
        default = tuple(name for name in names if name not in SLOW)
        object.__setattr__(self, "backends", choose(f"backend with mode {self.mode!r}", self.backends, known, default))


# ---- Inputs and reference results


class Reference:
    """The pictures, and reference logits for the first `checked` of them, computed once for all batch sizes.

    logits: ONNX Runtime's, in float32. exact: those of the layers in float64.
    """

    def __init__(self, model: Model, checked: int = CHECKED) -> None:
        self._shape = model.graph.input_shape[1:]
        self.logits = Network(model.onnx, "onnxruntime")(pictures(checked, self._shape))
        self.exact = in_float64(model, pictures(checked, self._shape))
        self._pictures = np.empty((0, *self._shape), np.float32)
        self._model = model

    def __len__(self) -> int:
        return len(self.logits)

    @cached_property
    def codes(self) -> np.ndarray:
        """The logits of the quantized network's integer steps on the CPU, (checked, classes)."""
        return Network(self._model.quantized, Integers(as_kernels=True))(self.pictures(len(self)))

    def pictures(self, count: int) -> np.ndarray:
        """The first `count` pictures, (count, C, H, W) float32."""
        if count > len(self._pictures):
            self._pictures = pictures(count, self._shape)
        return self._pictures[:count]


def in_float64(model: Model, images: np.ndarray) -> np.ndarray:
    """The logits (N, classes) of the network's layers in float64 on the CPU, for images (N, C, H, W)."""
    import torch

    parameters = {name: torch.from_numpy(np.array(value, np.float64)) for name, value in model.parameters.items()}
    graph, logits = model.graph.with_batch(1), []
    with torch.no_grad():
        for image in images:  # one by one: activations in float64 are large
            tensors = {graph.input: torch.from_numpy(image[None].astype(np.float64))}
            for layer in graph.layers:
                tensors[layer.output] = run_layer(layer, [tensors[name] for name in layer.inputs], parameters)
            logits.append(tensors[graph.output].numpy())
    return np.concatenate(logits)


@dataclass(frozen=True)
class Check:
    """The result of a check: relative errors and the agreement of the classes.

    error: ‖out − ref‖ / ‖ref‖ over all checked pictures, the largest of several sets of buffers; ref: ONNX Runtime's
    logits. same_top5: how many of the `images` checked have the reference's top-5 classes. error_float64: the same
    error against the logits in float64. deviation: in int8, against the integer steps' logits; else None.
    """

    error: float
    same_top5: int
    images: int
    error_float64: float
    deviation: float | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """Those of a record, besides `error`."""
        return {
            "same_top5": self.same_top5, "checked_images": self.images,
            "error_float64": float(f"{self.error_float64:.3g}"),
            **({} if self.deviation is None else {"deviation": float(f"{self.deviation:.3g}")}),
        }  # fmt: skip

    def within(self, tolerance: float) -> bool:
        """Whether the error is within the tolerance; False for NaN."""
        return (self.error if self.deviation is None else self.deviation) <= tolerance


def check(built: Built, reference: Reference, batch: int, in_int8: bool = False) -> Check:
    """Check an implementation on the reference's pictures, batch by batch; the first batch remains its input.

    in_int8: whether it runs the quantized network.
    """
    turns = range(0, len(reference), batch)
    fed = reference.pictures(batch * len(turns))
    of_calls: list[list[np.ndarray]] = [[] for _ in built.calls]
    for start in reversed(turns):
        built.feed(fed[start : start + batch])
        for results, logits in zip(of_calls, built.run(), strict=True):
            results.insert(0, logits)
    checks = []
    for results in of_calls:
        logits = np.concatenate(results)[: len(reference)]
        same = int((top(logits) == top(reference.logits)).all(axis=1).sum())
        error, exact = relative_error(logits, reference.logits), relative_error(logits, reference.exact)
        deviation = relative_error(logits, reference.codes) if in_int8 else None
        checks.append(Check(error, same, len(reference), exact, deviation))
    # NaN counts as the largest
    return max(checks, key=lambda c: np.inf if np.isnan(c.error) else c.error)


def work(model: Model, batch: int, precision: str) -> Work:
    """Work of the network with fused steps; each reads its inputs and parameters once and writes its output once."""
    steps = fuse(model.graph.with_batch(batch))
    return sum((work_of(step, ITEMSIZES[precision]) for step in steps), Work(0, 0))


# ---- Configurations


@dataclass(frozen=True)
class Configuration:
    """One implementation in one precision and memory layout. optimize: Network's argument, for ours."""

    implementation: str
    precision: str
    layout: str
    optimize: str | None = None

    def __str__(self) -> str:
        optimize = f" {self.optimize}" if self.optimize else ""
        return f"{self.implementation} {self.precision} {self.layout}{optimize}"

    @property
    def in_int8(self) -> bool:
        """Whether it runs the quantized network."""
        return self.precision == INT8 and self.implementation != BESIDE_INT8

    @property
    def tolerance(self) -> float:
        """The error allowed. ONNX Runtime's CUDA provider has no int8 convolution: it computes with floats."""
        return IN_FLOATS if self.in_int8 and self.implementation == "onnxruntime-cuda" else TOLERANCES[self.arrays]

    @property
    def arrays(self) -> str:
        """The precision of what runs: of "ours-fp16", which stands beside int8, "fp16"."""
        return "fp16" if self.implementation == BESIDE_INT8 else self.precision


def composed(batch: int, given: str | None = None) -> str | None:
    """Network's argument `optimize` for a batch size: `given`, of OPTIMIZE, else the choice by THROUGHPUT_FROM."""
    given = given or ("latency" if batch < THROUGHPUT_FROM else "throughput")
    return None if given == "none" else given


def configurations(
    precision: str, implementations: Sequence[str], layouts: Sequence[str] = (), optimize: str | None = None
) -> list[Configuration]:
    """The configurations timed together in a precision. layouts: by default DEFAULT_LAYOUTS of each implementation.

    optimize: for ours in NHWC; NCHW has no optimizations. Beside ours in int8 stands ours in fp16.
    """
    if precision == INT8 and "ours" in implementations:
        implementations = (*implementations, BESIDE_INT8)
    return [
        Configuration(name, precision, layout, optimize if _optimized(name) and layout == "NHWC" else None)
        for name in implementations
        for layout in (layouts or DEFAULT_LAYOUTS[name].get(precision, ()))
    ]


def _optimized(implementation: str) -> bool:
    return implementation in OURS and implementation != "ours-steps"


def build(configuration: Configuration, model: Model, x: np.ndarray, mode: str, tune: bool) -> Built:
    """An implementation ready to run on x (N, C, H, W) float32. Raises the libraries' own errors if it cannot run."""
    c = configuration
    if c.implementation in STEPS:
        return build_steps(c, model, x, mode, tune)
    return PEERS[c.implementation](c.precision, c.layout).build(model, x)


def build_steps(configuration: Configuration, model: Model, x: np.ndarray, mode: str, tune: bool) -> Built:
    """`build` for ours and cuDNN: one program, or with mode "rotating" several, each with its own buffers."""
    c = configuration
    if c.precision not in DEFAULT_LAYOUTS[c.implementation]:
        raise ValueError(f"{c.implementation} has no {c.precision}")
    options: dict[str, Any] = {"layout": c.layout}
    arena = c.implementation in OURS  # cuDNN's recorded times are of plans tuned on separate buffers
    if not arena:
        options |= {"arithmetic": c.precision, "tune": TUNED if tune else False}
    elif c.optimize:
        options["optimize"] = c.optimize
    if c.implementation == "ours-fma":
        options["arithmetic"] = FMA
    if c.in_int8:
        net = Network(model.quantized, IntegerKernels(optimize=options.get("optimize")), replay=mode == "replay")
    else:
        net = Network(
            model.onnx, STEPS[c.implementation], dtype="fp16" if c.arrays == "fp16" else "fp32",
            replay=mode == "replay", **options,
        )  # fmt: skip
    arithmetic = (OUR_ARITHMETIC if c.implementation in ("ours", "ours-steps", BESIDE_INT8) else ARITHMETIC)[c.arrays]
    if mode in CALLED:
        return called(net, x, arithmetic)
    programs = [net.program(x.shape, arena)]
    if mode == "rotating":
        set_bytes = programs[0].plan.memory
        programs += [net.program(x.shape, arena) for _ in range(timing.rotations(set_bytes) - 1)]
    if mode == "host":
        built = _from_host_to_host(programs[0], c.layout, arithmetic)
    else:
        launches = ("graph", "eager") if c.implementation == "cudnn" and mode == "hot" else ("graph",)
        built = over(programs, launches, arithmetic)
    built.feed(x)
    return built


def over(programs: Sequence[Any], launches: tuple[str, ...], arithmetic: str) -> Built:
    """Built from programs of one network, each with its own buffers."""

    def feed(images: np.ndarray) -> None:
        for program in programs:
            program.input[...] = cuda.asarray(images, program.input.dtype)

    def results() -> list[np.ndarray]:
        return [cuda.asnumpy(program.output).astype(np.float32) for program in programs]

    def poison() -> None:
        for program in programs:
            program.output.fill(np.nan)

    return Built([program.launch for program in programs], launches, feed, results, arithmetic, poison)


def called(net: Network, x: np.ndarray, arithmetic: str) -> Built:
    """Built from calls of a network with a float32 PyTorch tensor on its device: checks, copies and launches."""
    import torch

    given = torch.from_numpy(x).to("cuda" if cuda.backend() == "gpu" else "cpu", copy=True)
    last: list[Any] = [None]

    def call() -> None:
        last[0] = net(given)

    def feed(images: np.ndarray) -> None:
        given.copy_(torch.from_numpy(images))

    def results() -> list[np.ndarray]:
        return [last[0].cpu().numpy()]

    return Built([call], ("eager",), feed, results, arithmetic)


def _from_host_to_host(program: Any, layout: str, arithmetic: str) -> Built:
    """Built from a program and copies before and after it, between page-locked arrays in its dtype and layout."""
    import cupy
    import cupyx

    image = program.input.transpose(0, 2, 3, 1) if layout == "NHWC" else program.input  # C-contiguous
    source = cupyx.empty_pinned(image.shape, image.dtype)
    target = cupyx.empty_pinned(program.output.shape, program.output.dtype)
    source_pointer, target_pointer = ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(target.ctypes.data)
    graph = graphs.capture(program.launch)

    def call() -> None:
        stream = cupy.cuda.get_current_stream()
        image.data.copy_from_host_async(source_pointer, image.nbytes, stream)
        graph.launch(stream)
        program.output.data.copy_to_host_async(target_pointer, program.output.nbytes, stream)
        stream.synchronize()

    def feed(images: np.ndarray) -> None:
        source[...] = images.transpose(0, 2, 3, 1) if layout == "NHWC" else images

    def results() -> list[np.ndarray]:
        return [target.astype(np.float32)]

    def poison() -> None:
        program.output.fill(np.nan)
        cuda.synchronize()
        target.fill(np.nan)

    return Built([call], ("host",), feed, results, arithmetic, poison, wait=cuda.synchronize)


def _free() -> None:
    """Return unused memory of all libraries' pools to the card."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
    gc.collect()
    torch, jax, cupy = (sys.modules.get(name) for name in ("torch", "jax", "cupy"))
    if jax is not None:
        jax.clear_caches()
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    if cupy is not None and cuda.backend() == "gpu":
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


# ---- The suite


@dataclass(frozen=True)
class Row:
    """One line of the table: a configuration, how it is launched ("graph", "eager" or "host"), and its check."""

    configuration: Configuration
    launch: str
    built: Built
    check: Check

    @property
    def name(self) -> str:
        """The row's name: "cudnn fp16 NHWC graph"."""
        return f"{self.configuration} {self.launch}"


def _first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    lines = str(error).strip().splitlines()
    return " ".join((lines[0] if lines else type(error).__name__).split())[:300]


def prepared(
    group: Sequence[Configuration], model: Model, reference: Reference, batch: int, options: Options, console: Console,
    builder: Callable[[Configuration, Model, np.ndarray, str, bool], Built] | None = None,
) -> tuple[list[Row], bool]:  # fmt: skip
    """(the rows that can be timed, whether all results were correct); prints a line on every other one.

    builder: used instead of `build`.
    """
    builder = builder or build
    rows: list[Row] = []
    right = True
    for configuration in group:
        try:
            built = builder(configuration, model, reference.pictures(batch), options.mode, options.tune)
            found = check(built, reference, batch, configuration.in_int8)
        except Exception as error:  # the libraries' exceptions have no common base; the others can still be timed
            console.print(f"{configuration}, batch {batch}: not timed: {escape(_first_line(error))}", soft_wrap=True)
            continue
        if not found.within(configuration.tolerance):
            off = found.error if found.deviation is None else found.deviation
            console.print(
                f"{configuration}, batch {batch}: [red]wrong[/], not timed: a relative error of {off:.1e},"
                f" allowed are {configuration.tolerance:.0e}",
                soft_wrap=True,
            )
            right = False
            continue
        for launch in built.launches:
            try:
                # a trial run, so that errors, such as those of graph capture, are raised here
                built.benchmark(launch).prepare()
            except Exception as error:
                what = f"{configuration}, batch {batch}, {launch}"
                console.print(f"{what}: not timed: {escape(_first_line(error))}", soft_wrap=True)
                continue
            rows.append(Row(configuration, launch, built, found))
    return rows, right


def _still_right(row: Row, before: list[np.ndarray]) -> bool:
    """Whether the results after timing equal, within the tolerance, those from before."""
    after = row.built.results()
    bound = row.configuration.tolerance
    return all(relative_error(a, b) <= bound for a, b in zip(after, before, strict=True))


def measure(
    group: Sequence[Configuration], model: Model, reference: Reference, batch: int, options: Options, console: Console
) -> Measured:
    """(records, whether all results were correct) of configurations of one precision and batch size, timed in turn."""
    rows, right = prepared(group, model, reference, batch, options, console)
    timed, comparison, still = timed_in_turn(rows, batch, options, console)
    if comparison is None:
        return [], right and still
    single = single_calls(timed, options, console) if options.mode in ("hot", *CALLED) else {}
    records = [_record(row, timed, comparison, model, batch, options) | single.get(row.name, {}) for row in timed]
    _show(timed, comparison, records, batch, console)
    kept = [r for r, row in zip(records, timed, strict=True) if row.configuration.implementation != BESIDE_INT8]
    return kept, right and still


def single_calls(rows: Sequence[Row], options: driver.Options, console: Console) -> dict[str, dict[str, float]]:
    """The times of single calls by row, as fields of records: "lone_us", "lone_p5_us", "lone_p95_us", "cold_us", …

    A library with streams of its own has no cold time: the eviction would not be ordered with its calls.
    """
    calls = {
        row.name: (row.built.benchmark(row.launch).calls[0], row.built.wait, row.launch)
        for row in rows if row.launch != "loop"
    }  # fmt: skip
    lone = {name: timing.Lone(call, wait if launch == "host" else None) for name, (call, wait, launch) in calls.items()}
    cold = {name: timing.Cold(call) for name, (call, _, launch) in calls.items() if launch != "host"}
    found: dict[str, dict[str, float]] = {}
    for mode, benchmarks in (("lone", lone), ("cold", cold)):
        if not benchmarks:
            continue
        try:
            comparison = timing.compare(benchmarks, samples=options.samples or SAMPLES)
        except Exception as error:
            console.print(f"{mode} calls: not timed: {escape(_first_line(error))}", soft_wrap=True)
            continue
        for name in benchmarks:
            measured = comparison[name]
            found.setdefault(name, {}).update({
                f"{mode}_us": rounded_us(measured.median_us), f"{mode}_p5_us": rounded_us(measured.p5_us),
                f"{mode}_p95_us": rounded_us(measured.p95_us),
            })  # fmt: skip
    return found


def timed_in_turn(
    rows: Sequence[Row], batch: int, options: driver.Options, console: Console
) -> tuple[list[Row], timing.Comparison | None, bool]:
    """(the rows with correct results after timing, their times or None without any, whether all were correct)."""
    if not rows:
        return [], None, True
    # the logits of each implementation for the pictures that it is timed on
    before = {id(row.built): row.built.run() for row in rows}
    for row in rows:
        row.built.poison()
    benchmarks = {row.name: row.built.benchmark(row.launch) for row in rows}
    try:
        comparison = timing.compare(benchmarks, samples=options.samples or SAMPLES)
    except Exception as error:
        precision = rows[0].configuration.precision
        console.print(f"batch {batch}, {precision}: not timed: {escape(_first_line(error))}", soft_wrap=True)
        return [], None, True
    timed, right = [], True
    for row in rows:
        if _still_right(row, before[id(row.built)]):
            timed.append(row)
        else:
            console.print(
                f"{row.name}, batch {batch}: [red]wrong[/] when it was timed, though right before", soft_wrap=True
            )
            right = False
    return timed, comparison, right


def _record(
    row: Row, rows: Sequence[Row], comparison: timing.Comparison, model: Model, batch: int, options: Options
) -> dict[str, Any]:
    c = row.configuration
    measured = comparison[row.name]
    own = {"ours-fma": [FMA_ONLY], "ours-steps": [STEP_BY_STEP]}  # the latter is the program of chapter 05
    case = [model.name, *own.get(c.implementation, [])]
    if options.mode == "host":
        case.append("host to host")
    elif options.mode in CALLED:
        case.append(CALLED[options.mode])
    elif options.optimize == "none" and _optimized(c.implementation):
        case.append(STEP_BY_STEP)
    more: dict[str, Any] = {"layout": c.layout, "launch": row.built.launched_as or row.launch}
    more |= row.check.fields
    if c.implementation in OURS:
        more["composition"] = c.optimize or "none"
    if measured.mode == "rotating":
        more["sets"] = len(row.built.calls)
    if ratios := _ratios(row, rows, comparison):
        more["ratios"] = ratios
    if row.built.note:
        more["note"] = row.built.note
    return record(
        "network", ", ".join(case), OURS.get(c.implementation, c.implementation), precision=c.precision,
        arithmetic=row.built.arithmetic, batch=batch, timing=measured, work=work(model, batch, c.arrays),
        error=row.check.error, **more,
    )  # fmt: skip


def _best(implementation: str, rows: Sequence[Row], comparison: timing.Comparison) -> Row | None:
    """The fastest of an implementation's rows; None without any."""
    candidates = [row for row in rows if row.configuration.implementation == implementation]
    return min(candidates, key=lambda row: comparison[row.name].median_us, default=None)


def _ratios(row: Row, rows: Sequence[Row], comparison: timing.Comparison) -> dict[str, Any]:
    """The row's time relative to the best of cuDNN and of ours in the same process, with 95 % intervals."""
    found = {}
    for implementation in NAMES:
        best = _best(implementation, rows, comparison)
        if best is not None and best is not row:
            ratio = comparison.ratio(row.name, best.name)
            low, median, high = (float(f"{value:.4g}") for value in (ratio.low, ratio.median, ratio.high))
            found[implementation] = {"to": best.name, "median": median, "low": low, "high": high}
    return found


def _show(
    rows: Sequence[Row], comparison: timing.Comparison, records: Sequence[dict[str, Any]], batch: int, console: Console
) -> None:
    if not rows:
        return
    shown = []
    for row, r in zip(rows, records, strict=True):
        c, ratios = row.configuration, r.get("ratios", {})
        shown.append(
            {"implementation": " ".join(filter(None, (c.implementation, c.optimize))), "layout": c.layout}
            | {"launch": r["launch"]} | driver.cells(r) | _single_cells(r)
            | {"same top 5": f"{row.check.same_top5} of {row.check.images}"}
            | {f"time / {NAMES[name]} best": _in_words(ratios[name]) if name in ratios else "" for name in NAMES}
        )  # fmt: skip
    console.print(driver.table(shown, 3, f"batch {batch}, {rows[0].configuration.precision}"))
    if line := _side_by_side(rows, comparison):
        console.print(line, soft_wrap=True)
    console.print()


def _single_cells(r: Mapping[str, Any]) -> dict[str, str]:
    """The columns of a table with the error against float64 and the times of single calls."""
    times = {f"{mode} µs": f"{r[f'{mode}_us']:,.1f}" if f"{mode}_us" in r else "" for mode in ("lone", "cold")}
    return {"against float64": f"{r['error_float64']:.1e}"} | times


def _in_words(ratio: dict[str, Any]) -> str:
    return f"{ratio['median']:.3f} ({ratio['low']:.3f} – {ratio['high']:.3f})"


def _side_by_side(rows: Sequence[Row], comparison: timing.Comparison) -> str:
    """A line with the speed of ours relative to the best row of each other implementation; empty without ours."""
    ours = _best("ours", rows, comparison)
    others = dict.fromkeys(
        row.configuration.implementation for row in rows if row.configuration.implementation != "ours"
    )
    if ours is None or not others:
        return ""
    ratios = []
    for name in others:
        best = _best(name, rows, comparison)
        assert best is not None
        ratio = comparison.ratio(best.name, ours.name)
        ratios.append(f"{ratio.median:.2f}× as fast as {name} ({ratio.low:.2f} – {ratio.high:.2f})")
    return f"ours is {', '.join(ratios)}"


def run(options: Options, console: Console, model: Model | None = None, checked: int = CHECKED) -> Iterator[Measured]:
    """Yield (records, whether all results were correct) per batch size and precision.

    model: by default the seeded network. NoGpu on the simulator.
    """
    with graphs.on_stream():
        pass  # raises NoGpu before anything is computed
    model = model or Model.of()
    reference = Reference(model, checked)
    for batch in options.batches:
        for precision in options.precisions:
            optimize = composed(batch, options.optimize)
            group = configurations(precision, options.backends, options.layouts, optimize)
            without = [name for name in options.backends if not DEFAULT_LAYOUTS[name].get(precision)]
            if precision == INT8 and without:
                console.print(f"int8, not timed: {', '.join(without)}: the suite has no int8 network on them")
            # the switches first: they import PyTorch, and on_stream sets the stream of the libraries imported so far
            with switches(precision), graphs.on_stream():
                measured = measure(group, model, reference, batch, options, console)
            _free()
            yield measured


def superseded(records: Sequence[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records of ours that new ones replace, in any layout or arithmetic."""
    keys = ("suite", "case", "implementation", "precision", "batch", "mode")
    return driver.same(records, *keys, which=lambda r: r["implementation"] == "ours")


bench = driver.suite("network", run, superseded)
