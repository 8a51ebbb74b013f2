from common.check import expect
from common.check.trials import FEW, Slips, python_random, whole


def wanted(height, width, stride, tile_h, tile_w):
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    rows = height if tile_h == out_h else (tile_h - 1) * stride + 3
    columns = width if tile_w == out_w else (tile_w - 1) * stride + 3
    return -(-out_h // tile_h) * -(-out_w // tile_w) * rows * columns / (height * width)


def with_rim(reach, whole=True, over=None):
    """An answer for which a tile of t outputs touches reach(t, stride) pixels in each direction."""

    def slip(height, width, stride, tile_h, tile_w):
        out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
        rows = height if whole and tile_h == out_h else reach(tile_h, stride)
        columns = width if whole and tile_w == out_w else reach(tile_w, stride)
        tiles = -(-out_h // tile_h) * -(-out_w // tile_w)
        return tiles * rows * columns / (out_h * out_w if over == "outputs" else height * width)

    return slip


def computed(tile, stride):
    return (tile - 1) * stride + 3


SLIPS = {
    "the windows of a tile touch more than stride · tile rows and columns: neighbours share the rim": with_rim(
        lambda tile, stride: tile * stride
    ),
    "a window reaches one pixel past its own on both sides, not on one": with_rim(lambda t, s: (t - 1) * s + 2),
    "at stride 2 the last window of a tile begins stride · (tile - 1) after the first": with_rim(
        lambda t, s: t * s + 2
    ),
    "at stride 2 the windows lie `stride` apart": with_rim(lambda tile, stride: tile + 2),
    "it is the pixels that are computed over the hidden pixels that there are, not over the outputs": with_rim(
        computed, over="outputs"
    ),
    "a tile that is as high as the output and as wide has no neighbours there": with_rim(computed, whole=False),
    "the blocks cover the output, which at stride 2 has half the rows and columns of the hidden channels": (
        lambda height, width, stride, tile_h, tile_w: (
            -(-height // tile_h)
            * -(-width // tile_w)
            * computed(tile_h, stride)
            * computed(tile_w, stride)
            / height
            / width
        )
    ),
    "how often each pixel is computed, 1.0 if once: not how often again": lambda *a: wanted(*a) - 1,
}


def check(recomputed_pixels):
    slips = Slips(SLIPS)

    def compare(*arguments, hint):
        what = f"recomputed_pixels{arguments}"
        got = recomputed_pixels(*arguments)
        expect(got, wanted(*arguments), what=what, hint=slips.hint(got, arguments, hint), rtol=1e-9)

    size = (32, 32, 1, 8, 8)
    hint = "a window reaches one pixel past its own on both sides: a tile of 8 rows needs 10, at stride 1"
    compare(*size, hint=hint)
    compare(30, 33, 1, 8, 8, hint="blocks cover all of the output, whole blocks of them: the last ones stick out")
    compare(40, 24, 1, 4, 10, hint="height and width differ, and so may the tile's")
    size = (20, 32, 2, 4, 8)
    hint = (
        "at stride 2 the windows lie `stride` apart: the last of a tile begins stride · (tile - 1) after the first, and"
        " the tile ends three from the last one's beginning"
    )
    compare(*size, hint=hint)
    hint = "a tile that is as high as the output and as wide has no neighbours: it computes height · width pixels"
    compare(14, 14, 1, 14, 14, hint=hint)
    compare(
        28, 28, 1, 7, 28, hint="a tile may be as wide as the output and not as high: ask for each direction on its own"
    )

    draw = python_random()
    hint = "blocks, rounded up in each direction, times rows and columns that one computes, over height · width"
    for _ in range(60):
        height, width, stride = (draw.choice([draw.randint(1, 60), whole(draw, most=FEW)]) for _ in range(3))
        stride = draw.choice([1, 2, 3, stride])
        out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
        tiles = [draw.choice([out, draw.randint(1, out), min(out, 7), -(-out // 2)]) for out in (out_h, out_w)]
        compare(height, width, stride, *tiles, hint=hint)
