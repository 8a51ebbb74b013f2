"""Plants known bugs, one at a time, and asks whether the tests find them: what a faster suite must not lose.

    python tests/mutants.py                     all of them, some 40 minutes on one core with a warm cache
    python tests/mutants.py add-tail ladder     those whose names contain one of the words
    python tests/mutants.py --list              what is wrong with each, and which tests should catch it
    python tests/mutants.py --check             only that each still fits the sources
    python tests/mutants.py --wide              what escapes its tests is tried with their whole folders

What git tracks, or would track, is copied to a temporary folder. There a mutant's text is replaced, its tests run
until the first failure, and the text is put back. Compiled kernels are kept between mutants (COURSE_CACHE names where;
keys are content hashes). Printed is a line a mutant: whether it was caught, seconds, the first failing test. Exit
status: 1 if one escapes, 2 if the text of one is not found exactly once. pytest does not collect this file.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
KERNELS, RUNTIME = "common/kernels", "common/cuda/simulator"


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new`; it stands once in the file `path`, or in all files below the folder `path`.

    wrong: what is wrong then; tests: pytest's arguments.
    """

    name: str
    path: str
    old: str
    new: str
    wrong: str
    tests: str

    def applied(self, root: Path) -> tuple[Path, str]:
        """The file, and its text with the mutant in it. ValueError unless `old` stands there exactly once."""
        place = root / self.path
        files = [f for f in place.rglob("*") if f.suffix in (".py", ".h", ".cpp", ".cu")] if place.is_dir() else [place]
        texts = {file: file.read_text(encoding="utf-8") for file in files if file.is_file()}
        if (count := sum(text.count(self.old) for text in texts.values())) != 1:
            raise ValueError(f"{self.name}: {self.path} holds this {count} times, not once: {self.old!r}")
        return next((file, text.replace(self.old, self.new)) for file, text in texts.items() if self.old in text)


WARPGROUPS = "tests/optimize/test_warpgroups.py"
ALONE = "tests/optimize/test_alone.py"
ROWS = "tests/optimize/test_rows.py"
ADD = "tests/kernels/test_kernels_elementwise.py"
POOL = "tests/kernels/test_kernels_pool2d.py"
GEMM = "tests/kernels/test_kernels_gemm.py"
TENSOR = "tests/kernels/test_kernels_gemm_tensor_cores.py"
CONV = "tests/kernels/test_kernels_conv2d.py"
DEPTHWISE = "tests/kernels/test_kernels_depthwise.py"
BACKWARD = "tests/kernels/test_kernels_depthwise_backward.py"
POINTWISE = "tests/kernels/test_kernels_pointwise.py"
WINOGRAD = "tests/kernels/test_kernels_winograd.py"
MEAN = "tests/kernels/test_kernels_global_avg_pool.py"
BLOCK = "tests/optimize/test_inverted_residual.py"
RUNGS = "tests/kernels/test_kernels_inverted_residual.py"
SEARCH = "tests/optimize/test_search.py"
PLAN = "tests/network/test_network_plan.py"
LAYERS = "tests/network/test_network_layers.py"
STEPS = "tests/network/test_network_backends.py -k small_networks"
OPTIMIZE = "tests/network/test_network_optimize.py"
READER = "tests/topology/test_topology_reader.py"
FOLDING = "tests/weights/test_batch_norm_folding.py"
MILESTONES = "tests/lab/test_milestones.py tests/lab/test_milestones_later.py"

INT8 = "tests/kernels/test_int8_arithmetic.py"
INT8_PRODUCTS = "tests/kernels/test_kernels_pointwise_int8.py"
INT8_WINDOWS = "tests/kernels/test_kernels_conv2d_int8.py"
INT8_BLOCK = "tests/optimize/test_inverted_residual_int8.py"
INT8_SLIDING = "tests/optimize/test_sliding_int8.py"
INT8_ALONE = "tests/optimize/test_alone_int8.py"
INT8_WARPGROUPS = "tests/optimize/test_warpgroups_int8.py"
INT8_BANDS = "tests/optimize/test_bands_int8.py"
INT8_STAGE = "tests/optimize/test_stage_int8.py"
INT8_PERSISTENT = "tests/kernels/test_pointwise_int8_persistent.py"

MUTANTS = [
    # ---- Kernels in int8
    Mutant(
        "int8-half-away",
        f"{KERNELS}/include/requantize.h",
        "return __float_as_int(__fadd_rn(v, INTEGERS)) - __float_as_int(INTEGERS) + zero_point;",
        "return (int)(v + (v < 0.0f ? -0.5f : 0.5f)) + zero_point;", "ties are rounded away from zero", INT8,
    ),
    Mutant(
        "int8-zero-point-in-the-rounding",
        f"{KERNELS}/include/requantize.h",
        "__float_as_int(__fadd_rn(v, INTEGERS)) - __float_as_int(INTEGERS) + zero_point",
        "__float_as_int(__fadd_rn(v + zero_point, INTEGERS)) - __float_as_int(INTEGERS)",
        "ties are even with the zero point",
        INT8,
    ),
    Mutant(
        "int8-large-ties", f"{KERNELS}/include/requantize.h",
        "fma_of_small(fma_of_small(product, unit, 0.0f), 1.0f, __int_as_float(zero_point + 128))",
        "fma_of_small(product, unit, __int_as_float(zero_point + 128))",
        "ties of large sums are even with the zero point", f"{INT8_PERSISTENT} -k ties",
    ),
    Mutant(
        "int8-fma-in-two", f"{KERNELS}/include/requantize.h", "__fmaf_rn(__int2float_rn(b + offset), scale_b, shift)",
        "__fadd_rn(__fmul_rn(__int2float_rn(b + offset), scale_b), shift)", "the product of the residual is rounded",
        "tests/kernels/test_kernels_int8.py -k add",
    ),
    Mutant(
        "int8-bounds-before-residual",
        f"{KERNELS}/include/epilogue_int8.h",
        "requantize(sum[e], multiplier[e], to.zero_point, -128, 127)",
        "requantize(sum[e], multiplier[e], to.zero_point, to.low, to.high)",
        "ReLU6 clamps before the residual",
        INT8_PRODUCTS,
    ),
    Mutant(
        "int8-scale-of-the-neighbour",
        f"{KERNELS}/pointwise_int8/3_tensor_cores.cu",
        "get_row<WHOLE>(scale, multiplier + o, O - o);",
        "get_row<WHOLE>(scale, multiplier + o0, O - o0);",
        "a tile's first scales serve all of its outputs",
        INT8_PRODUCTS,
    ),
    Mutant(
        "int8-padding-is-zero",
        f"{KERNELS}/conv2d_int8/2_tensor_cores.cu",
        "const unsigned zeros = (input_zero_point & 255) * 0x01010101u;",
        "const unsigned zeros = 0;", "the padding is 0, not the zero point", INT8_WINDOWS,
    ),
    Mutant(
        "int8-padding-of-depthwise",
        f"{KERNELS}/depthwise_int8/2_dp4a.cu",
        "const unsigned zero = (input_zero_point & 255) * 0x01010101u;",
        "const unsigned zero = input_zero_point;", "only the first channel's padding is the zero point", INT8_WINDOWS,
    ),
    Mutant(
        "int8-block-without-border", "common/optimize/inverted_residual_int8.cu", "hidden[i] = zeros;",
        "hidden[i] = 0;", "the hidden channels' padding is 0", INT8_BLOCK,
    ),
    Mutant(
        "int8-block-one-barrier-less",
        "common/optimize/inverted_residual_int8.cu",
        "        __syncthreads();  // this slice's weights are here, and all have read the slice before\n",
        "", "a slice begins while warps read the one before", INT8_BLOCK,
    ),
    Mutant(
        "int8-block-beyond-the-image", "common/optimize/inverted_residual_int8.cu", "(four & real) | (zeros & ~real)",
        "four", "pixels of a word that lie outside of the image are computed from zeros", INT8_BLOCK,
    ),
    Mutant(
        "int8-block-last-slice", "common/optimize/inverted_residual_int8.cu", "if (slice + 1 < SLICES) fetch_slice",
        "if (slice + 2 < SLICES) fetch_slice", "the last slice's weights are never brought", INT8_BLOCK,
    ),
    Mutant(
        "int8-sliding-neighbour", "common/optimize/sliding_int8.cu",
        "__byte_perm(here[0][half], next[0][half], 0x5432)", "__byte_perm(here[0][half], next[0][half], 0x7632)",
        "every second output has a wrong pixel under its middle tap", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-sliding-border", "common/optimize/sliding_int8.cu",
        "(four & real) | (spot.zeros & ~real)", "four & real",
        "hidden pixels beside the image are 0 where the real number 0 is another code",
        f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-sliding-rows", "common/optimize/sliding_int8.cu",
        "const unsigned real = inside ? item.at[f].columns : 0;", "const unsigned real = item.at[f].columns;",
        "hidden pixels above and below the image are those of pixels that are 0", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-cluster-bias", "common/optimize/sliding_int8.cu", "rank == 0 ? begin<SMALL_PROJECT>(b[e]) : 0",
        "begin<SMALL_PROJECT>(b[e])", "every block of a cluster adds the bias", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-cluster-sums", "common/optimize/sliding_int8.cu", "for (int r = 0; r < SPLIT; ++r)",
        "for (int r = 0; r < SPLIT - 1; ++r)",
        "the sums of a cluster's last block are left out", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-cluster-own", "common/optimize/sliding_int8.cu", "if (owner == rank) *letter = four;",
        "if (owner == rank) *letter = make_float4(0, 0, 0, 0);",
        "a block of a cluster leaves out its own sums", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-cluster-first", "common/optimize/sliding_int8.cu", "sums_at(first + i)", "sums_at(first)",
        "quarters are finished as those of a block's first pixel", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-cluster-halves", "common/optimize/sliding_int8.cu", "t * 8 + half * 4);", "t * 8 + (1 - half) * 4);",
        "the two quarters of a thread change places", f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-cluster-pixels", "common/optimize/sliding_int8.cu", "group / (O / 32) * 8 + row",
        "group / (O / 32) * 8 + (row & 6)", "of two pixels that a warp sends at once one is finished twice",
        f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-sliding-own-residual", "common/optimize/sliding_int8.cu", "m / TILE_W % TILE_H + 1) * X_ROW",
        "m / TILE_W % TILE_H) * X_ROW", "the residual is that of the row above", f"{INT8_SLIDING} -k own_residual",
    ),
    Mutant(
        "int8-picture-quotient", "common/optimize/sliding_int8.cu", "__fmaf_rn(left, to.inverse, about)", "about",
        "a picture's numbers are multiplied by 1 / scale, not divided by the scale", f"{INT8_SLIDING} -k picture",
    ),
    Mutant(
        "int8-alone-neighbour", "common/optimize/alone_int8.cu", "__byte_perm(v[0], next, 0x5432)",
        "__byte_perm(v[0], next, 0x7632)", "every second output has a wrong pixel under its middle tap",
        f"{INT8_ALONE} -k convolutions",
    ),
    Mutant(
        "int8-alone-border", "common/optimize/alone_int8.cu",
        "return (unsigned)(row + y) < H;", "return true;",
        "hidden pixels above and below the image are those of pixels that are 0", f"{INT8_ALONE} -k convolutions",
    ),
    Mutant(
        "int8-alone-beside", "common/optimize/alone_int8.cu", "(unsigned)(x + 1) >= W ? BESIDE : 0", "0",
        "the hidden pixel on the right of the image is that of a pixel that is 0", f"{INT8_ALONE} -k convolutions",
    ),
    Mutant(
        "int8-alone-last-eight", "common/optimize/alone_int8.cu", "(16 * pair + 8 < O ? 4 : 2) * t", "4 * t",
        "of the last eight outputs a lane takes others than its two", f"{INT8_ALONE} -k convolutions",
    ),
    Mutant(
        "int8-alone-roundings", "common/optimize/alone_int8.cu", "const bool one = ONE_STEP || ends[16 * pair] < 1;",
        "const bool one = true;", "outputs that take two roundings take one", f"{INT8_ALONE} -k roundings",
    ),
    Mutant(
        "int8-stem-firsts", "common/optimize/stem_int8.cu", "__byte_perm(even, odd, first), 0x3542)",
        "__byte_perm(even, odd, first), 0x3541)",
        "the first number of a pixel in the row above is another row's", f"{INT8_ALONE} -k stem_is",
    ),
    Mutant(
        "int8-stem-border", "common/optimize/stem_int8.cu", "& columns) | (zeros & ~columns)", "& columns)",
        "hidden pixels beside the image are 0 where the real number 0 is another code", f"{INT8_ALONE} -k stem_is",
    ),
    Mutant(
        "int8-stem-fours", "common/optimize/stem_int8.cu", "2 * h + which >= 8 - SLOW", "2 * h + which > 8 - SLOW",
        "the first four channels that take two roundings take one", f"{INT8_ALONE} -k fours",
    ),
    Mutant(
        "int8-stem-next-item", "common/optimize/stem_int8.cu", "stream.index += step;", "",
        "a warp's second item has the picture of its first", f"{INT8_ALONE} -k stem_is",
    ),
    Mutant(
        "int8-stem-quotient", "common/optimize/stem_int8.cu", "__fmaf_rn(v, to.high, __fmul_rn(v, to.low))",
        "__fmul_rn(v, to.high)", "a picture's numbers are multiplied by 1 / scale, not divided by the scale",
        f"{INT8_ALONE} -k quantizes",
    ),
    Mutant(
        "int8-persistent-pixels", f"{KERNELS}/pointwise_int8/5_persistent.cu", "(unsigned short)(mine >> 16)",
        "(unsigned short)mine", "the second pixel of a lane has the first one's outputs",
        f"{INT8_PERSISTENT} -k model",
    ),
    Mutant(
        "int8-persistent-begin", f"{KERNELS}/pointwise_int8/5_persistent.cu",
        "acc[j][3] = begin<ONE_STEP ? 0 : SMALL_SUMS>(two.y)", "acc[j][3] = begin<ONE_STEP ? 0 : SMALL_SUMS>(two.x)",
        "sums of odd outputs begin with their neighbour's bias", f"{INT8_PERSISTENT} -k model",
    ),
    Mutant(
        "int8-persistent-offsets", f"{KERNELS}/pointwise_int8/5_persistent.cu",
        ": Ends{bias, multiplier, multiplier + O}", ": Ends{bias, multiplier, multiplier}",
        "the multipliers serve as offsets", f"{INT8_PERSISTENT} -k fma",
    ),
    Mutant(
        "int8-head-offsets", "common/optimize/head_int8.cu", "__ldg(multiplier + O + o)", "__ldg(multiplier + O)",
        "every channel has the first one's offset", "tests/optimize/test_head_int8.py -k fma",
    ),
    Mutant(
        "strips-rows", f"{KERNELS}/depthwise_int8/3_strips.cu", "rows[(row * STRIDE + kh) % 3]", "rows[(row + kh) % 3]",
        "at stride 2 a row of y reads the rows of the one before", f"{INT8_WINDOWS} -k strips",
    ),
    Mutant(
        "strips-padding", f"{KERNELS}/depthwise_int8/3_strips.cu", "(row + (left + k) * CHANNELS)) : zero;",
        "(row + (left + k) * CHANNELS)) : 0;", "the padding is 0, not the zero point", f"{INT8_WINDOWS} -k strips",
    ),
    Mutant(
        "split-bias", f"{KERNELS}/pointwise/8_persistent.cu", "rank ? nullptr : bias", "bias",
        "every block of a cluster adds the bias", "tests/kernels/test_kernels_pointwise_persistent.py -k share",
    ),
    Mutant(
        "split-channels", f"{KERNELS}/pointwise/8_persistent.cu", "bulk_copy_tile(xs, x, first + slice * 64",
        "bulk_copy_tile(xs, x, slice * 64", "every block multiplies the first part of the channels",
        "tests/kernels/test_kernels_pointwise_persistent.py -k share",
    ),
    Mutant(
        "begin-sums-second-row", f"{KERNELS}/include/epilogue.h", "(size_t)(p + i * 8) * O + o + j * 8)",
        "(size_t)p * O + o + j * 8)", "a lane's second row gets the first one's residual",
        "tests/kernels/test_kernels_pointwise_persistent.py -k tails",
    ),
    Mutant(
        "few-rows-images", "common/optimize/few_rows.cu", "|| o >= O || n >= N) continue;", "|| o >= O) continue;",
        "logits of no image are written", "tests/optimize/test_head.py -k more_rows",
    ),
    Mutant(
        "few-rows-halves", "common/optimize/few_rows.cu",
        "P::add(acc[j], {a.z, b.z, a.w, b.w}, {column.z, column.w});",
        "P::add(acc[j], {a.z, b.z, a.w, b.w}, {column.x, column.y});",
        "half of the products are with the other half of x", "tests/optimize/test_head.py -k more_rows",
    ),
    Mutant(
        "few-rows-bias", "common/optimize/few_rows.cu", "(P::Sum)bias[o] : 0", "(P::Sum)bias[o0] : 0",
        "all outputs of a block have its first one's bias", "tests/optimize/test_head.py -k more_rows",
    ),
    Mutant(
        "int8-head-columns", "common/optimize/head_int8.cu", "if (tile < PER && pixel < PIXELS)", "if (tile < PER)",
        "columns of no pixel count in the mean", "tests/optimize/test_head_int8.py",
    ),
    Mutant(
        "int8-sliding-tie", "common/kernels/one_step.py", "even = 1 - k % 2", "even = k % 2",
        "sums half way between two codes go to the odd one", "tests/kernels/test_one_step.py",
    ),
    Mutant(
        "int8-nearest-below", "common/kernels/one_step.py", "for x in (above, below) if", "for x in (above,) if",
        "a multiplier is moved up, though its neighbour below is nearer", "tests/kernels/test_one_step.py",
    ),
    Mutant(
        "int8-multiplier-as-given", "common/quantize/rules.py",
        "moved = one_step.nearest(weight, bias, multiplier, call.named[\"zero_point\"])", "moved = multiplier",
        "networks have channels that are requantized in two steps", "tests/quantize/test_quantize_import.py",
    ),
    Mutant(
        "int8-warpgroups-buffer", "common/optimize/warpgroups_int8.cu", "hiddens + i % 2 * (8 * PLANE) + t / 2 * PLANE",
        "hiddens + t / 2 * PLANE", "hidden pixels of the next slice are put where those of this one are read",
        f"{INT8_WARPGROUPS} -k convolutions",
    ),
    Mutant(
        "int8-warpgroups-border", "common/optimize/warpgroups_int8.cu", "if (row < H && g < 7)", "if (row < H)",
        "the padding on the right of the image is a pixel that is 0", f"{INT8_WARPGROUPS} -k convolutions",
    ),
    Mutant(
        "int8-warpgroups-pairs", "common/optimize/warpgroups_int8.cu", "if (SLICES % 2 == 1 && threadIdx.x == 0",
        "if (false && threadIdx.x == 0", "after an odd number of slices nobody asks for the next image's weights",
        f"{INT8_WARPGROUPS} -k convolutions",
    ),
    Mutant(
        "int8-warpgroups-next-image", "common/optimize/warpgroups_int8.cu",
        "if (s == SLICES - 3) cp_async_wait<0>();", "", "the next image is multiplied before it is there",
        f"{INT8_WARPGROUPS} -k convolutions",
    ),
    Mutant(
        "int8-bands-rows", "common/optimize/bands_int8.cu", "ST == 1 && at.row[0] + 2 * s + 1 >= H", "false",
        "hidden pixels below the image are not the zero of their padding", f"{INT8_BANDS} -k convolutions",
    ),
    Mutant(
        "int8-bands-side", "common/optimize/bands_int8.cu", "if (ST == 1 && alone && at.last[b]) four = at.zeros;", "",
        "hidden pixels on the right of the image are not the zero of their padding", f"{INT8_BANDS} -k convolutions",
    ),
    Mutant(
        "int8-bands-taps", "common/optimize/blocks_int8.py", "t1 | t2 << 16][:", "t2 | t1 << 16][:",
        "odd outputs have their taps 1 and 2 exchanged", f"{INT8_BANDS} -k convolutions",
    ),
    Mutant(
        "int8-bands-ring", "common/optimize/bands_int8.cu", "stream.bring(o + RING - 1);", "stream.bring(o + RING);",
        "a row of x is left out, and comes where the next one belongs", f"{INT8_BANDS} -k convolutions",
    ),
    Mutant(
        "int8-stage-side", "common/optimize/stage_int8.cu", "g == 0 ? 0xffff0000u : g == 7 ? 0xffffu : ALL", "ALL",
        "hidden pixels beside the image are not the zero of their padding", f"{INT8_STAGE} -k one_after",
    ),
    Mutant(
        "int8-stage-below", "common/optimize/stage_int8.cu", "here[0] = here[1] = zeros;", "",
        "the row beyond the image is the row before it", f"{INT8_STAGE} -k one_after",
    ),
    Mutant(
        "int8-stage-flipped", "common/optimize/stage_int8.cu", "s.upwards ? 2 : 0) :", "0) :",
        "thread blocks that count upwards begin with the wrong row of taps", f"{INT8_STAGE} -k one_after",
    ),
    Mutant(
        "int8-stage-packet", "common/optimize/stage_int8.cu", "if (mine) *(uint2*)(s.x", "if (false) *(uint2*)(s.x",
        "the row of another cluster stays that of the block before", f"{INT8_STAGE} -k one_after",
    ),
    Mutant(
        "int8-stage-mail", "common/optimize/stage_int8.cu", "here[0] = there.x, here[1] = there.y;", "",
        "the other thread block's row of hidden pixels is not taken", f"{INT8_STAGE} -k one_after",
    ),
    Mutant(
        "int8-stage-residual", "common/optimize/stage_int8.cu", "residual[i] = *(const uint2*)(x + ((1 - i)",
        "residual[i] = *(const uint2*)(x + (i",
        "residuals of even and odd columns are exchanged", f"{INT8_STAGE} -k one_after",
    ),
    Mutant(
        "int8-stage-others", "common/optimize/stage_int8.cu", "ADDS && there && i < 2", "ADDS && i < 2",
        "threads without outputs read what others write", f"{INT8_STAGE} -k finding",
    ),
    Mutant(
        "int8-stage-numbers", "common/optimize/stage_int8.cu", "counters[blockIdx.x] = s.number - 1;",
        "counters[blockIdx.x] = s.number - 2;", "the next launch takes packets of this one", f"{INT8_STAGE} -k follow",
    ),
    Mutant(
        "int8-stage-fresh", "common/optimize/fusions_int8.py", "if len(blocks) < 2:", "if len(blocks) < 9:",
        "no network has a stage", f"{INT8_STAGE} -k become",
    ),
    Mutant(
        "int8-head-images", "common/optimize/head_int8.py", "together = min(2, 1, key=images)", "together = 2",
        "two thread blocks of a multiprocessor have 4 of 32 images, where one has 3",
        "tests/optimize/test_head_int8.py",
    ),
    Mutant(
        "int8-bands-full", "common/optimize/bands_int8.cu", "full[o % 2].wait(o / 2 % 2);", "",
        "codes are projected before they are there", f"{INT8_BANDS} -k convolutions",
    ),
    Mutant(
        "int8-sum-complement", "common/kernels/include/epilogue_int8.h", "to.scale_b < 0 ? 0x7f7f7f7fu",
        "false ? 0x7f7f7f7fu",
        "a sum that fits only with 255 - q takes q", "tests/kernels/test_one_sum.py -k bits",
    ),
    Mutant(
        "int8-sum-ways", "common/kernels/one_sum.py", "for sign in (1, -1):", "for sign in (1,):",
        "sums that fit only with 255 - q in q's place are left out", "tests/kernels/test_one_sum.py",
    ),
    Mutant(
        "int8-alone-offsets", "common/kernels/include/block_int8.h", "{__uint_as_float(o.y), __uint_as_float(o.x)}",
        "{__uint_as_float(o.x), __uint_as_float(o.y)}", "two neighbours have each other's offset",
        f"{INT8_ALONE} -k convolutions",
    ),
    Mutant(
        "int8-sliding-slow-last", "common/optimize/blocks_int8.py",
        "np.argsort(~right, kind=\"stable\")", "np.arange(hidden)[::1]",
        "channels that take two steps are spread over all planes: right, and slow", f"{INT8_SLIDING} -k two_steps",
    ),
    Mutant(
        "int8-sum-without-offset", f"{KERNELS}/include/epilogue_int8.h", "__int_as_float(128 - to.offset)",
        "__int_as_float(128)", "the sum of codes that are 128 lower than in the file is 128 too high",
        f"{INT8_SLIDING} -k convolutions",
    ),
    Mutant(
        "int8-small-that-are-not", f"{KERNELS}/int8.py", "most = 128.0 * np.abs", "most = 64.0 * np.abs",
        "sums of half the codes count as small", INT8_BLOCK,
    ),
    Mutant(
        "int8-residual-order", f"{KERNELS}/int8_arguments.py", 'return {"RESIDUAL_FIRST": 1} if', 'return {} if',
        "the residual is always the second term of the sum", f"{INT8_PRODUCTS} -k order",
    ),
    Mutant(
        "int8-codes-of-four-bytes", "common/quantize/kernels.py", "found[step.output] = np.dtype(np.int8)",
        "found[step.output] = np.dtype(np.float32)", "codes lie in memory as floats",
        "tests/quantize/test_integer_kernels.py -k plan",
    ),
    # ---- Kernels
    Mutant(
        "add-tail", f"{KERNELS}/add/4_vectorised.cu",
        "if (i < n) out[i] =", "if (i + 1 < n) out[i] =",
        "the last element of a tail is never added", f"{ADD} -k add",
    ),
    Mutant(
        "softmax-max", f"{KERNELS}/softmax/1_naive.cu",
        "float largest = (float)x[0];", "float largest = 0.0f;",
        "of negative scores not the largest is taken off but 0: all exponentials may vanish", f"{ADD} -k softmax",
    ),
    Mutant(
        "pool-pad-edge", f"{KERNELS}/pool2d/1_naive.cu",
        "ih < H + pad_bottom", "ih <= H + pad_bottom",
        "with ceil_mode a row beyond the padding counts in the mean", f"{POOL} -k naive",
    ),
    Mutant(
        "pool-nan", f"{KERNELS}/pool2d/2_channels_last.cu",
        "v[k] > acc[k] || isnan(v[k]) ?", "v[k] > acc[k] ?",
        "a NaN is dropped by max", f"{POOL} -k channels_last",
    ),
    Mutant(
        "pool-ceil", "common/cuda/checks.py",
        ">= extent + pads[0]", "> extent + pads[0]",
        "with ceil_mode a window that starts right behind the image is kept", POOL,
    ),
    Mutant(
        "mean-vector", f"{KERNELS}/vectors.py",
        "math.gcd(WIDEST, row * itemsize, *map(address, arrays))", "math.gcd(WIDEST, *map(address, arrays))",
        "accesses are as wide where rows are no multiple of them", MEAN,
    ),
    Mutant(
        "mean-shuffle", f"{KERNELS}/global_avg_pool/6_warp_per_channel.cu",
        "for (int step = 16; step > 0;", "for (int step = 16; step > 1;",
        "the sum of neighbouring lanes is left out", f"{MEAN} -k warp_per_channel",
    ),
    Mutant(
        "gemm-barrier", f"{KERNELS}/gemm/5_register_block.cu",
        "        __syncthreads();\n        A += BK;", "        A += BK;",
        "a slice is overwritten while others still read it", f"{GEMM} -k register_block",
    ),
    Mutant(
        "gemm-bias-column", f"{KERNELS}/gemm/4_register_column.cu",
        "(float)bias[col0 + col]", "(float)bias[col]",
        "the bias of the first tile of columns serves all tiles", f"{GEMM} -k register_column",
    ),
    Mutant(
        "gemm-wait", f"{KERNELS}/gemm/9_tensor_cores.cu",
        "cp_async_wait<STAGES - 2>();  // the next slice is here,", "cp_async_wait<STAGES - 1>();",
        "a slice is multiplied that may still be on its way", f"{TENSOR} -k tensor_cores",
    ),
    Mutant(
        "gemm-tf32-term", f"{KERNELS}/include/tf32x3.h",
        "    mma_tf32(sum, a_small, b);\n", "",
        "one of three products of tf32 parts is missing: an error of 1e-4", f"{TENSOR} -k split_k",
    ),
    Mutant(
        "halves-term", f"{KERNELS}/include/pair_of_halves.h", "for (int product = 0; product < 3; ++product) {",
        "for (int product = 1; product < 3; ++product) {",
        "one of three products of halves is missing: an error of 1e-4", "tests/kernels/test_halves.py -k magnitude",
    ),
    Mutant(
        "ranges-sign", "common/network/ranges.py",
        "(positive @ low + negative @ high)", "(positive @ low + negative @ low)",
        "a negative weight counts as least where its input is least", "tests/network/test_network_ranges.py -k bound",
    ),
    Mutant(
        "gemm-swizzle-group", f"{KERNELS}/gemm/9_tensor_cores.cu",
        "const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;", "const int group = GROUP;",
        "the last group of rows of tiles is taken to be full", TENSOR,
    ),
    Mutant(
        "conv-groups", f"{KERNELS}/conv2d/1_naive.cu",
        "o / (O / groups) * group_channels", "o % groups * group_channels",
        "an output reads the channels of another group", f"{CONV} -k naive",
    ),
    Mutant(
        "conv-padding", f"{KERNELS}/conv2d/2_direct.cu",
        "oh * stride_h - pad_top :", "oh * stride_h - pad_left :",
        "the padding at the left is taken for that at the top", f"{CONV} -k direct",
    ),
    Mutant(
        "conv-parts-residual", f"{KERNELS}/conv2d/5_halo.cu",
        "finish<NHWC>(sum, bias, residual, y, at, NHWC",
        "finish<NHWC>(sum, bias, (const scalar_t*)nullptr, y, at, NHWC",
        "a reduction in parts loses its residual", f"{CONV} -k halo",
    ),
    Mutant(
        "conv-im2col-activation", f"{KERNELS}/conv2d/__init__.py",
        "len(ones),\n            call.bounds,", "len(ones),\n            checks.bounds(None),",
        "im2col and gemm with a bias forget the activation", f"{CONV} -k im2col",
    ),
    Mutant(
        "depthwise-tail", f"{KERNELS}/depthwise/5_register_tile.cu",
        "|| ow + u < oW)", "|| ow + u <= oW)",
        "a tile writes one column too many, into the next row", f"{DEPTHWISE} -k register_tile",
    ),
    Mutant(
        "depthwise-barrier", f"{KERNELS}/depthwise/6_async_tile.cu",
        "    cp_async_wait<0>();\n    __syncthreads();\n", "    cp_async_wait<0>();\n",
        "a thread reads what others have copied without waiting for them", f"{DEPTHWISE} -k async_tile",
    ),
    Mutant(
        "depthwise-dilation", f"{KERNELS}/depthwise/2_rows.cu",
        "iw + kw * DILATION_W < W;", "iw + kw < W;",
        "a dilated tap beyond the right edge reads the next row", f"{DEPTHWISE} -k rows",
    ),
    Mutant(
        "pointwise-residual", f"{KERNELS}/pointwise/5_split_k.cu",
        "(float)residual[p * O + o + e]", "(float)residual[p * O + o]",
        "rows that no vector fits add one residual to several outputs", f"{POINTWISE} -k split_k",
    ),
    Mutant(
        "winograd-edge", f"{KERNELS}/winograd/2_fused_f2x2.cu",
        "iw0 + s < W;", "iw0 + s <= W;",
        "the padding at the right reads the next row", f"{WINOGRAD} -k f2x2",
    ),
    Mutant(
        "winograd-sign", f"{KERNELS}/winograd_weight/1_naive.cu",
        "g0 / 24 - g1 / 12 + g2 / 6", "g0 / 24 - g1 / 12 - g2 / 6",
        "a wrong sign in the filters of F(4×4, 3×3)", f"{WINOGRAD} -k f4x4",
    ),
    Mutant(
        "backward-edge", f"{KERNELS}/depthwise_backward_input/2_phases.cu",
        "oh < 0 || oh >= oH", "oh < 0 || oh > oH",
        "the lower edge takes in a gradient of the next image", f"{BACKWARD} -k phases",
    ),
    Mutant(
        "backward-accumulate", f"{KERNELS}/depthwise_backward_weight/3_block_reduction.cu",
        "ACCUMULATE ? (acc_t)out[i] + sum : sum", "sum",
        "a gradient replaces what it should be added to", f"{BACKWARD} -k block_reduction",
    ),
    Mutant(
        "training-same", f"{KERNELS}/training.py",
        "(total // 2, total - total // 2)", "(total - total // 2, total // 2)",
        "padding='same' has the odd zero on the other side", "tests/kernels/test_training.py",
    ),
    Mutant(
        "block-outside", "common/optimize/fused/expand.h",
        "                    if (mine < 0) store_16(place, make_uint4(0, 0, 0, 0));\n", "",
        "hidden pixels outside of the image are not zero but clamp(bias)", BLOCK,
    ),
    Mutant(
        "block-barrier", "common/optimize/fused/block.h",
        "if (slice > 0 || (S::WARPS_P > 1 && !S::CHAINED)) __syncthreads();",
        "if (S::WARPS_P > 1 && !S::CHAINED) __syncthreads();",
        "a slice's results are overwritten while other warps still read them", BLOCK,
    ),
    Mutant(
        "block-low-x", "common/optimize/fused/load.h",
        "store_16(piece + 4, make_uint4(low[0], low[1], low[2], low[3]));",
        "store_16(piece + 4, make_uint4(0, 0, 0, 0));",
        "x is a half and not a pair of them", f"{BLOCK} -k halves",
    ),
    Mutant(
        "block-low-dw", "common/optimize/fused/arithmetic.h",
        "*(unsigned*)(group + 4) = low[0]", "*(unsigned*)(group + 4) = 0",
        "dw is a half and not a pair of them", f"{BLOCK} -k halves",
    ),
    Mutant(
        "block-low-weights", "common/optimize/split_weights.py",
        "np.stack(split(values, scale))", "np.stack([split(values, scale)[0], 0 * split(values, scale)[1]])",
        "weights are halves and not pairs of them", f"{BLOCK} -k halves",
    ),
    Mutant(
        "block-scale", "common/optimize/split_weights.py",
        "x, dw = scale_of(input_bound), ", "x, dw = 1.0, ",
        "small inputs lose the bits that a half does not have", f"{BLOCK} -k halves",
    ),
    Mutant(
        "stem-low-pixels", "common/optimize/fused/image.h",
        "store_16(to + G::PATCH_LOW, make_uint4(low[0], low[1], low[2], low[3]));",
        "store_16(to + G::PATCH_LOW, make_uint4(0, 0, 0, 0));",
        "an image is halves and not pairs of them", f"{BLOCK} -k 'near_to_float64 and stem'",
    ),
    Mutant(
        "stem-scale", "common/optimize/fused/image.h",
        "wanted = 127 + 14 - (int)(most >> 23)", "wanted = 14",
        "a stem's scale is that of numbers near 1, whatever the image holds", f"{BLOCK} -k pixels_of_all",
    ),
    Mutant(
        "stem-scale-of-weights", "common/optimize/fused/image.h",
        "smaller(126, of_weights - 1)", "126",
        "the sums of a tiny image are multiplied by what is no power of two any more", f"{BLOCK} -k pixels_of_all",
    ),
    Mutant(
        "stem-infinity", "common/optimize/fused/image.h",
        "if (most > LARGEST) most = largest<true>();\n", "",
        "an infinite pixel takes the bits of all others in its tile", f"{BLOCK} -k finite",
    ),
    Mutant(
        "sliding-left", "common/optimize/fused/numbers.h",
        "odd, (lane + 28) % 32", "odd, lane",
        "to the left of an even pixel lies its odd neighbour to the right", f"{BLOCK} -k hidden_channels",
    ),
    Mutant(
        "sliding-border", "common/optimize/fused/sliding.h",
        "(unsigned)(spot.x0 + column * STRIDE + mine) < S::W ? top : 0", "top",
        "hidden pixels beside the image are not zero", f"{BLOCK} -k hidden_channels",
    ),
    Mutant(
        "sliding-rows", "common/optimize/fused/sliding.h",
        "(y > 0 && y < ROWS - 1 && G::OUT_H % S::TILE_H == 0) ||", "(y > 0 && y < ROWS - 1) ||",
        "rows below the image's last one are not zero, where a tile reaches beyond it", f"{BLOCK} -k hidden_channels",
    ),
    Mutant(
        "weights-before-they-came", "common/optimize/fused/block.h",
        "cp_async_wait<1>();  // all but x", "cp_async_wait<2>();",
        "weights go to registers before they are in shared memory", f"{BLOCK} -k every_kind",
    ),
    Mutant(
        "weights-of-another-warp", "common/optimize/fused/block.h",
        "            cp_async_wait<1>();  // all but x\n            __syncthreads();\n",
        "            cp_async_wait<1>();  // all but x\n",
        "a warp reads weights that another one has asked for, and that may not have come", f"{BLOCK} -k no_access",
    ),
    Mutant(
        "head-bias", "common/optimize/head.h",
        "const int o = slice * S::CHANNELS + channel_of(i);", "const int o = channel_of(i);",
        "every slice has the biases of the first one", "tests/optimize/test_head.py",
    ),
    Mutant(
        "next-tile", "common/optimize/fused/block.h",
        "fetch(image, x, Spot<S>(tile + step, N));", "fetch(image, x, Spot<S>(tile, N));",
        "a block's second tile reads the x of its first one", f"{BLOCK} -k many_images",
    ),
    Mutant(
        "next-tile-early", "common/optimize/fused/block.h",
        "if (S::LOOPS && (!G::RESIDENT || S::ADDS_X || !AHEAD || is_last)) __syncthreads();", "",
        "the next tile's x comes while slow warps still add this one's", f"{BLOCK} -k many_images",
    ),
    Mutant(
        "warpgroups-border", "common/optimize/fused/warpgroups.h",
        "if (y_first * G::ST + in_tile - 1u >= (unsigned)S::H) bits[i] = 0;", "",
        "hidden pixels above and below the image are not zero", f"{WARPGROUPS} -k kind",
    ),
    Mutant(
        "warpgroups-weights", "common/optimize/fused/warpgroups.h",
        "if (q > 1) bring_w3(q);", "if (q > 0) bring_w3(q + 1);",
        "weights of project come where the products of the slice before still read", f"{WARPGROUPS} -k wrong",
    ),
    Mutant(
        "warpgroups-next-tile", "common/optimize/fused/warpgroups.h",
        "if (q + 1 < total) bar().w1", "if (s + 1 < count) bar().w1",
        "the bias of the next tile's first slice is read before it is there", f"{WARPGROUPS} -k walk",
    ),
    Mutant(
        "warpgroups-images", "common/optimize/fused/warpgroups.h",
        "(S::IMAGES == 1 || n < N) &&", "",
        "images behind the last one are written", f"{WARPGROUPS} -k wrong",
    ),
    Mutant(
        "alone-border", "common/optimize/fused/alone.h",
        "const bool inside = (Y > 0 && Y < G::ROWS - 1 && G::OUT_H % S::STRIP == 0) || (unsigned)(y0 + Y) < S::H;",
        "const bool inside = true;",
        "hidden pixels above and below the image are not zero", f"{ALONE} -k kind",
    ),
    Mutant(
        "alone-third-taps", "common/optimize/fused/alone.h",
        "{of[Y % 2 ? 6 : 10], of[Y % 2 ? 7 : 11]}", "{of[6], of[7]}",
        "two rows of thirds change places, and their taps do not", f"{ALONE} -k kind",
    ),
    Mutant(
        "alone-ring", "common/optimize/fused/alone.h",
        "cp_async_wait<AHEAD>();", "cp_async_wait<AHEAD + 1>();",
        "a row of a stem's pixels is read before it has come", f"{ALONE} -k kind",
    ),
    Mutant(
        "alone-next-item", "common/optimize/fused/items.h",
        "if (G::BUFFERS == 1) {\n            G::meet();", "if (G::BUFFERS == 1) {",
        "the next item's x comes where other lanes still read y", f"{ALONE} -k walk",
    ),
    Mutant(
        "alone-parts", "common/optimize/fused/alone.h",
        "if (G::PARTS > 1 && part > 0) two = make_float2(0, 0);", "",
        "each of the warps that share an item adds project's bias", f"{ALONE} -k kind",
    ),
    Mutant(
        "alone-streams", "common/optimize/fused/alone.h",
        "                __syncwarp();  // its room is free\n", "",
        "the next weights come where other lanes still read these", f"{ALONE} -k access",
    ),
    Mutant(
        "alone-diagonal", "common/optimize/fused/alone.h",
        "g % 2 ? 0x3244 : 0x4432", "g % 2 ? 0x4432 : 0x3244",
        "a tap stands beside the diagonal", f"{ALONE} -k kind",
    ),
    Mutant(
        "pairs-low", "common/optimize/fused/alone_pairs.h",
        "if (product == 0) mma_f16(parts[n], a_low, {of.x, of.y}, zero);",
        "if (product == 0) mma_f16(parts[n], a_low, {of.z, of.w}, zero);",
        "the low halves of dw meet those of project", f"{ALONE} -k kind",
    ),
    Mutant(
        "pairs-scale", "common/optimize/fused/alone_pairs.h",
        "w.low[1] *= scales.dw, w.high[1] *= scales.dw;", "w.low[1] *= scales.dw;",
        "dw, which is scaled, is clamped to its bound without the scale", f"{ALONE} -k bounds",
    ),
    Mutant(
        "pairs-right", "common/optimize/fused/alone_pairs.h",
        "return i + kx == 3 ? right[h][c] :", "return i + kx == 3 ? values[0][h][c] :",
        "at stride 2 the last tap lies on the lane's own pixel", f"{ALONE} -k kind",
    ),
    Mutant(
        "rows-weights", "common/optimize/fused/rows.h",
        "there[2 * stage].wait(parity);", "there[2 * stage].wait(0);",
        "hidden reads a slice's weights before they have come", f"{ROWS} -k 'kind or walk'",
    ),
    Mutant(
        "rows-free", "common/optimize/fused/rows.h",
        "                __syncthreads();  // dw and project's weights are free\n", "",
        "the next slice's weights come, and its dw, where others still read", f"{ROWS} -k 'access or walk'",
    ),
    Mutant(
        "rows-owner", "common/optimize/fused/rows.h",
        "if (SPLIT == 1 || (pair * ROWS + row + r) % SPLIT == rank)", "",
        "each thread block of a cluster adds project's bias", f"{ROWS} -k kind",
    ),
    Mutant(
        "rows-beside", "common/optimize/fused/rows.h",
        "const int column = SIDE == 1 ? q : q % (8 * ST);", "const int column = q;",
        "the second of two images side by side has no border", f"{ROWS} -k kind",
    ),
    Mutant(
        "rows-missing", "common/optimize/fused/rows.h",
        "(unsigned)y < H && image < N);", "(unsigned)y < H);",
        "x of an image beside the last one is read, which is not there", f"{ROWS} -k 'kind or access'",
    ),
    Mutant(
        "rows-next", "common/optimize/fused/rows.h",
        "if constexpr (SPLIT > 1) cluster_sync();  // before", "if constexpr (SPLIT > 1) __syncthreads();  // before",
        "letters of the next tile come where those of this one are still read", f"{ROWS} -k walk",
    ),
    Mutant(
        "stem-warps", "common/optimize/fused/image.h",
        "at.maxima[smaller(at.lane, G::WARPS - 1)]", "at.maxima[0]",
        "the scale is that of the first warp's pixels", f"{BLOCK} -k pixels_of_all",
    ),
    Mutant(
        "stem-barrier", "common/optimize/fused/block.h",
        "            if (busy) image.measure(at);\n            __syncthreads();\n",
        "            if (busy) image.measure(at);\n",
        "a warp takes the scale before others have measured", f"{BLOCK} -k no_access_of_halves",
    ),
    Mutant(
        "rungs-edge", f"{KERNELS}/include/tile.h",
        "column(pixel) < W;", "column(pixel) <= W;",
        "the padding at the right takes in the next row's first pixel", f"{RUNGS} -k sanitizer_finds",
    ),
    Mutant(
        "rungs-slice-barrier", f"{KERNELS}/inverted_residual/4_slices.cu",
        "        __syncthreads();                              // x_tile is there", "        // x_tile is there",
        "a slice's results are overwritten while others still read them", f"{RUNGS} -k slices",
    ),
    Mutant(
        "rungs-pipeline", f"{KERNELS}/inverted_residual/6_pipelined.cu",
        "cp_async_wait<STAGES - 2>();", "cp_async_wait<STAGES - 1>();",
        "a slice of weights is read before it has come", f"{RUNGS} -k pipelined",
    ),
    Mutant(
        "rungs-residual", f"{KERNELS}/inverted_residual/7_reuse.cu",
        "tile.corner(pixel) + IN_W + 1;", "tile.corner(pixel) + IN_W;",
        "the residual is that of the pixel to the left", f"{RUNGS} -k reuse",
    ),
    Mutant(
        "rungs-cluster-idle", f"{KERNELS}/inverted_residual/8_cluster.cu",
        "    cp_async_wait<0>();  // x", "    // x",
        "a block without a slice adds a residual that has not come", f"{RUNGS} -k no_slice",
    ),
    Mutant(
        "rungs-cluster-sums", f"{KERNELS}/inverted_residual/8_cluster.cu",
        "    cluster_sync();  // all sums", "    __syncthreads();  // all sums",
        "sums of other blocks are read before they have come", f"{RUNGS} -k cluster",
    ),
    Mutant(
        "rungs-view", f"{KERNELS}/inverted_residual/__init__.py",
        "is_x = out_shape == x.shape and ", "is_x = ",
        "a residual of another shape in x's memory is taken for x", f"{RUNGS} -k view",
    ),
    # ---- Launchers
    Mutant(
        "ladder-tile", f"{KERNELS}/ladder.py",
        "defines |= dict(self.rungs[variant].tiles) | dict(switches)",
        "defines |= dict(switches) | dict(self.rungs[variant].tiles)",
        "a rung's default tile wins over the launcher's", f"{POOL} {CONV}",
    ),
    Mutant(
        "ladder-digest", f"{KERNELS}/ladder.py",
        ', f"-I{INCLUDE}", f"-DHEADERS={_digest()}"', ', f"-I{INCLUDE}"',
        "CuPy's cache does not notice that a shared header has changed", "tests/kernels/test_kernels_sources.py",
    ),
    Mutant(
        "windows-padding", "common/cuda/checks.py",
        "count = (extent + sum(pads) - dilation", "count = (extent + 2 * pads[0] - dilation",
        "the padding behind is taken to be that before", CONV,
    ),
    Mutant(
        "layout-one-channel", "common/cuda/layout.py",
        "        size == 1 or stride == want * itemsize\n", "        stride == want * itemsize\n",
        "an array with one channel or pixel has one layout only", "tests/cuda/test_cuda_layout.py",
    ),
    # ---- The network's passes
    Mutant(
        "steps-order", "common/network",
        "                    self.written[name] < start\n", "                    True\n",
        "an addition joins a step that runs before its other operand is there", STEPS,
    ),
    Mutant(
        "steps-after-activation", "common/network",
        """        Part("add", kinds.ResidualAdd, optional=True),
        Part("activation", (kinds.ReLU6, kinds.ReLU, kinds.Clip), optional=True),
""",
        """        Part("activation", (kinds.ReLU6, kinds.ReLU, kinds.Clip), optional=True),
        Part("add", kinds.ResidualAdd, optional=True),
""",
        "an addition behind an activation is fused in front of it", STEPS,
    ),
    Mutant(
        "arena-meets", "common/network/arena.py",
        "return self.first <= other.last and other.first", "return self.first < other.last and other.first",
        "an output may lie where the step's input lies", PLAN,
    ),
    Mutant(
        "arena-alive", "common/network/arena.py",
        "range(one.first, one.last + 1):\n            alive", "range(one.first, one.last or 1):\n            alive",
        "an output is placed where the step's input lies", PLAN,
    ),
    Mutant(
        "sharing-reader", "common/network",
        ")] <= i]", ")] <= i + 1]",
        "a step works in place on what the next step still reads", PLAN,
    ),
    Mutant(
        "lives-input", "common/network",
        "    last = {root[name]: len(steps) for name in (*graph.inputs, *graph.outputs)}",
        "    last = {root[name]: len(steps) for name in graph.outputs}",
        "the input is overwritten, and a second launch runs on something else", PLAN,
    ),
    Mutant(
        "batch-norm-sign", "common/network",
        "shift = beta - mean * scale", "shift = beta + mean * scale",
        "a batch-norm that stays adds its mean", LAYERS,
    ),
    Mutant(
        "merge-residual", "common/optimize/fusions.py",
        "lambda node: _alone(node) and is_depthwise(node)", "is_depthwise",
        "a block takes in a step with a residual and drops that", OPTIMIZE,
    ),
    Mutant(
        "merge-pool-residual", "common/optimize/fusions.py",
        'Part("convolution", CONVOLUTION, lambda node: _alone(node) and is_pointwise(node))',
        'Part("convolution", CONVOLUTION, is_pointwise)',
        "a convolution and its pool become one and drop the residual", OPTIMIZE,
    ),
    Mutant(
        "terms-of-groups", "common/network",
        "layer.dilation, layer.groups)\n\n    def terms(self, layer: Any) -> int:\n"
        "        return layer.in_channels // layer.groups * math.prod",
        "layer.dilation, layer.groups)\n\n    def terms(self, layer: Any) -> int:\n"
        "        return layer.in_channels * math.prod",
        "the tolerance of a depthwise step is that of a dense one", "tests/network/test_network_compare.py",
    ),
    # ---- Readers
    Mutant(
        "same-lower", "common/topology/operators/windows.py",
        'mode == "SAME_UPPER" else', 'mode == "SAME_LOWER" else',
        "SAME_UPPER and SAME_LOWER are exchanged", READER,
    ),
    Mutant(
        "constant-minus", "common/topology/operators/pointwise.py",
        "-numbers if position == 0 else numbers)", "-numbers)",
        "a constant minus a tensor has the wrong sign of the constant", READER,
    ),
    Mutant(
        "divide-rounding", "common/topology/constants.py",
        "(np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(a.dtype)", "a // b",
        "integers are divided towards minus infinity", "tests/topology/test_topology_reader.py",
    ),
    Mutant(
        "slice-backward", "common/topology/constants.py",
        "step < 0 and end < -shape[axis]", "step < 0 and end <= -shape[axis]",
        "a backward slice that ends at −n takes the first element as well", READER,
    ),
    Mutant(
        "per-channel-permuted", "common/topology/translation.py",
        "np.transpose(aligned, np.argsort(value.dims))", "np.transpose(aligned, value.dims)",
        "a constant's axes are permuted the wrong way round", READER,
    ),
    Mutant(
        "pad-value", "common/topology/simplify.py",
        "isinstance(layer, Pad) and layer.value == 0 and", "isinstance(layer, Pad) and",
        "a Pad with ones becomes a convolution's zeros", READER,
    ),
    Mutant(
        "fold-shared-conv", "common/weights/folding.py",
        "            and readers[conv.output] == 1\n", "",
        "a batch-norm is folded though others read the convolution", FOLDING,
    ),
    Mutant(
        "fold-eps", "common/weights/folding.py",
        "variance = np.asarray(var, np.float64) + eps\n", "variance = np.asarray(var, np.float64) + eps * eps\n",
        "eps is too small by five orders of magnitude", FOLDING,
    ),
    Mutant(
        "npz-left-over", "common/weights/files.py",
        "        if stream.read(1):", "        if False:",
        "bytes behind an array, and a wrong checksum, are not noticed", "tests/weights/test_weight_files.py",
    ),
    Mutant(
        "seeded-variance", "common/weights/seeded.py",
        "var * scale**2", "var * scale",
        "what a seeded network expects behind a batch-norm is off", "tests/weights/test_weight_sources.py",
    ),
    Mutant(
        "image-scale", "common/images/reading.py",
        '"F": [1, 255]', '"F": [255]',
        "a float picture from 0 to 1 is taken to run to 255", "tests/images/test_reading.py",
    ),
    # ---- Checks
    Mutant(
        "check-rtol", "common/check/answers.py",
        "return self.atol + self.rtol * abs(want)", "return self.atol + 2 * self.rtol * abs(want)",
        "twice the relative tolerance", "tests/check/test_answers.py",
    ),
    Mutant(
        "check-nearly", "common/check/answers.py",
        "1e-3 * abs(want))", "1e-1 * abs(want))",
        "a number that is 5 % off is called nearly right", "tests/check/test_answers.py",
    ),
    Mutant(
        "check-unwritten", "common/check/kernels.py",
        "require(not lost.any(), what", "require(not lost.all(), what",
        "an output with some unwritten elements passes", "tests/check/test_kernel_checks.py",
    ),
    Mutant(
        "check-beyond", "common/check/kernels.py",
        "sorted({number + 1 for number", "sorted({number for number",
        "sizes stop at the numbers of an answer, not beyond them", "tests/check/test_kernel_checks.py",
    ),
    Mutant(
        "check-slips", "common/check/trials.py",
        "if len(self._fitting) == 1 else", "if len(self._fitting) >= 1 else",
        "of several slips that fit the first is named", "tests/check/test_trials.py",
    ),
    Mutant(
        "check-counter", "common/check/judge.py",
        "    answers.counter = 0\n", "",
        "the number of checks of all checks before is added", "tests/check/test_child.py tests/check/test_runner.py",
    ),
    # ---- Results, tables, roofline, timing, energy
    Mutant(
        "results-identity", "common",
        '"precision", "arithmetic", "layout", "launch", "batch", "mode", "placement"\n',
        '"precision", "arithmetic", "launch", "batch", "mode", "placement"\n',
        "a measurement in NHWC replaces the one in NCHW", "tests/report/test_report_results.py",
    ),
    Mutant(
        "results-previous", "common",
        "    if old[\"run\"] == run:\n", "    if False:\n",
        "a run that is saved twice becomes its own predecessor", "tests/report/test_report_results.py",
    ),
    Mutant(
        "table-headline", "common",
        'beside or alike or every', 'every',
        "the headline shows a library's time of another process", "tests/report/test_report_tables.py",
    ),
    Mutant(
        "table-digits", "common",
        "if value >= 9.995 else", "if value >= 99.5 else",
        "tens have four digits", "tests/report/test_report_tables.py",
    ),
    Mutant(
        "roofline-residual", "common/measure/roofline.py",
        "(out if residual else 0)", "0",
        "the bytes of a residual are not counted", "tests/measure/test_measure_roofline.py",
    ),
    Mutant(
        "ratio-interval", "common/measure/timing.py",
        "while 40 * below <= 2**m:", "while 20 * below <= 2**m:",
        "an interval of 90 % is called one of 95 %", "tests/measure/test_measure_timing.py",
    ),
    Mutant(
        "rotations-once", "common/measure/timing.py",
        "max(2, 2 * l2 // bytes_of_one_set + 1)", "max(2, l2 // bytes_of_one_set + 1)",
        "rotating buffers are only once the cache's size", "tests/measure/test_measure_timing.py",
    ),
    Mutant(
        "energy-trapezoid", "common/measure/energy.py",
        "(self._last[1] + watts) / 2", "watts",
        "power is integrated by its last reading", "tests/measure/test_measure_energy.py",
    ),
    Mutant(
        "energy-range", "common/measure/energy.py",
        "for watts in (max(self.idle_w), min(self.idle_w)))", "for watts in (min(self.idle_w), max(self.idle_w)))",
        "idle power before and after narrows the range in place of widening it", "tests/measure/test_measure_energy.py",
    ),
    # ---- The simulator
    Mutant(
        "trace-sectors", f"{RUNTIME}/runtime",
        "(address[lane] + s->size - 1) / 32;", "(address[lane] + s->size) / 32;",
        "an access up to a sector's end counts the next one, too", "tests/trace/test_trace_theory.py",
    ),
    Mutant(
        "trace-warp-race", f"{RUNTIME}/runtime",
        "if (thread < ENGINE && touch.warp == thread / 32 && touch.warp_epoch != t->warp_epoch[thread / 32])"
        " return false;",
        "if (thread < ENGINE && touch.warp == thread / 32) return false;",
        "races within a warp are not seen", "tests/trace/test_trace_findings.py",
    ),
    Mutant(
        "async-uncommitted", f"{RUNTIME}/runtime",
        "if (c.group >= me->copy_group - groups)", "if (c.group > me->copy_group - groups)",
        "a wait completes copies of a group that it need not wait for", "tests/kernels/test_ptx.py",
    ),
    Mutant(
        "shuffle-border", f"{RUNTIME}/include/simulator/warp.h",
        "source < (lane & ~(width - 1)) ? lane : source", "source <= (lane & ~(width - 1)) ? lane : source",
        "a shuffle up does not reach the first lane of a section", "tests/cuda/test_cuda_features.py -k shuffle",
    ),
    Mutant(
        "fence-before", f"{RUNTIME}/memory.py",
        "in ((self.end, self.high), (self.low, self.start)):", "in ((self.end, self.high),):",
        "writes in front of an array are not noticed", "tests/cuda/test_cuda_errors.py",
    ),
    Mutant(
        "cache-headers", f"{RUNTIME}/compiler.py",
        "[source, extra_key, compiler.version,", "[source, compiler.version,",
        "a changed header leaves the compiled kernel as it was", "tests/cuda/test_cuda_compilers.py",
    ),
    Mutant(
        "grid-limit", "common/cuda/signature.py",
        "(2**31 - 1, 65535, 65535)", "(2**31 - 1, 65536, 65536)",
        "a grid may be one higher than on any card", "tests/cuda/test_cuda_errors.py",
    ),
    Mutant(
        "long-is-int", "common/cuda/signature.py",
        '"unsigned long long": "uint64"', '"unsigned long long": "int64"',
        "an unsigned parameter refuses its upper half", "tests/cuda/test_cuda_gpu_kernel.py",
    ),
    # ---- Tiles and what they cost
    Mutant(
        "unfused-residual", "common/optimize",
        "residual=arrays.residual, activation=b.bounds[2], out=out", "activation=b.bounds[2], out=out",
        "the baseline of every fusion lacks the residual", SEARCH,
    ),
    Mutant(
        "cost-tensor", "common/optimize",
        "MMA_CYCLES = {4: 2.1,", "MMA_CYCLES = {4: 9.9,",
        "a product of tf32 seems to cost five times as much", f"{SEARCH} tests/optimize/test_predictions.py",
    ),
    Mutant(
        "cost-bandwidth", "common/optimize",
        "23.5e3", "4.7e3",
        "memory seems five times slower to separate kernels", f"{SEARCH} tests/optimize/test_predictions.py",
    ),
    Mutant(
        "tiles-nearest", "common/optimize",
        "(ratio(n), -int(n))", "(ratio(n), int(n))",
        "of two equally near batches the smaller one counts", SEARCH,
    ),
    Mutant(
        "tiles-sources", "common/optimize",
        'tables = (_table(cache_path(), ("card", "driver", "sources"))',
        'tables = (_table(cache_path(), ("card", "driver"))',
        "tiles that were tuned for other kernels count", SEARCH,
    ),
    Mutant(
        "tiles-digest", "common/optimize",
        '*own, *sorted(INCLUDE.glob("*.h"))]', '*own]',
        "a changed shared header leaves tuned tiles as they were", "tests/optimize/test_search.py",
    ),
    # ---- cuDNN, as far as it is checked without a GPU
    Mutant(
        "cudnn-relu", "common/cudnn/graphs.py",
        "and self.bounds and self.bounds[0] == 0:", "and self.bounds:",
        "a clamp from −1 on is cut off at 0", "tests/cudnn/test_cudnn_graphs.py",
    ),
    Mutant(
        "cudnn-product", "common/cudnn/blas.py",
        "w.shape[2:] != (1, 1) or w.shape[1] != x.shape[1]", "w.shape[2:] != (1, 1)",
        "a grouped convolution is taken for one product", "tests/cudnn/test_cudnn_graphs.py",
    ),
    Mutant(
        "cudnn-stride", "common/cudnn/blas.py",
        "strides=(c * pixels, 0, o * pixels)", "strides=(c * pixels, 0, c * pixels)",
        "pictures of a product lie as far apart in the output as in the input", "tests/cudnn/test_cudnn_graphs.py",
    ),
    # ---- Machine code
    Mutant(
        "occupancy-registers", "common/cuda/machine_code/occupancy.py",
        "return SCHEDULERS * (on.registers // SCHEDULERS // each)", "return on.registers // each",
        "a warp may have registers of two schedulers", "tests/cuda/inspect/test_occupancy.py",
    ),
    Mutant(
        "occupancy-reserved", "common/cuda/machine_code/occupancy.py",
        "* on.shared_unit + on.reserved", "* on.shared_unit",
        "the system's shared memory of each block is forgotten", "tests/cuda/inspect/test_occupancy.py",
    ),
    Mutant(
        "inspect-moves", "common/cuda/machine_code/mix.py",
        'if name in ("HFMA2", "IMAD") and', 'if name in ("IMAD",) and',
        "registers that are cleared count as half multiply-adds", "tests/cuda/inspect/test_machine_code.py",
    ),
    Mutant(
        "merge-twice", f"{RUNTIME}/runtime/trace_replay.cpp",
        "g.size != e.size || g.parts & part", "g.size != e.size",
        "what is read twice is one wide request", "tests/cuda/inspect/test_merged_trace.py",
    ),
    Mutant(
        "merge-part", f"{RUNTIME}/runtime/trace_replay.cpp",
        "if (g.parts == (1u << width / e.size) - 1) {", "if (g.parts) {",
        "a part of a wide access is a whole one", "tests/cuda/inspect/test_merged_trace.py",
    ),
    # ---- Judging a learner's engine
    Mutant(
        "judge-concat", "common/lab/matching.py",
        'commutes = type(one).__name__ == "ResidualAdd"', 'commutes = type(one).__name__ in ("ResidualAdd", "Concat")',
        "a concatenation in the wrong order is right", MILESTONES,
    ),
    Mutant(
        "judge-tolerance", "common/lab/matching.py",
        "TOLERANCE = 1e-6", "TOLERANCE = 1e-2",
        "a folded network may be off by a percent", MILESTONES,
    ),
    Mutant(
        "judge-padding", "common/lab/matching.py",
        "windows(layer, x, -math.inf).max", "windows(layer, x, 0.0).max",
        "the judge's max pool pads with zeros", MILESTONES,
    ),
]  # fmt: skip


def copied(to: Path) -> Path:
    """What git tracks, or does not ignore, of the working tree, in a new folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def first_failure(root: Path, tests: str, cache: str) -> str:
    """The first of the tests that fails in a copy, "" if none does. ValueError if pytest cannot run them."""
    words = shlex.split(tests)
    if "-k" in words:  # all words behind -k are one expression
        at = words.index("-k") + 1
        words[at:] = [" ".join(words[at:])]
    environment = {"COURSE_CXXFLAGS": "-O1", "COURSE_TURN": "every", **os.environ, "PYTHONPATH": str(root)}
    environment["COURSE_CACHE"] = cache
    environment["PYTHONDONTWRITEBYTECODE"] = (
        "1"  # a mutant may be as long, and as old to the second, as what it replaces
    )
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *words]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, errors="replace")
    if done.returncode in (0, 1):
        found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.M)
        return found[1] if found else "" if done.returncode == 0 else "a test"
    if found := re.search(r"^ERROR (.*?)(?: - .*)?$", done.stdout, re.M):
        return found[1]  # which cannot even be imported
    if done.returncode < 0:
        return f"pytest ended by signal {-done.returncode}"
    raise ValueError(f"pytest {tests}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def wider(tests: str) -> str:
    """The folders of some tests, without the slow ones."""
    return " ".join(dict.fromkeys(str(Path(word).parent) for word in tests.split(" -k ")[0].split()))


def tried(mutant: Mutant, root: Path, cache: str, wide: bool) -> tuple[str, float]:
    """The first test that fails with a mutant in a copy, "" if it escapes, and seconds."""
    began = time.monotonic()
    file, changed = mutant.applied(root)
    text = file.read_text(encoding="utf-8")
    file.write_text(changed, encoding="utf-8")
    try:
        found = first_failure(root, mutant.tests, cache)
        if not found and wide:
            found = first_failure(root, wider(mutant.tests), cache)
    finally:
        file.write_text(text, encoding="utf-8")
    return found, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="words in the names of the mutants to try; all without")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--check", action="store_true", help="only see that each fits the sources")
    parser.add_argument("--wide", action="store_true", help="try what escapes with the whole folders of its tests")
    parser.add_argument("--jobs", type=int, default=1, help="so many side by side, each in a copy of its own")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.names or any(word in m.name for word in options.names)]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:24} {mutant.path}: {mutant.wrong}\n{'':24} {mutant.tests}")
        return 0
    misfits = []
    for mutant in chosen:
        try:
            mutant.applied(ROOT)
        except ValueError as error:
            misfits.append(str(error))
    if misfits or options.check:
        print("\n".join(misfits) or f"all {len(chosen)} fit")
        return 2 if misfits else 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        cache = os.environ.get("COURSE_CACHE") or str(Path(folder, "cache"))
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            free.put(copied(Path(folder, str(number))))

        def one(mutant: Mutant) -> bool:
            root = free.get()
            try:
                found, seconds = tried(mutant, root, cache, options.wide)
            finally:
                free.put(root)
            print(f"{'caught' if found else 'ESCAPED':8} {mutant.name:24} {seconds:5.0f} s  {found}", flush=True)
            return bool(found)

        caught = sum(pool.map(one, chosen))
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
