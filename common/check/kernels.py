"""Tools for the check.py of a CUDA exercise: traced launches, shapes to try, access counts, known mistakes."""

import contextlib
import ctypes
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..cuda.report import Counts, Finding, Report
from ..cuda.signature import declarations, without_comments
from ..cuda.simulator.module import SimulatedKernel, SimulatedModule
from ..kernels.ladder import header_options
from . import gpu
from .answers import Short, Wrong, expect, how_it_differs, require

_BARRIER = "every thread of the block must reach the same __syncthreads: none may stand where only some threads go"

# Hints by kind of finding, in order of priority: a thread stopped at a bad address also leaves the others waiting.
HINTS = {
    "out-of-bounds": "compare the index with the array's size before you use it; the last block has threads without an"
    " element",
    "misaligned": "a float4 starts at a multiple of 16 bytes",
    "deadlock": _BARRIER,
    "divergent-barrier": _BARRIER,
    "race": "two threads use the same place and nothing says who comes first: a __syncthreads must stand between them,"
    " or only one thread may write",
    "uninitialised-read": "what is read from shared memory, a thread of the same block must have written before",
    "stopped": "does every loop end, and does every index stay inside its array?",
}
# More specific hints, chosen from the trace's details if the exercise has none of its own.
CLOSER = {
    "below-0": "the index is below 0: is a lower end not asked for, or something subtracted that should be added?",
    "shared-bounds": "which of the indices goes beyond the rows or columns that this array of shared memory has?",
    "race-warp": "two lanes of one warp touch the same word, and nothing orders them: lanes of a warp need not run in"
    " step (since Volta). Order them with a barrier: __syncthreads() for all threads of the block, __syncwarp() for the"
    " lanes of one warp",
    "race-global": "two threads come to the same element of this array, and one of them writes it: which elements are a"
    " thread's own, and how far apart are those of neighbouring threads, and of neighbouring blocks?",
}
# Hints for errors that a second launch reveals: same inputs, different values in the outputs before it.
RESULTS = {
    "input": "what is passed as const is to be read only, also through a pointer that is not const",
    "unwritten": "which thread writes this element? The grid has a thread for it",
    "output-read": "an output is written, not added to: what it holds before the launch does not count",
    "state": "what a __device__ variable holds is still there at the next launch; and a variable without an initial"
    " value may hold anything",
}


def asked(holds: bool, *, what: str, hint: str, picture: Any = None) -> None:
    """Raise Short unless `holds`: for requirements on the technique of an answer whose results are right.

    what    the count and the target: "row_sums of 7 × 33 loads 90 sectors, 37 would do"
    """
    try:
        require(holds, what=f"right, and not yet what was asked: {what}", hint=hint, picture=picture)
    except Wrong as wrong:
        raise Short(wrong.what, wrong.hint, wrong.picture) from None


def target(
    counted: float, most: float, unit: str, *, what: str, hint: str, picture: Any = None, least: bool = False
) -> None:
    """Raise Short unless `counted` is at most `most`: "right, and not yet what was asked: 48 wavefronts, 32 …".

    unit     of both numbers: "sectors loaded"
    what     the launch in words
    least    whether `most` is the smallest number allowed instead, as of warps per multiprocessor
    """
    holds = counted >= most if least else counted <= most
    said = f"{what}: {counted:,} {unit}, {most:,} {'or more ' if least else ''}are possible"
    asked(holds, what=said, hint=hint, picture=picture)


def all_reach_barriers(report: Report, *, what: str) -> None:
    """Raise Wrong if a thread of a block returned without reaching a barrier that others reached.

    The trace itself only notes it, because GPUs since Volta do not wait for threads that have returned. For exercises
    that ask for barriers which all threads reach.

    what    the launch in words
    """
    hint = (
        "all threads of the block must reach each barrier: a barrier inside an `if` is reached by those alone that"
        " enter it, and a thread that has returned reaches none"
    )
    said = "".join(map(str, report.missed[:1]))
    require(not report.missed, what=f"{what}: {said}", hint=hint, picture=report)


def launch(
    source: str,
    name: str,
    grid: tuple,
    block: tuple,
    args: Sequence[Any],
    *,
    what: str,
    outputs: Sequence[np.ndarray] | None = None,
    updated: Sequence[np.ndarray] = (),
    hints: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    shared_mem: int = 0,
    cooperative: bool = False,
) -> Report:
    """Trace a launch of the answer's kernel. Raises Wrong unless it compiles and runs without findings.

    The kernel always runs on the simulator first, because a faulty kernel could destroy a GPU's context. args holds
    NumPy arrays, outputs included. The kernel then runs a second time on the same inputs with different values in the
    outputs: it must write every element of an output, must not depend on an output's previous contents, and must
    repeat its results. No input may be written to. If kernels run on a GPU here, it finally runs there on copies of
    the original arrays and must reproduce the simulator's results. If a failure depends on an uninitialised local
    variable, the message names the variable.

    what         the launch in words: "row_sums of a 7 × 33 matrix"
    outputs      arrays that the kernel fills; by default those that contain only NaN
    updated      arrays that it reads and modifies. All others are inputs
    hints        by kind of finding, or kind and array ("out-of-bounds: bias"); they override HINTS, CLOSER, RESULTS
                 and gpu.HINTS
    options      compiler options, "-Dscalar_t=__half"; vec.h and ptx.h of common.kernels may be included
    shared_mem   bytes of dynamic shared memory
    cooperative  whether the launch is cooperative, for a kernel with a grid-wide barrier
    """
    kernel = compiled(source, name, options, cooperative)
    cuda.allow_shared(kernel, shared_mem)
    before = gpu.copies(args)
    filled = {id(array) for array in (filter(_is_empty, args) if outputs is None else outputs)}
    written = filled | {id(array) for array in updated}
    hints = {**HINTS, **CLOSER, **RESULTS, **gpu.HINTS, **(hints or {})}
    try:
        report = cuda.trace(kernel, grid, block, args, shared_mem)
    except (TypeError, ValueError) as error:
        raise Wrong(str(error), "leave the kernel's parameters as they are") from None
    except cuda.KernelError as error:
        raise Wrong(f"{what}: {error}", "") from None
    launched = _Launched(kernel, grid, block, args, before, shared_mem, report)
    _launches.append(launched)
    with _naming_unset_variable(launched):
        _accept(launched, filled, written, what, hints)
        if cuda.backend() == "gpu":
            gpu.agree(kernel, grid, block, args, before, shared_mem, what, hints)
    return report


@dataclass(frozen=True)
class _Launched:
    """A traced launch: its arguments, as modified by it, and each array's contents `before` it, by id(array)."""

    kernel: SimulatedKernel
    grid: tuple
    block: tuple
    args: Sequence[Any]
    before: Mapping[int, np.ndarray]
    shared_mem: int
    report: Report


_launches: deque[_Launched] = deque(maxlen=8)  # recent launches, for `compare` to find the one that wrote a result


def _accept(
    launched: _Launched, filled: set[int], written: set[int], what: str, hints: Mapping[str, str]
) -> None:  # fmt: skip
    """Raise Wrong for the trace's findings, for a modified input, and for a second launch that differs."""
    kernel, args, report = launched.kernel, launched.args, launched.report
    names = {id(arg): parameter.name for parameter, arg in zip(kernel.parameters, args, strict=True)}
    for kind in HINTS:
        for finding in report.findings:
            if finding.kind == kind:
                parameters = set(names.values())
                raise Wrong(f"{what}: {_describe(finding, parameters)}", _hint_for(finding, hints, parameters), report)
    inputs = {names[key] for key in launched.before if key not in written}
    changed = next((line for line in report.lines if line.array in inputs and line.kind != "load"), None)
    said = f"{what}: line {changed.line} writes to {changed.array}, an input" if changed else ""
    require(changed is None, what=said, hint=hints["input"], picture=report)
    _run_again(launched, filled, names, what, hints)


def compiled(source: str, name: str, options: Sequence[str] = (), cooperative: bool = False) -> SimulatedKernel:
    """The answer's kernel, compiled for tracing on the simulator. Raises Wrong if it does not compile or lacks `name`.

    options, cooperative: as in `launch`.
    """
    try:
        return SimulatedModule(source, (*header_options(), *options), (), cooperative, traced=True).get_function(name)
    except cuda.CompileError as error:
        raise Wrong(str(error), _compile_hint(str(error))) from None
    except ValueError as error:  # no such kernel
        raise Wrong(str(error), 'leave the kernel\'s name and extern "C" as they are') from None


def _compile_hint(said: str) -> str:
    """The hint for a compiler's first error."""
    first = said.split("\n")[1] if "\n" in said else said
    if "';'" in first or "‘;’" in first:
        return "a statement ends with `;`. Where it is missing, the compiler names the line that follows"
    if "was not declared" in first or "undeclared" in first:
        return "a new variable needs its type, as in `int i = 0;`, and a name is spelt as where it was declared"
    if any(words in first for words in ("expected '('", "expected ‘(’", "to 'bool'", "to ‘bool’")):
        return "the condition of an `if` and the three parts of a `for` stand in parentheses, as in `if (i < n) …`"
    if "array subscript" in first or "subscripted value" in first:
        return "a pointer takes one index, as in `in[i]`: for a matrix, row * width + column"
    if "storage size" in first or "variable-length" in first or "variable length" in first:
        return "the length of an array is a constant: take the largest that is needed"
    return "the first error counts: others may follow from it"


def _describe(finding: Finding, parameters: set[str]) -> str:
    """A finding in words. A race on a parameter's element needs distinct elements, so its barrier clause is dropped."""
    said = str(finding)
    if finding.kind == "race" and finding.array in parameters:
        said = re.sub(r": (?:lanes of one warp[^:]*)?no __sync\w+ lies between", "", said)
    return said


def _hint_for(finding: Finding, hints: Mapping[str, str], parameters: set[str]) -> str:
    """The hint for a finding: the exercise's for its array, else one for its details, else that of its kind."""
    if finding.array is None:
        return hints[finding.kind]
    is_global = finding.array in parameters
    if f"{finding.kind}: {finding.array}" in hints:
        return hints[f"{finding.kind}: {finding.array}"]
    if finding.kind == "out-of-bounds" and finding.index is not None and finding.index < 0:
        return hints["below-0"]
    if finding.kind == "out-of-bounds" and not is_global:
        return hints["shared-bounds"]
    if finding.kind == "race" and is_global:
        return hints["race-global"]
    if finding.kind == "race" and "lanes of one warp" in finding.message and hints["race"] == HINTS["race"]:
        return hints["race-warp"]
    return hints[finding.kind]


def _arrays(args: Sequence[Any]) -> dict[int, np.ndarray]:
    return {id(arg): arg for arg in args if isinstance(arg, np.ndarray)}


def _is_empty(arg: Any) -> bool:
    """Whether an argument is a float array that contains only NaN."""
    return isinstance(arg, np.ndarray) and arg.dtype.kind == "f" and arg.size > 0 and bool(np.isnan(arg).all())


def _filler(array: np.ndarray) -> np.ndarray:
    """Distinctive values of both signs, deterministic, in the shape and dtype of the array, none equal to its own."""
    random = np.random.default_rng(array.size)
    if array.dtype.kind == "b":
        return ~array
    if array.dtype.kind == "f":
        signs = np.where(np.arange(array.size) % 3 == 1, -1.0, 1.0)
        values = (signs * random.uniform(900, 1100, array.size)).reshape(array.shape).astype(array.dtype)
    else:
        values = random.integers(90, 110, array.shape).astype(array.dtype)
    # equal ones would look unwritten where the result is the same number, too
    return np.where(values == array, values + array.dtype.type(1), values)


def _run_again(
    launched: _Launched, filled: set[int], names: Mapping[int, str], what: str, hints: Mapping[str, str]
) -> None:  # fmt: skip
    """Raise Wrong unless a second launch, with other values in the outputs, repeats the results of the first."""
    args, before, report = launched.args, launched.before, launched.report
    fillers = {key: _filler(before[key]) for key in filled if key in before}
    again = {key: fillers.get(key, before[key]).copy(order="K") for key in before}
    for key, array in again.items():  # in the argument's memory order
        if array.strides != before[key].strides:
            again[key] = np.asfortranarray(array)
    try:
        with cuda.guarded():
            arguments = [again.get(id(arg), arg) for arg in args]
            launched.kernel(launched.grid, launched.block, arguments, shared_mem=launched.shared_mem)
    except cuda.KernelError as error:
        raise Wrong(f"{what}, launched a second time: {error}", hints["state"], report) from None
    in_any_order = any(line.kind == "atomic" for line in report.lines)
    for key, first in _arrays(args).items():
        second, name = again[key], names[key]
        tolerance = gpu.TOLERANCES.get(first.dtype, 0.0) if in_any_order else 0.0
        differs = how_it_differs(second, first, tolerance, 0.0)
        if key not in fillers:
            said = f"{what}: launched a second time on the same numbers, {name}{differs}"
            require(not differs, what=said, hint=hints["state"], picture=report)
            continue
        kept = second == fillers[key]
        lost = kept & (np.isnan(first) if first.dtype.kind == "f" else first == before[key])
        is_read = any(line.array == name and line.kind != "store" for line in report.lines)
        if differs and is_read and not lost.all():
            said = _stale_dependence(name, lost, first, second, before[key], fillers[key])
            raise Wrong(f"{what}: {said}", hints["output-read"], report)
        said = f"{what} leaves {name}{_place(lost)} unwritten ({int(lost.sum())} of {lost.size} elements)"
        require(not lost.any(), what=said, hint=hints["unwritten"], picture=report)
        said = f"{what}: launched a second time on the same numbers, {name}{differs}"
        require(not differs, what=said, hint=hints["state"], picture=report)


def _stale_dependence(
    name: str, lost: np.ndarray, first: np.ndarray, second: np.ndarray, held: np.ndarray, filler: np.ndarray
) -> str:  # fmt: skip
    """How an output depends on its contents before the launch, in words; lost: mask of the elements never written."""
    differs = (first != second) & ~((first != first) & (second != second)) & ~lost
    index = tuple(np.argwhere(differs)[0])
    pairs = ((first, held), (second, filler))
    one, other = (f"{after[index]:.6g} if it held {then[index]:.6g}" for after, then in pairs)
    return f"{name}{_place(differs)} is {one} before the launch, and {other}"


def _place(mask: np.ndarray) -> str:
    """The index of the first True: "[1, 2]"; "" if there is none."""
    first = np.argwhere(mask)[:1]
    return "" if not first.size else "[" + ", ".join(str(int(i)) for i in first[0]) + "]"


# ---- Uninitialised local variables

_TYPE = r"(?!(?:return|goto|case|else|throw|using|typedef|struct)\b)[A-Za-z_][\w:]*(?:<[^<>]*>)?(?:\s+[\w:]+)*?[\s*&]+"
_DECLARATION = re.compile(_TYPE + r"(?P<first>\w+)\s*(?=[=,\[(]|$)")
_NO_LOCAL = re.compile(r"\b(?:__shared__|__device__|__constant__|extern|static|constexpr)\b")


def _without_value(source: str) -> list[tuple[int, str]]:
    """(offset at which an initialiser could be inserted, variable's name) of each declaration without a value.

    Shared memory and variables outside kernels are skipped. The search is textual and may mistake other statements for
    declarations; an initialiser inserted there does not compile.
    """
    text = without_comments(source)
    values = re.compile(r"(?<=[=,{(])\s*\{[^{};]*\}")  # braces around values, the innermost first
    while values.search(text):
        text = values.sub(lambda braces: re.sub(r"[^\n]", "0", braces[0]), text)
    found = []
    for part in re.finditer(r"[^;{}]+", text):
        if text[part.end() : part.end() + 1] != ";":
            continue
        start = part.start() + len(part[0]) - len(re.sub(r"^\s*(?:for\s*\(\s*)?", "", part[0]))
        statement = _outermost(text[start : part.end()])
        declared = _DECLARATION.match(statement)
        if not declared or _NO_LOCAL.search(statement):
            continue
        first = declared.start("first")
        for name in re.finditer(r"\b([A-Za-z_]\w*)((?:\s*\[[^\]]*\])*)(?=\s*(?:,|$))", statement):
            if name.start() == first or (name.start() > first and statement[: name.start()].rstrip().endswith(",")):
                found.append((start + name.end(), name[1]))
    return found


def _outermost(statement: str) -> str:
    """A statement with the text inside parentheses and brackets blanked: their commas separate no variables."""
    blanked, depth = [], 0
    for character in statement:
        depth -= character in ")]"
        blanked.append("0" if depth > 0 else character)
        depth += character in "(["
    return "".join(blanked)


def _variable_without_value(launched: _Launched) -> tuple[str, int] | None:
    """(name, line) of an uninitialised variable that the outcome of a launch depends on; None if there is none.

    A variable qualifies if initialising it with 0 changes the outcome. Those of compiler warnings are tried first.
    """
    source = launched.kernel.origin[0]
    warned = {warning.variable for warning in launched.report.uninitialised}
    places = sorted(_without_value(source), key=lambda place: place[1] not in warned)
    if not places or not _depends(launched, [at for at, _ in places], True):
        return None
    for at, name in places:
        if _depends(launched, [at], False):
            return name, source.count("\n", 0, at) + 1
    return None


def _depends(launched: _Launched, places: Sequence[int], unknown: bool) -> bool:
    """Whether initialising the variables at these offsets with 0 changes the outcome; `unknown` if it cannot run."""
    source, options, _, cooperative = launched.kernel.origin
    for at in sorted(places, reverse=True):
        source = source[:at] + " = {}" + source[at:]
    copies = {key: array.copy(order="K") for key, array in launched.before.items()}
    arguments = [copies.get(id(arg), arg) for arg in launched.args]
    try:
        kernel = SimulatedModule(source, options, (), cooperative, traced=True).get_function(launched.kernel.name)
        cuda.allow_shared(kernel, launched.kernel.max_dynamic_shared_size_bytes)
        report = cuda.trace(kernel, launched.grid, launched.block, arguments, launched.shared_mem)
    except (cuda.CompileError, cuda.KernelError):
        return unknown
    if launched.report.findings:
        seen, now = ({(f.kind, f.line, f.array) for f in r.findings} for r in (launched.report, report))
        return bool(seen - now)
    in_any_order = any(line.kind == "atomic" for line in report.lines)
    return any(
        how_it_differs(copies[key], array, gpu.TOLERANCES.get(array.dtype, 0.0) if in_any_order else 0.0, 0.0)
        for key, array in _arrays(launched.args).items()
    )


@contextlib.contextmanager
def _naming_unset_variable(launched: _Launched) -> Iterator[None]:
    """Inside, a Wrong names the uninitialised variable if the outcome of the launch depends on one."""
    try:
        yield
    except Wrong as wrong:
        if not (found := _variable_without_value(launched)):
            raise
        name, line = found
        hint = f"a local variable holds anything until it is set: give `{name}` its first value before it is used"
        raise Wrong(f"{wrong.what}: `{name}` has no value yet (line {line})", hint, wrong.picture) from None


# ---- Shapes and values to try


def beyond(source: str, most: int) -> list[int]:
    """Sizes up to `most` that exceed a constant in the answer by 1: an array of 64 elements fails for 65."""
    text = without_comments(source)
    whole = r"(?<![\w.])(?:0x[0-9a-fA-F]+|[1-9]\d*)(?=[uUlL]*\b(?!\.))"
    numbers = {int(number, 0) for number in re.findall(whole, text)}
    for one, sign, other in re.findall(r"(?<![\w.])(\d{1,4})\s*(\*|<<)\s*(\d{1,4})(?![\w.])", text):
        numbers.add(int(one) * int(other) if sign == "*" else int(one) << min(int(other), 30))
    return sorted({number + 1 for number in numbers if 3 < number < most})


FAR = 1100  # largest size drawn because of a constant in an answer


def shapes(
    source: str,
    random: np.random.Generator,
    fixed: Iterable[tuple[int, ...]],
    most: tuple[int | tuple[int], ...],
    draws: int = 3,
) -> list[tuple[int, ...]]:
    """Shapes to try: the fixed ones, `draws` random ones, and some with one size beyond a constant in the answer.

    most    per dimension: the largest random size (log-uniform); (n,) if no size may ever exceed n
    """
    limits = [m[0] if isinstance(m, tuple) else m for m in most]

    def drawn(highest: Iterable[int]) -> list[int]:
        return [int(math.exp(random.uniform(0, math.log(high + 1)))) for high in highest]

    found = [*fixed, *(tuple(drawn(limits)) for _ in range(draws))]
    for axis, limit in enumerate(most):
        numbers = beyond(source, limit[0] if isinstance(limit, tuple) else max(limit, FAR))
        for number in {*numbers[-2:], *random.permutation(numbers)[:2]}:
            shape = drawn(min(high, 4) for high in limits)
            shape[axis] = int(number)
            found.append(tuple(shape))
    return list(dict.fromkeys(found))


def sprinkled(random: np.random.Generator, array: np.ndarray, huge: bool = False) -> np.ndarray:
    """A copy with a NaN, both infinities, −0 and the smallest subnormal at random places, once each as space allows.

    At least one element is unchanged. huge: also insert ± the largest number; only for kernels that do not sum, as
    such a sum depends on its order.
    """
    info = np.finfo(array.dtype)
    special = [np.nan, np.inf, -np.inf, -0.0, info.smallest_subnormal, *((info.max, -info.max) if huge else ())]
    result = array.copy(order="K")
    places = random.permutation(array.size)[: min(len(special), array.size - 1)]
    result.flat[places] = np.array(special[: len(places)], array.dtype)
    return result


# ---- Access counts


@dataclass(frozen=True)
class Use:
    """A launch's accesses to one argument or to shared memory, and the number of warps and lanes that made them."""

    counts: Counts
    warps: int  # of a block
    lanes: int  # of a warp


def use(report: Report, argument: int | None, kind: str = "load") -> Use:
    """The accesses of a kind ("load", "store", "atomic") to an argument, by its position; None: to shared memory."""
    space = "shared" if argument is None else "global"
    array = None if argument is None else declarations(report.source)[report.kernel].parameters[argument].name
    lines = [
        line for line in report.lines
        if line.kind == kind and line.counts.space == space and array in (None, line.array)
    ]  # fmt: skip
    warps = lanes = 0
    for line in lines:
        warps, lanes = warps | line.warps, lanes | line.lanes
    counts = sum((line.counts for line in lines), Counts(space))
    return Use(counts, warps.bit_count(), lanes.bit_count())


def one_element_each(report: Report, output: int, elements: int, most: int, *, what: str) -> None:
    """Raise Short unless each element of the output is stored once, with at most `most` requests of warps.

    For kernels with one thread per element. output: the argument's position; elements: the size of the output.
    """
    stores = use(report, output, "store").counts
    asked(
        stores.accesses <= elements,
        what=f"{what} stores {stores.accesses} times, {elements} would do",
        hint="each element is stored once",
        picture=report,
    )
    asked(
        stores.requests <= most,
        what=f"{what}: the warps store {stores.requests} times, one store per warp of 32 threads would do: {most}",
        hint="one thread works while the others wait: each thread takes one element",
        picture=report,
    )


def calls(
    source: str,
    name: str,
    grid: tuple,
    block: tuple,
    args: Sequence[Any],
    functions: Sequence[str],
    *,
    headers: Sequence[str] = ("ptx.h",),
) -> dict[str, int]:
    """The number of calls of each of these device functions in a launch, summed over all threads.

    The launch runs on copies of the arrays. headers: those that declare the functions, for an answer that does not
    include them.
    """
    count = len(functions)
    lines = [f'#include "{header}"' for header in headers]
    lines += [f'extern "C" {{ __attribute__((visibility("default"))) unsigned course_calls[{count}]; }}']
    for number, function in enumerate(functions):
        lines.append(f"#define {function}(...) (atomicAdd(course_calls + {number}, 1u), {function}(__VA_ARGS__))")
    module = SimulatedModule("\n".join([*lines, "#line 1", source]), header_options(), ())
    copies = gpu.copies(args)
    module.get_function(name)(grid, block, [copies.get(id(arg), arg) for arg in args])
    counted = (ctypes.c_uint32 * count).in_dll(module.library, "course_calls")
    result = dict(zip(functions, counted, strict=True))
    ctypes.memset(counted, 0, ctypes.sizeof(counted))  # the library stays loaded
    return result


# ---- Explaining a wrong result


def compare(
    got: np.ndarray,
    want: np.ndarray,
    *,
    what: str,
    hint: str,
    mistakes: Iterable[tuple[np.ndarray, str]] = (),
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """As `expect`, with a hint chosen from the result.

    mistakes: (result of a known mistake, hint) pairs; the hint of the first that reproduces `got` is used. If none
    does, the hint is a pattern common to the wrong elements, if there is one, followed by `hint`. If the result depends
    on an uninitialised local variable, the message names it.
    """
    want, known = np.asarray(want).astype(got.dtype), ""
    if how_it_differs(got, want, rtol, atol):
        seen = in_common(got, want, rtol, atol)
        known = next((why for wrong, why in mistakes if _same(got, np.asarray(wrong), rtol, atol)), "")
        hint = known or (f"{seen}; {hint}" if seen else hint)
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=0)) if want.dtype.kind == "f" else 0
    nearly = not known and largest < 1e30  # next to a huge number of `sprinkled`, every other counts as nearly right
    with _naming_unset_variable(launched) if (launched := _launch_of(got)) else contextlib.nullcontext():
        expect(got, want, what=what, hint=hint, rtol=rtol, atol=atol, nearly=nearly)


def _launch_of(result: np.ndarray) -> _Launched | None:
    """The last launch among whose arguments is this array or the array it is a view of."""
    for launched in reversed(_launches):
        if any(np.may_share_memory(result, array) for array in _arrays(launched.args).values()):
            return launched
    return None


def _usual(values: np.ndarray) -> float:
    """The largest magnitude, ignoring infinities and the huge numbers of `sprinkled`; 1 if there is none."""
    sizes = np.abs(values.astype(np.float64))
    return float(sizes[sizes < 1e30].max(initial=0.0)) or 1.0


def _same(got: np.ndarray, wrong: np.ndarray, rtol: float, atol: float) -> bool:
    """Whether a result equals that of a mistake, up to rounding."""
    near = max(10 * rtol, 1e-5) * _usual(wrong) + 10 * atol
    return wrong.shape == got.shape and not how_it_differs(
        got.astype(np.float64), wrong.astype(np.float64), 0.0, near
    )  # fmt: skip


def in_common(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str:
    """A pattern that the wrong elements of a result have in common, in words; "" if there is none."""
    scale = _usual(want)
    near = 10 * (rtol * scale + atol) + 1e-6 * scale
    a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(a - b) <= near) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if wrong.sum() < 2:
        return ""
    if wrong.size > 3 and (seen := _overall_pattern(a, b, near, want)):
        return seen
    where = np.argwhere(wrong.reshape(got.shape))
    for axis, name in enumerate(_AXES.get(got.ndim, ())):
        if got.shape[axis] < 2:
            continue
        which = np.unique(where[:, axis])
        if len(which) == 1:
            last = which[0] == got.shape[axis] - 1
            return f"only {name} {int(which[0])}{', the last one,' if last else ''} is wrong"
    if wrong.all():
        return ""
    first = int(np.argmax(wrong))
    if wrong[first:].all():
        return f"only the last {wrong.size - first} elements are wrong"
    if wrong[: int(wrong.sum())].all():
        return f"only the first {int(wrong.sum())} elements are wrong"
    return ""


_AXES = {2: ("row", "column"), 3: ("number", "row", "column")}


def _overall_pattern(a: np.ndarray, b: np.ndarray, near: float, want: np.ndarray) -> str:
    """A pattern common to all elements of the result `a` (1-D), expected `b`, which is `want` flattened; or ""."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return "every element is NaN" if np.isnan(a).all() else ""
    if not a.any():
        return "every element is 0"
    if (a == a[0]).all():
        return f"every element is {a[0]:.6g}"
    large = np.abs(b) > 0.1 * np.abs(b).max()
    factor = float(np.median(a[large] / b[large]))
    if abs(factor) > 1e-6 and np.abs(a - factor * b).max() <= near * max(1.0, abs(factor)):
        return f"each element is {factor:.4g} times what is expected"
    if np.abs(a - b - (a - b).mean()).max() <= near:
        return f"each element is {(a - b).mean():+.4g} off"
    if want.ndim == 2 and min(want.shape) > 1 and np.abs(a - want.astype(np.float64).T.ravel()).max() <= near:
        return "these are the right numbers, with rows and columns exchanged"
    if np.abs(np.sort(a) - np.sort(b)).max() <= near:
        return "these are the right numbers, in other places"
    return ""
