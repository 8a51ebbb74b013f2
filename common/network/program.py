"""A network as launches over buffers: the kernels of each step, and the placement of its activations."""

import abc
import copy
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from .. import cuda, topology, weights
from ..cuda import layout as layouts
from ..text import aligned
from ..topology import layers as kinds
from ..topology.graph import Signature, shapes_of, show_shapes, signature_of, with_batch
from . import passes, registry, replay
from .arena import Arena, Lifetime, for_batch, place, placed_at
from .registry import Arrays, Step
from .replay import Captured

DTYPES = {"fp32": np.float32, "fp16": np.float16, "int8": np.int8}
Launch = Callable[[], None]


# ---- Placement of tensors


def lives(
    graph: topology.Graph, steps: list[Step], itemsize: int | Mapping[str, int], shares: Mapping[str, str] | None = None
) -> list[Lifetime]:
    """The live range of each activation, in steps: one Lifetime per tensor that needs memory of its own.

    itemsize: bytes per element, of all tensors or by tensor name. shares: as returned by `sharing`. Inputs are
    live during all steps, so that a network can run on them again; outputs until after the last step.
    """
    root: dict[str, str] = {}
    for name in graph.shapes:
        root[name] = root[shares[name]] if shares and name in shares else name
    sizes = itemsize if isinstance(itemsize, Mapping) else dict.fromkeys(graph.shapes, itemsize)
    first = dict.fromkeys(graph.inputs, 0)
    last = {root[name]: len(steps) for name in (*graph.inputs, *graph.outputs)}
    for i, step in enumerate(steps):
        first.setdefault(root[step.output], i)
        for name in (*step.reads, step.output):
            last[root[name]] = max(last.get(root[name], 0), i)
    return [
        Lifetime(name, sizes[name] * math.prod(shape), first[name], last[name])
        for name, shape in graph.shapes.items()
        if name in first
    ]


def sharing(
    graph: topology.Graph, steps: list[Step], is_view: Callable[[Step], bool], in_place: bool
) -> dict[str, str]:
    """For each tensor that uses another tensor's memory, the name of that tensor.

    is_view    whether a step is a reshape that moves no element
    in_place   whether steps whose operator allows it write over an input of the output's shape that no later step reads
    """
    until = {name: i for i, step in enumerate(steps) for name in step.reads}  # the last step that reads this memory
    until |= dict.fromkeys((*graph.inputs, *graph.outputs), len(steps))
    shares: dict[str, str] = {}
    roots: dict[str, str] = {}  # for those in shares: the tensor that owns the memory

    for i, step in enumerate(steps):
        entry = registry.operator_of(step)
        if is_view(step):
            able = list(step.inputs[:1])
        elif in_place and entry is not None and entry.in_place:
            sizes = zip(step.inputs, step.input_shapes, strict=True)
            able = [name for name, shape in sizes if shape == step.output_shape and until[roots.get(name, name)] <= i]
        else:
            able = []
        if able:
            root = roots.get(able[0], able[0])
            shares[step.output], roots[step.output] = able[0], root
            until[root] = max(until[root], until.get(step.output, i))
    return shares


def workspace_of(step: Step) -> str:
    """The name of a step's workspace in an arena."""
    return f"workspace of {step.output}"


def arrays_of(step: Step, buffers: Mapping[str, Any]) -> Arrays:
    """The arrays of a step, from those by tensor name."""
    residual = buffers[step.residual] if step.residual else None
    return Arrays([buffers[name] for name in step.inputs], residual, buffers[step.output])


@dataclass(frozen=True)
class Plan:
    """The plan of a program for one input shape: the steps, what runs each, and the memory of its output.

    told          the implementation of each step, in words: "pointwise/split_k"
    lifetimes     the live ranges of tensors with memory of their own
    shares        tensor → the tensor whose memory it uses
    arena         the placement of the activations; None if each has a buffer of its own
    composition   name of the Composition of `optimize`, if any
    complete      the arena completed by the workspaces of kernels, which depend on the card
    input_shape   the Graph.signature: of several inputs a tuple of shapes
    itemsizes     bytes per element by tensor name, where tensors have several types; None: that of the dtype

    str(plan) is a table of all steps.
    """

    name: str
    backend: str
    dtype: str
    layout: str
    input_shape: Signature
    steps: list[Step]
    told: list[str]
    lifetimes: list[Lifetime]
    shares: dict[str, str]
    arena: Arena | None
    composition: str | None = None
    complete: Arena | None = None
    itemsizes: Mapping[str, int] | None = None

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return np.dtype(DTYPES[self.dtype]).itemsize

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all steps."""
        return sum(step.macs for step in self.steps)

    @property
    def bytes(self) -> int:
        """Bytes of activations and parameters that the steps read and write, each array once per step."""
        return sum(self.step_bytes(i) for i in range(len(self.steps)))

    @property
    def kept(self) -> int:
        """Bytes of all activations without sharing: the sum of their sizes."""
        if self.itemsizes is not None:
            read = {name: shape for s in self.steps for name, shape in zip(s.inputs, s.input_shapes, strict=True)}
            shapes_by_name = read | {step.output: step.output_shape for step in self.steps}
            return sum(self.itemsizes[name] * math.prod(shape) for name, shape in shapes_by_name.items())
        shapes = [*shapes_of(self.input_shape), *(step.output_shape for step in self.steps)]
        return self.itemsize * sum(math.prod(shape) for shape in shapes)

    @property
    def memory(self) -> int:
        """Bytes of memory for activations, without workspaces."""
        return self.arena.bytes if self.arena else sum(one.bytes for one in self.lifetimes)

    @property
    def workspaces(self) -> dict[str, int]:
        """Bytes in the arena for intermediate results of kernels, by workspace_of(step); each is live in one step."""
        placed = self.complete.lifetimes if self.complete else ()
        return {one.name: one.bytes for one in placed if one.name not in self._sizes}

    def step_bytes(self, index: int) -> int:
        """Bytes that a step reads and writes; 0 for a view."""
        if self.sees(index):
            return 0
        return registry.cost(self.steps[index], self.itemsize).bytes

    def sees(self, index: int) -> bool:
        """Whether a step is a view of its input (a reshape that moves nothing), and so launches nothing."""
        step = self.steps[index]
        reshapes = any(isinstance(layer, kinds.Reshape) for layer in step.layers)
        return reshapes and self.shares.get(step.output) == step.inputs[0]

    def where(self, tensor: str) -> str:
        """A tensor's memory, in words: "1,204,224 at 0" (bytes and offset), or "as conv1" if it shares conv1's."""
        if tensor in self.shares:
            return f"as {self.shares[tensor]}"
        return f"{self._sizes[tensor]:,}" + (f" at {self.arena.offsets[tensor]:,}" if self.arena else "")

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {one.name: one.bytes for one in self.lifetimes}

    def __str__(self) -> str:
        heads = ("", "step", "runs as", "output", "bytes of it", "MACs", "bytes moved")
        rows = [heads] + [
            (
                f"{i}:", step.title, told, " × ".join(map(str, step.output_shape)), self.where(step.output),
                f"{step.macs:,}" if step.macs else "", f"{self.step_bytes(i):,}",
            )
            for i, (step, told) in enumerate(zip(self.steps, self.told, strict=True))
        ]  # fmt: skip
        memory = f"activations: {sum(one.bytes for one in self.lifetimes) / 1e6:,.2f} MB, each in memory of its own"
        if self.arena:
            memory = (
                f"activations: {self.arena.bytes / 1e6:,.2f} MB in one arena,"
                f" {self.kept / self.arena.bytes:.1f} times less than the {self.kept / 1e6:,.2f} MB of all;"
                f" no placement takes less than {self.arena.bound / 1e6:,.2f} MB"
            )
            if self.complete and self.workspaces:
                memory += (
                    f"; {self.complete.bytes / 1e6:,.2f} MB with kernels' workspaces,"
                    f" up to {max(self.workspaces.values()) / 1e6:,.2f} MB per step"
                )
        shape = show_shapes(self.input_shape)
        made = f", optimized: {self.composition}" if self.composition else ""
        return "\n".join(
            [
                f"{self.name} on {self.backend}, {self.dtype}, {self.layout}, input {shape}{made}",
                "",
                *aligned(rows, right=(0, 5, 6)),
                "",
                f"{len(self.steps)} steps of {sum(len(step.layers) for step in self.steps)} layers,"
                f" {self.macs / 1e6:,.1f} million multiply-accumulates, {self.bytes / 1e6:,.2f} MB moved",
                memory,
            ]
        )


# ---- Execution


class Program:
    """A network's launches for one input shape, over buffers of its own.

    Write to `input`, call `launch()`, read `output`: arrays of the backend in the network's layout and dtype, of
    logical shape (N, C, H, W). `inputs` and `outputs` have the arrays of all inputs and outputs. `launch` enqueues on
    CuPy's current stream and allocates nothing, so a CUDA graph can capture it.

    steps, told     the steps, and the implementation of each, in words
    buffers         tensor name → array. With an arena a buffer is valid only during the tensor's live range
    parameters      name → array
    graph           of the steps
    single_launch   one launch for all steps (a persistent kernel), which `launch` uses if it is not None
    capturable      whether all that `launch` does are launches: a CUDA graph would leave out other work
    """

    def __init__(
        self, plan: Plan, buffers: dict[str, Any], parameters: dict[str, Any], graph: topology.Graph,
        launches: list[Launch], single_launch: Launch | None = None, capturable: bool = True,
    ) -> None:  # fmt: skip
        self.plan, self.steps, self.told = plan, plan.steps, plan.told
        self.buffers, self.parameters = buffers, parameters
        self.graph = graph
        self.inputs = tuple(buffers[name] for name in graph.inputs)
        self.outputs = tuple(buffers[name] for name in graph.outputs)
        self.input, self.output = self.inputs[0], self.outputs[0]
        self._launches, self.single_launch, self.capturable = launches, single_launch, capturable

    def launch(self) -> None:
        """Enqueue all steps."""
        for launch in self._launches if self.single_launch is None else (self.single_launch,):
            launch()

    def launch_step(self, index: int) -> None:
        """Enqueue step `index` alone, as a launch of its own."""
        self._launches[index]()


@dataclass(frozen=True)
class CompiledPlan:
    """A plan for one input shape.

    graph        of steps
    workspaces   bytes of the workspaces that steps' kernels need, by name; None: to be found and placed
    offsets      in bytes in the arena, of each activation and workspace, by name
    """

    graph: topology.Graph
    workspaces: Mapping[str, int] | None
    offsets: Mapping[str, int]

    @property
    def for_one_batch(self) -> bool:
        """Whether steps were chosen for this batch: those of fusions other than the default's, with their tiles."""
        fusions = (step.fusion for step in passes.as_steps(self.graph))
        return any(fusion and fusion.name not in passes.DEFAULT for fusion in fusions)

    def for_batch(self, batch: int) -> "CompiledPlan":
        """The plan for a batch of images, derived from this one for one image."""
        layers = [registry.with_batch(layer, batch) for layer in self.graph.layers]
        offsets = {name: offset for name, offset in self.offsets.items() if name not in (self.workspaces or ())}
        return CompiledPlan(self.graph.with_batch(batch, layers), None, for_batch(offsets, batch))


@dataclass(frozen=True)
class CompiledPlans:
    """What a StepBackend needs in place of a model: the results of passes, memory planner and weight preparation.

    plans        by input shape
    parameters   name → (elements in the order of memory, logical shape): in the backend's dtype and layout
    """

    plans: Mapping[Signature, CompiledPlan]
    parameters: Mapping[str, tuple[np.ndarray, tuple[int, ...]]]


class StepBackend(abc.ABC):
    """Runs a network's steps in order; the programs of the last KEPT input shapes are cached.

    An input shape is a Graph.signature everywhere here: (N, C, H, W), or a tuple of shapes for several inputs.
    model: an onnx.ModelProto, or the CompiledPlans of one. target: the backend's options, with dtype and layout.
    pipeline: the passes, with their names; not used with CompiledPlans. Calls share buffers, so calls on different
    streams are ordered by events. Not thread-safe, except that several `context`s may run at once.
    """

    KEPT = 4  # input shapes
    replay = False  # whether calls replay a CUDA graph, see replay.py
    name: ClassVar[str]
    shares: ClassVar[bool] = False  # whether tensors may share memory: views, and steps in place
    composed: str | None = None  # name of the Composition, see common.optimize

    def __init__(self, model: Any, target: Any, pipeline: passes.Pipeline) -> None:
        self.target, self._pipeline = target, pipeline
        self._dtype, self._layout = target.dtype, target.layout
        self._source: Any = replace(model, parameters={}) if isinstance(model, CompiledPlans) else model
        self.parameters: dict[str, Any] = {}
        if isinstance(model, CompiledPlans):
            graph = next(iter(model.plans.values())).graph
            for plan in model.plans.values():
                self.check(plan.graph)
            for name, (elements, shape) in model.parameters.items():
                self.parameters[name] = layouts.shaped(cuda.asarray(elements), shape, self._layout)
        else:
            graph, parameters = self.folded()
            self.parameters = self.prepared(graph, parameters)
        self.ready(graph)
        cuda.synchronize()  # calls may use other streams
        self._preparing = threading.RLock()  # of all contexts: one at a time makes a program or captures it
        self._start()

    def _start(self) -> None:
        self._programs: OrderedDict[Signature, Program | Captured] = OrderedDict()
        self._captured: dict[Signature, Captured] = {}
        self._replays = replay.Replays()
        self._last: Any = None  # (stream, event) of the last call

    def ready(self, graph: topology.Graph) -> None:  # noqa: B027 (most have nothing to prepare)
        """Prepare what depends on the parameters, which are set. graph: with batch-norms folded, of layers or steps."""

    def prepared(self, graph: topology.Graph, parameters: dict[str, np.ndarray]) -> dict[str, Any]:
        """The arrays on the device, by name, of a graph of layers with these parameters."""
        for layer in graph.layers:
            parameters |= registry.operator_of(layer).prepare(layer, parameters)  # type: ignore[union-attr]
        return {name: self._on_device(value) for name, value in parameters.items()}

    def dtypes(self, graph: topology.Graph) -> Mapping[str, np.dtype]:
        """The type of each tensor of a graph of steps, by name."""
        return dict.fromkeys(graph.shapes, np.dtype(DTYPES[self._dtype]))

    def context(self) -> Self:
        """A runner over the same parameters with programs of its own, which may run while this one does."""
        other = copy.copy(self)
        other._start()
        return other

    def _on_device(self, value: np.ndarray) -> Any:
        array = cuda.asarray(value, DTYPES[self._dtype])
        return cuda.to_layout(array, self._layout) if array.ndim == 4 else array

    def weights(self, layer: Any) -> tuple[Any, Any]:
        """A layer's weight and bias, or None where it has none."""
        return self.parameters[layer.weight], self.parameters[layer.bias] if layer.bias else None

    @property
    def _model(self) -> Any:
        """The onnx.ModelProto. ValueError if there is none."""
        if isinstance(self._source, CompiledPlans):
            raise ValueError("this network was loaded from a saved plan, without ONNX graph and passes: Network(model)")
        return self._source

    def known(self, shape: Signature) -> CompiledPlan | None:
        """The plan that CompiledPlans have for an input shape, or one derived from that for one image; else ValueError.

        None with a model.
        """
        if not isinstance(self._source, CompiledPlans):
            return None
        plans = self._source.plans
        if shape in plans:
            return plans[shape]
        one = plans.get(with_batch(shape, 1))
        if one and not one.for_one_batch:
            return one.for_batch(shapes_of(shape)[0][0])
        raise ValueError(f"x must have one of the input shapes saved, {', '.join(map(str, plans))}, got {shape}")

    # Layers

    def check(self, graph: topology.Graph) -> None:
        """Raise UnsupportedModel for the first layer that this backend cannot run."""
        for i, layer in enumerate(graph.layers):
            if problem := self.refuses(layer):
                raise topology.UnsupportedModel(
                    f"layer {i} ('{layer.name}'): backend '{self.name}' {problem}; "
                    "backends 'torch' and 'onnxruntime' do"
                )

    def refuses(self, layer: topology.Layer) -> str | None:
        """Why this backend cannot run a layer: "runs no …"; None if it can."""
        entry = registry.operator_of(layer)
        if isinstance(entry, registry.Fusion):
            return None if entry.runs_on(self.name) else f"runs no fusion {entry.name!r}"
        if entry is None or not entry.runs_on(self.name):
            return f"runs no {type(registry.first(layer)).__name__}"
        return entry.refuses(self.name, registry.first(layer))

    def folded(self, shape: Signature | None = None) -> tuple[topology.Graph, dict[str, np.ndarray]]:
        """(graph, parameters) for an input shape, with batch-norms folded; parameters: float32 NumPy arrays by name.

        The file is read again for each shape, because padding may depend on the size. UnsupportedModel as of `check`.
        """
        graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(self._model, shape))
        self.check(graph)
        return graph, parameters

    def stages(self, shape: Signature) -> Iterator[tuple[str, topology.Graph]]:
        """(name, graph) for an input shape: as read, with batch-norms folded, and after each pass."""
        yield "read", topology.read_onnx(self._model, shape)
        graph, _ = self.folded(shape)
        yield "fold batch-norm", graph
        yield from passes.stages(graph, self._pipeline)

    def rewritten(self, graph: topology.Graph) -> topology.Graph:
        """A folded graph after all passes. UnsupportedModel as of `check`."""
        done = [graph, *(after for _, after in passes.stages(graph, self._pipeline))]
        self.check(done[-1])
        return done[-1]

    def graph(self, shape: Signature) -> topology.Graph:
        """The graph for an input shape after all passes. UnsupportedModel as of `check`."""
        known = self.known(shape)
        return known.graph if known else self.rewritten(self.folded(shape)[0])

    def explain(self, shape: Signature) -> str:
        """A text: the number of layers after each pass, and the refused matches, see passes.explain."""
        return passes.explain(self.folded(shape)[0], self._pipeline)

    # Plans and programs

    def compiled_plans(self, shapes: Iterable[Signature]) -> "CompiledPlans":
        """The plans for some input shapes, with the parameters, for a runner that needs neither model nor passes."""
        plans: dict[Signature, CompiledPlan] = {}
        for shape in shapes:
            plan = self.plan(shape)
            assert plan.complete is not None
            graph = replace(self.graph(shape), layers=tuple(plan.steps))
            plans[shape] = CompiledPlan(graph, plan.workspaces, plan.complete.offsets)
        parameters = {
            name: (cuda.asnumpy(layouts.flat(array)), tuple(array.shape)) for name, array in self.parameters.items()
        }
        return CompiledPlans(plans, parameters)

    def plan(self, shape: Signature) -> Plan:
        """The plan for an input shape. Nothing is allocated or launched."""
        with cuda.shapes_only():
            return self.program(shape, arena=True, compiled=False).plan

    def program(self, shape: Signature, arena: bool = False, compiled: bool = True) -> Program:
        """A new program for an input shape.

        arena      whether activations share one allocation
        compiled   whether to compile the kernels now, and the single launch for all steps if there is one
        """
        with self._preparing:
            return self._program(shape, arena, compiled)

    def _program(self, shape: Signature, arena: bool, compiled: bool) -> Program:
        graph = self.graph(shape)
        steps = passes.as_steps(graph)
        shares = sharing(graph, steps, self.is_view, in_place=arena) if self.shares else {}
        itemsizes = {name: dtype.itemsize for name, dtype in self.dtypes(graph).items()}
        lifetimes = lives(graph, steps, itemsizes, shares)
        placed, complete = self._place(shape, lifetimes) if arena else (None, None)
        given = graph, steps, lifetimes, shares, compiled
        buffers, single_launch, bound, workspaces = self._bound(*given, complete)
        if placed is not None and complete is placed and workspaces:
            del buffers, single_launch, bound  # and the memory of this attempt, which had workspaces of its own
            complete = place(workspaces, beside=placed)
            buffers, single_launch, bound, _ = self._bound(*given, complete)
        if compiled:
            self.compile(bound)
        launches, described = self.finish(bound)
        plan = Plan(
            graph.name, self.name, self._dtype, self._layout, graph.signature, steps, described, lifetimes, shares,
            placed, self.composed, complete, None if len(set(itemsizes.values())) == 1 else itemsizes,
        )  # fmt: skip
        capturable = self.capturable(steps, bound)
        return Program(plan, buffers, self.parameters, graph, launches, single_launch, capturable)

    def _place(self, shape: Signature, lifetimes: list[Lifetime]) -> tuple[Arena, Arena]:
        """(the placement of the activations, the same completed by the workspaces); one object if none are known."""
        known = self.known(shape)
        if known is None or known.workspaces is None:
            placed = placed_at(lifetimes, known.offsets) if known else place(lifetimes)
            return placed, placed
        number = {workspace_of(step): i for i, step in enumerate(passes.as_steps(known.graph))}
        workspaces = [Lifetime(name, size, number[name], number[name]) for name, size in known.workspaces.items()]
        complete = placed_at([*lifetimes, *workspaces], known.offsets)
        return Arena(tuple(lifetimes), {one.name: complete.offsets[one.name] for one in lifetimes}), complete

    def _bound(
        self, graph: topology.Graph, steps: list[Step], lifetimes: list[Lifetime], shares: Mapping[str, str],
        compiled: bool, arena: Arena | None,
    ) -> tuple[dict[str, Any], Launch | None, list[Any], list[Lifetime]]:  # fmt: skip
        """The steps bound to new memory: (buffers, the single launch, what `bind` returned, the workspaces taken)."""
        memory = cuda.empty(arena.bytes, np.uint8) if arena else None
        buffers = self._buffers(graph.shapes, lifetimes, shares, arena, memory, self.dtypes(graph))
        single_launch = self.single_launch(graph, buffers) if compiled else None
        bound, workspaces = [], []
        for i, step in enumerate(steps):
            name = workspace_of(step)
            with cuda.workspace_in(arena.part(memory, name) if arena else None) as space:
                bound.append(self.bind(step, arrays_of(step, buffers)))
            if space.taken:
                workspaces.append(Lifetime(name, space.taken, i, i))
        return buffers, single_launch, bound, workspaces

    def _buffers(
        self, shapes: Mapping[str, kinds.Shape], lifetimes: list[Lifetime], shares: Mapping[str, str],
        placed: Arena | None, memory: Any, dtypes: Mapping[str, np.dtype],
    ) -> dict[str, Any]:  # fmt: skip
        """An array for each tensor: in the arena's `memory` if there is one, or a view of the tensor that it shares."""
        buffers: dict[str, Any] = {}
        for one in lifetimes:
            if placed is None:
                buffers[one.name] = layouts.empty(shapes[one.name], dtypes[one.name], self._layout)
            else:
                elements = placed.part(memory, one.name).view(dtypes[one.name])
                buffers[one.name] = layouts.shaped(elements, shapes[one.name], self._layout)
        for name, source in shares.items():
            buffers[name] = layouts.shaped(layouts.flat(buffers[source]), shapes[name], self._layout)
        return buffers

    def is_view(self, step: Step) -> bool:
        """Whether a step is a reshape that moves no element in memory."""
        shapes = (*step.input_shapes, step.output_shape)
        return isinstance(step.layer, kinds.Reshape) and (
            self._layout == "NCHW" or all(layouts.is_plain(shape) for shape in shapes)
        )

    # Binding and running

    def bind(self, step: Step, arrays: Arrays) -> Any:
        """What the step's operator or fusion returns for these arrays on this backend, for `finish`."""
        return getattr(registry.operator_of(step), self.name)(self, step, arrays)

    def single_launch(self, graph: topology.Graph, buffers: dict[str, Any]) -> Launch | None:
        """One launch that computes all steps, or None. It may replace the output's array in `buffers` by its own."""
        return None

    def compile(self, bound: list[Any]) -> None:  # noqa: B027 (most have nothing to compile)
        """Compile the kernels of what `bind` returned for all steps."""

    @abc.abstractmethod
    def capturable(self, steps: list[Step], bound: list[Any]) -> bool:
        """Whether what `bind` returned for the steps are launches only, without work on the host."""

    @abc.abstractmethod
    def finish(self, bound: list[Any]) -> tuple[list[Launch], list[str]]:
        """(launches, descriptions), one per step, from what `bind` returned for all steps."""

    def program_for(self, shape: Signature) -> Program | Captured:
        """The program that calls with an input shape run: a captured one, else a cached one, else a new one."""
        if shape in self._captured:
            return self._captured[shape]
        if shape in self._programs:
            self._programs.move_to_end(shape)
            return self._programs[shape]
        self._programs[shape] = self.program(shape, arena=True)
        while len(self._programs) > self.KEPT:
            if self.replay and self._last:
                self._last[1].synchronize()  # others may get the memory at once, on any stream
            old, _ = self._programs.popitem(last=False)
            self._replays.forget(old)
        return self._programs[shape]

    def capture(self, shape: Signature) -> Captured:
        """Capture the network in a CUDA graph, which calls with this input shape run from now on."""
        if shape not in self._captured:
            self._programs.pop(shape, None)
            self._replays.forget(shape)
            with self._preparing:
                self._captured[shape] = Captured(self.program(shape, arena=True))
        return self._captured[shape]

    def __call__(self, *inputs: Any) -> Any:
        """The output for an input (N, C, H, W): a new float32 array of the backend; of several outputs a tuple."""
        shape = signature_of(tuple(x.shape) for x in inputs)
        program = self.program_for(shape)
        if self.replay and isinstance(program, Program):
            with self._preparing:
                self._programs[shape] = program = self._replays.called(shape, program)
        self._wait()
        for array, x in zip(program.inputs, inputs, strict=True):
            array[...] = cuda.asarray(x, np.float32)
        program.launch()
        results = tuple(array.astype(np.float32) for array in program.outputs)
        self._done()
        return results if len(results) > 1 else results[0]

    def replayed(self, shape: Signature, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        """The outputs of a replay for PyTorch's tensors, new float32 tensors; None if this call is no such replay."""
        if not self.replay or not replay.are_tensors(inputs):
            return None
        program = self._captured.get(shape) or self._programs.get(shape)
        if not isinstance(program, Captured) or not program.torch_calls.takes(inputs):
            return None
        if shape in self._programs:
            self._programs.move_to_end(shape)
        stream = program.torch_calls.stream()
        self._wait(stream)
        results = program.torch_calls(inputs, stream)
        self._done(stream)
        return results

    def _wait(self, stream: Any = None) -> None:
        """Make a CuPy stream, by default the current one, wait for the last call, which used the same buffers."""
        if self._last is None:
            return
        import cupy

        last, event = self._last
        current = stream or cupy.cuda.get_current_stream()
        if current.ptr != last:
            current.wait_event(event)

    def _done(self, stream: Any = None) -> None:
        """Record an event after this call, for `_wait`."""
        if cuda.backend() != "gpu":
            return
        import cupy

        current = stream or cupy.cuda.get_current_stream()
        event = self._last[1] if self._last else cupy.cuda.Event(disable_timing=True)
        event.record(current)
        self._last = current.ptr, event


def in_turn(launches: Iterable[Launch]) -> Launch:
    """One launch that makes several, in order."""
    every = tuple(launches)
    if len(every) == 1:
        return every[0]

    def launch() -> None:
        for one in every:
            one()

    return launch
