"""Tables of ladders that a README holds folded."""

import pytest
from report_records import peaks, rung, saved

from common.report import folded, results, tables


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    cases = {"depthwise": [("depthwise 56×56 144", 1, None), ("not measured", 1, None)]}
    monkeypatch.setattr(folded, "CASES", cases)
    monkeypatch.setattr(folded, "EVERY", {})
    return results.load(saved(tmp_path / "card", [*peaks(), rung("naive", 100.0, 1), rung("cudnn", 25.0, 2)]))


def test_each_measured_case_is_a_folded_table(recorded):
    text = folded.ladder(recorded, "depthwise")
    assert text.count("<details>") == text.count("</details>") == 1
    assert "<summary>depthwise 56×56 144, batch 1, fp32 (" in text
    assert "| naive |" in text and "| cuDNN |" in text and "\n\n| rung |" in text


def test_without_records_it_says_so(tmp_path, recorded):
    empty = results.load(saved(tmp_path / "empty", peaks()))
    command = "python -m common bench kernels --operator depthwise --save"
    assert folded.ladder(empty, "depthwise") == f"Not measured yet: `{command}` makes these records."


def test_the_course_has_records_of_every_case():
    recorded = results.load(tables.CARD)
    for name, cases in folded.CASES.items():
        text = folded.ladder(recorded, name)
        assert all(f"<summary>{case}, batch {batch}, " in text for case, batch, _ in cases), name
    assert "geometric mean" in folded.ladder(recorded, "pointwise")
