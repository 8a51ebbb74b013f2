"""The launch that a CUDA C++ file asks for in its first comment.

    // grid: (N + TILE - 1) / TILE, (M + TILE - 1) / TILE
    // block: 16, 16
    // shared: 4 * TILE * K

`grid` and `block` have one to three numbers, `shared` is the size of dynamic shared memory in bytes, 0 without such a
line. Each is an expression in the kernel's integer parameters and the file's own constants (`#define TILE 64`,
`constexpr int TILE = 64;`), with + - * / % and parentheses; / rounds down, as in C.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..cuda.signature import without_comments

KINDS = ("grid", "block", "shared")
_LINE = re.compile(r"^// (grid|block|shared): *(.+?) *$", re.M)
_CONSTANT = re.compile(
    r"^[ \t]*#define[ \t]+(\w+)[ \t]+(\S.*?)[ \t]*$|^(?:static[ \t]+)?const(?:expr)?[ \t]+int[ \t]+([^;()]+);", re.M
)
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


class LaunchError(ValueError):
    """A file's launch lines are missing or cannot be computed; the message is for the learner."""


@dataclass(frozen=True)
class Size:
    """A launch's size: blocks, threads per block, bytes of dynamic shared memory."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int = 0


def lines(source: str) -> dict[str, str]:
    """The launch lines of a file by kind: {"grid": "(n + 255) / 256", "block": "256"}; of equal ones the first."""
    found: dict[str, str] = {}
    for kind, text in _LINE.findall(source):
        found.setdefault(kind, text)
    return found


def size(source: str, values: Mapping[str, int]) -> Size:
    """The size of the launch that a file asks for.

    values: the kernel's integer parameters by name.
    Raises LaunchError for a missing line, an unknown name, and a number that is no size.
    """
    texts = lines(source)
    for kind in ("grid", "block"):
        if kind not in texts:
            example = "(n + 255) / 256" if kind == "grid" else "256"
            raise LaunchError(f"the file has no line `// {kind}: …`, such as `// {kind}: {example}`")
    names = {**_constants(source), **{name: str(value) for name, value in values.items()}}
    sizes = {kind: _numbers(kind, text, names) for kind, text in texts.items()}
    for kind in ("grid", "block"):
        if not 1 <= len(sizes[kind]) <= 3 or min(sizes[kind]) < 1:
            raise LaunchError(
                f"`// {kind}: {texts[kind]}` is {sizes[kind]}: one to three numbers from 1 on are expected"
            )
    shared = sizes.get("shared", (0,))
    if len(shared) != 1 or shared[0] < 0:
        raise LaunchError(f"`// shared: {texts['shared']}` is {shared}: one number of bytes is expected")
    return Size(sizes["grid"], sizes["block"], shared[0])


def _constants(source: str) -> dict[str, str]:
    """The texts of a file's integer constants by name."""
    found = {}
    for macro, value, declared in _CONSTANT.findall(without_comments(source)):
        if macro:
            found[macro] = value
        for one in declared.split(",") if declared else ():
            name, _, value = one.partition("=")
            found[name.strip()] = value.strip()
    return found


def _numbers(kind: str, text: str, names: Mapping[str, str]) -> tuple[int, ...]:
    def number(expression: str, depth: int = 0) -> int | tuple[int, ...]:
        try:
            return value(ast.parse(expression.strip(), mode="eval").body, depth)
        except (SyntaxError, ValueError, RecursionError) as error:
            if isinstance(error, LaunchError):
                raise
            raise LaunchError(f"`// {kind}: {text}`: `{expression}` is not an expression of numbers") from None

    def value(node: ast.expr, depth: int) -> int | tuple[int, ...]:
        if isinstance(node, ast.Tuple):
            return tuple(whole(item, depth) for item in node.elts)
        return whole(node, depth)

    def whole(node: ast.expr, depth: int) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -whole(node.operand, depth)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = whole(node.left, depth), whole(node.right, depth)
            if not right and not isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
                raise LaunchError(f"`// {kind}: {text}` divides by zero")
            return _OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.Name):
            if node.id not in names or depth > 8:
                known = ", ".join(names) or "none"
                raise LaunchError(
                    f"`// {kind}: {text}`: {node.id} is no integer parameter or constant (known: {known})"
                )
            found = number(names[node.id], depth + 1)
            if isinstance(found, int):
                return found
        raise LaunchError(f"`// {kind}: {text}`: only whole numbers, names, + - * / % and parentheses can be computed")

    found = number(text)
    return found if isinstance(found, tuple) else (found,)
