"""Profiles of networks: converted to records of the suite "steps", restored from them, and plotted.

records_of(net.profile(x, runs=1000, placement="gpu"), "resnet20")
plot([profile_of(records_of_one_placement, "NVIDIA H200"), net.profile(x)])
"""

from collections.abc import Sequence
from typing import Any

from ..measure.roofline import ARITHMETIC, Work
from ..measure.timing import Timing
from ..network.profile import Profile, Row
from ..topology.graph import shapes_of
from .results import Record, record

COLOURS = {"gpu": "#0072b2", "simulator": "#0072b2", "cpu": "#e69f00", "copies": "#d55e00"}


def records_of(profile: Profile, case: str) -> list[Record]:
    """A profile's rows as records: times in µs, those of copies as separate keys.

    case: the network's name, the first word of the records' "case". ValueError for a profile on the simulator, whose
    times are not a GPU's.
    """
    if any(row.where == "simulator" for row in profile.rows):
        raise ValueError("times of the simulator are not saved: they say nothing about a GPU")
    batch, *_ = shapes_of(profile.input_shape)[0]
    records = []
    for row in profile.rows:
        median, p5, p95 = (row.median_ms, row.p5_ms, row.p95_ms) if row.step else (row.copy_ms,) * 3
        timing = Timing(1e3 * median, 1e3 * p5, 1e3 * p95, profile.runs, 1, "eager", "hot")
        records.append(
            record(
                "steps", f"{case} {row.index} {row.layer}", "ours" if row.where == "gpu" else "torch-cpu",
                precision="fp32", arithmetic=ARITHMETIC["fp32"], batch=batch, timing=timing,
                work=Work(row.activations + row.parameters, 2 * row.macs), network=case,
                placement=profile.placement, index=row.index, step=row.step,
                layer=row.layer, where=row.where, runs_as=row.runs_as, copied=row.copied,
                copy_us=round(1e3 * row.copy_ms, 2), kernel_us=row.kernel_us and round(row.kernel_us, 2),
                alive=row.alive, total_us=round(1e3 * profile.total_ms, 1), memory=list(profile.memory),
            )
        )  # fmt: skip
    return records


def profile_of(records: Sequence[Record], device: str) -> Profile:
    """The profile from its records, which are of one network and placement. ValueError without records."""
    if not records:
        raise ValueError("records must be those of a profile, got none")
    first, rows = records[0], []
    for r in sorted(records, key=lambda r: r["index"]):
        median, p5, p95 = (r[key] / 1e3 if r["step"] else 0.0 for key in ("median_us", "p5_us", "p95_us"))
        rows.append(
            Row(
                r["index"], r["layer"], r["step"], r["where"], r["runs_as"], median, median, p5, p95,
                r["copy_us"] / 1e3, r["copied"], r["kernel_us"], r["bytes"], 0, r["alive"], r["flops"] // 2,
            )
        )  # fmt: skip
    return Profile(
        first["network"], first["placement"], device, (first["batch"],), first["samples"],
        first["total_us"] / 1e3, tuple(rows), (first["memory"][0], first["memory"][1]),
    )  # fmt: skip


def plot(profiles: Sequence[Profile]) -> Any:
    """Bars of the time per step, one panel per profile, with a common scale; copies are stacked on top.

    Returns a Matplotlib figure. ValueError without a profile.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    if not profiles:
        raise ValueError("profiles must be at least one, got none")
    size, shared = (9.0, 1.0 + 2.2 * len(profiles)), {"sharex": True, "sharey": True}
    figure, panels = plt.subplots(len(profiles), 1, figsize=size, squeeze=False, layout="constrained", **shared)
    for axes, one in zip(panels[:, 0], profiles, strict=True):
        for row in one.rows:
            axes.bar(row.index, row.median_ms, color=COLOURS[row.where], width=0.85)
            if row.copied:
                axes.bar(row.index, row.copy_ms, bottom=row.median_ms, color=COLOURS["copies"], width=0.85)
        side = " on the simulator" if any(row.where == "simulator" for row in one.rows) else ""
        title = f"{one.placement}{side}: {one.total_ms:.2f} ms an inference, {one.copies_ms:.2f} ms of them copies"
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_ylabel("ms")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    panels[-1, 0].set_xlabel("step")
    sides = {row.where for one in profiles for row in one.rows}
    keys = [Patch(color=COLOURS[side], label=side.upper() if side != "simulator" else side) for side in sorted(sides)]
    if any(row.copied for one in profiles for row in one.rows):
        keys.append(Patch(color=COLOURS["copies"], label="copies"))
    panels[0, 0].legend(handles=keys, frameon=False, fontsize=9, ncols=len(keys), loc="upper right")
    plt.close(figure)  # or a notebook would show it twice
    return figure
