"""Named parameters in .npz files: NumPy's zip archive of arrays, never a pickle.

A file gives back exactly what was saved, bit for bit: dtype, shape, −0, subnormals, infinities and NaNs. It appears
under its name complete or not at all, and the same parameters always give the same bytes.
"""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..files import open_regular, replacing
from ..text import printable

Parameters = dict[str, np.ndarray]

DTYPES = (
    *("float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)
MAX_BYTES = 2**31  # of all arrays of a file together: a small broken file must not ask for all the memory there is
EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first date, so that archives do not depend on the clock


def save(path: str | os.PathLike, parameters: Mapping[str, np.ndarray]) -> None:
    """Write parameters as a compressed .npz that `numpy.load` reads, each array with its own dtype.

    Arrays are stored in C order and little-endian. ValueError for another ending than .npz, and for a name, a dtype
    or a size that `load` would refuse; OSError where the file cannot be written, or is no regular file.
    """
    check_suffix(path, ".npz")
    arrays = {}
    for name, value in parameters.items():
        array = np.asarray(value)
        if not name or not name.isprintable() or " " in name:
            raise ValueError(printable(f"{path}: a parameter's name must be printable, without blanks, got {name!r}"))
        check_dtype(f"{path}: {name}", array.dtype)
        arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    if (total := sum(array.nbytes for array in arrays.values())) > MAX_BYTES:
        raise ValueError(f"{path}: the arrays must have at most {MAX_BYTES} bytes together, got {total}")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():  # numpy.savez takes no array that is named "file"
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def load(path: str | os.PathLike) -> Parameters:
    """Read every array of a .npz, in the file's order: at most MAX_BYTES together, in the machine's byte order.

    ValueError, one line with the file's name and the entry's, where the file has another ending, is damaged, too
    large, or holds anything but arrays of numbers; OSError where it cannot be opened, or is no regular file.
    """
    check_suffix(path, ".npz")
    parameters: Parameters = {}
    where = os.fspath(path)
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                if (total := sum(entry.file_size for entry in entries)) > MAX_BYTES:
                    raise ValueError(f"its arrays must have at most {MAX_BYTES} bytes together, got {total}")
                for entry in entries:
                    name = entry.filename.removesuffix(".npy")
                    where = f"{os.fspath(path)}: {name}"
                    if name == entry.filename or name in parameters:
                        raise ValueError("unexpected entry")
                    parameters[name] = read_array(archive, entry)
        except Exception as error:  # BadZipFile, zlib.error, struct.error, RecursionError of a bad header, …
            reason = str(error) or type(error).__name__
            raise ValueError(printable(f"{where}: not a readable .npz file ({reason})", 1000)) from error
    return parameters


def read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """One array of the archive, whose data has to end where its header says. Raises nearly anything otherwise."""
    with archive.open(entry) as stream:
        # the memory for what the header claims is not touched before the bytes are there
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # (at the end of the data the archive's checksum is compared)
            raise ValueError(f"bytes left over behind {array.shape} of {array.dtype}")
    check_dtype("the array", array.dtype)
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def check_dtype(name: str, dtype: np.dtype) -> None:
    """ValueError, naming the array, for a dtype that is none of DTYPES."""
    if dtype.name not in DTYPES:
        raise ValueError(f"{name}: expected numbers of {', '.join(DTYPES)}, got {dtype}")


def check_suffix(path: str | os.PathLike, *choices: str) -> str:
    """How the file's name ends, in lower case; ValueError unless that is one of `choices`."""
    suffix = Path(path).suffix.lower()
    if suffix not in choices:
        raise ValueError(printable(f"{path}: the name should end in {' or '.join(choices)}"))
    return suffix
