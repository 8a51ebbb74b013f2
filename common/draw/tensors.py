"""Tensors: the fields of an ONNX initializer, its numbers in a row of bytes, and a weight in two layouts."""

import math
from itertools import product
from typing import Any

from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Drawing, arrow, canvas, cell, positive, text

_CHANNELS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data")


def tensor_fields(*tensors: Any) -> Drawing:
    """The fields of one to three onnx.TensorProto beside each other; those that hold the numbers are filled.

    ValueError for another count.
    """
    from onnx import TensorProto

    if not 1 <= len(tensors) <= 3:
        raise ValueError(f"tensors must be 1 to 3, got {len(tensors)}")
    rows = ("name", "dims", "data_type", *_FIELDS)
    left, wide, high = 3.6, (26.2 - 3.6) / len(tensors), 1.15
    figure, axes = canvas(26.4, 1.5 + high * len(rows) + 0.3)
    for r, name in enumerate(rows):
        colour = GREY if name in _FIELDS else "#222222"
        text(axes, left - 0.3, 1.5 + high * (r + 0.5), name, 11, ha="right", family="monospace", color=colour)
    said = []
    for t, tensor in enumerate(tensors):
        x = left + t * wide
        text(axes, x + wide / 2, 0.75, "TensorProto", 11, weight="bold")
        kind = TensorProto.DataType.Name(tensor.data_type)
        values = [f'"{tensor.name}"', str(list(tensor.dims)), f"{tensor.data_type} = {kind}"]
        values += [_held(tensor, name) for name in _FIELDS]
        for r, value in enumerate(values):
            y = 1.5 + high * r
            if value:
                cell(axes, x + 0.15, y + 0.08, wide - 0.3, high - 0.16, ORANGE if r > 2 else BLUE)
            else:
                cell(axes, x + 0.15, y + 0.08, wide - 0.3, high - 0.16)
            text(axes, x + wide / 2, y + high / 2, value or "empty", 10.5, color="#222222" if value else GREY)
        used = next((f"{name} ({held})" for name in _FIELDS if (held := _held(tensor, name))), "no field")
        said.append(f"{tensor.name} has the dims {list(tensor.dims)}, the type {kind} and its numbers in {used}")
    return Drawing(figure, f"The fields of {len(tensors)} TensorProto: {'; '.join(said)}. The other fields are empty.")


def _held(tensor: Any, name: str) -> str:
    """What a field of a TensorProto holds, in short; "" if nothing."""
    values = getattr(tensor, name)
    if not values:
        return ""
    if name == "raw_data":
        return f"{len(values):,} bytes: {values[:3].hex(' ')} …"
    shown = ", ".join(f"{value:g}" for value in values[:3])
    return f"{len(values):,} numbers: {shown}{', …' if len(values) > 3 else ''}"


def row_major(dims: tuple[int, ...] = (4, 2, 3, 3), raw: bytes = b"", item: int = 4) -> Drawing:
    """The elements of an (O, I, kH, kW) array in memory: the last dimension runs fastest.

    raw: the array's bytes, little-endian; those of the first three numbers are shown. item: bytes per number.
    ValueError unless there are four dims of which the last two multiply to at most 12, and for item over 8.
    """
    positive(**dict(zip("oihw", dims, strict=False)), item=item)
    if item > 8:
        raise ValueError(f"item must be at most 8 bytes, got {item}")
    if len(dims) != 4 or dims[2] * dims[3] > 12:
        raise ValueError(f"dims must be four, with kH · kW of at most 12, got {dims}")
    window, count = dims[2] * dims[3], math.prod(dims)
    shown = min(count, 2 * window)
    figure, axes = canvas(26.4, 10.6)
    left, wide = 0.5, 24.6 / shown
    three, byte = min(3, count), 21 / (3 * item)
    text(axes, left, 0.6, f"bytes in the file, {item} per number", 11, ha="left", weight="bold")
    for n in range(three):
        for b in range(item):
            x, size = left + (n * item + b) * byte, byte
            cell(axes, x, 1.1, size, 1.1, (BLUE, GREEN, PURPLE)[n])
            at = n * item + b
            text(axes, x + size / 2, 1.65, f"{raw[at]:02x}" if at < len(raw) else str(at), 11, family="monospace")
        start, end = left + n * item * byte, left + (n + 1) * item * byte
        arrow(axes, ((start + end) / 2, 2.25), (left + (n + 0.5) * wide, 4.25), (BLUE, GREEN, PURPLE)[n])
    text(axes, left + three * item * byte + 0.6, 1.65, "…", 14)
    text(axes, 26.2, 3.2, f"numbers, {count:,} of them", 11, ha="right", weight="bold")
    for n in range(shown):
        colour = (BLUE, GREEN, PURPLE)[n] if n < three else "#ffffff"
        cell(axes, left + n * wide, 4.3, wide, 1.1, colour)
        text(axes, left + (n + 0.5) * wide, 4.85, str(n), 10.5)
        text(axes, left + (n + 0.5) * wide, 5.8, f"x={n % dims[3]}" if shown <= 18 else str(n % dims[3]), 10.5)
    if count > shown:
        text(axes, left + shown * wide + 0.5, 4.85, "…", 14)
    for row in range(shown // dims[3]):
        _bracket(axes, left + row * dims[3] * wide, dims[3] * wide, 6.45, f"y = {row % dims[2]}", ORANGE)
    for i in range(shown // window):
        _bracket(axes, left + i * window * wide, window * wide, 7.85, _filter(i, dims), GREEN)
    words = (
        "In each cell: the place of the number. x, the column of the window, runs fastest. y: its row.\n"
        "i: the input channel. o: the output channel."
    )
    text(axes, left, 9.7, words, 10.5, ha="left", color=GREY)
    return Drawing(
        figure,
        f"An array of dims {list(dims)} in memory. Each number has {item} bytes. The first {shown} of {count} numbers"
        f" are drawn. Number 0 is [0, 0, 0, 0], and x runs fastest: {dims[3]} numbers are a row y of a"
        f" window, {window} numbers the window of one input channel i.",
    )


def _filter(index: int, dims: tuple[int, ...]) -> str:
    return f"o = {index // dims[1]}, i = {index % dims[1]}: one {dims[2]}×{dims[3]} window"


def _bracket(axes: Any, x: float, width: float, y: float, words: str, colour: str) -> None:
    """Draw a bracket below x … x + width with words under it."""
    axes.plot([x + 0.08, x + 0.08, x + width - 0.08, x + width - 0.08], [y - 0.2, y, y, y - 0.2], color=colour, lw=1.6)
    text(axes, x + width / 2, y + 0.45, words, 10.5)


def weight_layouts(dims: tuple[int, int, int, int] = (2, 3, 2, 2)) -> Drawing:
    """The numbers of a convolution's weight in memory, in the orders OIHW and OHWI; colour: the input channel.

    dims: (O, I, kH, kW). ValueError for more than 32 numbers or more than 5 input channels.
    """
    positive(**dict(zip("oihw", dims, strict=False)))
    count = math.prod(dims)
    if count > 32 or dims[1] > len(_CHANNELS):
        raise ValueError(f"dims must have at most 32 numbers and {len(_CHANNELS)} input channels, got {dims}")
    outputs, inputs, height, width = dims
    number = {
        (o, i, y, x): n for n, (o, i, y, x) in enumerate(product(*map(range, dims)))
    }  # its place in the order OIHW
    orders = {
        "OIHW: x runs fastest": list(number),
        "OHWI: i runs fastest": [
            (o, i, y, x) for o, y, x, i in product(range(outputs), range(height), range(width), range(inputs))
        ],
    }
    figure, axes = canvas(26.4, 9.0)
    left, wide = 0.4, 25.6 / count
    for k, (title, order) in enumerate(orders.items()):
        y = 0.6 + 3.7 * k
        text(axes, left, y, title, 11.5, ha="left", weight="bold")
        for n, index in enumerate(order):
            cell(axes, left + n * wide, y + 0.6, wide, 1.2, _CHANNELS[index[1]])
            text(axes, left + (n + 0.5) * wide, y + 1.2, str(number[index]), 10.5)
        for o in range(outputs):
            _bracket(axes, left + o * count // outputs * wide, count / outputs * wide, y + 2.15, f"o = {o}", GREY)
    for i in range(inputs):
        cell(axes, left + 5.2 * i, 8.05, 0.7, 0.6, _CHANNELS[i])
        text(axes, left + 5.2 * i + 0.95, 8.35, f"input channel {i}", 10.5, ha="left")
    moved = [number[index] for index in orders["OHWI: i runs fastest"]]
    return Drawing(
        figure,
        f"The {count} numbers of a weight with O, I, kH, kW = {', '.join(map(str, dims))}, coloured by input channel."
        f" In the order OIHW, {height * width} numbers of one input channel lie side by side. In the order OHWI the"
        f" colours alternate, and the row begins with the numbers {', '.join(map(str, moved[: 2 * inputs]))}.",
    )
