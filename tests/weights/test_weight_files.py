"""Parameters through files and back: the same bits, or a ValueError that says where."""

import io
import math
import subprocess
import zipfile

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import weights
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


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
@given(parameters=st.dictionaries(names, arrays, max_size=4))
def test_any_bits_come_back(parameters, suffix, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    weights.save(path, parameters)
    assert_same(weights.load(path), parameters)


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
def test_special_numbers_come_back(tmp_path, suffix):
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
        weights.save(tmp_path / f"x{suffix}", parameters)
        assert_same(weights.load(tmp_path / f"x{suffix}"), parameters)


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
def test_any_memory_order_and_byte_order_come_back(tmp_path, suffix):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for variant in (array.T, array[:, ::-1], np.asfortranarray(array), array.astype(">f4")):
        weights.save(tmp_path / f"x{suffix}", {"file": variant})
        got = weights.load(tmp_path / f"x{suffix}")["file"]
        assert got.dtype == np.float32 and got.flags.c_contiguous
        np.testing.assert_array_equal(got, variant)


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
def test_the_same_parameters_give_the_same_file(tmp_path, suffix):
    parameters = {"a.weight": np.ones((2, 3), np.float32), "a.bias": np.zeros(2, np.float32)}
    for name in ("one", "two"):
        weights.save(tmp_path / (name + suffix), parameters)
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_numpy_reads_the_npz(tmp_path):
    weights.save_npz(tmp_path / "x.npz", {"a.weight": np.arange(6, dtype=np.float16).reshape(2, 3)})
    with np.load(tmp_path / "x.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["a.weight"], [[0, 1, 2], [3, 4, 5]])


def test_an_npz_of_numpy_is_read(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.eye(3, order="F"), b=np.float32(2))
    got = weights.load_npz(tmp_path / "x.npz")
    np.testing.assert_array_equal(got["a"], np.eye(3))
    assert got["b"].shape == ()


def test_the_text_is_what_the_documentation_says(tmp_path):
    weights.save_text(
        tmp_path / "x.txt", {"a.weight": np.arange(10, dtype=np.float32).reshape(5, 2) / 7, "n": np.int64(-3)}
    )
    assert (tmp_path / "x.txt").read_text() == (
        "a.weight float32 5 2\n"
        "0 0.142857149 0.285714298 0.428571433 0.571428597 0.714285731 0.857142866 1\n"
        "1.14285719 1.28571427\n"
        "n int64\n"
        "-3\n"
    )


def test_c_reads_the_text(tmp_path, compiler, rng):
    """The loop that a C++ program needs: name, dtype, sizes, then strtof."""
    values = np.concatenate(
        [
            rng.integers(0, 2**32, 1000, np.uint32).view(np.float32),
            np.array([-0.0, np.inf, 1e-45], np.float32),
        ]
    )
    values = values[~np.isnan(values)]
    weights.save_text(tmp_path / "x.txt", {"a.weight": values.reshape(1, -1)})
    (tmp_path / "read.cpp").write_text(
        """
        #include <cstdio>
        #include <cstdlib>
        #include <fstream>
        #include <sstream>
        #include <string>
        int main(int, char** argv) {
            std::ifstream file(argv[1]);
            std::string header, name, dtype, word;
            while (std::getline(file, header)) {
                std::istringstream fields(header);
                long count = 1, size;
                fields >> name >> dtype;
                while (fields >> size) count *= size;
                for (long i = 0; i < count && file >> word; i++) {
                    float x = std::strtof(word.c_str(), nullptr);
                    std::fwrite(&x, sizeof x, 1, stdout);
                }
                std::getline(file, header);  // rest of the last line
            }
        }
        """
    )
    subprocess.run([compiler, "-o", tmp_path / "read", tmp_path / "read.cpp"], check=True)
    output = subprocess.run([tmp_path / "read", tmp_path / "x.txt"], check=True, capture_output=True).stdout
    assert output == values.tobytes()


@pytest.fixture(scope="session")
def compiler() -> str:
    import shutil

    found = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no C++ compiler on the path")
    return found


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
def test_what_a_file_could_not_give_back_is_refused(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    for parameters, message in [
        ({"a b": np.zeros(1)}, "'a b' cannot be a parameter's name"),
        ({"": np.zeros(1)}, "'' cannot be a parameter's name"),
        ({"a": np.array([None])}, "a: expected numbers of .*, got object"),
        ({"a": np.array(["x"])}, "a: expected numbers of"),
        ({"a": np.zeros(1, complex)}, "got complex128"),
    ]:
        with pytest.raises(ValueError, match=message):
            weights.save(path, parameters)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    weights.save_npz(tmp_path / "x.npz", {"a": np.zeros(1)})
    before = (tmp_path / "x.npz").read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="No space left"):
        weights.save_npz(tmp_path / "x.npz", {"a": np.ones(1)})
    assert (tmp_path / "x.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_unknown_endings_and_missing_folders(tmp_path):
    for call in (lambda path: weights.save(path, {}), weights.load):
        with pytest.raises(ValueError, match=r"x\.bin: the name should end in \.npz or \.txt"):
            call(tmp_path / "x.bin")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
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
        ({"a.b": good[:-1]}, r"x\.npz: a\.b: shape \(2, 3\) of float32 takes 24 bytes, got 23"),
        ({"a": good + b"\0"}, r"x\.npz: a: .* got 25"),
        ({"a": huge}, r"x\.npz: a: .*"),
        ({"a": good.replace(b"<f4", b"<c4")}, r"x\.npz: a: .*"),
        ({"a": b"nonsense"}, r"x\.npz: a: "),
        ({"a": b""}, r"x\.npz: a: "),
        ({"a": npy(np.array([print], object))}, r"x\.npz: a: expected numbers of .*, got object"),
    ]:
        npz(path, **entries)
        with pytest.raises(ValueError, match=message):
            weights.load_npz(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.md", "hello")
    with pytest.raises(ValueError, match=r"x\.npz: unexpected entry 'readme\.md'"):
        weights.load_npz(path)


@given(data=st.data())
def test_damaged_files_raise_nothing_but_value_errors(data, tmp_path_factory):
    """Cut off anywhere, or with any byte changed, a file is read or refused."""
    suffix = data.draw(st.sampled_from([".npz", ".txt"]))
    path = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
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


def test_broken_text_files_are_refused_by_line(tmp_path):
    path = tmp_path / "x.txt"
    for text, message in [
        ("a float32 3\n1 2", r"x\.txt:1: a: expected 3 numbers, the file ends after 2"),
        ("a float32 3\n1 2 3 4\n", r"x\.txt:1: a: expected 3 numbers, got 4"),
        ("a float32 2\n1 x\n", r"x\.txt:1: a: could not convert string to float: 'x'"),
        ("a float32 2\n1 2\na float32 1\n3\n", r"x\.txt:3: a for the second time"),
        ("a float33 2\n1 2\n", r"x\.txt:1: expected NAME DTYPE SIZES…, got 'a float33 2'"),
        ("a float32 -2\n", r"x\.txt:1: expected NAME DTYPE SIZES…"),
        ("a float32 99999999999\n1\n", r"x\.txt:1: a: shape .* is over"),
        ("a uint8 1\n256\n", r"x\.txt:1: a: "),
        ("a float32 1\nnan(0x)\n", r"x\.txt:1: a: "),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            weights.load_text(path)
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(ValueError, match=r"x\.txt: not a text file"):
        weights.load_text(path)
