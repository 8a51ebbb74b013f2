"""Debug information: addresses of code → lines of the source, offsets in shared memory → names of arrays."""

import functools
import re
import struct
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

SOURCE = "kernel.cu"  # the file name that compiler.py gives to the learner's source
_OURS = re.compile(r"(?:^|\d)(?:sim_|Sim[A-Z])|^completed\.|^__")  # names of the simulator's headers, mangled or not
_WRITABLE = 1  # SHF_WRITE
_OBJECT, _THREADS_OWN = 1, 6  # STT_OBJECT, STT_TLS
_NO_SECTION = (0, 0xFFF1, 0xFFF2)  # SHN_UNDEF, SHN_ABS, SHN_COMMON
_LEADS_ON = ("DW_AT_type", "DW_AT_abstract_origin", "DW_AT_specification")


def prepare() -> type["ELFFile"]:
    """Import the class ELFFile; takes 60 ms, so plain launches do not import it."""
    from elftools.elf.elffile import ELFFile

    return ELFFile


def _elf(file: IO[bytes]) -> "ELFFile":
    return prepare()(file)


class Symbol(NamedTuple):
    """An entry of a library's table of symbols; kind is STT_…"""

    name: str
    value: int
    size: int
    kind: int
    section: int


def _symbols(elf: "ELFFile") -> list[Symbol]:
    """The table of symbols, read as Elf64_Sym lays it out: pyelftools takes milliseconds, for an object of each."""
    table: Any = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    names = table.stringtable.data()
    return [
        Symbol(names[name : names.index(0, name)].decode("utf-8", "replace"), value, size, info & 15, section)
        for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", table.data())
    ]


def _plain_name(symbol: str) -> str:
    """The name in the source of a mangled symbol.

    _ZZ<function>E<length><name> for a function's static variable, _Z[N]…<length><name> for others.
    """
    if not symbol.startswith("_Z"):
        return symbol
    match = re.search(r"E(\d+)(\w+)$", symbol)
    if match and len(match[2]) >= int(match[1]):
        return match[2][: int(match[1])]
    name = ""
    rest = symbol.removeprefix("_Z").lstrip("NL")
    while match := re.match(r"L?(\d+)", rest):  # the last name of a::b::c
        end = match.end() + int(match[1])
        name, rest = rest[match.end() : end], rest[end:]
    return name or symbol


def static_shared(library: Path) -> dict[str, list[tuple[str, int]]]:
    """The arrays (name, bytes) of static shared memory by function; "" for those outside of functions."""
    found: dict[str, list[tuple[str, int]]] = {}
    with library.open("rb") as file:
        for symbol in _symbols(_elf(file)):
            name = symbol.name
            if symbol.kind != _THREADS_OWN or name.startswith("_ZGV") or _OURS.search(name):
                continue
            function = re.match(r"_ZZN?L?(\d+)(\w+)", name)
            inside = function[2][: int(function[1])] if function else ""
            found.setdefault(inside, []).append((_plain_name(name), symbol.size))
    return found


@functools.lru_cache(maxsize=64)
def shared_arrays(library: Path) -> tuple[tuple[int, int, str], ...]:
    """The arrays of static shared memory as (offset of the first byte, offset of the end, name), sorted."""
    with library.open("rb") as file:
        return _shared_among(_symbols(_elf(file)))


def _shared_among(symbols: Iterable[Symbol]) -> tuple[tuple[int, int, str], ...]:
    found = []
    for symbol in symbols:
        name = symbol.name
        if symbol.kind == _THREADS_OWN and not name.startswith("_ZGV") and not _OURS.search(name):
            found.append((symbol.value, symbol.value + symbol.size, _plain_name(name)))
    return tuple(sorted(found))


class Symbols:
    """The debug information of one library of kernels.

    shared: as shared_arrays. variables: (low, high, name, bytes per element) of __device__ variables, addresses in the
    library. guards: offsets of g++'s flags for the initialization of shared arrays.
    """

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def of(library: Path) -> "Symbols":
        """The debug information of a library, read once and cached."""
        return Symbols(library)

    def __init__(self, library: Path) -> None:
        self._rows: list[tuple[int, int]] = []  # (address, line); line 0 where another file's code begins
        self._inlined: list[tuple[int, int, int]] = []  # (low, high, line of the call in the source)
        self.variables: list[tuple[int, int, str, int]] = []  # (low, high, name, bytes per element)
        self.alignments: dict[int, int] = {}  # offset of a shared array → what its declaration asks for, in bytes
        self._elements: dict[int, int] = {}  # address of a variable → bytes per element
        self.guards: list[int] = []  # flags of g++: whether a float4 array is initialized
        with library.open("rb") as file:
            elf = _elf(file)
            dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)  # a linked library has no relocations in them
            for unit in dwarf.iter_CUs():
                program = dwarf.line_program_for_CU(unit)
                ours = _our_files(program)
                self._read_lines(program, ours)
                for die in unit.iter_DIEs():
                    if die.tag == "DW_TAG_inlined_subroutine":
                        self._read_inlined(dwarf, ours, unit, die)
                    elif die.tag == "DW_TAG_variable":
                        self._read_element(die)
            symbols = _symbols(elf)
            self.shared = _shared_among(symbols)
            self._read_symbols(elf, symbols)
        self._rows.sort()
        self._addresses = [address for address, _ in self._rows]

    def _read_lines(self, program: Any, ours: set[int]) -> None:
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            line = state.line if state.file in ours and not state.end_sequence else 0
            self._rows.append((state.address, line))

    def _read_inlined(self, dwarf: Any, ours: set[int], unit: Any, die: Any) -> None:
        """A call of an inlined function: its code, even from a header, belongs to the calling line of the source."""
        if "DW_AT_call_line" not in die.attributes or die.attributes["DW_AT_call_file"].value not in ours:
            return
        line = die.attributes["DW_AT_call_line"].value
        for low, high in _address_ranges(die, unit, dwarf.range_lists()):
            self._inlined.append((low, high, line))

    def _read_element(self, die: Any) -> None:
        place = die.attributes.get("DW_AT_location")
        if place is None or place.form != "DW_FORM_exprloc":
            return
        where = bytes(place.value)
        if len(where) == 9 and where[0] == 3:  # DW_OP_addr
            self._elements[int.from_bytes(where[1:], "little")] = _element_bytes(die)
        if len(where) == 10 and where[0] == 0x0E and where[9] in (0x9B, 0xE0):  # DW_OP_const8u, a thread's variable
            self.alignments[int.from_bytes(where[1:9], "little")] = _alignment(die)

    def _read_symbols(self, elf: "ELFFile", symbols: list[Symbol]) -> None:
        for symbol in symbols:
            low, high = symbol.value, symbol.value + symbol.size
            if symbol.kind == _THREADS_OWN and symbol.name.startswith("_ZGV"):
                self.guards.append(low)
            elif symbol.kind != _OBJECT or _OURS.search(symbol.name) or low >= high:
                continue
            elif _is_writable(elf, symbol.section):
                each = self._elements.get(low) or min(4, high - low)
                self.variables.append((low, high, _plain_name(symbol.name), each))

    def code_of(self, lines: Iterable[int]) -> list[tuple[int, int, int]]:
        """(low, high, line) of the code of lines of the source, sorted: return addresses a with low < a ≤ high."""
        wanted = set(lines)
        edges = {*self._addresses, *(edge for low, high, _ in self._inlined for edge in (low, high))}
        ordered = sorted(edges)
        pieces = ((low, high, self.line(low + 1)) for low, high in pairwise(ordered))
        return [piece for piece in pieces if piece[2] in wanted]

    def line(self, address: int) -> int:
        """The line of the source for a return address, which is that of the next instruction; 0 if unknown."""
        address -= 1
        i = bisect_right(self._addresses, address) - 1
        if i >= 0 and self._rows[i][1]:
            return self._rows[i][1]
        covering = [(high - low, line) for low, high, line in self._inlined if low <= address < high]
        return min(covering)[1] if covering else 0


def _our_files(program: Any) -> set[int]:
    """The file numbers of the learner's source in a DWARF line program."""
    first = 0 if program["version"] >= 5 else 1
    return {i + first for i, entry in enumerate(program["file_entry"]) if entry.name.decode() == SOURCE}


def _is_writable(elf: "ELFFile", section: int) -> bool:
    if section in _NO_SECTION:
        return False
    found: Any = elf.get_section(section)
    name = found.name
    return bool(found["sh_flags"] & _WRITABLE) and name.startswith((".data", ".bss")) and ".rel.ro" not in name


def _alignment(die: Any, depth: int = 16) -> int:
    """Bytes of whose multiples the address of a variable, or of a type, is one by its declaration; 1 if unknown."""
    own = int(die.attributes["DW_AT_alignment"].value) if "DW_AT_alignment" in die.attributes else 1
    if not depth:
        return own
    parts = [die.get_DIE_from_attribute(name) for name in _LEADS_ON if name in die.attributes]
    if die.tag in ("DW_TAG_structure_type", "DW_TAG_union_type"):
        parts += [child for child in die.iter_children() if child.tag == "DW_TAG_member"]
    if die.tag in ("DW_TAG_base_type", "DW_TAG_pointer_type"):
        return max(own, int(die.attributes["DW_AT_byte_size"].value))
    return max([own, *(_alignment(part, depth - 1) for part in parts)])


def _element_bytes(die: Any) -> int:
    """Bytes of a variable, or of an element if it is an array; 0 if the debug information lacks it."""
    for _ in range(16):
        if "DW_AT_type" not in die.attributes:
            break
        die = die.get_DIE_from_attribute("DW_AT_type")
        if die.tag != "DW_TAG_array_type" and "DW_AT_byte_size" in die.attributes:
            return int(die.attributes["DW_AT_byte_size"].value)
    return 0


def _address_ranges(die: Any, unit: Any, ranges: Any) -> list[tuple[int, int]]:
    attributes = die.attributes
    if "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]
    if "DW_AT_ranges" not in attributes:
        return []
    base_attribute = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
    base = base_attribute.value if base_attribute else 0
    found = []
    for entry in ranges.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=unit):
        if hasattr(entry, "base_address"):
            base = entry.base_address
        elif entry.is_absolute if hasattr(entry, "is_absolute") else False:
            found.append((entry.begin_offset, entry.end_offset))
        else:
            found.append((base + entry.begin_offset, base + entry.end_offset))
    return found
