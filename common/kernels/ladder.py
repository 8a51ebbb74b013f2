"""A ladder: the rungs of one operator, each a .cu file, compiled for a dtype when first asked for.

Programmatic launches. A kernel that calls wait_for_inputs() (include/grid.h) before it reads what others write, or
writes what others read, may be launched while the one ahead of it still runs; then its blocks are there, waiting, when
that one ends. The rungs' files have no such call. `source(variant, programmatic=True)` is their text with it as the
first statement of the kernel, and `recorded(programmatic=True)` compiles that text and launches it so. Nothing else
changes: the wait lasts until all that is ahead on the stream is done and its memory written, however it was launched.
"""

import contextlib
import difflib
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..measure.roofline import ARITHMETIC, FP16_ON_FMA, INT8_ON_ALUS

# the kernels' element type scalar_t, by the arrays' dtype
ELEMENT_TYPES: dict[np.dtype, str] = {
    np.dtype(np.float32): "float",
    np.dtype(np.float16): "__half",
    np.dtype(np.float64): "double",
    np.dtype(np.int8): "signed char",
}
INCLUDE = Path(__file__).parent / "include"
EITHER = ("multiply<scalar_t>(", "multiply_rows<scalar_t>(")  # wrappers of mma for both dtypes
# Of include/tf32x3.h and include/pair_of_halves.h: what a rung calls that multiplies floats on tensor cores
THREE_TF32 = ("mma_tf32(", "mma_tf32x3(", *EITHER)
HALVES = "mma_halves("
ON_FMA = "#define FMA 0"  # in the text of a rung of tensor cores that can do without
OF_HALVES, BY_FMA = " of halves", " by FMA"  # after the name of a rung that has other arithmetic as well
OLDEST = 75  # the compute capability that every kernel runs on unless it asks for more


@dataclass(frozen=True)
class Rung:
    """A rung of a ladder: what its file cannot say.

    tiles: the numbers (tile sizes and switches) that become its -D options. dtypes, layouts: those that it takes.
    composed: it has no file of its own, but launches other operators. target: "sm_90a", which it is compiled for on a
    card of sm_90; the card's own architecture lacks instructions that this one has.
    """

    tiles: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16")
    layouts: tuple[str, ...] = ("NCHW",)
    composed: bool = False
    target: str | None = None


class Ladder:
    """The .cu files of one operator's folder, `1_naive.cu`, `2_….cu`, …: a rung each, in the order of the lesson.

    rungs: each by its name, in the same order. A file whose first lines say "requires: sm_80" is passed over on older
    cards.
    """

    def __init__(self, launcher: str, rungs: Mapping[str, Rung]) -> None:
        folder = Path(launcher).parent
        self.operator = folder.name
        self.rungs = dict(rungs)
        self._files = {path.stem.split("_", 1)[1]: path for path in folder.glob("[0-9]*_*.cu")}

    @property
    def variants(self) -> list[str]:
        """The rungs' names, from the first to the last."""
        return list(self.rungs)

    def source(self, variant: str, programmatic: bool = False) -> str:
        """The text of a rung's file; programmatic: as it is compiled for programmatic launches, see above.

        ValueError if it is composed of other operators and has none.
        """
        path = self._files.get(self._known(variant))
        if path is None:
            raise ValueError(f"{self.operator}: {variant!r} is composed of other operators and has no file of its own")
        text = path.read_text(encoding="utf-8")
        return waiting(text) if programmatic else text

    def diff(self, before: str, after: str, context: int = 2) -> str:
        """What changes from one rung's code to another's, as a unified diff; the headers' comments are left out."""
        first, second = (self._code(variant).splitlines() for variant in (before, after))
        return "\n".join(difflib.unified_diff(first, second, before, after, lineterm="", n=context))

    def _code(self, variant: str) -> str:
        """A rung's text from its first #include on, without the comment above."""
        text = self.source(variant)
        return text[text.find("#include") :]

    def requires(self, variant: str) -> int:
        """The compute capability that a rung needs, 80 for sm_80; OLDEST if its file says nothing."""
        path = self._files.get(variant)
        return required(path.read_text(encoding="utf-8")) if path else OLDEST

    def arithmetic(self, variant: str, precision: str) -> str:
        """What multiplies in a rung, a value of measure.roofline's ARITHMETIC: its text says which wrappers it calls.

        precision: "fp32", "fp16" or "int8", of the arrays. A composed rung's products are those of what it launches.
        """
        if self.rungs[self._known(variant)].composed:  # of gemm, which takes 3xTF32 where tensor cores are fast enough
            three = precision == "fp32" and cuda.compute_capability() % 10 == 0
            return ARITHMETIC["3xtf32" if three else precision]
        text = self.source(variant)
        if precision == "int8":
            return ARITHMETIC["int8"] if any(word in text for word in ("mma_s8(", "wgmma_s8<")) else INT8_ON_ALUS
        if precision == "fp16":
            on_tensor_cores = any(word in text for word in ("mma_f16(", "wgmma<", *EITHER))
            return ARITHMETIC["fp16"] if on_tensor_cores else FP16_ON_FMA
        if any(word in text for word in THREE_TF32):
            return ARITHMETIC["3xtf32"]
        return ARITHMETIC["3xfp16" if HALVES in text else "fp32"]

    def multiplies(self, variant: str, arithmetic: str) -> bool:
        """Whether a rung has an arithmetic of halves.PRODUCTS for float32: its text says which wrappers it calls.

        False for a composed rung: the operators that it launches choose.
        """
        if self.rungs[self._known(variant)].composed:
            return False
        text = self.source(variant)
        able = {"tf32x3": any(word in text for word in THREE_TF32), "halves": HALVES in text}
        return able.get(arithmetic, ON_FMA in text or not any(able.values()))

    def takes(self, variant: str, dtype: Any, layout: str = "NCHW") -> bool:
        """Whether a rung runs on the card at hand for arrays of that dtype and layout."""
        rung = self.rungs[variant]
        return np.dtype(dtype).name in rung.dtypes and layout in rung.layouts and self._runs_here(variant)

    def _runs_here(self, variant: str) -> bool:
        """Whether the card at hand has what a rung needs; the simulator, sm_80, has stand-ins for what is newer."""
        capability = cuda.compute_capability()
        return self.requires(variant) <= capability or (cuda.backend() == "simulator" and capability >= 80)

    def choose(
        self, variant: str | None, dtype: Any, layout: str = "NCHW", best: Iterable[str] = (),
        arithmetic: str | None = None,
    ) -> str:  # fmt: skip
        """The rung that is asked for by name; without one the first of `best` that can be had, else the last.

        arithmetic: of halves.PRODUCTS, which the rung must have; None: any.
        ValueError if there is none of that name, or if it does not take the dtype, the layout, the card or the
        arithmetic.
        """
        if variant is None:
            able = (name for name in [*best, *reversed(self.rungs)] if self.takes(name, dtype, layout))
            found = next((name for name in able if arithmetic is None or self.multiplies(name, arithmetic)), None)
            if found is None:
                how = f" with arithmetic {arithmetic!r}" if arithmetic else ""
                raise ValueError(
                    f"{self.operator}: no variant takes {np.dtype(dtype)} arrays in {layout} on this card{how}"
                )
            return found
        rung = self.rungs[self._known(variant)]
        for what, asked, taken in (("dtype", np.dtype(dtype).name, rung.dtypes), ("layout", layout, rung.layouts)):
            if asked not in taken:
                raise ValueError(f"{self.operator}: variant {variant!r} takes {what} {' or '.join(taken)}, got {asked}")
        if not self._runs_here(variant):
            raise ValueError(
                f"{self.operator}: variant {variant!r} needs a card of sm_{self.requires(variant)},"
                f" this one is sm_{cuda.compute_capability()}"
            )
        if arithmetic is not None and not self.multiplies(variant, arithmetic):
            raise ValueError(f"{self.operator}: variant {variant!r} does not have arithmetic {arithmetic!r}")
        return variant

    def _known(self, variant: str) -> str:
        if variant not in self.rungs:
            raise ValueError(f"{self.operator}: variant must be one of {self.variants}, got {variant!r}")
        return variant

    def tile(self, variant: str) -> dict[str, Any]:
        """The -D numbers of a rung."""
        return dict(self.rungs[self._known(variant)].tiles)

    def kernel(self, variant: str, dtype: np.dtype, **switches: Any) -> Any:
        """The compiled kernel of a rung, which has the operator's name. switches: more -D numbers, or other ones.

        Within `recorded` what it gives launches nothing, and is not compiled yet.
        """
        recording = _recorded.get()
        programmatic = recording is not None and recording.programmatic
        compiled = functools.partial(
            self._compile, variant, np.dtype(dtype), tuple(sorted(switches.items())), cuda.backend(), programmatic
        )
        origin = functools.partial(
            self._origin, variant, np.dtype(dtype), tuple(sorted(switches.items())), programmatic
        )
        name = f"{self.operator}/{variant}" + (
            OF_HALVES if switches.get("PAIRS") else BY_FMA if switches.get("FMA") else ""
        )
        return prepared(name, compiled, programmatic, origin)

    def _origin(
        self, variant: str, dtype: np.dtype, switches: tuple, programmatic: bool
    ) -> tuple[str, tuple[str, ...]]:
        """(source, NVRTC's options) of a rung."""
        options = self.architecture(variant) + self.options(variant, dtype, dict(switches))
        return self.source(variant, programmatic), options

    @functools.lru_cache(maxsize=1024)  # noqa: B019 (ladders live as long as the program)
    def _compile(self, variant: str, dtype: np.dtype, switches: tuple, backend: str, programmatic: bool) -> Any:
        source, options = self._origin(variant, dtype, switches, programmatic)
        return cuda.RawKernel(source, self.operator, options=options)

    def options(self, variant: str, dtype: Any, switches: Mapping[str, Any]) -> tuple[str, ...]:
        """NVRTC's options for a rung: the element type, its tile sizes, the launch's switches, the shared headers."""
        defines: dict[str, Any] = {"scalar_t": ELEMENT_TYPES[np.dtype(dtype)]}
        if "float64" in self.rungs[variant].dtypes:
            defines["acc_t"] = "double" if np.dtype(dtype) == np.float64 else "float"
        defines |= dict(self.rungs[variant].tiles) | dict(switches)
        return (*header_options(), *(f"-D{name}={value}" for name, value in defines.items()))

    def architecture(self, variant: str) -> tuple[str, ...]:
        """NVRTC's option for a rung with a target of its own, where the card at hand is of that kind; else none."""
        target = self.rungs[variant].target
        return (f"-arch={target}",) if target == f"sm_{cuda.compute_capability()}a" else ()

    def sources(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Every file with the options of every dtype that it takes, to compile it without a launch."""
        for variant, path in self._files.items():
            for dtype in self.rungs[variant].dtypes:
                yield path, self.options(variant, dtype, {})


@dataclass
class Launch:
    """A launch that has been checked and prepared, to be made as often as one likes: `launch()`.

    name: operator and rung, "pointwise/split_k". It keeps the arrays that it reads and writes. The kernel is compiled
    when it is launched for the first time. origin: gives the kernel's (source, options), if it is one of a ladder.
    """

    name: str
    compiled: Callable[[], Any]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared_mem: int
    shared_limit: int  # bytes of dynamic shared memory that the kernel must allow
    programmatic: bool = False  # may begin before the launch ahead of it has ended: see include/grid.h
    origin: Callable[[], tuple[str, tuple[str, ...]]] | None = None

    def __post_init__(self) -> None:
        self._launch: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Launches the kernel, on the simulator to its end. Errors as of cuda.RawKernel and of a kernel's call."""
        if self._launch is None:
            kernel = self.compiled()
            cuda.allow_shared(kernel, self.shared_limit)
            how = {"programmatic": True} if self.programmatic else {}
            self._launch = kernel.bound(self.grid, self.block, self.args, shared_mem=self.shared_mem, **how)
        self._launch()


@dataclass
class HostStep:
    """Work between the kernels of a launcher that is no launch of its own, as zeroing an accumulator."""

    name: str
    action: Callable[[], None]

    def __call__(self) -> None:
        """Does the work."""
        self.action()


class Recording(list["Launch | HostStep"]):
    """The launches and host steps that `recorded` lists; programmatic: whether kernels are launched so."""

    def __init__(self, programmatic: bool) -> None:
        super().__init__()
        self.programmatic = programmatic


_recorded: ContextVar[Recording | None] = ContextVar("recorded", default=None)


@contextlib.contextmanager
def recorded(programmatic: bool = False) -> Iterator[Recording]:
    """Inside, operators check, choose and allocate as usual, but launch nothing: the launches are listed instead.

        with kernels.recorded() as launches:
            kernels.pointwise(x, weight, bias, out=y)
        for launch in launches:
            launch()                              # now, and again, without the launcher's work

    Arrays that operators allocate for themselves belong to the launches. Only within the thread that asks for it.
    programmatic: each launch may begin while the one ahead of it still runs, see the top of this file; before sm_90,
    and on the simulator, it waits for that one's end.
    """
    launches = Recording(programmatic)
    token = _recorded.set(launches)
    try:
        yield launches
    finally:
        _recorded.reset(token)


def compile_together(launches: Iterable[Any]) -> None:
    """Compiles the kernels of recorded launches in parallel, on a GPU: one by one, a network takes a minute.

    Whatever else is among them is left alone. On the simulator a kernel is compiled when it is first launched.
    """
    if cuda.backend() != "gpu":
        return
    waiting = {_compilation(launch): launch for launch in launches if isinstance(launch, Launch)}
    if not waiting:
        return
    import cupy

    device = cupy.cuda.Device()

    def compiled(launch: Launch) -> None:
        with device:
            launch.compiled()

    with ThreadPoolExecutor(min(len(waiting), os.cpu_count() or 1)) as pool:
        for _ in pool.map(compiled, waiting.values()):  # which raises what a compilation raised
            pass


def _compilation(launch: Launch) -> Any:
    """The same for launches of one kernel, of which one is enough to compile it."""
    compiled = launch.compiled
    if isinstance(compiled, functools.partial) and not compiled.keywords:
        return compiled.func, compiled.args
    return id(compiled)


def run_or_record(name: str, action: Callable[[], None]) -> None:
    """Runs `action` now; within `recorded` it is listed among the launches, as a HostStep of that name."""
    launches = _recorded.get()
    if launches is None:
        action()
    else:
        launches.append(HostStep(name, action))


def prepared(
    name: str,
    compiled: Callable[[], Any],
    programmatic: bool = False,
    origin: Callable[[], tuple[str, tuple[str, ...]]] | None = None,
) -> Any:
    """A kernel to launch: `compiled()`, or within `recorded` a stand-in that lists its launch under `name`."""
    launches = _recorded.get()
    return compiled() if launches is None else _RecordingKernel(name, compiled, launches, programmatic, origin)


class _RecordingKernel:
    """Stand-in for a kernel that records launches instead of executing them."""

    def __init__(
        self,
        name: str,
        compiled: Callable[[], Any],
        launches: Recording,
        programmatic: bool,
        origin: Callable[[], tuple[str, tuple[str, ...]]] | None,
    ) -> None:
        self._name, self._compiled, self._launches, self._programmatic = name, compiled, launches, programmatic
        self._origin = origin
        self.max_dynamic_shared_size_bytes = 0

    def __call__(self, grid: tuple, block: tuple, args: Iterable[Any], *, shared_mem: int = 0) -> None:
        limit, how = self.max_dynamic_shared_size_bytes, self._programmatic
        launch = Launch(
            self._name, self._compiled, tuple(grid), tuple(block), tuple(args), shared_mem, limit, how, self._origin
        )
        self._launches.append(launch)


_BODY = re.compile(r'extern "C" __global__[^;{]*+')  # up to the brace that opens its body


def waiting(source: str) -> str:
    """The text of a kernel with wait_for_inputs(); as its first statement. ValueError unless it has one kernel."""
    bodies = [found.end() + 1 for found in _BODY.finditer(source) if source[found.end() : found.end() + 1] == "{"]
    if len(bodies) != 1:
        raise ValueError(f'source must define one extern "C" __global__ kernel, got {len(bodies)}')
    wait = "\n    wait_for_inputs();  // the previous kernel may still run until here"
    text = source[: bodies[0]] + wait + source[bodies[0] :]
    at = re.search(r"^(#|template|__device__|extern)", text, flags=re.M)
    start = at.start() if at else 0
    return f'{text[:start]}#include "grid.h"\n{text[start:]}'


def required(source: str) -> int:
    """The compute capability that a kernel's first lines ask for, "requires: sm_80"; OLDEST if they say nothing."""
    found = re.search(r"requires: sm_(\d+)", "\n".join(source.splitlines()[:12]))
    return int(found[1]) if found else OLDEST


def header_options() -> tuple[str, ...]:
    """The options with which a kernel may include the shared headers."""
    # the digest: CuPy's cache of compiled kernels looks at source and options, not at what is included
    return "-std=c++17", f"-I{INCLUDE}", f"-DHEADERS={_digest()}"


@functools.cache
def _digest() -> str:
    texts = [path.read_text(encoding="utf-8") for path in sorted(INCLUDE.glob("*.h"))]
    return "h" + hashlib.sha256("".join(texts).encode()).hexdigest()[:12]
