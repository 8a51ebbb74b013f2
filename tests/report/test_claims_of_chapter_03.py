"""What the prose of chapter 03 says of the H200's records is so in the records."""

import inspect
import math
from collections import Counter

import numpy as np
import pytest

from common import cuda, cudnn, kernels, topology
from common.bench.operators import operators, work_of
from common.bench.peers import Model
from common.draw import card
from common.measure import timeline
from common.measure.roofline import Peaks, Work, bound, roof_us, share
from common.network.compare import TOLERANCES
from common.network.steps import fuse
from common.report import measuring, results, tables

CONTENT = results.load(tables.CARD)
NETWORK = [r for r in results.find(CONTENT, suite="network", case=tables.NETWORK) if r["precision"] != "int8"]
HOT = [r for r in NETWORK if r["mode"] == "hot"]
PEAKS = Peaks.recorded(CONTENT)
MODEL = Model.of("seeded")
STEPS = fuse(MODEL.graph)


def us(implementation, precision, batch, launch="graph", layout="NHWC"):
    wanted = (implementation, precision, batch, launch, layout)
    keys = ("implementation", "precision", "batch", "launch", "layout")
    (found,) = [r["median_us"] for r in HOT if tuple(r[key] for key in keys) == wanted]
    return found


def best(implementation, precision, batch):
    keys = ("implementation", "precision", "batch")
    found = [r for r in HOT if tuple(r[key] for key in keys) == (implementation, precision, batch)]
    return min(found, key=lambda r: r["median_us"])


def of(precision, batch):
    return results.find(
        CONTENT, suite="operators", implementation="cudnn", layout="NHWC", precision=precision, batch=batch
    )


def shares(precision, batch, *kinds):
    return [
        share(Work(r["bytes"], r["flops"]), precision, PEAKS, r["median_us"])
        for r in of(precision, batch) if not kinds or r["kind"] in kinds for _ in range(r["count"])
    ]  # fmt: skip


def total(precision, batch):
    return sum(r["count"] * r["median_us"] for r in of(precision, batch))


# ---- The chapter's page


def test_the_linear_layer_is_a_product_of_cublas_in_fp32_and_in_fp16_another_engine_runs_it_at_batch_1():
    linear = results.find(CONTENT, suite="operators", implementation="cudnn", kind="linear")
    assert all("cuBLAS | add(bias)" in r["plan"] for r in linear if r["precision"] == "fp32")
    one, many = (next(r for r in linear if (r["precision"], r["batch"]) == ("fp16", batch)) for batch in (1, 32))
    engines = [r["plan"].rpartition(": ")[2].partition("_")[0] for r in (one, many)]
    assert one["median_us"] > many["median_us"] and engines[0] != engines[1]
    assert not any("|" in r["plan"] for r in (one, many))


# ---- Notebook 0


def test_the_memory_that_notebook_0_draws_has_the_bandwidths_of_the_chapters_page():
    *_, cache, memory = card.measured(CONTENT).levels
    assert (cache.bytes_per_s, memory.bytes_per_s) == (PEAKS.l2_copy_bytes_per_s, PEAKS.copy_bytes_per_s)


def test_three_launches_have_returned_long_before_the_last_kernel_ends():
    h200 = card.measured(CONTENT)
    assert 3 * h200.launch_us < 0.6 * (h200.launch_us + 3 * h200.short_add["median_us"])


# ---- Notebook 1

POINTWISE = results.find(CONTENT, suite="plans", operator="pointwise 14×14 384>64", precision="fp16")


@pytest.mark.parametrize("arithmetic", ["fp32", "tf32", "fp16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_bias_or_an_activation_makes_several_descriptions_and_nhwc_adds_an_identity(layout, arithmetic):
    shapes = {"x": (1, 384, 14, 14), "w": (64, 384, 1, 1), "layout": layout, "arithmetic": arithmetic}
    assert len(list(cudnn.Convolution(**shapes).compositions())) == 1
    for rest in ({"bias": True}, {"bounds": (0.0, 6.0)}, {"bias": True, "bounds": (0.0, 6.0)}):
        found = list(cudnn.Convolution(**shapes, **rest).compositions())
        assert {len(graphs) for graphs in found} == {1, 2}
        identities = [graphs for graphs in found if any(n.op == "identity" for g in graphs for n in g.nodes)]
        assert len(identities) == (layout == "NHWC")


def test_the_fastest_description_has_an_identity_and_the_library_changes_with_the_layout():
    ways = {layout: {r["way"]: r for r in POINTWISE if r["layout"] == layout} for layout in ("NCHW", "NHWC")}
    assert min(ways["NHWC"].values(), key=lambda r: r["median_us"])["way"] == "conv + identity + bias + ReLU6"
    assert not any("identity" in way for way in ways["NCHW"])
    split = "conv | bias + ReLU6"
    assert "cuBLAS" in ways["NHWC"][split]["plans"] and "cuBLAS" not in ways["NCHW"][split]["plans"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("conv2d", ("x", "w", "bias", "stride", "padding", "dilation", "groups", "activation")),
        ("avg_pool2d", ("x", "kernel_size")),
        ("global_avg_pool", ("x",)),
        ("add", ("a", "b")),
        ("gemm", ("a", "b", "transpose_b")),
    ],
)
def test_both_libraries_take_the_arguments_of_the_five_calls(name, arguments):
    for library in (cudnn, kernels):
        taken = list(inspect.signature(getattr(library, name)).parameters)
        wanted = ["weight" if argument == "w" else argument for argument in arguments]
        assert [one for one in taken if one in wanted] == wanted
    assert "tune" not in inspect.signature(getattr(kernels, name)).parameters


def test_the_kernels_arithmetic_has_other_names():
    ones = cuda.asarray(np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match="arithmetic must be"):
        kernels.gemm(ones, ones, arithmetic="tf32")


# ---- Notebook 2


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_eager_is_the_slower_of_host_and_gpu(precision):
    """Of two runs the shorter times; at batch 32 the host's time per launch is longer, see the text."""
    host = shorter("cudnn", precision, 1)
    for batch in tables.BATCHES:
        predicted = max(host, us("cudnn", precision, batch))
        assert 0.75 < shorter("cudnn", precision, batch) / predicted < (1.45 if batch == 32 else 1.2)


def shorter(implementation, precision, batch):
    """The shorter of the eager medians of two runs, in the layout that `us` takes."""
    chosen = us(implementation, precision, batch, "eager")
    (r,) = [r for r in HOT if (r["implementation"], r["precision"], r["batch"], r["launch"], r["median_us"])
            == (implementation, precision, batch, "eager", chosen)]  # fmt: skip
    return min(chosen, r["previous_median_us"])


def test_at_batch_1_the_host_is_slower_than_the_gpu():
    for precision in ("fp32", "tf32", "fp16"):
        assert us("cudnn", precision, 1, "eager") > 2 * us("cudnn", precision, 1)
        assert us("torch-eager", precision, 1, "eager") > 1.8 * us("torch-graph", precision, 1)
    assert 1.5 < us("cudnn", "fp16", 1) / len(STEPS) < 6  # µs per step
    assert 4.5 < us("cudnn", "fp16", 1, "eager") / us("cudnn", "fp16", 1) < 5.5  # "a factor of five"
    found = [r for r in HOT if (r["implementation"], r["precision"], r["layout"]) == ("cudnn", "fp16", "NHWC")]
    changes = [max(a / b, b / a) for a, b in ((r["median_us"], r["previous_median_us"]) for r in found)]
    assert len(changes) == 8 and max(changes) < 1.4  # "runs of this program differ by far less"


def test_graphs_repeat_better_than_launches_from_python():
    spread, width = {}, {}
    for launch in ("graph", "eager"):
        found = [r for r in HOT if r["launch"] == launch]
        spread[launch] = np.median([(r["p95_us"] - r["p5_us"]) / r["median_us"] for r in found])
        ratios = [ratio for r in found for ratio in r.get("ratios", {}).values()]
        width[launch] = np.median([(ratio["high"] - ratio["low"]) / ratio["median"] for ratio in ratios])
    assert spread["graph"] < 0.05 and spread["graph"] < spread["eager"]
    assert width["graph"] < 0.02 and width["graph"] < width["eager"]


def test_at_batch_1_everything_fits_into_the_l2_and_at_batch_8_it_does_not():
    (l2,) = {run["l2_bytes"] for run in CONTENT.runs.values() if "l2_bytes" in run}
    weights = sum(array.size for array in MODEL.parameters.values())

    def fp16_bytes(batch):
        steps = fuse(MODEL.graph.with_batch(batch))
        return 2 * (weights + sum(math.prod(step.output_shape) for step in steps))

    assert fp16_bytes(1) < l2 < fp16_bytes(8)


# ---- Notebook 3


def test_every_recorded_result_is_right():
    assert all(r["error"] <= TOLERANCES[r["precision"]] for r in NETWORK)
    assert all(r["same_top5"] == r["checked_images"] for r in NETWORK if r["precision"] == "fp32")
    assert all(r["same_top5"] > 0.7 * r["checked_images"] for r in NETWORK)
    worst = {p: max(r["error"] for r in NETWORK if r["precision"] == p) for p in ("fp32", "tf32", "fp16")}
    assert all(300 < worst[precision] / worst["fp32"] < 10_000 for precision in ("tf32", "fp16"))


def test_cudnn_is_the_fastest_library_and_ours_is_faster():
    for batch in tables.BATCHES:
        libraries = [
            r for r in HOT if r["implementation"] != "ours" and (r["precision"], r["batch"]) == ("fp32", batch)
        ]
        assert min(libraries, key=lambda r: r["median_us"])["implementation"] == "cudnn"
        for precision in ("fp32", "fp16"):
            assert best("ours", precision, batch)["median_us"] < best("cudnn", precision, batch)["median_us"]
    for precision in ("fp32", "tf32", "fp16"):
        for batch in (1, 32):
            pair = best("cudnn", precision, batch), best("torch-graph", precision, batch)
            assert pair[0]["median_us"] < 0.95 * pair[1]["median_us"]


def test_fusing_explains_most_of_pytorchs_distance_in_nhwc():
    unfused = sum(layer.activation_bytes(2) for layer in MODEL.graph)
    fused = sum(step.activation_bytes(2) for step in STEPS)
    measured = us("torch-graph", "fp16", 256) / us("cudnn", "fp16", 256)
    assert 1.8 < unfused / fused < measured < 3
    for batch in (32, 256):  # where PyTorch wins
        assert us("torch-graph", "fp32", batch, layout="NCHW") < us("cudnn", "fp32", batch, layout="NCHW")
    assert us("torch-graph", "fp32", 32, layout="NCHW") < us("torch-graph", "fp32", 32)


def test_at_batch_1_the_curves_differ_by_more_than_ten():
    at_one = [r["median_us"] for r in HOT if (r["precision"], r["batch"]) == ("fp16", 1)]
    assert max(at_one) > 10 * min(at_one)


def test_nearly_everything_is_bound_by_memory_on_tensor_cores():
    for precision, itemsize in (("tf32", 4), ("fp16", 2)):
        for batch in (1, 256):
            works = [work_of(step, itemsize) for step in fuse(MODEL.graph.with_batch(batch))]
            bounds = [bound(work, precision, PEAKS) for work in works]
            assert bounds.count("memory") > 0.8 * len(bounds)


def test_at_batch_1_steps_take_the_same_few_microseconds():
    times = [r["median_us"] for r in of("fp16", 1) for _ in range(r["count"])]
    assert 1 < min(times) < 4 and np.median(times) < 2.5 * min(times) and np.median(shares("fp16", 1)) < 0.1
    assert len(of("fp16", 1)) == len(operators(STEPS))
    assert total("fp32", 1) > 1.5 * total("fp16", 1)


def test_at_batch_256_time_follows_the_roofs():
    large = shares("fp16", 256, "project"), shares("fp16", 256, "depthwise")
    assert np.median([*large[0], *large[1]]) > 3 * np.median(shares("fp16", 1))
    assert np.median(large[0]) > np.median(large[1])  # project steps come close, depthwise ones do not
    logs = [
        (math.log(r["median_us"]), math.log(roof_us(Work(r["bytes"], r["flops"]), "fp16", PEAKS)))
        for r in of("fp16", 256)
    ]
    assert np.corrcoef(np.array(logs).T)[0, 1] > 0.9


def test_the_steps_add_up_to_the_network():
    for precision in ("fp32", "fp16"):
        for batch in tables.OPERATOR_BATCHES:
            assert 0.85 < us("cudnn", precision, batch) / total(precision, batch) < 1.2


def test_depthwise_steps_take_nearly_half_in_fp16_and_7_percent_of_the_multiply_adds():
    parts = sum(r["count"] * r["median_us"] for r in of("fp16", 256) if r["kind"] == "depthwise")
    assert 0.4 < parts / total("fp16", 256) < 0.5
    macs = sum(step.macs for step in STEPS if getattr(step.layer, "groups", 1) > 1)
    assert round(100 * macs / MODEL.graph.macs) == 7


def test_one_kind_gains_at_most_about_1_4_and_fewer_kernels_gain_more():
    def gain(precision, batch, least=0.0, *kinds):
        saved = sum(
            r["count"] * max(0.0, r["median_us"] - max(least, roof_us(Work(r["bytes"], r["flops"]), precision, PEAKS)))
            for r in of(precision, batch) if not kinds or r["kind"] in kinds
        )  # fmt: skip
        return total(precision, batch) / (total(precision, batch) - saved)

    for kind in ("stem", "expand", "depthwise", "project", "head", "linear"):
        assert 1 <= gain("fp16", 1, 0.0, kind) < 1.45 and 1 <= gain("fp16", 256, 0.0, kind) < 1.45
    fastest = min(r["median_us"] for r in of("fp16", 1))
    assert gain("fp16", 1, fastest) < 0.5 * gain("fp16", 1)


def test_eager_pytorch_starts_one_kernel_per_layer_and_one_for_the_bias_of_each_dense_or_pointwise_convolution():
    found = results.find(CONTENT, suite="timeline", implementation="torch-eager", precision="fp32", batch=1)
    kinds = Counter(r["kind"] for r in found)
    layers = topology.build()
    convolutions = [layer for layer in layers if isinstance(layer, topology.Conv2d)]
    no_depthwise = [layer for layer in convolutions if layer.groups == 1]
    assert len(found) == len(layers.layers) + len(no_depthwise)
    assert kinds["depthwise"] == len(convolutions) - len(no_depthwise)  # one kernel adds the bias as well
    assert sum(kinds[kind] for kind in ("stem", "expand", "project", "head")) == 2 * len(no_depthwise)


def test_in_fp16_pytorch_adds_the_bias_of_every_convolution_in_a_kernel_of_its_own():
    for implementation in ("torch-eager", "torch-graph"):
        found = results.find(CONTENT, suite="timeline", implementation=implementation, precision="fp16", batch=1)
        kinds = Counter(r["kind"] for r in found)
        convolutions = [layer for layer in topology.build() if isinstance(layer, topology.Conv2d)]
        assert len(found) == len(topology.build().layers) + len(convolutions)
        kinds_of_convolutions = ("stem", "expand", "depthwise", "project", "head")
        assert sum(kinds[kind] for kind in kinds_of_convolutions) == 2 * len(convolutions)


def test_the_libraries_errors_in_fp32_are_smaller_than_ours():
    errors = {}
    for r in HOT:
        if (r["precision"], r["case"]) == ("fp32", tables.NETWORK):
            errors.setdefault(r["implementation"] == "ours", []).append(r["error"])
    assert max(errors[False]) < min(errors[True])


def test_a_recorded_timeline_is_as_long_as_its_network_takes():
    for (precision, batch), found in results.grouped(CONTENT.suite("timeline"), "precision", "batch").items():
        lanes = measuring.lanes(found)
        assert set(lanes) >= {"PyTorch, eager", "PyTorch, CUDA graph", "cuDNN, CUDA graph"}, (precision, batch)
        for r in found:
            assert r["start_us"] + r["us"] < 20 * r["untraced_us"]


def test_the_timeline_is_older_than_the_times_of_the_network_and_ours_is_faster_since():
    found = results.find(CONTENT, suite="timeline", precision="fp16", batch=1)
    dates = {CONTENT.runs[r["run"]]["date"] for r in found}
    for name, lane in (("torch-eager", "PyTorch, eager"), ("ours", "ours, with all fusions")):
        newest = best(name, "fp16", 1)
        assert max(dates) < CONTENT.runs[newest["run"]]["date"]
        assert newest["median_us"] < timeline.span(measuring.lanes(found)[lane])
