"""An engine's layers beside the expected ones: which layer is which, whose arrays are right, what they compute.

An error of the engine is a Flaw, a sentence for the learner.
"""

import contextlib
import linecache
import math
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import topology
from ..topology import BatchNorm2d, Conv2d, Graph, Layer, Linear, MaxPool2d
from . import engine

TOLERANCE = 1e-6  # relative error of a folded network against the unfolded one, both computed in float64

# the attributes that an engine's layer must have, by kind
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "Conv2d": ("stride", "padding", "dilation", "groups"),
    "MaxPool2d": ("kernel_size", "stride", "padding"),
    "BatchNorm2d": ("eps",),
}
# an array's role in an engine → the field of topology's layer that holds its name
ROLES: dict[str, dict[str, str]] = {
    "Conv2d": {"weight": "weight", "bias": "bias"},
    "Linear": {"weight": "weight", "bias": "bias"},
    "BatchNorm2d": {"gamma": "weight", "beta": "bias", "mean": "running_mean", "var": "running_var"},
}


class Flaw(Exception):
    """An engine's error, as a sentence for the learner."""


@contextlib.contextmanager
def errors_located():
    """Inside, an exception in the engine's code becomes a Flaw that names the file and quotes the line."""
    try:
        yield
    except Flaw:
        raise
    except (Exception, SystemExit) as error:
        raise Flaw(located(error)) from None


def located(error: BaseException) -> str:
    """An exception as a sentence with the file and line of the engine that raised it, if it was the engine."""
    if isinstance(error, engine.NotWrittenError):
        return str(error)
    if message := engine.unwritten(error):
        return message
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '').name}, line {error.lineno}: {text}"
    folders = {str(Path(path)) for path in getattr(sys.modules.get("engine"), "__path__", [])}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if str(Path(f.filename).parent) in folders]
    if not frames:
        return text
    frame = frames[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{Path(frame.filename).name}, line {frame.lineno}: `{line}`: {text}"


# ---- Which layer is which


def stored_names(model: Any) -> dict[str, str]:
    """{further name of an array: its name in the file}, for the names that Identity nodes give."""
    writers = {name: node for node in model.graph.node for name in node.output}
    names: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type == "Identity":
            source = names.get(node.input[0], node.input[0])
            if source not in writers or writers[source].op_type == "Constant":
                names[node.output[0]] = source
    return names


def expected_layers(model: Any) -> tuple[Graph, dict[str, np.ndarray]]:
    """The layers of a model and their parameters, both by the names under which the file stores the arrays."""
    graph, parameters = topology.read_onnx_with_parameters(model)
    stored = stored_names(model)
    layers = []
    for layer in graph:
        fields = [name for name in ROLES.get(type(layer).__name__, {}).values() if getattr(layer, name) is not None]
        layers.append(replace(layer, **{name: stored.get(found := getattr(layer, name), found) for name in fields}))
    arrays = {stored.get(name, name): array for name, array in parameters.items()}
    return replace(graph, layers=tuple(layers)), arrays


@dataclass
class Match:
    """Pairs (engine's layer, expected layer), and the flaws found while pairing."""

    pairs: list[tuple[Any, Layer]] = field(default_factory=list)
    flaws: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)  # outputs of the expected layers that have a flaw

    def flaw(self, sentence: str, *layers: Layer) -> None:
        """Add a flaw and mark the expected layers that it concerns."""
        self.flaws.append(sentence)
        self.wrong.update(layer.output for layer in layers)


def match(theirs: Any, wanted: Graph) -> Match:
    """Pair each layer of an engine's graph with the expected layer, independent of names.

    Layers with weights are matched by the weight's name in the file, others by their inputs.
    Raises Flaw if the graph lacks the attributes that engine_files.py requires.
    """
    for attribute in ("input", "input_shape", "output", "layers"):
        if not hasattr(theirs, attribute):
            raise Flaw(f"graph.read returns {kind_of(theirs)} without `{attribute}`")
    found = Match()
    known = {theirs.input: wanted.input}  # the engine's name of an activation → the expected graph's
    left = list(wanted.layers)
    for index, layer in enumerate(as_list(theirs.layers, "Graph.layers")):
        label = layer_name(layer, index)
        sources = as_list(layer.inputs, f"{label}: inputs")
        unknown = [name for name in sources if name not in known]
        if unknown:
            found.flaw(f"{label} reads {unknown[0]!r}, which no layer before it writes")
        place = tuple(known.get(name, "") for name in sources)
        best = max(left, key=lambda one: _likeness(layer, place, one), default=None)
        if best is None or not any(_likeness(layer, place, best)[:2]):
            found.flaw(_no_such_layer(label, layer, sources, left))
            continue
        left.remove(best)
        known[layer.output] = best.output
        found.pairs.append((layer, best))
        _compare(label, layer, place, best, found, known)
    for layer in left[:1]:
        found.flaw(f"{_expected(layer)} is missing ({len(left)} of {len(wanted)} layers are)", *left)
    if tuple(theirs.input_shape) != wanted.input_shape:
        found.flaw(f"Graph.input_shape is {tuple(theirs.input_shape)}, expected {wanted.input_shape}")
    if not found.flaws and known.get(theirs.output) != wanted.output:
        found.flaw(f"Graph.output is {theirs.output!r}, expected the output of the last layer")
    return found


def _no_such_layer(label: str, layer: Any, sources: list[str], left: list[Layer]) -> str:
    if layer.op == "ResidualAdd" and len(sources) < 2:
        return f"{label} reads {_names(sources)} only: the sum with a constant is a bias, not a layer"
    after = f", expected {_expected(left[0])}" if left else ""
    return f"{label} reads {_names(sources)}: the network has no such layer there{after}"


def _likeness(layer: Any, place: tuple[str, ...], one: Layer) -> tuple[bool, ...]:
    """Similarity of an engine's layer and an expected one, as flags in order of importance."""
    return (
        bool(layer.weights) and role_names(one).get("weight" if layer.op != "BatchNorm2d" else "gamma")
        in [name for role, name in layer.weights.items() if role in ("weight", "gamma")],
        same_sources(place, one),
        layer.op == type(one).__name__,
        layer.output == one.output,
    )  # fmt: skip


def same_sources(place: tuple[str, ...], one: Layer) -> bool:
    """Whether a layer reads these tensors; an addition may read them in any order."""
    commutes = type(one).__name__ == "ResidualAdd"
    return sorted(place) == sorted(one.inputs) if commutes else place == one.inputs


def _compare(
    label: str, layer: Any, place: tuple[str, ...], one: Layer, found: Match, known: Mapping[str, str]
) -> None:
    """Record the flaws of an engine's layer that is paired with the expected layer `one`."""
    kind = type(one).__name__
    if layer.op != kind:
        found.flaw(f"{label}: op is {layer.op!r}, expected {kind!r}", one)
        return
    if not same_sources(place, one):
        names = {ours: their for their, ours in known.items()}
        expected = [names.get(name, name) for name in one.inputs]
        found.flaw(f"{label} reads {_names(layer.inputs)}, expected {_names(expected)}", one)
    for name in ATTRIBUTES.get(kind, ()):
        expected = getattr(one, name)
        if name not in layer.attributes:
            found.flaw(f"{label}: attributes has no {name!r}, expected {expected}", one)
        elif not _equal(layer.attributes[name], expected):
            found.flaw(f"{label}: {name} is {as_python(layer.attributes[name])}, expected {expected}", one)


def role_names(one: Layer) -> dict[str, str]:
    """The names of a layer's arrays in the model file, by role."""
    fields = ROLES.get(type(one).__name__, {})
    return {role: name for role, field in fields.items() if (name := getattr(one, field)) is not None}


def layer_name(layer: Any, index: int) -> str:
    """An engine's layer in words. Raises Flaw if it lacks an attribute that engine_files.py requires."""
    for attribute in ("op", "inputs", "output", "weights", "attributes", "shape", "macs", "bytes"):
        if not hasattr(layer, attribute):
            raise Flaw(f"layer {index} is {kind_of(layer)} without `{attribute}`")
    return f"layer {index} ({layer.op}, writes {layer.output!r})"


def _expected(layer: Layer) -> str:
    return f"the {type(layer).__name__} that writes {layer.output!r}"


def _names(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in names) or "nothing"


def kind_of(value: Any) -> str:
    """The type of a value, in words."""
    return "None" if value is None else f"a {type(value).__name__}"


def as_list(value: Any, what: str) -> list[Any]:
    """A value as a list. Raises Flaw, naming `what`, for one that cannot be iterated, and for a text."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise Flaw(f"{what} is {value!r}, expected a list")
    return list(value)


def as_python(value: Any) -> Any:
    """A value with lists and arrays converted to tuples, NumPy numbers to Python's."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(as_python(item) for item in value) if isinstance(value, list | tuple) else value


def number(value: Any, what: str) -> int | float:
    """A value as Python's number. Raises Flaw, naming `what`, for another one."""
    value = as_python(value)
    if not isinstance(value, int | float):
        raise Flaw(f"{what} is {value!r}, expected a number")
    return value


def _equal(value: Any, expected: Any) -> bool:
    value = as_python(value)
    if isinstance(expected, float):
        return isinstance(value, int | float) and math.isclose(value, expected, rel_tol=1e-6)
    return value == expected


# ---- Arrays


def compare_arrays(found: Match, arrays: Any, parameters: Mapping[str, np.ndarray]) -> tuple[int, list[str]]:
    """(number of correct arrays, a sentence for each wrong one).

    arrays: {layer output: {role: array}} of the engine; parameters: the expected arrays by name.
    """
    right, flaws = 0, []
    for layer, one in found.pairs:
        own = arrays.get(layer.output)
        if own is None and role_names(one):
            flaws.append(f"extract: no arrays for {layer.output!r}")
            continue
        for role, name in role_names(one).items():
            array = (own or {}).get(role)
            transposed = (getattr(layer, "attributes", None) or {}).get("transposed")
            flaw = _array_flaw(array, parameters[name], transposed if role == "weight" else None)
            flaws += [f"extract: the {role} of {layer.output!r} ({layer.op}) {flaw}"] if flaw else []
            right += not flaw
    return right, flaws


def _array_flaw(array: Any, expected: np.ndarray, transposed: bool | None = None) -> str:
    """What is wrong with an array; "" if nothing is. transposed: the engine's attribute, for a weight."""
    if array is None:
        return "is not there"
    array = np.asarray(array)
    if array.shape != expected.shape:
        text = f"has the shape {array.shape}, expected {expected.shape}"
        if array.T.shape != expected.shape or transposed is None:
            return text
        return text + (
            ": `transposed` is True, so transpose it"
            if transposed
            else ": you transposed it, but `transposed` is False"
        )
    if array.dtype.kind != "f":
        return f"is of type {array.dtype}, expected floating-point numbers"
    wrong = array.astype(np.float64) != expected.astype(np.float64)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        return f"is {float(array[at]):.6g} at {list(at)}, expected {float(expected[at]):.6g}; {wrong.mean():.0%} differ"
    return ""


def compare_outputs(left: Match, folded: Any, exact_graph: Graph, exact: Mapping[str, np.ndarray]) -> tuple[float, str]:
    """The error of the folded network in float64, and a sentence about the first layer that is off.

    Both are run layer by layer on the same random input: the exact one, and the engine's arrays in its layers.
    """
    x = np.random.RandomState(7).random_sample(exact_graph.input_shape) * 2 - 1
    outputs, theirs = {exact_graph.input: x}, {exact_graph.input: x}
    by_output = {one.output: layer for layer, one in left.pairs}
    error = 0.0
    for one in exact_graph:
        layer, names = by_output[one.output], role_names(one)
        own = folded.get(layer.output) or {}
        label = f"fold: the {layer.op} that writes {layer.output!r}"
        if names and layer.output not in folded:
            return math.inf, f"fold: `folded` has no entry for {layer.output!r}, the output of a {layer.op} that stays"
        for role, name in names.items():
            if own.get(role) is None:
                return math.inf, f"{label} has no {role}"
            if np.shape(own[role]) != exact[name].shape:
                return (
                    math.inf,
                    f"{label}: the {role} has the shape {np.shape(own[role])}, expected {exact[name].shape}",
                )
        arrays = {role: np.asarray(array, np.float64) for role, array in own.items() if array is not None}
        outputs[one.output] = compute(one, [outputs[n] for n in one.inputs], {r: exact[n] for r, n in names.items()})
        theirs[one.output] = compute(one, [theirs[n] for n in one.inputs], arrays)
        error = relative_error(theirs[one.output], outputs[one.output])
        if not error <= TOLERANCE:
            off = {role: relative_error(arrays[role], exact[name]) for role, name in names.items()}
            worst = max(off, key=lambda role: off[role] if off[role] == off[role] else math.inf, default="")
            detail = f": its {worst} is off by {off[worst]:.1e}" if worst else ""
            return (
                error,
                f"{label} differs from convolution and batch-norm by {error:.1e}, {TOLERANCE:.0e} allowed{detail}",
            )
    return error, ""


# ---- In float64


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """‖got − expected‖ / ‖expected‖ in the 2-norm; the absolute error where `expected` is 0."""
    size = float(np.linalg.norm(expected))
    return float(np.linalg.norm(got - expected)) / (size or 1.0)


def compute(layer: Layer, inputs: Sequence[np.ndarray], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compute a layer in float64. arrays: by role, in the shapes that engine_files.py prescribes."""
    x = inputs[0]
    match layer:
        case Conv2d():
            out = convolve(layer, x, arrays["weight"])
            return out + arrays["bias"].reshape(-1, 1, 1) if "bias" in arrays else out
        case BatchNorm2d():
            scale = arrays["gamma"] / np.sqrt(arrays["var"] + layer.eps)
            return x * scale.reshape(-1, 1, 1) + (arrays["beta"] - arrays["mean"] * scale).reshape(-1, 1, 1)
        case Linear():
            return x.reshape(len(x), -1) @ arrays["weight"].T + arrays.get("bias", 0.0)
        case topology.ReLU6():
            return np.clip(x, 0, 6)
        case topology.ReLU():
            return np.maximum(x, 0)
        case topology.HardSwish():
            return x * np.clip(x / 6 + 0.5, 0, 1)
        case topology.ResidualAdd():
            return x + inputs[1]
        case topology.Concat():
            return np.concatenate(inputs, axis=layer.dim)
        case topology.GlobalAveragePool():
            return x.mean((2, 3), keepdims=True)
        case MaxPool2d():
            return windows(layer, x, -math.inf).max((4, 5))
    raise TypeError(f"no case holds a {type(layer).__name__}")


def windows(layer: Conv2d | MaxPool2d, x: np.ndarray, around: float) -> np.ndarray:
    """The windows (N, C, oH, oW, kH, kW) of a convolution or pooling over x (N, C, H, W); around: padding value."""
    x = np.pad(x, ((0, 0), (0, 0), *layer.padding), constant_values=around)
    (kh, kw), (dh, dw), (sh, sw) = layer.kernel_size, layer.dilation, layer.stride
    extent = (dh * (kh - 1) + 1, dw * (kw - 1) + 1)
    return np.lib.stride_tricks.sliding_window_view(x, extent, (2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]


def convolve(layer: Conv2d, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution (N, O, oH, oW), without bias, of x (N, C, H, W) and weight (O, C/groups, kH, kW)."""
    patches = windows(layer, x, 0.0)
    n, channels, height, width, kh, kw = patches.shape
    groups = layer.groups
    patches = patches.reshape(n, groups, channels // groups, height, width, kh, kw)
    weight = weight.reshape(groups, -1, channels // groups, kh, kw)
    return np.einsum("ngchwyx,gocyx->ngohw", patches, weight, optimize=True).reshape(n, -1, height, width)
