"""What is to be labelled: folders, glob patterns, files, or a Parquet file of pictures or of their names.

found = sources.find(["photos"], leave_out=["photos/labels.parquet"])
found.names                 what the output calls the pictures, in its order
found.part(0, 256).read()   the bytes of the first 256, or the reason why there are none; picklable
"""

import functools
import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..files import open_regular
from ..images import ImageError
from ..text import printable

# Columns of a Parquet file, in this order: bytes of pictures, Hugging Face's struct of bytes and path, names of files
BYTES, STRUCT, NAMES = "bytes", "image", "path"


class Part(Protocol):
    """Some of the pictures; another process, or another machine that sees the same files, can read them."""

    def read(self) -> Iterator[bytes | ImageError]:
        """The bytes of each picture, one at a time, or an ImageError with the reason why they cannot be read."""
        ...


class Pictures(Protocol):
    """All pictures that are to be labelled, in the order of the output."""

    @property
    def names(self) -> Sequence[str]:
        """What the output calls each picture."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that changes with the names and with the files' sizes and times."""
        ...

    def part(self, start: int, stop: int) -> Part:
        """Pictures [start, stop)."""
        ...


def find(paths: Sequence[str], leave_out: Sequence[str | os.PathLike] = ()) -> Pictures:
    """The pictures of some folders (recursively), glob patterns and files, or of one Parquet file.

    Each folder's and pattern's files are sorted by name. In a folder, hidden files and folders and links to folders are
    skipped; a pattern finds what glob.glob finds.
    leave_out: files and folders that are none of the pictures, as the output of an earlier run.
    ValueError for a path that does not exist, if nothing is found, and for a Parquet file beside other paths or without
    one of the columns; OSError for a folder that cannot be read.
    """
    if any(path.lower().endswith(".parquet") for path in paths):
        if len(paths) > 1:
            raise ValueError(f"a Parquet file must be the only input, got {len(paths)} paths")
        return _parquet(paths[0])
    excluded = {os.path.realpath(path) for path in leave_out}
    found = [file for path in paths for file in _files(path, excluded)]
    if not found:
        raise ValueError(printable(f"no file found in {', '.join(paths)}"))
    return Files.of(found)


def _files(path: str, excluded: set[str]) -> Iterator[str]:
    if os.path.isdir(path):
        yield from _walk(path, excluded)
    elif os.path.lexists(path):
        yield path
    elif glob.has_magic(path):
        for one in sorted(glob.glob(path, recursive=True)):
            if not os.path.isdir(one) and os.path.realpath(one) not in excluded:
                yield one
    else:
        raise ValueError(printable(f"{path}: expected a file, a folder or a pattern with *, there is none"))


def _walk(folder: str, excluded: set[str]) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise error

    for base, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and os.path.realpath(os.path.join(base, name)) not in excluded
        )
        for name in sorted(files):
            path = os.path.join(base, name)
            if name[0] != "." and os.path.realpath(path) not in excluded:
                yield path


# ---- Files


@dataclass(frozen=True)
class Files:
    """Picture files. paths: absolute, as bytes of the file system, which need not be UTF-8."""

    names: Sequence[str]
    fingerprint: str
    paths: Sequence[bytes]

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Files":
        """The files with these paths, which are their names."""
        digest = hashlib.sha256()
        for path in paths:
            encoded = os.fsencode(path)
            digest.update(len(encoded).to_bytes(8) + encoded + _state(path))
        names = [os.fsencode(path).decode(errors="replace") for path in paths]
        return cls(names, digest.hexdigest(), [os.fsencode(os.path.abspath(path)) for path in paths])

    def part(self, start: int, stop: int) -> Part:
        """Pictures [start, stop)."""
        return FilePart(tuple(self.paths[start:stop]))


def _state(path: str) -> bytes:
    """A file's size and time of change; nothing for a file that is gone, or a link to nowhere."""
    try:
        found = os.stat(path)
    except OSError:
        return b"gone"
    return f"{found.st_size} {found.st_mtime_ns}".encode()


@dataclass(frozen=True)
class FilePart:
    """Some picture files."""

    paths: tuple[bytes, ...]

    def read(self) -> Iterator[bytes | ImageError]:
        """The bytes of each file, see Part.read."""
        return map(_content, self.paths)


def _content(path: bytes) -> bytes | ImageError:
    try:
        with open_regular(path) as file:  # type: ignore[arg-type]
            return file.read()
    except OSError as error:
        reason = error.strerror or str(error).rpartition(": ")[2]
        return ImageError(reason[:1].lower() + reason[1:])


# ---- Parquet


def _parquet(path: str) -> Pictures:
    """The pictures of a Parquet file: its bytes, or the files that it names, relative to its own folder."""
    file = _opened(path)
    schema = file.schema_arrow
    column = next((name for name in (BYTES, STRUCT, NAMES) if name in schema.names), None)
    if column is None:
        raise ValueError(
            f"{path}: expected a column {BYTES!r} (pictures), {STRUCT!r} (bytes and path) or {NAMES!r} (files), "
            f"got {', '.join(map(repr, schema.names))}"
        )
    _check_type(path, column, schema.field(column).type)
    names = _names(path, file, column)
    if not names:
        raise ValueError(f"{path}: expected pictures, it has no rows")
    if column == NAMES:
        folder = Path(path).parent
        found = Files.of([str(folder / name) for name in names])
        return Files(names, found.fingerprint, found.paths)
    state = _state(path)
    digest = hashlib.sha256(os.fsencode(path) + state).hexdigest()
    return Rows(names, digest, os.path.abspath(path), column, state)


def _check_type(path: str, column: str, kind: Any) -> None:
    import pyarrow as pa

    binary, text = (
        (pa.binary(), pa.large_binary(), pa.binary_view()),
        (pa.string(), pa.large_string(), pa.string_view()),
    )
    if column == STRUCT:
        fits = pa.types.is_struct(kind) and {field.name for field in kind} >= {"bytes"}
        fits = fits and kind.field("bytes").type in binary
        expected = "a struct with binary bytes"
    else:
        fits, expected = (kind in binary, "binary") if column == BYTES else (kind in text, "text")
    if not fits:
        raise ValueError(f"{path}: the column {column!r} must be {expected}, got {kind}")


def _names(path: str, file: Any, column: str) -> list[str]:
    """The pictures' names: of the column "path", or of the struct's; FILE#ROW where there is none."""
    inner = column == STRUCT and any(field.name == NAMES for field in file.schema_arrow.field(STRUCT).type)
    wanted = f"{STRUCT}.{NAMES}" if inner else NAMES if NAMES in file.schema_arrow.names else None
    if wanted is None:
        return [f"{Path(path).name}#{row}" for row in range(file.metadata.num_rows)]
    found: list[str] = []
    for batch in file.iter_batches(columns=[wanted]):
        values = batch.column(0).field(NAMES) if inner else batch.column(0)
        found += [name or f"{Path(path).name}#{len(found) + i}" for i, name in enumerate(values.to_pylist())]
    return found


def _opened(path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        open_regular(path).close()
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: not a Parquet file, or damaged: {error}") from None


@dataclass(frozen=True)
class Rows:
    """Rows of a Parquet file with the bytes of pictures. state: the file's size and time when it was found."""

    names: Sequence[str]
    fingerprint: str
    path: str
    column: str
    state: bytes

    def part(self, start: int, stop: int) -> Part:
        """Pictures [start, stop)."""
        return RowPart(self.path, self.column, self.state, start, stop)


@dataclass(frozen=True)
class RowPart:
    """Rows [start, stop) of a Parquet file."""

    path: str
    column: str
    state: bytes
    start: int
    stop: int

    def read(self) -> Iterator[bytes | ImageError]:
        """The bytes of each row, see Part.read. OSError or ValueError if the file has changed or cannot be read."""
        if _state(self.path) != self.state:
            raise ValueError(f"{self.path}: it was changed while it was read")
        first = 0
        wanted = f"{self.column}.{BYTES}" if self.column == STRUCT else self.column
        file = _opened(self.path)
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            low, high = max(self.start, first), min(self.stop, first + count)
            if low < high:
                values = _row_group(self.path, self.state, group, wanted).slice(low - first, high - low)
                for value in values.to_pylist():
                    yield ImageError("there are no bytes in this row") if value is None else value
            first += count


@functools.lru_cache(maxsize=2)
def _row_group(path: str, state: bytes, group: int, column: str) -> Any:
    """The pictures' bytes in a row group, an array; batches that follow one another read the same group."""
    array = _opened(path).read_row_group(group, columns=[column]).column(0).combine_chunks()
    return array if column == BYTES else array.field(BYTES)
