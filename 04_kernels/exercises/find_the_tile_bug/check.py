import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((16, 16, 16), (32, 16, 48), (16, 16, 1), (16, 16, 23), (17, 16, 16), (16, 33, 16), (7, 19, 37), (1, 1, 1))
GONE = "a thread without an element of C is still needed: for its part of the tiles, and at every barrier"
HINTS = {
    "out-of-bounds": "in the last blocks and the last slice indices run past the ends, by rows and by columns:"
    " which statement asks for too little, or for nothing?",
    "race": "the barrier lets nobody multiply before the tiles are full. What keeps a quick thread from filling"
    " them again while another still multiplies?",
    "uninitialised-read": "all 16 × 16 places of both tiles are multiplied, in the last slice too: what stands"
    " where the matrix has nothing? And who fills the place of a thread that is gone?",
    "divergent-barrier": GONE,
    "deadlock": GONE,
    "unwritten": "every element of C is written, those of the last blocks too",
}


def run(source, a, b, what):
    (m, k), n = a.shape, b.shape[1]
    c = np.full((m, n), np.nan, np.float32)
    grid = (-(-n // 16), -(-m // 16))
    launch(source, "product", grid, (16, 16), (a, b, c, m, n, k), what=what, hints=HINTS, outputs=(c,))
    with np.errstate(invalid="ignore"):
        wide = a.astype(np.float64), b.astype(np.float64)
        want, whole = wide[0] @ wide[1], k // 16 * 16
        known = [(wide[0][:, :whole] @ wide[1][:whole], "the last slice, of fewer than 16, belongs to the sum too")]
    hint = "every place of both tiles holds an element of the slice, or 0 where the matrix has none"
    if k > 16 and k % 16:
        hint = (
            "what nobody fills in the last slice still holds a number of the slice before; and a place that is filled"
        )
        hint += " must get the matrix's element"
    compare(c, want, what=f"{what}: C", hint=hint, mistakes=known if k % 16 else (), rtol=1e-5, atol=1e-5 * k**0.5)


def check(source):
    random = numpy_random()
    for m, n, k in shapes(source, random, SIZES, (60, 60, 60)):
        what = f"the product of {m} × {k} and {k} × {n}"
        a, b = (random.standard_normal(s).astype(np.float32) + 0.5 for s in ((m, k), (k, n)))
        run(source, a, b, what)
        if (m, n) in ((16, 33), (7, 19)):
            run(source, sprinkled(random, a), b, f"{what}, NaN and infinities in A")
