"""Tables of many pictures and of the service, from records made up here."""

from common.bench import pipeline
from common.report import results, stages

RUN = {"card": "NVIDIA H200", "date": "2026-01-02"}


def recorded(*records):
    kept = [{"run": "r", "implementation": "ours", "precision": "fp16", "batch": 256, **r} for r in records]
    return results.Results({"r": RUN}, kept)


def stage(case, rate, **more):
    return {"suite": "pipeline", "case": case, "stage": "decode", "pictures_per_s": rate, **more}


def test_nothing_is_measured_yet():
    nothing = recorded()
    assert stages.pictures(nothing) == stages.service(nothing) == stages.NOT_YET
    assert stages.several(nothing) == stages.ALONE


def test_a_row_per_stage_and_a_column_per_precision():
    text = stages.pictures(
        recorded(
            stage("decode, 1 threads", 300.4, threads=1),
            stage("decode, 8 threads", 1200.0, threads=8, precision="fp32"),
            stage("decode on the GPU", 15000.0, pixels_off=1.49, pixels_off_most=20),
        )
    )
    assert "NVIDIA H200, 2026-01-02, a machine with 8 cores" in text
    assert "| pictures per second | fp16, batch 256 | fp32, batch 256 |" in text
    assert "| decode, 1 thread | 300 | – |" in text and "| decode, 8 threads | – | 1,200 |" in text
    assert "by 1.5 of 255 on average, by 20 at most" in text


def test_lanes_have_the_first_batches_of_each_way():
    def box(way, what, number, start, us):
        slot = {"copies": way, "number": number, "start_us": start, "us": us}
        return {"suite": "pipeline", "case": f"{way} {what} {number}", "stage": what, **slot}

    kinds = (("copy", 0, 1.0), ("compute", 1.0, 2.0))
    in_turn = [box("in turn", what, i, 4.0 * i + start, us) for i in range(2) for what, start, us in kinds]
    overlapped = [box("overlapped", what, i, 2.0 * i + start, us) for i in range(2) for what, start, us in kinds]
    found = recorded(*in_turn, *overlapped, box("decoded on the GPU", "copy", 0, 0.0, 9.0))
    assert stages.lanes(found, "fp16", 1)["in turn"] == [("copy", 0, 0.0, 1.0), ("compute", 0, 1.0, 3.0)]


def test_the_time_before_the_next_copy_is_from_the_end_of_the_batch_whose_buffer_it_fills():
    def interval(what, number, start, us, way="overlapped"):
        slot = {"copies": way, "number": number, "start_us": start, "us": us}
        return {"suite": "pipeline", "case": f"{way} {what} {number}", "stage": what, **slot}

    waits = [interval("wait", i, 20.0 * i + 10, 5.0) for i in range(4)]  # done at 15, 35, 55, 75
    copies = [interval("copy", i, start, 1.0) for i, start in enumerate((0.0, 1.0, 18.0, 40.0))]
    others = [interval("wait", 0, 0.0, 1.0, "in turn"), interval("copy", 2, 90.0, 1.0, "in turn")]
    assert stages.hosts(recorded(*waits, *copies, *others), "fp16") == [3.0, 5.0]


def test_the_files_are_those_of_the_suite():
    height, width = pipeline.SIDES
    assert f"{width} × {height}" == stages.SIDES


def test_several_gpus_have_an_efficiency_and_one_alone_has_none():
    def scaled(gpus, rate, source="decoded", **more):
        keys = {"case": f"{source}, {gpus}", "source": source, "gpus": gpus, "pictures_per_s": rate}
        return {"suite": "scaling", **keys, **more}

    alone = scaled(1, 1000.0)
    text = stages.several(recorded(alone))
    assert text.startswith(stages.ALONE) and "| decoded already, 1 | fp16 | 1,000 |" in text and "NVIDIA H200" in text
    text = stages.several(recorded(alone, scaled(1, 9.0, "disk"), scaled(2, 1960.0, efficiency=0.98)))
    assert (
        "| decoded already, 1 | fp16 | 1,000 | – |\n| decoded already, 2 | fp16 | 1,960 | 0.98 |\n| disk, 1 |" in text
    )
    assert "oo high" not in text
    text = stages.several(recorded(scaled(1, 9.0, "disk, JPEG decoded on the CPU, on Ray"), scaled(1, 8.0, "disk")))
    assert "on Ray, 1 | fp16 | 9 (too high) |" in text and "| disk, 1 | fp16 | 8 |" in text
    assert text.endswith(stages.TOO_HIGH)


def test_a_row_per_rate_and_a_dash_where_a_window_has_none():
    def load(window, offered, **more):
        times = {"answered": offered, "p50_ms": 18.2, "p99_ms": 168.6, "requests": int(offered)}
        return {
            "suite": "load",
            "window_ms": window,
            "offered": offered,
            "case": f"{window} {offered}",
            **times,
            **more,
        }

    text = stages.service(recorded(load(0.0, 43.2), load(10.0, 43.2, p50_ms=27.1), load(0.0, 237.4)))
    assert "one run of 43 to 237 requests" in text
    assert "| 43 | 43 | 18, 169 | 43 | 27, 169 |" in text and "| 237 | 237 | 18, 169 | – | – |" in text
