"""Launches every rung of every operator, a learner's kernels, and what measures the card: compute-sanitizer's program.

Sizes are odd ones.

    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 python tests/every_kernel.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/every_kernel.py

Arrays are allocated one by one, not from CuPy's pool, so that an access past the end of one is seen.
"""

import dataclasses
import os

import int8_checks
import numpy as np

from common import cuda, kernels
from common.bench import peaks
from common.kernels import int8
from common.kernels.activate import FUNCTIONS
from common.kernels.ladder import header_options
from common.lab import engine, launch_lines
from common.lab.engine_files import FILES
from common.lab.operators import OPERATORS, RELU6
from common.lab.rungs import SLOTS
from common.optimize import persistent
from common.optimize.blocks import inverted_residual
from common.optimize.blocks_int8 import Int8Block, Int8Convolution, Int8Tile, inverted_residual_int8
from common.optimize.generate import Block, Geometry, Tile
from common.optimize.head import Head, Linear, few_rows, pointwise_pool, pooled_tiles
from common.optimize.head_int8 import Int8HeadTile, few_rows_int8, pointwise_pool_int8
from common.optimize.stage_int8 import Stage, StageBlock, stage_int8

if cuda.backend() == "gpu":
    import cupy

    cupy.cuda.set_allocator(None)

drawn = np.random.default_rng(int(os.environ.get("COURSE_SEED", 1)))


def random(*shape: int, dtype: type) -> object:
    return cuda.asarray(drawn.standard_normal(shape).astype(dtype))


def stored(array: object, variant: str) -> object:
    """In the layout that the rung takes: NHWC if its lanes lie along the channels."""
    return cuda.to_layout(array, "NHWC") if variant in ("vectors", "channels_last") else array


def channels_last(array: object, variant: str, operator: str = "pointwise") -> object:
    """In NHWC if that rung of the operator takes no NCHW."""
    return array if variant in kernels.variants(operator, layout="NCHW") else cuda.to_layout(array, "NHWC")


def cases(dtype: type) -> dict[str, list]:
    """For each operator calls that take the rung's name."""
    x, y = random(2, 6, 17, 13, dtype=dtype), random(2, 6, 17, 13, dtype=dtype)
    a, b, bias = random(33, 17, dtype=dtype), random(17, 7, dtype=dtype), random(7, dtype=dtype)
    transposed, whole = random(7, 17, dtype=dtype), random(136, 136, dtype=dtype)  # whole vectors
    weight, depthwise = random(8, 3, 3, 5, dtype=dtype), random(6, 1, 3, 3, dtype=dtype)
    pointwise, channel_bias = random(8, 6, 1, 1, dtype=dtype), random(8, dtype=dtype)
    residual, dense = random(2, 8, 17, 13, dtype=dtype), random(8, 6, 3, 3, dtype=dtype)
    coarse, pointwise_16 = random(2, 6, 9, 7, dtype=dtype), random(16, 8, 1, 1, dtype=dtype)
    added, wide = random(2, 6, 9, 10, dtype=dtype), random(2, 24, 9, 13, dtype=dtype)
    filters, biases = random(24, 1, 3, 3, dtype=dtype), random(24, dtype=dtype)
    across, across_bias = random(6, 2, 3, 4, dtype=dtype), random(4, dtype=dtype)
    block = [cuda.to_layout(random(2, 16, 9, 13, dtype=dtype), "NHWC"), random(72, 16, 1, 1, dtype=dtype),
             random(72, dtype=dtype), random(72, 1, 3, 3, dtype=dtype), random(72, dtype=dtype)]  # fmt: skip
    to_16, to_20 = random(16, 72, 1, 1, dtype=dtype), random(20, 72, 1, 1, dtype=dtype)
    scale, odd, turned = random(2, 6, 1, 1, dtype=dtype), random(1, 3, 5, 7, dtype=dtype), cuda.to_layout(wide, "NHWC")
    return {
        "activate": [lambda v, f=f: kernels.activate(kernels.multiply(x, x), f, variant=v) for f in FUNCTIONS],
        "binary": [
            lambda v: kernels.binary(scale, x, "add", variant=v),
            lambda v: kernels.subtract(x, y, variant=v),
            lambda v: kernels.divide(x, scale, variant=v),
            lambda v: kernels.maximum(scale, cuda.to_layout(x, "NHWC"), variant=v),
            lambda v: kernels.minimum(x, scale, variant=v),
        ],
        "multiply": [
            lambda v: kernels.multiply(x, y, variant=v),
            lambda v: kernels.multiply(x, scale, variant=v),
            lambda v: kernels.multiply(scale, cuda.to_layout(x, "NHWC"), variant=v),
            lambda v: kernels.multiply(odd[:, :1], random(1, 3, 1, 1, dtype=dtype), variant=v),
        ],
        "pool2d": [
            lambda v: kernels.max_pool2d(channels_last(x, v, "pool2d"), (3, 2), 2, 1, 2, True, variant=v),
            lambda v: kernels.avg_pool2d(channels_last(wide, v, "pool2d"), 3, 2, 1, True, variant=v),
        ],
        "concat": [
            lambda v: kernels.concat([x, residual, y], variant=v),
            lambda v: kernels.concat([turned, turned], variant=v),
            lambda v: kernels.concat([odd, odd], variant=v),
        ],
        "pad": [lambda v: kernels.pad(x, ((1, 2), (0, 3)), 7.0, variant=v)],
        "permute": [
            lambda v: kernels.permute(x, (0, 2, 3, 1), variant=v),
            lambda v: kernels.permute(turned, (0, 1, 2, 3), variant=v),
        ],
        "resize": [
            lambda v: kernels.resize(x, (33, 7), variant=v),
            lambda v: kernels.resize(turned, (5, 27), coordinates="align_corners", variant=v),
            lambda v: kernels.resize(turned, (18, 26), mode="nearest", coordinates="asymmetric", variant=v),
        ],
        "conv_transpose2d": [
            lambda v: kernels.conv_transpose2d(x, across, across_bias, (2, 3), 1, 1, 2, (2, 1), variant=v),
            lambda v: kernels.conv_transpose2d(
                cuda.to_layout(x, "NHWC"), cuda.to_layout(across, "NHWC"), None, 2, activation="relu", variant=v
            ),
        ],
        "layer_norm": [
            lambda v: kernels.layer_norm(turned, biases, biases, variant=v),
            lambda v: kernels.layer_norm(a, variant=v, dim=1),
        ],
        "group_norm": [
            lambda v: kernels.group_norm(x, 2, variant=v),
            lambda v: kernels.group_norm(turned, 8, biases, biases, variant=v),
        ],
        "mean": [lambda v: kernels.mean(x, variant=v), lambda v: kernels.mean(turned, variant=v)],
        "strided_slice": [
            lambda v: kernels.strided_slice(x, (0, 1, 16, 0), (2, 3, 9, 5), (1, 1, -2, 3), variant=v),
            lambda v: kernels.strided_slice(turned, (0, 7, 0, 0), (2, 17, 9, 13), variant=v),
        ],
        "add": [lambda v: kernels.add(x, y, variant=v)],
        "clamp": [lambda v: kernels.relu6(x, variant=v)],
        "softmax": [lambda v: kernels.softmax(a, variant=v), lambda v: kernels.softmax(x, 1, variant=v)],
        "global_avg_pool": [lambda v: kernels.global_avg_pool(stored(x, v), variant=v)],
        "gemm": [
            lambda v: kernels.gemm(a, b, bias, activation="relu6", variant=v),
            lambda v: kernels.gemm(a, transposed, transpose_b=True, variant=v),
            lambda v: kernels.gemm(whole, whole, variant=v),
            lambda v: kernels.gemm(whole, whole, transpose_b=True, variant=v),
        ],
        "inverted_residual": [
            lambda v: kernels.inverted_residual(*block, to_16, random(16, dtype=dtype), residual=block[0], variant=v),
            lambda v: kernels.inverted_residual(*block, to_20, None, stride=2, variant=v),
        ],
        "winograd": [
            lambda v: kernels.winograd(x, dense, channel_bias, 1, residual=residual, activation="relu6", variant=v),
        ],
        "winograd_weight": [lambda v, tile=tile: kernels.winograd_weight(dense, tile, variant=v) for tile in (2, 4)],
        "depthwise": [
            lambda v: kernels.depthwise(
                channels_last(x, v, "depthwise"),
                depthwise,
                biases[:6],
                (2, 1),
                ((1, 2), (0, 1)),
                (1, 2),
                residual=channels_last(added, v, "depthwise"),
                variant=v,
            ),
            lambda v: kernels.depthwise(channels_last(wide, v, "depthwise"), filters, biases, 1, 1, variant=v),
            lambda v: kernels.depthwise(channels_last(wide, v, "depthwise"), filters, None, 2, 1, variant=v),
        ],
        "depthwise_backward_input": [
            lambda v: kernels.depthwise_backward_input(stored(y, v), depthwise, x.shape, 1, 1, variant=v),
            lambda v: kernels.depthwise_backward_input(stored(coarse, v), depthwise, x.shape, 2, 1, variant=v),
        ],
        "depthwise_backward_weight": [
            lambda v: kernels.depthwise_backward_weight(stored(y, v), stored(x, v), 3, 1, 1, variant=v),
            lambda v: kernels.depthwise_backward_weight(stored(coarse, v), stored(x, v), 3, 2, 1, variant=v),
        ],
        "im2col": [lambda v: kernels.im2col(x, (3, 5), padding=((1, 0), (2, 3)), stride=(2, 1), variant=v)],
        "pointwise": [
            lambda v: kernels.pointwise(
                channels_last(x, v),
                pointwise,
                channel_bias,
                residual=channels_last(residual, v),
                activation="relu6",
                variant=v,
            ),
            lambda v: kernels.pointwise(channels_last(residual, v), pointwise_16, variant=v),
        ],
        "conv2d": [
            lambda v: kernels.conv2d(x, weight, channel_bias, (2, 1), 2, (1, 2), 2, activation="relu", variant=v),
            lambda v: kernels.conv2d(x, depthwise, stride=2, padding=1, groups=6, variant=v),
            lambda v: kernels.conv2d(x, pointwise, channel_bias, residual=residual, activation="relu6", variant=v),
        ],
    }


def fused_blocks(dtype: type) -> list[tuple[Block, Tile]]:
    """Blocks with halos, whole images, several images, stems, without expand, chained; clusters where they are."""
    vector = 0 if dtype == np.float16 else 4
    found = [
        (Block(14, 13, 24, 96, 24, 1, residual=True), Tile(7, 13, slice=96, warps=6, strip=7, stages=1, expand_m=3)),
        (Block(14, 13, 24, 96, 24, 1, residual=True), Tile(2, 8, slice=32, warps=4, pixel_warps=2, persistent=1)),
        (Block(7, 7, 32, 64, 40), Tile(7, 7, images=2, slice=32, warps=8, pixel_warps=4)),
        (Block(15, 12, 16, 48, 24, 2), Tile(8, 6, slice=16, warps=2, pixel_warps=2, strip=4)),
        (Block(15, 12, 16, 48, 24, 2), Tile(8, 6, slice=48, warps=3, strip=4, stages=1, persistent=1)),
        (Block(8, 12, 16, 48, 24, 2), Tile(2, 6, slice=48, warps=3, strip=2, stages=1, early=True)),
        (Block(9, 12, 3, 32, 16, 1, "stem", (18, 24)), Tile(4, 8, slice=32, warps=2, strip=4, stages=1)),
        (
            Block(9, 12, 3, 32, 16, 1, "stem", (18, 24)),
            Tile(9, 12, slice=32, warps=4, pixel_warps=2, strip=3, persistent=1),
        ),
        (Block(9, 10, 48, 48, 36, expand="none"), Tile(3, 5, slice=48, warps=3, strip=3)),
    ]
    if cuda.backend() == "simulator" or cuda.compute_capability() >= 90:
        found.append((Block(7, 7, 32, 192, 32, residual=True), Tile(4, 4, slice=48, warps=3, split=4, strip=2)))
    made = [(block, dataclasses.replace(tile, vector=v)) for block, tile in found for v in (vector, 2)]
    made += [(b, dataclasses.replace(t, chained=True)) for b, t in made if t.vector == vector and may_chain(b, dtype)]
    if dtype == np.float32:
        made += [(b, dataclasses.replace(t, arithmetic="halves")) for b, t in made if t.vector == 2 or t.chained]
    elif cuda.backend() == "simulator" or cuda.compute_capability() == 90:
        made += warpgroup_blocks() + row_blocks()
    alone = single_warp_blocks()
    if dtype == np.float32:
        return made + [(b, dataclasses.replace(t, arithmetic="halves")) for b, t in alone if b.expand == "pointwise"]
    return made + alone + [(b, dataclasses.replace(t, streams=True)) for b, t in alone if b.expand == "pointwise"]


def single_warp_blocks() -> list[tuple[Block, Tile]]:
    """Tiles of single warps: all ways in which x lies in shared memory, both strides, stems of one strip and of two.

    Of the last block but the stems, two warps share an item.
    """

    def tile(strip: int, stages: int = 1) -> Tile:
        return Tile(
            strip, 14, slice=16, strip=strip, vector=0, stages=stages, warps=2, pixel_warps=2, persistent=1, alone=True
        )

    stem = Block(9, 10, 3, 32, 16, 1, "stem", (17, 20))
    return [
        (Block(8, 14, 24, 32, 24, residual=True), tile(7, 2)),
        (Block(9, 17, 32, 48, 32, residual=True), tile(4)),
        (Block(6, 28, 64, 32, 16), tile(2, 2)),
        (Block(8, 28, 16, 32, 24, 2), tile(2, 2)),
        (Block(7, 31, 24, 48, 32, 2), tile(3)),
        (Block(7, 14, 96, 48, 24), dataclasses.replace(tile(1), pixel_warps=1)),
        (stem, tile(4)),
        (stem, tile(10)),
    ]


def warpgroup_blocks() -> list[tuple[Block, Tile]]:
    """Tiles with warpgroups: several images, both strides, parts of an image, clusters with and without more memory."""
    two, four = Tile(7, 7, warps=8, warpgroups=2, strip=4), Tile(7, 7, warps=16, warpgroups=4, strip=2)
    seven, many = Block(7, 7, 32, 192, 32, residual=True), Block(7, 7, 80, 192, 320)
    tall, strided = Block(9, 7, 32, 192, 32, residual=True), Block(11, 9, 80, 128, 96, 2)
    return [
        (seven, dataclasses.replace(two, images=2)),
        (seven, dataclasses.replace(two, split=3)),
        (many, dataclasses.replace(four, images=2, split=2)),
        (many, two),
        (tall, dataclasses.replace(two, tile_h=4)),
        (tall, dataclasses.replace(four, tile_h=9, strip=7)),
        (strided, dataclasses.replace(two, tile_h=6, tile_w=5)),
        (strided, dataclasses.replace(four, tile_h=3, tile_w=5, strip=1)),
    ]


def row_blocks() -> list[tuple[Block, Tile]]:
    """Tiles of rows: both strides, one image and two, one slice and several, clusters of even and odd size.

    Of the second and the last block not all slices are there at a time; of the last one a warp takes several outputs.
    """

    def tile(h: int, columns: int, slice: int, *, warps: int = 4, **more: int) -> Tile:
        return Tile(h, columns, slice=slice, vector=0, warps=warps, persistent=1, rows=True, **({"stages": 1} | more))

    return [
        (Block(6, 10, 32, 96, 32, residual=True), tile(2, 10, 48, split=2)),
        (Block(6, 13, 64, 96, 64), tile(4, 13, 32, stages=2, strip=2)),
        (Block(9, 28, 32, 64, 48, 2), tile(2, 14, 32, split=2, strip=2)),
        (Block(7, 7, 96, 96, 96, residual=True), tile(2, 7, 32, split=3, images=2, strip=2, warps=6)),
        (Block(14, 14, 32, 192, 160, 2), tile(1, 7, 32, split=3, images=2, early=True)),
    ]


def may_chain(block: Block, dtype: type) -> bool:
    """Whether Tile.chained is possible."""
    return block.expand in (("pointwise", "stem") if block.stride == 1 else ("pointwise",))


def launch_fused(dtype: type) -> int:
    """What common.optimize generates; returns how many launches."""

    def nhwc(*shape: int, scale: float = 1.0) -> object:
        return cuda.to_layout(cuda.asarray((scale * drawn.standard_normal(shape)).astype(dtype)), "NHWC")

    made = fused_blocks(dtype)
    for block, tile in made:
        taps = {"pointwise": 1, "stem": 3, "none": 0}[block.expand]
        expand = nhwc(block.hidden, block.channels, taps, taps, scale=0.1) if taps else None
        loops = tile.persistent or (tile.warpgroups > 0 and tile.split == 1)
        at_once = tile.pixel_warps if tile.alone else 1
        grid = loops * at_once * cuda.multiprocessors()  # of thread blocks, or warps, that take two tiles and more
        images = max(3, -(-5 * grid // (2 * Geometry(block, tile, np.dtype(dtype).itemsize).tiles)))
        x = nhwc(images, *block.input_shape)
        out = inverted_residual(
            x, expand, random(block.hidden, dtype=dtype) if taps else None, nhwc(block.hidden, 1, 3, 3),
            random(block.hidden, dtype=dtype), nhwc(block.outputs, block.hidden, 1, 1, scale=0.1),
            random(block.outputs, dtype=dtype), stride=block.stride, residual=x if block.residual else None, tile=tile,
            input_bound=float(abs(x).max()),
        )  # fmt: skip
        assert np.isfinite(cuda.asnumpy(out)).all(), (block, tile, dtype)
    x, weight, bias = nhwc(2, 24, 5, 3), nhwc(40, 24, 1, 1, scale=0.2), random(40, dtype=dtype)
    pooled = pointwise_pool(x, weight, bias, activation="relu6")
    able = dtype == np.float16 and (cuda.backend() == "simulator" or cuda.compute_capability() == 90)
    tiles = pooled_tiles(Head(15, 24, 40), 2, 1) if able else []
    for tile in tiles:
        assert np.isfinite(cuda.asnumpy(pointwise_pool(x, weight, bias, activation="relu6", tile=tile))).all()
    rows = few_rows(pooled.reshape(2, 40), random(33, 40, dtype=dtype), random(33, dtype=dtype))
    assert np.isfinite(cuda.asnumpy(rows)).all()
    block = Block(7, 7, 32, 192, 32, residual=True)
    layers = [(block, (nhwc(192, 32, 1, 1, scale=0.1), random(192, dtype=dtype), nhwc(192, 1, 3, 3),
               random(192, dtype=dtype), nhwc(32, 192, 1, 1, scale=0.1), random(32, dtype=dtype)))] * 2  # fmt: skip
    layers += [(Head(49, 32, 64), (nhwc(64, 32, 1, 1, scale=0.2), random(64, dtype=dtype))),
               (Linear(64, 33), (random(33, 64, dtype=dtype), random(33, dtype=dtype)))]  # fmt: skip
    whole = persistent.Persistent(nhwc(1, 32, 7, 7), layers)
    whole.launch()
    assert np.isfinite(cuda.asnumpy(whole.output)).all()
    return len(made) + 3 + len(tiles)


def launch_engine() -> int:
    """The reference engine's kernels, and those that a learner's rungs begin as; returns how many launches."""
    paths = [file for file in FILES if file.startswith("kernels/") and engine.reference_parts(file)]
    sources = [(OPERATORS[path[len("kernels/") : -len(".cu")]], engine.reference_text(path)) for path in paths]
    launches = 0
    for operator, source in sources + [(slot.operator, slot.naive) for slot in SLOTS.values()]:
        kernel = cuda.RawKernel(source, operator.name, options=header_options())
        for dims in operator.tried:
            inputs = operator.inputs(dims, drawn)
            there = {name: cuda.asarray(array) for name, array in inputs.items()}
            out, size = cuda.asarray(operator.empty(dims)), launch_lines.size(source, dims)
            cuda.allow_shared(kernel, size.shared)
            kernel(size.grid, size.block, operator.arguments(there, out, dims, RELU6), shared_mem=size.shared)
            want = operator.expected(inputs, dims, RELU6)
            np.testing.assert_allclose(cuda.asnumpy(out), want, rtol=1e-4, atol=1e-4, err_msg=f"{operator.name} {dims}")
            launches += 1
    return launches


def launch_int8() -> int:
    """Every rung of the int8 operators, and the fused block in int8; returns how many launches."""
    launches = 0
    for operator, call in int8_checks.calls(drawn).items():
        arrays = [int8_checks.on_device(array) for array in call.arrays]
        for variant in kernels.variants(operator):
            if kernels.requires(operator, variant) <= cuda.compute_capability():
                got = cuda.asnumpy(call.function(*arrays, variant=variant))
                np.testing.assert_array_equal(got, call.want, err_msg=f"{operator}/{variant}")
                launches += 1
    if cuda.compute_capability() < 80:
        return launches
    for block in (
        Int8Block(7, 7, 24, 96, 40),
        Int8Block(17, 15, 16, 48, 24, 2),
        Int8Block(9, 9, 32, 32, 16, expand=False),
    ):
        parts, x = (
            int8_checks.block_of(drawn, block, 5),
            int8_checks.drawn(drawn, 2, block.channels, block.height, block.width),
        )
        there = [int8_checks.there_of(part) for part in parts]
        out = inverted_residual_int8(int8_checks.nhwc(x), *there, stride=block.stride, input_zero_point=5)
        int8_checks.same(out, int8_checks.modelled(x, parts, block.stride, 5))
        launches += 1
    return launches + launch_sliding_int8() + launch_stage_int8() + launch_head_int8() + launch_persistent_int8()


def launch_persistent_int8() -> int:
    """pointwise_int8's rung of tensor maps, with its kinds of tiles; returns how many launches."""
    if cuda.backend() == "gpu" and cuda.compute_capability() != 90:
        return 0
    names = ("BM", "BN", "TEAMS", "STAGES", "KEEP")
    tiles = ((64, 32, 1, 2, 0), (64, 96, 2, 3, 1), (128, 160, 1, 2, 0))
    for small, numbers in enumerate(tiles):
        x, weight = int8_checks.drawn(drawn, 3, 160, 9, 7), int8_checks.drawn(drawn, 176, 160, 1, 1)
        zero, bias, multiplier = int8_checks.constants(drawn, weight)
        residual, more = int8_checks.drawn(drawn, 3, 176, 9, 7), {"zero_point": zero}
        more |= {"residual_scales": int8.residual_scales((0.9, zero), (1.1, 6), (1.3, -2))}
        given = int8_checks.nhwc(weight), cuda.asarray(bias), cuda.asarray(multiplier)
        out = kernels.pointwise_int8(
            int8_checks.nhwc(x), *given, **more, residual=int8_checks.nhwc(residual), variant="persistent",
            tile=dict(zip(names, numbers, strict=True)), small=small > 0,
        )  # fmt: skip
        int8_checks.same(out, int8.conv2d(x, weight, bias, multiplier, residual=residual, **more))
    return len(tiles)


def launch_sliding_int8() -> int:
    """The block in int8 whose hidden channels slide through registers, in all its forms; returns how many launches.

    And those of single warps, of two warpgroups and of bands.
    """
    cases = (
        (Int8Block(10, 28, 24, 72, 24), Int8Tile(4, 28, 1, 48, 4, 3, chained=True)),
        (Int8Block(9, 17, 16, 32, 40), Int8Tile(4, 14, 1, 32, 2, 4, 2, chained=True, pixel_warps=2)),
        (Int8Block(7, 7, 48, 96, 16), Int8Tile(7, 7, 3, 96, 7, 2, chained=True)),
        (Int8Block(13, 15, 24, 48, 32, 2), Int8Tile(2, 8, 1, 48, 1, 3, chained=True)),
        (Int8Block(14, 14, 40, 64, 24, 2), Int8Tile(7, 7, 2, 32, 7, 2, chained=True)),
        (Int8Block(11, 16, 32, 32, 16, expand=False), Int8Tile(4, 14, 1, 32, 4, 2, chained=True)),
        (Int8Block(9, 14, 3, 24, 8, 1, True, 17, 28), Int8Tile(4, 14, 1, 16, 2, 2, chained=True, pixel_warps=2)),
        (Int8Block(7, 7, 24, 96, 72), Int8Tile(7, 7, 1, 32, 7, 4, 2, chained=True, pixel_warps=2, split=3)),
        (Int8Block(9, 7, 16, 64, 16, 2), Int8Tile(2, 4, 1, 16, 1, 2, chained=True, pixel_warps=2, split=4)),
        (Int8Block(5, 14, 32, 64, 32), Int8Tile(2, 14, 1, 64, 1, 8, 2, chained=True, pixel_warps=2)),
        (Int8Block(7, 7, 24, 40, 24), Int8Tile(2, 7, 1, 16, 1, 1, chained=True, split=3)),
        (Int8Block(4, 4, 16, 96, 8), Int8Tile(1, 4, 1, 16, 1, 1, chained=True, split=6)),
        (Int8Block(9, 28, 24, 48, 24), Int8Tile(4, 14, 1, 16, 4, 3, alone=True)),
        (Int8Block(5, 14, 40, 32, 40), Int8Tile(1, 14, 1, 16, 1, 2, alone=True)),
        (Int8Block(9, 56, 16, 32, 32, 2), Int8Tile(2, 14, 1, 16, 2, 4, alone=True)),
        (Int8Block(9, 14, 3, 32, 16, 1, True, 17, 28), Int8Tile(4, 14, 1, 16, 4, 2, alone=True)),
        (Int8Block(9, 14, 64, 192, 64), Int8Tile(9, 14, slice=64, warpgroups=True)),
        (Int8Block(14, 14, 32, 256, 96, 2), Int8Tile(7, 7, slice=64, warpgroups=True)),
        (Int8Block(8, 56, 24, 48, 24), Int8Tile(4, 56, 2, 48, 4, 5, bands=True)),
        (Int8Block(24, 28, 16, 32, 16), Int8Tile(24, 28, 8, 32, 24, 6, bands=True)),
        (Int8Block(4, 28, 32, 192, 32), Int8Tile(2, 28, 4, 192, 2, 16, bands=True)),
        (Int8Block(8, 112, 16, 96, 24, 2), Int8Tile(2, 56, 4, 96, 2, 16, bands=True)),
        (Int8Block(48, 56, 24, 48, 32, 2), Int8Tile(24, 28, 4, 48, 24, 5, bands=True)),
    )
    if cuda.backend() == "gpu" and cuda.compute_capability() != 90:  # wgmma and setmaxnreg are in sm_90a alone
        cases = tuple((block, tile) for block, tile in cases if not (tile.warpgroups or tile.bands))
    if cuda.backend() == "gpu" and cuda.compute_capability() < 90:  # has no clusters
        cases = tuple((block, tile) for block, tile in cases if tile.split == 1)
    for block, tile in cases:
        full = {"bounds": (-128, 127)}
        parts = [part and dataclasses.replace(part, **full) for part in int8_checks.block_of(drawn, block, 5)]
        size = (block.stem_h, block.stem_w) if block.stem_h else (block.height, block.width)
        x = int8_checks.drawn(drawn, 2, block.channels, *size)
        there = [part and dataclasses.replace(int8_checks.there_of(part), small=True) for part in parts]
        given = {"stride": block.stride, "input_zero_point": 5, "tile": tile}
        residual = int8_checks.drawn(drawn, 2, block.outputs, *block.out_size)
        more = {"residual_scales": int8.residual_scales((0.9, parts[2].zero_point), (1.1, 6), (1.3, -2))}
        out = inverted_residual_int8(int8_checks.nhwc(x), *there, **given, residual=int8_checks.nhwc(residual), **more)
        int8_checks.same(out, int8_checks.modelled(x, parts, block.stride, 5, residual=residual, **more))
        if block.stem_h:  # of a picture of real numbers
            picture = (x.astype(np.float32) - 5) * np.float32(0.03)
            want = int8_checks.modelled(x, parts, block.stride, 5)
            for dtype in (np.float32, np.float16):
                out = inverted_residual_int8(
                    cuda.to_layout(cuda.asarray(picture.astype(dtype)), "NHWC"), *there, **given, scale=0.03
                )
                int8_checks.same(out, want)
    return len(cases) + 2 * sum(block.stem_h > 0 for block, _ in cases)


def launch_stage_int8() -> int:
    """Consecutive blocks in int8 as one kernel, at each width of x and each stride; returns how many launches."""
    if cuda.backend() == "gpu" and cuda.compute_capability() != 90:  # wgmma is in sm_90a alone
        return 0
    cases = (
        ((64, 384, 64, 1), (64, 192, 96, 1), (96, 192, 96, 1), (96, 192, 160, 2)),
        ((32, 192, 32, 1), (32, 192, 32, 1), (32, 192, 32, 1)),
        ((96, 384, 192, 2),),
    )
    for sizes in cases:
        x = wanted = int8_checks.drawn(drawn, 3, sizes[0][0], 14, 14)
        blocks = []
        for size in sizes:
            parts = int8_checks.block_of(drawn, Int8Block(14, 14, *size), 5)
            parts = [dataclasses.replace(part, bounds=(-128, 127)) for part in parts]
            there = [dataclasses.replace(int8_checks.there_of(part), small=True) for part in parts]
            more = {}
            if size[0] == size[2] and size[3] == 1:
                scales = int8.residual_scales((0.9, parts[2].zero_point), (1.1, 5), (1.3, -2))
                more = {"residual_scales": scales}
            blocks.append(StageBlock(*there, **more, stride=size[3]))
            wanted = int8_checks.modelled(wanted, parts, size[3], 5, **({"residual": wanted} if more else {}), **more)
        stage = Stage(blocks, len(x))
        for _ in range(2):
            int8_checks.same(stage_int8(int8_checks.nhwc(x), stage), wanted)
    return 2 * len(cases)


def launch_head_int8() -> int:
    """The end of a network in int8: a 1×1 convolution with its mean, and a linear layer; returns how many launches."""
    tiles = Int8HeadTile(2, 1, 1, 2), Int8HeadTile(1, 2, 4, 2)
    for tile in tiles:
        x, weight = int8_checks.drawn(drawn, 3, 40, 7, 7), int8_checks.drawn(drawn, 48, 40, 1, 1)
        zero, bias, multiplier = int8_checks.constants(drawn, weight)
        codes = int8.conv2d(x, weight, bias, multiplier, zero_point=zero)
        part = Int8Convolution(weight, bias, multiplier, zero, small=True)
        there = dataclasses.replace(int8_checks.there_of(part), small=True)
        out = pointwise_pool_int8(int8_checks.nhwc(x), there, 2.5, tile=tile)
        int8_checks.same(out, int8.global_avg_pool(codes, 2.5, input_zero_point=zero, zero_point=0))
    x, weight = int8_checks.drawn(drawn, 11, 80), int8_checks.drawn(drawn, 24, 80)
    _, bias, multiplier = int8_checks.constants(drawn, weight)
    got = few_rows_int8(*(cuda.asarray(array) for array in (x, weight, bias, multiplier)))
    np.testing.assert_array_equal(cuda.asnumpy(got), int8.scaled(int8.linear_accumulate(x, weight, bias), multiplier))
    return len(tiles) + 1


def launch_all() -> int:
    """Every operator, rung and dtype, and the engine's kernels; returns how many launches."""
    launches = launch_engine() + launch_int8()
    for dtype in (np.float32, np.float16):
        if cuda.compute_capability() >= 80:
            launches += launch_fused(dtype)
        made = cases(dtype)
        if set(made) | set(kernels.INT8_OPERATORS) != set(kernels.OPERATORS):
            raise SystemExit(f"no launch here for {set(kernels.OPERATORS) - set(made)}")
        for operator, calls in made.items():
            for variant in kernels.variants(operator, dtype):
                for call in calls:
                    assert np.isfinite(cuda.asnumpy(call(variant))).all(), (operator, variant, dtype)
                    launches += 1
    source, out = random(1003, dtype=np.float32), cuda.full(1003, np.nan)
    peaks.copy(source, out, blocks=3, loads=4)
    assert (cuda.asnumpy(out) == cuda.asnumpy(source)).all()
    sums = cuda.full(512, np.nan)
    peaks.fma_chains(sums, steps=64)
    np.testing.assert_allclose(cuda.asnumpy(sums), peaks.fma_reference(512, 64), rtol=1e-4)
    cuda.synchronize()
    return launches + 2


if __name__ == "__main__":
    print(f"{launch_all()} launches on the {cuda.backend()}")
