"""Execution contexts: calls of a network over buffers of their own, so that several threads run it at once."""

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import cuda
from ..topology.graph import Signature, shapes_of, signature_of, with_batch

if TYPE_CHECKING:
    from .replay import Captured

CHECKED = 64  # combinations of inputs that a context remembers as right


class ExecutionContext:
    """Calls of a network with activations, workspaces and CUDA graphs of their own; `Network.context` makes it.

        contexts = [net.context() for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda context, x: context(x), contexts, [x, y])

    Shared by all contexts of a network: the weights, the options, the compiled kernels, and functions given as
    `operators`, which several threads then call at once. Of each context: the arena of activations, the kernels'
    workspaces, the buffers of input and output, CUDA graphs, and a lock: threads that share a context take turns.
    A context keeps what it needs, also when the network's variable is gone.

    On a GPU, calls on one stream run one after the other: give each thread a stream of its own,
    `with cupy.cuda.Stream(non_blocking=True): context(x)`. On the simulator, threads take turns launch by launch.

    input_shape: (N, C, H, W) of the network, of several inputs a tuple of such; calls may use another N, H or W.
    """

    def __init__(self, runner: Any, input_shape: Signature) -> None:
        self.runner, self.input_shape = runner, input_shape
        self.lock = threading.Lock()
        self._replays = getattr(runner, "replay", False)
        self._known: dict[Any, Signature] = {}  # by type, shape and dtype of inputs that were checked

    def __call__(self, *inputs: Any) -> Any:
        """The network's output for its inputs, as Network.__call__ gives it."""
        shape = self._checked(inputs)
        if self._replays:
            with self.lock:
                replayed = self.runner.replayed(shape, inputs)
            if replayed is not None:
                return replayed if len(replayed) > 1 else replayed[0]
        # NumPy has no bfloat16
        arrays = [x.float() if str(x.dtype) == "torch.bfloat16" else x for x in inputs]
        like = arrays[0]
        with self.lock, cuda.stream_of(like):
            result = self.runner(*arrays)
            given = [cuda.give_as(one, like) for one in (result if isinstance(result, tuple) else (result,))]
        return tuple(given) if isinstance(result, tuple) else given[0]

    def _checked(self, inputs: Sequence[Any]) -> Signature:
        """The signature of inputs; `check_inputs` sees each combination of type, shape and dtype once."""
        try:
            key = tuple([(type(x), x.shape, x.dtype) for x in inputs])
            return self._known[key]
        except (AttributeError, KeyError, TypeError):  # TypeError: an attribute that is not hashable
            check_inputs(inputs, self.input_shape)
        if len(self._known) >= CHECKED:
            self._known.clear()
        shape = signature_of(tuple(x.shape) for x in inputs)
        with contextlib.suppress(TypeError):
            self._known[tuple([(type(x), x.shape, x.dtype) for x in inputs])] = shape
        return shape

    def capture(self, batch: int = 1, size: tuple[int, int] | None = None) -> "Captured":
        """Capture the network for `batch` images in a CUDA graph of this context, as Network.capture does.

        On a GPU, capture before other threads launch: work on the default stream ends a capture with an error.
        """
        if not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch must be an integer of at least 1, got {batch!r}")
        if size is not None and len(shapes_of(self.input_shape)) > 1:
            raise ValueError(f"size must be left out for a network of several inputs, got {size}")
        shapes = shapes_of(with_batch(self.input_shape, batch))
        shape = signature_of(shapes if size is None else [(*shapes[0][:2], *size)])
        check_shape(shape, self.input_shape)
        with self.lock:
            return self.runner.capture(shape)


def check_inputs(inputs: Sequence[Any], input_shape: Signature) -> None:
    """Raise TypeError for another number of inputs and what is no floating-point array, ValueError for wrong shapes."""
    own = shapes_of(input_shape)
    if len(inputs) != len(own):
        raise TypeError(f"the network takes {len(own)} input{'s' * (len(own) > 1)}, got {len(inputs)}")
    for i, x in enumerate(inputs):
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"{_name(i, own)} must be an array, got {type(x).__name__}")
    check_shape(signature_of(tuple(x.shape) for x in inputs), input_shape)
    for i, x in enumerate(inputs):
        if "float" not in str(x.dtype):
            raise TypeError(
                f"{_name(i, own)} must be floating point (a normalised image, not its bytes), got {x.dtype}"
            )


def check_shape(shape: Signature, input_shape: Signature) -> None:
    """Raise ValueError unless a shape is (N, C, H, W), with C of the network's input_shape and no size below 1.

    Of several inputs both are tuples of shapes, whose N must be equal; an input may have fewer dimensions.
    """
    own = shapes_of(input_shape)
    given = shapes_of(shape) if shape else ((),)
    if len(given) != len(own):
        raise ValueError(f"shape must be {len(own)} shapes, one per input, got {shape}")
    for i, (one, wanted) in enumerate(zip(given, own, strict=True)):
        if len(one) != len(wanted) or one[1:2] != wanted[1:2] or min(one) < 1:
            sizes = ", ".join(("N", str(wanted[1]), "H", "W")[: len(wanted)])
            raise ValueError(f"{_name(i, own)} must have shape ({sizes}), got {one}")
    if len({one[0] for one in given}) > 1:
        raise ValueError(f"inputs must have one batch size, got {', '.join(str(one[0]) for one in given)}")


def _name(i: int, shapes: Sequence[Any]) -> str:
    return "x" if len(shapes) == 1 else f"input {i}"
