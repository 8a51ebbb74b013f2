"""The suite "timeline": which layer a kernel belongs to, and records that the results take. It records on a GPU."""

import io
from collections import Counter

import pytest
import torch
from rich.console import Console

from common import cuda
from common.bench import timeline as suite
from common.bench.operators import pictures
from common.bench.peers import Model, TorchEager
from common.cuda.graphs import NoGpu
from common.measure import timeline
from common.measure.timeline import Slice
from common.network import Network
from common.report import results


def test_each_operator_of_the_module_has_the_label_of_its_layer():
    built = TorchEager("fp32").build(Model.of("digits"), pictures(1, (3, 32, 32)), "cpu")
    call = built.calls[0]
    module = suite.module_of(call)
    with timeline.annotated(timeline.kinds_of_modules(module)):
        found = timeline.operators(timeline.traced(call))
    labels = Counter(one.label for one in found if one.name in ("aten::conv2d", "aten::hardtanh_", "aten::linear"))
    assert labels == {
        "stem": 1, "stem, ReLU6": 1, "expand": 16, "expand, ReLU6": 16, "depthwise": 17, "depthwise, ReLU6": 17,
        "project": 17, "head": 1, "head, ReLU6": 1, "linear": 1,
    }  # fmt: skip
    assert Counter(one.label for one in found if one.name == "aten::add") == {"add": 10}
    assert [one.label for one in found if one.name == "aten::adaptive_avg_pool2d"] == ["pool"]
    assert not module._forward_hooks  # removed at the end
    assert all(one.label is None for one in timeline.operators(timeline.traced(call)))


def test_a_step_is_labelled_by_its_kind_and_a_fused_one_as_a_block():
    model = Model.of("digits")
    for optimize, blocks in (({}, 0), ({"optimize": "throughput"}, 1)):
        net = Network(model.onnx, "kernels", **optimize)
        labels = Counter(suite.label_of(step) for step in net.plan((1, 3, 32, 32)).steps)
        assert labels["stem"] <= 1 and bool(labels["block"]) == bool(blocks)
    assert suite.matched(["a", "b", "new", "c"], ["a", "b", "c"], ["x", "y", None]) == ["x", "y", "", ""]


def test_the_single_launch_of_a_persistent_kernel_is_one_label():
    class Program:
        single_launch = staticmethod(lambda: None)
        launches = 0

        def launch(self):
            self.launches += 1
            torch.zeros(1)

    program = Program()
    (found,) = timeline.operators(timeline.traced(lambda: suite.steps_in_turn(program)))
    assert found.label == "network" and program.launches == 1


def test_records_are_what_the_results_take(tmp_path):
    slices = [Slice("k" * 200, 3.0, 1.25, 7, 0.0, 2.5), Slice("relu", 9.0, 1.0, 7)]
    more = {"precision": "fp16", "batch": 1, "layout": "NHWC", "launch": "graph"}
    made = suite.records(slices, ["expand", ""], suite.STEPWISE, 12.345, **more)
    assert [r["case"] for r in made] == ["ours step by step, 001", "ours step by step, 002"]
    assert len(made[0]["kernel"]) == suite.LONGEST_NAME and made[1]["kind"] == "other"
    assert made[0]["launched_us"] == 0.0 and "launched_us" not in made[1]
    path, here = tmp_path / "card", {"card": "a card", "date": "2026-11-22"}
    results.save(path, "one", here, made)
    again = suite.records(slices[:1], ["expand"], suite.STEPWISE, 12.0, **more)
    whole = suite.records(slices[:1], ["network"], "ours", 10.0, **more)
    results.save(path, "two", here, again + whole, suite.superseded(again + whole))
    found = results.find(results.load(path), suite="timeline")
    assert sorted(r["case"] for r in found) == ["ours step by step, 001", "ours, 001"]
    with pytest.raises(ValueError, match="labels must be as many as the kernels, 2, got 1"):
        suite.records(slices, ["expand"], "ours", 1.0, **more)


def test_the_pass_with_the_median_span_is_kept(monkeypatch):
    passes = [[Slice("a", 0, us)] for us in (5.0, 1.0, 3.0)]
    assert timeline.median(passes) == passes[2]
    monkeypatch.setattr(timeline, "traced", lambda *a, **k: {"traceEvents": []})
    with pytest.raises(RuntimeError, match="the profiler saw no kernel"):
        suite.recorded(lambda: None)


@pytest.mark.skipif(cuda.backend() == "gpu", reason="it would record: what it says without a GPU is tested elsewhere")
def test_without_a_gpu_it_says_where_the_records_are():
    with pytest.raises(NoGpu, match="06_optimize/results"):
        suite.bench(suite.Options(), Console(file=io.StringIO()))


def test_options_and_configurations():
    with pytest.raises(ValueError, match="precision must be one of fp32, fp16, got 'tf32'"):
        suite.Options(precisions=("tf32",))
    with pytest.raises(ValueError, match="backend must be one of torch-eager"):
        suite.Options(backends=("xla",))
    assert suite.configuration_of("cudnn", "fp32", 1).layout == "NHWC"
    assert suite.configuration_of("torch-graph", "fp32", 1).layout == "NCHW"
    assert suite.configuration_of("torch-graph", "fp16", 1).layout == "NHWC"
    assert suite.configuration_of(suite.STEPWISE, "fp32", 1).optimize is None
    assert suite.configuration_of("ours", "fp32", 1).optimize == "latency"
