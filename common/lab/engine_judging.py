"""Judge a learner's planner and engine on a network: scores, and the first flaw in words (chapter 05).

The functions of plan.py are judged one by one, then each step's launch alone, on random inputs, then whole runs for
several input shapes. Tensors are read in the engine's arena, at the offsets of its plan.
"""

import copy
import dataclasses
import importlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from .. import cuda, topology, weights
from ..measure import timing
from ..topology import Conv2d, Graph, Layer, Linear
from . import engine, matching
from .block_judging import KERNEL, judge_blocks, judge_run, runs_of_layers
from .engine_kernels import Launch, watched
from .matching import Flaw, errors_located, relative_error
from .operators import OPERATORS, SLIPS, inverted_residual
from .step_judging import judge_fused

ALIGNMENT = 256  # bytes, of arrays that kernels get
OWN = 1e-6  # relative error of a step, times the square root of the number of terms of a sum
WHOLE = 1e-5  # relative error of the logits
DRAWN = 20  # sets of random live ranges on which `arena` is tried, of 12 tensors, and as many of 40
FUSED = "_hard_swish"  # ends the names of chapter 05's kernels that compute a convolution and a hard-swish

Numbers = dict[str, np.ndarray]


@dataclass
class Judged:
    """A network, and what the engine made of it.

    exact     the expected layers after folding, and their parameters in float64
    graph     the engine's, after its own `dead_code` and `fold`; arrays: of its layers
    layers    the engine's tensor → the expected layer that writes it
    names     the engine's tensor → the expected graph's
    """

    exact: Graph
    parameters: Numbers
    graph: Any
    arrays: Any
    layers: dict[str, Layer]
    names: dict[str, str]


def judge_engine(
    model: Any, modules: Mapping[str, Any], digits: int = 0, launched: Counter[str] | None = None
) -> tuple[dict[str, float], list[str]]:
    """Scores and flaws of the files plan.py and engine.py on an onnx.ModelProto, or of blocks.py if modules has it.

    digits     the number of held-out digits that the network is to read; 0: it reads none
    launched   gets the kernels that one inference launches, {name: times}, of blocks.py
    """
    scores: dict[str, float] = {}
    own = modules.get("blocks", modules["engine"])
    try:
        judged = _folded(model, modules)
        _judge_plan(judged, modules["plan"])
        if hasattr(own, "fuse_blocks"):  # else what is wrong with it is seen in the plan
            with errors_located():
                steps = matching.as_list(modules["plan"].fuse(judged.graph, judged.arrays), "fuse: the result")
                _judge_passes(judged, steps, [own.fuse_blocks])
        with errors_located():
            bound = own.bind(model)
            program = own.prepare(bound, tuple(judged.exact.input_shape))
        _judge_program(judged, program)
        scores |= _judge_steps(judged, program)
        if "blocks" in modules:
            found = judge_blocks(judged, program, _label)
            counted = judge_run(bound, own, _images(judged.exact.input_shape), found)
            if launched is not None:
                launched.update(counted)
        else:
            _judge_resized(model, judged, own)
        _judge_runs(model, judged, bound, own)
        if digits:
            scores["digits"] = _judge_digits(model, bound, own, digits)
        if cuda.backend() == "gpu":
            scores["µs"] = _timed(program)
    except Flaw as flaw:
        return scores, [str(flaw)]
    return scores, []


def runs_or_refuses(model: Any, modules: Mapping[str, Any]) -> str:
    """The flaw of an engine on a network that chapter 04's kernels cannot run; "" if it refuses or is right."""
    graph, parameters = _exact(model)
    x = _images(graph.input_shape)
    want = _reference(graph, parameters, x)[graph.output]
    try:
        bound = modules["engine"].bind(model)
        got = modules["engine"].run(bound, x)
    except cuda.KernelError as error:  # of a launch: the engine has accepted the model
        wrong = f"a launch fails: {matching.located(error)}"
    except Exception as error:
        unwritten = isinstance(error, engine.NotWrittenError) or engine.unwritten(error) or "write: " in str(error)
        return matching.located(error) if unwritten else ""
    else:
        if _same_shape(got, want) and relative_error(np.asarray(got), want) <= WHOLE:
            return ""
        wrong = "the logits are wrong"
    return f"engine.bind accepts the model, expected an error: no kernel computes one of its layers, and {wrong}"


# ---- The expected network


def _exact(model: Any) -> tuple[Graph, Numbers]:
    """The expected layers of a model, batch-norms folded, and their parameters in float64."""
    wanted, parameters = matching.expected_layers(model)
    return weights.fold_batch_norm(wanted, {name: array.astype(np.float64) for name, array in parameters.items()})


def _images(shape: Sequence[int], seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)


def _computed(layer: Layer, inputs: Sequence[np.ndarray], parameters: Numbers) -> np.ndarray:
    """A layer's output in float64."""
    arrays = {role: parameters[name] for role, name in matching.role_names(layer).items()}
    return matching.compute(layer, [np.asarray(one, np.float64) for one in inputs], arrays)


def _reference(graph: Graph, parameters: Numbers, x: np.ndarray) -> Numbers:
    """All tensors of a network in float64, by name."""
    values: Numbers = {graph.input: x.astype(np.float64)}
    for layer in graph:
        values[layer.output] = _computed(layer, [values[name] for name in layer.inputs], parameters)
    return values


def _folded(model: Any, modules: Mapping[str, Any]) -> Judged:
    """The engine's graph after `read`, `dead_code`, `extract` and `fold`. Raises Flaw if one of them is wrong."""
    wanted = matching.expected_layers(model)[0]
    exact, parameters = _exact(model)
    with errors_located():
        graph = _without_dead_code(modules["graph"].read(model), modules["plan"])
        if flaws := matching.match(graph, wanted).flaws:
            raise Flaw(f"graph.py: {flaws[0]} (milestone 1)")
        graph, arrays = modules["weights"].fold(graph, modules["weights"].extract(model, graph))
        left = matching.match(graph, exact)
        flaw = left.flaws[0] if left.flaws else matching.compare_outputs(left, arrays, exact, parameters)[1]
        if flaw:
            raise Flaw(f"weights.py: {flaw} (milestone 2)")
    layers = {layer.output: one for layer, one in left.pairs}
    names = {graph.input: exact.input} | {name: one.output for name, one in layers.items()}
    return Judged(exact, parameters, graph, arrays, layers, names)


def _without_dead_code(read: Any, plan: Any) -> Any:
    """What the engine's `dead_code` makes of its graph."""
    for attribute in ("input", "output", "layers"):
        if not hasattr(read, attribute):
            raise Flaw(f"graph.read returns {matching.kind_of(read)} without `{attribute}` (milestone 1)")
    before = list(read.layers)
    graph = plan.dead_code(read)
    if not hasattr(graph, "layers"):
        raise Flaw(f"dead_code returns {matching.kind_of(graph)} without `layers`, expected a Graph")
    if list(read.layers) != before:
        raise Flaw("dead_code changes the graph that it gets, expected a new graph")
    needed, after = {read.output}, [layer.output for layer in graph.layers]
    for layer in reversed(before):
        name = f"the {layer.op} that writes {layer.output!r}"
        if layer.output in needed:
            needed.update(layer.inputs)
            if layer.output not in after:
                raise Flaw(f"dead_code removes {name}, which the network's output needs")
        elif layer.output in after:
            raise Flaw(f"dead_code keeps {name}: the network's output does not need it")
    if after != [layer.output for layer in before if layer.output in needed]:
        raise Flaw("dead_code changes the order of the layers")
    return graph


# ---- plan.py


FUNCTIONS = ("dead_code", "fuse", "live_ranges", "arena")  # of plan.py, in the order in which they are judged


def plan_flaw(model: Any, modules: Mapping[str, Any], last: str) -> str:
    """The first flaw of plan.py on an onnx.ModelProto, judging its FUNCTIONS up to `last` only; "" if there is none."""
    try:
        judged = _folded(model, modules)
        if last != FUNCTIONS[0]:
            _judge_plan(judged, modules["plan"], last)
    except Flaw as flaw:
        return str(flaw)
    return ""


def _judge_plan(judged: Judged, plan: Any, last: str = FUNCTIONS[-1]) -> None:
    with errors_located():
        steps = matching.as_list(plan.fuse(judged.graph, judged.arrays), "fuse: the result")
        _judge_steps_of(judged, steps)
        if last == "fuse":
            judge_fused(judged.graph, judged.arrays, steps)
            return
        _judge_passes(judged, steps, getattr(plan, "PASSES", ()))
        ranges = _ranges(plan.live_ranges(judged.graph, steps))
        _judge_ranges(judged, steps, ranges)
        _judge_workspace(judged, steps, plan)
        if last == "live_ranges":
            return
        _judge_arena(ranges, *_placed(plan.arena(dict(ranges))))
        for one in drawn_ranges():
            _judge_arena(one, *_placed(plan.arena(dict(one))), "arena, on live ranges drawn at random")


def _judge_passes(judged: Judged, steps: Sequence[Any], passes: Sequence[Any]) -> None:
    """Check what the learner's own passes make of the steps of `fuse`."""
    for one in passes:
        name = getattr(one, "__name__", "a pass")
        before = [list(step.layers) for step in steps]
        after = matching.as_list(one(judged.graph, list(steps)), f"{name}: the result")
        if before != [list(step.layers) for step in steps]:
            raise Flaw(f"{name} changes the steps that it gets, expected new ones")
        _judge_steps_of(judged, after, name)
        steps = after


def _label(steps: Sequence[Any], number: int) -> str:
    step = steps[number]
    return f"step {number} ({' + '.join(layer.op for layer in step.layers)}, writes {step.layers[-1].output!r})"


def _judge_steps_of(judged: Judged, steps: Sequence[Any], who: str = "fuse") -> None:
    """Check that steps hold each layer once and in order, and that what they read is in memory. who: made them."""
    for number, step in enumerate(steps):
        for attribute in ("kernel", "layers", "inputs", "output"):
            if not hasattr(step, attribute):
                raise Flaw(f"{who}: step {number} is {matching.kind_of(step)} without `{attribute}`")
        if not step.layers:
            raise Flaw(f"{who}: step {number} has no layers")
    steps_of: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        for layer in step.layers:
            steps_of.setdefault(layer.output, []).append(number)
    for layer in judged.graph.layers:
        found = steps_of.pop(layer.output, [])
        name = f"the {layer.op} that writes {layer.output!r}"
        if not found:
            raise Flaw(f"{who}: {name} is in no step")
        if len(found) > 1:
            raise Flaw(f"{who}: {name} is in steps {found[0]} and {found[1]}, expected one")
    if steps_of:
        raise Flaw(f"{who}: a step writes {next(iter(steps_of))!r}, which no layer of the graph writes")
    _judge_memory_of(judged, steps, who)


def _judge_memory_of(judged: Judged, steps: Sequence[Any], who: str) -> None:
    """Check that each tensor that a step reads is written before, and by the last layer of a step."""
    inside: dict[str, int] = {}
    for number, step in enumerate(steps):
        for before, layer in zip(step.layers, step.layers[1:], strict=False):
            if before.output not in layer.inputs:
                raise Flaw(
                    f"{who}: in {_label(steps, number)} the {layer.op} does not read {before.output!r}, which the layer"
                    " before it writes"
                )
            inside[before.output] = number
    written = {judged.graph.input: -1} | {step.layers[-1].output: i for i, step in enumerate(steps)}
    if judged.graph.output in inside:
        number = inside[judged.graph.output]
        raise Flaw(f"{who}: {_label(steps, number)} does not store {judged.graph.output!r}, the network's output")
    for number, step in enumerate(steps):
        own = [layer.output for layer in step.layers]
        for at, layer in enumerate(step.layers):
            for name in layer.inputs:
                before = own[at - 1] if at else None
                if (name in own and (name != before or layer.inputs.count(name) > 1)) or (
                    name in inside and name not in own
                ):
                    raise Flaw(
                        f"{who}: {_label(steps, inside[name])} does not store {name!r}, which the {layer.op} that"
                        f" writes {layer.output!r} reads" + (" twice" if layer.inputs.count(name) > 1 else "")
                    )
                if name not in own and written[name] >= number:
                    later = f"which step {written[name]} writes later"
                    raise Flaw(f"{who}: {_label(steps, number)} reads {name!r}, {later}")
        expected = [name for layer in step.layers for name in layer.inputs if name not in own]
        if sorted(set(step.inputs)) != sorted(set(expected)) or step.output != own[-1]:
            raise Flaw(
                f"{_label(steps, number)}: inputs is {list(step.inputs)} and output {step.output!r}, expected"
                f" {expected} and {own[-1]!r}"
            )


Ranges = dict[str, tuple[int, int, int]]


def _ranges(value: Any) -> Ranges:
    if not isinstance(value, Mapping):
        raise Flaw(f"live_ranges returns {matching.kind_of(value)}, expected a dict: {{tensor: Live}}")
    ranges: Ranges = {}
    for name, one in value.items():
        try:
            size, first, last = (int(number) for number in one)
        except (TypeError, ValueError):
            raise Flaw(f"live_ranges: {name!r} has {one!r}, expected Live(bytes, first, last)") from None
        ranges[name] = size, first, last
    return ranges


def _needed_ranges(judged: Judged, steps: Sequence[Any]) -> Ranges:
    """{tensor: (bytes, the step that writes it, the last step that needs it)}; both ends are needed after the last."""
    shapes = {name: judged.layers[name].output_shape for step in steps for name in [step.layers[-1].output]}
    shapes[judged.graph.input] = judged.exact.input_shape
    last = {judged.graph.input: len(steps), judged.graph.output: len(steps)}
    for number, step in enumerate(steps):
        for name in (*step.inputs, step.output):
            last[name] = max(number, last.get(name, 0))
    first = {step.output: number for number, step in enumerate(steps)} | {judged.graph.input: 0}
    return {name: (4 * math.prod(shapes[name]), first[name], last[name]) for name in first if name in last}


def _judge_ranges(judged: Judged, steps: Sequence[Any], ranges: Ranges) -> None:
    for name, (size, first, last) in _needed_ranges(judged, steps).items():
        if name not in ranges:
            raise Flaw(f"live_ranges: {name!r} is not there")
        own_size, own_first, own_last = ranges[name]
        if own_size != size:
            raise Flaw(f"live_ranges: {name!r} has {own_size:,} bytes, expected {size:,}")
        if own_first > first:
            raise Flaw(f"live_ranges: {name!r} lives from step {own_first}, and {_label(steps, first)} writes it")
        if own_last < last:
            ends = {judged.graph.input: "it is the network's input", judged.graph.output: "it is the network's output"}
            why = ends.get(name) or f"{_label(steps, last)} reads it"
            raise Flaw(f"live_ranges: {name!r} lives until step {own_last}, expected {last}: {why}")


def _judge_workspace(judged: Judged, steps: Sequence[Any], plan: Any) -> None:
    """Give one step a workspace: it must have a live range."""
    number, size = len(steps) // 2, 1000
    given = [copy.copy(step) for step in steps]
    if dataclasses.is_dataclass(given[number]):
        given[number] = dataclasses.replace(given[number], workspace=size)  # type: ignore[type-var]
    else:
        given[number].workspace = size
    ranges = _ranges(plan.live_ranges(judged.graph, given))
    known = _needed_ranges(judged, steps)
    if not any(one[0] >= size and one[1] <= number <= one[2] for name, one in ranges.items() if name not in known):
        raise Flaw(
            f"live_ranges: {_label(steps, number)} has a workspace of {size:,} bytes, which is not in memory at that"
            " step"
        )


def drawn_ranges() -> Iterator[Ranges]:
    """Random live ranges of 12 tensors of any size, then of 40 that may fit a gap exactly; none are equally large.

    A third of the tensors may live long.
    """
    random = np.random.default_rng(11)
    for count, steps, longest, unit, most in [(12, 9, 4, 4, 700)] * DRAWN + [(40, 40, 12, ALIGNMENT, 60)] * DRAWN:
        first = random.integers(0, steps, count)
        usual = random.integers(0, min(longest, 3), count)
        last = first + np.where(random.random(count) < 1 / 3, random.integers(0, longest + 1, count), usual)
        sizes = unit * (1 + random.permutation(most)[:count])
        yield {f"t{i}": (int(sizes[i]), int(first[i]), int(last[i])) for i in range(count)}


def arena_flaw(ranges: Ranges, arena: Any, most: int) -> str:
    """The first flaw of a learner's `arena` on live ranges; "" if it is right and takes at most `most` bytes."""
    try:
        with errors_located():
            offsets, size = _placed(arena(dict(ranges)))
        _judge_arena(ranges, offsets, size)
        if size > most:
            raise Flaw(
                f"right, and not yet what was asked: the arena has {size:,} bytes. Largest first, each at the lowest"
                f" free offset, takes {most:,}{_higher(ranges, offsets)}"
            )
    except Flaw as flaw:
        return str(flaw)
    return ""


def _higher(ranges: Ranges, offsets: Mapping[str, int]) -> str:
    """Which tensor could lie lower, were it placed after the larger ones, in words; "" if none could."""
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last) of the larger ones
    for name in sorted(ranges, key=lambda name: -ranges[name][0]):
        size, first, last = ranges[name]
        beside = [(low, high) for low, high, begin, end in placed if begin <= last and first <= end]
        for start in sorted([0, *(-(-high // ALIGNMENT) * ALIGNMENT for _, high in beside)]):
            if start < offsets[name] and all(high <= start or start + size <= low for low, high in beside):
                return f": {name!r} ({_place(offsets[name], size, first, last)}) could lie at offset {start:,}"
        placed.append((offsets[name], offsets[name] + size, first, last))
    return ""


def _placed(value: Any) -> tuple[dict[str, int], int]:
    try:
        offsets, size = value
        return {name: int(offset) for name, offset in offsets.items()}, int(size)
    except (TypeError, ValueError, AttributeError):
        raise Flaw(f"arena returns {value!r:.60}, expected ({{tensor: offset}}, size)") from None


def _judge_arena(ranges: Ranges, offsets: Mapping[str, int], size: int, who: str = "arena", pairs: Any = ()) -> None:
    """Check a placement. pairs: (tensor, tensor) that may lie at the same offset, in place."""
    placed: list[str] = []
    for name, (own, first, last) in ranges.items():
        if name not in offsets:
            raise Flaw(f"{who}: {name!r} has no offset")
        start = offsets[name]
        if start < 0 or start % ALIGNMENT:
            raise Flaw(f"{who}: {name!r} is at offset {start}, expected a multiple of {ALIGNMENT}")
        if start + own > size:
            raise Flaw(f"{who}: {name!r} ends at byte {start + own:,}, beyond the arena's {size:,}")
        for other in placed:
            length, begin, end = ranges[other]
            below = offsets[other]
            if first <= end and begin <= last and start < below + length and below < start + own:
                if start == below and ((other, name) in pairs or (name, other) in pairs):
                    continue
                raise Flaw(
                    f"{who}: {other!r} ({_place(below, length, begin, end)}) and {name!r}"
                    f" ({_place(start, own, first, last)}) share bytes at step {max(first, begin)}"
                )
        placed.append(name)


def _place(start: int, size: int, first: int, last: int) -> str:
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    return f"{steps}, bytes {start:,} to {start + size - 1:,}"


# ---- engine.py


def _judge_program(judged: Judged, program: Any) -> None:
    """Check what `prepare` returns: its plan, its arena, a launch for each step."""
    for attribute in ("plan", "memory", "launches"):
        if not hasattr(program, attribute):
            raise Flaw(f"engine.prepare returns {matching.kind_of(program)} without `{attribute}`")
    for attribute in ("steps", "offsets", "size"):
        if not hasattr(program.plan, attribute):
            raise Flaw(f"engine.prepare: the plan is {matching.kind_of(program.plan)} without `{attribute}`")
    plan, steps = program.plan, matching.as_list(program.plan.steps, "the plan's steps")
    known = {layer.output for layer in judged.graph.layers}
    for layer in (layer for step in steps for layer in getattr(step, "layers", ())):
        if layer.output not in known:
            raise Flaw(
                f"engine.prepare: the plan has the {layer.op} that writes {layer.output!r}, expected none: dead_code,"
                " and then fold, leave it out"
            )
    _judge_steps_of(judged, steps)
    ranges = _needed_ranges(judged, steps)
    pairs = {
        (name, step.output)
        for number, step in enumerate(steps)
        for name in step.inputs
        if step.kernel == "add" and ranges[name][2] == number
    }
    _judge_arena(ranges, plan.offsets, plan.size, "the plan", pairs)
    if program.memory.nbytes < plan.size:
        raise Flaw(f"engine.prepare: the memory has {program.memory.nbytes:,} bytes, the plan needs {plan.size:,}")
    if len(program.launches) != len(steps):
        raise Flaw(f"engine.prepare: {len(program.launches)} launches for {len(steps)} steps, expected one for each")


def _tensor(program: Any, name: str, shape: Sequence[int]) -> Any:
    """A tensor in the engine's arena, as an array of its shape on the device."""
    start, size = program.plan.offsets[name], 4 * math.prod(shape)
    return _bytes(program)[start : start + size].view(np.float32).reshape(tuple(shape))


def _bytes(program: Any) -> Any:
    return program.memory.reshape(-1).view(np.uint8)


def unfused(model: Any, modules: Mapping[str, Any]) -> str:
    """The first hard-swish that a right engine leaves alone although a convolution could compute it; "" if none is.

    It could if nothing else reads the convolution's output.
    """
    judged = _folded(model, modules)
    program = modules["engine"].prepare(modules["engine"].bind(model), tuple(judged.exact.input_shape))
    readers = Counter([judged.graph.output, *(name for layer in judged.graph.layers for name in layer.inputs)])
    for number, step in enumerate(program.plan.steps):
        source = judged.layers.get(step.layers[0].inputs[0])
        if step.layers[0].op == "HardSwish" and isinstance(source, Conv2d) and readers[step.layers[0].inputs[0]] == 1:
            return f"{_label(program.plan.steps, number)} is a launch of its own, and reads what only it needs"
    return ""


def step_errors(model: Any, x: np.ndarray) -> list[tuple[str, float, float]]:
    """(layers, own error, error so far) of each step of this session's engine on an onnx.ModelProto, by its launches.

    own error: of a launch whose inputs are the reference's; error so far: in a run on x, (N, C, H, W).
    Raises Flaw if the engine cannot be run step by step.
    """
    judged, program = _prepared(model, x)
    values, rows = _reference(judged.exact, judged.parameters, x), []
    so_far = list(_errors_so_far(judged, program, x, values))  # before other launches use the arena
    for number, (step, error) in enumerate(zip(program.plan.steps, so_far, strict=True)):
        _, got, want = _launched(judged, program, number, values, traced=False)
        rows.append((" + ".join(layer.op for layer in step.layers), relative_error(got, want), error))
    return rows


def exact_values(model: Any, x: np.ndarray) -> tuple[Any, Numbers]:
    """(program, values) of this session's engine on an onnx.ModelProto: values: {tensor: what it has to hold, float64}.

    x: images (N, C, H, W). values has the network's input and the output of each step, by the engine's own names, in
    the shape that they have. Raises Flaw if the engine cannot be run step by step.
    """
    judged, program = _prepared(model, x)
    values = _reference(judged.exact, judged.parameters, x)
    tensors = [judged.graph.input, *(step.output for step in program.plan.steps)]
    return program, {name: values[judged.names[name]] for name in tensors}


def _prepared(model: Any, x: np.ndarray) -> tuple[Judged, Any]:
    """What this session's engine makes of a model, and its program for images x. Raises Flaw if either is wrong."""
    with errors_located():
        modules = {name: importlib.import_module(f"engine.{name}") for name in ("graph", "weights", "plan", "engine")}
        judged = _folded(_resized(model, x.shape), modules)
        program = modules["engine"].prepare(modules["engine"].bind(model), tuple(x.shape))
        _judge_program(judged, program)
    return judged, program


def _errors_so_far(judged: Judged, program: Any, x: np.ndarray, values: Numbers) -> Iterator[float]:
    """Run a program on x; the error of each step's output, right after its launch."""
    _bytes(program)[...] = 255
    _tensor(program, judged.graph.input, x.shape)[...] = cuda.asarray(x)
    for step, launch in zip(program.plan.steps, program.launches, strict=True):
        with errors_located():
            launch()
        want = values[judged.names[step.output]]
        yield relative_error(cuda.asnumpy(_tensor(program, step.output, want.shape)), want)


def _judge_steps(judged: Judged, program: Any) -> dict[str, float]:
    """Launch each step alone, on the reference's inputs; then all of them, one after the other.

    Returns the scores: the largest error of a step alone and in the run, launches, bytes, memory, findings.
    """
    steps, exact = program.plan.steps, judged.exact
    x = _images(exact.input_shape)
    values = _reference(exact, judged.parameters, x)
    scores = {"own error": 0.0, "error": 0.0, "findings": 0.0}
    for number in range(len(steps)):
        own, findings = _judge_step(judged, program, number, values)
        scores["own error"] = max(scores["own error"], own)
        scores["findings"] += findings
    with watched() as launches:
        for number, error in enumerate(_errors_so_far(judged, program, x, values)):
            if not error <= WHOLE:
                raise Flaw(
                    f"{_label(steps, number)}: its launch alone is right, after the launches before it the error is"
                    f" {error:.0e}, {WHOLE:.0e} is allowed"
                )
            scores["error"] = max(scores["error"], error)
    scores |= {"launches": len(launches), "bytes moved": sum(map(bytes_moved, launches))}
    return scores | {"peak memory": program.memory.nbytes}


def bytes_moved(launch: Launch) -> int:
    """Bytes of a launch's arrays, each once."""
    operator = OPERATORS[launch.name]
    dims = operator.dims_of(launch.args)
    shapes = (shape(dims) for shape in operator.arrays.values())
    return 4 * sum(
        math.prod(shape) for shape, array in zip(shapes, _arrays_of(launch).values(), strict=True) if array is not None
    )


def _arrays_of(launch: Launch) -> dict[str, Any]:
    """The arrays of a launch by the names of the kernel's parameters."""
    names = list(OPERATORS[launch.name].arrays)
    return dict(zip(names, launch.args[: len(names)], strict=True))


def _judge_step(judged: Judged, program: Any, number: int, values: Numbers) -> tuple[float, int]:
    """(error, findings) of a step whose inputs are the reference's. Raises Flaw if it is wrong."""
    steps = program.plan.steps
    label = _label(steps, number)
    launches, got, want = _launched(judged, program, number, values, traced=True)
    findings = [finding for launch in launches for finding in launch.report.findings]
    error, most = (
        relative_error(got, want),
        OWN * math.sqrt(max(_terms(judged.layers[one.output]) for one in steps[number].layers)),
    )
    found = f"the kernel {launches[0].name}: {findings[0]}" if findings else ""
    if not error <= most:
        problem = "holds NaN" if np.isnan(got).any() else f"has the error {error:.0e}, {most:.0e} is allowed"
        given = _given(judged, steps[number], values)
        reason = _reason(judged, program, number, given, got, launches, most) or found
        raise Flaw(f"{label}: its output {problem}" + (f": {reason}" if reason else ""))
    if found:
        raise Flaw(f"{label}: {found}")
    return error, len(findings)


def _given(judged: Judged, step: Any, values: Numbers) -> Numbers:
    """The reference's inputs of a step, in float32."""
    return {name: values[judged.names[name]].astype(np.float32) for name in step.inputs}


def _launched(
    judged: Judged, program: Any, number: int, values: Numbers, traced: bool
) -> tuple[list[Launch], np.ndarray, np.ndarray]:
    """(launches, output, the same in float64) of a step whose inputs are the reference's, in an arena of NaN."""
    steps = program.plan.steps
    step, label = steps[number], _label(steps, number)
    given = _given(judged, step, values)
    _bytes(program)[...] = 255  # NaN
    for name, array in given.items():
        _tensor(program, name, array.shape)[...] = cuda.asarray(array)
    with watched(traced) as launches:
        try:
            with errors_located():
                program.launches[number]()
        except Flaw as flaw:
            raise Flaw(f"{label}: {flaw}") from None
    if not launches:
        raise Flaw(f"{label}: its launch launches no kernel of engine.kernels")
    want = _chain(judged, step, given)
    return launches, cuda.asnumpy(_tensor(program, step.output, want.shape)).copy(), want


def _chain(
    judged: Judged, step: Any, given: Mapping[str, np.ndarray], layers: Sequence[Any] = (), bias: bool = True
) -> np.ndarray:
    """The output of a step in float64.

    layers: to compute instead of the step's own, each on the one before. bias: whether biases are added.
    """
    own, out = {one.output for one in step.layers}, given[step.inputs[0]]
    for layer in layers or step.layers:
        inputs = [out if name in own else given[name] for name in layer.inputs]
        one = judged.layers[layer.output]
        if not bias and isinstance(one, Conv2d | Linear):
            one = dataclasses.replace(one, bias=None)
        out = _computed(one, inputs, judged.parameters)
    return out


def _terms(layer: Layer) -> int:
    """The number of terms of a sum of a layer."""
    match layer:
        case Conv2d():
            return layer.in_channels // layer.groups * math.prod(layer.kernel_size)
        case Linear():
            return layer.in_features
        case topology.GlobalAveragePool():
            return math.prod(layer.input_shapes[0][2:])
    return 1


def _reason(
    judged: Judged, program: Any, number: int, given: Mapping[str, np.ndarray], got: np.ndarray,
    launches: Sequence[Launch], most: float,
) -> str:  # fmt: skip
    """Why a step's output is wrong: where it reads and writes, or a usual mistake; "" for another reason.

    most: the largest error of a right output.
    """
    step = program.plan.steps[number]
    expected = _kernel_for(judged, step)
    if expected and launches[0].name.removesuffix(FUSED) not in expected:
        return f"it is the kernel {launches[0].name} that runs, expected {' or '.join(expected)}"
    if wrong := _wrong_address(judged, program, step, launches) or _wrong_norm(judged, step, launches):
        return wrong
    if runs_of_layers([judged.layers[layer.output] for layer in step.layers]):
        without = relative_error(got, _chain(judged, step, given, bias=False)) <= most
        return "its biases are not added" if without else _slip(judged, step, given, got, most)
    for layers, words in _mistakes(step):
        mistaken = _chain(judged, step, given, layers)
        if mistaken.shape == got.shape and relative_error(got, mistaken) <= most:
            return words
    if relative_error(got, _chain(judged, step, given, bias=False)) <= most:
        return "its bias is not added"
    want = _chain(judged, step, given)
    right = [relative_error(mine, theirs) <= most for mine, theirs in zip(got, want, strict=True)]
    if right[0] and not all(right):
        return f"image 0 of the batch is right, image {right.index(False)} is wrong"
    return ""


def _slip(judged: Judged, step: Any, given: Mapping[str, np.ndarray], got: np.ndarray, most: float) -> str:
    """The usual mistake of a kernel that computes an inverted residual, in words; "" for another one."""
    convs = [one for one in (judged.layers[layer.output] for layer in step.layers) if isinstance(one, Conv2d)]
    arrays = {"in": given[step.inputs[0]].astype(np.float64)}
    for role, conv in zip(("expand", "depthwise", "project"), convs, strict=True):
        weight = judged.parameters[conv.weight]
        arrays[role] = weight[:, 0] if role == "depthwise" else weight[:, :, 0, 0]
        arrays[f"{role}_bias"] = np.zeros(len(weight)) if conv.bias is None else judged.parameters[conv.bias]
    height, width = convs[1].output_shape[2:]
    dims = {"out_height": height, "out_width": width, "stride": convs[1].stride[0], "residual": len(step.layers) - 5}
    other = "block adds its own input, and this ResidualAdd adds another tensor: they cannot share a step"
    for slip, words in {"": other, **SLIPS}.items():
        mistaken = inverted_residual(arrays, dims, slip)
        if mistaken.shape == got.shape and relative_error(got, mistaken) <= most:
            return words
    return ""


def _kernel_for(judged: Judged, step: Any) -> tuple[str, ...]:
    """The kernels that can run a step's first layer, of those of chapter 04, or block; () for other layers."""
    if runs_of_layers([judged.layers[layer.output] for layer in step.layers]):
        return (KERNEL,)
    match judged.layers[step.layers[0].output]:
        case Conv2d(groups=1, kernel_size=(1, 1), stride=(1, 1)):
            return ("pointwise", "conv", "gemm", "im2col")
        case Conv2d(groups=1):
            return ("conv", "im2col")
        case Conv2d() as layer if layer.groups == layer.in_channels == layer.out_channels:
            return ("depthwise",)
    return ()


def _wrong_address(judged: Judged, program: Any, step: Any, launches: Sequence[Launch]) -> str:
    """The first array in the arena that is not at the place of one of the step's tensors, in words; "" if none is.

    Workspaces are not tensors: an array may lie where one of them does.
    """
    base, offsets = address(program.memory), program.plan.offsets
    spaces = {offset for name, offset in offsets.items() if name not in judged.names}
    for launch in launches:
        left = list(step.inputs)  # those that no array of the launch is yet
        for name, array in _arrays_of(launch).items():
            if array is None or not 0 <= (at := address(array) - base) < program.memory.nbytes or at in spaces:
                continue
            tensors = [step.output] if name == OPERATORS[launch.name].output else left
            found = next((tensor for tensor in tensors if offsets[tensor] == at), None)
            if found in left:
                left.remove(found)
            if found is not None:
                continue
            there = [repr(tensor) for tensor, offset in offsets.items() if offset == at]
            what = " or ".join(there[:2]) + (f" or one of {len(there) - 2} others" if there[2:] else "")
            places = " or ".join(f"{tensor!r} at {offsets[tensor]:,}" for tensor in tensors)
            where = f"where {what} lies" if there else "where no tensor begins"
            return f"the kernel's array {name} is at byte {at:,} of the arena, {where}, expected {places}"
    return ""


def _wrong_norm(judged: Judged, step: Any, launches: Sequence[Launch]) -> str:
    """Which array of a batch-norm's launch does not make of it a convolution, in words; "" for neither."""
    norm = judged.layers[step.layers[0].output]
    if not isinstance(norm, topology.BatchNorm2d):
        return ""
    role = {role: judged.parameters[name] for role, name in matching.role_names(norm).items()}
    weight = role["gamma"] / np.sqrt(role["var"] + norm.eps)
    wanted = {
        "weight": (weight, "gamma / sqrt(var + eps)"),
        "bias": (role["beta"] - role["mean"] * weight, "beta − mean · gamma / sqrt(var + eps)"),
    }
    given = _arrays_of(launches[0])
    for name, (want, formula) in wanted.items():
        got = None if given.get(name) is None else cuda.asnumpy(given[name]).reshape(-1)
        if got is not None and not (got.shape == want.shape and relative_error(got, want) <= OWN):
            return f"its {name} is not {formula}"
    return ""


def address(array: Any) -> int:
    """The address of a NumPy or CuPy array's first byte."""
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def _mistakes(step: Any) -> Iterator[tuple[list[Any], str]]:
    """(layers as a wrong launch computes them, what is wrong)."""
    first, *epilogue = step.layers
    if first.op in ("ReLU", "ReLU6") and epilogue:
        yield epilogue, f"its {first.op} is not applied"
    for missing in epilogue:
        words = "added" if missing.op == "ResidualAdd" else "applied"
        others = [layer for layer in step.layers if layer is not missing]
        yield others, f"the {missing.op} of its epilogue is not {words}"
    if [layer.op for layer in epilogue][:1] == ["ResidualAdd"] and len(epilogue) > 1:
        yield [first, epilogue[1], epilogue[0]], f"the {epilogue[1].op} comes before the ResidualAdd, expected after it"
    if [layer.op for layer in epilogue][-1:] == ["ResidualAdd"] and len(epilogue) > 1:
        yield (
            [first, epilogue[-1], *epilogue[:-1]],
            f"the ResidualAdd comes before the {epilogue[0].op}, and the network adds after it: they cannot share a"
            " step",
        )


def _same_shape(got: Any, want: np.ndarray) -> bool:
    return hasattr(got, "shape") and tuple(got.shape) == want.shape


def _judge_resized(model: Any, judged: Judged, engine: Any) -> None:
    """Check that `resized` leaves the model that it gets as it is, and refuses another number of channels."""
    n, channels, height, width = judged.exact.input_shape
    before = model.SerializeToString()
    with errors_located():
        engine.resized(model, (n + 1, channels, height + 2, width + 3))
    if model.SerializeToString() != before:
        raise Flaw("engine.resized changes the model that it gets, expected that it changes a copy")
    wanted = f"expected a ValueError for {channels + 1} channels: the model has {channels}"
    try:
        with errors_located():
            try:
                engine.resized(model, (n, channels + 1, height, width))
            except ValueError:
                return
    except Flaw as flaw:
        raise Flaw(f"engine.resized: {flaw}, {wanted}") from None
    raise Flaw(f"engine.resized raises no error, {wanted}")


def _judge_runs(model: Any, judged: Judged, bound: Any, engine: Any) -> None:
    """Run the network on several input shapes, twice on the last one, then on the first one's images again."""
    n, channels, height, width = judged.exact.input_shape
    shapes = [(n, channels, height, width), (n + 2, channels, height, width), (n, channels, height + 5, width + 3)]
    kept: list[tuple[Any, np.ndarray]] = []  # what `run` returned so far, and a copy
    previous = None
    for shape, seed in [*((one, 7) for one in shapes), (shapes[-1], 8), (shapes[0], 7)]:
        x = _images(shape, seed)
        graph, parameters = _exact(_resized(model, shape))
        want = _reference(graph, parameters, x)[graph.output]
        before = x.copy()
        what = "run with x of shape " + " × ".join(map(str, shape))
        try:
            with errors_located(), mock.patch.object(engine, "prepare", wraps=engine.prepare) as prepare:
                got = engine.run(bound, x)
        except Flaw as flaw:
            raise Flaw(f"{what}: {flaw}") from None
        if shape == previous and prepare.called:
            raise Flaw(f"{what}: it prepares a program, expected that of the call before, whose x had this shape")
        previous = shape
        if not _same_shape(got, want):
            raise Flaw(f"{what}: the logits have the shape {getattr(got, 'shape', None)}, expected {want.shape}")
        if not all(np.array_equal(cuda.asnumpy(one), copy) for one, copy in kept):
            raise Flaw(f"{what}: it changes the logits that a call before returned")
        raw, got = got, cuda.asnumpy(got).copy()
        kept.append((raw, got))
        if not (error := relative_error(got, want)) <= WHOLE:
            wrong = [i for i in range(len(want)) if not relative_error(got[i], want[i]) <= WHOLE]
            which = f", image {wrong[0]} is the first wrong one" if 0 < len(wrong) < len(want) else ""
            raise Flaw(f"{what}: the logits' error is {error:.0e}, {WHOLE:.0e} is allowed{which}")
        if not np.array_equal(x, before):
            raise Flaw(f"{what}: it changes x")
    if not np.array_equal(kept[0][1], kept[-1][1]):
        raise Flaw(f"{what}: the logits of the same x differ from the first call's")


def _resized(model: Any, shape: Sequence[Any]) -> Any:
    """A copy of a model for another input shape; a name in the place of a number leaves it open."""
    changed, name = copy.deepcopy(model), topology.read_onnx(model).input
    for value in changed.graph.input:
        if value.name == name:
            for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
                setattr(dim, "dim_param" if isinstance(size, str) else "dim_value", size)
    return changed


def _judge_digits(model: Any, bound: Any, engine: Any, count: int) -> float:
    """The number of held-out digits that the engine reads rightly, in batches of 32; as ONNX Runtime reads them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; a warning says that the batch is not the file's
    session = onnxruntime.InferenceSession(_resized(model, ("n", 3, 48, 48)).SerializeToString(), options)
    split, right = weights.digits_split(), 0
    for begin in range(0, count, 32):
        rows = slice(begin, min(begin + 32, count))
        x = weights.digits_input(split.test_images[rows])
        (want,) = session.run(None, {session.get_inputs()[0].name: x})
        with errors_located():
            read = np.asarray(cuda.asnumpy(engine.run(bound, x))).argmax(1)
        if (other := np.flatnonzero(read != want.argmax(1))).size:
            at = int(other[0])
            raise Flaw(f"digit {begin + at} is read as {read[at]}, ONNX Runtime reads {want[at].argmax()}")
        right += int((read == split.test_labels[rows]).sum())
    return right


def _timed(program: Any) -> float:
    """The µs of one run on the GPU, its launches replayed from a CUDA graph."""

    def launches() -> None:
        for launch in program.launches:
            launch()

    return timing.time(launches).median_us
