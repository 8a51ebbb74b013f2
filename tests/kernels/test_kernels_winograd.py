"""winograd and winograd_weight against float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, every_rung_and_dtype, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels
from common.kernels.winograd import TILE

G = {
    2: [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
    ],
}  # fmt: skip


def check(rng, shape, out_channels, padding, dtype, variant, bias=True, residual=False, activation=None):
    x, weight = draw(rng, *shape, dtype=dtype), draw(rng, out_channels, shape[1], 3, 3, dtype=dtype)
    b = draw(rng, out_channels, dtype=dtype) if bias else None
    (top, bottom), (left, right) = padding
    want = F.conv2d(F.pad(f64(x), (left, right, top, bottom)), f64(weight), f64(b))
    r = draw(rng, *want.shape, dtype=dtype) if residual else None
    want = want + (f64(r) if residual else 0)
    if activation:
        want = want.clamp(0, 6)
    out = poisoned(tuple(want.shape), dtype)
    result = kernels.winograd(
        on_device(x), on_device(weight), on_device(b), padding, residual=on_device(r), activation=activation, out=out,
        variant=variant,
    )  # fmt: skip
    assert result is out
    agrees(out, want, 9 * shape[1], floor=1.0)


PADDINGS = {"none": ((0, 0), (0, 0)), "one": ((1, 1), (1, 1)), "uneven": ((0, 2), (3, 1))}


@every_rung_and_dtype("winograd")
@pytest.mark.parametrize("padding", PADDINGS.values(), ids=PADDINGS)
@pytest.mark.parametrize(
    ("shape", "out_channels"),
    [((1, 1, 3, 3), 1), ((2, 3, 7, 5), 7), ((1, 17, 13, 11), 33), ((3, 9, 4, 17), 65), ((1, 8, 14, 14), 64)],
    ids=str,
)
def test_winograd(rng, variant, dtype, shape, out_channels, padding):
    check(rng, shape, out_channels, padding, dtype, variant)


@every_rung("winograd")
@both_dtypes
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_what_follows_the_convolution(rng, variant, dtype, bias, residual):
    check(rng, (2, 5, 9, 7), 6, PADDINGS["one"], dtype, variant, bias, residual, "relu6")


@settings(max_examples=examples(25))
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 20), st.integers(3, 15), st.integers(3, 15)),
    st.integers(1, 70),
    st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 2),
    st.sampled_from(kernels.variants("winograd")),
    st.integers(0, 2**32 - 1),
)
def test_winograd_of_any_shape(shape, out_channels, padding, variant, seed):
    check(np.random.default_rng(seed), shape, out_channels, padding, np.float32, variant)


@every_rung("winograd")
def test_filters_may_be_transformed_before(rng, variant):
    x, weight = on_device(draw(rng, 1, 5, 9, 8)), on_device(draw(rng, 6, 5, 3, 3))
    u = kernels.winograd_weight(weight, TILE[variant])
    once = kernels.winograd(x, weight, transformed=u, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(once), cuda.asnumpy(kernels.winograd(x, weight, variant=variant)))


@pytest.mark.parametrize("tile", [2, 4])
@both_dtypes
@pytest.mark.parametrize("channels", [(1, 1), (3, 7), (17, 65), (8, 64)], ids=str)
def test_winograd_weight(rng, tile, dtype, channels):
    """G g Gᵀ, and zeros where channels were rounded up."""
    c, o = channels
    weight, g = draw(rng, o, c, 3, 3, dtype=dtype), torch.tensor(G[tile], dtype=torch.float64)
    u = cuda.asnumpy(kernels.winograd_weight(on_device(weight), tile))
    want = torch.einsum("rs,ocst,ut->ruco", g, f64(weight), g).reshape(-1, c, o)
    agrees(np.ascontiguousarray(u[:, :c, :o]), want, k=9)
    assert not u[:, c:].any() and not u[:, :, o:].any() and u.shape[1] % 8 == 0 and u.shape[2] % 64 == 0


@every_rung("winograd")
def test_a_nan_reaches_the_outputs_of_its_tiles(rng, variant):
    """Those that read it, and, as all numbers of a tile are mixed, others of the same tile: no more."""
    x, weight = np.ones((1, 1, 12, 12), np.float32), np.ones((2, 1, 3, 3), np.float32)
    x[0, 0, 0, 0] = np.nan
    out = cuda.asnumpy(kernels.winograd(on_device(x), on_device(weight), variant=variant))
    assert np.isnan(out[:, :, 0, 0]).all()
    tile = TILE[variant]
    out[:, :, :tile, :tile] = 9
    np.testing.assert_allclose(out, 9, rtol=1e-5)


def test_what_it_cannot_do_is_refused(rng):
    x, weight = on_device(draw(rng, 1, 3, 8, 8)), on_device(draw(rng, 4, 3, 3, 3))
    with pytest.raises(ValueError, match=r"weight must have shape \(any, 3, 3, 3\), got \(4, 3, 5, 5\)"):
        kernels.winograd(x, on_device(draw(rng, 4, 3, 5, 5)))
    with pytest.raises(ValueError, match=r"tile must be 2 or 4, got 3"):
        kernels.winograd_weight(weight, 3)
    with pytest.raises(ValueError, match=r"transformed must have shape \(16, 8, 64\), got \(36, 8, 64\)"):
        kernels.winograd(x, weight, transformed=kernels.winograd_weight(weight, 4), variant="fused_f2x2")
