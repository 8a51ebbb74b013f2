"""Compiling a kernel's text as C++: which compiler, which options, the cache, and errors a learner can read."""

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..device import cache_dir
from ..errors import CompileError

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: how to call it, what it calls itself, and whether it is "gcc" or "clang"."""

    command: tuple[str, ...]
    version: str
    family: str


@functools.cache
def find_compiler() -> Compiler:
    """The first C++ compiler that can build kernels: $CXX, c++, g++, clang++, else the `ziglang` wheel's clang.

    RuntimeError if there is none, with what was tried and what to install.
    """
    tried = []
    named = os.environ.get("CXX")
    for command in [named] if named else ["c++", "g++", "clang++"]:
        found = shutil.which(command.split()[0])
        if found is None:
            tried.append(f"{command}: not found")
            continue
        problem = _problem([found, *command.split()[1:]])
        if problem is None:
            return _describe((found, *command.split()[1:]))
        tried.append(f"{command}: {problem}")
    if importlib.util.find_spec("ziglang") is not None:
        zig = (sys.executable, "-m", "ziglang", "c++")
        warnings.warn(
            f"No C++ compiler that the simulator can use ({'; '.join(tried)}): taking clang from the ziglang wheel. "
            "Its first compilation takes about half a minute.",
            stacklevel=2,
        )
        return _describe(zig)
    raise RuntimeError(
        f"The simulator needs a C++ compiler, and none can be used ({'; '.join(tried)}). Install g++ 12 or later "
        "or clang 15 or later, or the wheel that carries one: pip install ziglang"
    )


def _problem(command: list[str]) -> str | None:
    """Why a compiler cannot be used, or None: it must know C++17 and half precision."""
    probe = "template <auto x> struct S {}; _Float16 half(float x) { return (_Float16)x; }"
    done = subprocess.run(
        [*command, "-std=c++17", "-x", "c++", "-fsyntax-only", "-"], input=probe, capture_output=True, text=True
    )
    if done.returncode == 0:
        return None
    return "too old (no C++17 or no _Float16): " + (done.stderr.strip().splitlines() or ["no message"])[0]


def _describe(command: tuple[str, ...]) -> Compiler:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    version = (done.stdout.splitlines() or ["unknown version"])[0]
    return Compiler(command, version, "clang" if "clang" in done.stdout else "gcc")


@functools.cache
def _processor() -> str:
    """What -march=native depends on: binaries in a home folder shared by several machines must not be mixed up."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    except OSError:
        features = [platform.processor()]
    return "\n".join([platform.machine(), platform.system(), *features])


def _flags(compiler: Compiler) -> list[str]:
    flags = [
        "-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-U_FORTIFY_SOURCE",
        "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-fwrapv",
        "-ffp-contract=fast",  # a*b+c becomes one fma, as on a GPU
    ]  # fmt: skip
    is_arm_mac = platform.system() == "Darwin" and platform.machine() == "arm64"
    flags.append("-mcpu=native" if is_arm_mac or platform.machine() == "aarch64" else "-march=native")
    if compiler.family == "gcc":
        # without it, the shared arrays of two templates that have one name would be one array
        flags += ["-fno-gnu-unique", "-fno-semantic-interposition"]
    if "ziglang" in compiler.command:
        flags += ["-fno-sanitize=undefined", "-nostdinc++", "-Wno-unused-command-line-argument"]
    return flags


def _link_flags() -> list[str]:
    return ["-shared", "-undefined", "dynamic_lookup"] if platform.system() == "Darwin" else ["-shared", "-lm"]


def _build(compiler: Compiler, source: str, flags: Sequence[str], kind: str, extra_key: str = "") -> Path:
    """Compiles `source` into a shared library in the cache, and returns its path.

    The name is a hash of everything the result depends on. It is written under another name first and moved into
    place, so that a process that dies, or another that compiles the same, never leaves half a file.
    """
    key = hashlib.sha256(
        "\0".join([source, extra_key, compiler.version, *compiler.command, *flags, *_link_flags(), _processor()]).encode()
    ).hexdigest()[:32]
    library = cache_dir() / f"{kind}-{key}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="building-") as folder:
        text, result = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        text.write_text(source)
        done = subprocess.run(
            [*compiler.command, *flags, str(text), "-o", str(result), *_link_flags()], capture_output=True, text=True
        )
        if done.returncode:
            raise CompileError(done.stderr.replace(str(folder) + os.sep, ""))
        os.replace(result, library)
    return library


@functools.cache
def _headers() -> str:
    return "".join(path.read_text() for path in sorted([*INCLUDE.rglob("*.h"), *RUNTIME.glob("*")]))


def build_runtime() -> Path:
    """The shared library of runtime/launch.cpp."""
    compiler = find_compiler()
    flags = [f for f in _flags(compiler) if f not in ("-O3", "-nostdinc++")] + ["-O2", "-pthread", f"-I{RUNTIME}"]
    return _build(compiler, '#include "launch.cpp"\n', flags, "runtime", _headers())


_DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?([\w:<>\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;"
)
_GPU_ONLY = ("--use_fast_math", "-use_fast_math", "-lineinfo", "--generate-line-info", "-G", "--device-debug",
             "--maxrregcount", "-maxrregcount", "-arch", "--gpu-architecture", "--std", "-std", "--fmad", "-default-device",
             "--expt-relaxed-constexpr", "--extra-device-vectorization", "-dopt", "--restrict", "-w")  # fmt: skip


def cpu_options(options: Sequence[str]) -> tuple[str, list[str]]:
    """NVRTC's options for a C++ compiler: (-D and -U as lines of source, -I as options).

    Options that only mean something on a GPU are dropped. Macros become lines that follow the simulator's headers, so
    that a learner's -DN=4 or -DT=float cannot change them.
    """
    lines, kept = [], []
    for option in options:
        if option.startswith("-D"):
            name, _, value = option[2:].strip().partition("=")
            lines.append(f"#define {name} {value if '=' in option else 1}\n")
        elif option.startswith("-U"):
            lines.append(f"#undef {option[2:].strip()}\n")
        elif option.startswith("-I"):
            kept.append(option)
        elif not option.startswith(_GPU_ONLY):
            raise ValueError(f"options: the simulator does not know {option!r}; it takes -D, -U, -I and options of NVRTC")
    return "".join(lines), kept


def build_kernels(source: str, entries: Sequence[str], options: Sequence[str]) -> Path:
    """The shared library that exports the kernels `entries` (C++ expressions) of `source`.

    CompileError quotes the lines of `source` that the compiler objects to.
    """
    compiler = find_compiler()
    text = _DYNAMIC_SHARED.sub(lambda m: f"SIM_DYNAMIC_SHARED({m[1]}, {m[2]});" + "\n" * m[0].count("\n"), source)
    exports = "".join(f"SIM_ENTRY({i}, {entry})\n" for i, entry in enumerate(entries))
    defines, includes = cpu_options(options)
    unit = f'#include "simulator.h"\n{defines}#line 1 "kernel.cu"\n{text}\n#line 1 "exports"\n{exports}'
    flags = [*_flags(compiler), "-w", "-fdiagnostics-color=never", f"-I{INCLUDE}", *includes]
    flags.append("-fno-diagnostics-show-caret" if compiler.family == "gcc" else "-fno-caret-diagnostics")
    try:
        return _build(compiler, unit, flags, "kernel", _headers())
    except CompileError as error:
        raise CompileError(readable_errors(str(error), source, r"kernel\.cu:(\d+):(\d+): ")) from None


def readable_errors(log: str, source: str, place: str) -> str:
    """A compiler's log as line number, text of the line, and what is wrong with it.

    `place` is a pattern that matches a position in the learner's source, the line number its first group.
    """
    lines = source.splitlines()
    messages: list[str] = []
    for match in re.finditer(rf"^.*?{place}(?:fatal )?error\s*: *(.*)$", log, flags=re.M):
        number, what = int(match[1]), match[match.re.groups]
        text = lines[number - 1].rstrip() if 0 < number <= len(lines) else ""
        message = f"line {number}: {what}\n    {number:4d} | {text}"
        if message not in messages:
            messages.append(message)
    if not messages:
        messages = [log.strip()]
    if re.search(r"\basm\b", source) and "__CUDA_SIMULATOR__" not in source:
        messages.append("Inline PTX runs on a GPU alone; common.kernels has wrappers that run on both.")
    return "the kernel does not compile\n" + "\n".join(messages)
