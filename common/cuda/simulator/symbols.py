"""From an address in compiled code to the learner's line, and from a place in shared memory to the array's name."""

import re
from bisect import bisect_right
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

SOURCE = "kernel.cu"  # what compiler.py calls the learner's text


class Symbols:
    """The debug information of one library of kernels."""

    def __init__(self, library: Path) -> None:
        self._rows: list[tuple[int, int]] = []  # address, line; 0 where another file's code begins
        self._inlined: list[tuple[int, int, int]] = []  # low, high, line of the call in the learner's text
        self.shared: list[tuple[int, int, str]] = []  # low, high, name, offsets in static shared memory
        self.guards: list[int] = []  # offsets of what g++ puts there to see if a float4 array is initialised
        with library.open("rb") as file:
            elf = ELFFile(file)
            for unit in elf.get_dwarf_info().iter_CUs():
                self._read_lines(elf, unit)
                self._read_inlined(elf, unit)
            self._read_shared(elf)
        self._rows.sort()
        self._addresses = [address for address, _ in self._rows]

    def _read_lines(self, elf: ELFFile, unit: Any) -> None:
        program: Any = elf.get_dwarf_info().line_program_for_CU(unit)
        files = program["file_entry"]
        first = 0 if program["version"] >= 5 else 1
        ours = {i + first for i, entry in enumerate(files) if entry.name.decode() == SOURCE}
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            line = state.line if state.file in ours and not state.end_sequence else 0
            self._rows.append((state.address, line))

    def _read_inlined(self, elf: ELFFile, unit: Any) -> None:
        """Calls of inlined functions: code that comes from a header belongs to the line that calls it."""
        dwarf = elf.get_dwarf_info()
        program: Any = dwarf.line_program_for_CU(unit)
        first = 0 if program["version"] >= 5 else 1
        ours = {i + first for i, entry in enumerate(program["file_entry"]) if entry.name.decode() == SOURCE}
        ranges = dwarf.range_lists()
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in die.attributes:
                continue
            if die.attributes["DW_AT_call_file"].value not in ours:
                continue
            line = die.attributes["DW_AT_call_line"].value
            for low, high in _address_ranges(die, unit, ranges):
                self._inlined.append((low, high, line))

    def _read_shared(self, elf: ELFFile) -> None:
        table: Any = elf.get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if table else ():
            if symbol["st_info"]["type"] == "STT_TLS" and not symbol.name.startswith(("sim_", "_ZL17sim", "_ZL2")):
                if symbol.name.startswith("_ZGV"):
                    self.guards.append(symbol["st_value"])
                    continue
                # a static of a function: _ZZ<function>E<length><name>, one of its own: <name>
                match = re.search(r"E(\d+)(\w+)$", symbol.name)
                name = match[2][: int(match[1])] if match else symbol.name
                self.shared.append((symbol["st_value"], symbol["st_value"] + symbol["st_size"], name))

    def line(self, address: int) -> int:
        """The line of the learner's text that an instruction belongs to (the address is of the one after it), or 0."""
        address -= 1
        i = bisect_right(self._addresses, address) - 1
        if i >= 0 and self._rows[i][1]:
            return self._rows[i][1]
        covering = [(high - low, line) for low, high, line in self._inlined if low <= address < high]
        return min(covering)[1] if covering else 0


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
