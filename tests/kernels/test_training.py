"""common.kernels.training: the depthwise kernels under autograd, torch's own checks and compilers, and in training."""

import contextlib
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from tiers import long, seldom
from torch import nn

from common import cuda
from common.kernels import training
from common.kernels.training import DepthwiseConv2d, depthwise_conv2d, replace_depthwise

torch.set_num_threads(1)  # its threads would wait for cores that the simulator uses


@pytest.fixture(autouse=True)
def seed(rng):
    torch.manual_seed(int(rng.integers(2**31)))


@pytest.fixture
def device():
    if cuda.backend() == "gpu" and not torch.cuda.is_available():
        pytest.skip("this PyTorch is built without CUDA")
    return "cuda" if cuda.backend() == "gpu" else "cpu"


@dataclass(frozen=True)
class Case:
    """Shape of x, and torch's parameters."""

    x: tuple[int, int, int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: object = 1
    padding: object = 0
    dilation: object = 1

    def tensors(self, device, dtype, bias=True):
        """x, weight, bias that want gradients."""
        shapes = self.x, (self.x[1], 1, *self.kernel), (self.x[1],)
        made = [(torch.randn(shape, dtype=dtype, device=device) + 0.5).requires_grad_() for shape in shapes]
        return made if bias else [*made[:2], None]

    @property
    def geometry(self):
        return self.stride, self.padding, self.dilation


CASES = [
    Case((1, 2, 5, 4), padding=1),
    Case((1, 2, 7, 6), (3, 3), 2, 1),
    Case((1, 2, 6, 7), (2, 3), (2, 1), (1, 2), (1, 2)),
    Case((1, 2, 9, 8), (5, 5), 2, 2),
    Case((2, 1, 6, 5), (3, 2), 1, "same", (2, 1)),
    Case((1, 2, 8, 7), (7, 7), 1, 3),
    Case((1, 2, 4, 4), (1, 1), 3, "valid"),
]


def both(case, x, weight, bias=None):
    """y on our kernels, and PyTorch's."""
    ours = depthwise_conv2d(x, weight, bias, *case.geometry)
    return ours, F.conv2d(x, weight, bias, *case.geometry, groups=x.shape[1])


# ---- Gradients


@seldom(6)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradcheck(case, device):
    """PyTorch's numerical gradients in float64, of y to x, weight and bias."""
    tensors = case.tensors(device, torch.float64)
    quick = case is not CASES[0]  # in a random direction, instead of element by element
    assert torch.autograd.gradcheck(lambda *t: depthwise_conv2d(*t, *case.geometry), tensors, fast_mode=quick)


@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_gradgradcheck(case, device):
    """Those of the gradients: each operator's gradients are the two others."""
    tensors = case.tensors(device, torch.float64)
    assert torch.autograd.gradgradcheck(lambda *t: depthwise_conv2d(*t, *case.geometry), tensors, fast_mode=True)


@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_numerical_gradients_in_float32(case, device):
    """In a random direction: (loss(p + ε d) − loss(p − ε d)) / 2ε = gradient · d."""
    tensors = case.tensors(device, torch.float32)
    y = depthwise_conv2d(*tensors, *case.geometry)
    direction_of_y = torch.randn_like(y)
    (y * direction_of_y).sum().backward()
    for which, tensor in enumerate(tensors):
        d = torch.randn_like(tensor)

        def loss(step, which=which, d=d):
            moved = [t.detach() + step * d if i == which else t.detach() for i, t in enumerate(tensors)]
            return (depthwise_conv2d(*moved, *case.geometry) * direction_of_y).double().sum()

        numerical = (loss(0.5) - loss(-0.5)) / 1.0  # y is linear in each of the three, so a large step is exact
        assert torch.allclose(numerical, (tensor.grad * d).double().sum(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_conv2d(case, dtype, memory_format, device):
    tensors = [t.detach() for t in case.tensors(device, dtype)]
    tensors[0] = tensors[0].contiguous(memory_format=memory_format)
    exact = [t.double().requires_grad_() for t in tensors]
    ours = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in tensors]
    _, reference = both(case, *exact)
    y = depthwise_conv2d(*ours, *case.geometry)
    assert y.is_contiguous(memory_format=memory_format)
    grad = torch.randn_like(y)
    y.backward(grad)
    reference.backward(grad.double())
    assert ours[0].grad.is_contiguous(memory_format=memory_format)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-3
    for got, want in [(y, reference), *((a.grad, b.grad) for a, b in zip(ours, exact, strict=True))]:
        assert got.dtype == dtype
        assert (got.double() - want).norm() <= tolerance * want.norm()


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_only_what_is_wanted_is_computed(wanted, device):
    tensors = [t.detach() for t in CASES[0].tensors(device, torch.float32)]
    for i in wanted:
        tensors[i].requires_grad_()
    depthwise_conv2d(*tensors, padding=1).sum().backward()
    assert [i for i, t in enumerate(tensors) if t.grad is not None] == list(wanted)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
def test_gradients_that_do_not_lie_as_x_does(memory_format, device):
    """An expanded number, a transposed view, the other layout, a slice."""
    case = Case((2, 4, 6, 6), padding=1)
    x, weight, _ = (t.detach() for t in case.tensors(device, torch.float32))
    x = x.contiguous(memory_format=memory_format).requires_grad_()
    grads = [
        torch.ones((), device=device).expand(case.x),
        torch.randn(case.x, device=device).transpose(2, 3),
        torch.randn(case.x, device=device).contiguous(memory_format=torch.channels_last),
        torch.randn(2, 4, 6, 12, device=device)[..., ::2],
    ]
    for grad in grads:
        ours, reference = both(case, x, weight)
        (got,), (want,) = torch.autograd.grad(ours, x, grad), torch.autograd.grad(reference, x, grad)
        torch.testing.assert_close(got, want)
        assert got.is_contiguous(memory_format=memory_format)


def test_an_x_with_gaps(device):
    whole = torch.randn(2, 4, 6, 12, device=device, requires_grad=True)
    ours, reference = both(Case((2, 4, 6, 6), padding=1), whole[..., ::2], torch.ones(4, 1, 3, 3, device=device))
    torch.testing.assert_close(ours, reference)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), whole)[0] for y in (ours, reference)))


def test_uneven_padding(device):
    x, weight, _ = CASES[0].tensors(device, torch.float32)
    ours = depthwise_conv2d(x, weight, None, 2, ((0, 1), (2, 1)))
    torch.testing.assert_close(ours, F.conv2d(F.pad(x, (2, 1, 0, 1)), weight, None, 2, groups=2))


def test_weights_used_twice_add_up(device):
    """As in a recurrent network: autograd adds the two gradients."""
    case = Case((1, 3, 6, 6), padding=1)
    x, weight, _ = case.tensors(device, torch.float32)
    gradients = []
    for function in (depthwise_conv2d, lambda x, w, **rest: F.conv2d(x, w, groups=3, **rest)):
        y = function(function(x, weight, padding=1), weight, padding=1)
        gradients.append(torch.autograd.grad(y.square().mean(), (x, weight)))
    torch.testing.assert_close(*gradients)


# ---- PyTorch's own checks, and its compilers


GEOMETRY = ([2, 1], [1, 0, 1, 2], [1, 1])


def samples(device):
    """For each operator arguments of an odd shape."""
    x = torch.randn(2, 3, 7, 6, device=device, requires_grad=True)
    weight = torch.randn(3, 1, 3, 2, device=device, requires_grad=True)
    bias = torch.randn(3, device=device, requires_grad=True)
    grad = torch.randn(2, 3, 3, 8, device=device, requires_grad=True)
    last = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    return {
        "forward": (training.forward, (x, weight, bias, *GEOMETRY)),
        "forward, channels last": (training.forward, (last, weight, None, *GEOMETRY)),
        "backward input": (training.backward_input, (grad, weight, x.shape, *GEOMETRY, False)),
        "backward weight": (training.backward_weight, (grad, last, (3, 2), *GEOMETRY)),
    }


@seldom(6)
@pytest.mark.parametrize("name", samples("cpu"))
def test_opcheck(name, device):
    """Schema, registration of autograd, shapes and strides of the fakes, ahead-of-time graphs."""
    operator, arguments = samples(device)[name]
    torch.library.opcheck(operator, arguments)


class Block(nn.Module):
    """The depthwise half of an inverted residual block."""

    def __init__(self, channels=8):
        super().__init__()
        self.dw = nn.Conv2d(channels, channels, 3, 2, 1, groups=channels, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.pw = nn.Conv2d(channels, 10, 1)

    def forward(self, x):
        return self.pw(F.relu6(self.bn(self.dw(x)))).mean((2, 3))


@seldom(6)
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=long)])
def test_compile_gives_the_same_gradients_and_one_graph(backend, device, monkeypatch):
    if backend == "inductor" and device == "cpu" and not _has_cpp_compiler():
        pytest.skip("inductor compiles C++ for a CPU, and there is no compiler")
    torch._dynamo.reset()
    if backend == "inductor":
        _compile_quickly(monkeypatch)
    small = nn.Sequential(DepthwiseConv2d(8, 3, 2, 1), nn.ReLU6())
    model = (small if backend == "inductor" and device == "cpu" else replace_depthwise(Block())).to(device)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    x = torch.randn(2, 8, 9, 7, device=device)
    results = []
    for run in (model, compiled):
        model.zero_grad()
        y = run(x)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad for p in model.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def _has_cpp_compiler():
    with contextlib.suppress(Exception):
        from torch._inductor.cpp_builder import get_cpp_compiler

        return bool(get_cpp_compiler())
    return False


def _compile_quickly(monkeypatch):
    """Without what costs twenty seconds for C++ and helps larger models: a precompiled header, vector instructions."""
    from torch._inductor import config

    for name, value in (("compile_threads", 1), ("cpp_cache_precompile_headers", False)):
        if hasattr(config, name):
            monkeypatch.setattr(config, name, value)
    monkeypatch.setattr(config.cpp, "simdlen", 0)


# ---- Training


def losses(model, images, labels, steps=12):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    told = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        told.append(loss.item())
    return torch.tensor(told)


def handwritten_digits(device):
    """48 of scikit-learn's 8 × 8 digits."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    images = torch.tensor(data.images[:48], dtype=torch.float32, device=device)[:, None] / 16
    return images, torch.tensor(data.target[:48], device=device)


def small_network():
    depthwise = nn.Conv2d(8, 8, 3, 2, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6()
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), *depthwise, nn.Flatten(), nn.Linear(128, 10))


@seldom(6)
def test_a_network_learns_as_on_pytorch(device):
    images, labels = handwritten_digits(device)
    torch.manual_seed(0)
    theirs = small_network().to(device)
    ours = small_network().to(device)
    ours.load_state_dict(theirs.state_dict())
    replace_depthwise(ours)
    assert isinstance(ours[2], DepthwiseConv2d)
    curve, reference = losses(ours, images, labels), losses(theirs, images, labels)
    torch.testing.assert_close(curve, reference, rtol=1e-3, atol=1e-4)
    assert curve[-1] < 0.5 * curve[0]


def test_autocast(device):
    """float16 on a GPU; float32 on a CPU, whose autocast is for bfloat16."""
    layer = DepthwiseConv2d(4, 3, padding=1).to(device)
    x = torch.randn(2, 4, 6, 6, device=device)
    with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
        y = layer(x if device == "cuda" else x.bfloat16())
    assert y.dtype == (torch.float16 if device == "cuda" else torch.float32)
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(
        y.float(), F.conv2d(x, layer.weight, layer.bias, padding=1, groups=4), rtol=0.02, atol=0.02
    )


# ---- Layers


def test_replace_depthwise_keeps_parameters_and_leaves_the_rest():
    model = nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 3, groups=4), nn.Conv2d(8, 8, 3, groups=2), Block(),
        nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect", groups=8),
    ).eval()  # fmt: skip
    before, state = list(model.parameters()), {name: t.clone() for name, t in model.state_dict().items()}
    assert replace_depthwise(model) is model
    replace_depthwise(model)
    assert [name for name, layer in model.named_modules() if isinstance(layer, DepthwiseConv2d)] == ["0", "3.dw"]
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    assert state.keys() == model.state_dict().keys()
    assert not model[0].training


def test_a_layer_is_an_nn_conv2d(device):
    layer = DepthwiseConv2d(6, (3, 5), 2, (1, 2), bias=False, device=device)
    same = nn.Conv2d(6, 6, (3, 5), 2, (1, 2), groups=6, bias=False, device=device)
    same.load_state_dict(layer.state_dict())
    x = torch.randn(2, 6, 9, 11, device=device)
    torch.testing.assert_close(layer(x), same(x))
    assert "groups=6" in repr(layer)


# ---- What does not fit


X, WEIGHT = torch.ones(2, 3, 5, 4), torch.ones(3, 1, 3, 3)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"x": X[0]}, ValueError, r"x and weight must have shapes \(N, C, H, W\).*got \(3, 5, 4\)"),
        ({"weight": torch.ones(6, 1, 3, 3)}, ValueError, r"\(C, 1, kH, kW\), got .*\(6, 1, 3, 3\)"),
        ({"weight": WEIGHT.double()}, TypeError, "weight must be float32 .*got float64"),
        ({"x": X.bfloat16(), "weight": WEIGHT.bfloat16()}, TypeError, "(?i)bfloat16"),
        ({"bias": torch.ones(4)}, ValueError, r"bias must have shape \(3\), got \(4,\)"),
        ({"stride": 0}, ValueError, "stride must be an integer of at least 1"),
        ({"padding": "same", "stride": 2}, ValueError, "padding must be numbers where the stride is not 1"),
        (
            {"weight": torch.ones(3, 1, 7, 3)},
            ValueError,
            "the kernel reaches over 7 pixels, but the padded input has 5",
        ),
    ],
)
def test_errors(changed, error, message, device):
    arguments = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in changed.items()
    }
    with pytest.raises(error, match=message):
        depthwise_conv2d(**({"x": X.to(device), "weight": WEIGHT.to(device)} | arguments))


def test_common_does_not_import_torch():
    """Only this module does, and only when it is asked for."""
    code = "import sys, common, common.kernels; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
