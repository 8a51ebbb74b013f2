"""Timelines of host and GPU."""

from collections.abc import Mapping, Sequence

from ..measure.timeline import Slice, gaps, span
from ..report.plots import COLOURS
from .canvas import BLUE, DARK_RED, GREY, INK, ORANGE, Drawing, canvas, cell, positive, text

_OTHER = "#8c6bb1"  # kernels of several layers: not one of the kinds' colours


def launches(launch_us: float, kernel_us: float, count: int = 3) -> Drawing:
    """`count` launches of a kernel and a synchronisation: host and GPU on a timeline in µs.

    launch_us: host time per launch. kernel_us: run time of the kernel, longer than launch_us.
    """
    positive(count=count)
    if not 0 < launch_us < kernel_us:
        raise ValueError(f"launch_us must be positive and less than kernel_us, got {launch_us} and {kernel_us}")
    end = launch_us + count * kernel_us
    figure, axes = canvas(20, 5.6)
    scale, left = 15.6 / end, 2.6
    text(axes, 2.3, 1.5, "host", 12, ha="right", weight="bold")
    text(axes, 2.3, 3.2, "GPU", 12, ha="right", weight="bold")
    back = left + count * launch_us * scale
    for k in range(count):
        cell(axes, left + k * launch_us * scale, 1.0, launch_us * scale, 1.0, ORANGE)
        start = left + (launch_us + k * kernel_us) * scale
        cell(axes, start, 2.7, kernel_us * scale, 1.0, BLUE)
        text(axes, start + kernel_us * scale / 2, 3.2, f"kernel {k}: {kernel_us:.1f} µs", 10)
    cell(axes, back, 1.0, left + end * scale - back, 1.0, "#bbbbbb")
    text(axes, (back + left + end * scale) / 2, 1.5, "synchronize(): the host waits", 10)
    text(axes, left, 0.55, f"{count} launches of {launch_us:.1f} µs", 10, ha="left", color="#8a5f00")
    axes.plot([left, left + end * scale], [4.3, 4.3], color=GREY, linewidth=1)
    for us, words, colour in (
        (0.0, "0", GREY),
        (count * launch_us, f"{count * launch_us:.0f} µs:\nall launches returned", DARK_RED),
        (end, f"{end:.0f} µs:\nresults are there", GREY),
    ):
        x = left + us * scale
        axes.plot([x, x], [4.15, 4.45], color=colour, linewidth=1.4)
        text(axes, x, 4.6, words, 10, va="top", color=colour)
    return Drawing(
        figure,
        f"A timeline. The host launches {count} kernels in {count * launch_us:.0f} µs and then waits. The GPU runs the"
        f" kernels one after the other, {kernel_us:.1f} µs each, and is done after {end:.0f} µs.",
    )


def queues(launch_us: float, kernel_us: float, count: int = 6) -> Drawing:
    """`count` launches and the kernels that they start, on a timeline in µs: who waits, the GPU or the host's queue.

    launch_us: host time per launch. kernel_us: run time of each kernel.
    """
    positive(count=count)
    if not (launch_us > 0 and kernel_us > 0):
        raise ValueError(f"launch_us and kernel_us must be positive, got {launch_us} and {kernel_us}")
    starts: list[float] = []
    for k in range(count):
        starts.append(max((k + 1) * launch_us, starts[-1] + kernel_us if starts else 0.0))
    end = starts[-1] + kernel_us
    idle = end - starts[0] - count * kernel_us
    figure, axes = canvas(20, 5.0)
    left, scale = 2.6, 16.4 / end
    text(axes, 2.3, 1.5, "host", 12, ha="right", weight="bold")
    text(axes, 2.3, 3.2, "GPU", 12, ha="right", weight="bold")
    for k, start in enumerate(starts):
        cell(axes, left + k * launch_us * scale, 1.0, launch_us * scale, 1.0, ORANGE)
        cell(axes, left + start * scale, 2.7, kernel_us * scale, 1.0, BLUE)
    host, gpu = f"{count} launches of {launch_us:.1f} µs", f"{count} kernels of {kernel_us:.1f} µs"
    text(axes, left, 0.55, host, 11, ha="left", color="#8a5f00")
    waits = f"; between them the GPU waits for {idle:.0f} µs in all" if idle > 0.5 else ", without a gap"
    text(axes, left, 4.2, f"{gpu}{waits}", 11, ha="left", color=DARK_RED if idle > 0.5 else INK)
    return Drawing(
        figure,
        f"A timeline. The host makes {host}, one after the other. The GPU runs {gpu}{waits}.",
    )


def timeline(lanes: Mapping[str, Sequence[Slice]], start_us: float = 0.0, end_us: float | None = None) -> Drawing:
    """When each kernel or operator runs: one lane per name, all on the same axis in µs, coloured by kind of layer.

    A slice's label is its kind, "expand", or its kind and what it does beside the layer, "expand, ReLU6": these boxes
    are half as high. Above a lane, a tick marks each launch by the host that is known.
    start_us, end_us: the part that is drawn; end_us: by default the end of the longest lane. Sums in the lanes' titles
    are of whole lanes. ValueError without lanes, for an empty lane, or if nothing lies between the two times.
    """
    if not lanes or not all(lanes.values()):
        raise ValueError("lanes must be at least one, each with at least one slice")
    end = max(one.end_us for lane in lanes.values() for one in lane) if end_us is None else end_us
    if not end > start_us:
        raise ValueError(f"end_us must be larger than start_us, got {end} and {start_us}")
    figure, axes = canvas(20, 2.2 * len(lanes) + 2.2)
    left, width = 0.4, 19.2
    scale = width / (end - start_us)
    titles, kinds = [], []
    for i, (name, lane) in enumerate(lanes.items()):
        top, shown = 2.2 * i, [one for one in lane if one.end_us > start_us and one.start_us < end]
        idle = gaps(lane) / span(lane)
        what = f"{len(lane)} in {span(lane):,.0f} µs, nothing runs in {idle:.0%} of it" if len(lane) > 1 else (
            f"1 in {span(lane):,.0f} µs"
        )  # fmt: skip
        titles.append(f"{name}: {what}")
        text(axes, left, top + 0.45, titles[-1], 11, ha="left")
        axes.plot([left, left + width], [top + 1.9] * 2, color=GREY, linewidth=0.8)
        for at in {one.launched_us for one in shown if one.launched_us is not None and one.launched_us >= start_us}:
            x = left + (at - start_us) * scale
            axes.plot([x, x], [top + 0.78, top + 0.95], color=INK, linewidth=0.8)
        for one in shown:
            kind, _, extra = (one.label or "other").partition(",")
            kinds.append(kind)
            first, last = max(one.start_us, start_us), min(one.end_us, end)
            x, height = left + (first - start_us) * scale, 0.45 if extra else 0.9
            box = {"facecolor": COLOURS.get(kind, _OTHER), "edgecolor": "white", "linewidth": 0.2}
            axes.bar(x, -height, (last - first) * scale, bottom=top + 1.9, align="edge", **box)
    base = 2.2 * len(lanes) + 0.1
    for k in range(5):
        x = left + width * k / 4
        axes.plot([x, x], [base - 0.1, base + 0.1], color=GREY, linewidth=1)
        moment = f"{start_us + (end - start_us) * k / 4:,.0f}" + (" µs" if k == 4 else "")
        text(axes, x, base + 0.4, moment, 10, ha="left" if k == 0 else "right" if k == 4 else "center", color=GREY)
    present = [kind for kind in COLOURS if kind in kinds]
    present += [kind for kind in dict.fromkeys(kinds) if kind not in COLOURS]
    x = left
    for kind in present:
        cell(axes, x, base + 1.15, 0.4, 0.5, COLOURS.get(kind, _OTHER), alpha=1.0)
        text(axes, x + 0.55, base + 1.4, kind, 10, ha="left")
        x += 1.0 + 0.175 * len(kind)
    part = "" if (start_us, end_us) == (0.0, None) else f" Drawn are {start_us:,.0f} to {end:,.0f} µs."
    return Drawing(figure, f"Timelines of what runs, one lane each. {'. '.join(titles)}.{part}")
