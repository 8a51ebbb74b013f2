"""What the columns of the records mean: docs/records.md is generated from here and from `results.SUITES`."""

from collections.abc import Callable

from . import results, tables

# what a record of each suite is; the docstrings of common/bench/ say how it is measured
RECORDS = {
    "network": "a whole network in one implementation, layout, launch, batch, precision and mode; rungs of the chain",
    "operators": "one distinct step of MobileNetV2 alone",
    "kernels": "one rung of a ladder, or a library, on one shape",
    "late": "a 1×1 layer with few pixels on one rung or tile",
    "steps": "one step of a network within a profile of the whole",
    "errors": "the error of a network's logits in one arithmetic",
    "peaks": "one peak rate of the card",
    "plans": "a convolution described to cuDNN in one way",
    "sparse": "a convolution with zeros in its input, in one implementation; or the zeros in a network's tensor",
    "energy": "the energy of an image in one implementation",
    "profile": "one kernel of a network under ncu",
    "timeline": "one kernel of a forward pass: when it starts and ends",
    "sections": "one kernel under ncu, by the profiler's sections",
    "multiprocessor": "one point of an experiment on one multiprocessor",
    "two-of-four": "a 1×1 layer with two zeros in four weights, or its dense twin",
    "fp8": "a 1×1 layer as a product in fp16, int8 or fp8",
    "candidates": "one tile of a fused block, or its separate kernels",
    "families": "a network of torchvision's",
    "inspect": "one kernel: what cuda.inspect says, and the profiler",
    "pipeline": "a stage of the way from a picture's bytes to its class",
    "scaling": "pictures per second with a number of GPUs, of pictures from one source",
    "load": "the service at one offered load",
    "trace": "one launch: what the simulator's trace counts, and the profiler",
}
COLUMNS = {
    "run": "the run in runs.json that measured it",
    "case": "what was measured: a network, a layer, a kernel; in words",
    "implementation": "whose: ours, a rung's name, cudnn, cublas, torch-eager, …",
    "precision": "what the arrays are: fp32, tf32 (fp32 whose products may be rounded to TF32), fp16, int8, fp8",
    "arithmetic": "what multiplies, and what adds",
    "layout": "of images in memory, NCHW or NHWC",
    "launch": "graph, one CUDA graph; eager, launched from Python; host, by a runtime of its own; loop, many calls in"
    " one of a runtime",
    "batch": "images per call",
    "mode": "hot, the same buffers in every call; rotating, sets of buffers that exceed twice the L2 cache",
    "median_us": "µs per call, median of the samples",
    "p5_us": "µs per call, 5th percentile",
    "p95_us": "µs per call, 95th percentile",
    "samples": "how many samples",
    "calls": "calls per sample",
    "bytes": "the least memory traffic; null without a roofline",
    "flops": "floating-point operations, two per multiply-add; null without a roofline",
    "error": "‖result − reference‖ / ‖reference‖; of networks against ONNX Runtime in fp32, of all else against"
    " float64; null without a reference",
    "error_float64": "of a network's logits, against the same network in float64",
    "same_top5": "of the images checked, how many have the reference's five best classes in its order",
    "checked_images": "images on which a result was checked",
    "deviation": "of int8, against the quantized network's integer steps on the CPU",
    "ratios": "its time over the fastest cuDNN and ours of the same process: median, 95 % interval low to high, and to"
    " which row",
    "lone_us": "µs of one call after an idle gap, on the host's clock; with lone_p5_us and lone_p95_us",
    "cold_us": "µs of one call with other data in the L2 cache; with cold_p5_us and cold_p95_us",
    "previous_median_us": "the median of the record that it replaced",
    "previous_run": "the run of that record",
    "note": "a remark that its tables show",
    "kind": "of a layer: stem, expand, depthwise, project, head, pool, linear, add, …",
    "shape": "of a layer or product, in words",
    "count": "how many of the network's layers are such a step",
    "operator": "of a ladder, or of a kernel",
    "lone_p5_us": "5th percentile of lone_us",
    "lone_p95_us": "95th percentile of lone_us",
    "cold_p5_us": "5th percentile of cold_us",
    "cold_p95_us": "95th percentile of cold_us",
    "previous_mj_per_image": "the energy of the record that it replaced",
    "host_us": "µs that the host took to launch it",
    "launched_us": "µs from the beginning to its launch",
    "memory": "bytes that the program keeps, and that it takes at most",
    "notes": "remarks on the metering",
    "throttle": "why the card lowered its clocks meanwhile",
    "order": "the place in the ladder, or in the network, from 1",
    "by_size": "of tensor-core peaks: 10¹² operations per second, clock and power by the size of the square matrices",
    "sustained": "the same of the fastest size for a longer time",
    "sm_mhz": "the multiprocessors' clock while it ran",
    "way": "how the convolution was described to cuDNN",
    "plans": "cuDNN's plans and their µs",
    "workspace": "bytes that a plan needs besides its arrays",
    "label": "where the zeros come from",
    "pattern": "which numbers are zero together: elements, pixels or tiles",
    "sparsity": "the share of zeros",
    "us_at": "µs by share of zeros",
    "mj_per_image": "mJ per image above idle power, median of the rounds",
    "mj_low": "the least that the rounds and idle power leave open",
    "mj_high": "the most",
    "gross_mj": "mJ per image, idle power included",
    "idle_w": "W of the idle card",
    "watts": "W while it ran",
    "seconds": "s that it was metered",
    "rounds": "how often it was metered",
    "images": "images computed meanwhile",
    "method": "counter, the card's energy counter; power, readings summed up",
    "kernel": "a kernel's name",
    "us": "µs",
    "issue": "instructions per scheduler and cycle, or issue slots used as a share",
    "warps": "the share of the warps that a multiprocessor can hold",
    "tensor": "cycles in which tensor cores are active, as a share",
    "shared": "shared memory's wavefronts, as a share of the most",
    "waits": "cycles between two instructions of a warp, by stall reason",
    "start_us": "µs from the beginning to its start",
    "untraced_us": "µs of the whole pass without the trace",
    "compute_throughput": "the busiest arithmetic unit, as a share of its peak",
    "memory_throughput": "the busiest part of the memory system, as a share of its peak",
    "achieved": "warps that were resident, as a share of the most",
    "experiment": "which experiment",
    "of": "how many tiles the block has",
    "side": "height and width of the pictures",
    "beside": "what the error stands beside",
    "beside_error": "that one's error against float64",
    "same_class": "of the images checked, how many have the reference's class",
    "inspected": "numbers of cuda.inspect",
    "profiled": "the same numbers of the profiler",
    "off": "how many times the error of what it stands beside",
    "source": "where the pictures come from: decoded, memory or disk",
    "gpus": "how many GPUs, each with a process of its own",
    "pictures_per_s": "pictures per second",
    "stage": "decode, copy, compute, or all together",
    "window_ms": "ms that a batch waits for more pictures",
    "offered": "requests per second that were sent",
    "answered": "requests per second that were answered",
    "p50_ms": "latency in ms, median",
    "p95_ms": "latency in ms, 95th percentile",
    "p99_ms": "latency in ms, 99th percentile",
    "in_flight": "requests under way, on average",
    "requests": "how many requests",
    "predicted": "counts of the simulator's trace",
    "measured": "the same counts of the profiler",
    "trace": "what the trace says of a wrong kernel",
    "compute-sanitizer": "what compute-sanitizer says of it",
}


def suites() -> str:
    """A table of the suites: what a record is, and the columns that it must have besides case and implementation."""
    rows = [
        [f"`{name}.csv`", RECORDS[name], ", ".join(f"`{key}`" for key in keys) or tables.DASH]
        for name, keys in results.SUITES.items()
    ]
    return tables.markdown(["table", "a record is", "columns that each has"], rows, 3)


def columns() -> str:
    """A table of the columns that records share, or that a suite demands: meaning, and what a value must be."""
    rules = {key: words for keys, _, words in results.RULES for key in keys}
    rows = [[f"`{key}`", meaning, rules.get(key, "")] for key, meaning in COLUMNS.items()]
    return tables.markdown(["column", "meaning", "must be"], rows, 3)


def texts() -> dict[str, Callable[[], str]]:
    """The functions that generate the tables of docs/records.md, by the name in their markers."""
    return {"records-suites": suites, "records-columns": columns}
