import numpy as np

from common.check import launch
from common.check.kernels import asked, calls, compare, shapes, use
from common.check.trials import numpy_random
from common.kernels import int8

SIZES = ((4, 4, 8), (1, 1, 4), (7, 5, 12), (3, 9, 4))  # H, W, C


def packed(weight):
    """(C, 3) words: the three taps of a row in the bytes 0, 1 and 2; byte 3 is 0."""
    rows = np.zeros((len(weight), 3, 4), np.int8)
    rows[:, :, :3] = weight
    return rows.view(np.int32)[:, :, 0]


def depthwise(x, weight, bias, multiplier, input_zero_point, zero_point, low, high, mistake=""):
    """y (H, W, C) as of int8.conv2d; mistake: what is done differently."""
    h, w, c = x.shape
    fill = 0 if mistake == "padding of 0" else input_zero_point
    wide = np.full((h + 2, w + 2, c), fill, np.int64)
    wide[1 : h + 1, 1 : w + 1] = x
    if mistake == "unsigned":
        wide = wide & 255
    if mistake == "wraps":
        flat = np.concatenate([np.full((w + 2, c), fill), x.reshape(-1, c), np.full((w + 2, c), fill)]).astype(np.int64)
    taps = weight.astype(np.int64)
    sums = []
    for kh in range(3):
        part = np.zeros((h, w, c), np.int64)
        for kw in range(3):
            tap = taps[:, kw, kh] if mistake == "turned" else taps[:, kh, kw]
            start = (w + 2) + (kh - 1) * w + kw - 1  # of pixel (kh - 1, kw - 1), behind w + 2 of padding
            read = (
                flat[start : start + h * w].reshape(h, w, c) if mistake == "wraps" else wide[kh : kh + h, kw : kw + w]
            )
            part += tap * read
        sums.append(part)
    sums[0] = sums[0] + (0 if mistake == "no bias" else bias)
    scale = multiplier
    if mistake == "first of four":
        scale = multiplier[np.arange(c) // 4 * 4]

    def codes(acc):
        return np.rint(acc.astype(np.float32) * scale)

    rounded = sum(map(codes, sums)) if mistake == "each row" else codes(sum(sums))
    ends = (-(10**6), 10**6) if mistake == "no saturation" else (low, high)
    return np.clip(rounded + zero_point, *ends).astype(np.int64).astype(np.int8)


MISTAKES = {
    "padding of 0": "outside of the image lies the real number 0, and its code is the zero point of x, not 0",
    "wraps": "left of column 0 lies padding: an index into x alone leads from the end of one row to the next",
    "turned": "weight[c · 3 + kh] has the taps of row kh, from left to right in its bytes 0, 1 and 2",
    "each row": "the sum of all nine products goes through requantize once, not the sum of each row of taps",
    "first of four": "each of the four channels has a bias and a multiplier of its own: c + e",
    "unsigned": "codes are signed: __dp4a of two int multiplies signed bytes",
    "no bias": "bias[c + e] is part of the int32 sum, before it is multiplied",
    "no saturation": "requantize() clamps to low and high; then four codes are packed into a word",
}
HINTS = {
    "out-of-bounds": "a window reaches beyond the image at all four edges, and the last block has threads too many",
    "misaligned": "the four channels of a pixel begin at a multiple of 4 bytes: c is a multiple of 4",
    "unwritten": "a thread has four channels of one pixel; the grid has H · W · C / 4 threads or more",
}


def check(source):
    random = numpy_random()
    sizes = [(h, w, -(-c // 4) * 4) for h, w, c in shapes(source, random, (*SIZES, (8, 6, 16)), (12, 12, 24))]
    for h, w, c in sizes:
        what = f"int8_depthwise of {h} × {w} pixels, {c} channels"
        x = random.integers(-128, 128, (h, w, c)).astype(np.int8)
        weight = random.integers(-127, 128, (c, 3, 3)).astype(np.int8)
        input_zero_point, zero_point = int(random.integers(5, 60)), int(random.integers(-20, 20))
        bias = int8.fold_zero_point(weight, random.integers(-900, 900, c).astype(np.int32), input_zero_point)
        multiplier = np.exp2(random.integers(-11, -8, c)).astype(np.float32)
        multiplier[0] = 2**-5  # most codes of this channel saturate
        low, high = -128, 110
        y = np.full((h, w, c), 99, np.int8)
        args = (x, packed(weight), bias, multiplier, y, h, w, c, input_zero_point, zero_point, low, high)
        grid = (-(-(h * w * c // 4) // 64),)
        report = launch(source, "int8_depthwise", grid, (64,), args, what=what, hints=HINTS, outputs=(y,))
        given = x, weight, bias, multiplier, input_zero_point, zero_point, low, high
        model = int8.conv2d(
            x.transpose(2, 0, 1)[None], weight[:, None], bias, multiplier, zero_point=zero_point, bounds=(low, high),
            padding=1, groups=c, input_zero_point=input_zero_point,
        )[0].transpose(1, 2, 0)  # fmt: skip
        known = ((depthwise(*given, mistake), told) for mistake, told in MISTAKES.items())
        hint = "per row of taps: four pixels as words, transpose(), and one __dp4a per channel"
        compare(y, np.ascontiguousarray(model), what=f"{what}: y", hint=hint, mistakes=known)
        if (h, w, c) == (8, 6, 16):
            counted = what, report, grid, args
    what, report, grid, args = counted
    threads = 8 * 6 * 4
    made = calls(source, "int8_depthwise", grid, (64,), args, ("__dp4a",), headers=("requantize.h", "taps.h"))["__dp4a"]
    hint = "a __dp4a multiplies four bytes: the three taps of a row, and a zero. Three rows, four channels"
    said = f"{what} takes {made:,} __dp4a, {12 * threads:,} are needed"
    asked(made == 12 * threads, what=said, hint=hint)
    loads, stores = use(report, 0).counts, use(report, 4, "store").counts
    hint = "four channels of a pixel are one word, and a window has nine pixels: the fourth of a row meets the zero"
    said = f"{what}: {loads.accesses:,} loads of x, {9 * threads:,} would do"
    asked(loads.accesses <= 9 * threads, what=said, hint=hint, picture=report)
    hint = "pack() makes a word of four codes: one store of 4 bytes per thread"
    said = f"{what}: {stores.accesses:,} stores of y, {threads:,} would do"
    asked(stores.accesses <= threads, what=said, hint=hint, picture=report)
