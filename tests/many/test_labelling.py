"""python -m common label in one process: rows, parts that are kept, faults; and the engine below it."""

import contextlib
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from small_task import SIZE, draw_pictures, small_task
from tiers import long, seldom

from common import classify, cuda, images, weights
from common.classify import best
from common.commands.errors import explanation
from common.many import cluster, engine, labelling, parts
from common.network import Network

ROOT = Path(__file__).parents[2]
BATCH = 8


@pytest.fixture(scope="module")
def task():
    return small_task()


@pytest.fixture
def pictures(tmp_path, rng):
    """21 pictures; the 4th is damaged, the 9th is no picture, the 14th is gone when it is read."""
    folder = draw_pictures(tmp_path / "in", 21, rng)
    damaged = folder / "00003.png"
    damaged.write_bytes(damaged.read_bytes()[:300])
    (folder / "00008.png").write_text("not a picture")
    (folder / "00013.png").unlink()
    (folder / "00013.png").symlink_to(folder / "nowhere")
    return folder


BROKEN = {3: "broken image", 8: "not an image", 13: "no such file or directory"}


def label(task, folder, out, **options):
    return labelling.label([str(folder)], out, task, **{"batch": BATCH} | options)


def counting(log):
    """A way to label that writes into `log` which pictures it was given."""

    def way(work, given):
        log.extend(first for part in given for first, _ in part)
        return labelling.in_this_process(work, given)

    return way


class Ended(Exception):
    pass


def ending_after(batches):
    """A way to label that ends with an error after so many batches, the last ones first."""

    def way(work, given):
        done = labelling.in_this_process(work, given[::-1])
        for _ in range(batches):
            yield next(done)
        raise Ended

    return way


# Rows


def test_a_row_per_picture_with_the_networks_class_or_the_reason(task, pictures, tmp_path):
    out = tmp_path / "out.parquet"
    done = label(task, pictures, out)
    assert (done.pictures, done.computed, done.unread, done.changed) == (21, 21, 3, None)
    rows = pq.read_table(out)
    assert rows.schema.equals(parts.SCHEMA, check_metadata=False)
    network = Network(task.model)
    for i, row in enumerate(rows.to_pylist()):
        assert row["path"] == str(pictures / f"{i:05}.png")
        if i in BROKEN:
            assert row["error"].startswith(BROKEN[i]) and row["class"] is row["score"] is row["label"] is None
        else:
            ((index, p),) = best(cuda.asnumpy(network(task.prepare(row["path"]))), 1)
            assert row["class"] == index and row["score"] == pytest.approx(p, rel=1e-4) and row["error"] is None
    assert not parts.folder_of(out).exists()


def test_digits_are_read_and_have_labels(tmp_path):
    split = weights.digits_split()
    for i in range(8):
        picture = Image.fromarray(classify.as_grey(split.test_images[i])).resize((160, 160), Image.Resampling.BICUBIC)
        canvas = Image.new("L", (200, 200), 255)
        canvas.paste(picture, (20, 20))
        canvas.save(tmp_path / f"{i}.png")
    label(classify.task("digits"), tmp_path, tmp_path / "out.parquet")
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["label"] for row in rows] == [str(row["class"]) for row in rows]
    assert sum(row["class"] == split.test_labels[i] for i, row in enumerate(rows)) >= 7


def test_bytes_in_a_parquet_file_give_the_rows_of_the_files(task, pictures, tmp_path):
    label(task, pictures, tmp_path / "files.parquet")
    files = [path for path in sorted(pictures.iterdir()) if path.exists()]
    table = {"bytes": [path.read_bytes() for path in files], "path": [str(path) for path in files]}
    pq.write_table(pa.table(table), tmp_path / "in.parquet", row_group_size=5)
    label(task, tmp_path / "in.parquet", tmp_path / "rows.parquet")
    of_files = [row for row in pq.read_table(tmp_path / "files.parquet").to_pylist() if os.path.exists(row["path"])]
    of_rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [(row["path"], row["class"], row["error"]) for row in of_rows] == [
        (row["path"], row["class"], row["error"]) for row in of_files
    ]


# Parts


def test_a_run_that_was_ended_goes_on_and_gives_the_same_file(task, pictures, tmp_path):
    out, whole = tmp_path / "out.parquet", tmp_path / "whole.parquet"
    with pytest.raises(Ended):
        label(task, pictures, out, way=ending_after(2))
    assert not out.exists() and len(list(parts.folder_of(out).glob("part-*"))) == 2
    log = []
    done = label(task, pictures, out, way=counting(log))
    assert log == [0] and (done.pictures, done.computed) == (21, BATCH)
    label(task, pictures, whole)
    assert out.read_bytes() == whole.read_bytes()


def test_what_is_done_is_not_done_again_unless_asked_for_or_changed(task, pictures, tmp_path):
    out, log = tmp_path / "out.parquet", []
    label(task, pictures, out)
    before = out.read_bytes()
    assert label(task, pictures, out, way=counting(log)).computed == 0 and log == []
    assert label(task, pictures, out, way=counting(log), anew=True).computed == 21 and out.read_bytes() == before
    (pictures / "00000.png").write_bytes((pictures / "00001.png").read_bytes())
    assert label(task, pictures, out).computed == 21
    first, second = pq.read_table(out).slice(0, 2).to_pylist()
    assert first["score"] == pytest.approx(second["score"]) and out.read_bytes() != before


@pytest.mark.parametrize("option", ["batch", "dtype", "input"])
def test_parts_of_other_settings_are_not_mixed(task, pictures, tmp_path, option):
    out = tmp_path / "out.parquet"
    with pytest.raises(Ended):
        label(task, pictures, out, way=ending_after(1))
    given = {"batch": {"batch": 5}, "dtype": {"dtype": "fp16"}, "input": {}}[option]
    if option == "input":
        (pictures / "new.png").touch()
    with pytest.raises(ValueError, match=f"another value of '{option}': --anew removes them"):
        label(task, pictures, out, **given)
    assert label(task, pictures, out, anew=True, **given).pictures == 21 + (option == "input")


def test_a_damaged_part_is_done_again(task, pictures, tmp_path):
    out, log = tmp_path / "out.parquet", []
    with pytest.raises(Ended):
        label(task, pictures, out, way=ending_after(2))
    damaged = next(parts.folder_of(out).glob("part-000002*"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    label(task, pictures, out, way=counting(log))
    assert log == [0, 16] and len(pq.read_table(out)) == 21


def test_files_of_others_beside_the_parts_are_left_alone(task, pictures, tmp_path):
    out = tmp_path / "out.parquet"
    parts.folder_of(out).mkdir()
    (parts.folder_of(out) / "notes.txt").touch()
    label(task, pictures, out)
    assert [path.name for path in parts.folder_of(out).iterdir()] == ["notes.txt"]


def test_a_folder_that_changes_while_it_is_read_is_reported(task, pictures, tmp_path):
    def changing(work, given):
        (pictures / "00000.png").unlink()
        (pictures / "new.png").touch()
        return labelling.in_this_process(work, given)

    out = pictures / "out.parquet"  # the output lies in the folder itself
    done = label(task, pictures, out, way=changing)
    assert done.changed == "1 files came, 1 went, or others were changed" and done.unread == 4
    rows = pq.read_table(out)
    assert len(rows) == 21 and rows["error"][0].as_py() == "no such file or directory"


# Faults

COMMAND = [sys.executable, "-m", "common", "label"]


@seldom(6)
def test_a_full_disk_is_one_line_and_the_run_goes_on_later(pictures, tmp_path):
    """A limit on the size of files: first below a part's, then so that the parts fit and the output does not."""
    out = tmp_path / "out.parquet"
    arguments = [*COMMAND, str(pictures), "-o", str(out), "--weights", "digits", "--workers", "0", "--batch", "16"]
    assert subprocess.run(arguments, cwd=ROOT, capture_output=True).returncode == 0
    whole = out.read_bytes()
    out.write_text("an older one")
    for limit, kept in ((500, 0), (len(whole) - 1, 2)):
        full = subprocess.run(
            arguments, cwd=ROOT, capture_output=True, text=True,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )  # fmt: skip
        assert full.returncode == 2 and full.stderr.count("\n") == 1 and "File too large" in full.stderr, full.stderr
        assert out.read_text() == "an older one"
        assert len(list(parts.folder_of(out).glob("part-*"))) == kept
        assert not list(tmp_path.rglob(".*"))  # temporary files
    again = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0 and "nothing was to be done" in again.stdout and out.read_bytes() == whole


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("out.csv", "out must end in .parquet"),
        ("none/out.parquet", "none/out.parquet.parts: No such file or directory"),
        ("folder.parquet", "expected a regular file, got a folder"),
        ("file.parquet.parts/out.parquet", "out.parquet.parts: Not a directory|out.parquet: Not a directory"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_computed(
    task, pictures, tmp_path, monkeypatch, out, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "file.parquet.parts").touch()
    log = []
    with pytest.raises((OSError, ValueError)) as caught:
        label(task, pictures, out, way=counting(log))
    assert re.search(says, explanation(caught.value)) and log == []


def test_the_input_is_not_overwritten(task, tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"bytes": [b"1"]}), path)
    with pytest.raises(ValueError, match="another file than the input"):
        label(task, path, path)


# The command


def test_without_ray_the_command_says_what_to_install_and_labels(invoke, monkeypatch, pictures, tmp_path):
    monkeypatch.setattr(cluster, "installed", lambda: False)
    out = tmp_path / "out.parquet"
    arguments = ("label", pictures, "-o", out, "--weights", "digits")
    done = invoke(*arguments, "--batch", 16)
    assert done.exit_code == 0 and 'pip install ".[many]"' in done.stderr
    assert "21 pictures, " in done.stdout and "pictures/s" in done.stdout
    assert invoke(*arguments, "--batch", 16, "--workers", 0).stderr == ""
    refused = invoke(*arguments, "--workers", 2)
    assert refused.exit_code == 2 and "label needs ray[data,serve]" in refused.stderr
    refused = invoke("serve", "--weights", "digits")
    assert refused.exit_code == 2 and "serve needs ray[data,serve]" in refused.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--workers", "many"), "--workers: must be auto or a number, got 'many'"),
        (("--dtype", "int8"), "--dtype: must be one of fp32, fp16, got 'int8'"),
        (("--weights", "digits", "--onnx", "x.onnx"), "--weights and --onnx: give one of them"),
        (("--onnx", "x.onnx"), "x.onnx"),
        (("--weights", "none"), "there are no weights called 'none'"),
    ],
)
def test_options_that_do_not_fit_are_one_line(invoke, tmp_path, options, says):
    refused = invoke("label", tmp_path, "-o", tmp_path / "out.parquet", *options)
    assert refused.exit_code == 2 and says in refused.stderr and refused.stderr.count("\n") == 1


def test_few_pictures_are_labelled_here_and_many_are_spread(task, monkeypatch):
    monkeypatch.delenv(cluster.ADDRESS, raising=False)
    monkeypatch.setattr(labelling, "in_this_process", lambda work, given: "here")
    way = labelling.in_this_process_if_few(lambda work, given: "spread")
    few, many = [[(0, None)]], [[(0, None)] * 40] * 4
    assert (way(labelling.Work(task, BATCH, "fp32"), few), way(labelling.Work(task, BATCH, "fp32"), many)) == (
        "here",
        "spread",
    )
    monkeypatch.setenv(cluster.ADDRESS, "127.0.0.1:1")
    assert way(labelling.Work(task, BATCH, "fp32"), few) == "spread"


@pytest.mark.parametrize("given", [None, "127.0.0.1:1"])
def test_without_an_address_ray_is_one_of_its_own(monkeypatch, given):
    """Not one that runs on this machine already, nor one that has ended and left its address behind."""
    asked = []
    ray = SimpleNamespace(
        is_initialized=lambda: False, shutdown=lambda: None, init=lambda **options: asked.append(options.get("address"))
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name, value in ((cluster.ADDRESS, given or ""), (cluster.LOOPBACK, "0"), ("RAY_AUTH_MODE", "token")):
        monkeypatch.setenv(name, value)
    with cluster.ray_running():
        assert asked == [None if given else "local"]  # None: RAY_ADDRESS says where


# The engine


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pictures_are_normalised_on_the_device_as_on_the_host(task, rng, dtype, layout):
    pixels = rng.integers(0, 256, (2, SIZE, SIZE, 3), np.uint8)
    network = Network(task.model, dtype=dtype, layout=layout)
    made = engine.Engine(task, network, 2)
    (logits,) = made.run([pixels])
    mean, std = task.normalisation
    x = np.concatenate([images.to_input(Image.fromarray(one), SIZE, SIZE, mean, std) for one in pixels])
    np.testing.assert_array_equal(logits, cuda.asnumpy(network(x)).astype(np.float32))


def test_batches_come_out_in_order_and_are_the_callers_own(task, rng):
    made = engine.Engine(task, engine.network_of(task), 3)
    batches = [rng.integers(0, 256, made.shape, np.uint8) for _ in range(4)]
    found = list(made.run(batches))
    alone = [next(iter(made.run([batch]))) for batch in batches]
    np.testing.assert_array_equal(found, alone)
    assert len({logits.tobytes() for logits in found}) == 4
    started = made.run(iter(batches))
    next(started)
    started.close()  # a caller that stops early
    np.testing.assert_array_equal(list(made.run(batches)), alone)


def test_every_batch_is_logged_and_its_stages_follow_one_another(task, rng):
    made = engine.Engine(task, engine.network_of(task), 2)
    log = []
    list(made.run([np.zeros(made.shape, np.uint8)] * 3, log.append))
    for number in range(3):
        copied, computed = (next(i for i in log if (i.what, i.batch) == (what, number)) for what in ("copy", "compute"))
        assert copied.start <= copied.end <= computed.start <= computed.end


@pytest.mark.parametrize("wrong", ["shape", "type"])
def test_a_batch_of_another_shape_or_type_is_refused(task, wrong):
    made = engine.Engine(task, engine.network_of(task), 2)
    batch = np.zeros((1, *made.shape[1:]), np.uint8) if wrong == "shape" else np.zeros(made.shape, np.float32)
    with pytest.raises(ValueError, match=r"must have shape \(2, 32, 32, 3\) of uint8, got"):
        list(made.run([batch]))


# Memory

FLAT = """
import sys, psutil, pyarrow as pa
sys.path[:0] = ["tests", "tests/many"]
from small_task import small_task
from common.many import labelling

folder, out, warm = sys.argv[1], sys.argv[2], int(sys.argv[3])
process, seen = psutil.Process(), []
def way(work, given):
    for first, table in labelling.in_this_process(work, given):
        seen.append(process.memory_info().rss)
        yield first, table
done = labelling.label([folder], out, small_task(), batch=32, way=way)
print(done.pictures, max(seen[warm:]) - seen[warm])
"""


def growth(folder, out, warm):
    """(pictures, bytes by which a process grew from batch `warm` on)."""
    done = subprocess.run(
        [sys.executable, "-c", FLAT, folder, out, str(warm)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


@seldom(6)
@pytest.mark.parametrize("count", [1500, pytest.param(100_000, marks=long)])
def test_memory_is_flat_over_many_small_pictures(tmp_path, rng, count):
    """Links to a few files: the pictures would be 10 kB each in memory."""
    folder = draw_pictures(tmp_path / "few", 5, rng, size=64)
    (tmp_path / "many").mkdir()
    for i in range(count):
        with contextlib.suppress(OSError):
            os.link(folder / f"{i % 5:05}.png", tmp_path / "many" / f"{i:06}.png")
    pictures, bytes_more = growth(tmp_path / "many", tmp_path / "out.parquet", 20)
    assert pictures == count and bytes_more < 8e6 + 20 * count
