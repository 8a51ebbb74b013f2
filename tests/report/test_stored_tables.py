"""Tables of a ladder that notebooks store say what the results file says."""

import json
import re
from pathlib import Path

import pytest

from common.report import ladders, results, tables

REPOSITORY = Path(__file__).resolve().parents[2]
TITLE = re.compile(
    r"\*\*(?P<case>.+), batch (?P<batch>\d+), (?P<precision>fp32|fp16)(?:, (?P<layout>NCHW|NHWC))? \(NVIDIA.*\*\*"
    r"\n\n\| rung \|"
)


def stored_tables(notebook: dict) -> list[str]:
    """The tables of ladders among a notebook's stored outputs, in Markdown."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/markdown", ""))
            if TITLE.match(text):
                found.append(text)
    return found


def recorded_tables(text: str) -> list[str]:
    """What `ladders.table` shows now for the case in a stored table's title, for each operator that computes it."""
    found = TITLE.match(text)
    case, batch, precision, layout = found["case"], int(found["batch"]), found["precision"], found["layout"]
    recorded = results.load(tables.CARD)
    operators = {r["operator"] for r in results.find(recorded, suite="kernels", case=case)}
    shown = []
    for operator in (None, *sorted(operators)):
        records = ladders.chosen(recorded, case, batch, precision, layout, operator)
        if records:
            words = f"{case}, batch {batch}, {precision}{f', {layout}' if layout else ''}"
            title, heads, rows = ladders.titled(recorded, records, words, "registers" in text)
            shown.append(f"**{title}**\n\n{tables.markdown(heads, rows, heads.index('µs'))}")
    return shown


TABLES = [
    pytest.param(text, id=f"{path.stem}-{i}")
    for path in sorted(REPOSITORY.glob("[0-9][0-9]_*/*.ipynb"))
    for i, text in enumerate(stored_tables(json.loads(path.read_text(encoding="utf-8"))))
]


@pytest.mark.parametrize("text", TABLES)
def test_a_stored_table_is_that_of_the_results(text):
    assert text in recorded_tables(text), "stale: execute the notebook again"


def test_a_stale_table_is_seen():
    text = next(param.values[0] for param in TABLES)
    last = re.findall(r"\d\.\d\d", text)[-1]
    assert text.replace(last, "9.99") not in recorded_tables(text)
