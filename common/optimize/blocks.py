"""An inverted-residual block as one launch."""

import functools
import math
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels import vectors
from ..kernels.ladder import prepared
from . import generate
from .fragments import fragments, pair_fragments, part_fragments
from .generate import WARPGROUP_SLICE, Block, Geometry, Tile, WarpgroupSizes
from .split_weights import in_taps, scales, split_weights
from .tiles import chosen, rule


@cuda.operator
def inverted_residual(
    x: Any,
    expand: Any,
    expand_bias: Any,
    depthwise: Any,
    depthwise_bias: Any,
    project: Any,
    project_bias: Any = None,
    *,
    stride: int = 1,
    residual: Any = None,
    activations: tuple[Any, Any, Any] = ("relu6", "relu6", None),
    out: Any = None,
    tile: Tile | None = None,
    input_bound: float | None = None,
    programmatic: bool = False,
) -> Any:
    """out = project(depthwise(expand(x))) + residual, MobileNetV2's block, in one kernel. Requires sm_80.

    x             (N, C, H, W), NHWC
    expand        (hidden, C, 1, 1); or (hidden, 3, 3, 3), a stem of stride 2 and padding 1; or None: x is the input of
                  the depthwise convolution
    depthwise     (hidden, 1, 3, 3), padding 1
    project       (O, hidden, 1, 1)
    …_bias        (hidden,), (hidden,), (O,), or None
    stride        1 or 2, of the depthwise convolution
    residual      of the shape and layout of out, or None
    activations   after each of the three convolutions, as in pointwise; the residual is added before the last one
    out           (N, O, OH, OW), NHWC; None: a new array
    tile          default: `tiles.chosen`, else `tiles.rule`; none of single warps or of rows, for which the host puts
                  the weights in order at each call (networks do it once)
    input_bound   for a tile of arithmetic "halves", if expand is 1×1: no element of x is larger in magnitude. What is
                  computed from larger ones may be NaN. A stem needs none: each tile measures what it reads
    programmatic  programmatic dependent launch: the kernel may start before the previous one on the stream has ended,
                  and waits before it reads that one's results (common/kernels/include/grid.h)

    float32 (each product as three TF32 products, or as three products of halves with a tile of arithmetic "halves":
    fp32 accuracy) or float16, accumulated in float32. Channels and hidden channels must be multiples of 16 bytes, of 8
    elements with "halves", O of 4 elements. With "halves", expand and project are split when this is called: a launch
    that is recorded keeps their values. Returns out.
    A tile with warpgroups, of single warps or of rows needs arrays that begin at multiples of 16 bytes; of single warps
    and of rows, the weights are put in order when this is called, and a recorded launch keeps their values.
    ValueError and TypeError name the argument that does not fit; ValueError if no tile fits the card.
    """
    allowed = ("NHWC",)
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=allowed).shape
    hidden = checks.array("depthwise", depthwise, (None, 1, 3, 3), like=x).shape[0]
    o = checks.array("project", project, (None, hidden, 1, 1), like=x).shape[0]
    kind, image = "none", (0, 0)
    if expand is None:
        if hidden != c:
            raise ValueError(f"depthwise must have shape ({c}, 1, 3, 3) as x has {c} channels, got {depthwise.shape}")
    elif tuple(expand.shape[2:]) == (3, 3):
        checks.array("expand", expand, (hidden, 3, 3, 3), like=x, allowed=allowed)
        checks.array("x", x, (None, 3, None, None), allowed=allowed)
        kind, image = "stem", (h, w)
        h, w = (h - 1) // 2 + 1, (w - 1) // 2 + 1
    else:
        checks.array("expand", expand, (hidden, c, 1, 1), like=x)
        kind = "pointwise"
    for name, bias, size in (
        ("expand_bias", expand_bias, hidden), ("depthwise_bias", depthwise_bias, hidden),
        ("project_bias", project_bias, o),
    ):  # fmt: skip
        if bias is not None:
            checks.array(name, bias, (size,), like=x)
    bounds = tuple(tuple(map(float, checks.bounds(activation))) for activation in activations)
    block = Block(h, w, c, hidden, o, stride, kind, image, bounds, residual is not None)  # type: ignore[arg-type]
    shape = (n, o, *block.out_size)
    if residual is not None:
        checks.array("residual", residual, shape, like=x, allowed=allowed)
    out = checks.output(out, shape, like=x, layout="NHWC")
    checks.apart(
        out, x=x, expand=expand, expand_bias=expand_bias, depthwise=depthwise, depthwise_bias=depthwise_bias,
        project=project, project_bias=project_bias, residual=residual,
    )  # fmt: skip
    dtype = np.dtype(x.dtype).name
    adds_x = residual is None or vectors.address(residual) == vectors.address(x)
    if tile is None:
        tile = chosen(block, n, dtype)
        if tile is None or tile.orders_weights or (tile.warpgroups and not adds_x):
            tile = rule(block, n, x.dtype.itemsize)
        if tile is None:
            raise ValueError(f"inverted_residual {block}: no tile of it is possible for {dtype} on this card")
    geometry = Geometry(block, tile, x.dtype.itemsize)
    if problem := geometry.problem(cuda.shared_memory()):
        raise ValueError(f"inverted_residual {block}: {problem}")
    further: tuple[Any, ...] = ()
    if geometry.halves and not tile.alone:
        expand, project, further = _halves(block, expand, project, input_bound)
    kind = tile.kind
    if kind and not adds_x:
        raise ValueError(f"inverted_residual {block}: {kind} add no residual but x")
    variant = "alone" if tile.alone else "rows" if tile.rows else "warpgroups" if tile.warpgroups else ""
    variant = variant or ("cluster" if tile.split > 1 else "fused")
    text = generate.source(block, tile, dtype, block.adds_input and adds_x)
    build = functools.partial(generate.compiled, text, generate.KERNEL)
    kernel = prepared(f"{generate.KERNEL}/{variant}", build, programmatic)
    cuda.allow_shared(kernel, geometry.shared)
    arrays = (x, expand, expand_bias, depthwise, depthwise_bias, project, project_bias, residual, out)
    stored = tuple(array if array is None else layouts.as_stored(array) for array in arrays)
    if geometry.warpgroups is not None:
        stored = _of_warpgroups(geometry.warpgroups, block, *stored)
    elif tile.orders_weights:
        if vectors.vector_width(stored[0], stored[-1]) * x.dtype.itemsize < 16:
            raise ValueError(f"inverted_residual {block}: x and out must begin at a multiple of 16 bytes, {kind}")
        if tile.rows:
            words = part_fragments(block, tile, *stored[1:7])
        elif geometry.halves:
            words, further = pair_fragments(block, _finite(input_bound), *stored[1:7])
        else:
            words = fragments(block, *stored[1:7], streams=tile.streams)
        stored = (stored[0], words, stored[-1])
    grid = geometry.grid(n, cuda.multiprocessors())
    kernel((grid,), (32 * tile.warps,), (*stored, n, *further), shared_mem=geometry.shared)
    return out


def _of_warpgroups(
    sizes: WarpgroupSizes, block: Block, x: Any, expand: Any, expand_bias: Any, depthwise: Any, depthwise_bias: Any,
    project: Any, project_bias: Any, _: Any, out: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The arguments of a tile with warpgroups, but the last. ValueError for what bulk copies cannot read."""
    read = [x, expand, expand_bias, depthwise, depthwise_bias, project, project_bias, out]
    if vectors.vector_width(*(array for array in read if array is not None)) < 8:
        raise ValueError(f"inverted_residual {block}: with warpgroups each array must begin at a multiple of 16 bytes")
    boxes = (
        (x.reshape(-1, block.channels), sizes.pixels_in), (expand.reshape(block.hidden, -1), WARPGROUP_SLICE),
        (project.reshape(block.outputs, -1), sizes.box),
    )  # fmt: skip
    maps = (cuda.TensorMap(matrix, (rows, WARPGROUP_SLICE)) for matrix, rows in boxes)
    return *maps, expand_bias, depthwise, depthwise_bias, project_bias, out


def _halves(block: Block, expand: Any, project: Any, input_bound: float | None) -> tuple[Any, Any, tuple[Any, ...]]:
    """expand and project as pairs of halves, and the scales. ValueError without a bound on what expand reads."""
    expand_scale = 1.0
    if block.expand == "stem":
        expand, expand_scale = split_weights(in_taps(expand))
        input_bound = 0.0  # it measures
    elif expand is not None:
        input_bound = _finite(input_bound)
        expand, expand_scale = split_weights(expand)
    project, project_scale = split_weights(project)
    return expand, project, scales(block, input_bound or 0.0, expand_scale, project_scale)


def _finite(input_bound: float | None) -> float:
    """The bound. ValueError if there is none."""
    if input_bound is None or not 0 <= input_bound < math.inf:
        raise ValueError(
            "input_bound must be a finite magnitude that no element of x exceeds, for a tile of arithmetic"
            f' "halves", got {input_bound}'
        )
    return input_bound
