"""Atomic writing of files, and reading of regular files only."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import IO, Any

_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISFIFO: "a named pipe (FIFO)",
    stat.S_ISSOCK: "a socket",
}


def _require_regular(path: str | os.PathLike, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS.items() if test(mode)), "no regular file")
        raise OSError(f"{os.fspath(path)}: expected a regular file, got {kind}")


@contextlib.contextmanager
def replacing(path: str | os.PathLike, mode: str = "wb", flushed: bool = True, **options: Any) -> Iterator[IO[Any]]:
    """Context manager: a temporary file in the folder of `path` that replaces it if the block ends without an error.

    path: a new file or a regular one. For a symbolic link the target is replaced.
    mode, options: of open(), for writing.

    The old file is unchanged until the block has ended, and after any error, such as a full disk; then the temporary
    file is removed. Yields the open file. flushed: whether the data is flushed to the disk (fsync) before the file gets
    its name; without it, a power failure may leave a damaged file.
    OSError, naming `path`, if it is a device, a pipe or a folder, or cannot be written.
    """
    target = os.path.realpath(path)
    permissions = 0o666
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(target)
        _require_regular(path, found.st_mode)
        permissions = stat.S_IMODE(found.st_mode)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
    try:
        descriptor, named = _open_temporary(folder, temporary, permissions)
        try:
            with open(descriptor, mode, **options) as file:
                yield file
                file.flush()
                if flushed:
                    os.fsync(file.fileno())
                if not named:
                    # (with src_dir_fd os.link calls linkat(), which follows links; link() does not)
                    os.link(f"/proc/self/fd/{file.fileno()}", temporary, src_dir_fd=file.fileno())
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    except OSError as error:
        if error.filename == temporary or (error.filename is None and error.errno is not None):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _open_temporary(folder: str, path: str, permissions: int) -> tuple[int, bool]:
    """A new file in `folder` for reading and writing: (descriptor, whether it already has the name `path`).

    A file without a name (Linux, most file systems) disappears if the process is killed.
    """
    if hasattr(os, "O_TMPFILE") and os.path.exists("/proc/self/fd"):
        with contextlib.suppress(OSError):
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, permissions), False
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), permissions), True


def open_regular(path: str | os.PathLike) -> IO[bytes]:
    """Open a regular file for reading bytes. OSError for a pipe, a device or a folder, without blocking."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
