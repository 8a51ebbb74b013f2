"""The records of measurements: one folder of text files per card, 06_optimize/results/nvidia-h200/.

    runs.json                        by run: card, driver, versions, clocks, date, commit
    network.csv, kernels.csv, …      one table per suite, one line per record

    recorded = results.load("NVIDIA H200")
    find(recorded, suite="network", batch=1)      a list of records, each a dict
    recorded.frame("kernels")                     the same as a pandas DataFrame

    records = [record("network", "mobilenetv2-1.0-224", "ours", precision="fp16", arithmetic="...", batch=1,
                      timing=timing, work=work, error=2e-4, layout="NHWC")]
    save(path_of(environment["card"]), run, environment, records)

A table holds the newest record of everything that its suite measured. A record that replaces an older one keeps the
older median: two runs of the same programs show how repeatable the times are.

docs/records.md lists the suites and their columns. pruning.py says which records are not kept.

A cell is plain text, or JSON for numbers, null, lists, objects, and for text that would otherwise be read as one of
these. An empty cell means that the record does not have this key. `pandas.read_csv` reads a table as well.
"""

import csv
import functools
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..cuda.layout import LAYOUTS
from ..files import replacing
from ..measure.roofline import Work
from ..measure.timing import LAUNCHES, Timing
from .pruning import pruned

if TYPE_CHECKING:
    import pandas

Record = dict[str, Any]
Some = TypeVar("Some", bound=Mapping[str, Any])

PRECISIONS = ("fp32", "tf32", "fp16", "int8", "fp8")

# two records that agree in all of these are repetitions of one measurement
IDENTITY = (
    "suite", "case", "implementation", "precision", "arithmetic", "layout", "launch", "batch", "mode", "placement"
)  # fmt: skip

_TIMED = ("precision", "arithmetic", "batch", "launch", "mode", "median_us", "p5_us", "p95_us", "bytes", "flops")
# mJ per image above idle power: the median of the rounds and their range; gross_mj: idle power included
_METERED = (
    "precision", "arithmetic", "batch", "layout", "launch", "error", "mj_per_image", "mj_low", "mj_high", "gross_mj",
    "idle_w", "watts", "seconds", "rounds", "images", "method",
)  # fmt: skip
# the keys that a record of each suite must have, besides case and implementation
SUITES: dict[str, tuple[str, ...]] = {
    "network": (*_TIMED, "layout", "error"),
    "operators": (*_TIMED, "layout", "error", "kind", "shape", "count"),
    "kernels": (*_TIMED, "error", "operator", "order", "kind", "shape", "count"),  # pictures also have a layout
    "late": (*_TIMED, "layout", "error", "operator", "order"),
    "steps": (*_TIMED, "error"),
    "errors": ("precision", "arithmetic", "batch", "layout", "error"),
    "peaks": _TIMED,
    "plans": (*_TIMED, "layout", "error", "operator", "way", "plans", "workspace"),
    "sparse": ("precision", "batch", "kind", "label", "shape", "sparsity"),  # and _SPARSE, if timed
    "energy": _METERED,
    "profile": ("precision", "batch", "order", "kernel", "us", "issue", "warps", "tensor", "shared", "waits"),
    "timeline": ("precision", "batch", "layout", "launch", "order", "kernel", "kind", "start_us", "us", "untraced_us"),
    "sections": (
        "precision",
        "batch",
        "operator",
        "order",
        "us",
        "compute_throughput",
        "memory_throughput",
        "issue",
        "achieved",
        "waits",
    ),
    "multiprocessor": ("experiment",),
    "two-of-four": (*_TIMED, "error", "shape"),
    "fp8": (*_TIMED, "error", "deviation"),
    "candidates": ("precision", "batch", "us"),  # separate kernels: of, ranked; a tile: order, predicted_us
    "families": (*_TIMED, "layout", "error", "side", "beside", "beside_error", "off", "same_class"),
    "inspect": ("inspected", "profiled", "achieved"),
    "pipeline": ("precision", "batch", "stage"),  # and pictures_per_s, or start_us and us of one batch
    "scaling": ("precision", "batch", "source", "gpus", "pictures_per_s"),  # efficiency, with more GPUs than one
    "load": (
        "precision",
        "batch",
        "window_ms",
        "offered",
        "answered",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "in_flight",
        "requests",
    ),
    "trace": (),  # a launch has predicted and measured (COUNTS), a wrong kernel has trace and compute-sanitizer
}
_SPARSE = (*_TIMED, "layout", "error", "pattern", "count", "us_at")
_OPTIONAL = ("bytes", "flops", "error")  # may be None: not every benchmark has a roofline or a reference
_KNOWN = {  # suites in which they may not be None
    "network": ("error",), "operators": ("bytes", "flops"), "kernels": ("bytes", "flops", "error"),
    "peaks": ("bytes", "flops"), "energy": ("error",), "families": ("error",), "errors": ("error",),
    "two-of-four": ("bytes", "flops", "error"),
    "fp8": ("bytes", "flops", "error", "deviation"),
    "late": ("bytes", "flops", "error"),
}  # fmt: skip


# the counts of a launch in the suite "trace", of the simulator's trace and of the profiler
COUNTS = (
    "global load requests", "global load sectors", "global store requests", "global store sectors",
    "shared load wavefronts", "shared store wavefronts", "shared load conflicts", "shared store conflicts",
)  # fmt: skip


# the numbers of a kernel in the suite "inspect", of cuda.inspect and of the profiler
MACHINE = (
    "registers", "static shared bytes", "blocks by threads", "blocks by registers", "blocks by shared memory",
    "most blocks", "warps",
)  # fmt: skip


class DamagedResults(ValueError):
    """A results file is damaged; the message names the file and line, what was expected and what was found."""


# ---- Folders


def course() -> Path:
    """The course's folder: the nearest one from the current directory upwards, else the checkout of this module.

    FileNotFoundError if there is neither, as for an installed package outside a clone.
    """
    for place in (Path.cwd() / "x", Path(__file__).resolve()):
        for folder in place.parents:
            if (folder / "06_optimize" / "results").is_dir():
                return folder
    raise FileNotFoundError(
        f"{Path.cwd()} is not in a folder of the course, which has 06_optimize/results: go there, or say"
        " --results FOLDER"
    )


def path_of(card: str, folder: Path | None = None) -> Path:
    """The folder of a card's results: "NVIDIA H200" → 06_optimize/results/nvidia-h200.

    folder: of all results, by default the course's. FileNotFoundError as for `course`.
    """
    return (folder or course() / "06_optimize" / "results") / "-".join(card.lower().split())


# ---- Reading


class Results:
    """The results of a card: `runs`, the environments by run; `records`, one dict per measurement.

    A suite's table is read on first use. Records and environments are shared with other callers: do not modify them.
    """

    def __init__(self, runs: Mapping[str, Record] | None = None, records: Iterable[Record] = ()) -> None:
        self._runs = dict(runs or {})
        self._tables: dict[str, list[Record]] = {}
        for r in records:
            self._tables.setdefault(r["suite"], []).append(r)
        self._folder: Path | None = None

    @classmethod
    def of(cls, folder: Path) -> "Results":
        """The contents of a card's folder; empty if it does not exist."""
        results = cls(_runs(folder / "runs.json"))
        results._folder = folder
        return results

    @property
    def runs(self) -> dict[str, Record]:
        """The environment of each run, by the run's name: "card", "driver", "date", "commit", …"""
        return self._runs

    @property
    def records(self) -> list[Record]:
        """The records of all suites, suite by suite. DamagedResults for a file that cannot be read."""
        return [r for suite in SUITES for r in self.suite(suite)]

    def suite(self, name: str) -> list[Record]:
        """The records of a suite, in the order of its table; empty without a table. DamagedResults as for `records`."""
        if name not in self._tables and self._folder is not None:
            self._tables[name] = _table(self._folder / f"{name}.csv", frozenset(self._runs))
        return self._tables.get(name, [])

    def frame(self, suite: str) -> "pandas.DataFrame":
        """The records of a suite as a DataFrame, one row each. ValueError for an unknown suite."""
        import pandas

        if suite not in SUITES:
            raise ValueError(f"suite must be one of {', '.join(SUITES)}, got {suite!r}")
        return pandas.DataFrame(self.suite(suite))

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)


def load(card: str | Path) -> Results:
    """The results of a card, given by name, "NVIDIA H200", or by folder. Empty if there is no such folder.

    DamagedResults, here or on first use of a suite, for a file that is not as `save` writes it.
    """
    return Results.of(card if isinstance(card, Path) else path_of(card))


def every(folder: Path | None = None) -> list[Results]:
    """The results of every card, by the names of their folders. folder: of all results, by default the course's."""
    folder = folder or course() / "06_optimize" / "results"
    return [Results.of(one) for one in sorted(folder.iterdir()) if (one / "runs.json").exists()]


def _state(path: Path) -> tuple[int, ...] | None:
    """A key that changes whenever the file does; None without a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _text(path: Path) -> str:
    """A file's text. DamagedResults if it is not UTF-8 or ends within a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DamagedResults(f"{path}: expected text in UTF-8: {error}") from None
    if not text.endswith("\n"):
        line = text.count("\n") + 1
        raise DamagedResults(f"{path}, line {line}: expected a whole line, the file ends within it")
    return text


def _runs(path: Path) -> dict[str, Record]:
    state = _state(path)
    return {} if state is None else dict(_parsed_runs(path, state))


@functools.lru_cache(maxsize=8)
def _parsed_runs(path: Path, state: tuple[int, ...]) -> dict[str, Record]:
    try:
        runs = json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DamagedResults(f"{path}, line {line}: expected JSON, an object of runs: {error}") from None
    if not isinstance(runs, dict) or not all(isinstance(run, dict) for run in runs.values()):
        raise DamagedResults(f"{path}: expected an object of runs, each an object")
    for name, run in runs.items():
        if missing := _unnamed(run):
            raise DamagedResults(
                f"{path}: expected run {_short(name)} to have its {missing}, got {_short(run.get(missing))}"
            )
    return runs


def _unnamed(run: Mapping[str, Any]) -> str | None:
    """ "card" or "date" if a run's environment lacks it, else None."""
    return next((key for key in ("card", "date") if not isinstance(run.get(key), str) or not run[key]), None)


def _table(path: Path, runs: frozenset[str]) -> list[Record]:
    state = _state(path)
    return [] if state is None else list(_parsed_table(path, runs, state))


@functools.lru_cache(maxsize=32)
def _parsed_table(path: Path, runs: frozenset[str], state: tuple[int, ...]) -> list[Record]:
    rows = csv.reader(io.StringIO(_text(path)), strict=True)
    records: list[Record] = []
    try:
        names = next(rows)
        if not {"run", "case", "implementation"} <= set(names) or len(set(names)) < len(names):
            raise DamagedResults(f"{path}, line 1: expected names of columns, run, case, implementation among them")
        for cells in rows:
            if len(cells) != len(names):
                raise ValueError(f"expected {len(names)} cells, got {len(cells)}")
            r = {"run": cells[names.index("run")], "suite": path.stem}
            r |= {name: value_of(cell) for name, cell in zip(names, cells, strict=True) if cell}
            for one in (r["run"], r.get("previous_run", r["run"])):
                if one not in runs:
                    raise ValueError(f"expected a run of runs.json, got {_short(one)}")
            if complaints := _complaints(r):
                raise ValueError("; ".join(complaints))
            records.append(r)
    except DamagedResults:
        raise
    except (ValueError, csv.Error, RecursionError, StopIteration) as error:
        raise DamagedResults(f"{path}, line {rows.line_num}: {error or 'expected names of columns'}") from None
    return records


# ---- Cells


_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


def value_of(cell: str) -> Any:
    """Parse a cell. ValueError if it begins like JSON but is not valid."""
    if cell[0] in '[{"' or cell in ("null", "true", "false") or _NUMBER.fullmatch(cell):
        try:
            return json.loads(cell)
        except json.JSONDecodeError as error:
            raise ValueError(f"expected JSON, got {_short(cell)}: {error}") from None
    return cell


def cell_of(value: Any) -> str:
    """Format a value as a cell: plain text, or JSON. TypeError or ValueError for values without JSON, such as NaN."""
    plain = isinstance(value, str) and value and value.isprintable() and value[0] not in '[{"'
    if plain and value not in ("null", "true", "false") and not _NUMBER.fullmatch(value):
        return value
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))


_FIRST = (
    "run", *IDENTITY[1:], "median_us", "p5_us", "p95_us", "samples", "calls", "bytes", "flops", "error", "kind",
    "shape", "count", "operator", "order",
)  # fmt: skip


def _csv(records: Sequence[Record]) -> str:
    """A suite's table as CSV. Known columns have a fixed order, others are sorted: equal records give equal bytes."""
    keys = {key for r in records for key in r} - {"suite"}
    names = [name for name in _FIRST if name in keys] + sorted(keys - set(_FIRST))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([cell_of(r[name]) if name in r else "" for name in names] for r in records)
    return file.getvalue()


def _json(runs: Mapping[str, Record]) -> str:
    """The text of runs.json, one line per run."""

    def dumped(value: Any) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    lines = (f"{dumped(name)}: {dumped(run)}" for name, run in runs.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---- Records


def rounded_us(us: float) -> float:
    """Round µs to four significant digits, but not finer than 0.01 µs: further digits do not repeat."""
    digits = min(2, 3 - math.floor(math.log10(us))) if math.isfinite(us) and us > 0 else 2
    return float(round(us, digits))


def record(
    suite: str,
    case: str,
    implementation: str,
    *,
    precision: str,
    arithmetic: str,
    batch: int,
    timing: Timing,
    work: Work | None = None,
    error: float | None = None,
    **more: Any,
) -> Record:
    """A measurement as a record (dict). Times are rounded by `rounded_us`.

    error: ‖out − reference‖ / ‖reference‖ of the result, None without a reference. more: further keys of the suite
    ("layout", "kind", …); they take precedence over those of `timing`: launch="graph" for an "eager" call that replays
    a graph of its own.
    """
    fields: Record = {
        "suite": suite, "case": case, "implementation": implementation, "precision": precision,
        "arithmetic": arithmetic, "batch": int(batch), "launch": timing.launch, "mode": timing.mode,
        "median_us": rounded_us(timing.median_us), "p5_us": rounded_us(timing.p5_us),
        "p95_us": rounded_us(timing.p95_us), "samples": timing.samples, "calls": timing.calls,
        "bytes": None if work is None else work.bytes, "flops": None if work is None else work.flops,
        "error": None if error is None else float(f"{error:.3g}"),
    }  # fmt: skip
    return fields | more


def find(recorded: Results, **keys: Any) -> list[Record]:
    """The records that have all these values, in the tables' order: find(recorded, suite="network", batch=1)."""
    found = list(recorded.suite(keys["suite"]) if "suite" in keys else recorded.records)
    for key, value in keys.items():  # key by key: the first one excludes most records
        found = [r for r in found if key in r and r[key] == value]
    return found


def one(recorded: Results, **keys: Any) -> Record:
    """The only record that has all these values. ValueError if there is none, or more than one."""
    found = find(recorded, **keys)
    if len(found) != 1:
        wanted = ", ".join(f"{key}={value!r}" for key, value in keys.items())
        raise ValueError(f"expected one record with {wanted}, the results hold {len(found)}")
    return found[0]


def grouped(records: Iterable[Mapping[str, Any]], *keys: str) -> dict[tuple, list[Mapping[str, Any]]]:
    """Group records by their values of some keys, None for a missing one; the order is kept."""
    groups: dict[tuple, list[Mapping[str, Any]]] = {}
    for r in records:
        groups.setdefault(tuple(r.get(key) for key in keys), []).append(r)
    return groups


def fastest(records: Iterable[Some]) -> Some | None:
    """The record with the lowest median; None without any."""
    return min(records, key=lambda r: r["median_us"], default=None)


def runs(recorded: Results, records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The environments of the runs that these records come from, the newest first."""
    names = {r["run"] for r in records}
    found = [environment for name, environment in recorded.runs.items() if name in names]
    return sorted(reversed(found), key=lambda environment: environment["date"], reverse=True)


# ---- Checking


def _short(value: Any) -> str:
    """A value for a message: at most its first 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _above_0(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_rate(value: Any) -> bool:
    return isinstance(value, dict) and _above_0(value.get("tera")) and all(map(_above_0, value.values()))


_TIMES, _MILLIJOULES = ("p5_us", "median_us", "p95_us"), ("mj_low", "mj_per_image", "mj_high")
_LONE, _COLD = (tuple(f"{mode}{one}_us" for one in ("_p5", "", "_p95")) for mode in ("lone", "cold"))
RULES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("precision",), lambda v: v in PRECISIONS, f"one of {', '.join(PRECISIONS)}"),
    (("layout",), lambda v: v is None or v in LAYOUTS, f"one of {', '.join(LAYOUTS)}"),
    (("mode",), lambda v: v in ("hot", "rotating"), "one of hot, rotating"),
    (("method",), lambda v: v in ("counter", "power"), "one of counter, power"),
    (_OPTIONAL, lambda v: v is None or (_is_number(v) and v >= 0), "a finite number of at least 0"),
    (("error_float64",), lambda v: _is_number(v) and v >= 0, "a finite number of at least 0"),
    ((*_LONE, *_COLD), _above_0, "a finite number above 0"),
    (("batch", "count", "order", "rounds", "images"), lambda v: type(v) is int and v >= 1, "an integer of at least 1"),
    (("launch",), lambda v: v in LAUNCHES, f"one of {', '.join(LAUNCHES)}"),
    ((*_TIMES, "previous_median_us", "previous_mj_per_image"), _above_0, "a finite number above 0"),
    (("mj_per_image", "gross_mj", "idle_w", "watts", "seconds"), _above_0, "a finite number above 0"),
    (("mj_low", "mj_high", "start_us", "launched_us"), _is_number, "a finite number"),
    (("us", "host_us"), lambda v: _is_number(v) and v >= 0, "a finite number of at least 0"),
    (("untraced_us",), _above_0, "a finite number above 0"),
    (("predicted", "measured"), lambda v: isinstance(v, dict) and set(v) == set(COUNTS), "a number for each of COUNTS"),
    (
        ("inspected", "profiled"),
        lambda v: isinstance(v, dict) and set(v) == set(MACHINE),
        "a number for each of MACHINE",
    ),
    (("ratios", "waits"), lambda v: isinstance(v, dict), "an object"),
    (("plans", "memory", "notes", "throttle", "sm_mhz"), lambda v: isinstance(v, list), "a list"),
    (("us_at",), lambda v: isinstance(v, dict) and all(map(_above_0, v.values())), "µs above 0, by sparsity"),
    (
        ("by_size",),
        lambda v: isinstance(v, dict) and all(_is_rate(one) for one in v.values()),
        "rates above 0, by size",
    ),
    (("sustained",), lambda v: _is_rate(v), "a rate above 0"),
)


def _complaints(r: Mapping[str, Any]) -> list[str]:
    """The errors of a record, one line each."""
    if r.get("suite") not in SUITES:
        return [f"suite must be one of {', '.join(SUITES)}, got {_short(r.get('suite'))}"]
    needed = ("case", "implementation", *SUITES[r["suite"]])
    if r["suite"] == "sparse" and r.get("kind") != "activations":  # those are counted, not timed
        needed += _SPARSE
    if r["suite"] == "trace":
        needed += ("predicted", "measured") if "predicted" in r else ("trace", "compute-sanitizer")
    if "previous_run" in r:
        needed += ("previous_mj_per_image" if r["suite"] == "energy" else "previous_median_us",)
    may_be_none = set(_OPTIONAL) - set(_KNOWN.get(r["suite"], ()))
    missing = [key for key in needed if r.get(key) is None and not (key in r and key in may_be_none)]
    if missing:
        return [f"a record of the suite {r['suite']} has no {', '.join(missing)}"]
    wrong = [
        f"{key} must be {expected}, got {_short(r[key])}"
        for keys, fits, expected in RULES for key in keys if key in r and not fits(r[key])
    ]  # fmt: skip
    for keys in (_TIMES, _MILLIJOULES, _LONE, _COLD):
        values = [r[key] for key in keys if key in r]
        if not wrong and values != sorted(values):
            wrong.append(f"{keys[0]}, {keys[1]} and {keys[2]} must ascend, got {', '.join(map(_short, values))}")
    return wrong


def _identity(r: Mapping[str, Any]) -> tuple:
    return tuple(r.get(key) for key in IDENTITY)


def _check(run: str, environment: Mapping[str, Any], records: Sequence[Record]) -> None:
    if missing := _unnamed(environment):
        raise ValueError(f"environment of run {run!r} must say its {missing}, got {environment.get(missing)!r}")
    seen = set()
    for r in records:
        name = ", ".join(str(r[key]) for key in IDENTITY if r.get(key) is not None)
        if complaints := _complaints(r):
            raise ValueError(f"record {name}: {'; '.join(complaints)}")
        if _identity(r) in seen:
            raise ValueError(f"record {name}: measured twice in one run")
        seen.add(_identity(r))


# ---- Writing


def _previous(new: Record, old: Record | None, run: str) -> Record:
    """The keys "previous_…" of a record: the values of the record that it replaces.

    If that one is of the same run, its own "previous_…" keys are kept.
    """
    measured = [key for key in ("median_us", "mj_per_image") if old and key in old and key in new]
    if old is None or not measured:
        return {}
    if old["run"] == run:
        return {key: old[key] for key in ("previous_run", *(f"previous_{key}" for key in measured)) if key in old}
    return {f"previous_{key}": old[key] for key in measured} | {"previous_run": old["run"]}


def save(
    folder: Path,
    run: str,
    environment: Record,
    records: Sequence[Record],
    superseded: Callable[[Record], bool] = lambda r: False,
) -> None:
    """Add a run to a card's folder, which is created if necessary.

    A record with the same IDENTITY as an older one replaces it, and keeps its median and run as "previous_median_us"
    (in the suite energy "previous_mj_per_image") and "previous_run". superseded: a predicate for older records that
    are deleted without a replacement, because what they measured no longer exists.

    What nothing reads any more is left out, see pruning.py.

    ValueError for a record that lacks a key of its suite, or whose times are not positive and ascending;
    DamagedResults for files that cannot be read; then nothing is written. Files are replaced atomically, and at any
    moment runs.json contains every run that the tables refer to.
    """
    _check(run, environment, records)
    now = load(folder)
    before = {_identity(r): r for r in now.records}
    anew = {_identity(r) for r in records}
    kept = [r for r in now.records if not (_identity(r) in anew or superseded(r))]
    kept += [{"run": run, **r, **_previous(r, before.get(_identity(r)), run)} for r in records]
    kept = pruned(kept)
    runs = {**now.runs, run: environment}
    used = {r[key] for r in kept for key in ("run", "previous_run") if key in r}
    new = Results(runs, kept)
    # formatting may raise, so it comes before any file is written
    texts = {f"{suite}.csv": _csv(new.suite(suite)) for suite in SUITES if new.suite(suite)}
    every, left = _json(runs), _json({name: runs[name] for name in runs if name in used})
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"runs.json": every, **texts}.items():
        _write(folder / name, text)
    for suite in SUITES:
        if f"{suite}.csv" not in texts:
            (folder / f"{suite}.csv").unlink(missing_ok=True)
    _write(folder / "runs.json", left)  # only now: no table refers to the other runs any more


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with replacing(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
