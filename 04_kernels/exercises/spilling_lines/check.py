from collections import Counter

from common.check import expect
from common.check.trials import Slips, seeded


def wanted(lines, width=8, kinds=("LDL.", "STL."), times=True):
    found = [
        (line, sum((n if times else 1) * int(k[4:]) // width for k, n in counts.items() if k.startswith(kinds)))
        for line, counts in lines.items()
    ]
    return sorted([pair for pair in found if pair[1]], key=lambda pair: -pair[1])


SLIPS = {
    "the class names the width in bits, and a byte has 8": lambda lines: wanted(lines, width=1),
    "stores count, too: STL": lambda lines: wanted(lines, kinds=("LDL.",)),
    "loads count, too: LDL": lambda lines: wanted(lines, kinds=("STL.",)),
    "a class may occur several times in a line": lambda lines: wanted(lines, times=False),
    "LDG, LDS, STG and STS are not local memory": lambda lines: wanted(lines, kinds=("LD", "ST")),
    "the line with the most bytes comes first": lambda lines: sorted(wanted(lines)),
    "the largest number first, not the smallest": lambda lines: sorted(wanted(lines), key=lambda pair: pair[1]),
}


def check(spilling_lines):
    random, _ = seeded()
    slips = Slips(SLIPS)

    def compare(lines, hint):
        got = spilling_lines({line: Counter(counts) for line, counts in lines.items()})
        got = [tuple(pair) for pair in got] if isinstance(got, list) else got
        hint = slips.hint(got, (lines,), hint)
        expect(got, wanted(lines), what=f"spilling_lines({lines})", hint=hint)

    compare({3: {"FFMA": 64, "STL.32": 1}}, "one store of 32 bits is 4 bytes")
    compare({3: {"FFMA": 64}}, "a line without spills is not in the list")
    compare({3: {"LDL.128": 2, "STL.32": 3, "LDS.128": 9, "STG.32": 1}}, "LDG, LDS, STG and STS are not local memory")
    compare({}, "no lines, no spills")
    for _ in range(20):
        numbers = random.permutation(90)[:6] + 1
        lines = {}
        for order, line in enumerate(numbers):
            counts = {"FFMA": 8, "LDS.128": 2, "STL.32": 7 * order + 1}  # different sums
            if order % 2:
                counts["LDL.64"] = int(random.integers(1, 3))
            lines[int(line)] = counts
        if len({total for _, total in wanted(lines)}) == len(lines):
            compare(lines, "the line with the most bytes comes first")
