"""The page of pictures: right size, mistakes marked, quick."""

import errno
import time

import numpy as np
import pytest
from PIL import Image

from common import images

RED = (209, 36, 47)


def red_pixels(path):
    return (np.asarray(images.read(path)) == RED).all(axis=-1)


def test_a_sheet_of_several_hundred_digits(tmp_path, rng):
    digits = list(rng.integers(0, 256, (445, 8, 8), dtype=np.uint8))
    began = time.perf_counter()
    path = images.contact_sheet(digits, ["7"] * 445, [False] * 445, tmp_path / "new folder" / "sheet.png")
    assert time.perf_counter() - began < 5
    width, height = images.read(path).size
    assert 1200 < width < 2000 and 800 < height < 2000
    assert path.stat().st_size < 1_000_000
    assert not red_pixels(path).any()


def test_mistakes_have_a_red_frame_and_a_red_caption(tmp_path):
    black = [np.zeros((8, 8), np.uint8)] * 12
    wrong = [False] * 12
    wrong[6] = True
    path = images.contact_sheet(black, ["3"] * 12, wrong, tmp_path / "a.png", columns=5)
    rows, columns = np.nonzero(red_pixels(path))
    pixels = np.asarray(images.read(path))
    inside = pixels[rows.min() + 20, columns.min() + 20]
    assert tuple(inside) == (0, 0, 0)
    # one frame, not several: as large as one cell with its caption
    assert np.ptp(columns) < 70 and np.ptp(rows) < 90
    assert rows.min() > 100  # in the second of the rows


def test_pictures_of_any_kind_and_size(tmp_path):
    pictures = [
        np.zeros((8, 8), np.uint8),
        np.zeros((200, 31, 3), np.uint8),
        Image.new("RGBA", (600, 20)),
        Image.new("1", (1, 1)),
        Image.new("L", (3000, 1)),
    ]
    path = images.contact_sheet(pictures, list("abcde"), [True, False] * 2 + [True], tmp_path / "a.png")
    assert images.read(path).width > 600


def test_an_older_page_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = images.contact_sheet([np.zeros((8, 8), np.uint8)], ["1"], [False], tmp_path / "a.png")
    before = path.read_bytes()

    def full_disk(page, file, **options):
        file.write(b"half a picture")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.png"):
        images.contact_sheet([np.zeros((8, 8), np.uint8)], ["2"], [False], path)
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["a.png"]


def test_lengths_that_differ(tmp_path):
    with pytest.raises(ValueError, match="1 images, 2 captions, 1 marks"):
        images.contact_sheet([np.zeros((8, 8), np.uint8)], ["1", "2"], [False], tmp_path / "a.png")
    with pytest.raises(ValueError, match="0 images"):
        images.contact_sheet([], [], [], tmp_path / "a.png")
