import math

from common.check import expect
from common.check.trials import Slips, python_random


def fastest(right, largest=False):
    """An answer that takes the fastest row of those that are `right`."""

    def slip(rows, precision, allowed):
        fit = [row for row in rows if right(row, precision, allowed)]
        return (max if largest else min)(fit, key=lambda row: row["us"])["name"] if fit else None

    return slip


SLIPS = {
    "other precisions compute something else: choose among the rows of this one": fastest(
        lambda r, a, e: r["error"] <= e and r["same_top5"] == r["images"]
    ),
    "a wrong result is no result: choose among the rows whose error is at most `allowed`": fastest(
        lambda r, a, e: r["precision"] == a and r["same_top5"] == r["images"]
    ),
    "the same top 5 for all images is the other half of what right means": fastest(
        lambda r, a, e: r["precision"] == a and r["error"] <= e
    ),
    "the least time is the fastest": fastest(
        lambda r, a, e: r["precision"] == a and r["error"] <= e and r["same_top5"] == r["images"], largest=True
    ),
    "the fastest of all may be wrong: first choose the right rows, then the fastest of them": lambda rows, a, e: (
        best["name"]
        if (best := min(rows, key=lambda r: r["us"]))["precision"] == a
        and best["error"] <= e
        and best["same_top5"] == best["images"]
        else None
    ),
}


def check(fastest_right):
    def row(name, us, error=1e-6, precision="fp32", same_top5=32, images=32):
        names = "name", "precision", "us", "error", "same_top5", "images"
        return dict(zip(names, (name, precision, us, error, same_top5, images), strict=True))

    def compare(rows, want, hint, what, precision="fp32", allowed=1e-5):
        arguments = [dict(row) for row in rows], precision, allowed
        got = fastest_right(*arguments)
        if len(rows) < 6:
            what = f"fastest_right({what}: {rows}, {precision!r}, {allowed:g})"
        expect(got if got is not None else "None", want or "None", what=what, hint=slips.hint(got, arguments, hint))

    slips = Slips(SLIPS)
    slow, fast = row("slow", 900.0), row("fast", 300.0)
    hint = "give back the name of the row with the least time"
    compare([slow, fast, row("middle", 500.0)], "fast", hint, "three right rows")
    hint = "other precisions compute something else: choose among the rows of this one"
    compare([slow, row("tensor cores", 90.0, precision="tf32")], "slow", hint, "rows in fp32 and tf32")
    hint = "a wrong result is no result, however fast: choose among the rows whose error is within what is allowed"
    compare([slow, row("wrong", 90.0, 2e-3)], "slow", hint, "a right row and a faster one with an error of 2e-3")
    hint = (
        "NaN is not a small error. Each comparison with NaN is false: ask whether the error is ≤, not whether it is >"
    )
    compare([slow, row("poisoned", 90.0, math.nan)], "slow", hint, "a right row and a faster one whose error is NaN")
    hint = "the same top 5 for all images is the other half of what right means"
    compare([slow, row("other classes", 90.0, same_top5=31)], "slow", hint, "a right row and one with 31 top 5s of 32")
    hint = "at most `allowed`: equal is right"
    compare([slow, row("at the limit", 90.0, 1e-5)], "at the limit", hint, "a row with an error of exactly 1e-5")
    hint = "what is allowed depends on the precision, and is given"
    half = [row("a", 90.0, 3e-3, "fp16"), row("b", 80.0, 7e-3, "fp16")]
    compare(half, "a", hint, "rows in fp16 with 5e-3 allowed", "fp16", 5e-3)
    compare([row("wrong", 90.0, 1.0)], None, "None where no row is right", "one wrong row")
    compare([], None, "None where there are no rows", "no rows")
    hint = "an infinite error is not at most `allowed`"
    compare([slow, row("overflowed", 90.0, math.inf)], "slow", hint, "a right row and one with an infinite error")
    hint = "an error of 0 is the best there is"
    compare([slow, row("exact", 90.0, 0.0)], "exact", hint, "a row without any error")
    compare([slow, row("none alike", 90.0, same_top5=0)], "slow", "0 of 32 alike is wrong", "a row with no top 5 alike")
    hint = "times may be far apart: compare the times themselves"
    compare([row("a", 0.5), row("b", 0.25), row("c", 1e9)], "b", hint, "times below 1 µs and of 1000 s")

    draw = python_random()
    hint = "of the rows in this precision, with an error of at most `allowed` and all top 5s alike, the fastest one"
    for count in (1, 2, 4, 9, 9, 30, 200) * 4:
        images, precision, allowed = (
            draw.choice([1, 7, 32, 5000]),
            draw.choice(["fp32", "fp16"]),
            10.0 ** draw.randint(-7, -2),
        )
        rows = []
        for i in range(count):
            error = draw.choice([0.0, allowed / 3, allowed, allowed * 1.01, 1.0, math.nan, math.inf])
            alike = draw.choice([images, images, images, images - 1, 0])
            name = f"{draw.choice('zyxab')} {i}"
            rows.append(row(name, draw.uniform(1e-3, 1e5), error, draw.choice(["fp32", "tf32", "fp16"]), alike, images))
        fit = [r for r in rows if (r["precision"], r["same_top5"]) == (precision, images) and r["error"] <= allowed]
        want = sorted(fit, key=lambda r: r["us"])[0]["name"] if fit else None
        compare(rows, want, hint, f"fastest_right of {count} rows, {precision}, {allowed:g}", precision, allowed)
