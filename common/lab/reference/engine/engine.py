# -- part: imports
"""Runs a network: a plan for each input shape, and its launches over one arena."""

from copy import deepcopy  # for resized
from dataclasses import dataclass, field  # for Engine
from functools import partial  # for prepare
from math import inf, prod

import numpy as np
import onnx
from engine import graph, kernels, plan, weights

from common import cuda

BOUNDS = {"ReLU": (0.0, inf), "ReLU6": (0.0, 6.0)}
ARGUMENTS = {}  # kernel → a function like `arguments`, for kernels that notebook 6 adds


# -- part: parameters
def parameters(layer, arrays):
    """(weight, bias) of a layer on the device, in float32; (None, None) for one without.

    arrays: the layer's own, {role: array}. A BatchNorm2d, a ReLU and a ReLU6 that no other
    layer computes run as depthwise convolutions whose kernel is 1×1.
    """
    if not arrays and layer.op not in BOUNDS:
        return None, None
    exact = {role: array.astype(np.float64) for role, array in arrays.items()}
    if layer.op in BOUNDS:
        exact = {"weight": np.ones((layer.shape[1], 1, 1, 1))}
    # BEGIN SOLUTION
    # write: for a BatchNorm2d, exact["weight"] (channels, 1, 1, 1) and exact["bias"]
    if layer.op == "BatchNorm2d":
        scale = exact["gamma"] / np.sqrt(exact["var"] + layer.attributes["eps"])
        exact["weight"] = scale.reshape(-1, 1, 1, 1)
        exact["bias"] = exact["beta"] - exact["mean"] * scale
    # END SOLUTION
    bias = exact.get("bias", np.zeros(layer.shape[1]))
    return tuple(cuda.asarray(one.astype(np.float32)) for one in (exact["weight"], bias))


# -- part: arguments
def arguments(step, shapes, tensors, weight, bias):
    """The arguments of a step's kernel, in the order of its declaration.

    shapes, tensors: {name: shape} and {name: array on the device}, of all activations.
    """
    layer, (first, *others), out = step.layers[0], step.inputs, tensors[step.output]
    x, (images, channels, *size) = tensors[first], shapes[first]
    filters, *out_size = shapes[step.output][1:]
    bounded = [BOUNDS[one.op] for one in step.layers if one.op in BOUNDS]
    bounds = np.array((*bounded, (-inf, inf))[0], np.float32)
    if step.kernel == "pool":
        return x, out, images * channels, prod(size)
    if step.kernel == "gemm":
        return x, weight, bias, out, images, filters, channels * prod(size)
    # BEGIN SOLUTION
    # write: the arguments of "add" and of "pointwise"
    if step.kernel == "add":
        return x, tensors[others[0]], out, out.size
    if step.kernel == "pointwise":
        residual = tensors[others[0]] if others else None
        return x, weight, bias, residual, out, *bounds, images, channels, filters, prod(size)
    # END SOLUTION
    stride, padding = 1, 0  # of a layer that is no convolution: see parameters
    if layer.op == "Conv2d":
        stride, padding = layer.attributes["stride"][0], layer.attributes["padding"][0][0]
    size, out_size = ([*sides, 1, 1][:2] for sides in (size, out_size))  # of a Linear: 1 × 1
    window = *out_size, weight.shape[3], stride, padding
    filters = [filters] if step.kernel == "conv" else []  # depthwise: as many as channels
    return x, weight, bias, out, *bounds, images, channels, *size, *filters, *window


# -- part: resized
def resized(model, shape):
    """A copy of an onnx.ModelProto whose input has another shape, (N, C, H, W).

    ValueError for another number of channels than the model's.
    """
    found = graph.read(model)
    # BEGIN SOLUTION
    # write: the copy, with the sizes of its input in dim.dim_value
    if len(shape) != 4 or shape[1] != found.input_shape[1]:
        raise ValueError(f"x: expected (N, {found.input_shape[1]}, H, W), got {shape}")
    model = deepcopy(model)
    source = next(value for value in model.graph.input if value.name == found.input)
    for dim, size in zip(source.type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    return model
    # END SOLUTION


# -- part: program
@dataclass
class Program:
    """A network's launches for one input shape."""

    plan: object  # a Plan
    memory: object  # the arena, an array of bytes on the device
    launches: list  # a function without arguments for each step
    input: object  # the part of the arena that holds x, an array of its shape
    output: object  # and the logits


# -- part: prepare
def prepare(engine, shape):
    """The Program for an input shape, planned and bound: nothing is launched yet."""
    model = resized(engine.model, shape)
    net = plan.dead_code(graph.read(model))
    net, arrays = weights.fold(net, weights.extract(model, net))
    made = plan.make_plan(net, arrays)
    shapes = {net.input: net.input_shape} | {one.output: one.shape for one in net.layers}
    memory, tensors, launches = cuda.empty(made.size, np.uint8), {}, []
    # BEGIN SOLUTION
    # write: tensors: for each name in made.offsets that is in shapes, its part of memory
    for name in made.offsets.keys() & shapes.keys():
        start, size = made.offsets[name], 4 * prod(shapes[name])
        part = memory[start : start + size].view(np.float32)
        tensors[name] = part.reshape(shapes[name])
    # END SOLUTION
    for step in made.steps:
        layer = step.layers[0]
        if layer.output not in engine.weights:  # they are the same for every input shape
            engine.weights[layer.output] = parameters(layer, arrays[layer.output])
        args_of = ARGUMENTS.get(step.kernel, arguments)
        args = args_of(step, shapes, tensors, *engine.weights[layer.output])
        launches.append(partial(getattr(kernels, step.kernel), *args))
    return Program(made, memory, launches, tensors[net.input], tensors[net.output])


# -- part: bind
@dataclass
class Engine:
    """A network that can be run."""

    model: onnx.ModelProto
    weights: dict = field(default_factory=dict)  # layer.output → its parameters on the device
    programs: dict = field(default_factory=dict)  # input shape → Program


def bind(model):
    """The Engine of an ONNX model, a path or an onnx.ModelProto, ready for its own shape.

    ValueError for a model with a layer that no kernel computes.
    """
    engine = Engine(model if isinstance(model, onnx.ModelProto) else onnx.load(model))
    shape = tuple(graph.read(engine.model).input_shape)
    engine.programs[shape] = prepare(engine, shape)
    return engine


# -- part: run
def run(engine, x):
    """The logits (N, classes) of images x (N, C, H, W), NumPy arrays of float32.

    N, H and W may differ from call to call: each input shape has a program of its own.
    """
    # BEGIN SOLUTION
    # write: prepare a program if this shape is new; copy x in, launch, copy the logits out
    if x.shape not in engine.programs:
        engine.programs[x.shape] = prepare(engine, x.shape)
    program = engine.programs[x.shape]
    program.input[...] = cuda.asarray(x)
    for launch in program.launches:
        launch()
    return cuda.asnumpy(program.output).copy()
    # END SOLUTION


# -- part: hard_swish
def of_hard_swish(step, shapes, tensors, weight, bias):
    """The arguments of hard_swish(x, out, n)."""
    x, out = tensors[step.inputs[0]], tensors[step.output]
    return x, out, out.size


ARGUMENTS["hard_swish"] = of_hard_swish


# -- part: own_fusion
def without_bounds(step, shapes, tensors, weight, bias):
    """The arguments of conv_hard_swish and depthwise_hard_swish: no low, no high."""
    plain = plan.Step(step.kernel.removesuffix("_hard_swish"), step.layers)
    x, weight, bias, out, _, _, *sizes = arguments(plain, shapes, tensors, weight, bias)
    return x, weight, bias, out, *sizes


ARGUMENTS["conv_hard_swish"] = ARGUMENTS["depthwise_hard_swish"] = without_bounds
