"""CIFAR-10: 60,000 labelled pictures of 32×32, downloaded once, and as a network's input.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). The binary version is read: the
Python version is a pickle, which may run code. A record is the class (1 byte), then 1024 bytes each of red,
green and blue, row by row (https://www.cs.toronto.edu/~kriz/cifar.html).
"""

import hashlib
import http.client
import shutil
import tarfile
import urllib.request
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ..files import open_regular, replacing

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
# of the archive of 170,052,171 bytes; its MD5, which the dataset's page gives, is c32a1d4ab5d03f1284b67883e8d87530
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
TIMEOUT = 10  # seconds without an answer

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # bytes
SPLITS = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# of the training pictures' pixels in 0…1, by channel
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)


def cifar10(split: str = "test") -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pictures (N, 3, 32, 32) and their classes (N,), 0 … 9: N is 10,000 for "test", 50,000 for "train".

    The archive (162 MB) is kept in `common.cuda.cache_dir()` and read from there afterwards. ValueError for
    another split; RuntimeError saying what to do where the archive cannot be downloaded or is not the one expected.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    path = archive_path()
    if not path.exists():
        download(path)
    with open_regular(path) as file:
        check_hash(file, path)
    with tarfile.open(path) as archive:  # nothing is extracted to disk
        records = b"".join(read_member(archive, name) for name in SPLITS[split])
    table = np.frombuffer(records, np.uint8).reshape(-1, RECORD)
    return table[:, 1:].copy().reshape(-1, 3, SIDE, SIDE), table[:, 0].copy()


def cifar10_input(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(pixels / 255 − mean) / std by channel: uint8 (N, 3, 32, 32) → float32 of that shape, C-contiguous.

    ValueError for another shape, TypeError for another dtype.
    """
    if images.ndim != 4 or images.shape[1:] != (3, SIDE, SIDE):
        raise ValueError(f"images must have shape (N, 3, {SIDE}, {SIDE}), got {images.shape}")
    if images.dtype != np.uint8:
        raise TypeError(f"images must be uint8, 0 … 255, got {images.dtype}")
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (CIFAR10_MEAN, CIFAR10_STD))
    return np.ascontiguousarray((images.astype(np.float32) / 255 - mean) / std)


def archive_path() -> Path:
    """Where the archive is kept."""
    from ..cuda import cache_dir

    return cache_dir() / Path(urlsplit(URL).path).name


def download(path: Path) -> None:
    """Fetch URL; the file is there once it is complete and its hash is right. RuntimeError otherwise."""
    with replacing(path, "w+b") as file:
        fetch(file, path)
        file.seek(0)
        check_hash(file, path)


def fetch(file: IO[bytes], path: Path) -> None:
    """Copy what URL holds into an open file. RuntimeError saying what to do instead; `path`: where it would be kept."""
    try:
        with urllib.request.urlopen(URL, timeout=TIMEOUT) as answer:
            size = int(answer.headers.get("Content-Length") or 0) or None
            with tqdm.wrapattr(answer, "read", total=size, desc="CIFAR-10", disable=None) as body:
                shutil.copyfileobj(body, file, 2**20)
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeError(
            f"CIFAR-10 could not be downloaded ({error}): connect to the internet, "
            f"or fetch {URL} elsewhere and put it at {path}"
        ) from error


def check_hash(file: IO[bytes], path: Path) -> None:
    """RuntimeError where an open file, kept at `path` or to be kept there, has another SHA-256; `path` is deleted."""
    got = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # an IO has readinto, unlisted
    if got != SHA256:
        path.unlink(missing_ok=True)
        raise RuntimeError(f"{path} was damaged and is deleted: its SHA-256 is {got}, not {SHA256}; try again")


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """The bytes of one file of records."""
    member = archive.extractfile(f"cifar-10-batches-bin/{name}")
    assert member is not None  # the hash is right: it is a file
    return member.read()
