"""Classes of machine instructions: "FFMA", "LDS.128", "MOV", … from the opcodes and modifiers that nvdisasm prints."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

# memory instructions that have a width: their letters say where to, and how
MEMORY = ("LDG", "LDS", "LDL", "LD", "STG", "STS", "STL", "ST", "LDGSTS")
_WIDTH = re.compile(r"\.[SU]?(8|16|32|64|128)(?=\.|$)")
_MATRICES = re.compile(r"\.M(?:T?88)\.?(2|4)?|\.(2|4)(?=\.|$)")

# classes in the order in which a reader wants them; every other class is summed up as "others"
SHOWN = (
    "FFMA", "FADD", "FMUL", "FMNMX", "HFMA2", "HADD2", "HMUL2", "HMNMX2", "DFMA", "DADD", "DMUL", "MUFU", "IDP", "HMMA",
    "IMMA", "HGMMA", "QGMMA", "LDS", "LDSM", "LDG", "LDGSTS", "LD", "LDL", "STS", "STSM", "STG", "ST", "STL", "ATOM",
    "ATOMS", "ATOMG", "RED", "REDUX", "UBLKCP", "UTMALDG", "UTMASTG", "SYNCS", "BAR", "UCGABAR_WAIT", "SHFL", "VOTE",
    "MATCH", "MEMBAR", "CALL",
)  # fmt: skip
# what calculates, with about the number of operations per thread
MATH = {
    **dict.fromkeys(("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL"), 1),
    **dict.fromkeys(("HFMA2", "HADD2", "HMUL2"), 2),
    "IDP": 4,  # dp4a
    "HMMA": 64,
    "IMMA": 128,  # of m16n8k32
    **dict.fromkeys(("HGMMA", "QGMMA"), 1024),
}


def class_of(opcode: str, operands: str = "") -> str:
    """The class of an instruction: its name, with the width in bits where it accesses memory.

    Copies of a register or of a constant are "MOV", in whichever unit they run: IMAD.MOV, HFMA2.MMA of zeros, CS2R.
    HADD2.F32 of a zero and a half is "HADD2.F32": it converts the half to a float, and calculates nothing.
    """
    name, _, modifiers = opcode.partition(".")
    if name in MEMORY:
        width = _WIDTH.findall("." + modifiers)
        return f"{name}.{width[-1] if width else 32}"
    if name in ("LDSM", "STSM"):
        number = re.search(r"88\.(2|4)", modifiers)
        return f"{name}.x{number[1] if number else 1}"
    if opcode.startswith(("IMAD.MOV", "MOV", "UMOV")) or (name == "CS2R" and operands.rstrip().endswith("SRZ")):
        return "MOV"
    if opcode.startswith("HADD2.F32") and re.search(r",\s*-?RZ,", operands):
        return "HADD2.F32"
    if name in ("HFMA2", "IMAD") and re.search(r",\s*-?RZ,\s*-?RZ,", operands):
        return "MOV"  # 0 · 0 + a constant
    return name


def rank(kind: str) -> int:
    """The place of a class in a list for readers; len(SHOWN) for "others"."""
    name = kind.partition(".")[0]
    if kind == "HADD2.F32":  # a conversion
        return len(SHOWN)
    return SHOWN.index(name) if name in SHOWN else len(SHOWN)


OTHERS = "Others: integers, addresses, comparisons, copies of registers, and control."


def sentence(mix: Mapping[str, int], others: bool = True) -> str:
    """A mix in words: "512 FFMA, 32 LDS.128, 14 others"."""
    shown = sorted((kind for kind in mix if rank(kind) < len(SHOWN)), key=lambda kind: (rank(kind), kind))
    parts = [f"{mix[kind]:,} {kind}" for kind in shown]
    rest = sum(number for kind, number in mix.items() if rank(kind) == len(SHOWN))
    if rest and others:
        parts.append(f"{rest:,} other{'s' * (rest != 1)}")
    return ", ".join(parts)


def math_of(mix: Mapping[str, int]) -> int:
    """How much the instructions of a mix calculate, in instructions that make one operation per thread."""
    return sum(number * MATH.get(kind, 0) for kind, number in mix.items())


def total(mixes: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The sum of several mixes."""
    found: Counter[str] = Counter()
    for one in mixes:
        found.update(one)
    return found
