"""Plots of chapter 04, notebook 1: what a warp's request costs by offset and stride."""

from collections.abc import Mapping
from typing import Any

BLUE, ORANGE = "#0072b2", "#e69f00"  # of Okabe and Ito


def sectors(by_offset: Mapping[int, int], by_stride: Mapping[int, int]) -> Any:
    """Two panels of bars: sectors per request by the offset (stride 1) and by the stride (offset 0), in floats."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 2.9), layout="constrained")
    for panel, found, colour, name in (
        (panels[0], by_offset, BLUE, "offset, in floats (stride 1)"),
        (panels[1], by_stride, ORANGE, "stride, in floats (offset 0)"),
    ):
        panel.bar(list(found), list(found.values()), color=colour)
        panel.set(xlabel=name, ylabel="sectors per request", xticks=list(found)[:: max(1, len(found) // 8)])
        panel.set_ylim(0, 1.25 * max(found.values()))
    return figure
