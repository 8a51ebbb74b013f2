"""Results files: what was measured, on which card, when, with what (DESIGN: 06_optimize/results/<gpu>.json).

    records = [record("network", "mobilenetv2-1.0-224", "ours", precision="fp16", arithmetic="...", batch=1,
                      timing=timing, work=work, error=2e-4, layout="NHWC")]
    save(path_of(environment["card"]), run, environment, records)
    find(load(path), suite="network", batch=1)

A file holds the newest record of everything that was measured, {"runs": {id: environment}, "records": [...]}. Where one
replaces another, it says what the other's median was: two runs of the same programs show how well times repeat.
"""

import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..cuda.layout import LAYOUTS
from .roofline import Work
from .timing import Timing

FOLDER = Path(__file__).resolve().parents[2] / "06_optimize" / "results"

PRECISIONS = ("fp32", "tf32", "fp16")

# what makes two records the same measurement, done again
IDENTITY = (
    "suite", "case", "implementation", "precision", "arithmetic", "layout", "launch", "batch", "mode", "placement"
)  # fmt: skip

_TIMED = ("precision", "arithmetic", "batch", "launch", "mode", "median_us", "p5_us", "p95_us", "bytes", "flops")
# mJ an image above idle power: the median of the rounds, and what they range over; gross_mj: idle power and all
_METERED = (
    "precision", "arithmetic", "batch", "layout", "launch", "error", "mj_per_image", "mj_low", "mj_high", "gross_mj",
    "idle_w", "watts", "seconds", "rounds", "images", "method",
)  # fmt: skip
# what a record of each suite says, besides suite, case and implementation
SUITES: dict[str, tuple[str, ...]] = {
    "network": (*_TIMED, "layout", "error"),
    "operators": (*_TIMED, "layout", "error", "kind", "shape", "count"),
    "kernels": (*_TIMED, "error", "operator", "order", "kind", "shape", "count"),  # and the layout of pictures
    "steps": (*_TIMED, "error"),
    "peaks": _TIMED,
    "plans": (*_TIMED, "layout", "error", "operator", "way", "plans", "workspace"),
    "sparse": ("precision", "batch", "kind", "label", "shape", "sparsity"),  # and what is below, where it was timed
    "energy": _METERED,
    "profile": ("precision", "batch", "order", "kernel", "us", "issue", "warps", "tensor", "shared", "waits"),
    "trace": (),
}
# what may be None in those: not everything that is timed has a floor or a reference
_OPTIONAL = ("bytes", "flops", "error")
# of the suite sparse; activations are counted, not timed
_SPARSE = (*_TIMED, "layout", "error", "pattern", "count", "us_at")
_KNOWN = {  # and there it may not
    "network": ("error",), "operators": ("bytes", "flops"), "kernels": ("bytes", "flops", "error"),
    "peaks": ("bytes", "flops"), "energy": ("error",),
}  # fmt: skip
_ALLOWED = {
    "precision": PRECISIONS,
    "layout": LAYOUTS,
    "mode": ("hot", "rotating"),
    "method": ("counter", "power"),  # of the suite energy: the card's own counter, or power readings integrated
}


def path_of(gpu: str) -> Path:
    """The results file of a card: "NVIDIA H200" → 06_optimize/results/nvidia-h200.json."""
    return FOLDER / f"{'-'.join(gpu.lower().split())}.json"


def load(path: Path) -> dict[str, Any]:
    """The file's contents, {"runs": {id: environment}, "records": [...]}; empty if there is no file yet.

    A file that has not changed is not read again: environments and records are shared between calls, and not to be
    changed.
    """
    if not path.exists():
        return {"runs": {}, "records": []}
    state = path.stat()
    content = _read(path.resolve(), state.st_ino, state.st_mtime_ns, state.st_size)
    return {"runs": dict(content["runs"]), "records": list(content["records"])}


@functools.lru_cache(maxsize=2)
def _read(path: Path, *state: int) -> dict[str, Any]:
    """state: what differs once the file has changed."""
    return json.loads(path.read_text(encoding="utf-8"))


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
) -> dict[str, Any]:
    """A measurement as a results file holds it. Times are rounded to four significant digits or 0.01 µs.

    error: ‖out − reference‖ / ‖reference‖ of what was timed, None where there is no reference. more: what else the
    suite says ("layout", "kind", …). A key given there replaces the one of `timing`: launch="graph" for an "eager" call
    that replays a graph of its own.
    """
    made: dict[str, Any] = {
        "suite": suite, "case": case, "implementation": implementation, "precision": precision,
        "arithmetic": arithmetic, "batch": int(batch), "launch": timing.launch, "mode": timing.mode,
        "median_us": rounded_us(timing.median_us), "p5_us": rounded_us(timing.p5_us),
        "p95_us": rounded_us(timing.p95_us), "samples": timing.samples, "calls": timing.calls,
        "bytes": None if work is None else work.bytes, "flops": None if work is None else work.flops,
        "error": None if error is None else float(f"{error:.3g}"),
    }  # fmt: skip
    return made | more


# ---- Looking things up


def find(content: Mapping[str, Any], **keys: Any) -> list[dict[str, Any]]:
    """The records that have all these values, in the file's order: find(content, suite="network", batch=1)."""
    found = list(content["records"])
    for key, value in keys.items():
        found = [r for r in found if key in r and r[key] == value]
    return found


def one(content: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    """The only record that has all these values. ValueError if there is none, or more than one."""
    found = find(content, **keys)
    if len(found) != 1:
        asked = ", ".join(f"{key}={value!r}" for key, value in keys.items())
        raise ValueError(f"expected one record with {asked}, the results hold {len(found)}")
    return found[0]


def runs(content: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The environments of the runs that these records come from, the newest first."""
    names = {record["run"] for record in records}
    made = [content["runs"][name] for name in content["runs"] if name in names]
    return sorted(reversed(made), key=lambda environment: environment["date"], reverse=True)


# ---- Writing


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def _complaints(r: Mapping[str, Any]) -> list[str]:
    """What is wrong with a record, a line each."""
    if r.get("suite") not in SUITES:
        return [f"suite must be one of {', '.join(SUITES)}, got {r.get('suite')!r}"]
    needed = ("case", "implementation", *SUITES[r["suite"]])
    if r["suite"] == "sparse" and r.get("kind") != "activations":
        needed += _SPARSE
    may_be_none = set(_OPTIONAL) - set(_KNOWN.get(r["suite"], ()))
    missing = [key for key in needed if key not in r or (r[key] is None and key not in may_be_none)]
    if missing:
        return [f"a record of the suite {r['suite']} has no {', '.join(missing)}"]
    found = []
    for key, allowed in _ALLOWED.items():
        if r.get(key) is not None and r[key] not in allowed:
            found.append(f"{key} must be one of {', '.join(allowed)}, got {r[key]!r}")
    for key in ("bytes", "flops", "error"):
        if r.get(key) is not None and not (_is_number(r[key]) and r[key] >= 0):
            found.append(f"{key} must be a finite number of at least 0, got {r[key]!r}")
    for key in ("batch", "count", "order", "rounds", "images"):
        if key in r and not (isinstance(r[key], int) and r[key] >= 1):
            found.append(f"{key} must be an integer of at least 1, got {r[key]!r}")
    for key in ("mj_per_image", "gross_mj", "idle_w", "watts", "seconds"):
        if key in r and not (_is_number(r[key]) and r[key] > 0):
            found.append(f"{key} must be a finite number above 0, got {r[key]!r}")
    of_energy = [r[key] for key in ("mj_low", "mj_per_image", "mj_high") if key in r]
    if not all(map(_is_number, of_energy)) or of_energy != sorted(of_energy):
        found.append(f"mj_low, mj_per_image and mj_high must be numbers that ascend, got {_listed(of_energy)}")
    times = {key: r[key] for key in ("p5_us", "median_us", "p95_us") if key in r}
    wrong = [
        f"{key} must be a finite number above 0, got {v!r}" for key, v in times.items() if not _is_number(v) or v <= 0
    ]
    if not wrong and list(times.values()) != sorted(times.values()):
        wrong = [f"p5_us, median_us and p95_us must ascend, got {_listed(times.values())}"]
    return found + wrong


def _check(run: str, environment: Mapping[str, Any], records: list[dict[str, Any]]) -> None:
    for key in ("card", "date"):
        if not environment.get(key):
            raise ValueError(f"environment of run {run!r} must say its {key}, got {environment.get(key)!r}")
    seen: dict[tuple, dict[str, Any]] = {}
    for r in records:
        name = ", ".join(str(r[key]) for key in IDENTITY if r.get(key) is not None)
        complaints = _complaints(r)
        if complaints:
            raise ValueError(f"record {name}: {'; '.join(complaints)}")
        if _identity(r) in seen:
            raise ValueError(f"record {name}: measured twice in one run")
        seen[_identity(r)] = r


def _identity(r: Mapping[str, Any]) -> tuple:
    return tuple(r.get(key) for key in IDENTITY)


def _previous(new: Mapping[str, Any], old: Mapping[str, Any] | None, run: str) -> dict[str, Any]:
    """What the record says of the one that it replaces. Saved again by the same run, it says what it said before."""
    if old is None:
        return {}
    told = [key for key in ("median_us", "mj_per_image") if key in old and key in new]
    if not told:
        return {}
    if old["run"] == run:
        return {key: old[key] for key in ("previous_run", *(f"previous_{key}" for key in told)) if key in old}
    return {f"previous_{key}": old[key] for key in told} | {"previous_run": old["run"]}


def _text(content: Mapping[str, Any]) -> str:
    """The file: a line a run and a line a record, so that a difference between two versions is one of records."""

    def dumped(value: Any) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    runs = ",\n".join(f"{dumped(name)}: {dumped(environment)}" for name, environment in content["runs"].items())
    records = ",\n".join(map(dumped, content["records"]))
    return f'{{"runs": {{\n{runs}\n}}, "records": [\n{records}\n]}}\n'


def save(
    path: Path,
    run: str,
    environment: dict[str, Any],
    records: list[dict[str, Any]],
    superseded: Callable[[dict[str, Any]], bool] = lambda r: False,
) -> None:
    """Adds a run. A record that measures something anew replaces the older one, and keeps its median and run as
    "previous_median_us" (in the suite energy "previous_mj_per_image") and "previous_run". superseded: which older
    records go even if nothing measures them anew, since what they measured is there no more.

    ValueError for a record that lacks what its suite says, or whose times are not positive and ascending; then nothing
    is written. The file is never half-written.
    """
    _check(run, environment, records)
    content = load(path)
    before = {_identity(r): r for r in content["records"]}
    anew = {_identity(r) for r in records}
    content["records"] = [r for r in content["records"] if not (_identity(r) in anew or superseded(r))]
    content["records"] += [{"run": run, **r, **_previous(r, before.get(_identity(r)), run)} for r in records]
    content["runs"][run] = environment
    used = {r[key] for r in content["records"] for key in ("run", "previous_run") if key in r}
    content["runs"] = {key: value for key, value in content["runs"].items() if key in used}
    text = _text(content)  # before anything is opened: it may fail
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(text)
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(file.name, 0o666 & ~umask)  # temporary files are private, this one is like any other
    os.replace(file.name, path)
