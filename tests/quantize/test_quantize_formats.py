"""fp16, int8 and e4m3 with a scale per tensor: against PyTorch's type, and in a network."""

import numpy as np
import pytest
import torch

from common import weights
from common.quantize import formats
from common.quantize.calibration import outputs


def test_e4m3_is_pytorchs(rng):
    bits = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    numbers = bits[np.isfinite(bits)]
    assert formats.e4m3(numbers).tobytes() == numbers.tobytes() and numbers.max() == formats.LARGEST
    between = np.sort(numbers)
    middle = (between[1:].astype(np.float64) + between[:-1]) / 2
    x = np.concatenate([middle, rng.standard_normal(10_000) * np.exp2(rng.integers(-12, 7, 10_000))]).astype(np.float32)
    x = np.clip(x, -448, 448)
    assert np.array_equal(formats.e4m3(x), torch.from_numpy(x).to(torch.float8_e4m3fn).float().numpy())
    assert formats.e4m3(np.array([449, -1e9, np.inf])).tolist() == [448, -448, 448]
    assert np.isnan(formats.e4m3(np.array([np.nan]))).all()


@pytest.mark.parametrize("form", formats.FORMATS)
def test_the_greatest_number_is_exact(form):
    x = np.array([0.0, 1.5, -6.0], np.float32)
    assert formats.FORMATS[form](x, 6.0)[[0, 2]] == pytest.approx([0, -6], rel=1e-6)
    assert not formats.FORMATS[form](np.zeros(3, np.float32), 0.0).any()


def test_a_network_in_formats():
    graph, parameters = weights.network("digits")
    x = weights.digits_input(weights.digits_split().train_images[:8])
    late = [layer.name for layer in graph if layer.name.startswith("features.17.conv") and hasattr(layer, "weight")]
    greatest = formats.greatest_inputs(graph, parameters, x, late)
    assert set(greatest) == set(late) and all(value > 0 for value in greatest.values())
    want = outputs(graph, parameters, x)
    error = {
        form: np.linalg.norm(formats.outputs_in(graph, parameters, x, greatest, form) - want) / np.linalg.norm(want)
        for form in formats.FORMATS
    }
    assert error["fp16"] < 1e-3 < error["int8"] < 0.1 and 1e-3 < error["e4m3"] < 0.1
    with pytest.raises(ValueError, match="form must be one of fp16, int8, e4m3, got 'fp4'"):
        formats.outputs_in(graph, parameters, x, greatest, "fp4")
    with pytest.raises(ValueError, match="greatest must be of convolutions and linear layers, got 'pool'"):
        formats.outputs_in(graph, parameters, x, {"pool": 1.0}, "int8")
