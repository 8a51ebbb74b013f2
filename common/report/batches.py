"""How times grow with the batch, from records of MobileNetV2 (chapter 06).

fastest(recorded, "ours", "fp16", 256)     the record of the fastest layout, launch and composition
draw_rates(recorded)                       pictures per second against the batch, a curve per implementation
gains(recorded, "fp16", 1, 256)            {layer: how many times cheaper a picture is in the larger batch}
"""

import math
from collections.abc import Sequence

from . import plots, tables
from .results import Record, Results, find

BATCHES, PRECISIONS = (1, 8, 32, 256), ("fp32", "fp16")
IMPLEMENTATIONS = ("ours", "cudnn", "torch-graph", "torch-compile", "xla")


def fastest(
    recorded: Results, implementation: str, precision: str, batch: int, case: str = tables.NETWORK
) -> Record | None:
    """The fastest record with hot buffers; None if there is none."""
    keys = {"case": case, "implementation": implementation, "precision": precision, "batch": batch, "mode": "hot"}
    return min(find(recorded, suite="network", **keys), key=lambda r: r["median_us"], default=None)


def rates(recorded: Results, implementation: str, precision: str, batches: Sequence[int] = BATCHES) -> dict[int, float]:
    """Pictures per second by batch, of the batches that are recorded."""
    found = ((batch, fastest(recorded, implementation, precision, batch)) for batch in batches)
    return {batch: batch / r["median_us"] * 1e6 for batch, r in found if r is not None}


def draw_rates(recorded: Results) -> None:
    """Show pictures per second against the batch, both axes logarithmic: a panel per precision."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, panels = plt.subplots(1, 2, figsize=(plots.WIDTH, 4.0), sharey=True, layout="constrained")
    shown, said = {}, []
    for panel, precision in zip(panels, PRECISIONS, strict=True):
        for name in IMPLEMENTATIONS:
            if line := rates(recorded, name, precision):
                colour, marker = plots.IMPLEMENTATIONS[name]
                title = tables.IMPLEMENTATIONS[name]
                ys = [line.get(batch, math.nan) for batch in BATCHES]  # no line across what was not measured
                (shown[title],) = panel.plot(BATCHES, ys, color=colour, marker=marker)
                said.append(f"{precision} {title} " + ", ".join(f"{rate:,.0f}" for rate in line.values()))
        panel.set_title(precision, loc="left", fontsize=11)
        panel.set(xscale="log", yscale="log", xlabel="batch")
        panel.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.tick_params(axis="x", which="minor", length=0)
        panel.grid(color="0.88")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("pictures per second")
    ticks = [k * 10**e for e in (3, 4, 5) for k in (1, 2, 5)]
    low, high = panels[0].get_ylim()
    inside = [tick for tick in ticks if low <= tick <= high]
    panels[0].set_yticks(inside, [f"{tick:,}" for tick in inside])
    panels[0].yaxis.set_minor_formatter(NullFormatter())
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=len(shown), frameon=False)
    plots.show(figure, f"Pictures per second against the batch. {'; '.join(said)}.")


def gains(recorded: Results, precision: str, few: int, many: int) -> dict[str, tuple[float, float, float]]:
    """By layer, alone on our kernels: (µs at batch `few`, µs at batch `many`, how many times cheaper a picture is)."""
    keys = {"suite": "operators", "implementation": "ours", "precision": precision, "layout": "NHWC"}
    one, other = ({r["case"]: r["median_us"] for r in find(recorded, batch=batch, **keys)} for batch in (few, many))
    return {case: (us, other[case], many * us / (few * other[case])) for case, us in one.items() if case in other}
