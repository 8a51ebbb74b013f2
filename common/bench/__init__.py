"""Measuring on a GPU, suite by suite: python -m common bench SUITE (chapters 03 and 06).

    network     MobileNetV2 as a whole: ours, cuDNN's, and on PyTorch and XLA as others run it
    chain       the same on ours alone, from the first rungs to all that makes it fast, one thing after the other
    operators   each of its steps alone, on cuDNN and on ours
    kernels     every rung of our own operators beside cuDNN and cuBLAS
    plans       a few convolutions in every way to ask cuDNN for them
    sparse      convolutions that skip zeros of their input: how many there are, from how many on it pays
    profile     each kernel of ours under ncu: which resource is busy, what its warps wait for
    peaks       what the card can do at best: bytes a second, FLOPs a second
    trace       what the simulator's trace counts, against what the profiler counts

A suite is a function of the options and of the console to print on; it says whether all that it measured was right.
Times are kept only of what computed the right thing. With `save`, records go into the results file of the card.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ..measure.environment import Watch

MODES = ("hot", "rotating", "host")
OPTIMIZE = ("none", "latency", "throughput")


@dataclass(frozen=True)
class Options:
    """What to measure; where nothing is given, the suite chooses. A suite ignores what means nothing to it.

    mode: "hot", the same buffers in every call; "rotating", sets of buffers, together more than twice the L2;
    "host", from an array on the host to logits on the host. samples: of each subject; tune: let cuDNN try its plans.
    operators: of the suite kernels, whose rungs. optimize: how ours is put together, of OPTIMIZE; None: by the batch.
    Of the suite sparse: networks, whose convolutions; layer, a pattern of their shapes, "*1×1*"; limit, so many of
    them; patterns, how zeros lie; sweep, whether other sparsities than the given one are timed; csv, a file to write.
    """

    backends: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    mode: str = "hot"
    samples: int | None = None
    tune: bool = True
    save: bool = False
    operators: tuple[str, ...] = ()
    optimize: str | None = None
    networks: tuple[str, ...] = ()
    layer: str | None = None
    limit: int | None = None
    patterns: tuple[str, ...] = ()
    sweep: bool = True
    csv: str | None = None

    def __post_init__(self) -> None:
        if self.optimize not in (None, *OPTIMIZE):
            raise ValueError(f"optimize must be one of {', '.join(OPTIMIZE)}, got {self.optimize!r}")
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        for batch in self.batches:
            if batch < 1:
                raise ValueError(f"batch must be at least 1, got {batch}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


def choose(name: str, given: tuple[str, ...], known: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """What was given, each once, or else the default. ValueError for what is not known."""
    for value in given:
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return tuple(dict.fromkeys(given)) or default


class Run:
    """One run of a suite in the results file of this card: its records may be saved bit by bit."""

    def __init__(self, suite: str, watch: "Watch | None" = None) -> None:
        """The run is called <date>-<suite>-<commit>, and if there is such a run, with -2, -3, … after it."""
        from ..measure import environment, results

        self._watch = watch
        here = environment.environment()
        self.path = results.path_of(here["card"])
        first = f"{here['date']}-{suite}-{here['commit']}"
        taken, self.name, number = results.load(self.path)["runs"], first, 1
        while self.name in taken:
            number += 1
            self.name = f"{first}-{number}"

    def save(
        self, records: list[dict[str, Any]], superseded: Callable[[dict[str, Any]], bool] = lambda r: False
    ) -> None:
        """Adds records, and what the clocks did until now; superseded as for measure.results.save."""
        from ..measure import environment, results

        if records:
            results.save(self.path, self.name, environment.environment(self._watch), records, superseded)


def _trace(options: Options, console: "Console") -> bool:
    from ..measure import confirm

    confirm.main(["--save"] if options.save else [])
    return True


Suite = Callable[[Options, "Console"], bool]
SUITES: dict[str, str | Suite] = {  # a function, or "module:function", imported when it is asked for
    "network": "common.bench.network:bench",
    "chain": "common.bench.chain:bench",
    "operators": "common.bench.operators:bench",
    "kernels": "common.bench.kernels:bench",
    "plans": "common.bench.plans:bench",
    "sparse": "common.bench.sparse:bench",
    "profile": "common.bench.profile:bench",
    "peaks": "common.bench.peaks:bench",
    "trace": _trace,
}


def suite(name: str) -> Suite:
    """The suite called so. ValueError with the names there are."""
    if name not in SUITES:
        raise ValueError(f"SUITE must be one of {', '.join(SUITES)}, got {name!r}")
    found = SUITES[name]
    if isinstance(found, str):
        module, _, function = found.partition(":")
        return getattr(import_module(module), function)
    return found


def run(name: str, options: Options, console: "Console") -> bool:
    """Runs a suite; whether all that was measured had the right results.

    ValueError for options that name what there is not; cuda.graphs.NoGpu where there is no GPU.
    """
    from .. import cuda
    from ..cuda.graphs import NoGpu

    function = suite(name)
    if cuda.backend() != "gpu" and function is _trace:
        raise NoGpu("the profiler counts on a GPU only; what was recorded is in 06_optimize/results")
    return function(options, console)
