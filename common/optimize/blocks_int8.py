"""An inverted-residual block in int8 as one launch: inverted_residual_int8.cu."""

import functools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels import int8, vectors
from ..kernels import int8_arguments as arguments
from ..kernels.int8 import HIGH, LOW
from ..kernels.ladder import ELEMENT_TYPES, header_options, prepared
from ..kernels.one_step import HALF, MAGIC, MIDDLE, one_step, two_steps
from ..kernels.one_step import UNIT as UNIT_OF_CODES
from .features import missing
from .generate import SM_90A, architecture
from .tiles_int8 import GROUPS_SLICE, Int8Block, Int8Tile, output_group, row_bytes, rule

KERNEL, SLIDING, ALONE, STEM = "inverted_residual_int8", "sliding_int8", "alone_int8", "stem_int8"
WARPGROUPS, BANDS = "warpgroups_int8", "bands_int8"
NAMES = {"fused": KERNEL, "sliding": SLIDING, "alone": ALONE, "warpgroups": WARPGROUPS, "bands": BANDS}
SOURCE = Path(__file__).with_name(f"{KERNEL}.cu")
PLANE = 16  # channels that a warp of sliding_int8 takes, all of one kind of requantization
FOUR = 4  # the same of stem_int8
EIGHT = 8  # channels of a slice of warpgroups_int8 that a warp convolves
UNIT = 8  # channels are multiples of it
REAL = (np.dtype(np.float32), np.dtype(np.float16))  # of an image that the stem's block quantizes


@dataclass(frozen=True)
class Int8Convolution:
    """One of the block's convolutions.

    weight: (O, C/groups, kH, kW) int8; bias: (O,) int32 with the zero point of its input folded in, or None;
    multiplier: (O,) float32; zero_point, bounds (low, high): of its output. As of kernels.pointwise_int8.
    small: whether int8.small_sums holds for it: fewer instructions per output.
    """

    weight: Any
    bias: Any
    multiplier: Any
    zero_point: int = 0
    bounds: tuple[int, int] = (LOW, HIGH)
    small: bool = False


class Slid:
    """The weights of a block as sliding_int8.cu, alone_int8.cu and stem_int8.cu take them.

    slow: how many hidden channels are requantized in two steps (kernels/one_step.py).
    slow_of_stem: what stem_int8.cu has as SLOW, hidden channels by fours; slow_outputs: outputs that take two steps, as
    SLOW_OUTPUTS of stem_int8.cu, bits, once `alone` or `stem` was called.
    """

    def __init__(
        self, expand: Int8Convolution | None, depthwise: Int8Convolution, project: Int8Convolution, stride: int
    ) -> None:
        """ValueError where the kernel cannot compute the block: a sum is not small, or a hidden tensor is clamped."""
        parts = [part for part in (expand, depthwise) if part is not None]
        if not all(map(_small, parts)):
            raise ValueError(f"{SLIDING}: takes small sums of hidden tensors that fill int8")
        host = [tuple(map(_on_host, (part.weight, part.bias, part.multiplier))) for part in parts]
        given = [(*host[i], part.zero_point, i > 0) for i, part in enumerate(parts)]
        made = [one_step(*one) for one in given]
        right = np.logical_and.reduce([ok for _, ok in made])
        hidden = len(right)
        # channels that take two steps come last; without expand they stay where x has them
        order = np.arange(hidden) if expand is None else np.argsort(~right, kind="stable")
        both = [(one[:, order], two_steps(*arrays)[:, order]) for (one, _), arrays in zip(made, given, strict=True)]

        def ends_by(size: int) -> tuple[Any, Any]:
            """Where all of so many neighbouring channels take one step; their ends."""
            groups = np.pad(right[order], (0, -hidden % size), constant_values=True).reshape(-1, size).all(axis=1)
            fast = np.repeat(groups, size)[:hidden]
            ends = [np.where(fast, one, two) for one, two in both]
            return fast, np.concatenate(ends if len(ends) == 2 else [np.zeros_like(ends[0]), *ends]).astype(np.int32)

        fast, self._ends = ends_by(PLANE)
        self.slow = int((~fast).sum())
        fast, self._ends_of_fours = ends_by(FOUR)
        self.slow_of_stem = int((~fast).sum()) // FOUR
        self._hidden_zero = parts[0].zero_point
        self.slow_outputs = 0  # known when they are put in order
        self._expand = None if expand is None else _deep(host[0][0])[order]
        self._stem: Any = None
        # under taps 0 and 1 of a row lie bytes 0 and 2 of a register, or 1 and 3; the third tap is beside a zero
        taps = host[-1][0].reshape(hidden, 3, 3)[order].view(np.uint8).astype(np.uint32)
        pairs = np.stack([taps[..., 0] | taps[..., 1] << 16, taps[..., 2] << (16 if stride == 1 else 0)], axis=-1)
        self._shifts = (8 * (np.arange(hidden) % 2)).astype(np.uint32)[:, None, None]
        self._taps = pairs << self._shifts
        self._bytes_of_taps = taps
        weight, bias, _ = map(_on_host, (project.weight, project.bias, project.multiplier))
        flat = weight.reshape(len(weight), -1)
        self._project, self._end = flat[:, order], project
        of_codes = LOW * flat.sum(axis=1, dtype=np.int64)
        self.project_bias = cuda.asarray((of_codes if bias is None else of_codes + bias).astype(np.int32))
        self._stages: dict[int, Any] = {}
        self._alone: Any = None
        self._bands: Any = None
        self._stride = stride
        self._groups: Any = None

    def groups(self) -> tuple[Any, Any]:
        """What warpgroups_int8.cu takes as slices and pairs, on the device."""
        if self._groups is None:
            assert self._expand is not None
            (hidden, channels), outputs = self._expand.shape, len(self._project)
            slices, pairs = hidden // GROUPS_SLICE, -(-hidden // (2 * GROUPS_SLICE))

            def columns(count: int) -> Any:
                """The channel of each column of a product of so many."""
                return np.concatenate([_outputs_of(eight, count) for eight in range(count // EIGHT)])

            def of_eights(array: Any) -> Any:
                """What each eight hidden channels have, (hidden / 8, …) words, by pairs of slices, as bytes."""
                rows = np.ascontiguousarray(array).reshape(hidden // EIGHT, -1)
                rows = np.pad(rows, ((0, pairs * 16 - len(rows)), (0, 0)))
                return rows.reshape(pairs, -1).view(np.uint8)

            ends = self._ends.copy()
            ends[2::3] = _crossed(ends[2::3])
            expand = np.zeros((slices, GROUPS_SLICE, 128), np.int8)
            expand[..., :channels] = self._expand.reshape(slices, GROUPS_SLICE, channels)[:, columns(GROUPS_SLICE)]
            of_slices = np.zeros((slices, GROUPS_SLICE * 128 + 1024), np.uint8)
            of_slices[:, :-1024] = _swizzled(expand)
            of_expand = ends[:3].reshape(3, slices, GROUPS_SLICE).transpose(1, 0, 2)
            of_slices[:, -1024:-256] = np.ascontiguousarray(of_expand).reshape(slices, -1).view(np.uint8)

            project = np.pad(self._project, ((0, 0), (0, pairs * 128 - hidden)))[columns(outputs)]
            project = _swizzled(project.reshape(outputs, pairs, 128).transpose(1, 0, 2))
            # a lane's words of a row of taps, for outputs 2m and 2m + 1, by the pixels that are under them
            places = (8 * (np.arange(hidden) % 4)).astype(np.uint32)
            t0, t1, t2 = np.moveaxis(self._bytes_of_taps << places[:, None, None], 2, 0)
            words = np.array([[t0, t2, np.zeros_like(t0), t1], [t1, np.zeros_like(t0), t0, t2]])
            taps = words.reshape(2, 4, hidden // EIGHT, EIGHT, 3).transpose(2, 4, 0, 3, 1)
            begin, multiplier, offset = (end.reshape(-1, EIGHT) for end in ends[3:])
            begin = np.tile(begin.reshape(-1, 4, 1, 2), (1, 1, 2, 1)).reshape(-1, 2 * EIGHT)
            of_depthwise = np.concatenate([begin, multiplier, offset], axis=1)
            of_pairs = np.concatenate([project, of_eights(taps), of_eights(of_depthwise)], axis=1)
            self._groups = cuda.asarray(of_slices.view(np.int8)), cuda.asarray(of_pairs.view(np.int8))
        return self._groups

    def alone(self) -> Any:
        """What alone_int8.cu takes as `weights`, on the device; ValueError if a sum of project is not small."""
        if self._alone is None:
            given = self._expand, self._taps, self._project, self._ends, self._beside()
            planes = [self._plane(first, *given) for first in self._firsts(PLANE)]
            self._alone = cuda.asarray(np.concatenate([*planes, self._ends_of_project()]))
        return self._alone

    def bands(self) -> Any:
        """What bands_int8.cu takes as `weights`, on the device; ValueError if a sum of project is not small."""
        if self._bands is None:
            t0, t1, t2 = np.moveaxis(self._bytes_of_taps, 2, 0)
            words = [t0 | t1 << 16, t2, t0 << 16, t1 | t2 << 16][: 4 if self._stride == 1 else 2]
            taps = np.stack(words, axis=-1) << self._shifts
            given = self._expand, taps, self._project[:0], self._ends, self._beside()
            planes = [self._plane(first, *given) for first in self._firsts(PLANE)]
            outputs, hidden = self._project.shape
            project = np.pad(self._project, ((0, 0), (0, -hidden % 32)))
            g, t, e = (part.reshape(32, -1)[:, :4] for part in np.broadcast_arrays(*np.ogrid[:8, :4, :4]))
            made = [
                _bytes(project[_outputs_of(eight, outputs)[g], k + 4 * t + e])
                for step in range(0, hidden, 32) for eight in range(outputs // 8) for k in (step, step + 16)
            ]  # fmt: skip
            of_project = np.stack(made).reshape(-1, 2, 32).transpose(0, 2, 1).ravel()
            self._bands = cuda.asarray(np.concatenate([*planes, of_project, self._ends_of_project()]))
        return self._bands

    def stem(self) -> Any:
        """What stem_int8.cu takes as `weights`, on the device; ValueError if a sum of project is not small.

        A lane t has one of four neighbouring channels, as they are in order; they are requantized alike.
        """
        if self._stem is None:
            assert self._expand is not None
            hidden = len(self._expand)
            # channel 4t + i of 16, as alone_int8.cu has them, is the one of lane t of the i-th four
            places = np.arange(hidden).reshape(-1, 4, FOUR).transpose(0, 2, 1).ravel()
            deep = self._expand.reshape(hidden, 3, 4, 4)[:, :, :3, :3].reshape(hidden, 3, 9)
            expand = np.zeros((hidden, 32), np.int8)
            expand[:, :12], expand[:, 16:28] = deep[..., 1:5].reshape(hidden, -1), deep[..., 5:].reshape(hidden, -1)
            expand[:, 12:15] = deep[..., 0]
            ends = self._ends_of_fours.copy()
            ends[0] += LOW * deep.sum(axis=(1, 2), dtype=np.int32)  # the picture's codes are codes + 128
            taps = (self._taps >> self._shifts)[places] << self._shifts
            given = expand[places], taps, self._project[:, places], ends[:, places]
            planes = [self._plane(first, *given) for first in self._firsts(PLANE)]
            self._stem = cuda.asarray(np.concatenate([*planes, self._ends_of_project(FOUR)]))
        return self._stem

    def _beside(self) -> Any:
        """(hidden,) int32: where sums of expand begin beside the image: what gives the code of its zero point."""
        multiplier, offset = (end.view(np.float32).astype(np.float64) for end in self._ends[1:3])
        one_step = multiplier < 1
        steps = np.where(one_step, multiplier * 2.0**UNIT_OF_CODES, 1)
        code = self._hidden_zero - LOW - offset * 2.0**149
        sums = np.where(one_step, np.rint(code / steps), MIDDLE)
        assert (np.abs(sums - MIDDLE) < HALF).all()
        return (MAGIC - MIDDLE + sums).astype(np.int32)

    def _plane(self, first: int, weight: Any, taps: Any, project: Any, ends: Any, beside: Any = None) -> Any:
        """The words of PLANE hidden channels: of each lane, four at a time, then ends of lanes with the same t.

        beside: alone_int8.cu's, where sums of expand begin beside the image.
        """
        g, t, e = (part.reshape(32, -1)[:, :4] for part in np.broadcast_arrays(*np.ogrid[:8, :4, :4]))
        deep = weight.shape[1]
        expand = np.pad(weight, ((0, 0), (0, -deep % 32)))
        of_half = [first + 4 * (g // 2) + 2 * half + g % 2 for half in range(2)]  # column g of a product
        words = [
            _bytes(expand[of_half[half], k + 4 * t + e])
            for step in range(0, deep, 32) for half in range(2) for k in range(step, min(step + 32, deep), 16)
        ]  # fmt: skip
        on_diagonal = g[:, 0] // 2 == t[:, 0]
        words += [
            np.where(on_diagonal, taps[of_half[half][:, 0], ky, i], 0)
            for two in range(0, taps.shape[2], 2) for half in range(2) for ky in range(3) for i in (two, two + 1)
        ]  # fmt: skip
        outputs = len(project)
        for eight in range(outputs // 8):
            words.append(_bytes(project[_outputs_of(eight, outputs)[g], first + 4 * t + e]))
        some = ends[:, first : first + PLANE]
        halves = some.reshape(6, 4, 2, 1, 2)  # [end][t][half][twice][channel]
        of_lanes = [
            part
            for i in (0, 3)
            for part in (
                *(np.tile(halves[i, :, half], (1, 2, 1)) for half in range(2)),
                some[i + 1],
                _crossed(some[i + 2]),
            )
        ]
        if beside is not None:
            of_sides = beside[first : first + PLANE].reshape(4, 2, 1, 2)
            of_lanes += [np.tile(of_sides[:, half], (1, 2, 1)) for half in range(2)]
        return np.concatenate([_by_fours(words), *map(_words, of_lanes)])

    def _ends_of_project(self, apart: int = 1) -> Any:
        """apart: outputs of 16 end alike if their numbers are the same modulo `apart`."""
        part = self._end
        if not part.small:
            raise ValueError(f"{ALONE}: takes small sums of project")
        weight, bias, multiplier = map(_on_host, (part.weight, part.bias, part.multiplier))
        given = weight.reshape(len(weight), -1), bias, multiplier, part.zero_point, True
        made, right = one_step(*given)
        i = np.arange(len(right))
        groups = i // PLANE * apart + i % apart  # which end alike
        self.slow_outputs = int(sum(1 << j for j in range(apart) if not right[i % apart == j].all()))
        fast = np.array([right[groups == group].all() for group in groups])
        ends = np.where(fast, made, two_steps(*given)).astype(np.int32)
        # sums of two outputs of a lane begin at them, twice: of pixels 2g and 2g + 1
        begins = [
            np.tile(ends[0][_outputs_of(eight, len(right))].reshape(4, 1, 2), (1, 2, 1))
            for eight in range(len(right) // 8)
        ]
        return np.concatenate([*map(_words, begins), _words(ends[1]), _words(_crossed(ends[2]))])

    def stages(self, size: int) -> Any:
        """The bytes of all stages with slices of so many hidden channels, on the device."""
        if size not in self._stages:
            self._stages[size] = cuda.asarray(np.concatenate([self._stage(i, size) for i in self._firsts(size)]))
        return self._stages[size]

    def _firsts(self, size: int) -> range:
        return range(0, self._project.shape[1], size)

    def tiled_stages(self, size: int) -> Any:
        """The same on the host as stage_int8.cu takes them: project in tiles of 128 hidden channels."""
        return np.concatenate([self._stage(i, size, tiled=True) for i in self._firsts(size)])

    def _stage(self, first: int, size: int, tiled: bool = False) -> Any:
        """The bytes of a stage, see sliding_int8.cu; tiled: as stage_int8.cu has project."""
        some = slice(first, first + size)

        def rows(array: Any, count: int, width: int) -> Any:
            """An array in the corner of one of zeros, as bytes."""
            made = np.zeros((count, width), array.dtype)
            made[: array.shape[0], : array.shape[1]] = array
            return made.view(np.uint8).ravel()

        project = np.zeros((self._project.shape[0], size), np.int8)
        project[:, : self._project[:, some].shape[1]] = self._project[:, some]
        project = self._outputs_side_by_side(project)
        made = [] if self._expand is None else [rows(self._expand[some], size, row_bytes(self._expand.shape[1]))]
        ends = self._ends[:, some].copy()
        ends[2::3] = _crossed(ends[2::3])
        made += [rows(ends, 6, size), rows(self._taps[some].reshape(-1, 6), size, 6)]
        if tiled:
            project = np.pad(project, ((0, 0), (0, -size % 128))).reshape(len(project), -1, 128)
            return np.concatenate([*made, _swizzled(project.transpose(1, 0, 2)).ravel()]).view(np.int8)
        return np.concatenate([*made, rows(project, len(project), row_bytes(size))]).view(np.int8)

    @staticmethod
    def _outputs_side_by_side(project: Any) -> Any:
        """Rows of project in the order of a product's columns, filled up to whole groups with zeros.

        A thread's sums of a group are of neighbours: outputs 2t and 2t + 1 of 8 go beside those of the other eights.
        """
        group = output_group(len(project))
        project = np.pad(project, ((0, -len(project) % group), (0, 0)))
        o = np.arange(len(project))
        return project[o // group * group + o % 8 // 2 * (group // 4) + o % group // 8 * 2 + o % 2]


def _swizzled(rows: Any) -> Any:
    """Tiles (…, rows, 128) of int8 as wgmma reads them, as bytes: the 16-byte pieces of row r exchanged by an XOR."""
    *many, count, _ = rows.shape
    piece = np.arange(8) ^ np.arange(count)[:, None] % 8  # where a piece of a row lies is where it comes from
    there = np.take_along_axis(rows.reshape(*many, count, 8, 16), piece.reshape(*[1] * len(many), count, 8, 1), axis=-2)
    return np.ascontiguousarray(there).reshape(*many, -1).view(np.uint8)


def _outputs_of(eight: int, outputs: int) -> Any:
    """The output channels of the eight columns of a product of alone_int8.cu: of each 16 channels a lane has four."""
    column, pair = np.arange(8), eight // 2 * 16
    return pair + (column // 2 * 4 + eight % 2 * 2 + column % 2 if pair + 8 < outputs else column)


def _crossed(offsets: Any) -> Any:
    """Offsets of pairs of neighbours, the second one's first: see alone_int8.cu."""
    return offsets.reshape(*offsets.shape[:-1], -1, 2)[..., ::-1].reshape(offsets.shape)


def _by_fours(words: Any) -> Any:
    """Words of the 32 lanes, (words, 32), so that a lane has four of its own at a time."""
    made = np.zeros((-(-len(words) // 4) * 4, 32), np.uint32)
    made[: len(words)] = words
    return made.reshape(-1, 4, 32).transpose(0, 2, 1).ravel()


def _words(array: Any) -> Any:
    """int32 numbers as words."""
    return np.ascontiguousarray(array, np.int32).view(np.uint32).ravel()


def _bytes(array: Any) -> Any:
    """The four bytes of each row of an int8 array (lanes, 4) as a word."""
    return np.ascontiguousarray(array.astype(np.int8)).view(np.uint32).ravel()


def _deep(weight: Any) -> Any:
    """expand's weights as rows of bytes: of a stem (hidden, 3, 3, 3) as (hidden, 3 rows, 4 columns, 4 channels)."""
    if weight.shape[2:] == (3, 3):
        weight = np.pad(weight.transpose(0, 2, 3, 1), ((0, 0), (0, 0), (0, 1), (0, 1)))
    return weight.reshape(len(weight), -1)


def _on_host(array: Any) -> Any:
    return None if array is None else np.ascontiguousarray(cuda.asnumpy(array))


def inverted_residual_int8(
    x: Any,
    expand: Int8Convolution | None,
    depthwise: Int8Convolution,
    project: Int8Convolution,
    *,
    stride: int = 1,
    input_zero_point: int = 0,
    residual: Any = None,
    residual_scales: Any = None,
    residual_offset: int = 0,
    residual_first: bool = False,
    out: Any = None,
    tile: Int8Tile | None = None,
    slid: Slid | None = None,
    scale: float | None = None,
    programmatic: bool = False,
) -> Any:
    """out = project(depthwise(expand(x))), each requantized as a kernel of its own would, + residual: one kernel.

    x: (N, C, H, W), residual and out: (N, O, OH, OW), int8, NHWC, NumPy or CuPy arrays. expand: 1×1, (hidden, C, 1, 1),
    a stem of stride 2 and padding 1, (hidden, 3, 3, 3), or None;
    depthwise: 3×3 of padding 1 and stride 1 or 2, (hidden, 1, 3, 3); project: 1×1, (O, hidden, 1, 1).
    input_zero_point: of x, which pads a block without expand. residual, …: as of pointwise_int8.
    tile: default `rule`; of a stem one that `slides`. slid: Slid of the convolutions, for a tile that `slides`;
    default: it is made here.
    Requires sm_80. scale: of a stem's x that has real numbers, float32 or float16, which become codes as by
    kernels.quantize with input_zero_point; it must be one that `divides` takes, and `factors` for a tile of single
    warps. programmatic: as in inverted_residual.
    C, hidden and O must be multiples of 8.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout or option is
    invalid, if no tile fits the card, or if the tile slides and Slid refuses.
    """
    if scale is None:
        n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    else:
        n, c, h, w = checks.array("x", x, (None, 3, None, None), allowed=("NHWC",), dtypes=REAL).shape
    hidden = checks.array("depthwise.weight", depthwise.weight, (None, 1, 3, 3), dtypes=arguments.INT8).shape[0]
    o = checks.array("project.weight", project.weight, (None, hidden, 1, 1), dtypes=arguments.INT8).shape[0]
    stem = expand is not None and expand.weight.shape[2:] == (3, 3)
    if stem:
        checks.array("expand.weight", expand.weight, (hidden, 3, 3, 3), allowed=("NCHW", "NHWC"), dtypes=arguments.INT8)  # type: ignore[union-attr]
        if stride != 1 or w % 4:
            raise ValueError(
                f"a stem's block has stride 1 and images of 4·n columns, got stride {stride} and {w} columns"
            )
        image, h, w = (h, w), (h - 1) // 2 + 1, (w - 1) // 2 + 1
    elif expand is not None:
        checks.array("expand.weight", expand.weight, (hidden, c, 1, 1), dtypes=arguments.INT8)
    elif hidden != c:
        raise ValueError(
            f"depthwise.weight must have shape ({c}, 1, 3, 3) without expand, got {depthwise.weight.shape}"
        )
    if stride not in (1, 2):
        raise ValueError(f"stride must be 1 or 2, got {stride!r}")
    if (c % UNIT and not stem) or hidden % UNIT or o % UNIT:
        raise ValueError(f"channels must be multiples of {UNIT}, got {c} > {hidden} > {o}")
    block = Int8Block(h, w, c, hidden, o, stride, expand is not None, *(image if stem else ()))
    shape = (n, o, *block.out_size)
    ends = [
        arguments.Epilogue(
            part.weight.shape[0], part.weight[0].size, part.bias, part.multiplier, part.zero_point, part.bounds, shape,
            *((residual, residual_scales, residual_offset, residual_first) if part is project else (None, None)),
        )
        for part in (expand, depthwise, project)
        if part is not None
    ]  # fmt: skip
    zero = arguments.int8_number("input_zero_point", input_zero_point)
    real = (np.float32(0),) * 3
    if scale is not None:
        if not stem or not divides(scale):
            raise ValueError(f"scale must be None, or one of a stem's input that `divides` takes, got {scale!r}")
        real = np.float32(scale), np.float32(1) / np.float32(scale), np.float32(512) * np.float32(scale)
    out = layouts.empty(shape, np.dtype(np.int8), "NHWC") if out is None else arguments.nhwc("out", out, shape)
    checks.apart(out, x=x, residual=residual)
    if tile is None:
        tile = rule(block, n, chained=stem)
    if stem and tile is not None and not tile.slides:
        raise ValueError(f"{KERNEL}: a stem's block needs a chained tile or single warps, got {tile}")
    if tile is not None and (problem := block.problem(tile)):
        raise ValueError(f"{KERNEL}: {problem}")
    inverse = factors(scale, np.dtype(x.dtype)) if scale is not None else real[:2]
    if tile is not None and tile.alone and inverse is None:
        raise ValueError(f"{STEM}: scale must be one that `factors` takes, got {scale!r}")
    if tile is not None and tile.split > 1 and missing("clusters") and cuda.backend() == "gpu":
        raise ValueError(f"{KERNEL}: a tile with split {tile.split} {missing('clusters')}")
    another = cuda.backend() == "gpu" and cuda.compute_capability() != 90
    if tile is not None and (tile.warpgroups or tile.bands) and another:
        kernel = f"{WARPGROUPS}: wgmma" if tile.warpgroups else f"{BANDS}: setmaxnreg"
        raise ValueError(f"{kernel} is in sm_90 alone, this card is sm_{cuda.compute_capability()}")
    if tile is None or block.shared(tile) > cuda.shared_memory():
        raise ValueError(f"{KERNEL}: no tile of {block} fits into {cuda.shared_memory()} bytes of shared memory")

    weights = [part.weight for part in (expand, depthwise, project) if part is not None]
    parameters = [array for end in ends for array in (end.bias, end.multiplier) if array is not None]
    moved = [x, out, *weights, *([] if residual is None else [residual])]
    if any(vectors.address(a) % vectors.WIDEST for a in (*parameters, *moved)):
        raise ValueError(f"{KERNEL}: all arrays must begin at multiples of {vectors.WIDEST} bytes")
    first = [None] * 3 if expand is None else [layouts.as_stored(expand.weight), ends[0].bias, ends[0].multiplier]
    rest = [v for part, end in zip((depthwise, project), ends[-2:], strict=True)
            for v in (layouts.as_stored(part.weight), end.bias, end.multiplier)]  # fmt: skip
    hidden_end = ends[0].numbers[:3] if expand is not None else (zero, LOW, HIGH)
    stored = [array if array is None else layouts.as_stored(array) for array in (residual, out)]
    small = [_small(part) for part in (expand, depthwise)] + [small_project(project, residual is not None)]
    kind = tile.kind
    name = STEM if stem and tile.alone else NAMES[kind]
    if not suits(tile, project, residual is not None):
        raise ValueError(f"{name}: takes small sums of project that fill int8")
    last, numbers_of_y = ends[-1].ends_as(small[2])
    defines = last | dict(zip(("SMALL_EXPAND", "SMALL_DEPTHWISE", "SMALL_PROJECT"), small, strict=True))
    switches = tuple(f"-D{name}={value}" for name, value in defines.items())
    if tile.slides:
        slid = Slid(expand, depthwise, project, stride) if slid is None else slid
        by_step = (expand, depthwise, project) if tile.small_project else (expand, depthwise)
        odd = any(part.zero_point % 2 for part in by_step if part is not None)
        switches += (f"-DODD={int(odd)}", f"-DRESIDUAL={int(residual is not None)}")
        switches += () if scale is None else (f"-Dimage_t={ELEMENT_TYPES[np.dtype(x.dtype)]}",)
        hidden_zero = zero if expand is None else hidden_end[0] - LOW
        if name == BANDS:
            hidden_zero = np.array((hidden_zero & 255) * 0x01010101, np.uint32).view(np.int32).item()
        zeros: tuple[int, ...] = (hidden_zero,) if name in (ALONE, WARPGROUPS, BANDS) else (zero, hidden_zero)
        numbers = (n, *zeros, *numbers_of_y)
        if name == STEM:
            weights, numbers = [slid.stem()], (*numbers, *(inverse or ()))
            more = {"SLOW": slid.slow_of_stem, "SLOW_OUTPUTS": slid.slow_outputs, "ODD_PICTURE": zero % 2}
            more["FACTORS"] = 2 if inverse and inverse[1] else 1
            switches += tuple(f"-D{key}={value}" for key, value in more.items())
        elif name in (ALONE, BANDS):
            weights = [slid.alone() if name == ALONE else slid.bands()]
            switches += (f"-DONE_STEP={int(slid.slow == slid.slow_outputs == 0)}",)
        else:
            given = list(slid.groups()) if name == WARPGROUPS else [slid.stages(tile.slice)]
            weights = [*given, slid.project_bias, ends[-1].multiplier]
            numbers += () if name == WARPGROUPS else real
            switches += (f"-DONE_STEP={int(slid.slow == 0)}",)
            if name == SLIDING:
                switches += (f"-DADDS_X={int(residual is x)}",)
    else:
        weights = [*first, *rest]
        numbers = (n, *hidden_end, *ends[-2].numbers[:3], *numbers_of_y)
    build = functools.partial(_compiled, name, options(block, tile) + switches, cuda.backend())
    kernel = prepared(f"{KERNEL}/{kind}", build, programmatic)
    shared = block.reserved(tile)
    cuda.allow_shared(kernel, shared)
    grid, threads = block.blocks(tile, n), 32 * tile.warps
    kernel((grid,), (threads,), (layouts.as_stored(x), *weights, *stored, *numbers), shared_mem=shared)
    return out


@functools.lru_cache(maxsize=64)
def divides(scale: float) -> bool:
    """Whether sliding_int8.cu makes the codes of int8.quantize for this scale of a stem's input, whatever x is.

    Both are steps that only go up with x. So they are the same if they are so around each of the 255 steps.
    """
    s = np.float32(scale)
    if not 2.0**-60 < s < 2.0**60:
        return False
    x = _near_steps(s)
    with np.errstate(over="ignore"):
        inverse = np.float32(1) / s
        about = x * inverse
        quotient = int8.fma(int8.fma(-about, s, x), inverse, about)
        return bool((np.rint(quotient) == np.rint(x / s)).all())


@functools.lru_cache(maxsize=64)
def factors(scale: float, dtype: np.dtype[Any]) -> tuple[np.float32, np.float32] | None:
    """(a, b): with 1 / scale ≈ a + b stem_int8.cu makes the codes of int8.quantize; None if it does not for some x.

    dtype: of x, float32 or float16, of which all numbers are tried. b is 0 where a alone is right, of most halves'
    scales, else positive, so that infinity stays infinity.
    """
    s = np.float32(scale)
    if not divides(scale):
        return None
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    x = x[np.abs(x) <= 512 * s] if dtype == np.float16 else _near_steps(s)
    right = np.rint(x / s)
    a = np.float32(1) / s
    if (np.rint(x * a) == right).all():
        return a, np.float32(0)
    a = a if np.float64(a) * np.float64(s) < 1 else np.nextafter(a, np.float32(0))
    b = np.float32((1 - np.float64(a) * np.float64(s)) / np.float64(s))
    return (a, b) if b > 0 and (np.rint(int8.fma(x, a, x * b)) == right).all() else None


def _near_steps(s: np.float32) -> Any:
    """Floats around each of the numbers where a code ends and the next one begins."""
    middle = np.arange(-511.5, 512, dtype=np.float32) * s
    return (middle.view(np.int32)[:, None] + np.arange(-16, 17, dtype=np.int32)).view(np.float32)


def _small(part: Int8Convolution | None) -> int:
    """SMALL of requantize.h for a convolution."""
    return int(part is not None and part.small and tuple(part.bounds) == (LOW, HIGH))


def small_project(project: Int8Convolution, adds: bool) -> int:
    """The same for project, whose sums may be large."""
    return arguments.small_switch(project.small, project.bounds, adds)


def suits(tile: Int8Tile, project: Int8Convolution, adds: bool) -> bool:
    """Whether a tile's kernel takes this project; adds: whether a residual is added, whose sum has project's bounds."""
    return not tile.small_project or small_project(project, adds) in (1, 2)


def options(block: Int8Block, tile: Int8Tile) -> tuple[str, ...]:
    """NVRTC's options: every size is a constant of the kernel."""
    sizes = {name: int(value) for name, value in (asdict(block) | asdict(tile)).items()}
    return (*header_options(), *(f"-D{name.upper()}={value}" for name, value in sizes.items()))


def job(name: str, given: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """(source, options) of a kernel, KERNEL or SLIDING, for cubin.build_all. given: the options, without a card's."""
    text, split = SOURCE.with_name(f"{name}.cu").read_text(encoding="utf-8"), "-DSPLIT=1" not in given
    if name == SLIDING and split:
        text = text.replace("__launch_bounds__(", "__cluster_dims__(SPLIT, 1, 1) __launch_bounds__(", 1)
    return text, (*given, *(architecture(SM_90A) if name in (WARPGROUPS, BANDS) else architecture()))


@functools.lru_cache(maxsize=1024)
def _compiled(name: str, given: tuple[str, ...], backend: str) -> Any:
    source, all_options = job(name, given)
    return cuda.RawKernel(source, name, options=all_options)
