"""cuda.inspect: what the compiler made of a kernel, line by line, without a GPU."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import compiled, instructions, mix, ptx
from . import occupancy as occupancies
from .compiled import Resources
from .instructions import Instruction, Loop
from .occupancy import CARDS, Occupancy


class Sass(str):
    """Machine code as text, which a notebook shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def inspect(kernel: Any, block: Any = 256, shared_mem: int = 0, arch: str = "sm_90") -> "Inspection":
    """Compile a kernel to machine code and return an Inspection: registers, occupancy, instructions of each line.

    kernel       from cuda.RawKernel or RawModule.get_function; it is compiled with its own options. No GPU is needed
    block        threads per block of the launch, a number or a tuple
    shared_mem   bytes of dynamic shared memory per block of the launch
    arch         "sm_75" (T4), "sm_80" (A100), "sm_89" (L4), "sm_90" (H200), or "sm_90a" with wgmma

    ValueError for another architecture, for one older than the source requires, and for more threads than the kernel's
    __launch_bounds__ allow; RuntimeError, which says what to install, where NVRTC or nvdisasm is missing.
    """
    return inspect_source(kernel.origin, kernel.name, block, shared_mem, arch)


def inspect_source(
    origin: tuple, name: str, block: Any = 256, shared_mem: int = 0, arch: str = "sm_90"
) -> "Inspection":
    """`inspect` of the kernel `name` of a source that is not compiled yet.

    origin: (source, options, name expressions). Errors as of `inspect`; ValueError for a missing kernel.
    """
    threads = _threads(block)
    code = compiled.machine_code(origin, name, arch)
    if threads > code.resources.most_threads:
        raise ValueError(f"block has {threads} threads; __launch_bounds__ allow {code.resources.most_threads}")
    made, loops = instructions.parse(code.text)
    return Inspection(
        name, arch, threads, int(shared_mem), origin[0], code.resources, tuple(made), tuple(loops), origin,
    )  # fmt: skip


def _threads(block: Any) -> int:
    threads = 1
    for size in block if isinstance(block, Sequence) else (block,):
        if isinstance(size, bool) or int(size) != size or size < 1:
            raise ValueError(f"block must be positive numbers of threads, got {block!r}")
        threads *= int(size)
    if threads > 1024:
        raise ValueError(f"block must have at most 1024 threads, got {threads}")
    return threads


@dataclass(frozen=True)
class Inspection:
    """A kernel as machine code for one architecture. Its instructions are listed once each, however often they run.

    kernel, arch, block, shared_mem, source   as given
    resources      see compiled.Resources
    code           the machine instructions in their order
    loops          the loops, from the innermost outwards
    """

    kernel: str
    arch: str
    block: int
    shared_mem: int
    source: str = field(repr=False)
    resources: Resources
    code: tuple[Instruction, ...] = field(repr=False)
    loops: tuple[Loop, ...] = field(repr=False)
    origin: tuple = field(repr=False)

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return self.resources.registers

    @property
    def spills(self) -> int:
        """Bytes that the assembler's spills store and load again, per thread: registers that it had not."""
        return self.resources.spill_stores + self.resources.spill_loads

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block, static and dynamic."""
        return self.resources.shared + self.shared_mem

    @cached_property
    def instructions(self) -> Counter[str]:
        """All instructions of the kernel by class: "FFMA", "LDS.128", …"""
        return Counter(one.kind for one in self.code)

    @cached_property
    def lines(self) -> dict[int, Counter[str]]:
        """The instructions of each line of the source; those of a header's function are the calling line's."""
        found: dict[int, Counter[str]] = {}
        for one in self.code:
            if one.line:
                found.setdefault(one.line, Counter())[one.kind] += 1
        return dict(sorted(found.items()))

    @cached_property
    def loop(self) -> Loop | None:
        """The hot loop: the one that calculates most. None for a kernel without loops."""
        return instructions.hottest(self.loops)

    @property
    def hot(self) -> Counter[str]:
        """The instructions of one turn of the hot loop; of the whole kernel if it has no loop."""
        return self.loop.instructions if self.loop else self.instructions

    def occupancy(self, card: str = "H200") -> Occupancy:
        """Blocks and warps per multiprocessor of a card ("T4", "A100", "L4", "H200"), and what limits them.

        For a card of another architecture the kernel is compiled again: registers differ. ValueError as of `inspect`.
        """
        arch, resources = occupancies.card(card).arch, self.resources
        if not self.arch.startswith(arch):
            resources = compiled.machine_code(self.origin, self.kernel, arch).resources
        return occupancies.occupancy(card, self.block, resources.registers, resources.shared + self.shared_mem)

    def sass(self, line: int | None = None) -> Sass:
        """The machine code of one line of the source, in the order of the addresses; of the whole kernel without one.

        "↻" marks the instructions of the hot loop. ValueError for a line without instructions.
        """
        chosen = [one for one in self.code if line in (None, one.line)]
        if not chosen:
            raise ValueError(f"line {line} has no machine code; lines that have: {_spans(self.lines)}")
        return Sass("\n".join(f"{'↻' if self._is_hot(one) else ' '} {one.address:04x}  {one.text}" for one in chosen))

    def ptx(self, line: int | None = None) -> Sass:
        """The PTX of one line of the source, or of the whole kernel. ValueError for a line without instructions."""
        source, options, names = self.origin[:3]
        text = compiled.virtual_code(source, tuple(options), tuple(names), self.arch)
        return Sass(ptx.of_line(text, self.kernel, line))

    def widths(self) -> dict[int, tuple[int, int]]:
        """Line → widths in bytes of its (loads, stores) of shared memory, a bit each; for cuda.trace(merge=…)."""
        found = {}
        for line, kinds in self.lines.items():
            bits = [
                sum({int(kind.partition(".")[2]) // 8 for kind in kinds if kind.startswith(name)})
                for name in ("LDS.", "STS.")
            ]
            if any(width > 2 for width in bits):
                found[line] = (bits[0], bits[1])
        return found

    def beside(self, report: Any) -> Any:
        """This machine code side by side with cuda.trace's report of the same source: a Comparison."""
        from .beside import Comparison

        if report.source != self.source:
            raise ValueError(f"the report must be of the same source, got that of {report.kernel}")
        return Comparison(self, report)

    # ---- Words

    def _is_hot(self, one: Instruction) -> bool:
        return self.loop is not None and one.loop == self.loop.number

    def by_place(self, line: int) -> dict[str, Counter[str]]:
        """The instructions of a line: those "in the loop" (the hot one), "in other loops" and "once"."""
        places: dict[str, Counter[str]] = {"in the loop": Counter(), "in other loops": Counter(), "once": Counter()}
        for one in self.code:
            if one.line == line:
                place = "in the loop" if self._is_hot(one) else "in other loops" if one.loop >= 0 else "once"
                places[place][one.kind] += 1
        return {place: kinds for place, kinds in places.items() if kinds}

    def title(self) -> str:
        """What was compiled, for which architecture."""
        return f"{self.kernel}: machine code for {self.arch}, blocks of {self.block} threads"

    def summary(self) -> list[str]:
        """Sentences on registers, shared memory, occupancy and the hot loop."""
        r = self.resources
        spills = f"{r.spill_stores} bytes spilled, {r.spill_loads} loaded again" if self.spills else "no spills"
        stack = f", {r.stack} bytes of local memory" if r.stack and not self.spills else ""
        sizes = f"{r.registers} registers per thread, {spills}{stack}, {self.shared_bytes:,} bytes of shared memory"
        found = [f"{sizes} per block"]
        found += [str(self.occupancy(card.name)) for card in CARDS.values() if self.arch.startswith(card.arch)]
        if self.loop:
            lines = f"line{'s' * (len(self.loop.lines) != 1)} {_spans(self.loop.lines)}"
            found.append(f"the hot loop, {lines}: {self.loop}")
        else:
            found.append(f"no loop, {len(self.code):,} instructions: {mix.sentence(self.instructions)}")
        return found

    def __str__(self) -> str:
        from . import shown

        return shown.as_text(self)

    def __rich__(self) -> Any:
        from . import shown

        return shown.table(self)

    def _repr_html_(self) -> str:
        from . import shown

        return shown.as_html(self)


def _spans(numbers: Mapping[int, Any] | Sequence[int]) -> str:
    """Numbers in words: "3–5, 8"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}–{b}" if a != b else str(a) for a, b in spans)
