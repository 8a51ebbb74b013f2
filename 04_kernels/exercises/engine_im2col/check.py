from dataclasses import dataclass

import numpy as np

from common.check import launch
from common.check.engine_kernels import launch_size
from common.check.kernels import beyond, compare, sprinkled, target
from common.check.trials import numpy_random
from common.lab.operators import OPERATORS


@dataclass(frozen=True)
class Windows:
    """Images (N, C, H, W), and the windows over them: kernel (height, width), stride, padding on each side."""

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    stride: int = 1
    pad: int = 0

    def __str__(self):
        return f"im2col of {self.shape}, kernel {self.kernel}, stride {self.stride}, padding {self.pad}"

    @property
    def out(self):
        """Windows from top to bottom and from left to right."""
        sizes = zip(self.shape[2:], self.kernel, strict=True)
        return tuple((size + 2 * self.pad - k) // self.stride + 1 for size, k in sizes)


# one thing after the other, so that the first that fails says which
WINDOWS = (
    (Windows((1, 1, 5, 7), (1, 1)), "a 1×1 kernel and one channel: columns is x"),
    (Windows((1, 3, 5, 7), (1, 1)), "a 1×1 kernel: row k of columns is channel k of x"),
    (Windows((1, 3, 5, 7), (2, 3)), "k counts (c, kh, kw), kw fastest; taps move to the right and down"),
    (Windows((3, 2, 4, 5), (2, 2)), "p counts (image, oh, ow): a row of columns goes through all images"),
    (Windows((1, 2, 11, 9), (2, 3), stride=3), "the window oh begins in row oh · stride, and ow likewise"),
    (Windows((1, 2, 4, 6), (3, 3), pad=1), "the first window begins in row −pad, column −pad"),
    (Windows((2, 2, 13, 11), (2, 3), 2, 3), "images, stride and padding together"),
    (Windows((2, 1, 2, 1), (3, 2), pad=2), "some windows lie in the padding altogether"),
)
HINTS = {
    "out-of-bounds": "a thread beyond the last number has nothing to do; and x is only read where the row is from 0 to"
    " H − 1 and the column from 0 to W − 1: test both ends of both",
    "unwritten": "columns has a number for each tap and each window; padding is a 0 that is written, too",
}
ALL = "images, stride and padding together"
NEIGHBOURS = "neighbouring threads should write neighbouring numbers of columns"


def reference(windows, x):
    images, channels = x.shape[:2]
    padded = np.pad(x, ((0, 0), (0, 0), (windows.pad,) * 2, (windows.pad,) * 2))
    (kh, kw), (oh, ow), s = windows.kernel, windows.out, windows.stride
    taps = [
        padded[:, :, i : i + (oh - 1) * s + 1 : s, j : j + (ow - 1) * s + 1 : s]
        for i in range(kh) for j in range(kw)
    ]  # fmt: skip
    return np.stack(taps).transpose(2, 0, 1, 3, 4).reshape(channels * kh * kw, images * oh * ow)


def mistakes(windows, x, want):
    """What comes of some mistakes, by the hint that each deserves."""
    apart = [reference(windows, image[None]) for image in x]
    yield np.stack(apart).reshape(want.shape), "each row of columns holds the windows of all images, image after image"
    yield np.concatenate([apart[0]] * len(x), 1), "every image has read the first image's numbers"
    yield want.T.reshape(want.shape), "columns[k][p] stands at k · (N·oH·oW) + p: a row per tap, not a row per window"


def drawn(source, random):
    """Windows whose every size is drawn, and some with one size beyond a number in the answer."""
    kernel = tuple(int(n) for n in random.integers(1, 4, 2))
    shape = (*(int(n) for n in random.integers(1, 5, 2)), *(int(n) for n in random.integers(10, 24, 2)))
    yield Windows(shape, kernel, int(random.integers(1, 4)), int(random.integers(0, 4)))
    for number in beyond(source, 1100)[-3:]:
        yield Windows((1, 3, 2, number + 1), (1, 2))
        yield Windows((1, 2, number + 1, 2), (2, 1))
        yield Windows((1, number, 2, 2), (1, 1))
        yield Windows((number, 1, 2, 2), (2, 1))
        yield Windows((1, 1, 2, number + 1), (1, number))
        yield Windows((1, 1, number + 1, 2), (1, 2), number)


def check(source):
    random = numpy_random()
    reports = []
    for windows, hint in (*WINDOWS, *((windows, ALL) for windows in drawn(source, random))):
        x = random.standard_normal(windows.shape).astype(np.float32) + 0.5
        if hint == ALL:
            x = sprinkled(random, x, huge=True)
        want = reference(windows, x)
        columns = np.full(want.shape, np.nan, np.float32)
        sizes = (*windows.shape, *windows.out, *windows.kernel, windows.stride, windows.pad)
        size = launch_size(source, dict(zip(OPERATORS["im2col"].sizes, sizes, strict=True)))
        report = launch(
            source, "im2col", size.grid, size.block, (x, columns, *sizes),
            what=str(windows), hints=HINTS, outputs=(columns,), shared_mem=size.shared,
        )  # fmt: skip
        known = mistakes(windows, x, want)
        compare(columns, want, what=f"{windows}: columns", hint=hint, mistakes=known)
        reports.append((windows, report))

    for windows, report in reports:  # right first, then coalesced
        stores = report.global_stores
        most = stores.ideal + stores.requests
        target(stores.sectors, most, "sectors stored", what=str(windows), hint=NEIGHBOURS, picture=report)
