"""Quantized models of other tools run in integers, and give what ONNX Runtime gives."""

import warnings
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from quantized_models import onnx_runtime, random_network, session
from tiers import ALL, only_all, seed, seldom

from common import topology as t
from common import weights
from common.kernels import int8, int8_operators, one_step
from common.network import Kernels, Network
from common.quantize import Integers
from common.quantize.rules import OPERATORS, Rule

torch.set_num_threads(1)  # as many tests as cores run at once

NETWORKS = 400 if ALL else 40


def compared(model, x, step):
    """(number of values, of exact ones, of those at most one step off, whether each top class is one of theirs).

    Behind a mean over windows, which may be a step off (see rules.IntegerMean), a class a step below the top is one.
    """
    got, expected = Network(model)(x), onnx_runtime(model, x)
    assert got.shape == expected.shape and got.dtype == np.float32
    off = np.abs(got - expected) / step
    ours, theirs = (array.reshape(len(x), -1) for array in (got, expected))
    near = 1.01 * step if any(node.op_type == "AveragePool" for node in model.graph.node) else 0
    top = theirs[np.arange(len(x)), ours.argmax(1)] >= theirs.max(1) - near
    return off.size, int((off < 0.01).sum()), int((off < 1.01).sum()), bool(top.all())


@seldom(6)
def test_random_networks_are_onnx_runtimes_to_the_last_step():
    start = 10_000 * seed()
    rows = [(number, *compared(*random_network(number))) for number in range(start, start + NETWORKS)]
    values, exact, close = (sum(row[i] for row in rows) for i in (1, 2, 3))
    assert exact / values >= 0.999, f"{exact} of {values} are exact"
    assert close / values >= 0.999, f"{close} of {values} are at most one step off"
    assert not [row[0] for row in rows if not row[4]], "the most likely class differs"


def test_random_networks_run_in_integers():
    products = in_float = 0
    for number in range(20):
        *_, (_, graph) = Network(random_network(number)[0]).stages()
        products += sum(isinstance(getattr(node, "fusion", None), Rule) and node.macs > 0 for node in graph)
        in_float += sum(isinstance(node, t.Conv2d | t.Linear) for node in graph)
    assert products > 40 and in_float == 0


def digits(count):
    split = weights.digits_split()
    return weights.digits_input(split.test_images[:count]), split.test_labels[:count]


@seldom(6)
@pytest.mark.parametrize(
    ("per_channel", "activations", "weight"),
    [
        (True, "QUInt8", "QInt8"),
        *only_all([(False, "QUInt8", "QInt8"), (True, "QUInt8", "QUInt8"), (False, "QInt8", "QInt8")]),
    ],
)
def test_what_quantize_static_writes(tmp_path, per_channel, activations, weight):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Pictures(CalibrationDataReader):
        def __init__(self):
            self.batches = iter(np.split(weights.digits_input(weights.digits_split().train_images[:32]), 4))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"input": batch}

    onnx.save(weights.model("digits"), tmp_path / "digits.onnx")
    quantize_static(
        tmp_path / "digits.onnx", tmp_path / "quantized.onnx", Pictures(), quant_format=QuantFormat.QDQ,
        per_channel=per_channel, activation_type=QuantType[activations], weight_type=QuantType[weight],
    )  # fmt: skip
    x, _ = digits(32)
    model = onnx.load(tmp_path / "quantized.onnx")
    last = [layer for layer in t.read_onnx(model) if isinstance(layer, t.Dequantize)][-1]
    values, exact, close, top = compared(model, x, last.grid.scale[0])
    assert top
    if activations == "QUInt8":  # ONNX Runtime leaves some layers of int8 activations in float, see the next test
        assert exact == values
    else:
        assert close >= 0.95 * values


class Rounded(torch.nn.Module):
    """Fake quantization of activations, as PyTorch's quantization-aware training has it."""

    def __init__(self, scale, zero_point):
        super().__init__()
        self.scale, self.zero_point = scale, zero_point

    def forward(self, x):
        return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, 0, 255)


class RoundedConv(torch.nn.Conv2d):
    """A convolution with fake quantization of its weight, per output channel."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.register_buffer("scale", self.weight.detach().abs().amax((1, 2, 3)) / 127)
        self.register_buffer("zero_point", torch.zeros(self.out_channels, dtype=torch.int32))

    def forward(self, x):
        weight = torch.fake_quantize_per_channel_affine(self.weight, self.scale, self.zero_point, 0, -128, 127)
        return self._conv_forward(x, weight, self.bias)


class RoundedNetwork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.dw = RoundedConv(3, 8, 3, padding=1), RoundedConv(8, 8, 3, padding=1, groups=8)
        self.pw, self.last = RoundedConv(8, 8, 1), torch.nn.Linear(8, 5)
        self.scale = float(self.last.weight.detach().abs().max()) / 127
        grids = [(0.03, 128), (0.01, 0), (0.01, 0), (0.012, 120), (0.016, 110), (0.01, 100), (0.02, 128)]
        self.rounded = torch.nn.ModuleList(Rounded(*grid) for grid in grids)

    def forward(self, x):
        x, stem, dw, pw, add, mean, last = self.rounded[0](x), *self.rounded[1:]
        x = stem(torch.nn.functional.relu6(self.stem(x)))
        x = add(x + pw(self.pw(dw(torch.relu(self.dw(x))))))
        weight = torch.fake_quantize_per_tensor_affine(self.last.weight, self.scale, 0, -128, 127)
        return last(torch.nn.functional.linear(mean(x.mean((2, 3))), weight, self.last.bias))


@pytest.mark.parametrize("dynamo", [False, *only_all([True])])
def test_what_pytorch_exports(tmp_path, dynamo, rng):
    network, path = RoundedNetwork().eval(), tmp_path / "network.onnx"
    x = rng.standard_normal((4, 3, 9, 9)).astype(np.float32)
    options = {"external_data": False} if dynamo else {"opset_version": 13}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (torch.from_numpy(x),), path, dynamo=dynamo, verbose=False, **options)
    net = Network(path)
    # folding the constants of such files, ONNX Runtime 1.31 stops with an error
    reference = session(onnx.load(path), disabled=["ConstantFolding"])
    expected = reference.run(None, {reference.get_inputs()[0].name: x})[0]
    off = np.abs(net(x) - expected) / 0.02
    assert (off < 0.01).all()
    assert "8 layers" in net.explain().splitlines()[-1]  # quantize, 3 convolutions, add, mean, linear, dequantize


def chain(*nodes, constants, opset=21, output="y", kind=TensorProto.FLOAT):
    """A model of nodes from x, (1, 2, 3, 3), to `output`."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(
        [helper.make_node(*node[:3], name=node[2][0], **(node[3] if len(node) > 3 else {})) for node in nodes],
        "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 3, 3))],
        [helper.make_tensor_value_info(output, kind, None)], tensors,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


THREE = np.uint8(3)


def there_and_back(scale, zero_point=THREE, **attributes):
    constants = {"s": scale} | ({} if zero_point is None else {"z": zero_point})
    names = ["s"] if zero_point is None else ["s", "z"]
    return chain(
        ("QuantizeLinear", ["x", *names], ["q"], attributes),
        ("DequantizeLinear", ["q", *names], ["y"]),
        constants=constants,
    )  # fmt: skip


f32 = np.float32


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (there_and_back(f32(0)), t.InvalidModel, "a scale must be a positive finite number, got 0"),
        (there_and_back(f32(-0.5)), t.InvalidModel, "got -0.5"),
        (there_and_back(f32(np.nan)), t.InvalidModel, "got nan"),
        (there_and_back(f32(np.inf)), t.InvalidModel, "got inf"),
        (there_and_back(np.float16(1)), t.UnsupportedModel, "its scale is float16, not float32"),
        (there_and_back(f32(1), np.int16(3)), t.UnsupportedModel, "its integers are int16, not int8, uint8, int32"),
        (there_and_back(f32(1), np.int32(3)), t.UnsupportedModel, "activations are int8 or uint8 here"),
        (there_and_back(np.full(2, 0.5, f32), np.zeros(2, np.uint8)), t.UnsupportedModel, "2 scales for an activation"),
        (there_and_back(np.full(2, 0.5, f32)), t.InvalidModel, "it has 2 scales and 1 zero points"),
        (there_and_back(np.full(3, 0.5, f32), None), t.InvalidModel, "it has 3 scales for 2 channels"),
        (there_and_back(np.full(2, 0.5, f32), None, axis=7), t.InvalidModel, "axes (7,)"),
        (there_and_back(np.full((1, 2), 0.5, f32), None), t.UnsupportedModel, "not one per channel"),
        (there_and_back(np.full(2, 0.5, f32), None, block_size=2), t.UnsupportedModel, "block_size"),
        (there_and_back(f32(1), None, output_dtype=TensorProto.FLOAT8E4M3FN), t.UnsupportedModel, "FLOAT8E4M3FN"),
        (there_and_back(f32(1), None, output_dtype=TensorProto.INT4), t.UnsupportedModel, "INT4"),
        (
            chain(
                ("QuantizeLinear", ["x", "s", "z"], ["q"]), ("DequantizeLinear", ["q", "s", "other"], ["y"]),
                constants={"s": f32(1), "z": np.uint8(0), "other": np.int8(0)},
            ),
            t.InvalidModel, "its zero point is int8, its input is uint8",
        ),
        (
            chain(
                ("GlobalAveragePool", ["x"], ["m"]), ("QuantizeLinear", ["x", "m"], ["q"]),
                ("DequantizeLinear", ["q", "m"], ["y"]), constants={"s": f32(1)},
            ),
            t.UnsupportedModel, "is computed at run time",
        ),
        (
            chain(
                ("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), ("DequantizeLinear", ["q", "s", "z"], ["y"]),
                constants={},
            ),
            t.UnsupportedModel, "there is no layer for this operator",
        ),
        (
            chain(("QuantizeLinear", ["x", "s"], ["y"]), constants={"s": f32(1)}, kind=TensorProto.UINT8),
            t.UnsupportedModel, "a DequantizeLinear is missing",
        ),
    ],
)  # fmt: skip
def test_what_is_no_grid_here_is_refused(model, error, words):
    with pytest.raises(error) as caught:
        Network(model)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_stored_zero_point_out_of_its_type_is_refused():
    model = there_and_back(f32(1))
    point = next(tensor for tensor in model.graph.initializer if tensor.name == "z")
    point.ClearField("raw_data")
    point.int32_data.append(300)
    with pytest.raises(t.InvalidModel, match="tensor 'z' holds 300, which is no uint8"):
        Network(model)


def test_codes_round_halves_to_even_and_saturate():
    grid = t.Grid((0.5,), (3,), "uint8")
    x = np.array([0.25, 0.75, 1.25, -0.25, 0.26, 1000, -1000, np.inf, np.nan], np.float32)
    assert grid.codes(x).tolist() == [3, 5, 5, 3, 4, 255, 0, 255, 0]
    model = there_and_back(f32(0.5))
    pictures = np.resize(x[:-1], (1, 2, 3, 3)).astype(np.float32)
    assert np.array_equal(Network(model)(pictures), onnx_runtime(model, pictures))
    assert grid.values(np.array([0, 3, 255], np.uint8)).tolist() == [-1.5, 0, 126]
    assert grid.has(np.array([0.5, -1.5], np.float32)) and not grid.has(np.array([0.6], np.float32))
    for fields in ({"scale": (0.0,)}, {"zero_point": (256,)}, {"zero_point": (0, 1)}, {"dtype": "int4"}):
        with pytest.raises(ValueError):
            replace(grid, **fields)


def test_padding_is_the_zero_point():
    """A convolution of ones over padding: where the zero point is not 0, a padding of code 0 would add to the sums."""
    constants = {
        "s": f32(0.1), "z": np.uint8(77), "w": np.ones((1, 2, 3, 3), np.int8), "one": f32(1), "zero": np.int8(0),
        "sy": f32(0.5), "zy": np.uint8(11),
    }  # fmt: skip
    model = chain(
        ("QuantizeLinear", ["x", "s", "z"], ["q"]), ("DequantizeLinear", ["q", "s", "z"], ["dq"]),
        ("DequantizeLinear", ["w", "one", "zero"], ["wd"]),
        ("Conv", ["dq", "wd"], ["c"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("QuantizeLinear", ["c", "sy", "zy"], ["qc"]), ("DequantizeLinear", ["qc", "sy", "zy"], ["y"]),
        constants=constants,
    )  # fmt: skip
    x = np.full((1, 2, 3, 3), 0.5, np.float32)
    assert Network(model)(x)[0, 0, 0].tolist() == [4.0, 6.0, 4.0]  # 8 and 12 taps of 0.5
    assert np.array_equal(Network(model)(x), onnx_runtime(model, x))


def test_the_file_that_is_written_is_the_graph_that_was_read():
    for number in range(10):
        graph, parameters = t.read_onnx_with_parameters(random_network(number)[0])
        model = t.write_onnx(graph, parameters)
        onnx.checker.check_model(model, full_check=True)
        again, same = t.read_onnx_with_parameters(model)
        assert again.layers == graph.layers and dict(again.grids) == dict(graph.grids)
        assert all(np.array_equal(same[name], parameters[name]) for name in parameters)


def test_a_parameter_off_its_grid_is_not_written():
    graph, parameters = t.read_onnx_with_parameters(random_network(0)[0])
    name = graph.grids[0][0]
    with pytest.raises(ValueError, match="is not on its grid"):
        t.write_onnx(graph, {**parameters, name: parameters[name] + np.float32(1e-3)})


def test_operators_can_be_replaced():
    model, x, _ = random_network(1)
    seen = []

    def mine(codes, weight, *args, **named):
        assert codes.dtype == np.int8 and weight.dtype in (np.int8, np.int16)
        seen.append(codes.shape)
        return int8.conv2d(codes, weight, *args, **named)

    net = Network(model, Integers(operators={"conv2d": mine}))
    assert np.array_equal(net(x), Network(model)(x)) and seen
    with pytest.raises(ValueError, match=r"operators: must be of quantize, .*, got 'convolution'"):
        Integers(operators={"convolution": mine})
    with pytest.raises(TypeError, match="'add' must be a function, got int"):
        Integers(operators={"add": 3})


def test_a_step_tells_what_computes_it():
    """With its call, every tensor of codes follows from those that the step reads; another layer has none."""
    model, x, _ = random_network(1)
    net = Network(model, Integers())
    *_, (_, steps) = net.stages()
    tensors = net.runner.tensors(x)
    rules = [step for step in steps if isinstance(getattr(step, "fusion", None), Rule)]
    assert rules
    for step in rules:
        call = net.runner.call(step)
        made = call(OPERATORS, [tensors[name] for name in step.fusion.codes_read(step)])
        np.testing.assert_array_equal(made, tensors[step.output])
    read = dict(net.stages())["read"]
    with pytest.raises(KeyError):
        net.runner.call(next(layer for layer in read if layer.output not in tensors))


@pytest.mark.parametrize("number", [3, 4, *only_all(range(5, 25))])
def test_the_int8_kernels_give_the_same_bits(number):
    model, x, _ = random_network(number)
    net = Network(model, Integers(operators=int8_operators.OPERATORS))
    assert np.array_equal(net(x[:2]), Network(model)(x[:2]))


def test_the_backends_of_a_quantized_model():
    model, x, step = random_network(2)
    net = Network(model, Integers())
    assert (net.backend, net.dtype, net.arithmetic) == ("integers", "int8", "int8")
    assert net(x[:3]).shape[0] == 3  # another batch
    assert np.array_equal(Network(model, "onnxruntime")(x), onnx_runtime(model, x))
    assert np.abs(Network(model, "torch")(x) - net(x)).max() <= 3 * step  # rounded numbers in float32
    with pytest.raises(ValueError, match="dtype: a quantized model"):
        Network(model, dtype="fp16")
    with pytest.raises(ValueError, match="operators: a quantized model"):
        Network(model, Kernels(operators={"add": print}))
    with pytest.raises(ValueError, match="backend 'integers' has no plan"):
        net.plan()
    names = [name for name, _ in net.stages()]
    assert names[:3] == ["read", "fold batch-norm", "integer-conv"]


def test_what_no_rule_fits_runs_in_float():
    """A convolution whose weight is not quantized, between quantized tensors."""
    rng = np.random.default_rng(0)
    constants = {"s": f32(0.02), "z": np.uint8(128), "w": rng.standard_normal((2, 2, 3, 3)).astype(f32), "sy": f32(0.1)}
    model = chain(
        ("QuantizeLinear", ["x", "s", "z"], ["q"]), ("DequantizeLinear", ["q", "s", "z"], ["dq"]),
        ("Conv", ["dq", "w"], ["c"]), ("QuantizeLinear", ["c", "sy", "z"], ["qc"]),
        ("DequantizeLinear", ["qc", "sy", "z"], ["y"]), constants=constants,
    )  # fmt: skip
    x = rng.standard_normal((1, 2, 3, 3)).astype(f32)
    net = Network(model)
    assert np.abs(net(x) - onnx_runtime(model, x)).max() <= 0.11
    assert "its weight is not quantized" in net.explain()


def test_kernels_have_multipliers_of_one_fma():
    """So that one fma requantizes their channels; those of the file, but for 2^-19 of them at most."""
    exact: dict[bool, list[bool]] = {False: [], True: []}
    multipliers: dict[bool, list[np.ndarray]] = {False: [], True: []}

    def run(model, x, as_kernels):
        def mine(codes, weight, bias, multiplier, **named):
            if weight.dtype == np.int8:
                inside = (multiplier > 2.0**-14) & (multiplier < 0.25)
                exact[as_kernels].extend(one_step.one_step(weight, bias, multiplier, named["zero_point"])[1][inside])
                multipliers[as_kernels].append(multiplier)
            return int8.conv2d(codes, weight, bias, multiplier, **named)

        return Network(model, Integers(operators={"conv2d": mine}, as_kernels=as_kernels))(x)

    for number in range(30):
        model, x, step = random_network(number)
        given, moved = (run(model, x[:1], as_kernels) for as_kernels in (False, True))
        assert np.abs(given - moved).max() <= 1.01 * step or any(n.op_type == "AveragePool" for n in model.graph.node)
    assert len(exact[True]) > 100 and all(exact[True]) and not all(exact[False])
    given, moved = (np.concatenate(multipliers[as_kernels]) for as_kernels in (False, True))
    assert 0 < np.abs(given / moved - 1).max() <= 2.0**-19
