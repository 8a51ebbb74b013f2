"""A picture as a network's input, against PyTorch's own resizing."""

import numpy as np
import pytest
from PIL import Image
from tiers import seed

from common import images

torch = pytest.importorskip("torch")


def noise(width, height):
    rng = np.random.default_rng(seed())
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("width", "height", "size", "resize"),
    [
        (97, 61, 33, 37),
        (61, 97, 33, 37),
        (512, 600, 224, 256),
        (40, 40, 64, 64),
        (31, 200, 17, 18),
        (7, 7, 1, 1),
    ],
)
def test_matches_torchs_antialiased_resize(width, height, size, resize):
    pixels = noise(width, height)
    mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    out = images.to_input(Image.fromarray(pixels), size, resize, mean, std)
    assert out.shape == (1, 3, size, size) and out.dtype == np.float32 and out.flags.c_contiguous

    short = min(width, height)
    new_height, new_width = resize * height // short, resize * width // short
    x = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    x = torch.nn.functional.interpolate(x, (new_height, new_width), mode="bilinear", antialias=True)
    top, left = round((new_height - size) / 2), round((new_width - size) / 2)
    x = x[:, :, top : top + size, left : left + size].double().numpy() / 255
    expected = (x - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    # the two may round a pixel to different neighbours
    assert abs(out - expected).max() <= 1.01 / 255 / min(std)


def test_without_resizing_it_is_the_pixels_themselves():
    pixels = noise(9, 5)
    out = images.to_input(Image.fromarray(pixels), 5, 5, (0, 0, 0), (1, 1, 1))
    np.testing.assert_allclose(out[0], pixels[:, 2:7].transpose(2, 0, 1) / 255, rtol=1e-6)


def test_imagenet_normalization_is_the_default():
    grey = Image.new("RGB", (300, 300), (128, 128, 128))
    out = images.to_input(grey)
    assert out.shape == (1, 3, 224, 224)
    expected = (128 / 255 - np.array(images.IMAGENET_MEAN)) / images.IMAGENET_STD
    np.testing.assert_allclose(out[0, :, 100, 100], expected, rtol=1e-5)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="RGB"):
        images.to_input(Image.new("L", (8, 8)))
    with pytest.raises(ValueError, match="resize=16"):
        images.to_input(Image.new("RGB", (8, 8)), size=17, resize=16)
    with pytest.raises(ValueError, match="elongated"):
        images.to_input(Image.new("RGB", (1, 5000)))
