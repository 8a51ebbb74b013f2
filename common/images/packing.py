"""Folders of pictures as one .npy file of network inputs, which NumPy and C++ (cnpy) map into memory.

pack(["photos"], "inputs.npy")
np.load("inputs.npy", mmap_mode="r")      (N, 3, H, W) float32
json.load(open("inputs.npy.json"))        the N names
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ..files import replacing
from ..text import printable
from .network_input import to_input
from .reading import ImageError, read

RESIZED = 256 / 224  # the short side before the centre crop, relative to the input


@dataclass(frozen=True)
class Packed:
    """written: the number of pictures written. skipped: name and reason of each file that was not, one line each."""

    written: int
    skipped: tuple[str, ...]


def pack(
    paths: Sequence[str | os.PathLike],
    out: str | os.PathLike,
    size: int = 224,
    on_skip: Callable[[str], None] = lambda line: None,
) -> Packed:
    """Convert picture files, given directly or in folders, with `to_input`; write them as (N, 3, size, size) float32.

    paths: see find_pictures. out: a .npy file; the pictures' names are written to <out>.json as a JSON list. size:
    height and width in pixels; the short side is resized to size · 256/224 and the centre cropped. on_skip: is called
    with the name and reason of each file that is not a valid picture; it is skipped.

    One picture is in memory at a time. Neither file is replaced before both are complete. ValueError for another suffix
    or size, a path that does not exist, or if there is no picture to write; OSError as for files.replacing.
    """
    out = Path(out)
    if out.suffix.lower() != ".npy":
        raise ValueError(printable(f"out must end in .npy, got {out}"))
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    written_here = {os.path.realpath(out), os.path.realpath(f"{out}.json")}  # outputs of an earlier run
    files = [(name, path) for name, path in find_pictures(paths) if os.path.realpath(path) not in written_here]
    skipped: list[str] = []

    def prepared() -> Iterator[tuple[str, NDArray[np.float32]]]:
        for name, path in tqdm(files, desc="pictures", unit="", disable=None, leave=False):
            try:
                yield name, prepare(path, size)
            except ImageError as error:
                skipped.append(str(error))
                on_skip(str(error))

    with replacing(out) as array, replacing(f"{out}.json", "w", encoding="ascii") as names:
        written = write_npy(array, names, prepared(), (3, size, size))
        if not written:
            raise ValueError(printable(f"{out} is not written: none of {len(files)} files is a picture"))
    return Packed(written, tuple(skipped))


def prepare(path: Path, size: int) -> NDArray[np.float32]:
    """A picture file as a normalised input, (3, size, size) float32. ImageError if it cannot be read or resized."""
    picture = read(path)
    try:
        return to_input(picture, size, max(size, round(size * RESIZED)))[0]
    except ValueError as error:
        raise ImageError(f"{path}: {error}") from None


def write_npy(
    file: IO[bytes], names: IO[str], pictures: Iterator[tuple[str, NDArray[np.float32]]], shape: tuple[int, ...]
) -> int:
    """Write arrays of `shape` one by one as one .npy array, and their names as JSON; return the number of arrays.

    The header is rewritten at the end: the .npy format reserves space in it for a larger first dimension.
    """

    def header(count: int) -> dict:
        return {"shape": (count, *shape), "fortran_order": False, "descr": "<f4"}

    np.lib.format.write_array_header_1_0(file, header(0))
    start, written = file.tell(), []
    for name, picture in pictures:
        file.write(picture.astype("<f4", copy=False).tobytes())
        written.append(name)
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, header(len(written)))
    assert file.tell() == start, "the .npy header has grown"
    file.flush()
    json.dump(written, names, indent=0)
    return len(written)


def find_pictures(paths: Sequence[str | os.PathLike]) -> list[tuple[str, Path]]:
    """(name, path) of the given files and of all files in the given folders, recursively, sorted by name.

    A name is the path relative to the given folder, or the file's own name; bytes that are not UTF-8 are replaced.
    Hidden files and folders (names with a leading dot) and links to folders are skipped. ValueError if a path does not
    exist.
    """
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            if not path.exists():
                raise ValueError(printable(f"{path}: expected a file or a folder, there is none"))
            found.append((path.name, path))
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = [Path(folder, name) for name in sorted(files) if not name.startswith(".")]
            found += [(one.relative_to(path).as_posix(), one) for one in inside]
    return [(os.fsencode(name).decode(errors="replace"), path) for name, path in found]
