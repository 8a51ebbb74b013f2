"""The CIFAR-10 loader, on a small archive of the same format at a file:// address."""

import hashlib
import importlib
import io
import tarfile
import urllib.error

import numpy as np
import pytest

from common import images

cifar10 = importlib.import_module("common.images.cifar10")  # the function of that name hides the module
NAME = "cifar-10-binary.tar.gz"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("COURSE_CACHE", str(folder))
    return folder


@pytest.fixture
def published(tmp_path, monkeypatch, cache, rng):
    """The archive, its address and hash in place of the real ones; pictures and classes of each file in it."""
    files = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    content = {}
    path = tmp_path / NAME
    with tarfile.open(path, "w:gz") as archive:
        for count, name in enumerate(files, start=3):
            pictures = rng.integers(0, 256, (count, 3, 32, 32), np.uint8)
            classes = rng.integers(0, 10, count).astype(np.uint8)
            content[name] = pictures, classes
            records = b"".join(bytes([c]) + p.tobytes() for c, p in zip(classes, pictures, strict=True))
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(records)
            archive.addfile(member, io.BytesIO(records))
    monkeypatch.setattr(cifar10, "URL", path.as_uri())
    monkeypatch.setattr(cifar10, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path, content


def test_the_address_and_the_hash_are_the_published_ones():
    assert cifar10.URL == "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert cifar10.SHA256 == "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    assert len(images.CIFAR10_CLASSES) == 10 and images.CIFAR10_CLASSES[3] == "cat"


def test_pictures_and_classes_are_those_of_the_archive(published, cache):
    path, content = published
    pictures, classes = images.cifar10()
    assert pictures.dtype == classes.dtype == np.uint8
    np.testing.assert_array_equal(pictures, content["test_batch.bin"][0])
    np.testing.assert_array_equal(classes, content["test_batch.bin"][1])
    path.unlink()  # from now on from the cache
    pictures, classes = images.cifar10("train")
    batches = [content[f"data_batch_{number}.bin"] for number in range(1, 6)]
    np.testing.assert_array_equal(pictures, np.concatenate([batch[0] for batch in batches]))
    np.testing.assert_array_equal(classes, np.concatenate([batch[1] for batch in batches]))
    assert [file.name for file in cache.iterdir()] == [NAME]  # nothing was extracted, nothing left over


def test_a_caller_may_change_what_it_got(published):
    pictures, classes = images.cifar10()
    pictures[:] = 0
    classes[:] = 0
    assert pictures.flags.c_contiguous


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("change", [damaged, lambda content: content[:-100], lambda content: b""])
@pytest.mark.parametrize("where", ["download", "cache"])
def test_a_damaged_or_truncated_archive_is_refused_and_removed(published, cache, change, where):
    path, _ = published
    wrong = change(path.read_bytes())
    cache.mkdir()
    (path if where == "download" else cache / NAME).write_bytes(wrong)
    with pytest.raises(RuntimeError) as error:
        images.cifar10()
    for part in (str(cache / NAME), hashlib.sha256(wrong).hexdigest(), cifar10.SHA256):
        assert part in str(error.value)
    assert list(cache.iterdir()) == []
    if where == "cache":  # the next call fetches it
        assert len(images.cifar10()[0]) == 8


@pytest.mark.parametrize("error", [urllib.error.URLError("no network in tests"), TimeoutError("timed out")])
def test_offline_it_says_what_to_do_in_one_line(cache, monkeypatch, error):
    def refuse(*args, **kwargs):
        raise error

    monkeypatch.setattr(cifar10.urllib.request, "urlopen", refuse)
    with pytest.raises(RuntimeError) as caught:
        images.cifar10()
    message = str(caught.value)
    assert "connect to the internet" in message and cifar10.URL in message and "\n" not in message
    assert f"put it at {cache / NAME}" in message
    assert list(cache.iterdir()) == []


def test_a_download_that_stops_half_way_leaves_nothing(published, cache, monkeypatch):
    def stop(source, target, size):
        target.write(source.read(50))
        raise KeyboardInterrupt

    monkeypatch.setattr(cifar10.shutil, "copyfileobj", stop)
    with pytest.raises(KeyboardInterrupt):
        images.cifar10()
    assert list(cache.iterdir()) == []


def test_another_split_is_refused(cache):
    with pytest.raises(ValueError, match="split must be one of train, test, got 'valid'"):
        images.cifar10("valid")


def test_network_input(rng):
    pictures = rng.integers(0, 256, (3, 3, 32, 32), np.uint8)
    x = images.cifar10_input(pictures[:, :, ::-1])
    assert x.dtype == np.float32 and x.shape == (3, 3, 32, 32) and x.flags.c_contiguous
    for channel, (mean, std) in enumerate(zip((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), strict=True)):
        expected = (pictures[:, channel, ::-1] / 255 - mean) / std
        np.testing.assert_allclose(x[:, channel], expected, atol=1e-5)


def test_what_is_no_picture_is_refused():
    with pytest.raises(ValueError, match=r"images must have shape \(N, 3, 32, 32\), got \(3, 32, 32\)"):
        images.cifar10_input(np.zeros((3, 32, 32), np.uint8))
    with pytest.raises(TypeError, match="images must be uint8, 0 … 255, got float32"):
        images.cifar10_input(np.zeros((1, 3, 32, 32), np.float32))
