"""How long the chains of dependent arithmetic are that the hot loop of a kernel makes longer with every turn."""

import re
from collections.abc import Iterable

from .inspection import Inspection
from .instructions import Instruction

ARITHMETIC = ("FFMA", "FADD", "FMUL", "FMNMX")
_REGISTER = re.compile(r"\bR(\d+)\b")
_NO_RESULT = ("ST", "BRA", "BAR", "EXIT", "RED", "BSYNC", "BSSY", "ISETP", "FSETP", "UIADD3", "ULDC")


def growth(found: Inspection) -> int:
    """By how many dependent floating-point instructions one turn of the hot loop lengthens the longest chain.

    One sum in one register that is added to four times per turn: 4. Four sums, each added to once: 1. 0 without a loop.
    """
    if found.loop is None:
        return 0
    turn = [one for one in found.code if one.loop == found.loop.number]
    depth: dict[int, int] = {}
    longest = []
    for _ in range(3):  # in the first turns, values from before the loop may be the longest
        _run(turn, depth)
        longest.append(max(depth.values(), default=0))
    return longest[2] - longest[1]


def loaded(found: Inspection) -> int:
    """How many 4-byte words one turn of the hot loop loads from global memory, per thread."""
    return sum(int(kind[4:]) // 32 * n for kind, n in found.hot.items() if kind.startswith("LDG."))


def _run(turn: Iterable[Instruction], depth: dict[int, int]) -> None:
    """Update depth: by register, how many dependent instructions of ARITHMETIC its value needed."""
    for one in turn:
        if one.kind.startswith(_NO_RESULT):
            continue
        registers = [int(number) for number in _REGISTER.findall(one.text)]
        if not registers:
            continue
        target, *sources = registers
        before = max((depth.get(source, 0) for source in sources), default=0)
        if one.kind.startswith("LD"):
            bits = one.kind.partition(".")[2]
            for number in range(max(1, int(bits) // 32) if bits.isdigit() else 2):
                depth[target + number] = 0
        else:
            depth[target] = before + (one.kind in ARITHMETIC)
