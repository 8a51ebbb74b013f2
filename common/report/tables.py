"""Texts generated from the results of the H200: single values and tables for READMEs and notebooks.

`texts()` returns the functions that generate them, by the name in their markers. A function of `Results` returns
NOT_YET if the records that it needs are missing, unless it says otherwise.
"""

import functools
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from ..cuda.machine_code.occupancy import LEAST_REGISTERS
from ..measure.roofline import ARITHMETIC, Peaks, Work, rate, share
from ..optimize.sparse import skips
from . import results
from .results import Results, grouped

CARD = "NVIDIA H200"  # the card of the course's results
NOT_YET = "not measured yet"
DASH = "–"

NETWORK = "mobilenetv2-1.0-224"
BATCHES = (1, 8, 32, 256)
OPERATOR_BATCHES = (1, 32, 256)

IMPLEMENTATIONS = {  # their names in tables, in the order of rows
    "ours": "ours",
    "cudnn": "cuDNN, layer by layer",
    "torch-eager": "PyTorch, eager",
    "torch-graph": "PyTorch, CUDA graph",
    "torch-compile": "torch.compile",
    "xla": "XLA (JAX)",
    "onnxruntime-cuda": "ONNX Runtime (CUDA)",
    "tensorrt": "TensorRT",
}
ROWS = {"ours": "ours", "ours-fma": "ours, FMA only"} | IMPLEMENTATIONS  # of tables of the whole network
LIBRARIES = {"cudnn": "cuDNN", "cublas": "cuBLAS"}  # implementations of the suite "kernels" that are not rungs
FMA_ONLY = f"{NETWORK}, FMA only"  # the case of ours in fp32 without tensor cores
PRECISIONS = {
    "fp32": "fp32 in memory; products by FMA, or on tensor cores, each number as a sum of shorter ones",
    "tf32": "tf32: fp32 in memory, products of 10-bit mantissas",
    "fp16": "fp16 in memory, sums in fp32",
    "int8": "int8 in memory, sums in int32",
}
# the key "arithmetic" of records in a word; the libraries in fp32 are told not to use TF32
_WORDS = {"tf32": "TF32", "3xtf32": "3×TF32", "3xfp16": "3×fp16"}
ARITHMETICS = {words: _WORDS.get(roof, roof) for roof, words in ARITHMETIC.items()}
LAUNCHED = {
    "graph": "a CUDA graph", "eager": "Python", "host": "its own runtime", "loop": "a loop on the device",
}  # fmt: skip

Record = Mapping[str, Any]  # as in results.py


# ---- Pieces of text


def us(value: float) -> str:
    """A number of µs or mJ as text, with three significant digits, or as an integer from 100 on: 2.06, 48.3, 16,598."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> str:
    """A Markdown table; the first `texts` columns are left-aligned, the others right-aligned."""
    below = f"|{'---|' * texts}{'---:|' * (len(heads) - texts)}"
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([first, below, *others])


Titled = tuple[str, Sequence[str], Sequence[Sequence[str]], int]  # a title, and the arguments of `markdown`


def _text(intro: str, parts: Iterable[Titled], footnotes: Iterable[str] = ()) -> str:
    """An introduction, tables with a title each, and footnotes; tables without rows are left out."""
    shown = (
        text for title, heads, rows, texts in parts if rows for text in (f"{title}:", markdown(heads, rows, texts))
    )
    return "\n\n".join([intro, *shown, *footnotes])


def fold(summary: str, body: str) -> str:
    """A part of a page that is folded until the reader clicks its summary."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _folded(parts: Iterable[Titled]) -> list[str]:
    """Tables, each folded below its title; tables without rows are left out."""
    return [fold(title, markdown(heads, rows, texts)) for title, heads, rows, texts in parts if rows]


def _batches(batches: Iterable[int]) -> list[str]:
    return [f"batch {batch}" for batch in batches]


def _by_batch(records: Iterable[Record], batches: Iterable[int], *cells: Callable[[Record], str]) -> list[str]:
    """The cells of each batch size's record, or dashes without a record."""
    by_batch = {r["batch"]: r for r in records}
    return [cell(by_batch[batch]) if batch in by_batch else DASH for batch in batches for cell in cells]


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _bold(text: str, whether: bool) -> str:
    return f"**{text}**" if whether else text


def card_and_date(recorded: Results, records: Sequence[Record]) -> str:
    """Card and date of records: "NVIDIA H200, 2026-11-21"; the first date and the last, if they differ."""
    runs = results.runs(recorded, records)
    dates = sorted({run["date"] for run in runs})
    return f"{runs[0]['card']}, {dates[0] if len(dates) == 1 else f'{dates[0]} to {dates[-1]}'}"


def provenance(recorded: Results, records: Sequence[Record]) -> str:
    """Card, date, driver and library versions of the records' runs, as the beginning of a sentence."""
    runs = results.runs(recorded, records)
    named = {
        "driver": "driver", "cuda": "CUDA", "cudnn": "cuDNN", "cublas": "cuBLAS", "torch": "PyTorch", "jax": "JAX",
        "onnxruntime": "ONNX Runtime",
    }  # fmt: skip
    seen = {key: list(dict.fromkeys(str(run[key]) for run in runs if run.get(key))) for key in named}
    versions = [f"{name} {' and '.join(seen[key])}" for key, name in named.items() if seen[key]]
    return ", ".join([card_and_date(recorded, records), *versions])


# ---- Peaks


PEAKS = {  # by the name of the text: the case of the record, the unit
    "peak-copy": ("copy", "TB/s"), "peak-fma": ("fma-fp32", "TFLOP/s"), "peak-tf32": ("tensor-tf32", "TFLOP/s"),
    "peak-fp16": ("tensor-fp16", "TFLOP/s"),
}  # fmt: skip


def peak(recorded: Results, name: str) -> str:
    """One of PEAKS, "4.3 TB/s": bytes read and written by a copy, or FLOPs of FMA units or tensor cores."""
    case, unit = PEAKS[name]
    found = results.find(recorded, suite="peaks", case=case)
    if not found:
        return NOT_YET
    value = rate(found[0]) / 1e12
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def peaks(recorded: Results) -> str:
    """A table of the peaks that were measured, and folded where they come from."""
    found = results.find(recorded, suite="peaks")
    if not found:
        return NOT_YET
    copy, fma, tf32, fp16 = (peak(recorded, name) for name in PEAKS)
    rows = [
        ["copying in global memory, read + written", copy], ["fp32 multiply-adds", fma],
        ["products on tensor cores, TF32", tf32], ["products on tensor cores, fp16", fp16],
    ]  # fmt: skip
    roofs = roofs_of(recorded)
    if roofs is not None:
        others = [
            (1, "reading global memory", "{:.1f} TB/s", roofs.read_bytes_per_s),
            (2, "copying in the L2 cache, read + written", "{:.1f} TB/s", roofs.l2_copy_bytes_per_s),
            (3, "reading in the L2 cache", "{:.1f} TB/s", roofs.l2_read_bytes_per_s),
            (7, "products on tensor cores, int8", "{:,.0f} TOP/s", roofs.tensor_int8),
            (8, "products on tensor cores, fp8", "{:,.0f} TFLOP/s", roofs.tensor_fp8),
        ]
        for place, name, words, value in others:
            if value is not None:
                rows.insert(place, [name, words.format(value / 1e12)])
    sizes = [row for r in found if r.get("by_size") for row in _by_size(r)]
    how = f"{provenance(recorded, found)}."
    if sizes:
        heads = ["square product", "size", "TFLOP/s or TOP/s", "MHz", "W"]
        how += " Of these products several sizes were timed, and the fastest is the peak. Clock and power: while timed."
        how += "\n\n" + markdown(heads, sizes, 1)
    return "\n\n".join([markdown(["measured at best", "rate"], rows, 1), fold("How they were measured", how)])


def _by_size(r: Record) -> list[list[str]]:
    """The rows of a tensor peak: one per size of its matrices, with clock and power, or dashes without them."""
    return [
        [r["precision"], f"{int(size):,}", f"{one['tera']:,.0f}"]
        + [f"{one[key]:,.0f}" if one.get(key) else DASH for key in ("sm_mhz", "watts")]
        for size, one in r["by_size"].items()
    ]


# ---- The length of the course


TRACKS = {  # the shorter tracks: chapters' folders and the numbers of their notebooks
    "write fast CUDA C++, and prove it": {"03": (0,), "04": (1, 2, 3, 4, 5, 11)},
    "from an ONNX file to your own engine": {
        "01": (1, 2, 3), "02": (1, 2), "03": (0,), "04": (1, 2, 4, 5, 9, 10, 11), "05": (1, 2, 3),
    },
}  # fmt: skip


def minutes(notebook: Path) -> int:
    """The duration in minutes that a notebook's first cell states. ValueError if it states none."""
    first = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
    found = re.search(r"\*\*Time\*\* (\d+) (minutes|hours?)", first)
    if found is None:
        raise ValueError(f"{notebook.name}: its first cell does not say '**Time** … minutes'")
    return int(found[1]) * (1 if found[2] == "minutes" else 60)


def tracks(root: Path) -> str:
    """A table of the tracks through the course, for a page in docs/: notebooks with their links, and hours."""
    paths = {(path.parts[-2][:2], path.name.split("_")[0]): path for path in root.glob("[0-9]*/*.ipynb")}
    time = {one: minutes(path) for one, path in paths.items()}
    links = {one: f"[{one[1]}](../{path.relative_to(root).as_posix()})" for one, path in paths.items()}
    rows = []
    for name, chosen in TRACKS.items():
        taken = [(chapter, str(number)) for chapter, numbers in chosen.items() for number in numbers]
        numbers = " · ".join(
            f"chapter {chapter}: {', '.join(links[chapter, str(number)] for number in those)}"
            for chapter, those in chosen.items()
        )
        rows.append([name, numbers, f"{sum(time[one] for one in taken) / 60:.0f}"])
    rows.append(["everything", f"all {len(time)} notebooks", f"{sum(time.values()) / 60:.0f}"])
    return markdown(["track", "notebooks", "hours"], rows, 2)


# ---- The network and its peers


class _Marks:
    """Footnotes: calling it with a record returns a mark if the record has a note, else ""."""

    def __init__(self) -> None:
        self._notes: list[str] = []

    def __call__(self, record: Record) -> str:
        if not record.get("note"):
            return ""
        name = IMPLEMENTATIONS.get(record["implementation"], record["implementation"])
        note = f"{name}: {record['note']}."
        if note not in self._notes:
            self._notes.append(note)
        return "¹²³⁴⁵⁶⁷⁸⁹"[self._notes.index(note)]

    def footnotes(self) -> list[str]:
        """The paragraphs below a table, one per note."""
        return [f"{mark} {note}" for mark, note in zip("¹²³⁴⁵⁶⁷⁸⁹", self._notes, strict=False)]


# What counts as one precision is said by the error of the logits, not by a name: (the largest, the title of its table)
CLASSES = {
    "single": (1e-5, "Errors up to 1e-5, those of fp32"),
    "half": (1e-2, "Errors up to 1e-2, those of fp16 in memory, or of products of TF32"),
    "int8": (math.inf, "Larger errors, those of int8 (the network was quantized after training)"),
}
CLEARLY = 0.03  # an earlier record of a library is named if its time is shorter by more than this
APART = "†"
LARGE = 1e-3  # error


def error_of(r: Record) -> float:
    """A record's error against float64, or against ONNX Runtime in fp32 where that was not taken."""
    return float(r.get("error_float64", r["error"]))


def class_of(r: Record) -> str:
    """The one of CLASSES that a record belongs to by its error."""
    return next(name for name, (most, _) in CLASSES.items() if error_of(r) <= most)


def process_of(r: Record) -> tuple[str, str, int]:
    """What records that were timed in turn in one process have in common: the run, the precision and the batch."""
    return r["run"], r["precision"], r["batch"]


@dataclass(frozen=True)
class Rival:
    """An implementation in one column of a table: the record of its fastest way, and what must be said beside it.

    beside: whether it was timed in turn with ours, in one process. earlier: precision, µs and run of another record
    that is clearly shorter, of a library: of an older run, or in the other precision of the class; None without any.
    """

    record: Record
    beside: bool
    earlier: tuple[str, float, str] | None

    @property
    def us(self) -> float:
        """µs per batch, median."""
        return float(self.record["median_us"])

    @property
    def ratio(self) -> dict[str, Any] | None:
        """Its time over ours, "median" with its 95 % interval, "low" to "high", of one process; None for others."""
        return self.record.get("ratios", {}).get("ours") if self.beside else None


def rivals(records: Iterable[Record]) -> dict[str, Rival]:
    """The Rivals of one column, by implementation in the order of ROWS. records: of one batch, of several ways each.

    The process in which ours was the fastest decides: of a library the fastest way in this process counts, and only if
    it was not timed there, the fastest of all others, of ours' precision if there are any. What is clearly faster than
    that, in another run or in another precision of the same class, is `earlier`.
    """
    records = list(records)
    own = min((r for r in records if r["implementation"] == "ours"), key=lambda r: r["median_us"], default=None)
    found = {}
    for name in ROWS:
        every = [r for r in records if r["implementation"] == name]
        beside = [r for r in every if own is not None and process_of(r) == process_of(own)]
        alike = [r for r in every if own is not None and r["precision"] == own["precision"]]
        chosen = min(beside or alike or every, key=lambda r: r["median_us"], default=None)
        if chosen is None:
            continue
        others = [(r["median_us"], r["precision"], r["run"]) for r in every]
        others += [(r["previous_median_us"], r["precision"], r["previous_run"]) for r in every if "previous_run" in r]
        us_of, precision, run = min(others)
        least = precision, us_of, run
        clearly = name not in ("ours", "ours-fma") and us_of < (1 - CLEARLY) * chosen["median_us"]
        found[name] = Rival(chosen, own is not None and bool(beside), least if clearly else None)
    return found


def race(recorded: Results, error_class: str, batch: int, precision: str | None = None) -> dict[str, Rival]:
    """The Rivals of one of CLASSES at a batch size, over all layouts and ways to launch.

    precision: of one alone; without it, of all in the class.
    """
    keys = {"mode": "hot", "batch": batch} | ({} if precision is None else {"precision": precision})
    return rivals(r for r in _of_network(recorded, **keys) if class_of(r) == error_class)


def race_in_tf32(recorded: Results, batches: Iterable[int]) -> dict[int, dict[str, Rival]]:
    """By batch: Rivals in TF32 among "half", of the libraries that are clearly faster in it, or not timed in fp16."""
    by_batch = {batch: race(recorded, "half", batch, "tf32") for batch in batches}
    usual = {batch: race(recorded, "half", batch, NAMED["half"]) for batch in by_batch}
    shown = {
        name
        for batch, column in by_batch.items()
        for name, one in column.items()
        if name not in usual[batch] or one.us < (1 - CLEARLY) * usual[batch][name].us
    }
    return {batch: {name: one for name, one in column.items() if name in shown} for batch, column in by_batch.items()}


def network_peers(recorded: Results) -> str:
    """µs per batch of every implementation in every way, one folded table per class of errors."""
    found = _of_network(recorded)
    if not found:
        return NOT_YET
    own = {process_of(r) for r in found if r["implementation"] == "ours"}
    apart = any(process_of(r) not in own for r in found)
    intro = (
        f"{provenance(recorded, found)}. Microseconds per batch, median of the newest run. Inputs and weights lie in"
        " the GPU's memory; every call uses the same buffers, except in the rows with rotating buffers, which are of"
        " other processes. Every result was checked before its time counted: the errors are the largest of the row,"
        " against ONNX Runtime on the CPU, in fp32, and"
        " against the same network in float64. Bold is the fastest of a column, rows with rotating buffers left out."
        f" {missing(found)}"
    )
    marks = _Marks()
    program = {r["run"]: recorded.runs[r["run"]].get("commit") for r in found}
    now = {(r["implementation"], r["precision"], r["batch"], program[r["run"]]) for r in found if r["mode"] == "hot"}
    outdated = is_outdated(recorded)
    earlier = {  # ids of records of another program than that of the same calls over hot buffers, or of ours' newest
        id(r): recorded.runs[r["run"]]["date"]
        for r in found
        if outdated(r)
        or (
            r["mode"] != "hot"
            and (r["implementation"], r["precision"], r["batch"], program[r["run"]]) not in now
            and any(one[:3] == (r["implementation"], r["precision"], r["batch"]) for one in now)
        )
    }
    heads = ["", "layout", "arithmetic", "launched from", *_batches(BATCHES), "error", "against float64"]
    parts = [
        (title, heads, _peers([r for r in found if class_of(r) == name], marks, own, earlier), 4)
        for name, (_, title) in CLASSES.items()
    ]
    beside = [NOT_BESIDE] if apart and own else []
    notes = "\n\n".join([*beside, *_of_other_programs(earlier.values()), *marks.footnotes(), intro])
    return "\n\n".join([*_folded(parts), fold("The marks, how the times were taken, and what was not measured", notes)])


NOT_BESIDE = (
    f"{APART} Timed in another process than ours, not in turn with it. So the ratio of the times has no interval."
)
# libraries that users would pick, and why they may not be in a table
PICKED = {
    "onnxruntime-cuda": "ONNX Runtime's CUDA provider",
    "tensorrt": "NVIDIA's TensorRT (its wheel was not installed where this was measured)",
}


def missing(records: Iterable[Record]) -> str:
    """Sentences on the libraries that users would pick and that none of these records is of; what that means."""
    left = _left_out(records)
    said = f"Not measured: {'; '.join(left)}. " if left else ""
    return f"{said}The table says nothing about libraries that are not in it."


def _left_out(records: Iterable[Record]) -> list[str]:
    """Those of PICKED that none of these records is of, in words."""
    names = {r["implementation"] for r in records}
    return [words for name, words in PICKED.items() if name not in names]


def not_measured(recorded: Results) -> str:
    """The libraries that users would pick and that were not timed on the network, within a sentence; or "none"."""
    found = _of_network(recorded)
    return " and ".join(_left_out(found)) or "none" if found else NOT_YET


def _of_network(recorded: Results, **keys: Any) -> list[Record]:
    """The records of the whole network, of ours by FMA alone as well: those are of an implementation "ours-fma"."""
    alone = results.find(recorded, suite="network", case=FMA_ONLY, **keys)
    own = [{**r, "implementation": "ours-fma"} for r in alone]
    return [*results.find(recorded, suite="network", case=NETWORK, **keys), *own]


def arithmetic(records: Iterable[Record]) -> str:
    """What multiplies, in a word: "3×TF32"; several if the records differ."""
    return ", ".join(dict.fromkeys(ARITHMETICS.get(str(r["arithmetic"]), str(r["arithmetic"])) for r in records))


def exact_error(records: Iterable[Record]) -> str:
    """The largest error against float64: "4e-06"; a dash if no record has one.

    A LARGE one against ONNX Runtime in fp32 stands for it: that one's own error, 1e-06, does not show in its digit.
    """
    errors = [error_of(r) for r in records if "error_float64" in r or r["error"] > LARGE]
    return f"{max(errors):.0e}" if errors else DASH


def _peers(
    records: Sequence[Record], marks: "_Marks", own: Collection[tuple[str, str, int]], earlier: Collection[int]
) -> list[list[str]]:
    """The rows of one class: one per implementation, layout, arithmetic, launch and mode; one column per batch.

    own: the processes that ours was timed in. earlier: the ids of the records to mark as of another program.
    """
    ways = grouped(records, "implementation", "layout", "arithmetic", "launch", "mode")
    best = {
        key: min(r["median_us"] for r in group)
        for key, group in grouped(records, "mode", "batch").items()
        if key[0] == "hot"
    }
    order = {name: i for i, name in enumerate(ROWS)}

    def cell(r: Record) -> str:
        apart = APART if own and process_of(r) not in own else ""
        apart += OTHER_PROGRAM if id(r) in earlier else ""
        return _bold(us(r["median_us"]) + apart + marks(r), r["median_us"] == best.get((r["mode"], r["batch"])))

    rows = []
    for way in sorted(ways, key=lambda way: (order.get(way[0], len(order)), *way)):
        implementation, layout, _, launch, mode = way
        launched = LAUNCHED[launch] if mode == "hot" else f"{LAUNCHED[launch]}, {mode} buffers"
        errors = f"{max(r['error'] for r in ways[way]):.0e}", exact_error(ways[way])
        name = ROWS.get(implementation, implementation)
        rows.append([name, layout, arithmetic(ways[way]), launched, *_by_batch(ways[way], BATCHES, cell), *errors])
    return rows


def network_times(recorded: Results, precision: str, batch: int) -> dict[str, float]:
    """µs per batch of the whole network by implementation, in the order of IMPLEMENTATIONS, as in the headline."""
    found = rivals(results.find(recorded, suite="network", case=NETWORK, mode="hot", precision=precision, batch=batch))
    return {name: found[name].us for name in IMPLEMENTATIONS if name in found}


def is_outdated(recorded: Results) -> Callable[[Record], bool]:
    """Whether a record of ours is of an earlier program than the newest one over hot buffers, of its precision."""
    age = {run: i for i, run in enumerate(recorded.runs)}
    newest: dict[str, str] = {}  # precision → run
    for r in results.find(recorded, suite="network", case=NETWORK, implementation="ours", mode="hot"):
        run = newest.setdefault(r["precision"], r["run"])
        newest[r["precision"]] = max(run, r["run"], key=lambda run: age[run])

    def outdated(r: Record) -> bool:
        run = newest.get(r["precision"]) if r["implementation"] == "ours" else None
        if run is None or age[r["run"]] >= age[run]:
            return False
        return recorded.runs[run].get("commit") != recorded.runs[r["run"]].get("commit")

    return outdated


def fp16_beside_int8(recorded: Results) -> dict[int, tuple[float, str]]:
    """By batch size (µs, run) of ours in fp16, timed in turn with ours in int8, whose record has their ratio."""
    return {r["batch"]: (r["median_us"] / ratio, r["run"]) for r, ratio in _int8_over_fp16(recorded)}


def _int8_over_fp16(recorded: Results) -> list[tuple[Record, float]]:
    """(a record of ours in int8, its time over that of ours in fp16) of those that were timed in turn."""
    keys: dict[str, Any] = {"suite": "network", "case": NETWORK, "implementation": "ours", "precision": "int8"}
    found = results.find(recorded, **keys, mode="hot")
    return [(r, r["ratios"]["ours-fp16"]["median"]) for r in found if "ours-fp16" in r.get("ratios", {})]


class Beside:
    """Cells of Rivals, and the footnotes that they need.

    versions: whether the marks tell earlier programs apart, for a page whose other tables do; else all have the mark §.
    """

    def __init__(self, recorded: Results, versions: bool = False) -> None:
        self._versions = _Versions(recorded) if versions else None
        self._recorded, self._marks = recorded, _Marks()
        self.apart, self._in_tf32, self._earlier = False, False, dict[str, None]()
        self._is_outdated, self._older = is_outdated(recorded), dict[str, None]()
        self._since = dict[int, tuple[float, str]]()  # where fp16's time is older: what it took later, beside int8

    def time(self, rival: Rival | None) -> str:
        """Its µs with marks; a dash for None."""
        if rival is None:
            return DASH
        apart = not rival.beside
        self.apart |= apart
        if rival.earlier is not None:
            r, (precision, before, run) = rival.record, rival.earlier
            self._in_tf32 |= precision != r["precision"]
            self._earlier[
                f"{ROWS[r['implementation']]}, {precision}, batch {r['batch']}: {us(before)} µs"
                f" ({self._recorded.runs[run]['date']})"
            ] = None
        program = ""
        if self._is_outdated(rival.record):
            program = self._versions.mark(rival.record) if self._versions else OTHER_PROGRAM
            self._older[self._recorded.runs[rival.record["run"]]["date"]] = None
            self._note_later(rival.record)
        marks = APART * apart + "‡" * (rival.earlier is not None) + program
        return us(rival.us) + marks + self._marks(rival.record)

    def footnotes(self) -> list[str]:
        """The paragraphs below the tables."""
        notes = [NOT_BESIDE] if self.apart else []
        if self._earlier:
            also = ", or in TF32, whose errors are as large as those of fp16" if self._in_tf32 else ""
            notes.append(f"‡ The same library was faster in another run{also}: {'; '.join(self._earlier)}.")
        notes += self._versions.note() if self._versions else _of_other_programs(self._older)
        if self._since:
            shown = " and ".join(f"{us(time)} µs at batch {batch}" for batch, (time, _) in sorted(self._since.items()))
            date = max(self._recorded.runs[run]["date"] for _, run in self._since.values())
            notes[-1] += f" Timed in turn with int8 on {date}, ours in fp16 took {shown}."
        return notes + self._marks.footnotes()

    @property
    def mixes(self) -> bool:
        """Whether a cell is of an earlier version of this repository."""
        return bool(self._older)

    def _note_later(self, r: Record) -> None:
        age = list(self._recorded.runs)
        later = fp16_beside_int8(self._recorded).get(r["batch"]) if r["precision"] == "fp16" else None
        if later is not None and age.index(later[1]) > age.index(r["run"]):
            self._since[r["batch"]] = later


def _times_ours(rival: Rival | None) -> str:
    """A rival's time over ours with its interval: "3.15 (3.13 – 3.17)", without one that is NARROW; a dash for none."""
    ratio = rival.ratio if rival is not None else None
    if ratio is None:
        return DASH
    wide = ratio["high"] - ratio["low"] >= NARROW
    return f"{ratio['median']:.2f}" + (f" ({ratio['low']:.2f} – {ratio['high']:.2f})" if wide else "")


NARROW = 0.01  # the width of an interval of a ratio that is not shown: both ends are nearly the ratio
HEADLINE = tuple(name for name in ("ours", "ours-fma", *IMPLEMENTATIONS) if name in ROWS)


def headline(recorded: Results) -> str:
    """Per class of errors: µs per batch of each implementation's best way, and its time over ours in one process."""
    found = _of_network(recorded, mode="hot")
    if not any(r["implementation"] == "ours" for r in found):
        return NOT_YET
    beside, parts, every = Beside(recorded, versions=True), [], []
    for error_class, (_, title) in CLASSES.items():
        columns = [race(recorded, error_class, batch, NAMED.get(error_class)) for batch in BATCHES]
        if not any("ours" in column for column in columns):
            continue
        in_tf32 = race_in_tf32(recorded, BATCHES).values() if error_class == "half" else ()
        times, ratios = [], []
        for name, of in itertools.product(dict.fromkeys(HEADLINE), (columns, in_tf32)):
            chosen = [column.get(name) if "ours" in own else None for own, column in zip(columns, of, strict=False)]
            records = [one.record for one in chosen if one is not None]
            if not records:
                continue
            every += records
            times.append([ROWS[name], arithmetic(records), *(beside.time(one) for one in chosen), exact_error(records)])
            if name != "ours" and any(one is not None and one.ratio for one in chosen):
                ratios.append([ROWS[name], *(_times_ours(one) for one in chosen)])
        parts.append((title, ["µs per batch", "arithmetic", *_batches(BATCHES), "error"], times, 2))
        parts.append((
            f"Times over ours, of the table above; in brackets the 95 % interval, where it is {NARROW} or wider",
            ["", *_batches(BATCHES)], ratios, 1,
        ))  # fmt: skip
    intro = (
        f"{provenance(recorded, every)}. Microseconds per batch, median; every call uses the same arrays. All of one"
        f" batch and precision{f', except those with {APART},' * beside.apart} were timed alternately in one process,"
        f" each in its best layout and launched in the way that suits it best. {ERROR} {missing(found)}"
    )
    if beside.mixes:
        intro += "\n\nThe times of *ours* are not all of one version of our engine: those with a § are of earlier ones."
    return _text(intro, parts, beside.footnotes())


ERROR = "The error is the relative error of the logits against the network in float64, the largest of the row."


NAMED = {"half": "fp16", "single": "fp32"}  # of CLASSES: the precision that the front page calls them by
SIZES = "The table sorts by errors: up to 1e-5 stands under fp32, up to 1e-2 under fp16."


def headline_short(recorded: Results) -> str:
    """The headline's times at the smallest and the largest batch size: one table for both classes of errors.

    Without an error against float64 the columns of errors and arithmetic are left out: the front page says it in words.
    """
    found = _of_network(recorded, mode="hot")
    if not any(r["implementation"] == "ours" for r in found):
        return NOT_YET
    beside, batches = Beside(recorded), (BATCHES[0], BATCHES[-1])
    columns = [(error_class, batch) for error_class in NAMED for batch in batches]
    best = {column: race(recorded, *column) for column in columns}

    def cell(rival: Rival | None, error_class: str) -> str:
        named = rival is None or rival.record["precision"] == NAMED[error_class]
        return beside.time(rival) + ("" if named or rival is None else f" ({rival.record['precision']})")

    rows = []
    for name in dict.fromkeys(HEADLINE):
        chosen = {column: best[column].get(name) for column in columns}
        if name == "torch-eager" or not any(chosen.values()):
            continue
        of = {one: [rival.record for key, rival in chosen.items() if rival and key[0] == one] for one in NAMED}
        rows.append(
            [ROWS[name], *(cell(rival, error_class) for (error_class, _), rival in chosen.items()),
             exact_error(of["half"]), arithmetic(of["single"]) or DASH, exact_error(of["single"])]
        )  # fmt: skip
    heads = ["µs per batch", *(f"{NAMED[error_class]}, batch {batch}" for error_class, batch in columns)]
    if exact := any({row[-3], row[-1]} != {DASH} for row in rows):
        heads += ["fp16, error", "fp32, arithmetic", "fp32, error"]
    rows = [row[: len(heads)] for row in rows]
    notes = ([f"{ERROR} {SIZES}"] if exact else []) + beside.footnotes()
    dash = "A dash: not measured; an error: only against ONNX Runtime, which every time is checked with."
    notes += [dash] if any(DASH in row for row in rows) else []
    fold = [
        "<details><summary>What the errors and the marks mean, and what was not measured</summary>",
        *notes,
        missing(found),
    ]
    return "\n\n".join([markdown(heads, rows, 1), *fold, "</details>"])


_PRODUCTS = {"3×TF32": "three in TF32", "3×fp16": "three in fp16", "fp32": "one in fp32"}


def our_products(recorded: Results) -> str:
    """Of what ours makes each product in fp32: "three in TF32"; several if batch sizes differ."""
    found = results.find(recorded, suite="network", case=NETWORK, implementation="ours", precision="fp32", mode="hot")
    return _products(found)


def our_products_short(recorded: Results) -> str:
    """The same of the records that headline_short shows."""
    best = [race(recorded, "single", batch).get("ours") for batch in (BATCHES[0], BATCHES[-1])]
    return _products(one.record for one in best if one)


def _products(records: Iterable[Record]) -> str:
    words = [arithmetic([r]) for r in records]
    return " or ".join(dict.fromkeys(_PRODUCTS.get(one, one) for one in words)) or NOT_YET


def headline_card(recorded: Results) -> str:
    """The card and the dates of the network's records."""
    found = _of_network(recorded, mode="hot")
    return card_and_date(recorded, found) if found else NOT_YET


SINGLE_BATCHES = (1, 32, 256)
HOST = f"{NETWORK}, host to host"
OTHER_PROGRAM = "§"


def network_single(recorded: Results) -> str:
    """µs back to back beside rotating buffers, cold L2, lone calls, and from host to host; one table per class."""
    rows: dict[str, list[list[str]]] = {name: [] for name in CLASSES}
    used: list[Record] = []
    heads = ["", "batch", "arithmetic", "back to back", "rotating", "cold L2", "lone", "host to host", "error"]
    versions, outdated = _Versions(recorded), is_outdated(recorded)

    def marked(text: str, found: Record, r: Record) -> str:
        """A time of a record beside r, marked if it is not of the program that r is of, or not of ours' newest."""
        then = recorded.runs[found["run"]]
        if text == DASH or (then.get("commit") == recorded.runs[r["run"]].get("commit") and not outdated(found)):
            return text
        return text + versions.mark(found)

    def other(found: Record | None, r: Record) -> str:
        return DASH if found is None else marked(us(found["median_us"]), found, r)

    for error_class in CLASSES:
        at = {batch: race(recorded, error_class, batch) for batch in SINGLE_BATCHES}
        for name, shown in ROWS.items():
            for batch, column in at.items():
                if name not in column:
                    continue
                r = column[name].record
                keys: dict[str, Any] = {"batch": batch, "precision": r["precision"], "suite": "network"}
                own = "ours" if name == "ours-fma" else name
                case = FMA_ONLY if name == "ours-fma" else NETWORK
                turned = results.find(recorded, implementation=own, case=case, mode="rotating", **keys)
                host = results.find(recorded, implementation=own, case=case.replace(NETWORK, HOST), mode="hot", **keys)
                rotating, from_host = results.fastest(turned), results.fastest(host)
                if not (rotating or from_host or "lone_us" in r):
                    continue
                used += [one for one in (r, rotating, from_host) if one]
                times = [other(r, r)]
                single = (marked(_single(r, name), r, r) for name in ("cold_us", "lone_us"))
                times += [other(rotating, r), *single, other(from_host, r)]
                rows[error_class].append([shown, str(batch), arithmetic([r]), *times, exact_error([r])])
    if not used:
        return NOT_YET
    intro = (
        f"{provenance(recorded, used)}. Microseconds per batch, median. *Back to back*: many calls in a row over the"
        " same buffers, by the GPU's clock. *Rotating*: the same over sets of buffers that together are more than twice"
        " the L2 cache. *Cold L2*: one call after the L2 cache was filled with other data, by the GPU's clock. *Lone*:"
        " one call after an idle gap, by the host's clock, from the call until the host sees its end. *Host to host*:"
        " calls in a row, without idle gaps, each with copies of the pictures, which already have the precision and the"
        " layout, to the card and of the logits back. In a row, the times back to back, with a cold L2 and of lone"
        " calls were measured in one process; the other two, each in a process of its own."
        f" {ERROR}"
    )
    blocks = [(title, heads, rows[name], 3) for name, (_, title) in CLASSES.items()]
    return versions.named(_text(intro, blocks, []))


def _ours_and_fastest(recorded: Results, error_class: str, batch: int) -> tuple["Rival | None", "Rival | None"]:
    """(ours, the fastest library) of those with errors of a size, one of CLASSES; None where nothing was measured."""
    column = race(recorded, error_class, batch)
    others = [one for name, one in column.items() if name not in ("ours", "ours-fma", "torch-eager")]
    return column.get("ours"), min(others, key=lambda one: one.us, default=None)


def cards(every: Sequence[Results]) -> str:
    """All cards with records, one column each: peaks, and the times of ours and of the fastest library."""
    rows: dict[str, list[str]] = {}
    shown = [recorded for recorded in every if recorded.runs]
    if not shown:
        return NOT_YET
    for recorded in shown:
        for case, words in {
            "copy": "copy, TB/s",
            "fma-fp32": "fp32 FMA, TFLOP/s",
            "tensor-fp16": "fp16, TFLOP/s",
        }.items():
            found = results.find(recorded, suite="peaks", case=case)
            rows.setdefault(words, []).append(f"{rate(found[0]) / 1e12:.3g}" if found else DASH)
        for error_class in ("single", "half"):
            for batch in (BATCHES[0], BATCHES[-1]):
                own, best = _ours_and_fastest(recorded, error_class, batch)
                largest = f"{CLASSES[error_class][0]:.0e}"
                what = f"ours, batch {batch}, error up to {largest}, µs"
                cell = DASH if own is None else f"{us(own.us)} ({arithmetic([own.record])}, {error_of(own.record):.0e})"
                rows.setdefault(what, []).append(cell)
                other = f"fastest library, batch {batch}, error up to {largest}, µs"
                name = "" if best is None else IMPLEMENTATIONS[best.record["implementation"]]
                rows.setdefault(other, []).append(DASH if best is None else f"{us(best.us)} ({name})")
    heads = ["", *(next(iter(recorded.runs.values()))["card"] for recorded in shown)]
    return markdown(heads, [[what, *cells] for what, cells in rows.items()], 1)


def in_short(recorded: Results) -> str:
    """µs of ours, of the fastest library that was measured, and their ratio, by size of the error and batch size."""
    rows, cells = [], Beside(recorded)
    for error_class, words in (("single", "fp32"), ("half", "fp16")):
        ours, theirs, over = [], [], []
        for batch in BATCHES:
            own, best = _ours_and_fastest(recorded, error_class, batch)
            name = "" if best is None else IMPLEMENTATIONS[best.record["implementation"]].split(",")[0]
            ours.append(cells.time(own))
            theirs.append(DASH if best is None else f"{cells.time(best)} ({name})")
            over.append(DASH if own is None or best is None else f"{best.us / own.us:.1f}×")
        rows.append([f"errors as in {words}: ours, µs", *ours])
        rows += [["the fastest library measured, µs", *theirs], ["its time over ours", *over]]
    if all(cell == DASH for row in rows for cell in row[1:]):
        return NOT_YET
    return markdown(["", *(f"batch {batch}" for batch in BATCHES)], rows, 1)


def int8_over_fp16(recorded: Results) -> str:
    """The times of ours in int8 over those in fp16, timed in turn with them: "0.80 times as long at batch 32"."""
    by_batch = {r["batch"]: ratio for r, ratio in _int8_over_fp16(recorded)}
    texts = [f"{by_batch[batch]:.2f} times as long at batch {batch}" for batch in sorted(by_batch)]
    return ", ".join(texts) or NOT_YET


def network_called(recorded: Results) -> str:
    """µs of calls of ours from Python, without and with replays, beside the graph alone, which they are compared to."""
    cases = {"the CUDA graph alone": NETWORK, "net(x), replay=False": f"{NETWORK}, called"}
    cases["net(x), replayed"] = f"{NETWORK}, called with replay"
    keys: dict[str, Any] = {"suite": "network", "implementation": "ours", "mode": "hot"}
    found = {name: _best(results.find(recorded, case=case, **keys)) for name, case in cases.items()}
    alone, *others = found.values()
    if not any(others):
        return NOT_YET
    rows = []
    versions, outdated = _Versions(recorded), is_outdated(recorded)

    def cell(r: Record | None, graph: Record | None) -> str:
        """The time of a record, over the graph's if both are of the same program; marked if not of the newest one."""
        if r is None:
            return DASH
        commits = {recorded.runs[one["run"]].get("commit") for one in (r, graph) if one is not None}
        text = _times(r, graph if len(commits) == 1 else None)
        return text + versions.mark(r) if outdated(r) else text

    for precision in ("fp32", "fp16"):
        for name, best in found.items():
            chosen = {batch: best.get((precision, "ours", batch)) for batch in BATCHES}
            if any(chosen.values()):
                cells = [cell(r, alone.get((precision, "ours", batch))) for batch, r in chosen.items()]
                used = [r for r in chosen.values() if r]
                rows.append([f"{name}, {precision}", arithmetic(used), *cells, exact_error(used)])
    used = [r for best in found.values() for r in best.values()]
    compared = "; in brackets over the graph alone" if any("(" in text for row in rows for text in row[2:-1]) else ""
    intro = f"{provenance(recorded, used)}. Microseconds per batch, median, calls back to back{compared}. {ERROR}"
    table = markdown(["", "arithmetic", *_batches(BATCHES), "error"], rows, 2)
    return versions.named("\n\n".join([intro, table]))


def _of_other_programs(dates: Iterable[str]) -> list[str]:
    """The note below a table with marks of another program; none without dates."""
    named = " and ".join(sorted(set(dates)))
    return [f"{OTHER_PROGRAM} Measured on {named}, with an earlier version of this repository."] if named else []


# cases of the network that tables show side by side, although earlier programs took some of them
_COMPARED = tuple(
    f"{NETWORK}{words}"
    for words in ("", ", FMA only", ", host to host", ", FMA only, host to host", ", called", ", called with replay")
)


def earlier_programs(recorded: Results) -> dict[str, str]:
    """The marks of earlier programs by their commits, §a for the newest, then §b, …, over all records of the card.

    Earlier programs took the records of ours that are outdated, and those over rotating buffers or from host to host
    for which the times back to back beside them are of another program.
    """
    every = [r for suite in ("network", "energy") for r in recorded.suite(suite) if r["case"] in _COMPARED]
    outdated, hot = is_outdated(recorded), dict[tuple[Any, ...], set[str]]()
    for r in every:
        if r.get("mode") == "hot" and r["case"] in (NETWORK, FMA_ONLY):
            way = r["implementation"], r["precision"], r["batch"]
            hot.setdefault(way, set()).add(_program(recorded, r["run"]))

    def differs(r: Record) -> bool:
        way = r["implementation"], r["precision"], r["batch"]
        apart = r.get("mode") == "rotating" or r["case"].endswith("host to host")
        return apart and bool(hot.get(way, set()) - {_program(recorded, r["run"])})

    found = {r["run"] for r in every if outdated(r) or differs(r)}
    programs = dict.fromkeys(_program(recorded, run) for run in reversed(recorded.runs) if run in found)
    return {program: f"{OTHER_PROGRAM}{letter}" for letter, program in zip(ascii_lowercase, programs, strict=False)}


def _program(recorded: Results, run: str) -> str:
    """The commit of a run, in the eight digits that all runs have; its date where there is none."""
    found = recorded.runs[run]
    return str(found.get("commit") or found["date"])[:8]


class _Versions:
    """Marks of runs of earlier programs: those of `earlier_programs`, so a program's mark is the same in all tables."""

    def __init__(self, recorded: Results) -> None:
        self._recorded, self._used = recorded, dict[str, set[str]]()  # the second: mark → dates
        self._marks = earlier_programs(recorded)

    def mark(self, r: Record) -> str:
        """The mark of a record's run."""
        mark = self._marks[_program(self._recorded, r["run"])]
        self._used.setdefault(mark, set()).add(self._recorded.runs[r["run"]]["date"])
        return mark

    def note(self) -> list[str]:
        """The paragraph below a table that names the programs of its marks; none without marks."""
        commits = {mark: program for program, mark in self._marks.items()}
        named = [
            f"{mark} of {' and '.join(sorted(dates))}"
            + (f" (commit {commits[mark]})" if commits[mark] not in dates else "")
            for mark, dates in sorted(self._used.items())
        ]
        return [f"Measured with earlier versions of this repository: {', '.join(named)}."] if named else []

    def named(self, text: str) -> str:
        """The text, with the note below it."""
        return "\n\n".join([text, *self.note()])


def _best(records: Sequence[Record]) -> dict[tuple[str, str, int], Record]:
    """The record with the shortest time by (precision, implementation, batch)."""
    groups = grouped(records, "precision", "implementation", "batch")
    return {key: min(group, key=lambda r: r["median_us"]) for key, group in groups.items()}


def _times(r: Record | None, alone: Record | None) -> str:
    """A time, with its ratio to another record's: "148 (1.35×)"."""
    if r is None:
        return DASH
    return us(r["median_us"]) + (f" ({r['median_us'] / alone['median_us']:.2f}×)" if alone and r is not alone else "")


def _single(r: Record, key: str) -> str:
    return us(r[key]) if key in r else DASH


def kernel_per_step(recorded: Results, launch: str, precision: str, batch: int) -> Record:
    """The record of ours in NHWC with a kernel per step, launched from a "graph" or from Python ("eager").

    It is a rung of the suite "chain", or stands beside it. ValueError if there is none.
    """
    cases = f"{NETWORK}, chain", f"{NETWORK}, from Python"
    names = "NHWC", "graph"  # its replay was a rung of its own once
    found = [
        r for r in results.find(recorded, suite="network", launch=launch, precision=precision, batch=batch)
        if r["case"] in cases and r["implementation"] in names
    ]  # fmt: skip
    if not found:
        raise ValueError(f"the results hold no chain of {precision} at batch {batch} launched from {LAUNCHED[launch]}")
    return min(found, key=lambda r: names.index(r["implementation"]))


def fused_blocks(recorded: Results) -> str:
    """µs of the chain's rung with fused blocks at batch 1 in fp16: "63.2 µs"."""
    keys: dict[str, Any] = {"case": f"{NETWORK}, chain", "implementation": "fused blocks"}
    found = results.find(recorded, suite="network", precision="fp16", batch=1, **keys)
    return f"{us(found[0]['median_us'])} µs" if found else NOT_YET


REPEATS = 0.03  # the largest relative difference of two runs that agree
# how a network's kernels are started, in words, and the values of `launch` that mean it
STARTED = {"from a CUDA graph or a loop on the device": ("graph", "loop"), "by a host": ("eager", "host")}


def network_repeat(recorded: Results) -> str:
    """Sentences on how well the two newest runs agree, and which times do not, though no Python starts their kernels.

    Ours and cuDNN's are compared only between runs of the same commit, as other commits are other programs; the largest
    difference between those is given separately.
    """
    pairs: list[tuple[float, Record]] = []
    others: list[tuple[float, Record]] = []
    cards: set[str] = set()
    for record in results.find(recorded, suite="network", case=NETWORK):
        now, before = recorded.runs[record["run"]], recorded.runs.get(record.get("previous_run", ""))
        if before is None or before["card"] != now["card"] or record["implementation"] not in IMPLEMENTATIONS:
            continue  # implementations not in the table are rungs of the chain
        same = before.get("commit") == now.get("commit") or record["implementation"] not in ("ours", "cudnn")
        change = abs(record["median_us"] / record["previous_median_us"] - 1)
        (pairs if same else others).append((change, record))
        if same and before.get("commit") == now.get("commit"):
            cards |= {run["uuid"] for run in (now, before) if "uuid" in run}
    if not pairs:
        return NOT_YET
    where = f", on {len(cards)} cards ({' and '.join(sorted(cards))})," if len(cards) > 1 else ""
    said = [f"Two runs of the same program{where} measured {len(pairs)} of these medians ({_implementations(pairs)})"]
    for words, launches in STARTED.items():
        changes = sorted(change for change, r in pairs if r["launch"] in launches)
        if changes:
            within, middle = sum(change <= REPEATS for change in changes), changes[len(changes) // 2]
            said.append(
                f"Of those started {words} {within} of {len(changes)} agree within {100 * REPEATS:.0f} %, half of"
                f" them within {100 * middle:.1f} %, all within {100 * changes[-1]:.0f} %"
            )
    beyond = [pair for pair in pairs if pair[0] > REPEATS and pair[1]["launch"] not in STARTED["by a host"]]
    if beyond:
        said.append(
            f"From a CUDA graph or a loop, and more than {100 * REPEATS:.0f} % apart: "
            + ", ".join(
                f"{IMPLEMENTATIONS[r['implementation']]} {r['precision']} {r['layout']} at batch {r['batch']}"
                f" ({us(r['previous_median_us'])} and {us(r['median_us'])} µs)"
                for _, r in sorted(beyond, key=lambda pair: -pair[0])
            )
        )
    if others:
        said.append(
            f"For {len(others)} other medians ({_implementations(others)}) the code of this course changed between"
            f" the two runs; they differ by up to {100 * max(change for change, _ in others):.0f} %"
        )
    return ". ".join(said)


def _implementations(pairs: Sequence[tuple[float, Record]]) -> str:
    """The names of these records' implementations, in the order of tables: "PyTorch, eager; XLA (JAX)"."""
    names = {record["implementation"] for _, record in pairs}
    return "; ".join(shown for name, shown in IMPLEMENTATIONS.items() if name in names)


# ---- Energy


def energy(recorded: Results) -> str:
    """mJ per image of every implementation, one table per class of errors.

    What was metered beside int8, for the ratio, is in `eight_bits.table`.
    """
    found = [r for r in results.find(recorded, suite="energy", case=NETWORK) if r["implementation"] in IMPLEMENTATIONS]
    if not found:
        return NOT_YET
    counted = all(r["method"] == "counter" for r in found)
    how = "the card's energy counter" if counted else "the card's energy counter, or power readings where it has none"
    fewest, most = (end(r["rounds"] for r in found) for end in (min, max))
    rounds = f"{fewest} to {most}" if fewest < most else f"{most}"
    intro = (
        f"{provenance(recorded, found)}. Millijoules per image above idle power, by {how}: the median of {rounds}"
        " rounds in random order; its range, from the least to the greatest value that the rounds and the uncertainty"
        " of idle power allow; and the median with idle power. Every result was checked before and after: the error is"
        " the largest of the row, against float64, or against ONNX Runtime in fp32 where that was not taken. Bold: the"
        " least energy of a batch size in its table."
    )
    versions, outdated, marks = _Versions(recorded), is_outdated(recorded), _Marks()
    found = [{**r, "class": class_of(r)} for r in found]
    batches = {name: sorted({r["batch"] for r in of}) for (name,), of in grouped(found, "class").items()}

    def heads(name: str) -> list[str]:
        of_batches = ((f"batch {batch}", "range", "with idle power") for batch in batches.get(name, ()))
        return ["", "arithmetic", *itertools.chain.from_iterable(of_batches), "error"]

    least = {key: min(r["mj_per_image"] for r in group) for key, group in grouped(found, "class", "batch").items()}
    cells: tuple[Callable[[Record], str], ...] = (
        lambda r: (
            _bold(us(r["mj_per_image"]) + marks(r), r["mj_per_image"] == least[r["class"], r["batch"]])
            + (versions.mark(r) if outdated(r) else "")
        ),
        lambda r: f"{us(r['mj_low'])} – {us(r['mj_high'])}",
        lambda r: us(r["gross_mj"]),
    )
    measured = grouped(found, "class", "implementation", "precision")
    order = list(IMPLEMENTATIONS)
    parts = [
        (title, heads(name), [
            [shown, arithmetic(of), *_by_batch(of, batches[name], *cells), f"{max(map(error_of, of)):.0e}"]
            for key, of in sorted(measured.items(), key=lambda one: (order.index(one[0][1]), one[0][2]))
            if key[0] == name and (shown := IMPLEMENTATIONS[key[1]])
        ], 2)
        for name, (_, title) in CLASSES.items()
    ]  # fmt: skip
    return versions.named(_text(intro, parts, marks.footnotes()))


def energy_ratio(recorded: Results) -> str:
    """The best peer's energy per image over that of ours, at batch 256 in fp16: "2.4"."""
    found = results.find(recorded, suite="energy", case=NETWORK, batch=256, precision="fp16")
    ours = [r["mj_per_image"] for r in found if r["implementation"] == "ours"]
    peers = [r["mj_per_image"] for r in found if r["implementation"] != "ours"]
    return f"{min(peers) / min(ours):.1f}" if ours and peers else NOT_YET


# ---- The layers, one by one


def energy_arithmetic(recorded: Results) -> str:
    """A sentence: whether the energies of ours in fp32 are of the same arithmetic as its times."""
    suites = ("energy", "network")
    keys: dict[str, Any] = {"case": NETWORK, "implementation": "ours", "precision": "fp32"}
    metered, timed = (results.find(recorded, suite=suite, **keys) for suite in suites)
    here, there = arithmetic(metered), arithmetic(r for r in timed if r.get("mode") == "hot")
    if not here or not there:
        return NOT_YET
    if here == there:
        return f"In fp32, energies and times of *ours* are of one arithmetic, {here}."
    return f"In fp32, the energies of *ours* are of another arithmetic ({here}) than its times above ({there})."


def step_shortest(recorded: Results) -> str:
    """The time of cuDNN's shortest step at batch 1, in any precision: "2.0 µs"."""
    found = results.find(recorded, suite="operators", batch=1, implementation="cudnn")
    return f"{min(r['median_us'] for r in found):.1f} µs" if found else NOT_YET


def operators_cudnn(recorded: Results) -> str:
    """Folded tables of MobileNetV2's distinct layers on cuDNN: µs, and the share of the roof."""
    found = results.find(recorded, suite="operators", implementation="cudnn")
    if not found:
        return NOT_YET
    roofs = roofs_of(recorded)
    intro = f"{provenance(recorded, found)}. Microseconds per layer, median; the largest error against float64."
    if roofs is not None:
        intro += " In brackets the share of the roof: the least time for its bytes and FLOPs, over the measured one."
    heads, order = ["layer", "shape", "times", *_batches(OPERATOR_BATCHES), "error"], list(PRECISIONS)
    groups, parts = grouped(found, "precision", "arithmetic", "layout", "launch"), []
    for precision, arithmetic, layout, launch in sorted(groups, key=lambda group: (order.index(group[0]), *group)):
        group = groups[precision, arithmetic, layout, launch]
        # a layer that reads from a cache may exceed its roof: rotating buffers are preferred, where they were measured
        mode = "rotating" if any(record["mode"] == "rotating" for record in group) else "hot"
        how = precision if arithmetic == precision else f"{precision} ({arithmetic})"
        title = f"{how}, {layout}, launched from {LAUNCHED[launch]}, {mode} buffers"
        parts.append((title, heads, _operators([r for r in group if r["mode"] == mode], precision, roofs), 2))
    return "\n\n".join([intro, *_folded(parts)])


def operators_kinds(recorded: Results) -> str:
    """A table of the kinds of MobileNetV2's steps on cuDNN in fp16: µs, share of the time, share of the roof."""
    found = results.find(
        recorded, suite="operators", implementation="cudnn", precision="fp16", layout="NHWC", mode="hot"
    )
    roofs, last = roofs_of(recorded), OPERATOR_BATCHES[-1]
    if not found or roofs is None:
        return NOT_YET
    times = {(kind, batch): sum(r["count"] * r["median_us"] for r in group)
             for (kind, batch), group in grouped(found, "kind", "batch").items()}  # fmt: skip
    sums = {batch: sum(time for (_, of), time in times.items() if of == batch) for batch in OPERATOR_BATCHES}

    def cell(kind: str, batch: int) -> str:
        if (kind, batch) not in times:
            return DASH
        return f"{us(times[kind, batch])} ({_percent(times[kind, batch] / sums[batch])})"

    rows = []
    for (kind,), group in grouped(found, "kind").items():
        steps = sum(layer[0]["count"] for layer in grouped(group, "case").values())
        shares = [
            share(Work(r["bytes"], r["flops"]), "fp16", roofs, r["median_us"]) for r in group if r["batch"] == last
        ]
        rows.append([kind, str(steps), *(cell(kind, batch) for batch in OPERATOR_BATCHES), _range(shares)])
    total = [us(sums[batch]) if sums[batch] else DASH for batch in OPERATOR_BATCHES]
    rows.append(["all", str(sum(int(row[1]) for row in rows)), *total, ""])
    return markdown(["kind", "steps", *_batches(OPERATOR_BATCHES), f"of the roof, batch {last}"], rows, 1)


def _range(shares: Sequence[float]) -> str:
    """The lowest and the highest of some shares in per cent; a dash without any."""
    if not shares:
        return DASH
    low, high = (f"{100 * end(shares):.0f}" for end in (min, max))
    return f"{low} %" if low == high else f"{low} to {high} %"


def roofs_of(recorded: Results) -> Peaks | None:
    """The card's peaks; None if they were not measured."""
    try:
        return Peaks.recorded(recorded)
    except ValueError:
        return None


def _operators(records: Sequence[Record], precision: str, roofs: Peaks | None) -> list[list[str]]:
    """The rows of one precision and layout: each distinct layer, in the order of the network, and their sum."""

    def cell(r: Record) -> str:
        if roofs is None:
            return us(r["median_us"])
        reached = share(Work(r["bytes"], r["flops"]), precision, roofs, r["median_us"])
        return f"{us(r['median_us'])} ({_percent(reached)})"

    layers = list(grouped(records, "case").values())
    rows = [
        [r["kind"], r["shape"], str(r["count"]), *_by_batch(layer, OPERATOR_BATCHES, cell), _largest(layer)]
        for layer in layers for r in layer[:1]
    ]  # fmt: skip
    of_batch = grouped(records, "batch")
    sums = [
        us(sum(r["count"] * r["median_us"] for r in of_batch[batch,]))
        if len(of_batch.get((batch,), [])) == len(layers) else DASH  # no sum if a layer is missing
        for batch in OPERATOR_BATCHES
    ]  # fmt: skip
    return [*rows, ["all", "", str(sum(layer[0]["count"] for layer in layers)), *sums, _largest(records)]]


def _largest(records: Iterable[Record]) -> str:
    """The largest error of records: "3e-07"; a dash without any."""
    errors = [r["error"] for r in records if r.get("error") is not None]
    return f"{max(errors):.0e}" if errors else DASH


# ---- The rungs of chapter 04 and the libraries

# kinds of steps that the same kernels compute, shown in one row
KERNELS = {"expand": "pointwise 1×1", "project": "pointwise 1×1", "head": "pointwise 1×1"}


@dataclass(frozen=True)
class Standing:
    """The fastest rungs compared with the faster library, over all cases of a kind, precision and batch size.

    ratio: the geometric mean of (library's time / fastest rung's time) over the layers, each case weighted by its
    number in the network; above 1, ours are faster. layers: how many. best: the rung that is fastest for most of them.
    """

    kind: str
    precision: str
    batch: int
    ratio: float
    layers: int
    best: str


def _fastest_of_each_case(records: Iterable[Record]) -> Iterator[tuple[Record, Record]]:
    """Yield (the fastest rung, the fastest library), in any layout, of every case, batch and precision with both."""
    for group in grouped(records, "case", "batch", "precision").values():
        ours = results.fastest(r for r in group if r["implementation"] not in LIBRARIES)
        theirs = results.fastest(r for r in group if r["implementation"] in LIBRARIES)
        if ours and theirs:
            yield ours, theirs


def standings(records: Iterable[Record]) -> list[Standing]:
    """The Standings in records of the suite "kernels", in the order in which the kinds occur."""
    groups: dict[tuple, list[tuple[Record, Record]]] = {}
    for ours, theirs in _fastest_of_each_case(records):
        kind = ours["case"] if ours["kind"] == "gemm" else KERNELS.get(ours["kind"], ours["kind"])
        groups.setdefault((kind, ours["precision"], ours["batch"]), []).append((ours, theirs))
    result = []
    for (kind, precision, batch), pairs in groups.items():
        layers = sum(ours["count"] for ours, _ in pairs)
        logarithms = [r["count"] * math.log(library["median_us"] / r["median_us"]) for r, library in pairs]
        wins: Counter[str] = Counter()
        for ours, _ in pairs:
            wins[ours["implementation"]] += ours["count"]
        best = wins.most_common(1)[0][0]
        result.append(Standing(kind, precision, batch, math.exp(sum(logarithms) / layers), layers, best))
    return result


def depthwise_bandwidth(recorded: Results, precision: str, batch: int = 256) -> float | None:
    """The share of the copy bandwidth that the fastest rungs reach on all depthwise layers. None without records."""
    found = results.find(recorded, suite="kernels", kind="depthwise", precision=precision, batch=batch)
    pairs = list(_fastest_of_each_case(found))
    copies = results.find(recorded, suite="peaks", case="copy")
    if not pairs or not copies:
        return None
    moved = sum(ours["count"] * ours["bytes"] for ours, _ in pairs)
    taken = sum(ours["count"] * ours["median_us"] for ours, _ in pairs)
    return moved / taken * 1e6 / rate(copies[0])


def kernels_bandwidth(recorded: Results) -> str:
    """The share of the copy bandwidth on depthwise layers at batch 256: "81 % in fp32 and 76 % in fp16"."""
    shares = {precision: depthwise_bandwidth(recorded, precision) for precision in ("fp32", "fp16")}
    return " and ".join(f"{_percent(value)} in {p}" for p, value in shares.items() if value) or NOT_YET


def kernels(recorded: Results) -> str:
    """The speed of the fastest rungs relative to cuDNN or cuBLAS by kind, one table per precision."""
    found = results.find(recorded, suite="kernels")
    every = grouped(map(vars, standings(found)), "precision", "kind")
    if not every:
        return NOT_YET
    intro = (
        f"{provenance(recorded, found)}. The library's time over the fastest rung's, each in the layout that suits it"
        " best: above 1 the rung is faster. Geometric means over the layers of a kind; in brackets the rung that is the"
        " fastest of most of them."
    )
    intro += " A rung of another ladder has its ladder's name before it. –: not measured."
    heads = ["", "layers", *_batches(OPERATOR_BATCHES)]
    kinds = dict.fromkeys(kind for _, kind in every)

    def ratio(standing: Record) -> str:
        return f"{standing['ratio']:.2f} ({standing['best']})"

    of_precision = grouped(found, "precision")
    parts = [
        (f"{meaning}; errors against float64 up to {_largest(of_precision.get((precision,), []))}", heads, [
            [kind, str(of_kind[0]["layers"]), *_by_batch(of_kind, OPERATOR_BATCHES, ratio)]
            for kind in kinds if (of_kind := every.get((precision, kind)))
        ], 2)
        for precision, meaning in PRECISIONS.items()
    ]  # fmt: skip
    return "\n\n".join([intro, *_folded(parts)])


def kernels_network(recorded: Results) -> str:
    """The speed relative to the libraries of the kinds that were timed in both precisions at the same batch sizes."""
    every = grouped(map(vars, standings(results.find(recorded, suite="kernels"))), "kind", "precision", "batch")
    columns = [(precision, batch) for precision in ("fp32", "fp16") for batch in OPERATOR_BATCHES]
    rows = [
        [kind, *(f"{every[kind, precision, batch][0]['ratio']:.2f}" for precision, batch in columns)]
        for kind in dict.fromkeys(kind for kind, *_ in every)
        if all((kind, *column) in every for column in columns)
    ]
    heads = ["", *(f"{precision}, batch {batch}" for precision, batch in columns)]
    return markdown(heads, rows, 1) if rows else NOT_YET


# ---- Sparse convolutions (chapter 06)


def sparse_times(records: Iterable[Record], pattern: str) -> dict[float, dict[str, float]]:
    """µs by sparsity and implementation, from records of one shape, batch and precision; sparsities ascend."""
    times: dict[float, dict[str, float]] = {}
    for r in records:
        if r.get("pattern") == pattern:
            for sparsity, us in r["us_at"].items():
                times.setdefault(float(sparsity), {})[r["implementation"]] = us
    return dict(sorted(times.items()))


def break_even(records: Iterable[Record], pattern: str, against: str = "cudnn") -> float | None:
    """The sparsity from which on the fastest kernel that skips zeros is faster, for one shape, batch and precision.

    against: "cudnn", cuDNN's fastest plan, or "dense", the fastest of all kernels that do not skip zeros, ours and the
    sparse kernels' dense versions included; one that was timed at a single sparsity counts with that time at all. The
    ratio of the times is interpolated linearly between two sparsities. 0 if it is faster at the lowest sparsity
    already, None if it never is, or is slower again at the highest.
    """
    records, ratios = list(records), []
    given = {r["implementation"]: min(r["us_at"].values()) for r in records if r.get("pattern") == pattern}
    for sparsity, us in sparse_times(records, pattern).items():
        ours = [t for name, t in us.items() if skips(name)]
        others = {"cudnn"} & us.keys() if against == "cudnn" else {name for name in given if not skips(name)}
        if ours and others:
            ratios.append((sparsity, min(ours) / min(us.get(name, given[name]) for name in others)))
    if not ratios or ratios[-1][1] >= 1:
        return None
    losing = [i for i, (_, ratio) in enumerate(ratios) if ratio >= 1]
    if not losing:
        return 0.0
    (s0, r0), (s1, r1) = ratios[losing[-1]], ratios[losing[-1] + 1]
    return s0 + (s1 - s0) * (r0 - 1) / (r0 - r1)


def sparse_break_even(recorded: Results) -> str:
    """A table by precision and batch: how many of the shapes timed have a break-even, and at which sparsities."""
    timed = [r for r in results.find(recorded, suite="sparse") if r["kind"] != "activations"]
    if not timed:
        return NOT_YET
    meets: dict[tuple, list[tuple[float | None, float | None]]] = {}
    for (_, batch, precision), group in grouped(timed, "shape", "batch", "precision").items():
        for pattern in dict.fromkeys(r["pattern"] for r in group):
            if len(sparse_times(group, pattern)) > 1:
                both = break_even(group, pattern), break_even(group, pattern, "dense")
                meets.setdefault((precision, pattern, batch), []).append(both)
    intro = (
        f"{provenance(recorded, timed)}. Shapes whose fastest sparse kernel is"
        " faster from some sparsity on than cuDNN's fastest plan, and than every kernel that skips nothing (cuDNN's,"
        " ours, the sparse kernels' twins); in brackets the median of these sparsities, as a share of zeros. Zeros are"
        " synthetic."
    )
    rows, order = [], list(PRECISIONS)
    for precision, pattern, batch in sorted(meets, key=lambda key: (order.index(key[0]), *key[1:])):
        found = meets[precision, pattern, batch]
        cells = [precision, pattern, str(batch), str(len(found))]
        for side in zip(*found, strict=True):
            known = sorted(value for value in side if value is not None)
            cells.append(f"{len(known)} ({known[len(known) // 2]:.0%})" if known else "0")
        rows.append(cells)
    heads = ["precision", "zeros", "batch", "shapes", "faster than cuDNN", "than all that skip nothing"]
    return f"{intro}\n\n{markdown(heads, rows, 2)}"


# ---- The simulator's trace and the profiler (chapter 04)

TRACED = {  # columns of the table, and the counts that they show
    "sectors loaded": "global load sectors",
    "sectors stored": "global store sectors",
    "wavefronts of shared loads": "shared load wavefronts",
    "conflicts in them": "shared load conflicts",
}
# Why the profiler's count may differ from the trace's. A difference that is not explained here is an error.
_SCATTERED = (
    "the GPU splits a copy of 16 bytes per lane by the 128-byte lines of its source. If the vectors of one line go to"
    " places apart in shared memory, they are stored one by one: `ncu` counts a 32-byte sector and a wavefront for"
    " each of them, and no conflict. Where the vectors of a line stay together, as in *cp.async of 16 bytes*,"
    " its counts equal the trace's. With a swizzle within a line, the sectors of *tensor_cores* (gemm, 4096³) are as"
    " many as its bytes need; the wavefronts of its copies are not recorded"
)
REASONS = {
    ("sgemm", "shared load wavefronts"): "the assembler merges shared loads. As written, a warp makes 64 requests in"
    " the 32 steps of the inner loop: 32 to `As`, 32 to `Bs`. `As[ty][k]`, `As[ty][k + 1]`, … lie side by side, so it"
    " loads four at once: 8 requests of 16 bytes, of 2 wavefronts each. 32 + 8 · 2 = 48 wavefronts in place of 64."
    " Traced with `merge=cuda.inspect(…)`, they are 98,304 as well",
} | {
    (f"cp.async of 16 bytes, stride {stride}", count): _SCATTERED
    for stride in (2, 8)
    for count in ("global load sectors", "shared store wavefronts", "shared store conflicts")
    if (stride, count) != (8, "shared store wavefronts")  # there a conflict makes as many
}  # fmt: skip


def traced(recorded: Results) -> tuple[list[Record], list[Record]]:
    """(records of the launches, records of the wrong kernels). ValueError if there are none."""
    entries = results.find(recorded, suite="trace")
    if not entries:
        raise ValueError("the results hold no records of the suite trace")
    return [r for r in entries if "measured" in r], [r for r in entries if "compute-sanitizer" in r]


def differences(record: Record) -> dict[str, tuple[int, int, str]]:
    """By differing count of a launch: (predicted, measured, reason). ValueError if no reason is known."""
    different = {}
    for count, predicted in record["predicted"].items():
        measured = record["measured"][count]
        if measured != predicted:
            if (record["case"], count) not in REASONS:
                raise ValueError(
                    f"{record['case']}: {predicted} {count} traced, {measured} measured, and no reason is given"
                )
            different[count] = predicted, measured, REASONS[record["case"], count]
    return different


def trace(recorded: Results) -> str:
    """Trace and profiler compared, in Markdown: a table of launches, the differences, the wrong kernels."""
    if not results.find(recorded, suite="trace"):
        return NOT_YET
    launches, wrong = traced(recorded)
    environment = recorded.runs[launches[0]["run"]]
    version = re.search(r"\d{4}\.\d+\.\d+", environment["ncu"])
    equal = sum(not differences(record) for record in launches)
    counts = len(launches[0]["predicted"])
    intro = (
        f"{environment['card']}, {environment['date']}, Nsight Compute (`ncu`) {version[0] if version else 'unknown'}:"
        f" in {equal} of {len(launches)} launches all {counts} counts of the trace are equal to the profiler's."
    )

    def cell(record: Record, count: str) -> str:
        predicted, measured = record["predicted"][count], record["measured"][count]
        return f"{predicted:,}" if predicted == measured else f"traced {predicted:,}, measured {measured:,}"

    rows = [[r["case"].replace("_", " "), *(cell(r, count) for count in TRACED.values())] for r in launches]
    reasons: dict[str, dict[str, list[str]]] = {}  # by reason and launch, the counts that differ
    for record in launches:
        for count, (predicted, measured, why) in differences(record).items():
            of_launch = reasons.setdefault(why, {}).setdefault(record["case"], [])
            of_launch.append(f"{count}, {predicted:,} traced, {measured:,} measured")
    explained = []
    for why, cases in reasons.items():
        told = " and ".join(f"{case} ({'; '.join(counts)})" for case, counts in cases.items())
        explained.append(f"{told}: {why}.")
    found = [  # of compute-sanitizer, without its remark on an option
        [r["case"].removeprefix("wrong: "), r["trace"], r["compute-sanitizer"].partition(". Use ")[0]] for r in wrong
    ]
    return "\n\n".join([
        intro, fold("All launches", markdown(["launch", *TRACED], rows, 1)), *explained,
        "Wrong kernels, under the trace and under `compute-sanitizer`:",
        markdown(["kernel", "the trace says", "compute-sanitizer says"], found, 3),
    ])  # fmt: skip


# ---- The machine code and the profiler (chapter 04)


# Why the profiler may say something else than cuda.inspect. A difference that is not explained here is an error.
MACHINE_REASONS: dict[tuple[str, str], str] = {}


def machine_differences(record: Record) -> dict[str, tuple[int, int, str]]:
    """By name of a number that differs: (inspected, profiled, reason). ValueError if no reason is known.

    The blocks that shared memory allows count only where they are fewer than all others: how much of the cache becomes
    shared memory is chosen for each launch. A thread is given LEAST_REGISTERS, also where its kernel uses fewer.
    """
    inspected, profiled = record["inspected"], record["profiled"]
    shared = "blocks by shared memory"
    others = min(number for name, number in profiled.items() if "blocks" in name and name != shared)
    found = {}
    for name, ours in inspected.items():
        theirs = profiled[name]
        if ours == theirs or (name == shared and min(ours, theirs) >= others):
            continue
        if name == "registers" and max(ours, LEAST_REGISTERS) == theirs:
            continue
        if (record["case"], name) not in MACHINE_REASONS:
            raise ValueError(f"{record['case']}: {ours} {name} inspected, {theirs} profiled, and no reason is given")
        found[name] = ours, theirs, MACHINE_REASONS[record["case"], name]
    return found


def inspections(recorded: Results) -> str:
    """cuda.inspect and the profiler compared, in Markdown: a folded table of kernels and the differences."""
    records = results.find(recorded, suite="inspect")
    if not records:
        return f"`cuda.inspect` needs no GPU. How its numbers compare with the profiler's is {NOT_YET}."
    environment = recorded.runs[records[0]["run"]]
    version = re.search(r"\d{4}\.\d+\.\d+", environment["ncu"])
    different = {record["case"]: machine_differences(record) for record in records}
    equal = sum(not found for found in different.values())
    few = sum(record["inspected"]["registers"] < LEAST_REGISTERS for record in records)
    intro = (
        f"{environment['card']}, {environment['date']}, NVRTC {environment['nvrtc']}, Nsight Compute (`ncu`)"
        f" {version[0] if version else 'unknown'}: for {equal} of {len(records)} kernels registers, static shared"
        " memory and blocks per multiprocessor are those that `cuda.inspect` computes. (A thread is given at least"
        f" {LEAST_REGISTERS} registers; {few} of the kernels use fewer.)"
    )

    def cell(record: Record, name: str) -> str:
        ours, theirs, _ = different[record["case"]].get(name, (record["inspected"][name],) * 2 + ("",))
        return f"{ours:,}" if ours == theirs else f"inspected {ours:,}, profiled {theirs:,}"

    shown = {"registers": "registers", "static shared memory, bytes": "static shared bytes", "warps per SM": "warps"}
    rows = [
        [
            record["case"].replace("_", " "), *(cell(record, name) for name in shown.values()),
            f"{record['achieved']:.0%}".replace("%", " %"),
        ]
        for record in records
    ]  # fmt: skip
    explained = [
        f"{case}, {name}: {ours:,} inspected, {theirs:,} profiled: {why}."
        for case, found in different.items() for name, (ours, theirs, why) in found.items()
    ]  # fmt: skip
    return "\n\n".join([
        "Every kernel below was inspected, which needs no GPU, and then run under the profiler. “Warps as measured” is"
        " the share of the warps that a multiprocessor can hold, averaged over the launch.",
        "<details>\n<summary>Registers and occupancy, inspected and measured</summary>",
        intro, markdown(["kernel", *shown, "warps as measured"], rows, 1), *explained, "</details>",
    ])  # fmt: skip


# ---- All texts

TEXTS: dict[str, Callable[[Results], str]] = {
    **{name: functools.partial(peak, name=name) for name in PEAKS},
    "peaks": peaks,
    "network-peers": network_peers,
    "not-measured": not_measured,
    "headline": headline,
    "headline-short": headline_short,
    "headline-card": headline_card,
    "our-products": our_products,
    "our-products-short": our_products_short,
    "fused-blocks-1": fused_blocks,
    "network-single": network_single,
    "network-called": network_called,
    "network-repeat": network_repeat,
    "energy": energy,
    "energy-ratio": energy_ratio,
    "energy-arithmetic": energy_arithmetic,
    "in-short": in_short,
    "int8-over-fp16": int8_over_fp16,
    "step-shortest": step_shortest,
    "operators-cudnn": operators_cudnn,
    "operators-kinds": operators_kinds,
    "kernels-bandwidth": kernels_bandwidth,
    "kernels": kernels,
    "kernels-network": kernels_network,
    "sparse-break-even": sparse_break_even,
    "trace": trace,
    "inspect": inspections,
}


def texts() -> dict[str, Callable[[], str]]:
    """The functions that generate the course's texts, by the name in their markers."""
    recorded, root = results.load(CARD), results.course()
    _ = recorded.records  # raises DamagedResults now, once
    functions: dict[str, Callable[[], str]] = {name: functools.partial(text, recorded) for name, text in TEXTS.items()}
    return functions | {"tracks": lambda: tracks(root), "cards": lambda: cards(results.every())}
