"""The data flow of a Winograd convolution."""

from itertools import product
from typing import Any

from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Drawing, arrow, canvas, cell, text


def winograd(outputs: int = 2, in_channels: int = 64, out_channels: int = 64) -> Drawing:
    """A tile through F(m×m, 3×3): input transform, products with the transformed filter, sum, output transform.

    outputs: m, 2 or 4. in_channels, out_channels: how often each step is shared. ValueError for another m.
    """
    if outputs not in (2, 4):
        raise ValueError(f"outputs must be 2 or 4, got {outputs}")
    a = outputs + 2
    unit = 4.0 / a
    figure, axes = canvas(39, 16.2)

    def grid(x: float, y: float, rows: int, colour: str, size: float = unit) -> None:
        for h, w in product(range(rows), range(rows)):
            cell(axes, x + w * size, y + h * size, size, size, colour)

    def named(x: float, y: float, words: str, below: str) -> None:
        text(axes, x, y, words, 11.5, weight="bold")
        text(axes, x, y + 0.95, below, 10, color=GREY)

    for k in (2, 1, 0):  # channels behind one another
        for x, y, colour in ((1.0, 3.0, SKY), (12.6, 3.0, BLUE), (12.6, 9.2, PURPLE)):
            cell(axes, x + 0.35 * k, y - 0.35 * k, 4.0, 4.0)
            if k == 0:
                grid(x, y, a, colour)
    grid(1.6, 9.9, 3, ORANGE, unit)
    grid(24.0, 6.2, a, GREEN)
    grid(33.8, 6.2 + unit, outputs, GREEN)
    named(3.2, 0.7, f"d: {a} × {a} inputs", f"of {in_channels} channels")
    named(3.2, 14.2, "g: 3 × 3 weights", "of one output channel")
    named(14.8, 0.7, f"V = Bᵀ d B, {a} × {a}", f"serves {out_channels} output channels")
    named(14.8, 14.2, f"U = G g Gᵀ, {a} × {a}", "once per network")
    named(26.0, 3.6, "M = sum of U ⊙ V", f"over {in_channels} channels")
    text(axes, 26.0, 11.2, f"{a * a} products per channel", 10, color=GREY)
    named(34.3 + outputs * unit / 2, 3.6, f"Aᵀ M A: {outputs} × {outputs}", "once per output channel")
    arrow(axes, (6.4, 5.0), (12.2, 5.0))
    text(axes, 9.2, 4.3, "additions", 10)
    arrow(axes, (5.8, 11.6), (12.2, 11.6))
    text(axes, 9.0, 10.9, "multiply-adds", 10)
    _to(axes, 5.0)
    _to(axes, 11.2)
    arrow(axes, (28.4, 8.2), (33.4, 8.2))
    text(axes, 30.9, 7.5, "additions", 10)
    text(axes, 21.2, 8.2, "⊙", 20)
    return Drawing(
        figure,
        f"Winograd's F({outputs}×{outputs}, 3×3). Left: a tile d of {a} × {a} inputs in each of {in_channels} channels,"
        f" and the 3 × 3 weights g. The input transform makes V with {a} × {a} elements, which serves {out_channels}"
        f" output channels; the weights become U with {a} × {a} elements, once per network. Elements of U and V at the"
        f" same place are multiplied and summed over the channels, {a * a} products per channel. The output transform"
        f" makes {outputs} × {outputs} outputs.",
    )


def _to(axes: Any, y: float) -> None:
    arrow(axes, (18.0, y), (20.6, 8.2 + (0.5 if y > 8 else -0.5)))
    arrow(axes, (21.9, 8.2), (23.6, 8.2))
