"""Drawings of a convolution as a matrix product: im2col, implicit tile, halo, tiles over a card, epilogue."""

from collections.abc import Mapping
from itertools import product

from ..report.plots import COLOURS
from .canvas import BLUE, GREEN, GREY, ORANGE, PAPER, SKY, Drawing, arrow, canvas, cell, frame, positive, text

_DENSE = COLOURS["stem"]


def im2col(side: int = 4, kernel: int = 3, outs: int = 2, chosen: int = 1) -> Drawing:
    """One channel of side × side, its columns, and the product with the weights of `outs` output channels.

    chosen: the window whose column is coloured. ValueError for more than 9 windows or 9 taps, or no such window.
    """
    positive(side=side, kernel=kernel, outs=outs)
    across = side - kernel + 1
    windows, taps = across * across, kernel * kernel
    if not 0 < windows <= 9 or taps > 9 or not 0 <= chosen < windows:
        raise ValueError(f"at most 9 windows and 9 taps, and one of the windows, got {windows}, {taps} and {chosen}")
    high, wide = taps * 1.05, 1.5
    figure, axes = canvas(6.2 + side * 1.3 + taps * 0.95 + 2 * windows * wide + 6.6, high + 3.8)
    middle = 1.6 + high / 2
    row, column = divmod(chosen, across)

    left = 0.6
    text(axes, left + side * 0.65, middle - side * 0.65 - 0.7, "x, one channel", 11, weight="bold")
    for h, w in product(range(side), range(side)):
        inside = row <= h < row + kernel and column <= w < column + kernel
        x, y = left + 1.3 * w, middle + 1.3 * (h - side / 2)
        cell(axes, x, y, 1.3, 1.3, SKY if inside else PAPER)
        text(axes, x + 0.65, y + 0.65, str(h * side + w), 10.5)
    text(axes, left + side * 0.65, middle + side * 0.65 + 0.7, f"coloured: window {chosen}", 10, color=GREY)

    start = left + side * 1.3
    weights, columns = start + 2.6, start + 4.2 + taps * 0.95
    text(axes, weights + taps * 0.475, middle - outs * 0.55 - 0.7, "weights", 11, weight="bold")
    for o, k in product(range(outs), range(taps)):
        cell(axes, weights + 0.95 * k, middle + 1.1 * (o - outs / 2), 0.95, 1.1, _DENSE)
    text(axes, weights + taps * 0.475, middle + outs * 0.55 + 0.7, f"{outs} × {taps}: a row per output channel", 10,
         color=GREY)  # fmt: skip
    text(axes, columns - 0.8, middle, "·", 22, weight="bold")

    text(axes, columns + windows * wide / 2, 0.7, "columns", 11, weight="bold")
    for k, p in product(range(taps), range(windows)):
        h, w = p // across + k // kernel, p % across + k % kernel
        x, y = columns + wide * p, 1.6 + 1.05 * k
        cell(axes, x, y, wide, 1.05, SKY if p == chosen else PAPER)
        text(axes, x + wide / 2, y + 0.52, str(h * side + w), 10.5)
    said = f"{taps} × {windows}: a row per tap,\na column per window"
    text(axes, columns + windows * wide / 2, 1.6 + high + 1.0, said, 10, color=GREY)

    after = columns + windows * wide + 1.9
    text(axes, after - 0.95, middle, "=", 18, weight="bold")
    text(axes, after + windows * wide / 2, middle - outs * 0.55 - 0.7, "y", 11, weight="bold")
    for o, p in product(range(outs), range(windows)):
        x = after + wide * p
        cell(axes, x, middle + 1.1 * (o - outs / 2), wide, 1.1, SKY if p == chosen else PAPER)
    text(axes, after + windows * wide / 2, middle + outs * 0.55 + 0.7, f"{outs} × {windows}", 10, color=GREY)
    under = [str((row + k // kernel) * side + column + k % kernel) for k in range(taps)]
    return Drawing(
        figure,
        f"One channel of {side} × {side} numbers, counted from 0, and a window of {kernel} × {kernel}. The matrix of"
        f" columns has {taps} rows, one per tap, and {windows} columns, one per window. Column {chosen} is coloured"
        f" and holds {', '.join(under)}. Weights of {outs} × {taps} times these columns are y, {outs} × {windows}.",
    )


def implicit_tile(
    outs: int = 64, taps: int = 576, pixels: int = 3136, tile: tuple[int, int, int] = (8, 32, 8)
) -> Drawing:
    """The tiles of a block in the product weights · columns = y, where columns is never stored.

    outs × taps: of the weights; taps × pixels: of the columns. tile: output channels, pixels and taps of a block.
    """
    bo, bp, bk = tile
    positive(outs=outs, taps=taps, pixels=pixels, tile_outs=bo, tile_pixels=bp, tile_taps=bk)
    figure, axes = canvas(37, 15.4)
    text(axes, 5.6, 8.2, f"weights, {outs} × {taps:,}", 11, weight="bold")
    cell(axes, 1.0, 9.0, 9.2, 4.0, PAPER)
    cell(axes, 1.0, 10.2, 9.2, 1.3, _DENSE, alpha=0.12)
    cell(axes, 4.0, 10.2, 2.8, 1.3, _DENSE)
    arrow(axes, (7.0, 10.85), (9.0, 10.85))

    text(axes, 19.5, 1.0, f"columns, {taps:,} × {pixels:,}: never stored", 11, weight="bold")
    axes.plot([13.0, 26.0, 26.0, 13.0, 13.0], [1.8, 1.8, 7.6, 7.6, 1.8], color=GREY, linestyle="--", linewidth=1.4)
    cell(axes, 17.0, 1.8, 3.6, 5.8, SKY, alpha=0.12)
    cell(axes, 17.0, 3.6, 3.6, 1.4, SKY)
    arrow(axes, (18.8, 5.2), (18.8, 6.8))

    text(axes, 31.6, 1.0, "x in global memory", 11, weight="bold")
    for layer in range(3):
        cell(axes, 29.4 + 0.5 * layer, 2.0 + 0.5 * layer, 4.4, 4.2, PAPER)
    for spot in ((31.2, 3.6), (31.9, 3.6), (32.6, 3.6), (31.2, 4.3), (31.9, 4.3)):
        cell(axes, *spot, 0.7, 0.7, SKY)
    arrow(axes, (30.9, 4.3), (20.8, 4.3), BLUE, linewidth=2.2)
    text(axes, 26.9, 8.4, "each thread finds the number of\nx under its tap and window", 10.5, ha="left")

    cell(axes, 13.0, 10.2, 13.0, 3.9, PAPER)
    cell(axes, 17.0, 10.2, 3.6, 1.3, GREEN)
    text(axes, 19.5, 14.7, f"y, {outs} × {pixels:,}", 11, weight="bold")
    text(axes, 18.8, 10.85, f"{bo} × {bp}", 10.5)
    text(axes, 5.4, 10.85, f"{bo} × {bk}", 10.5)
    text(axes, 18.8, 4.3, f"{bk} × {bp}", 10.5)
    rounds = -(-taps // bk)
    said = "full colour: tiles in shared\nmemory, sums in registers.\n"
    said += f"{rounds:,} rounds of {bk} values of k\n(black arrows)"
    text(axes, 26.9, 12.2, said, 10.5, ha="left")
    return Drawing(
        figure,
        f"Three matrices. Weights, {outs} × {taps:,}, times columns, {taps:,} × {pixels:,}, are y. The matrix of"
        f" columns has a dashed outline because it is never stored. A block has a tile of {bo} × {bk} of the weights"
        f" and {bk} × {bp} of the columns, which move along k in {rounds:,} rounds, and sums for {bo} × {bp} numbers of"
        " y. The tile of columns is filled from x.",
    )


def halo_tile(side: int = 28, pixels: int = 128, kernel: int = 3, first: int = 14) -> Drawing:
    """The output pixels of one block in an image of side × side, and the input pixels under their windows (stride 1).

    first: the number of the block's first output pixel. ValueError for an image that is wider than 40.
    """
    positive(side=side, pixels=pixels, kernel=kernel)
    if side > 40 or first < 0 or first + pixels > side * side:
        raise ValueError(f"the pixels must lie in an image of side 40 or less, got {first} + {pixels} in {side}")
    outputs = {divmod(p, side) for p in range(first, first + pixels)}
    reach = kernel // 2
    offsets = list(product(range(-reach, kernel - reach), repeat=2))
    under = {(h + i, w + j) for h, w in outputs for i, j in offsets}
    top, bottom = min(h for h, _ in under), max(h for h, _ in under)
    figure, axes = canvas(37, 3.4 + bottom - top)
    left, one = (37 - (side + 2 * reach) * 1.05) / 2, 1.05
    for h, w in product(range(top, bottom + 1), range(-reach, side + reach)):
        colour = _DENSE if (h, w) in outputs else ORANGE if (h, w) in under else PAPER
        x, y = left + one * (w + reach), 0.4 + (h - top)
        inside = 0 <= h < side and 0 <= w < side
        cell(axes, x, y, one, 1.0, colour, **({} if inside or colour == PAPER else {"alpha": 0.12}))
        if not inside and (h, w) in under:
            text(axes, x + one / 2, y + 0.5, "0", 10, color=GREY)
    below = 1.5 + bottom - top
    halo = len(under - outputs)
    words = f"{pixels} output pixels of one block (grey), and their halo (orange); 0: padding"
    text(axes, 18.5, below + 0.6, words, 11)
    taken = f"under the windows: {len(offsets) * pixels:,} numbers per channel, of which {len(under):,} are different"
    text(axes, 18.5, below + 1.5, taken, 11, weight="bold")
    return Drawing(
        figure,
        f"An image {side} pixels wide. A block computes {pixels} neighbouring output pixels, {pixels // side} rows"
        f" and parts of two. Around them lies the halo, {halo} positions. The {pixels} windows of {kernel} ×"
        f" {kernel} hold {len(offsets) * pixels:,} numbers per channel, of which {len(under):,} are different.",
    )


def regimes(layers: Mapping[str, tuple[int, int, int]], tile: int = 64, sms: int = 132) -> Drawing:
    """Products of a network's pointwise layers as tiles of y, spread over the multiprocessors of a card.

    layers: {title: (pixels of all images, input channels, output channels)}, at most three. tile: rows and columns.
    """
    positive(tile=tile, sms=sms)
    if not 1 <= len(layers) <= 3:
        raise ValueError(f"layers must be one to three, got {len(layers)}")
    figure, axes = canvas(37, 14.6)
    across, told = 12, []
    for i, (title, (pixels, channels, outs)) in enumerate(layers.items()):
        left, tiles = 0.9 + 12.2 * i, -(-pixels // tile) * -(-outs // tile)
        text(axes, left + 5.3, 0.7, title, 11.5, weight="bold")
        text(axes, left + 5.3, 1.7, f"y: {pixels:,} × {outs}", 10.5)
        text(axes, left + 5.3, 2.6, f"{tiles:,} tile{'s' * (tiles > 1)} of {tile} × {tile}", 10.5)
        for sm in range(sms):
            x, y = left + 0.88 * (sm % across), 3.4 + 0.72 * (sm // across)
            cell(axes, x + 0.05, y + 0.04, 0.78, 0.64, COLOURS["expand"] if sm < tiles else PAPER)
        each = tiles / sms
        words = f"{each:,.0f} tiles per SM" if each >= 1.5 else f"{min(tiles, sms)} of {sms} SMs have a tile"
        text(axes, left + 5.3, 12.2, words, 10.5, weight="bold")
        text(axes, left + 5.3, 13.2, f"a sum has {channels} channels", 10.5)
        told.append(f"{title}: y of {pixels:,} × {outs} in {tiles:,} tiles, {words}, sums of {channels} channels")
    return Drawing(
        figure,
        f"The {sms} multiprocessors of a card as squares, coloured if they have a tile of {tile} × {tile} elements of"
        f" the product to compute. {'; '.join(told)}.",
    )


def epilogue(residual: bool = True, activation: bool = True) -> Drawing:
    """A pointwise convolution and what follows: a kernel per step, and one kernel for all; with the passes over y.

    residual, activation: whether a residual is added, whether ReLU6 follows.
    """
    steps = [("convolution", COLOURS["project"]), ("+ bias", GREY)]
    steps += [("+ residual", COLOURS["add"])] * residual + [("ReLU6", COLOURS["ReLU6"])] * activation
    figure, axes = canvas(37, 12.2)
    text(axes, 0.6, 0.8, "one kernel per step", 11, ha="left", weight="bold")
    text(axes, 0.6, 7.0, "one kernel", 11, ha="left", weight="bold")
    wide = 36.0 / len(steps)
    for i, (name, colour) in enumerate(steps):
        x = 0.5 + wide * i
        frame(axes, x + 0.6, 1.5, wide - 1.2, 1.5, colour)
        text(axes, x + wide / 2, 2.25, name, 11)
        if i:
            arrow(axes, (x + wide * 0.3, 4.6), (x + wide * 0.3, 3.1), BLUE, linewidth=2)
            text(axes, x + wide * 0.3 - 0.2, 3.9, "y", 10.5, ha="right")
        else:
            arrow(axes, (x + wide * 0.3, 4.6), (x + wide * 0.3, 3.1), GREY)
            text(axes, x + wide * 0.3 + 0.2, 3.9, "x, weights", 10.5, ha="left")
        arrow(axes, (x + wide * 0.7, 3.1), (x + wide * 0.7, 4.6), BLUE, linewidth=2)
        text(axes, x + wide * 0.7 + 0.2, 3.9, "y", 10.5, ha="left")
    for y in (4.7, 10.4):
        cell(axes, 0.5, y, 36.0, 0.9, SKY, alpha=0.2)
        text(axes, 18.5, y + 0.45, "global memory", 10.5)
    frame(axes, 1.1, 7.6, 34.8, 1.4, COLOURS["project"])
    text(axes, 18.5, 8.3, "   →   ".join(name for name, _ in steps) + "   in registers", 11)
    arrow(axes, (6.0, 10.3), (6.0, 9.1), GREY)
    text(axes, 6.4, 9.7, "x, weights" + (", bias, residual" if residual else ", bias"), 10.5, ha="left")
    arrow(axes, (30.0, 9.1), (30.0, 10.3), BLUE, linewidth=2)
    text(axes, 30.4, 9.7, "y", 10.5, ha="left")
    passes = 2 * len(steps) - 1
    text(axes, 18.5, 6.15, f"y is written or read {passes} times", 10.5, weight="bold")
    text(axes, 18.5, 11.8, "y is written once", 10.5, weight="bold")
    return Drawing(
        figure,
        f"Above, a kernel per step: {', '.join(name for name, _ in steps)}. Each kernel after the first reads y from"
        f" global memory and writes it back: {passes} passes over y. Below, one kernel does all steps in registers and"
        " writes y once.",
    )
