"""The whole network beside its peers, in notebook 9 of chapter 06: what was timed in turn in one process.

rivals.show(recorded)      µs per batch, times ours with its interval, what multiplies, errors
rivals.draw(recorded)      the same as bars, one panel per batch and class of errors
rivals.fastest(recorded, error_class)   by batch and library: its fastest way, in fp16 or TF32 if errors are fp16's
rivals.from_host(recorded) ours and cuDNN's with copies from the host and back, beside the times in GPU memory
"""

import itertools
import textwrap
from collections.abc import Sequence

from . import plots, results, tables
from .results import Results

BATCHES = (1, 32, 256)
WIDTH = 90  # of a printed line: JupyterLab shows it whole at 1,280 pixels
CLASSES = {"single": "fp32", "half": "fp16"}  # of tables.CLASSES; ours' precision in it


def columns(
    recorded: Results, error_class: str, batches: Sequence[int] = BATCHES
) -> dict[int, dict[str, tables.Rival]]:
    """By batch: the Rivals of a class of errors in ours' precision, by implementation; without ours no batch."""
    found = {batch: tables.race(recorded, error_class, batch, CLASSES[error_class]) for batch in batches}
    return {batch: column for batch, column in found.items() if "ours" in column}


def fastest(
    recorded: Results, error_class: str, batches: Sequence[int] = BATCHES
) -> dict[int, dict[str, tables.Rival]]:
    """`columns`, where a library that was faster in TF32 than in fp16 counts with its time in TF32."""
    found = columns(recorded, error_class, batches)
    if error_class != "half":
        return found
    in_tf32 = tables.race_in_tf32(recorded, found)
    return {
        batch: {
            name: min((one, in_tf32.get(batch, {}).get(name, one)), key=lambda rival: rival.us)
            for name, one in column.items()
        }
        for batch, column in found.items()
    }  # fmt: skip


def times_ours(column: dict[str, tables.Rival], name: str) -> float:
    """How many times ours' time an implementation takes: from one process where it can be, else of two medians."""
    return _times(column[name], column["ours"].us)


def _times(one: tables.Rival, ours_us: float) -> float:
    return float(one.ratio["median"]) if one.ratio else one.us / ours_us


def show(recorded: Results) -> None:
    """Print µs and times ours of every implementation; below it what multiplies, and the error against float64.

    Ratios that were taken in one process have their confidence intervals below them.
    †: not of ours' process, so the ratio is one of two medians. ‡: another run was faster. A library that was faster in
    TF32 than in fp16 has a row of each.
    """
    beside = tables.Beside(recorded)
    for error_class, precision in CLASSES.items():
        by_batch = columns(recorded, error_class)
        if not by_batch:
            continue
        print(f"{tables.CLASSES[error_class][1]} (ours: {precision} in memory)")
        print(f"{'µs per batch':<24}" + "".join(f"{f'batch {batch}':>22}" for batch in by_batch))
        in_tf32 = tables.race_in_tf32(recorded, by_batch) if error_class == "half" else {}
        for (name, words), of in itertools.product(tables.ROWS.items(), (by_batch, in_tf32)):
            if not any(name in column for column in of.values()):
                continue
            cells, intervals, records = [], [], []
            for batch, column in of.items():
                one = column.get(name)
                if one is None:
                    cells.append(tables.DASH)
                    intervals.append("")
                    continue
                records.append(one.record)
                ours = by_batch[batch]["ours"].us
                times = "" if name == "ours" else f" {_times(one, ours):>7.2f}×"
                cells.append(beside.time(one) + times)
                intervals.append(f"({one.ratio['low']:.3f} – {one.ratio['high']:.3f})" if one.ratio else "")
            print(f"  {words:<22}" + "".join(f"{cell:>22}" for cell in cells))
            how = f"    {tables.arithmetic(records)}, error {tables.exact_error(records)}"
            print(f"{how:<24}{''.join(f'{cell:>22}' for cell in intervals)}".rstrip())
        print()
    for note in beside.footnotes():
        print(textwrap.fill(note, WIDTH))
    missing = tables.missing(r for r in recorded.suite("network") if r["case"] == tables.NETWORK)
    print(textwrap.fill(missing, WIDTH))


def from_host(recorded: Results, batches: Sequence[int] = (1, 8, 32)) -> dict[tuple[str, int], tuple[float, float]]:
    """Print µs from host to host of ours and of cuDNN, and their ratio beside the one of pictures in GPU memory.

    Returns (ratio from host to host, ratio in GPU memory) by (precision, batch). In GPU memory: with rotating buffers,
    by the same version of the engine, if both were recorded so; else the newest, and if they are of another version
    than ours from host to host, that has a §. In one process a ratio has its confidence interval; †: cuDNN's was timed
    in another process than ours. Batches without both are left out.
    """
    age, ages, others = list(recorded.runs).index, set[str](), set[str]()
    found, apart = {}, False
    for error_class, precision in CLASSES.items():
        for batch, column in columns(recorded, error_class, batches).items():
            keys = {"case": tables.HOST, "precision": precision, "batch": batch}
            sides = (results.find(recorded, suite="network", implementation=name, **keys) for name in ("ours", "cudnn"))
            ours, theirs = map(results.fastest, sides)
            if ours is None or theirs is None or "cudnn" not in column:
                continue
            here, there = ours["run"], column["ours"].record["run"]
            mark, commit = "", recorded.runs[here].get("commit")
            inside = _rotating(recorded, precision, batch, commit)
            if commit != recorded.runs[there].get("commit"):
                mark = tables.OTHER_PROGRAM if inside is None else ""
                (ages if mark else others).add("an earlier" if age(here) < age(there) else "a later")
            one = theirs.get("ratios", {}).get("ours") if theirs["run"] == ours["run"] else None
            ratio = one["median"] if one else theirs["median_us"] / ours["median_us"]
            found[precision, batch] = ratio, times_ours(column, "cudnn") if inside is None else inside
            apart |= one is None
            interval = f" ({one['low']:.3f} – {one['high']:.3f})" if one else ""
            print(
                f"{f'{precision}, batch {batch}':<17} ours {tables.us(ours['median_us']) + mark:>6} µs,"
                f" cuDNN {tables.us(theirs['median_us']) + ('' if one else tables.APART):>7} µs:"
                f" {ratio:.2f}×{interval}, in GPU memory {found[precision, batch][1]:.2f}×"
            )
    if apart:
        print(textwrap.fill(tables.NOT_BESIDE, WIDTH))
    if ages:
        print(f"{tables.OTHER_PROGRAM} {' or '.join(sorted(ages))} version of our engine than in GPU memory")
    if others:
        words = " or ".join(sorted(others))
        print(f"all of {words} version of our engine; in GPU memory: with rotating buffers")
    return found


def _rotating(recorded: Results, precision: str, batch: int, commit: str | None) -> float | None:
    """cuDNN's time over ours with rotating buffers, both recorded at that commit; None without them or a commit."""
    if commit is None:
        return None
    keys = {"suite": "network", "case": tables.NETWORK, "mode": "rotating", "precision": precision, "batch": batch}
    sides = (
        [
            r
            for r in results.find(recorded, **keys, implementation=name)
            if recorded.runs[r["run"]].get("commit") == commit
        ]
        for name in ("ours", "cudnn")
    )
    ours, theirs = map(results.fastest, sides)
    return theirs["median_us"] / ours["median_us"] if ours and theirs else None


def draw(recorded: Results) -> None:
    """Show bars of µs per batch, one panel per class of errors and batch, with how many times ours that is."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        len(CLASSES), len(BATCHES), figsize=(11, 3.2 * len(CLASSES)), layout="constrained", squeeze=False
    )
    said = []
    for line, (error_class, precision) in zip(panels, CLASSES.items(), strict=True):
        found = fastest(recorded, error_class)
        for panel, batch in zip(line, BATCHES, strict=True):
            column = found.get(batch, {})
            parts = []
            for i, (name, one) in enumerate(column.items()):
                colour = plots.IMPLEMENTATIONS.get(name, ("#555555", "o"))[0]
                panel.barh(i, one.us, height=0.7, color=colour)
                text = tables.us(one.us) + ("" if name == "ours" else f"   {times_ours(column, name):.1f}×")
                panel.annotate(text, (one.us, i), (4, 0), textcoords="offset points", va="center", fontsize=10)
                parts.append(f"{tables.ROWS[name]} {tables.us(one.us)}")
            names = [
                tables.ROWS[name].replace(", layer by layer", "").replace(", CUDA", ",\nCUDA").replace(" (", "\n(")
                for name in column
            ]
            panel.set_yticks(range(len(names)), names, fontsize=10)
            if column:
                panel.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, 1.85 * max(one.us for one in column.values())))
            title = f"{precision}{' or TF32' if error_class == 'half' else ''}, batch {batch}"
            panel.set_title(title, fontsize=10, loc="left")
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(axis="x", labelsize=8)
            panel.xaxis.set_major_locator(plt.MaxNLocator(2))
            said.append(f"{title}: {', '.join(parts) or 'not measured'}")
    for panel in panels[-1]:
        panel.set_xlabel("µs per batch", fontsize=10)
    plots.show(
        figure,
        "Six panels, two classes of errors at three batches: horizontal bars of µs per batch for each implementation,"
        f" and how many times ours that is. {'; '.join(said)}.",
    )
