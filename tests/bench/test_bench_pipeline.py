"""The suites pipeline and load on the simulator: what they record, and that it is consistent."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tiers import seldom

from common import images
from common.bench import load, pipeline
from common.many import load as offering
from common.many.labelling import Work
from common.report import results


@pytest.fixture
def task(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "many"))
    from small_task import small_task

    return small_task()


@seldom(6)
def test_every_stage_is_timed_and_its_intervals_lie_in_order(task, rng):
    files = pipeline.synthetic(task, 3, rng)
    assert len({images.decode(io.BytesIO(one)).tobytes() for one in files}) == 3
    records, right = pipeline._measured(Work(task, 4, "fp32"), files, 3)
    assert right
    rates = {r["case"]: r["pictures_per_s"] for r in records if "pictures_per_s" in r}
    cores = os.cpu_count()
    assert {"decode, 1 threads", f"decode, {cores} processes"} < set(rates)
    assert {"copy and compute, in turn", "copy and compute, overlapped"} < set(rates)
    assert all(rate > 0 for rate in rates.values())
    slices = [r for r in records if "us" in r]
    assert {(r["copies"], r["stage"], r["number"]) for r in slices} == {
        (mode, stage, i) for mode in ("in turn", "overlapped") for stage in ("copy", "compute") for i in range(3)
    }
    assert min(r["start_us"] for r in slices) == 0
    for r in records:
        r |= {"suite": "pipeline", "implementation": "ours", "precision": "fp32", "batch": 4}
        assert results._complaints(r) == []


@seldom(6)
def test_a_process_that_does_not_decode_is_an_error(task):
    with pytest.raises(RuntimeError, match="one of 1 processes failed"):
        pipeline._in_processes(Work(task, 2, "fp32").decoder, [], 1)


def test_a_wrong_result_of_overlapping_is_seen(task, rng, monkeypatch):
    monkeypatch.setattr(pipeline, "_decoding", lambda *given: [])
    made = []

    class Wrong(pipeline.Engine):
        def run(self, batches, *log):
            made.append(self)
            for logits in super().run(batches, *log):
                yield logits + (len(made) == 4)

    monkeypatch.setattr(pipeline, "Engine", Wrong)
    records, right = pipeline._measured(Work(task, 2, "fp32"), pipeline.synthetic(task, 2, rng), 2)
    assert records and not right


def test_latencies_of_an_open_load():
    found = offering.Load(rate=10.0, seconds=2.0, latencies_s=np.linspace(0.001, 0.1, 100), refused=1)
    assert found.percentile(50) == pytest.approx(50.5) and found.percentile(99) == pytest.approx(99.01)
    assert found.answered_per_s == 50
    assert found.in_flight == pytest.approx(50 * 0.0505)  # Little's law
    r = load._record(found) | {"precision": "fp32", "batch": 8, "window_ms": 0.0, "case": "x"}
    assert results._complaints(r) == []
    with pytest.raises(ValueError, match="no request was answered"):
        offering.Load(1.0, 1.0, np.array([]), 1).percentile(50)
    with pytest.raises(ValueError, match="must be above 0, got 0, 1 and 1 bodies"):
        offering.offer("http://127.0.0.1:1/", [b""], 0, 1, np.random.default_rng(0))


def test_a_service_that_is_not_there_answers_nothing():
    pytest.importorskip("aiohttp", reason="it comes with ray[serve]")
    found = offering.offer("http://127.0.0.1:9/", [b"x"], 50, 0.2, np.random.default_rng(0))
    assert (len(found.latencies_s), found.refused) == (0, 10)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"windows": (-1.0,)}, "window must be at least 0 ms"),
        ({"rates": (0.0,)}, "rate must be above 0"),
        ({"seconds": 0}, "seconds must be above 0"),
    ],
)
def test_options_of_load_that_do_not_fit(options, says):
    with pytest.raises(ValueError, match=says):
        load.Options(**options)


def test_the_table_of_the_console_has_a_row_per_rate():
    found = offering.Load(10.0, 2.0, np.array([0.01, 0.02]), 0)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(load.driver.table([load._shown(load._record(found))], 0))
    assert "p99 ms" in console.export_text()


@seldom(6)
def test_processes_share_the_pictures_and_more_gpus_have_an_efficiency(task, rng, tmp_path):
    """Two processes on the simulator: what is recorded, not how fast."""
    from common.bench import scaling

    files = pipeline.written(pipeline.synthetic(task, 3, rng), tmp_path, 16)
    cases = [scaling.Case("decoded", ""), scaling.Case("memory", "cpu"), scaling.Case("disk", "cpu")]
    options = scaling.Options(repeats=2, seconds=0.1)
    records = [r for n in (1, 2) for r in scaling._together(Work(task, 4, "fp32"), cases, n, options, files)]
    console = Console(width=120, record=True, file=io.StringIO())
    for r in scaling._finished(records, "fp32", 4, console):
        assert results._complaints(r) == [] and r["pictures_per_s"] > 0
        assert ("efficiency" in r) == (r["gpus"] == 2)
    assert {r["case"] for r in records} == {
        f"{case.name}, {n} GPU{'s' if n > 1 else ''}" for n in (1, 2) for case in cases
    }
    assert "efficiency" in console.export_text()


def test_by_default_a_gpu_has_as_many_batches_as_notebook_16_says():
    from common.bench import scaling

    assert scaling.Options().repeats == 20


def test_a_process_that_fails_is_an_error(task, tmp_path):
    from common.bench import scaling

    options = scaling.Options(repeats=2)
    with pytest.raises(RuntimeError, match="one of 1 processes failed"):
        scaling._together(Work(task, 4, "fp32"), [scaling.Case("disk", "cpu")], 1, options, [str(tmp_path / "none")])


def test_decoding_on_the_gpu_is_recorded_alone_and_with_all_that_follows(task, rng, monkeypatch):
    from common.many import gpu_decoding

    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "many"))
    from test_gpu_decoding import by_pillow

    for module in (pipeline, gpu_decoding):
        monkeypatch.setattr(module, "available", lambda: True)
    monkeypatch.setattr(gpu_decoding, "_torchvision", by_pillow)
    ((records, right),) = pipeline._on_gpu(Work(task, 4, "fp32"), pipeline.synthetic(task, 3, rng), 3)
    rates = {r["case"]: r for r in records if "pictures_per_s" in r}
    assert right and len(rates) == 3 and all("GPU" in r["case"] for r in records)
    assert rates["decode on the GPU"]["pixels_off_most"] == 0  # the decoder is Pillow's here
    older = {"suite": "pipeline", "precision": "fp32", "batch": 4}
    for r in records:
        r |= {"implementation": "ours", **older}
        assert results._complaints(r) == []
    replaces = pipeline.superseded(records)
    assert replaces(older | {"case": "decode on the GPU"}) and not replaces(older | {"case": "decode, 1 threads"})
