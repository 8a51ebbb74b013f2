"""Execution contexts: several threads run one network at once, each over buffers of its own."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from network_models import Nodes

from common import cuda, kernels, weights
from common.cuda.simulator import memory
from common.network import ExecutionContext, Network


@pytest.fixture(scope="module")
def digits():
    return weights.model("digits")


@pytest.fixture(scope="module")
def tiny():
    """A residual block, a pool and a classifier, for inputs of any size."""
    nodes = Nodes(np.random.default_rng(1))
    x = nodes("Relu", nodes.same("x", 3))
    x = nodes("Relu", nodes("Add", nodes.same(x, 3), x))
    x = nodes("Flatten", nodes("GlobalAveragePool", x))
    return nodes.model(nodes("Gemm", x, nodes.number(nodes.rng.standard_normal((3, 5)))), ("n", 3, "h", "w"))


def images(rng, n=2, height=9, width=7):
    return rng.standard_normal((n, 3, height, width), dtype=np.float32)


def address(array):
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_two_threads_at_once_get_what_one_alone_gets(rng, tiny, dtype, layout):
    """A hundred rounds: in each, both threads start together, each with other inputs."""
    net = Network(tiny, dtype=dtype, layout=layout)
    inputs = [[images(rng, n) for _ in range(5)] for n in (2, 3)]
    expected = [[net(x) for x in own] for own in inputs]
    contexts = [net.context(), net.context()]
    together = threading.Barrier(2, timeout=60)

    def calls(thread):
        for i in range(100):
            together.wait()
            np.testing.assert_array_equal(contexts[thread](inputs[thread][i % 5]), expected[thread][i % 5])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(calls, range(2)))


def test_threads_with_contexts_do_not_wait_for_each_other(rng, tiny):
    """Both calls are inside the same operator at the same time, which one lock for both would never allow."""
    together = threading.Barrier(2, timeout=60)
    meet = threading.local()

    def mine(x, *, out):
        if getattr(meet, "wanted", False):
            together.wait()
        return kernels.global_avg_pool(x, out=out)

    net = Network(tiny, operators={"global_avg_pool": mine})
    x, y = images(rng), images(rng)
    expected = net(x), net(y)

    def call(context, array):
        meet.wanted = True
        return context(array)

    with ThreadPoolExecutor(2) as pool:
        for result, want in zip(pool.map(call, [net, net.context()], [x, y]), expected, strict=True):
            np.testing.assert_array_equal(result, want)


def test_the_digits_network_in_two_threads(rng, digits):
    net = Network(digits)
    inputs = [images(rng, 1, 48, 48) for _ in range(2)]
    expected = [net(x) for x in inputs]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            contexts = [net.context() for _ in inputs]  # both make their buffers at the same time
            for result, want in zip(pool.map(lambda c, x: c(x), contexts, inputs), expected, strict=True):
                np.testing.assert_array_equal(result, want)


@pytest.mark.skipif(cuda.backend() != "gpu", reason="the simulator has no streams")
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_each_thread_on_a_stream_of_its_own(rng, digits, dtype):
    """A hundred calls per thread, each with other images; calls replay a CUDA graph from the third on."""
    import cupy

    net = Network(digits, dtype=dtype)
    inputs = [[cuda.asarray(images(rng, 1, 48, 48)) for _ in range(5)] for _ in range(2)]
    expected = [[cuda.asnumpy(net(x)) for x in own] for own in inputs]
    contexts, together = [net.context(), net.context()], threading.Barrier(2, timeout=60)
    for context, own in zip(contexts, inputs, strict=True):
        for _ in range(3):
            context(own[0])  # captures, which another thread's work would disturb
    cuda.synchronize()

    def calls(thread):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for i in range(100):
                together.wait()
                found = contexts[thread](inputs[thread][i % 5])
                stream.synchronize()
                np.testing.assert_array_equal(cuda.asnumpy(found), expected[thread][i % 5])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(calls, range(2)))


def test_a_context_outlives_the_networks_variable(rng, tiny):
    net, x = Network(tiny), images(rng)
    expected, context, gone = net(x), net.context(), weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(context(x), expected)


def test_weights_are_shared_and_buffers_are_not(rng, digits):
    net = Network(digits)
    x = images(rng, 1, 48, 48)
    net(x)
    first, second = net.context(), net.context()
    for context in (first, second):
        context(x)
        assert context.runner.parameters is net.runner.parameters
    runners = [net.runner, first.runner, second.runner]
    starts = [{address(b) for b in runner.program_for(x.shape).buffers.values()} for runner in runners]
    assert not starts[0] & starts[1] and not starts[1] & starts[2] and not starts[0] & starts[2]


@pytest.mark.skipif(cuda.backend() != "simulator", reason="counts the simulator's allocations")
def test_a_context_takes_the_memory_of_its_buffers_but_none_for_weights(rng, digits):
    def allocated():
        gc.collect()
        return sum(fence.end - fence.start for fence in memory._fences.values())

    before = allocated()
    net = Network(digits)
    weight_bytes = allocated() - before
    assert weight_bytes == sum(array.nbytes for array in net.runner.parameters.values()) > 900_000
    x = images(rng, 1, 48, 48)
    net(x)
    first = allocated()
    context = net.context()
    context(x)
    taken = allocated() - first
    assert taken == first - before - weight_bytes  # as much as the network's own first call
    assert net.plan().memory <= taken < weight_bytes / 2


def test_contexts_capture_for_themselves(rng, tiny):
    net = Network(tiny)
    x, y = images(rng, 1), images(rng, 1)
    expected = net(x), net(y)
    first, second = net.context(), net.context()
    captured = [context.capture(1, (9, 7)) for context in (first, second)]
    assert net.runner._captured == {} and captured[0].input is not captured[1].input
    for one, array in zip(captured, (x, y), strict=True):
        one.input[...] = cuda.asarray(array)
    for one in captured:
        one.launch()
    for one, want in zip(captured, expected, strict=True):
        np.testing.assert_array_equal(cuda.asnumpy(one.output), want)
    np.testing.assert_array_equal(first(y), expected[1])  # a call uses its captured program
    np.testing.assert_array_equal(cuda.asnumpy(captured[1].output), expected[1])


def test_what_contexts_refuse(tiny):
    with pytest.raises(ValueError, match="backend 'torch' has no context, only 'kernels' and 'cudnn' have"):
        Network(tiny, "torch").context()
    context = Network(tiny).context()
    assert isinstance(context, ExecutionContext)
    with pytest.raises(ValueError, match=r"x must have shape \(N, 3, H, W\), got \(1, 4, 9, 7\)"):
        context(np.zeros((1, 4, 9, 7), np.float32))
    with pytest.raises(TypeError, match=r"x must be floating point .* got uint8"):
        context(np.zeros((1, 3, 9, 7), np.uint8))
    with pytest.raises(ValueError, match="batch must be an integer of at least 1, got 0"):
        context.capture(0)
