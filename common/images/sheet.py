"""Many small pictures with their captions on one page, drawn with Pillow."""

import math
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAPER, INK, FAINT, RED = "#ffffff", "#222222", "#6a6a6a", "#d1242f"
MARGIN, GAP, FRAME = 24, 6, 3  # round the page, between pictures, a mistake's red frame (pixels)
CAPTION, TITLE = 14, 24  # heights of the letters


def contact_sheet(
    images: Sequence[Image.Image | np.ndarray] | np.ndarray,
    captions: Sequence[str],
    wrong: Sequence[bool],
    path: str | os.PathLike,
    *,
    title: str = "",
    columns: int = 24,
    side: int = 52,
) -> Path:
    """Draw the images in rows, each in a square of `side` pixels over its caption, and save the page as PNG.

    images    PIL images or uint8 arrays (H, W) or (H, W, 3), or one array of all; enlarged without blur
    captions  a few letters each: "3", or "3, not 8" for a mistake
    wrong     True for a mistake: a red frame, and a red caption
    title     the line above the pictures; without one it says how many are right

    Returns the path. Raises ValueError if there are no images or the three lengths differ.
    """
    if not len(images) == len(captions) == len(wrong) or len(images) == 0:
        lengths = f"{len(images)} images, {len(captions)} captions, {len(wrong)} marks"
        raise ValueError(f"{lengths}: as many of each are needed, and at least one")
    columns = min(columns, len(images))
    rows = math.ceil(len(images) / columns)
    cell_width, cell_height = side + 2 * GAP, side + CAPTION + 2 * GAP + 4
    top = MARGIN + TITLE + 16
    page_width = max(2 * MARGIN + columns * cell_width, 2 * MARGIN + 640)
    page = Image.new("RGB", (page_width, top + rows * cell_height + MARGIN), PAPER)
    draw = ImageDraw.Draw(page)

    draw.text((MARGIN + GAP, MARGIN), title or _score(wrong), fill=INK, font=_font(TITLE))
    for index, (image, caption, mistake) in enumerate(zip(images, captions, wrong, strict=True)):
        left = MARGIN + (index % columns) * cell_width + GAP
        upper = top + (index // columns) * cell_height + GAP
        _paste(page, image, left, upper, side)
        if mistake:
            box = (left - FRAME, upper - FRAME, left + side + FRAME - 1, upper + side + FRAME - 1)
            draw.rectangle(box, outline=RED, width=FRAME)
        middle = (left + side / 2, upper + side + 4)
        draw.text(middle, caption, fill=RED if mistake else FAINT, font=_font(CAPTION), anchor="ma")

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path, format="PNG", optimize=True)
    return path


def _score(wrong: Sequence[bool]) -> str:
    right = len(wrong) - sum(map(bool, wrong))
    return f"{right} of {len(wrong)} right: {100 * right / len(wrong):.1f} %"


def _paste(page: Image.Image, image: Image.Image | np.ndarray, left: int, upper: int, side: int) -> None:
    """Put the image into the middle of its square: enlarged by a whole factor, or reduced if it is larger."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    factor = side / max(picture.size)
    if factor >= 1:
        factor = int(factor)
        resampling = Image.Resampling.NEAREST
    else:
        resampling = Image.Resampling.BILINEAR
    width, height = (max(1, round(length * factor)) for length in picture.size)
    picture = picture.convert("RGB").resize((width, height), resampling)
    page.paste(picture, (left + (side - width) // 2, upper + (side - height) // 2))


@cache
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """The typeface inside Pillow itself, so that a page looks the same everywhere."""
    return ImageFont.load_default(size)
