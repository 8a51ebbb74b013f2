"""JPEG files decoded on the GPU, by torchvision's decode_jpeg (NVIDIA's nvJPEG), and resized there by a kernel of ours.

    decoder = GpuDecoder(task)
    batch = decoder.prepare(contents, size)         on threads of the host: what the GPU cannot decode is decoded here
    for logits in engine.run([batch]): batch.errors

The GPU decodes JPEG files in RGB or grey that stand upright; all other files Pillow decodes on the host. A decoder of
the GPU rounds otherwise than Pillow's, so scores differ a little; the kernel resizes as Pillow does.
"""

import importlib.util
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .. import cuda, images
from ..classify import Task
from ..cuda.arrays import is_native
from ..text import printable

SOURCE = Path(__file__).with_name("resize.cu")
THREADS = 128  # as in resize.cu
MOST_PIXELS = 256_000_000  # that are unpacked at a time: 768 MB, and as much to join them
ELONGATED = 50  # a longer side of so many times the shorter one
ORIENTATION = 0x0112  # a tag of EXIF: how the picture is to be turned

Decode = Callable[[Sequence[bytes]], list[Any]]  # JPEG files as arrays (3, H, W) uint8 of the backend


def available() -> bool:
    """Whether this machine can decode on a GPU: it has one, and torchvision."""
    return cuda.backend() == "gpu" and importlib.util.find_spec("torchvision") is not None


class GpuBatch:
    """A batch whose JPEG files are decoded on the device. errors: per picture, why it could not be read, or None."""

    def __init__(self, decoder: "GpuDecoder", size: int) -> None:
        self.decoder, self.size = decoder, size
        self.errors: list[str | None] = []
        self.jpegs: dict[int, tuple[bytes, int]] = {}  # by place in the batch, with its pixels
        self.packed: dict[int, np.ndarray] = {}  # what was decoded on the host
        self._kept: list[Any] = []  # device memory that is in use until the batch has been computed

    def write(self, out: Any) -> None:
        """Write the pictures (N, H, W, 3) uint8 into `out` on the device, in the caller's stream; zeros for others."""
        out[...] = 0
        for place in [place for place, (content, _) in self.jpegs.items() if not _ends(content)]:
            self._on_host(place)
        for group in _groups(self.jpegs):
            if self._kept:
                cuda.synchronize()  # the memory of the group before is given back
            decoded = self.decoder.decoded([self.jpegs[place][0] for place in group])
            found = dict(zip(group, decoded, strict=True))
            for place in [place for place, picture in found.items() if picture is None]:
                del found[place]
                self._on_host(place)  # Pillow reads it all the same, or says why not
            self._kept = self.decoder.resize(found, out) if found else []
        for place, packed in self.packed.items():
            out[place] = cuda.asarray(packed)

    def _on_host(self, place: int) -> None:
        self.errors[place], packed = _decoded_here(self.decoder.task, self.jpegs.pop(place)[0])
        if packed is not None:
            self.packed[place] = packed


def _groups(jpegs: dict[int, tuple[bytes, int]]) -> list[list[int]]:
    """The places of JPEG files that are decoded together: at most MOST_PIXELS, so that large ones fit into memory."""
    groups: list[list[int]] = []
    room = 0
    for place, (_, pixels) in jpegs.items():
        if pixels > room:
            groups.append([])
            room = MOST_PIXELS
        groups[-1].append(place)
        room -= pixels
    return groups


def _ends(content: bytes) -> bool:
    """Whether the last bytes of a JPEG file are there; a decoder of the GPU may draw half a picture without a word."""
    return content.rstrip(b"\0").endswith(b"\xff\xd9")


def _decoded_here(task: Task, content: bytes) -> tuple[str | None, np.ndarray | None]:
    """(None, the packed picture), or (the reason, None)."""
    try:
        return None, task.packed(images.decode(io.BytesIO(content)))
    except ValueError as error:  # ImageError is one
        return printable(error), None


class GpuDecoder:
    """Decodes and resizes the batches of a task.

    task: one whose pictures are normalised on the device. decode: default torchvision's, on this process's GPU.
    ValueError for the task that reads digits; RuntimeError without a GPU or without torchvision.
    """

    def __init__(self, task: Task, decode: Decode | None = None) -> None:
        if task.normalised_before:
            raise ValueError("pictures of digits are drawn anew on the host: they cannot be decoded on the GPU")
        if decode is None and not available():
            raise RuntimeError("pictures are decoded on the GPU only where there is one, and torchvision is installed")
        self.task = task
        self._decode = decode or _torchvision
        try:
            self._decode([_smallest()])  # what fails here fails for every file
        except RuntimeError as error:
            raise RuntimeError(printable(f"torchvision does not decode on this GPU: {error}")) from None
        self._kernel = cuda.RawKernel(SOURCE.read_text(encoding="utf-8"), "resize")

    def prepare(self, contents: Iterable[bytes | images.ImageError], size: int) -> GpuBatch:
        """A batch of `size` pictures, of which these are the first. Thread-safe."""
        batch = GpuBatch(self, size)
        for place, content in enumerate(contents):
            batch.errors.append(None)
            if isinstance(content, images.ImageError):
                batch.errors[place] = str(content)
            elif pixels := _pixels_for_gpu(content):
                batch.jpegs[place] = content, pixels
            else:
                batch.errors[place], packed = _decoded_here(self.task, content)
                if packed is not None:
                    batch.packed[place] = packed
        return batch

    def decoded(self, contents: Sequence[bytes]) -> list[Any]:
        """Each JPEG file as an array (3, H, W) on the device; None for those that the GPU's decoder refuses."""
        if not contents:
            return []
        try:
            return list(self._decode(contents))
        except RuntimeError:
            if len(contents) == 1:
                return [None]
        half = len(contents) // 2  # the others are decoded together
        return self.decoded(contents[:half]) + self.decoded(contents[half:])

    def resize(self, pictures: dict[int, Any], out: Any) -> list[Any]:
        """Resize and crop pictures (3, H, W) into out[place], (N, H, W, 3). Returns what the kernel still reads."""
        count, height, width, _ = out.shape
        places = np.full((count, 5), -1, np.int64)
        start = 0
        for place, picture in pictures.items():
            _, tall, wide = picture.shape
            places[place] = (start, tall, wide, *self._crop(tall, wide))
            start += 3 * tall * wide
        joined = _joined(list(pictures.values()))
        table = cuda.asarray(places)
        pixels = count * height * width
        scalars = [np.int32(n) for n in (pixels, height, width, self.task.shorter_side)]
        self._kernel((-(-pixels // THREADS),), (THREADS,), (joined, table, out, *scalars))
        return [joined, table]

    def _crop(self, tall: int, wide: int) -> tuple[int, int]:
        """The first row and column of the crop from a resized picture."""
        side, (height, width) = self.task.shorter_side, self.task.input_size
        rows, columns = side * tall // min(tall, wide), side * wide // min(tall, wide)
        return round((rows - height) / 2), round((columns - width) / 2)


def _pixels_for_gpu(content: bytes) -> int:
    """The pixels of a JPEG file that the GPU decodes as Pillow does; 0 for other files. Reads the file's head alone."""
    if not content.startswith(b"\xff\xd8"):
        return 0
    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            pixels = image.width * image.height
            fits = pixels <= min(Image.MAX_IMAGE_PIXELS or sys.maxsize, MOST_PIXELS)
            fits = fits and max(image.size) <= ELONGATED * min(image.size)
            upright = image.mode in ("L", "RGB") and image.getexif().get(ORIENTATION, 1) == 1
            return pixels if fits and upright else 0
    except Exception:  # anything: Pillow will say what
        return 0


def _smallest() -> bytes:
    """A JPEG file of a few pixels."""
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, "JPEG")
    return file.getvalue()


def _joined(pictures: Sequence[Any]) -> Any:
    """Pictures one after the other, uint8 on the device."""
    if is_native(pictures[0]):  # not torchvision's
        return cuda.asarray(np.concatenate([cuda.asnumpy(picture).ravel() for picture in pictures]))
    import cupy
    import torch

    joined = torch.cat([picture.flatten() for picture in pictures])
    torch.cuda.current_stream().synchronize()  # our stream is another one
    return cupy.from_dlpack(joined)


def _torchvision(contents: Sequence[bytes]) -> list[Any]:
    """JPEG files as tensors (3, H, W) on the current GPU. RuntimeError if one of them cannot be decoded."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    files = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in contents]
    return list(decode_jpeg(files, mode=ImageReadMode.RGB, device="cuda"))
