"""A network as launches over buffers: the kernels of each step, and the placement of its activations."""

import abc
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .. import cuda, topology, weights
from ..cuda import layout as layouts
from ..text import aligned
from ..topology import layers as kinds
from . import passes, registry
from .arena import Arena, Lifetime, place
from .registry import Arrays, Step

DTYPES = {"fp32": np.float32, "fp16": np.float16}
Launch = Callable[[], None]


# ---- Placement of tensors


def lives(
    graph: topology.Graph, steps: list[Step], itemsize: int, shares: Mapping[str, str] | None = None
) -> list[Lifetime]:
    """The live range of each activation, in steps: one Lifetime per tensor that needs memory of its own.

    itemsize: bytes per element. shares: as returned by `sharing`. The input is live during all steps, so that a network
    can run on it again; the output until after the last step.
    """
    root: dict[str, str] = {}
    for name in graph.shapes:
        root[name] = root[shares[name]] if shares and name in shares else name
    first, last = {graph.input: 0}, {root[graph.input]: len(steps), root[graph.output]: len(steps)}
    for i, step in enumerate(steps):
        first.setdefault(root[step.output], i)
        for name in (*step.reads, step.output):
            last[root[name]] = max(last.get(root[name], 0), i)
    return [
        Lifetime(name, itemsize * math.prod(shape), first[name], last[name])
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
    until[graph.output] = until[graph.input] = len(steps)
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


@dataclass(frozen=True)
class Plan:
    """The plan of a program for one input shape: the steps, what runs each, and the memory of its output.

    told          the implementation of each step, in words: "pointwise/split_k"
    lifetimes     the live ranges of tensors with memory of their own
    shares        tensor → the tensor whose memory it uses
    arena         the placement; None if each activation has a buffer of its own
    composition   name of the Composition of `optimize`, if any

    str(plan) is a table of all steps.
    """

    name: str
    backend: str
    dtype: str
    layout: str
    input_shape: kinds.Shape
    steps: list[Step]
    told: list[str]
    lifetimes: list[Lifetime]
    shares: dict[str, str]
    arena: Arena | None
    composition: str | None = None

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
        shapes = [self.input_shape, *(step.output_shape for step in self.steps)]
        return self.itemsize * sum(math.prod(shape) for shape in shapes)

    @property
    def memory(self) -> int:
        """Bytes of memory allocated for activations."""
        return self.arena.bytes if self.arena else sum(one.bytes for one in self.lifetimes)

    def step_bytes(self, index: int) -> int:
        """Bytes that a step reads and writes; 0 for a view."""
        if self.sees(index):
            return 0
        return registry.cost(self.steps[index], self.itemsize).bytes

    def sees(self, index: int) -> bool:
        """Whether a step is a view of its input (a reshape that moves nothing), and so launches nothing."""
        step = self.steps[index]
        return isinstance(step.layer, kinds.Reshape) and self.shares.get(step.output) == step.inputs[0]

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
        shape = " × ".join(map(str, self.input_shape))
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
    logical shape (N, C, H, W). `launch` enqueues on CuPy's current stream and allocates nothing, so a CUDA graph can
    capture it.

    steps, told     the steps, and the implementation of each, in words
    buffers         tensor name → array. With an arena a buffer is valid only during the tensor's live range
    parameters      name → array
    ends            the names of the input and output tensors
    single_launch   one launch for all steps (a persistent kernel), which `launch` uses if it is not None
    """

    def __init__(
        self, plan: Plan, buffers: dict[str, Any], parameters: dict[str, Any], ends: tuple[str, str],
        launches: list[Launch], single_launch: Launch | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.steps, self.told = plan, plan.steps, plan.told
        self.buffers, self.parameters = buffers, parameters
        self.ends, self.input, self.output = ends, buffers[ends[0]], buffers[ends[1]]
        self._launches, self.single_launch = launches, single_launch

    def launch(self) -> None:
        """Enqueue all steps."""
        for launch in self._launches if self.single_launch is None else (self.single_launch,):
            launch()

    def launch_step(self, index: int) -> None:
        """Enqueue step `index` alone, as a launch of its own."""
        self._launches[index]()


class Captured:
    """A program captured in a CUDA graph: write to `input`, call `launch()`, read `output`.

    On the simulator, which has no CUDA graphs, `launch` runs the steps one by one, with the same result.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.input, self.output = program, program.input, program.output
        self._graph = None
        if cuda.backend() == "gpu":
            from ..cuda.graphs import capture

            self._graph = capture(program.launch)

    def launch(self) -> None:
        """Enqueue the network on CuPy's current stream."""
        if self._graph is None:
            self.program.launch()
        else:
            self._graph.launch()


class StepBackend(abc.ABC):
    """Runs a network's steps in order; the programs of the last KEPT input shapes are cached.

    model: an onnx.ModelProto. target: the backend's options, with dtype and layout. pipeline: the passes, with their
    names. Calls share buffers, so calls on different streams are ordered by events.
    """

    KEPT = 4  # input shapes
    name: ClassVar[str]
    shares: ClassVar[bool] = False  # whether tensors may share memory: views, and steps in place
    composed: str | None = None  # name of the Composition, see common.optimize

    def __init__(self, model: Any, target: Any, pipeline: passes.Pipeline) -> None:
        self._model, self.target, self._pipeline = model, target, pipeline
        self._dtype, self._layout = target.dtype, target.layout
        graph, parameters = self.folded()
        for layer in graph.layers:
            parameters |= registry.operator_of(layer).prepare(layer, parameters)  # type: ignore[union-attr]
        self.parameters = {name: self._on_device(value) for name, value in parameters.items()}
        cuda.synchronize()  # calls may use other streams
        self._programs: OrderedDict[tuple[int, ...], Program | Captured] = OrderedDict()
        self._captured: dict[tuple[int, ...], Captured] = {}
        self._last: Any = None  # (stream, event) of the last call

    def _on_device(self, value: np.ndarray) -> Any:
        array = cuda.asarray(value, DTYPES[self._dtype])
        return cuda.to_layout(array, self._layout) if array.ndim == 4 else array

    def weights(self, layer: Any) -> tuple[Any, Any]:
        """A layer's weight and bias, or None where it has none."""
        return self.parameters[layer.weight], self.parameters[layer.bias] if layer.bias else None

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
        """Why this backend cannot run a layer: "runs …, not …"; None if it can."""
        entry = registry.operator_of(layer)
        if isinstance(entry, registry.Fusion):
            return None if entry.runs_on(self.name) else f"runs no fusion {entry.name!r}"
        if entry is None or not entry.runs_on(self.name):
            able = ", ".join(kind.__name__ for kind in registry.layers_on(self.name))
            return f"runs {able}, not {type(registry.first(layer)).__name__}"
        return entry.refuses(self.name, registry.first(layer))

    def folded(self, shape: tuple[int, ...] | None = None) -> tuple[topology.Graph, dict[str, np.ndarray]]:
        """(graph, parameters) for an input shape, with batch-norms folded; parameters: float32 NumPy arrays by name.

        The file is read again for each shape, because padding may depend on the size. UnsupportedModel as of `check`.
        """
        graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(self._model, shape))
        self.check(graph)
        return graph, parameters

    def stages(self, shape: tuple[int, ...]) -> Iterator[tuple[str, topology.Graph]]:
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

    def explain(self, shape: tuple[int, ...]) -> str:
        """A text: the number of layers after each pass, and the refused matches, see passes.explain."""
        return passes.explain(self.folded(shape)[0], self._pipeline)

    # Plans and programs

    def plan(self, shape: tuple[int, ...]) -> Plan:
        """The plan for an input shape. Nothing is allocated or launched."""
        with cuda.shapes_only():
            return self.program(shape, arena=True, compiled=False).plan

    def program(self, shape: tuple[int, ...], arena: bool = False, compiled: bool = True) -> Program:
        """A new program for an input shape.

        arena      whether activations share one allocation
        compiled   whether to compile the kernels now, and the single launch for all steps if there is one
        """
        folded, _ = self.folded(shape)
        graph, dtype = self.rewritten(folded), np.dtype(DTYPES[self._dtype])
        steps = passes.as_steps(graph)
        shares = sharing(graph, steps, self.is_view, in_place=arena) if self.shares else {}
        lifetimes = lives(folded, steps, dtype.itemsize, shares)
        placed = place(lifetimes) if arena else None
        buffers = self._buffers(folded.shapes, lifetimes, shares, placed, dtype)
        single_launch = self.single_launch(graph, buffers) if compiled else None
        bound = []
        for step in steps:
            residual = buffers[step.residual] if step.residual else None
            arrays = Arrays([buffers[name] for name in step.inputs], residual, buffers[step.output])
            bound.append(self.bind(step, arrays))
        if compiled:
            self.compile(bound)
        launches, described = self.finish(bound)
        plan = Plan(
            graph.name, self.name, self._dtype, self._layout, graph.input_shape, steps, described, lifetimes, shares,
            placed, self.composed,
        )  # fmt: skip
        return Program(plan, buffers, self.parameters, (graph.input, graph.output), launches, single_launch)

    def _buffers(
        self, shapes: Mapping[str, kinds.Shape], lifetimes: list[Lifetime], shares: Mapping[str, str],
        placed: Arena | None, dtype: np.dtype,
    ) -> dict[str, Any]:  # fmt: skip
        """An array for each tensor: in the arena if there is one, or a view of the tensor whose memory it shares."""
        memory = cuda.empty(placed.bytes, np.uint8) if placed else None
        buffers: dict[str, Any] = {}
        for one in lifetimes:
            if placed is None:
                buffers[one.name] = layouts.empty(shapes[one.name], dtype, self._layout)
            else:
                start = placed.offsets[one.name]
                elements = memory[start : start + one.bytes].view(dtype)  # type: ignore[index]
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
    def finish(self, bound: list[Any]) -> tuple[list[Launch], list[str]]:
        """(launches, descriptions), one per step, from what `bind` returned for all steps."""

    def program_for(self, shape: tuple[int, ...]) -> Program | Captured:
        """The program that calls with an input shape run: a captured one, else a cached one, else a new one."""
        if shape in self._captured:
            return self._captured[shape]
        if shape in self._programs:
            self._programs.move_to_end(shape)
            return self._programs[shape]
        self._programs[shape] = self.program(shape, arena=True)
        while len(self._programs) > self.KEPT:
            self._programs.popitem(last=False)
        return self._programs[shape]

    def capture(self, shape: tuple[int, ...]) -> Captured:
        """Capture the network in a CUDA graph, which calls with this input shape run from now on."""
        if shape not in self._captured:
            self._programs.pop(shape, None)
            self._captured[shape] = Captured(self.program(shape, arena=True))
        return self._captured[shape]

    def __call__(self, x: Any) -> Any:
        """The output for x (N, C, H, W): a new float32 array of the backend."""
        program = self.program_for(tuple(x.shape))
        self._wait()
        program.input[...] = cuda.asarray(x, np.float32)
        program.launch()
        result = program.output.astype(np.float32)
        self._done()
        return result

    def _wait(self) -> None:
        """Make the current stream wait for the last call, which used the same buffers."""
        if self._last is None:
            return
        import cupy

        stream, event = self._last
        current = cupy.cuda.get_current_stream()
        if current.ptr != stream:
            current.wait_event(event)

    def _done(self) -> None:
        """Record an event after this call, for `_wait`."""
        if cuda.backend() != "gpu":
            return
        import cupy

        current = cupy.cuda.get_current_stream()
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
