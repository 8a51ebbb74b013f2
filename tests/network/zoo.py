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
from itertools import pairwise

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


# -- ShuffleNet --------------------------------------------------------------------------------------------


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    n, c, h, w = x.size()
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class ShuffleUnit(nn.Module):
    """Half of the channels pass, or with a stride all of them through branch1; then the two halves are interleaved."""

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        half = out_channels // 2
        self.branch1 = nn.Sequential()
        if stride > 1:
            down = conv_bn(in_channels, in_channels, 3, stride, groups=in_channels)
            self.branch1 = nn.Sequential(down, conv_bn(in_channels, half, 1, act=nn.ReLU))
        self.branch2 = nn.Sequential(
            conv_bn(in_channels if stride > 1 else half, half, 1, act=nn.ReLU),
            conv_bn(half, half, 3, stride, groups=half),
            conv_bn(half, half, 1, act=nn.ReLU),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = (x, x) if len(self.branch1) else x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((self.branch1(first), self.branch2(second)), dim=1), 2)


class Mean(nn.Module):
    """The mean over height and width, as ShuffleNet's code has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean([2, 3])


def shufflenet_v2(width: float) -> nn.Module:
    """N. Ma et al., arXiv:1807.11164, table 5; width 0.5 and 1 are torchvision's shufflenet_v2_x0_5 and _x1_0."""
    stages = {0.5: (48, 96, 192)}.get(width) or tuple(2 * round(c * width / 2) for c in (116, 232, 464))
    layers: list[nn.Module] = [conv_bn(3, 24, 3, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for out_channels, count in zip(stages, (4, 8, 4), strict=True):
        for number in range(count):
            layers.append(ShuffleUnit(channels, out_channels, 1 if number else 2))
            channels = out_channels
    features = 1024 if width >= 0.5 else 128
    return nn.Sequential(*layers, conv_bn(channels, features, 1, act=nn.ReLU), Mean(), nn.Linear(features, CLASSES))


# -- A student's own ---------------------------------------------------------------------------------------


class OwnBlock(nn.Module):
    """Centred and scaled by image and channel, cut in three, each part activated in its own way, joined again."""

    def __init__(self, channels: int):
        super().__init__()
        self.sizes = (channels // 4, channels // 2, channels - channels // 4 - channels // 2)
        self.conv = conv_bn(channels, channels, 3)
        self.elu, self.gelu, self.leaky = nn.ELU(0.5), nn.GELU(), nn.LeakyReLU(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        y = (y - y.mean((2, 3), keepdim=True)) / (1 + torch.sigmoid(x))
        first, second, third = y.split(self.sizes, dim=1)
        y = torch.cat((self.leaky(third), self.gelu(second), self.elu(first)), dim=1)
        y = torch.maximum(x, y) + torch.minimum(y, torch.tanh(x))
        return y + y.mean((2, 3), keepdim=True)


class Focus(nn.Module):
    """Every second row and column of each of the four kinds, as channels: YOLOv5's stem."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (x[..., i::2, j::2] for i in (0, 1) for j in (0, 1))
        return torch.cat(tuple(parts), 1)


def own_cnn(width: float) -> nn.Module:
    """No paper's: activations, arithmetic and slices that the others lack."""
    channels = make_divisible(64 * width)
    return nn.Sequential(
        Focus(),
        conv_bn(12, channels, 3, act=partial(nn.GELU, "tanh")),
        OwnBlock(channels),
        conv_bn(channels, channels, 3, 2, act=nn.Tanh),
        OwnBlock(channels),
        *head(channels),
    )


# -- ConvNeXt ----------------------------------------------------------------------------------------------


class LayerNorm2d(nn.LayerNorm):
    """Of the channels of each pixel, as torchvision's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return y.permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """x + scale · linear(gelu(linear(norm(7×7 depthwise(x)))))"""

    def __init__(self, channels: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))
        self.scale = nn.Parameter(torch.rand(channels, 1, 1) - 0.3)  # 1e-6 before training

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + self.scale * y.permute(0, 3, 1, 2)


def convnext(width: float, blocks: tuple[int, ...]) -> nn.Module:
    """Z. Liu et al., arXiv:2201.03545; with blocks (3, 3, 9, 3) torchvision's convnext_tiny."""
    dims = [max(4, round(width * channels)) for channels in (96, 192, 384, 768)]
    layers: list[nn.Module] = [nn.Conv2d(3, dims[0], 4, 4), LayerNorm2d(dims[0], eps=1e-6)]
    for stage, (channels, count) in enumerate(zip(dims, blocks, strict=True)):
        layers += [ConvNeXtBlock(channels) for _ in range(count)]
        if stage < 3:
            layers += [LayerNorm2d(channels, eps=1e-6), nn.Conv2d(channels, dims[stage + 1], 2, 2)]
    layers += [nn.AdaptiveAvgPool2d(1), LayerNorm2d(dims[-1], eps=1e-6), nn.Flatten(), nn.Linear(dims[-1], CLASSES)]
    for layer in (one for block in layers for one in block.modules()):
        if isinstance(layer, nn.LayerNorm):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0, 0.2)
    return nn.Sequential(*layers)


# -- U-Net -------------------------------------------------------------------------------------------------


def double(in_channels: int, out_channels: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (in_channels, out_channels):
        layers += [conv(channels, out_channels), norm(out_channels), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """O. Ronneberger et al., arXiv:1505.04597, three levels deep: up by transposed convolution, bilinear and nearest.

    The input may have any height and width; group norms in the middle, where training has few pixels per batch.
    """

    def __init__(self, channels: int):
        super().__init__()
        c = channels
        self.down = nn.ModuleList([double(3, c), double(c, 2 * c), double(2 * c, 4 * c)])
        self.middle = double(4 * c, 8 * c, lambda channels: nn.GroupNorm(4, channels))
        for layer in self.middle:
            if isinstance(layer, nn.GroupNorm):
                nn.init.uniform_(layer.weight, 0.5, 1.5)
                nn.init.normal_(layer.bias, 0, 0.2)
        self.up = nn.Sequential(nn.ConvTranspose2d(8 * c, 4 * c, 2, 2, bias=False), nn.BatchNorm2d(4 * c), nn.ReLU())
        self.lifted = nn.ModuleList([double(8 * c, 4 * c), double(6 * c, 2 * c), double(3 * c, c)])
        self.last = nn.Conv2d(c, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for level in self.down:
            seen.append(level(x))
            x = F.max_pool2d(seen[-1], 2)
        x = self.lifted[0](torch.cat([seen[2], self.up(self.middle(x))], 1))
        x = F.interpolate(x, size=seen[1].shape[2:], mode="bilinear", align_corners=True)
        x = self.lifted[1](torch.cat([seen[1], x], 1))
        x = self.lifted[2](torch.cat([seen[0], F.interpolate(x, scale_factor=2)], 1))
        return self.last(x)


def unet(width: float) -> nn.Module:
    return UNet(make_divisible(64 * width))


# -- SSD ---------------------------------------------------------------------------------------------------

ANCHORS = 6  # per pixel of each feature map


class Expanding(nn.Module):
    """A block of MobileNetV3 that also gives its expansion: SSDLite's first feature map."""

    def __init__(self, expand: nn.Module, rest: nn.Module):
        super().__init__()
        self.expand, self.rest = expand, rest

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.expand(x)
        return y, self.rest(y)


class SSDLite(nn.Module):
    """torchvision's ssdlite320_mobilenet_v3_large without anchors and post-processing: (class scores, box offsets).

    W. Liu et al., arXiv:1512.02325; M. Sandler et al., arXiv:1801.04381, section 6.2; A. Howard et al.,
    arXiv:1905.02244, section 6.3, whose last stage has half of the channels.
    """

    def __init__(self, width: float):
        super().__init__()
        table = [(*row[:1], *(n // 2 if i > 12 else n for n in row[1:3]), *row[3:]) for i, row in enumerate(V3_LARGE)]
        table[12] = (5, 672, 80, True, True, 2)
        features = mobilenet_v3(width, tuple(table), 1280)
        layers = list(features)[:-6]  # without last convolution, pool, flatten and the linear layers
        wide, narrow = make_divisible(672 * width), make_divisible(480 * width)
        self.before = nn.Sequential(*layers[:13])
        block = list(layers[13])
        self.split = Expanding(block[0], nn.Sequential(*block[1:]))
        last = conv_bn(make_divisible(80 * width), narrow, 1, act=nn.Hardswish)
        self.after = nn.Sequential(*layers[14:], last)
        channels = [wide, narrow, *(make_divisible(c * width) for c in (512, 256, 256, 128))]
        self.extra = nn.ModuleList(
            nn.Sequential(
                conv_bn(i, o // 2, 1, act=nn.ReLU6),
                conv_bn(o // 2, o // 2, 3, 2, groups=o // 2, act=nn.ReLU6),
                conv_bn(o // 2, o, 1, act=nn.ReLU6),
            )
            for i, o in pairwise(channels[1:])
        )
        self.scores, self.boxes = (
            nn.ModuleList(
                nn.Sequential(conv_bn(c, c, 3, groups=c, act=nn.ReLU6), nn.Conv2d(c, ANCHORS * numbers, 1))
                for c in channels
            )
            for numbers in (CLASSES, 4)
        )

    @staticmethod
    def lined_up(heads: nn.ModuleList, maps: list[torch.Tensor], numbers: int) -> torch.Tensor:
        """(N, all anchors of all maps, numbers)"""
        rows = []
        for head, one in zip(heads, maps, strict=True):
            y = head(one)
            n, _, h, w = y.shape
            y = y.view(n, -1, numbers, h, w).permute(0, 3, 4, 1, 2)
            rows.append(y.reshape(n, -1, numbers))
        return torch.cat(rows, dim=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, x = self.split(self.before(x))
        maps = [first, self.after(x)]
        for block in self.extra:
            maps.append(block(maps[-1]))
        return self.lined_up(self.scores, maps, CLASSES), self.lined_up(self.boxes, maps, 4)


# -- to ONNX -----------------------------------------------------------------------------------------------

# name → the module of a width
MODULES: dict[str, Callable[[float], nn.Module]] = {
    "mobilenet-v1": mobilenet_v1,
    "mobilenet-v2": lambda width: topology.MobileNetV2(width, CLASSES),
    "mobilenet-v3-small": partial(mobilenet_v3, table=V3_SMALL, features=1024),
    "mobilenet-v3-large": partial(mobilenet_v3, table=V3_LARGE, features=1280),
    "shufflenet-v2": shufflenet_v2,
    "own-cnn": own_cnn,
    "convnext-tiny": partial(convnext, blocks=(3, 3, 9, 3)),
    "unet": unet,
    "ssdlite-mobilenet-v3": SSDLite,
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
            least = 192 if isinstance(module, SSDLite) else 64  # its last maps have a hundredth of the height
        module(1.5 * F.interpolate(torch.randn(16, 3, 5, 5), max(size, least), mode="bicubic"))
    return module.eval()


def export(
    name: str,
    size: int | tuple[int, int] = 32,
    batch: int | str = "n",
    seed: int = 0,
    width: float = 0.25,
    opset: int = 17,
) -> ModelProto:
    """One of NAMES as an ONNX model (batch, 3, H, W) → (batch, 10); `batch` is a number, or a name for any number.

    Of "unet" the output is (batch, 10, H, W), of "ssdlite-mobilenet-v3" there are two, (batch, anchors, 10 and 4).
    width: of channels, or of a DenseNet's growth rate; 1 is the paper's.
    """
    height, across = (size, size) if isinstance(size, int) else size
    module = make(name, width, max(height, across), seed)
    count = 1 if isinstance(batch, str) else batch
    outputs = ["scores", "boxes"] if isinstance(module, SSDLite) else ["logits"]
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's deprecation
        torch.onnx.export(
            module,
            (torch.zeros(count, 3, height, across),),
            buffer,
            dynamo=False,
            opset_version=opset,
            training=torch.onnx.TrainingMode.PRESERVE,  # batch-norms stay layers
            do_constant_folding=False,
            input_names=["input"],
            output_names=outputs,
            dynamic_axes={one: {0: batch} for one in ("input", *outputs)} if isinstance(batch, str) else None,
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
