from dataclasses import dataclass

import numpy as np

from common.check import launch
from common.check.kernels import asked, beyond, compare, sprinkled
from common.check.trials import numpy_random


@dataclass(frozen=True)
class Window:
    """A picture's shape, and of the windows over it (height, width) each: kernel, stride, dilation, and the padding."""

    shape: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)  # top, left
    after: tuple[int, int] = (0, 0)  # bottom, right

    def __str__(self):
        return f"im2col of {self.shape}, kernel {self.kernel}, stride {self.stride}, dilation {self.dilation}, " + (
            f"padding {self.before} before and {self.after} after"
        )

    @property
    def out(self):
        """Windows from top to bottom and from left to right."""
        sizes = zip(self.shape[1:], self.kernel, self.stride, self.dilation, self.before, self.after, strict=True)
        return tuple((size + b + a - d * (k - 1) - 1) // s + 1 for size, k, s, d, b, a in sizes)


# one thing after the other, so that the first that fails says which
WINDOWS = (
    (Window((1, 5, 7), (1, 1)), "a 1×1 kernel of stride 1: columns is x"),
    (Window((3, 5, 7), (2, 3)), "kernel (kh, kw), then window (oh, ow), ow fastest; taps move to the right and down"),
    (Window((2, 11, 9), (2, 3), stride=(3, 2)), "the window oh begins in row oh · stride_h, and ow likewise"),
    (Window((2, 9, 13), (3, 2), dilation=(2, 5)), "the tap kh lies kh · dilation_h below the window's first row"),
    (Window((2, 4, 6), (3, 3), before=(2, 1)), "the first window begins in row −pad_top, column −pad_left"),
    (Window((2, 4, 6), (3, 3), after=(1, 2)), "rows and columns behind the last one are padding as well"),
    (Window((2, 13, 11), (2, 3), (2, 3), (3, 2), (1, 4), (2, 0)), "stride, dilation and padding together"),
    (Window((1, 2, 1), (3, 2), before=(3, 2), after=(2, 3)), "some windows lie in the padding altogether"),
)
HINTS = {
    "out-of-bounds": "a thread past n has nothing to do; and x is only read where the row is from 0 to H − 1 and the"
    " column from 0 to W − 1: ask for both ends of both",
    "unwritten": "columns has a number for each tap and each window; padding is a 0 that is written, too",
}
ALL = "stride, dilation and padding together"


def reference(window, x):
    (top, left), (bottom, right) = window.before, window.after
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right)))
    (kh, kw), (sh, sw), (dh, dw), (oh, ow) = window.kernel, window.stride, window.dilation, window.out
    rows = [
        padded[:, i * dh : i * dh + (oh - 1) * sh + 1 : sh, j * dw : j * dw + (ow - 1) * sw + 1 : sw]
        for i in range(kh)
        for j in range(kw)
    ]
    return np.stack(rows, axis=1).reshape(len(x) * kh * kw, oh * ow)


def drawn(source, random):
    """A window whose every size is drawn, and some with one size beyond a number in the answer."""

    def two(low, high):
        return tuple(int(n) for n in random.integers(low, high, 2))

    kernel, dilation = two(1, 4), two(1, 4)
    shape = (int(random.integers(1, 5)), *(int(n) for n in random.integers(10, 30, 2)))
    yield Window(shape, kernel, two(1, 4), dilation, two(0, 4), two(0, 4))
    for number in beyond(source, 1100)[-3:]:
        far, small = number + 1, two(1, 3)
        yield Window((1, 3, far), (1, 2))
        yield Window((1, far, 3), (2, 1))
        yield Window((number, 2, 2), (1, 1))
        yield Window((1, 2, far), (1, number), before=(0, 2))
        yield Window((1, far, 2), (number, 1), before=(2, 0))
        yield Window((1, far, 2), (1, 1), (number, 1))
        yield Window((1, 2, far), (1, 1), (1, number))
        yield Window((1, far, 2), (2, 1), dilation=(number, 1))
        yield Window((1, 2, far), (1, 2), dilation=(1, number))
        yield Window((1, 2, 3), (1, 2), small, before=(number, 0))
        yield Window((1, 2, 3), (2, 1), small, before=(0, number))


def check(source):
    random = numpy_random()
    reports = []
    for window, hint in (*WINDOWS, *((window, ALL) for window in drawn(source, random))):
        x = random.standard_normal(window.shape).astype(np.float32) + 0.5
        if hint == ALL:
            x = sprinkled(random, x, huge=True)
        want = reference(window, x)
        columns = np.full(want.shape, np.nan, np.float32)
        arguments = (x, columns, *window.shape[1:], *window.out, *window.kernel, *window.stride, *window.before,
                     *window.dilation, columns.size)  # fmt: skip
        threads = int(random.choice((64, 32, 96, 256)))
        grid = (-(-columns.size // threads),)
        report = launch(
            source, "im2col", grid, (threads,), arguments, what=str(window), hints=HINTS, outputs=(columns,)
        )  # fmt: skip
        compare(columns, want, what=f"{window}: columns", hint=hint)
        reports.append((window, report))

    for window, report in reports:  # right first, then coalesced
        stores = report.global_stores
        hint = "neighbouring threads should write neighbouring numbers"
        wasteful = stores.sectors > stores.ideal + stores.requests
        asked(not wasteful, what=f"{window} stores to {stores.sectors} sectors", hint=hint, picture=report)
