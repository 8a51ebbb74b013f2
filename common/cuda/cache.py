"""The cache of compiled kernels on disk, with a check that its files are intact.

`store` writes a file and next to it a record (same name, .json) with its size, its SHA-256 and notes. `load_record`
compares file and record: a file that was truncated or overwritten, by a crash or a copy, counts as absent.
"""

import errno
import functools
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import platformdirs

from ..files import replacing
from .errors import CacheError

ANOTHER = "The environment variable COURSE_CACHE names another folder for compiled kernels."
BUILDING = "building-"  # prefix of the folders of running compilations
_LEFTOVER_S = 3600  # seconds after which an unfinished file or folder is a leftover


def cache_dir() -> Path:
    """The folder of compiled kernels, created if missing; it can be deleted at any time.

    Default: the user's cache folder; the environment variable COURSE_CACHE names another one. CacheError if it cannot
    be created or if the home folder is unknown.
    """
    named = os.environ.get("COURSE_CACHE")
    try:
        folder = Path(named) if named else Path(platformdirs.user_cache_dir("mobilenetv2-engine-course"))
    except RuntimeError as error:
        raise CacheError(f"no folder for compiled kernels: {error}. {ANOTHER}") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_keep(folder, error) from error
    return folder


def cannot_keep(folder: Path, error: OSError) -> CacheError:
    """The CacheError for an error of writing to the cache: names the folder and the reason."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CacheError(f"no space left for compiled kernels in {folder}. {ANOTHER}")
    return CacheError(f"cannot keep compiled kernels in {folder}: {error.strerror or error}. {ANOTHER}")


def is_full(folder: Path) -> bool:
    """Whether less than 1 MiB is free on the disk of a folder."""
    try:
        return shutil.disk_usage(folder).free < 1 << 20
    except OSError:
        return False


def store(path: Path, content: bytes, **notes: Any) -> None:
    """Write a file of the cache, and its record with `notes` (for JSON). CacheError if it cannot be written.

    Nothing waits for the disk: a file that a power failure damages does not fit its record, and counts as absent.
    """
    record = notes | {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    try:
        with replacing(path.with_suffix(".json"), "w", flushed=False, encoding="utf-8") as file:
            json.dump(record, file)
        with replacing(path, flushed=False) as file:
            file.write(content)
    except OSError as error:
        raise cannot_keep(path.parent, error) from error


def load_record(path: Path) -> dict[str, Any] | None:
    """The record of a file of the cache: its notes, "bytes" and "sha256". None if it is missing or not intact."""
    try:
        record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if path.stat().st_size != record["bytes"]:
            return None
        return record if hashlib.sha256(path.read_bytes()).hexdigest() == record["sha256"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


@functools.cache  # once per process and folder
def remove_leftovers(folder: Path) -> None:
    """Remove files and folders of processes that were killed while compiling or writing, more than an hour ago."""
    now = time.time()
    try:
        for path in folder.iterdir():
            unfinished = path.name.startswith(".") and path.suffix == ".tmp"
            if not (unfinished or path.name.startswith(BUILDING)) or now - path.lstat().st_mtime < _LEFTOVER_S:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    except OSError:
        pass  # another process may be removing them; an unreadable folder is reported on use
