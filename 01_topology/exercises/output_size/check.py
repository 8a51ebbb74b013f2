"""Places the window at every position it can take and counts."""

from common.check import Wrong, expect, expect_error
from common.check.trials import FEW, MANY, NO_FLOAT, Slips, python_random, whole


def positions(size, kernel, stride=1, padding=(0, 0), dilation=1):
    before, after = padding
    window = dilation * (kernel - 1) + 1
    return len(range(-before, size + after - window + 1, stride))


def room(size, kernel, padding, dilation):
    return size + sum(padding) - dilation * (kernel - 1) - 1


SLIPS = {
    "the first window counts as well, before any step": lambda *a: positions(*a) - 1,
    "the stride rounds down: a last window that does not fit whole is left out": lambda n, k, s, p, d: (
        -(-room(n, k, p, d) // s) + 1
    ),
    "with dilation the kernel's first and last tap lie dilation · (kernel − 1) apart": lambda n, k, s, p, d: positions(
        n, k, s, p, 1
    ),
    "dilation · (kernel − 1) + 1 inputs lie from the first to the last tap, not dilation · kernel": (
        lambda n, k, s, p, d: (n + sum(p) - d * k) // s + 1
    ),
    "padding is (before, after): each side counts, once, and the two may differ": lambda n, k, s, p, d: positions(
        n, k, s, (p[0], p[0]), d
    ),
    "padding is (before, after): here the side after is counted twice": lambda n, k, s, p, d: positions(
        n, k, s, (p[1], p[1]), d
    ),
    "padding is (before, after): the sum of the two is added, not twice the sum": lambda n, k, s, p, d: positions(
        n, k, s, (2 * p[0], 2 * p[1]), d
    ),
    "the padding is not counted": lambda n, k, s, p, d: positions(n, k, s, (0, 0), d),
    "the stride is not counted": lambda n, k, s, p, d: positions(n, k, 1, p, d),
    "⌈size / stride⌉ is right with one certain padding, not with any": lambda n, k, s, p, d: -(-n // s),
}


def check(output_size):
    slips = Slips(SLIPS)

    def compare(hint, size, kernel, stride=1, padding=(0, 0), dilation=1):
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        given = {key: value for key, value in options.items() if value not in (1, (0, 0))}
        shown = ", ".join([str(size), str(kernel), *(f"{key}={value}" for key, value in given.items())])
        arguments = size, kernel, *options.values()
        want = positions(*arguments)
        try:
            got = output_size(size, kernel, **given)
        except ValueError as error:
            fits = f"the window covers {dilation * (kernel - 1) + 1} inputs, and the padded input counts:"
            raise Wrong(f"output_size({shown}) raises ValueError, it should give {want}",
                        f"{fits} it has {size + sum(padding)}") from error  # fmt: skip
        expect(got, want, what=f"output_size({shown})", hint=slips.hint(got, arguments, hint))

    compare("at stride 1 a window moves from 0 to size − kernel: both ends count", 10, 3)
    compare("at stride 1 a window moves from 0 to size − kernel: both ends count", 5, 5)
    stride = "a window every `stride` inputs; a last one that does not fit whole is left out"
    compare(stride, 11, 3, stride=2)
    compare(stride, 13, 4, stride=2)
    compare(stride, 10, 1, stride=4)
    padding = "padding is (before, after): each side counts, once, and the two may differ"
    compare(padding, 10, 3, padding=(0, 1))
    compare(padding, 10, 3, padding=(2, 0))
    compare(padding, 7, 3, padding=(1, 1))
    compare(padding, 2, 3, padding=(0, 1))
    dilation = "with dilation the kernel's first and last tap lie dilation · (kernel − 1) apart"
    compare(dilation, 20, 3, dilation=2)
    compare(dilation, 20, 1, dilation=5)

    draw = python_random()
    every = "the places where the window fits whole into the padded input, one every `stride`: a whole number"
    for _ in range(60):
        kernel, dilation = whole(draw, most=FEW), draw.choice([1, 2, whole(draw, most=FEW)])
        wide = whole(draw, 0, most=MANY), whole(draw, 0, most=MANY)
        padding = draw.choice([(0, 0), (draw.randint(0, 3), draw.randint(0, 3)), wide])
        size = max(1, dilation * (kernel - 1) + 1 - sum(padding)) + draw.choice([0, 1, whole(draw, most=MANY)])
        stride = draw.choice([1, 2, 3, whole(draw), max(1, size // draw.randint(2, 9))])
        compare(every, size, kernel, stride, padding, dilation)
    for _ in range(20):  # few windows, far apart
        kernel, stride = draw.randint(1, 9), whole(draw, NO_FLOAT)
        compare(every, kernel + draw.randint(1, 9) * stride - draw.choice([0, 1]), kernel, stride)

    compare("a window that just fits into the padded input fits once", 3, 5, padding=(2, 0), stride=3)
    hint = "the window is larger than the padded input: no output at all"
    expect_error(ValueError, lambda: output_size(3, 5), what="output_size(3, 5)", hint=hint)
    expect_error(ValueError, lambda: output_size(2, 3, stride=4), what="output_size(2, 3, stride=4)", hint=hint)
    expect_error(ValueError, lambda: output_size(4, 3, dilation=2), what="output_size(4, 3, dilation=2)", hint=hint)
    for _ in range(20):
        kernel, dilation = 2 + whole(draw, 0, most=MANY), draw.choice([1, 2, whole(draw, most=FEW)])
        missing = draw.choice([1, 2, whole(draw, most=MANY)])
        padded = max(1, dilation * (kernel - 1) + 1 - missing)
        before = draw.randint(0, min(3, padded - 1))
        size, padding, stride = padded - before, (before, 0), draw.choice([1, 2, whole(draw)])
        what = f"output_size({size}, {kernel}, stride={stride}, padding={padding}, dilation={dilation})"
        expect_error(
            ValueError, lambda a=(size, kernel, stride, padding, dilation): output_size(*a), what=what, hint=hint
        )
