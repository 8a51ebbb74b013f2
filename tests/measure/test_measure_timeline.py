"""Timelines from the profiler's traces: what ran when, between which gaps, and launched by whom."""

import itertools

import pytest
import torch

from common.measure import timeline
from common.measure.timeline import Slice


def event(cat, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


def trace(*events):
    return {"traceEvents": [{"ph": "M", "name": "process_name"}, *events]}


TWO = trace(
    event("user_annotation", "network", 990.0, 100.0),
    event("user_annotation", "expand", 1000.0, 12.0),
    event("user_annotation", "project", 1020.0, 12.0),
    event("cuda_runtime", "cudaLaunchKernel", 1002.0, 4.0, correlation=7),
    event("cuda_driver", "cuLaunchKernelEx", 1022.0, 5.0, correlation=8),
    event("cuda_runtime", "cudaMemsetAsync", 1050.0, 3.0, correlation=9),
    event("kernel", "second", 1030.0, 6.0, correlation=8, stream=7),
    event("kernel", "first", 1008.0, 2.0, correlation=7, stream=7),
    event("gpu_memset", "Memset (Device)", 1060.0, 1.0, correlation=9, stream=7),
    event("cpu_op", "aten::conv2d", 1000.0, 12.0),
)


def test_kernels_come_in_order_with_the_calls_that_launched_them():
    first, second, third = timeline.kernels(TWO)
    assert first == Slice("first", 6.0, 2.0, 7, 0.0, 4.0, "expand")
    assert second == Slice("second", 28.0, 6.0, 7, 20.0, 5.0, "project")
    assert (third.name, third.label, third.end_us) == ("Memset (Device)", "network", 59.0)
    assert timeline.span([first, second, third]) == 53.0
    assert timeline.gaps([first, second, third]) == 53.0 - 9.0


def test_a_kernel_whose_launch_is_unknown_counts_from_the_first_start():
    (one,) = timeline.kernels(trace(event("kernel", "k", 500.0, 2.0)))
    assert one == Slice("k", 0.0, 2.0)
    assert timeline.kernels(trace()) == []
    with pytest.raises(ValueError, match="list of traceEvents"):
        timeline.kernels({})


def test_repeated_calls_are_split_and_count_from_their_own_first_launch():
    slices = [Slice("a", 5, 1, launched_us=1), Slice("b", 7, 1, launched_us=2)]
    later = [Slice(s.name, s.start_us + 100, s.us, launched_us=s.launched_us + 100) for s in slices]
    one, two = timeline.split([*slices, *later], 2)
    assert one == two and [(s.start_us, s.launched_us) for s in one] == [(4, 0), (6, 1)]
    for count, repeats in ((3, 2), (0, 1)):
        with pytest.raises(ValueError, match=f"equally many slices, got {count} in all"):
            timeline.split([Slice("a", 0, 1)] * count, repeats)


def test_gaps_are_not_counted_twice_where_slices_overlap():
    slices = [Slice("long", 0, 10), Slice("inside", 2, 3), Slice("over the end", 8, 4), Slice("late", 20, 1)]
    assert timeline.gaps(slices) == 8.0
    assert timeline.gaps([Slice("one", 3, 4)]) == 0.0
    with pytest.raises(ValueError, match="at least one"):
        timeline.gaps([])


def test_the_cpu_s_operators_are_those_that_no_other_operator_called():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU6())
    x = torch.zeros(1, 3, 16, 16)
    with torch.inference_mode():
        net(x)
        found = timeline.operators(timeline.traced(lambda: net(x), 3))
    assert [one.name for one in found] == ["aten::conv2d", "aten::hardtanh"] * 3
    assert found[0].start_us == 0 and all(a.end_us <= b.start_us for a, b in itertools.pairwise(found))
    calls = timeline.split(found, 3)
    assert all(call[0].start_us == 0 < call[0].us < timeline.span(call) for call in calls)
    assert timeline.kernels(timeline.traced(lambda: net(x))) == []
    with pytest.raises(ValueError, match="repeats must be at least 1, and gpu or host true"):
        timeline.traced(lambda: net(x), host=False)


def test_a_module_s_operators_say_which_layer_called_them():
    from common import topology

    for batch_norm, count in ((True, 52), (False, 0)):
        module = topology.MobileNetV2(0.35, 10, batch_norm=batch_norm).eval()
        found = timeline.of_module(module, torch.zeros(1, 3, 32, 32), repeats=3)
        labels = [one.label for one in found if one.label.endswith("batch-norm")]
        assert len(labels) == count and labels.count("expand, batch-norm") == (16 if batch_norm else 0)
        assert found[0].label == "stem" and found[-1].label == "linear"
        assert timeline.gaps(found) < timeline.span(found)
