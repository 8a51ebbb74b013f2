"""Tables of records that docs/ladders.md holds folded: the rungs of a ladder, case by case.

ladder(recorded, "conv2d")     Markdown: a folded part per case, with the table that ladders.table shows
names()                        of the ladders that have such tables
"""

import functools
import math
from collections.abc import Callable, Sequence

from . import ladders, results, tables
from .results import Record, Results

PRECISIONS = ("fp32", "fp16")
STEM = "stem 224×224 3>32 stride 2"
# by ladder: (case, batch, operator as in `ladders.chosen`)
CASES: dict[str, list[tuple[str, int, str | None]]] = {
    "global_avg_pool": [("pool 7×7 1280", batch, None) for batch in (1, 32, 256)],
    "gemm": [
        ("gemm 4096×4096×4096", 1, None), *(("linear 1280>1000", batch, None) for batch in (1, 32, 256)),
    ],
    "conv2d": [
        *((STEM, batch, None) for batch in (1, 32, 256)),
        *((f"conv 3×3 {shape}", batch, "conv2d") for shape in ("56×56 64>64", "7×7 512>512") for batch in (1, 32)),
    ],
    "pointwise": [
        ("expand 112×112 16>96", 256, None), ("project 7×7 960>320", 32, None),
        ("project 7×7 960>160 +residual", 1, None),
    ],
    "depthwise": [
        ("depthwise 112×112 32", 256, None), ("depthwise 56×56 144", 256, None),
        ("depthwise 14×14 576 stride 2", 1, None),
    ],
    "depthwise_backward_input": [("depthwise backward input 56×56 144", 32, None)],
    "depthwise_backward_weight": [("depthwise backward weight 56×56 144", 32, None)],
    "winograd": [
        *((f"conv 3×3 {shape}", batch, None)
          for shape in ("56×56 64>64", "28×28 128>128", "14×14 256>256", "7×7 512>512") for batch in (1, 32)),
    ],
    "inverted_residual": [
        *((f"inverted residual {block}", 1, None)
          for block in ("56×56 24>144>24 +residual", "14×14 64>384>64 +residual", "7×7 160>960>160 +residual")),
    ],
}  # fmt: skip
BATCHES = (1, 32, 256)
# ladders with a table of all their layers, by what their layers are called there
EVERY = {
    "pointwise": "pointwise layer", "depthwise": "depthwise layer",
    "depthwise_backward_input": "gradient to the input", "depthwise_backward_weight": "gradient to the weight",
}  # fmt: skip


def texts() -> dict[str, Callable[[], str]]:
    """The functions that generate the tables, by the name in their markers."""
    recorded = results.load(tables.CARD)
    return {f"ladder-{name}": functools.partial(ladder, recorded, name) for name in CASES}


def ladder(recorded: Results, name: str) -> str:
    """The recorded rungs of a ladder in Markdown: a folded part per case, and for some one with all layers."""
    parts = [
        _case(recorded, case, batch, precision, operator)
        for case, batch, operator in CASES[name] for precision in PRECISIONS
    ]  # fmt: skip
    if name in EVERY:
        parts.append(_layers(recorded, name))
    command = f"`python -m common bench kernels --operator {name} --save`"
    return (
        "\n\n".join(part for part in parts if part) or f"{tables.NOT_YET.capitalize()}: {command} makes these records."
    )


def _case(recorded: Results, case: str, batch: int, precision: str, operator: str | None) -> str:
    records = ladders.chosen(recorded, case, batch, precision, operator=operator)
    if not records:
        return ""
    title, heads, rows = ladders.titled(recorded, records, f"{case}, batch {batch}, {precision}")
    return tables.fold(title, tables.markdown(heads, rows, heads.index("µs")))


def _layers(recorded: Results, name: str) -> str:
    """A table of all layers of an operator: the library's time over the fastest rung's, by batch and precision.

    Batches that are not recorded for every layer are left out.
    """
    found = [r for r in results.find(recorded, suite="kernels", operator=name) if "/" not in r["implementation"]]
    cases = list(dict.fromkeys(r["case"] for r in found))
    columns = [(precision, batch) for precision in PRECISIONS for batch in BATCHES]
    ratios = {column: [_ratio(recorded, case, *column) for case in cases] for column in columns}
    columns = [column for column in columns if None not in ratios[column]]
    ratios = {column: ratios[column] for column in columns}
    if not cases or not columns:
        return ""
    rows = [[case, *(f"{ratios[column][i]:.2f}" for column in columns)] for i, case in enumerate(cases)]
    means = [math.exp(sum(math.log(ratio or 1.0) for ratio in column) / len(cases)) for column in ratios.values()]
    rows.append(["geometric mean", *(f"{mean:.2f}" for mean in means)])
    heads = ["layer", *(f"{precision}, batch {batch}" for precision, batch in columns)]
    summary = f"every {EVERY[name]}: the faster library's time over the fastest rung's, each shape once"
    return tables.fold(summary, tables.markdown(heads, rows, 1))


def _ratio(recorded: Results, case: str, precision: str, batch: int) -> float | None:
    found = results.find(recorded, suite="kernels", case=case, batch=batch, precision=precision)

    def least(those: Sequence[Record]) -> float | None:
        return min((r["median_us"] for r in those), default=None)

    own = least([r for r in found if r["implementation"] not in tables.LIBRARIES and "/" not in r["implementation"]])
    peer = least([r for r in found if r["implementation"] in tables.LIBRARIES])
    return None if own is None or peer is None else peer / own
