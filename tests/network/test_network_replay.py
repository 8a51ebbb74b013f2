"""Calls that replay a CUDA graph: when they are captured and let go, and that they are right as all other calls are.

On the simulator launches one by one stand for the graph; a counter stands for the capture.
"""

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from network_models import CUDNN, Nodes

from common import cuda, cudnn, kernels
from common.network import Network, context, replay
from common.network.program import Program, StepBackend
from common.network.replay import Captured

stepped = pytest.mark.parametrize("backend", ["kernels", CUDNN])
ON = "cuda" if cuda.backend() == "gpu" else "cpu"  # the device of tensors that a network on this backend works on


@pytest.fixture(scope="module")
def tiny():
    """A residual block, a pool and a classifier, for inputs of any size."""
    nodes = Nodes(np.random.default_rng(1))
    x = nodes("Relu", nodes.same("x", 3))
    x = nodes("Relu", nodes("Add", nodes.same(x, 3), x))
    x = nodes("Flatten", nodes("GlobalAveragePool", x))
    return nodes.model(nodes("Gemm", x, nodes.number(nodes.rng.standard_normal((3, 5)))), ("n", 3, "h", "w"))


@pytest.fixture
def graphs(monkeypatch):
    """The captures made for calls, in order: a list of the numbers of their launches."""
    record, made = replay.record, []

    class Counted:
        def __init__(self, launches):
            self.graph, self.number = record(launches), len(made)
            made.append(0)

        def launch(self, stream=None):
            made[self.number] += 1
            self.graph.launch(stream)

    monkeypatch.setattr(replay, "record", Counted)
    return made


def images(rng, n=2, height=9, width=8):
    return rng.standard_normal((n, 3, height, width), dtype=np.float32)


def tensor(x, **how):
    return torch.from_numpy(np.array(x)).to(ON, **how)


def host(result):
    return result.cpu().numpy() if isinstance(result, torch.Tensor) else cuda.asnumpy(result)


# ---- When


@stepped
@pytest.mark.parametrize("make", [np.array, tensor], ids=["numpy", "torch"])
def test_the_third_call_of_a_shape_is_captured_and_replayed(rng, tiny, graphs, backend, make):
    net, plain = Network(tiny, backend, replay=True), Network(tiny, backend, replay=False)
    for call in range(1, 7):
        x = images(rng)
        np.testing.assert_array_equal(host(net(make(x))), plain(x))
        assert graphs == ([] if call <= replay.FIRST_CALLS else [call - replay.FIRST_CALLS])
        assert isinstance(net.runner.program_for(x.shape), Captured) == bool(graphs)


def test_without_replay_nothing_is_captured(rng, tiny, graphs):
    net = Network(tiny, replay=False)
    for _ in range(5):
        net(tensor(images(rng)))
    assert graphs == [] and isinstance(net.runner.program_for((2, 3, 9, 8)), Program)


def test_calls_replay_by_default_where_there_are_graphs(rng, tiny, graphs):
    net = Network(tiny)
    for _ in range(4):
        net(tensor(images(rng)))
    assert graphs == ([2] if cuda.backend() == "gpu" else [])


def test_every_shape_counts_for_itself(rng, tiny, graphs):
    net = Network(tiny, replay=True)
    inputs = [images(rng, n) for n in (1, 2, 3)]
    expected = [Network(tiny, replay=False)(x) for x in inputs]
    for _ in range(4):
        for x, want in zip(inputs, expected, strict=True):
            np.testing.assert_array_equal(net(tensor(x)).cpu(), want)
    assert graphs == [2, 2, 2]


def test_graphs_are_as_few_as_programs_and_the_longest_unused_goes(rng, tiny, graphs):
    net = Network(tiny, replay=True)
    shapes = [(1, 3, 9 + i, 8) for i in range(StepBackend.KEPT + 2)]
    for shape in shapes:
        for _ in range(3):
            net(tensor(np.ones(shape, np.float32)))
    runner = net.runner
    assert list(runner._programs) == shapes[-StepBackend.KEPT :] and len(graphs) == len(shapes)
    net(tensor(np.ones(shapes[2], np.float32)))  # a replay counts as a use
    net(tensor(np.ones(shapes[0], np.float32)))  # begins anew
    assert list(runner._programs) == [*shapes[4:], shapes[2], shapes[0]]
    assert isinstance(runner._programs[shapes[0]], Program) and len(graphs) == len(shapes)
    for _ in range(2):
        net(tensor(np.ones(shapes[0], np.float32)))
    assert len(graphs) == len(shapes) + 1


def test_shapes_in_turn_that_do_not_fit_are_never_captured(tiny, graphs):
    net = Network(tiny, replay=True)
    for _ in range(3):
        for i in range(StepBackend.KEPT + 1):
            net(tensor(np.ones((1, 3, 9 + i, 8), np.float32)))
    assert graphs == []


def test_a_shape_that_was_captured_by_hand_is_not_captured_again(rng, tiny, graphs):
    net, x = Network(tiny, replay=True), images(rng, 1)
    expected = Network(tiny, replay=False)(x)
    net(x)
    captured = net.capture(1, x.shape[2:])
    for _ in range(4):
        np.testing.assert_array_equal(net(tensor(x)).cpu(), expected)
        np.testing.assert_array_equal(net(x), expected)
    assert graphs == [] and net.runner.program_for(x.shape) is captured


def test_a_learners_function_is_called_in_every_call(rng, tiny, graphs):
    """What it does besides launching would be left out by a graph."""
    calls = []

    def mine(x, *, out):
        calls.append(1)
        return kernels.global_avg_pool(x, out=out)

    net, x = Network(tiny, operators={"global_avg_pool": mine}, replay=True), images(rng)
    expected = Network(tiny, replay=False)(x)
    for _ in range(5):
        np.testing.assert_array_equal(net(tensor(x)).cpu(), expected)
    assert len(calls) == 5 and graphs == []


def test_a_capture_that_fails_is_told_once_and_calls_go_on(rng, tiny, monkeypatch):
    tried = []

    def broken(launches):
        tried.append(1)
        raise RuntimeError("cudaErrorStreamCaptureInvalidated")

    monkeypatch.setattr(replay, "record", broken)
    net, x = Network(tiny, replay=True), images(rng)
    expected = Network(tiny, replay=False)(x)
    for _ in range(replay.FIRST_CALLS):
        net(x)
    with pytest.warns(RuntimeWarning, match=r"\(2, 3, 9, 8\) launch kernel by kernel.*cudaErrorStreamCapture"):
        np.testing.assert_array_equal(net(x), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(net(tensor(x)).cpu(), expected)
    assert len(tried) == 1


def test_an_interrupt_during_a_capture_is_raised_and_the_next_call_tries_again(rng, tiny, graphs, monkeypatch):
    record = replay.record

    def interrupted(launches):
        monkeypatch.setattr(replay, "record", record)
        raise KeyboardInterrupt

    monkeypatch.setattr(replay, "record", interrupted)
    net, x = Network(tiny, replay=True), images(rng)
    expected, _ = (net(x) for _ in range(replay.FIRST_CALLS))
    with pytest.raises(KeyboardInterrupt):
        net(x)
    np.testing.assert_array_equal(net(x), expected)
    assert graphs == [1]


@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
def test_backends_without_replays(tiny, backend):
    with pytest.raises(ValueError, match=f"replay: backend '{backend}' has no choice of it, leave it out"):
        Network(tiny, backend, replay=True)


# ---- What


DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


@stepped
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_tensors_of_every_kind_give_what_they_give_without_replays(rng, tiny, graphs, backend, dtype, layout):
    """One graph serves all: the copy into its buffer converts."""
    net, plain = Network(tiny, backend, layout=layout, replay=True), Network(tiny, backend, layout=layout, replay=False)
    for _ in range(3):
        net(images(rng))
    x = tensor(images(rng)).to(dtype)
    others = [x, x.contiguous(memory_format=torch.channels_last), x.flip(3).flip(3), x[:, :, :, :].expand(2, 3, 9, 8)]
    wider = torch.zeros((2, 3, 9, 11), dtype=dtype, device=ON)
    wider[..., 2:10] = x
    for one in (*others, wider[..., 2:10], x.clone().requires_grad_()):
        result = net(one)
        assert isinstance(result, torch.Tensor) and result.dtype == torch.float32 and result.device == x.device
        assert not result.requires_grad
        np.testing.assert_array_equal(result.cpu(), plain(x).cpu())
    assert graphs == [1 + len(others) + 2]


def test_fp16_networks(rng, tiny, graphs):
    net, plain = Network(tiny, dtype="fp16", replay=True), Network(tiny, dtype="fp16", replay=False)
    for _ in range(5):
        x = tensor(images(rng))
        result = net(x)
        assert result.dtype == torch.float32
        np.testing.assert_array_equal(result.cpu(), plain(x).cpu())
    assert graphs == [3]


@stepped
def test_results_are_the_callers_own_and_inputs_stay(rng, tiny, backend):
    net = Network(tiny, backend, replay=True)
    inputs = [tensor(images(rng)) for _ in range(6)]
    kept = [x.clone() for x in inputs]
    results = [net(x) for x in inputs]
    copies = [result.clone() for result in results]
    for x in inputs:
        net(x + 1)
    assert all(torch.equal(a, b) for a, b in zip(inputs + results, kept + copies, strict=True))
    results[-1].fill_(7)  # and writing to one changes no later call
    np.testing.assert_array_equal(net(inputs[-1]).cpu(), copies[-1].cpu())


def test_an_input_may_be_overwritten_right_after_the_call(rng, tiny):
    net, plain = Network(tiny, replay=True), Network(tiny, replay=False)
    x = tensor(images(rng))
    for _ in range(20):
        values = images(rng)
        x.copy_(torch.from_numpy(values))
        result = net(x)
        x.fill_(float("nan"))
        np.testing.assert_array_equal(result.cpu(), plain(values))


def test_arrays_of_the_host_and_of_the_device_take_turns(rng, tiny, graphs):
    net, plain = Network(tiny, replay=True), Network(tiny, replay=False)
    for i in range(9):
        x = images(rng)
        given = [x, tensor(x), cuda.asarray(x)][i % 3]
        result = net(given)
        assert type(result) is type(given)
        np.testing.assert_array_equal(host(result), plain(x))
    assert graphs == [7]


def test_modes_of_autograd(rng, tiny, graphs):
    """The views of the buffers, made in the first replay, serve calls in every mode."""
    x, plain = tensor(images(rng)), Network(tiny, replay=False)
    for order in ([torch.inference_mode, torch.no_grad, torch.enable_grad], [torch.enable_grad, torch.inference_mode]):
        net = Network(tiny, replay=True)
        for mode in order * 3:
            with mode():
                given = x.clone().requires_grad_(mode is torch.enable_grad)
                np.testing.assert_array_equal(net(given).cpu(), plain(x).cpu())
    assert graphs == [7, 4]


def test_several_inputs_and_outputs(rng, graphs):
    m = Nodes(rng)
    a = m("Relu", m.same("x", 3))
    b = m("Add", a, m.same("y", 3))
    model = m.model([b, a, b, "y"], ("n", 3, 9, 8), y=("n", 3, 9, 8))
    net, plain = Network(model, replay=True), Network(model, replay=False)
    for _ in range(5):
        x, y = images(rng), images(rng)
        results = net(tensor(x), tensor(y))
        assert isinstance(results, tuple) and len({result.data_ptr() for result in results}) == 4
        for result, want in zip(results, plain(x, y), strict=True):
            np.testing.assert_array_equal(result.cpu(), want)
        mixed = net(tensor(x), y)  # not all of one kind: as without replays, of the kind of the first
        assert all(torch.equal(one, other) for one, other in zip(mixed, results, strict=True))
    assert graphs == [8]


def test_a_saved_network_replays_as_well(rng, tiny, graphs, tmp_path):
    shape = (2, 3, 9, 8)
    Network(tiny, replay=True).save(tmp_path / "tiny.plan", [shape])
    for replays in (False, True):
        net = Network.load(tmp_path / "tiny.plan", replay=replays)
        for _ in range(4):
            x = images(rng)
            np.testing.assert_array_equal(net(tensor(x)).cpu(), Network(tiny, replay=False)(x))
        assert graphs == ([2] if replays else [])


# ---- Checks


def test_inputs_of_a_kind_are_checked_once_and_wrong_ones_every_time(rng, tiny, monkeypatch):
    seen = []
    check = context.check_inputs
    monkeypatch.setattr(context, "check_inputs", lambda *args: seen.append(1) or check(*args))
    net, x = Network(tiny, replay=False), images(rng)
    for _ in range(3):
        net(x)
    assert len(seen) == 1
    for wrong, error in ((x.astype(int), TypeError), (x[0], ValueError), (x[:0], ValueError), ("photo.jpg", TypeError)):
        for _ in range(2):
            with pytest.raises(error):
                net(wrong)
    assert len(seen) == 9
    net(tensor(x))
    assert len(seen) == 10


def test_what_was_checked_is_bounded(tiny):
    net = Network(tiny, replay=False)
    checked = net._context._checked
    for height in range(3 * context.CHECKED):
        assert checked((np.empty((1, 3, 1 + height, 1)),)) == (1, 3, 1 + height, 1)
        assert len(net._context._known) <= context.CHECKED


# ---- Threads and streams


def test_threads_that_share_a_network(rng, tiny):
    net = Network(tiny, replay=True)
    inputs = [tensor(images(rng, 1 + i % 3)) for i in range(48)]
    expected = [Network(tiny, replay=False)(x).cpu() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for result, want in zip(pool.map(net, inputs), expected, strict=True):
            np.testing.assert_array_equal(result.cpu(), want)


def test_contexts_capture_for_themselves_and_at_once(rng, tiny, graphs):
    net = Network(tiny, replay=True)
    inputs = [[tensor(images(rng)) for _ in range(4)] for _ in range(2)]
    expected = [[Network(tiny, replay=False)(x).cpu() for x in own] for own in inputs]
    contexts = [net.context(), net.context()]
    together = threading.Barrier(2, timeout=60)

    def calls(thread):
        for i in range(20):
            together.wait()
            np.testing.assert_array_equal(contexts[thread](inputs[thread][i % 4]).cpu(), expected[thread][i % 4])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(calls, range(2)))
    assert graphs == [20 - replay.FIRST_CALLS] * 2
    assert len({id(one.runner.program_for((2, 3, 9, 8))) for one in contexts}) == 2


@pytest.mark.skipif(cuda.backend() == "gpu", reason="test_calls_on_many_streams has the real ones")
def test_calls_on_other_streams_wait_for_the_last_one(rng, tiny, monkeypatch):
    """With stand-ins for CuPy's streams and events: what is enqueued, on which stream, in which order."""
    log, current = [], []

    class Stream:
        def __init__(self, ptr):
            self.ptr = ptr

        def wait_event(self, event):
            log.append(("wait", self.ptr))

    class Event:
        def __init__(self, disable_timing):
            assert disable_timing

        def record(self, stream):
            log.append(("event", stream.ptr))

    class Logged(replay.OneByOne):
        def launch(self, stream=None):
            log.append(("replay", stream.ptr if stream else "current"))
            super().launch()

    monkeypatch.setattr(replay, "record", Logged)
    net, x = Network(tiny, replay=True), images(rng)
    expected = [net(tensor(x)) for _ in range(3)][-1]
    streams = SimpleNamespace(Event=Event, get_current_stream=lambda: current[-1])
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=streams))
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(replay, "_cupy_stream", lambda stream: current[-1])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    for ptr, kind in ((7, tensor), (7, tensor), (8, tensor), (8, np.array), (9, np.array), (7, tensor)):
        current.append(Stream(ptr))
        log.clear()
        np.testing.assert_array_equal(net(kind(x)), expected)
        waits = [("wait", ptr)] if len(current) > 1 and current[-2].ptr != ptr else []
        assert log == [*waits, ("replay", ptr if kind is tensor else "current"), ("event", ptr)]


gpu = pytest.mark.skipif(cuda.backend() != "gpu", reason="needs a GPU: the simulator has no streams and no graphs")
torch_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU and a PyTorch built for it")


@gpu
@torch_gpu
@stepped
def test_calls_on_many_streams(rng, tiny, backend):
    """Each on a stream of its own, with nothing between them, and the input overwritten at once."""
    net, plain = Network(tiny, backend, replay=True), Network(tiny, backend, replay=False)
    streams = [torch.cuda.Stream() for _ in range(4)]
    values = [images(rng) for _ in range(200)]
    expected = [plain(x) for x in values]
    results = []
    for i, x in enumerate(values):
        with torch.cuda.stream(streams[i % 4]):
            given = torch.from_numpy(x).cuda(non_blocking=True)
            results.append(net(given))
            given.fill_(float("nan"))
    torch.cuda.synchronize()
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.cpu(), want)


@gpu
@torch_gpu
def test_contexts_on_streams_while_another_thread_launches_on_the_null_stream(rng, tiny):
    """A capture must not be broken by, and must not break, what others launch meanwhile."""
    net, plain = Network(tiny, replay=True), Network(tiny, replay=False)
    done = threading.Event()

    def busy():
        a = torch.randn(256, 256, device="cuda")
        while not done.is_set():
            a = torch.tanh(a @ a)

    def calls(seed):
        own, context = np.random.default_rng(seed), net.context()
        with torch.cuda.stream(torch.cuda.Stream()):
            for n in (1, 2, 3, 4, 5, 6) * 3:
                x = images(own, n)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    result = context(torch.from_numpy(x).cuda())
                np.testing.assert_array_equal(result.cpu(), host(plain(x)))

    other = threading.Thread(target=busy)
    other.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(calls, range(4)))
    finally:
        done.set()
        other.join()


@gpu
@torch_gpu
def test_a_result_outlives_the_network(rng, tiny):
    net, x = Network(tiny, replay=True), images(rng)
    expected = Network(tiny, replay=False)(x)
    results = [net(torch.from_numpy(x).cuda()) for _ in range(5)]
    del net
    torch.empty(1 << 24, device="cuda").fill_(float("nan"))
    for result in results:
        np.testing.assert_array_equal(result.cpu(), expected)


@pytest.mark.skipif(cudnn.missing() is not None, reason=str(cudnn.missing()))
def test_cudnn_replays_a_tuned_network(rng, tiny, graphs):
    net, plain = Network(tiny, "cudnn", tune=2, replay=True), Network(tiny, "cudnn", tune=2, replay=False)
    for _ in range(5):
        x = tensor(images(rng))
        np.testing.assert_allclose(net(x).cpu(), plain(x).cpu(), rtol=1e-5)
    assert graphs == [3]
