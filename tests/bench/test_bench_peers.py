"""The peers compute what ONNX Runtime computes, in every precision and layout, and leave no switch turned."""

import dataclasses
import sys
import types

import numpy as np
import onnx
import pytest
import torch
from bench_models import on_gpu, small
from tiers import seldom

from common.bench import peers
from common.bench.peers import (
    PEERS,
    PRECISIONS,
    OnnxRuntimeCuda,
    TensorRt,
    TorchCompile,
    TorchEager,
    TorchGraph,
    Unavailable,
    Xla,
)
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


@seldom(6)
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
    assert built.launches == ("host", "loop")
    built.benchmark("host").wait()  # for the last result, which is there
    built.feed(-x)
    built.benchmark("loop").calls[0]()
    (logits,) = built.results()
    assert relative_error(logits, Network(model.onnx, "onnxruntime")(-x)) <= 1e-5


def test_xla_computes_the_network_in_each_turn_of_its_loop(rng, model, monkeypatch):
    jax = pytest.importorskip("jax", reason="JAX is not installed: the peer xla is not tried here")
    compiled = []
    monkeypatch.setattr(peers, "compiled_by_xla", lambda jax, f, x, device: compiled.append(jax.jit(f).lower(x)))
    Xla("fp32", "NHWC").build(model, images(rng, model), "cpu")
    alone, looped = (lowered.compile().as_text() for lowered in compiled)
    assert " while(" in looped and " while(" not in alone
    flops = [lowered.compile().cost_analysis()["flops"] for lowered in compiled]
    assert jax.__version__ and flops[1] >= flops[0]  # a loop's body counts once or LOOPED times, but it is there


@pytest.mark.parametrize("kinds", [("NCHW",), ("NHWC",)])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_onnx_runtime(rng, model, precision, kinds):
    x = images(rng, model)
    built = agree(OnnxRuntimeCuda(precision, *kinds), model, x)
    built.feed(-x)
    built.poison()
    assert np.isnan(built.results()[0]).all()
    (logits,) = built.run()
    assert relative_error(logits, Network(model.onnx, "onnxruntime")(-x)) <= TOLERANCES[precision]


def test_onnx_runtime_is_told_what_a_precision_means():
    for precision in PRECISIONS:
        for layout in ("NCHW", "NHWC"):
            options = OnnxRuntimeCuda(precision, layout).options(graph=True)
            assert options["use_tf32"] == str(int(precision == "tf32")) and options["enable_cuda_graph"] == "1"
            assert options["prefer_nhwc"] == str(int(layout == "NHWC"))


def test_a_model_in_halves_has_no_other_floats(model):
    halved = peers.in_halves(model.onnx)
    onnx.checker.check_model(halved, full_check=True)
    kinds = {tensor.data_type for tensor in halved.graph.initializer}
    kinds |= {value.type.tensor_type.elem_type for value in (*halved.graph.input, *halved.graph.output)}
    assert onnx.TensorProto.FLOAT not in kinds and onnx.TensorProto.FLOAT16 in kinds
    assert all(tensor.data_type == onnx.TensorProto.FLOAT for tensor in model.onnx.graph.initializer if tensor.dims)


class Engine:
    """What stands in for tensorrt: it runs the file on ONNX Runtime, from and to the addresses that it is given."""

    def __init__(self, fails=""):
        self.fails, self.flags, self.said, self.at = fails, set(), {}, {}
        outer = self

        class Chain(types.SimpleNamespace):
            def __getattr__(self, name):
                return lambda *arguments: outer.call(name, *arguments)

        self.module = Chain(
            Logger=type("Logger", (), {"ERROR": 1, "__init__": lambda self, level: None}),
            NetworkDefinitionCreationFlag=types.SimpleNamespace(STRONGLY_TYPED=1),
            BuilderFlag=types.SimpleNamespace(TF32="tf32"),
        )
        self.chain = Chain(num_errors=1)

    def call(self, name, *arguments):
        if name == "parse":
            self.said["onnx"] = arguments[0]
            return self.fails != "parse"
        if name == "build_serialized_network" and self.fails == "build":
            return None
        if name in ("get_input", "get_output"):
            return types.SimpleNamespace(name="x" if name == "get_input" else "y")
        if name == "set_flag":
            self.flags.add(arguments[0])
        elif name == "set_shape":
            self.said["shape"] = arguments[1:]
        elif name == "set_tensor_address":
            self.at[arguments[0]] = arguments[1]
        elif name == "execute_async_v3":
            self.execute()
        elif name == "get_error":
            return "node 3: no"
        return self.chain

    def execute(self):
        import ctypes

        import onnxruntime

        session = onnxruntime.InferenceSession(self.said["onnx"], providers=["CPUExecutionProvider"])
        kind, number = (
            (np.float16, ctypes.c_uint16) if "16" in session.get_inputs()[0].type else (np.float32, ctypes.c_float)
        )
        shape = self.said["shape"][0]
        size = int(np.prod(shape))
        x = np.frombuffer((number * size).from_address(self.at["x"]), kind).reshape(shape)
        (y,) = session.run(None, {session.get_inputs()[0].name: x})
        np.frombuffer((number * y.size).from_address(self.at["y"]), kind)[:] = y.ravel()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_tensorrt_as_far_as_a_stand_in_tells(monkeypatch, rng, model, precision):
    engine, x = Engine(), images(rng, model)
    monkeypatch.setitem(sys.modules, "tensorrt", engine.module)
    built = agree(TensorRt(precision, "NCHW"), model, x)
    assert engine.said["shape"] == (x.shape,) * 3  # the least, the usual and the largest
    assert engine.flags == ({"tf32"} if precision == "tf32" else set())
    built.feed(-x)
    built.poison()
    (logits,) = built.run()
    assert relative_error(logits, Network(model.onnx, "onnxruntime")(-x)) <= TOLERANCES[precision]


@pytest.mark.parametrize(("fails", "message"), [("parse", "cannot read the network: node 3: no"), ("build", "no eng")])
def test_what_tensorrt_refuses_is_said_in_its_words(monkeypatch, rng, model, fails, message):
    monkeypatch.setitem(sys.modules, "tensorrt", Engine(fails).module)
    with pytest.raises(RuntimeError, match=message):
        TensorRt().build(model, images(rng, model), "cpu")


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
    library = {"xla": "jax", "onnxruntime-cuda": "onnxruntime", "tensorrt": "tensorrt"}.get(name, "torch")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=r"^(PyTorch|JAX|ONNX Runtime|TensorRT) is not installed: pip install \S+$"):
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
    with pytest.raises(ValueError, match=r"precision must be one of fp32, tf32, fp16(, int8)?, got 'bf16'"):
        PEERS[name]("bf16")
    with pytest.raises(ValueError, match="layout must be one of NCHW, NHWC, got 'CHWN'"):
        PEERS[name]("fp32", "CHWN")


def test_unknown_weights_are_refused():
    with pytest.raises(ValueError, match="no weights called 'cifar'"):
        peers.Model.of("cifar")
