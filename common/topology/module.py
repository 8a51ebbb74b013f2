"""MobileNetV2 as a PyTorch module built from the paper's table, and its export to ONNX.

The module tree is that of torchvision's mobilenet_v2, so its checkpoints can be loaded unchanged.
"""

import io
import os
import warnings

import onnx
import torch
from torch import nn

from ..files import replacing
from .layers import Pair
from .table import TABLE, head_channels, make_divisible, stem_channels


def conv_bn(in_channels: int, out_channels: int, kernel: int, stride: int, groups: int, batch_norm: bool) -> list:
    """[convolution with padding kernel // 2, batch-norm]; without batch_norm, [convolution with a bias]."""
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, groups=groups, bias=not batch_norm)
    return [conv, nn.BatchNorm2d(out_channels)] if batch_norm else [conv]


class ConvReLU6(nn.Sequential):
    """Convolution, batch-norm, ReLU6. Without batch_norm, an Identity keeps ReLU6 at index 2."""

    def __init__(self, in_channels, out_channels, kernel=3, stride=1, groups=1, batch_norm=True):
        layers = conv_bn(in_channels, out_channels, kernel, stride, groups, batch_norm)
        if not batch_norm:
            layers.append(nn.Identity())
        super().__init__(*layers, nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """An inverted residual block: 1×1 expansion to in_channels · t, 3×3 depthwise convolution, linear 1×1 projection.

    The input is added to the output at stride 1 if the numbers of channels are equal.
    """

    def __init__(self, in_channels, out_channels, stride, t, batch_norm=True):
        super().__init__()
        hidden = in_channels * t
        self.use_res_connect = stride == 1 and in_channels == out_channels
        layers: list[nn.Module] = []
        if t != 1:
            # pw
            layers.append(ConvReLU6(in_channels, hidden, kernel=1, batch_norm=batch_norm))
        # dw
        layers.append(ConvReLU6(hidden, hidden, stride=stride, groups=hidden, batch_norm=batch_norm))
        # pw-linear
        layers.extend(conv_bn(hidden, out_channels, 1, 1, 1, batch_norm))
        self.conv = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (N, in_channels, H, W) → (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """x (N, in_channels, H, W) → logits (N, num_classes), for any H and W.

    With batch_norm=False every convolution has a bias instead of a batch-norm, for folded parameters.
    Initialisation as in torchvision: He-normal convolutions (fan_out), N(0, 0.01²) for the classifier.
    """

    def __init__(
        self,
        width: float = 1.0,
        num_classes: int = 1000,
        in_channels: int = 3,
        batch_norm: bool = True,
        dropout: float = 0.2,
    ):
        super().__init__()
        channels = stem_channels(width)
        features: list[nn.Module] = [ConvReLU6(in_channels, channels, stride=2, batch_norm=batch_norm)]
        for t, c, n, s in TABLE:
            out_channels = make_divisible(c * width)
            for i in range(n):
                features.append(InvertedResidual(channels, out_channels, s if i == 0 else 1, t, batch_norm))
                channels = out_channels
        features.append(ConvReLU6(channels, head_channels(width), kernel=1, batch_norm=batch_norm))
        self.in_channels = in_channels
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(head_channels(width), num_classes))

        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (N, in_channels, H, W) → logits (N, num_classes)."""
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        x = torch.flatten(x, 1)
        return self.classifier(x)


def export_onnx(
    module: nn.Module,
    path: str | os.PathLike | None = None,
    input_size: int | Pair = 224,
    batch: int = 1,
    opset: int = 17,
    dynamic_batch: bool = False,
) -> onnx.ModelProto:
    """Export the module in evaluation mode as an ONNX model, and write it to `path` if given.

    Input `input` (batch, in_channels, H, W) in the parameters' dtype, output `logits`. Initializers have the names of
    the state dict, batch-norms are not folded. The module's training mode is restored. OSError as for files.replacing.

    It uses PyTorch's TorchScript exporter, because the newer exporter renames and folds parameters and takes seconds.
    """
    height, width = (input_size, input_size) if isinstance(input_size, int) else input_size
    in_channels = getattr(module, "in_channels", 3)
    parameter = next(module.parameters())
    example = torch.zeros(batch, in_channels, height, width, dtype=parameter.dtype, device=parameter.device)
    buffer = io.BytesIO()
    training = module.training
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the exporter's deprecation and disabled folding
            torch.onnx.export(
                module.eval(),
                (example,),
                buffer,  # type: ignore[arg-type]  # annotated as a path, documented as a file object too
                dynamo=False,
                opset_version=opset,
                training=torch.onnx.TrainingMode.PRESERVE,  # EVAL would fold batch-norms and lose their names
                do_constant_folding=False,
                input_names=["input"],
                output_names=["logits"],
                dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}} if dynamic_batch else None,
            )
    finally:
        module.train(training)
    model = onnx.load_model_from_string(buffer.getvalue())
    restore_shared_initializers(model.graph)
    if path is not None:
        with replacing(path) as file:
            file.write(model.SerializeToString())
    return model


def restore_shared_initializers(graph: onnx.GraphProto) -> None:
    """Give every parameter its own initializer, in place.

    The exporter stores one of several equal parameters (for example, biases that are all zero) and writes the others as
    Identity nodes with the parameter's name as output.
    """
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in list(graph.node):
        if node.op_type == "Identity" and node.input[0] in tensors:
            copy = graph.initializer.add()
            copy.CopyFrom(tensors[node.input[0]])
            copy.name = node.output[0]
            graph.node.remove(node)
