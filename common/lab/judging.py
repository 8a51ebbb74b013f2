"""Judge a learner's engine on held-out cases: scores, and the first flaw in words.

`python -m common.lab.judging FOLDER CHAPTER FIRST RESULTS` judges the engine in FOLDER on the chapter's cases from
index FIRST on, and appends a line of JSON to the file RESULTS after each; milestones.py runs it as a child process.
"""

import contextlib
import importlib
import json
import linecache
import math
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper

from .. import topology, weights
from ..topology import BatchNorm2d, Conv2d, Graph, Layer, Linear, MaxPool2d
from . import engine
from .cases import CASES, Case, KernelCase
from .kernel_judging import judge_kernel

TOLERANCE = 1e-6  # relative error of a folded network against the unfolded one, both computed in float64

MEMORY = 8 << 30  # bytes of address space; libraries use up to half of it

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


@dataclass
class Outcome:
    """The result of a case: scores by column, and the first flaw in words ("" if there is none)."""

    case: str
    passed: bool
    scores: dict[str, float] = field(default_factory=dict)
    flaw: str = ""


def judge(chapter: int, case: Case | KernelCase, modules: Mapping[str, Any] | None = None) -> Outcome:
    """Run an engine on a case: the package `engine`, or `modules` by name. Never raises an Exception.

    modules: Python modules by name; kernels' texts by file.
    """
    try:
        if isinstance(case, KernelCase):
            with errors_located():
                source = modules[case.file] if modules else _engine_kernel(case.name)
            scores, flaws = judge_kernel(source, case.name)
            return Outcome(case.name, not flaws, scores, flaws[0] if flaws else "")
        if case.refused:
            return Outcome(case.name, not (flaw := _accepted(case.model(), modules)), {}, flaw)
        scores, flaws = _run_judge(chapter, case.model(), modules)
    except Flaw as flaw:
        return Outcome(case.name, False, {}, str(flaw))
    return Outcome(case.name, not flaws, scores, flaws[0] if flaws else "")


def _engine_kernel(name: str) -> str:
    """The text of a kernel of the package `engine`."""
    return getattr(importlib.import_module("engine.kernels"), name).source


def first_flaw(chapter: int, model: Any) -> str:
    """The first flaw of this session's engine on an onnx.ModelProto; "" if it has none.

    The model is judged like the held-out cases of the chapter's milestone. Never raises an Exception.
    """
    try:
        flaws = _run_judge(chapter, model)[1]
    except Flaw as flaw:
        return str(flaw)
    return flaws[0] if flaws else ""


def extract_flaw(model: Any) -> str:
    """The first flaw of this session's `weights.extract` on an onnx.ModelProto; "" if it has none.

    The arrays are judged like those of the held-out cases of milestone 2. Never raises an Exception.
    """
    wanted, parameters = expected_layers(model)
    try:
        with errors_located():
            read, own = (importlib.import_module(f"engine.{name}") for name in MODULES[2])
            theirs = read.read(model)
            found = match(theirs, wanted)
            if found.flaws:
                return f"graph.py: {found.flaws[0]}"
            arrays = own.extract(model, theirs)
            return _entries_flaw(theirs, arrays) or (compare_arrays(found, arrays, parameters)[1] or [""])[0]
    except Flaw as flaw:
        return str(flaw)


def to_array_flaw(tensors: Iterable[Any]) -> str:
    """The first onnx.TensorProto that this session's `weights.to_array` gets wrong, in words; "" if it gets all right.

    Arrays are compared with those of the package onnx, bit for bit; calling that package's function is a flaw.
    Never raises an Exception.
    """
    for tensor in tensors:
        expected = numpy_helper.to_array(tensor)
        try:
            with errors_located():
                to_array = importlib.import_module("engine.weights").to_array
                with calls_of(numpy_helper.to_array) as calls:
                    array = np.asarray(to_array(tensor))
        except Flaw as flaw:
            unwritten = "not written yet" in str(flaw) or "your engine has no" in str(flaw)
            return str(flaw) if unwritten else f"{tensor.name!r}: {flaw}"
        if calls:
            return "to_array calls numpy_helper.to_array: read raw_data or the typed field yourself"
        if (array.shape, array.dtype) != (expected.shape, expected.dtype) or array.tobytes() != expected.tobytes():
            yours, right = (f"{a.dtype}, {list(a.shape)}, {a.ravel()[:3].tolist()}" for a in (array, expected))
            return f"{tensor.name!r}: yours is {yours}, expected {right}"
    return ""


def _accepted(model: Any, modules: Mapping[str, Any] | None = None) -> str:
    """The flaw of an engine whose `graph.read` accepts a model that no layers express; "" if it raises an error.

    Raises Flaw for an engine that is not written yet.
    """
    with errors_located():
        graph = modules["graph"] if modules else importlib.import_module("engine.graph")
        try:
            graph.read(model)
        except (NotImplementedError, engine.NotWrittenError):
            raise
        except Exception:
            return ""
    return "graph.read accepts the model, expected an error: it has a node that no layer computes"


def _run_judge(
    chapter: int, model: Any, modules: Mapping[str, Any] | None = None
) -> tuple[dict[str, float], list[str]]:
    """Scores and flaws of an engine on a model. Raises Flaw if nothing can be compared."""
    with errors_located():
        modules = modules or {name: importlib.import_module(f"engine.{name}") for name in MODULES[chapter]}
    with np.errstate(all="ignore"):  # for an engine's wrong numbers
        return JUDGES[chapter](model, modules)


@contextlib.contextmanager
def calls_of(function):
    """Inside, each call of a Python function adds an entry to the list, by whatever name it is called."""
    calls: list[int] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code is function.__code__:
            calls.append(frame.f_lineno)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


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


# ---- Matching an engine's layers with the expected ones


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
            raise Flaw(f"graph.read returns {_kind(theirs)} without `{attribute}`")
    found = Match()
    known = {theirs.input: wanted.input}  # the engine's name of an activation → the expected graph's
    left = list(wanted.layers)
    for index, layer in enumerate(_as_list(theirs.layers, "Graph.layers")):
        label = _layer_name(layer, index)
        sources = _as_list(layer.inputs, f"{label}: inputs")
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
        bool(layer.weights) and _role_names(one).get("weight" if layer.op != "BatchNorm2d" else "gamma")
        in [name for role, name in layer.weights.items() if role in ("weight", "gamma")],
        _same_sources(place, one),
        layer.op == type(one).__name__,
        layer.output == one.output,
    )  # fmt: skip


def _same_sources(place: tuple[str, ...], one: Layer) -> bool:
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
    if not _same_sources(place, one):
        names = {ours: their for their, ours in known.items()}
        expected = [names.get(name, name) for name in one.inputs]
        found.flaw(f"{label} reads {_names(layer.inputs)}, expected {_names(expected)}", one)
    for name in ATTRIBUTES.get(kind, ()):
        expected = getattr(one, name)
        if name not in layer.attributes:
            found.flaw(f"{label}: attributes has no {name!r}, expected {expected}", one)
        elif not _equal(layer.attributes[name], expected):
            found.flaw(f"{label}: {name} is {_as_python(layer.attributes[name])}, expected {expected}", one)


def _role_names(one: Layer) -> dict[str, str]:
    """The names of a layer's arrays in the model file, by role."""
    fields = ROLES.get(type(one).__name__, {})
    return {role: name for role, field in fields.items() if (name := getattr(one, field)) is not None}


def _layer_name(layer: Any, index: int) -> str:
    for attribute in ("op", "inputs", "output", "weights", "attributes", "shape", "macs", "bytes"):
        if not hasattr(layer, attribute):
            raise Flaw(f"layer {index} is {_kind(layer)} without `{attribute}`")
    return f"layer {index} ({layer.op}, writes {layer.output!r})"


def _expected(layer: Layer) -> str:
    return f"the {type(layer).__name__} that writes {layer.output!r}"


def _names(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in names) or "nothing"


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _as_list(value: Any, what: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise Flaw(f"{what} is {value!r}, expected a list")
    return list(value)


def _as_python(value: Any) -> Any:
    """A value with lists and arrays converted to tuples, NumPy numbers to Python's."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(_as_python(item) for item in value) if isinstance(value, list | tuple) else value


def _number(value: Any, what: str) -> int | float:
    value = _as_python(value)
    if not isinstance(value, int | float):
        raise Flaw(f"{what} is {value!r}, expected a number")
    return value


def _equal(value: Any, expected: Any) -> bool:
    value = _as_python(value)
    if isinstance(expected, float):
        return isinstance(value, int | float) and math.isclose(value, expected, rel_tol=1e-6)
    return value == expected


# ---- Chapter 01: the layers


def judge_graph(model: Any, modules: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Scores and flaws of `graph.read`: layers, shapes, multiply-adds and bytes."""
    wanted = expected_layers(model)[0]
    with errors_located():
        theirs = modules["graph"].read(model)
        found = match(theirs, wanted)
        for layer, one in found.pairs:
            _compare_weights(layer, one, found)
        _compare_transposed(model, found)
        flaws = found.flaws
        shapes, macs, size = 0, 0.0, 0.0
        for index, (layer, one) in enumerate(found.pairs):
            label = _layer_name(layer, index)
            right = _as_python(layer.shape) == one.output_shape
            shapes += right
            own_macs, own_bytes = _number(layer.macs, f"{label}: macs"), _number(layer.bytes, f"{label}: bytes")
            macs, size = macs + own_macs, size + own_bytes
            moved = one.activation_bytes() + one.weight_bytes()
            if not right:
                flaws.append(f"{label}: shape is {_as_python(layer.shape)}, expected {one.output_shape}")
            elif own_macs != one.macs:
                flaws.append(f"{label}: {own_macs:,} multiply-adds, expected {one.macs:,}")
            elif own_bytes != moved:
                flaws.append(f"{label}: {own_bytes:,} bytes, expected {moved:,}")
    right = sum(one.output not in found.wrong for _, one in found.pairs)
    return {"layers": right, "shapes": shapes, "multiply-adds": macs, "bytes": size}, flaws


def _compare_weights(layer: Any, one: Layer, found: Match) -> None:
    names = _role_names(one)
    if one.output in found.wrong or dict(layer.weights) == names:
        return
    for role in [*names, *layer.weights]:
        got, expected = layer.weights.get(role), names.get(role)
        if got != expected:
            label = f"the {layer.op} that writes {layer.output!r}"
            found.flaw(f"{label}: weights[{role!r}] is {_or_none(got)}, expected {_or_none(expected)}", one)
            return


def _compare_transposed(model: Any, found: Match) -> None:
    """Check the attribute `transposed` of each Linear against its weight's order in the file."""
    stored = stored_names(model)
    for node in model.graph.node:
        if node.op_type not in ("Gemm", "MatMul"):
            continue
        weight = stored.get(node.input[1], node.input[1])
        expected = not any(a.name == "transB" and a.i for a in node.attribute)
        for layer, one in found.pairs:
            if not isinstance(one, Linear) or one.weight != weight or one.output in found.wrong:
                continue
            label = f"the Linear that writes {layer.output!r}"
            if "transposed" not in layer.attributes:
                why = "True if the weight in the file is (in_features, out_features)"
                found.flaw(f"{label}: attributes has no 'transposed', expected {expected}: {why}", one)
            elif bool(layer.attributes["transposed"]) != expected:
                order = "(in_features, out_features)" if expected else "(out_features, in_features)"
                why = f"the weight of this {node.op_type} is {order} in the file"
                got = _as_python(layer.attributes["transposed"])
                found.flaw(f"{label}: transposed is {got}, expected {expected}: {why}", one)


def _or_none(name: str | None) -> str:
    return "not there" if name is None else repr(name)


# ---- Chapter 02: the numbers


def judge_weights(model: Any, modules: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Scores and flaws of `weights.extract` and `weights.fold`: arrays, layers left, error, bytes."""
    wanted, parameters = expected_layers(model)
    with errors_located():
        graph = modules["graph"].read(model)
        found = match(graph, wanted)
        if found.flaws:
            raise Flaw(f"graph.py: {found.flaws[0]} (milestone 1)")
        arrays = modules["weights"].extract(model, graph)
        right, flaws = compare_arrays(found, arrays, parameters)
        folded_graph, folded = modules["weights"].fold(graph, arrays)
        exact_graph, exact = weights.fold_batch_norm(wanted, {n: a.astype(np.float64) for n, a in parameters.items()})
        left = match(folded_graph, exact_graph)
        scores: dict[str, float] = {"arrays": right, "layers": sum(o.output not in left.wrong for _, o in left.pairs)}
        flaws += [f"after fold: {flaw}{_why_kept(left, exact_graph)}" for flaw in left.flaws]
        if not left.flaws:
            error, flaw = compare_outputs(left, folded, exact_graph, exact)
            flaws += [flaw] if flaw else []
            scores |= {"error": error, "bytes kept": _size(folded)}
    return scores, flaws


def _why_kept(left: Match, exact: Graph) -> str:
    """Why the first missing batch-norm must not be folded, as the end of a sentence; "" if none is missing.

    exact: the graph after a correct fold.
    """
    there = {one.output for layer, one in left.pairs if layer.op == type(one).__name__}
    writers = {layer.output: layer for layer in exact}
    readers = Counter(name for layer in exact for name in layer.inputs)
    for layer in exact:
        if isinstance(layer, BatchNorm2d) and layer.output not in there:
            read = layer.inputs[0]
            if not isinstance(writers.get(read), Conv2d):
                return f" (you folded a batch-norm whose input {read!r} no convolution writes)"
            if readers[read] > 1 or read == exact.output:
                return f" (you folded a batch-norm whose input {read!r} another layer reads)"
            return " (you folded both of two batch-norms in a row: only the first one reads a convolution's output)"
    return ""


def _size(arrays: Any) -> int:
    return sum(np.asarray(array).nbytes for own in arrays.values() for array in own.values() if array is not None)


def compare_arrays(found: Match, arrays: Any, parameters: Mapping[str, np.ndarray]) -> tuple[int, list[str]]:
    """(number of correct arrays, a sentence for each wrong one).

    arrays: {layer output: {role: array}} of the engine; parameters: the expected arrays by name.
    """
    right, flaws = 0, []
    for layer, one in found.pairs:
        own = arrays.get(layer.output)
        if own is None and _role_names(one):
            flaws.append(f"extract: no arrays for {layer.output!r}")
            continue
        for role, name in _role_names(one).items():
            array = (own or {}).get(role)
            transposed = (getattr(layer, "attributes", None) or {}).get("transposed")
            flaw = _array_flaw(array, parameters[name], transposed if role == "weight" else None)
            flaws += [f"extract: the {role} of {layer.output!r} ({layer.op}) {flaw}"] if flaw else []
            right += not flaw
    return right, flaws


def _entries_flaw(graph: Any, arrays: Any) -> str:
    """What is wrong with the keys of what `extract` returns, which are the outputs of all layers; "" if nothing is."""
    if not isinstance(arrays, Mapping):
        return f"extract returns {_kind(arrays)}, expected a dict: {{layer.output: {{role: array}}}}"
    for layer in graph.layers:
        if not layer.weights and arrays.get(layer.output) != {}:
            found = repr(arrays[layer.output]) if layer.output in arrays else "not there"
            return f"extract: the entry of {layer.output!r} ({layer.op}) is {found}, expected {{}}: it has no weights"
    unknown = [name for name in arrays if name not in {layer.output for layer in graph.layers}]
    return f"extract: it has an entry {unknown[0]!r}, which is not the output of a layer" if unknown else ""


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
        layer, names = by_output[one.output], _role_names(one)
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


MODULES: dict[int, tuple[str, ...]] = {1: ("graph",), 2: ("graph", "weights")}
# the files of the engine that a chapter's milestone runs
RUN: dict[int, tuple[str, ...]] = {
    **{chapter: tuple(f"{name}.py" for name in names) for chapter, names in MODULES.items()},
    4: tuple(case.file for case in CASES[4]),
}
JUDGES: dict[int, Callable[[Any, Mapping[str, Any]], tuple[dict[str, float], list[str]]]] = {
    1: judge_graph,
    2: judge_weights,
}


def limit_memory(size: int) -> None:
    """Limit this process's address space to `size` bytes, where the system supports it; MemoryError beyond that."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def main(folder: str, chapter: str, first: str, results: str) -> None:
    """Entry point of the child process; see the module's docstring. All arguments are strings."""
    if int(chapter) in MODULES:  # a GPU's driver and the simulator reserve more addresses than they use
        limit_memory(MEMORY)
    engine.open_engine(lambda: Path(folder))
    for case in CASES[int(chapter)][int(first) :]:
        outcome = judge(int(chapter), case)
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
