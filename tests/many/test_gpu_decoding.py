"""Pictures that are decoded and resized on the device, as on the host. Without a GPU Pillow stands for its decoder."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest
from nvrtc import compile_with_nvrtc
from PIL import Image
from small_task import SIZE, draw_pictures, small_task

from common import classify, cuda, images
from common.many import gpu_decoding, labelling
from common.many.gpu_decoding import GpuDecoder
from common.many.labelling import Work


def by_pillow(contents):
    """JPEG files as arrays of the backend, (3, H, W); RuntimeError, as of torchvision, if one is damaged."""
    found = []
    for content in contents:
        try:
            pixels = np.asarray(images.decode(io.BytesIO(content)))
        except ValueError as error:
            raise RuntimeError(error) from None
        found.append(cuda.asarray(np.ascontiguousarray(pixels.transpose(2, 0, 1))))
    return found


@pytest.fixture
def task():
    return small_task()


@pytest.fixture
def pillow(monkeypatch):
    """Stands for torchvision."""
    monkeypatch.setattr(gpu_decoding, "available", lambda: True)
    monkeypatch.setattr(gpu_decoding, "_torchvision", by_pillow)


def jpeg(rng, height, width, **options):
    small = Image.fromarray(rng.integers(0, 256, (height // 3 + 1, width // 3 + 1, 3), np.uint8))
    file = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", **options)
    return file.getvalue()


def on_device(decoder, contents, size):
    """(the pixels of a batch, its errors)."""
    batch = decoder.prepare(contents, size)
    out = cuda.asarray(np.full((size, SIZE, SIZE, 3), 7, np.uint8))
    batch.write(out)
    return cuda.asnumpy(out), batch.errors


SHAPES = [(40, 50), (32, 32), (33, 61), (375, 500), (20, 21), (37, 37), (700, 900), (1300, 1000), (2, 3)]


def test_a_picture_is_resized_as_pillow_does(task, rng):
    contents = [jpeg(rng, *shape) for shape in SHAPES]
    found, errors = on_device(GpuDecoder(task, by_pillow), contents, len(SHAPES) + 1)
    assert errors == [None] * len(SHAPES) and not found[-1].any()
    for pixels, content in zip(found, contents, strict=False):
        np.testing.assert_array_equal(pixels, task.packed(images.decode(io.BytesIO(content))))


def test_a_high_picture_is_within_a_level_of_pillows(task, rng):
    """Pillow resizes columns first there, and so rounds otherwise."""
    content = jpeg(rng, 200, 64)
    found, _ = on_device(GpuDecoder(task, by_pillow), [content], 1)
    off = np.abs(found[0].astype(int) - task.packed(images.decode(io.BytesIO(content))))
    assert off.max() <= 1


def test_what_the_gpu_does_not_decode_is_decoded_on_the_host(task, rng):
    """PNG, CMYK, a turned picture; and what is broken has Pillow's reason."""
    whole = jpeg(rng, 50, 60)
    turned = Image.Exif()
    turned[gpu_decoding.ORIENTATION] = 6
    png, cmyk = io.BytesIO(), io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (40, 44, 3), np.uint8)).save(png, "PNG")
    Image.fromarray(rng.integers(0, 256, (40, 44, 4), np.uint8), "CMYK").save(cmyk, "JPEG")
    damaged = whole[:300] + bytes(len(whole) - 302) + whole[-2:]
    contents = [whole, png.getvalue(), cmyk.getvalue(), jpeg(rng, 50, 60, exif=turned), whole[:-200], damaged, b"text"]
    contents.append(images.ImageError("no such file"))
    asked = []

    def counting(given):
        asked.append(len(given))
        return by_pillow(given)

    found, errors = on_device(GpuDecoder(task, counting), contents, 8)
    work = Work(task, 8, "fp32")

    class Given:
        def read(self):
            return iter(contents)

    expected = work.decode(0, Given())
    assert errors == expected.errors and sum(error is not None for error in errors) >= 3
    np.testing.assert_array_equal(found, expected.packed)
    assert asked[0] == 1 and max(asked) <= 2  # the first one is a trial


def test_large_pictures_are_unpacked_a_few_at_a_time(task, rng, monkeypatch):
    monkeypatch.setattr(gpu_decoding, "MOST_PIXELS", 5000)
    contents = [jpeg(rng, 50, 60) for _ in range(4)]
    asked = []

    def counting(given):
        asked.append(len(given))
        return by_pillow(given)

    found, _ = on_device(GpuDecoder(task, counting), contents, 4)
    assert asked == [1, 1, 1, 1, 1]
    for pixels, content in zip(found, contents, strict=True):
        np.testing.assert_array_equal(pixels, task.packed(images.decode(io.BytesIO(content))))


def test_the_file_has_the_rows_of_decoding_on_the_host(task, pillow, rng, tmp_path):
    folder = draw_pictures(tmp_path / "in", 21, rng, form="jpg")
    (folder / "00003.jpg").write_bytes((folder / "00003.jpg").read_bytes()[:400])
    (folder / "00008.jpg").write_text("not a picture")
    host = labelling.label([str(folder)], tmp_path / "host.parquet", task, batch=4)
    device = labelling.label([str(folder)], tmp_path / "device.parquet", task, batch=4, decode_on="gpu")
    assert (device.pictures, device.unread) == (host.pictures, host.unread) == (21, 2)
    rows = [pq.read_table(tmp_path / name).to_pylist() for name in ("host.parquet", "device.parquet")]
    assert rows[0] == rows[1]


def test_parts_of_the_two_ways_are_not_mixed(task, pillow, rng, tmp_path):
    folder = draw_pictures(tmp_path / "in", 4, rng, form="jpg")

    def ends(work, parts):
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        labelling.label([str(folder)], tmp_path / "out.parquet", task, way=ends)
    with pytest.raises(ValueError, match="another value of 'decode'"):
        labelling.label([str(folder)], tmp_path / "out.parquet", task, decode_on="gpu")


def test_without_a_gpu_or_for_digits_it_is_refused_in_a_sentence(task, monkeypatch):
    monkeypatch.setattr(gpu_decoding, "available", lambda: False)
    with pytest.raises(RuntimeError, match="only where there is one, and torchvision is installed"):
        GpuDecoder(task)
    with pytest.raises(ValueError, match="drawn anew on the host"):
        GpuDecoder(classify.task("digits"), by_pillow)


def test_a_decoder_that_always_fails_is_an_error_and_not_a_slow_run(task):
    def broken(contents):
        raise RuntimeError("nvJPEG is not there\nsecond line")

    with pytest.raises(RuntimeError, match="does not decode on this GPU: nvJPEG is not there"):
        GpuDecoder(task, broken)


def test_the_command_refuses_other_places(invoke):
    refused = invoke("label", "x", "-o", "y.parquet", "--decode", "tpu")
    assert refused.exit_code == 2 and "--decode: must be cpu or gpu, got 'tpu'" in refused.stderr


@pytest.mark.parametrize("card", ["sm_80", "sm_90"])
def test_nvrtc_compiles_what_runs_around_the_network(card):
    folder = gpu_decoding.SOURCE.parent
    assert compile_with_nvrtc((folder / "resize.cu").read_text(encoding="utf-8"), card) is None
    normalise = (folder / "normalise.cu").read_text(encoding="utf-8")
    for scalar in ("float", "__half"):
        assert compile_with_nvrtc(normalise, card, (f"-Dscalar_t={scalar}",)) is None


@pytest.mark.skipif(not gpu_decoding.available(), reason="it needs a GPU and torchvision")
def test_the_gpus_decoder_is_close_to_pillows(task, rng):
    def off(**options):
        """Mean distance from Pillow's pixels, of each picture of noise."""
        contents = [jpeg(rng, *shape, quality=90, **options) for shape in SHAPES[:-1]]
        found, errors = on_device(GpuDecoder(task), contents, len(contents))
        assert errors == [None] * len(contents)
        pillows = [task.packed(images.decode(io.BytesIO(content))).astype(int) for content in contents]
        return [np.abs(pixels - pillow).mean() for pixels, pillow in zip(found, pillows, strict=True)]

    assert max(off(subsampling=0)) < 2
    # Colours at half the size: Pillow interpolates between them, nvJPEG repeats them, which noise shows most.
    assert max(off(subsampling=2)) < 12
