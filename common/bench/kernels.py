"""The suite "kernels": every rung of every operator at every shape of MobileNetV2, compared with cuDNN and cuBLAS.

Each rung is run in each layout that it supports and its result compared with float64; times of wrong results are not
kept. All rungs that compute the same thing are timed in turn. A case's own operator has rungs with plain names; rungs
of another operator have its name in front: "conv2d/naive" for a 1×1 convolution. Besides the steps of the network the
suite contains its residual additions, its inverted-residual blocks, the gradients of its depthwise layers at batch 32,
ResNet's 3×3 convolutions up to batch 32, and products of square matrices. In int8, which is measured where it is asked
for, those are the network's steps, additions and blocks; a block has the implementations "fused" and "separate".
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import cuda, kernels
from ..cuda.graphs import on_stream
from ..cuda.layout import LAYOUTS
from ..kernels.halves import Halves
from ..measure import environment, timing
from ..measure.roofline import ARITHMETIC
from ..network import Network
from ..network.program import Program
from ..network.steps import fuse
from ..report import results, tables
from ..report.results import record
from . import driver, problems, problems_int8
from .driver import Measured
from .operators import BATCHES, TUNED, allowed, pictures
from .peers import Model
from .problems import DTYPES, Launch, Problem, Setup

SAMPLES = 10  # per rung
SLOW_US = 20_000.0  # a slower rung is timed by itself, with SLOW_SAMPLES samples
SLOW_SAMPLES = 5
FAILURES = (MemoryError, RuntimeError, TypeError, ValueError)  # a problem that raises one of these is skipped

PRODUCT = ("x", "weight", "bias", "multiplier")
REQUANTIZED = ("zero_point", "bounds", "residual", "residual_scales")
# the arguments of an operator, among a problem's: (positional, keyword-only)
ARGUMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "add": (("a", "b"), ()),
    "global_avg_pool": (("x",), ()),
    "gemm": (("a", "b", "bias"), ("transpose_b",)),
    "conv2d": (("x", "weight", "bias", "stride", "padding", "dilation", "groups"), ("residual", "activation")),
    "pointwise": (("x", "weight", "bias"), ("residual", "activation")),
    "depthwise": (("x", "weight", "bias", "stride", "padding", "dilation"), ("residual", "activation")),
    "depthwise_backward_input": (("grad", "weight", "input_shape", "stride", "padding", "dilation"), ()),
    "depthwise_backward_weight": (("grad", "x", "kernel_size", "stride", "padding", "dilation"), ()),
    "winograd": (("x", "weight", "bias", "padding"), ("residual", "activation")),
    "inverted_residual": (
        ("x", "expand", "expand_bias", "depthwise", "depthwise_bias", "project", "project_bias"),
        ("stride", "residual", "activations"),
    ),
    "add_int8": (("a", "b", "scales"), ()),
    "global_avg_pool_int8": (("x", "multiplier"), ("input_zero_point", "zero_point")),
    "pointwise_int8": (PRODUCT, REQUANTIZED),
    "conv2d_int8": ((*PRODUCT, "stride", "padding", "dilation", "groups"), ("input_zero_point", *REQUANTIZED)),
    "depthwise_int8": (
        (*PRODUCT, "stride", "padding", "dilation"), ("input_zero_point", "zero_point", "bounds"),
    ),
}  # fmt: skip
FUSED = (problems_int8.BLOCK,)  # operators without a ladder: their problems bring their launches


def _transformed(given: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """Winograd's transformed filters, which a network computes once, not in every call."""
    from ..kernels.winograd import TILE

    return {"transformed": kernels.winograd_weight(given["weight"], TILE[variant])}


def _halved(given: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """The weights as pairs of halves for the rung that reads nothing else, which a network computes once."""
    if variant != "persistent_halves":
        return {}
    return {"arithmetic": Halves.of(given["weight"], float(abs(given["x"]).max()))}


# computes further arguments before the launch, outside the measured time
PREPARED: dict[str, Callable[[Mapping[str, Any], str], dict[str, Any]]] = {
    "winograd": _transformed, "pointwise": _halved,
}  # fmt: skip


def launch_of(operator: str, variant: str, given: Mapping[str, Any]) -> Launch:
    """A callable that launches a rung on a problem's arguments and writes to its `out`."""
    positional, named = ARGUMENTS[operator]
    more = PREPARED[operator](given, variant) if operator in PREPARED else {}
    more |= {name: given[name] for name in (*named, "out")}
    return functools.partial(
        getattr(kernels, operator), *(given[name] for name in positional), **more, variant=variant
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. operators: whose rungs. layouts: of the activations. tune: let cuDNN time its plans."""

    operators: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    tune: bool = True

    CHOICES: ClassVar = {
        "operators": ((*ARGUMENTS, *FUSED), (*ARGUMENTS, *FUSED)), "batches": (None, BATCHES),
        "layouts": (LAYOUTS, LAYOUTS), "precisions": ((*DTYPES, "int8"), tuple(DTYPES)),
    }  # fmt: skip


# ---- One problem


@dataclass(frozen=True, eq=False)
class Implementation:
    """One way to compute a problem: a rung or a library, in one layout."""

    name: str  # as in the record
    operator: str
    order: int  # the rung's place in its ladder, from 1; libraries come last
    arithmetic: str
    setup: Setup
    launch: Launch
    plan: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.setup.layout or ''}".rstrip()


def implementations(problem: Problem, setup: Setup, options: Options) -> Iterator[Implementation]:
    """The rungs, of options.operators, that compute a problem in a layout on this card; then the libraries."""
    dtype, main = (DTYPES | {"int8": np.dtype(np.int8)})[problem.precision], problem.operators[0]
    last = 1
    for operator in problem.operators:
        if operator in FUSED or not wanted(options, operator):
            continue
        able = kernels.variants(operator, dtype, setup.layout)
        for order, variant in enumerate(kernels.variants(operator), 1):
            last = max(last, order + 1)
            if variant not in able or kernels.requires(operator, variant) > cuda.compute_capability():
                continue
            launch = launch_of(operator, variant, setup.given)
            if problem.precision == "int8" and _leaves_to_another(launch, f"{operator}/{variant}"):
                continue
            name = variant if operator == main else f"{operator}/{variant}"
            arithmetic = kernels.arithmetic(operator, variant, problem.precision)
            yield Implementation(name, operator, order, arithmetic, setup, launch)
    for name, launch in setup.peers.items():
        plan = setup.plan if name == "cudnn" else ""
        yield Implementation(name, main, last, ARITHMETIC[problem.precision], setup, launch, plan)


def _leaves_to_another(launch: Launch, name: str) -> bool:
    """Whether a rung leaves its arrays to another one: its call launches none of that name. Nothing is executed."""
    with kernels.recorded() as launches:
        launch()
    return bool(launches) and all(one.name != name for one in launches)


def compile_ahead(ones: Sequence[Implementation]) -> None:
    """Compiles the kernels of our implementations in parallel; what fails is told when it is checked."""
    with contextlib.suppress(*FAILURES):
        with kernels.recorded() as launches:
            for one in ones:
                if one.name not in one.setup.peers:
                    one.launch()
        kernels.compile_together(launches)


def _compiled(problem: Problem, options: Options) -> Iterator[Implementation]:
    """All implementations of a problem; those of a setup are compiled in parallel."""
    for setup in problem.setups():
        if setup.layout in (None, *options.layouts):
            ones = list(implementations(problem, setup, options))
            compile_ahead(ones)
            yield from ones


def measure(problem: Problem, options: Options, console: Console) -> Measured:
    """(records of all implementations with correct results, whether all results were correct)."""
    errors, right = checked(problem, _compiled(problem, options), console)
    try:
        measured = timed(list(errors), options.samples or SAMPLES)
    except FAILURES as failure:
        console.print(f"{problem.case}, batch {problem.batch}: timing [red]fails[/]: {escape(str(failure))}")
        return [], False
    return [_record(problem, one, measured[one], error) for one, error in errors.items()], right


def checked(
    problem: Problem, ones: Iterable[Implementation], console: Console
) -> tuple[dict[Implementation, float], bool]:
    """(the errors of the implementations with correct results, whether all had them). Others are told and left out."""
    right, errors = True, {}
    for one in ones:
        one.setup.poison()
        where = f"{problem.case}, batch {problem.batch}, {problem.precision}: {one}"
        try:
            one.launch()
        except FAILURES as failure:  # the other rungs are still timed
            console.print(f"{where} [red]fails[/]: {escape(str(failure))}", soft_wrap=True)
            right = False
            continue
        error, most = one.setup.error(), allowed(problem.precision, one.setup.k)
        if one.name in one.setup.peers and one.setup.peers_allowed is not None:
            most = one.setup.peers_allowed
        if error <= most:
            errors[one] = error
        else:
            console.print(
                f"{where} is [red]wrong[/], not timed: an error of {error:.1e}, allowed {most:.1e}", soft_wrap=True
            )
            right = False
    return errors, right


def timed(ones: Sequence[Implementation], samples: int) -> dict[Implementation, timing.Timing]:
    """The timings of implementations: those up to SLOW_US in turn, slower ones alone."""
    slow = {one for one in ones if timing.once(one.launch) > SLOW_US}
    quick = {str(i): one for i, one in enumerate(ones) if one not in slow}
    timings = {one: timing.time(one.launch, samples=SLOW_SAMPLES) for one in slow}
    if quick:
        comparison = timing.compare({name: one.launch for name, one in quick.items()}, samples=samples)
        timings |= {one: comparison[name] for name, one in quick.items()}
    return timings


def _record(problem: Problem, one: Implementation, measured: timing.Timing, error: float) -> dict[str, Any]:
    return record(
        "kernels", problem.case, one.name, precision=problem.precision, arithmetic=one.arithmetic, batch=problem.batch,
        timing=measured, work=problem.work, error=error, layout=one.setup.layout, operator=one.operator,
        order=one.order, kind=problem.kind, shape=problem.shape, count=problem.count,
        **({"plan": one.plan} if one.plan else {}),
    )  # fmt: skip


# ---- All problems


def programs(model: Model, batch: int, precision: str, options: Options) -> dict[str, Program]:
    """The network on cuDNN by layout, after one run on random pictures, so all activations are filled."""
    found = {}
    shape = model.graph.input_shape[1:]
    for layout in options.layouts:
        tune = TUNED if options.tune else False
        net = Network(model.onnx, "cudnn", dtype=precision, layout=layout, arithmetic=precision, tune=tune)
        found[layout] = net.program((batch, *shape))
        found[layout].input[...] = cuda.asarray(pictures(batch, shape))
        found[layout].launch()
    return found


def all_problems(model: Model, batch: int, precision: str, options: Options) -> Iterator[Problem]:
    """All problems at one batch size and precision. Matrix products have no batch and come with the first one."""
    tune = TUNED if options.tune else False
    steps = fuse(model.graph.with_batch(batch))
    if precision == "int8":
        if "NHWC" in options.layouts:  # the only one
            yield from problems_int8.network(steps, batch)
            yield from problems_int8.additions(steps, batch)
            yield from problems_int8.blocks(steps, batch)
        return
    if batch == min(options.batches):
        yield from problems.products(precision)
    if wanted(options, "conv2d", "depthwise", "gemm", "global_avg_pool", "pointwise"):
        yield from problems.network(programs(model, batch, precision, options), batch, precision)
    yield from problems.additions(steps, batch, precision, tune)
    yield from problems.blocks(steps, batch, precision, tune)
    if batch <= problems.CONV2D_UP_TO:
        yield from problems.dense(batch, precision, tune)
    if batch == problems.TRAINING:
        yield from problems.gradients(steps, batch, precision, tune)


def wanted(options: Options, *operators: str) -> bool:
    """Whether one of these operators exists and is among options.operators."""
    known = (*kernels.OPERATORS, *FUSED)
    return any(operator in known and operator in options.operators for operator in operators)


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether all results were correct) per batch size and precision. NoGpu on the simulator."""
    with on_stream():
        model = Model.of()
        for batch in options.batches:
            for precision in options.precisions:
                records, right = [], True
                for problem in all_problems(model, batch, precision, options):
                    if wanted(options, *problem.operators):
                        new, all_right = measure(problem, options, console)
                        right &= all_right
                        _show(problem, new, console)
                        records += new
                yield records, right


def _group(r: Mapping[str, Any]) -> tuple:
    """The key of records measured together: the rungs of one operator, or the libraries, for a problem and layout."""
    keys = ("suite", "case", "batch", "precision", "layout", "operator")
    return *(r.get(key) for key in keys), r["implementation"] in tables.LIBRARIES


def superseded(new: list[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records to delete: those of a group (_group) that was measured again."""
    groups = {_group(r) for r in new}
    return lambda r: _group(r) in groups


# ---- On the console


def _show(problem: Problem, records: list[dict[str, Any]], console: Console) -> None:
    """Print the fastest rung and the fastest library, on one line."""

    def described(r: Mapping[str, Any]) -> str:
        return f"{r['implementation']} {r['layout'] or ''} {r['median_us']:,.2f} µs".replace("  ", " ")

    both = (
        results.fastest(r for r in records if (r["implementation"] in tables.LIBRARIES) == libraries)
        for libraries in (False, True)
    )
    fastest = [r for r in both if r]
    ratio = f" ({fastest[1]['median_us'] / fastest[0]['median_us']:.2f}×)" if len(fastest) == 2 else ""
    console.print(
        f"{problem.case}, batch {problem.batch}, {problem.precision}: {', '.join(map(described, fastest))}{ratio},"
        f" {len(records)} timed",
        soft_wrap=True,
    )


def _conclude(records: list[dict[str, Any]], options: Options, console: Console) -> None:
    """Print the rungs' times relative to the libraries', by kind."""
    shown = [
        {"kind": s.kind, "fastest of most": s.best, "precision": s.precision, "batch": str(s.batch)}
        | {"layers": str(s.layers), "ratio": f"{s.ratio:.2f}×"}
        for s in tables.standings(records)
    ]
    console.print(driver.table(shown, 2, "library's time / fastest rung's, geometric mean over the layers"))
    try:
        peaks = results.load(results.path_of(environment.environment()["card"], options.folder)).suite("peaks")
    except FileNotFoundError:  # not in the course's folder
        return
    for precision in DTYPES:
        share = tables.depthwise_bandwidth(results.Results(records=[*records, *peaks]), precision)
        if share is not None:
            console.print(f"depthwise, batch 256, {precision}: {share:.0%} of the copy bandwidth")


bench = driver.suite("kernels", run, superseded, _conclude)
