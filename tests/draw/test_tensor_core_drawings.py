"""The drawings of notebook 7 in chapter 04: what they show is what the simulator's instructions do."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from tiers import seldom

from common import cuda, draw
from common.draw import tensor_cores
from common.kernels.ladder import header_options
from common.measure import pipeline

WHO = """#include "ptx.h"
extern "C" __global__ void who(const __half* A, const __half* B, const __half* one,
                               __half* a_of, __half* b_of, float* d_of) {
    __shared__ __align__(16) __half s[3][16 * 16];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) s[0][i] = A[i], s[1][i] = i < 128 ? B[i] : A[i], s[2][i] = one[i];
    __syncwarp();
    unsigned a[4], b[4], unit[4];
    ldmatrix_x4(a, &s[0][lane % 16 * 16 + lane / 16 * 8]);
    ldmatrix_x4_trans(b, &s[1][lane % 16 * 8]);
    ldmatrix_x4(unit, &s[2][lane % 16 * 16 + lane / 16 * 8]);
    float d[4] = {};
    mma_f16(d, unit, {b[0], b[1]});
    for (int i = 0; i < 4; ++i) {
        *(unsigned*)&a_of[lane * 8 + 2 * i] = a[i];
        if (i < 2) *(unsigned*)&b_of[lane * 4 + 2 * i] = b[i];
        d_of[lane * 4 + i] = d[i];
    }
}
"""


def test_each_lane_holds_what_the_drawing_says():
    A, B = np.arange(256, dtype=np.float16).reshape(16, 16), np.arange(128, dtype=np.float16).reshape(16, 8)
    held = [cuda.zeros((32, 8), np.float16), cuda.zeros((32, 4), np.float16), cuda.zeros((32, 4))]
    who = cuda.RawKernel(WHO, "who", options=header_options())
    who((1,), (32,), [*map(cuda.asarray, (A, B, np.eye(16, dtype=np.float16))), *held])
    for got, matrix, holder, per in zip(
        map(cuda.asnumpy, held), (A, B, B),
        (tensor_cores.lane_of_a, tensor_cores.lane_of_b, tensor_cores.lane_of_d), (2, 2, 1), strict=True,
    ):  # fmt: skip
        for (row, column), number in np.ndenumerate(matrix):
            lane, register = holder(row, column)
            assert number in got[lane, register * per : register * per + per], (row, column)


@seldom(6)
@pytest.mark.parametrize(
    ("place", "units", "wavefronts"),
    [
        (lambda r, p: p, 8, 8),
        (lambda r, p: p ^ r % 8, 8, 1),
        (lambda r, p: p, 9, 1),
        (lambda r, p: p ^ r // 2 % 4, 8, 2),
    ],
)
def test_ldmatrix_shows_the_wavefronts_of_each_matrix(place, units, wavefronts):
    alt = tensor_cores.ldmatrix(place, units).alt
    assert all(f"matrix {m} takes {wavefronts} wavefront" in alt for m in range(4))


def test_pieces_must_have_places_of_their_own():
    with pytest.raises(ValueError, match="8 different places"):
        tensor_cores.ldmatrix(lambda row, piece: piece // 2)
    with pytest.raises(ValueError, match="8 different places"):
        tensor_cores.ldmatrix(lambda row, piece: piece + 1)


@seldom(6)
@pytest.mark.parametrize(
    "make",
    [tensor_cores.fragments, tensor_cores.ldmatrix, tensor_cores.ring,
     lambda: tensor_cores.ring((2, 3, 5), 3.8, 6)],
)  # fmt: skip
def test_every_drawing_has_words_of_10_points_or_near_and_alt_text(make):
    drawing = make()
    assert isinstance(drawing, draw.Drawing) and len(drawing.alt) > 80
    assert all(words.get_fontsize() >= 8 for words in drawing.figure.findobj(matplotlib.text.Text) if words.get_text())


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("copy", [0.5, 1, 1.8, 2.5, 3.8])
def test_a_ring_is_busy_if_its_copies_last_as_long_as_one(stages, copy):
    share = pipeline.busy(stages, copy, 4000)
    assert share == pytest.approx(min(1.0, (stages - 1) / copy), rel=0.01)
    copies, work = pipeline.schedule(stages, copy, 20)
    assert all(begin >= sent + copy for sent, begin in zip(copies, work, strict=True))
    assert all(sent >= work[s] + 1 for s, sent in enumerate(copies[stages:]))  # the buffer is free
