"""What is to be labelled: folders, patterns, files and Parquet files, in which order, and what cannot be."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from common.images import ImageError
from common.many import sources


@pytest.fixture
def folder(tmp_path):
    """Three files, hidden ones beside them, and a link to a folder."""
    for name in ("b.png", "a/2.png", "a/10.png", ".hidden.png", ".git/c.png"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (tmp_path / "in" / "link").symlink_to(tmp_path / "in" / "a")
    return tmp_path / "in"


def contents(found, start=0, stop=None):
    return list(found.part(start, len(found.names) if stop is None else stop).read())


def test_a_folder_is_read_sorted_without_hidden_files_and_links_to_folders(folder):
    found = sources.find([str(folder)])
    assert found.names == [f"{folder}/b.png", f"{folder}/a/10.png", f"{folder}/a/2.png"]
    assert contents(found) == [b"b.png", b"a/10.png", b"a/2.png"]
    assert contents(found, 1, 2) == [b"a/10.png"]


def test_patterns_and_files_come_in_the_order_given(folder):
    found = sources.find([str(folder / "b.png"), str(folder / "[a]" / "1*.png"), str(folder / "b.png")])
    assert contents(found) == [b"b.png", b"a/10.png", b"b.png"]


def test_an_earlier_output_is_left_out(folder):
    assert contents(sources.find([str(folder)], leave_out=[folder / "a"])) == [b"b.png"]
    with pytest.raises(ValueError, match="no file found"):
        sources.find([str(folder / "b*")], leave_out=[folder / "b.png"])


def test_a_name_that_is_not_utf8_is_read(folder):
    path = os.fsencode(folder) + b"/\xff.png"
    with open(path, "wb") as file:
        file.write(b"odd")
    found = sources.find([str(folder)])
    assert found.names[0] == f"{folder}/b.png" and found.names[1] == f"{folder}/\ufffd.png"
    assert contents(found, 1, 2) == [b"odd"]


def test_what_is_gone_or_no_file_is_a_reason_and_the_others_are_read(folder):
    found = sources.find([str(folder)])
    (folder / "b.png").unlink()
    shutil.rmtree(folder / "a")
    os.mkfifo(folder / "b.png")
    reasons = contents(found)
    assert all(isinstance(one, ImageError) for one in reasons)
    assert [str(one) for one in reasons] == ["expected a regular file, got a named pipe (FIFO)"] + [
        "no such file or directory"
    ] * 2


@pytest.mark.parametrize("change", ["content", "new", "name", "time"])
def test_the_fingerprint_changes_with_the_files(folder, change):
    before = sources.find([str(folder)]).fingerprint
    assert sources.find([str(folder)]).fingerprint == before
    path = folder / "b.png"
    if change == "content":
        path.write_bytes(b"another")
    elif change == "new":
        (folder / "c.png").touch()
    elif change == "name":
        path.rename(folder / "c.png")
    else:
        os.utime(path, ns=(1, 1))
    assert sources.find([str(folder)]).fingerprint != before


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["nowhere"], "nowhere: expected a file, a folder or a pattern"),
        (["*.none"], "no file found in"),
        (["a.parquet", "b.png"], "must be the only input, got 2"),
    ],
)
def test_what_cannot_be_found_is_refused(tmp_path, monkeypatch, paths, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=says):
        sources.find(paths)


# Parquet


def written(path, columns, rows_per_group=3):
    pq.write_table(pa.table(columns), path, row_group_size=rows_per_group)
    return str(path)


def test_bytes_of_a_parquet_file_with_names_and_a_row_without_bytes(tmp_path):
    path = written(tmp_path / "x.parquet", {"path": ["a", "b"], "bytes": [b"1", None]})
    found = sources.find([path])
    assert found.names == ["a", "b"]
    first, second = contents(found)
    assert first == b"1" and str(second) == "there are no bytes in this row"


def test_the_struct_of_hugging_face(tmp_path):
    images = [{"bytes": b"1", "path": "a"}, {"bytes": b"2", "path": None}]
    found = sources.find([written(tmp_path / "x.parquet", {"label": [1, 2], "image": images})])
    assert found.names == ["a", "x.parquet#1"] and contents(found) == [b"1", b"2"]


def test_names_of_files_are_relative_to_the_parquet_file(folder, tmp_path):
    found = sources.find([written(tmp_path / "in" / "list.parquet", {"path": ["a/2.png", "none.png"]})])
    assert found.names == ["a/2.png", "none.png"]
    read, missing = contents(found)
    assert read == b"a/2.png" and str(missing) == "no such file or directory"


@settings(max_examples=examples(40))
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), data=st.data())
def test_any_rows_of_any_row_groups(tmp_path_factory, sizes, data):
    total = sum(sizes)
    rows = [b"%d" % i for i in range(total)]
    path = tmp_path_factory.mktemp("rows") / "x.parquet"
    with pq.ParquetWriter(path, pa.schema([("bytes", pa.binary())])) as writer:
        for size, end in zip(sizes, np.cumsum(sizes), strict=True):
            writer.write_table(pa.table({"bytes": rows[end - size : end]}))
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    assert contents(sources.find([str(path)]), start, stop) == rows[start:stop]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"picture": [b"1"]}, "expected a column 'bytes' .*got 'picture'"),
        ({"bytes": ["text"]}, "the column 'bytes' must be binary, got string"),
        ({"image": [b"1"]}, "must be a struct with binary bytes, got binary"),
        ({"path": [1]}, "must be text, got int64"),
        ({"bytes": pa.array([], pa.binary())}, "expected pictures, it has no rows"),
    ],
)
def test_other_parquet_files_are_refused(tmp_path, columns, says):
    with pytest.raises(ValueError, match=says):
        sources.find([written(tmp_path / "x.parquet", columns)])


def test_a_damaged_and_a_changed_parquet_file_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    written(path, {"bytes": [b"1", b"2"]})
    found = sources.find([str(path)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="it was changed while it was read"):
        contents(found)
    with pytest.raises(ValueError, match="not a Parquet file, or damaged"):
        sources.find([str(path)])
