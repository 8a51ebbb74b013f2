import numpy as np

from common.check import launch
from common.check.kernels import asked, calls, compare, shapes, use
from common.check.trials import numpy_random
from common.kernels import int8

SIZES = ((16, 32, 8), (16, 64, 8), (1, 32, 1), (7, 96, 3), (33, 64, 13), (40, 128, 24))  # P, C, O
LOW, HIGH = -128, 100


def product(x, w, bias, multiplier, zero_point, mistake=""):
    """y as of int8.requantize; mistake: what is done differently."""
    wide, filters = x.astype(np.int64), w.astype(np.int64)
    if mistake == "a turned":  # a[1] and a[2] the other way round, in whole tiles
        rows = np.zeros((-(-len(x) // 16) * 16, x.shape[1]), np.int64)
        rows[: len(x)] = wide
        tiles = rows.reshape(-1, 2, 8, x.shape[1] // 32, 2, 16)
        wide = tiles.transpose(0, 4, 2, 3, 1, 5).reshape(rows.shape)[: len(x)]
    if mistake == "unsigned":
        wide = wide & 255
    acc = wide @ filters.T + bias
    if mistake == "short sums":
        acc = acc.astype(np.int16).astype(np.int64)
    if mistake == "no bias":
        acc = acc - bias
    scale, turned = np.broadcast_to(multiplier, acc.shape), np.arange(len(x))[:, None] % 8
    if mistake == "wrong axis":
        scale = multiplier[np.minimum(turned + np.arange(len(w)) // 8 * 8, len(w) - 1)]
    v = acc.astype(np.float32) * scale
    low, high = (-(10**6), 10**6) if mistake == "no saturation" else (LOW, HIGH)
    if mistake == "each slice":
        parts = wide.reshape(len(x), -1, 32).transpose(1, 0, 2) @ filters.reshape(len(w), -1, 32).transpose(1, 2, 0)
        parts[0] += bias
        rounded = np.rint(parts.astype(np.float32) * scale).sum(0)
    elif mistake == "half away":
        rounded = np.sign(v) * np.floor(np.abs(v) + np.float32(0.5))
    elif mistake == "truncated":
        rounded = np.trunc(v)
    else:
        rounded = np.rint(v)
    if mistake != "no zero point":
        rounded = rounded + zero_point
    return np.clip(rounded, low, high).astype(np.int64).astype(np.int8)


MISTAKES = {
    "half away": "a half goes to the even code: 2.5 to 2. requantize() rounds so; __float2int_rn() as well",
    "truncated": "round to the nearest code, a half to the even one; a conversion to int cuts off",
    "each slice": "the sum over all C goes through requantize once. Codes of parts, added up, were rounded several"
    " times",
    "wrong axis": "the multiplier belongs to the output channel o, the column of y, and not to the row",
    "short sums": "a sum of 64 products needs more than 16 bits: it stays in int until it is requantized",
    "a turned": "a[1] is 8 rows down, a[2] 16 columns on: not the other way round",
    "unsigned": "codes are signed: four of them are read as a word, unchanged",
    "no bias": "bias[o] is part of the int32 sum, before it is multiplied",
    "no saturation": "beyond low and high there are no codes: clamp, and only then make it a signed char",
    "no zero point": "the zero point of y is added after rounding, before the clamp",
}
TOGETHER = "mma is done by the 32 lanes together: none may stay away"
HINTS = {
    "out-of-bounds": "the last tile has rows beyond P and columns beyond O: nothing lies there to be read or written",
    "misaligned": "a word of four codes begins at a multiple of 4 bytes: rows are a multiple of 32 bytes",
    "deadlock": TOGETHER, "divergent-barrier": TOGETHER, "stopped": TOGETHER,
    "unwritten": "a lane has four elements of y, d[0] to d[3]: rows g and g + 8, columns 2t and 2t + 1 of each",
    "race-global": "each element of y belongs to one lane: rows g and g + 8, columns 2t and 2t + 1",
}  # fmt: skip


def arrays(random, p, c, o, small):
    most = 9 if small else 128  # sums of small codes are halved, so that half of them are half-way between two codes
    x, w = (random.integers(-most, most, shape).astype(np.int8) for shape in ((p, c), (o, c)))
    w = np.maximum(w, -127)
    bias = random.integers(-30, 30, o) if small else random.integers(-9000, 9000, o)
    if small:
        return x, w, bias.astype(np.int32), np.full(o, 0.5 / max(1, c // 64), np.float32)
    bias = bias.astype(np.int32)
    # powers of two, so that halves are exact: every sum over 2^k is one of few fractions
    multiplier = np.exp2(random.integers(-12, -7, o) - int(np.log2(c) / 2)).astype(np.float32)
    return x, w, bias, multiplier


def check(source):
    random = numpy_random()
    sizes = [(p, -(-c // 32) * 32, o) for p, c, o in shapes(source, random, SIZES, (40, 160, 40))]
    for p, c, o in sizes:
        what, zero_point = f"int8_product of {p} × {c} and {o} × {c}", int(random.integers(-20, 20))
        given = arrays(random, p, c, o, (p, c, o) == SIZES[1] or random.random() < 0.3)
        y = np.full((p, o), 99, np.int8)
        args = (*given, y, p, c, o, zero_point, LOW, HIGH)
        report = launch(
            source, "int8_product", (-(-o // 8), -(-p // 16)), (32,), args, what=what, hints=HINTS, outputs=(y,)
        )
        x, w, bias, multiplier = given
        acc = int8.linear_accumulate(x, w, bias)
        want = int8.requantize(acc, multiplier, zero_point, LOW, HIGH)
        known = ((product(*given, zero_point, mistake), told) for mistake, told in MISTAKES.items())
        hint = "first the int32 sums: who holds what of a, b and d is in ptx.h; then bias, requantize, and the store"
        compare(y, want, what=f"{what}: y", hint=hint, mistakes=known)
        if (p, c, o) == (40, 128, 24):
            counted = what, report, given
    what, report, given = counted
    p, c, o = 40, 128, 24
    tiles, slices = 3 * 3, c // 32
    args = (*given, np.zeros((p, o), np.int8), p, c, o, 0, LOW, HIGH)
    made = calls(source, "int8_product", (3, 3), (32,), args, ("mma_s8",), headers=("requantize.h",))["mma_s8"] // 32
    hint = "one mma_s8 multiplies 16×32 by 32×8: a tile takes C / 32 of them"
    asked(made == tiles * slices, what=f"{what} takes {made} mma_s8 of a warp, {tiles * slices} are needed", hint=hint)
    most = tiles * slices * 32 * 6
    loads = use(report, 0).counts.accesses + use(report, 1).counts.accesses
    hint = "a register of a fragment holds four neighbouring codes of a row: one load of a word of 4 bytes"
    said = f"{what}: {loads:,} loads of codes, {most:,} would do"
    asked(loads <= most, what=said, hint=hint, picture=report)
