"""Results files made up for tests."""

from common.measure.roofline import Work
from common.measure.timing import Timing
from common.report import results

H200 = {
    "card": "NVIDIA H200",
    "date": "2031-02-03",
    "driver": "999.1",
    "cuda": "13.2",
    "cudnn": "9.19.0",
    "commit": "c0ffee",
}


def timing(us, launch="graph", mode="hot"):
    return Timing(us, 0.9 * us, 1.2 * us, 50, 10, launch, mode)


def peak(case, us, bytes=0, flops=0):
    precision = case.split("-")[-1] if "-" in case else "fp32"
    return results.record(
        "peaks",
        case,
        "ours",
        precision=precision,
        arithmetic="any",
        batch=1,
        timing=timing(us),
        work=Work(bytes, flops),
    )


def peaks():
    """4.25 TB/s, 60 TFLOP/s of FMAs, 400 in tf32 and 790 in fp16."""
    return [
        peak("copy", 1000.0, bytes=4_250_000_000), peak("fma-fp32", 1000.0, flops=60 * 10**9),
        peak("tensor-tf32", 1000.0, flops=400 * 10**9), peak("tensor-fp16", 1000.0, flops=790 * 10**9),
    ]  # fmt: skip


def network(implementation, us, precision="fp16", batch=1, launch="graph", mode="hot", arithmetic="FMA", **more):
    more = {"layout": "NHWC", "error": 2e-4} | more
    return results.record(
        "network", "mobilenetv2-1.0-224", implementation, precision=precision, arithmetic=arithmetic, batch=batch,
        timing=timing(us, launch, mode), work=Work(10**7, 6 * 10**8), **more,
    )  # fmt: skip


def operator(kind, us, count=1, precision="fp32", batch=1, mode="rotating", work=None, implementation="cudnn", **more):
    more = {"layout": "NHWC", "shape": f"{kind} shape", "error": 1e-6} | more
    return results.record(
        "operators", f"{kind} 14x14", implementation, precision=precision, arithmetic="FMA", batch=batch,
        timing=timing(us, mode=mode), work=work or Work(42_500_000, 10**6), kind=kind, count=count, **more,
    )  # fmt: skip


def rung(implementation, us, order, layout="NCHW", precision="fp32", batch=1, case="depthwise 56×56 144", **more):
    """42.5 MB and 0.3 GFLOP, unless said otherwise: at the peaks above 10 µs to move and 5 µs to compute in fp32."""
    kind, shape = case.split(" ", 1)
    more = {
        "operator": "depthwise", "arithmetic": "fp32", "work": Work(42_500_000, 300_000_000), "error": 2.04e-7,
        "kind": kind, "shape": shape, "count": 3,
    } | more  # fmt: skip
    return results.record(
        "kernels", case, implementation, precision=precision, batch=batch, timing=timing(us), order=order,
        layout=layout, **more,
    )  # fmt: skip


def saved(path, *runs):
    """A results file with these runs: lists of records, or (environment, records); they are called r1, r2, …"""
    for i, run in enumerate(runs, 1):
        environment, records = run if isinstance(run, tuple) else (H200, run)
        results.save(path, f"r{i}", environment, records)
    return path
