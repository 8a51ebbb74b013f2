"""CIFAR-10: 60,000 labelled images of 32×32, downloaded once, and as a network's input.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). The binary version is used, because the
Python version is a pickle, which can run code. A record is the class (1 byte), then 1024 bytes each of red,
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
# of the archive of 170,052,171 bytes; its MD5, as on the data set's page, is c32a1d4ab5d03f1284b67883e8d87530
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
TIMEOUT = 10  # s without an answer from the server

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # bytes
SPLITS = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# per channel, of the training images' pixels in 0 … 1
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)


def cifar10(split: str = "test") -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(images (N, 3, 32, 32), classes (N,) in 0 … 9), uint8; N is 10,000 for "test", 50,000 for "train".

    The archive (162 MB) is cached in `common.cuda.cache_dir()`. ValueError for another split; RuntimeError, with
    advice, if the archive cannot be downloaded or is not the expected one.
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
    """(pixels / 255 − mean) / std per channel: uint8 (N, 3, 32, 32) → float32 of that shape, C-contiguous.

    ValueError for another shape, TypeError for another dtype.
    """
    if images.ndim != 4 or images.shape[1:] != (3, SIDE, SIDE):
        raise ValueError(f"images must have shape (N, 3, {SIDE}, {SIDE}), got {images.shape}")
    if images.dtype != np.uint8:
        raise TypeError(f"images must be uint8, 0 … 255, got {images.dtype}")
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (CIFAR10_MEAN, CIFAR10_STD))
    return np.ascontiguousarray((images.astype(np.float32) / 255 - mean) / std)


def archive_path() -> Path:
    """The archive's path in the cache."""
    from ..cuda import cache_dir

    return cache_dir() / Path(urlsplit(URL).path).name


def download(path: Path) -> None:
    """Download URL to `path`, which appears only complete and with the right hash. RuntimeError otherwise."""
    with replacing(path, "w+b") as file:
        fetch(file, path)
        file.seek(0)
        check_hash(file, path)


def fetch(file: IO[bytes], path: Path) -> None:
    """Download URL into an open file. RuntimeError, with advice, if that fails. path: in the cache, for the advice."""
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
    """Raise RuntimeError and delete `path` if the open file, which is or will be at `path`, has another SHA-256."""
    got = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # an IO has readinto, unlisted
    if got != SHA256:
        path.unlink(missing_ok=True)
        raise RuntimeError(f"{path} was damaged and is deleted: its SHA-256 is {got}, not {SHA256}; try again")


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """The bytes of one file in the archive."""
    member = archive.extractfile(f"cifar-10-batches-bin/{name}")
    assert member is not None  # the archive's hash was checked, so this is a regular file
    return member.read()
