"""The suite "kernels": every rung of every operator at every shape of MobileNetV2, beside cuDNN and cuBLAS.

Each rung in each layout that it takes, its result compared with float64 before its time is kept; all that compute one
thing are timed in turn. Rungs of the operator that a case is known for go by their names; those of another have its
name in front: "conv2d/naive" at a 1×1 convolution. Besides the steps of the network: its residual additions, the
gradients of its depthwise layers at batch 32, ResNet's 3×3 convolutions up to batch 32, square matrices.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape

from .. import cuda, kernels
from ..cuda.graphs import on_stream
from ..cuda.layout import LAYOUTS
from ..measure import environment, timing
from ..measure.roofline import ARITHMETIC
from ..network import Network
from ..network.program import Program
from ..network.steps import fuse
from ..report import results, tables
from ..report.results import record
from . import driver, problems
from .driver import Measured
from .operators import BATCHES, TUNED, allowed, pictures
from .peers import Model
from .problems import DTYPES, Launch, Problem, Setup

SAMPLES = 10  # of each rung
SLOW_US = 20_000.0  # a rung that takes longer is timed by itself, with as few calls as there can be
SLOW_SAMPLES = 5
FAILURES = (MemoryError, RuntimeError, TypeError, ValueError)  # of one problem, after which the next one may do well

# what an operator takes of a problem's arguments: in its order, and by name what stands behind the star
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
}


def _transformed(given: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """Winograd's filters, which a network transforms once and not in every call."""
    from ..kernels.winograd import TILE

    return {"transformed": kernels.winograd_weight(given["weight"], TILE[variant])}


# what is made of the arguments before the launch that is timed
PREPARED: dict[str, Callable[[Mapping[str, Any], str], dict[str, Any]]] = {"winograd": _transformed}


def launch_of(operator: str, variant: str, given: Mapping[str, Any]) -> Launch:
    """What launches a rung over a problem's arrays, into its `out`."""
    positional, named = ARGUMENTS[operator]
    more = PREPARED[operator](given, variant) if operator in PREPARED else {}
    more |= {name: given[name] for name in (*named, "out")}
    return functools.partial(
        getattr(kernels, operator), *(given[name] for name in positional), **more, variant=variant
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. operators: whose rungs; layouts: of the pictures; tune: let cuDNN try its plans."""

    operators: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    tune: bool = True

    CHOICES: ClassVar = {
        "operators": (tuple(ARGUMENTS), tuple(ARGUMENTS)), "batches": (None, BATCHES), "layouts": (LAYOUTS, LAYOUTS),
        "precisions": (tuple(DTYPES), tuple(DTYPES)),
    }  # fmt: skip


# ---- One problem


@dataclass(frozen=True, eq=False)
class Implementation:
    """What computes a problem: a rung or a library, in one layout."""

    name: str  # as the record has it
    operator: str
    order: int  # the rung's place in its ladder, from 1; libraries come last
    arithmetic: str
    setup: Setup
    launch: Launch
    plan: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.setup.layout or ''}".rstrip()


def implementations(problem: Problem, setup: Setup, options: Options) -> Iterator[Implementation]:
    """The rungs that compute a problem in a layout on this card, of the operators asked for; and the libraries."""
    dtype, main = DTYPES[problem.precision], problem.operators[0]
    last = 1
    for operator in problem.operators:
        if not wanted(options, operator):
            continue
        able = kernels.variants(operator, dtype, setup.layout)
        for order, variant in enumerate(kernels.variants(operator), 1):
            last = max(last, order + 1)
            if variant not in able or kernels.requires(operator, variant) > cuda.compute_capability():
                continue
            name = variant if operator == main else f"{operator}/{variant}"
            arithmetic = kernels.arithmetic(operator, variant, problem.precision)
            yield Implementation(name, operator, order, arithmetic, setup, launch_of(operator, variant, setup.given))
    for name, launch in setup.peers.items():
        plan = setup.plan if name == "cudnn" else ""
        yield Implementation(name, main, last, ARITHMETIC[problem.precision], setup, launch, plan)


def measure(problem: Problem, options: Options, console: Console) -> Measured:
    """(records of all that computed the right thing, whether all did)."""
    right, errors = True, {}
    for setup in problem.setups():
        if setup.layout not in (None, *options.layouts):
            continue
        for one in implementations(problem, setup, options):
            setup.poison()
            where = f"{problem.case}, batch {problem.batch}, {problem.precision}: {one}"
            try:
                one.launch()
            except FAILURES as failure:  # the others keep their times
                console.print(f"{where} [red]fails[/]: {escape(str(failure))}", soft_wrap=True)
                right = False
                continue
            error, most = setup.error(), allowed(problem.precision, setup.k)
            if error <= most:
                errors[one] = error
            else:
                console.print(
                    f"{where} is [red]wrong[/], not timed: an error of {error:.1e}, allowed {most:.1e}", soft_wrap=True
                )
                right = False
    try:
        measured = timed(list(errors), options.samples or SAMPLES)
    except FAILURES as failure:
        console.print(f"{problem.case}, batch {problem.batch}: timing [red]fails[/]: {escape(str(failure))}")
        return [], False
    return [_record(problem, one, measured[one], error) for one, error in errors.items()], right


def timed(ones: Sequence[Implementation], samples: int) -> dict[Implementation, timing.Timing]:
    """Times in turn what takes up to SLOW_US, and the rest by itself."""
    slow = {one for one in ones if timing.once(one.launch) > SLOW_US}
    quick = {str(i): one for i, one in enumerate(ones) if one not in slow}
    made = {one: timing.time(one.launch, samples=SLOW_SAMPLES) for one in slow}
    if quick:
        comparison = timing.compare({name: one.launch for name, one in quick.items()}, samples=samples)
        made |= {one: comparison[name] for name, one in quick.items()}
    return made


def _record(problem: Problem, one: Implementation, measured: timing.Timing, error: float) -> dict[str, Any]:
    return record(
        "kernels", problem.case, one.name, precision=problem.precision, arithmetic=one.arithmetic, batch=problem.batch,
        timing=measured, work=problem.work, error=error, layout=one.setup.layout, operator=one.operator,
        order=one.order, kind=problem.kind, shape=problem.shape, count=problem.count,
        **({"plan": one.plan} if one.plan else {}),
    )  # fmt: skip


# ---- All problems


def programs(model: Model, batch: int, precision: str, options: Options) -> dict[str, Program]:
    """The network on cuDNN in every layout, after a run over random pictures."""
    made = {}
    shape = model.graph.input_shape[1:]
    for layout in options.layouts:
        tune = TUNED if options.tune else False
        net = Network(model.onnx, "cudnn", dtype=precision, layout=layout, arithmetic=precision, tune=tune)
        made[layout] = net.program((batch, *shape))
        made[layout].input[...] = cuda.asarray(pictures(batch, shape))
        made[layout].launch()
    return made


def all_problems(model: Model, batch: int, precision: str, options: Options) -> Iterator[Problem]:
    """What is measured at one batch and precision. Matrices have no batch, and come with the first."""
    tune = TUNED if options.tune else False
    steps = fuse(model.graph.with_batch(batch))
    if batch == min(options.batches):
        yield from problems.products(precision)
    if wanted(options, "conv2d", "depthwise", "gemm", "global_avg_pool", "pointwise"):
        yield from problems.network(programs(model, batch, precision, options), batch, precision)
    yield from problems.additions(steps, batch, precision, tune)
    if batch <= problems.CONV2D_UP_TO:
        yield from problems.dense(batch, precision, tune)
    if batch == problems.TRAINING:
        yield from problems.gradients(steps, batch, precision, tune)


def wanted(options: Options, *operators: str) -> bool:
    """Whether rungs of one of these operators are there and are asked for."""
    return any(operator in kernels.OPERATORS and operator in options.operators for operator in operators)


def run(options: Options, console: Console) -> Iterator[Measured]:
    """(records, whether all computed the right thing) of one batch in one precision after the other."""
    with on_stream():
        model = Model.of()
        for batch in options.batches:
            for precision in options.precisions:
                records, right = [], True
                for problem in all_problems(model, batch, precision, options):
                    if wanted(options, *problem.operators):
                        made, all_right = measure(problem, options, console)
                        right &= all_right
                        _show(problem, made, console)
                        records += made
                yield records, right


def _group(r: Mapping[str, Any]) -> tuple:
    """What is measured together: the rungs of one operator, or the libraries, at one problem in one layout."""
    keys = ("suite", "case", "batch", "precision", "layout", "operator")
    return *(r.get(key) for key in keys), r["implementation"] in tables.LIBRARIES


def superseded(new: list[dict[str, Any]]) -> driver.Superseded:
    """Which older records go: those of rungs that would be among the new ones, if they were still there and right."""
    groups = {_group(r) for r in new}
    return lambda r: _group(r) in groups


# ---- On the console


def _show(problem: Problem, records: list[dict[str, Any]], console: Console) -> None:
    """The fastest rung and the fastest library, in a line."""

    def said(r: Mapping[str, Any]) -> str:
        return f"{r['implementation']} {r['layout'] or ''} {r['median_us']:,.2f} µs".replace("  ", " ")

    both = (
        results.fastest(r for r in records if (r["implementation"] in tables.LIBRARIES) == libraries)
        for libraries in (False, True)
    )
    fastest = [r for r in both if r]
    ratio = f" ({fastest[1]['median_us'] / fastest[0]['median_us']:.2f}×)" if len(fastest) == 2 else ""
    console.print(
        f"{problem.case}, batch {problem.batch}, {problem.precision}: {', '.join(map(said, fastest))}{ratio},"
        f" {len(records)} timed",
        soft_wrap=True,
    )


def _conclude(records: list[dict[str, Any]], options: Options, console: Console) -> None:
    """How the rungs stand to the libraries, kind by kind."""
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
