import numpy as np

from common.check import expect, launch, require

SIZES = ((16, 16, 16), (32, 16, 48), (16, 16, 1), (16, 16, 23), (17, 16, 16), (16, 33, 16), (7, 19, 37), (1, 1, 1))


def check(source):
    random = np.random.default_rng()
    for m, n, k in SIZES:
        what = f"the product of {m} × {k} and {k} × {n}"
        a = random.standard_normal((m, k)).astype(np.float32) + 0.5
        b = random.standard_normal((k, n)).astype(np.float32) + 0.5
        kept, c = (a.copy(), b.copy()), np.full((m, n), np.nan, np.float32)
        gone = "a thread without an element of C is still needed: for its part of the tiles, and at every barrier"
        hints = {
            "out-of-bounds": "in the last blocks and the last slice indices run past the ends, by rows and by columns:"
            " which statement asks for too little, or for nothing?",
            "race": "the barrier lets nobody multiply before the tiles are full. What keeps a quick thread from filling"
            " them again while another still multiplies?",
            "uninitialised-read": "all 16 × 16 places of both tiles are multiplied, in the last slice too: what stands"
            " where the matrix has nothing? And who fills the place of a thread that is gone?",
            "divergent-barrier": gone,
            "deadlock": gone,
        }
        grid = (-(-n // 16), -(-m // 16))
        launch(source, "product", grid, (16, 16), (a, b, c, m, n, k), what=what, hints=hints)
        hint = "C holds NaN before the launch: is each of its elements written?"
        require(not np.isnan(c).any(), what=f"{what} leaves NaN in C", hint=hint)
        want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
        hint = (
            "what nobody fills in the last slice still holds a number of the slice before; and a place that is filled"
            " must get the matrix's element"
        )
        expect(c, want, what=f"{what}: C", hint=hint, rtol=1e-5, atol=1e-5 * k**0.5)
        require(np.array_equal(a, kept[0]) and np.array_equal(b, kept[1]),
                what=f"{what} changes its inputs", hint="A and B are to be read only")  # fmt: skip
