"""Pictures in, and pictures of results out. Nothing but Pillow and NumPy.

read(path)            any image file as 8-bit RGB, or an ImageError of one line
to_input(image)       an RGB image as what a network takes, float32 (1, 3, H, W)
sample()              a photo to try things on
contact_sheet(…)      many small pictures with their captions on one page, mistakes marked
"""

from .network_input import IMAGENET_MEAN, IMAGENET_STD, to_input
from .reading import ImageError, read, sample
from .sheet import contact_sheet

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "ImageError", "contact_sheet", "read", "sample", "to_input"]
