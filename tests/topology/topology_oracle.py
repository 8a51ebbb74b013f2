"""An evaluator of Graphs that shares nothing with the reader: torch.nn.functional in float64."""

import numpy as np
import onnxruntime
import torch
from torch.nn import functional as F

from common import topology as t


def evaluate(graph: t.Graph, parameters: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The graph's output for the input x, computed layer by layer in float64."""
    p = {name: torch.from_numpy(array.astype(np.float64)) for name, array in parameters.items()}
    values = {graph.input: torch.from_numpy(x.astype(np.float64))}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # these tensors are small: more threads would only wait for each other
    try:
        for layer in graph:
            inputs = [values[name] for name in layer.inputs]
            result = RUN[type(layer)](layer, p, *inputs)
            assert tuple(result.shape) == layer.output_shape, layer
            values[layer.output] = result
    finally:
        torch.set_num_threads(threads)
    return values[graph.output].numpy()


def around(x, padding, value):
    (top, bottom), (left, right) = padding
    return F.pad(x, (left, right, top, bottom), value=value)


def conv(layer, p, x):
    return F.conv2d(
        around(x, layer.padding, 0.0),
        p[layer.weight],
        None if layer.bias is None else p[layer.bias],
        layer.stride,
        0,
        layer.dilation,
        layer.groups,
    )


def batch_norm(layer, p, x):
    # written out, as older versions of F.batch_norm refuse an eps of 0
    mean, var, gamma, beta = (
        p[name].reshape(1, -1, *[1] * (x.dim() - 2))
        for name in (layer.running_mean, layer.running_var, layer.weight, layer.bias)
    )
    return (x - mean) / torch.sqrt(var + layer.eps) * gamma + beta


def overhang(layer, padding=None):
    """What ceil_mode makes the last window reach beyond the padded image, at least 0, for each side."""
    dilation = getattr(layer, "dilation", (1, 1))
    result = []
    for axis in range(2):
        size = layer.input_shapes[0][2 + axis] + sum(layer.padding[axis])
        last = (layer.output_shape[2 + axis] - 1) * layer.stride[axis]
        result.append((0, max(0, last + dilation[axis] * (layer.kernel_size[axis] - 1) + 1 - size)))
    return tuple(result)


def max_pool(layer, p, x):
    x = around(around(x, layer.padding, -torch.inf), overhang(layer), -torch.inf)
    y = F.max_pool2d(x, layer.kernel_size, layer.stride, 0, layer.dilation)
    return y[:, :, : layer.output_shape[2], : layer.output_shape[3]]


def average_pool(layer, p, x):
    counted = around(torch.ones_like(x), layer.padding, 1.0 if layer.count_include_pad else 0.0)
    sums = [
        F.avg_pool2d(around(part, overhang(layer), 0.0), layer.kernel_size, layer.stride, divisor_override=1)
        for part in (around(x, layer.padding, 0.0), counted)
    ]
    return (sums[0] / sums[1])[:, :, : layer.output_shape[2], : layer.output_shape[3]]


def sliced(layer, p, x):
    for axis, (start, size, step) in enumerate(zip(layer.starts, layer.sizes, layer.steps, strict=True), 1):
        x = torch.stack([x.select(axis, start + i * step) for i in range(size)], axis)
    return x


def channel_shuffle(layer, p, x):
    n, c, h, w = x.shape
    return x.reshape(n, layer.groups, c // layer.groups, h, w).transpose(1, 2).reshape(n, c, h, w)


def conv_transpose(layer, p, x):
    bias = None if layer.bias is None else p[layer.bias]
    how = layer.stride, 0, layer.output_padding, layer.groups, layer.dilation
    y = F.conv_transpose2d(x, p[layer.weight], bias, *how)
    (top, bottom), (left, right) = layer.padding
    return y[:, :, top : y.shape[2] - bottom, left : y.shape[3] - right]


def layer_norm(layer, p, x):
    mean = x.mean(layer.dim, keepdim=True)
    y = (x - mean) / ((x - mean).square().mean(layer.dim, keepdim=True) + layer.eps).sqrt()
    along = [-1 if i == layer.dim else 1 for i in range(x.dim())]
    y = y if layer.weight is None else y * p[layer.weight].reshape(along)
    return y if layer.bias is None else y + p[layer.bias].reshape(along)


def group_norm(layer, p, x):
    weight, bias = (None if name is None else p[name] for name in (layer.weight, layer.bias))
    return F.group_norm(x, layer.num_groups, weight, bias, layer.eps)


def resize(layer, p, x):
    """Each output pixel as the sum of all input pixels of its axis, weighted: 1 at the nearest, or 1 − distance."""
    for axis, size in enumerate(layer.size):
        extent = x.shape[2 + axis]
        scale = np.float32(layer.scales[axis] if layer.scales else size / extent)
        i = np.arange(size, dtype=np.float32)
        at = {
            "asymmetric": i / scale,
            "half_pixel": (i + np.float32(0.5)) / scale - np.float32(0.5),
            "pytorch_half_pixel": (i + np.float32(0.5)) / scale - np.float32(0.5) if size > 1 else 0 * i,
            "align_corners": i * np.float32(extent - 1) / np.float32(max(size - 1, 1)),
        }[layer.coordinates]
        if layer.mode == "nearest":
            at = {
                "floor": np.floor(at),
                "ceil": np.ceil(at),
                "round_prefer_floor": np.ceil(at - 0.5),
                "round_prefer_ceil": np.floor(at + 0.5),
            }[layer.rounding]
        distance = np.abs(np.clip(at, 0, extent - 1).astype(np.float64)[:, None] - np.arange(extent))
        weights = torch.from_numpy(np.maximum(0, 1 - distance))
        x = torch.tensordot(x, weights, ([2 + axis], [1])).movedim(-1, 2 + axis)
    return x


RUN = {
    t.ConvTranspose2d: conv_transpose,
    t.GroupNorm: group_norm,
    t.LayerNorm: layer_norm,
    t.Mean: lambda layer, p, x: x.mean(layer.dim, keepdim=True),
    t.Resize: resize,
    t.Sqrt: lambda layer, p, x: x.sqrt(),
    t.ChannelShuffle: channel_shuffle,
    t.Add: lambda layer, p, x, y: x + y,
    t.Div: lambda layer, p, x, y: x / y,
    t.ELU: lambda layer, p, x: torch.where(x < 0, layer.alpha * (torch.exp(x) - 1), x),
    t.Erf: lambda layer, p, x: torch.erf(x),
    t.GELU: lambda layer, p, x: F.gelu(x, approximate=layer.approximate),
    t.LeakyReLU: lambda layer, p, x: torch.where(x < 0, layer.alpha * x, x),
    t.Maximum: lambda layer, p, x, y: torch.maximum(x, y),
    t.Minimum: lambda layer, p, x, y: torch.minimum(x, y),
    t.Slice: sliced,
    t.Sub: lambda layer, p, x, y: x - y,
    t.Tanh: lambda layer, p, x: torch.tanh(x),
    t.AveragePool2d: average_pool,
    t.BatchNorm2d: batch_norm,
    t.Clip: lambda layer, p, x: x.clamp(layer.min, layer.max),
    t.Concat: lambda layer, p, *xs: torch.cat(xs, layer.dim),
    t.Conv2d: conv,
    t.GlobalAveragePool: lambda layer, p, x: x.mean((2, 3), keepdim=True),
    t.HardSigmoid: lambda layer, p, x: (layer.alpha * x + layer.beta).clamp(0, 1),
    t.HardSwish: lambda layer, p, x: F.hardswish(x),
    t.Linear: lambda layer, p, x: F.linear(
        x.flatten(1), p[layer.weight], None if layer.bias is None else p[layer.bias]
    ),
    t.MaxPool2d: max_pool,
    t.Mul: lambda layer, p, x, y: x * y,
    t.Pad: lambda layer, p, x: around(x, layer.padding, layer.value),
    t.Permute: lambda layer, p, x: x.permute(layer.dims),
    t.ReLU: lambda layer, p, x: F.relu(x),
    t.ReLU6: lambda layer, p, x: F.relu6(x),
    t.Quantize: lambda layer, p, x: ((x / layer.grid.scale[0]).round() + layer.grid.zero_point[0]).clamp(
        layer.grid.low, layer.grid.high
    ),
    t.Dequantize: lambda layer, p, x: (x - layer.grid.zero_point[0]) * layer.grid.scale[0],
    t.Reshape: lambda layer, p, x: x.reshape(x.shape[0], *layer.shape),
    t.ResidualAdd: lambda layer, p, x, y: x + y,
    t.Sigmoid: lambda layer, p, x: x.sigmoid(),
    t.Softmax: lambda layer, p, x: x.softmax(layer.dim),
}


def onnx_runtime(model, x: np.ndarray) -> np.ndarray:
    """What ONNX Runtime makes of x."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (name,) = [value.name for value in session.get_inputs()]
    return session.run(None, {name: x})[0]


def agree(model, input_shape=None, seed=0, dtype=np.float32, tolerance=1e-5) -> t.Graph:
    """Read the model, run Graph and file on the same random input, and compare; the Graph read."""
    graph, parameters = t.read_onnx_with_parameters(model, input_shape)
    assert {name: array.shape for name, array in parameters.items()} == graph.parameter_shapes
    assert all(a.dtype == np.float32 and a.flags.c_contiguous for a in parameters.values())
    x = (3 * np.random.default_rng(seed).standard_normal(graph.input_shape)).astype(dtype)
    expected = onnx_runtime(model, x).astype(np.float64)
    got = evaluate(graph, parameters, x)
    assert got.shape == expected.shape
    assert np.isfinite(expected).all() and np.std(expected) > 0
    assert np.linalg.norm(got - expected) <= tolerance * np.linalg.norm(expected)
    return graph
