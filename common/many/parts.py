"""The done parts of an output, kept as files beside it and joined when all are there.

    with Parts("labels.parquet", settings, total=1_000_000, size=4096) as parts:
        for number in parts.missing():
            parts.write(number, table)          whole or not at all, as is the joined file
        parts.join()

labels.parquet.parts/ has plan.json, what was asked for, and a Parquet file per part. It is removed when the output is
written. A run that was ended goes on with the parts that are missing.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..files import replacing
from ..text import printable

FORMAT = 1
SETTINGS = b"mobilenet_engine.label"  # the key of the settings in the output's metadata
SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        ("class", pa.int32()),  # null where there is an error
        ("label", pa.string()),  # null where classes have no names
        ("score", pa.float32()),  # the class's probability
        ("error", pa.string()),  # why a picture could not be read
    ]
)


class Parts:
    """The parts of one output: `total` rows, `size` rows per part.

    settings: what the rows depend on; parts of other settings are not mixed with these. ValueError for those, with the
    first that differs; OSError if the output's folder cannot be written.
    """

    def __init__(self, out: str | os.PathLike, settings: Mapping[str, Any], total: int, size: int) -> None:
        self.out, self.total, self.size = Path(out), total, size
        self.folder = folder_of(out)
        self.plan = {"format": FORMAT, **settings, "pictures": total, "per part": size}
        self.count = -(-total // size)

    def open(self, anew: bool = False) -> None:
        """Make the folder, or check that what it has belongs to this output. anew: what it has is removed."""
        if anew:
            remove(self.out)
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "plan.json"
        if path.exists():
            self._check(path)
        else:
            with replacing(path, "w", encoding="utf-8") as file:
                json.dump(self.plan, file, indent=1)

    def _check(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            differing = [key for key in {**self.plan, **found} if self.plan.get(key) != found.get(key)]
        except (ValueError, TypeError):
            differing = ["plan.json"]
        if differing:
            raise ValueError(
                f"{printable(self.folder)} has parts of another run, with another value of {differing[0]!r}: "
                "--anew removes them and begins anew"
            )

    def rows(self, number: int) -> range:
        """The rows of a part."""
        return range(number * self.size, min((number + 1) * self.size, self.total))

    def missing(self) -> list[int]:
        """The parts that are not done."""
        return [number for number in range(self.count) if not self._done(number)]

    def _done(self, number: int) -> bool:
        try:
            return pq.read_metadata(self._path(number)).num_rows == len(self.rows(number))
        except (OSError, pa.ArrowInvalid):  # not there, or damaged
            return False

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.parquet"

    def write(self, number: int, table: pa.Table) -> None:
        """Keep a part, a table of SCHEMA. OSError, naming the file, if it cannot be written."""
        if len(table) != len(self.rows(number)):
            raise ValueError(f"part {number} must have {len(self.rows(number))} rows, got {len(table)}")
        buffer = pa.BufferOutputStream()
        pq.write_table(table.cast(SCHEMA), buffer)
        with replacing(self._path(number)) as file:
            file.write(buffer.getvalue())

    def join(self) -> None:
        """Write the output of all parts, one row group each, and remove them. OSError if it cannot be written."""
        with replacing(self.out) as file:
            schema = SCHEMA.with_metadata({SETTINGS: _digest(self.plan)})
            with pq.ParquetWriter(pa.PythonFile(file, mode="w"), schema, compression="zstd") as writer:
                for table in self._tables():
                    writer.write_table(table.replace_schema_metadata(schema.metadata))
        remove(self.out)

    def _tables(self) -> Iterator[pa.Table]:
        for number in range(self.count):
            yield pq.ParquetFile(self._path(number)).read()

    def is_joined(self) -> bool:
        """Whether the output is there already, of the same settings."""
        try:
            metadata = pq.read_schema(self.out).metadata or {}
        except (OSError, pa.ArrowInvalid):
            return False
        return metadata.get(SETTINGS) == _digest(self.plan)


def folder_of(out: str | os.PathLike) -> Path:
    """The folder of an output's parts."""
    return Path(f"{os.fspath(out)}.parts")


def remove(out: str | os.PathLike) -> None:
    """Remove the parts of an output; other files in their folder, and so the folder, stay."""
    folder = folder_of(out)
    for path in [*folder.glob("part-*.parquet"), folder / "plan.json"]:
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        shutil.rmtree(folder)


def _digest(plan: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest().encode()
