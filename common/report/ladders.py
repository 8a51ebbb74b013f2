"""A ladder in a notebook: recorded times of its rungs, the difference between two, times on this machine.

    ladders.source(kernels.source("gemm", "naive"))
    ladders.excerpt(kernels.source("gemm", "naive"), "float acc", "acc +=")    some of its lines
    ladders.diff(kernels.diff("gemm", "naive", "coalesced"))
    ladders.table("depthwise 56×56 144", batch=32)            rung by rung: µs, share of the roof, how many times faster
    ladders.plot("depthwise 56×56 144", batch=32)
    ladders.roofline("gemm 4096×4096×4096", rungs=RUNGS)   the rungs as dots under their roofs
    ladders.roofline("depthwise 56×56 144", batch=[1, 256])
    assert ladders.us("depthwise 56×56 144", "rows", 32) < ladders.us("depthwise 56×56 144", "naive", 32)
    ladders.live({"naive": lambda: ..., "rows": lambda: ...})

Times are records of the suite "kernels" in the H200's results. If several operators compute one case, the rungs of the
case's own operator have plain names, those of others have the operator in front: "conv2d/naive"; `operator=` selects
one. Tables are shown as Markdown, C++ as HTML, and both as plain text outside a notebook.
"""

import contextlib
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..cuda import graphs, listing
from ..measure import timing
from ..measure.roofline import Peaks, Work, bound, roof_of, roof_us
from ..text import aligned
from . import plots, results, tables
from .results import Record, Results

SAMPLES = 10  # per call that is timed live
WIDTH = 95  # columns of plain text


# ---- Showing


def _show(plain: str, formatted: str, mime: str = "text/markdown") -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(plain)
        return
    display({"text/plain": plain, mime: formatted}, raw=True)


def diff(text: str) -> None:
    """Show a unified diff from kernels.diff; added and deleted lines have a sign and a background."""
    _show(_wrapped(text), listing.diff(text), "text/html")


def source(text: str) -> None:
    """Show a kernel's source from kernels.source with C++ syntax highlighting."""
    _show(text, listing.code(text), "text/html")


def excerpt(text: str, first: str, last: str) -> None:
    """Show the lines of a kernel's source from the one that contains `first` to the next one that contains `last`.

    Common indentation is removed. ValueError if there are no such lines.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if first in line), None)
    end = None if start is None else next((i for i in range(start, len(lines)) if last in lines[i]), None)
    if start is None or end is None:
        raise ValueError(f"no lines from {first!r} to {last!r}")
    source(textwrap.dedent("\n".join(lines[start : end + 1])) + "\n")


def _wrapped(text: str) -> str:
    """A diff with lines wrapped at WIDTH columns; continuation lines are indented by four."""
    broken = (
        textwrap.wrap(
            line, WIDTH, subsequent_indent="    ", replace_whitespace=False, drop_whitespace=False,
            break_on_hyphens=False,
        ) or [""]
        for line in text.splitlines()
    )  # fmt: skip
    return "\n".join(itertools.chain.from_iterable(broken))


def _plain(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """A table as plain text; the first `texts` columns are left-aligned, the others right-aligned."""
    return "\n".join(aligned([heads, *rows], right=range(texts, len(heads))))


# ---- Selecting records


def chosen(
    recorded: Results, case: str, batch: int = 1, precision: str = "fp32", layout: str | None = None,
    operator: str | None = None,
) -> list[Record]:  # fmt: skip
    """The records of one case: its rungs in the order of the ladder, then the fastest of cuDNN and of cuBLAS.

    layout: None for all; matrices have none. operator: None for the case's own operator.
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
    """Median µs of a rung, "cudnn" or "cublas", by default in its fastest layout. None without a record.

    implementation: as in the record, "rows" or "conv2d/naive". recorded: by default the H200's results.
    """
    keys = {"case": case, "implementation": implementation, "batch": batch, "precision": precision}
    found = results.find(recorded or results.load(tables.CARD), suite="kernels", **keys)
    fastest = results.fastest(r for r in found if layout in (None, r.get("layout")))
    return None if fastest is None else fastest["median_us"]


def _roof_us(record: Record, peaks: Peaks) -> float:
    """The roofline time of a record in µs, for its bytes and for its FLOPs in its own arithmetic."""
    return roof_us(Work(record["bytes"], record["flops"]), roof_of(record["arithmetic"]), peaks)


def _name(record: Record) -> str:
    """The name of a record in a table of its ladder."""
    return tables.LIBRARIES.get(record["implementation"]) or record["implementation"].split("/")[-1]


def _title(case: str, batch: int, precision: str, layout: str | None) -> str:
    return f"{case}, batch {batch}, {precision}{f', {layout}' if layout else ''}"


# ---- Recorded times


def table(
    case: str, batch: int = 1, precision: str = "fp32", layout: str | None = None, operator: str | None = None,
    recorded: Results | None = None, machine: bool = False,
) -> None:  # fmt: skip
    """Show the recorded rungs of a case in the order of the ladder, then the libraries.

    Columns: median µs; the share of the roof, in the rung's own arithmetic; the speedup over the first rung, and over
    cuDNN or cuBLAS; the relative error against float64. Arguments as for `chosen` and `us`. machine: with registers per
    thread and warps per multiprocessor, which are not recorded but computed here: see cuda.inspect.
    """
    recorded = recorded or results.load(tables.CARD)
    records = chosen(recorded, case, batch, precision, layout, operator)
    title = _title(case, batch, precision, layout)
    if not records:
        return _nothing(title)
    title, heads, rows = titled(recorded, records, title, machine)
    texts = heads.index("µs")
    markdown = tables.markdown(heads, rows, texts)
    return _show(f"{title}\n\n{_plain(heads, rows, texts)}", f"**{title}**\n\n{markdown}")


def titled(
    recorded: Results, records: Sequence[Record], title: str, machine: bool = False
) -> tuple[str, list[str], list[list[str]]]:
    """(title with card, date and roofs, column heads, rows) of the table of records that `chosen` returned."""
    peaks = tables.roofs_of(recorded)
    heads, rows = _cells(records, peaks, _on_the_machine(records) if machine else {})
    title = f"{title} ({tables.card_and_date(recorded, records)})"
    if peaks is not None:
        title += f"; the roof: {_roofs(records, peaks)}"
    return title, heads, rows


def _nothing(title: str) -> None:
    message = f"{title}: {tables.NOT_YET}."
    _show(message, f"*{message}*")


def _on_the_machine(records: Sequence[Record]) -> dict[str, Callable[[Record], str]]:
    """The columns of the machine code: registers and, where some are spilled, a word on it; warps per SM."""
    from .machine import inspection

    card = tables.CARD.removeprefix("NVIDIA ")
    found = {}
    for r in records:
        if r["implementation"] not in tables.LIBRARIES:
            with contextlib.suppress(ValueError, RuntimeError):  # composed of others; no compiler here
                found[id(r)] = inspection(r, card)

    def column(of: Callable[[Any], str]) -> Callable[[Record], str]:
        return lambda r: of(found[id(r)]) if id(r) in found else tables.DASH

    return {
        "registers": column(lambda one: f"{one.registers}{', spills' if one.spills else ''}"),
        "warps per SM": column(lambda one: str(one.occupancy(card).warps)),
    }


def _cells(
    records: Sequence[Record], peaks: Peaks | None, more: Mapping[str, Callable[[Record], str]]
) -> tuple[list[str], list[list[str]]]:
    """(column heads, rows) of the table. more: columns before the last one."""

    def times(other: Record) -> Callable[[Record], str]:
        return lambda r: f"{other['median_us'] / r['median_us']:.2f}"

    columns: dict[str, Callable[[Record], str]] = {
        "rung": _name,
        "layout": lambda r: r.get("layout") or tables.DASH,
        "µs": lambda r: tables.us(r["median_us"]),
        "of the roof": lambda r: tables.DASH if peaks is None else plots.percent(_roof_us(r, peaks) / r["median_us"]),
        "× the first": times(records[0]),
        **{
            f"× {tables.LIBRARIES[r['implementation']]}": times(r)
            for r in records
            if r["implementation"] in tables.LIBRARIES
        },
        **more,
        "error": lambda r: f"{r['error']:.0e}",
    }
    if all(r.get("layout") is None for r in records):
        del columns["layout"]
    return list(columns), [[cell(r) for cell in columns.values()] for r in records]


def _roofs(records: Sequence[Record], peaks: Peaks) -> str:
    """A sentence on the roofline time of each arithmetic among the records."""
    parts = []
    for r in records:
        work, roof = Work(r["bytes"], r["flops"]), roof_of(r["arithmetic"])
        what = "its bytes" if bound(work, roof, peaks) == "memory" else f"its FLOPs in {roof}"
        parts.append(f"{tables.us(roof_us(work, roof, peaks))} µs for {what}")
    return ", ".join(dict.fromkeys(parts))


def plot(
    case: str, batch: int = 1, precision: str = "fp32", layout: str | None = None, operator: str | None = None,
    recorded: Results | None = None,
) -> None:  # fmt: skip
    """Show the recorded rungs of a case as bars, with the roof and the share of it reached; libraries in grey.

    If the slowest takes more than 20 times as long as the fastest, the axis is logarithmic, with dots in place of bars.

    Arguments as for `chosen` and `us`.
    """
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
    """Alternative text for the bars or dots."""
    names = [f"{_name(r)} {r['layout']}" if r.get("layout") else _name(r) for r in records]
    times = [f"{name} {tables.us(r['median_us'])}" for name, r in zip(names, records, strict=True)]
    roofs = "" if peaks is None else f" The roof, a dashed line: {_roofs(records, peaks)}."
    marks = "Dots" if plots.logarithmic([r["median_us"] for r in records]) else "Bars"
    return f"{marks}: median µs of each rung, {title}: {', '.join(times)}.{roofs}"


def _figure(records: Sequence[Record], peaks: Peaks | None, title: str) -> Any:
    several = len({r.get("layout") for r in records}) > 1
    bars = {f"{_name(r)}, {r['layout']}" if several else _name(r): r for r in records}
    return plots.ladder(
        {name: r["median_us"] for name, r in bars.items()},
        floors=None if peaks is None else {name: _roof_us(r, peaks) for name, r in bars.items()},
        peers=[name for name, r in bars.items() if r["implementation"] in tables.LIBRARIES],
        title=title,
    )


def roofline(
    case: str, batch: int | Sequence[int] = 1, precision: str = "fp32", layout: str | None = None,
    operator: str | None = None, rungs: Sequence[str] | None = None, recorded: Results | None = None,
) -> None:  # fmt: skip
    """Show the recorded rungs of a case as dots under the roofs of the card, the libraries as white squares.

    batch: one, or several, a column of dots each. rungs: the names to show; by default all. layout: by default each
    rung in its fastest. Other arguments as for `chosen`.
    """
    recorded = recorded or results.load(tables.CARD)
    batches = [batch] if isinstance(batch, int) else list(batch)
    columns = {}
    for one in batches:
        records = chosen(recorded, case, one, precision, layout, operator)
        fastest: dict[str, Record] = {}
        for r in records:
            name = r["implementation"]
            if name in fastest and fastest[name]["median_us"] <= r["median_us"]:
                continue
            if rungs is None or name in tables.LIBRARIES or _name(r) in rungs:
                fastest[name] = r
        if fastest:
            columns["" if len(batches) == 1 else f"batch {one}"] = list(fastest.values())
    peaks = tables.roofs_of(recorded)
    batch_words = f"batch {batches[0]}, " if len(batches) == 1 and batches != [1] else ""
    title = f"{case}, {batch_words}{precision}{f', {layout}' if layout else ''}"
    if not columns or peaks is None:
        return _nothing(title)
    import matplotlib as mpl

    with mpl.rc_context():
        plots.style()
        every = [r for records in columns.values() for r in records]
        dated = f"{title} ({tables.card_and_date(recorded, every)})"
        figure = plots.ladder_roofline(columns, peaks, dated, peers=tables.LIBRARIES)
    return plots.show(figure, _dots(title, columns, peaks))


def _dots(title: str, columns: Mapping[str, Sequence[Record]], peaks: Peaks) -> str:
    """Alternative text for a roofline of rungs."""
    parts = []
    for name, records in columns.items():
        work = Work(records[0]["bytes"], records[0]["flops"])
        shares = [f"{_name(r)} {plots.percent(_roof_us(r, peaks) / r['median_us'])}" for r in records]
        at = f"{name}, at" if name else "At"
        parts.append(f"{at} {work.intensity:.3g} FLOP per byte, a column of dots: {', '.join(shares)} of the roof")
    return f"A roofline of {title}. {'; '.join(parts)}."


# ---- This machine


class Live(dict[str, float]):
    """Median µs by name, timed on this machine; empty without a GPU. `live` has shown it, so it displays nothing."""

    def _ipython_display_(self) -> None:
        pass


def live(calls: Mapping[str, Callable[[], Any]], samples: int = SAMPLES) -> Live:
    """Time calls in turn on this machine's GPU and show the median µs; without a GPU, show a sentence instead."""
    try:
        timed = timing.compare(calls, samples=samples)
    except graphs.NoGpu:
        message = f"No GPU here to time it on: the times are those recorded on an {tables.CARD}."
        _show(message, f"*{message}*")
        return Live()
    times = Live({name: timed[name].median_us for name in calls})
    first = next(iter(times.values()))
    heads = ["on this machine", "µs", "× the first"]
    rows = [[name, tables.us(value), f"{first / value:.2f}"] for name, value in times.items()]
    _show(_plain(heads, rows, texts=1), tables.markdown(heads, rows, texts=1))
    return times
