"""What notebook 06/15 shows of records in int8 and fp8."""

import pytest

from common.report import eight_bits, results, tables
from common.report.results import Results


def test_without_records_it_says_how_to_make_them(capsys):
    eight_bits.table(Results({}, []))
    eight_bits.fp8(Results({}, []))
    said = capsys.readouterr().out
    assert "`python -m common bench network --precision int8 --save`" in said and "bench fp8 --save" in said


def test_fused_bytes_are_halved_by_codes():
    assert eight_bits.fused_bytes(256, 2) == pytest.approx(2 * eight_bits.fused_bytes(256, 1), rel=0.01)
    shares = eight_bits.shares_of_bytes(results.load(tables.CARD))
    assert all(halves < us for us, halves, _ in shares.values())


def test_the_times_of_int8_stand_beside_those_of_fp16(capsys):
    recorded = results.load(tables.CARD)
    assert {row["batch"] for row in eight_bits.rows(recorded)} >= {32, 256}
    assert all(row["ratio"] > 0 for row in eight_bits.rows(recorded))
    eight_bits.fp8(recorded)
    assert "time of torch-fp8 over torch-fp16" in capsys.readouterr().out
