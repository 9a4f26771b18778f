"""An existing path is that file, whatever characters its name holds; two others that a pattern would match lie beside it."""

from __future__ import annotations

import io
import os

import polars as pl
import pytest

import calibrant
from calibrant.engines import duckdb, polars, spark
from calibrant.errors import FileError
from calibrant.io.readers import read_table
from calibrant.workflows.summarize import summarize
from helpers import needs

WRITERS = {"parquet": "write_parquet", "arrow": "write_ipc", "jsonl": "write_ndjson", "csv": "write_csv"}
#: A name, and two that it would match as a pattern.
NAMES = {
    "a*": ("ab", "a*b"),
    "a[1]": ("a1", "a[1]1"),
    "a?": ("ab", "a1"),
    "a{1,b}": ("a1", "ab"),
    ".hidden": ("hidden", ".hidden2"),
}


def rows(*truths):
    return pl.DataFrame({"score": [0.9, 0.2, 0.7][: len(truths)], "label": truths, "g": ["x"] * len(truths)})


def write(folder, name, kind, frame):
    path = os.fsencode(folder) + b"/" + name + b"." + kind.encode()
    out = io.BytesIO()
    getattr(frame, WRITERS[kind])(out)
    with open(path, "wb") as file:  # noqa: PTH123 -- pathlib has no names of bytes
        file.write(out.getvalue())
    return os.fsdecode(path)


@pytest.fixture(params=NAMES)
def named(request, tmp_path):
    def make(kind):
        for decoy in NAMES[request.param]:
            write(tmp_path, decoy.encode(), kind, rows(0, 1, 0))
        return write(tmp_path, request.param.encode(), kind, rows(1, 0))

    return make


@pytest.mark.parametrize("kind", WRITERS)
def test_a_table_is_the_file_named(named, kind):
    assert read_table(named(kind))["label"].to_list() == [1, 0]


@pytest.mark.parametrize("kind", WRITERS)
def test_polars_opens_the_file_named(named, kind):
    assert polars.open_files([named(kind)], kind).collect()["label"].to_list() == [1, 0]


@needs("duckdb")
@pytest.mark.parametrize("kind", WRITERS)
def test_duckdb_opens_the_file_named(named, kind):
    assert duckdb.open_files([named(kind)], kind).project("label").fetchall() == [(1,), (0,)]


@pytest.mark.parametrize("name", ["a*", "a?", "a[1]", "**", "~x", "-", "s3:x", "a'b"])
@pytest.mark.parametrize("engine", ["polars", pytest.param("duckdb", marks=needs("duckdb"))])
def test_a_short_name_is_the_file_too(tmp_path, monkeypatch, name, engine):
    """No other file is there that a pattern could take for it, and the name begins where the process stands."""
    write(tmp_path, name.encode(), "parquet", rows(1, 0))
    monkeypatch.chdir(tmp_path)
    assert summarize(f"{name}.parquet", engine=engine).slices.whole.n == 2


def test_a_table_is_written_to_a_name_that_is_no_text(tmp_path):
    path = write(tmp_path, b"a", "parquet", rows(1, 0))
    goal = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    calibrant.calibrators.Identity().fit([0.3, 0.6], [0, 1]).save(tmp_path / "map.json")
    calibrant.apply(tmp_path / "map.json", path, output=goal)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "map.json", "\udcff.parquet"]


@pytest.mark.spark
def test_spark_opens_the_file_named_or_says_that_it_is_hidden(named):
    for kind in ("parquet", "jsonl", "csv"):
        path = named(kind)
        if "hidden" in path:
            with pytest.raises(FileError, match="begins with"):
                spark.open_files([path], kind, "local[1]")
        else:
            found = spark.open_files([path], kind, "local[1]").collect()
            assert [int(row["label"]) for row in found] == [1, 0]


def test_a_summary_is_of_the_file_named(tmp_path):
    for decoy in NAMES["a[1]"]:
        write(tmp_path, decoy.encode(), "parquet", rows(0, 1, 0))
    found = summarize(write(tmp_path, b"a[1]", "parquet", rows(1, 0)), engine="polars").slices
    assert found.whole.n == 2
    assert found.whole.metric("accuracy") == 1.0


def test_a_name_that_is_no_text_is_the_file_or_one_line(tmp_path):
    for kind in WRITERS:
        try:
            path = write(tmp_path, b"\xff", kind, rows(1, 0))
        except OSError:
            pytest.skip("this file system takes text alone")
        assert read_table(path)["label"].to_list() == [1, 0]
        with pytest.raises(FileError, match="rename") as caught:
            summarize(path, engine="polars")
        str(caught.value).encode()  # can be printed
