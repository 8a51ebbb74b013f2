"""The trained default: which digits it never saw, how well it reads them, and digits out of pictures."""

import os
from importlib.resources import files
from pathlib import Path

import matplotlib
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont, ImageOps
from tiers import seed

from common import weights
from common.weights import digits


@pytest.fixture(scope="module")
def split():
    return weights.digits_split()


@pytest.fixture(scope="module")
def read():
    """What the committed weights take digits (N, 8, 8) for, through ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(weights.model("digits").SerializeToString(), options)
    return lambda images: session.run(None, {"input": weights.digits_input(images)})[0].argmax(1)


def test_the_digits_are_scikit_learns(split):
    data = pytest.importorskip("sklearn.datasets").load_digits()
    assert np.array_equal(np.concatenate([split.train_images, split.test_images]), data.images)
    assert np.array_equal(np.concatenate([split.train_labels, split.test_labels]), data.target)


def test_held_out_digits_are_read(split, read):
    assert (read(split.test_images) == split.test_labels).mean() >= 0.98


def test_the_committed_file_is_small_and_fp16():
    assert os.path.getsize(str(files("common.weights") / "digits.npz")) <= 1_000_000
    stored = weights.load(str(files("common.weights") / "digits.npz"))
    assert {array.dtype.name for array in stored.values()} == {"float16"}


def test_forms_begin_where_the_text_begins_again(split):
    """Each form has the same text; the digits of the third quarter are the start of it on every one."""
    labels = np.concatenate([split.train_labels, split.test_labels])
    text = "".join(map(str, labels))
    for start in digits.FORMS:
        first = text[start : start + 33].lstrip("0")  # one form lacks its first 0, another two digits more
        assert first.startswith("123456789")
    # "955650989", with which the running text begins, comes once a form and 30 digits after its start
    places = [place for place in range(len(text)) if text.startswith("955650989", place)]
    assert len(places) == len(digits.FORMS) == 14
    assert all(27 <= place - start <= 31 for place, start in zip(places, digits.FORMS, strict=True))


def test_no_writer_is_on_both_sides(split):
    assert len(split.train_images) == 1415 and len(split.test_images) == 382
    assert set(split.train_forms) == set(range(11)) and set(split.test_forms) == {11, 12, 13}
    # nor is any picture
    train = {image.tobytes() for image in split.train_images}
    assert not any(image.tobytes() in train for image in split.test_images)
    assert split.train_images.dtype == np.uint8 and split.train_images.max() == 16


def test_network_input(split):
    x = weights.digits_input(split.test_images[:5])
    assert x.shape == (5, 3, 48, 48) and x.dtype == np.float32 and x.flags.c_contiguous
    assert x.min() == -1 and x.max() <= 1
    assert (x == x[:, :1]).all()
    assert (x[:, :, :4] == -1).all() and (x[..., -4:] == -1).all()  # paper around
    np.testing.assert_array_equal(weights.digits_input(np.zeros((2, 8, 8))), np.full((2, 3, 48, 48), -1))
    assert weights.digits_input(np.full((1, 8, 8), 16))[0, 0, 24, 24] == 1


def test_network_input_is_pillows_bilinear_enlargement(split):
    image = split.train_images[0]
    padded = Image.fromarray(np.pad(image, 2).astype(np.float32))  # 2 cells are 8 pixels, the margin
    expected = np.asarray(padded.resize((48, 48), Image.Resampling.BILINEAR)) / 16
    np.testing.assert_allclose(weights.digits_input(image[None])[0, 0], expected * 2 - 1, atol=1e-6)


@pytest.mark.parametrize("size", [1, 17, 33, 96])
def test_other_input_sizes(split, size):
    assert weights.digits_input(split.test_images[:1], size).shape == (1, 3, size, size)


def test_what_is_no_digit_is_refused():
    with pytest.raises(ValueError, match=r"expected digits of shape \(N, 8, 8\), got \(8, 8\)"):
        weights.digits_input(np.zeros((8, 8)))
    with pytest.raises(ValueError, match="between 0 and 16"):
        weights.digits_input(np.full((1, 8, 8), 255))
    for picture in (np.full((40, 30), 200, np.uint8), np.zeros((1, 1), np.uint8)):
        with pytest.raises(ValueError, match="no digit to see"):
            weights.digit_from_picture(picture)


# -- digits out of pictures --------------------------------------------------------------------------------


def picture_of(digit: np.ndarray, size: int = 200) -> Image.Image:
    """A digit of the dataset as a picture, dark on light, with paper around."""
    grey = 255 - np.pad(digit, 2) * 15
    return Image.fromarray(grey.astype(np.uint8)).resize((size, size), Image.Resampling.BICUBIC)


def lit_from_the_side(picture: Image.Image) -> np.ndarray:
    grey = np.asarray(picture, np.float64)
    return (60 + grey * 0.6 - np.linspace(0, 50, grey.shape[1])).astype(np.uint8)


def noisy(picture: Image.Image) -> np.ndarray:
    grey = np.asarray(picture, np.float64) * 0.8 + 20
    return (grey + np.random.default_rng(seed()).normal(0, 8, grey.shape)).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("change", [Image.Image.copy, ImageOps.invert, lit_from_the_side, noisy])
def test_digits_come_out_of_pictures(split, read, change):
    sample = slice(None, None, 3)
    found = np.array([weights.digit_from_picture(change(picture_of(d))) for d in split.test_images[sample]])
    assert found.dtype == np.uint8 and found.max() <= 16
    assert (read(found) == split.test_labels[sample]).mean() >= 0.9


def test_size_place_and_polarity_do_not_matter(split):
    picture = picture_of(split.test_images[0])
    expected = weights.digit_from_picture(picture)
    np.testing.assert_array_equal(weights.digit_from_picture(ImageOps.invert(picture)), expected)
    np.testing.assert_array_equal(weights.digit_from_picture(picture.convert("RGB")), expected)
    np.testing.assert_array_equal(weights.digit_from_picture(np.asarray(picture.convert("RGB"))), expected)
    moved = Image.new("L", (400, 300), 255)
    moved.paste(picture, (180, 20))
    for other in (moved, picture.resize((1000, 1000)), picture.resize((60, 60))):
        difference = np.abs(weights.digit_from_picture(other).astype(int) - expected)
        assert difference.mean() < 2


def test_most_typed_digits_are_read(read):
    """Never seen in training, and not handwriting: nine in ten."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    found, labels = [], []
    for font in sorted(fonts.glob("DejaVuSans*.ttf")):
        if "Display" in font.name:  # has no digits
            continue
        for digit in range(10):
            picture = Image.new("L", (120, 160), 235)
            ImageDraw.Draw(picture).text(
                (60, 80), str(digit), fill=40, anchor="mm", font=ImageFont.truetype(str(font), 90)
            )
            found.append(weights.digit_from_picture(picture))
            labels.append(digit)
    assert (read(np.array(found)) == labels).mean() >= 0.8


@given(height=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 2**31), dark=st.floats(0, 1))
def test_any_picture_gives_a_digit_or_a_value_error(height, width, seed, dark):
    picture = (np.random.default_rng(seed).random((height, width)) < dark).astype(np.uint8) * 255
    try:
        digit = weights.digit_from_picture(picture)
    except ValueError as error:
        assert "no digit" in str(error)
    else:
        assert digit.shape == (8, 8) and weights.digits_input(digit[None]).shape == (1, 3, 48, 48)
