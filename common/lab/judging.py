"""Judge a learner's engine on held-out cases: scores, and the first flaw in words.

`python -m common.lab.judging FOLDER CHAPTER FIRST RESULTS` judges the engine in FOLDER on the chapter's cases from
index FIRST on, and appends a line of JSON to the file RESULTS after each; milestones.py runs it as a child process.
"""

import contextlib
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper

from .. import weights
from ..topology import BatchNorm2d, Conv2d, Graph, Layer, Linear
from . import engine, engine_judging
from .cases import CASES, OWN_FUSION, Case, KernelCase
from .engine_files import FILES
from .kernel_judging import judge_kernel
from .matching import (
    Flaw,
    Match,
    as_python,
    compare_arrays,
    compare_outputs,
    errors_located,
    expected_layers,
    kind_of,
    layer_name,
    match,
    number,
    role_names,
    stored_names,
)

MEMORY = 8 << 30  # bytes of address space; libraries use up to half of it


@dataclass
class Outcome:
    """The result of a case.

    scores    by column
    flaw      the first one in words, "" if there is none
    kernels   of chapter 06: how often one inference launches each kernel of the engine
    """

    case: str
    passed: bool
    scores: dict[str, float] = field(default_factory=dict)
    flaw: str = ""
    kernels: dict[str, int] = field(default_factory=dict)


def judge(chapter: int, case: Case | KernelCase, modules: Mapping[str, Any] | None = None) -> Outcome:
    """Run an engine on a case: the package `engine`, or `modules` by name. Never raises an Exception.

    modules: Python modules by name; kernels' texts by file.
    """
    try:
        if isinstance(case, KernelCase):
            with errors_located():
                source = modules[case.file] if modules else _engine_kernel(case.name)
            scores, flaws = judge_kernel(source, case.name)
            if chapter == 6:  # its columns are those of networks
                named = {"error": "own error", "findings": "findings", "µs": "µs", "roof": "roof"}
                scores = {named[key]: score for key, score in scores.items() if key in named}
            return Outcome(case.name, not flaws, scores, flaws[0] if flaws else "")
        if chapter in (5, 6):
            launched: Counter[str] = Counter()
            scores, flaws = _run_engine(chapter, case, modules, launched)
            if chapter == 6 and case.digits and not flaws:
                flaws = not_own(launched)
            return Outcome(case.name, not flaws, scores, flaws[0] if flaws else "", dict(launched))
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


def not_own(launched: Iterable[str]) -> list[str]:
    """The flaw of an engine that launches kernels of the course: [] if all of these are the learner's own."""
    module = importlib.import_module("engine.kernels")
    taken = [name for name in launched if engine.whose(getattr(module, name).path) == "reference"]
    if not taken:
        return []
    file = f"kernels/{taken[0]}.cu"
    names = " and ".join(filter(None, [", ".join(taken[:-1]), taken[-1]]))
    return [
        f"right, and not yet what was asked: {names} {'is' if len(taken) == 1 else 'are'} the course's, and the last"
        f" milestone asks for kernels that are all your own. {FILES[file].notebook} writes {file}; if you have written"
        f' it, use_own("kernels/{taken[0]}") in a notebook brings yours back'
    ]


def _run_engine(
    chapter: int, case: Case, modules: Mapping[str, Any] | None, launched: Counter[str]
) -> tuple[dict[str, float], list[str]]:
    """Scores and flaws of an engine that runs a held-out network. launched: gets its kernels, in chapter 06."""
    with errors_located():
        modules = modules or {name: importlib.import_module(f"engine.{name}") for name in MODULES[chapter]}
    with np.errstate(all="ignore"):
        if case.refused:
            flaw = engine_judging.runs_or_refuses(case.model(), modules)
            return {}, [flaw] if flaw else []
        return engine_judging.judge_engine(case.model(), modules, case.digits, launched)


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
            label = layer_name(layer, index)
            right = as_python(layer.shape) == one.output_shape
            shapes += right
            own_macs, own_bytes = number(layer.macs, f"{label}: macs"), number(layer.bytes, f"{label}: bytes")
            macs, size = macs + own_macs, size + own_bytes
            moved = one.activation_bytes() + one.weight_bytes()
            if not right:
                flaws.append(f"{label}: shape is {as_python(layer.shape)}, expected {one.output_shape}")
            elif own_macs != one.macs:
                flaws.append(f"{label}: {own_macs:,} multiply-adds, expected {one.macs:,}")
            elif own_bytes != moved:
                flaws.append(f"{label}: {own_bytes:,} bytes, expected {moved:,}")
    right = sum(one.output not in found.wrong for _, one in found.pairs)
    return {"layers": right, "shapes": shapes, "multiply-adds": macs, "bytes": size}, flaws


def _compare_weights(layer: Any, one: Layer, found: Match) -> None:
    names = role_names(one)
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
                got = as_python(layer.attributes["transposed"])
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


def _entries_flaw(graph: Any, arrays: Any) -> str:
    """What is wrong with the keys of what `extract` returns, which are the outputs of all layers; "" if nothing is."""
    if not isinstance(arrays, Mapping):
        return f"extract returns {kind_of(arrays)}, expected a dict: {{layer.output: {{role: array}}}}"
    for layer in graph.layers:
        if not layer.weights and arrays.get(layer.output) != {}:
            found = repr(arrays[layer.output]) if layer.output in arrays else "not there"
            return f"extract: the entry of {layer.output!r} ({layer.op}) is {found}, expected {{}}: it has no weights"
    unknown = [name for name in arrays if name not in {layer.output for layer in graph.layers}]
    return f"extract: it has an entry {unknown[0]!r}, which is not the output of a layer" if unknown else ""


MODULES: dict[int, tuple[str, ...]] = {
    1: ("graph",), 2: ("graph", "weights"), 5: ("graph", "weights", "plan", "engine"),
    6: ("graph", "weights", "plan", "engine", "blocks"),
}  # fmt: skip
# the files of the engine that a chapter's milestone runs
RUN: dict[int, tuple[str, ...]] = {
    **{chapter: tuple(f"{name}.py" for name in names) for chapter, names in MODULES.items()},
    4: tuple(case.file for case in CASES[4]),
}
RUN[5] += RUN[4]
RUN[6] = (*RUN[5], "kernels/block.cu", "blocks.py")
FUSION = tuple(file for file, one in FILES.items() if one.notebook == FILES["kernels/hard_swish.cu"].notebook)
JUDGES: dict[int, Callable[[Any, Mapping[str, Any]], tuple[dict[str, float], list[str]]]] = {
    1: judge_graph,
    2: judge_weights,
    5: engine_judging.judge_engine,
}


def cases(chapter: int, place: Path) -> tuple[Case | KernelCase, ...]:
    """The held-out cases for the engine in a folder: OWN_FUSION only for one whose fusion is the learner's own."""
    plan = place / "plan.py"
    fusion = engine.parts(plan.read_text(encoding="utf-8")).get("own_fusion") if plan.exists() else None
    own = chapter == 5 and fusion is not None and not fusion.reference
    return (*CASES[chapter], *([OWN_FUSION] if own else []))


def limit_memory(size: int) -> None:
    """Limit this process's address space to `size` bytes, where the system supports it; MemoryError beyond that."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def main(folder: str, chapter: str, first: str, results: str) -> None:
    """Entry point of the child process; see the module's docstring. All arguments are strings."""
    if int(chapter) < 4:  # a GPU's driver and the simulator reserve more addresses than they use
        limit_memory(MEMORY)
    engine.open_engine(lambda: Path(folder))
    for case in cases(int(chapter), Path(folder))[int(first) :]:
        outcome = judge(int(chapter), case)
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
