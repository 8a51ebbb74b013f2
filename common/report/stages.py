"""Records of many pictures and of the service, as tables: the suites "pipeline", "scaling" and "load".

stages.pictures(recorded)      pictures per second of each stage, by precision
stages.several(recorded)       of several GPUs, or a sentence that nobody has measured them
stages.service(recorded)       latencies of the service, a row per offered rate
stages.lanes(recorded, "fp16") when each copy and each computation ran, for draw.pipeline
stages.hosts(recorded, "fp16") µs from each batch's end to the start of the next copy into its buffer
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from . import results
from .results import Results, grouped
from .tables import CARD, DASH, NOT_YET, card_and_date, markdown

ALONE = "Several GPUs have not been measured: the machine of these records has one, so there is no efficiency yet."
SIDES = "500 × 375"  # pixels of the suite's JPEG files


def pictures(recorded: Results) -> str:
    """Pictures per second of each stage and of the stages together, a column per precision and batch."""
    found: list[Mapping[str, Any]] = [r for r in results.find(recorded, suite="pipeline") if "pictures_per_s" in r]
    if not found:
        return NOT_YET
    columns = sorted({(r["precision"], r["batch"]) for r in found})
    rates = {(r["case"], r["precision"], r["batch"]): f"{r['pictures_per_s']:,.0f}" for r in found}
    cases = dict.fromkeys(r["case"] for r in found)
    rows = [[_plain(case), *(rates.get((case, *column), DASH) for column in columns)] for case in cases]
    heads = ["pictures per second", *(f"{precision}, batch {batch}" for precision, batch in columns)]
    cores = max((r["threads"] for r in found if r.get("threads")), default=1)
    intro = (
        f"{card_and_date(recorded, found)}, a machine with {cores} cores of a CPU; JPEG files of {SIDES} pixels; each"
        " number is of one run."
    )
    off = max((r for r in found if r.get("pixels_off") is not None), key=lambda r: r["pixels_off"], default=None)
    said = [intro, markdown(heads, rows, 1)]
    if off:
        said.append(
            f"The GPU's decoder rounds otherwise than the CPU's: a number of a pixel differs by {off['pixels_off']:.1f}"
            f" of 255 on average, by {off['pixels_off_most']} at most."
        )
    return "\n\n".join(said)


def _plain(case: str) -> str:
    return "decode, 1 thread" if case == "decode, 1 threads" else case


WAYS = ("in turn", "overlapped")


def lanes(recorded: Results, precision: str, batches: int = 8) -> dict[str, list[tuple[str, int, float, float]]]:
    """For each of WAYS, (stage, number, start, end) in µs of the first batches' copies and computations."""
    found: dict[str, list[tuple[str, int, float, float]]] = {}
    for r in results.find(recorded, suite="pipeline", precision=precision, batch=256):
        if r.get("copies") in WAYS and r["stage"] in ("copy", "compute") and r["number"] < batches:
            box = (r["stage"], r["number"], r["start_us"], r["start_us"] + r["us"])
            found.setdefault(r["copies"], []).append(box)
    return found


def hosts(recorded: Results, precision: str) -> list[float]:
    """With two buffers, for each batch the µs from the moment at which it is done to the start of the next copy.

    This copy fills the buffer of the batch that is done, so it is of the batch after next. Before it, the host hands
    over the logits of the batch that is done.
    """
    found = results.find(recorded, suite="pipeline", precision=precision, batch=256, copies="overlapped")
    done = {r["number"]: r["start_us"] + r["us"] for r in found if r["stage"] == "wait"}
    copied = {r["number"]: r["start_us"] for r in found if r["stage"] == "copy"}
    return [copied[number + 2] - end for number, end in done.items() if number + 2 in copied]


def several(recorded: Results) -> str:
    """A table of one GPU and several, with the efficiency; without records of several the sentence ALONE before it."""
    found = results.find(recorded, suite="scaling")
    if not found:
        return ALONE
    order = list(dict.fromkeys(r["source"] for r in found))
    found.sort(key=lambda r: (order.index(r["source"]), r["precision"], r["batch"], r["gpus"]))
    high = any(map(_too_high, found))
    if all(r["gpus"] == 1 for r in found):
        rows = [[_source(r), r["precision"], _rate(r)] for r in found]
        table = markdown(["pictures", "precision", "pictures per second"], rows, 2)
        said = [f"{ALONE} With one, {card_and_date(recorded, found)}, each number of one run:", table]
        return "\n\n".join([*said, *[TOO_HIGH] * high])
    rows = [[_source(r), r["precision"], _rate(r), f"{r['efficiency']:.2f}" if r["gpus"] > 1 else DASH] for r in found]
    heads = ["pictures", "precision", "pictures per second", "efficiency"]
    said = [f"{card_and_date(recorded, found)}, each number of one run.", markdown(heads, rows, 2)]
    return "\n\n".join([*said, *[TOO_HIGH] * high])


TOO_HIGH = (
    "Too high: on Ray the clock starts when the first batch is done. If the CPU decodes, most of the other batches are"
    " nearly decoded by then. So these rates, and their efficiency, do not compare with the others."
)


def _too_high(r: Mapping[str, Any]) -> bool:
    return "on the CPU, on Ray" in r["source"]


def _rate(r: Mapping[str, Any]) -> str:
    return f"{r['pictures_per_s']:,.0f}" + (" (too high)" if _too_high(r) else "")


def _source(r: Mapping[str, Any]) -> str:
    """The case of a record, with words for pictures whose decoding is not part of what was timed."""
    return str(r["case"]).replace("decoded,", "decoded already,", 1) if r["source"] == "decoded" else str(r["case"])


def service(recorded: Results) -> str:
    """Answers per second, p50 and p99 in ms, a row per offered rate and three columns per batching window."""
    found = results.find(recorded, suite="load")
    if not found:
        return NOT_YET
    said = []
    for (precision, batch), group in grouped(found, "precision", "batch").items():
        windows = sorted({r["window_ms"] for r in group})
        by = {(r["offered"], r["window_ms"]): r for r in group}
        rows = [
            [f"{offered:,.0f}", *(cell for window in windows for cell in _cells(by.get((offered, window))))]
            for offered in sorted({r["offered"] for r in group})
        ]
        columns = [(window, what) for window in windows for what in ("answered", "p50, p99")]
        heads = ["offered", *(f"window {window:g} ms: {what}" for window, what in columns)]
        counts = [r["requests"] for r in group]
        said.append(
            f"{card_and_date(recorded, [dict(r) for r in group])}, {precision}, at most {batch} pictures per batch."
            f" Requests per second; p50 and p99 in ms. Each is of one run of {min(counts)} to {max(counts)} requests."
            f"\n\n{markdown(heads, rows, 0)}"
        )
    return "\n\n".join(said)


def _cells(r: Mapping[str, Any] | None) -> list[str]:
    if r is None:
        return [DASH, DASH]
    return [f"{r['answered']:,.0f}", f"{r['p50_ms']:,.0f}, {r['p99_ms']:,.0f}"]


def texts() -> dict[str, Callable[[], str]]:
    """The functions that generate these texts, by the name in their markers."""
    recorded = results.load(CARD)
    functions = {"many-pictures": pictures, "many-gpus": several, "many-requests": service}
    return {name: functools.partial(text, recorded) for name, text in functions.items()}
