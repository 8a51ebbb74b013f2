"""A persistent kernel: what lies in the shared memory of a thread block in each of its phases."""

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.patches import Patch, Rectangle

from ..optimize.persistent import Plan
from ..report import plots
from ..report.plots import INK
from .canvas import GREEN, ORANGE, SKY, Drawing

KIB = 1024


def phases_memory(plan: Plan) -> Drawing:
    """Shared memory from bottom to top, phases from left to right: work, weights, and the next phase's weights."""
    figure, panel = plt.subplots(figsize=(plots.WIDTH, 4.6), layout="constrained")
    arriving: dict[str, Any] = {"facecolor": "white", "edgecolor": ORANGE, "hatch": "////", "linewidth": 0}
    said = []
    for i, (phase, (work, weights)) in enumerate(zip(plan.phases, plan.places(), strict=True)):
        for start, size, colour in ((work, phase.work, SKY), (weights, phase.weights, GREEN)):
            if size:
                panel.add_patch(Rectangle((i, start / KIB), 1, size / KIB, facecolor=colour, edgecolor="white"))
        if i and phase.early:  # while the phase before computes
            panel.add_patch(Rectangle((i - 0.97, weights / KIB), 0.94, phase.weights / KIB, **arriving))
        if i:
            panel.axvline(i, color=INK, linewidth=0.7)
        end = "bottom" if weights == 0 else "top"
        values, own = (f"{size / KIB:.0f} KiB" for size in (phase.work, phase.weights))
        said.append(f"{phase.layer}: values {values}, weights {own} at the {end}")
    panel.axhline(plan.shared / KIB, color=INK, linestyle="--", linewidth=1)
    names = [str(phase.layer).replace(" +residual", "").replace(" stride 2", " s2") for phase in plan.phases]
    panel.set_xticks([i + 0.5 for i in range(len(names))], names, rotation=90, fontsize=10)
    panel.set(xlim=(0, len(names)), ylim=(0, 1.04 * plan.shared / KIB), xlabel="phase", ylabel="KiB of shared memory")
    panel.spines[["top", "right"]].set_visible(False)
    handles = [
        Patch(facecolor=GREEN, label="weights of this phase"),
        Patch(facecolor=SKY, label="inputs and intermediate values"),
        Patch(**arriving, label="weights of the next phase, arriving"),
        plt.Line2D([], [], color=INK, linewidth=0.7, label="grid barrier"),
        plt.Line2D([], [], color=INK, linewidth=1, linestyle="--", label="shared memory of a thread block"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=10)
    text = (
        f"One column per phase; height: the {plan.shared / KIB:.0f} KiB of a thread block's shared memory. A column "
        "has the phase's weights, its inputs and intermediate values, and, hatched, the next phase's weights at the "
        f"height at which the next column has them. {'; '.join(said)}."
    )
    return Drawing(figure, text)
