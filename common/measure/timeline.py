"""Timelines: when each kernel of a call runs on the GPU, or each operator on the CPU, as torch.profiler records them.

    trace = traced(lambda: module(x))              the profiler's events, a dict
    operators(trace)                               on the CPU: the operators that were called, one after the other
    kernels(traced(call, gpu=True))                on a GPU: the kernels, copies and fills
    of_module(module, x)                           a module's operators on the CPU, with the layers that called them
    gaps(slices)                                   µs in which nothing ran between the first start and the last end

The profiler sees all kernels of the process, those of CuPy, cuDNN and of CUDA graphs included, not PyTorch's alone.
Recording takes time itself, most of all on the host; `us` of a kernel is measured by the GPU.
"""

import contextlib
import json
import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of events
HOST_CALLS = ("cuda_runtime", "cuda_driver")
ANNOTATION = "user_annotation"  # of torch.profiler.record_function


@dataclass(frozen=True)
class Slice:
    """What ran from start_us on for `us` µs; start_us: since the first host call, or the first slice without any.

    stream: the CUDA stream, or the thread. launched_us, host_us: start and duration of the host's call that launched
    it, None if unknown; kernels of a CUDA graph share one call. label: of the innermost annotation around that call.
    """

    name: str
    start_us: float
    us: float
    stream: int = 0
    launched_us: float | None = None
    host_us: float | None = None
    label: str | None = None

    @property
    def end_us(self) -> float:
        """The time at which it ends."""
        return self.start_us + self.us


def traced(call: Callable[[], Any], repeats: int = 1, gpu: bool = False, host: bool = True) -> dict[str, Any]:
    """The trace of `repeats` calls, in the format of Chrome's trace viewer; call once before, to warm up.

    gpu: also record kernels, and wait for the GPU after each call. host: record operators and annotations; without
    them, eager calls are slowed down less. ValueError if nothing is to be recorded.
    """
    if not gpu:
        os.environ.setdefault("KINETO_LOG_LEVEL", "7")  # no lines about its own start and stop
    import torch
    from torch.profiler import ProfilerActivity, profile

    if repeats < 1 or not (gpu or host):
        raise ValueError(f"repeats must be at least 1, and gpu or host true, got {repeats}, {gpu} and {host}")
    activities = [ProfilerActivity.CPU] * host + [ProfilerActivity.CUDA] * gpu
    with profile(activities=activities, acc_events=True) as profiler:
        for _ in range(repeats):
            call()
            if gpu:
                torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _complete(trace: Mapping[str, Any], *categories: str) -> list[dict[str, Any]]:
    """The events of these categories that have a duration, by their start; of those that start together, longest first.

    ValueError for a trace without a list of events.
    """
    events = trace.get("traceEvents")
    if not isinstance(events, list):
        raise ValueError("a trace must have a list of traceEvents, as torch.profiler writes it")
    wanted = [e for e in events if e.get("ph") == "X" and e.get("cat") in categories]
    return sorted(wanted, key=lambda e: (e["ts"], -e["dur"]))


def kernels(trace: Mapping[str, Any]) -> list[Slice]:
    """What ran on the GPU, in the order of its starts; empty if nothing did."""
    host = {
        e["args"]["correlation"]: e for e in _complete(trace, *HOST_CALLS) if "correlation" in e.get("args", {})
    }  # fmt: skip
    labels = _complete(trace, ANNOTATION)
    ran = _complete(trace, *ON_GPU)
    calls = [host.get(e.get("args", {}).get("correlation")) for e in ran]
    zero = min([call["ts"] for call in calls if call] or [e["ts"] for e in ran], default=0.0)
    found = []
    for e, call in zip(ran, calls, strict=True):
        launched = (call["ts"] - zero, call["dur"], _innermost(labels, call["ts"])) if call else (None, None, None)
        stream = int(e.get("args", {}).get("stream", 0))
        found.append(Slice(e["name"], e["ts"] - zero, e["dur"], stream, *launched))
    return found


def _innermost(labels: Sequence[Mapping[str, Any]], moment: float) -> str | None:
    """The name of the latest-started annotation around a moment."""
    for e in reversed(labels[: bisect_right([e["ts"] for e in labels], moment)]):
        if moment < e["ts"] + e["dur"]:
            return str(e["name"])
    return None


def operators(trace: Mapping[str, Any]) -> list[Slice]:
    """PyTorch's operators on the CPU that were not called by another one, in the order of their starts."""
    found: list[Slice] = []
    events = _complete(trace, "cpu_op")
    labels = _complete(trace, ANNOTATION)
    until: dict[Any, float] = {}  # by thread
    for e in events:
        if e["ts"] >= until.get(e["tid"], float("-inf")):
            until[e["tid"]] = e["ts"] + e["dur"]
            start = e["ts"] - events[0]["ts"]
            found.append(Slice(e["name"], start, e["dur"], int(e["tid"]), label=_innermost(labels, e["ts"])))
    return found


def split(slices: Sequence[Slice], repeats: int) -> list[list[Slice]]:
    """The slices of `repeats` equal calls, call by call, each with times from its own first host call on.

    ValueError unless each call has equally many.
    """
    each, rest = divmod(len(slices), repeats)
    if rest or not each:
        raise ValueError(f"{repeats} equal calls must have equally many slices, got {len(slices)} in all")
    return [since_first(slices[i * each : (i + 1) * each]) for i in range(repeats)]


def since_first(slices: Sequence[Slice]) -> list[Slice]:
    """The slices with times from their first host call on, or from their first start if no call is known."""
    known = [one.launched_us for one in slices if one.launched_us is not None]
    zero = min(known or [one.start_us for one in slices])
    return [
        Slice(
            one.name, one.start_us - zero, one.us, one.stream,
            None if one.launched_us is None else one.launched_us - zero, one.host_us, one.label,
        )
        for one in slices
    ]  # fmt: skip


def span(slices: Sequence[Slice]) -> float:
    """µs from the first start to the last end. ValueError without slices."""
    if not slices:
        raise ValueError("slices must be at least one, got none")
    return max(one.end_us for one in slices) - min(one.start_us for one in slices)


def gaps(slices: Sequence[Slice]) -> float:
    """µs between the first start and the last end in which none of them ran. ValueError without slices."""
    busy, reached = 0.0, float("-inf")
    for one in sorted(slices, key=lambda one: one.start_us):
        busy += max(0.0, one.end_us - max(reached, one.start_us))
        reached = max(reached, one.end_us)
    return max(0.0, span(slices) - busy)


# ---- Layers of a module


def kinds_of_modules(module: Any) -> dict[Any, str]:
    """The label of each module in a MobileNetV2 of PyTorch that runs something: "expand", "expand, ReLU6", "add", …

    A residual addition and the pooling are functions, not modules: the modules around them have these labels.
    """
    from torch import nn

    labels: dict[Any, str] = {module: "pool"}
    kind, since = "", []  # the kind of the last convolution; it and the modules after it
    for one in module.modules():
        if hasattr(one, "use_res_connect"):
            labels[one] = "add"
        elif isinstance(one, nn.Conv2d):
            wide = "head" if one.out_channels >= 1280 else "project"  # "expand" if a ReLU6 follows
            kind = "depthwise" if one.groups > 1 else "stem" if one.kernel_size != (1, 1) else wide
            labels[one], since = kind, [one]
        elif isinstance(one, nn.BatchNorm2d):
            labels[one] = f"{kind}, batch-norm"
            since.append(one)
        elif isinstance(one, nn.ReLU6):
            if kind == "project":
                kind = "expand"
                labels |= {before: labels[before].replace("project", kind) for before in since}
            labels[one] = f"{kind}, ReLU6"
        elif isinstance(one, nn.Linear):
            labels[one] = "linear"
    return labels


@contextlib.contextmanager
def annotated(labels: Mapping[Any, str]) -> Iterator[None]:
    """Context manager: each call of a module runs in an annotation of the profiler with the module's label."""
    from torch.profiler import record_function

    hooks: list[Any] = []
    running: list[Any] = []

    def enter(label: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            running.append(record_function(label))
            running[-1].__enter__()

        return hook

    def leave(*_: Any) -> None:
        running.pop().__exit__(None, None, None)

    for module, label in labels.items():
        hooks += [module.register_forward_pre_hook(enter(label)), module.register_forward_hook(leave)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def of_module(module: Any, x: Any, repeats: int = 9) -> list[Slice]:
    """The operators of one forward pass on the CPU, with labels: of `repeats` passes, the one with the median span."""
    import torch

    with torch.inference_mode():
        for _ in range(3):
            module(x)
        with annotated(kinds_of_modules(module)):
            found = operators(traced(lambda: module(x), repeats))
    return median(split(found, repeats))


def median(passes: Sequence[Sequence[Slice]]) -> list[Slice]:
    """The pass with the median span."""
    return list(sorted(passes, key=span)[len(passes) // 2])
