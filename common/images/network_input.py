"""An RGB image as the array that a network takes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# The per-channel mean and standard deviation of ImageNet's pixels in 0…1, with which torchvision's networks
# were trained.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def to_input(
    image: Image.Image,
    size: int | tuple[int, int] = 224,
    resize: int = 256,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
) -> NDArray[np.float32]:
    """(pixels / 255 − mean) / std of the image's middle: float32 (1, 3, H, W), NCHW, C-contiguous.

    The short side is resized to `resize` pixels (bilinear, antialiased), then `size` pixels, H = W or (H, W),
    are cut from the centre: pixel for pixel what torchvision's Resize, CenterCrop, ToTensor and Normalize
    make of a PIL image.

    Raises ValueError if the image is not RGB, if `resize` is smaller than `size`, or if the image is so
    elongated that its resized form would not fit into memory.
    """
    if image.mode != "RGB":
        raise ValueError(f"image of mode {image.mode}: RGB is needed, as common.images.read gives it")
    height, width = (size, size) if isinstance(size, int) else size
    if not 1 <= min(height, width) <= max(height, width) <= resize:
        raise ValueError(f"size={size}, resize={resize}: 1 ≤ size ≤ resize is needed")
    image = _center_crop(_resize_short_side(image, resize), height, width)
    pixels = np.asarray(image, dtype=np.float32) / 255  # (size, size, 3), HWC
    pixels = (pixels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[np.newaxis])


def _resize_short_side(image: Image.Image, length: int) -> Image.Image:
    """The image with its short side `length` pixels long; the long side rounds down, as in torchvision."""
    width, height = image.size
    short = min(width, height)
    width, height = length * width // short, length * height // short
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise ValueError(f"image of {image.width}×{image.height} pixels: too elongated to be resized")
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _center_crop(image: Image.Image, height: int, width: int) -> Image.Image:
    """The middle of an image that is at least as large."""
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
