"""Small networks for the tests: written node by node, or layer by layer."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from common import cudnn, topology
from common.network import BACKENDS

torch.set_num_threads(1)  # its threads would wait for cores that the simulator uses

CUDNN = pytest.param("cudnn", marks=pytest.mark.skipif(cudnn.missing() is not None, reason=str(cudnn.missing())))
every_backend = pytest.mark.parametrize("backend", [CUDNN if name == "cudnn" else name for name in BACKENDS])
other_backends = pytest.mark.parametrize("backend", ["kernels", CUDNN, "torch"])


class Nodes:
    """ONNX nodes and their numbers in the order in which they are asked for; `model` makes the file of them."""

    def __init__(self, rng, opset=13):
        self.rng, self.opset = rng, opset
        self.nodes, self.initializers = [], []

    def number(self, values):
        name = f"number{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def integers(self, *values):
        name = f"number{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def __call__(self, op_type, *inputs, **attributes):
        output = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"/{output}", **attributes))
        return output

    def conv(self, x, in_channels, out_channels, k=3, group=1, **attributes):
        shape = (out_channels, in_channels // group, k, k)
        weight = self.rng.standard_normal(shape) / np.sqrt(in_channels // group * k * k)
        inputs = [x, self.number(weight), self.number(self.rng.standard_normal(out_channels))]
        return self("Conv", *inputs, kernel_shape=[k, k], group=group, **attributes)

    def same(self, x, channels):
        """A 3×3 convolution that keeps the shape."""
        return self.conv(x, channels, channels, pads=[1, 1, 1, 1])

    def clip(self, x, low, high):
        return self("Clip", x, self.number(low), self.number(high))

    def model(self, output, shape=("n", 3, 9, 8), **more):
        """output: one name or a list. more: shapes of further inputs by name."""
        outputs = [
            helper.make_empty_tensor_value_info(name) for name in ([output] if output == str(output) else output)
        ]
        for unknown in outputs:
            unknown.type.tensor_type.elem_type = TensorProto.FLOAT
        shapes = {"x": shape} | more
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, given) for name, given in shapes.items()]
        graph = helper.make_graph(self.nodes, "small", inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return model


def layers(shape, *makers):
    """A graph of layers in a row: each maker is (kind, fields), with `inputs` in them if not the one before."""
    made, shapes = [], {"input": shape}
    for i, (kind, fields) in enumerate(makers):
        inputs = fields.pop("inputs", (list(shapes)[-1],))
        layer = kind(
            name=f"layer{i}",
            inputs=inputs,
            output=f"t{i}",
            input_shapes=tuple(shapes[name] for name in inputs),
            **fields,
        )
        made.append(layer)
        shapes[layer.output] = layer.output_shape
    return topology.Graph(name="small", input="input", input_shape=shape, layers=tuple(made), output=made[-1].output)


def random_parameters(rng, graph):
    """Positive numbers, so that they can be variances too."""
    return {n: (rng.random(s) + 0.5).astype(np.float32) for n, s in graph.parameter_shapes.items()}


def run_onnxruntime(model, *inputs):
    """The reference without any of this project's code: the output, or of several a tuple."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    results = tuple(session.run(None, dict(zip(names, inputs, strict=True))))
    return results if len(results) > 1 else results[0]
