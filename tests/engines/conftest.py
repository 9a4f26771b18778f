"""Frames of every engine from one dict of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def _duckdb(columns: dict[str, Any]) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is absent (extra: engines)")
    pa = pytest.importorskip("pyarrow", reason="PyArrow is absent (extra: engines)")
    connection = duckdb.connect()
    connection.register("predictions", pa.table(columns))
    return connection.table("predictions")


def _pandas(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas", reason="pandas is absent (extra: engines)").DataFrame(columns)


def _arrow(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow", reason="PyArrow is absent (extra: engines)").table(columns)


def _polars(columns: dict[str, Any]) -> Any:
    import polars as pl

    return pl.DataFrame(columns)


def _lazy(columns: dict[str, Any]) -> Any:
    import polars as pl

    return pl.LazyFrame(columns)


def _dask(columns: dict[str, Any]) -> Any:
    dask = pytest.importorskip("dask.dataframe", reason="Dask is absent (requirements/dev.txt)")
    return dask.from_pandas(_pandas(columns), npartitions=3)


def _ibis(columns: dict[str, Any]) -> Any:
    ibis = pytest.importorskip("ibis", reason="Ibis is absent (requirements/dev.txt)")
    return ibis.memtable(_arrow(columns))


LOCAL = {
    "pandas": _pandas,
    "polars": _polars,
    "polars-lazy": _lazy,
    "pyarrow": _arrow,
    "duckdb": _duckdb,
    "dask": _dask,
    "ibis": _ibis,
}


@pytest.fixture(params=list(LOCAL))
def make_frame(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    maker: Callable[[dict[str, Any]], Any] = LOCAL[request.param]
    return maker


@pytest.fixture(params=[name for name in LOCAL if name != "dask"])  # Dask turns lists into strings
def make_list_frame(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    maker: Callable[[dict[str, Any]], Any] = LOCAL[request.param]
    return maker
