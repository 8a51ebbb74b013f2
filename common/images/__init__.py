"""Reading pictures as network inputs, and pictures of results; with Pillow and NumPy only.

read(path)            an image file as 8-bit RGB, or an ImageError of one line
decode(file)          the same for an open file, with a limit on its pixels
to_input(image)       an RGB image as a network's input, float32 (1, 3, H, W)
sample()              the path of a sample photo
contact_sheet(…)      many small pictures with captions on one page, errors marked
pack(…)               folders of pictures as one .npy file of inputs
cifar10(split)        60,000 labelled images of 32×32, downloaded once; cifar10_input(…) for a network
"""

from .cifar10 import CIFAR10_CLASSES, CIFAR10_MEAN, CIFAR10_STD, cifar10, cifar10_input
from .network_input import IMAGENET_MEAN, IMAGENET_STD, cropped, to_input
from .packing import pack
from .reading import ImageError, decode, read, sample
from .sheet import contact_sheet

__all__ = [
    "CIFAR10_CLASSES",
    "CIFAR10_MEAN",
    "CIFAR10_STD",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "ImageError",
    "cifar10",
    "cifar10_input",
    "contact_sheet",
    "cropped",
    "decode",
    "pack",
    "read",
    "sample",
    "to_input",
]
