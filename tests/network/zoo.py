"""Networks of the papers at their full depth, exported to ONNX: narrow ones, so that tests stay quick.

export(name, size)     any of NAMES, as PyTorch's exporter writes it
tensorflow_style()     a small MobileNet, as tf2onnx writes what Keras made

Weights are PyTorch's initial ones; batch-norms have the statistics of random pictures, so that activations stay
sane, and random scales and shifts, so that no two channels are alike.
"""

import io
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import torch
from network_models import Nodes
from onnx import ModelProto, numpy_helper
from torch import nn
from torch.nn import functional as F

from common import topology
from common.topology import make_divisible

CLASSES = 10


def conv(in_channels: int, out_channels: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False)


def conv_bn(*arguments: int, act: Callable[[], nn.Module] = nn.Identity, **named: int) -> nn.Sequential:
    layer = conv(*arguments, **named)
    return nn.Sequential(layer, nn.BatchNorm2d(layer.out_channels), act())


def head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]


# -- MobileNets --------------------------------------------------------------------------------------------


def mobilenet_v1(width: float) -> nn.Module:
    """A. Howard et al., arXiv:1704.04861, table 1: a convolution, then depthwise and pointwise in turn."""
    channels = make_divisible(32 * width)
    layers = [conv_bn(3, channels, 3, 2, act=nn.ReLU)]
    for c, s in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        out_channels = make_divisible(c * width)
        layers += [conv_bn(channels, channels, 3, s, groups=channels, act=nn.ReLU)]  # dw
        layers += [conv_bn(channels, out_channels, 1, act=nn.ReLU)]  # pw
        channels = out_channels
    return nn.Sequential(*layers, *head(channels))


class SqueezeExcite(nn.Module):
    """Each channel scaled by hardsigmoid(fc(relu(fc(mean of the channels))))."""

    def __init__(self, channels: int):
        super().__init__()
        squeezed = make_divisible(channels / 4)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1))))
        return x * F.hardsigmoid(scale)


class Residual(nn.Module):
    """x + branch(x)"""

    def __init__(self, branch: nn.Module):
        super().__init__()
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


# kernel, expanded channels, output channels, squeeze-and-excite, hard-swish (else ReLU), stride
V3_SMALL = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)
V3_LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def mobilenet_v3(width: float, table: tuple, features: int) -> nn.Module:
    """A. Howard et al., arXiv:1905.02244, tables 1 and 2."""
    channels = make_divisible(16 * width)
    layers: list[nn.Module] = [conv_bn(3, channels, 3, 2, act=nn.Hardswish)]
    for kernel, expanded, c, excite, swish, stride in table:
        hidden, out_channels = make_divisible(expanded * width), make_divisible(c * width)
        act = nn.Hardswish if swish else nn.ReLU
        block: list[nn.Module] = [conv_bn(channels, hidden, 1, act=act)] if hidden != channels else []
        block.append(conv_bn(hidden, hidden, kernel, stride, groups=hidden, act=act))
        block += [SqueezeExcite(hidden)] if excite else []
        block.append(conv_bn(hidden, out_channels, 1))
        branch = nn.Sequential(*block)
        layers.append(Residual(branch) if stride == 1 and channels == out_channels else branch)
        channels = out_channels
    last, features = make_divisible(table[-1][1] * width), make_divisible(features * width)
    layers += [conv_bn(channels, last, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(last, features), nn.Hardswish(), nn.Linear(features, CLASSES))


# -- ResNets -----------------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    """relu(1×1, 3×3 with the stride, 1×1 to four times the channels, + shortcut)"""

    def __init__(self, in_channels: int, channels: int, stride: int):
        super().__init__()
        out_channels = 4 * channels
        self.branch = nn.Sequential(
            conv_bn(in_channels, channels, 1, act=nn.ReLU),
            conv_bn(channels, channels, 3, stride, act=nn.ReLU),
            conv_bn(channels, out_channels, 1),
        )
        same = stride == 1 and in_channels == out_channels
        self.shortcut = nn.Identity() if same else conv_bn(in_channels, out_channels, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.branch(x) + self.shortcut(x))


def stem(channels: int) -> list[nn.Module]:
    return [conv_bn(3, channels, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]


def resnet(width: float, blocks: tuple[int, ...]) -> nn.Module:
    """K. He et al., arXiv:1512.03385, table 1."""
    channels = make_divisible(64 * width)
    layers = stem(channels)
    for stage, count in enumerate(blocks):
        narrow = make_divisible(64 * width) * 2**stage
        for block in range(count):
            layers.append(Bottleneck(channels, narrow, stride=2 if stage and not block else 1))
            channels = 4 * narrow
    return nn.Sequential(*layers, *head(channels))


# -- DenseNets ---------------------------------------------------------------------------------------------


class DenseLayer(nn.Module):
    """x with `growth` channels more: batch-norm and ReLU come before each of its two convolutions."""

    def __init__(self, in_channels: int, growth: int):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(in_channels), conv(in_channels, 4 * growth, 1)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), conv(4 * growth, growth, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        new = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(new)))], 1)


def densenet(width: float, blocks: tuple[int, ...]) -> nn.Module:
    """G. Huang et al., arXiv:1608.06993, table 1: growth rate 32, half of the channels kept by each transition."""
    growth = max(2, round(32 * width))
    channels = 2 * growth
    layers = stem(channels)
    for number, count in enumerate(blocks):
        if number:  # transition
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(count):
            layers.append(DenseLayer(channels, growth))
            channels += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), *head(channels))


# -- to ONNX -----------------------------------------------------------------------------------------------

# name → the module of a width
MODULES: dict[str, Callable[[float], nn.Module]] = {
    "mobilenet-v1": mobilenet_v1,
    "mobilenet-v2": lambda width: topology.MobileNetV2(width, CLASSES),
    "mobilenet-v3-small": partial(mobilenet_v3, table=V3_SMALL, features=1024),
    "mobilenet-v3-large": partial(mobilenet_v3, table=V3_LARGE, features=1280),
    "resnet-20": lambda width: topology.ResNet20(CLASSES),  # as narrow as it is
    "resnet-50": partial(resnet, blocks=(3, 4, 6, 3)),
    "resnet-101": partial(resnet, blocks=(3, 4, 23, 3)),
    "resnet-152": partial(resnet, blocks=(3, 8, 36, 3)),
    "densenet-121": partial(densenet, blocks=(6, 12, 24, 16)),
    "densenet-169": partial(densenet, blocks=(6, 12, 32, 32)),
    "densenet-201": partial(densenet, blocks=(6, 12, 48, 32)),
}
NAMES = tuple(MODULES)


def make(name: str, width: float = 0.25, size: int = 32, seed: int = 0) -> nn.Module:
    """The network in evaluation mode, the same numbers for the same arguments."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = MODULES[name](width)
        norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
        for norm in norms:
            nn.init.uniform_(norm.weight, 0.7, 1.3)
            nn.init.normal_(norm.bias, 0, 0.3)
            norm.momentum = 1.0  # the statistics of the last batch
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d) and layer.groups > 1:
                nn.init.uniform_(layer.weight, -0.6, 1.0)  # blurs more than it sharpens: see common.weights.seeded
        for branch in [layer.branch for layer in module.modules() if hasattr(layer, "branch")]:
            last = [layer for layer in branch.modules() if isinstance(layer, nn.BatchNorm2d)][-1]
            last.weight.data *= 0.2  # as small as training makes it: what comes by the shortcut prevails
        module.train()
        with torch.no_grad():
            # like photographs, of large areas: what sets them apart is not averaged away before rounding is
            module(1.5 * F.interpolate(torch.randn(16, 3, 5, 5), max(size, 64), mode="bicubic"))
    return module.eval()


def export(
    name: str, size: int | tuple[int, int] = 32, batch: int | str = "n", seed: int = 0, width: float = 0.25
) -> ModelProto:
    """One of NAMES as an ONNX model (batch, 3, H, W) → (batch, 10); `batch` is a number, or a name for any number.

    width: of channels, or of a DenseNet's growth rate; 1 is the paper's.
    """
    height, across = (size, size) if isinstance(size, int) else size
    module = make(name, width, max(height, across), seed)
    count = 1 if isinstance(batch, str) else batch
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's deprecation
        torch.onnx.export(
            module,
            (torch.zeros(count, 3, height, across),),
            buffer,
            dynamo=False,
            opset_version=17,
            training=torch.onnx.TrainingMode.PRESERVE,  # batch-norms stay layers
            do_constant_folding=False,
            input_names=["input"],
            output_names=["logits"],
            dynamic_axes={"input": {0: batch}, "logits": {0: batch}} if isinstance(batch, str) else None,
        )
    return onnx.load_model_from_string(buffer.getvalue())


def tensorflow_style(size: int = 33, batch: int | str = "n", seed: int = 0) -> ModelProto:
    """A small MobileNet (batch, size, size, 3) → probabilities (batch, 10), as tf2onnx writes it.

    The input is NHWC. TensorFlow's SAME padding puts what is odd below and to the right; ReLU6 is a Clip.
    """
    rng = np.random.default_rng(seed)
    net = Nodes(rng, opset=13)

    def integers(values: list[int]) -> str:
        net.initializers.append(numpy_helper.from_array(np.array(values, np.int64), f"number{len(net.initializers)}"))
        return net.initializers[-1].name

    def conv_norm_clip(x: str, in_channels: int, out_channels: int, k: int, stride: int, group: int, extent: int):
        total = max(0, (-(-extent // stride) - 1) * stride + k - extent)
        if stride > 1:
            before, after = total // 2, total - total // 2
            x = net("Pad", x, integers([0, 0, before, before, 0, 0, after, after]), net.number(0.0), mode="constant")
            total = 0
        weight = rng.normal(0, 2 / np.sqrt(in_channels // group * k * k), (out_channels, in_channels // group, k, k))
        pads = [total // 2] * 4
        x = net("Conv", x, net.number(weight), kernel_shape=[k, k], strides=[stride] * 2, group=group, pads=pads)
        scale, shift, mean, variance = rng.uniform((0.7, -0.3, -0.3, 0.5), (1.3, 0.3, 0.3, 1.5), (out_channels, 4)).T
        x = net("BatchNormalization", x, *map(net.number, (scale, shift, mean, variance)), epsilon=1e-3)
        return net.clip(x, 0.0, 6.0), -(-extent // stride)

    x = net("Transpose", "x", perm=[0, 3, 1, 2])
    channels, extent = 8, size
    x, extent = conv_norm_clip(x, 3, channels, 3, 2, 1, extent)
    for out_channels, stride in [(16, 1), (24, 2), (24, 1), (40, 2)]:
        x, extent = conv_norm_clip(x, channels, channels, 3, stride, channels, extent)
        x, extent = conv_norm_clip(x, channels, out_channels, 1, 1, 1, extent)
        channels = out_channels
    x = net("ReduceMean", x, axes=[2, 3], keepdims=1)
    x = net("Squeeze", x, integers([2, 3]))
    weight = rng.standard_normal((channels, CLASSES))
    x = net("MatMul", x, net.number(weight - weight.mean(0)))  # what all channels share would saturate the softmax
    x = net("Add", x, net.number(rng.standard_normal(CLASSES) / 4))
    x = net("Softmax", x, axis=-1)
    model = net.model(x, (batch, size, size, 3))
    return model
