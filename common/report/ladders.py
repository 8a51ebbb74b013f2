"""What a notebook shows of a ladder: recorded times of its rungs, what changes between two, times on this machine.

    ladders.source(kernels.source("gemm", "naive"))
    ladders.diff(kernels.diff("gemm", "naive", "coalesced"))
    ladders.table("depthwise 56×56 144", batch=32)            rung by rung: µs, share of the roof, how many times faster
    ladders.plot("depthwise 56×56 144", batch=32)
    assert ladders.us("depthwise 56×56 144", "rows", 32) < ladders.us("depthwise 56×56 144", "naive", 32)
    ladders.live({"naive": lambda: ..., "rows": lambda: ...})

Times are records of the suite "kernels" of the H200's results file. Where several operators compute one case, the rungs
of the one that it is named for have plain names, those of another the operator in front: "conv2d/naive"; `operator=`
chooses. Tables are shown as Markdown, C++ as HTML, and both as plain text where that is all there is.
"""

import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..cuda import graphs, listing
from ..measure import timing
from ..measure.roofline import Peaks, Work, bound, floor_us, roof_of
from ..text import aligned
from . import plots, results, tables
from .results import Record, Results

SAMPLES = 10  # of each call that is timed live
WIDTH = 95  # columns of what is shown as plain text


# ---- Showing


def _show(plain: str, formatted: str, mime: str = "text/markdown") -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(plain)
        return
    display({"text/plain": plain, mime: formatted}, raw=True)


def diff(text: str) -> None:
    """Shows a unified diff, as kernels.diff makes it: a sign and a background for each line that is new or gone."""
    _show(_wrapped(text), listing.diff(text), "text/html")


def source(text: str) -> None:
    """Shows a kernel's text, as kernels.source gives it, with C++'s words in colours."""
    _show(text, listing.code(text), "text/html")


def _wrapped(text: str) -> str:
    """Lines of a diff of at most WIDTH columns; what goes on below is indented by four."""
    broken = (
        textwrap.wrap(
            line, WIDTH, subsequent_indent="    ", replace_whitespace=False, drop_whitespace=False,
            break_on_hyphens=False,
        ) or [""]
        for line in text.splitlines()
    )  # fmt: skip
    return "\n".join(itertools.chain.from_iterable(broken))


def _plain(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """A table as plain text; the first `texts` columns to the left, numbers to the right."""
    return "\n".join(aligned([heads, *rows], right=range(texts, len(heads))))


# ---- Looking up


def chosen(
    recorded: Results, case: str, batch: int = 1, precision: str = "fp32", layout: str | None = None,
    operator: str | None = None,
) -> list[Record]:  # fmt: skip
    """The records of one case: its rungs in the order of the ladder, then cuDNN's and cuBLAS's fastest.

    layout: None for all; matrices have none. operator: None for the one whose rungs have plain names.
    """
    found = results.find(recorded, suite="kernels", case=case, batch=batch, precision=precision)
    if layout is not None:
        found = [r for r in found if r.get("layout") == layout]
    rungs = [
        r for r in found
        if r["implementation"] not in tables.LIBRARIES
        and ("/" not in r["implementation"] if operator is None else r["operator"] == operator)
    ]  # fmt: skip
    rungs.sort(key=lambda r: (r["order"], r.get("layout") or ""))
    peers = [
        fastest
        for name in tables.LIBRARIES
        if (fastest := results.fastest(r for r in found if r["implementation"] == name))
    ]
    return rungs + peers if rungs else []


def us(
    case: str, implementation: str, batch: int = 1, precision: str = "fp32", layout: str | None = None,
    recorded: Results | None = None,
) -> float | None:  # fmt: skip
    """Median µs of a rung, or of "cudnn" or "cublas"; in its fastest layout, if none is given. None without a record.

    implementation: as the record has it, "rows" or "conv2d/naive".
    """
    keys = {"case": case, "implementation": implementation, "batch": batch, "precision": precision}
    found = results.find(recorded or results.load(tables.CARD), suite="kernels", **keys)
    fastest = results.fastest(r for r in found if layout in (None, r.get("layout")))
    return None if fastest is None else fastest["median_us"]


def _floor(record: Record, peaks: Peaks) -> float:
    """The roof of a record in µs: the time for its bytes, or for its FLOPs with the arithmetic that it uses."""
    return floor_us(Work(record["bytes"], record["flops"]), roof_of(record["arithmetic"]), peaks)


def _name(record: Record) -> str:
    """What a record is called in a table of its ladder."""
    return tables.LIBRARIES.get(record["implementation"]) or record["implementation"].split("/")[-1]


def _title(case: str, batch: int, precision: str, layout: str | None) -> str:
    return f"{case}, batch {batch}, {precision}{f', {layout}' if layout else ''}"


# ---- Recorded times


def table(
    case: str, batch: int = 1, precision: str = "fp32", layout: str | None = None, operator: str | None = None,
    recorded: Results | None = None,
) -> None:  # fmt: skip
    """Shows the recorded rungs of a case, in the order of the ladder, and the libraries' times below.

    Columns: median µs; the share of the roof, which is that of the bytes or of the FLOPs in the rung's own arithmetic,
    whichever is higher; how many times faster than the first rung, and than cuDNN or cuBLAS; the error against float64.
    """
    recorded = recorded or results.load(tables.CARD)
    records = chosen(recorded, case, batch, precision, layout, operator)
    title = _title(case, batch, precision, layout)
    if not records:
        return _nothing(title)
    peaks = tables.roofs_of(recorded)
    heads, rows = _cells(records, peaks)
    title = f"{title} ({tables.card_and_date(recorded, records)})"
    if peaks is not None:
        title += f"; the roof: {_roofs(records, peaks)}"
    texts = heads.index("µs")
    markdown = tables.markdown(heads, rows, texts)
    return _show(f"{title}\n\n{_plain(heads, rows, texts)}", f"**{title}**\n\n{markdown}")


def _nothing(title: str) -> None:
    said = f"{title}: {tables.NOT_YET}."
    _show(said, f"*{said}*")


def _cells(records: Sequence[Record], peaks: Peaks | None) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table."""

    def times(other: Record) -> Callable[[Record], str]:
        return lambda r: f"{other['median_us'] / r['median_us']:.2f}"

    columns: dict[str, Callable[[Record], str]] = {
        "rung": _name,
        "layout": lambda r: r.get("layout") or tables.DASH,
        "µs": lambda r: tables.us(r["median_us"]),
        "of the roof": lambda r: tables.DASH if peaks is None else plots.percent(_floor(r, peaks) / r["median_us"]),
        "× the first": times(records[0]),
        **{
            f"× {tables.LIBRARIES[r['implementation']]}": times(r)
            for r in records
            if r["implementation"] in tables.LIBRARIES
        },
        "error": lambda r: f"{r['error']:.0e}",
    }
    if all(r.get("layout") is None for r in records):
        del columns["layout"]
    return list(columns), [[cell(r) for cell in columns.values()] for r in records]


def _roofs(records: Sequence[Record], peaks: Peaks) -> str:
    """The roof of every arithmetic among the records, in words."""
    parts = []
    for r in records:
        work, roof = Work(r["bytes"], r["flops"]), roof_of(r["arithmetic"])
        what = "its bytes" if bound(work, roof, peaks) == "memory" else f"its FLOPs in {roof}"
        parts.append(f"{tables.us(floor_us(work, roof, peaks))} µs for {what}")
    return ", ".join(dict.fromkeys(parts))


def plot(
    case: str, batch: int = 1, precision: str = "fp32", layout: str | None = None, operator: str | None = None,
    recorded: Results | None = None,
) -> None:  # fmt: skip
    """Shows the recorded rungs of a case as bars, with the roof and the share of it, cuDNN and cuBLAS in grey."""
    recorded = recorded or results.load(tables.CARD)
    records = chosen(recorded, case, batch, precision, layout, operator)
    title = _title(case, batch, precision, layout)
    if not records:
        return _nothing(title)
    import matplotlib as mpl

    peaks = tables.roofs_of(recorded)
    with mpl.rc_context():
        plots.style()
        figure = _figure(records, peaks, f"{title} ({tables.card_and_date(recorded, records)})")
    return plots.show(figure, _described(title, records, peaks))


def _described(title: str, records: Sequence[Record], peaks: Peaks | None) -> str:
    """What the bars show, in words."""
    names = [f"{_name(r)} {r['layout']}" if r.get("layout") else _name(r) for r in records]
    said = [f"{name} {tables.us(r['median_us'])}" for name, r in zip(names, records, strict=True)]
    roofs = "" if peaks is None else f" The roof, a dashed line: {_roofs(records, peaks)}."
    return f"Bars: median µs of each rung, {title}: {', '.join(said)}.{roofs}"


def _figure(records: Sequence[Record], peaks: Peaks | None, title: str) -> Any:
    several = len({r.get("layout") for r in records}) > 1
    bars = {f"{_name(r)}, {r['layout']}" if several else _name(r): r for r in records}
    return plots.ladder(
        {name: r["median_us"] for name, r in bars.items()},
        floors=None if peaks is None else {name: _floor(r, peaks) for name, r in bars.items()},
        peers=[name for name, r in bars.items() if r["implementation"] in tables.LIBRARIES],
        title=title,
    )


# ---- This machine


class Live(dict[str, float]):
    """Median µs of what was timed on this machine, by name; empty where there is no GPU. Has been shown already."""

    def _ipython_display_(self) -> None:
        pass


def live(calls: Mapping[str, Callable[[], Any]], samples: int = SAMPLES) -> Live:
    """Times calls in turn on this machine's GPU, and shows how many µs they take. Without one it says so."""
    try:
        timed = timing.compare(calls, samples=samples)
    except graphs.NoGpu:
        said = f"No GPU here to time it on: the times are those recorded on an {tables.CARD}."
        _show(said, f"*{said}*")
        return Live()
    made = Live({name: timed[name].median_us for name in calls})
    first = next(iter(made.values()))
    heads = ["on this machine", "µs", "× the first"]
    rows = [[name, tables.us(value), f"{first / value:.2f}"] for name, value in made.items()]
    _show(_plain(heads, rows, texts=1), tables.markdown(heads, rows, texts=1))
    return made
