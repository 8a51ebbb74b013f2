"""Where compiled kernels are kept, and whether a file there is the one that was written.

`keep` writes a file with a record beside it (same name, .json): its bytes, their SHA-256 and what else is to be
remembered. `kept` compares them: a file that was cut, emptied or overwritten, by a crash or a copy, counts as absent.
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
BUILDING = "building-"  # begins the names of folders in which something is being compiled
_LEFTOVER_S = 3600  # older than that nobody works on it any more


def cache_dir() -> Path:
    """The folder of compiled kernels; COURSE_CACHE names another. It can be deleted at any time.

    CacheError if it cannot be made, or if no home folder is known that it could lie in.
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
    """What to raise when something could not be written into the cache: which folder, and why."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CacheError(f"no space left for compiled kernels in {folder}. {ANOTHER}")
    return CacheError(f"cannot keep compiled kernels in {folder}: {error.strerror or error}. {ANOTHER}")


def is_full(folder: Path) -> bool:
    """Whether there is next to no space left on the disk of a folder."""
    try:
        return shutil.disk_usage(folder).free < 1 << 20
    except OSError:
        return False


def keep(path: Path, content: bytes, **notes: Any) -> None:
    """Writes a file of the cache, and its record. CacheError if that cannot be done."""
    record = notes | {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    try:
        with replacing(path.with_suffix(".json"), "w", encoding="utf-8") as file:
            json.dump(record, file)
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise cannot_keep(path.parent, error) from error


def kept(path: Path) -> dict[str, Any] | None:
    """The record of a file of the cache; None if there is none, or if the file is not as it was written."""
    try:
        record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if path.stat().st_size != record["bytes"]:
            return None
        return record if hashlib.sha256(path.read_bytes()).hexdigest() == record["sha256"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


@functools.cache  # once per process and folder
def remove_leftovers(folder: Path) -> None:
    """Removes what processes left there that were killed while they compiled or wrote, more than an hour ago."""
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
        pass  # another process may be at it; a folder that cannot be read is told where it matters
