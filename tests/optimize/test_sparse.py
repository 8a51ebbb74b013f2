"""Convolutions that skip zeros (common/optimize/sparse.py) against float64, at any sparsity."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvrtc import compile_with_nvrtc
from tiers import examples, in_turn, only_all, seldom

from common import cuda, kernels
from common.cuda import layout as layouts
from common.optimize import generate, sparse
from common.optimize.sparse import DENSE, SCHEMES, Shape, Tile
from common.optimize.sparse_activations import PATTERNS, Synthetic

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")
torch.set_num_threads(1)  # its threads would wait for cores that the simulator uses
DTYPES = ["float32", "float16"]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES)
simulator = pytest.mark.skipif(cuda.backend() != "simulator", reason="the trace is the simulator's")

ONE = Shape(2, 40, 9, 7, 37, (3, 3), (1, 1), ((1, 1), (1, 1)), bounds=(0.0, 6.0))
WIDE = Shape(1, 64, 9, 8, 132, (1, 1), (2, 2))
GROUPS = Shape(2, 24, 7, 6, 36, (3, 3), (2, 1), ((1, 0), (2, 1)), 3)
ODD = Shape(3, 3, 11, 9, 8, (5, 5), (2, 2), ((2, 2), (2, 2)), bounds=(-1.0, 1.0))
DEPTHWISE = Shape(2, 40, 7, 5, 40, (3, 3), (1, 1), ((1, 1), (1, 1)), 40)
MULTIPLIED = Shape(1, 6, 5, 5, 12, (3, 3), (1, 1), ((1, 1), (1, 1)), 6)  # two outputs of each channel
POINT = Shape(1, 96, 1, 1, 8)
# every scheme at the first shapes; at the others those that differ there
CASES = [(shape, scheme) for shape in (ONE, WIDE, GROUPS) for scheme in SCHEMES]
CASES += [(shape, scheme) for shape in (ODD, MULTIPLIED, POINT) for scheme in DENSE]
CASES += [(DEPTHWISE, "ballot"), (DEPTHWISE, "dense")]


def nhwc(array):
    return array if array is None else cuda.to_layout(cuda.asarray(array), "NHWC")


def drawn(rng, shape, dtype, residual=False):
    """(weight, bias, residual), asymmetric."""
    weight = ((rng.standard_normal(shape.weight) + 0.2) / math.sqrt(shape.terms)).astype(dtype)
    more = (rng.standard_normal(shape.y) - 0.1).astype(dtype) if residual else None
    return weight, (rng.standard_normal(shape.outputs) + 0.1).astype(dtype), more


def reference(shape, x, weight, bias=None, residual=None):
    """The convolution in float64."""
    x, weight = (torch.from_numpy(np.asarray(cuda.asnumpy(a), np.float64)) for a in (x, weight))
    (top, bottom), (left, right) = shape.padding
    x = torch.nn.functional.pad(x, (left, right, top, bottom))
    want = torch.conv2d(x, weight, None, shape.stride, 0, 1, shape.groups).numpy()
    want = want + (0 if bias is None else bias.astype(np.float64)[:, None, None])
    return (want + (0 if residual is None else residual.astype(np.float64))).clip(*shape.bounds)


def run(shape, scheme, x, weight, bias=None, residual=None, tile=None):
    out = layouts.empty(shape.y, x.dtype, "NHWC")
    out[...] = np.nan
    sparse.conv2d(
        x, nhwc(weight), bias if bias is None else cuda.asarray(bias), shape.stride, shape.padding, shape.groups,
        residual=nhwc(residual), activation=shape.bounds, scheme=scheme, tile=tile, out=out,
    )  # fmt: skip
    return cuda.asnumpy(out)


def close(out, expected, shape):
    """The largest relative error that is allowed."""
    allowed = 2e-3 if out.dtype == np.float16 else 1e-6 * math.sqrt(shape.terms)
    error, size = np.linalg.norm(out.astype(np.float64) - expected), np.linalg.norm(expected)
    assert error <= allowed * size, f"relative error {error / max(size, 1e-300):.1e}, allowed {allowed:.1e}"


def check(rng, shape, scheme, dtype, inputs, residual=False, tile=None):
    weight, bias, more = drawn(rng, shape, dtype, residual)
    for x in inputs:
        close(run(shape, scheme, x, weight, bias, more, tile), reference(shape, x, weight, bias, more), shape)


@pytest.mark.parametrize(("of", "dtype"), in_turn(CASES, DTYPES), ids=str)
def test_every_sparsity(rng, of, dtype):
    """One kernel, whatever is zero: nothing, some of it in every pattern, everything."""
    shape, scheme = of
    patterns = [Synthetic(shape.x, pattern, dtype, int(rng.integers(1000))) for pattern in PATTERNS]
    inputs = [made.at(s) for made, s in zip(patterns, (0.4, 0.6, 0.7), strict=True)]
    inputs += [patterns[0].at(0.0), patterns[0].at(1.0), patterns[0].at(0.97)]
    signs = nhwc(rng.choice([-1, 1], shape.x).astype(dtype))
    check(rng, shape, scheme, dtype, [nhwc(x * signs) for x in inputs], residual=shape in (ONE, DEPTHWISE))


TILES = [
    (ONE, "pixels", Tile(1, 24, 64, 5, 2, rows=8)),
    (ONE, "pixels", Tile(4, 4, 32, 3, 1, rows=3)),
    (WIDE, "pixels", Tile(2, 16, 128, 2, 4, rows=2)),
    (WIDE, "ballot", Tile(1, 32, 256, 1, 8, rows=8)),
    (ONE, "ballot", Tile(2, 4, 64, 7, 2, rows=2)),
    (ONE, "tiles", Tile(8, 8, 64, 4, rows=4, stages=2)),
    (WIDE, "tiles", Tile(1, 32, 128, 8, rows=2, stages=4)),
    (GROUPS, "tiles", Tile(2, 8, 16, 1, rows=1)),
]


@both_dtypes
@pytest.mark.parametrize(("shape", "scheme", "tile"), TILES, ids=str)
def test_every_kind_of_tile(rng, shape, scheme, tile, dtype):
    made = Synthetic(shape.x, "elements", dtype)
    check(rng, shape, scheme, dtype, [made.at(0.5), made.at(0.9)], tile=tile)


@seldom(6)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_shapes_and_sparsities(data):
    kernel, groups = data.draw(st.sampled_from([1, 3, 5])), data.draw(st.sampled_from([1, 1, 2, 4]))
    extent, pad = st.integers(1, 13), st.integers(0, kernel // 2)
    pads = ((data.draw(pad), data.draw(pad)), (data.draw(pad), data.draw(pad)))
    height, width = (max(data.draw(extent), kernel - sum(p)) for p in pads)
    stride = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    channels = groups * data.draw(st.sampled_from([1, 3, 8, 20, 33, 64]))
    outputs = groups * data.draw(st.sampled_from([1, 5, 16, 32, 50, 70]))
    batch = data.draw(st.integers(1, 3))
    shape = Shape(batch, channels, height, width, outputs, (kernel, kernel), stride, pads, groups)
    scheme, dtype = data.draw(st.sampled_from(SCHEMES)), data.draw(st.sampled_from(["float32", "float16"]))
    made = Synthetic(shape.x, data.draw(st.sampled_from(PATTERNS)), dtype)
    sparsities = [0.0, 1.0, data.draw(st.floats(0, 1))]
    check(np.random.default_rng(0), shape, scheme, dtype, map(made.at, sparsities))


# ---- What is zero


@both_dtypes
@pytest.mark.parametrize(
    ("shape", "scheme"), [(ONE, "ballot"), (ONE, "pixels"), (ONE, "tiles"), (DEPTHWISE, "ballot")], ids=str
)
def test_nan_is_not_zero(rng, shape, scheme, dtype):
    """One NaN in an input of zeros spoils the outputs whose window holds it, and no other."""
    shape = dataclasses.replace(shape, batch=1, bounds=sparse.ENDLESS)
    weight, bias, _ = drawn(rng, shape, dtype)
    x = np.zeros(shape.x, dtype)
    x[0, 33, 4, 2] = np.nan
    spoilt = np.isnan(run(shape, scheme, nhwc(x), weight, bias))[0]
    wanted = np.zeros(spoilt.shape, bool)
    wanted[33 if shape.depthwise else slice(None), 3:6, 1:4] = True
    assert (spoilt == wanted).all()


@both_dtypes
@pytest.mark.parametrize(
    ("shape", "scheme"), [(ONE, "ballot"), (ONE, "pixels"), (ONE, "tiles"), (DEPTHWISE, "ballot")], ids=str
)
def test_minus_zero_is_zero(shape, scheme, dtype):
    """All of it is skipped: a skipped zero adds nothing even to an infinite weight, which would make NaN of it."""
    shape = dataclasses.replace(shape, bounds=sparse.ENDLESS)
    weight = np.full(shape.weight, np.inf, dtype)
    bias = np.arange(shape.outputs).astype(dtype)
    out = run(shape, scheme, nhwc(np.full(shape.x, -0.0, dtype)), weight, bias)
    assert (out == bias[:, None, None]).all()


@both_dtypes
def test_ballot_skips_each_zero_by_itself(dtype):
    """Half of the channels are zero, just those that have infinite weights."""
    shape = dataclasses.replace(ONE, bounds=sparse.ENDLESS)
    x, weight = np.ones(shape.x, dtype), np.full(shape.weight, 0.125, dtype)
    x[:, ::2], weight[:, ::2] = 0, np.inf
    assert np.isfinite(run(shape, "ballot", nhwc(x), weight)).all()
    assert np.isnan(run(shape, "dense", nhwc(x), weight)).any()


# ---- What is skipped, and what goes wrong


def traced(shape, scheme, dtype, x):
    weight, bias, _ = drawn(np.random.default_rng(0), shape, dtype)
    stored, out = nhwc(weight), layouts.empty(shape.y, dtype, "NHWC")
    packed = sparse.pack(stored, shape.groups)
    with kernels.recorded() as launches:
        sparse.conv2d(
            x, stored, cuda.asarray(bias), shape.stride, shape.padding, shape.groups, activation=shape.bounds,
            scheme=scheme, packed=packed, out=out,
        )  # fmt: skip
    (launch,) = launches
    kernel = launch.compiled()
    kernel.max_dynamic_shared_size_bytes = launch.shared_limit
    return cuda.trace(kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)


def weights_read(report):
    """Bytes of weights that were asked for: nothing is multiplied without."""
    return sum(r.counts.bytes for r in report.lines if r.kind == "load" and r.array in ("weight", "packed"))


def multiplied(report, scheme):
    """What grows with the products: the weights; of `pixels`, where some share them, the listed pixels' channels."""
    if scheme != "pixels":
        return weights_read(report)
    return sum(r.counts.bytes for r in report.lines if r.kind == "load" and r.size == 16 and r.array == "shared")


@seldom(6)
@simulator
@pytest.mark.parametrize(
    ("of", "dtype"),
    in_turn(
        [*((ONE, scheme) for scheme in SCHEMES), (GROUPS, "pixels"), (GROUPS, "tiles"), (DEPTHWISE, "ballot")], DTYPES
    ),
    ids=str,
)
def test_no_access_goes_wrong(of, dtype):
    """Out of bounds, races, reads of what nothing wrote: the simulator's trace finds none."""
    shape, scheme = of
    report = traced(shape, scheme, dtype, Synthetic(shape.x, "pixels", dtype).at(0.5))
    assert not report.findings, report


@seldom(6)
@simulator
@pytest.mark.parametrize(
    ("of", "dtype"),
    in_turn([("ballot", "elements"), ("pixels", "pixels"), ("tiles", "tiles"), ("ballot", "pixels")], DTYPES),
    ids=str,
)
def test_work_is_skipped(of, dtype):
    """At 100 % no weight is read; in between as many fewer as there are zeros; without skipping always all."""
    scheme, pattern = of
    shape = Shape(1, 64, 12, 12, 32, (3, 3), (1, 1), ((1, 1), (1, 1)))
    made = Synthetic(shape.x, pattern, dtype, seed=2)
    reports = [traced(shape, scheme, dtype, made.at(s)) for s in (0.0, 0.5, 0.9, 1.0)]
    full, half, few, none = (multiplied(report, scheme) for report in reports)
    assert weights_read(reports[-1]) == none == 0 <= few <= half < full
    if pattern != "tiles":  # a window of 3×3 lies on more than one
        assert 0.4 * full < half < 0.6 * full and 0 < few < 0.2 * full
    dense = [weights_read(traced(shape, DENSE[scheme], dtype, made.at(s))) for s in (0.0, 1.0)]
    assert dense[0] == dense[1] >= weights_read(reports[0]) * (1 if scheme == "pixels" else 0) and dense[0] > 0


@simulator
def test_a_depthwise_kernel_reads_no_weights_for_zeros():
    reads = [weights_read(traced(DEPTHWISE, "ballot", "float32", nhwc(np.full(DEPTHWISE.x, v, "f4")))) for v in (0, 1)]
    assert reads[0] == 0 < reads[1]


@seldom(6)
@pytest.mark.parametrize(
    ("card", "dtype"),
    [("sm_80", "float32"), ("sm_90", "float16"), *only_all([("sm_80", "float16"), ("sm_90", "float32")])],
)
def test_nvrtc_compiles_it(card, dtype):
    options = [option for option in generate.options() if not option.startswith("-std")]
    for shape in (ONE, WIDE, DEPTHWISE):
        for scheme in SCHEMES if shape is ONE else ("ballot",) if shape is DEPTHWISE else ("pixels", "tiles"):
            text = sparse.source(shape, scheme, sparse.rule(shape, scheme, np.dtype(dtype).itemsize), dtype)
            assert compile_with_nvrtc(text, card, options) is None


# ---- Around the kernels


def test_the_source_names_what_it_is_for():
    text = sparse.source(ONE, "ballot", sparse.rule(ONE, "ballot", 4), "float32")
    assert "9×7 40>37 3×3, ballot" in text and "H = 9, W = 7, O = 37" in text and "SKIP = true" in text
    assert "SKIP = false" in sparse.source(ONE, "dense", sparse.rule(ONE, "dense", 4), "float32")
    assert "by_channels" in sparse.source(DEPTHWISE, "tiles", sparse.rule(DEPTHWISE, "tiles", 4), "float32")


@both_dtypes
def test_packed_weights(rng, dtype):
    for shape in (ONE, GROUPS, DEPTHWISE):
        weight = drawn(rng, shape, dtype)[0]
        packed = cuda.asnumpy(sparse.pack(nhwc(weight), shape.groups))
        assert packed.shape == sparse.packed_shape(weight.shape, shape.groups)
        o, c, kh, kw = weight.shape
        if shape.depthwise:
            assert (packed == weight.reshape(o, kh * kw).T).all()
            continue
        outs = o // shape.groups
        for _ in range(20):
            g, i, ch = rng.integers(shape.groups), rng.integers(outs), rng.integers(c)
            y, x = rng.integers(kh), rng.integers(kw)
            assert packed[g, (y * kw + x) * c + ch, i] == weight[g * outs + i, ch, y, x]
        assert (packed[:, :, outs:] == 0).all()


def test_it_is_recorded(rng):
    """Packing the weights is one of the launches, unless they come packed."""
    weight, bias, _ = drawn(rng, ONE, "float32")
    x = Synthetic(ONE.x).at(0.5)
    out = layouts.empty(ONE.y, "float32", "NHWC")
    for packed, names in ((None, ["sparse/pack", "sparse/ballot"]), (sparse.pack(nhwc(weight)), ["sparse/ballot"])):
        with kernels.recorded() as launches:
            sparse.conv2d(
                x, nhwc(weight), cuda.asarray(bias), 1, 1, activation="relu6", scheme="ballot", packed=packed, out=out
            )  # fmt: skip
        assert [launch.name for launch in launches] == names
        out[...] = np.nan
        for launch in launches:
            launch()
        close(cuda.asnumpy(out), reference(ONE, x, weight, bias), ONE)


def test_rules_are_possible():
    """For every shape of the networks, whatever the batch, within the shared memory of sm_80."""
    from common.optimize.sparse_layers import distinct

    for batch in (1, 8):
        for one in distinct(batch=batch):
            for scheme in SCHEMES:
                for itemsize in (2, 4):
                    tile = sparse.rule(one.shape, scheme, itemsize)
                    assert sparse.problem(one.shape, scheme, tile, itemsize, 99 * 1024) is None, (one.shape, scheme)


@pytest.mark.parametrize(
    ("scheme", "tile", "words"),
    [
        ("pixels", Tile(1, 12, 32, 4), "a tile must have 8, 16, 24 or 32 pixels, got 12"),
        ("pixels", Tile(1, 16, 48, 4), "outputs must be 32 for each of the 1 of a lane, got 48"),
        ("ballot", Tile(1, 16, 96, 4, 3), "vector must be 1, 2, 4 or 8, got 3"),
        ("ballot", Tile(1, 16, 32, 4, rows=3), "rows must divide the 16 pixels, got 3"),
        ("tiles", Tile(1, 24, 64, 4, rows=1), "1 rows of warps must divide 4 warps, 16 pixels each"),
        ("tiles", Tile(1, 16, 32, 4, rows=1), "outputs must be a multiple of 16 for each of 4 warps, got 32"),
        ("tiles", Tile(1, 16, 64, 4, rows=1, stages=1), "stages must be at least 2, got 1"),
        ("pixels", Tile(1, 32, 256, 32, 8), "bytes of shared memory, there are 101,376"),
        ("dense", Tile(1, 16, 32, 40), "warps must be from 1 to 32, got 40"),
    ],
)
def test_what_cannot_be_says_why(scheme, tile, words):
    assert words in sparse.problem(ONE, scheme, tile, 4, 99 * 1024)


def test_errors_name_the_argument(rng):
    weight, bias, _ = drawn(rng, ONE, "float32")
    x, stored, b = Synthetic(ONE.x).at(0.5), nhwc(weight), cuda.asarray(bias)
    with pytest.raises(ValueError, match="scheme must be one of ballot, pixels, tiles, dense, dense_tiles, got 'fft'"):
        sparse.conv2d(x, stored, b, 1, 1, scheme="fft")
    with pytest.raises(ValueError, match="x must be dense in NHWC"):
        sparse.conv2d(cuda.to_layout(x, "NCHW"), stored, b, 1, 1)
    with pytest.raises(ValueError, match=r"weight must have shape \(any, 40, any, any\)"):
        sparse.conv2d(x, nhwc(weight[:, :39]), b, 1, 1)
    with pytest.raises(TypeError, match="weight must be float32"):
        sparse.conv2d(x, nhwc(weight.astype(np.float16)), b, 1, 1)
    with pytest.raises(ValueError, match=r"bias must have shape \(37\)"):
        sparse.conv2d(x, stored, b[:36], 1, 1)
    with pytest.raises(ValueError, match=r"packed must have shape \(1, 360, 40\)"):
        sparse.conv2d(x, stored, b, 1, 1, packed=cuda.empty((1, 360, 37), np.float32))
    with pytest.raises(ValueError, match="groups must be an integer that divides the 40 channels"):
        sparse.conv2d(x, stored, b, 1, 1, 3)
    with pytest.raises(ValueError, match=r"out must have shape \(2, 37, 9, 7\)"):
        sparse.conv2d(x, stored, b, 1, 1, out=x)
    with pytest.raises(ValueError, match="rows must divide the 16 pixels"):
        sparse.conv2d(x, stored, b, 1, 1, scheme="ballot", tile=Tile(1, 16, 32, 4, rows=3))
