"""Read image files as 8-bit RGB."""

import importlib.util
import os
import sys
import warnings
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from ..files import open_regular
from ..text import printable

# Formats of cameras, scanners and the web. Pillow reads more, some of them with other programs (EPS: Ghostscript).
FORMATS = ("AVIF", "BMP", "DIB", "GIF", "ICO", "JPEG", "JPEG2000", "MPO", "PCX", "PNG", "PPM", "TGA", "TIFF", "WEBP")
BACKGROUND = (255, 255, 255)  # white, shown through transparent parts


class ImageError(ValueError):
    """Bytes cannot be read as an image. The message is one printable line: the file's name, if known, and why."""

    def __init__(self, reason: object):
        super().__init__(printable(reason))


def read(path: str | os.PathLike) -> Image.Image:
    """Read an image file as 8-bit RGB, upright.

    Greyscale, palette, 16-bit and CMYK images are converted, transparent images are composed over white, the EXIF
    orientation is applied, and only the first frame of an animation is read.

    ImageError if the file does not exist or is not a regular file (a pipe is not waited for), if it is not an image in
    one of FORMATS, is damaged or truncated, or has more pixels than Pillow's limit.
    """
    try:
        with warnings.catch_warnings(), open_regular(path) as file:
            warnings.simplefilter("ignore")
            return decode(file)
    except ImageError as error:
        raise ImageError(f"{os.fspath(path)}: {error}") from error
    except OSError as error:
        raise ImageError(f"{os.fspath(path)}: {_reason(error)}") from error


def decode(file: IO[bytes], max_pixels: int | None = None) -> Image.Image:
    """Decode an open image file as 8-bit RGB, upright, as `read` does. Thread-safe; Pillow's warnings are not filtered.

    max_pixels: the most pixels of an image, checked before they are unpacked; default: Pillow's limit.
    ImageError with the reason alone, as for `read`.
    """
    limit = min(max_pixels or sys.maxsize, Image.MAX_IMAGE_PIXELS or sys.maxsize)
    try:
        Image.init()
        known = [name for name in FORMATS if name in Image.OPEN]  # Pillow may be built without some of them
        with Image.open(file, formats=known) as image:
            if image.width * image.height > limit:
                raise ImageError(_too_large(limit))
            ImageOps.exif_transpose(image, in_place=True)
            return to_rgb(image)
    except ImageError:
        raise
    except Image.DecompressionBombError:
        raise ImageError(_too_large(limit)) from None
    # A damaged file can make Pillow's decoders raise nearly anything: SyntaxError, struct.error, IndexError
    except Exception as error:
        raise ImageError(_reason(error)) from error


def _too_large(limit: int) -> str:
    return f"too large: more than {limit:,} pixels once unpacked"


def to_rgb(image: Image.Image) -> Image.Image:
    """An image of any mode in mode RGB, transparent parts over BACKGROUND. ValueError as for _to_8_bit."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image.copy()
    if image.mode == "F" or image.mode.startswith("I"):
        return _to_8_bit(image).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        paper = Image.new("RGB", image.size, BACKGROUND)
        paper.paste(image, mask=image.getchannel("A"))
        return paper
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None  # None is returned only for a conversion in place
        return converted
    return image.convert("RGB")


def sample() -> Path:
    """The path of Matplotlib's sample photo of Grace Hopper, 512×600, found without importing Matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        raise ImageError("the sample photo comes with Matplotlib: pip install matplotlib")
    return Path(spec.submodule_search_locations[0]) / "mpl-data" / "sample_data" / "grace_hopper.jpg"


def _to_8_bit(image: Image.Image) -> Image.Image:
    """Scale greyscale with more than 8 bits per pixel to 8 bits; Pillow's own conversion would clip at 255.

    Full scale is 65535 for 16-bit integers. 32-bit integers are taken to be 8- or 16-bit values, and floats to have the
    full scale 1 or 255, depending on the largest value. ValueError for other values.
    """
    pixels = np.asarray(image)
    largest = pixels.max()
    if not (pixels.min() >= 0 and np.isfinite(largest)):  # false for NaN as well
        raise ValueError("negative or non-finite pixels")
    full_scales = {"I": [255, 65535], "F": [1, 255]}.get(image.mode, [65535])
    if largest > full_scales[-1]:
        raise ValueError(f"pixels up to {largest:g}, of unknown full scale")
    full_scale = next(scale for scale in full_scales if largest <= scale)
    scaled = np.multiply(pixels, 255.0 / full_scale, dtype=np.float32)  # float32 is enough: there are no ties to round
    return Image.fromarray(np.rint(scaled, out=scaled).astype(np.uint8))


def _reason(error: Exception) -> str:
    """Why an image could not be read, in a few words on one line."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image of a known format, or broken at its beginning"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, OSError) and "regular file" in str(error):
        return str(error).rpartition(": ")[2]
    text = " ".join(str(error).split())
    return f"broken image ({text or type(error).__name__})"
