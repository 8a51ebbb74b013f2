"""ResNet-20 with seeded weights: the same everywhere, sane in every layer, and it tells pictures apart."""

import hashlib
from functools import partial

import numpy as np
import onnxruntime
import pytest
import torch
from tiers import seed

from common import images, weights
from common.topology import ResNet20, build, read_onnx, resnet20


def digest(parameters: weights.Parameters) -> str:
    total = hashlib.sha256()
    for name, array in parameters.items():
        total.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return total.hexdigest()


def test_the_parameters_never_change():
    """Results that others recorded with them would no longer be comparable."""
    parameters = weights.seeded_parameters(resnet20())
    weights.check(resnet20(), parameters)
    assert digest(parameters) == "182fce5e82b77e77679d48478381b2e9ce2d217d3544a06b1befdd3a68648873"
    other = weights.seeded_parameters(resnet20(), seed=1)
    assert not any(np.array_equal(parameters[name], other[name]) for name in parameters)


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """Eight crops of the sample photo, reduced to 32×32, and two of noise."""
    photo = images.read(images.sample())
    boxes = [(x, y, x + 200, y + 200) for x in (0, 100, 200, 300) for y in (50, 350)]
    crops = [images.to_input(photo.crop(box), 32, 32) for box in boxes]
    noise = np.random.default_rng(seed()).standard_normal((2, 3, 32, 32)).astype(np.float32)
    return np.concatenate([*crops, noise])


def test_activations_are_sane_in_every_layer(pictures):
    module = ResNet20().eval()
    parameters = weights.seeded_parameters(resnet20())
    module.load_state_dict({name: torch.from_numpy(array) for name, array in parameters.items()}, strict=False)
    seen: dict[str, tuple[torch.nn.Module, torch.Tensor]] = {}

    def remember(name: str, layer: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        seen.setdefault(name, (layer, output.clone()))  # the first run, in float32

    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.BatchNorm2d | torch.nn.ReLU):
            layer.register_forward_hook(partial(remember, name))
    with torch.inference_mode():
        logits = module(torch.from_numpy(pictures))
        exact = module.double()(torch.from_numpy(pictures).double())
    assert len(seen) == 21 + 21 + 19
    for name, (layer, output) in seen.items():
        for picture in output:
            assert 0.1 < picture.std() < 15, name
            assert picture.abs().max() < 150, name  # far from fp16's 65504
            if isinstance(layer, torch.nn.ReLU):
                assert 0.05 < (picture == 0).double().mean() < 0.8, name
    # float32 is enough to compute them: 1e-5 is what engines have to keep
    assert ((logits - exact).norm(dim=1) <= 5e-6 * exact.norm(dim=1)).all()


def test_scores_tell_pictures_apart(pictures):
    model = weights.resnet20_model()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    (logits,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"input": pictures})
    assert np.isfinite(logits).all() and 1 < logits.std() < 30
    photos = logits[:8]
    assert len(set(photos.argmax(1))) >= 3
    difference = np.linalg.norm(photos[:, None] - photos, axis=2)[~np.eye(8, dtype=bool)]
    assert difference.min() > 0.05 * np.linalg.norm(photos, axis=1).mean()


@pytest.mark.parametrize("size", [32, 65])
def test_the_model_is_folded_and_takes_any_batch(size):
    model = weights.resnet20_model(size)
    graph = read_onnx(model)
    assert graph.input_shape == (1, 3, size, size) and graph.output_shape == (1, 10)
    assert graph.census() == {"Conv2d": 21, "ReLU": 19, "ResidualAdd": 9, "GlobalAveragePool": 1, "Linear": 1}
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    folded = [layer.name for layer in resnet20() if not layer.name.endswith((".bn1", ".bn2", "stem.1", "shortcut.1"))]
    assert [layer.name for layer in graph] == folded
    same = weights.resnet20_model().graph.initializer
    assert [tensor.raw_data for tensor in model.graph.initializer] == [tensor.raw_data for tensor in same]


def test_a_layer_that_no_seeded_network_has_is_named():
    from common.topology import Graph, Sigmoid

    layer = Sigmoid(name="gate", inputs=("x",), output="y", input_shapes=((1, 3, 4, 4),))
    graph = Graph(name="g", input="x", input_shape=(1, 3, 4, 4), layers=(layer,), output="y")
    with pytest.raises(TypeError, match="gate: a seeded network has no Sigmoid"):
        weights.seeded_parameters(graph)


def test_mobilenets_numbers_are_what_they_were():
    parameters = weights.seeded_parameters(build(0.35, 10, 48, batch_norm=True))
    assert digest(parameters) == "558c78108079b3152db8a7edceed0fcc5b7ee4f7996e1d341344ca25f9f2a4c2"
