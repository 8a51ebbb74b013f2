"""Pictures as one .npy file of inputs: the same pixels, every broken file by name and reason, never half a file."""

import json
import os
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from common import images
from common.__main__ import app
from common.images import packing

PICTURES = {"a.png": (40, 30), "deep/b.jpg": (31, 50), "deep/er/ü c.bmp": (33, 33), "z.png": (64, 48)}
ORDER = ["a.png", "z.png", "deep/b.jpg", "deep/er/ü c.bmp"]


@pytest.fixture
def folder(tmp_path, rng):
    """Four pictures in three folders, and what is no picture."""
    root = tmp_path / "photos"
    for name, (width, height) in PICTURES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(root / name)
    (root / "deep" / "cut off.png").write_bytes((root / "a.png").read_bytes()[:300])
    (root / "notes.txt").write_text("no picture")
    Image.new("RGB", (1, 100_000)).save(root / "line.png")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "h.png").write_bytes((root / "a.png").read_bytes())
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    (root / "circle").symlink_to(root)
    return root


REASONS = {
    "notes.txt": "not an image of a known format, or broken at its beginning",
    "deep/cut off.png": "broken image",
    "line.png": "too elongated",
    "pipe": "expected a regular file, got a named pipe (FIFO)",
    "loop": "too many levels of symbolic links",
}


def loaded(out):
    return np.load(out, mmap_mode="r"), json.loads((out.parent / f"{out.name}.json").read_text())


def test_what_is_packed_is_the_network_input(folder, tmp_path):
    skipped = []
    packed = images.pack([folder], tmp_path / "inputs.npy", 32, skipped.append)
    inputs, names = loaded(tmp_path / "inputs.npy")
    assert packed.written == 4 and names == ORDER
    assert inputs.dtype == np.float32 and inputs.shape == (4, 3, 32, 32) and inputs.flags.c_contiguous
    expected = np.concatenate([images.to_input(images.read(folder / name), 32, 37) for name in ORDER])
    np.testing.assert_array_equal(inputs, expected)
    assert list(packed.skipped) == skipped
    reasons = dict(line.split(": ", 1) for line in skipped)
    assert reasons.keys() == {str(folder / name) for name in REASONS}
    assert all(reason in reasons[str(folder / name)] for name, reason in REASONS.items())


def test_the_bytes_are_those_of_any_npy_file(folder, tmp_path):
    """C++ readers know the header's text and its alignment."""
    images.pack([folder / "a.png", folder / "z.png"], tmp_path / "x.npy", 8)
    array = np.load(tmp_path / "x.npy")
    np.save(tmp_path / "numpy.npy", array)
    content = (tmp_path / "x.npy").read_bytes()
    assert len(content) % 64 == array.nbytes % 64
    assert content == (tmp_path / "numpy.npy").read_bytes()


def test_files_and_folders_in_the_order_given(folder):
    names = [name for name, _ in packing.find_pictures([folder / "z.png", folder / "deep", folder / "a.png"])]
    assert names == ["z.png", "b.jpg", "cut off.png", "er/ü c.bmp", "a.png"]


def test_what_an_earlier_run_wrote_into_the_folder_is_not_packed(folder):
    out = folder / "inputs.npy"
    first = images.pack([folder], out, 8)
    assert images.pack([folder], out, 8) == first and not any("inputs.npy" in line for line in first.skipped)


@pytest.mark.skipif(sys.platform == "darwin", reason="names there are UTF-8")
def test_names_of_any_bytes(folder, tmp_path):
    name = os.fsdecode(b"\xff\x1b[2J.png")
    (folder / "a.png").rename(folder / name)
    (folder / os.fsdecode(b"\xfe\x07.txt")).write_text("no picture")
    packed = images.pack([folder], tmp_path / "x.npy", 8)
    assert "\ufffd\x1b[2J.png" in loaded(tmp_path / "x.npy")[1]
    assert all(line.isprintable() for line in packed.skipped)


def test_nothing_to_write_leaves_everything_as_it_was(folder, tmp_path):
    (tmp_path / "out.npy").write_text("before")
    before = sorted(tmp_path.iterdir())
    for paths, options, message in [
        ([folder / "notes.txt"], {}, "out.npy is not written: none of 1 files is a picture"),
        ([folder / ".hidden" / "none"], {}, "expected a file or a folder, there is none"),
        ([folder], {"size": 0}, "size must be at least 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            images.pack(paths, tmp_path / "out.npy", **options)
    with pytest.raises(ValueError, match=r"out must end in \.npy, got .*out\.bin"):
        images.pack([folder], tmp_path / "out.bin")
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "out.npy").read_text() == "before"


def test_a_failure_half_way_leaves_the_older_files(folder, tmp_path, monkeypatch):
    images.pack([folder / "a.png"], tmp_path / "x.npy", 8)
    before = {path: path.read_bytes() for path in tmp_path.glob("x.npy*")}
    prepare = packing.prepare

    def stop(path, size):
        if path.name == "b.jpg":
            raise KeyboardInterrupt
        return prepare(path, size)

    monkeypatch.setattr(packing, "prepare", stop)
    with pytest.raises(KeyboardInterrupt):
        images.pack([folder], tmp_path / "x.npy", 8)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_an_output_that_is_no_regular_file_stays_what_it_is(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    os.mkfifo(tmp_path / "x.npy.json")
    for name in ("pipe.npy", "x.npy"):
        with pytest.raises(OSError, match="expected a regular file, got a named pipe"):
            images.pack([folder], tmp_path / name, 8)
    assert {path.name for path in tmp_path.iterdir()} == {"photos", "pipe.npy", "x.npy.json"}
    assert (tmp_path / "pipe.npy").is_fifo() and (tmp_path / "x.npy.json").is_fifo()


def test_the_command(folder, tmp_path):
    def call(*arguments):
        return CliRunner().invoke(app, ["images", "pack", *map(str, arguments)])

    out = tmp_path / "inputs.npy"
    result = call(folder, "--out", out, "--size", 32)
    assert result.exit_code == 1  # some were left out
    assert f"{out}: 4 × 3 × 32 × 32 float32, {out.stat().st_size:,} bytes, 5 left out" in result.stdout
    assert len(result.stderr.strip().splitlines()) == 5 and "notes.txt: not an image" in result.stderr
    assert call(folder / "a.png", "--out", out).exit_code == 0
    assert np.load(out).shape == (1, 3, 224, 224)
    result = call(folder / "notes.txt", "--out", tmp_path / "none.npy")
    assert result.exit_code == 2 and "none of 1 files is a picture" in result.stderr
    assert not (tmp_path / "none.npy").exists()
