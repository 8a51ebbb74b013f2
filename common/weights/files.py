"""Named parameters in files: .npz (NumPy's archive, never a pickle) and .txt (for people, and for C++).

Both give back exactly what was saved, bit for bit: dtype, shape, −0, subnormals, infinities and NaNs.
A file appears under its name complete or not at all, and the same parameters always give the same bytes.

The text format is one header line an array, then its numbers in C order (the last dimension runs fastest):

    features.0.1.bias float32 32
    0.153244257 -0.0219461564 …          at most eight numbers a line, blank-separated

that is name, dtype and the sizes of the dimensions (none for a single number). Names have no blanks. Numbers
are decimal with as many digits as the dtype needs (9 for float32), so C's strtof and Python's float read them
back exactly; infinities are inf and -inf, a NaN is nan, or nan(0x…) with its bits if it is an unusual one.
"""

import math
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

Parameters = dict[str, np.ndarray]

# significant digits that tell any two numbers of the dtype apart (IEEE 754-2019, table 12.1)
DIGITS = {"float16": 5, "float32": 9, "float64": 17}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*DIGITS, *INTEGERS)

MAX_BYTES = 2**31  # of one array: a small broken file must not ask for all the memory there is
EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first date, so that archives do not depend on the clock


def save(path: str | os.PathLike, parameters: Mapping[str, np.ndarray]) -> None:
    """Write parameters to a .npz or a .txt file, as the name ends; ValueError for another ending."""
    by_suffix(path, {".npz": save_npz, ".txt": save_text})(path, parameters)


def load(path: str | os.PathLike) -> Parameters:
    """Read parameters from a .npz or a .txt file, as the name ends; ValueError for another ending."""
    return by_suffix(path, {".npz": load_npz, ".txt": load_text})(path)


def by_suffix(path: str | os.PathLike, choices: dict[str, Callable]) -> Callable:
    suffix = Path(path).suffix.lower()
    if suffix not in choices:
        raise ValueError(f"{path}: the name should end in {' or '.join(choices)}")
    return choices[suffix]


# -- .npz --------------------------------------------------------------------------------------------------


def save_npz(path: str | os.PathLike, parameters: Mapping[str, np.ndarray]) -> None:
    """Write parameters as a compressed .npz that `numpy.load` reads, each array with its own dtype.

    Written by hand, as numpy.savez stores the time of day and cannot take an array named "file".
    ValueError for a name or dtype that the file could not give back.
    """
    arrays = storable(path, parameters)

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, array, allow_pickle=False)

    write_atomically(path, write)


def load_npz(path: str | os.PathLike) -> Parameters:
    """Read every array of a .npz, in the file's order.

    ValueError naming file and entry where the file is damaged, or holds anything but arrays of numbers;
    OSError where it cannot be opened.
    """
    parameters: Parameters = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if name == entry.filename or name in parameters:
                    raise ValueError(f"{path}: unexpected entry {entry.filename!r}")
                parameters[name] = read_entry(archive, entry, f"{path}: {name}")
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ValueError(f"{path}: not a readable .npz file ({error})") from error
    return parameters


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str) -> np.ndarray:
    """One array of the archive, after its header has been found to fit its size."""
    try:
        with archive.open(entry) as stream:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"expected .npy format 1.0, got {version}")
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            check_array(where, shape, dtype)
            needed, size = math.prod(shape) * dtype.itemsize, entry.file_size - stream.tell()
            if size != needed:
                raise ValueError(f"shape {shape} of {dtype} takes {needed} bytes, got {size}")
        with archive.open(entry) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except zipfile.BadZipFile:
        raise
    except Exception as error:  # zlib.error, struct.error, SyntaxError of a bad header, …
        message = str(error)
        raise ValueError(message if message.startswith(where) else f"{where}: {message}") from error


# -- text --------------------------------------------------------------------------------------------------


def save_text(path: str | os.PathLike, parameters: Mapping[str, np.ndarray]) -> None:
    """Write parameters in the text format above. ValueError for a name or dtype that it cannot give back."""
    arrays = storable(path, parameters)

    def write(file: BinaryIO) -> None:
        for name, array in arrays.items():
            file.write(" ".join([name, array.dtype.name, *map(str, array.shape)]).encode() + b"\n")
            numbers = iter(text_of(array.ravel()))
            while line := " ".join(islice(numbers, 8)):
                file.write(line.encode() + b"\n")

    write_atomically(path, write)


def text_of(values: np.ndarray) -> Iterator[str]:
    """Each value of a flat array as text that reads back to the same bits."""
    if values.dtype.name in INTEGERS:
        return map(str, values.tolist())
    form = f"%.{DIGITS[values.dtype.name]}g"
    unusual = {}
    if np.isnan(values).any():
        bits = values.view(f"u{values.itemsize}")
        usual = np.array(np.nan, values.dtype).view(bits.dtype)
        unusual = {int(i): f"nan({bits[i]:#x})" for i in np.flatnonzero(np.isnan(values) & (bits != usual))}
    return (unusual.get(i) or form % value for i, value in enumerate(values.tolist()))


def load_text(path: str | os.PathLike) -> Parameters:
    """Read every array of a text file, in the file's order.

    ValueError naming file, line and array where the text is not as described above; OSError where the file
    cannot be opened.
    """
    parameters: Parameters = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = enumerate(file, 1)
            for number, header in lines:
                if not header.strip():
                    continue
                name, dtype, shape = parse_header(f"{path}:{number}", header)
                if name in parameters:
                    raise ValueError(f"{path}:{number}: {name} for the second time")
                parameters[name] = parse_values(f"{path}:{number}: {name}", lines, dtype, shape)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file ({error})") from error
    return parameters


def parse_header(where: str, line: str) -> tuple[str, np.dtype, tuple[int, ...]]:
    name, *rest = line.split()
    if not rest or rest[0] not in DTYPES or not all(size.isdecimal() for size in rest[1:]):
        raise ValueError(f"{where}: expected NAME DTYPE SIZES…, got {line.strip()[:60]!r}")
    dtype, shape = np.dtype(rest[0]), tuple(map(int, rest[1:]))
    check_array(f"{where}: {name}", shape, dtype)
    return name, dtype, shape


def parse_values(where: str, lines: Iterator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Read lines until the array is full; they have to fill it exactly."""
    count = math.prod(shape)
    words: list[str] = []
    while len(words) < count:
        number, line = next(lines, (None, ""))
        if number is None:
            raise ValueError(f"{where}: expected {count} numbers, the file ends after {len(words)}")
        words += line.split()
    if len(words) > count:
        raise ValueError(f"{where}: expected {count} numbers, got {len(words)}")
    try:
        if dtype.name in INTEGERS:
            values = np.array([int(word) for word in words], dtype)
        else:
            # correctly rounded to float64, and from there to the dtype: the digits written are too close to
            # a number of the dtype for the second rounding to go anywhere else
            with np.errstate(over="ignore"):
                values = np.fromiter((number_of(word) for word in words), np.float64, count).astype(dtype)
            for i, word in enumerate(words):
                if word.startswith("nan("):
                    values.view(f"u{dtype.itemsize}")[i] = int(word[4:-1], 16)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from error
    return values.reshape(shape)


def number_of(word: str) -> float:
    return math.nan if word.startswith("nan(") else float(word)


# -- both --------------------------------------------------------------------------------------------------


def storable(path: str | os.PathLike, parameters: Mapping[str, np.ndarray]) -> Parameters:
    """The parameters in C order and little-endian, after a check that a file can give them back."""
    arrays = {}
    for name, value in parameters.items():
        array = np.asarray(value)
        if not name or not name.isprintable() or any(c.isspace() for c in name):
            raise ValueError(f"{path}: {name!r} cannot be a parameter's name: blank or unprintable")
        check_array(f"{path}: {name}", array.shape, array.dtype)
        arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return arrays


def check_array(where: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if dtype.name not in DTYPES:
        raise ValueError(f"{where}: expected numbers of {', '.join(DTYPES)}, got {dtype.name}")
    if math.prod(shape) * dtype.itemsize > MAX_BYTES:
        raise ValueError(f"{where}: shape {shape} of {dtype.name} is over {MAX_BYTES} bytes")


def write_atomically(path: str | os.PathLike, write: Callable[[BinaryIO], object]) -> None:
    """Have `write` fill a temporary file beside `path`, and rename it to `path` once it is complete."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's files are private, ours are like any other
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
