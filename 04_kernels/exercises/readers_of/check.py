from common.check import expect
from common.check.trials import FEW, NO_FLOAT, Slips, python_random, whole


def wanted(pixel, outputs, kernel, stride, pad, dilation):
    """For each tap the only outputs that may read the pixel are tried."""
    pairs = []
    for k in range(kernel):
        near = (pixel + pad - k * dilation) // stride
        reading = [o for o in (near - 1, near, near + 1) if o * stride - pad + k * dilation == pixel]
        pairs += [(o, k) for o in reading if 0 <= o < outputs]
    return pairs


def rounded(pixel, outputs, kernel, stride, pad, dilation):
    found = [((pixel + pad - k * dilation) // stride, k) for k in range(kernel)]
    return [(o, k) for o, k in found if 0 <= o < outputs]


SLIPS = {
    "as the tap goes up by one, the output that reads this pixel goes down by one": lambda p, n, k, s, pad, d: [
        (o, k - 1 - tap) for o, tap in wanted(p, n, k, s, pad, d)[::-1]
    ],
    "the padding moves every output's window to the left: pixel + pad, not pixel": lambda p, n, k, s, pad, d: wanted(
        p, n, k, s, 0, d
    ),
    "the padding moves every output's window to the left: pixel + pad, not pixel − pad": lambda p, n, k, s, pad, d: (
        wanted(p, n, k, s, -pad, d)
    ),
    "the padding is given: it need not be half of the kernel": lambda p, n, k, s, pad, d: wanted(p, n, k, s, k // 2, d),
    "a tap is dilation pixels further than the one before": lambda p, n, k, s, pad, d: wanted(p, n, k, s, pad, 1),
    "output -1 is not there": lambda p, n, k, s, pad, d: [
        (o - n, tap) for o, tap in wanted(p + n * s, 2 * n, k, s, pad, d)
    ],
    "the last output is outputs - 1": lambda p, n, k, s, pad, d: wanted(p, n + 1, k, s, pad, d),
    "(pixel + pad - k·dilation) / stride must come out even, and is not to be rounded": rounded,
    "a pair is (output, tap), in this order": lambda *a: [(k, o) for o, k in wanted(*a)],
    "sorted by the tap k, not by the output": lambda *a: sorted(wanted(*a)),
    "the stride is not counted: output o's window begins at o·stride - pad": lambda p, n, k, s, pad, d: wanted(
        p, n, k, 1, pad, d
    ),
}


def check(readers_of):
    draw, slips = python_random(), Slips(SLIPS)

    def compare(hint, *arguments):
        what = "readers_of({}, outputs={}, kernel={}, stride={}, pad={}, dilation={})".format(*arguments)
        got = readers_of(*arguments)
        expect(got, wanted(*arguments), what=what, hint=slips.hint(got, arguments, hint))

    every = "output o reads pixel o·stride - pad + k·dilation: solve for o, for each tap k"
    compare(every, 3, 7, 3, 1, 1, 1)
    compare("with stride 2 an even pixel is read by the middle tap alone: 2·o has to be even", 4, 7, 3, 2, 1, 1)
    compare("with stride 2 an odd pixel is read by the outer taps of two outputs", 5, 7, 3, 2, 1, 1)
    compare("output -1 is not there", 0, 7, 3, 1, 1, 1)
    compare("the last output is outputs - 1", 6, 7, 3, 1, 1, 1)
    compare("the padding moves every output's window to the left", 3, 7, 3, 1, 0, 1)
    compare("a tap is dilation pixels further than the one before", 9, 14, 3, 1, 2, 2)
    compare("(pixel + pad - k·dilation) / stride must come out even, and is not to be rounded", 6, 9, 5, 3, 2, 2)
    compare("a pixel may have no reader at all", 3, 3, 2, 4, 0, 1)
    for _ in range(40):
        kernel, stride, dilation = draw.randint(1, 7), draw.randint(1, 4), draw.randint(1, 3)
        compare(every, draw.randint(0, 19), draw.randint(1, 11), kernel, stride, draw.randint(0, 5), dilation)
    for _ in range(80):
        kernel, dilation = draw.choice([1, 3, 40, 1500]), whole(draw)
        stride = draw.choice([1, 2, whole(draw), whole(draw, NO_FLOAT)])
        o, k, pad = whole(draw, 0, most=FEW), draw.randrange(kernel), draw.choice([0, 1, whole(draw, 0)])
        pixel = o * stride - pad + k * dilation + draw.choice([0, 0, 1])  # which is read, or its neighbour
        outputs = max(1, draw.choice([o, o + 1, o + whole(draw, most=FEW)]))
        if pixel >= 0:
            compare(every, pixel, outputs, kernel, stride, pad, dilation)
