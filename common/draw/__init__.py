"""Drawings of how a GPU works and of how a network and its numbers are stored, from real parameters.

    draw.whole_way()                         the course: what goes into each chapter, what comes out, the engine's files
    draw.architecture()                      the packages of `common` in the order of imports, and the way of the data
    draw.block(32, 192, 32, stride=1)        an inverted residual: its tensors and its layers
    draw.convolutions(channels=4)            dense, grouped, depthwise and pointwise convolution, and their weights
    draw.windows(size=8, kernel=3)           where a convolution's window fits
    draw.receptive_field([(3, 2), (3, 1)])   the inputs that one output sees
    draw.outputs(draw.convolution_outputs(network))   the elements that each convolution of MobileNetV2 writes
    draw.grid(blocks=4, threads=64)          a grid, one of its blocks, its warps, its threads with their indices
    draw.guard(n=10, threads=4)              the threads beyond the end of an array
    draw.matrix(5, 7, (4, 2))                a two-dimensional grid over a matrix
    draw.grid_stride(n=20, threads=8)        which thread processes which element in which iteration
    draw.tile_banks(33, column=1)            the bank of each word of a tile in shared memory
    draw.tree(values)                        a sum in shared memory, step by step
    draw.launches(13.4, 70.3, 3)             host and GPU on a timeline
    draw.queues(13.4, 3.4)                   launches that are slower than their kernels, or faster
    draw.pipeline({"in turn": stages}, "µs")  when each stage of each batch of pictures ran
    draw.loads({"5 ms": points})             percentiles of latency against the offered load
    draw.timeline({"eager": slices})         what ran when, coloured by kind of layer
    draw.latency(card.measured())            latency hiding: one thread that waits, and many that overlap
    draw.bytes_in_flight(7600, {"a": 8192})  bytes in flight beside those that a bandwidth needs
    draw.loads_in_flight(4)                  one load per thread, several narrow ones, or a wide one
    draw.memory(card.measured())             registers, shared memory, L2, global memory: sizes and bandwidths
    draw.multiprocessor()                    one multiprocessor: schedulers, registers, lanes, shared memory
    draw.issue_slots(2, 2)                   which warp a scheduler issues from, cycle by cycle
    draw.block_limits(found.occupancy())     the blocks that registers, warps and shared memory allow
    draw.levels()                            cycles of a load from each level of memory, as measured
    draw.divergence(arms=4)                  a warp in several arms of an if
    draw.places_used({"title": shares})      the share of a card's places with a block, against the batch
    draw.waves(blocks=20, slots=8)           blocks on a card, wave after wave
    draw.tensor_fields(tensor)               the fields of an ONNX initializer, filled or empty
    draw.row_major((16, 3, 3, 3), raw)       bytes, numbers and dimensions of an array
    draw.weight_layouts((2, 3, 2, 2))        a convolution's weight in memory, OIHW and OHWI
    draw.onnx_parts(onnx_graph)              a node, its attributes, its initializers, and the tensor that it writes
    draw.links(onnx_graph, "tensor")         the node that writes a tensor, and those that read it
    draw.walk(onnx_graph, step)              what a walk through the nodes has found after one of them
    draw.paddings(4, 3, 2, {"": (0, 1)})     windows of a convolution in one dimension, by the padding before and after
    draw.folding(layers)                     a block before and after its batch-norms are folded
    draw.float_bits(0.0856)                  sign, exponent and fraction of a number in fp32, tf32, bf16, fp16
    draw.spacing()                           all numbers of a small format on a line: subnormal numbers, binades
    draw.rounding(0.0856)                    a number between its two neighbours in fp16
    draw.weight_sizes(networks)              the sizes of the weights, a box per layer
    draw.headroom(networks)                  the largest activations beside fp16's limit
    draw.accumulators(lengths, errors, allowed, marks)   errors of sums against the number of terms
    draw.channel_spreads(networks)           the widest over the narrowest channel, per convolution
    draw.roofline(20e9, 100e9, 100e9)        the lines of a roofline: DRAM, L2, arithmetic
    draw.kernel_borders()                    one block at each level of fusion, a frame per kernel
    draw.strips((1, 3, 2, 2))                NCHW and NHWC as strips of memory, with strides
    draw.column_major(2, 3)                  a row-major matrix, as BLAS reads it
    draw.slices()                            the tiles of A and B that one block of a product copies, slice by slice
    draw.sliding_rows(outputs=4)             a thread that walks down a column with its rows in registers
    draw.halos(((4, 4), (8, 8)))             tiles of outputs with the halo of inputs around them
    draw.register_tile(2, 2)                 a thread's outputs and the inputs that it holds
    draw.taps(pixels=9)                      which output reads which pixel, as a matrix per stride
    draw.phases(stride=2)                    the taps that count for each kind of pixel
    draw.sum_levels(100_352, 256, 1)         a long sum as a tree: registers, shuffles, shared memory, blocks
    draw.winograd(outputs=2)                 a tile through a Winograd convolution
    draw.product_tiles()                     the tiles of blocks, warps and threads in a matrix product
    draw.lane_words({"title": firsts})       the words that eight lanes load, 16 bytes each, in 32 banks
    draw.transposed_tile()                   a tile of A on its way into shared memory, turned
    draw.buffers(slices=4)                   slices on a timeline, with one buffer and with two
    draw.shuffle_tree(values)                a warp's sum by shuffles, step by step
    draw.halving(lanes=8, channels=4)        several sums per lane, half of them given away in each step
    draw.cudnn_graph(graphs)                 the parts of one cuDNN graph, or of two
    draw.im2col(4, 3)                        one channel, its windows as columns, and the product with the weights
    draw.implicit_tile(64, 576, 3136)        the tiles of a block in a product whose columns are never stored
    draw.halo_tile(28, 128)                  output pixels of one block and their halo
    draw.regimes(layers)                     the tiles of three products, spread over a card's multiprocessors
    draw.epilogue()                          bias, residual and ReLU6 as kernels, and within one
    draw.programs(weights, {"batch 1": n})   an engine: its weights, and the arenas of its programs
    draw.relocation(offset, 0x1000, 0x2000)  a launch's address in one arena, in a file, in another arena
    draw.turns(launches=5, interrupted=2)    two threads that run one network, over one arena or two
    draw.two_errors(wrong=1)                 what each step reads for the error so far and for the own error
    draw.steps({"title": (graph, steps)})    small networks: layers, tensors, and a frame per step
    draw.fusion_kinds(192, (64, 96, 16))        vertical and horizontal fusion
    draw.saved_bytes(moved, {"ReLU6": saved})   bytes per step, and those that fusion saves
    draw.live_ranges(ranges)                 from which step to which each tensor is in memory
    draw.arena({"title": (ranges, offsets)}) tensors at their offsets over the steps, and the sum of all that is alive
    draw.fused_pair(read, written)           two kernels in a row, and one that computes both: the bytes moved
    draw.fused_tile(block, tile)             a tile of a fused block, with the names of Tile's fields
    draw.phases_memory(plan)                 the shared memory of a persistent kernel, phase by phase
    draw.split_channels(960, 64, 4)          a cluster whose blocks share a tile's hidden channels
    draw.neighbours(chains)                  chains of layers, and outputs that are read twice
    draw.placement(on_gpu, reads)            steps on CPU and GPU, and the copies between them
    draw.power_sensor({"title": (card, 0)})  true power, the moments at which a sensor looks, and its readings
    draw.skipping({"title": piece})          zeros of activations, and which of them each sparse scheme skips
    draw.number_line(0.5, -2, (1.3, 9))      codes on a number line, and the code that each number gets
    draw.codes_used(ranges)                  codes that each channel reaches, if one scale covers all
    draw.all_times({"title": us})            the times of a block's tiles in ascending order, over the fastest
    draw.budget_curves(searches, best)       the best time found so far against the number of questions
    draw.predicted_and_measured(panels)      one dot per tile: µs predicted against the oracle's
    draw.chosen_ranges(centres, counts, ends)   a tensor's numbers, and the upper end that each method chooses
    draw.errors_by_layer({"int8": errors})   an error per layer, a row of dots per network
    draw.numbers_of_formats(6.0)             the numbers that int8 and e4m3 have with one scale
    draw.folded_step(("Conv", "ReLU6"))      the layers of a quantized file that become one integer step
    draw.byte_fragments()                    which lane holds which bytes of mma.m16n8k32
    draw.energy_bars(groups)                 millijoules per image, above idle and with idle power

Each returns a Drawing, which a notebook displays: a Matplotlib figure with alternative text.
"""

from .banks import tile_banks
from .canvas import Drawing
from .convolution import epilogue, halo_tile, im2col, implicit_tile, regimes
from .course import architecture, whole_way
from .depthwise import halo_share, halos, phases, register_tile, sliding_rows, sum_levels, taps
from .energy import energy_bars, power_sensor
from .engines import programs, relocation, turns, two_errors
from .execution import grid, grid_stride, guard, matrix
from .floats import float_bits, rounding, spacing
from .folding import folding
from .fusions import fused_pair, fused_tile, neighbours, placement, split_channels
from .hardware import latency, memory
from .in_flight import bytes_in_flight, loads_in_flight
from .layers import block, convolution_outputs, convolutions, outputs, receptive_field, windows
from .libraries import column_major, cudnn_graph, strips
from .multiprocessor import block_limits, divergence, issue_slots, levels, multiprocessor, places_used, waves
from .networks import links, onnx_parts, paddings, short_name, walk
from .persistent import phases_memory
from .planning import arena, fusion_kinds, live_ranges, saved_bytes, steps
from .quantization import chosen_ranges, codes_used, errors_by_layer, folded_step, number_line, numbers_of_formats
from .ranges import accumulators, channel_spreads, headroom, weight_sizes
from .reduction import tree
from .roofline import kernel_borders, roofline
from .service import loads, pipeline
from .shuffles import halving, shuffle_tree
from .sparsity import skipping
from .tensor_cores import byte_fragments
from .tensors import row_major, tensor_fields, weight_layouts
from .tiles import buffers, lane_words, product_tiles, slices, transposed_tile
from .timeline import launches, queues, timeline
from .tuning import all_times, budget_curves, predicted_and_measured
from .winograd import winograd

__all__ = [
    "Drawing",
    "accumulators",
    "all_times",
    "architecture",
    "arena",
    "block",
    "block_limits",
    "budget_curves",
    "buffers",
    "byte_fragments",
    "bytes_in_flight",
    "channel_spreads",
    "chosen_ranges",
    "codes_used",
    "column_major",
    "convolution_outputs",
    "convolutions",
    "cudnn_graph",
    "divergence",
    "energy_bars",
    "epilogue",
    "errors_by_layer",
    "float_bits",
    "folded_step",
    "folding",
    "fused_pair",
    "fused_tile",
    "fusion_kinds",
    "grid",
    "grid_stride",
    "guard",
    "halo_share",
    "halo_tile",
    "halos",
    "halving",
    "headroom",
    "im2col",
    "implicit_tile",
    "issue_slots",
    "kernel_borders",
    "lane_words",
    "latency",
    "launches",
    "levels",
    "links",
    "live_ranges",
    "loads",
    "loads_in_flight",
    "matrix",
    "memory",
    "multiprocessor",
    "neighbours",
    "number_line",
    "numbers_of_formats",
    "onnx_parts",
    "outputs",
    "paddings",
    "phases",
    "phases_memory",
    "pipeline",
    "placement",
    "places_used",
    "power_sensor",
    "predicted_and_measured",
    "product_tiles",
    "programs",
    "queues",
    "receptive_field",
    "regimes",
    "register_tile",
    "relocation",
    "roofline",
    "rounding",
    "row_major",
    "saved_bytes",
    "short_name",
    "shuffle_tree",
    "skipping",
    "slices",
    "sliding_rows",
    "spacing",
    "split_channels",
    "steps",
    "strips",
    "sum_levels",
    "taps",
    "tensor_fields",
    "tile_banks",
    "timeline",
    "transposed_tile",
    "tree",
    "turns",
    "two_errors",
    "walk",
    "waves",
    "weight_layouts",
    "weight_sizes",
    "whole_way",
    "windows",
    "winograd",
]  # fmt: skip
