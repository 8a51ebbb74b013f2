"""The networks of the suite "families": torchvision's classifiers, an SSD's head, a small U-Net; and their ONNX models.

made(name, side)         a torch.nn.Module in evaluation mode; its weights are random, from a seed
exported(module, side)   the ONNX model, for any number of pictures
"""

import io
import warnings
from collections.abc import Callable
from typing import Any

# torchvision's names: one network of each family, of some the smallest and a later one
CLASSIFIERS = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
    "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf",
    "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11_bn", "wide_resnet50_2",
)  # fmt: skip
SSD = "ssdlite320_mobilenet_v3_large"
UNET = "unet"
NAMES = (*CLASSIFIERS, UNET, SSD)
SIDES = {"inception_v3": 299, SSD: 320}  # of a picture; of the others 224
OUTPUTS = {SSD: ("scores", "boxes")}  # of the others "logits"
STATISTICS = 8  # pictures of noise that batch-norms see


def side_of(name: str) -> int:
    """The height and width of a network's pictures."""
    return SIDES.get(name, 224)


def made(name: str, side: int, seed: int = 0) -> Any:
    """A network in evaluation mode, on the CPU. RuntimeError without torchvision, ValueError for another name.

    Batch-norms have the statistics of noise, so that activations neither vanish nor explode.
    """
    import torch

    torch.manual_seed(seed)
    module = (unet if name == UNET else ssd if name == SSD else _classifier(name))()
    module.eval()
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # the mean over all pictures seen
            layer.train()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.no_grad():
        module.to(device)(torch.randn(STATISTICS, 3, side, side).to(device))
    return module.cpu().eval()


def _models() -> Any:
    try:
        from torchvision import models
    except ImportError:
        raise RuntimeError("the suite families needs torchvision, which is not installed") from None
    return models


def _classifier(name: str) -> Callable[[], Any]:
    models = _models()
    if name not in models.list_models(module=models):
        raise ValueError(f"network must be {UNET}, {SSD} or a classifier of torchvision.models, got {name!r}")
    more = {"init_weights": True, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    return lambda: models.get_model(name, weights=None, **more)


def ssd() -> Any:
    """torchvision's SSD on MobileNetV3: (class scores, box offsets) of all anchors, without post-processing."""
    import torch

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = _models().get_model(SSD, weights=None, weights_backbone=None)
            self.backbone, self.head = whole.backbone, whole.head

        def forward(self, x: Any) -> tuple[Any, Any]:
            found = self.head(list(self.backbone(x).values()))
            return found["cls_logits"], found["bbox_regression"]

    return Head()


def unet(channels: int = 32, classes: int = 21) -> Any:
    """A U-Net (O. Ronneberger et al., arXiv:1505.04597) of three levels: scores of each pixel's class.

    Up again by a transposed convolution, then bilinearly, then by the nearest pixel.
    """
    import torch
    from torch import nn
    from torch.nn import functional as F

    def double(before: int, after: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for inputs in (before, after):
            layers += [nn.Conv2d(inputs, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.down = nn.ModuleList([double(3, c), double(c, 2 * c), double(2 * c, 4 * c)])
            self.middle = double(4 * c, 8 * c)
            self.lift = nn.ConvTranspose2d(8 * c, 4 * c, 2, 2)
            self.up = nn.ModuleList([double(8 * c, 4 * c), double(6 * c, 2 * c), double(3 * c, c)])
            self.last = nn.Conv2d(c, classes, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = self.down[0](x)
            second = self.down[1](F.max_pool2d(first, 2))
            third = self.down[2](F.max_pool2d(second, 2))
            y = self.lift(self.middle(F.max_pool2d(third, 2)))
            y = self.up[0](torch.cat([third, y], 1))
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
            y = self.up[1](torch.cat([second, y], 1))
            y = self.up[2](torch.cat([first, F.interpolate(y, scale_factor=2)], 1))
            return self.last(y)

    return UNet(channels)


def exported(module: Any, side: int, outputs: tuple[str, ...] = ("logits",)) -> Any:
    """The network as an ONNX ModelProto for any number of pictures, as PyTorch's exporter writes it."""
    import onnx
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's deprecation
        torch.onnx.export(
            module, (torch.zeros(1, 3, side, side),), file, dynamo=False, opset_version=17, input_names=["input"],
            output_names=list(outputs), dynamic_axes={one: {0: "n"} for one in ("input", *outputs)},
        )  # fmt: skip
    return onnx.load_model_from_string(file.getvalue())
