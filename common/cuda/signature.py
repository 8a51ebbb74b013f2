"""The parameters of a kernel, read from its source, and the check of a launch's arguments against them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    `type` is NumPy's name of the element type ("float32"), with "x4" behind it for float4 and its relatives,
    "void" for `void*`, or None for a type that NumPy does not know (a structure, a template's parameter).
    `size` is the size of the value, or of what the pointer points to, in bytes; 0 if unknown.
    """

    name: str
    type: str | None
    pointer: bool
    constant: bool = False
    size: int = 0

    @property
    def element(self) -> np.dtype | None:
        if self.type in (None, "void"):
            return None
        return np.dtype(self.type.split("x")[0])

    def __str__(self) -> str:
        return f"{self.type or 'structure'}{' array' if self.pointer else ''}"


_SCALARS = {
    "bool": "bool", "char": "int8", "signed char": "int8", "unsigned char": "uint8",
    "short": "int16", "unsigned short": "uint16", "int": "int32", "signed": "int32", "signed int": "int32",
    "unsigned": "uint32", "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64",
    "long long": "int64", "unsigned long long": "uint64", "long int": "int64", "long long int": "int64",
    "unsigned long int": "uint64", "unsigned long long int": "uint64", "size_t": "uint64",
    "ptrdiff_t": "int64",
    "float": "float32", "double": "float64", "half": "float16", "__half": "float16",
    "half2": "float16x2", "__half2": "float16x2", "float2": "float32x2", "float4": "float32x4",
    "double2": "float64x2", "int2": "int32x2", "int4": "int32x4", "uint2": "uint32x2", "uint4": "uint32x4",
    "char2": "int8x2", "char4": "int8x4", "uchar2": "uint8x2", "uchar4": "uint8x4", "void": "void",
}  # fmt: skip


def without_comments(source: str) -> str:
    """The source with comments and string literals blanked; every character keeps its line."""

    def blank(match: re.Match) -> str:
        text = match.group()
        return text if text.startswith(('"', "'")) else re.sub(r"[^\n]", " ", text)

    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, source, flags=re.S)


_INNER = r"[^()]*(?:\([^()]*\)[^()]*)*"
_ATTRIBUTES = rf"(?:__(?:launch_bounds|cluster_dims)__\s*\({_INNER}\)\s*)*"
_KERNEL = re.compile(
    r"(?P<template>template\s*<[^{};]*>\s*)?"
    r"(?P<c>extern\s*\"C\"\s*)?"
    rf"(?P<attributes>{_ATTRIBUTES}(?:static\s+|inline\s+)*__global__\s+{_ATTRIBUTES}void\s+{_ATTRIBUTES})"
    r"(?P<name>\w+)\s*\((?P<parameters>[^(){}]*(?:\([^()]*\)[^(){}]*)*)\)"
)


@dataclass(frozen=True)
class Declaration:
    """A kernel as it stands in the source. cluster: what stands in __cluster_dims__, "SPLIT, 1, 1"; "" without it."""

    name: str
    parameters: tuple[Parameter, ...]
    template: bool
    extern_c: bool
    cluster: str = ""


def declarations(source: str, macros: dict[str, str] | None = None) -> dict[str, Declaration]:
    """Every kernel that `source` defines, by name. `macros` are -D options, which may name types."""
    text = without_comments(source)
    in_c_block = re.search(r'extern\s*"C"\s*\{', text) is not None
    found = {}
    for match in _KERNEL.finditer(text):
        inner = match["parameters"].strip()
        pieces = [] if inner in ("", "void") else _split(inner)
        found[match["name"]] = Declaration(
            match["name"],
            tuple(_parameter(piece, macros or {}) for piece in pieces),
            template=match["template"] is not None,
            extern_c=match["c"] is not None or in_c_block,
            cluster=_cluster(match["attributes"]),
        )
    return found


def _cluster(attributes: str) -> str:
    match = re.search(rf"__cluster_dims__\s*\(({_INNER})\)", attributes)
    return match[1].strip() if match else ""


def cluster_from_text(cluster: str, source: str, macros: dict[str, str]) -> tuple[int, int, int]:
    """The blocks of a cluster, where __cluster_dims__ holds numbers, or macros that are; else (1, 1, 1)."""
    defined = dict(
        re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w+)[ \t]*$", without_comments(source), flags=re.M)
    )
    words = [word.strip() for word in cluster.split(",")]
    for known in (macros, defined, macros):
        words = [known.get(word, word).strip() for word in words]
    if not all(word.isdecimal() for word in words):
        return 1, 1, 1
    x, y, z = (*(int(word) for word in words), 1, 1)[:3]
    return x, y, z


CLUSTER_MAX = 8  # CLUSTER_MAX in simulator/runtime/block.h


def check_cluster(kernel: str, cluster: tuple[int, int, int]) -> tuple[int, int, int]:
    """The same; ValueError if it has more blocks than every card of sm_90 takes."""
    if not 1 <= math.prod(cluster) <= CLUSTER_MAX or min(cluster) < 1:
        raise ValueError(
            f"{kernel}: __cluster_dims__{cluster} makes clusters of {math.prod(cluster)} blocks;"
            f" a cluster has from 1 to {CLUSTER_MAX}"
        )
    return cluster


def _split(text: str) -> list[str]:
    """Splits at the commas that stand in no brackets."""
    pieces, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "<([" and 1) or -(character in ">)]")
        if character == "," and depth == 0:
            pieces.append(text[start:i])
            start = i + 1
    return [*pieces, text[start:]]


def _parameter(text: str, macros: dict[str, str]) -> Parameter:
    text = text.split("=")[0]
    text = re.sub(r"__restrict__|__restrict|__grid_constant__|\bvolatile\b", " ", text)
    match = re.match(r"(?P<type>.*?)(?P<name>\w+)\s*(?P<array>(?:\[[^\]]*\]\s*)*)$", text.strip(), flags=re.S)
    if match is None:
        return Parameter(text.strip() or "?", None, "*" in text)
    words = re.sub(r"[*&]", " ", match["type"]).split()
    constant = "const" in words
    spelled = " ".join(macros.get(word, word) for word in words if word != "const")
    pointer = "*" in match["type"] or bool(match["array"])
    kind = _SCALARS.get(spelled)
    size = 0 if kind in (None, "void") else np.dtype(kind.split("x")[0]).itemsize * int([*kind.split("x"), "1"][1])
    return Parameter(match["name"], kind, pointer, constant and pointer, size)


def check(kernel: str, parameters: Sequence[Parameter], arguments: Sequence[Any], array_type: type) -> list[Any]:
    """The arguments of a launch, each checked against its parameter; TypeError names what does not fit.

    Arrays must have the parameter's dtype and lie in memory without gaps; scalars must be integers (any that
    fit) for integer parameters and NumPy scalars of the very type for floating point: a Python float is 8
    bytes long, and plain CuPy would pass its first 4 to a `float`. None passes a null pointer.
    """
    if len(arguments) != len(parameters):
        names = ", ".join(p.name for p in parameters)
        raise TypeError(f"{kernel}() takes {len(parameters)} arguments ({names}), got {len(arguments)}")
    return [
        _check_array(kernel, p, a, array_type) if p.pointer else _check_scalar(kernel, p, a)
        for p, a in zip(parameters, arguments, strict=True)
    ]


def check_sizes(
    grid: Any, block: Any, shared_mem: int, shared_limit: int, cluster: tuple[int, int, int] = (1, 1, 1)
) -> tuple[tuple, tuple]:
    """Grid and block of a launch as (x, y, z) each. TypeError or ValueError if CUDA allows no such launch."""
    blocks = _dimensions("grid", grid, (2**31 - 1, 65535, 65535))
    for count, each, axis in zip(blocks, cluster, "xyz", strict=True):
        if count % each:
            raise ValueError(f"grid.{axis} must be a multiple of {each} (__cluster_dims__{cluster}), got {count}")
    threads = _dimensions("block", block, (1024, 1024, 64))
    if math.prod(threads) > 1024:
        raise ValueError(f"block: a block has at most 1024 threads, got {math.prod(threads)}")
    if not 0 <= shared_mem <= shared_limit:
        raise ValueError(
            f"shared_mem must be from 0 to {shared_limit} bytes, got {shared_mem}"
            " (kernel.max_dynamic_shared_size_bytes = ... raises the limit, up to 232448 on an H200)"
        )
    return blocks, threads


def _dimensions(what: str, value: Any, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    if (
        not isinstance(value, (tuple, list))
        or not 1 <= len(value) <= 3
        or not all(isinstance(v, (int, np.integer)) for v in value)
    ):
        raise TypeError(f"{what} must be a tuple of one to three integers, got {value!r}")
    x, y, z = (*(int(v) for v in value), 1, 1)[:3]
    for v, limit, axis in zip((x, y, z), limits, "xyz", strict=True):
        if not 1 <= v <= limit:
            raise ValueError(f"{what}.{axis} must be from 1 to {limit}, got {v}")
    return x, y, z


def _refuse(kernel: str, parameter: Parameter, got: str, hint: str = "") -> TypeError:
    return TypeError(f"{kernel}(): argument '{parameter.name}' must be {_article(str(parameter))}, got {got}{hint}")


def _article(text: str) -> str:
    return f"{'an' if text[0] in 'aeiou' and not text.startswith('uint') else 'a'} {text}"


def _check_array(kernel: str, parameter: Parameter, argument: Any, array_type: Any) -> Any:
    if argument is None or (isinstance(argument, int) and not isinstance(argument, bool) and argument == 0):
        return None
    if not isinstance(argument, array_type):
        module = array_type.__module__.split(".")[0]
        hint = f" (make it a {module} array with common.cuda.asarray)" if hasattr(argument, "dtype") else ""
        raise _refuse(kernel, parameter, f"{type(argument).__module__}.{type(argument).__qualname__}", hint)
    element = parameter.element
    bytes_as_bool = element is not None and {element.name, argument.dtype.name} == {"bool", "uint8"}
    if element is not None and argument.dtype != element and not bytes_as_bool:
        raise _refuse(kernel, parameter, f"{_article(str(argument.dtype))} array")
    if not (argument.flags.c_contiguous or argument.flags.f_contiguous):
        raise _refuse(
            kernel, parameter, f"one with gaps (shape {argument.shape}, strides {argument.strides})",
            ": the kernel gets a bare pointer; copy it first",
        )  # fmt: skip
    if isinstance(argument, np.ndarray) and not (parameter.constant or argument.flags.writeable):
        raise _refuse(kernel, parameter, "a read-only one", ": the parameter is not const, so the kernel may write")
    return argument


def _check_scalar(kernel: str, parameter: Parameter, argument: Any) -> Any:
    kind = parameter.element
    got = f"{type(argument).__name__} {argument!r}" if isinstance(argument, (int, float)) else type(argument).__name__
    if kind is None or "x" in (parameter.type or ""):
        if isinstance(argument, (np.void, np.generic)) and parameter.size in (0, argument.dtype.itemsize):
            return argument
        if isinstance(argument, int) and parameter.size == 0:
            return np.int64(argument)
        raise _refuse(
            kernel,
            parameter,
            got,
            f": pass a NumPy scalar of {parameter.size} bytes" if parameter.size else "",
        )
    if isinstance(argument, np.ndarray) and argument.ndim == 0:
        argument = argument[()]
    if kind.kind == "b" and isinstance(argument, (bool, np.bool_)):
        return np.bool_(argument)
    if kind.kind in "iu" and isinstance(argument, (int, np.integer)) and not isinstance(argument, bool):
        limits = np.iinfo(kind)
        if not limits.min <= int(argument) <= limits.max:
            raise _refuse(kernel, parameter, f"{int(argument)}", f", which does not fit ({limits.min} to {limits.max})")
        return kind.type(argument)
    if kind.kind == "f" and isinstance(argument, np.floating) and argument.dtype == kind:
        return argument
    hint = f": write numpy.{kind}({argument})" if isinstance(argument, (int, float, np.number)) else ""
    raise _refuse(kernel, parameter, got, hint)
