"""The suite "kernels": rungs get the right arguments, only what is right is timed, and records say what it was."""

import contextlib
import functools
import inspect
import io

import numpy as np
import pytest
from bench_models import on_gpu, small
from rich.console import Console

from common import cuda, kernels
from common.bench import kernels as suite
from common.bench import problems
from common.bench.kernels import ARGUMENTS
from common.bench.problems import Problem, Setup
from common.cuda import graphs
from common.cuda.layout import LAYOUTS
from common.kernels.ladder import Ladder, Rung
from common.measure import environment, timing
from common.measure.roofline import ARITHMETIC, FP16_ON_FMA, Work
from common.measure.timing import Timing
from common.network import Network
from common.network.steps import fuse
from common.report import results, tables

BATCH = 2


@pytest.fixture(scope="module")
def model():
    return small(65)


@pytest.fixture(scope="module")
def program(model):
    """A network that has run, our own kernels in cuDNN's place."""
    program = Network(model.onnx, "kernels", layout="NCHW").program((BATCH, *model.graph.input_shape[1:]))
    shape = program.input.shape
    program.input[...] = cuda.asarray(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    program.launch()
    return program


@pytest.fixture
def said():
    """A console, and what was printed on it."""
    return Console(file=io.StringIO(), width=200, highlight=False)


def text(console):
    return console.file.getvalue()


# ---- What operators are called with


@pytest.mark.parametrize("operator", [name for name in ARGUMENTS if name in kernels.OPERATORS])
def test_an_operator_takes_what_it_is_given(operator):
    positional, named = ARGUMENTS[operator]
    parameters = inspect.signature(getattr(kernels, operator)).parameters
    assert tuple(parameters)[: len(positional)] == positional
    for name in (*named, "out", "variant"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


def test_no_operator_of_the_network_is_left_out():
    parts = {"clamp", "im2col", "softmax", "winograd_weight"}  # of others, or of no step
    parts |= {
        "activate",
        "binary",
        "concat",
        "conv_transpose2d",
        "group_norm",
        "layer_norm",
        "mean",
        "multiply",
        "pad",
        "permute",
        "pool2d",
        "resize",
        "strided_slice",
    }  # of other networks
    parts |= set(kernels.INT8_OPERATORS)  # of the suite "int8"
    others = {"activate", "concat", "multiply", "pad", "permute", "pool2d"}  # of other networks than MobileNetV2
    assert set(kernels.OPERATORS) - set(ARGUMENTS) <= parts | others
    assert {operator for able in problems.COMPUTED_BY.values() for operator in able} <= set(ARGUMENTS)


def first_rungs(problem, setup):
    """A rung of every operator of a problem, with its launch: one that has no tile sizes to be compiled with."""
    for operator in problem.operators:
        if operator in kernels.OPERATORS:
            dtype = problems.DTYPES[problem.precision]
            for variant in kernels.variants(operator, dtype, setup.layout)[:1]:
                yield suite.launch_of(operator, variant, setup.given)


def is_right(problem, setup):
    """Asserts that the operators compute what is wanted, and nothing else would pass."""
    for launch in first_rungs(problem, setup):
        setup.poison()
        assert np.isnan(setup.error())
        launch()
        assert setup.error() <= suite.allowed(problem.precision, setup.k)
        setup.given["out"][...] *= 1.01
        assert setup.error() > suite.allowed(problem.precision, setup.k)


def test_the_steps_of_a_network(program):
    found = list(problems.network({"NCHW": program}, BATCH, "fp32"))
    assert sum(problem.count for problem in found) == 54
    kinds = {}
    for problem in found:
        kinds.setdefault(problem.kind, problem)
    assert set(kinds) == {"stem", "expand", "depthwise", "project", "head", "pool", "linear"}
    for problem in kinds.values():
        (setup,) = problem.setups()
        assert setup.layout == (None if problem.kind == "linear" else "NCHW")
        assert problem.work.flops > 0 and "cudnn" in setup.peers and setup.plan in program.told
        is_right(problem, setup)
        setup.poison()
        setup.peers["cudnn"]()
        assert setup.error() <= 1e-5
    residual = next(problem for problem in found if problem.shape.endswith("+residual"))
    is_right(residual, *residual.setups())


def test_conv2d_computes_1x1_convolutions_of_few_pictures_only(program):
    few, many, halves = (
        list(problems.network({"NCHW": program}, batch, precision))
        for batch, precision in ((32, "fp32"), (33, "fp32"), (32, "fp16"))
    )
    assert {problem.operators for problem in few if problem.kind == "expand"} == {("pointwise", "conv2d")}
    assert {problem.operators for problem in many + halves if problem.kind == "expand"} == {("pointwise",)}
    assert {problem.operators for problem in many if problem.kind == "stem"} == {("conv2d",)}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_additions_products_and_dense_convolutions(model, precision):
    steps = fuse(model.graph.with_batch(BATCH))
    found = list(problems.additions(steps, BATCH, precision, False))
    assert sum(problem.count for problem in found) == sum(step.residual is not None for step in steps) == 10
    found = [
        found[0],
        *problems.products(precision, [(37, 37, 37)]),
        *problems.dense(BATCH, precision, False, [(7, 5)]),
    ]
    assert [problem.kind for problem in found] == ["add", "gemm", "conv 3×3"]
    assert [problem.shape for problem in found[1:]] == ["37×37×37", "7×7 5>5"]
    for problem in found:
        setups = list(problem.setups())
        assert [setup.layout for setup in setups] == ([*LAYOUTS] if problem.kind == "conv 3×3" else [None])
        for setup in setups:
            is_right(problem, setup)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_inverted_residual_blocks(model, precision):
    """All but the first of MobileNetV2's 17, which has no expand; the naive rung agrees with the reference."""
    found = list(problems.blocks(fuse(model.graph.with_batch(BATCH)), BATCH, precision, False))
    assert sum(problem.count for problem in found) == 16
    strided = next(problem for problem in found if "stride 2" in problem.shape)
    residual = next(problem for problem in found[::-1] if problem.shape.endswith("+residual"))
    for problem in (strided, residual):
        (setup,) = problem.setups()
        assert (setup.given["residual"] is setup.given["x"]) == (problem is residual) and "cudnn" in setup.peers
        is_right(problem, setup)
        arrays = [array for name, array in setup.given.items() if hasattr(array, "nbytes") and name != "residual"]
        assert setup.layout == "NHWC" and problem.work.bytes == sum(array.nbytes for array in arrays)


def test_gradients(model):
    steps = fuse(model.graph.with_batch(1))
    found = list(problems.gradients(steps, BATCH, "fp32", False))
    assert {problem.kind for problem in found} == {"depthwise backward input", "depthwise backward weight"}
    assert sum(problem.count for problem in found) == 2 * 17
    for kind in ("input", "weight"):
        problem = next(p for p in found if p.kind.endswith(kind) and "stride 2" in p.shape)
        setups = list(problem.setups())
        assert [setup.layout for setup in setups] == [*LAYOUTS]
        for setup in setups:
            is_right(problem, setup)
    c = setups[0].given["x"].shape[1]
    assert setups[0].given["out"].shape == (c, 1, 3, 3) and setups[0].want.shape == (c, 1, 3, 3)


def test_gradients_are_those_of_autograd(model):
    """The references, from another side."""
    import torch

    steps = fuse(model.graph.with_batch(1))
    by_kind = {p.kind: p for p in problems.gradients(steps, BATCH, "fp32", False) if "stride 2" in p.shape}
    to_input = next(by_kind["depthwise backward input"].setups())
    to_weight = next(by_kind["depthwise backward weight"].setups())
    shape, groups = to_weight.given["x"].shape, to_weight.given["x"].shape[1]
    x = torch.from_numpy(cuda.asnumpy(to_weight.given["x"])).double().requires_grad_()
    weight = torch.from_numpy(cuda.asnumpy(to_input.given["weight"])).double().requires_grad_()
    torch.nn.functional.conv2d(x, weight, stride=2, padding=1, groups=groups).backward(
        torch.from_numpy(cuda.asnumpy(to_input.given["grad"])).double()
    )
    assert tuple(to_input.given["input_shape"]) == shape
    torch.testing.assert_close(to_input.want.cpu(), x.grad)
    torch.testing.assert_close(to_weight.want.cpu(), weight.grad)


# ---- What is timed


US = {"naive": 100.0, "fast": 20.0, "conv2d/naive": 400.0, "cudnn": 50.0}


@pytest.fixture
def rungs(monkeypatch):
    """Two operators with rungs that add 1 to x, and what they do instead, by name; times are those of US."""
    instead = {}
    ladders = {"pointwise": ["naive", "fast", "newer"], "conv2d": ["naive"]}

    def run(operator, x, *args, out, variant, **more):
        change = instead.get((operator, variant), lambda out: None)
        out[...] = x + 1
        change(out)

    monkeypatch.setattr(kernels, "OPERATORS", tuple(ladders))
    monkeypatch.setattr(
        kernels, "variants",
        lambda operator, dtype=None, layout=None: [v for v in ladders[operator] if (v, layout) != ("fast", "NCHW")],
    )  # fmt: skip
    monkeypatch.setattr(kernels, "requires", lambda operator, variant: 120 if variant == "newer" else 75)
    words = {("fast", "fp16"): ARITHMETIC["fp16"], ("naive", "fp16"): FP16_ON_FMA}
    monkeypatch.setattr(
        kernels, "arithmetic", lambda operator, variant, precision: words.get((variant, precision), ARITHMETIC["fp32"])
    )
    for operator in ladders:
        monkeypatch.setattr(kernels, operator, functools.partial(run, operator), raising=False)
    monkeypatch.setattr(
        suite, "timed", lambda subjects, samples: {s: timed_as(US[s.name]) for s in subjects}
    )  # fmt: skip
    return instead


def timed_as(us):
    return Timing(us, 0.9 * us, 1.1 * us, 10, 20, "graph", "hot")


def problem(kind="expand", count=3, precision="fp16", batch=1):
    import torch

    def setups():
        for layout in LAYOUTS:
            x, out, want = (cuda.full((1, 4, 4, 4), value, np.float16) for value in (1, 0, 2))
            given = dict.fromkeys(ARGUMENTS["conv2d"][0] + ARGUMENTS["conv2d"][1]) | {"x": x, "out": out}
            peers = {"cudnn": lambda out=out: out.fill(2)}
            yield Setup(layout, given, torch.from_dlpack(want).double(), 4, peers, "a plan")

    work = Work(1_000_000, 2_000_000)
    return Problem(kind, "4×4 4>4", count, batch, precision, work, ("pointwise", "conv2d"), setups)


def test_records_say_all_that_they_must(rungs, said, tmp_path):
    records, right = suite.measure(problem(), suite.Options(), said)
    assert right and text(said) == ""
    found = [(r["implementation"], r["layout"], r["operator"], r["order"], r["arithmetic"]) for r in records]
    assert found == [
        ("naive", "NCHW", "pointwise", 1, FP16_ON_FMA), ("conv2d/naive", "NCHW", "conv2d", 1, FP16_ON_FMA),
        ("cudnn", "NCHW", "pointwise", 4, ARITHMETIC["fp16"]), ("naive", "NHWC", "pointwise", 1, FP16_ON_FMA),
        ("fast", "NHWC", "pointwise", 2, ARITHMETIC["fp16"]), ("conv2d/naive", "NHWC", "conv2d", 1, FP16_ON_FMA),
        ("cudnn", "NHWC", "pointwise", 4, ARITHMETIC["fp16"]),
    ]  # fmt: skip
    assert {(r["case"], r["kind"], r["shape"], r["count"]) for r in records} == {
        ("expand 4×4 4>4", "expand", "4×4 4>4", 3)
    }
    assert [r.get("plan") for r in records if r["implementation"] == "cudnn"] == ["a plan"] * 2
    results.save(tmp_path / "card", "r1", {"card": "x", "date": "2031-02-03"}, records)


def test_a_wrong_rung_is_told_and_not_timed(rungs, said):
    rungs["pointwise", "fast"] = lambda out: out.__setitem__((0, 3, 2, 1), 2.1)
    records, right = suite.measure(problem(), suite.Options(), said)
    assert not right and "fast" not in {r["implementation"] for r in records} and len(records) == 6
    assert text(said).startswith("expand 4×4 4>4, batch 1, fp16: fast NHWC is wrong, not timed: an error of ")


@pytest.mark.parametrize("nan", [0, -1])
def test_one_number_that_is_not_written_is_wrong(rungs, said, nan):
    rungs["pointwise", "naive"] = lambda out: out.reshape(-1).__setitem__(nan, np.nan)
    records, right = suite.measure(problem(), suite.Options(), said)
    assert not right and {r["implementation"] for r in records} == {"fast", "conv2d/naive", "cudnn"}


def test_a_rung_that_fails_leaves_the_others_their_times(rungs, said):
    def fail(out):
        raise ValueError("out: too [large]")

    rungs["conv2d", "naive"] = fail
    records, right = suite.measure(problem(), suite.Options(), said)
    assert not right and len(records) == 5
    assert "conv2d/naive NCHW fails: out: too [large]" in text(said)


def test_a_timing_that_fails_is_told(rungs, said, monkeypatch):
    def fail(subjects, samples):
        raise RuntimeError("cudaErrorStreamCaptureUnsupported")

    monkeypatch.setattr(suite, "timed", fail)
    assert suite.measure(problem(), suite.Options(), said) == ([], False)
    assert "timing fails: cudaErrorStreamCaptureUnsupported" in text(said)


def test_operators_and_layouts_that_are_asked_for(rungs, said):
    def names(**options):
        return [(r["implementation"], r["layout"]) for r in suite.measure(problem(), suite.Options(**options), said)[0]]

    assert names(operators=("conv2d",), layouts=("NHWC",)) == [("conv2d/naive", "NHWC"), ("cudnn", "NHWC")]
    assert names(layouts=("NCHW",)) == [("naive", "NCHW"), ("conv2d/naive", "NCHW"), ("cudnn", "NCHW")]


def test_an_operator_that_is_not_there_has_no_rungs(rungs, said, monkeypatch):
    monkeypatch.setattr(kernels, "OPERATORS", ("conv2d",))
    records, right = suite.measure(problem(), suite.Options(), said)
    assert right and {r["implementation"] for r in records} == {"conv2d/naive", "cudnn"}
    assert suite.wanted(suite.Options(), "pointwise", "conv2d") and not suite.wanted(suite.Options(), "pointwise")


def test_what_is_slow_is_timed_by_itself(monkeypatch):
    class Timed:
        def __init__(self, us):
            self.launch = us

    alone = []
    monkeypatch.setattr(timing, "once", lambda launch: launch)
    monkeypatch.setattr(timing, "time", lambda launch, samples: alone.append((launch, samples)) or timed_as(launch))
    compared = []

    def compare(launches, samples):
        compared.append((list(launches.values()), samples))
        return {name: timed_as(us) for name, us in launches.items()}

    monkeypatch.setattr(timing, "compare", compare)
    ones = [Timed(3.0), Timed(20_001.0), Timed(20_000.0)]
    made = suite.timed(ones, 12)
    assert {one: made[one].median_us for one in ones} == {one: one.launch for one in ones}
    assert compared == [([3.0, 20_000.0], 12)] and alone == [(20_001.0, 5)]
    assert suite.timed([ones[1]], 12)[ones[1]].median_us == 20_001.0 and len(compared) == 1


@pytest.mark.parametrize(
    ("text", "fp32", "fp16"),
    [
        ("acc += a * b;", ARITHMETIC["fp32"], FP16_ON_FMA),
        ("mma_f16(acc, a, b);", ARITHMETIC["fp32"], ARITHMETIC["fp16"]),
        ("wgmma<BN, true>(acc, a, b, 64);", ARITHMETIC["fp32"], ARITHMETIC["fp16"]),
        ("mma_tf32(acc, a, b);", ARITHMETIC["3xtf32"], FP16_ON_FMA),
        (None, ARITHMETIC["3xtf32"], ARITHMETIC["fp16"]),
    ],
)
def test_the_arithmetic_of_a_rung(tmp_path, text, fp32, fp16):
    """Its text says which wrappers it calls; None: it is composed of other operators and has no file of its own."""
    if text is not None:
        (tmp_path / "1_any.cu").write_text(text)
    ladder = Ladder(str(tmp_path / "__init__.py"), {"any": Rung(composed=text is None)})
    assert ladder.arithmetic("any", "fp32") == fp32
    assert ladder.arithmetic("any", "fp16") == fp16
    with pytest.raises(ValueError, match=r"variant must be one of .'any'., got 'other'"):
        ladder.arithmetic("other", "fp32")


@pytest.mark.parametrize(("capability", "fp32"), [(75, "fp32"), (80, "3xtf32"), (89, "fp32"), (90, "3xtf32")])
def test_a_composed_rung_multiplies_as_the_product_that_it_launches(monkeypatch, capability, fp32):
    monkeypatch.setattr(cuda, "compute_capability", lambda: capability)
    assert kernels.arithmetic("conv2d", "im2col_gemm", "fp32") == ARITHMETIC[fp32]
    assert kernels.arithmetic("conv2d", "im2col_gemm", "fp16") == ARITHMETIC["fp16"]


# ---- The whole suite


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A results file of its own."""
    path = tmp_path / "card"
    monkeypatch.setattr(
        environment, "environment", lambda watch=None: {"card": "x", "date": "2031-02-03", "commit": "c0ffee"}
    )
    monkeypatch.setattr(results, "path_of", lambda gpu, folder=None: path)
    return path


@pytest.fixture
def faked(rungs, monkeypatch, card, model):
    """One problem a batch and precision, and no GPU."""
    monkeypatch.setattr(suite, "on_stream", contextlib.nullcontext)
    monkeypatch.setattr(suite.Model, "of", lambda *_: model)
    asked = []

    def one(model, batch, precision, options):
        asked.append((batch, precision))
        yield problem(batch=batch, precision=precision)

    monkeypatch.setattr(suite, "all_problems", one)
    monkeypatch.setattr(suite, "allowed", lambda precision, k: 2e-3)
    return asked


def test_the_whole_suite(faked, said, card):
    assert suite.bench(suite.Options(batches=(1, 32), save=True), said)
    assert faked == [(1, "fp32"), (1, "fp16"), (32, "fp32"), (32, "fp16")]
    content = results.load(card)
    assert len(content.records) == 4 * 7 and list(content.runs) == ["2031-02-03-kernels-c0ffee"]
    shown = text(said)
    assert (
        "expand 4×4 4>4, batch 1, fp32: fast NHWC 20.00 µs, cudnn NCHW 50.00 µs (2.50×), 7 timed" in shown.splitlines()
    )
    assert "pointwise 1×1" in shown and "2.50×" in shown and "saved as 2031-02-03-kernels-c0ffee in" in shown


def test_rungs_that_are_there_no_more_leave_no_records(faked, rungs, said, card):
    suite.bench(suite.Options(batches=(1, 32), precisions=("fp16",), save=True), said)
    old = [r for r in results.load(card).records if r["implementation"] == "fast" and r["batch"] == 1]
    renamed = [
        {**old[0], "implementation": "older"},
        {**old[0], "implementation": "conv2d/older", "operator": "conv2d"},
    ]
    results.save(card, "r0", {"card": "x", "date": "2030-01-01"}, renamed)
    rungs["pointwise", "fast"] = lambda out: out.fill(0)  # wrong now
    assert not suite.bench(suite.Options(operators=("pointwise",), batches=(1,), precisions=("fp16",), save=True), said)
    left = {(r["implementation"], r["batch"]) for r in results.load(card).records}
    assert ("fast", 1) not in left and ("older", 1) not in left and ("fast", 32) in left
    assert ("conv2d/older", 1) in left and ("conv2d/naive", 1) in left  # nobody asked for these


def test_a_wrong_result_is_the_outcome(faked, rungs, said):
    rungs["pointwise", "fast"] = lambda out: out.fill(0)
    assert not suite.bench(suite.Options(batches=(1,)), said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operators": ("depthwize",)}, "operator must be one of add, global_avg_pool, gemm, .* got 'depthwize'"),
        ({"precisions": ("tf32",)}, "precision must be one of fp32, fp16, int8, got 'tf32'"),
        ({"layouts": ("nchw",)}, "layout must be one of NCHW, NHWC, got 'nchw'"),
    ],
)
def test_options_that_there_are_not(options, message):
    with pytest.raises(ValueError, match=message):
        suite.Options(**options)


def test_nothing_is_timed_on_the_simulator(monkeypatch, said):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    with pytest.raises(graphs.NoGpu):
        suite.bench(suite.Options(), said)


def test_which_problems_there_are(model, monkeypatch):
    ran = []
    monkeypatch.setattr(suite, "programs", lambda *arguments: ran.append(arguments[1]) or {})
    monkeypatch.setattr(suite.problems, "network", lambda programs, batch, precision: iter(()))

    def kinds(batch, **options):
        return {p.kind for p in suite.all_problems(model, batch, "fp32", suite.Options(**options))}

    gradients = {"depthwise backward input", "depthwise backward weight"}
    every = {"add", "inverted residual"}
    assert kinds(1) == every | {"gemm", "conv 3×3"}
    assert kinds(32) == every | {"conv 3×3"} | gradients
    assert kinds(256) == every and ran == [1, 32, 256]
    assert kinds(32, batches=(32,), operators=("add",)) == every | {"gemm", "conv 3×3"} | gradients
    assert ran == [1, 32, 256]  # the network is not built for what it does not compute


# ---- Recorded


def test_recorded_rungs_are_rungs_of_today():
    """A rung that was renamed or removed leaves no record in the results file of the course."""
    rungs = [r for r in results.load(tables.CARD).suite("kernels") if r["implementation"] not in tables.LIBRARIES]
    assert {r["operator"] for r in rungs} >= {"add", "conv2d", "depthwise", "pointwise"}
    for r in rungs:
        dtype = (problems.DTYPES | {"int8": np.dtype(np.int8)})[r["precision"]]
        name = r["implementation"].split("/")[-1]
        assert name in kernels.variants(r["operator"], dtype, r["layout"]), r["implementation"]
        assert kernels.variants(r["operator"]).index(name) + 1 == r["order"]


@on_gpu
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_few_problems_on_a_gpu(model, said, monkeypatch, precision):
    monkeypatch.setattr(suite.Model, "of", lambda *_: model)
    operators = ("depthwise", "add", "depthwise_backward_weight", "inverted_residual")
    options = suite.Options(operators=operators, batches=(2,), precisions=(precision,), samples=6, tune=False)
    right = suite.bench(options, said)
    print(text(said))
    assert right and "depthwise 33×33" in text(said)
