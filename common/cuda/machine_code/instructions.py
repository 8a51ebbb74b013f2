"""Instructions, lines and loops from nvdisasm's text of a kernel."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..nvrtc import FILE
from . import mix

_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;?$")
_LABEL = re.compile(r"^(\.L\w*|\$\w+\$\S*):")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_TARGET = re.compile(r"`\((\.L\w+)\)")
_ENDS = ("EXIT", "RET", "BRA", "NOP")


@dataclass(frozen=True)
class Instruction:
    """One machine instruction. line: of the kernel's source, 0 if it has none; kind: its class, see mix.py.

    loop: the number of the innermost loop around it, −1 outside of loops. target: the address that it may jump to, −1
    for none.
    """

    address: int
    text: str
    kind: str
    line: int
    loop: int = -1
    target: int = -1


@dataclass(frozen=True)
class Loop:
    """A loop of the machine code: the instructions from a label to the branch back to it.

    depth: how many loops are around it. lines: the source lines of its instructions. instructions: what one turn
    executes, of all paths through it, without the loops inside; a turn may be several turns of the source's loop, if
    the compiler unrolled it.
    """

    number: int
    low: int
    high: int
    depth: int
    lines: tuple[int, ...]
    instructions: Counter[str]

    def __str__(self) -> str:
        number = sum(self.instructions.values())
        return f"one turn, {number:,} instructions: {mix.sentence(self.instructions)}"


def parse(text: str) -> tuple[list[Instruction], list[Loop]]:
    """(the instructions in their order, the loops from the innermost outwards) of a section of nvdisasm's output."""
    rows, labels = _rows(text)
    while rows and rows[-1][1].partition(".")[0] in ("NOP", "BRA") and _is_padding(rows[-1], labels):
        rows.pop()
    ranges = _ranges(rows, labels)
    instructions = []
    for address, opcode, operands, shown, line in rows:
        around = [number for number, (low, high) in enumerate(ranges) if low <= address <= high]
        loop = min(around, key=lambda n: ranges[n][1] - ranges[n][0], default=-1)
        target = _target(operands, labels) if opcode.startswith("BRA") else None
        kind = mix.class_of(opcode, operands)
        instructions.append(Instruction(address, shown, kind, line, loop, -1 if target is None else target))
    return instructions, [_loop(instructions, ranges, number) for number in range(len(ranges))]


def hottest(loops: Sequence[Loop]) -> Loop | None:
    """The loop that calculates most, if each is taken to make four turns; else the longest. None without loops."""

    def work(loop: Loop) -> tuple[int, int]:
        turns = 4**loop.depth
        return turns * mix.math_of(loop.instructions), turns * sum(loop.instructions.values())

    return max(loops, key=work, default=None)


def _rows(text: str) -> tuple[list[tuple[int, str, str, str, int]], dict[str, int]]:
    """([(address, opcode, operands, text, source line)], addresses of the labels)."""
    rows: list[tuple[int, str, str, str, int]] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    line, places = 0, []  # places: of the function that an instruction is from, then of its callers
    for row in text.splitlines():
        if place := _PLACE.search(row):
            places.append((place[1].rpartition("/")[2], int(place[2])))
            continue
        if places:
            line, places = next((number for file, number in places if file == FILE), 0), []
        if label := _LABEL.match(row):
            waiting.append(label[1])
        elif found := _INSTRUCTION.match(row):
            address, predicate, opcode, operands = int(found[1], 16), found[2], found[3], found[4]
            labels.update(dict.fromkeys(waiting, address))
            waiting.clear()
            shown = " ".join(part for part in (predicate, opcode, operands) if part)
            rows.append((address, opcode, operands, shown, line))
    return rows, labels


def _is_padding(row: tuple[int, str, str, str, int], labels: dict[str, int]) -> bool:
    """Whether it is what fills a kernel's end: a NOP, or a branch to itself."""
    address, opcode, operands, _, _ = row
    return opcode == "NOP" or _target(operands, labels) == address


def _target(operands: str, labels: dict[str, int]) -> int | None:
    found = _TARGET.search(operands)
    return labels.get(found[1]) if found else None


def _ranges(rows: Iterable[tuple[int, str, str, str, int]], labels: dict[str, int]) -> list[tuple[int, int]]:
    """(first, last address) of each loop, shortest first.

    Several branches to the same label are one loop, and so are loops that overlap without one being inside the other:
    a loop of which the compiler has moved the beginning.
    """
    ends: dict[int, int] = {}
    for address, opcode, operands, _, _ in rows:
        target = _target(operands, labels) if opcode.startswith("BRA") else None
        if target is not None and target < address:
            ends[target] = max(address, ends.get(target, 0))
    ranges: list[tuple[int, int]] = []
    for low, high in sorted(ends.items()):
        while overlapping := [one for one in ranges if one[0] < low <= one[1] < high]:
            low, high = overlapping[0][0], max(high, overlapping[0][1])
            ranges.remove(overlapping[0])
        ranges.append((low, high))
    return sorted(ranges, key=lambda both: both[1] - both[0])


def _loop(instructions: Sequence[Instruction], ranges: Sequence[tuple[int, int]], number: int) -> Loop:
    low, high = ranges[number]
    own = [one for one in instructions if one.loop == number]
    depth = sum(a <= low and high <= b for i, (a, b) in enumerate(ranges) if i != number)
    lines = tuple(sorted({one.line for one in own if one.line}))
    return Loop(number, low, high, depth, lines, Counter(one.kind for one in own))
