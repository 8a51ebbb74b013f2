from dataclasses import dataclass

import numpy as np

from common.check import expect, launch, require


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
THREADS = 64


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


def check(source):
    random = np.random.default_rng()
    reports = []
    for window, hint in WINDOWS:
        x = random.standard_normal(window.shape).astype(np.float32) + 0.5
        want = reference(window, x)
        columns = np.full(want.shape, np.nan, np.float32)
        arguments = (x, columns, *window.shape[1:], *window.out, *window.kernel, *window.stride, *window.before,
                     *window.dilation, columns.size)  # fmt: skip
        outside = (
            "a thread past n has nothing to do; and x is only read where the row is from 0 to H − 1 and the column from"
            " 0 to W − 1: ask for both ends of both"
        )
        grid = (-(-columns.size // THREADS),)
        report = launch(
            source, "im2col", grid, (THREADS,), arguments, what=str(window), hints={"out-of-bounds": outside}
        )
        unwritten = "columns holds NaN before the launch: padding is a 0 that is written, too"
        require(not np.isnan(columns).any(), what=f"{window} leaves NaN in columns", hint=unwritten)
        expect(columns, want, what=f"{window}: columns", hint=hint)
        reports.append((window, report))

    for window, report in reports:  # right first, then coalesced
        stores = report.global_stores
        hint = "neighbouring threads should write neighbouring numbers"
        wasteful = stores.sectors > stores.ideal + stores.requests
        require(not wasteful, what=f"{window} stores to {stores.sectors} sectors", hint=hint, picture=report)
