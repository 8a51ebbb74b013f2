"""A kernel's parameters, parsed from its source, and the check of a launch's arguments against them."""

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tensor_map import TensorMap


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    type       NumPy's name of the element type, "float32"; "float32x4" for float4 and the like; "void" for `void*`;
               None for a type without a NumPy equivalent (a structure, a template parameter)
    pointer    whether it is a pointer
    constant   whether it is a pointer to const
    size       bytes of the value, or of what the pointer points to; 0 if unknown
    """

    name: str
    type: str | None
    pointer: bool
    constant: bool = False
    size: int = 0

    @property
    def element(self) -> np.dtype | None:
        """The dtype of an element (float32 for float4); None for void and types without a NumPy equivalent."""
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


# All patterns run in linear time on any text: an unclosed comment ends with the text, an unclosed string with the line.
_STRING = r"\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n]){1,8}+'"
_COMMENT_OR_STRING = re.compile(rf"//[^\n]*|/\*.*?(?:\*/|\Z)|{_STRING}", flags=re.S)


def without_comments(source: str) -> str:
    """The source with comments replaced by spaces; all other characters keep their line and column."""

    def blank(match: re.Match) -> str:
        text = match.group()
        return text if text.startswith(('"', "'")) else re.sub(r"[^\n]", " ", text)

    return _COMMENT_OR_STRING.sub(blank, source)


def without_strings(source: str) -> str:
    """The source without its string and character literals; the number of lines is unchanged."""
    return re.sub(_STRING, "", source)


_INNER = r"[^()]*(?:\([^()]*\)[^()]*)*"
_ATTRIBUTES = rf"(?:__(?:launch_bounds|cluster_dims)__\s*\({_INNER}\)\s*)*"
_KERNEL = re.compile(
    rf"\b__global__\s+(?P<attributes>{_ATTRIBUTES}void\s+{_ATTRIBUTES})"
    r"(?P<name>\w+)\s*\((?P<parameters>[^(){}]*(?:\([^()]*\)[^(){}]*)*)\)"
)


@dataclass(frozen=True)
class Declaration:
    """A kernel's declaration. cluster: the arguments of __cluster_dims__ as written, "SPLIT, 1, 1"; "" without it."""

    name: str
    parameters: tuple[Parameter, ...]
    template: bool
    extern_c: bool
    cluster: str = ""


def declarations(source: str, macros: dict[str, str] | None = None) -> dict[str, Declaration]:
    """The declarations of all kernels that `source` defines, by name. macros: of -D options, which may be types."""
    text = without_comments(source)
    in_c_block = re.search(r'extern\s*"C"\s*\{', text) is not None
    found, end = {}, 0
    for match in _KERNEL.finditer(text):
        inner = match["parameters"].strip()
        pieces = [] if inner in ("", "void") else _split(inner)
        attributes, extern_c, template = _before(text, end, match)
        end = match.end()
        found[match["name"]] = Declaration(
            match["name"],
            tuple(_parameter(piece, macros or {}) for piece in pieces),
            template=template,
            extern_c=extern_c or in_c_block,
            cluster=_cluster(attributes + match["attributes"]),
        )
    return found


def _before(text: str, start: int, kernel: re.Match) -> tuple[str, bool, bool]:
    """(attributes, whether extern "C", whether a template) of a kernel, from the text before its __global__."""
    start = max(start, *(text.rfind(c, start, kernel.start()) + 1 for c in ";{}"))
    words = text[start : kernel.start()]
    end = len(words)

    def ends_with(word: str) -> bool:
        return words.endswith(word, 0, end) and not (end > len(word) and _is_name(words[end - len(word) - 1]))

    found: list[str] = []
    while True:
        while end and words[end - 1].isspace():
            end -= 1
        if qualifier := next((word for word in ("static", "inline") if ends_with(word)), None):
            end -= len(qualifier)
            continue
        if not end or words[end - 1] != ")":
            break
        opening = _opening(words, end - 1)
        while opening > 0 and words[opening - 1].isspace():
            opening -= 1
        name = _start_of_name(words, max(opening, 0))
        if words[name:opening] not in ("__launch_bounds__", "__cluster_dims__"):
            break
        found.append(words[name:end])
        end = name
    extern_c = ends_with('"C"')
    if extern_c:
        end -= len('"C"')
        while end and words[end - 1].isspace():
            end -= 1
        extern_c = ends_with("extern")
        end -= len("extern") if extern_c else 0
    before = words[:end].rstrip()
    template = before.endswith(">") and re.search(r"\btemplate\s*<", before) is not None
    return " ".join(reversed(found)), extern_c, template


def _opening(text: str, closing: int) -> int:
    """The index of the opening parenthesis for the one at `closing`; −1 if there is none."""
    depth = 0
    for i in range(closing, -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if depth == 0:
            return i
    return -1


def _is_name(character: str) -> bool:
    return character == "_" or character.isalnum()


@dataclass(frozen=True)
class DynamicShared:
    """An `extern __shared__` array in a source: its span [start, end), element type, name, and further dimensions."""

    start: int
    end: int
    element: str
    name: str
    rest: str


_ALIGNMENT = re.compile(rf"\b(?:__align__|alignas)\s*\({_INNER}\)")
_DIMENSIONS = re.compile(r"\[\s*\](?P<rest>(?:\s*\[[^\]]*\])*)\s*")


def dynamic_shared(text: str) -> list[DynamicShared]:
    """All declarations `extern __shared__ type name[];` of a source without comments."""
    found, start = [], 0
    for statement in re.finditer(r"[^;{}]*", text):  # up to the next ; { or }
        stop = statement.end()
        shared = text.rfind("__shared__", statement.start(), stop)
        start = text.rfind("extern", statement.start(), max(shared, 0))
        bracket = text.find("[", shared, stop)
        if min(shared, start, bracket) < 0 or text[stop : stop + 1] != ";":
            continue
        before = _ALIGNMENT.sub(" ", text[start + len("extern") : shared])
        words = _ALIGNMENT.sub(" ", text[shared + len("__shared__") : bracket]).rstrip()
        name = words[_start_of_name(words, len(words)) :]
        element = before + words[: len(words) - len(name)]
        dimensions = _DIMENSIONS.fullmatch(text, bracket, stop)
        if name and dimensions and element[:1].isspace() and re.fullmatch(r"[\w:<>,\s]*", element) and element.strip():
            found.append(DynamicShared(start, stop + 1, " ".join(element.split()), name, dimensions["rest"]))
    return found


def _start_of_name(text: str, end: int) -> int:
    """The index where the identifier that ends at `end` begins; `end` if there is none."""
    while end and _is_name(text[end - 1]):
        end -= 1
    return end


def _cluster(attributes: str) -> str:
    match = re.search(rf"__cluster_dims__\s*\(({_INNER})\)", attributes)
    return match[1].strip() if match else ""


def cluster_from_text(cluster: str, source: str, macros: dict[str, str]) -> tuple[int, int, int]:
    """Blocks of a cluster in x, y, z, if __cluster_dims__ holds numbers or macros of numbers; else (1, 1, 1)."""
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


CLUSTER_MAX = 8  # CLUSTER_MAX in simulator/runtime/runtime.h


def check_cluster(kernel: str, cluster: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return `cluster`. ValueError if it has more than CLUSTER_MAX blocks, the portable limit of sm_90."""
    if not 1 <= math.prod(cluster) <= CLUSTER_MAX or min(cluster) < 1:
        raise ValueError(
            f"{kernel}: __cluster_dims__{cluster} makes clusters of {math.prod(cluster)} blocks;"
            f" a cluster has from 1 to {CLUSTER_MAX}"
        )
    return cluster


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
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
    declared = text = text.strip()
    while text.endswith("]") and "[" in text:
        text = text[: text.rindex("[")].rstrip()
    name = text[_start_of_name(text, len(text)) :]
    if not name:
        return Parameter(declared or "?", None, "*" in declared)
    kind_text = text[: len(text) - len(name)]
    words = re.sub(r"[*&]", " ", kind_text).split()
    constant = "const" in words
    spelled = " ".join(macros.get(word, word) for word in words if word != "const")
    pointer = "*" in kind_text or text != declared
    kind = _SCALARS.get(spelled)
    size = 0 if kind in (None, "void") else np.dtype(kind.split("x")[0]).itemsize * int([*kind.split("x"), "1"][1])
    return Parameter(name, kind, pointer, constant and pointer, size)


def check(kernel: str, parameters: Sequence[Parameter], arguments: Sequence[Any], array_type: type) -> list[Any]:
    """The arguments of a launch, checked against the parameters and converted to NumPy scalars where they are scalars.

    Arrays must be instances of array_type, contiguous (C or F order), and of the parameter's dtype. Scalars must be
    integers in range for integer parameters, and NumPy scalars of the exact type for floating-point ones: a Python
    float has 8 bytes, and plain CuPy would pass the first 4 to a `float`. None is a null pointer.
    TypeError names the argument that does not fit. kernel: its name, for errors.
    """
    if not isinstance(arguments, (tuple, list)):
        raise TypeError(
            f"{kernel}(): args must be a tuple or list of arrays and scalars, got {type(arguments).__name__}"
        )
    if len(arguments) != len(parameters):
        names = ", ".join(p.name for p in parameters)
        raise TypeError(f"{kernel}() takes {len(parameters)} arguments ({names}), got {len(arguments)}")
    return [
        _check_array(kernel, p, a, array_type) if p.pointer else _check_scalar(kernel, p, a)
        for p, a in zip(parameters, arguments, strict=True)
    ]


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def integer(what: str, value: Any) -> int:
    """`value` as an int. TypeError, naming `what`, if it is not an integer."""
    if not _is_integer(value):
        raise TypeError(f"{what} must be an integer, a number of bytes, got {value!r}")
    return int(value)


def check_sizes(
    grid: Any, block: Any, shared_mem: Any, shared_limit: int, cluster: tuple[int, int, int] = (1, 1, 1)
) -> tuple[tuple, tuple]:
    """(grid, block) of a launch as (x, y, z) each.

    grid, block: tuples of one to three integers. shared_mem: bytes of dynamic shared memory, at most shared_limit.
    TypeError or ValueError if CUDA does not allow such a launch.
    """
    blocks = _dimensions("grid", grid, (2**31 - 1, 65535, 65535))
    for count, each, axis in zip(blocks, cluster, "xyz", strict=True):
        if count % each:
            raise ValueError(f"grid.{axis} must be a multiple of {each} (__cluster_dims__{cluster}), got {count}")
    threads = _dimensions("block", block, (1024, 1024, 64))
    if math.prod(threads) > 1024:
        raise ValueError(f"block: a block has at most 1024 threads, got {math.prod(threads)}")
    integer("shared_mem", shared_mem)
    if not 0 <= shared_mem <= shared_limit:
        raise ValueError(
            f"shared_mem must be from 0 to {shared_limit} bytes, got {shared_mem}"
            " (kernel.max_dynamic_shared_size_bytes = ... raises the limit, up to 232448 on an H200)"
        )
    return blocks, threads


def _dimensions(what: str, value: Any, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    if not isinstance(value, (tuple, list)) or not 1 <= len(value) <= 3 or not all(_is_integer(v) for v in value):
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
    bytes_as_bool = {"bool", "uint8"}
    if element is not None and argument.dtype != element and {element.name, argument.dtype.name} != bytes_as_bool:
        raise _refuse(kernel, parameter, f"{_article(str(argument.dtype))} array")
    if not (argument.flags.c_contiguous or argument.flags.f_contiguous):
        raise _refuse(
            kernel, parameter, f"one with gaps (shape {argument.shape}, strides {argument.strides})",
            ": the kernel gets a bare pointer; copy it first",
        )  # fmt: skip
    if isinstance(argument, np.ndarray) and not (parameter.constant or argument.flags.writeable):
        raise _refuse(kernel, parameter, "a read-only one", ": the parameter is not const, so the kernel may write")
    return argument


_limits = functools.cache(np.iinfo)


def _check_scalar(kernel: str, parameter: Parameter, argument: Any) -> Any:
    kind = parameter.element
    if isinstance(argument, TensorMap):
        if parameter.type is not None:
            raise _refuse(kernel, parameter, "a TensorMap")
        return argument
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
        limits = _limits(kind)
        if not limits.min <= int(argument) <= limits.max:
            raise _refuse(kernel, parameter, f"{int(argument)}", f", which does not fit ({limits.min} to {limits.max})")
        return kind.type(argument)
    if kind.kind == "f" and isinstance(argument, np.floating) and argument.dtype == kind:
        return argument
    hint = f": write numpy.{kind}({argument})" if isinstance(argument, (int, float, np.number)) else ""
    raise _refuse(kernel, parameter, got, hint)
