"""Compiles a kernel's source as C++: selects compiler and options, caches libraries, rewrites error messages.

The environment variable CXX names a compiler; COURSE_CXXFLAGS has further options, which come last: -O1 for example.
"""

import contextlib
import ctypes
import errno
import functools
import hashlib
import importlib.util
import inspect
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import cache, signature
from ..cache import cache_dir
from ..errors import CacheError, CompileError
from ..report import Uninitialised

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"


# Called with True before a compiler starts and with False when it has ended, in the thread that compiles, so that time
# limits can exclude compilation. Nested builds are reported once.
listeners: list[Callable[[bool], None]] = []
_depth = threading.local()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Context manager around a compilation: calls `listeners` with True at the beginning and False at the end."""
    _depth.value = getattr(_depth, "value", 0) + 1
    if _depth.value == 1:
        for listener in tuple(listeners):
            listener(True)
    try:
        yield
    finally:
        _depth.value -= 1
        if _depth.value == 0:
            for listener in tuple(listeners):
                listener(False)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command, the first line of its --version, and its family, "gcc" or "clang"."""

    command: tuple[str, ...]
    version: str
    family: str


@functools.cache
def find_compiler() -> Compiler:
    """The first usable compiler: $CXX if set, else c++, g++ or clang++; else clang of the `ziglang` wheel.

    RuntimeError if there is none, with what was tried and what to install.
    """
    tried = []
    named = os.environ.get("CXX")
    for command in [named] if named else ["c++", "g++", "clang++"]:
        found = shutil.which(command.split()[0])
        if found is None:
            tried.append(f"{command}: not found")
            continue
        # (`zig cc` has all that is required, but no -fsyntax-only)
        problem = None if "ziglang" in command else _problem([found, *command.split()[1:]])
        if problem is None:
            return _describe((found, *command.split()[1:]))
        tried.append(f"{command}: {problem}")
    if importlib.util.find_spec("ziglang") is not None:
        zig = (sys.executable, "-m", "ziglang", "cc")  # ("c++" would first build a C++ standard library)
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
    """Why a compiler cannot be used; None if it can: it must support C++17 and half precision."""
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
    """Run a compiler, with messages in English, because this module parses them. text: its standard input."""
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
    """What -march=native depends on, for cache keys: machines may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
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
        ]  # switching stacks is incompatible with a shadow stack
    elif platform.system() == "Linux":
        flags.append("-mcpu=native")  # (on a Mac this is the default)
    if platform.system() == "Linux":
        flags.append("-fstack-clash-protection")  # a large local array cannot skip the guard page of a stack
    if compiler.family == "gcc":
        # otherwise equally named shared arrays of two template instances would be one array
        flags += ["-fno-gnu-unique", "-fno-semantic-interposition"]
        if platform.machine() == "aarch64":  # guards are one page, not the 64 KiB that g++ assumes there
            flags += ["--param", "stack-clash-protection-guard-size=12"]
    if "ziglang" in compiler.command:
        flags += ["-fno-sanitize=undefined", "-Wno-unused-command-line-argument"]
    return [*flags, *os.environ.get("COURSE_CXXFLAGS", "").split()]


# Options that keep the code in the order of the source, and the accesses those of the source. (ptxas merges and hoists
# no less than -O1 does; -O2 reorders basic blocks, which the replay of a warp cannot follow.)
_TRACED = {
    "gcc": ["-fsanitize-coverage=trace-pc", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-store-merging",
            "-fno-tree-loop-distribute-patterns", "-fno-reorder-blocks", "-fno-thread-jumps",
            "-fno-tree-dominator-opts", "-fno-split-paths"],
    "clang": ["-fsanitize-coverage=bb,no-prune,trace-pc", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops",
              "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-disable-vector-combine",
              "-mllvm", "-disable-block-placement", "-mllvm", "-sink-common-insts=false",
              "-mllvm", "-hoist-common-insts=false", "-mllvm", "-enable-tail-merge=0",
              "-Xclang", "-disable-lifetime-markers",  # (they put the end block of a loop before it)
              "-mllvm", "-disable-early-taildup", "-mllvm", "-disable-tail-duplicate",
              "-mllvm", "-disable-branch-fold", "-mllvm", "-disable-cgp-branch-opts",
              "-mllvm", "-simplifycfg-max-small-block-size=0"],
}  # fmt: skip


# Further checks of a checked build: indices beyond an array's end, and uninitialized variables. The latter are filled
# with a pattern (changed to NaN by _hide_luck below), so that a kernel cannot pass because of a 0 in that memory.
_CHECKED = {
    "gcc": ["-fsanitize=bounds", "-fsanitize-recover=bounds", "-Wuninitialized", "-Wmaybe-uninitialized"],
    "clang": ["-fsanitize=array-bounds", "-fsanitize-recover=array-bounds", "-fno-sanitize-trap=all",
              "-Wuninitialized", "-Wsometimes-uninitialized", "-Wconditional-uninitialized"],
}  # fmt: skip
_PATTERN = "-ftrivial-auto-var-init=pattern"
# To distinguish volatile accesses, of a flag that another thread sets for example, from plain ones
_VOLATILE = {"gcc": ["--param=tsan-distinguish-volatile=1"], "clang": ["-mllvm", "-tsan-distinguish-volatile=1"]}


def traced_flags(compiler: Compiler) -> list[str]:
    """The options of a checked build: every access is recorded (watch.py); uninitialized variables hold NaN."""
    plain = [f for f in _flags(compiler) if f != "-O3"]
    pattern = [_PATTERN] if _knows_pattern(compiler) else []
    volatile = _VOLATILE[compiler.family] if compiler.family == "clang" or _major(compiler) >= 11 else []
    return [*plain, "-O1", "-gdwarf-4", "-DSIM_TRACE", "-fsanitize=thread", "-fno-optimize-sibling-calls",
            *_TRACED[compiler.family], *_CHECKED[compiler.family], *pattern, *volatile]  # fmt: skip


def _major(compiler: Compiler) -> int:
    """The major version of a compiler; 1000 if it is unknown."""
    found = re.search(r"\b(\d+)\.\d+(?:\.\d+)?\b(?!.*\d+\.\d+\.\d+)", compiler.version)
    return int(found[1]) if found else 1000


@functools.cache
def _knows_pattern(compiler: Compiler) -> bool:
    """Whether the compiler can fill uninitialized variables with a pattern; warns if it cannot."""
    knows = compiler.family == "clang" or _major(compiler) >= 12
    if not knows:
        warnings.warn(
            f"{compiler.version} has no {_PATTERN}: a variable that a kernel never sets may hold a 0 by luck, and a"
            " trace does not notice. g++ 12 or later, or clang, does.",
            stacklevel=2,
        )
    return knows


_PATTERN_OF_GCC = (b"\xfe" * 4, b"\xfe" * 8)
# NaN as half, float and double, a very large number as an integer. Also in simulator/arithmetic.h.
_UNSET = b"\xfa\x7f" * 4
_GAP = 256  # bytes between two arrays: a multiple of the 32 banks' 128 bytes and of all alignments
_NUMBERS = {  # g++'s pattern → _UNSET, as numbers in assembly
    str(int.from_bytes(old, "little", signed=signed)): str(int.from_bytes(_UNSET[: len(old)], "little"))
    for old in _PATTERN_OF_GCC
    for signed in (False, True)
}


_SECTION = re.compile(r"^\t(?:\.section\t)?(\.(?:text|data|bss)\b|(?<=\.section\t)[\w.$]+)", re.M)
_FILLED = re.compile(r"(?<![\w.])(?:" + "|".join(map(re.escape, _NUMBERS)) + r")\b")
_MANY_BYTES = re.compile(r"^\tvpbroadcastb\t[^,\n]*, ", re.M)
_LABEL = re.compile(r"^(?=\w[\w.$]*:)", re.M)
_ZEROS = re.compile(r"^\t\.zero\t.*", re.M)
_BYTE = re.compile(r"^\t\.byte\t-2$", re.M)


def _hide_luck(assembly: str) -> str:
    """A checked kernel's assembly with gaps between shared arrays and variables, and NaN in locals that nobody set.

    g++ fills them with 0xFE, as a float −1.7e38: right before the first max(). (clang takes NaN by itself.)
    """
    begins = list(_SECTION.finditer(assembly))
    pieces = [assembly[: begins[0].start()] if begins else assembly]
    odd = itertools.cycle(_UNSET[:2])
    for found, after in itertools.zip_longest(begins, begins[1:]):
        section, text = found[1], assembly[found.start() : after.start() if after else None]
        if not section.startswith(".debug"):
            if section in (".data", ".bss"):
                text = _LABEL.sub(f"\t.zero\t{_GAP}\n\t.balign\t{_GAP}\n", text)
            text = _FILLED.sub(lambda found: _NUMBERS[found[0]], text)
            if section.startswith(".rodata.cst"):
                text = _BYTE.sub(lambda _: f"\t.byte\t{next(odd)}", text)
            # many bytes at once; memset, which could want another byte, is a call in a checked build
            text = _MANY_BYTES.sub("\tvpbroadcastd\t.Lsim_unset(%rip), ", text)
            if section == ".tbss":
                text = _ZEROS.sub(rf"\g<0>\n\t.zero\t{_GAP}", text)
        pieces.append(text)
    whole = "".join(pieces)
    if ".Lsim_unset" in whole:
        whole += f"\n\t.section\t.rodata\n\t.align 8\n.Lsim_unset:\n\t.quad\t{int.from_bytes(_UNSET, 'little')}\n"
    named = whole.replace("\tcall\tmemset@PLT", "\tcall\tsim_memset_local@PLT")
    return named.replace("__ubsan_handle_out_of_bounds", "sim_bad_index")  # (zig would link a library of its own)


ENDS_THE_PROCESS = ("abort", "exit", "_exit", "_Exit", "quick_exit")


def _link_flags(compiler: Compiler, kind: str) -> list[str]:
    if platform.system() == "Darwin":
        return ["-shared", "-undefined", "dynamic_lookup"]
    # the runtime has loaded the C and C++ libraries; searching them again would take half of the link time
    libraries = ["-nodefaultlibs", "-lm", "-lgcc"] if compiler.family == "gcc" and kind != "runtime" else ["-lm"]
    # a kernel that calls one of these would end the process: runtime/launch.cpp has replacements
    return ["-shared", *libraries, *(f"-Wl,--wrap={name}" for name in ENDS_THE_PROCESS)]


def _build(
    compiler: Compiler,
    source: str,
    flags: Sequence[str],
    kind: str,
    extra_key: str = "",
    more: Callable[[], Sequence[str]] = tuple,
) -> Path:
    """Compile `source` into a shared library in the cache, and return its path.

    The name is a hash of everything that the result depends on. A library that is not intact is rebuilt.
    extra_key: the texts of all headers. The folders where they lie do not matter: a copy of the repository finds what
    another one has compiled.
    more: returns options that do not change the result; it is called only when something is compiled.
    CompileError with the compiler's log; CacheError if the cache cannot be written.
    """
    link = _link_flags(compiler, kind)
    placeless = [flag for flag in flags if not flag.startswith("-I")]
    key = hashlib.sha256(
        "\0".join([source, extra_key, compiler.version, *compiler.command, *placeless, *link, _processor()]).encode()
    ).hexdigest()[:32]
    folder = cache_dir()
    library = folder / f"{kind}-{key}.so"
    if cache.load_record(library) is not None:
        return library
    cache.remove_leftovers(folder)
    try:
        with compiling(), tempfile.TemporaryDirectory(dir=folder, prefix=cache.BUILDING) as inside:
            text, result = Path(inside, "kernel.cpp"), Path(inside, "kernel.so")
            text.write_text(source, encoding="utf-8", newline="")
            if "-fsanitize=thread" in flags:
                done = _compile_checked(compiler, [*more(), *flags], link, text, result)
            else:
                done = _run([*compiler.command, *more(), *flags, str(text), "-o", str(result), *link])
            if done.returncode:
                raise _what_failed(done.stderr.replace(str(inside) + os.sep, ""), folder)
            unset = [asdict(found) for found in _uninitialised(done.stderr)]
            cache.store(library, result.read_bytes(), uninitialised=unset)
    except OSError as error:
        raise cache.cannot_keep(folder, error) from error
    return library


def _what_failed(log: str, folder: Path) -> Exception:
    """The exception for a failed compilation: CompileError with the log, CacheError if the disk is full."""
    if not re.search(r"^kernel\.cu:\d+:\d+: (?:fatal )?error: ", log, flags=re.M):
        if cache.is_full(folder):
            return cache.cannot_keep(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if os.strerror(errno.ENOSPC) in log or "No space left on device" in log:
            return CacheError(
                f"no space left for what the compiler writes, in {folder} or in {tempfile.gettempdir()} (TMPDIR)."
                f" {cache.ANOTHER}"
            )
    return CompileError(_without_warnings(log))


def _compile_checked(
    compiler: Compiler, flags: Sequence[str], link: Sequence[str], text: Path, result: Path
) -> subprocess.CompletedProcess:
    """Compile to assembly, change it with _hide_luck, then assemble and link it, without sanitizer libraries."""
    assembly = result.with_suffix(".s")
    done = _run([*compiler.command, *flags, "-S", str(text), "-o", str(assembly)])
    if done.returncode:
        return done
    # (latin-1: strings may hold any byte)
    assembly.write_text(_hide_luck(assembly.read_text(encoding="latin-1")), encoding="latin-1", newline="")
    further = _run([*compiler.command, str(assembly), "-o", str(result), "-g", *link])
    return further if further.returncode else done


def _without_warnings(log: str) -> str:
    lines, warned = [], False
    for line in log.splitlines():
        if found := re.search(r": (warning|(?:fatal )?error): ", line):
            warned = found[1] == "warning"
        if not warned or not re.search(r": (?:warning|note): ", line):
            lines.append(line)
    return "\n".join(lines)


def _uninitialised(log: str) -> list[Uninitialised]:
    """The uninitialized variables of a compiler's warnings, each once, sorted by line."""
    found: dict[tuple[int, str], Uninitialised] = {}
    for line in log.splitlines():
        warned = re.match(r"(?:.*/)?kernel\.cu:(\d+):\d+: warning: .*\[-W(?:\w+-)?uninitialized\]", line)
        name = re.search(r"'(\w+)\b", line)
        if warned and name:
            made = Uninitialised(name[1], int(warned[1]))
            found.setdefault((made.line, made.variable), made)
    return [found[key] for key in sorted(found)]


def uninitialised(library: Path) -> tuple[Uninitialised, ...]:
    """The compiler's warnings of uninitialized variables for a checked build, from its record in the cache."""
    record = cache.load_record(library) or {}
    return tuple(Uninitialised(**found) for found in record.get("uninitialised", ()))


@functools.cache
def headers() -> str:
    """What every kernel depends on, for cache keys: the simulator's C++ sources, and the code of _hide_luck."""
    texts = sorted([*INCLUDE.rglob("*"), *RUNTIME.glob("*")])
    patterns = (_SECTION, _FILLED, _MANY_BYTES, _LABEL, _ZEROS, _BYTE)
    hiding = inspect.getsource(_hide_luck) + "".join(one.pattern for one in patterns)
    return hiding + "".join(path.read_text(encoding="utf-8") for path in texts if path.is_file())


def load(library: Path, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """Load a library of the cache. CacheError if the system refuses, for example on a file system mounted noexec."""
    try:
        return ctypes.CDLL(str(library), mode=mode)
    except OSError as error:
        raise CacheError(f"cannot load a compiled kernel: {error}. {cache.ANOTHER}") from error


def build_runtime() -> Path:
    """The shared library of runtime/all.cpp, built if necessary. Errors as of find_compiler; CacheError."""
    compiler = find_compiler()
    flags = [f for f in _flags(compiler) if f != "-O3"] + ["-O2", "-pthread", f"-I{RUNTIME}"]
    return _build(compiler, '#include "all.cpp"\n', flags, "runtime", headers())


def build_host(source: str) -> Path:
    """A shared library of plain C++ without CUDA, for this processor, built if not cached. Errors as of build_runtime.

    Functions to be called from outside need `extern "C"` and default visibility. COURSE_CXXFLAGS does not make it
    slower: it measures the processor.
    """
    return _build(find_compiler(), source, [*_flags(find_compiler()), "-O3"], "host")


def _rewrite_dynamic_shared(source: str) -> str:
    """Replace `extern __shared__ float tile[];` by a pointer to the block's dynamic shared memory.

    Line numbers are unchanged. Outside of functions, where no block is running, it becomes a macro.
    """
    bare = re.sub(r'extern\s*"C"\s*\{', lambda m: " " * len(m[0]), signature.without_comments(source))
    pieces, end, depth, line = [], 0, 0, 1
    for array in signature.dynamic_shared(bare):
        pointer = f"({array.element} (*){array.rest})sim_here.dynamic_shared"
        depth += bare.count("{", end, array.start) - bare.count("}", end, array.start)
        line += source.count("\n", end, array.end)
        lines = source.count("\n", array.start, array.end)
        pieces.append(source[end : array.start])
        end = array.end
        if depth > 0:
            pieces.append(f"{array.element} (*{array.name}){array.rest} = {pointer};" + "\n" * lines)
        else:
            pieces.append(f'\n#define {array.name} ({pointer})\n#line {line} "kernel.cu"\n')
    return "".join([*pieces, source[end:]])


def precompiled(traced: bool, halves: bool = False) -> list[str]:
    """The -I option with which g++ finds the simulator's precompiled headers: a fifth less time per kernel.

    halves: with cuda_fp16.h, which saves a little more. Empty for other compilers, and if precompiling fails: the
    headers are then compiled with each kernel.
    """
    compiler = find_compiler()
    if compiler.family != "gcc":
        return []
    flags = traced_flags(compiler) if traced else _flags(compiler)
    folder = _precompiled(compiler, tuple(flags), cache_dir(), halves)
    return [f"-I{folder}"] if folder else []


@functools.cache
def _precompiled(compiler: Compiler, flags: tuple[str, ...], cached: Path, halves: bool) -> Path | None:
    text = '#include "simulator.h"\n' + "#include <cuda_fp16.h>\n" * halves
    parts = [text, headers(), compiler.version, *compiler.command, *flags, _processor()]
    folder = cached / f"headers-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"
    target = folder / "simulator.h.gch"
    try:
        if cache.load_record(target) is None:
            with compiling(), tempfile.TemporaryDirectory(dir=cached, prefix=cache.BUILDING) as inside:
                header, made = Path(inside, "all.h"), Path(inside, target.name)
                header.write_text(text, encoding="utf-8")
                command = [*compiler.command, *flags, f"-I{INCLUDE}", "-x", "c++-header", str(header)]
                done = _run([*command, "-o", str(made)])
                if done.returncode:
                    return None
                folder.mkdir(exist_ok=True)
                cache.store(target, made.read_bytes())
    except (OSError, CacheError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return folder


def dynamic_shared_name(source: str) -> str | None:
    """The name of the dynamic shared memory in `source`; None if there is none or more than one."""
    names = {array.name for array in signature.dynamic_shared(signature.without_comments(source))}
    return names.pop() if len(names) == 1 else None


def _included(source: str, folders: Sequence[Path]) -> str:
    """The text of all headers that `source` includes from `folders`, in the order of these, for cache keys."""
    texts: dict[Path, str] = {}
    unread = [source]
    while unread:
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)', unread.pop(), flags=re.M):
            for path in (folder / name for folder in folders):
                if path not in texts and path.is_file():
                    texts[path] = path.read_text(encoding="utf-8", errors="replace")
                    unread.append(texts[path])
    return "\0".join(texts.values())


def _begins_with_halves(source: str, folders: Sequence[Path]) -> bool:
    """Whether `source` includes cuda_fp16.h, itself or by headers from `folders`, before there is any code.

    Then it means the same if that header comes right after the simulator's.
    """
    read: set[Path] = set()

    def begins(text: str) -> bool | None:  # None: there is no code, either
        for line in signature.without_comments(text).splitlines():
            if not line.strip() or re.match(r"\s*#\s*pragma\s+once\b", line):
                continue
            include = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if include is None or include[1] == "cuda_fp16.h":
                return include is not None
            path = next((folder / include[1] for folder in folders if (folder / include[1]).is_file()), None)
            if path is None or path in read:
                continue
            read.add(path)
            answer = begins(path.read_text(encoding="utf-8", errors="replace"))
            if answer is not None:
                return answer
        return None

    return begins(source) is True


_GPU_ONLY = (
    "--use_fast_math", "-use_fast_math", "-lineinfo", "--generate-line-info", "-G", "--device-debug",
    "--maxrregcount", "-maxrregcount", "-arch", "--gpu-architecture", "--std", "-std", "--fmad",
    "-default-device", "--expt-relaxed-constexpr", "--extra-device-vectorization", "-dopt", "--restrict",
    "-w",
)  # fmt: skip


def cpu_options(options: Sequence[str]) -> tuple[str, list[str]]:
    """NVRTC's options for a C++ compiler: (-D and -U as lines of source, -I as options).

    Options that have a meaning only on a GPU are dropped; ValueError for unknown ones. Macros become lines after the
    simulator's headers, so that -DN=4 or -DT=float cannot affect the headers.
    """
    lines, includes = [], []
    for option in options:
        if option.startswith("-D"):
            name, _, value = option[2:].strip().partition("=")
            lines.append(f"#define {name} {value if '=' in option else 1}\n")
        elif option.startswith("-U"):
            lines.append(f"#undef {option[2:].strip()}\n")
        elif option.startswith("-I"):
            includes.append(option)
        elif not option.startswith(_GPU_ONLY):
            raise ValueError(
                f"options: the simulator does not know {option!r}; it takes -D, -U, -I and options of NVRTC"
            )
    return "".join(lines), includes


def build_kernels(
    source: str,
    entries: Sequence[str],
    options: Sequence[str],
    required: Collection[str] = (),
    traced: bool = False,
    clusters: Sequence[str] = (),
) -> Path:
    """The shared library that exports the kernels `entries` (C++ expressions) of `source`, built if not cached.

    options    NVRTC's, see cpu_options
    required   entries that must exist; others are omitted if an #if hides them from the compiler
    traced     whether to make a checked build
    clusters   the arguments of each kernel's __cluster_dims__, "" if it has none

    CompileError quotes the lines of `source` that the compiler rejects; CacheError if the cache cannot be written.
    """
    compiler = find_compiler()
    text = re.sub(r"\bstatic(\s+)__shared__\b", r"      \1__shared__", _rewrite_dynamic_shared(source))
    defines, includes = cpu_options(options)
    folders = [Path(option[2:]) for option in includes]
    included = headers() + _included(source, folders)
    flags = [
        *(traced_flags(compiler) if traced else [*_flags(compiler), "-w"]),
        "-fdiagnostics-color=never",
        f"-I{INCLUDE}",
        *includes,
    ]
    flags.append("-fno-diagnostics-show-caret" if compiler.family == "gcc" else "-fno-caret-diagnostics")
    lines = [f"SIM_ENTRY({i}, {entry})" for i, entry in enumerate(entries)]
    for i, dims in enumerate(clusters):
        lines[i] += f" SIM_CLUSTER({i}, {' '.join(dims.split())})" if dims else ""

    def more() -> list[str]:
        return precompiled(traced, _begins_with_halves(source, folders))

    while True:
        exports = "\n".join(lines)
        unit = f'#include "simulator.h"\n{defines}#line 1 "kernel.cu"\n{text}\n#line 1 "exports"\n{exports}\n'
        try:
            kind = "traced" if traced else "kernel"
            return _build(compiler, unit, flags, kind, included, more)
        except CompileError as error:
            log = str(error)
        unseen = {int(number) - 1 for number in re.findall(r"^exports:(\d+):\d+: error: ", log, flags=re.M)}
        unseen = {i for i in unseen if i < len(lines) and lines[i] and entries[i] not in required}
        if not unseen or re.search(r"^kernel\.cu:\d+:\d+: (?:fatal )?error: ", log, flags=re.M):
            raise CompileError(readable_errors(log, source, r"kernel\.cu:(\d+):(\d+)"))
        for i in unseen:
            lines[i] = ""


def readable_errors(log: str, source: str, place: str) -> str:
    """A compiler's log as a readable message: for each error its line number, what is wrong, the line, and a caret.

    place: a pattern of positions in the learner's source; its first group is the line number, its second one, if any,
    the column.
    """
    lines = source.splitlines() or [""]
    messages: list[str] = []

    def add(number: int, what: str, column: int = 0) -> None:
        number = min(max(number, 1), len(lines))
        text = lines[number - 1].rstrip()
        message = f"line {number}: {what}\n    {number:4d} | {text}"
        if 0 < column <= len(text.encode()):  # (compilers count bytes)
            before = text.encode()[: column - 1].decode(errors="replace")
            message += "\n         | " + re.sub(r"[^\t]", " ", before) + "^"
        if message not in messages:
            messages.append(message)

    def column_of(here: re.Match) -> int:
        return int(here[2]) if here.re.groups > 1 else 0

    used_at: int | None = None  # line of the source that uses the template or macro of the next error
    pending: str | None = None  # an error inside a header, until its user in the source is known
    for line in log.splitlines():
        error = re.search(r"(?:fatal |catastrophic )?error *: *(?P<what>.*)", line)
        here = re.search(place, line)
        if error is None:
            if pending and (here or line.startswith("exports:")):  # clang names the using line after the error
                add(
                    int(here[1]) if here else len(lines),
                    pending if here else f"{pending} (at the end of the source)",
                    column_of(here) if here else 0,
                )
                pending = None
            elif here:
                used_at = int(here[1])
            continue
        if here and here.start() < error.start():
            add(int(here[1]), error["what"], column_of(here))
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
    """The line of the last '{' without a '}'; None if there is none."""
    text = signature.without_strings(signature.without_comments(source))
    opened = []
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            if character == "{":
                opened.append(number)
            elif character == "}" and opened:
                opened.pop()
    return opened[-1] if opened else None
