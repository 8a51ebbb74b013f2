"""Pictures as a network's inputs in one binary file, and back: what a program in C++ reads without any library.

    pack(["photos"], "inputs.bin", dtype="fp16", layout="NHWC")     folders and files → inputs.bin
    load_inputs("inputs.bin").array                                 (N, H, W, 3) float16, mapped into memory
    unpack("inputs.bin", "pictures")                                → pictures/00000-name.png, …

The file is little-endian. A header of 128 bytes, then the pictures one after the other, then their names:

    offset  bytes  what
         0      8  magic: "NETINPUT"
         8      4  version: 1
        12      4  dtype of the elements: "fp32" or "fp16" (IEEE 754)
        16      4  layout: "NCHW" or "NHWC"
        20      4  bytes before the elements: 128
        24     16  N, C, H, W, 4 bytes each, whatever the layout; C is 3: red, green, blue
        40     24  3 fp32 means, 3 fp32 standard deviations: an element is (pixel / 255 − mean) / std
        64      8  bytes of the names
        72     56  zeros
       128         N·C·H·W elements in the order of the layout, the last letter varying fastest
                   the names: a JSON list of N strings, UTF-8
"""

import contextlib
import json
import os
import re
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from .network_input import IMAGENET_MEAN, IMAGENET_STD, to_input
from .reading import ImageError, read

MAGIC, VERSION = b"NETINPUT", 1
HEADER = struct.Struct("<8sI4s4sI4I3f3fQ56x")
DTYPES: dict[str, np.dtype[Any]] = {"fp32": np.dtype("<f4"), "fp16": np.dtype("<f2")}
LAYOUTS = ("NCHW", "NHWC")
CHANNELS = 3
RESIZED = 256 / 224  # the short side before the middle is cut out, in proportion to the input


class InputsError(ValueError):
    """A file of inputs that cannot be used: one line with its name, what was expected and what came."""


@dataclass(frozen=True)
class Header:
    """What a file says of its pictures: (N, C, H, W), whatever the layout; dtype "fp32" or "fp16"; C = 3."""

    shape: tuple[int, int, int, int]
    dtype: str
    layout: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    names: tuple[str, ...]

    @property
    def stored_shape(self) -> tuple[int, int, int, int]:
        """In the order of the layout."""
        n, c, h, w = self.shape
        return self.shape if self.layout == "NCHW" else (n, h, w, c)


@dataclass(frozen=True)
class Inputs:
    """A file's header and its elements, read-only and mapped into memory: an array in the order of the layout."""

    header: Header
    array: NDArray[Any]

    def nchw(self) -> NDArray[np.float32]:
        """The pictures as networks of this course take them: (N, 3, H, W) float32, C-contiguous, a copy."""
        array = self.array if self.header.layout == "NCHW" else self.array.transpose(0, 3, 1, 2)
        return np.array(array, np.float32, order="C")


def _one_of(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


# ---- Writing


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the path's place once it is complete; if anything fails, nothing has changed."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            yield file
            file.flush()
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(file.name, 0o666 & ~umask)  # temporary files are private, this one is like any other
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def write_inputs(
    path: str | os.PathLike,
    pictures: Iterable[tuple[str, NDArray[np.floating]]],
    dtype: str = "fp32",
    layout: str = "NCHW",
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
) -> int:
    """Writes (name, array) pairs, each array (3, H, W) and normalised as `mean` and `std` say; returns how many.

    They are taken one at a time and may be more than fit into memory. The file is there once it is complete: if there
    is none to write, or if taking them fails, what was there before stays. ValueError for a dtype or layout that there
    is not, for no picture at all, for one of another shape than the first, and for one that is not finite in the dtype.
    """
    _one_of("dtype", dtype, DTYPES)
    _one_of("layout", layout, LAYOUTS)
    path = Path(path)
    names: list[str] = []
    shape: tuple[int, ...] = ()
    with _replacing(path) as file:
        file.write(bytes(HEADER.size))
        for name, picture in pictures:
            picture = np.asarray(picture)
            shape = shape or picture.shape
            if picture.shape != shape or picture.ndim != 3 or len(picture) != CHANNELS or not picture.size:
                expected = shape if names else f"({CHANNELS}, H, W)"
                raise ValueError(f"{name}: a picture must have shape {expected}, got {picture.shape}")
            with np.errstate(over="ignore"):
                stored = picture.astype(DTYPES[dtype])
            if not np.isfinite(stored).all():
                raise ValueError(f"{name}: a picture must be finite in {dtype}, got {np.abs(picture).max():g}")
            file.write((stored if layout == "NCHW" else stored.transpose(1, 2, 0)).tobytes())
            names.append(name)
        if not names:
            raise ValueError(f"{path}: expected at least one picture to write, got none")
        told = json.dumps(names).encode("ascii")
        file.write(told)
        file.seek(0)
        start = (MAGIC, VERSION, dtype.encode(), layout.encode(), HEADER.size)
        file.write(HEADER.pack(*start, len(names), *shape, *mean, *std, len(told)))
    return len(names)


def find_pictures(paths: Sequence[str | os.PathLike]) -> list[tuple[str, Path]]:
    """(name, path) of the files, and of everything in the folders and the folders in them, in the order of names.

    A name is the path below the folder that was given, or the file's own. Hidden files and folders, whose names begin
    with a dot, and links to folders are passed over. ValueError if one of the paths does not exist.
    """
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            if not path.exists():
                raise ValueError(f"{path}: expected a file or a folder, there is none")
            found.append((path.name, path))
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = [Path(folder, name) for name in sorted(files) if not name.startswith(".")]
            found += [(one.relative_to(path).as_posix(), one) for one in inside]
    # a name on a disk may be any bytes
    return [(os.fsencode(name).decode(errors="replace"), path) for name, path in found]


@dataclass(frozen=True)
class Packed:
    """How many pictures were written, and of the files that were not: name and reason, a line each."""

    written: int
    skipped: tuple[str, ...]


def pack(
    paths: Sequence[str | os.PathLike],
    out: str | os.PathLike,
    size: int = 224,
    dtype: str = "fp32",
    layout: str = "NCHW",
    told: Callable[[str], None] = lambda line: None,
) -> Packed:
    """Picture files, and those in folders, as one file of inputs of size×size, prepared as `to_input` does it.

    The short side is resized to size·256/224 pixels and the middle cut out; normalised with ImageNet's mean and
    standard deviation. A file that is no picture, or a broken one, is left out and told of at once, in one line. A bar
    shows how far it has come, where somebody watches. ValueError if there is nothing to write, or for what is out of
    range: then `out` is as it was.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    target = Path(out).resolve()
    # what an earlier run wrote there is no picture
    files = [(name, path) for name, path in find_pictures(paths) if path.resolve() != target]
    if not files:
        raise ValueError(f"{', '.join(map(str, paths))}: expected pictures, there are no files")
    skipped: list[str] = []

    def prepared() -> Iterator[tuple[str, NDArray[np.float32]]]:
        for name, path in tqdm(files, desc="pictures", unit="", disable=None, leave=False):
            try:
                picture = read(path)
                try:
                    array = to_input(picture, size, max(size, round(size * RESIZED)))
                except ValueError as error:
                    raise ImageError(f"{path}: {error}") from None
            except ImageError as error:
                skipped.append(str(error))
                told(str(error))
                continue
            yield name, array[0]

    try:
        return Packed(write_inputs(out, prepared(), dtype, layout), tuple(skipped))
    except ValueError:
        if len(skipped) == len(files):
            raise ValueError(f"{out} is not written: none of {len(files)} files could be read as a picture") from None
        raise


# ---- Reading


def read_header(path: str | os.PathLike) -> Header:
    """What the file says of its pictures. InputsError if it is not such a file, or cut off; OSError if unreadable."""
    path = Path(path)
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        start = file.read(HEADER.size)
        if start[: len(MAGIC)] != MAGIC:
            raise InputsError(f"{path}: expected a file of inputs, which begins with {MAGIC!r}, got {start[:8]!r}")
        if len(start) < HEADER.size:
            raise InputsError(f"{path}: expected a header of {HEADER.size} bytes, the file has {length}")
        _, version, dtype, layout, offset, n, c, h, w, *numbers, told = HEADER.unpack(start)
        if version != VERSION:
            raise InputsError(f"{path}: expected version {VERSION}, got {version}")
        expected: dict[str, tuple[Any, list[Any]]] = {
            "dtype": (dtype, [name.encode() for name in DTYPES]),
            "layout": (layout, [name.encode() for name in LAYOUTS]),
            "offset of the elements": (offset, [HEADER.size]),
            "number of channels": (c, [CHANNELS]),
        }
        for what, (got, known) in expected.items():
            if got not in known:
                raise InputsError(f"{path}: expected the {what} to be {' or '.join(map(str, known))}, got {got}")
        mean, std = tuple(numbers[:3]), tuple(numbers[3:])
        if not min(n, h, w) or not np.isfinite(numbers).all() or not all(std):
            expected_numbers = "N, H, W of at least 1, finite means and stds, stds other than 0"
            raise InputsError(f"{path}: expected {expected_numbers}, got {n}, {h}, {w}, {numbers}")
        elements = n * c * h * w * DTYPES[dtype.decode()].itemsize
        total = HEADER.size + elements + told
        if length != total:
            raise InputsError(f"{path}: expected {total} bytes for {n} pictures of {h}×{w}, the file has {length}")
        file.seek(HEADER.size + elements)
        try:
            names = json.loads(file.read(told))
        except ValueError as error:
            raise InputsError(f"{path}: expected the names as JSON behind the pictures, got {error}") from None
    if not isinstance(names, list) or len(names) != n or not all(isinstance(name, str) for name in names):
        raise InputsError(f"{path}: expected the names to be a list of {n} strings, got another JSON value")
    return Header((n, c, h, w), dtype.decode(), layout.decode(), mean, std, tuple(names))


def load_inputs(path: str | os.PathLike) -> Inputs:
    """The file's pictures, mapped into memory: nothing is read before it is used. What read_header raises."""
    header = read_header(path)
    return Inputs(header, np.memmap(path, DTYPES[header.dtype], "r", HEADER.size, header.stored_shape))


def to_picture(array: NDArray[np.floating], mean: Sequence[float], std: Sequence[float]) -> Image.Image:
    """The 8-bit RGB image that (3, H, W), normalised so, was made of: (array · std + mean) · 255, rounded and clipped.

    Exact for what `to_input` made, in fp32 and in fp16. ValueError if it is not finite.
    """
    if not np.isfinite(array).all():
        raise ValueError("expected finite pixels, got others")
    pixels = array.astype(np.float64) * np.reshape(std, (-1, 1, 1)) + np.reshape(mean, (-1, 1, 1))
    return Image.fromarray(np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8).transpose(1, 2, 0))


def unpack(path: str | os.PathLike, folder: str | os.PathLike) -> list[Path]:
    """Writes the pictures of a file as PNG: <folder>/<number>-<name>.png; the folder is made if need be.

    Of a name the last 40 characters are kept without its suffix, and all but letters, digits, dots and hyphens become
    "_": the file may come from anywhere.
    What read_header raises; InputsError, too, for a picture that is not finite, and then none is written.
    """
    inputs = load_inputs(path)
    header = inputs.header
    moved = inputs.array if header.layout == "NCHW" else inputs.array.transpose(0, 3, 1, 2)
    for number, array in enumerate(moved):
        if not np.isfinite(array).all():
            raise InputsError(f"{path}: expected finite pixels, picture {number} ({header.names[number]}) has others")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, (name, array) in enumerate(
        zip(tqdm(header.names, desc="pictures", unit="", disable=None, leave=False), moved, strict=True)
    ):
        stem = re.sub(r"[^\w.-]+", "_", os.path.splitext(name)[0])[-40:]
        target = folder / f"{number:05d}-{stem}.png"
        with _replacing(target) as file:
            to_picture(array, header.mean, header.std).save(file, "PNG")
        written.append(target)
    return written
