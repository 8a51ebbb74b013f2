"""Timelines of host and GPU."""

from .canvas import BLUE, DARK_RED, GREY, ORANGE, Drawing, canvas, cell, positive, text


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
