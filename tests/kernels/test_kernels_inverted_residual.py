"""inverted_residual: every rung against three convolutions in float64, and what each changes, in its trace's counts."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from kernel_checks import agrees, draw, f64
from tiers import long, only_all, seldom

from common import cuda, kernels
from common.cuda import checks, layout, nvrtc
from common.cuda.machine_code import compiled
from common.kernels.inverted_residual import CANDIDATES, Shape, ladder, launches

VARIANTS = kernels.variants("inverted_residual")
RELU6 = ("relu6", "relu6", None)
needs_sm80 = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")


@dataclass(frozen=True)
class Case:
    """A block: x (n, c, h, w), hidden channels, outputs. residual: None, "x" or "other"."""

    n: int
    c: int
    h: int
    w: int
    hidden: int
    o: int
    stride: int = 1
    residual: str | None = None
    biases: bool = True
    activations: tuple = RELU6

    def shape(self, dtype):
        itemsize = np.dtype(dtype).itemsize
        return Shape(self.n, self.c, self.h, self.w, self.hidden, self.o, self.stride, itemsize, self.residual == "x")

    @property
    def out_shape(self):
        return (self.n, self.o, *self.shape(np.float32).out_size)


# several tiles of an image that none divides, a slice that ends early, the residual in x's tile; stride 2 and no biases
SAME = Case(3, 16, 9, 13, 72, 16, residual="x")
STRIDED = Case(1, 24, 11, 6, 104, 20, 2, "other", biases=False)
OTHERS = [
    Case(1, 8, 1, 1, 16, 4),
    Case(2, 16, 7, 17, 48, 24, residual="other", activations=((1.0, 3.0), "relu", "relu6")),
    Case(1, 160, 7, 7, 240, 40, residual=None),
    Case(2, 8, 33, 1, 40, 12, 2),
    Case(1, 40, 17, 10, 56, 36, 2, biases=False, activations=(None, None, None)),
    Case(5, 24, 2, 3, 144, 24, residual="x"),
]


def nhwc(array):
    return cuda.to_layout(cuda.asarray(array), "NHWC")


def drawn(rng, case, dtype):
    """(arguments, residual, the result in float64)."""

    def scaled(*shape):
        return (draw(rng, *shape) * math.prod(shape[1:]) ** -0.5).astype(dtype)

    x, hidden = draw(rng, case.n, case.c, case.h, case.w, dtype=dtype), case.hidden
    weights = [scaled(hidden, case.c, 1, 1), scaled(hidden, 1, 3, 3), scaled(case.o, hidden, 1, 1)]
    biases = [draw(rng, len(weight), dtype=dtype) if case.biases else None for weight in weights]
    values = f64(x)
    settings = [(1, 0, 1), (case.stride, 1, hidden), (1, 0, 1)]
    residual = None
    for i, (weight, bias, (stride, padding, groups)) in enumerate(zip(weights, biases, settings, strict=True)):
        values = torch.nn.functional.conv2d(values, f64(weight), f64(bias), stride, padding, 1, groups)
        if i == 2 and case.residual:
            residual = x if case.residual == "x" else draw(rng, *case.out_shape, dtype=dtype)
            values = values + f64(residual)
        low, high = checks.bounds(case.activations[i])
        values = values.clamp(float(low), float(high))
    given = nhwc(x)
    parameters = [None if a is None else cuda.asarray(a) for pair in zip(weights, biases, strict=True) for a in pair]
    if residual is not None:
        residual = given if case.residual == "x" else nhwc(residual)
    return [given, *parameters], residual, values


def traced(rng, case, variant, dtype):
    """The reports of a rung's launches, after its result and findings have been checked."""
    arrays, residual, reference = drawn(rng, case, dtype)
    out = nhwc(np.full(case.out_shape, np.nan, dtype))
    named = {"stride": case.stride, "residual": residual, "activations": case.activations, "out": out}
    reports = kernels.trace("inverted_residual", variant, *arrays, **named)
    agrees(out, reference, k=case.hidden)
    assert [str(finding) for report in reports for finding in report.findings] == []
    return reports


# ---- Results


@seldom(6)
@needs_sm80
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        (SAME, np.float32),
        (STRIDED, np.float16),
        *only_all([(SAME, np.float16), (STRIDED, np.float32)]),
        *only_all([(case, dtype) for case in OTHERS for dtype in (np.float32, np.float16)]),
    ],
    ids=str,
)
def test_a_rung_agrees_and_the_sanitizer_finds_nothing(rng, case, dtype, variant):
    """Against float64, on outputs of NaN: no access out of bounds, no race, no read of what nobody wrote."""
    traced(rng, case, variant, dtype)


@needs_sm80
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_cluster_whose_last_block_has_no_slice(rng, dtype, monkeypatch):
    """5 slices for 4 blocks are 2, 2, 1 and 0: the last one adds x to the last rows, and has waited for no slice."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    case = Case(1, 16, 8, 3, 4 * 128 // np.dtype(dtype).itemsize + 16, 16, residual="x")
    [launch] = launches("cluster", case.shape(dtype))
    assert launch.switches["SPLIT"] == 4 and launch.blocks == 4
    traced(rng, case, "cluster", dtype)


@needs_sm80
def test_a_nan_of_x_comes_through(rng):
    """Bounds keep it, also where they are one instruction; every window of a 2×2 image covers all of it."""
    for variant in ("slices", "reuse", "cluster"):
        arrays, _, _ = drawn(rng, Case(1, 8, 2, 2, 16, 8), np.float16)
        arrays[0][0, :, 0, 0] = np.nan
        assert np.isnan(cuda.asnumpy(kernels.inverted_residual(*arrays, variant=variant))).all(), variant


def test_the_default_is_the_last_rung_and_the_chapters_kernel_agrees(rng):
    from common.optimize.blocks import inverted_residual as production

    case = Case(1, 16, 6, 5, 48, 16, residual="x")
    arrays, residual, reference = drawn(rng, case, np.float16)
    with kernels.recorded() as made:
        kernels.inverted_residual(*arrays, residual=residual)
    assert [launch.name for launch in made] == ["inverted_residual/cluster"]
    agrees(production(*arrays, residual=residual), reference, k=case.hidden)


def test_a_view_of_x_with_another_shape_is_no_residual_in_xs_tile(rng):
    """Its address is that of x, its numbers are those of other pixels."""
    case = Case(1, 8, 3, 5, 16, 16, 2, "other")
    arrays, _, _ = drawn(rng, dataclasses.replace(case, residual=None), np.float16)
    memory = cuda.asarray(draw(rng, 1, 3, 5, 8, dtype=np.float16))
    arrays[0] = memory.transpose(0, 3, 1, 2)
    residual = memory.reshape(-1)[: 2 * 3 * 16].reshape(1, 2, 3, 16).transpose(0, 3, 1, 2)
    plain = cuda.asnumpy(kernels.inverted_residual(*arrays, stride=2, variant="naive")).astype(np.float64)
    for variant in ("reuse", "cluster"):
        out = kernels.inverted_residual(*arrays, stride=2, residual=residual, variant=variant)
        agrees(out, plain + cuda.asnumpy(residual), k=16)


# ---- The story: what each rung changes, in counts


def bytes_of(reports, kind="load", space="global"):
    """Bytes of all launches by the array that they access."""
    found: dict[str, int] = {}
    for entry in (entry for report in reports for entry in report.lines):
        if (entry.kind, entry.counts.space) == (kind, space):
            found[entry.array] = found.get(entry.array, 0) + entry.counts.bytes
    return found


@seldom(6)
@needs_sm80
def test_what_each_rung_changes(rng):
    case, itemsize = SAME, 4
    shape = case.shape(np.float32)
    reports = {variant: traced(rng, case, variant, np.float32) for variant in VARIANTS}
    loads = {variant: bytes_of(reports[variant]) for variant in VARIANTS}
    pixels, hidden, y = case.n * case.h * case.w, case.hidden, case.n * case.h * case.w * case.o
    tiles, pixels_in, pixels_out = shape.tiles(8, 8), shape.pixels_in(8, 8), 64
    inside = sum(  # pixels of x under the tiles' windows, those outside of the image left out
        min(top + 9, case.h) - max(top - 1, 0) for top in range(0, case.h, 8)
    ) * sum(min(left + 9, case.w) - max(left - 1, 0) for left in range(0, case.w, 8)) * case.n  # fmt: skip

    # 1: both hidden tensors are written and read; from 2 on y is all that is written, in one launch
    assert bytes_of(reports["naive"], "store") == {"scratch": 2 * pixels * hidden * itemsize, "y": y * itemsize}
    assert loads["naive"]["scratch"] > 2 * pixels * hidden * itemsize
    assert [len(reports[variant]) for variant in VARIANTS] == [3] + 7 * [1]
    for variant in VARIANTS[1:]:
        assert bytes_of(reports[variant], "store") == {"y": y * itemsize} and "scratch" not in loads[variant]

    # 2: nine hidden pixels and one of dw per output; 3: the pixels under a tile, as often as the formula says
    stores = {variant: reports[variant][0].shared_stores.accesses for variant in VARIANTS}
    assert stores["fused"] == pixels * (9 + 1) * hidden
    assert stores["halo"] == tiles * (pixels_in + pixels_out) * hidden
    assert shape.recomputed(8, 8) == tiles * pixels_in / pixels and shape.recomputed(1, 1) == 9
    expanded = {variant: loads[variant]["expand"] / (case.c * itemsize) for variant in ("naive", "fused", "halo")}
    assert expanded["naive"] == pixels * hidden and expanded["halo"] == inside * hidden  # rows of weights, one a number
    assert 7 * pixels * hidden < expanded["fused"] < 9 * pixels * hidden  # less by what lies outside of the image

    # 4: x once per tile; 5: weights once per tile, and not once per pixel; 6: the depthwise's too
    residual = y * itemsize
    assert loads["halo"]["x"] - residual == inside * hidden * case.c * itemsize
    assert loads["slices"]["x"] - residual == inside * case.c * itemsize
    assert loads["slices"]["expand"] == loads["halo"]["expand"]
    assert loads["tensor_cores"]["expand"] == tiles * hidden * case.c * itemsize
    assert loads["tensor_cores"]["project"] == tiles * hidden * case.o * itemsize
    assert loads["pipelined"]["depthwise"] == tiles * hidden * 9 * itemsize < loads["tensor_cores"]["depthwise"]

    # 7: the residual comes out of x's tile, and shared memory is read less; 8: two blocks per tile share its weights
    assert loads["pipelined"]["x"] - loads["reuse"]["x"] == residual
    wavefronts = {variant: reports[variant][0].shared_loads.wavefronts for variant in VARIANTS}
    assert wavefronts["reuse"] < 0.6 * wavefronts["pipelined"]
    blocks = {variant: math.prod(reports[variant][0].grid) for variant in VARIANTS}
    assert blocks["cluster"] == 2 * blocks["reuse"] == 2 * tiles
    assert loads["cluster"]["x"] == 2 * loads["reuse"]["x"]
    for weights in ("expand", "project", "depthwise"):
        assert loads["cluster"][weights] == loads["reuse"][weights]


def test_rows_of_the_tensor_core_rungs_lie_in_different_banks(rng):
    """ldmatrix takes four wavefronts for 512 bytes, no more: the fewest."""
    [report] = traced(rng, STRIDED, "tensor_cores", np.float16)
    wide = [
        entry for entry in report.lines if entry.kind == "load" and entry.counts.space == "shared" and entry.size == 16
    ]
    assert wide and sum(entry.counts.conflicts for entry in wide) == 0


def disassembler():
    try:
        nvrtc.version()
        compiled.find_disassembler()
    except RuntimeError as error:
        pytest.skip(str(error))


@long
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_machine_code(arch, dtype):
    """No register is spilled; tensor cores multiply from their rung on, and copies pass no register from the next."""
    disassembler()
    for variant in VARIANTS[: 7 if arch == "sm_80" else None]:
        found = kernels.inspect("inverted_residual", variant, dtype=dtype, layout="NHWC", arch=arch)
        assert found.spills == 0, variant
        kinds = {kind.split(".")[0] for kind in found.instructions}
        assert ("HMMA" in kinds) == (VARIANTS.index(variant) >= VARIANTS.index("tensor_cores")), variant
        assert ("LDGSTS" in kinds) == (VARIANTS.index(variant) >= VARIANTS.index("pipelined")), variant


@long
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_sums_of_many_outputs_are_not_spilled(dtype):
    """MobileNetV2's last block has 320 of them; nothing is computed."""
    disassembler()
    x = layout.empty((32, 160, 7, 7), np.dtype(dtype), "NHWC")
    shapes = ((960, 160, 1, 1), (960,), (960, 1, 3, 3), (960,), (320, 960, 1, 1), (320,))
    arrays = [x, *(cuda.empty(shape, np.dtype(dtype)) for shape in shapes)]
    for variant in VARIANTS[3:]:
        assert kernels.inspect("inverted_residual", variant, *arrays, arch="sm_90").spills == 0, variant


# ---- Tiles


LAYERS = [  # MobileNetV2's blocks with three convolutions: height = width, channels, hidden channels, outputs, stride
    (112, 16, 96, 24, 2), (56, 24, 144, 24, 1), (56, 24, 144, 32, 2), (28, 32, 192, 64, 2), (14, 64, 384, 96, 1),
    (14, 96, 576, 160, 2), (7, 160, 960, 160, 1), (7, 160, 960, 320, 1),
]  # fmt: skip


@pytest.mark.parametrize("itemsize", [4, 2])
@pytest.mark.parametrize("shared", [99 * 1024, 227 * 1024])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_every_layer_of_mobilenetv2_has_a_tile(layer, shared, itemsize, monkeypatch):
    """In the shared memory of an H200, and of an L4 but for the weights of the last layer twice, in float32."""
    size, c, hidden, o, stride = layer
    monkeypatch.setattr(cuda, "shared_memory", lambda: shared)
    small = shared < 100 * 1024
    for variant in VARIANTS[1 : 7 if small else None]:  # clusters are of sm_90
        shape = Shape(32, c, size, size, hidden, o, stride, itemsize)
        if small and itemsize == 4 and o == 320 and variant in ("pipelined", "reuse"):
            with pytest.raises(ValueError, match=r"needs 108,992 bytes of shared memory .* there are 101,376"):
                launches(variant, shape)
            continue
        [launch] = launches(variant, shape)
        candidates = list(CANDIDATES[variant](shape))
        larger = [one.shared for one in candidates[: candidates.index(launch)]]
        assert 0 < launch.shared <= shared < min(larger, default=math.inf) and launch.blocks >= 32


def test_clusters_grow_until_the_card_is_full(monkeypatch):
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    split = {n: launches("cluster", Shape(n, 160, 7, 7, 960, 160, 1, 2))[0].switches["SPLIT"] for n in (1, 16, 32, 256)}
    assert split == {1: 8, 16: 8, 32: 4, 256: 2}
    assert launches("cluster", Shape(1, 16, 7, 7, 96, 160, 1, 2))[0].switches["SPLIT"] == 2  # two slices


def test_one_late_block_has_four_tiles_at_rung_3_and_two_at_rung_4(monkeypatch):
    monkeypatch.setattr(cuda, "shared_memory", lambda: 232_448)
    found = [launches(variant, Shape(1, 160, 7, 7, 960, 160, 1, 4, True))[0] for variant in ("halo", "slices")]
    tiles = [(one.switches["TILE_H"], one.switches["TILE_W"], one.blocks) for one in found]
    assert tiles == [(4, 4, 4), (4, 8, 2)], "06/5, section 9, says so"


# ---- What does not fit


def ones(*shape, dtype=np.float32):
    return cuda.full(shape, 1, dtype)


def call(**changed):
    """A valid call, but for what is changed."""
    arguments = {
        "x": nhwc(ones(2, 8, 5, 3)), "expand": ones(16, 8, 1, 1), "expand_bias": ones(16),
        "depthwise": ones(16, 1, 3, 3), "depthwise_bias": ones(16), "project": ones(8, 16, 1, 1),
        "project_bias": ones(8),
    }  # fmt: skip
    return kernels.inverted_residual(**(arguments | changed))


def shifted(*shape):
    """An array that begins 4 bytes after a multiple of 16."""
    return cuda.full(math.prod(shape) + 4, 1)[1 : math.prod(shape) + 1].reshape(shape)


WRONG = [
    ({"x": ones(2, 8, 5, 3)}, ValueError, "x must be dense in NHWC"),
    ({"x": [1]}, TypeError, "x must be an array, got list"),
    ({"expand": ones(16, 4, 1, 1)}, ValueError, "expand must have shape (any, 8, 1, 1), got (16, 4, 1, 1)"),
    ({"expand": ones(16, 8, 1, 1, dtype=np.float16)}, TypeError, "expand must be float32"),
    ({"depthwise": ones(12, 1, 3, 3)}, ValueError, "depthwise must have shape (16, 1, 3, 3), got (12, 1, 3, 3)"),
    ({"project": ones(8, 12, 1, 1)}, ValueError, "project must have shape (any, 16, 1, 1), got (8, 12, 1, 1)"),
    ({"expand_bias": ones(8)}, ValueError, "expand_bias must have shape (16), got (8,)"),
    ({"depthwise_bias": ones(8)}, ValueError, "depthwise_bias must have shape (16), got (8,)"),
    ({"project_bias": ones(16)}, ValueError, "project_bias must have shape (8), got (16,)"),
    ({"stride": 3}, ValueError, "stride must be 1 or 2, got 3"),
    ({"activations": "relu6"}, ValueError, "activations must be three"),
    ({"activations": (None, "elu", None)}, ValueError, "activation must be None, 'relu'"),
    ({"residual": ones(2, 8, 5, 4)}, ValueError, "residual must have shape (2, 8, 5, 3), got (2, 8, 5, 4)"),
    ({"residual": 1.0}, TypeError, "residual must be an array, got float"),
    ({"variant": "winograd"}, ValueError, "variant must be one of ['naive', 'fused'"),
    ({"out": ones(2, 8, 5, 3)}, ValueError, "out must be dense in NHWC"),
    ({"project": ones(6, 16, 1, 1), "project_bias": None}, ValueError, "project must be a multiple of 4 for float32"),
    (
        {"x": nhwc(ones(2, 6, 5, 3)), "expand": ones(16, 6, 1, 1)}, ValueError,
        "the channels of x must be a multiple of 4 for float32, got 6",
    ),
    (
        {"expand": ones(6, 8, 1, 1), "depthwise": ones(6, 1, 3, 3), "project": ones(8, 6, 1, 1), "expand_bias": None,
         "depthwise_bias": None}, ValueError, "channels of expand must be a multiple of 4 for float32, got 6",
    ),
    ({"project": shifted(8, 16, 1, 1)}, ValueError, "project must begin at a multiple of 16 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "error", "message"), WRONG, ids=[f"{next(iter(w[0]))}-{i}" for i, w in enumerate(WRONG)]
)
def test_wrong_arguments(changed, error, message):
    with pytest.raises(error) as caught:
        call(**changed)
    assert message in str(caught.value)


def test_the_call_above_is_right_but_for_its_change():
    assert np.isfinite(cuda.asnumpy(call(variant="naive"))).all()


def test_more_channels_than_shared_memory_holds():
    """Rung 2 keeps all hidden channels, rung 4 all of x's; the message says what is needed."""
    for variant, c, hidden in (("fused", 4, 5_812), ("halo", 4, 5_812), ("slices", 4_000, 16), ("reuse", 4_000, 16)):
        with pytest.raises(ValueError, match=f"variant '{variant}' needs [0-9,]+ bytes of shared memory"):
            launches(variant, Shape(1, c, 7, 7, hidden, 16, 1, 4))
    assert launches("fused", Shape(1, 4, 7, 7, 5_811, 16, 1, 4))


def test_arithmetic_and_requirements_are_read_from_the_sources():
    needs = {variant: kernels.requires("inverted_residual", variant) for variant in VARIANTS}
    assert list(needs.values()) == [75] * 4 + [80] * 3 + [90]
    on_tensor_cores = [ladder.arithmetic(variant, "fp32") for variant in VARIANTS]
    assert len(set(on_tensor_cores[:4])) == len(set(on_tensor_cores[4:])) == 1 != len(set(on_tensor_cores))
