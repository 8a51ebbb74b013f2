"""A contact sheet: many small pictures with captions on one page, drawn with Pillow."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..files import replacing

PAPER, INK, FAINT, RED = "#ffffff", "#222222", "#6a6a6a", "#d1242f"
MARGIN, GAP, FRAME = 24, 6, 3  # pixels: around the page, around a picture, the red frame of an error
CAPTION, TITLE = 14, 24  # font sizes in pixels


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

    images: PIL images or uint8 arrays (H, W) or (H, W, 3), or one array of all; enlarged without interpolation.
    captions: a few characters each: "3", or "3, not 8" for an error. wrong: True for an error, which has a red frame
    and caption. title: the line above the pictures; by default, how many are right. path: its folder is created if
    necessary.

    Returns the path. ValueError if there are no images or the three lengths differ; OSError as for files.replacing.
    """
    if not len(images) == len(captions) == len(wrong) or len(images) == 0:
        lengths = f"{len(images)} images, {len(captions)} captions, {len(wrong)} marks"
        raise ValueError(f"{lengths}: as many of each are needed, and at least one")
    columns = min(columns, len(images))
    width, height, top = side + 2 * GAP, side + CAPTION + 2 * GAP + 4, MARGIN + TITLE + 16
    page_width = 2 * MARGIN + max(columns * width, 640)
    page = Image.new("RGB", (page_width, top + math.ceil(len(images) / columns) * height + MARGIN), PAPER)
    draw, small = ImageDraw.Draw(page), ImageFont.load_default(CAPTION)  # Pillow's built-in font
    right = len(wrong) - sum(map(bool, wrong))
    title = title or f"{right} of {len(wrong)} right: {100 * right / len(wrong):.1f} %"
    draw.text((MARGIN + GAP, MARGIN), title, fill=INK, font=ImageFont.load_default(TITLE))
    for index, (image, caption, mistake) in enumerate(zip(images, captions, wrong, strict=True)):
        left, upper = MARGIN + index % columns * width + GAP, top + index // columns * height + GAP
        picture = (image if isinstance(image, Image.Image) else Image.fromarray(image)).convert("RGB")
        factor = side / max(picture.size)
        factor, how = (int(factor), Image.Resampling.NEAREST) if factor >= 1 else (factor, Image.Resampling.BILINEAR)
        picture = picture.resize([max(1, round(length * factor)) for length in picture.size], how)
        page.paste(picture, (left + (side - picture.width) // 2, upper + (side - picture.height) // 2))
        if mistake:
            box = (left - FRAME, upper - FRAME, left + side + FRAME - 1, upper + side + FRAME - 1)
            draw.rectangle(box, outline=RED, width=FRAME)
        below = (left + side / 2, upper + side + 4)
        draw.text(below, caption, fill=RED if mistake else FAINT, font=small, anchor="ma")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        page.save(file, format="PNG", optimize=True)
    return path
