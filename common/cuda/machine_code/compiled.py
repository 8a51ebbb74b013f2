"""A kernel as machine code: compiled by NVRTC, with what the assembler says about registers, and disassembled."""

import functools
import hashlib
import importlib.metadata
import io
import re
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import cache, nvrtc
from ..cache import cache_dir
from ..errors import CompileError

WHEEL = "nvidia-cuda-nvdisasm"
OLDEST = 75
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a")
_OPTIONS = ("-lineinfo", "--ptxas-options=-v")
_CUPYS = ("-ftz=true",)  # CuPy adds it to every compilation of its own, which is all but those with -arch=


class NoDisassembler(RuntimeError):
    """nvdisasm is missing; the message says what to install."""


@dataclass(frozen=True)
class Resources:
    """What a kernel takes, as the assembler decided it.

    registers: per thread. spill_stores, spill_loads: bytes that the assembler's own spills move, per thread. stack:
    bytes of local memory per thread. shared: bytes of static shared memory per block. most_threads: of a block, by
    __launch_bounds__; 1024 if there are none.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    most_threads: int


@dataclass(frozen=True)
class Compiled:
    """One kernel of a compiled source. text: its section of nvdisasm's output."""

    arch: str
    resources: Resources
    text: str


def required(source: str) -> int:
    """The compute capability in the first lines of a source, "requires: sm_80"; OLDEST if they name none."""
    found = re.search(r"requires: sm_(\d+)", "\n".join(source.splitlines()[:12]))
    return int(found[1]) if found else OLDEST


def check_architecture(source: str, arch: str) -> None:
    """Raise ValueError for an architecture that is not in ARCHITECTURES, or older than the source requires."""
    if arch not in ARCHITECTURES:
        raise ValueError(f"arch must be one of {', '.join(ARCHITECTURES)}, got {arch!r}")
    needed = required(source)
    if int(arch[3:5]) < needed:
        raise ValueError(f'the kernel\'s first lines say "requires: sm_{needed}": it cannot be compiled for {arch}')


def machine_code(origin: tuple, name: str, arch: str) -> Compiled:
    """A kernel, compiled for an architecture and disassembled; what is in the cache is not compiled again.

    origin: (source, options, name expressions, …) of the kernel's module. ValueError as of check_architecture,
    CompileError for a source that NVRTC refuses, RuntimeError where NVRTC or nvdisasm is missing.
    """
    source, options, names = origin[:3]
    check_architecture(source, arch)
    return _machine_code(source, tuple(options), tuple(names), name, arch)


@functools.lru_cache(maxsize=16)
def virtual_code(source: str, options: tuple, names: tuple, arch: str) -> str:
    """The PTX of a source, with the numbers of its lines. Errors as of `machine_code`."""
    check_architecture(source, arch)
    built = nvrtc.compile_cuda(source, arch, _given(options), names)
    if built.cubin is None:
        from ..simulator.compiler import readable_errors

        raise CompileError(readable_errors(built.log, source, r"\.cu\((\d+)\)"))
    return built.ptx


def _given(options: tuple) -> tuple[str, ...]:
    """NVRTC's options for a kernel's own."""
    plain = [o for o in options if not o.startswith("-arch=")]
    return (*plain, *(_CUPYS if len(plain) == len(options) else ()), *_OPTIONS)


@functools.lru_cache(maxsize=64)
def _machine_code(source: str, options: tuple, names: tuple, name: str, arch: str) -> Compiled:
    given = _given(options)
    headers = _headers(options)
    placeless = [option for option in given if not option.startswith("-I")]  # the headers count, not their folders
    key = repr((nvrtc.version(), _disassembler_version(), placeless, names, arch, headers, source))
    path = cache_dir() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.sass"
    record = cache.load_record(path)
    if record is None:
        built = nvrtc.compile_cuda(source, arch, given, names)
        if built.cubin is None:
            from ..simulator.compiler import readable_errors

            raise CompileError(readable_errors(built.log, source, r"\.cu\((\d+)\)"))
        record = {"names": built.names, "resources": _resources(built.cubin, built.log, _reserved(arch))}
        cache.store(path, zlib.compress(disassembled(built.cubin).encode(), 6), **record)
    symbol = record["names"].get(name, name)
    if symbol not in record["resources"]:
        raise ValueError(f"there is no kernel {name!r} in the source, only {', '.join(record['resources'])}")
    text = zlib.decompress(path.read_bytes()).decode()
    sections = re.split(r"^//-+ (\S+)[ -]*$", text, flags=re.M)
    found = dict(zip(sections[1::2], sections[2::2], strict=False))
    section = found[f".text.{symbol}"]
    return Compiled(arch, Resources(**(_in_local_memory(section) | record["resources"][symbol])), section)


_SPILLED = ("stack", "spill_stores", "spill_loads")


def _in_local_memory(text: str) -> dict[str, int]:
    """The bytes that the instructions of a kernel store to local memory and load from it: spills, and local arrays."""
    found = dict.fromkeys(_SPILLED, 0)
    for name, modifiers in re.findall(r"\b(STL|LDL)((?:\.\w+)*) ", text):
        width = re.search(r"\.[SU]?(8|16|64|128)\b", modifiers)
        found["spill_stores" if name == "STL" else "spill_loads"] += int(width[1]) // 8 if width else 4
    return found


def _headers(options: Sequence[str]) -> str:
    """A digest of the headers in the folders that the options name."""
    folders = [Path(o[2:]) for o in options if o.startswith("-I")]
    digest = hashlib.sha256()
    for path in (p for folder in folders for p in sorted(folder.rglob("*.h"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


# ---- What the assembler says


def _reserved(arch: str) -> int:
    """Bytes at the start of shared memory, before a kernel's own, that the machine code counts with the kernel's."""
    return 1024 if int(arch[3:5]) >= 90 else 0


def _resources(cubin: bytes, log: str, reserved: int) -> dict[str, dict[str, int]]:
    """The Resources of every kernel of a cubin, as dictionaries, by the kernel's name in the machine code.

    Where the log does not speak of a kernel, its spills are missing.
    """
    elf = _elf(cubin)
    table: Any = elf.get_section_by_name(".symtab")
    symbols = [symbol.name for symbol in table.iter_symbols()]
    found = {}
    about_all: Any = elf.get_section_by_name(".nv.info")
    registers = {
        symbols[_word(value, 0)]: _word(value, 1) for kind, value in _attributes(about_all.data()) if kind == _REGISTERS
    }
    spills = {
        name: (int(stack), int(stores), int(loads)) for name, stack, stores, loads in _SPILLS.findall(log)
    }  # fmt: skip
    for section in elf.iter_sections():
        name = section.name.removeprefix(".nv.info.")
        if name == section.name or name not in registers:
            continue
        threads = [_word(value, 0) * _word(value, 1) * _word(value, 2)
                   for kind, value in _attributes(section.data()) if kind == _MAX_THREADS]  # fmt: skip
        shared: Any = elf.get_section_by_name(f".nv.shared.{name}")
        found[name] = {
            **(dict(zip(_SPILLED, spills[name], strict=True)) if name in spills else {}),
            "registers": registers[name],
            "shared": shared["sh_size"] - reserved if shared else 0, "most_threads": threads[0] if threads else 1024,
        }  # fmt: skip
    return found


_REGISTERS, _MAX_THREADS = 0x2F, 0x05  # kinds of attributes in a cubin: EIATTR_REGCOUNT, EIATTR_MAX_THREADS
_SPILLS = re.compile(
    r"Function properties for (\S+)\s+(?:ptxas\s*\.?\s*)?(\d+) bytes stack frame, (\d+) bytes spill stores,"
    r" (\d+) bytes spill loads"
)


def _elf(cubin: bytes) -> Any:
    from elftools.elf.elffile import ELFFile

    return ELFFile(io.BytesIO(cubin))


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    """(kind, value) of the attributes in a section .nv.info of a cubin."""
    found, at = [], 0
    while at + 4 <= len(data):
        form, kind, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
        at += 4
        if form == 4:  # the size is that of a value that follows; else it is the value
            found.append((kind, data[at : at + size]))
            at += size
    return found


def _word(value: bytes, number: int) -> int:
    return int.from_bytes(value[4 * number : 4 * number + 4], "little")


# ---- The disassembler


@functools.cache
def find_disassembler() -> Path:
    """nvdisasm: that of NVIDIA's wheel, else the one on the PATH. NoDisassembler if there is none."""
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    there = [Path(str(file.locate())) for file in files if file.stem == "nvdisasm"]
    on_path = shutil.which("nvdisasm")
    if not there and on_path is None:
        raise NoDisassembler(f"nvdisasm is not installed: pip install {WHEEL} (or put CUDA's bin folder on the PATH)")
    return there[0] if there else Path(str(on_path))


def _disassembler_version() -> str:
    file = find_disassembler()
    return f"{file} {file.stat().st_size}"


def disassembled(cubin: bytes) -> str:
    """nvdisasm's text of a cubin, with the source lines of the instructions. RuntimeError if nvdisasm fails."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        # (-ndf: without an analysis of the data flow, which takes a third of the time and adds remarks alone)
        command = [str(find_disassembler()), "-c", "-gi", "-ndf", file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{find_disassembler()} cannot read what NVRTC {'.'.join(map(str, nvrtc.version()))} compiled; an older"
            f" nvdisasm cannot (pip install --upgrade {WHEEL}): {done.stderr.strip()}"
        )
    return done.stdout
