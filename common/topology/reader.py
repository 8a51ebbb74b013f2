"""An ONNX model as a Graph of typed layers, with its parameters."""

import os
from dataclasses import replace

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto

from .constants import FOLD, Budget, fold
from .errors import InvalidModel, UnsupportedModel
from .graph import Graph
from .layers import BatchNorm2d, Shape
from .loading import load_model, opset_version
from .node import Node, nodes_in_order
from .operators import TRANSLATE
from .simplify import simplify
from .tensors import FLOATS, decode, element_type
from .translation import Activation, Translation, as_written

DEFAULT_SIZE = 224  # height and width if the file does not fix them, as in the paper


def read_onnx(source: str | os.PathLike | ModelProto, input_shape: tuple | None = None) -> Graph:
    """The layers of an ONNX model; arguments and errors as for `read_onnx_with_parameters`."""
    return read_onnx_with_parameters(source, input_shape)[0]


def read_onnx_with_parameters(
    source: str | os.PathLike | ModelProto, input_shape: tuple | None = None
) -> tuple[Graph, dict[str, np.ndarray]]:
    """The layers of an ONNX model and their parameters by name.

    input_shape: (N, C, H, W), overrides the file's; None, as a whole or for a size, keeps it. Of a model with several
    inputs a tuple of such, one per input in the file's order. A batch that the file does not fix is 1, an open height
    or width is 224.

    The parameters are C-contiguous float32 under their ONNX names, in the layers' layout: convolution
    (out_channels, in_channels / groups, kH, kW), linear (out_features, in_features) with Gemm's alpha and beta
    multiplied in, batch-norm and biases (channels,). Constants added after a convolution or matrix product become its
    bias. float16, bfloat16 and float64 parameters are converted to float32. Of a quantized model (QuantizeLinear and
    DequantizeLinear) the parameters are the dequantized numbers, and Graph.grids has their scales.

    InvalidModel: the model is damaged, or a parameter is infinite or NaN. UnsupportedModel: it contains something that
    the layers here cannot express. ValueError: input_shape does not fit. OSError: the file cannot be opened.
    """
    return translate(load_model(source), input_shape)


def translate(model: ModelProto, input_shape: tuple | None) -> tuple[Graph, dict[str, np.ndarray]]:
    """`read_onnx_with_parameters` for a model returned by `load_model`."""
    graph, opset = model.graph, opset_version(model)
    nodes = nodes_in_order(graph, opset)
    outputs = [value.name for value in graph.output]
    if not outputs:
        raise InvalidModel("the model has no output")
    for node in nodes:
        check_operator(node)
    wanted = {name for node in nodes for name in node.inputs} | set(outputs)

    tensors = {tensor.name: tensor for tensor in graph.initializer if tensor.name in wanted}
    if graph.sparse_initializer:
        raise UnsupportedModel("the model stores sparse initializers")
    inputs = [value for value in graph.input if value.name in wanted and value.name not in tensors]
    if not inputs:
        raise UnsupportedModel("the model's outputs depend on no input")
    shapes, file_batch = requested_shapes(inputs, input_shape)
    dtypes = {
        value.name: element_type(value.type.tensor_type.elem_type, f"the input {value.name!r}") for value in inputs
    }
    for name, dtype in dtypes.items():
        if dtype not in FLOATS:
            raise UnsupportedModel(f"the input {name!r} is {dtype}, not floating-point")

    # the bytes stored, not the shapes, which may claim more than the file holds
    stored = sum(tensor.ByteSize() for tensor in [*tensors.values(), *(t for node in nodes for t in node.tensors())])
    values: dict[str, Activation | np.ndarray] = {name: decode(tensor) for name, tensor in tensors.items()}
    for value, shape in shapes.items():
        values[value] = as_written(value, shape, dtypes[value])
    names = set(values) | {name for node in nodes for name in node.outputs}
    state = Translation(values, names, file_batch, Budget(4 * stored + 2**20))
    for node in nodes:
        run(state, node)

    found = []
    for output in outputs:
        result = values.get(output)
        if not isinstance(result, Activation):
            raise UnsupportedModel(f"the output {output!r} does not depend on the input")
        while not result.is_direct:  # a mean may leave a view
            result = state.materialize(nodes[-1], result, output)
        found.append(result.tensor)
    (name, shape), *more = shapes.items()
    try:
        network = Graph(
            name=graph.name or "model",
            input=name,
            input_shape=shape,
            layers=tuple(simplify(state.layers, found, state.parameters)),
            output=found[0],
            more_inputs=tuple(more),
            more_outputs=tuple(found[1:]),
        )
    except ValueError as error:
        raise InvalidModel(f"its layers do not fit together: {error}") from error
    parameters = {name: state.parameters[name] for name in network.parameter_shapes}
    stored = ((name, state.grids[name]) for name in parameters if name in state.grids)
    network = replace(network, grids=tuple((name, grid) for name, grid in stored if grid.has(parameters[name])))
    check_numbers(network, parameters)
    return network, parameters


def check_operator(node: Node) -> None:
    """Raise UnsupportedModel for an operator that is not implemented here, InvalidModel for a node that ONNX forbids.

    Forbidden are operators that the model's operator set lacks, too few or too many inputs, and missing required
    attributes.
    """
    if node.domain not in ("", "ai.onnx"):
        raise node.unsupported(f"the operator belongs to {node.domain!r}, not to standard ONNX")
    if node.op_type not in FOLD and node.op_type not in TRANSLATE:
        raise node.unsupported("there is no layer for this operator")
    try:
        schema = onnx.defs.get_schema(node.op_type, node.opset, "")
    except onnx.defs.SchemaError:
        raise node.invalid(f"operator set {node.opset} has no such operator") from None
    least, most = schema.min_input, schema.max_input
    if not least <= len(node.inputs) <= most:
        raise node.invalid(f"it has {len(node.inputs)} inputs, not {least if least == most else f'{least} to {most}'}")
    for name, attribute in schema.attributes.items():
        if attribute.required and not node.has(name):
            raise node.invalid(f"it has no {name}")
    if not any(node.outputs):
        raise node.invalid("it has no output")


def check_numbers(network: Graph, parameters: dict[str, np.ndarray]) -> None:
    """Raise InvalidModel for a parameter that is not finite, or a variance for which var + eps is not positive."""
    for name, array in parameters.items():
        if bad := array.size - int(np.isfinite(array).sum()):
            raise InvalidModel(f"parameter {name!r}: {bad} of {array.size} numbers are infinite or not a number")
    for layer in network:
        if isinstance(layer, BatchNorm2d):
            variance = parameters[layer.running_var].astype(np.float64) + layer.eps
            if not (variance > 0).all():
                channel = int(np.argmin(variance))
                raise InvalidModel(
                    f"batch-norm {layer.name!r}: the variance of channel {channel} is "
                    f"{variance[channel] - layer.eps:g}, not positive even with eps"
                )


def run(state: Translation, node: Node) -> None:
    """Process one node: constant folding if all inputs are constants, else translation to layers.

    Its first output is stored in state.values. InvalidModel and UnsupportedModel name the node.
    """
    inputs = [state.value(node, position) for position in range(len(node.inputs))]
    known: list[np.ndarray | None] = [value for value in inputs if not isinstance(value, Activation)]
    result: Activation | np.ndarray
    if node.op_type in FOLD and len(known) == len(inputs):
        result = fold(node, known, state.budget)
    elif node.op_type not in TRANSLATE:
        raise node.unsupported("it computes at run time, and there is no layer for this operator")
    else:
        try:
            result = TRANSLATE[node.op_type](state, node)
        except (InvalidModel, UnsupportedModel) as error:
            raise error if str(error).startswith("node ") else type(error)(f"{node}: {error}") from error
    node.check_all_read()
    if node.op_type in ("Identity", "Transpose") and node.inputs[0] in state.grids:
        state.grids[node.outputs[0]] = state.grids[node.inputs[0]]
    if node.outputs[0]:
        state.values[node.outputs[0]] = result
        state.writer[node.outputs[0]] = node.name


def requested_shapes(inputs: list[ValueInfoProto], input_shape: tuple | None) -> tuple[dict[str, Shape], int | None]:
    """(the inputs' shapes by name, the batch size that the file fixes or None); input_shape overrides the file's."""
    asked: tuple = (None,) * len(inputs)
    if len(inputs) == 1:
        asked = (input_shape,)
    elif input_shape is not None:
        if len(input_shape) != len(inputs) or not all(one is None or isinstance(one, tuple) for one in input_shape):
            raise ValueError(f"input_shape must be {len(inputs)} shapes, one per input, got {input_shape}")
        asked = input_shape
    read = {value.name: requested_shape(value, one) for value, one in zip(inputs, asked, strict=True)}
    shapes = {name: shape for name, (shape, _) in read.items()}
    batches = [batch for _, batch in read.values()]
    if len({shape[0] for shape in shapes.values()}) > 1:
        raise UnsupportedModel(
            f"the inputs {', '.join(map(repr, shapes))} have the batch sizes"
            f" {', '.join(str(shape[0]) for shape in shapes.values())}, not one"
        )
    return shapes, next((batch for batch in batches if batch is not None), None)


def requested_shape(value: ValueInfoProto, input_shape: tuple[int | None, ...] | None) -> tuple[Shape, int | None]:
    """(the input's shape, the batch size that the file fixes or None); input_shape overrides the file's shape."""
    what = f"the input {value.name!r}"
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise UnsupportedModel(f"{what} is not a tensor")
    if tensor.HasField("shape"):
        fixed = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    elif input_shape is not None:
        fixed = [None] * len(input_shape)
    else:
        raise UnsupportedModel(f"{what} has no shape in the file, so input_shape has to be given")
    if any(size is not None and size < 1 for size in fixed):
        raise InvalidModel(f"{what} has the shape {tuple(fixed)}")
    if not 2 <= len(fixed) <= 4:
        raise UnsupportedModel(f"{what} has {len(fixed)} dimensions, not (N, C, H, W)")

    given = (None,) * len(fixed) if input_shape is None else tuple(input_shape)
    if len(given) != len(fixed):
        raise ValueError(f"input_shape {given} does not have the {len(fixed)} dimensions of {what}")
    if any(size is not None and size < 1 for size in given):
        raise ValueError(f"input_shape {given} has a size below 1")
    default = (1, None, DEFAULT_SIZE, DEFAULT_SIZE)
    shape = [
        next((size for size in choices if size is not None), None)
        for choices in zip(given, fixed, default, strict=False)
    ]
    if None in shape:
        raise UnsupportedModel(f"{what} leaves the number of channels open, so input_shape has to be given")
    return tuple(size for size in shape if size is not None), fixed[0]
