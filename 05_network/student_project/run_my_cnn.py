"""A CNN of one's own on the course's engine, with one kernel of one's own beside it.

python run_my_cnn.py
"""

import io
import warnings
from pathlib import Path

import torch
from mobilenet_engine.cuda.layout import flat
from mobilenet_engine.network import Network
from mobilenet_engine.network.compare import relative_error
from onnx import load_model_from_string as load
from torch import nn

from mobilenet_engine import cuda

kernel = cuda.RawKernel(Path(__file__).with_name("hardswish.cu").read_text(), "hardswish")


def my_hardswish(x, function, *, out):
    assert function == "hardswish", f"this network has no {function}"
    kernel(((x.size + 255) // 256,), (256,), (flat(x), flat(out), x.size))  # as in memory


torch.manual_seed(0)
my_cnn = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
    nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16),
    nn.Hardswish(), nn.Conv2d(16, 40, 1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 7),
).eval()  # fmt: skip
warnings.simplefilter("ignore", DeprecationWarning)  # of the exporter
file, x, batch = io.BytesIO(), torch.randn(5, 3, 61, 47), {"x": {0: "batch"}}
torch.onnx.export(my_cnn, (x,), file, dynamo=False, input_names=["x"], dynamic_axes=batch)
net = Network(load(file.getvalue()), operators={"activate": my_hardswish})
with torch.no_grad():
    pictures = (x, x[:1], 9 * torch.randn(2, 3, 61, 47))
    error = max(relative_error(net(picture), my_cnn(picture)) for picture in pictures)
print(net, f"\nlargest relative difference to PyTorch: {error:.1e} on the {cuda.backend()}")
