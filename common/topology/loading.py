"""Load an ONNX file as an onnx.ModelProto; size, encoding, version and external data are checked first."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from ..files import open_regular
from .errors import InvalidModel, UnsupportedModel
from .tensors import checked_size, element_type

MAX_FILE_BYTES = 2**31  # protobuf itself stops at 2 GiB
OLDEST_OPSET = 7


def load_model(source: str | os.PathLike | ModelProto) -> ModelProto:
    """The model of a file, including its external data; or `source` itself if it is a model.

    InvalidModel: not an ONNX file, truncated, over 2 GiB, or external data that are missing, too short or outside the
    model's folder. UnsupportedModel: operator set older than 7 or newer than the installed onnx package supports.
    OSError: the file cannot be opened, or is not a regular file.
    """
    if isinstance(source, ModelProto):
        check_header(source)
        return source
    path = Path(source)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise InvalidModel(f"{path} is empty")
        if size > MAX_FILE_BYTES:
            raise InvalidModel(f"{path} has {size} bytes, over the limit of {MAX_FILE_BYTES}")
        content = file.read(size)  # no more than `size`, even if the file grows meanwhile
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise InvalidModel(f"{path} is not an ONNX file, or is cut off") from error
    check_header(model)
    load_external_data(model, path.parent)
    return model


def check_header(model: ModelProto) -> None:
    """Raise InvalidModel for a model without a graph, versions or readable names; else errors as for opset_version."""
    if not model.HasField("graph") or not model.graph.node:
        raise InvalidModel("the model holds no graph of operators")
    if not model.ir_version:
        raise InvalidModel("the model names no version of ONNX (ir_version)")
    try:
        readable = all(isinstance(name, str) for name in names(model))
    except UnicodeDecodeError:
        readable = False
    if not readable:
        raise InvalidModel("a name in the model is not valid text")
    opset_version(model)


def names(model: ModelProto) -> Iterator[str | bytes]:
    """Yield every name that the reader uses; protobuf returns bytes for a name that is not UTF-8."""
    graph = model.graph
    yield graph.name
    for entry in model.opset_import:
        yield entry.domain
    for value in (*graph.input, *graph.output):
        yield value.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for tensor in stored_tensors(model):
        yield tensor.name
        for pair in tensor.external_data:
            yield from (pair.key, pair.value)


def opset_version(model: ModelProto) -> int:
    """The model's version of the standard operator set.

    InvalidModel unless there is exactly one; UnsupportedModel if it is older than OLDEST_OPSET or newer than the
    installed onnx package supports.
    """
    versions = {entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")}
    if len(versions) != 1:
        raise InvalidModel(f"the model names {len(versions)} versions of the standard operator set, not one")
    (version,) = versions
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= version <= newest:
        raise UnsupportedModel(f"operator set {version} is not between {OLDEST_OPSET} and {newest}")
    return version


def load_external_data(model: ModelProto, folder: Path) -> None:
    """Read the data of all external tensors into the model, from files in `folder`. Errors as for external_bytes."""
    total = 0
    for tensor in stored_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            content = external_bytes(tensor, folder, MAX_FILE_BYTES - total)
            total += len(content)
            tensor.raw_data = content
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]


def stored_tensors(model: ModelProto) -> list[TensorProto]:
    """The initializers, and the tensors among the nodes' attributes."""
    constants = [attribute.t for node in model.graph.node for attribute in node.attribute if attribute.HasField("t")]
    return [*model.graph.initializer, *constants]


def external_bytes(tensor: TensorProto, folder: Path, limit: int) -> bytes:
    """The data of an external tensor, up to `limit` bytes. InvalidModel unless a regular file in `folder` has it."""
    what = f"external data of tensor {tensor.name!r}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    needed = checked_size(tensor, what) * element_type(tensor.data_type, what).itemsize
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(needed)))
    except ValueError as error:
        raise InvalidModel(f"{what}: offset or length is not a number") from error
    if offset < 0 or length != needed:
        raise InvalidModel(f"{what}: {length} bytes at {offset}, where {needed} bytes are needed")
    if needed > limit:
        raise InvalidModel(f"{what}: all external data together have over {MAX_FILE_BYTES} bytes")

    location = entries.get("location", "")
    try:
        with open_regular(inside(folder, location, what)) as file:
            if offset + length > os.fstat(file.fileno()).st_size:
                raise InvalidModel(f"{what}: {location!r} ends before byte {offset + length}")
            file.seek(offset)
            content = file.read(length)
    except OSError as error:
        reason = error.strerror or str(error).rpartition(": ")[2]
        raise InvalidModel(f"{what}: cannot read {location!r} ({reason})") from error
    if len(content) != length:
        raise InvalidModel(f"{what}: {location!r} ends before byte {offset + length}")
    return content


def inside(folder: Path, location: str, what: str) -> Path:
    """`folder / location`. InvalidModel if that is outside the folder or passes through a symbolic link.

    what: the tensor, for the message.
    """
    windows = PureWindowsPath(location)
    parts = PurePosixPath(location).parts
    if not parts or "\0" in location or "\\" in location or windows.drive or location.startswith("/"):
        raise InvalidModel(f"{what}: {location!r} is not a relative path")
    if ".." in parts:
        raise InvalidModel(f"{what}: {location!r} leaves the model's folder")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise InvalidModel(f"{what}: {location!r} goes through a symbolic link")
    return path
