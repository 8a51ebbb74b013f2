"""What was measured: a folder of text tables for each card, 06_optimize/results/nvidia-h200/.

    runs.json                        by run: card, driver, versions, clocks, date, commit
    network.csv, kernels.csv, …      a table for each suite, a line for each record

    recorded = results.load("NVIDIA H200")
    find(recorded, suite="network", batch=1)      a list of records, each a dict
    recorded.frame("kernels")                     the same as a pandas DataFrame

    records = [record("network", "mobilenetv2-1.0-224", "ours", precision="fp16", arithmetic="...", batch=1,
                      timing=timing, work=work, error=2e-4, layout="NHWC")]
    save(path_of(environment["card"]), run, environment, records)

A table holds the newest record of everything that its suite measured. Where a record replaces another, it keeps the
other's median: two runs of the same programs show how well times repeat.

A cell is text as it is, or JSON: numbers, null, lists, objects, and text in quotes where it would be read as one of
these. An empty cell: the record does not have this key. `pandas.read_csv` reads a table as well.
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

if TYPE_CHECKING:
    import pandas

Record = dict[str, Any]
Some = TypeVar("Some", bound=Mapping[str, Any])

PRECISIONS = ("fp32", "tf32", "fp16")

# two records that agree in all of these are the same measurement, done again
IDENTITY = (
    "suite", "case", "implementation", "precision", "arithmetic", "layout", "launch", "batch", "mode", "placement"
)  # fmt: skip

_TIMED = ("precision", "arithmetic", "batch", "launch", "mode", "median_us", "p5_us", "p95_us", "bytes", "flops")
# mJ per image above idle power: the median of the rounds and their range; gross_mj: with idle power
_METERED = (
    "precision", "arithmetic", "batch", "layout", "launch", "error", "mj_per_image", "mj_low", "mj_high", "gross_mj",
    "idle_w", "watts", "seconds", "rounds", "images", "method",
)  # fmt: skip
# the keys that a record of each suite must have, besides case and implementation
SUITES: dict[str, tuple[str, ...]] = {
    "network": (*_TIMED, "layout", "error"),
    "operators": (*_TIMED, "layout", "error", "kind", "shape", "count"),
    "kernels": (*_TIMED, "error", "operator", "order", "kind", "shape", "count"),  # pictures also have a layout
    "steps": (*_TIMED, "error"),
    "peaks": _TIMED,
    "plans": (*_TIMED, "layout", "error", "operator", "way", "plans", "workspace"),
    "sparse": ("precision", "batch", "kind", "label", "shape", "sparsity"),  # and _SPARSE, if it was timed
    "energy": _METERED,
    "profile": ("precision", "batch", "order", "kernel", "us", "issue", "warps", "tensor", "shared", "waits"),
    "trace": (),  # of a launch predicted and measured, COUNTS each; of a wrong kernel trace and compute-sanitizer
}
_SPARSE = (*_TIMED, "layout", "error", "pattern", "count", "us_at")
_OPTIONAL = ("bytes", "flops", "error")  # may be None: not everything that is timed has a floor or a reference
_KNOWN = {  # where they may not
    "network": ("error",), "operators": ("bytes", "flops"), "kernels": ("bytes", "flops", "error"),
    "peaks": ("bytes", "flops"), "energy": ("error",),
}  # fmt: skip


# what the suite "trace" counts in a launch, by the simulator's trace and by the profiler
COUNTS = (
    "global load requests", "global load sectors", "global store requests", "global store sectors",
    "shared load wavefronts", "shared store wavefronts", "shared load conflicts", "shared store conflicts",
)  # fmt: skip


class DamagedResults(ValueError):
    """A file of results that cannot be read; the message names the file and line, what was expected and what came."""


# ---- Where


def course() -> Path:
    """The course's folder: the nearest from the current directory upwards, else the checkout that this module is in.

    FileNotFoundError where there is neither, as for an installed package in a folder of its user.
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

    folder: of all results, instead of the course's. FileNotFoundError as for `course`.
    """
    return (folder or course() / "06_optimize" / "results") / "-".join(card.lower().split())


# ---- Reading


class Results:
    """What was measured on a card: `runs`, the environments by run; `records`, a dict for each measurement.

    The suites' tables are read when they are first asked for. Records and environments are shared with other callers:
    do not change them.
    """

    def __init__(self, runs: Mapping[str, Record] | None = None, records: Iterable[Record] = ()) -> None:
        self._runs = dict(runs or {})
        self._tables: dict[str, list[Record]] = {}
        for r in records:
            self._tables.setdefault(r["suite"], []).append(r)
        self._folder: Path | None = None

    @classmethod
    def of(cls, folder: Path) -> "Results":
        """The contents of a card's folder; empty if there is none."""
        made = cls(_runs(folder / "runs.json"))
        made._folder = folder
        return made

    @property
    def runs(self) -> dict[str, Record]:
        """What each run was made on, by its name: "card", "driver", "date", "commit", …"""
        return self._runs

    @property
    def records(self) -> list[Record]:
        """All records, suite by suite."""
        return [r for suite in SUITES for r in self.suite(suite)]

    def suite(self, name: str) -> list[Record]:
        """The records of a suite, in the order of its table; none if nothing was measured."""
        if name not in self._tables and self._folder is not None:
            self._tables[name] = _table(self._folder / f"{name}.csv", frozenset(self._runs))
        return self._tables.get(name, [])

    def frame(self, suite: str) -> "pandas.DataFrame":
        """The records of a suite as a DataFrame, a row for each. ValueError for an unknown suite."""
        import pandas

        if suite not in SUITES:
            raise ValueError(f"suite must be one of {', '.join(SUITES)}, got {suite!r}")
        return pandas.DataFrame(self.suite(suite))

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)


def load(card: str | Path) -> Results:
    """What is recorded of a card: its name, "NVIDIA H200", or its folder. Empty if there is no such folder.

    DamagedResults, here or when a suite is first asked for, for a file that is not what `save` writes.
    """
    return Results.of(card if isinstance(card, Path) else path_of(card))


def _state(path: Path) -> tuple[int, ...] | None:
    """What differs once a file has changed; None without a file."""
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
    """Which of card and date a run's environment lacks."""
    return next((key for key in ("card", "date") if not isinstance(run.get(key), str) or not run[key]), None)


def _table(path: Path, runs: frozenset[str]) -> list[Record]:
    state = _state(path)
    return [] if state is None else list(_parsed_table(path, runs, state))


@functools.lru_cache(maxsize=32)
def _parsed_table(path: Path, runs: frozenset[str], state: tuple[int, ...]) -> list[Record]:
    rows = csv.reader(io.StringIO(_text(path)), strict=True)
    made: list[Record] = []
    try:
        names = next(rows)
        if not {"run", "case", "implementation"} <= set(names) or len(set(names)) < len(names):
            raise DamagedResults(f"{path}, line 1: expected names of columns, run, case, implementation among them")
        for cells in rows:
            if len(cells) != len(names):
                raise ValueError(f"expected {len(names)} cells, got {len(cells)}")
            r = {"run": cells[names.index("run")], "suite": path.stem}
            r |= {name: value_of(cell) for name, cell in zip(names, cells, strict=True) if cell}
            if r["run"] not in runs:
                raise ValueError(f"expected a run of runs.json, got {_short(r['run'])}")
            if complaints := _complaints(r):
                raise ValueError("; ".join(complaints))
            made.append(r)
    except DamagedResults:
        raise
    except (ValueError, csv.Error, RecursionError, StopIteration) as error:
        raise DamagedResults(f"{path}, line {rows.line_num}: {error or 'expected names of columns'}") from None
    return made


# ---- Cells


_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


def value_of(cell: str) -> Any:
    """The value that a cell stands for. ValueError if it begins as JSON, but is none."""
    if cell[0] in '[{"' or cell in ("null", "true", "false") or _NUMBER.fullmatch(cell):
        try:
            return json.loads(cell)
        except json.JSONDecodeError as error:
            raise ValueError(f"expected JSON, got {_short(cell)}: {error}") from None
    return cell


def cell_of(value: Any) -> str:
    """The cell for a value: the text itself, or JSON. TypeError and ValueError for what JSON has not, as NaN."""
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
    """A suite's table: known columns in a fixed order, the others by name, so equal records make equal bytes."""
    keys = {key for r in records for key in r} - {"suite"}
    names = [name for name in _FIRST if name in keys] + sorted(keys - set(_FIRST))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([cell_of(r[name]) if name in r else "" for name in names] for r in records)
    return file.getvalue()


def _json(runs: Mapping[str, Record]) -> str:
    """runs.json: a line a run."""

    def dumped(value: Any) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    lines = (f"{dumped(name)}: {dumped(run)}" for name, run in runs.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---- Records


def rounded_us(us: float) -> float:
    """µs to four significant digits, but no finer than 0.01 µs: what a repetition does not change at random."""
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
    """A measurement as a dict. Times are rounded to four significant digits or 0.01 µs.

    error: ‖out − reference‖ / ‖reference‖ of what was timed, None where there is no reference. more: what else the
    suite says ("layout", "kind", …). A key given there replaces the one of `timing`: launch="graph" for an "eager" call
    that replays a graph of its own.
    """
    made: Record = {
        "suite": suite, "case": case, "implementation": implementation, "precision": precision,
        "arithmetic": arithmetic, "batch": int(batch), "launch": timing.launch, "mode": timing.mode,
        "median_us": rounded_us(timing.median_us), "p5_us": rounded_us(timing.p5_us),
        "p95_us": rounded_us(timing.p95_us), "samples": timing.samples, "calls": timing.calls,
        "bytes": None if work is None else work.bytes, "flops": None if work is None else work.flops,
        "error": None if error is None else float(f"{error:.3g}"),
    }  # fmt: skip
    return made | more


def find(recorded: Results, **keys: Any) -> list[Record]:
    """The records that have all these values, in the tables' order: find(recorded, suite="network", batch=1)."""
    found = list(recorded.suite(keys["suite"]) if "suite" in keys else recorded.records)
    for key, value in keys.items():  # one after the other: most records are out after the first
        found = [r for r in found if key in r and r[key] == value]
    return found


def one(recorded: Results, **keys: Any) -> Record:
    """The only record that has all these values. ValueError if there is none, or more than one."""
    found = find(recorded, **keys)
    if len(found) != 1:
        asked = ", ".join(f"{key}={value!r}" for key, value in keys.items())
        raise ValueError(f"expected one record with {asked}, the results hold {len(found)}")
    return found[0]


def grouped(records: Iterable[Mapping[str, Any]], *keys: str) -> dict[tuple, list[Mapping[str, Any]]]:
    """Records by what they say of some keys, None where they say nothing, in their order."""
    groups: dict[tuple, list[Mapping[str, Any]]] = {}
    for r in records:
        groups.setdefault(tuple(r.get(key) for key in keys), []).append(r)
    return groups


def fastest(records: Iterable[Some]) -> Some | None:
    """The one of the least median; None without any."""
    return min(records, key=lambda r: r["median_us"], default=None)


def runs(recorded: Results, records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The environments of the runs that these records come from, the newest first."""
    names = {r["run"] for r in records}
    made = [environment for name, environment in recorded.runs.items() if name in names]
    return sorted(reversed(made), key=lambda environment: environment["date"], reverse=True)


# ---- Checking


def _short(value: Any) -> str:
    """A value in a message, its first 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _above_0(value: Any) -> bool:
    return _is_number(value) and value > 0


_TIMES, _MILLIJOULES = ("p5_us", "median_us", "p95_us"), ("mj_low", "mj_per_image", "mj_high")
_RULES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("precision",), lambda v: v in PRECISIONS, f"one of {', '.join(PRECISIONS)}"),
    (("layout",), lambda v: v is None or v in LAYOUTS, f"one of {', '.join(LAYOUTS)}"),
    (("mode",), lambda v: v in ("hot", "rotating"), "one of hot, rotating"),
    (("method",), lambda v: v in ("counter", "power"), "one of counter, power"),
    (_OPTIONAL, lambda v: v is None or (_is_number(v) and v >= 0), "a finite number of at least 0"),
    (("batch", "count", "order", "rounds", "images"), lambda v: type(v) is int and v >= 1, "an integer of at least 1"),
    (("launch",), lambda v: v in LAUNCHES, f"one of {', '.join(LAUNCHES)}"),
    ((*_TIMES, "previous_median_us", "previous_mj_per_image"), _above_0, "a finite number above 0"),
    (("mj_per_image", "gross_mj", "idle_w", "watts", "seconds"), _above_0, "a finite number above 0"),
    (("mj_low", "mj_high"), _is_number, "a finite number"),
    (("predicted", "measured"), lambda v: isinstance(v, dict) and set(v) == set(COUNTS), "a number for each of COUNTS"),
    (("ratios", "waits"), lambda v: isinstance(v, dict), "an object"),
    (("plans", "memory", "notes", "throttle", "sm_mhz"), lambda v: isinstance(v, list), "a list"),
    (("us_at",), lambda v: isinstance(v, dict) and all(map(_above_0, v.values())), "µs above 0, by sparsity"),
)


def _complaints(r: Mapping[str, Any]) -> list[str]:
    """What is wrong with a record, a line each."""
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
        for keys, fits, expected in _RULES for key in keys if key in r and not fits(r[key])
    ]  # fmt: skip
    for keys in (_TIMES, _MILLIJOULES):
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
    """What the record says of the one that it replaces. Saved again by the same run, it says what it said before."""
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
    """Add a run to a card's folder, which is made if it is not there.

    A record of something that was measured before replaces the older one, and keeps its median and run as
    "previous_median_us" (in the suite energy "previous_mj_per_image") and "previous_run". superseded: which older
    records go even if nothing measures them anew, since what they measured is there no more.

    ValueError for a record that lacks what its suite says, or whose times are not positive and ascending, and
    DamagedResults for files that cannot be read; then nothing is written. Each file is replaced as a whole, and at any
    moment runs.json names every run that the tables name.
    """
    _check(run, environment, records)
    now = load(folder)
    before = {_identity(r): r for r in now.records}
    anew = {_identity(r) for r in records}
    kept = [r for r in now.records if not (_identity(r) in anew or superseded(r))]
    kept += [{"run": run, **r, **_previous(r, before.get(_identity(r)), run)} for r in records]
    runs = {**now.runs, run: environment}
    used = {r[key] for r in kept for key in ("run", "previous_run") if key in r}
    made = Results(runs, kept)
    texts = {f"{suite}.csv": _csv(made.suite(suite)) for suite in SUITES if made.suite(suite)}  # may fail: before files
    every, left = _json(runs), _json({name: runs[name] for name in runs if name in used})
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"runs.json": every, **texts}.items():
        _write(folder / name, text)
    for suite in SUITES:
        if f"{suite}.csv" not in texts:
            (folder / f"{suite}.csv").unlink(missing_ok=True)
    _write(folder / "runs.json", left)  # now nothing names the others


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with replacing(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
