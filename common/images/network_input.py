"""Conversion of an RGB image to a network's input."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# Per channel, of ImageNet's pixels in 0 … 1; torchvision's networks are trained with this normalisation.
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

    The short side is resized to `resize` pixels (bilinear, antialiased), then the centre of `size` pixels, H = W or
    (H, W), is cropped. The result equals that of torchvision's Resize, CenterCrop, ToTensor and Normalize for a PIL
    image.

    ValueError if the image is not RGB, if `resize` is smaller than `size`, or if the image is so elongated that the
    resized image would be too large.
    """
    pixels = np.asarray(cropped(image, size, resize), dtype=np.float32) / 255  # (H, W, 3), HWC
    pixels = (pixels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[np.newaxis])


def cropped(image: Image.Image, size: int | tuple[int, int] = 224, resize: int = 256) -> Image.Image:
    """The image's middle as `to_input` normalises it: RGB, H × W pixels. ValueError as of `to_input`."""
    if image.mode != "RGB":
        raise ValueError(f"image of mode {image.mode}: RGB is needed, as common.images.read gives it")
    height, width = (size, size) if isinstance(size, int) else size
    if not 1 <= min(height, width) <= max(height, width) <= resize:
        raise ValueError(f"size={size}, resize={resize}: 1 ≤ size ≤ resize is needed")
    return _center_crop(_resize_short_side(image, resize), height, width)


def _resize_short_side(image: Image.Image, length: int) -> Image.Image:
    """The image resized to a short side of `length` pixels; the long side is rounded down, as in torchvision."""
    width, height = image.size
    short = min(width, height)
    width, height = length * width // short, length * height // short
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise ValueError(f"image of {image.width}×{image.height} pixels: too elongated to be resized")
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _center_crop(image: Image.Image, height: int, width: int) -> Image.Image:
    """The centre of an image, height × width pixels; the image must be at least as large."""
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
