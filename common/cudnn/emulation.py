"""cuBLAS's matrix product and cuDNN's graphs carried out on the CPU, to check arguments without a GPU.

Both work on flat NumPy arrays, as the libraries work on memory: where an element lies follows from the arguments alone.
"""

from typing import Any

import numpy as np

from .graphs import Graph, Tensor


def matrix(memory: Any, start: int, rows: int, columns: int, ld: int) -> Any:
    """A view of flat memory as the column-major matrix that BLAS reads there.

    start: index of the matrix's first element. ld: the leading dimension, elements from one column to the next.
    ValueError if the matrix does not lie within the memory.
    """
    last = start + (columns - 1) * ld + rows - 1
    if start < 0 or last >= memory.size:
        raise ValueError(f"the matrix ends at element {last}, the memory has {memory.size} elements")
    itemsize = memory.itemsize
    return np.lib.stride_tricks.as_strided(memory[start:], (rows, columns), (itemsize, ld * itemsize))


def gemm(
    a: Any, b: Any, c: Any, *, m: int, n: int, k: int, lda: int, ldb: int, ldc: int, transa: str = "N",
    transb: str = "N", beta: float = 0.0, batch: int = 1, stride_a: int = 0, stride_b: int = 0, stride_c: int = 0,
) -> None:  # fmt: skip
    """C = op(A) · op(B) + beta · C for column-major matrices, arguments as in cublasGemmStridedBatchedEx.

    a, b, c: flat arrays of `batch` matrices; c is written. op(A) is m × k, op(B) k × n, C m × n; "T" transposes the
    matrix in memory.
    stride_*: elements from one matrix of the batch to the next. With beta = 0, C is not read.
    Raises ValueError for a leading dimension smaller than a column, as cuBLAS does, and for a matrix beyond its memory.
    """
    shape_a, shape_b = (k, m) if transa == "T" else (m, k), (n, k) if transb == "T" else (k, n)
    for name, ld, rows in (("lda", lda, shape_a[0]), ("ldb", ldb, shape_b[0]), ("ldc", ldc, m)):
        if ld < rows:
            raise ValueError(f"{name} must be at least {rows}, the length of a column in memory, got {ld}")
    for i in range(batch):
        left, right = matrix(a, i * stride_a, *shape_a, lda), matrix(b, i * stride_b, *shape_b, ldb)
        out = matrix(c, i * stride_c, m, n, ldc)
        product = (left.T if transa == "T" else left) @ (right.T if transb == "T" else right)
        out[...] = product if beta == 0 else product + beta * out


def run(graph: Graph, memory: dict[str, Any]) -> None:
    """Carry out a graph in float64. memory: a flat float64 array per tensor name; the output is written, or added.

    Each tensor is read and written with the shape and strides that the graph declares. ValueError for a node that is
    neither a convolution, an addition, a clamp nor an identity, and for memory of another size.
    """
    import torch

    def view(tensor: Tensor) -> Any:
        size = int(np.prod(tensor.shape))
        flat = memory.setdefault(tensor.name, np.full(size, np.nan))
        if flat.size != size:
            raise ValueError(f"{tensor.name} must have {size} elements, got {flat.size}")
        return np.lib.stride_tricks.as_strided(flat, tensor.shape, [8 * stride for stride in tensor.strides])

    arrays = {tensor.name: torch.from_numpy(view(tensor).copy()) for tensor in graph.tensors}
    value = arrays[graph.tensors[0].name]
    for node in graph.nodes:
        operand, a = arrays.get(node.operand or ""), dict(node.attributes)
        if node.op == "conv_fprop" and operand is not None:
            groups = value.shape[1] // operand.shape[1]
            value = torch.conv2d(value, operand, None, a["stride"], a["padding"], a["dilation"], groups)
        elif node.op == "add":
            value = value + operand
        elif node.op == "clamp":
            value = value.clamp(a["low"], a["high"])
        elif node.op != "identity":
            raise ValueError(f"no emulation of the node {node.op}")
    view(graph.output)[...] = value.numpy()


def in_memory(array: Any, layout: str) -> Any:
    """The elements of an (N, C, H, W) array as a new flat array, in the order of a layout."""
    return (array if layout == "NCHW" else array.transpose(0, 2, 3, 1)).ravel().copy()
