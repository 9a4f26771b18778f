"""Columns may be called anything: engines see private names, results and files keep the user's."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from calibrant.calibrators import IsotonicOneVsRest, TemperatureScaling
from calibrant.engines import summarize
from calibrant.engines.apply import apply_frame
from calibrant.engines.fit import fit_frame
from calibrant.engines.registry import open_paths
from calibrant.engines.sample import draw
from calibrant.io.layout import Layout
from helpers import where_installed

# the warnings of Spark's own Python
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("FutureWarning", "UserWarning", "ResourceWarning", "DeprecationWarning")
]
#: Names that a query of ours uses, that an engine reads as its own signs, or that are hard to write.
ODD = (
    *("n", "ws", "wt", "w", "w2", "__key", "__s", "__p0", "__group", "c0", "c3"),
    *("a.b", "a b", 'quo"te', "it's", "back`tick", "emoji 😀", "SELECT", "x;--", "[x]", "{x}", "%d", "\\n", "1"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([4, 1, 2], 120)
    y = (p.cumsum(axis=1) < rng.random((120, 1))).sum(axis=1)
    columns = {name: rng.integers(0, 2, 120) for name in ODD}
    scores = {"score.cat": p[:, 0], "score.`dog`": p[:, 1], 'score."n"': p[:, 2]}
    path = tmp_path_factory.mktemp("odd") / "odd.parquet"
    pl.DataFrame({**columns, **scores, "la.bel": y, "we ight": rng.integers(1, 3, 120)}).write_parquet(path)
    return path


LAYOUT = Layout(proba="score.*", label="la.bel", weight="we ight", space="proba")


@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
def test_any_name_on_every_engine(engine, path):
    frame = open_paths(path, engine)
    rows = pl.read_parquet(path)
    for name in ("n", "__key", "a.b", "back`tick", 'quo"te'):
        found = summarize(frame, LAYOUT, by=[name])
        assert found.by == (name,)
        weights = rows.group_by(name).agg(pl.len()).rows()
        assert {key[0]: part.n for key, part in found.parts.items()} == dict(weights)
    fitted = fit_frame(TemperatureScaling(), frame, LAYOUT)
    assert draw(frame, LAYOUT).n == 120
    other = fit_frame(IsotonicOneVsRest(), frame, LAYOUT)
    for calibrator in (fitted, other):
        done = nw.from_native(apply_frame(calibrator, frame, LAYOUT))
        done = done.collect() if isinstance(done, nw.LazyFrame) else done
        assert done.columns == rows.columns
        assert sorted(done["emoji 😀"].to_list()) == sorted(rows["emoji 😀"].to_list())
