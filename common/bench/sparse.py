"""The suite "sparse": from which sparsity on convolutions that skip zero activations are faster.

Every distinct convolution of DenseNet-121/169/201, ResNet-50/101/152 and MobileNetV2 at batch 1, 2, 4 and 8:

    given   at the layer's given sparsity: the three fastest plans of cuDNN, our dense kernel, every sparse scheme; and
            cuDNN's fastest and the schemes at 0, 50, 70, 80, 90, 95 and 99 %, for the break-even sparsity
    sweep   the same for another pattern of zeros
    activations   the share of zeros in the inputs of each convolution of a network, counted, not timed

A record holds the time of one implementation for one shape at the given sparsity, and by sparsity in "us_at".

Inputs are synthetic. The given sparsity of a layer is 50 % after a ReLU, which zeroes half of symmetrically distributed
numbers, and 0 elsewhere; for MobileNetV2 it was counted in the network with seeded weights, on the sample photo. The
pattern of the zeros is elements, pixels or tiles.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import cuda, cudnn, kernels, weights
from ..cuda import cubin
from ..cuda import layout as layouts
from ..cuda.graphs import on_stream
from ..cudnn import plans
from ..files import replacing
from ..measure import timing
from ..measure.roofline import ARITHMETIC, FP16_ON_FMA, conv2d_work
from ..network import Network
from ..optimize import generate, sparse
from ..optimize.sparse_activations import PATTERNS, Synthetic, Zeros, measure
from ..optimize.sparse_choice import choose
from ..optimize.sparse_layers import NETWORKS, Distinct, distinct
from ..report import tables
from ..report.results import grouped, record, rounded_us
from . import driver
from .driver import Measured
from .operators import TUNED, allowed, convolved, relative_error

BATCHES = (1, 2, 4, 8)
DTYPES = {"fp32": np.float32, "fp16": np.float16}
LEVELS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
AFTER_RELU = 0.5  # sparsity after a ReLU, where it was not counted
SAMPLES = 8
SAVED_EVERY = 10  # shapes, so that an interrupted run loses little
CHECKED = 2  # pictures per batch whose results are compared
BEHIND = ("cudnn", "cudnn-2nd", "cudnn-3rd")  # the columns t1, t2, t3
BOUNDS = (0.0, float("inf"))
SOURCES = {"digits": "trained", "seeded": "seeded weights", "resnet20": "seeded weights"}
COLUMNS = (
    "network", "B", "C", "H", "W", "N", "kernel", "stride", "groups", "count", "precision", "pattern", "sparsity",
    "t1", "t2", "t3", "t4", "scheme", "dense", "break_even",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. networks: whose convolutions. layer: a pattern of their shapes, "*1×1*". limit: the most shapes.

    patterns: of the zeros, of PATTERNS. sweep: whether to time LEVELS besides the given sparsity. tune: let cuDNN time
    its plans. csv: a file to write the table to.
    """

    networks: tuple[str, ...] = ()
    layer: str | None = None
    limit: int | None = None
    patterns: tuple[str, ...] = ()
    sweep: bool = True
    tune: bool = True
    csv: Path | None = None

    CHOICES: ClassVar = {
        "networks": (NETWORKS, NETWORKS), "patterns": (PATTERNS, PATTERNS[:1]), "batches": (None, BATCHES),
        "precisions": (tuple(DTYPES), tuple(DTYPES)),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


# ---- Activations, counted


def activations(source: str, count: int = 8) -> list[Zeros]:
    """Count the zeros in the inputs of a network's convolutions, on `count` handwritten digits or the sample photo.

    source: of SOURCES, else ValueError. Runs on a GPU or the simulator.
    """
    from .. import classify, images
    from ..images import CIFAR10_MEAN, CIFAR10_STD

    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
    if source == "digits":
        x = weights.digits_input(weights.digits_split().test_images[:count])
        model = weights.model("digits")
    elif source == "seeded":
        x, model = classify.task("seeded").prepare(images.sample()), weights.model("seeded")
    else:
        photo = images.read(images.sample())
        x = images.to_input(photo, 32, 36, CIFAR10_MEAN, CIFAR10_STD)
        model = weights.resnet20_model()
    program = Network(model, "kernels").program(x.shape)
    program.input[...] = cuda.asarray(x)
    program.launch()
    return measure(program)


def counted(source: str, rows: Sequence[Zeros], batch: int = 1) -> list[dict[str, Any]]:
    """One record per convolution, of the zeros counted by `activations`."""
    shares = [field.name for field in dataclasses.fields(Zeros)][3:]
    return [
        {
            "suite": "sparse", "case": f"{source}: {row.layer}", "implementation": "activations", "precision": "fp32",
            "arithmetic": ARITHMETIC["fp32"], "batch": batch, "kind": "activations", "label": SOURCES[source],
            "network": source, "shape": row.shape, "order": i, "after": row.after, "sparsity": round(row.elements, 4),
            **{name: round(getattr(row, name), 4) for name in shares},
        }
        for i, row in enumerate(rows, 1)
    ]  # fmt: skip


# ---- One shape


def fastest_plans(c: cudnn.Convolution, most: int | None, count: int = len(BEHIND)) -> list[plans.Composition]:
    """The `count` fastest distinct compositions of cuDNN plans for a convolution, fastest first.

    most: plans to time per graph, None for all.
    """
    found: dict[str, tuple[float, plans.Composition]] = {}
    for graphs in c.compositions():
        try:
            first, *rest = [plans.timed(graph, most) for graph in graphs]
        except plans.Unsupported:
            continue
        if not first or not all(rest):
            continue
        behind = [of_rest[0] for of_rest in rest]  # of the graphs after the convolution, the fastest plan is enough
        for plan, us, _ in first:
            composition = plans.Composition((plan, *(entry[0] for entry in behind)))
            found.setdefault(str(composition), (us + sum(entry[1] for entry in behind), composition))
    return [composition for _, composition in sorted(found.values(), key=lambda entry: entry[0])[:count]]


def arithmetic_of(implementation: str, precision: str) -> str:
    """The "arithmetic" of an implementation's records: which units compute the products."""
    if not implementation.startswith(sparse.PREFIX):
        return ARITHMETIC["3xtf32" if (implementation, precision) == ("ours", "fp32") else precision]
    if "tiles" in implementation:
        return ARITHMETIC["3xtf32" if precision == "fp32" else "fp16"]
    return FP16_ON_FMA if precision == "fp16" else ARITHMETIC["fp32"]


class Layer:
    """A convolution's arrays and its implementations, each with its own output.

    launches, outs, plans: by implementation, a callable, its output (NHWC), and a description of its plan.
    """

    def __init__(self, shape: sparse.Shape, precision: str, tune_plans: bool) -> None:
        random, dtype = np.random.default_rng(0), DTYPES[precision]
        self.shape, self.precision = shape, precision

        def array(*size: int, scale: float = 1.0) -> Any:
            numbers = cuda.asarray((scale * random.standard_normal(size, np.float32)).astype(dtype))
            return cuda.to_layout(numbers, "NHWC") if len(size) == 4 else numbers

        self.x = layouts.empty(shape.x, dtype, "NHWC")
        self.weight, self.bias = array(*shape.weight, scale=(2 / shape.terms) ** 0.5), array(shape.outputs)
        self.outs: dict[str, Any] = {}
        self.launches: dict[str, Callable[[], None]] = {}
        self.plans: dict[str, str] = {}
        c = cudnn.Convolution(
            shape.x, shape.weight, shape.stride, (shape.padding[0][0], shape.padding[1][0]), bias=True, bounds=BOUNDS,
            layout="NHWC", arithmetic=precision,
        )  # fmt: skip
        for name, plan in zip(BEHIND, fastest_plans(c, TUNED if tune_plans else 2), strict=False):
            self._add(name, str(plan), self._on_cudnn(plan, name))
        self._add("ours", "", self._recorded("ours", lambda out: self._dense(out)))
        packed = sparse.pack(self.weight, shape.groups)
        for scheme in schemes_of(shape):
            call = functools.partial(self._sparse, scheme, packed)
            self._add(sparse.PREFIX + scheme, str(self.tile(scheme)), self._recorded(sparse.PREFIX + scheme, call))

    def tile(self, scheme: str) -> sparse.Tile:
        """The tile of a scheme's kernel on this card."""
        return sparse.rule(self.shape, scheme, self.x.dtype.itemsize, cuda.multiprocessors())

    def _out(self, name: str) -> Any:
        return self.outs.setdefault(name, layouts.empty(self.shape.y, self.x.dtype, "NHWC"))

    def _add(self, name: str, plan: str, launch: Callable[[], None]) -> None:
        self.launches[name], self.plans[name] = launch, plan

    def _on_cudnn(self, plan: plans.Composition, name: str) -> Callable[[], None]:
        arrays = {"x": self.x, "w": self.weight, "bias": self.bias, "y": self._out(name)}
        pointers = {key: array.data.ptr for key, array in arrays.items()}
        scratch = cuda.empty(max(1, plan.scratch), np.uint8)
        return lambda: plan.launch(pointers, scratch.data.ptr)

    def _recorded(self, name: str, call: Callable[[Any], Any]) -> Callable[[], None]:
        with kernels.recorded() as launches:
            call(self._out(name))

        def launch() -> None:
            for one in launches:
                one()

        return launch

    def _dense(self, out: Any) -> None:
        s = self.shape
        kernels.conv2d(self.x, self.weight, self.bias, s.stride, s.padding, 1, s.groups, activation=BOUNDS, out=out)

    def _sparse(self, scheme: str, packed: Any, out: Any) -> None:
        s = self.shape
        sparse.conv2d(
            self.x, self.weight, self.bias, s.stride, s.padding, s.groups, activation=BOUNDS, scheme=scheme,
            packed=packed, out=out,
        )  # fmt: skip

    def expected(self) -> Any:
        """The correct result for the first CHECKED pictures, a float64 tensor."""
        s = self.shape
        return convolved(self.x[:CHECKED], self.weight, self.bias, s.stride, s.padding, 1, s.groups).clamp(min=0)

    def errors(self, names: Iterable[str]) -> dict[str, float]:
        """Launch implementations on outputs filled with NaN; returns ‖out − expected‖ / ‖expected‖ by name."""
        want, found = self.expected(), {}
        for name in names:
            self.outs[name][...] = np.nan
            self.launches[name]()
            found[name] = relative_error(self.outs[name], want)
        return found


def schemes_of(shape: sparse.Shape) -> tuple[str, ...]:
    """The distinct schemes for a shape: for a depthwise one, one that skips zeros and one that does not."""
    return ("ballot", "dense") if shape.depthwise else sparse.SCHEMES


def case_of(shape: sparse.Shape, pattern: str) -> str:
    """The "case" of its records: "56×56 64>256 1×1, elements"."""
    return f"{shape}, {pattern}"


def time_layer(one: Distinct, precision: str, given: float, label: str, options: Options, console: Console) -> Measured:
    """(records of a shape at the given sparsity and those of the sweep, whether all results were correct).

    label: how the given sparsity is known.
    """
    shape = one.shape
    layer = Layer(shape, precision, options.tune)
    most, records, right = allowed(precision, shape.terms), [], True
    # captured once, for all levels
    benchmarks = {name: timing.Benchmark(launch) for name, launch in layer.launches.items()}
    itemsize = layer.x.dtype.itemsize
    work = conv2d_work(shape.x, shape.weight, shape.stride, shape.padding, 1, itemsize)
    every = [name for name in layer.launches]
    few = [name for name in every if name == BEHIND[0] or name.startswith(sparse.PREFIX)]
    for pattern in options.patterns:
        inputs = Synthetic(shape.x, pattern, layer.x.dtype)
        timed: dict[str, dict[float, timing.Timing]] = {}
        worst: dict[str, float] = {}
        for level in sorted({*(LEVELS if options.sweep else ()), given}):
            layer.x[...] = inputs.at(level)
            names = every if pattern == options.patterns[0] and level == given else few
            errors = layer.errors(names)
            wrong = {name: error for name, error in errors.items() if not error <= most}
            for name, error in wrong.items():
                what = f"{case_of(shape, pattern)} {level:.0%}, batch {shape.batch}, {precision}: {name}"
                console.print(f"{what} is [red]wrong[/], not timed: {error:.1e}, allowed {most:.1e}", soft_wrap=True)
                right = False
            good = {name: benchmarks[name] for name in names if name not in wrong}
            if not good:
                continue
            comparison = timing.compare(good, samples=options.samples or SAMPLES)
            for name in good:
                timed.setdefault(name, {})[level] = comparison[name]
                worst[name] = max(worst.get(name, 0.0), errors[name])
        for name in every:
            if given in timed.get(name, {}):
                records.append(
                    record(
                        "sparse", case_of(shape, pattern), name, precision=precision,
                        arithmetic=arithmetic_of(name, precision), batch=shape.batch, timing=timed[name][given],
                        work=work, error=worst[name], layout="NHWC", shape=str(shape), count=one.count,
                        kind="given" if pattern == options.patterns[0] else "sweep", label=label, pattern=pattern,
                        sparsity=given, plan=layer.plans[name],
                        us_at={f"{level:g}": rounded_us(t.median_us) for level, t in timed[name].items()},
                    )
                )  # fmt: skip
    return records, right


# ---- The suite


def given_sparsity(ones: Iterable[Distinct], rows: Sequence[Zeros]) -> dict[str, tuple[float, str]]:
    """By shape: (its given sparsity, how that is known). rows: counts in MobileNetV2 with seeded weights."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.shape, []).append(row.elements)
    given = {}
    for one in ones:
        name = str(one.shape)
        if set(one.counts) == {"mobilenetv2"} and name in found:
            given[name] = round(float(np.mean(found[name])), 2), "synthetic, as many zeros as with seeded weights"
        else:
            given[name] = (AFTER_RELU, "synthetic, half zeros") if one.after_relu else (0.0, "synthetic, no zeros")
    return given


def selected(options: Options, batch: int) -> list[Distinct]:
    """The shapes selected by the options: those after a ReLU first, and among them those with the most multiply-adds.

    ValueError for an unknown network, or if no shape is selected.
    """
    found = [one for one in distinct(options.networks, batch) if fnmatchcase(str(one.shape), options.layer or "*")]
    if not found:
        raise ValueError(f"layer {options.layer!r}: no convolution of {', '.join(options.networks)} has such a shape")
    found.sort(key=lambda one: (not one.after_relu, -one.count * one.shape.macs))
    return found[: options.limit]


def compile_ahead(ones: Iterable[Distinct], precisions: Iterable[str], multiprocessors: int) -> list[str | None]:
    """Compile all kernels that will be timed, in parallel. Returns as cubin.build_all."""
    jobs = []
    for one in ones:
        for precision in precisions:
            dtype = np.dtype(DTYPES[precision])
            shape = dataclasses.replace(one.shape, bounds=BOUNDS)
            for scheme in schemes_of(shape):
                tile = sparse.rule(shape, scheme, dtype.itemsize, multiprocessors)
                jobs.append(generate.job(sparse.source(shape, scheme, tile, dtype.name)))
    return cubin.build_all(jobs)


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether all were correct): first the counts of zeros, then SAVED_EVERY shapes at a time.

    ValueError, before anything is timed, if no shape is selected. NoGpu on the simulator.
    """
    plan = {batch: selected(options, batch) for batch in options.batches}
    with on_stream():
        rows, zeros = [], []
        for source in SOURCES:
            of_source = activations(source)
            rows += of_source if source == "seeded" else []
            zeros += counted(source, of_source, 8 if source == "digits" else 1)
        yield zeros, True
        compile_ahead([one for ones in plan.values() for one in ones], options.precisions, cuda.multiprocessors())
        for batch, ones in plan.items():
            given = given_sparsity(ones, rows)
            for precision in options.precisions:
                for some in (ones[i : i + SAVED_EVERY] for i in range(0, len(ones), SAVED_EVERY)):
                    records, right = [], True
                    for one in some:
                        try:
                            new, all_right = time_layer(one, precision, *given[str(one.shape)], options, console)
                        except (MemoryError, RuntimeError, ValueError) as failure:  # the other shapes are still timed
                            what = f"{one.shape}, batch {batch}, {precision}"
                            console.print(f"{what} [red]fails[/]: {escape(str(failure))}", soft_wrap=True)
                            right = False
                            continue
                        right &= all_right
                        records += new
                        for line in lines(new):
                            console.print(_in_line(line), soft_wrap=True)
                    yield records, right


# ---- Tables


def lines(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The table, one dict per shape, batch and precision: times of cuDNN and of ours, and the break-even sparsity.

    Times in µs. t1, t2, t3: cuDNN's fastest plans; t4: the fastest scheme; dense: the same kernel without skipping.
    break_even: the sparsity from which on the fastest scheme is faster than cuDNN; 0 if always, None if never or if
    there was no sweep.
    """
    groups = grouped((r for r in records if r["kind"] == "given"), "shape", "batch", "precision")
    table = []
    for (shape, batch, precision), group in groups.items():
        us = {r["implementation"]: r["median_us"] for r in group}
        ours = {name: t for name, t in us.items() if sparse.skips(name)}
        if not ours:
            continue
        best, first = min(ours, key=lambda name: ours[name]), group[0]
        same = [r for r in records if (r["shape"], r["batch"], r["precision"]) == (shape, batch, precision)]
        dense = sparse.PREFIX + sparse.DENSE[best.removeprefix(sparse.PREFIX)]
        one = _by_name()[shape]
        s = one.shape
        table.append(
            {
                "network": "; ".join(one.counts), "B": batch, "C": s.channels, "H": s.height, "W": s.width,
                "N": s.outputs, "kernel": "{}×{}".format(*s.kernel), "stride": s.stride[0], "groups": s.groups,
                "count": first["count"], "precision": precision, "pattern": first["pattern"],
                "sparsity": first["sparsity"], **{f"t{i}": us.get(name) for i, name in enumerate(BEHIND, 1)},
                "t4": ours[best], "scheme": best.removeprefix(sparse.PREFIX), "dense": us.get(dense),
                "break_even": tables.break_even(same, first["pattern"]),
            }
        )  # fmt: skip
    return table


@functools.cache
def _by_name() -> dict[str, Distinct]:
    """Every shape with the networks that contain it, by the key "shape" of records."""
    return {str(one.shape): one for one in distinct(NETWORKS)}


def _in_line(line: Mapping[str, Any]) -> str:
    times = ", ".join("–" if line[f"t{i}"] is None else f"{line[f't{i}']:,.2f}" for i in (1, 2, 3))
    without = "–" if line["dense"] is None else f"{line['dense']:,.2f}"
    meet = "" if line["break_even"] is None else f", break-even at {line['break_even']:.0%}"
    where = f"batch {line['B']}: {line['H']}×{line['W']} {line['C']}>{line['N']} {line['kernel']} /{line['stride']}"
    return (
        f"{where}, {line['precision']}, {line['sparsity']:.0%} zero: cuDNN {times},"
        f" ours {line['t4']:,.2f} µs ({line['scheme']}; without skipping {without}){meet}"
    )


def write_csv(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the table as CSV, with COLUMNS as its first line; times in µs."""
    import pandas

    rows = lines([r for r in records if r["kind"] != "activations"])
    with replacing(path, "w", newline="", encoding="utf-8") as file:
        pandas.DataFrame(rows, columns=list(COLUMNS)).to_csv(file, index=False)


def conclude(records: Sequence[dict[str, Any]], options: Options, console: Console) -> None:
    """Print the zeros counted and the gain of sparse kernels per network; write options.csv if it is given."""
    shares = {"elements": "elements", "pixels": "pixels", "groups_32": "32 ch.", "tiles_8": "8×8×32"}
    shown = []
    for source, label in SOURCES.items():
        rows = [r for r in records if r["kind"] == "activations" and r["network"] == source]
        rows = [r for r in rows if r["after"] in ("ReLU", "ReLU6")]
        if rows:
            shown.append(
                {"network": source, "weights": label, "convolutions": f"{len(rows)} after ReLU"}
                | {head: f"{np.mean([r[key] for r in rows]):.1%}" for key, head in shares.items()}
            )
    console.print(driver.table(shown, 2))
    timed = [r for r in records if r["kind"] != "activations"]
    for precision in dict.fromkeys(r["precision"] for r in timed):
        for batch in dict.fromkeys(r["batch"] for r in timed):
            for network in NETWORKS:
                gain = choose(timed, network, batch, precision)
                if gain.choices:
                    console.print(f"batch {batch}, {precision}: {gain}", soft_wrap=True)
    if options.csv is not None:
        write_csv(records, options.csv)
        console.print(f"written: {options.csv}", soft_wrap=True)


bench = driver.suite("sparse", run, conclude=conclude)
