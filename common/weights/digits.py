"""Handwritten digits: scikit-learn's data set, split by writer, and converted to the network's input.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits" (UCI, 1998). People filled in preprinted
forms; each digit was cut out, scaled to a 32×32 bitmap, and the black pixels of each 4×4 block were counted: 8×8
numbers from 0 (paper) to 16 (ink). scikit-learn contains the digits of 13 writers, 1,797 in all, in the order of the
forms.

The forms can be distinguished because all have the same text: the labels are 0123456789 three times, then 0955650989 …
490898, and repeat 14 times (some digits are missing, one form lacks its first). With 14 forms by 13 writers, one person
seems to have filled in two; it is not known who. `FORMS` holds the start of each form. The last three forms are held
out, so that the test digits are in handwriting that training never saw. The two forms on either side of the cut look
different; the most similar neighbours (the tenth and eleventh) are on the same side.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

FORMS = (0, 130, 256, 386, 516, 646, 776, 906, 1029, 1157, 1287, 1415, 1545, 1667)  # index of each form's first digit
HELD_OUT = FORMS[11]  # digits from here on are for testing only

CELLS = 8  # a digit is 8 × 8 cells …
INK = 16  # … of up to 16 black pixels each …
BITMAP = 32  # … counted in a bitmap of this size
INPUT_SIZE = 48  # of the network's input: the digit in its bitmap's size with a margin of 8 pixels
MEAN, STD = 0.5, 0.5  # normalisation: paper becomes −1, ink +1


@dataclass(frozen=True)
class Split:
    """Digits for training and digits for testing, by different writers.

    images: (N, 8, 8) uint8, 0 (paper) … 16 (ink). labels: (N,) int64, 0 … 9. forms: (N,) int64, the form of each digit,
    0 … 10 for training, 11 … 13 for testing.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    train_forms: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    test_forms: np.ndarray


def digits_split() -> Split:
    """scikit-learn's 1,797 digits: 1,415 of eleven forms for training, 382 of the last three for testing.

    ModuleNotFoundError if scikit-learn is not installed.
    """
    rows = np.loadtxt(_bundled("digits.csv.gz"), delimiter=",")
    images, labels = rows[:, :-1].reshape(-1, CELLS, CELLS).astype(np.uint8), rows[:, -1].astype(np.int64)
    forms = np.searchsorted(FORMS, np.arange(len(labels)), side="right") - 1
    train, test = slice(None, HELD_OUT), slice(HELD_OUT, None)
    return Split(images[train], labels[train], forms[train], images[test], labels[test], forms[test])


def _bundled(file: str) -> Path:
    """The path of a file of scikit-learn's data sets; importing scikit-learn would take 1.5 s. ModuleNotFoundError."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    return Path(spec.origin).parent / "datasets" / "data" / file


def digits_input(images: np.ndarray, input_size: int = INPUT_SIZE) -> np.ndarray:
    """Digits (N, 8, 8), 0 … 16, as the network's input (N, 3, input_size, input_size) float32, −1 … 1.

    Bilinearly enlarged to two thirds of the input's height and width, with paper around it, in three equal channels.
    Training and inference both use this function. ValueError for another shape or for values out of range.
    """
    cells = np.asarray(images, np.float64) / INK
    if cells.ndim != 3 or cells.shape[1:] != (CELLS, CELLS):
        raise ValueError(f"expected digits of shape (N, {CELLS}, {CELLS}), got {cells.shape}")
    if not ((cells >= 0) & (cells <= 1)).all():
        raise ValueError(f"expected digits with values between 0 and {INK}")
    # the centre of each pixel in units of cells, for linear interpolation between the two nearest cells
    centre = (np.arange(input_size) + 0.5 - input_size / 2) * CELLS * 1.5 / input_size + (CELLS - 1) / 2
    enlarge = np.maximum(0, 1 - np.abs(centre[:, None] - np.arange(CELLS)))  # (input_size, 8)
    pixels = (enlarge @ cells @ enlarge.T - MEAN) / STD
    return np.repeat(pixels[:, None].astype(np.float32), 3, axis=1)


def digit_from_picture(picture: Image.Image | np.ndarray) -> np.ndarray:
    """Convert a picture of one digit to the data set's format: (8, 8) uint8, 0 (paper) … 16 (ink).

    picture: a Pillow image, or (H, W) or (H, W, 3) uint8, of one upright digit on a plain, possibly unevenly lit
    background. The border is taken to be paper, so dark on light and light on dark give the same result.
    The steps are those of the data set: threshold, crop, scale to the 32×32 bitmap (the full height, five eighths of
    the width), normalise the stroke's thickness, count black pixels per cell.
    ValueError for a picture of a single shade.
    """
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image = image.convert("L")
    image.thumbnail((256, 256))
    contrast = contrast_to_paper(np.asarray(image.filter(ImageFilter.MedianFilter(3)), np.float64))
    if contrast.max() < 16:
        raise ValueError("there is no digit to see: the picture is all of one shade")
    ink = contrast > otsu(contrast)

    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    height, width = ink.shape
    # digits in the data set fill 20 of 32 columns; narrow ones (1) are widened by at most a factor of two
    across = max(1, min(BITMAP * 5 // 8, round(2 * BITMAP * width / height)))
    scaled = Image.fromarray(ink.astype(np.uint8) * 255).resize((across, BITMAP), Image.Resampling.BOX)
    bitmap = Image.new("L", (BITMAP, BITMAP))
    bitmap.paste(scaled, ((BITMAP - across) // 2, 0))

    # the data set's bitmaps are 30 % black with any pen: blur, and take the darkest 30 %
    blurred = np.asarray(bitmap.filter(ImageFilter.GaussianBlur(1)), np.float64)
    black = blurred > np.quantile(blurred, 0.7)
    cell = BITMAP // CELLS
    return black.reshape(CELLS, cell, CELLS, cell).sum((1, 3)).astype(np.uint8)


def contrast_to_paper(grey: np.ndarray) -> np.ndarray:
    """|grey − paper| per pixel (H, W); paper: a plane a + b·row + c·column fitted to the border."""
    height, width = grey.shape
    rows, columns = np.indices(grey.shape)
    border = (rows % max(1, height - 1) == 0) | (columns % max(1, width - 1) == 0)
    basis = np.stack([np.ones(grey.shape), rows / height, columns / width], -1)
    plane, *_ = np.linalg.lstsq(basis[border], grey[border], rcond=None)
    return np.abs(grey - basis @ plane)


def otsu(values: np.ndarray) -> float:
    """Otsu's threshold for values ≥ 0: of 255, the one with the largest between-class variance (N. Otsu, 1979)."""
    counts, edges = np.histogram(values, 256, (0, values.max()))
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1]
    above = values.size - below
    total = np.cumsum(counts * centres)
    with np.errstate(invalid="ignore", divide="ignore"):
        between = below * above * (total[:-1] / below - (total[-1] - total[:-1]) / above) ** 2
    return float(edges[1 + np.argmax(np.nan_to_num(between))])  # 0/0 if a class is empty
