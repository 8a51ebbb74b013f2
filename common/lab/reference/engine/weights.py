# -- part: to_array
"""The numbers of a network: out of an ONNX file, and folded."""

from collections import Counter  # for fold, in notebook 2
from dataclasses import replace  # for fold, too

import numpy as np
import onnx
from onnx import TensorProto, helper


def to_array(tensor):
    """The array in an onnx.TensorProto, from raw_data or from the typed field of its type."""
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    dtype = dtype.newbyteorder("<")  # little-endian
    # BEGIN SOLUTION
    # write: the array, from raw_data or from the typed field
    if tensor.HasField("raw_data"):
        flat = np.frombuffer(tensor.raw_data, dtype)
    else:
        flat = np.array(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
        patterns = tensor.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        flat = flat.astype(np.uint16).view(dtype) if patterns else flat.astype(dtype)
    return flat.reshape(tensor.dims)
    # END SOLUTION


# -- part: extract
def extract(model, graph):
    """The arrays of each layer by role: {layer.output: {"weight": array, "bias": array}}.

    model: a path, or an onnx.ModelProto. graph: what graph.read made of it. The weight of a
    Linear is (out_features, in_features), whatever the file holds; a bias is (channels,).
    """
    model = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:  # a Constant node holds its tensor as its one attribute
        if node.op_type == "Constant":
            tensors[node.output[0]] = helper.get_attribute_value(node.attribute[0])
    arrays = {}
    # BEGIN SOLUTION
    # write: arrays[layer.output] for every layer, from the names in layer.weights
    for layer in graph.layers:
        own = {role: to_array(tensors[name]) for role, name in layer.weights.items()}
        if layer.attributes.get("transposed"):
            own["weight"] = own["weight"].T
        if "bias" in own:
            own["bias"] = own["bias"].reshape(-1)
        arrays[layer.output] = own
    # END SOLUTION
    return arrays


# -- part: fold_conv_bn
def fold_conv_bn(weight, bias, gamma, beta, mean, var, eps):
    """(weight', bias') of the one convolution that does what the convolution and its
    batch-norm did.

    weight: (out_channels, in_channels / groups, kH, kW). bias: (out_channels,), or None if the
    convolution has none. gamma, beta, mean, var: (out_channels,). The arrays that come in are
    not changed.
    """
    # BEGIN SOLUTION
    # write: the weight and the bias of the folded convolution
    scale = gamma / np.sqrt(var + eps)
    own_bias = 0 if bias is None else bias
    return weight * scale.reshape(-1, 1, 1, 1), (own_bias - mean) * scale + beta
    # END SOLUTION


# -- part: fold
def fold_arrays(conv, norm, eps):
    """The arrays of the folded convolution: computed in float64, rounded once.

    conv, norm: the arrays of the two layers, {role: array}.
    """
    dtype, bias = conv["weight"].dtype, conv.get("bias")
    exact = {role: array.astype(np.float64) for role, array in norm.items()}
    bias = None if bias is None else bias.astype(np.float64)
    weight, bias = fold_conv_bn(conv["weight"].astype(np.float64), bias, **exact, eps=eps)
    return {"weight": weight.astype(dtype), "bias": bias.astype(dtype)}


def fold(graph, arrays):
    """(graph, arrays) without the batch-norms that a convolution can take in.

    arrays: what extract returned, {layer.output: {role: array}}.
    """
    readers = Counter(name for layer in graph.layers for name in layer.inputs)
    readers[graph.output] += 1
    layers, folded, same = {}, {}, {}  # same: a folded batch-norm's output → the convolution's
    # BEGIN SOLUTION
    # write: fold each batch-norm that can be folded; keep every other layer
    for layer in graph.layers:
        inputs = [same.get(name, name) for name in layer.inputs]
        before = layers.get(layer.inputs[0])
        conv = layer.op == "BatchNorm2d" and before is not None and before.op == "Conv2d"
        if conv and readers[layer.inputs[0]] == 1:
            eps = layer.attributes["eps"]
            folded[inputs[0]] = fold_arrays(folded[inputs[0]], arrays[layer.output], eps)
            same[layer.output] = inputs[0]
        else:
            layers[layer.output] = replace(layer, inputs=inputs)
            folded[layer.output] = arrays[layer.output]
    # END SOLUTION
    output = same.get(graph.output, graph.output)
    return replace(graph, layers=[*layers.values()], output=output), folded
