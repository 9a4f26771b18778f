"""Delta and Iceberg tables: files that were deleted are not counted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.engines.test_lake import SPARK

from calibrant.workflows.sources import Reading, summarize_data
from helpers import where_installed

ENGINES = [*where_installed(["polars", "duckdb"]), pytest.param("spark", marks=SPARK)]


def rows(seed, n=100):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return pl.DataFrame({"score": p, "label": (rng.random(n) < p).astype(int), "day": [seed] * n})


def count(path, engine, by=()):
    found = summarize_data(str(path), Reading("evaluate", engine=engine), by=list(by))
    return found.whole.n, {key: part.n for key, part in found.parts.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_delta_table_counts_its_live_files(tmp_path, engine):
    delta = pytest.importorskip("deltalake", reason="deltalake is absent (extra: deltalake)")
    for day in (1, 2, 3):
        delta.write_deltalake(str(tmp_path / "t"), rows(day).to_arrow(), partition_by=["day"], mode="append")
    delta.DeltaTable(str(tmp_path / "t")).delete("day = 2")
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 3  # the file is still there
    assert count(tmp_path / "t", engine, ["day"]) == (200, {(1,): 100, (3,): 100})


@pytest.mark.parametrize("engine", ENGINES)
def test_an_iceberg_table_counts_its_live_files(tmp_path, engine):
    pytest.importorskip("pyiceberg", reason="pyiceberg is absent (extra: pyiceberg)")
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("lake", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("logs")
    frames = [rows(day).to_arrow() for day in (1, 2, 3)]
    table = catalog.create_table("logs.t", frames[0].schema)
    for frame in frames:
        table.append(frame)
    table.delete("day = 2")
    catalog.close()  # Python 3.13 warns of databases left open
    path = tmp_path / "logs" / "t"
    assert len(list(path.rglob("*.parquet"))) >= 3
    assert count(path, engine)[0] == 200
