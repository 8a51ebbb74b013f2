"""cuBLAS: matrix products, and the plan that computes a 1×1 convolution as one.

CuPy's wrappers cannot be captured in a CUDA graph, so the cuBLAS library that CuPy has loaded is called directly.
"""

import ctypes
import functools
import threading
from dataclasses import dataclass
from typing import Any

from ..cuda import layout as layouts
from . import library
from .graphs import Graph

WORKSPACE = 32 << 20  # bytes, NVIDIA's recommendation for Hopper
TYPES = {"fp32": 0, "tf32": 0, "fp16": 2}  # cudaDataType of the arrays
COMPUTE = {"fp32": 68, "tf32": 77, "fp16": 68}  # CUBLAS_COMPUTE_32F, _32F_FAST_TF32
OP_N, OP_T, GEMM_DEFAULT = 0, 1, -1


class _Handle(threading.local):
    value: ctypes.c_void_p | None = None


_handle = _Handle()


@functools.cache
def _library() -> ctypes.CDLL:
    library.versions()  # makes CuPy load cuBLAS, so that its name is enough below
    import cupy

    return ctypes.CDLL(f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status != 0:
        text = _library().cublasGetStatusString
        text.restype = ctypes.c_char_p
        raise RuntimeError(f"{name}: {text(status).decode()}")


@dataclass(frozen=True)
class Product:
    """c = a · b (+ c) for `batch` pairs of column-major matrices, (m, k) · (k, n).

    transpose_a, transpose_b   whether a, b are stored transposed
    arithmetic                 "fp32", "tf32" or "fp16" (arrays in fp16, sums in fp32)
    add                        whether to add to the contents of c
    strides                    of a, b, c from one matrix of the batch to the next, in elements
    """

    m: int
    n: int
    k: int
    transpose_a: bool
    arithmetic: str
    add: bool = False
    transpose_b: bool = False
    batch: int = 1
    strides: tuple[int, int, int] = (0, 0, 0)

    def launch(self, a: int, b: int, c: int, workspace: int) -> None:
        """Enqueue the product on CuPy's current stream. All arguments are addresses; workspace: of WORKSPACE bytes.

        Raises RuntimeError if cuBLAS reports an error.
        """
        import cupy

        if _handle.value is None:
            created = ctypes.c_void_p()
            _call("cublasCreate_v2", ctypes.byref(created))
            _handle.value = created
        handle, pointer, long = _handle.value, ctypes.c_void_p, ctypes.c_longlong
        _call("cublasSetStream_v2", handle, pointer(cupy.cuda.get_current_stream().ptr))
        _call("cublasSetWorkspace_v2", handle, pointer(workspace), ctypes.c_size_t(WORKSPACE))
        one, beta, dtype = ctypes.c_float(1), ctypes.c_float(self.add), TYPES[self.arithmetic]
        _call(
            "cublasGemmStridedBatchedEx", handle, OP_T if self.transpose_a else OP_N,
            OP_T if self.transpose_b else OP_N, self.m, self.n, self.k, ctypes.byref(one),
            pointer(a), dtype, self.k if self.transpose_a else self.m, long(self.strides[0]),
            pointer(b), dtype, self.n if self.transpose_b else self.k, long(self.strides[1]), ctypes.byref(beta),
            pointer(c), dtype, self.m, long(self.strides[2]), self.batch, COMPUTE[self.arithmetic], GEMM_DEFAULT,
        )  # fmt: skip


def product_of(graph: Graph) -> tuple[Product, tuple[str, str]] | None:
    """(product, names of the tensors a and b) equivalent to a graph of one 1×1 convolution; None for other graphs."""
    x, w = graph.tensors[0], graph.tensors[-1]
    node = graph.nodes[0]
    window = dict(node.attributes)
    if (
        len(graph.nodes) != 1 or node.op != "conv_fprop" or w.shape[2:] != (1, 1) or w.shape[1] != x.shape[1]
        or window["stride"] != (1, 1) or window["padding"] != (0, 0)
    ):  # fmt: skip
        return None
    (n, c, h, width), o = x.shape, w.shape[0]
    pixels = h * width
    if all(t.strides == layouts.strides(t.shape, "NHWC") for t in (x, graph.output)):  # pixels × channels, row by row
        return Product(o, n * pixels, c, True, graph.arithmetic), ("w", "x")
    # NCHW: one product per image, channels × pixels
    return Product(pixels, o, c, False, graph.arithmetic, batch=n, strides=(c * pixels, 0, o * pixels)), ("x", "w")


@dataclass
class BlasPlan:
    """A plan (see plans.Plan) that computes a 1×1 convolution as a matrix product. workspace: bytes."""

    graph: Graph
    product: Product
    factors: tuple[str, str]
    name: str = "cuBLAS"
    workspace: int = WORKSPACE

    def launch(self, pointers: dict[str, int], workspace: int) -> None:
        """Enqueue the plan on CuPy's current stream. pointers: each tensor's address by name; workspace: an address."""
        a, b = (pointers[name] for name in self.factors)
        self.product.launch(a, b, pointers[self.graph.output.name], workspace)

    def __str__(self) -> str:
        return f"{self.graph.spelling}: {self.name}"


def plan_of(graph: Graph) -> BlasPlan | None:
    """cuBLAS's plan for a graph; None unless the graph is a 1×1 convolution."""
    found = product_of(graph)
    return None if found is None else BlasPlan(graph, *found)
