import random

from common.check import expect


def wanted(height, width, stride, tile_h, tile_w):
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    rows = height if tile_h == out_h else (tile_h - 1) * stride + 3
    columns = width if tile_w == out_w else (tile_w - 1) * stride + 3
    return -(-out_h // tile_h) * -(-out_w // tile_w) * rows * columns / (height * width)


def check(recomputed_pixels):
    def compare(*arguments, hint):
        what = f"recomputed_pixels{arguments}"
        expect(recomputed_pixels(*arguments), wanted(*arguments), what=what, hint=hint, rtol=1e-9)

    size = (32, 32, 1, 8, 8)
    hint = "a window reaches one pixel past its own on both sides: a tile of 8 rows needs 10, at stride 1"
    if recomputed_pixels(*size) == 1.0:
        hint = "the windows of a tile touch more than stride · tile rows and columns: neighbours share the rim"
    compare(*size, hint=hint)
    compare(30, 33, 1, 8, 8, hint="blocks cover all of the output, whole blocks of them: the last ones stick out")
    compare(40, 24, 1, 4, 10, hint="height and width differ, and so may the tile's")
    size = (20, 32, 2, 4, 8)
    hint = (
        "at stride 2 the windows lie `stride` apart: the last of a tile begins stride · (tile - 1) after the first, and"
        " the tile ends three from the last one's beginning"
    )
    if recomputed_pixels(*size) == 4 * wanted(*size):
        hint = "it is the pixels that are computed over the hidden pixels that there are, not over the outputs"
    elif recomputed_pixels(*size) == 5 * 4 * 9 * 17 / (20 * 32):
        hint = "the blocks cover the output, which at stride 2 has half the rows and columns of the hidden channels"
    compare(*size, hint=hint)
    hint = "a tile that is as high as the output and as wide has no neighbours: it computes height · width pixels"
    compare(14, 14, 1, 14, 14, hint=hint)
    compare(
        28, 28, 1, 7, 28, hint="a tile may be as wide as the output and not as high: ask for each direction on its own"
    )

    draw = random.Random()
    for _ in range(30):
        height, width, stride = draw.randint(3, 60), draw.randint(3, 60), draw.randint(1, 2)
        out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
        compare(height, width, stride, draw.randint(1, out_h), draw.randint(1, out_w), hint="any image, any tile")
