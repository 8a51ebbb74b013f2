"""Parameters through files and back: the same bits, or a ValueError that says where."""

import io
import math
import os
import stat
import zipfile

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import ALL, seldom

from common import weights
from common.weights import files
from common.weights.files import DTYPES

names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
# arbitrary bits: subnormals, both zeros, infinities and NaNs of every kind included
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5).flatmap(
        lambda shape: st.binary(
            min_size=math.prod(shape) * np.dtype(dtype).itemsize,
            max_size=math.prod(shape) * np.dtype(dtype).itemsize,
        ).map(lambda content: np.frombuffer(content, dtype).reshape(shape))
    )
)


def assert_same(got: weights.Parameters, wanted: weights.Parameters) -> None:
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape
        assert got[name].tobytes() == array.tobytes()


@seldom(3)
@given(parameters=st.dictionaries(names, arrays, max_size=4))
def test_any_bits_come_back(parameters, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.npz"
    weights.save(path, parameters)
    assert_same(weights.load(path), parameters)


def test_special_numbers_come_back(tmp_path):
    for dtype in ("float16", "float32", "float64"):
        limits = np.finfo(dtype)
        special = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            limits.tiny,
            limits.smallest_subnormal,
            limits.max,
            limits.min,
        ]
        parameters = {"x": np.array(special, dtype), "nan": np.array([-np.nan, np.nan], dtype)}
        weights.save(tmp_path / "x.npz", parameters)
        assert_same(weights.load(tmp_path / "x.npz"), parameters)


def test_any_memory_order_and_byte_order_come_back(tmp_path):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for variant in (array.T, array[:, ::-1], np.asfortranarray(array), array.astype(">f4")):
        weights.save(tmp_path / "x.npz", {"file": variant})
        got = weights.load(tmp_path / "x.npz")["file"]
        assert got.dtype == np.float32 and got.flags.c_contiguous
        np.testing.assert_array_equal(got, variant)


def test_the_same_parameters_give_the_same_file(tmp_path):
    parameters = {"a.weight": np.ones((2, 3), np.float32), "a.bias": np.zeros(2, np.float32)}
    for name in ("one", "two"):
        weights.save(tmp_path / f"{name}.npz", parameters)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_numpy_reads_the_npz(tmp_path):
    weights.save(tmp_path / "x.npz", {"a.weight": np.arange(6, dtype=np.float16).reshape(2, 3)})
    with np.load(tmp_path / "x.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["a.weight"], [[0, 1, 2], [3, 4, 5]])


def test_an_npz_of_numpy_is_read(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.eye(3, order="F"), b=np.float32(2))
    got = weights.load(tmp_path / "x.npz")
    np.testing.assert_array_equal(got["a"], np.eye(3))
    assert got["b"].shape == ()


def test_what_a_file_could_not_give_back_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    for parameters, message in [
        ({"a b": np.zeros(1)}, "name must be printable, without blanks, got 'a b'"),
        ({"": np.zeros(1)}, "name must be printable, without blanks, got ''"),
        ({"a\x1b": np.zeros(1)}, "got 'a"),
        ({"a": np.array([None])}, "a: expected numbers of .*, got object"),
        ({"a": np.array(["x"])}, "a: expected numbers of"),
        ({"a": np.zeros(1, complex)}, "got complex128"),
    ]:
        with pytest.raises(ValueError, match=message):
            weights.save(path, parameters)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    weights.save(tmp_path / "x.npz", {"a": np.zeros(1)})
    before = (tmp_path / "x.npz").read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="No space left"):
        weights.save(tmp_path / "x.npz", {"a": np.ones(1)})
    assert (tmp_path / "x.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_unknown_endings_and_missing_folders(tmp_path):
    for call in (lambda path: weights.save(path, {}), weights.load):
        with pytest.raises(ValueError, match=r"x\.bin: the name should end in \.npz"):
            call(tmp_path / "x.bin")
    with pytest.raises(FileNotFoundError, match=r"none/x\.npz"):
        weights.save(tmp_path / "none" / "x.npz", {})
    with pytest.raises(FileNotFoundError):
        weights.load(tmp_path / "x.npz")


def npz(path, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_broken_npz_files_are_refused_by_name(tmp_path):
    path = tmp_path / "x.npz"
    good = npy(np.zeros((2, 3), np.float32))
    huge = good.replace(b"(2, 3)", b"(9, 9999999999999)")
    for entries, message in [
        ({"a.b": good[:-1]}, r"x\.npz: a\.b: .*EOF"),
        ({"a": good + b"\0"}, r"x\.npz: a: .*bytes left over behind \(2, 3\) of float32"),
        ({"a": huge}, r"x\.npz: a: .*"),
        ({"a": good.replace(b"<f4", b"<c4")}, r"x\.npz: a: .*"),
        ({"a": b"nonsense"}, r"x\.npz: a: "),
        ({"a": b""}, r"x\.npz: a: "),
        ({"a": npy(np.array([print], object))}, r"x\.npz: a: .*Object arrays"),
        ({"a": npy(np.array(["x"]))}, r"x\.npz: a: .*expected numbers of .*, got <U1"),
        ({"a": good.replace(b"(2, 3)", b"[" * 5000)}, r"x\.npz: a: "),
        ({"a": good.replace(b"(2, 3)", b"(2, 3" + b"[" * 9000)}, r"x\.npz: a: "),
        ({"a\x1b[2J": good[:-1]}, r"x\.npz: a\\x1b\[2J: "),
    ]:
        npz(path, **entries)
        with pytest.raises(ValueError, match=message):
            weights.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.md", "hello")
    with pytest.raises(ValueError, match=r"x\.npz: readme\.md: .*unexpected entry"):
        weights.load(path)


@settings(max_examples=3000 if ALL else 100)
@given(data=st.data())
def test_damaged_files_raise_nothing_but_value_errors(data, tmp_path_factory):
    """Cut off anywhere, or with any byte changed, a file is read or refused."""
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    weights.save(path, {"a.weight": np.linspace(-1, 1, 50, dtype=np.float32), "n": np.arange(3)})
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        weights.load(path)
    except ValueError as error:
        assert str(path) in str(error)


def test_zeros_that_a_small_file_holds_by_the_gigabyte_are_refused_before_they_are_read(tmp_path, monkeypatch):
    """No array is too large, their sum is."""
    path = tmp_path / "x.npz"
    weights.save(path, {name: np.zeros(10_000, np.float32) for name in "abc"})
    monkeypatch.setattr(files, "MAX_BYTES", 100_000)
    monkeypatch.setattr(files, "read_array", lambda *_: pytest.fail("read"))
    with pytest.raises(ValueError, match=r"x\.npz: .*at most 100000 bytes together, got 120"):
        weights.load(path)
    with pytest.raises(ValueError, match=r"x\.npz: the arrays must have at most 100000 bytes together, got 120000"):
        weights.save(path, {name: np.zeros(10_000, np.float32) for name in "abc"})


def special(tmp_path):
    """Paths of what is no regular file. tests never name a real device."""
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "link.npz").symlink_to("pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    if os.geteuid() == 0:
        os.mknod(tmp_path / "device.npz", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    return sorted(tmp_path.iterdir())


def test_what_is_no_regular_file_is_neither_read_nor_replaced(tmp_path):
    for path in special(tmp_path):
        before = path.lstat().st_mode
        with pytest.raises(OSError, match=r"\.npz: expected a regular file, got a"):
            weights.load(path)
        with pytest.raises(OSError, match=r"\.npz: expected a regular file, got a"):
            weights.save(path, {})
        assert path.lstat().st_mode == before


def test_a_long_name_and_a_name_that_is_not_utf_8_can_be_written(tmp_path):
    for name in ("n" * 251 + ".npz", os.fsdecode(b"\xff.npz")):
        weights.save(tmp_path / name, {"a": np.ones(2)})
        assert_same(weights.load(tmp_path / name), {"a": np.ones(2)})
