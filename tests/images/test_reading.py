"""Every kind of image file becomes 8-bit RGB, or an error of one line."""

import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageDraw
from tiers import ALL, seed

from common import images
from common.images import ImageError


def gradient(width=40, height=24):
    """An RGB picture without symmetry, so that a turned, mirrored or recoloured one is seen."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // width, y * 255 // height, 255 - x * 255 // width], axis=-1).astype(np.uint8)


def read_back(tmp_path, image, name, **options):
    path = tmp_path / name
    image.save(path, **options)
    result = images.read(path)
    assert result.mode == "RGB"
    return np.asarray(result).astype(int)


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tiff", "a.ppm", "a.tga", "a.webp"])
def test_rgb_is_kept(tmp_path, name):
    options = {"lossless": True} if name.endswith("webp") else {}
    np.testing.assert_array_equal(read_back(tmp_path, Image.fromarray(gradient()), name, **options), gradient())


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif"])
def test_greyscale_becomes_three_equal_channels(tmp_path, name):
    grey = gradient()[:, :, 0]
    out = read_back(tmp_path, Image.fromarray(grey), name)
    assert (out[:, :, 0] == out[:, :, 1]).all() and (out[:, :, 1] == out[:, :, 2]).all()
    assert abs(out[:, :, 0] - grey).max() <= 3  # JPEG


def test_black_and_white(tmp_path):
    grey = gradient()[:, :, 0] > 100
    np.testing.assert_array_equal(read_back(tmp_path, Image.fromarray(grey), "a.png")[:, :, 0], grey * 255)


@pytest.mark.parametrize("name", ["a.png", "a.tiff", "a.pgm"])
def test_16_bits_are_scaled_not_cut_off(tmp_path, name):
    grey = (gradient()[:, :, 0].astype(np.uint16) * 257)[:, :40]
    out = read_back(tmp_path, Image.fromarray(grey), name)
    np.testing.assert_array_equal(out[:, :, 0], gradient()[:, :, 0])


@pytest.mark.parametrize(("dtype", "scale"), [(np.int32, 1), (np.int32, 257), (np.float32, 1), (np.float32, 1 / 255)])
def test_32_bits(tmp_path, dtype, scale):
    grey = (gradient()[:, :, 0].astype(float) * scale).astype(dtype)
    out = read_back(tmp_path, Image.fromarray(grey), "a.tiff")
    np.testing.assert_array_equal(out[:, :, 0], gradient()[:, :, 0])


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 1e6])
def test_floats_without_a_known_scale(tmp_path, bad):
    grey = np.zeros((4, 4), np.float32)
    grey[1, 2] = bad
    Image.fromarray(grey).save(tmp_path / "a.tiff")
    with pytest.raises(ImageError, match="pixels"):
        images.read(tmp_path / "a.tiff")


def test_transparency_is_laid_over_white(tmp_path):
    rgba = np.dstack([gradient(), np.full((24, 40), 255, np.uint8)])
    rgba[:, :20, 3] = 0
    rgba[:, 20, 3] = 128
    out = read_back(tmp_path, Image.fromarray(rgba), "a.png")
    assert (out[:, :20] == 255).all()
    np.testing.assert_array_equal(out[:, 21:], gradient()[:, 21:])
    half = (gradient()[:, 20].astype(float) * 128 + 255 * 127) / 255
    assert abs(out[:, 20] - half).max() <= 1


def test_greyscale_with_alpha(tmp_path):
    image = Image.new("LA", (8, 8), (10, 0))
    image.putpixel((3, 2), (10, 255))
    out = read_back(tmp_path, image, "a.png")
    assert tuple(out[2, 3]) == (10, 10, 10) and tuple(out[0, 0]) == (255, 255, 255)


@pytest.mark.parametrize("name", ["a.png", "a.gif"])
def test_palette_with_and_without_a_transparent_colour(tmp_path, name):
    image = Image.new("P", (8, 8), 0)
    image.putpalette([0, 0, 0, 200, 10, 30])
    image.paste(1, (4, 0, 8, 8))
    opaque = read_back(tmp_path, image, name)
    assert tuple(opaque[0, 0]) == (0, 0, 0) and tuple(opaque[0, 7]) == (200, 10, 30)
    transparent = read_back(tmp_path, image, name, transparency=0)
    assert tuple(transparent[0, 0]) == (255, 255, 255) and tuple(transparent[0, 7]) == (200, 10, 30)


def test_rgb_with_a_transparent_colour(tmp_path):
    image = Image.new("RGB", (8, 8), (1, 2, 3))
    image.putpixel((5, 5), (9, 9, 9))
    out = read_back(tmp_path, image, "a.png", transparency=(1, 2, 3))
    assert tuple(out[0, 0]) == (255, 255, 255) and tuple(out[5, 5]) == (9, 9, 9)


@pytest.mark.parametrize("name", ["a.jpg", "a.tiff"])
def test_cmyk(tmp_path, name):
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # magenta and yellow: red
    red = read_back(tmp_path, image, name)[8, 8]
    assert abs(red - (255, 0, 0)).max() <= 3


def test_lab(tmp_path):
    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    image = ImageCms.profileToProfile(Image.fromarray(gradient()), srgb, lab, outputMode="LAB")
    assert abs(read_back(tmp_path, image, "a.tiff") - gradient()).mean() < 6


# EXIF tag 274: which sides of the upright picture the first row and the first column of the stored one are.
STORED = {
    1: lambda upright: upright,  # top, left
    2: lambda upright: upright[:, ::-1],  # top, right
    3: lambda upright: upright[::-1, ::-1],  # bottom, right
    4: lambda upright: upright[::-1],  # bottom, left
    5: lambda upright: upright.swapaxes(0, 1),  # left, top
    6: lambda upright: upright[:, ::-1].swapaxes(0, 1),  # right, top
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),  # right, bottom
    8: lambda upright: upright[::-1].swapaxes(0, 1),  # left, bottom
}


@pytest.mark.parametrize("orientation", STORED)
def test_exif_rotation_is_carried_out(tmp_path, orientation):
    stored = STORED[orientation](gradient())
    exif = Image.Exif()
    exif[274] = orientation
    out = read_back(tmp_path, Image.fromarray(np.ascontiguousarray(stored)), "a.png", exif=exif)
    np.testing.assert_array_equal(out, gradient())


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tiff"])
def test_an_animation_gives_its_first_frame(tmp_path, name):
    first, second = Image.new("RGB", (8, 8), (200, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 200))
    out = read_back(tmp_path, first, name, save_all=True, append_images=[second])
    assert abs(out[4, 4] - (200, 0, 0)).max() <= 4


def assert_one_line(error, path, reason):
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert reason in str(error.value)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.tiff", "a.webp", "a.bmp"])
def test_a_file_cut_off_anywhere_is_an_error_of_one_line(tmp_path, name):
    noise = np.random.default_rng(seed()).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    whole = tmp_path / name
    Image.fromarray(noise).save(whole)
    data = whole.read_bytes()
    for end in (0, 1, 7, 20, len(data) // 2, len(data) * 9 // 10):
        path = tmp_path / f"cut-{name}"
        path.write_bytes(data[:end])
        with pytest.raises(ImageError) as error:
            images.read(path)
        assert_one_line(error, path, "")


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.tiff", "a.webp", "a.bmp"])
def test_flipped_bytes_give_a_picture_or_an_image_error_and_nothing_else(tmp_path, name, rng):
    path = tmp_path / name
    Image.fromarray(gradient()).save(path)
    data = np.frombuffer(path.read_bytes(), np.uint8)
    for _ in range(1000 if ALL else 40):
        damaged = data.copy()
        damaged[rng.integers(0, len(data), 4)] = rng.integers(0, 256, 4)
        path.write_bytes(damaged.tobytes())
        try:
            assert images.read(path).mode == "RGB"
        except ImageError as error:
            assert "\n" not in str(error)


def test_no_image_no_file_a_folder(tmp_path):
    text = tmp_path / "notes.jpg"
    text.write_text("not a picture\n" * 10)
    with pytest.raises(ImageError) as error:
        images.read(text)
    assert_one_line(error, text, "not an image")
    with pytest.raises(ImageError) as error:
        images.read(tmp_path / "missing.png")
    assert_one_line(error, tmp_path / "missing.png", "no such file")
    with pytest.raises(ImageError) as error:
        images.read(tmp_path)
    assert_one_line(error, tmp_path, "expected a regular file, got a folder")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageError) as error:
        images.read(tmp_path / "pipe.png")
    assert_one_line(error, tmp_path / "pipe.png", "expected a regular file, got a named pipe (FIFO)")


def test_formats_that_start_other_programs_are_not_tried(tmp_path):
    """Pillow has Ghostscript run an EPS file, whatever its name ends in."""
    path = tmp_path / "holiday.jpg"
    Image.fromarray(gradient()).save(path, format="EPS")
    with Image.open(path) as file:
        assert file.format == "EPS"
    with pytest.raises(ImageError) as error:
        images.read(path)
    assert_one_line(error, path, "not an image of a known format")


def test_a_name_with_control_characters_is_shown_with_escapes(tmp_path):
    with pytest.raises(ImageError) as error:
        images.read(tmp_path / "\x1b[2J\n.png")
    assert str(error.value).isprintable() and r"\x1b[2J\n.png: no such file" in str(error.value)


@pytest.mark.parametrize("side", [10_000, 60_000])  # Pillow warns of the first and refuses the second
def test_a_decompression_bomb_is_refused(tmp_path, side):
    path = tmp_path / "bomb.png"

    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = side.to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    pixels = zlib.compress(bytes((side // 8 + 1) * 100), 9)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
    with pytest.raises(ImageError) as error:
        images.read(path)
    assert_one_line(error, path, "too large")


def test_the_result_outlives_its_file(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(gradient()).save(path)
    image = images.read(path)
    path.unlink()
    ImageDraw.Draw(image).point((0, 0), fill="red")  # writable, loaded
    np.testing.assert_array_equal(np.asarray(image)[1:], gradient()[1:])
    assert image.getpixel((0, 0)) == (255, 0, 0)


def test_the_sample_photo_is_found_without_importing_matplotlib():
    code = (
        "import sys; from common import images; path = images.sample()\n"
        "assert 'matplotlib' not in sys.modules\n"
        "print(images.read(path).size)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(512, 600)"
