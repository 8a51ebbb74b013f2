from common.check import expect
from common.check.trials import python_random, whole


def check(pointwise_nchw):
    def compare(shape, out_channels):
        n, c, h, w = shape
        pixels = h * w
        call = f"pointwise_nchw({shape}, {out_channels})"
        got = pointwise_nchw(shape, out_channels)
        if not isinstance(got, dict):
            expect(got, {}, what=call, hint="give back a dict")
        pictures = "one product per image: the images of an NCHW array do not continue each other's rows"
        wanted = [
            (pictures, {"batch": n}),
            ("the rows of cuBLAS's C are all H·W pixels of an image", {"m": pixels}),
            (
                "n counts the columns of C, which are channels of out; k what is summed over",
                {"n": out_channels, "k": c},
            ),
            (
                "a column of A or C is a channel, H·W pixels; a column of B is a row of the weight, C numbers",
                {"lda": pixels, "ldb": c, "ldc": pixels},
            ),
            ("every image has the same weight: it stays where it is", {"stride_b": 0}),
            ("from one image of x to the next lie C · H · W elements", {"stride_a": c * pixels}),
            (
                "from one image of out to the next lie out_channels · H · W elements",
                {"stride_c": out_channels * pixels},
            ),
        ]
        for hint, part in wanted:
            sizes = {key: 4 * value for key, value in part.items() if key.startswith("stride") and value}
            if any(got.get(key) == value for key, value in sizes.items()):
                hint = "strides count elements, not bytes"
            expect({key: got[key] for key in part if key in got}, part, what=call, hint=hint)
        everything = {key: value for _, part in wanted for key, value in part.items()}
        expect(got, everything, what=call, hint="these ten keys, and no others")

    compare((3, 5, 2, 7), 4)
    draw = python_random()
    for _ in range(5):
        n, c, h, w, o = draw.sample(range(2, 22), 5)
        compare((n, c, h, w), o)
    for _ in range(20):
        compare(tuple(whole(draw) for _ in range(4)), whole(draw))
    compare((1, 6, 4, 4), 3)
