import numpy as np

from common.check import expect


def check(pointwise_nchw):
    random = np.random.default_rng()

    def compare(shape, out_channels):
        n, c, h, w = shape
        pixels = h * w
        call = f"pointwise_nchw({shape}, {out_channels})"
        got = pointwise_nchw(shape, out_channels)
        if not isinstance(got, dict):
            expect(got, {}, what=call, hint="give back a dict")
        pictures = "one product a picture: the pictures of an NCHW array do not continue each other's rows"
        wanted = [
            (pictures, {"batch": n}),
            ("the rows of cuBLAS's C are all H·W pixels of a picture", {"m": pixels}),
            (
                "n counts the columns of C, which are channels of out; k what is summed over",
                {"n": out_channels, "k": c},
            ),
            (
                "a column of A or C is a channel, H·W pixels; a column of B is a row of the weight, C numbers",
                {"lda": pixels, "ldb": c, "ldc": pixels},
            ),
            ("every picture has the same weight: it stays where it is", {"stride_b": 0}),
            ("x has C channels a picture, counted in elements", {"stride_a": c * pixels}),
            ("out has out_channels channels a picture, not C", {"stride_c": out_channels * pixels}),
        ]
        for hint, part in wanted:
            expect({key: got[key] for key in part if key in got}, part, what=call, hint=hint)
        everything = {key: value for _, part in wanted for key, value in part.items()}
        expect(got, everything, what=call, hint="no other keys")

    compare((3, 5, 2, 7), 4)
    for _ in range(5):
        n, c, h, w, o = (int(size) for size in 2 + random.permutation(20)[:5])
        compare((n, c, h, w), o)
    compare((1, 6, 4, 4), 3)
