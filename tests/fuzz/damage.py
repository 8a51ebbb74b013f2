"""Damaged files of every kind that commands read, and a process in which they are read, bounded in time and memory.

python tests/fuzz/damage.py KIND SEED FIRST COUNT FOLDER reads COUNT cases from FIRST on and prints a line of JSON for
each; a case depends on KIND, SEED and its number alone. The file of a case is left in FOLDER until the next one.
"""

import contextlib
import copy
import io
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
R = np.random.Generator

MEGABYTE = 2**20
ENDED, HUNG = 3, 40  # a case is ended after so many times the seconds that it may take: of work, of anything
WARM = 10**9  # the number of the case that every process reads first, which counts for nothing
ADDRESS_SPACE = 4096 * MEGABYTE  # more than a process has when it begins


@dataclass(frozen=True)
class Kind:
    """A kind of file. cases: how many `make test-all` reads.

    make: writes a damaged case into an empty folder and returns what is to be read.
    read: reads it as the commands do, and says what came out in a word or two.
    refusals: names of the exceptions that are documented, besides OSError.
    seconds, memory: CPU time and bytes that a case may take.
    """

    cases: int
    make: Callable[[Path, R], Path]
    read: Callable[[Path], str]
    refusals: tuple[str, ...]
    seconds: float = 5
    memory: int = 256 * MEGABYTE


# Bytes


def damaged(content: bytes, r: R) -> bytes:
    """One to three mistakes in bytes: flipped, cut off, left out, put in, copied within, blanked."""
    made = bytearray(content)
    for _ in range(int(r.choice([1, 1, 2, 3]))):
        if not made:
            break
        start, length = int(r.integers(len(made))), int(2 ** (8 * r.random()))
        # a file's beginning and end say what the rest is
        start = int(r.choice([start, start, start % 64, max(0, len(made) - 1 - start % 64)]))
        match r.choice(["flip", "flip", "flip", "number", "cut", "drop", "insert", "copy", "blank"]):
            case "flip":
                made[start] ^= 1 << int(r.integers(8))
            case "number":
                edge = int(r.choice([0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1]))
                made[start : start + 4] = edge.to_bytes(4, str(r.choice(["little", "big"])))
            case "cut":
                del made[start:]
            case "drop":
                del made[start : start + length]
            case "insert":
                made[start:start] = r.integers(0, 256, length, dtype=np.uint8).tobytes()
            case "copy":
                source = int(r.integers(len(made)))
                made[start : start + length] = made[source : source + length]
            case _:
                made[start : start + length] = bytes(length)
    return bytes(made)


def one_of(r: R, choices: Any) -> Any:
    """A choice, of anything (Generator.choice would make an array of them)."""
    return choices[int(r.integers(len(choices)))]


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


# ONNX files

INTEGERS = (0, 1, 2, 3, 7, -1, -2, 64, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (0.0, 1.0, -1.0, 6.0, 1e-5, -1e-30, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "Conv", "a" * 3000, "\x1b[2J\n", "../../x", "größe", "\x00", "ai.onnx.ml", "NOTSET", "SAME_UPPER")


def valid_model(r: R) -> Any:
    """A model as an exporter writes it, or a random one."""
    import networks
    import topology_models as models

    opset = int(r.choice([9, 11, 13, 17, 18]))
    match int(r.integers(4)):
        case 0:
            head = one_of(r, ["gemm", "shape-chain", "mean-mean", "keras", "conv"])
            return models.mobilenet(opset, norm=bool(r.integers(2)), head=head, shape=(1, 3, 9, 8))
        case 1:
            return models.branches(opset) if r.integers(2) else models.nhwc(opset, keepdims=0)
        case _:
            return networks.draw(r).model


def messages(message: Any) -> Iterator[Any]:
    """A protobuf message and all within it."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_MESSAGE:
            for inner in value if not hasattr(value, "ListFields") else [value]:
                yield from messages(inner)


def change_field(model: Any, r: R) -> None:
    """Another value of any field of any message of the model, whether it was set or not."""
    everything = list(messages(model))
    kinds = sorted({type(message).__name__ for message in everything})
    kind = one_of(r, kinds)  # there are few graphs and many attributes
    message = one_of(r, [one for one in everything if type(one).__name__ == kind])
    present = [descriptor for descriptor, _ in message.ListFields()]
    descriptor = one_of(r, present if present and r.random() < 0.8 else list(message.DESCRIPTOR.fields))
    name, value = descriptor.name, getattr(message, descriptor.name)

    def another() -> Any:
        match descriptor.cpp_type:
            case descriptor.CPPTYPE_STRING if descriptor.type == descriptor.TYPE_BYTES:
                return damaged(bytes(r.integers(0, 256, int(r.integers(1, 40)), dtype=np.uint8)), r)
            case descriptor.CPPTYPE_STRING:
                names = [one.name for one in everything if hasattr(one, "name") and isinstance(one.name, str)]
                return one_of(r, [*TEXTS, *names, *names])
            case descriptor.CPPTYPE_FLOAT | descriptor.CPPTYPE_DOUBLE:
                return one_of(r, NUMBERS)
            case descriptor.CPPTYPE_ENUM:
                return one_of(r, descriptor.enum_type.values).number
            case _:
                return one_of(r, INTEGERS)

    with contextlib.suppress(ValueError, OverflowError):  # a number that the field does not hold
        if descriptor.cpp_type == descriptor.CPPTYPE_MESSAGE:
            like = [one for one in everything if one.DESCRIPTOR.full_name == descriptor.message_type.full_name]
            if not isinstance(value, type(message)) and hasattr(value, "add"):  # repeated
                content = copy.deepcopy(one_of(r, like)) if like else None  # before there is a new one within it
                change_list(value, r, lambda: value.add().CopyFrom(content) if content else None)
            elif r.integers(2) or not like:
                message.ClearField(name)
            else:
                value.CopyFrom(copy.deepcopy(one_of(r, like)))
        elif hasattr(value, "append"):
            if len(value) and r.integers(2):
                value[int(r.integers(len(value)))] = another()
            else:
                change_list(value, r, lambda: value.append(another()))
        elif descriptor.type == descriptor.TYPE_BYTES and value and r.integers(4):
            setattr(message, name, damaged(value, r))
        elif r.random() < 0.15:
            message.ClearField(name)
        else:
            setattr(message, name, another())


def change_list(values: Any, r: R, add: Callable[[], Any]) -> None:
    """One left out, one again, all left out, two exchanged, or a new one."""
    action = r.choice(["drop", "drop", "again", "clear", "exchange", "add"])
    if action == "add" or not len(values):
        add()
    elif action == "drop":
        del values[int(r.integers(len(values)))]
    elif action == "clear":
        del values[:]
    else:
        content = [copy.deepcopy(value) for value in values]
        i, j = (int(n) for n in r.integers(0, len(content), 2))
        if action == "again":
            content.insert(j, content[i])
        else:
            content[i], content[j] = content[j], content[i]
        del values[:]
        values.extend(content)


def change_wiring(model: Any, r: R) -> None:
    """A mistake of a graph as a whole: a cycle, a reader of nothing, a name twice, another operator or operator set."""
    from onnx import TensorProto, helper

    from common.topology.constants import FOLD
    from common.topology.operators import TRANSLATE

    graph = model.graph
    node = one_of(r, graph.node)
    outputs = [name for one in graph.node for name in one.output]
    everything = [*outputs, *(tensor.name for tensor in graph.initializer), *(value.name for value in graph.input)]
    kinds = [
        "cycle",
        "reader",
        "nothing",
        "twice",
        "operator",
        "operators",
        "shape",
        "dims",
        "nested",
        "output",
        "type",
    ]
    match one_of(r, kinds):
        case "cycle":
            node.input[:] = [*node.input[1:], one_of(r, list(node.output) or outputs)]
        case "reader" if node.input:
            node.input[int(r.integers(len(node.input)))] = one_of(r, everything)
        case "nothing" if node.input:
            node.input[int(r.integers(len(node.input)))] = one_of(r, ["", "nobody", "x"])
        case "twice":
            one_of(r, graph.node).output[:] = list(node.output)
        case "operator":
            node.op_type = one_of(r, sorted({*TRANSLATE, *FOLD, "If", "Loop", "Einsum", "Resize"}))
        case "operators":
            model.opset_import[0].version = int(r.choice([1, 6, 7, 9, 10, 11, 12, 13, 14, 17, 18, 21, 23, 99]))
        case "shape":
            dims = graph.input[0].type.tensor_type.shape.dim
            if dims:
                one_of(r, dims).dim_value = one_of(r, INTEGERS)
        case "dims" if graph.initializer:
            tensor = one_of(r, graph.initializer)
            dims = list(tensor.dims)
            if dims and r.integers(2):
                dims[int(r.integers(len(dims)))] = one_of(r, INTEGERS)
            else:
                dims = one_of(r, [dims[::-1], [*dims, 1], [1] * 70, [], [2**31] * 4, [0]])
            tensor.dims[:] = dims
        case "nested":
            for _ in range(int(r.choice([1, 3, 7]))):
                inner = helper.make_graph([copy.deepcopy(node)], "inner", [], [])
                node.op_type = one_of(r, ["If", node.op_type])
                del node.attribute[:]
                node.attribute.append(helper.make_attribute("then_branch", inner))
        case "output":
            graph.output[0].name = one_of(r, everything)
        case "type" if graph.initializer:
            tensor = one_of(r, graph.initializer)
            tensor.data_type = int(r.choice([*TensorProto.DataType.values(), 99]))


def damaged_bytes_of_onnx(folder: Path, r: R) -> Path:
    return written(folder, "bytes.onnx", damaged(valid_model(r).SerializeToString(), r))


def changed_onnx(change: Callable[[Any, R], None]) -> Callable[[Path, R], Path]:
    def make(folder: Path, r: R) -> Path:
        model = valid_model(r)
        for _ in range(int(r.choice([1, 1, 2, 4]))):
            if model.HasField("graph") and model.graph.node:
                change(model, r)
        return written(folder, "changed.onnx", model.SerializeToString())

    return make


SECRET = 1234.5  # what every number outside of a model's folder is


def external_onnx(folder: Path, r: R) -> Path:
    """A tensor in another file, which is inside or outside of the model's folder, whole or not."""
    from onnx import TensorProto, numpy_helper

    model = valid_model(r)
    while not model.graph.initializer:
        model = valid_model(r)
    inside = folder / "model"
    (inside / "below").mkdir(parents=True)
    tensor = one_of(r, model.graph.initializer)
    content = np.ascontiguousarray(numpy_helper.to_array(tensor)).tobytes()
    secret = np.full(len(content), SECRET, np.float32).tobytes()
    (folder / "secret").write_bytes(secret)
    (inside / "data").write_bytes(damaged(content, r) if r.random() < 0.3 else content)
    (inside / "below" / "data").write_bytes(content + content)
    (inside / "link").symlink_to("../secret")
    (inside / "folder-link").symlink_to("..")
    (inside / "loop").symlink_to("loop")
    os.mkfifo(inside / "pipe")
    place = one_of(
        r,
        [
            *(16 * ["data"] + 8 * ["below/data"]),
            *("./data", "../secret", "below/../../secret", str(folder / "secret"), "..\\secret", "C:\\data"),
            *("link", "folder-link/secret", "loop", "pipe", "below", "", ".", "none", "data\0"),
            *("file://data", "~", "a" * 300, "\x1b[2J"),
        ],
    )
    for name in ("raw_data", "float_data", "int64_data"):
        tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": place}
    if r.random() < 0.3:
        entries["offset"] = str(one_of(r, [0, 0, 1, len(content), *INTEGERS, "0x0", "", "٣"]))
    if r.random() < 0.3:
        entries["length"] = str(one_of(r, [len(content), len(content), len(content) - 1, *INTEGERS, "1e3"]))
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return written(inside, "model.onnx", model.SerializeToString())


def read_onnx(path: Path) -> str:
    """The layers; and where these are small, what they compute, which is to be what ONNX Runtime makes of the file."""
    import networks

    from common import topology
    from common.network import Network

    graph, parameters = topology.read_onnx_with_parameters(path)
    str(graph)
    assert not any((array == SECRET).all() for array in parameters.values() if array.size), "read from outside"
    if len(graph.input_shape) != 4:
        return "read, takes no pictures"
    size = max(sum(layer.activation_bytes() for layer in graph), math.prod(graph.input_shape))
    if size > MEGABYTE or sum(layer.macs for layer in graph) > 2 * 10**7:
        return "read, too large to run here"
    model = topology.load_model(path)
    way = list(networks.WAYS.values())[zlib.crc32(path.read_bytes()) % len(networks.WAYS)]
    x = 3 * np.random.default_rng(0).standard_normal(graph.input_shape, dtype=np.float32)
    got = Network(model, **way)(x)
    told("ONNX Runtime")
    try:
        return networks.judge(model, x, got)
    finally:
        told("")


# Weights


def arrays(r: R) -> dict[str, np.ndarray]:
    types = (np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16)
    shapes = ((), (3,), (4, 3, 3, 3), (0,), (2, 5), (16, 1, 3, 3))
    return {
        f"features.{i}.weight": (100 * r.standard_normal(one_of(r, shapes))).astype(one_of(r, types))
        for i in range(int(r.integers(1, 5)))
    }


def damaged_npz(folder: Path, r: R) -> Path:
    file = io.BytesIO()
    (np.savez_compressed if r.integers(2) else np.savez)(file, **arrays(r))
    return written(folder, "weights.npz", damaged(file.getvalue(), r))


def crafted_npz(folder: Path, r: R) -> Path:
    """A .npz whose zip archive is whole, and whose entries are not what they should be."""
    path = folder / "weights.npz"
    with zipfile.ZipFile(path, "w", one_of(r, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, array in arrays(r).items():
            stream = io.BytesIO()
            np.save(stream, array)
            content = stream.getvalue()
            match int(r.integers(6)):
                case 0:
                    content = damaged(content, r)
                case 1:  # another header of the same length
                    old = one_of(r, [b"'fortran_order'", b"False", b"<f", b"'shape'", b"(3,)", b"(", b"{", b"1"])
                    new = one_of(r, [b"True", b"|O", b">f8", b"(99999999999,)", b"(-1,)", b"__import__('os')", b"[[["])
                    content = content.replace(old, new)[: len(content)]
                case 2:  # a pickle that would leave a trace
                    stream = io.BytesIO()
                    np.save(stream, np.array([_Trace(folder / "ran")], object), allow_pickle=True)
                    content = stream.getvalue()
                case 3:  # a header that promises more than there is
                    stream = io.BytesIO()
                    shape = one_of(r, [(2**31,), (2**40,), (2**20, 2**20), (2**62, 4), (0, 2**62), (1,) * 40])
                    np.lib.format.write_array_header_2_0(
                        stream,
                        {"shape": shape, "fortran_order": False, "descr": one_of(r, ["<f4", "<f8", "|S9", "<c8"])},
                    )
                    content = stream.getvalue() + bytes(100)
                case 4:
                    content = bytes(int(r.choice([0, 10, 30 * MEGABYTE])))
            name = one_of(r, [name, name, name, "../outside", "/outside", "a" * 3000, "\x1b[2J", "ö", ""])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a name twice
                for _ in range(1 + (r.random() < 0.1)):
                    archive.writestr(name + one_of(r, [".npy", ".npy", ".npy", ".txt", "."]), content)
    return path


class _Trace:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self) -> tuple:
        return (open, (self.path, "w"))


def read_npz(path: Path) -> str:
    """`weights check`, but for the network."""
    from common import weights
    from common.text import printable

    try:
        found = weights.load(path)
    finally:
        assert not (path.parent / "ran").exists(), "a pickle ran"
        assert not (path.parents[1] / "outside.npy").exists(), "written outside"
    assert sum(array.nbytes for array in found.values()) <= weights.files.MAX_BYTES
    assert all(array.dtype.kind in "fiu" and array.dtype.isnative for array in found.values())
    for name in found:
        printable(name)
    return "read"


# Pictures

SUFFIXES = ("png", "png", "jpg", "jpg", "gif", "bmp", "tif", "webp", "ico", "ppm", "pcx", "tga", "jp2", "avif", "mpo")


@cache
def picture(suffix: str, mode: str) -> bytes:
    """A small picture that Pillow writes; of PNG where it writes none of the kind in this mode."""
    from PIL import Image

    y, x = np.mgrid[0:24, 0:31]
    image = Image.fromarray(np.stack([x * 8, y * 9, x * y % 256], -1).astype(np.uint8)).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6
    for chosen in (suffix, "png", "tif"):
        file = io.BytesIO()
        with contextlib.suppress(OSError, KeyError, ValueError):
            options: dict[str, Any] = {"exif": exif} if chosen in ("jpg", "png", "webp") else {}
            kind = Image.registered_extensions()[f".{chosen}"]
            image.save(file, kind, **options)
            return file.getvalue()
    raise AssertionError(f"Pillow writes no picture of mode {mode}")


def damaged_picture(folder: Path, r: R) -> Path:
    from PIL import Image

    Image.init()
    suffix, mode = one_of(r, SUFFIXES), one_of(r, ["RGB", "RGB", "L", "P", "1", "RGBA", "LA", "CMYK", "I;16", "I", "F"])
    content = picture(suffix, mode)
    change = damaged_png if content.startswith(b"\x89PNG") and r.integers(2) else damaged
    return written(folder, f"picture.{suffix}", change(content, r))


def damaged_png(content: bytes, r: R) -> bytes:
    """Chunks left out, twice, exchanged or with another content, their checksums right again."""
    chunks, at = [], 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    i, j = (int(n) for n in r.integers(0, len(chunks), 2))
    match int(r.integers(5)):
        case 0:
            del chunks[i]
        case 1:
            chunks.insert(i, chunks[j])
        case 2:
            chunks[i], chunks[j] = chunks[j], chunks[i]
        case 3:  # width and height
            size = [int(n) for n in r.choice([0, 1, 31, 5000, 9000, 2**16, 2**31 - 1], 2)]
            chunks[0] = (chunks[0][0], b"".join(n.to_bytes(4, "big") for n in size) + chunks[0][1][8:])
        case _:
            chunks[i] = (chunks[i][0], damaged(chunks[i][1], r))
    made = content[:8]
    for kind, data in chunks:
        made += len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    return made


def read_picture(path: Path) -> str:
    """What `classify` and `images pack` feed to a network."""
    from common import images

    image = images.read(path)
    assert image.mode == "RGB"
    x = images.to_input(image, 32, 36)
    assert x.shape == (1, 3, 32, 32) and x.dtype == np.float32 and np.isfinite(x).all()
    return "read"


# JSON: tuned tiles, a learner's folder


def change_json(value: Any, r: R) -> Any:
    """The value with another one in one place."""
    if isinstance(value, dict) and value and r.random() < 0.95:
        key = one_of(r, list(value))
        made = dict(value)
        match int(r.integers(8)):
            case 0:
                del made[key]
            case 1:
                made[one_of(r, ["", "0", "-1", "x", "\ud800", "\x1b[2J", "99"])] = made.pop(key)
            case _:
                made[key] = change_json(value[key], r)
        return made
    if isinstance(value, list) and value and r.random() < 0.7:
        i = int(r.integers(len(value)))
        return [*value[:i], change_json(value[i], r), *value[i + 1 :]]
    nested: Any = []
    for _ in range(200):
        nested = [nested]
    others = (None, True, 0, -1, 1, 10**30, 0.5, float("nan"), float("inf"), "", "x" * 3000, "\x1b[2J", [], {}, nested)
    return one_of(r, others)


def damaged_json(value: Any, r: R) -> bytes:
    match int(r.integers(6)):
        case 0 | 1:
            return damaged(json.dumps(value, indent=1).encode(), r)
        case 2 if r.random() < 0.1:
            return one_of(r, [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xff\xfe[]", b"", b"null", b"[]"])
        case _:
            for _ in range(int(r.integers(1, 4))):
                value = change_json(value, r)
            return json.dumps(value, indent=1).encode()


@cache
def tuned() -> tuple[Any, bytes]:
    """A block, and a file of tiles that knows it, for this machine."""
    import tempfile

    from common.optimize.generate import Block
    from common.optimize.tiles import Found, Problem, remember, rule

    block = Block(14, 14, 16, 96, 16)
    problem = Problem(block, 1, "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = remember(
            [Found(problem, rule(block, 1, 4), us=1.0, unfused_us=2.0, predicted_us=1.0)], Path(folder, "t")
        )
        return block, json.loads(path.read_bytes())


def damaged_tiles(folder: Path, r: R) -> Path:
    from common.optimize.tiles import cache_path

    with _cache(folder):
        return written(folder, cache_path().name, damaged_json(tuned()[1], r))


@contextlib.contextmanager
def _cache(folder: Path) -> Iterator[None]:
    before = os.environ.get("COURSE_CACHE", "")
    os.environ["COURSE_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ["COURSE_CACHE"] = before


def read_tiles(path: Path) -> str:
    """What Network(..., optimize=...) asks; a file that does not count is told of in one line, and left aside."""
    from common.optimize.tiles import chosen

    with _cache(path.parent), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tile = chosen(tuned()[0], 1, "float32")
    if tile is not None:
        sizes = {name: value for name, value in vars(tile).items() if name != "arithmetic"}
        assert all(isinstance(n, int) and n >= 0 for n in sizes.values()) and tile.arithmetic == "tf32x3", tile
    for warning in caught:
        assert str(warning.message).isprintable(), f"a warning of several lines: {warning.message}"
    return "left aside" if caught else "read"


NOTEBOOK = """{"cells": [
 {"cell_type": "markdown", "metadata": {}, "source": ["# One: a title\\n", "text"]},
 {"cell_type": "code", "execution_count": null, "metadata": {"tags": ["exercise-add"]}, "outputs": [],
  "source": ["check.predict(\\"guess\\", 3)"]}],
 "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
"""


def damaged_work(folder: Path, r: R) -> Path:
    """A repository of one notebook, and a learner's folder in which one file is damaged."""
    from common.check import copies
    from common.lab import progress

    source = "01_one/1_one.ipynb"
    (folder / "01_one").mkdir()
    (folder / "README.md").write_text("# Course\n")
    (folder / source).write_text(NOTEBOOK.replace("exercise-add", "none"))
    work = folder / "work"
    copies.update(work, folder)
    shutil.copy(work / source, folder / "pristine")
    entries = {
        "exercises": {"add": {"passed": True, "tries": 2, "hints": 1}},
        "predictions": {"guess": {"chapter": "01", "guess": 3.0, "unit": "s", "truth": 4.0}},
        "engine": {"graph.py": "reference"},
        "milestones": {"1": {"passed": True, "reference_files": ["graph.py"]}},
    }
    (work / progress.FILE).write_text(json.dumps(entries))
    damage = one_of(r, [progress.FILE, progress.FILE, copies.STATE, source])
    path = work / damage
    path.write_bytes(damaged_json(json.loads(path.read_text()), r))
    if r.integers(2):  # a newer source
        (folder / source).write_text(NOTEBOOK.replace("exercise-add", "none").replace("text", "a newer text"))
    return work


def read_work(work: Path) -> str:
    """`lab --no-open` and `progress`: nothing of the learner's is lost."""
    from common.check import copies, start
    from common.lab import progress

    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    copies.update(work, work.parent)
    start.page(work, work.parent)
    start.table(work.parent, work)
    held = [path.read_bytes() for path in work.rglob("*") if path.is_file()]
    lost = [
        path for path, content in before.items() if content not in held and path.name not in (copies.STATE, "START.md")
    ]
    untouched = copies.digest((work.parent / "pristine").read_text(), ".ipynb")
    for path in lost:  # a notebook that nobody has touched is renewed
        text = before[path].decode(errors="replace")
        assert path.suffix == ".ipynb" and copies.digest(text, ".ipynb") == untouched, f"lost: {path.name}"
    return "set aside" if (work / f"{progress.FILE}.unreadable").exists() else "read"


# A reader with every fault, to try what notices them

FAULTS = ("none", "abort", "none", "loop", "wait", "memory", "KeyError", "two lines", "refusal", "none")


def planted(folder: Path, r: R) -> Path:
    return written(folder, "planted", bytes(r.integers(0, 256, 8, dtype=np.uint8)))


def read_planted(path: Path) -> str:
    match FAULTS[int(path.with_suffix(".number").read_text()) % len(FAULTS)]:
        case "abort":
            os.abort()
        case "loop":
            while True:
                pass
        case "wait":
            time.sleep(1000)
        case "memory":
            bytearray(60 * MEGABYTE)
        case "KeyError":
            raise KeyError("x")
        case "two lines":
            raise ValueError("two lines,\nof which no message is made")
        case "refusal":
            raise ValueError("a refusal in one line")
    return "read"


# The kinds

OF_MODELS = ("InvalidModel", "UnsupportedModel")
KINDS: dict[str, Kind] = {
    "onnx-bytes": Kind(2500, damaged_bytes_of_onnx, read_onnx, OF_MODELS),
    "onnx-fields": Kind(3000, changed_onnx(change_field), read_onnx, OF_MODELS),
    "onnx-wiring": Kind(2500, changed_onnx(change_wiring), read_onnx, OF_MODELS),
    "onnx-external": Kind(600, external_onnx, read_onnx, OF_MODELS),
    "npz-bytes": Kind(1000, damaged_npz, read_npz, ("ValueError",)),
    "npz-entries": Kind(600, crafted_npz, read_npz, ("ValueError",)),
    "pictures": Kind(2000, damaged_picture, read_picture, ("ImageError",), memory=1024 * MEGABYTE),
    "tiles": Kind(1000, damaged_tiles, read_tiles, ()),
    "work": Kind(800, damaged_work, read_work, ("ValueError",)),
    "planted": Kind(0, planted, read_planted, ("ValueError",), seconds=0.1, memory=30 * MEGABYTE),
}


# A case, and the process that reads cases

_protocol: Any = None


def told(stage: str) -> None:
    """Let the process that waits know what is going on: the end of this one counts as `stage`'s, not as ours."""
    if _protocol is not None:
        print(json.dumps({"stage": stage}), file=_protocol, flush=True)


def refused(error: Exception, kind: Kind) -> str:
    """The name of a documented refusal; AssertionError where there is none, or where it is not one printable line."""
    name, message = type(error).__name__, str(error)
    if isinstance(error, OSError):
        return "OSError"
    if name not in kind.refusals:
        raise AssertionError(f"raised {name}: {message[:300]}") from error
    if not message.isprintable() or not 10 < len(message) < 5000:
        raise AssertionError(f"{name}, expected one printable line, got {message[:300]!r}")
    return name


def generator(name: str, seed: int, number: int) -> R:
    """What a case is drawn from."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), number])


def attempt(name: str, seed: int, number: int, folder: Path) -> dict[str, Any]:
    """Make and read one case: its number, outcome, CPU seconds, and what is wrong, if something is."""
    kind = KINDS[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = kind.make(folder, generator(name, seed, number))
    if name == "planted":
        path.with_suffix(".number").write_text(str(number))
    start, outcome, wrong = time.process_time(), "", ""
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome = kind.read(path)
        except Exception as error:
            outcome = refused(error, kind)
    except AssertionError as error:
        outcome, wrong = "wrong", str(error) or repr(error)
    seconds = time.process_time() - start
    if seconds > kind.seconds:
        wrong = wrong or f"took {seconds:.1f} s"
    return {"case": number, "outcome": outcome, "seconds": seconds, "wrong": wrong}


def memory(what: str) -> int:
    """Bytes of memory that this process holds ("VmRSS"), or has held at most ("VmHWM"; not what its parent has)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return 1024 * int(line.split()[1])


def serve(name: str, seed: int, first: int, count: int, folder: Path) -> None:
    """Read cases and print what became of each, until one ends the process."""
    global _protocol
    _protocol = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.path[:0] = [str(TESTS / "topology")]
    signal.setitimer(signal.ITIMER_PROF, 60)  # these signals end the process
    signal.setitimer(signal.ITIMER_REAL, 600)
    attempt(name, 0, WARM, folder)  # what is imported, compiled and cached counts for no case
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, first + count):
        signal.setitimer(signal.ITIMER_PROF, ENDED * KINDS[name].seconds)
        signal.setitimer(signal.ITIMER_REAL, HUNG * KINDS[name].seconds)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = memory("VmRSS")
        line = attempt(name, seed, number, folder)
        line["bytes"] = memory("VmHWM") - before
        if line["bytes"] > KINDS[name].memory:
            line["wrong"] = f"{line['wrong']}, " * bool(line["wrong"]) + f"took {line['bytes'] / MEGABYTE:.0f} MiB"
        print(json.dumps(line), file=_protocol, flush=True)


@dataclass
class Summary:
    """What became of the cases of a kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)  # CPU seconds, case
    largest: tuple[int, int] = (0, -1)  # bytes, case
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        listed = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.most_common())
        return (
            f"{listed}; {self.seconds:.0f} CPU s, the slowest {self.slowest[0]:.2f} s (case {self.slowest[1]}), "
            f"the largest {self.largest[0] / MEGABYTE:.0f} MiB more (case {self.largest[1]})"
        )


def run(name: str, seed: int, cases: range, folder: Path, batch: int = 500) -> Summary:
    """Read the cases in processes of `batch` cases; a crash costs the case that it happens in. Wrong ones are kept."""
    summary, number = Summary(), cases.start
    while number < cases.stop:
        here = folder / "case"
        command = [
            sys.executable,
            __file__,
            name,
            *map(str, (seed, number, min(batch, cases.stop - number))),
            str(here),
        ]
        path = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
        )
        output, errors = process.communicate()
        stage, ended = "", number + min(batch, cases.stop - number)
        for line in map(json.loads, output.splitlines()):
            if "stage" in line:
                stage = line["stage"]
                continue
            number = line["case"] + 1
            summary.outcomes[line["outcome"]] += 1
            summary.seconds += line["seconds"]
            summary.slowest = max(summary.slowest, (line["seconds"], line["case"]))
            summary.largest = max(summary.largest, (line["bytes"], line["case"]))
            if line["wrong"]:
                summary.wrong.append(
                    f"{name}, case {line['case']}: {line['wrong']}{kept(name, seed, line['case'], folder)}"
                )
        if number < ended:
            reason = f"ended with {process.returncode}: {errors.strip()[-300:]}"
            if process.returncode < 0:
                reason = f"was ended by {signal.Signals(-process.returncode).name}"
            if stage:
                summary.outcomes[f"{stage} {reason}"] += 1
            else:
                summary.outcomes["wrong"] += 1
                summary.wrong.append(f"{name}, case {number}: {reason}{kept(name, seed, number, folder)}")
            number += 1
    return summary


def kept(name: str, seed: int, number: int, folder: Path) -> str:
    """Make the case once more, in a folder of its own; where that is, and how to read it again, in words."""
    place = folder / f"{name}-{number}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = KINDS[name].make(place, generator(name, seed, number))
    return f"\n    {path}, made by: python tests/fuzz/damage.py {name} {seed} {number} 1 FOLDER"


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))
