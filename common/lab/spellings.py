"""Rewrites of a model from `topology.write_onnx`, in place, into equivalent ONNX as other exporters spell it."""

import copy

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

IR_BEFORE_4 = 3  # initializers had to be listed among the graph's inputs


def clips_with_attributes(model: ModelProto) -> None:
    """Operator set 9: a Clip's bounds are attributes, and initializers are listed among the graph's inputs."""
    graph, arrays = model.graph, _arrays(model)
    for node in _nodes(graph, "Clip"):
        bounds = dict(zip(("min", "max"), node.input[1:], strict=False))
        del node.input[1:]
        node.attribute.extend(helper.make_attribute(key, float(arrays[name])) for key, name in bounds.items() if name)
        _remove(graph, set(bounds.values()))
    model.opset_import[0].version, model.ir_version = 9, IR_BEFORE_4
    graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in graph.initializer)


def constants_as_nodes(model: ModelProto) -> None:
    """Turn every initializer into a Constant node at the beginning."""
    graph = model.graph
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializer]
    _replace(graph.node, [*nodes, *graph.node])
    del graph.initializer[:]


def mean_over_axes(model: ModelProto) -> None:
    """Replace GlobalAveragePool and Flatten by ReduceMean over the axes −1 and −2 with keepdims=0.

    The axes are an attribute, or an input from operator set 18 on.
    """
    graph, later = model.graph, model.opset_import[0].version >= 18
    for pool in _nodes(graph, "GlobalAveragePool"):
        flatten = next(node for node in _nodes(graph, "Flatten") if node.input[0] == pool.output[0])
        pool.op_type, pool.output[0] = "ReduceMean", flatten.output[0]
        pool.attribute.append(helper.make_attribute("keepdims", 0))
        if later:
            graph.initializer.append(numpy_helper.from_array(np.array([-2, -1]), f"{pool.name}.axes"))
            pool.input.append(f"{pool.name}.axes")
        else:
            pool.attribute.append(helper.make_attribute("axes", [-1, -2]))
        graph.node.remove(flatten)


def mean_over_channels(model: ModelProto) -> None:
    """Add the mean over channels before the global average pooling: no layer of chapter 01 computes this."""
    graph, nodes = model.graph, []
    for node in graph.node:
        if node.op_type == "GlobalAveragePool":
            mean = f"{node.name}.mean"
            nodes.append(helper.make_node("ReduceMean", [node.input[0]], [mean], name=mean, axes=[1]))
            nodes.append(helper.make_node("Add", [node.input[0], mean], [f"{mean}.sum"], name=f"{mean}.sum"))
            node.input[0] = f"{mean}.sum"
        nodes.append(node)
    _replace(graph.node, nodes)


def gemm_not_transposed(model: ModelProto) -> None:
    """Use Gemm without transB: its weight is (in_features, out_features)."""
    for node in _nodes(model.graph, "Gemm"):
        del node.attribute[:]
        _change(model.graph, node.input[1], np.transpose)


def matmul_and_add(model: ModelProto) -> None:
    """Replace Gemm by MatMul and Add; the bias is the Add's first input."""
    graph, nodes = model.graph, []
    gemm_not_transposed(model)
    for node in graph.node:
        if node.op_type == "Gemm":
            x, weight, bias = node.input
            nodes += [
                helper.make_node("MatMul", [x, weight], [f"{node.name}.product"], name=f"{node.name}.product"),
                helper.make_node("Add", [bias, f"{node.name}.product"], list(node.output), name=f"{node.name}.sum"),
            ]
        else:
            nodes.append(node)
    _replace(graph.node, nodes)


def biases_added(model: ModelProto) -> None:
    """Replace the bias of each Conv by an Add of a constant (1, channels, 1, 1) after it."""
    graph, nodes = model.graph, []
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "Conv" and len(node.input) == 3:
            x, weight, bias = node.input
            product = f"{node.output[0]}.product"
            nodes.append(helper.make_node("Add", [product, bias], list(node.output), name=f"{node.name}.bias"))
            _replace(node.input, [x, weight])
            node.output[0] = product
            _change(graph, bias, lambda array: array.reshape(1, -1, 1, 1))
    _replace(graph.node, nodes)


def same_padding(model: ModelProto) -> None:
    """Replace pads by auto_pad=SAME_UPPER, for a network whose convolutions all pad that way."""
    for node in _nodes(model.graph, "Conv"):
        kept = [attribute for attribute in node.attribute if attribute.name != "pads"]
        _replace(node.attribute, [*kept, helper.make_attribute("auto_pad", "SAME_UPPER")])


def every_auto_pad(model: ModelProto) -> None:
    """Set auto_pad everywhere: VALID without padding, else SAME_LOWER, SAME_UPPER or NOTSET with pads.

    SAME_LOWER is for the padding (1, 1, 0, 0), SAME_UPPER for (2, 1, 2, 1): in a network in which all such windows pad
    as these rules do.
    """
    modes = {(0, 0, 0, 0): "VALID", (1, 1, 0, 0): "SAME_LOWER", (2, 1, 2, 1): "SAME_UPPER"}
    for node in (*_nodes(model.graph, "Conv"), *_nodes(model.graph, "MaxPool")):
        pads = next((tuple(attribute.ints) for attribute in node.attribute if attribute.name == "pads"), (0, 0, 0, 0))
        mode = modes.get(pads, "NOTSET")
        kept = [attribute for attribute in node.attribute if attribute.name != "pads" or mode == "NOTSET"]
        _replace(node.attribute, [*kept, helper.make_attribute("auto_pad", mode)])


def defaults_left_out(model: ModelProto) -> None:
    """Drop attributes with default values and each Conv's kernel_shape; add an Identity before the output."""
    defaults = {"strides": [1, 1], "dilations": [1, 1], "pads": [0, 0, 0, 0], "group": 1, "ceil_mode": 0}
    defaults["epsilon"] = helper.make_attribute("", 1e-5).f
    for node in model.graph.node:
        kept = [
            attribute
            for attribute in node.attribute
            if helper.get_attribute_value(attribute) != defaults.get(attribute.name)
            and not (node.op_type == "Conv" and attribute.name == "kernel_shape")
        ]
        _replace(node.attribute, kept)
    last = model.graph.node[-1]
    output, last.output[0] = last.output[0], f"{last.output[0]}.before"
    model.graph.node.append(helper.make_node("Identity", [last.output[0]], [output]))


def strange_names(model: ModelProto) -> None:
    """Remove node names, name tensors "0", "1weight", "2Conv.bias" and so on, reverse the initializers."""
    graph = model.graph
    tensors = [value.name for value in graph.input] + [t.name for t in graph.initializer]
    tensors += [name for node in graph.node for name in node.output]
    endings = ("", "weight", "Conv.bias", " x:0", "/Add", "é")
    new = {name: f"{i}{endings[i % len(endings)]}" for i, name in enumerate(dict.fromkeys(tensors))}
    for node in graph.node:
        node.name = ""
        _replace(node.input, [new.get(name, name) for name in node.input])
        _replace(node.output, [new[name] for name in node.output])
    for named in (*graph.input, *graph.output, *graph.initializer):
        named.name = new[named.name]
    _replace(graph.initializer, list(reversed(graph.initializer)))


def last_first(model: ModelProto) -> None:
    """Use another topological order: of all nodes that are ready, always take the last one."""
    graph, ordered, left = model.graph, [], list(model.graph.node)
    ready = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer} | {""}
    while left:
        node = next(node for node in reversed(left) if ready.issuperset(node.input))
        left.remove(node)
        ordered.append(node)
        ready.update(node.output)
    _replace(graph.node, ordered)


def open_batch(model: ModelProto) -> None:
    """Replace the batch size by a symbolic dimension."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"


def equal_arrays_once(model: ModelProto) -> None:
    """Store equal initializers once, under the name of the first; all nodes read that one."""
    graph = model.graph
    first: dict[tuple, str] = {}
    name_of: dict[str, str] = {}
    for tensor in graph.initializer:
        key = (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
        name_of[tensor.name] = first.setdefault(key, tensor.name)
    _remove(graph, set(name_of) - set(first.values()))
    for node in graph.node:
        _replace(node.input, [name_of.get(name, name) for name in node.input])


def equal_arrays_as_identities(model: ModelProto) -> None:
    """Store equal initializers once; Identity nodes give the array its further names, each reading the one before."""
    graph = model.graph
    last: dict[tuple, str] = {}
    nodes, named = [], set()
    for tensor in graph.initializer:
        key = (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
        if key in last:
            nodes.append(helper.make_node("Identity", [last[key]], [tensor.name], name=f"{tensor.name}.same"))
            named.add(tensor.name)
        last[key] = tensor.name
    _remove(graph, named)
    _replace(graph.node, [*nodes, *graph.node])


def typed_fields(model: ModelProto) -> None:
    """Store the initializers in typed fields such as float_data instead of raw_data."""
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        dtype = tensor.data_type
        tensor.CopyFrom(helper.make_tensor(tensor.name, dtype, array.shape, array.ravel().tolist()))


def half_precision(model: ModelProto) -> None:
    """Convert all initializers, the input and the output to fp16."""
    graph = model.graph
    for tensor in graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16


def _nodes(graph: GraphProto, op_type: str) -> list[NodeProto]:
    return [node for node in graph.node if node.op_type == op_type]


def _arrays(model: ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _change(graph: GraphProto, name: str, change) -> None:
    tensor = next(tensor for tensor in graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), name))


def _remove(graph: GraphProto, names: set[str]) -> None:
    _replace(graph.initializer, [tensor for tensor in graph.initializer if tensor.name not in names])


def _replace(field, values: list) -> None:
    """Replace the contents of a protobuf repeated field, which does not support assignment."""
    values = [copy.deepcopy(value) for value in values]  # the originals may belong to the field
    del field[:]
    field.extend(values)
