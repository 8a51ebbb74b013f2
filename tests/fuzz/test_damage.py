"""Damaged files of every kind that commands read: read, or refused in one line, in time and within memory."""

import os

import damage
import pytest
from tiers import long, seldom

SEED = int(os.environ["COURSE_SEED"])
KINDS = [name for name, kind in damage.KINDS.items() if kind.cases]


def check(name, seed, cases, folder):
    summary = damage.run(name, seed, cases, folder)
    shown = "\n".join(summary.wrong[:10])
    assert not summary.wrong, f"COURSE_SEED={seed}, {name}: {len(summary.wrong)} of {len(cases)} are wrong\n{shown}"
    return summary


@long
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(name, tmp_path, record_property):
    summary = check(name, SEED, range(damage.KINDS[name].cases), tmp_path)
    record_property("fuzzed", f"{name}: {summary}")
    assert sum(summary.outcomes.values()) == damage.KINDS[name].cases
    assert len(summary.outcomes) > 1  # some are read, some refused


def test_as_many_as_promised():
    assert sum(kind.cases for kind in damage.KINDS.values()) >= 10_000


@pytest.mark.parametrize("name", KINDS)
def test_a_few(name, tmp_path):
    for number in range(2):
        line = damage.attempt(name, 1, number, tmp_path / "case")
        assert not line["wrong"], line


@seldom(3)
def test_faults_of_a_reader_are_noticed(tmp_path):
    """Each is put down to the case that has it, and the cases behind it are read all the same."""
    summary = damage.run("planted", 1, range(len(damage.FAULTS)), tmp_path)
    found = {int(line.split()[2].strip(":")): line.split(": ", 1)[1] for line in summary.wrong}
    wrong = [number for number, fault in enumerate(damage.FAULTS) if fault not in ("none", "refusal")]
    assert sorted(found) == wrong
    assert summary.outcomes == {"read": 4, "ValueError": 1, "wrong": len(wrong) - 1}  # "memory" is read as well
    expected = ("SIGABRT", "SIGPROF", "SIGALRM", "MiB", "raised KeyError", "expected one printable line")
    assert all(part in found[number] for part, number in zip(expected, wrong, strict=True))
