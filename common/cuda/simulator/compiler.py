"""Compiling a kernel's text as C++: which compiler and options, the cache, errors that a learner can read.

The environment variable CXX names a compiler, COURSE_CXXFLAGS more options for it, which are the last ones: -O1, say.
"""

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
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import signature
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
    """The first compiler that can build kernels: $CXX, c++, g++, clang++, else the `ziglang` wheel's clang.

    RuntimeError if there is none, with what was tried and what to install.
    """
    tried = []
    named = os.environ.get("CXX")
    for command in [named] if named else ["c++", "g++", "clang++"]:
        found = shutil.which(command.split()[0])
        if found is None:
            tried.append(f"{command}: not found")
            continue
        # (`zig cc` knows all that is asked for, and has no way to only check a syntax)
        problem = None if "ziglang" in command else _problem([found, *command.split()[1:]])
        if problem is None:
            return _describe((found, *command.split()[1:]))
        tried.append(f"{command}: {problem}")
    if importlib.util.find_spec("ziglang") is not None:
        zig = (sys.executable, "-m", "ziglang", "cc")  # ("c++" would build a whole C++ library at first)
        warnings.warn(
            f"No C++ compiler that the simulator can use ({'; '.join(tried)}): taking clang from the ziglang"
            " wheel. Its first compilation takes some ten seconds longer.",
            stacklevel=2,
        )
        return _describe(zig)
    raise RuntimeError(
        f"The simulator needs a C++ compiler, and none can be used ({'; '.join(tried)}). Install g++ 12 or"
        " later or clang 15 or later, or the wheel that carries one: pip install ziglang"
    )


def _problem(command: list[str]) -> str | None:
    """Why a compiler cannot be used, or None: it must know C++17 and half precision."""
    half = "__fp16" if platform.machine() in ("aarch64", "arm64") else "_Float16"  # as in include/cuda_fp16.h
    probe = f"template <auto x> struct S {{}}; float half(float x) {{ return ({half})x; }}"
    try:
        done = _run([*command, "-std=c++17", "-x", "c++", "-fsyntax-only", "-"], probe)
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    if done.returncode == 0:
        return None
    return f"too old (no C++17 or no {half}): " + (done.stderr.strip().splitlines() or ["no message"])[0]


def _run(command: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess:
    """Runs a compiler, with its messages in English, because they are read further below."""
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )


def _describe(command: tuple[str, ...]) -> Compiler:
    done = _run([*command, "--version"])
    version = (done.stdout.splitlines() or ["unknown version"])[0]
    return Compiler(command, version, "clang" if "clang" in done.stdout else "gcc")


@functools.cache
def _processor() -> str:
    """What -march=native depends on: machines that share a home folder must not mix up their files."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    except OSError:
        features = [platform.processor()]
    return "\n".join([platform.machine(), platform.system(), *features])


def _flags(compiler: Compiler) -> list[str]:
    flags = [
        "-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
        "-U_FORTIFY_SOURCE", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-fwrapv",
        "-ffp-contract=fast",  # a*b+c becomes one fma, as on a GPU
        "-fno-finite-loops",  # a loop that waits for another thread stays a loop
    ]  # fmt: skip
    if platform.machine() == "x86_64":
        flags += [
            "-march=native",
            "-fcf-protection=none",
        ]  # a switch of stacks and a shadow stack do not go together
    elif platform.system() == "Linux":
        flags.append("-mcpu=native")  # (on a Mac the compiler's default is the machine)
    if platform.system() == "Linux":
        flags.append("-fstack-clash-protection")  # a large local array cannot reach over the guard below a stack
    if compiler.family == "gcc":
        # without it, the shared arrays of two templates that have one name would be one array
        flags += ["-fno-gnu-unique", "-fno-semantic-interposition"]
        if platform.machine() == "aarch64":  # guards are a page, not the 64 KiB that g++ counts on there
            flags += ["--param", "stack-clash-protection-guard-size=12"]
    if "ziglang" in compiler.command:
        flags += ["-fno-sanitize=undefined", "-Wno-unused-command-line-argument"]
    return [*flags, *os.environ.get("COURSE_CXXFLAGS", "").split()]


# So that code lies in the order of the source, and accesses are those of the source (ptxas does not merge
# or hoist less than -O1 does; -O2 moves blocks about, which the replay of a warp could not follow).
_TRACED = {
    "gcc": ["-fsanitize-coverage=trace-pc", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-store-merging",
            "-fno-tree-loop-distribute-patterns", "-fno-reorder-blocks", "-fno-thread-jumps",
            "-fno-tree-dominator-opts", "-fno-split-paths"],
    "clang": ["-fsanitize-coverage=bb,no-prune,trace-pc", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops",
              "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-disable-vector-combine",
              "-mllvm", "-disable-block-placement", "-mllvm", "-sink-common-insts=false",
              "-mllvm", "-hoist-common-insts=false", "-mllvm", "-enable-tail-merge=0",
              "-Xclang", "-disable-lifetime-markers",  # (they put a block for a loop's end before it)
              "-mllvm", "-disable-early-taildup", "-mllvm", "-disable-tail-duplicate",
              "-mllvm", "-disable-branch-fold", "-mllvm", "-disable-cgp-branch-opts",
              "-mllvm", "-simplifycfg-max-small-block-size=0"],
}  # fmt: skip


def traced_flags(compiler: Compiler) -> list[str]:
    kept = [f for f in _flags(compiler) if f not in ("-O3", "-fstack-clash-protection")]
    return [*kept, "-O1", "-gdwarf-4", "-DSIM_TRACE", "-fsanitize=thread", "-fno-optimize-sibling-calls",
            *_TRACED[compiler.family]]  # fmt: skip


def _link_flags() -> list[str]:
    return ["-shared", "-undefined", "dynamic_lookup"] if platform.system() == "Darwin" else ["-shared", "-lm"]


def _build(compiler: Compiler, source: str, flags: Sequence[str], kind: str, extra_key: str = "") -> Path:
    """Compiles `source` into a shared library in the cache, and returns its path.

    The name is a hash of everything the result depends on. It is written under another name first and moved
    into place, so that a process that dies, or another that compiles the same, never leaves half a file.
    """
    key = hashlib.sha256(
        "\0".join(
            [source, extra_key, compiler.version, *compiler.command, *flags, *_link_flags(), _processor()]
        ).encode()
    ).hexdigest()[:32]
    cache = cache_dir()
    library = cache / f"{kind}-{key}.so"
    if library.exists():
        return library
    try:
        with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as folder:
            text, result = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
            text.write_text(source, encoding="utf-8", newline="")
            if "-fsanitize=thread" in flags:  # linked by itself, so that the sanitizer's own library stays out
                done = _run([*compiler.command, *flags, "-c", str(text), "-o", f"{result}.o"])
                command = [*compiler.command, f"{result}.o", "-o", str(result), "-g", *_link_flags()]
                done = done if done.returncode else _run(command)
            else:
                done = _run([*compiler.command, *flags, str(text), "-o", str(result), *_link_flags()])
            if done.returncode:
                raise CompileError(done.stderr.replace(str(folder) + os.sep, ""))
            os.replace(result, library)
    except OSError as error:
        raise RuntimeError(
            f"cannot keep a compiled kernel in {cache}: {error.strerror}. The environment variable"
            " COURSE_CACHE names another folder for them."
        ) from error
    return library


@functools.cache
def headers() -> str:
    return "".join(path.read_text() for path in sorted([*INCLUDE.rglob("*.h"), *RUNTIME.glob("*")]))


def build_runtime() -> Path:
    """The shared library of runtime/launch.cpp."""
    compiler = find_compiler()
    flags = [f for f in _flags(compiler) if f != "-O3"] + ["-O2", "-pthread", f"-I{RUNTIME}"]
    return _build(compiler, '#include "launch.cpp"\n', flags, "runtime", headers())


_ALIGNMENT = r"(?:__align__|alignas)\s*\([^)]*\)"
_DYNAMIC_SHARED = re.compile(
    rf"extern\s+(?P<before>[\w:<>\s]*?)\b__shared__\s+(?P<type>(?:[\w:<>,\s]|{_ALIGNMENT})*?)\b(?P<name>\w+)"
    r"\s*\[\s*\](?P<rest>(?:\s*\[[^\]]*\])*)\s*;"
)


def _rewrite_dynamic_shared(source: str) -> str:
    """`extern __shared__ float tile[];` as a pointer to the block's dynamic shared memory; lines stay lines.

    Outside of functions there is no block yet whose memory a pointer could be set to: there it becomes a
    macro.
    """
    bare = re.sub(r'extern\s*"C"\s*\{', lambda m: " " * len(m[0]), signature.without_comments(source))
    pieces, end = [], 0
    for match in _DYNAMIC_SHARED.finditer(bare):
        element = " ".join((match["before"] + re.sub(_ALIGNMENT, " ", match["type"])).split())
        pointer = f"({element} (*){match['rest']})sim_here.dynamic_shared"
        pieces.append(source[end : match.start()])
        end = match.end()
        if bare.count("{", 0, match.start()) > bare.count("}", 0, match.start()):
            pieces.append(f"{element} (*{match['name']}){match['rest']} = {pointer};" + "\n" * match[0].count("\n"))
        else:
            line = source.count("\n", 0, end) + 1
            pieces.append(f'\n#define {match["name"]} ({pointer})\n#line {line} "kernel.cu"\n')
    return "".join([*pieces, source[end:]])


def dynamic_shared_name(source: str) -> str | None:
    """What `source` calls its dynamic shared memory, if it has one name for it."""
    names = {match["name"] for match in _DYNAMIC_SHARED.finditer(signature.without_comments(source))}
    return names.pop() if len(names) == 1 else None


def _included(source: str, folders: Sequence[Path]) -> str:
    """The text of all headers that `source` takes out of `folders`: a changed header is a changed kernel."""
    texts: dict[Path, str] = {}
    waiting = [source]
    while waiting:
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)', waiting.pop(), flags=re.M):
            for path in (folder / name for folder in folders):
                if path not in texts and path.is_file():
                    texts[path] = path.read_text(encoding="utf-8", errors="replace")
                    waiting.append(texts[path])
    return "\0".join(texts[path] for path in sorted(texts))


_GPU_ONLY = (
    "--use_fast_math", "-use_fast_math", "-lineinfo", "--generate-line-info", "-G", "--device-debug",
    "--maxrregcount", "-maxrregcount", "-arch", "--gpu-architecture", "--std", "-std", "--fmad",
    "-default-device", "--expt-relaxed-constexpr", "--extra-device-vectorization", "-dopt", "--restrict",
    "-w",
)  # fmt: skip


def cpu_options(options: Sequence[str]) -> tuple[str, list[str]]:
    """NVRTC's options for a C++ compiler: (-D and -U as lines of source, -I as options).

    Options that only mean something on a GPU are dropped. Macros become lines that follow the simulator's
    headers, so that a learner's -DN=4 or -DT=float cannot change them.
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
            raise ValueError(
                f"options: the simulator does not know {option!r}; it takes -D, -U, -I and options of NVRTC"
            )
    return "".join(lines), kept


def build_kernels(
    source: str,
    entries: Sequence[str],
    options: Sequence[str],
    required: Collection[str] = (),
    traced: bool = False,
    clusters: Sequence[str] = (),
) -> Path:
    """The shared library that exports the kernels `entries` (C++ expressions) of `source`.

    clusters: what stands in the __cluster_dims__ of each, "" if it has none.

    Of entries that are not `required` those are left out that the compiler does not see, because an #if hides
    them. CompileError quotes the lines of `source` that the compiler objects to.
    """
    compiler = find_compiler()
    text = _rewrite_dynamic_shared(source)
    defines, includes = cpu_options(options)
    included = headers() + _included(source, [Path(option[2:]) for option in includes])
    flags = [
        *(traced_flags if traced else _flags)(compiler),
        "-w",
        "-fdiagnostics-color=never",
        f"-I{INCLUDE}",
        *includes,
    ]
    flags.append("-fno-diagnostics-show-caret" if compiler.family == "gcc" else "-fno-caret-diagnostics")
    lines = [f"SIM_ENTRY({i}, {entry})" for i, entry in enumerate(entries)]
    for i, dims in enumerate(clusters):
        lines[i] += f" SIM_CLUSTER({i}, {' '.join(dims.split())})" if dims else ""
    while True:
        exports = "\n".join(lines)
        unit = f'#include "simulator.h"\n{defines}#line 1 "kernel.cu"\n{text}\n#line 1 "exports"\n{exports}\n'
        try:
            return _build(compiler, unit, flags, "traced" if traced else "kernel", included)
        except CompileError as error:
            log = str(error)
        unseen = {int(number) - 1 for number in re.findall(r"^exports:(\d+):\d+: error: ", log, flags=re.M)}
        unseen = {i for i in unseen if i < len(lines) and lines[i] and entries[i] not in required}
        if not unseen or re.search(r"^kernel\.cu:\d+:\d+: (?:fatal )?error: ", log, flags=re.M):
            raise CompileError(readable_errors(log, source, r"kernel\.cu:(\d+):\d+"))
        for i in unseen:
            lines[i] = ""


def readable_errors(log: str, source: str, place: str) -> str:
    """A compiler's log as line number, text of the line, and what is wrong with it.

    `place` is a pattern that matches a position in the learner's source, the line number its group.
    """
    lines = source.splitlines() or [""]
    messages: list[str] = []

    def add(number: int, what: str) -> None:
        number = min(max(number, 1), len(lines))
        message = f"line {number}: {what}\n    {number:4d} | {lines[number - 1].rstrip()}"
        if message not in messages:
            messages.append(message)

    used_at: int | None = None  # where the learner's text uses the template or macro that the next error is in
    pending: str | None = None  # an error inside a header, until the compiler says who used it
    for line in log.splitlines():
        error = re.match(r"(?P<place>.*?):? *(?:fatal |catastrophic )?error\s*: *(?P<what>.*)", line)
        here = re.search(place, line)
        if error is None:
            if pending and (here or line.startswith("exports:")):  # clang names the user after the error, g++ before it
                add(
                    int(here[1]) if here else len(lines),
                    pending if here else f"{pending} (at the end of the source)",
                )
                pending = None
            elif here:
                used_at = int(here[1])
            continue
        if here and here.start() < error.end("place"):
            add(int(here[1]), error["what"])
        elif re.match(r"exports:|At end of source", line):
            add(len(lines), f"{error['what']} (at the end of the source)")
        elif used_at is not None:
            add(used_at, error["what"])
        else:
            pending = error["what"]
        used_at = None
    unclosed = _unclosed_brace(source)
    if unclosed is not None:
        add(unclosed, "this '{' is never closed")
    if not messages:
        messages = [log.strip()]
    if re.search(r"\basm\b", source) and "__CUDA_SIMULATOR__" not in source:
        messages.append("Inline PTX runs on a GPU alone; common.kernels has wrappers that run on both.")
    return "the kernel does not compile\n" + "\n".join(messages)


def _unclosed_brace(source: str) -> int | None:
    """The line of the last '{' that has no '}'."""
    text = re.sub(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", "", signature.without_comments(source))
    opened = []
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            if character == "{":
                opened.append(number)
            elif character == "}" and opened:
                opened.pop()
    return opened[-1] if opened else None
