"""Judge small functions of a learner's plan.py and engine.py one by one, on layers and steps made for it (chapter 05).

Step.inputs, kernel_of and joins: what they have to answer follows from the kernels of chapter 04. And the steps of fuse
beside those that the rules of the notebook give. Of engine.py parameters, arguments and resized, before the rest of it
is written.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import cuda, topology
from .cases import shortcuts
from .matching import Flaw, as_list, as_python, errors_located


@dataclass
class Layer:
    """A layer as an engine's graph has it, without names of weights."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    shape: tuple[int, ...] = (1, 16, 8, 8)


# ---- Step.inputs

INPUTS: tuple[tuple[str, tuple[Layer, ...], list[str]], ...] = (
    ("a convolution alone", (Layer("Conv2d", ["x"], "a"),), ["x"]),
    ("Conv2d + ReLU", (Layer("Conv2d", ["x"], "a"), Layer("ReLU", ["a"], "b")), ["x"]),
    (
        "Conv2d + ResidualAdd + ReLU",
        (Layer("Conv2d", ["x"], "a"), Layer("ResidualAdd", ["r", "a"], "b"), Layer("ReLU", ["b"], "c")),
        ["x", "r"],
    ),
    (
        "Conv2d + ResidualAdd, of one tensor",
        (Layer("Conv2d", ["x"], "a"), Layer("ResidualAdd", ["a", "x"], "b")),
        ["x", "x"],
    ),
    ("ResidualAdd, alone", (Layer("ResidualAdd", ["r", "x"], "a"),), ["r", "x"]),
    ("ResidualAdd, of one tensor", (Layer("ResidualAdd", ["x", "x"], "a"),), ["x", "x"]),
)  # fmt: skip


def judge_inputs(plan: Any) -> str:
    """Check Step.inputs. Returns what was tried, in words; raises Flaw."""
    for name, layers, expected in INPUTS:
        with errors_located():
            found = as_list(plan.Step("pointwise", list(layers)).inputs, "inputs")
        if found != expected:
            raise Flaw(f"inputs: a step of {name}, {_chain(layers)}: {found}, expected {expected}")
    return f"{len(INPUTS)} steps"


def _chain(layers: Sequence[Layer]) -> str:
    return ", ".join(f"{layer.op} {' '.join(layer.inputs)} → {layer.output}" for layer in layers)


# ---- kernel_of


@dataclass(frozen=True)
class Convolution:
    """A convolution, the kernel that has to compute it, or why none can.

    weight: its shape (out_channels, in_channels / groups, kH, kW).
    """

    what: str
    kernel: str
    weight: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    why: str = ""


AROUND = ((1, 1), (1, 1))
UNDILATED, ONE_STRIDE = "no kernel has a dilation", "every kernel has one stride for both directions"
SQUARE = "every kernel's window is square"
ONE_BY_ONE, THREE, DEEP = (24, 16, 1, 1), (24, 16, 3, 3), (16, 1, 3, 3)
CONVOLUTIONS = (
    Convolution("a 1×1 convolution", "pointwise", ONE_BY_ONE),
    Convolution("a 1×1 convolution with stride 2", "conv", ONE_BY_ONE, (2, 2)),
    Convolution("a padded 1×1 convolution", "conv", ONE_BY_ONE, padding=AROUND),
    Convolution("a 3×3 convolution", "conv", THREE, padding=AROUND),
    Convolution("a convolution padded at the bottom and the right alone", "conv", THREE, (2, 2), ((0, 1), (0, 1))),
    Convolution("a convolution padded by 1, at the right by 2", "conv", THREE, padding=((1, 1), (1, 2))),
    Convolution("a depthwise convolution", "depthwise", DEEP, padding=AROUND, groups=16),
    Convolution("a 5×5 depthwise convolution with stride 2", "depthwise", (16, 1, 5, 5), (2, 2), groups=16),
    Convolution("a 1×1 depthwise convolution", "depthwise", (16, 1, 1, 1), groups=16),
    Convolution("a dilated convolution", "", THREE, dilation=(2, 2), why=UNDILATED),
    Convolution("a dilated convolution", "", THREE, dilation=(1, 2), why=UNDILATED),
    Convolution("a dilated depthwise convolution", "", DEEP, dilation=(2, 2), groups=16, why=UNDILATED),
    Convolution("a convolution", "", (24, 8, 3, 3), groups=2, why="no kernel has two groups"),
    Convolution("a 1×1 convolution", "", (24, 8, 1, 1), groups=2, why="no kernel has two groups"),
    Convolution("a convolution", "", (32, 1, 3, 3), groups=16, why="depthwise writes as many channels as it reads"),
    Convolution("a convolution", "", (16, 2, 3, 3), groups=16, why="depthwise reads as many channels as it writes"),
    Convolution("a convolution", "", (24, 16, 3, 1), why=SQUARE),
    Convolution("a depthwise convolution", "", (16, 1, 1, 3), groups=16, why=SQUARE),
    Convolution("a convolution", "", THREE, (2, 1), why=ONE_STRIDE),
    Convolution("a 1×1 convolution", "", ONE_BY_ONE, (1, 2), why=ONE_STRIDE),
    Convolution("a convolution", "", THREE, padding=((1, 1), (0, 0)), why="every kernel pads alike at top and left"),
)  # fmt: skip


def judge_kernel_of(plan: Any) -> str:
    """Check kernel_of on convolutions. Returns what was tried, in words; raises Flaw."""
    for one in CONVOLUTIONS:
        given = {"stride": one.stride, "padding": one.padding, "dilation": one.dilation, "groups": one.groups}
        layer = Layer("Conv2d", ["x"], "a", given, {"weight": "w"})
        arrays = {"a": {"weight": np.zeros(one.weight, np.float32)}}
        with errors_located():
            try:
                found = plan.kernel_of(layer, arrays)
            except ValueError:
                found = ""
        if found != one.kernel or not isinstance(found, str):
            details = ", ".join(f"{name} {value}" for name, value in given.items())
            said = "raises ValueError" if found == "" else f"returns {found!r}"
            expected = repr(one.kernel) if one.kernel else f"ValueError, as {one.why}"
            raise Flaw(f"kernel_of {said} for {one.what} ({details}, weight {one.weight}), expected {expected}")
    return f"{len(CONVOLUTIONS)} convolutions"


# ---- joins

BOUNDED = "nothing follows an activation: a kernel has one pair of bounds, and applies it last"
JOINS: tuple[tuple[str, str, str, str], ...] = (  # kernel, ops of the step, op that follows, why it cannot join or ""
    ("pointwise", "Conv2d", "ReLU6", ""),
    ("pointwise", "Conv2d", "ResidualAdd", ""),
    ("pointwise", "Conv2d ResidualAdd", "ReLU", ""),
    ("conv", "Conv2d", "ReLU", ""),
    ("depthwise", "Conv2d", "ReLU6", ""),
    ("depthwise", "BatchNorm2d", "ReLU", ""),
    ("pointwise", "Conv2d ReLU", "ResidualAdd", BOUNDED),
    ("pointwise", "Conv2d ResidualAdd ReLU6", "ResidualAdd", BOUNDED),
    ("conv", "Conv2d ReLU", "ReLU6", BOUNDED),
    ("pointwise", "Conv2d ResidualAdd ReLU", "ReLU6", BOUNDED),
    ("depthwise", "ReLU", "ReLU6", BOUNDED),
    ("pointwise", "Conv2d ResidualAdd", "ResidualAdd", "pointwise reads one residual"),
    ("conv", "Conv2d", "ResidualAdd", "conv reads no residual"),
    ("depthwise", "Conv2d", "ResidualAdd", "depthwise reads no residual"),
    ("add", "ResidualAdd", "ReLU", "add has no epilogue"),
    ("gemm", "Linear", "ReLU", "gemm has no epilogue"),
    ("pool", "GlobalAveragePool", "ReLU6", "pool has no epilogue"),
    ("pointwise", "Conv2d", "Conv2d", "a convolution is no epilogue"),
    ("conv", "Conv2d", "BatchNorm2d", "no epilogue has a scale per channel"),
)


def judge_joins(plan: Any) -> str:
    """Check joins on steps and layers. Returns what was tried, in words; raises Flaw."""
    for kernel, ops, op, why in JOINS:
        layers: list[Layer] = []
        for one in (*ops.split(), op):
            others = [f"r{len(layers)}"] if one == "ResidualAdd" else []
            layers.append(Layer(one, [f"t{len(layers)}", *others], f"t{len(layers) + 1}"))
        with errors_located():
            found = plan.joins(layers[-1], plan.Step(kernel, layers[:-1]))
        if bool(found) != (not why):
            step = f"a {op} after a step of {kernel}, {ops.replace(' ', ' + ')}"
            raise Flaw(f"joins returns {found!r} for {step}, expected {not why}" + (f": {why}" if why else ""))
    return f"{len(JOINS)} pairs of a step and a layer"


# ---- fuse


def judge_fused(graph: Any, arrays: Any, steps: Sequence[Any]) -> None:
    """Check the steps of fuse beside those that the notebook's rules give for the graph. Raises Flaw.

    steps: in order; each layer of the graph is in one of them.
    """
    reference = importlib.import_module(".reference.engine.plan", __package__)
    layers = [
        Layer(one.op, list(one.inputs), one.output, {name: as_python(value) for name, value in one.attributes.items()})
        for one in graph.layers
    ]
    expected = reference.fuse(SimpleNamespace(output=graph.output, input=graph.input, layers=layers), arrays)
    for number, (step, one) in enumerate(zip(steps, expected, strict=False)):
        own, ops = (" + ".join(layer.op for layer in each.layers) for each in (step, one))
        if [layer.output for layer in step.layers] != [layer.output for layer in one.layers]:
            wanted = f"{ops}, which writes {one.output!r}"
            raise Flaw(f"fuse: step {number} is {own}, which writes {step.layers[-1].output!r}, expected {wanted}")
        if step.kernel != one.kernel:
            raise Flaw(f"fuse: step {number} ({own}) has the kernel {step.kernel!r}, expected {one.kernel!r}")


# ---- engine.py: parameters, arguments, resized


def judge_parameters(engine: Any, _: Any) -> str:
    """Check parameters on four layers. Returns what was tried, in words; raises Flaw."""
    random = np.random.default_rng(5)
    arrays = {role: random.uniform(0.5, 2, 16).astype(np.float32) for role in ("gamma", "beta", "mean", "var")}
    scale = arrays["gamma"].astype(np.float64) / np.sqrt(arrays["var"].astype(np.float64) + 0.25)
    shift = arrays["beta"] - arrays["mean"] * scale
    weight, bias = random.standard_normal((16, 1, 3, 3), dtype=np.float32), np.arange(16, dtype=np.float32)
    norm = ("gamma / sqrt(var + eps), of shape (channels, 1, 1, 1)", "beta − mean · gamma / sqrt(var + eps)")
    cases: tuple[tuple[Layer, dict[str, np.ndarray], tuple[np.ndarray, np.ndarray], tuple[str, str]], ...] = (
        (Layer("ReLU", ["x"], "a"), {}, (np.ones((16, 1, 1, 1)), np.zeros(16)), ("1", "0")),
        (Layer("Conv2d", ["x"], "a"), {"weight": weight}, (weight, np.zeros(16)), ("the file's", "0")),
        (Layer("Conv2d", ["x"], "a"), {"weight": weight, "bias": bias}, (weight, bias), ("the file's", "the file's")),
        (Layer("BatchNorm2d", ["x"], "a", {"eps": 0.25}), arrays, (scale.reshape(-1, 1, 1, 1), shift), norm),
    )
    for layer, given, wanted, words in cases:
        with errors_located():
            pair = [cuda.asnumpy(one) for one in engine.parameters(layer, dict(given))]
        for role, found, expected, word in zip(("weight", "bias"), pair, wanted, words, strict=True):
            if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-5, atol=1e-6):
                numbers = f"{_first(found)}, expected {_first(expected)}"
                raise Flaw(f"parameters: the {role} of a {layer.op} is not {word}: {numbers}")
    return f"{len(cases)} layers"


def _first(array: np.ndarray) -> str:
    return f"shape {array.shape}, first {array.ravel()[0]:.4g}" if array.size else f"shape {array.shape}"


ADD = ("a", "b", "out", "n")
POINTWISE = (
    "in", "weight", "bias", "residual", "out", "low", "high", "images", "in_channels", "out_channels", "area",
)  # fmt: skip


def judge_arguments(engine: Any, plan: Any) -> str:
    """Check arguments on steps of add and pointwise. Returns what was tried, in words; raises Flaw."""
    deep, wide = (2, 3, 4, 5), (2, 7, 4, 5)
    shapes = {"x": deep, "r": wide, "s": deep, "a": wide, "b": wide, "c": wide, "sum": deep}
    tensors = {name: cuda.empty(shape, np.float32) for name, shape in shapes.items()}
    weight, bias = cuda.empty((7, 3, 1, 1), np.float32), cuda.empty(7, np.float32)
    plain = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    conv = Layer("Conv2d", ["x"], "a", plain, shape=wide)
    added = [conv, Layer("ResidualAdd", ["r", "a"], "b", shape=wide)]
    begin, end, free = ("x", weight, bias), (2, 3, 7, 20), (-np.inf, np.inf)
    steps: tuple[tuple[str, list[Layer], tuple[Any, ...]], ...] = (
        ("add", [Layer("ResidualAdd", ["x", "s"], "sum", shape=deep)], ("x", "s", "sum", 120)),
        ("pointwise", [conv], (*begin, None, "a", *free, *end)),
        ("pointwise", [conv, Layer("ReLU6", ["a"], "b", shape=wide)], (*begin, None, "b", 0, 6, *end)),
        ("pointwise", added, (*begin, "r", "b", *free, *end)),
        ("pointwise", [*added, Layer("ReLU", ["b"], "c", shape=wide)], (*begin, "r", "c", 0, np.inf, *end)),
    )
    for kernel, layers, wanted in steps:
        given = (None, None) if kernel == "add" else (weight, bias)
        with errors_located():
            found = as_list(engine.arguments(plan.Step(kernel, layers), shapes, tensors, *given), "arguments")
        names = ADD if kernel == "add" else POINTWISE
        label = f"arguments of {kernel}, for {_chain(layers)}"
        if len(found) != len(names):
            raise Flaw(f"{label}: {len(found)} arguments, expected {len(names)}: {', '.join(names)}")
        known = {id(tensor): f"the tensor {name!r}" for name, tensor in tensors.items()}
        known |= {id(weight): "the weight", id(bias): "the bias"}
        for name, one, expected in zip(names, found, wanted, strict=True):
            right = tensors[expected] if isinstance(expected, str) else expected
            if not (one is right or (isinstance(right, int | float) and np.isscalar(one) and one == right)):
                told = [known.get(id(each), repr(each) if np.isscalar(each) or each is None else "another array")
                        for each in (one, right)]  # fmt: skip
                raise Flaw(f"{label}: {name} is {told[0]}, expected {told[1]}")
    return f"{len(steps)} steps"


def judge_resized(engine: Any, _: Any) -> str:
    """Check resized on a small network. Returns what was tried, in words; raises Flaw."""
    model = topology.write_onnx(*shortcuts())
    before = model.SerializeToString()
    n, channels, height, width = (dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    wanted = (n + 1, channels, height + 2, width + 3)
    with errors_located():
        copy = engine.resized(model, wanted)
    if model.SerializeToString() != before:
        raise Flaw("resized changes the model that it gets, expected that it changes a copy")
    if not hasattr(copy, "graph"):
        raise Flaw(f"resized returns {copy!r}, expected the copy, an onnx.ModelProto")
    found = tuple(dim.dim_value for dim in copy.graph.input[0].type.tensor_type.shape.dim)
    if found != wanted:
        raise Flaw(f"resized: the copy's input has the shape {found}, expected {wanted}")
    with errors_located():
        try:
            engine.resized(model, (n, channels + 1, height, width))
        except ValueError:
            return "a network with many shortcuts"
    raise Flaw(f"resized raises no error, expected a ValueError for {channels + 1} channels: the model has {channels}")
