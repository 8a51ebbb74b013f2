"""Named parameters in .npz files: NumPy's zip archive of arrays, never a pickle.

Loading restores exactly what was saved, bit for bit: dtype, shape, −0, subnormals, infinities and NaNs. Files are
written atomically, and equal parameters always give equal bytes.
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
MAX_BYTES = 2**31  # of all arrays in a file together: a small damaged file must not exhaust the memory
EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first date, so that archives do not depend on the clock


def save(path: str | os.PathLike, parameters: Mapping[str, np.ndarray]) -> None:
    """Write parameters as a compressed .npz that `numpy.load` reads, each array with its own dtype.

    Arrays are stored in C order and little-endian. ValueError for another suffix than .npz, and for a name, a dtype
    or a size that `load` would refuse; OSError if the file cannot be written, or is not a regular file.
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
        for name, array in arrays.items():  # numpy.savez does not accept an array named "file"
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def load(path: str | os.PathLike) -> Parameters:
    """Read every array of a .npz, in the file's order: at most MAX_BYTES together, in the machine's byte order.

    ValueError, one line with the file's and the entry's name, if the file has another suffix, is damaged or too large,
    or contains anything but arrays of numbers; OSError if it cannot be opened, or is not a regular file.
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
    """Read one array of the archive, whose data must end where its header says. Errors of any type if it is damaged."""
    with archive.open(entry) as stream:
        # memory for the size in the header is allocated, but not touched before the bytes are read
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # reading to the end of the data also checks the archive's CRC
            raise ValueError(f"bytes left over behind {array.shape} of {array.dtype}")
    check_dtype("the array", array.dtype)
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def check_dtype(name: str, dtype: np.dtype) -> None:
    """Raise ValueError, naming the array, for a dtype that is not in DTYPES."""
    if dtype.name not in DTYPES:
        raise ValueError(f"{name}: expected numbers of {', '.join(DTYPES)}, got {dtype}")


def check_suffix(path: str | os.PathLike, *choices: str) -> str:
    """The suffix of the file's name in lower case. ValueError unless it is one of `choices`."""
    suffix = Path(path).suffix.lower()
    if suffix not in choices:
        raise ValueError(printable(f"{path}: the name should end in {' or '.join(choices)}"))
    return suffix
