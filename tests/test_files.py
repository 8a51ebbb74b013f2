"""Files are written as a whole or not at all, and only where a regular file may stand."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from common import files


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        with files.replacing(tmp_path / "new") as file:
            file.write(b"all of it")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == b"all of it"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["new"]


def test_an_older_file_keeps_its_permissions_and_is_whole_until_the_end(tmp_path):
    path = tmp_path / "old"
    path.write_text("before")
    path.chmod(0o600)
    with files.replacing(path, "w", encoding="utf-8") as file:
        file.write("after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after" and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "error", [ValueError("no"), OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_after_an_error_the_older_file_is_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "old"
    path.write_text("before")
    with pytest.raises(type(error)) as caught, files.replacing(path) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["old"]
    if isinstance(error, OSError):
        assert caught.value.filename == str(path) and caught.value.errno == errno.ENOSPC


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="a temporary file without a name is Linux's")
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_killed_leaves_the_older_file_and_nothing_else(tmp_path, signal_number):
    (tmp_path / "old").write_text("before")
    code = (
        "import sys, time\nfrom common import files\n"
        "with files.replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); print('written', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "old"], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal_number)
    assert process.returncode == -signal_number
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_text() == "before"


def test_a_file_system_without_unnamed_files_has_named_ones(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with files.replacing(tmp_path / "new") as file:
        file.write(b"x")
        file.flush()
        (name,) = os.listdir(tmp_path)
        assert name.endswith(".tmp")
    assert os.listdir(tmp_path) == ["new"]
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "new") as file:
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["new"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to("target")
    with files.replacing(tmp_path / "link") as file:
        file.write(b"after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "after"


def test_what_is_no_regular_file_is_neither_replaced_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name, kind in (("pipe", "named pipe"), ("folder", "a folder"), ("link", "named pipe")):
        path = tmp_path / name
        with pytest.raises(OSError, match=rf"{name}: expected a regular file, got .*{kind}"), files.replacing(path):
            pytest.fail("opened")
        with pytest.raises(OSError, match=kind):
            files.open_regular(path)
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    with files.replacing(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/file"), files.replacing(tmp_path / "nowhere" / "file"):
        pytest.fail("opened")


def test_a_regular_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"bytes")
    with files.open_regular(tmp_path / "file") as file:
        assert file.read() == b"bytes"
