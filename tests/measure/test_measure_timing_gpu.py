"""Timing on a real GPU. There is nothing to time elsewhere, so every test here is skipped without one."""

import re
import subprocess
import sys

import numpy as np
import pytest

from common import cuda
from common.bench import peaks
from common.cuda import graphs
from common.measure import environment, timing
from common.measure.roofline import Peaks
from common.report import results

pytestmark = pytest.mark.skipif(cuda.backend() != "gpu", reason="needs a GPU: nothing is timed on the simulator")


def copies(floats, sets=1):
    """Calls that copy, each between buffers of its own."""
    arrays = [
        (cuda.asarray(np.random.default_rng(i).standard_normal(floats, np.float32)), cuda.empty(floats))
        for i in range(sets)
    ]
    return [lambda a=a, b=b: peaks.copy(a, b, 1056) for a, b in arrays]


def test_two_timings_of_a_kernel_agree():
    (call,) = copies(2**26)
    first, second = timing.time(call), timing.time(call)
    assert first.median_us == pytest.approx(second.median_us, rel=0.1)
    assert first.p5_us <= first.median_us <= first.p95_us
    # 512 MiB: no card of today moves 20 TB/s, none of those that this runs on less than 0.1
    assert 0.1e12 < 2 * 4 * 2**26 / first.median_us * 1e6 < 20e12


def test_a_kernel_that_does_twice_as_much_takes_twice_as_long():
    out = cuda.empty(256 * 1024)
    both = timing.compare({steps: lambda steps=steps: peaks.fma_chains(out, steps) for steps in (16_384, 32_768)})
    ratio = both.ratio(32_768, 16_384)
    assert ratio.median == pytest.approx(2.0, rel=0.05)
    assert ratio.low <= ratio.median <= ratio.high < 1.1 * ratio.low


def test_a_graph_and_events_agree_on_a_long_kernel():
    (call,) = copies(2**26)
    both = timing.compare({"graph": timing.Benchmark(call), "eager": timing.Benchmark(call, "eager")}, samples=20)
    assert both.ratio("eager", "graph").median == pytest.approx(1.0, rel=0.05)
    assert both["graph"].launch == "graph" and both["eager"].launch == "eager"


def test_an_eager_small_kernel_is_as_slow_as_python():
    (call,) = copies(256)
    assert timing.time(call, launch="eager", samples=10).median_us > 1.5 * timing.time(call, samples=10).median_us


def test_wall_clock_and_events_agree_on_a_long_kernel():
    import cupy

    (call,) = copies(2**28)
    host = timing.time(call, launch="host", wait=lambda: cupy.cuda.Device().synchronize(), samples=10)
    assert host.median_us == pytest.approx(timing.time(call, samples=10).median_us, rel=0.1)


def test_buffers_that_left_the_cache_are_slower():
    import cupy

    l2 = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"]
    floats = l2 // 32 // 4 * 4  # with their copy a quarter of the cache
    both = timing.compare({"hot": copies(floats), "rotating": copies(floats, timing.rotations(8 * floats))})
    assert (both["hot"].mode, both["rotating"].mode) == ("hot", "rotating")
    ratio = both.ratio("rotating", "hot")
    assert ratio.low > 1 and ratio.median > 1.05


def test_an_error_while_capturing_leaves_the_stream_usable():
    import cupy

    (call,) = copies(1024)

    def waits():
        call()
        cupy.cuda.get_current_stream().synchronize()  # not while capturing

    class Broken(Exception):
        pass

    calls = []

    def breaks():
        calls.append(call())
        if len(calls) == 2:
            raise Broken

    for wrong, error in ((waits, cupy.cuda.runtime.CUDARuntimeError), (breaks, Broken)):
        with graphs.on_stream() as stream:
            with pytest.raises(error):
                graphs.capture(wrong)
            assert not stream.is_capturing()
            call()
            stream.synchronize()
    assert timing.time(call, samples=5).median_us > 0


def test_a_graph_keeps_its_memory():
    import cupy

    source = cupy.asarray(np.arange(1 << 20, dtype=np.float32))
    out = cupy.empty_like(source)

    def call():
        cupy.add(source * 2, 1, out=out)  # the product is a buffer of the graph's own

    graph = graphs.capture(call)
    others = [cupy.full(1 << 20, np.nan, np.float32) for _ in range(8)]
    out.fill(np.nan)
    graph.launch()
    cupy.cuda.Device().synchronize()
    assert bool((out == source * 2 + 1).all()) and all(bool(cupy.isnan(other).all()) for other in others)


def test_calls_that_launch_nothing_are_refused():
    with pytest.raises(ValueError, match="less than any kernel does"):
        timing.time(lambda: None)


def test_pytorchs_work_is_timed_by_the_same_events():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch is built without CUDA")
    a = torch.randn(4096, 4096, device="cuda")
    both = timing.compare({"graph": lambda: a @ a, "eager": timing.Benchmark(lambda: a @ a, "eager")}, samples=10)
    assert both.ratio("graph", "eager").median == pytest.approx(1.0, rel=0.15)
    assert both["graph"].median_us > 50


def test_the_roofs_of_this_card(tmp_path):
    with environment.Watch() as watch:
        records = peaks.measure_peaks(samples=10)
    here = environment.environment(watch)
    results.save(tmp_path / "card", "r1", here, records)
    old = here["compute_capability"] < "8"  # those have no TF32
    cases = dict.fromkeys(re.sub(r"-\d+MB$", "", record["case"]) for record in records)  # l2-copy-8MB is of l2-copy
    assert list(cases) == [case for case in peaks.CASES if not (old and case == "tensor-tf32")]
    roofs = Peaks.recorded(results.load(tmp_path / "card"))
    print(here, roofs)
    assert 1e11 < roofs.copy_bytes_per_s < 2e13
    # tensor cores of any card are faster in fp16 than its FMAs in fp32
    assert 1e12 < roofs.fma_fp32 < roofs.tensor_fp16
    assert {"driver", "cuda", "cupy", "sms", "l2_bytes", "watch"} <= set(here)


def test_pytorch_is_not_imported_for_it():
    code = "import sys; from common.measure import environment as e; e.environment(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=results.course())
    assert done.stdout.strip() == "False", done.stderr


def test_lone_and_cold_calls_take_longer_than_calls_back_to_back():
    """A copy within the L2 cache: a lone one has its launch in it, a cold one reads from DRAM."""
    (call,) = copies(2**20)
    hot = timing.time(call, samples=20).median_us
    alone = timing.compare({"lone": timing.Lone(call), "cold": timing.Cold(call)}, samples=20)
    assert hot < alone["cold"].median_us < 20 * hot
    assert hot < alone["lone"].median_us < hot + 1000
