"""Arrays of the backend, and operators that accept arrays of other libraries and return the same kind."""

import contextlib
import ctypes
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from .device import backend
from .simulator.memory import fenced


def _cupy() -> Any:
    import cupy

    return cupy


_shapes_only: ContextVar[int | None] = ContextVar("shapes_only", default=None)  # the next unused address


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Context manager: inside, `empty`, `full` and `zeros` return arrays with a shape and an address, without memory.

    Such arrays can be viewed, and bound to launches that are never made. Reading or writing one crashes the process or
    fails with an illegal address. Affects only the current thread (a ContextVar).
    """
    token = _shapes_only.set(1 << 46)  # above all addresses in use by processes and CUDA, and aligned for any type
    try:
        yield
    finally:
        _shapes_only.reset(token)


def _without_memory(shape: Any, dtype: Any, address: int) -> Any:
    """An array at the given address, which is not mapped; advances the next unused address."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    _shapes_only.set(address + -(-size // 512) * 512)  # as CuPy's pool does
    if backend() == "gpu":
        memory = _cupy().cuda.UnownedMemory(address, size, None, _cupy().cuda.Device().id)
        return _cupy().ndarray(shape, dtype, _cupy().cuda.MemoryPointer(memory, 0))
    return np.ndarray(shape, dtype, (ctypes.c_char * size).from_address(address))


def empty(shape: Any, dtype: Any = np.float32) -> Any:
    """A new uninitialized C-contiguous array of the backend; on the simulator its bytes are 0xFF (NaN for floats)."""
    if (address := _shapes_only.get()) is not None:
        return _without_memory(shape, dtype, address)
    return _cupy().empty(shape, dtype) if backend() == "gpu" else fenced(shape, dtype)


def full(shape: Any, value: Any, dtype: Any = np.float32) -> Any:
    """A new C-contiguous array of the backend, filled with a value."""
    array = empty(shape, dtype)
    if _shapes_only.get() is None:
        array[...] = value
    return array


def zeros(shape: Any, dtype: Any = np.float32) -> Any:
    """A new C-contiguous array of the backend, filled with zeros."""
    return full(shape, 0, dtype)


@dataclass
class Workspace:
    """Memory for the intermediate results of one operator. taken: bytes that `workspace` was asked for so far."""

    memory: Any  # uint8, or None: only count
    taken: int = 0


_workspace: ContextVar[Workspace | None] = ContextVar("workspace", default=None)


@contextlib.contextmanager
def workspace_in(memory: Any) -> Iterator[Workspace]:
    """Context manager: inside, `workspace` returns parts of `memory`, a uint8 array, as long as they fit.

    memory: aligned to 256 bytes; None: only the bytes are counted. Affects only the current thread (a ContextVar).
    """
    space = Workspace(memory)
    token = _workspace.set(space)
    try:
        yield space
    finally:
        _workspace.reset(token)


def workspace(shape: Any, dtype: Any = np.float32) -> Any:
    """A new uninitialized C-contiguous array for intermediate results within one operator, as partial sums.

    As `empty`; a network's plan provides its memory, which other steps use before and after the operator (see
    `workspace_in`). So nothing written to it when launches are only recorded is there when they are made.
    """
    space = _workspace.get()
    if space is None:
        return empty(shape, dtype)
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    start, size = space.taken, math.prod(shape) * np.dtype(dtype).itemsize
    space.taken += -(-size // 256) * 256
    if space.memory is None or space.taken > space.memory.nbytes:
        return empty(shape, dtype)
    return space.memory[start : start + size].view(dtype).reshape(shape)


def asarray(array: Any, dtype: Any = None) -> Any:
    """An array-like object as a C-contiguous array of the backend.

    On a GPU it is copied only if necessary; on the simulator it is always copied. dtype: default: that of `array`.
    """
    if backend() == "gpu":
        cupy = _cupy()
        kind = _kind(array)
        if kind == "torch" and array.is_cuda:
            array = cupy.from_dlpack(array.detach())
        elif kind == "torch":
            array = array.detach().numpy()
        return cupy.asarray(array, dtype, order="C")
    array = asnumpy(array)
    result = fenced(array.shape, dtype or array.dtype)
    result[...] = array
    return result


def asnumpy(array: Any) -> np.ndarray:
    """An array-like object (NumPy, CuPy, PyTorch, DLPack, …) as a NumPy array; copied if it is on a GPU."""
    kind = _kind(array)
    if kind == "cupy":
        return _cupy().asnumpy(array)
    if kind == "torch":
        return array.detach().cpu().numpy()
    if kind == "dlpack" and not hasattr(array, "__array__"):
        return np.from_dlpack(array) if hasattr(array, "__dlpack__") else _cupy().asnumpy(_cupy().asarray(array))
    return np.asarray(array)


def synchronize() -> None:
    """Wait until all work on CuPy's current stream is done. No-op on the simulator, where launches are synchronous."""
    if backend() == "gpu":
        _cupy().cuda.get_current_stream().synchronize()


def _kind(array: Any) -> str:
    """The library of an array: "numpy", "cupy", "torch", "dlpack" for others that support it; "" for other objects."""
    if isinstance(array, np.ndarray):
        return "numpy"
    for name, attribute in (("cupy", "ndarray"), ("torch", "Tensor")):
        module = sys.modules.get(name)  # an array implies that its library was imported
        if module is not None and isinstance(array, getattr(module, attribute)):
            return name
    if hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__"):
        return "dlpack"
    return ""


def is_native(array: Any) -> bool:
    """Whether an array is one of the backend: CuPy's on a GPU, NumPy's on the simulator."""
    return _kind(array) == ("cupy" if backend() == "gpu" else "numpy")


def _borrow(name: str, array: Any) -> Any:
    """An array viewed as one of the backend, without a copy.

    TypeError if that is not possible: it is on another device, or requires a gradient. name: the argument, for errors.
    """
    kind, gpu = _kind(array), backend() == "gpu"
    if is_native(array):
        return array
    if kind in ("numpy", "cupy"):
        where = "a GPU" if gpu else "the simulator"
        raise TypeError(f"{name}: kernels run on {where}, got a {kind} array; common.cuda.asarray brings it there")
    if kind == "torch":
        if array.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise TypeError(
                f"{name}: this operator has no gradient, got a tensor that requires one; use tensor.detach()"
            )
        if array.is_cuda != gpu:
            raise TypeError(
                f"{name}: kernels run on {'a GPU' if gpu else 'the simulator'}, got a tensor on {array.device}"
            )
    try:
        if kind == "torch":
            return _cupy().from_dlpack(array.detach()) if gpu else array.detach().numpy()
        if hasattr(array, "__dlpack__"):
            return _cupy().from_dlpack(array) if gpu else np.from_dlpack(array)
        if not gpu:
            raise BufferError("it lies on a GPU, and kernels run on the simulator")
        return _cupy().asarray(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name}: cannot use a {type(array).__qualname__} here without a copy: {error}") from None


@contextlib.contextmanager
def _callers_stream(kinds: set[str]) -> Iterator[None]:
    """Inside, CuPy's current stream is PyTorch's current one if `kinds` has "torch"."""
    if backend() != "gpu" or "torch" not in kinds:
        yield
        return
    import torch

    with cupy_stream(torch.cuda.current_stream()):
        yield


def cupy_stream(stream: Any) -> Any:
    """A torch.cuda.Stream as a CuPy stream."""
    streams = _cupy().cuda
    if hasattr(stream, "__cuda_stream__") and hasattr(streams.Stream, "from_external"):
        return streams.Stream.from_external(stream)
    return streams.ExternalStream(stream.cuda_stream)  # older versions of either


def _to_kind(result: Any, kind: str) -> Any:
    if kind == "torch":
        import torch

        return torch.from_dlpack(result) if backend() == "gpu" else torch.from_numpy(result)
    return result


def _kinds(value: Any) -> list[str]:
    """The kinds of an argument that is an array, or of the arrays in a list or tuple."""
    members = value if isinstance(value, (list, tuple)) else (value,)
    return [kind for member in members if (kind := _kind(member))]


def _borrow_all(name: str, value: Any) -> Any:
    """An array as `_borrow` views it; for a list or tuple, a list of such views."""
    if isinstance(value, (list, tuple)):
        return [_borrow(f"{name}[{i}]", one) if _kind(one) else one for i, one in enumerate(value)]
    return _borrow(name, value)


def operator(function: Callable) -> Callable:
    """Decorator: a launcher written for the backend's arrays accepts NumPy, CuPy, PyTorch and DLPack arrays.

    Arguments may also be lists or tuples of arrays; the launcher receives a list. Nothing is copied: arrays are viewed
    as the backend's, the launcher runs on the caller's current stream, and the result is returned as the kind of the
    first array, or as `out` itself if that was given. TypeError for an array that cannot be viewed without a copy: it
    is on another device, or requires a gradient.
    """
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, p in inspect.signature(function).parameters.items() if p.kind in positional]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        kinds = {name: found for name, value in given.items() if (found := _kinds(value))}
        first = next(iter(kinds.values()), ["numpy"])[0]
        with _callers_stream({kind for found in kinds.values() for kind in found}):
            borrowed = {name: _borrow_all(name, given[name]) for name in kinds}
            result = function(
                *[borrowed.get(name, value) for name, value in zip(names, args, strict=False)],
                *args[len(names) :],
                **{name: borrowed.get(name, value) for name, value in kwargs.items()},
            )
            if given.get("out") is not None:
                return given["out"]
            return _to_kind(result, first)

    return call


def give_as(result: Any, example: Any) -> Any:
    """An array of the backend as an array of the library and the device of `example`; copied if necessary."""
    kind = _kind(example)
    if kind == "torch":
        import torch

        if example.is_cuda and _kind(result) == "cupy":
            return torch.from_dlpack(result)
        return torch.from_numpy(asnumpy(result)).to(example.device)
    if kind == "cupy":
        return _cupy().asarray(result)
    return asnumpy(result)


@contextlib.contextmanager
def stream_of(example: Any) -> Iterator[None]:
    """Context manager: inside, work goes on PyTorch's current stream if `example` is a tensor, else on CuPy's."""
    with _callers_stream({_kind(example)}):
        yield
