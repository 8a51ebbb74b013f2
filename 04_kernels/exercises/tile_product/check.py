import numpy as np

from common.check import expect, launch
from common.check.kernels import asked, calls, in_common, shapes, target, use
from common.check.trials import numpy_random

TILES = ((1, 1, 1), (1, 1, 2), (2, 3, 3))  # 16 rows of A, 8 of B, 64 columns; the first shows which mistake it is

HINTS = {
    "out-of-bounds": "a row of A or B has K numbers, and a slice 64 of them: row · K + k0 + column. All sizes are"
    " multiples of a tile's, so nothing lies outside",
    "misaligned": "16 bytes are 8 halves: a uint4 begins at a multiple of 8 halves, in global and in shared memory",
    "race": "lanes of one warp need not run in step, so the pieces that other lanes stored may be read only after"
    " __syncwarp(), and no lane may store the next slice before all have loaded this one",
    "race-global": "each element of D belongs to one lane: row g or g + 8, columns 2t and 2t + 1",
    "deadlock": "ldmatrix and mma are done by the 32 lanes together: none may stay away",
    "divergent-barrier": "ldmatrix and mma are done by the 32 lanes together: none may stay away",
    "stopped": "ldmatrix and mma are done by the 32 lanes together: none may stay away",
    "uninitialised-read": "each piece of the slice must be stored before a fragment is loaded: 16 rows of A and 8 of B,"
    " 8 pieces of 8 halves each",
    "unwritten": "a lane has four elements of D, d[0] to d[3]: rows g and g + 8, columns 2t and 2t + 1 of each",
}
MMA = ("mma_f16", "mma_f16_k8")
PER_SLICE = 24 * 128 // 128  # wavefronts of 24 rows of 128 bytes, stored once and loaded once


def mistakes(A, B):
    """Of one product of 16 × 64 and 8 × 64: what comes out of a mistake, with the hint that it deserves."""
    k = np.arange(64)
    quarters = A.reshape(16, 4, 16).copy()
    down = quarters.copy()
    down[:8, :, 8:], down[8:, :, :8] = quarters[8:, :, :8], quarters[:8, :, 8:]
    first = np.concatenate([A[:, :16]] * 4, axis=1)
    return [
        (
            down.reshape(16, 64) @ B.T,
            "a[1] is 8 rows down, a[2] 8 columns on: lanes 8 to 15 of ldmatrix_x4 give rows 8 to 15",
        ),
        (A @ B[:, k ^ 8].T, "b[0] holds the first 8 of 16 columns of B, b[1] the next 8"),
        (A @ B[:, k ^ 16].T, "one ldmatrix_x4 of B loads b for two mma: r[0] and r[1] are for the first one"),
        (first @ B.T, "each mma has 16 columns of A of its own: 2 pieces further than the mma before"),
        (A[:, :32] @ B[:, :32].T, "only the first 32 of 64 columns are multiplied"),
        (A[:, :16] @ B[:, :16].T, "only the first 16 of 64 columns are multiplied: a slice is four mma deep"),
        ((A @ B.T)[:, ::-1], "d[0] and d[1] are neighbours in row g: columns 2t and 2t + 1"),
        (np.concatenate([(A @ B.T)[:8]] * 2), "d[2] and d[3] belong to row g + 8"),
    ]


def check(source):
    random = numpy_random()
    reports = []
    for tiles in shapes(source, random, TILES, ((6,), (6,), (6,))):
        m, n, k = 16 * tiles[0], 8 * tiles[1], 64 * tiles[2]
        what = f"tile_product of {m} × {k} and {n} × {k}"
        A, B = ((random.standard_normal(s) + 0.5).astype(np.float16) for s in ((m, k), (n, k)))
        D = np.full((m, n), np.nan, np.float32)
        grid, args = (n // 8, m // 16), (A, B, D, m, n, k)
        report = launch(source, "tile_product", grid, (32,), args, what=what, hints=HINTS, outputs=(D,))
        wide = [x.astype(np.float64) for x in (A, B)]
        want = (wide[0] @ wide[1].T).astype(np.float32)
        hint = "draw the slice: 16 rows of A and 8 of B, 8 pieces each, and write the place of each piece into it"
        if tiles == TILES[0]:
            hint = next((said for wrong, said in mistakes(*wide) if np.allclose(D, wrong, 1e-3, 1e-3)), hint)
        else:
            hint = "one tile of 64 columns is right: what is different with more slices, rows or columns?"
        seen = in_common(D, want, 1e-5, 1e-5 * k**0.5)
        expect(D, want, what=f"{what}: D", hint=f"{seen}. {hint}" if seen else hint, rtol=1e-5, atol=1e-6 * k**0.5)
        reports.append((what, grid[0] * grid[1] * k // 64, report))

    A, B = (random.standard_normal(s).astype(np.float16) for s in ((16, 128), (8, 128)))
    made = (
        sum(
            calls(
                source, "tile_product", (1,), (32,), (A, B, np.full((16, 8), np.nan, np.float32), 16, 8, 128), MMA
            ).values()
        )
        // 32
    )
    said = f"the product of 16 × 128 and 8 × 128 takes {made} mma_f16 of a warp, where 8 are needed"
    asked(8 <= made <= 16, what=said, hint="mma_f16(d, a, b) multiplies 16×16 by 16×8")
    for what, slices, report in reports:  # right first; then without conflicts
        hint = (
            "8 rows of a matrix at the same piece must begin in 8 different groups of four banks: your `place_of_piece`"
        )
        target(
            report.shared_loads.wavefronts,
            slices * PER_SLICE,
            "wavefronts of shared loads",
            what=what,
            hint=hint,
            picture=report,
        )
        hint = "store 16 bytes per lane, whole rows at a time, so that 8 lanes fill the 32 banks"
        target(
            report.shared_stores.wavefronts,
            slices * PER_SLICE,
            "wavefronts of shared stores",
            what=what,
            hint=hint,
            picture=report,
        )
        sectors = sum(use(report, i).counts.sectors for i in (0, 1))
        hint = (
            "in one load of 16 bytes per lane, 8 neighbouring lanes read 128 bytes of one row; and read each piece once"
        )
        target(sectors, slices * 24 * 4, "sectors loaded", what=what, hint=hint, picture=report)
