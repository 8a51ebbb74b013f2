"""Results: what a record holds, finding one, text tables that bring it back, refusing wrong and damaged ones."""

import copy
import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_records import H200, network, operator, peak, peaks, saved, timing
from tiers import ALL, seldom

from common.measure.roofline import Work
from common.report import pruning, results, schema, tables


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "card"


# ---- A record


def test_what_a_record_holds():
    made = results.record(
        "network", "mobilenetv2-1.0-224", "ours", precision="fp16", arithmetic="tensor cores", batch=8,
        timing=timing(123.456789, "graph", "rotating"), work=Work(1000, 2000), error=1.23456e-4, layout="NHWC",
    )  # fmt: skip
    assert made == {
        "suite": "network", "case": "mobilenetv2-1.0-224", "implementation": "ours", "precision": "fp16",
        "arithmetic": "tensor cores", "batch": 8, "launch": "graph", "mode": "rotating", "median_us": 123.5,
        "p5_us": 111.1, "p95_us": 148.1, "samples": 50, "calls": 10, "bytes": 1000, "flops": 2000, "error": 1.23e-4,
        "layout": "NHWC",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("us", "rounded"),
    [(16597.64, 16600.0), (1234.56, 1235.0), (394.449, 394.4), (12.3456, 12.35), (1.23456, 1.23), (0.456, 0.46)],
)
def test_times_are_rounded_to_four_digits_or_a_hundredth(us, rounded):
    assert results.rounded_us(us) == rounded


@given(st.floats(0.01, 1e8), st.floats(0.01, 1e8))
def test_rounding_keeps_the_order_and_is_harmless(a, b):
    x, y = sorted((a, b))
    assert 0 < results.rounded_us(x) <= results.rounded_us(y)
    assert abs(results.rounded_us(x) - x) <= max(0.005 + 1e-9, 0.0005 * x * 1.01)


def test_a_record_is_plain_json(path):
    made = operator("head", np.float32(12.5), count=np.int64(1).item(), batch=np.int64(4), error=np.float32(1e-6))
    assert json.loads(json.dumps(made)) == made


def test_the_launch_of_a_call_with_a_graph_of_its_own():
    assert network("torch-graph", 500.0, launch="eager")["launch"] == "eager"
    made = results.record(
        "steps", "x", "y", precision="fp32", arithmetic="", batch=1, timing=timing(1.0, "eager"), launch="graph"
    )
    assert made["launch"] == "graph"


# ---- Saving, finding


def test_saved_and_found(path):
    saved(path, [network("ours", 60.0), network("ours", 100.0, batch=8), *peaks()])
    content = results.load(path)
    assert content.runs == {"r1": H200}
    assert len(results.find(content, suite="network")) == 2
    assert results.one(content, suite="network", batch=8)["median_us"] == 100.0
    assert results.find(content, suite="network", layout="NCHW") == []
    assert results.find(content, kind=None) == []  # a key that is not there is not None
    with pytest.raises(ValueError, match="expected one record with suite='network', batch=2, the results hold 0"):
        results.one(content, suite="network", batch=2)
    with pytest.raises(ValueError, match="expected one record with implementation='ours', the results hold 6"):
        results.one(content, implementation="ours")


def test_a_folder_that_is_not_there_is_empty(path):
    assert results.load(path).runs == {} and results.load(path).records == []
    assert results.load(path).frame("network").empty


def test_a_table_is_read_again_when_it_has_changed_and_only_then(path, monkeypatch):
    reads = []
    read = results._text
    monkeypatch.setattr(results, "_text", lambda file: reads.append(file.name) or read(file))
    saved(path, [network("ours", 60.0)], [network("xla", 900.0)])
    reads.clear()
    for _ in range(3):
        content = results.load(path)
        assert [r["median_us"] for r in content.suite("network")] == [60.0, 900.0]
        content.records.clear(), content.suite("network").clear(), content.runs.clear()  # the caller's own
    assert sorted(reads) == ["network.csv", "runs.json"]
    table = path / "network.csv"
    table.write_text(table.read_text(encoding="utf-8").replace(",60.0,", ",61.5,"), encoding="utf-8")
    assert [r["median_us"] for r in results.load(path).records] == [61.5, 900.0]
    table.unlink()
    assert results.load(path).records == []


def test_layout_and_launch_tell_records_apart(path):
    variants = [network("ours", 60.0), network("ours", 70.0, layout="NCHW"), network("ours", 80.0, launch="eager")]
    saved(path, variants)
    assert [r["median_us"] for r in results.load(path).records] == [60.0, 70.0, 80.0]


def test_a_new_run_replaces_and_remembers(path):
    saved(path, [network("ours", 60.0), network("xla", 900.0)], [network("ours", 63.0)])
    content = results.load(path)
    ours, xla = results.one(content, implementation="ours"), results.one(content, implementation="xla")
    assert (ours["run"], ours["median_us"]) == ("r2", 63.0)
    assert (ours["previous_run"], ours["previous_median_us"]) == ("r1", 60.0)
    assert "previous_run" not in xla
    saved(path, [network("ours", 61.0)])  # r1 again, under its old name
    ours = results.one(results.load(path), implementation="ours")
    assert (ours["run"], ours["previous_run"], ours["previous_median_us"]) == ("r1", "r2", 63.0)


def test_a_run_saved_twice_does_not_repeat_itself(path):
    saved(path, [network("ours", 60.0)], [network("ours", 63.0)])
    results.save(path, "r2", H200, [network("ours", 62.0)])
    ours = results.one(results.load(path), implementation="ours")
    assert (ours["median_us"], ours["previous_run"], ours["previous_median_us"]) == (62.0, "r1", 60.0)


def test_what_is_superseded_goes_though_nothing_measures_it_anew(path):
    results.save(path, "r1", H200, [network("ours", 60.0), network("ours", 70.0, batch=8), network("xla", 80.0)])
    results.save(path, "r2", H200, [network("ours", 50.0)], lambda r: r["implementation"] == "ours")
    found = [(r["implementation"], r["batch"], r["median_us"]) for r in results.load(path).records]
    assert found == [("xla", 1, 80.0), ("ours", 1, 50.0)]
    assert results.load(path).records[1]["previous_median_us"] == 60.0


def test_runs_that_nobody_names_any_more_are_dropped(path):
    first, second, third = [network("ours", 60.0)], [network("ours", 61.0)], [network("ours", 62.0)]
    saved(path, first, second, third)
    assert list(results.load(path).runs) == ["r2", "r3"]


def test_environments_of_records_newest_first(path):
    older, newer = H200 | {"date": "2031-01-01"}, H200 | {"date": "2031-02-02"}
    saved(path, (newer, [network("ours", 1.0)]), (older, [network("xla", 1.0)]), (older, peaks()))
    content = results.load(path)
    dates = [run["date"] for run in results.runs(content, results.find(content, suite="network"))]
    assert dates == ["2031-02-02", "2031-01-01"]


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@seldom(6)
def test_the_recorded_results_saved_again_stay_as_they_are(tmp_path):
    folder, copied = results.path_of("NVIDIA H200"), tmp_path / "card"
    shutil.copytree(folder, copied)
    content = results.load(folder)
    run = content.suite("sparse")[-1]["run"]
    records = [{k: v for k, v in r.items() if k != "run"} for r in content if r["run"] == run]
    results.save(copied, run, content.runs[run], records)
    again = results.load(copied)
    assert again.runs == content.runs
    for suite in results.SUITES:
        before, after = content.suite(suite), again.suite(suite)
        assert sorted(map(repr, map(sorted_items, before))) == sorted(map(repr, map(sorted_items, after)))


def sorted_items(record):
    return sorted(record.items())


def test_the_same_records_are_the_same_bytes(tmp_path):
    records = [network("ours", 60.0, note="a"), operator("head", 3.0), *peaks()]
    results.save(tmp_path / "a", "r1", H200, records)
    results.save(tmp_path / "b", "r1", H200, [dict(reversed(r.items())) for r in records])
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert set(files(tmp_path / "a")) == {"runs.json", "network.csv", "operators.csv", "peaks.csv"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
AWKWARD = ["", "null", "1", "-0", "1e5", "007", "NaN", "[", "{}", '"', "a,b", "a\nb", "a\r", " 1", "\x85"]
TEXTS = st.text() | st.sampled_from(AWKWARD)


@seldom(6)
@given(
    st.lists(
        st.dictionaries(st.from_regex("[a-z]{3}_[a-z ]{1,4}", fullmatch=True), TEXTS | JSON), min_size=1, max_size=4
    )
)
def test_what_is_saved_comes_back_with_its_types(tmp_path_factory, more):
    """repr tells 1 from 1.0 and from True."""
    folder = tmp_path_factory.mktemp("results")
    records = [network("ours", 60.0, batch=i) | m for i, m in enumerate(more, 1)]
    results.save(folder, "r1", H200 | {"watch": more}, records)
    content = results.load(folder)
    assert repr(content.runs) == repr({"r1": H200 | {"watch": more}})
    want = [sorted_items({"run": "r1", **r}) for r in records]
    assert repr([sorted_items(r) for r in content.suite("network")]) == repr(want)
    lines = [path.read_text(encoding="utf-8").splitlines() for path in folder.glob("network.csv")]
    assert all(len(found) == 1 + len(records) for found in lines), "a line a record"


def test_a_frame_has_a_row_for_each_record(path):
    saved(path, [network("ours", 60.0), network("ours", 100.0, batch=8), *peaks()])
    frame = results.load(path).frame("network")
    assert frame.groupby("batch").median_us.min().to_dict() == {1: 60.0, 8: 100.0}
    read = pandas.read_csv(path / "network.csv")
    assert read.median_us.tolist() == frame.median_us.tolist() and read.bytes.tolist() == [10**7, 10**7]
    with pytest.raises(ValueError, match=r"suite must be one of network, operators, .*, got 'networks'"):
        results.load(path).frame("networks")


def test_pandas_is_imported_for_frames_only():
    code = "import sys, common.report.tables; from common.report import results; results.load('NVIDIA H200').records; "
    subprocess.run([sys.executable, "-c", code + "assert 'pandas' not in sys.modules"], check=True)


# ---- Where


def test_results_are_those_of_the_checkout_one_works_in(tmp_path, monkeypatch):
    (tmp_path / "06_optimize" / "results").mkdir(parents=True)
    below = tmp_path / "03_cudnn_baseline" / "exercises"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert results.course() == tmp_path
    assert results.path_of("NVIDIA H200") == tmp_path / "06_optimize" / "results" / "nvidia-h200"
    assert results.path_of("NVIDIA H200", below) == below / "nvidia-h200"


def test_an_installed_package_has_no_results(tmp_path, monkeypatch):
    installed = tmp_path / "site-packages" / "common" / "report"
    installed.mkdir(parents=True)
    monkeypatch.setattr(results, "__file__", str(installed / "results.py"))
    monkeypatch.chdir(tmp_path)
    for call in (results.course, lambda: results.path_of("NVIDIA H200"), lambda: results.load("NVIDIA H200")):
        with pytest.raises(FileNotFoundError, match=r"is not in a folder of the course, .* or say --results FOLDER"):
            call()
    assert [p.name for p in tmp_path.rglob("*")] == ["site-packages", "common", "report"]


# ---- Damaged files


DAMAGED = {
    "runs.json": {
        "empty": ("", "line 1: expected a whole line"),
        "text": ("hello\n", "line 1: expected JSON"),
        "cut": ('{\n"r1": {"card": "x",\n', "line 3: expected JSON"),
        "list": ("[]\n", "expected an object of runs"),
        "of numbers": ('{"r1": 3}\n', "expected an object of runs"),
        "no card": ('{"r1": {"date": "2031"}}\n', "expected run 'r1' to have its card, got None"),
        "deep": ("[" * 100_000 + "\n", "line 1: expected JSON"),
        "bytes": (b"\xff\xfe\n", "expected text in UTF-8"),
    },
    "network.csv": {
        "empty": ("", "line 1: expected a whole line"),
        "names": ("a,b\n", "line 1: expected names of columns"),
        "cut": (lambda text: text[:-20], "line 3: expected a whole line"),
        "cells": (lambda text: text.replace(",ours,", ",ours,1,"), r"line 2: expected \d+ cells, got \d+"),
        "number": (lambda text: text.replace("60.0", "6O.0"), "line 2: median_us must be a finite number above 0"),
        "missing": (lambda text: text.replace("60.0", ""), "line 2: a record of the suite network has no median_us"),
        "JSON": (lambda text: text.replace("FMA", "[FMA"), "line 2: expected JSON, got '\\[FMA'"),
        "deep": (lambda text: text.replace("FMA", "[" * 100_000), "line 2: "),
        "huge": (lambda text: text.replace("FMA", "x" * 200_000), "line 2: field larger than field limit"),
        "quote": (lambda text: text.replace("FMA", '"FMA'), "line [23]: "),
        "run": (lambda text: text.replace("r1,", "r7,"), "line 2: expected a run of runs.json, got 'r7'"),
        "bytes": (b"\xff\xfe\n", "expected text in UTF-8"),
    },
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in DAMAGED for kind in DAMAGED[name]])
def test_a_damaged_file_is_one_sentence_and_is_not_overwritten(path, name, kind):
    saved(path, [network("ours", 60.0), network("xla", 900.0)])
    change, message = DAMAGED[name][kind]
    made = change((path / name).read_text(encoding="utf-8")) if callable(change) else change
    (path / name).write_bytes(made if isinstance(made, bytes) else made.encode())
    before = files(path)
    for call in (lambda: results.load(path).records, lambda: results.save(path, "r2", H200, [network("ours", 50.0)])):
        with pytest.raises(results.DamagedResults, match=rf"{name}.*: .*{message}|{name}, {message}") as caught:
            call()
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    assert files(path) == before


# ---- Refusing


WRONG = {
    "no layout": (lambda r: r.pop("layout"), "a record of the suite network has no layout"),
    "no error": (lambda r: r.update(error=None), "a record of the suite network has no error"),
    "suite": (lambda r: r.update(suite="networks"), "suite must be one of network, operators, "),
    "precision": (lambda r: r.update(precision="bf16"), "must be one of fp32, tf32, fp16, int8, fp8, got 'bf16'"),
    "layout": (lambda r: r.update(layout="CHWN"), "layout must be one of NCHW, NHWC, got 'CHWN'"),
    "mode": (lambda r: r.update(mode="warm"), "mode must be one of hot, rotating, got 'warm'"),
    "nan": (lambda r: r.update(median_us=math.nan), "median_us must be a finite number above 0, got nan"),
    "infinite": (lambda r: r.update(p95_us=math.inf), "p95_us must be a finite number above 0, got inf"),
    "zero": (lambda r: r.update(p5_us=0.0), "p5_us must be a finite number above 0, got 0.0"),
    "text": (lambda r: r.update(median_us="60"), "median_us must be a finite number above 0, got '60'"),
    "low": (lambda r: r.update(median_us=1.0), "p5_us, median_us and p95_us must ascend, got 54.0, 1.0, 72.0"),
    "high": (lambda r: r.update(p95_us=55.0), "p5_us, median_us and p95_us must ascend, got 54.0, 60.0, 55.0"),
    "bytes": (lambda r: r.update(bytes=-1), "bytes must be a finite number of at least 0, got -1"),
    "error nan": (lambda r: r.update(error=math.nan), "error must be a finite number of at least 0, got nan"),
    "batch": (lambda r: r.update(batch=0), "batch must be an integer of at least 1, got 0"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_record_is_refused_and_nothing_is_written(path, wrong):
    saved(path, [network("xla", 900.0)])
    before = files(path)
    change, message = WRONG[wrong]
    record = network("ours", 60.0)
    change(record)
    with pytest.raises(ValueError) as caught:
        results.save(path, "r2", H200, [network("cudnn", 400.0), record])
    assert message in str(caught.value) and "mobilenetv2-1.0-224" in str(caught.value)
    assert files(path) == before


def test_other_suites_have_other_keys(path):
    for key in ("kind", "shape", "count", "flops"):
        record = operator("head", 3.0)
        record[key] = None
        with pytest.raises(ValueError, match=f"suite operators has no {key}"):
            results.save(path, "r1", H200, [record])
    for suite in results.SUITES:
        with pytest.raises(ValueError, match=f"a record of the suite {suite} has no implementation"):
            results.save(path, "r1", H200, [{"suite": suite, "case": "x", "implementation": None}])
    assert not path.exists()


def test_the_same_measurement_twice_is_refused(path):
    with pytest.raises(ValueError, match=r"record network, .*, ours, .*: measured twice in one run"):
        results.save(path, "r1", H200, [network("ours", 60.0), network("ours", 61.0)])


@pytest.mark.parametrize("key", ["card", "date"])
def test_a_run_without_a_card_or_a_date_is_refused(path, key):
    with pytest.raises(ValueError, match=f"environment of run 'r1' must say its {key}, got None"):
        results.save(path, "r1", {k: v for k, v in H200.items() if k != key}, [network("ours", 60.0)])


def test_what_is_no_json_leaves_the_file_as_it_was(path):
    saved(path, [network("xla", 900.0)])
    before = files(path)
    for bad, error in ((np.float32(1), TypeError), (math.inf, ValueError)):
        with pytest.raises(error):
            results.save(path, "r2", copy.copy(H200) | {"power_w": bad}, [network("ours", 60.0)])
        assert files(path) == before


def test_a_file_like_any_other(path):
    saved(path, [network("xla", 900.0)])
    (other := path / "other").write_text("")
    assert {file.stat().st_mode for file in path.iterdir()} == {other.stat().st_mode}


def damaged(rng, content):
    """A file's bytes after one of the things that happen to files: bits, cuts, copies, strange bytes, depth."""
    made, i = bytearray(content), rng.integers(len(content))
    match rng.integers(6):
        case 0:
            made[i] ^= 1 << rng.integers(8)
        case 1:
            del made[i : i + rng.choice([1, 5, 100, 10**6])]
        case 2:
            made[i:i] = made[i : i + 200]
        case 3:
            j = rng.integers(len(made))
            made[i], made[j] = made[j], made[i]
        case 4:
            made[i:i] = rng.choice([b"\x00", b'"', b"\n", b",", b"{", b"\xff", b"NaN", b"1e999"])
        case 5:
            made[i:i] = b"[" * 50_000
    return bytes(made)


@seldom(6)
def test_whatever_happens_to_a_file_is_read_or_one_sentence(rng, tmp_path):
    """Also when tables are made of what could be read."""
    folder = results.path_of("NVIDIA H200")
    names = ("runs.json", "network.csv", "energy.csv", "peaks.csv", "trace.csv", "steps.csv", "plans.csv")
    original = {name: (folder / name).read_bytes() for name in names}
    for name, content in original.items():
        (tmp_path / name).write_bytes(content)
    refused = 0
    for _ in range(2500 if ALL else 150):
        name = names[rng.integers(len(names))]
        (tmp_path / name).write_bytes(damaged(rng, original[name]))
        try:
            recorded = results.load(tmp_path)
            assert recorded.records
            for text in tables.TEXTS.values():
                assert text(recorded)
        except results.DamagedResults as error:
            refused += 1
            assert name in str(error) and "\n" not in str(error) and len(str(error)) < 500
        except ValueError as error:
            assert str(error)
        (tmp_path / name).write_bytes(original[name])
    assert refused > 50


# ---- What is kept, and what it means


def sparse(implementation, us_at, **more):
    shared = {
        "suite": "sparse", "case": "x", "precision": "fp32", "batch": 1, "kind": "given", "label": "synthetic",
        "shape": "14×14 8>8 1×1", "sparsity": 0.5, "pattern": "elements",
    }  # fmt: skip
    return shared | {"implementation": implementation, "us_at": us_at} | more


def test_runners_up_that_are_nowhere_ahead_are_not_kept():
    first = sparse("cudnn", {"0": 9.0, "0.5": 10.0})
    behind, ahead = sparse("cudnn-2nd", {"0.5": 10.0}), sparse("cudnn-3rd", {"0.5": 9.9})
    elsewhere = sparse("cudnn-2nd", {"0.5": 10.0}, batch=2)  # whose first is not there
    assert pruning.pruned([first, behind, ahead, elsewhere]) == [first, ahead, elsewhere]
    table = [r | {"shape": "14×14 1024>256 1×1"} for r in (first, behind)]  # whose table has all three plans
    assert pruning.pruned(table) == table and pruning.pruned([r | {"precision": "fp16"} for r in table]) != table


@pytest.mark.parametrize("implementation", ["sparse/ballot", "cudnn", "ours"])
def test_what_plan_ran_is_not_kept(implementation):
    (kept,) = pruning.pruned([sparse(implementation, {"0": 9.0}, plan="engine 7")])
    assert "plan" not in kept and kept["us_at"] == {"0": 9.0}
    counted = {"suite": "sparse", "implementation": "activations", "kind": "activations", "plan": "x"}
    assert pruning.pruned([counted]) == [counted]


def test_of_ours_the_program_of_the_newest_day_is_kept():
    def timed(run, us, **more):
        return {**network("ours", us), "run": run, **more}

    old, new = timed("2031-02-03-network-a", 9.0, arithmetic="3xtf32"), timed("2031-03-04-network-b", 7.0)
    same_day, turned = timed("2031-03-04-network-a", 8.0, layout="NCHW"), timed("2031-01-01-x", 8.0, mode="rotating")
    library = {**network("cudnn", 5.0), "run": "2031-01-01-network-a"}
    assert pruning.pruned([old, same_day, turned, library, new]) == [same_day, turned, library, new]
    assert pruning.pruned([old, turned]) == [old, turned]


def test_the_store_is_as_small_as_the_rules_make_it():
    for recorded in results.every():
        assert pruning.pruned(recorded.records) == recorded.records, "python -m common bench SUITE --save prunes"
    for path in (results.course() / "06_optimize" / "results").rglob("*.csv"):
        assert path.stat().st_size < pruning.LARGEST, f"{path.name} is too large: add a rule to pruning.py"


def test_every_column_of_every_table_is_described():
    for recorded in results.every():
        for suite in results.SUITES:
            columns = {key for r in recorded.suite(suite) for key in r} - {"suite"}
            assert columns <= set(schema.COLUMNS), f"{suite}: describe {columns - set(schema.COLUMNS)} in schema.py"


def test_every_suite_and_every_column_that_one_demands_is_described():
    assert set(schema.RECORDS) == set(results.SUITES)
    demanded = {key for keys in results.SUITES.values() for key in keys} | set(results._SPARSE)
    assert not demanded - set(schema.COLUMNS)
    assert not {key for keys, _, _ in results.RULES for key in keys} - set(schema.COLUMNS)


def test_rates_by_size_are_checked(tmp_path):
    for wrong in ({"8192": {}}, {"8192": {"tera": 0}}, {"8192": 3}):
        with pytest.raises(ValueError, match="by_size must be rates above 0, by size"):
            saved(tmp_path, [peak("copy", 10.0, bytes=5) | {"by_size": wrong}])
