import math
import random

from common.check import require


def check(fastest_right):
    def row(name, us, error=1e-6, arithmetic="fp32", same_top5=32, images=32):
        names = "name", "arithmetic", "us", "error", "same_top5", "images"
        return dict(zip(names, (name, arithmetic, us, error, same_top5, images), strict=True))

    def compare(rows, want, hint, what, arithmetic="fp32", allowed=1e-5):
        got = fastest_right(rows, arithmetic, allowed)
        require(got == want, what=f"fastest_right of {what} is {got!r}, expected {want!r}", hint=hint)

    slow, fast = row("slow", 900.0), row("fast", 300.0)
    hint = "give back the name of the row with the least time"
    compare([slow, fast, row("middle", 500.0)], "fast", hint, "three right rows")
    hint = "other arithmetics compute something else: choose among the rows of this one"
    compare([slow, row("tensor cores", 90.0, arithmetic="tf32")], "slow", hint, "rows in fp32 and tf32")
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
    hint = "what is allowed depends on the arithmetic, and is given"
    half = [row("a", 90.0, 3e-3, "fp16"), row("b", 80.0, 7e-3, "fp16")]
    compare(half, "a", hint, "rows in fp16 with 5e-3 allowed", "fp16", 5e-3)
    compare([row("wrong", 90.0, 1.0)], None, "None where no row is right", "one wrong row")
    compare([], None, "None where there are no rows", "no rows")

    draw = random.Random()
    for _ in range(20):
        rows = [
            row(f"r{i}", draw.uniform(1, 99), draw.choice([1e-7, 9e-6, 1e-3, math.nan]), draw.choice(["fp32", "tf32"]))
            for i in range(draw.randint(1, 9))
        ]
        fit = [r for r in rows if r["arithmetic"] == "fp32" and r["error"] <= 1e-5]
        want = min(fit, key=lambda r: r["us"])["name"] if fit else None
        compare(rows, want, "any rows in any order", f"{len(rows)} random rows")
