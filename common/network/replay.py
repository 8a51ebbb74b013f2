"""Replays: calls of a network as one CUDA graph, with one copy of each input and one of each output.

    net = Network(model, replay=True)
    net(x)      the first FIRST_CALLS calls of an input shape launch kernel by kernel, later ones replay a graph

A call from Python costs what Python does for it: a launch per kernel, arrays of another library made for the input and
the output, checks. A replay is one launch. For PyTorch's tensors on the network's device it takes and gives memory
through views that are made once, so PyTorch itself copies the input, converts it, and allocates the output.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from .. import cuda
from ..cuda import graphs
from ..cuda.arrays import cupy_stream
from ..topology.graph import Signature

FIRST_CALLS = 2  # of an input shape, before it is captured: they compile, and a shape of one call is not worth a graph


# ---- Graphs


class OneByOne:
    """Stands for a CUDA graph on the simulator, which has none: `launch` makes the launches one by one."""

    def __init__(self, launches: Callable[[], None]) -> None:
        self._launches = launches

    def launch(self, stream: Any = None) -> None:
        """Make all launches."""
        self._launches()


def capture(launches: Callable[[], None]) -> Any:
    """A graphs.CudaGraph of the launches, which run once before, to compile; on the simulator a OneByOne."""
    return graphs.capture(launches) if cuda.backend() == "gpu" else OneByOne(launches)


def record(launches: Callable[[], None]) -> Any:
    """The same of launches that ran before, while other threads may launch."""
    return graphs.record(launches) if cuda.backend() == "gpu" else OneByOne(launches)


class Captured:
    """A program captured in a CUDA graph: write to `input`, call `launch()`, read `output`; or `inputs`, `outputs`.

    On the simulator, which has no CUDA graphs, `launch` runs the steps one by one, with the same result.
    program: a program.Program. graph_of: what captures its `launch`, `capture` or `record`.
    """

    def __init__(self, program: Any, graph_of: Callable[[Callable[[], None]], Any] = capture) -> None:
        self.program, self.input, self.output = program, program.input, program.output
        self.inputs, self.outputs = program.inputs, program.outputs
        self._graph = graph_of(program.launch)

    def launch(self, stream: Any = None) -> None:
        """Enqueue the network on a CuPy stream; default: the current one."""
        self._graph.launch(stream)

    @cached_property
    def torch_calls(self) -> "TorchCalls":
        """Calls with PyTorch's tensors."""
        return TorchCalls(self)


# ---- Calls


class Replays:
    """Decides which programs of a runner are replayed, by the number of calls of their shape."""

    def __init__(self) -> None:
        self._calls: dict[Signature, int] = {}  # until captured
        self._refused: set[Signature] = set()

    def called(self, shape: Signature, program: Any) -> Any:
        """What a call of a shape runs: its program.Program, or from call FIRST_CALLS + 1 on a Captured of it.

        If the capture fails, the program stays as it is, with a RuntimeWarning.
        """
        if not program.capturable or shape in self._refused:
            return program
        if self._calls.get(shape, 0) < FIRST_CALLS:
            self._calls[shape] = self._calls.get(shape, 0) + 1
            return program
        try:
            captured = Captured(program, record)
        except Exception as error:  # of CuPy, of a library, of a registered operator: no common base
            self._refused.add(shape)
            warnings.warn(
                f"calls with input shape {shape} launch kernel by kernel, because their capture failed: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return program
        del self._calls[shape]
        return captured

    def forget(self, shape: Signature) -> None:
        """Begin anew with a shape, whose program is gone."""
        self._calls.pop(shape, None)
        self._refused.discard(shape)


def are_tensors(inputs: Sequence[Any]) -> bool:
    """Whether all inputs are PyTorch's tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and all(isinstance(x, torch.Tensor) for x in inputs)


class TorchCalls:
    """Calls of a captured program with PyTorch's tensors on its device.

    Input and output are copied by PyTorch, on its current stream, through views of the program's buffers.
    """

    def __init__(self, captured: Captured) -> None:
        import torch

        self._torch, self._captured = torch, captured
        view = torch.from_dlpack if cuda.backend() == "gpu" else torch.from_numpy
        with torch.inference_mode(False):  # tensors made in inference mode cannot be written outside of it
            self._inputs = [view(array) for array in captured.inputs]
            self._outputs = [view(array) for array in captured.outputs]
        self._device = self._inputs[0].device

    def takes(self, inputs: Sequence[Any]) -> bool:
        """Whether all tensors lie on the device of the program."""
        return all(x.device == self._device for x in inputs)

    def stream(self) -> Any:
        """PyTorch's current stream as CuPy's; None on the simulator."""
        if cuda.backend() != "gpu":
            return None
        return _cupy_stream(self._torch.cuda.current_stream(self._device))

    def __call__(self, inputs: Sequence[Any], stream: Any) -> tuple[Any, ...]:
        """New float32 tensors with the outputs, one per output."""
        for view, x in zip(self._inputs, inputs, strict=True):
            view.copy_(x.detach() if x.requires_grad else x)
        self._captured.launch(stream)
        return tuple(view.to(self._torch.float32, copy=True) for view in self._outputs)


@functools.lru_cache(maxsize=64)  # PyTorch has a fixed number of streams
def _cupy_stream(stream: Any) -> Any:
    return cupy_stream(stream)
