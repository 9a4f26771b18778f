"""What many tests share: the real data sets, found through CALIBRANT_DATA, and marks for optional libraries."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent

#: Optional library -> the extra that brings it.
EXTRAS = {"duckdb": "engines", "pandas": "engines", "pyarrow": "engines", "matplotlib": "plots", "torch": "torch"}


def needs(*libraries: str) -> pytest.MarkDecorator:
    """Mark of a test, or of one of its values, that cannot run without these libraries."""
    absent = [library for library in libraries if importlib.util.find_spec(library) is None]
    reason = ", ".join(f"{library} is absent (extra: {EXTRAS[library]})" for library in absent)
    return pytest.mark.skipif(bool(absent), reason=reason or "nothing is absent")


def where_installed(values: Iterable[Any]) -> list[Any]:
    """Values of a parametrized test, where one that is or ends with the name of an optional library needs that library."""
    found = []
    for value in values:
        name = value[-1] if isinstance(value, list | tuple) and value else value
        library = {"arrow": "pyarrow"}.get(name, name) if isinstance(name, str) else None
        found.append(pytest.param(value, marks=needs(library)) if library in EXTRAS else value)
    return found


def data_path(name: str) -> Path:
    """Path of one real data set, or skip the test with the reason."""
    folder = Path(os.environ.get("CALIBRANT_DATA", ROOT.parent / "shared" / "data"))
    path = folder / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"real data set {name} is absent (set CALIBRANT_DATA)")
    return path


def load_data(name: str) -> dict[str, np.ndarray]:
    """Arrays of one real data set."""
    with np.load(data_path(name), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


#: One session for every test of Spark. Compiling queries for a hundred rows takes longer than all the rest, so rows are
#: interpreted unless a test asks for more, and Java compiles quickly rather than well.
_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "localhost",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
}


@contextmanager
def spark_session() -> Generator[Any]:
    """Real Spark on two cores."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the same Python
    made = SparkSession.builder.master("local[2]").appName("calibrant tests").config(map=_SPARK).getOrCreate()
    yield made
    made.stop()
