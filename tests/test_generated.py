"""Tables and sentences made from results files are those of the committed files; how they are made, tried out."""

import copy
import json

import pytest

from common.measure import confirm, generated, results


def test_the_table_of_chapter_04_is_that_of_the_results_file():
    shown = generated.between(confirm.README.read_text(encoding="utf-8"), "trace")
    assert shown == confirm.table(), "stale: python -m common.measure.confirm --write"


@pytest.fixture
def content():
    return json.loads(results.path_of("NVIDIA H200").read_text())


def written(tmp_path, content):
    path = tmp_path / "card.json"
    path.write_text(json.dumps(content))
    return path


def launches(content):
    return {record["case"]: record for record in content["records"] if "measured" in record}


def test_other_numbers_give_another_table(tmp_path, content):
    before = confirm.table(written(tmp_path, content))
    assert before == confirm.table()
    other = copy.deepcopy(content)
    for side in ("predicted", "measured"):
        launches(other)["copy"][side]["global load sectors"] = 4321
    assert "| copy | 4,321 |" in confirm.table(written(tmp_path, other))


def test_a_difference_without_a_reason_is_refused(tmp_path, content):
    launches(content)["copy"]["measured"]["shared store conflicts"] += 1
    with pytest.raises(ValueError, match="copy: 0 shared store conflicts traced, 1 measured, and no reason is given"):
        confirm.table(written(tmp_path, content))


def test_card_date_and_profiler_are_those_of_the_run(tmp_path, content):
    (run,) = {record["run"] for record in content["records"] if record["suite"] == "trace"}
    content["runs"][run].update(card="NVIDIA T4", date="2031-02-03", ncu="Version 2031.9.8.0 (build 1)")
    first = confirm.table(written(tmp_path, content)).splitlines()[0]
    assert first.startswith("NVIDIA T4, 2031-02-03, Nsight Compute (`ncu`) 2031.9.8: in ")


def test_every_reason_is_needed(content):
    different = {(case, count) for case, record in launches(content).items() for count in confirm.differences(record)}
    assert different == set(confirm.REASONS)


def test_at_least_twelve_launches_and_both_wrong_kernels():
    _, measured, wrong = confirm.comparison()
    assert len(measured) >= 12
    assert {record["case"] for record in wrong} == {f"wrong: {kind}" for kind in confirm.WRONG}
    for record in wrong:
        assert record["trace"] != "nothing" and record["compute-sanitizer"] != "nothing"


def test_the_simulator_still_predicts_what_was_confirmed(content):
    assert confirm.predict() == {case: record["predicted"] for case, record in launches(content).items()}


def test_no_records_no_table(tmp_path):
    with pytest.raises(ValueError, match="holds no records of the suite trace"):
        confirm.table(tmp_path / "missing.json")


TEXT = "a\n<!-- generated: x -->\nold\nlines\n<!-- /generated -->\nb\n<!-- generated: y -->\nz\n<!-- /generated -->\n"


def test_text_between_markers():
    assert generated.between(TEXT, "x") == "old\nlines" and generated.between(TEXT, "y") == "z"
    new = generated.replaced(TEXT, "x", r"n\1ew")
    assert new == TEXT.replace("old\nlines", r"n\1ew")
    for text in ("", TEXT + TEXT):
        with pytest.raises(ValueError, match="expected one"):
            generated.replaced(text, "x", "")
