"""A block's weights in the order in which the lanes of fused/alone.h, alone_pairs.h and rows.h read them.

fragments(block, expand, expand_bias, …)                     one array of 32-bit words: fragments of mma, 16 bytes of a
                                                             lane, for the kernel's parameter `fragments`
pair_fragments(block, input_bound, expand, expand_bias, …)   the same of floats, as pairs of halves; and the scales
part_fragments(block, tile, expand, expand_bias, …)          for a tile of rows: slice by slice
"""

import functools
from typing import Any

import numpy as np

from .. import cuda
from ..cuda.arrays import are_shapes_only
from ..kernels.pair_of_halves import scale_of, split
from .generate import Block, RowsSizes, Tile, alone_size, alone_steps, alone_words, ceil_div
from .split_weights import scales

# Taps of a lane's words, by stride: two of each row, the third ones of two rows as they follow, that of the last row,
# one that is read in vain, and those of two rows in the other order.
TAPS = {1: (0, 2, 3, 5, 6, 8, 1, 4, 7, None, 4, 1), 2: (0, 1, 3, 4, 6, 7, 2, 5, 8, None, 5, 2)}
BIAS = 27  # of the columns of a stem's matrix: 27 weights, then the bias


def _column_of_stem(k: int) -> int:
    """Which column of a stem's weights row k of its matrix is; -1: zero.

    Under each row of taps lie 10 numbers, the first of which belongs to the pixel before: 8 of each row, then the last
    two of each.
    """
    row, number = (k // 8, k % 8) if k < 24 else ((k - 24) // 2, 8 + k % 2)
    if k == 30:
        return BIAS
    return -1 if k == 31 or number == 0 else row * 9 + number - 1


@functools.lru_cache(maxsize=32)
def _streamed(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """As _table, of weights that stream, (planes, words, 2) and (planes, words): fragments, then what is there once."""
    halves, floats = _table(block)
    words, planes = alone_words(block), block.hidden // 16
    in_order = np.moveaxis(halves, 3, 2).reshape(planes, words, 32, 2)  # [plane][word][lane][half]
    steps, eights = 4 * alone_steps(block), block.outputs // 8
    project = steps + 40  # behind two biases and 24 taps
    fours = ceil_div(steps + 2 * eights, 4)
    of_lanes = np.zeros((planes, 4 * fours, 32, 2), np.int32)
    of_lanes[:, :steps] = in_order[:, :steps]
    of_lanes[:, steps : steps + 2 * eights] = in_order[:, project : project + 2 * eights]
    products = np.moveaxis(of_lanes.reshape(planes, fours, 4, 32, 2), 2, 3).reshape(planes, -1, 2)
    of_floats = np.moveaxis(floats, 3, 2).reshape(planes, words, 32)
    by_channel = [of_floats[:, first + i // 2 * 4 + i % 2, :4] for first in (steps, steps + 32) for i in range(4)]
    biases = np.stack(by_channel, axis=1).reshape(planes, 2, 4, 4).transpose(0, 1, 3, 2).reshape(planes, 32)
    lanes, odd = 4 * np.arange(8) + np.arange(8) // 2, np.arange(8) % 2  # which hold the diagonal's elements
    taps = in_order[:, steps + 8 : steps + 32].reshape(planes, 2, 12, 32, 2)[:, :, :, lanes, odd]  # plane, h, tap, g
    taps = taps.transpose(0, 1, 3, 2).reshape(planes, -1, 2)
    none = np.zeros((planes, 32, 2), np.int32)
    return (
        np.concatenate([products, none, taps], axis=1),
        np.concatenate([np.zeros(products.shape[:2], np.int32), biases, np.zeros(taps.shape[:2], np.int32)], axis=1),
    )


@functools.lru_cache(maxsize=32)
def _table(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """(halves, floats): of each word the places of its two halves, or of a float, among all parameters; 0: zero.

    halves: (planes of 16 hidden channels, words / 4, lanes, 4, 2). floats: the same without the last dimension.
    """
    stem = block.expand == "stem"
    columns = BIAS if stem else block.channels
    counts = 1, block.hidden * columns, block.hidden, block.hidden * 9, block.hidden
    expand, expand_bias, depthwise, depthwise_bias, project = np.cumsum(counts).tolist()
    planes = block.hidden // 16
    halves, floats = (np.zeros((planes, alone_words(block), 32, *of), np.int32) for of in ((2,), ()))
    g, t, e = np.ogrid[:8, :4, :2]  # of lane 4g + t the element e of a word: fragments of mma, see ptx.h
    g, t, e = (part.reshape(32, 2) for part in np.broadcast_arrays(g, t, e))
    column_of_stem = np.array([_column_of_stem(k) for k in range(32)])
    for plane in range(planes):
        channel = 16 * plane
        found: list[np.ndarray] = []  # halves of one word after the other

        def biases(first: int, channel: int = channel, plane: int = plane, found: list[np.ndarray] = found) -> None:
            for i in range(8):  # four of each eight channels, two of them twice: a product's sums begin as they are
                floats[plane, len(found)] = first + channel + i // 4 * 8 + 2 * t[:, 0] + i % 2
                found.append(np.zeros((32, 2), np.int32))

        for i in range(4 * alone_steps(block)):
            row, k = channel + i // 2 % 2 * 8 + g, i // 4 * 16 + i % 2 * 8 + 2 * t + e
            if stem:
                column = column_of_stem[k]
                place = np.where(column == BIAS, expand_bias + row, expand + row * BIAS + column)
                found.append(np.where(column < 0, 0, place))
            else:
                found.append(np.where(k < columns, expand + row * columns + k, 0))
        if not stem:
            biases(expand_bias)
        for half in range(2):
            for tap in TAPS[block.stride]:
                diagonal = depthwise + (channel + half * 8 + g) * 9 + (tap or 0)
                found.append(np.where((2 * t + e == g) & (tap is not None), diagonal, 0))
        biases(depthwise_bias)
        for i in range(block.outputs // 8 * 2):
            found.append(project + (i // 2 * 8 + g) * block.hidden + channel + i % 2 * 8 + 2 * t + e)
        halves[plane, : len(found)] = found

    def by_lane(table: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(table.reshape(planes, -1, 4, *table.shape[2:]), 2, 3))

    return by_lane(halves), by_lane(floats)


def fragments(
    block: Block, expand: Any, expand_bias: Any, depthwise: Any, depthwise_bias: Any, project: Any, project_bias: Any,
    *, streams: bool = False,
) -> Any:  # fmt: skip
    """The alone_size(block, 2, streams) words, uint32, of parameters in float16 as they are stored (NHWC).

    A bias may be None.
    """
    if are_shapes_only():
        return cuda.empty(alone_size(block, 2, streams), np.uint32)  # of a plan

    def flat(array: Any, length: int = 0) -> np.ndarray:
        return np.zeros(length, np.float16) if array is None else cuda.asnumpy(array).reshape(-1)

    every = np.concatenate([
        np.zeros(1, np.float16), flat(expand), flat(expand_bias, block.hidden), flat(depthwise),
        flat(depthwise_bias, block.hidden), flat(project),
    ])  # fmt: skip
    halves, floats = (_streamed if streams else _table)(block)
    as_floats = every[floats].astype(np.float32).view(np.uint32)
    ordered = np.where(floats > 0, as_floats, every[halves].view(np.uint32)[..., 0])
    bias = np.zeros(ceil_div(block.outputs, 4) * 4, np.float32)
    bias[: block.outputs] = flat(project_bias, block.outputs)
    return cuda.asarray(np.concatenate([ordered.reshape(-1), bias.view(np.uint32)]))


def pair_fragments(
    block: Block, input_bound: float, expand: Any, expand_bias: Any, depthwise: Any, depthwise_bias: Any, project: Any,
    project_bias: Any,
) -> tuple[Any, tuple[np.float32, ...]]:  # fmt: skip
    """(words, scales) of parameters in float32 as they are stored (NHWC); a bias may be None.

    words: alone_size(block, 4) of them, uint32. scales: five powers of two, see split_weights.scales. input_bound: no
    element of x is larger in magnitude.
    """
    size = alone_size(block, 4)
    if are_shapes_only():
        return cuda.empty(size, np.uint32), scales(block, input_bound, 1.0, 1.0)  # of a plan

    def flat(array: Any, length: int) -> np.ndarray:
        return np.zeros(length, np.float32) if array is None else cuda.asnumpy(array).reshape(-1)

    def parts(array: Any, columns: int, *shape: int) -> tuple[np.ndarray, float]:
        """((2, *shape), scale): high and low halves of a matrix, with zeros up to so many columns."""
        matrix = cuda.asnumpy(array).reshape(len(array), -1)
        scale = scale_of(float(np.abs(matrix).max(initial=0)))
        padded = np.pad(matrix, ((0, 0), (0, columns - matrix.shape[1])))
        return np.stack(split(padded, scale)).reshape(2, *shape), scale

    planes, steps, eights = block.hidden // 16, alone_steps(block), block.outputs // 8
    # of the channels of a product: k = 8·b + 2·t + e, of lane 4g + t
    first, expand_scale = parts(expand, 16 * steps, planes, 2, 8, steps, 2, 4, 2)  # part, plane, h, g, step, b, t, e
    last, project_scale = parts(project, block.hidden, eights, 8, planes, 2, 4, 2)  # part, n, g, plane, b, t, e
    first = first.transpose(1, 4, 2, 3, 6, 0, 5, 7).reshape(planes, 2 * steps, 8, 4, 2, 2, 2)
    last = last.transpose(3, 1, 2, 5, 0, 4, 6)  # plane, n, g, t, part, b, e
    numbers = scales(block, input_bound, expand_scale, project_scale)
    dw = numbers[3]
    rows = [*(flat(depthwise, 0).reshape(-1, 9).T * dw), flat(expand_bias, block.hidden)]
    rows.append(flat(depthwise_bias, block.hidden) * dw)
    table = np.stack(rows).reshape(11, planes, 2, 4, 2).transpose(1, 0, 3, 2, 4)  # plane, row, t, h, e
    bias = np.zeros(ceil_div(block.outputs, 4) * 4, np.float32)
    bias[: block.outputs] = flat(project_bias, block.outputs)
    halves = np.ascontiguousarray(np.concatenate([first, last], axis=1))
    words = [part.reshape(-1).view(np.uint32) for part in (halves, np.ascontiguousarray(table), bias)]
    return cuda.asarray(np.concatenate(words)), numbers


def part_fragments(
    block: Block, tile: Tile, expand: Any, expand_bias: Any, depthwise: Any, depthwise_bias: Any, project: Any,
    project_bias: Any,
) -> Any:  # fmt: skip
    """The words, uint32, of parameters in float16 as they are stored (NHWC), for a tile of rows; a bias may be None.

    Of each slice, and of each thread block of a cluster, what hidden reads, then what project reads.
    """
    sizes = RowsSizes(block, tile)
    if are_shapes_only():
        return cuda.empty(sizes.words, np.uint32)  # of a plan

    def numbers(array: Any, *shape: int) -> np.ndarray:
        return (np.zeros(shape, np.float16) if array is None else cuda.asnumpy(array)).reshape(shape)

    split, parts, eights = tile.split, sizes.parts, sizes.eights
    steps, pairs = block.channels // 16, block.outputs // 16
    of_eights = split, parts, eights, 8
    # expand's fragments: split, part, eight, g; two steps, which lie side by side, b, t, e
    first = numbers(expand, *of_eights, steps // 2, 2, 2, 4, 2).transpose(1, 0, 2, 4, 3, 7, 5, 6, 8)
    biases = [numbers(bias, *of_eights).swapaxes(0, 1).astype(np.float32) for bias in (expand_bias, depthwise_bias)]
    taps = numbers(depthwise, *of_eights, 9).swapaxes(0, 1)[..., [tap or 0 for tap in TAPS[block.stride]]]
    taps[..., [i for i, tap in enumerate(TAPS[block.stride]) if tap is None]] = 0
    of_eight = [
        np.ascontiguousarray(part).reshape(parts, split, eights, -1).view(np.uint32) for part in (first, *biases, taps)
    ]
    hidden = np.concatenate(of_eight, axis=3).reshape(parts, split, -1)
    # project's: pair, column / 2, its product, column % 2 (channels 4t, 4t + 1 and 4t + 2, 4t + 3), split, part, step,
    # b, t, e
    last = numbers(project, pairs, 4, 2, 2, split, parts, eights // 2, 2, 4, 2).transpose(5, 4, 0, 6, 1, 3, 8, 2, 7, 9)
    products = np.ascontiguousarray(last).reshape(parts, split, -1).view(np.uint32)
    bias = numbers(project_bias, block.outputs).astype(np.float32).view(np.uint32)
    every = [hidden, products, np.broadcast_to(bias, (parts, split, len(bias)))]
    return cuda.asarray(np.concatenate(every, axis=2).reshape(-1))
