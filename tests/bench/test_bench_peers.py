"""The peers compute what ONNX Runtime computes, in every precision and layout, and leave no switch turned."""

import dataclasses
import sys

import numpy as np
import pytest
import torch
from bench_models import on_gpu, small

from common.bench import peers
from common.bench.peers import PEERS, PRECISIONS, TorchCompile, TorchEager, TorchGraph, Unavailable, Xla
from common.cuda.graphs import on_stream
from common.network import Network
from common.network.compare import TOLERANCES, relative_error

torch.set_num_threads(1)  # its threads would wait for cores that others use

every_layout = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
every_precision = pytest.mark.parametrize("precision", PRECISIONS)


@pytest.fixture(scope="module")
def model():
    return small()


def images(rng, model, batch=3):
    return rng.standard_normal((batch, *model.graph.input_shape[1:]), dtype=np.float32)


def agree(peer, model, x, device="cpu", **options):
    with peers.switches(peer.precision):
        built = peer.build(model, x, device, **options)
        (logits,) = built.run()
    assert logits.shape == (len(x), model.num_classes) and logits.dtype == np.float32
    error = relative_error(logits, Network(model.onnx, "onnxruntime")(x))
    print(f"{peer}: {error:.1e}")
    assert error <= TOLERANCES[peer.precision]
    return built


@every_layout
@every_precision
def test_pytorch(rng, model, precision, layout):
    agree(TorchEager(precision, layout), model, images(rng, model))


@every_layout
@pytest.mark.parametrize(("size", "batch"), [(48, 1), (7, 5), (65, 2)])
def test_pytorch_at_other_sizes(rng, layout, size, batch):
    model = small(size)
    agree(TorchEager("fp32", layout), model, images(rng, model, batch))


def test_pytorch_on_the_seeded_network(rng):
    """The one that is timed, on smaller pictures: its module has the right width and number of classes."""
    model = peers.Model.of("seeded", 64)
    assert model.name == "mobilenetv2-1.0-64" and model.num_classes == 1000
    agree(TorchEager("fp32", "NHWC"), model, images(rng, model, 2))


@every_layout
def test_other_pictures_can_be_fed(rng, model, layout):
    first, second = images(rng, model), images(rng, model)
    built = TorchEager("fp32", layout).build(model, first, "cpu")
    before = built.run()[0]
    built.feed(second)
    (after,) = built.run()
    reference = Network(model.onnx, "onnxruntime")
    assert relative_error(before, reference(first)) <= 1e-5 and relative_error(after, reference(second)) <= 1e-5


def test_the_module_holds_the_folded_parameters(model):
    module = peers.torch_module(model)
    state = module.state_dict()
    assert list(state) == list(model.parameters)
    for name, value in model.parameters.items():
        np.testing.assert_array_equal(state[name].numpy(), value)
    assert not module.training and not any(p.requires_grad for p in module.parameters())
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in module.modules())


def test_parameters_of_another_network_are_refused(model):
    other = dataclasses.replace(model, num_classes=11)
    with pytest.raises(RuntimeError, match=r"classifier\.1\.weight"):
        peers.torch_module(other)


def test_nhwc_is_channels_last_in_memory(model):
    x = np.zeros((2, *model.graph.input_shape[1:]), np.float32)
    for layout, order in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        module, given, _ = TorchEager("fp16", layout)._prepared(torch, model, x, "cpu")
        weights = [part.weight for part in module.modules() if isinstance(part, torch.nn.Conv2d)]
        assert all(tensor.is_contiguous(memory_format=order) for tensor in (given, *weights))
        assert all(tensor.dtype == torch.float16 for tensor in (given, *weights))


def test_the_compiler_sees_the_module_whole(rng, model):
    """fullgraph=True fails at the first thing that cannot be traced; what compiles for minutes is left out here."""
    agree(TorchCompile("fp32", "NCHW"), model, images(rng, model), backend="eager")


def test_a_perturbed_weight_is_outside_the_bound(rng, model):
    parameters = {name: value.copy() for name, value in model.parameters.items()}
    parameters["features.9.conv.1.0.weight"] *= np.float32(1.01)
    x = images(rng, model)
    (logits,) = TorchEager().build(dataclasses.replace(model, parameters=parameters), x, "cpu").run()
    assert relative_error(logits, Network(model.onnx, "onnxruntime")(x)) > TOLERANCES["fp32"]


@every_layout
@every_precision
def test_xla(rng, model, precision, layout):
    pytest.importorskip("jax", reason="JAX is not installed: the peer xla is not tried here")
    agree(Xla(precision, layout), model, images(rng, model))


@every_layout
def test_xla_can_be_fed_other_pictures(rng, model, layout):
    pytest.importorskip("jax", reason="JAX is not installed: the peer xla is not tried here")
    x = images(rng, model)
    built = Xla("fp32", layout).build(model, images(rng, model), "cpu")
    built.run()
    built.feed(x)
    (logits,) = built.run()
    assert relative_error(logits, Network(model.onnx, "onnxruntime")(x)) <= 1e-5
    assert built.launches == ("host",)
    built.benchmark("host").wait()  # for the last result, which is there


@on_gpu
@every_layout
@every_precision
@pytest.mark.parametrize("name", [name for name in PEERS if name != "torch-compile"])
def test_on_a_gpu(rng, model, name, precision, layout):
    x = images(rng, model)
    if name == "xla":
        pytest.importorskip("jax", reason="JAX is not installed: the peer xla is not tried here")
    with peers.switches(precision), on_stream():
        built = agree(PEERS[name](precision, layout), model, x, "cuda")
        built.feed(-x)
        (logits,) = built.run()
    assert relative_error(logits, Network(model.onnx, "onnxruntime")(-x)) <= TOLERANCES[precision]


# PyTorch's switches


def state():
    return (
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
    )


@every_precision
@pytest.mark.parametrize("tf32", [False, True])
def test_switches_are_set_and_set_back(precision, tf32):
    first = state()
    try:
        torch.backends.cudnn.allow_tf32 = tf32
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        before = state()
        with peers.switches(precision):
            allowed = precision == "tf32"
            assert state() == (allowed, True, "high" if allowed else "highest", allowed)
        assert state() == before
        with pytest.raises(ZeroDivisionError), peers.switches(precision):
            raise ZeroDivisionError
        assert state() == before
    finally:
        torch.backends.cudnn.allow_tf32 = first[0]
        torch.set_float32_matmul_precision(first[2])


def test_without_pytorch_there_are_no_switches(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ZeroDivisionError), peers.switches("fp32"):  # what is within is run, and its errors go on
        raise ZeroDivisionError


# What is missing


@pytest.mark.parametrize("name", PEERS)
def test_a_missing_library_is_told_in_one_line(monkeypatch, model, name):
    library = {"xla": "jax", "onnxruntime-cuda": "onnxruntime"}.get(name, "torch")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=r"^(PyTorch|JAX|ONNX Runtime) is not installed: pip install \S+$"):
        PEERS[name]().build(model, np.zeros((1, 3, 33, 33), np.float32))


def test_a_graph_needs_a_gpu(model):
    with pytest.raises(Unavailable, match="torch-graph needs a GPU, got device 'cpu'"):
        TorchGraph().build(model, np.zeros((1, 3, 33, 33), np.float32), "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch sees a GPU here")
def test_pytorch_without_a_gpu_says_so(model):
    with pytest.raises(Unavailable, match=r"PyTorch \S+ sees no GPU"):
        TorchEager().build(model, np.zeros((1, 3, 33, 33), np.float32))


def test_jax_without_a_gpu_says_so(model):
    jax = pytest.importorskip("jax", reason="JAX is not installed: the peer xla is not tried here")
    if jax.default_backend() == "gpu":
        pytest.skip("JAX sees a GPU here")
    with pytest.raises(Unavailable, match=r"JAX \S+ sees no device 'cuda', only 'cpu'"):
        Xla().build(model, np.zeros((1, 3, 33, 33), np.float32))


@pytest.mark.parametrize("name", PEERS)
def test_what_there_is_not_is_refused(name):
    with pytest.raises(ValueError, match=r"precision must be one of fp32, (tf32, fp16|int8), got 'bf16'"):
        PEERS[name]("bf16")
    with pytest.raises(ValueError, match="layout must be one of NCHW, NHWC, got 'CHWN'"):
        PEERS[name]("fp32", "CHWN")


def test_unknown_weights_are_refused():
    with pytest.raises(ValueError, match="no weights called 'cifar'"):
        peers.Model.of("cifar")
