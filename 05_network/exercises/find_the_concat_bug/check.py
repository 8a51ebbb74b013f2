import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled
from common.check.trials import numpy_random

# N, Ca, Cb, H, W: one picture, several; more channels in a than in b and fewer; one pixel; what no block divides
SHAPES = ((1, 3, 2, 5, 7), (2, 3, 2, 5, 7), (3, 2, 5, 4, 3), (5, 1, 4, 1, 1), (2, 4, 4, 3, 3), (7, 3, 1, 2, 5))
HINTS = {
    "race-global": "two threads write the same place of out. How many elements has a picture of a, one of b,"
    " one of out, and where in it do b's channels begin?",
    "out-of-bounds": "a picture of out has (Ca + Cb)·pixels elements, one of a Ca·pixels and one of b"
    " Cb·pixels: which of the three does the index step by, and how far into their picture do b's channels begin?",
    "unwritten": "where in out does picture 1 begin, and where in it b's channels?",
}


def mistakes(a, b):
    """What comes of some mistakes, by the hint that each deserves."""
    both = np.concatenate([a, b], 1)
    behind = np.concatenate([a.ravel(), b.ravel()]).reshape(both.shape)
    yield behind, "all pictures of a lie in front, all of b behind them: that is right for one picture only"
    yield np.concatenate([b, a], 1), "b's channels come before a's"
    pixels = both.transpose(0, 2, 3, 1).reshape(both.shape)
    yield pixels, "a pixel's channels lie side by side: that is NHWC, and the arrays are NCHW"
    channels = both.transpose(1, 0, 2, 3).reshape(both.shape)
    yield channels, "a channel's pictures lie side by side; a picture's channels have to"


def check(source):
    random = numpy_random()
    for n, ca, cb, height, width in shapes(source, random, SHAPES, (5, 9, 9, 9, 20)):
        what = f"concat_channels, {n} picture{'s' * (n > 1)} of {ca} and {cb} channels, {height} × {width}"
        a, b = (random.standard_normal((n, c, height, width)).astype(np.float32) for c in (ca, cb))
        if n == 3:
            a, b = sprinkled(random, a, huge=True), sprinkled(random, b, huge=True)
        out = np.full((n, ca + cb, height, width), np.nan, np.float32)
        threads = int(random.choice((32, 64, 33, 256)))
        arguments, grid = (a, b, out, n, ca, cb, height * width), (-(-out.size // threads),)
        launch(source, "concat_channels", grid, (threads,), arguments, what=what, hints=HINTS, outputs=(out,))
        hint = "where in out does picture n begin, and where in it b's channels?"
        compare(out, np.concatenate([a, b], 1), what=f"{what}: out", hint=hint, mistakes=mistakes(a, b))
