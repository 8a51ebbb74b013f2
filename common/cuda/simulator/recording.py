"""Conversion of the runtime's recording of a traced launch to the parts of a Report."""

import ctypes
import math
import re
from typing import Any

import numpy as np

from .. import report as reports
from ..report import Counts, LineCounts
from .binding import FaultKind, Finding, FindingKind, Request, Site, runtime
from .symbols import Symbols

_IN_SHARED, _IN_NOTHING = -1, -2  # in place of an array's index
_KINDS = ("load", "store", "atomic")  # indexed by AccessKind
_FINDINGS = (  # indexed by FindingKind
    "race", "out-of-bounds", "uninitialised-read", "divergent-barrier", "deadlock", "misaligned", "absent-block",
    "absent-block", "out-of-bounds", "out-of-bounds", "out-of-bounds", "missed-barrier", "out-of-bounds",
)  # fmt: skip
_SEVERAL = 0xFFFF  # in place of a thread: more than one
_ENGINE = 1024  # from there on: not a thread, but the bulk copies that an mbarrier counts


class Reader:
    """Reads the recordings of all workers of a traced launch.

    request          the TraceRequest of the launch, with `workers` recordings
    symbols          of the kernel's library
    arrays           (parameter, array, …) of each traced array, as Arguments.where
    grid, block, cluster   (x, y, z) of the launch
    dynamic, name    bytes of dynamic shared memory, and its name in the source
    source           the kernel's source
    """

    def __init__(
        self,
        request: Any,
        workers: int,
        symbols: Symbols,
        arrays: list,
        grid: tuple,
        block: tuple,
        cluster: tuple,
        dynamic: int,
        name: str,
        source: str,
    ) -> None:
        self._source = source.splitlines()
        self._traces = [request.workers[w] for w in range(workers) if request.workers[w]]
        self._symbols, self._arrays, self._grid, self._block, self._cluster = symbols, arrays, grid, block, cluster
        statics = runtime().sim_trace_static_bytes(self._traces[0]) if self._traces else 0
        self._shared_arrays = list(symbols.shared)  # (low, high, name); the dynamic array follows the static ones
        if dynamic:
            self._shared_arrays.append((statics, statics + dynamic, name))

    def _read(self, what: str, structure: Any) -> list[tuple[Any, int]]:
        """(record, load address of the code) for all records of a kind: "sites", "requests" or "findings"."""
        records = []
        for trace in self._traces:
            count = ctypes.c_int64()
            address = getattr(runtime(), f"sim_trace_{what}")(trace, ctypes.byref(count))
            base = runtime().sim_trace_module(trace)
            if count.value:
                records += [(r, base) for r in (structure * count.value).from_address(address)]
        return records

    def _line(self, pc: int, base: int) -> int:
        return self._symbols.line(pc - base) if pc else 0

    def _array(self, number: int, offset: int) -> str:
        if number >= 0:
            return self._arrays[number][0].name
        return self._shared(offset)[2]

    def _shared(self, offset: int) -> tuple[int, int, str]:
        """The array (first byte, end, name) of shared memory at an offset, or the nearest one."""
        nearest = min(
            self._shared_arrays,
            key=lambda array: max(array[0] - offset, offset - array[1] + 1, 0),
            default=(0, 0, "shared memory"),
        )
        return nearest

    def _thread(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self._block
        return number % x, number // x % y, number // (x * y)

    def _block_index(self, number: int) -> tuple[int, int, int]:
        """The block index (x, y, z) for a number of the runtime, which numbers blocks cluster by cluster."""
        cluster, inside = divmod(number, math.prod(self._cluster))
        cx, cy, _ = self._cluster
        x, y = self._grid[0] // cx, self._grid[1] // cy
        place = cluster % x, cluster // x % y, cluster // (x * y)
        within = inside % cx, inside // cx % cy, inside // (cx * cy)
        a, b, c = (p * size + w for p, size, w in zip(place, self._cluster, within, strict=True))
        return a, b, c

    def _cluster_of(self, number: int) -> int:
        return number // math.prod(self._cluster)

    def lines(self) -> tuple[LineCounts, ...]:
        """The counts per line of the source, array, kind and size of access, in the order of the lines."""
        first_offset: dict[tuple, int] = {}
        for r, base in self._read("requests", Request):
            lane = (r.lanes & -r.lanes).bit_length() - 1
            first_offset.setdefault((r.pc - base, r.array, r.size, r.kind), r.addresses[lane])
        entries = []
        for s, base in self._read("sites", Site):
            offset = first_offset.get((s.pc - base, s.array, s.size, s.kind), 0)
            space = "shared" if s.array == _IN_SHARED else "global"
            counts = Counts(space, s.requests, s.accesses, s.units, s.ideal, s.bytes)
            line, array = self._line(s.pc, base), self._array(s.array, offset)
            entries.append(LineCounts(line, array, _KINDS[s.kind], s.size, counts, s.warps, s.lanes))
        return reports.merge_lines(entries)

    def requests(self) -> tuple[reports.Request, ...]:
        """The recorded requests of the lowest-numbered traced block for each access, in the order of the lines."""
        found = []
        for order, (r, base) in enumerate(self._read("requests", Request)):
            offsets = np.array(r.addresses, np.int64)
            active = np.array([r.lanes >> lane & 1 for lane in range(32)], bool)
            space = "shared" if r.array == _IN_SHARED else "global"
            first = int(offsets[active][0])
            name = self._array(r.array, first)
            if space == "shared" and offsets[active].min() >= self._shared(first)[0]:
                offsets -= self._shared(first)[0]
            made = reports.Request(
                self._line(r.pc, base), name, _KINDS[r.kind], r.size, space, self._block_index(r.block), r.warp,
                np.where(active, offsets, -1),
            )  # fmt: skip
            found.append(((r.pc - base, r.array, r.size, r.kind), r.block, order, made))
        lowest: dict[Any, int] = {}
        for key, number, _, _ in found:
            lowest[key] = min(number, lowest.get(key, number))
        chosen = [(key, order, made) for key, number, order, made in found if number == lowest[key]]
        return tuple(made for _, _, made in sorted(chosen, key=lambda k: (k[2].line, k[0], k[1])))

    def findings(self) -> list[reports.Finding]:
        """The findings, merged by line, kind, array and access; races within a warp come last."""
        merged: dict[tuple, list[tuple[Any, int]]] = {}
        for f, base in self._read("findings", Finding):
            if f.kind == FindingKind.MISSED_BARRIER:
                continue
            merged.setdefault((self._line(f.pc, base), f.kind, f.array, f.access), []).append((f, base))
        ranked = []
        for (line, kind, _, _), group in merged.items():
            f, base = min(group, key=lambda entry: (-entry[0].rank, entry[0].block, entry[0].thread, entry[0].offset))
            ranked.append((self._finding(f, base, line, sum(g.count for g, _ in group), _FINDINGS[kind]), f.rank))
        # a race is recorded at both accesses: keep the one between warps, or the one in the later line
        sides = {(f.kind, f.array, f.line, f.other_line): rank for f, rank in ranked}
        found = [
            f for f, rank in ranked
            if (rank, f.line) >= (sides.get((f.kind, f.array, f.other_line, f.line), -1), f.other_line)
        ]  # fmt: skip
        # a read before a write that no barrier orders is reported as a race only
        raced = {(f.array, line) for f in found if f.kind == "race" for line in (f.line, f.other_line)}
        found = [f for f in found if f.kind != "uninitialised-read" or (f.array, f.line) not in raced]
        found += self._unaligned()
        in_a_warp = {id(f): f.kind == "race" and not rank and len(f.blocks) == 1 for f, rank in ranked}
        return sorted(
            found, key=lambda f: (in_a_warp.get(id(f), False), f.line, _FINDINGS.index(f.kind), f.array or "")
        )

    def _unaligned(self) -> list[reports.Finding]:
        """Targets of bulk copies in static arrays whose declaration does not ask for a multiple of 16 bytes.

        The compiler has put the array at such a multiple here. Another one need not.
        """
        found = {}
        for r, base in self._read("requests", Request):
            if r.array != _IN_SHARED or r.kind != _KINDS.index("store") or r.size <= 16:  # (of a thread: at most 16)
                continue
            low, _, name = self._shared(r.addresses[(r.lanes & -r.lanes).bit_length() - 1])
            line = self._line(r.pc, base)
            if self._symbols.alignments.get(low, 16) < 16:
                found[line, name] = reports.Finding(
                    "misaligned", line, f"a bulk copy goes to {name}, whose declaration does not ask for a multiple of"
                    f" 16 bytes: it lies at one here by luck. __shared__ __align__(16) … {name}", (), (), name,
                )  # fmt: skip
        return list(found.values())

    def missed(self) -> tuple[reports.Finding, ...]:
        """The barriers that threads of a block missed because they had returned, the first block for each line."""
        first: dict[int, Any] = {}
        for f, base in self._read("findings", Finding):
            line = self._line(f.pc, base)
            if f.kind == FindingKind.MISSED_BARRIER and (line not in first or f.block < first[line].block):
                first[line] = f
        threads, made = math.prod(self._block), []
        for line, f in sorted(first.items()):
            thread, block = self._thread(f.thread), self._block_index(f.block)
            message = (
                f"{f.length} of the {threads} threads of block {block} reach this __syncthreads; the others, such as"
                f" thread {thread}, have ended without reaching it"
            )
            made.append(reports.Finding("missed-barrier", line, message, (thread,), (block,)))
        return tuple(made)

    def in_flight(self) -> int:
        """The most bytes of bulk copies that a block had asked for and that had not come yet."""
        return max((runtime().sim_trace_in_flight(trace) for trace in self._traces), default=0)

    def _indexed(self, line: int, column: int) -> str | None:
        """The name of the array that is indexed at a position of the source: the last one that begins before it."""
        text = self._source[line - 1] if 0 < line <= len(self._source) else ""
        names = list(re.finditer(r"\b([A-Za-z_]\w*+)\s*+\[", text))
        before = [name[1] for name in names if name.start() < column]
        return before[-1] if before else names[0][1] if names else None

    def _bad_index(self, f: Any, line: int, count: int) -> reports.Finding:
        name = self._indexed(line, f.other_thread)
        thread, block = self._thread(f.thread), self._block_index(f.block)
        kind = re.sub(r"^'|'$", "", f.type.decode(errors="replace"))
        message = (
            f"thread {thread} of block {block} uses index {f.offset} of {name or 'an array'}, which has {f.length}"
            f" elements there ({kind})" + (f" (seen {count} times)" if count > 1 else "")
        )
        return reports.Finding("out-of-bounds", line, message, (thread,), (block,), name, int(f.offset), 0, count)

    def _finding(self, f: Any, base: int, line: int, count: int, kind: str) -> reports.Finding:
        if f.kind == FindingKind.BAD_INDEX:
            return self._bad_index(f, line, count)
        thread, block = self._thread(f.thread), self._block_index(f.block)
        other_line = self._line(f.other_pc, base)
        array = None if f.array == _IN_NOTHING else self._array(f.array, f.offset)
        itemsize, index, low, high = 1, f.offset, 0, 0
        if f.array >= 0:
            itemsize = self._arrays[f.array][1].itemsize
        elif f.array == _IN_SHARED:
            itemsize = max(1, f.size)
            low, high, _ = self._shared(f.offset)
            index = f.offset - low
        index //= itemsize
        threads, blocks = [thread], [block]
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[_KINDS[f.access]]
        who = f"thread {thread} of block {block}"
        times = f" (seen {count} times)" if count > 1 else ""
        where = f"{array}[{index}]" if array else f"address {f.offset % 2**64:#x}"
        if f.array == _IN_SHARED and f.owner != f.block:
            where += f" of block {self._block_index(f.owner)}"
        if f.kind == FindingKind.BAD_COPY:
            message = f"{who} {verb} {f.offset} bytes of a local array, which has {f.length} from there on{times}"
        elif f.kind == FindingKind.NOT_GLOBAL:
            place = f"{where}, which is shared memory" if f.array == _IN_SHARED else "a local variable"
            message = f"{who} {verb} {place}, with an instruction for global memory alone{times}"
        elif f.kind == FindingKind.LOCAL_OVERRUN:
            message = f"{who} {verb} beyond its own local variables{times}"
        elif kind == "out-of-bounds" and not array and 0 <= f.offset < 4096:
            message = f"{who} {verb} through a null pointer{times}"
        elif kind == "out-of-bounds":
            limit = self._arrays[f.array][1].size if f.array >= 0 else (high - low) // itemsize or None
            has = f", but {array} has {limit} elements" if limit is not None else ""
            has = has or ("" if array else ", which is far from every array")
            message = f"{who} {verb} {where}{has}{times}"
        elif kind == "misaligned":
            message = (
                f"{who} {verb} {f.size} bytes at {where}, whose address is not a multiple of {min(f.size, 16)}{times}"
            )
        elif kind == "uninitialised-read":
            nobody = "no thread of the block" if f.owner == f.block else "no thread of the cluster"
            message = f"{who} reads {where} of shared memory, which {nobody} has written{times}"
        elif kind == "absent-block":
            why = (
                "that block may not have started: no cluster_sync comes before"
                if f.kind == FindingKind.NOT_STARTED
                else "that block may have returned: no cluster_sync comes after"
            )
            message = f"{who} {verb} {where}, and {why}{times}"
        elif kind == "divergent-barrier":
            threads.append(self._thread(f.other_thread))
            message = (
                f"{who} waits at this __syncthreads while {self._thread(f.other_thread)} waits at the one in line "
                f"{other_line}: all threads of a block must reach the same one"
            )
        else:
            if f.other_block != f.block:
                blocks.append(self._block_index(f.other_block))
                threads.append(self._thread(f.other_thread))
                other = f"thread {self._thread(f.other_thread)} of block {self._block_index(f.other_block)}"
                same = self._cluster_of(f.other_block) == self._cluster_of(f.block)
                between = "blocks run in any order, and nothing orders these two"
                if same and math.prod(self._cluster) > 1:
                    between = "no cluster_sync lies between"
            elif f.length or _ENGINE <= f.other_thread < _SEVERAL:
                return self._race_of_a_copy(f, line, other_line, where, verb, array, int(index), count)
            else:
                several = f.other_thread == _SEVERAL
                if not several:
                    threads.append(self._thread(f.other_thread))
                other = "several threads" if several else f"thread {self._thread(f.other_thread)}"
                same_warp = not several and f.other_thread // 32 == f.thread // 32
                between = "no __syncthreads lies between"
                if same_warp:
                    between = "lanes of one warp need not run in step (since Volta), and neither __syncthreads nor"
                    between += " __syncwarp lies between"
            in_one_line = verb == "writes" and line == other_line and f.other_block == f.block
            if in_one_line and _KINDS[f.other_access] == "load":  # as in s[t] += s[t + 1]
                reads = "which several threads read" if several else f"and {other} reads it in the same line"
                message = f"{who} writes {where}, {reads}: {between}{times}"
            elif in_one_line:
                message = f"{who} writes {where}, and so does {other}, in the same line: nothing says which comes last"
                message = message.replace("so does several", "so do several") + times
            else:
                does = "use it, one of them" if other == "several threads" else "uses it"
                message = f"{who} {verb} {where}, {other} {does} in line {other_line}: {between}{times}"
        return reports.Finding(
            kind, line, message, tuple(threads), tuple(dict.fromkeys(blocks)), array,
            None if array is None else int(index), other_line, count,
        )  # fmt: skip

    def _race_of_a_copy(
        self, f: Any, line: int, other_line: int, where: str, verb: str, array: str | None, index: int, count: int
    ) -> reports.Finding:
        thread, block = self._thread(f.thread), self._block_index(f.block)
        times = f" (seen {count} times)" if count > 1 else ""
        threads = [thread]
        if f.length and f.other_thread < _ENGINE:
            other = self._thread(f.other_thread)
            threads.append(other)
            message = (
                f"the bulk copy that thread {thread} of block {block} begins here writes {where}, which thread {other}"
                f" uses in line {other_line}: no mbarrier orders the two"
            )
        elif f.length:
            message = (
                f"the bulk copy that thread {thread} of block {block} begins here writes {where}, as does the one"
                f" begun in line {other_line}: nobody has waited for that one"
            )
        else:
            message = (
                f"thread {thread} of block {block} {verb} {where}, which the bulk copy begun in line {other_line}"
                " writes: the thread has not waited for that phase of the copy's mbarrier"
            )
        return reports.Finding("race", line, message + times, tuple(threads), (block,), array, index, other_line, count)

    def fault(self, fault: Any, message: str) -> reports.Finding:
        """The finding for a fault that stopped the launch: kind "deadlock" or "stopped"."""
        block = (fault.block.x, fault.block.y, fault.block.z)
        thread = (fault.thread.x, fault.thread.y, fault.thread.z)
        stuck = (FaultKind.DEADLOCK, FaultKind.GRID_DEADLOCK, FaultKind.CLUSTER_DEADLOCK)
        kind = "deadlock" if fault.kind in stuck else "stopped"
        base = runtime().sim_trace_module(self._traces[0]) if self._traces else 0
        line = fault.line or (self._line(fault.pc, base) if fault.pc > base else 0)
        return reports.Finding(kind, line, message.removeprefix("deadlock "), (thread,), (block,))
