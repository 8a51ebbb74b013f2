import numpy as np

from common.check import expect, launch, require

# N, Ca, Cb, H, W: one picture, several; more channels in a than in b and fewer; one pixel; what no block divides
SHAPES = ((1, 3, 2, 5, 7), (2, 3, 2, 5, 7), (3, 2, 5, 4, 3), (5, 1, 4, 1, 1), (2, 4, 4, 3, 3), (7, 3, 1, 2, 5))
THREADS = 32


def origin(out, a, b):
    """What a wrong result is the right one of, as a hint."""
    both = np.concatenate([a, b], 1)
    if np.array_equal(out.ravel(), np.concatenate([a.ravel(), b.ravel()])):
        return "all pictures of a lie in front, all of b behind them: that is right for one picture only"
    if np.array_equal(out, np.concatenate([b, a], 1)):
        return "b's channels come before a's"
    if np.array_equal(out.ravel(), both.transpose(0, 2, 3, 1).ravel()):
        return "a pixel's channels lie side by side: that is NHWC, and the arrays are NCHW"
    if np.array_equal(out.ravel(), both.transpose(1, 0, 2, 3).ravel()):
        return "a channel's pictures lie side by side; a picture's channels have to"
    if np.isnan(out).any():
        hint = "out holds NaN before the launch, and some of it is not written"
        return f"{hint}: where in out does picture 1 begin, and where in it b's channels?"
    return "where in out does picture n begin, and where in it b's channels?"


def check(source):
    random = np.random.default_rng()
    for n, ca, cb, height, width in SHAPES:
        what = f"concat_channels, {n} picture{'s' * (n > 1)} of {ca} and {cb} channels, {height} × {width}"
        a, b = (random.standard_normal((n, c, height, width)).astype(np.float32) for c in (ca, cb))
        out = np.full((n, ca + cb, height, width), np.nan, np.float32)
        hints = {
            "race": "two threads write the same place of out. How many elements has a picture of a, one of b,"
            " one of out, and where in it do b's channels begin?",
            "out-of-bounds": "a picture of out has (Ca + Cb)·pixels elements, one of a Ca·pixels and one of b"
            " Cb·pixels: which of the three does the index step by?",
        }
        grid = (-(-out.size // THREADS),)
        arguments = (a, b, out, n, ca, cb, height * width)
        launch(source, "concat_channels", grid, (THREADS,), arguments, what=what, hints=hints)
        want = np.concatenate([a, b], 1)
        hint = origin(out, a, b)
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        expect(out, want, what=f"{what}: out", hint=hint)
