"""Initializers out of ONNX."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from common import weights
from common.topology import InvalidModel, MobileNetV2, export_onnx


def model_with(*tensors: TensorProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_pytorch_export_gives_back_the_state_dict(tmp_path):
    module = MobileNetV2(0.35, 10)
    export_onnx(module, tmp_path / "x.onnx", input_size=32)
    extracted = weights.extract(tmp_path / "x.onnx")
    for name, tensor in module.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_array_equal(extracted[name], tensor.numpy())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "int32", "uint8"])
def test_every_dtype_comes_out_as_it_is(dtype, rng):
    array = (rng.random((3, 4, 2)) * 100).astype(dtype)
    scalar = np.array(7, dtype)
    got = weights.extract(
        model_with(numpy_helper.from_array(array, "array"), numpy_helper.from_array(scalar, "scalar"))
    )
    assert list(got) == ["array", "scalar"]
    assert got["array"].dtype == dtype
    np.testing.assert_array_equal(got["array"], array)
    assert got["scalar"] == scalar and got["scalar"].shape == ()


def test_bfloat16_comes_out_as_float32():
    tensor = helper.make_tensor("b", TensorProto.BFLOAT16, [3], [1.0, -2.5, 3e38])
    got = weights.extract(model_with(tensor))["b"]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, [1, -2.5, 3e38], rtol=0.01)


def test_a_tensor_with_too_few_bytes_is_refused():
    tensor = numpy_helper.from_array(np.zeros((2, 3), np.float32), "w")
    tensor.raw_data = tensor.raw_data[:-1]
    with pytest.raises(InvalidModel, match="'w'"):
        weights.extract(model_with(tensor))


def test_the_source_models_carry_their_parameters():
    graph, parameters = weights.network("digits")
    extracted = weights.extract(weights.model("digits"))
    for name in graph.parameter_shapes:
        np.testing.assert_array_equal(extracted[name], parameters[name])
