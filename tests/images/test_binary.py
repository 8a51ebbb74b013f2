"""Pictures as one binary file and back: the same pixels, every broken file by name and reason, never half a file."""

import json
import os
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from typer.testing import CliRunner

from common import images
from common.__main__ import app
from common.images import InputsError, binary


@pytest.fixture
def command():
    def call(*arguments):
        result = CliRunner().invoke(app, ["images", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def one_line(text):
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def noise(rng, width, height):
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.fixture
def folder(tmp_path, rng):
    """Four pictures in three folders, and three files that are none."""
    pictures = {"a.png": (40, 30), "deep/b.jpg": (31, 50), "deep/er/ü c.bmp": (33, 33), "z.png": (64, 48)}
    root = tmp_path / "photos"
    for name, size in pictures.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise(rng, *size).save(root / name)
    (root / "deep" / "cut off.png").write_bytes((root / "a.png").read_bytes()[:300])
    (root / "notes.txt").write_text("no picture")
    Image.new("RGB", (1, 100_000)).save(root / "line.png")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "h.png").write_bytes((root / "a.png").read_bytes())
    return root


ORDER = ["a.png", "z.png", "deep/b.jpg", "deep/er/ü c.bmp"]


# ---- Packing


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_what_is_packed_is_the_network_input(folder, tmp_path, dtype, layout):
    out, told = tmp_path / "inputs.bin", []
    packed = images.pack([folder], out, 32, dtype, layout, told.append)
    assert packed.written == 4 and list(packed.skipped) == told
    inputs = images.load_inputs(out)
    assert inputs.header.names == tuple(ORDER) and inputs.header.shape == (4, 3, 32, 32)
    assert inputs.array.dtype == {"fp32": np.float32, "fp16": np.float16}[dtype]
    assert inputs.array.shape == ((4, 3, 32, 32) if layout == "NCHW" else (4, 32, 32, 3))
    expected = np.concatenate([images.to_input(images.read(folder / name), 32, 37) for name in ORDER])
    np.testing.assert_array_equal(inputs.nchw(), expected.astype(inputs.array.dtype).astype(np.float32))
    assert inputs.nchw().flags.c_contiguous and inputs.nchw().dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        inputs.array[0] = 0


def test_what_is_skipped_is_told_by_name_and_reason(folder, tmp_path):
    packed = images.pack([folder], tmp_path / "inputs.bin", 32)
    lines = dict(line.split(": ", 1) for line in packed.skipped)
    assert set(lines) == {str(folder / name) for name in ("notes.txt", "line.png", "deep/cut off.png")}
    assert lines[str(folder / "notes.txt")] == "not an image of a known format, or broken at its beginning"
    assert "broken image" in lines[str(folder / "deep" / "cut off.png")]
    assert "too elongated" in lines[str(folder / "line.png")]


def test_the_bytes_are_as_documented(tmp_path):
    """Read without the module, as a program in C++ would."""
    pixels = np.arange(2 * 3 * 2 * 5, dtype=np.float32).reshape(2, 3, 2, 5)
    images.write_inputs(tmp_path / "x", zip(["é", "b"], pixels, strict=True), "fp16", "NHWC", (1, 2, 3), (4, 5, 6))
    data = (tmp_path / "x").read_bytes()
    assert data[:8] == b"NETINPUT" and data[12:20] == b"fp16NHWC"
    assert struct.unpack_from("<I", data, 8) == (1,) and struct.unpack_from("<5I", data, 20) == (128, 2, 3, 2, 5)
    assert struct.unpack_from("<6f", data, 40) == (1, 2, 3, 4, 5, 6) and data[72:128] == bytes(56)
    stored = np.frombuffer(data, "<f2", 60, 128).reshape(2, 2, 5, 3)
    np.testing.assert_array_equal(stored.transpose(0, 3, 1, 2), pixels)
    (names,) = struct.unpack_from("<Q", data, 64)
    assert json.loads(data[-names:]) == ["é", "b"] and len(data) == 128 + 120 + names


def test_files_and_folders_in_the_order_given(folder, tmp_path):
    names = [name for name, _ in binary.find_pictures([folder / "z.png", folder / "deep", folder / "a.png"])]
    assert names == ["z.png", "b.jpg", "cut off.png", "er/ü c.bmp", "a.png"]


def test_a_file_in_the_folder_that_is_packed_is_not_packed_itself(folder):
    out = folder / "inputs.bin"
    first = images.pack([folder], out, 8)
    assert images.pack([folder], out, 8) == first and not any("inputs.bin" in line for line in first.skipped)


def test_links_in_a_circle_end(folder, tmp_path):
    (folder / "loop").symlink_to(folder)
    assert images.pack([folder], tmp_path / "x", 32).written == 4


# ---- There and back


@st.composite
def batches(draw):
    n, h, w = draw(st.integers(1, 4)), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    pixels = draw(hnp.arrays(np.uint8, (n, 3, h, w)))
    names = draw(st.lists(st.text(), min_size=n, max_size=n))
    return names, pixels, draw(st.sampled_from(["fp32", "fp16"])), draw(st.sampled_from(binary.LAYOUTS))


@settings(max_examples=60)
@given(batches())
def test_pixels_and_names_survive_the_round_trip(batch):
    names, pixels, dtype, layout = batch
    mean, std = (np.reshape(v, (3, 1, 1)).astype(np.float32) for v in (images.IMAGENET_MEAN, images.IMAGENET_STD))
    arrays = (pixels.astype(np.float32) / 255 - mean) / std
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.bin")
        assert images.write_inputs(path, zip(names, arrays, strict=True), dtype, layout) == len(names)
        inputs = images.load_inputs(path)
        assert inputs.header.names == tuple(names) and inputs.header.layout == layout
        np.testing.assert_array_equal(inputs.nchw(), arrays.astype(inputs.array.dtype).astype(np.float32))
        written = images.unpack(path, Path(folder, "out"))
        assert len(set(written)) == len(names) and {p.parent for p in written} == {Path(folder, "out")}
        for picture, expected in zip(written, pixels, strict=True):
            np.testing.assert_array_equal(np.asarray(images.read(picture)), expected.transpose(1, 2, 0))
        assert sorted(os.listdir(folder)) == ["out", "x.bin"]


def test_names_lead_nowhere_else(tmp_path):
    names = ["../../etc/passwd", "/abs/x.png", "", "..", "a" * 300 + ".png", "日本" * 100]
    images.write_inputs(tmp_path / "x", [(name, np.zeros((3, 1, 1))) for name in names])
    written = images.unpack(tmp_path / "x", tmp_path / "out")
    assert [path.name for path in written[:2]] == ["00000-.._.._etc_passwd.png", "00001-_abs_x.png"]
    assert sorted(os.listdir(tmp_path)) == ["out", "x"] and len(os.listdir(tmp_path / "out")) == len(names)


def test_pixels_beyond_the_range_are_clipped():
    array = np.array([[-9.0, 9.0, 0.5]] * 3, np.float32)[:, None]
    np.testing.assert_array_equal(np.asarray(binary.to_picture(array, (0, 0, 0), (1, 1, 1)))[0, :, 0], [0, 255, 128])
    with pytest.raises(ValueError, match="expected finite pixels"):
        binary.to_picture(array * np.nan, (0, 0, 0), (1, 1, 1))


# ---- Never half a file


WRONG = {
    "shapes": ([("a", np.zeros((3, 2, 2))), ("b", np.zeros((3, 2, 3)))], r"b: a picture must have shape \(3, 2, 2\)"),
    "channels": ([("a", np.zeros((1, 2, 2)))], r"a: a picture must have shape \(3, H, W\), got \(1, 2, 2\)"),
    "empty": ([("a", np.zeros((3, 0, 2)))], r"a: a picture must have shape \(3, H, W\), got \(3, 0, 2\)"),
    "nothing": ([], "expected at least one picture to write, got none"),
    "infinite": ([("a", np.full((3, 2, 2), 1e6))], r"a: a picture must be finite in fp16, got 1e\+06"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path, wrong):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    pictures, message = WRONG[wrong]
    with pytest.raises(ValueError, match=message):
        images.write_inputs(path, pictures, "fp16")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    def pictures():
        yield "a", np.zeros((3, 2, 2))
        raise KeyboardInterrupt

    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        images.write_inputs(tmp_path / "x", pictures())
    assert (tmp_path / "x").read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_a_file_like_any_other(tmp_path):
    images.write_inputs(tmp_path / "x", [("a", np.zeros((3, 2, 2)))])
    (tmp_path / "other").write_text("")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "fp64"}, "dtype must be one of fp32, fp16, got 'fp64'"),
        ({"layout": "CHWN"}, "layout must be one of NCHW, NHWC, got 'CHWN'"),
        ({"size": 0}, "size must be at least 1, got 0"),
    ],
)
def test_options_that_there_are_not(folder, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        images.pack([folder], tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()


# ---- Files that are none


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.bin"
    images.write_inputs(path, [(name, np.ones((3, 4, 5))) for name in "ab"])
    return path


@pytest.mark.parametrize("length", [0, 5, 8, 40, 127, 128, 300, 607, 608, 612])
def test_a_file_that_was_cut_off(good, length):
    data = good.read_bytes()
    assert length < len(data)
    good.write_bytes(data[:length])
    with pytest.raises(InputsError) as caught:
        images.load_inputs(good)
    message = str(caught.value)
    assert one_line(message) and message.startswith(f"{good}: expected ")
    if length >= 128:
        assert f"expected {len(data)} bytes for 2 pictures of 4×5, the file has {length}" in message
    elif length >= 8:
        assert message.endswith(f"expected a header of 128 bytes, the file has {length}")


FOREIGN = {
    "magic": (0, b"\x89PNG\r\n\x1a\n", r"expected a file of inputs, which begins with b'NETINPUT', got b'\x89PNG"),
    "version": (8, struct.pack("<I", 2), "expected version 1, got 2"),
    "dtype": (12, b"bf16", "expected the dtype to be b'fp32' or b'fp16', got b'bf16'"),
    "layout": (16, b"CHWN", "expected the layout to be b'NCHW' or b'NHWC', got b'CHWN'"),
    "offset": (20, struct.pack("<I", 64), "expected the offset of the elements to be 128, got 64"),
    "count": (24, struct.pack("<I", 3), "bytes for 3 pictures of 4×5, the file has "),
    "none": (24, struct.pack("<I", 0), "expected N, H, W of at least 1"),
    "channels": (28, struct.pack("<I", 4), "expected the number of channels to be 3, got 4"),
    "std": (52, struct.pack("<f", 0.0), "stds other than 0"),
    "mean": (40, struct.pack("<f", float("nan")), "finite means"),
    "names": (608, b"{", "expected the names as JSON behind the pictures, got "),
    "other names": (608, b'["aaaaaa"]', "expected the names to be a list of 2 strings"),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_foreign_file(good, foreign, command):
    at, data, message = FOREIGN[foreign]
    content = bytearray(good.read_bytes())
    content[at : at + len(data)] = data
    good.write_bytes(content)
    with pytest.raises(InputsError) as caught:
        images.read_header(good)
    assert one_line(str(caught.value)) and str(good) in str(caught.value) and message in str(caught.value)
    for arguments in (("info", good), ("unpack", good, "--out", good.parent / "out")):
        result = command(*arguments)
        assert result.exit_code == 2 and result.stderr.strip() == " ".join(str(caught.value).split())
    assert not (good.parent / "out").exists()


def test_pixels_that_are_not_finite_write_no_picture(good, tmp_path):
    content = bytearray(good.read_bytes())
    content[128 + 240 : 132 + 240] = struct.pack("<f", float("inf"))  # the first of the second picture
    good.write_bytes(content)
    with pytest.raises(InputsError, match=r"expected finite pixels, picture 1 \(b\) has others"):
        images.unpack(good, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- The commands


def test_pack_info_unpack(folder, tmp_path, command):
    out = tmp_path / "inputs.bin"
    result = command("pack", folder, "--out", out, "--size", 32, "--dtype", "fp16", "--layout", "NHWC")
    assert result.exit_code == 1  # three files were left out
    size = out.stat().st_size
    assert result.stdout.strip() == f"{out}: 4 pictures as 32×32×3 fp16, {size:,} bytes, 3 left out"
    errors = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(errors) == 3 and all(str(folder) in line for line in errors)
    shown = command("info", out, "--names").stdout.splitlines()
    assert shown[0] == f"{out}: 4 pictures, 3 channels, 32×32, fp16, NHWC" and shown[1] == "mean 0.485, 0.456, 0.406"
    assert shown[3:] == [f"{i}: {name}" for i, name in enumerate(ORDER)]
    assert len(command("info", out).stdout.splitlines()) == 3
    result = command("unpack", out, "--out", tmp_path / "back")
    assert result.exit_code == 0 and result.stdout.strip() == f"4 pictures in {tmp_path / 'back'}"
    assert sorted(os.listdir(tmp_path / "back"))[3] == "00003-deep_er_ü_c.png"
    expected = images.to_input(images.read(folder / "a.png"), 32, 37)[0]
    back = binary.to_picture(expected, images.IMAGENET_MEAN, images.IMAGENET_STD)
    np.testing.assert_array_equal(np.asarray(images.read(tmp_path / "back" / "00000-a.png")), np.asarray(back))


def test_pack_without_anything_broken(folder, tmp_path, command):
    result = command("pack", folder / "a.png", folder / "z.png", "--out", tmp_path / "x", "--size", 16)
    assert result.exit_code == 0 and result.stderr == "" and "2 pictures as 3×16×16 fp32" in result.stdout


@pytest.mark.parametrize("what", ["broken", "missing", "empty", "dtype", "no folder"])
def test_nothing_to_write_is_exit_status_2(folder, tmp_path, command, what):
    (tmp_path / "empty").mkdir()
    arguments = {
        "broken": (folder / "notes.txt",), "missing": (tmp_path / "nowhere",), "empty": (tmp_path / "empty",),
        "dtype": (folder, "--dtype", "int8"), "no folder": (folder,),
    }[what]  # fmt: skip
    message = {
        "broken": "is not written: none of 1 files could be read as a picture",
        "missing": "nowhere: expected a file or a folder, there is none",
        "empty": "expected pictures, there are no files",
        "dtype": "dtype must be one of fp32, fp16, got 'int8'",
        "no folder": "No such file or directory",
    }[what]
    out = tmp_path / "nowhere" / "x" if what == "no folder" else tmp_path / "x"
    result = command("pack", *arguments, "--out", out)
    assert result.exit_code == 2 and message in result.stderr.splitlines()[-1] and not out.exists()
    assert "Traceback" not in result.stderr and not [name for name in os.listdir(tmp_path) if name.startswith(".")]
