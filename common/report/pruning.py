"""What the store keeps: rules for records, or parts of them, that nothing reads any more.

    pruned(records)    the same records without these; `results.save` applies it to every suite

1. A newer record of the same thing replaces an older one; only its median stays, as "previous_median_us". (`save`)
2. Suite "sparse": cuDNN's second and third plan were timed beside its first to see whether zeros change which of the
   three is the fastest. Where they are nowhere faster than the first, they have said it, and go; those of the network
   whose table has all three stay.
3. Suite "sparse": what plan ran is in no table. The tile of a sparse kernel follows from its shape, by the rule of
   `optimize.sparse`; cuDNN's plans are timed anew in each run. Their texts go.
4. Suite "network": records of ours are of one program. What ours took in another arithmetic, layout or launch on an
   earlier day than the newest of the same case, precision, batch and mode was another program's time, and goes.
"""

import functools
import re
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]
RUNNERS_UP = ("cudnn-2nd", "cudnn-3rd")
FIRST, OURS = "cudnn", "ours"
SHOWN = "resnet-50"  # in fp32: notebook 10 of chapter 06 prints the times of all three plans
LARGEST = 2_400_000  # bytes of a table; a test holds it
_DAY = re.compile(r"\d{4}-\d\d-\d\d")  # the beginning of a run's name


def pruned(records: Iterable[Record]) -> list[Record]:
    """The records without those, and those keys, that the rules above name; in the same order."""
    records = list(records)
    firsts = {_place(r): r["us_at"] for r in records if _timed(r) and r["implementation"] == FIRST}
    newest: dict[tuple[Any, ...], str] = {}
    for r in filter(_ours, records):
        newest[_program(r)] = max(newest.get(_program(r), ""), _day(r))
    kept = []
    for r in records:
        if _ours(r) and _day(r) < newest[_program(r)]:
            continue
        if _timed(r):
            runner_up = r["implementation"] in RUNNERS_UP and not (r["precision"] == "fp32" and r["shape"] in _shown())
            if runner_up and not _ahead(r["us_at"], firsts.get(_place(r))):
                continue
            if "plan" in r:
                r = {key: value for key, value in r.items() if key != "plan"}
        kept.append(r)
    return kept


def _ours(r: Record) -> bool:
    return bool(r["suite"] == "network" and r["implementation"] == OURS and "run" in r)


def _program(r: Record) -> tuple[Any, ...]:
    return tuple(r.get(key) for key in ("case", "precision", "batch", "mode"))


def _day(r: Record) -> str:
    found = _DAY.match(str(r["run"]))
    return found[0] if found else ""


def _timed(r: Record) -> bool:
    return bool(r["suite"] == "sparse" and "us_at" in r)


@functools.cache
def _shown() -> frozenset[str]:
    """The shapes of SHOWN."""
    from ..optimize.sparse_layers import distinct

    return frozenset(str(one.shape) for one in distinct((SHOWN,)))


def _place(r: Record) -> tuple[Any, ...]:
    return tuple(r.get(key) for key in ("shape", "batch", "precision", "pattern", "arithmetic", "layout"))


def _ahead(times: dict[str, float], first: dict[str, float] | None) -> bool:
    """Whether a plan is faster than the first at some share of zeros; at one that the first lacks, than its least."""
    return first is None or any(us < first.get(share, min(first.values())) for share, us in times.items())
