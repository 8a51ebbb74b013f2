"""Places the window at every position it can take and counts."""

import random

from common.check import expect, expect_error


def positions(size, kernel, stride=1, padding=(0, 0), dilation=1):
    before, after = padding
    window = dilation * (kernel - 1) + 1
    return len(range(-before, size + after - window + 1, stride))


def check(output_size):
    def compare(hint, size, kernel, **options):
        shown = ", ".join([str(size), str(kernel), *(f"{key}={value}" for key, value in options.items())])
        want = positions(size, kernel, **options)
        expect(output_size(size, kernel, **options), want, what=f"output_size({shown})", hint=hint)

    compare("at stride 1 a window moves from 0 to size − kernel: both ends count", 10, 3)
    compare("at stride 1 a window moves from 0 to size − kernel: both ends count", 5, 5)
    stride = "the stride rounds down: a last window that does not fit whole is left out"
    compare(stride, 11, 3, stride=2)
    compare(stride, 12, 3, stride=2)
    compare(stride, 10, 1, stride=4)
    padding = "padding is (before, after): each side counts, once, and the two may differ"
    compare(padding, 10, 3, padding=(0, 1))
    compare(padding, 10, 3, padding=(2, 0))
    compare(padding, 7, 3, padding=(1, 1))
    dilation = "with dilation the kernel's first and last tap lie dilation · (kernel − 1) apart"
    compare(dilation, 20, 3, dilation=2)
    compare(dilation, 20, 1, dilation=5)

    draw = random.Random()
    for _ in range(40):
        options = {
            "stride": draw.randint(1, 4),
            "padding": (draw.randint(0, 3), draw.randint(0, 3)),
            "dilation": draw.randint(1, 3),
        }
        compare("stride, padding and dilation together", draw.randint(16, 60), draw.randint(1, 6), **options)

    compare("a window that just fits into the padded input fits once", 3, 5, padding=(2, 0), stride=3)
    hint = "the window is larger than the padded input: no output at all"
    expect_error(ValueError, lambda: output_size(3, 5), what="output_size(3, 5)", hint=hint)
    expect_error(ValueError, lambda: output_size(2, 3, stride=4), what="output_size(2, 3, stride=4)", hint=hint)
    expect_error(ValueError, lambda: output_size(4, 3, dilation=2), what="output_size(4, 3, dilation=2)", hint=hint)
