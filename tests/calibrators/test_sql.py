"""A map as SQL: the same probabilities as `predict_proba`, NULL for a row that cannot be used, on DuckDB."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import calibrant.calibrators as methods
from calibrant.calibrators._sql import DIALECTS
from calibrant.errors import InputError

duckdb = pytest.importorskip("duckdb", reason="DuckDB is absent (extra: engines)")
pytest.importorskip("pyarrow", reason="PyArrow is absent (extra: engines)")
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
N = 200
#: Every method whose map is arithmetic or a lookup.
WRITTEN = [
    "Identity", "TemperatureScaling", "EnsembleTemperatureScaling", "VectorScaling", "MatrixScaling", "PlattScaling",
    "StructuredMatrixScaling", "DirichletCalibration", "BetaCalibration", "HistogramBinning", "ScalingBinning",
    "IsotonicOneVsRest", "IsotonicMulticlass", "OrderPreserving", "VennAbers", "Compose",
]  # fmt: skip
REFUSED = ["BayesianBinning", "SplineCalibration", "GaussianProcessCalibration"]


def predictions(space, k, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(N, k)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    x = z if space == "logit" else p
    if space == "proba":
        x[:k] = np.eye(k)
    return x, y


def hostile(x, names, space):
    """The scores as a table whose rows 7 to 10 cannot be used."""
    bad = {7: None, 8: float("nan"), 9: float("inf"), 10: -0.5 if space == "proba" else float("-inf")}
    first = [bad.get(i, value) for i, value in enumerate(x[:, 0].tolist())]
    columns = {name: x[:, i] for i, name in enumerate(names)} | {names[0]: first, "id": range(len(x))}
    return pl.DataFrame(columns, strict=False)


def compare(out, fitted, x, names):
    got = out.select(names).to_numpy().astype(float)
    good = np.ones(len(x), bool)
    good[7:11] = False
    assert out.select(pl.col(names).is_null().sum()).row(0) == (4,) * len(names)
    np.testing.assert_allclose(got[good], fitted.predict_proba(x[good])[:, -len(names) :], atol=1e-12)


def run(query, **tables):
    connection = duckdb.connect()
    for name, frame in tables.items():
        connection.register(name, frame.to_arrow())
    return connection.sql(query).order("id").pl()


@pytest.mark.parametrize(("space", "k"), [("proba", 3), ("logit", 2)])
@pytest.mark.parametrize("method", WRITTEN)
def test_duckdb_gives_the_same_probabilities(tmp_path, method, space, k):
    x, y = predictions(space, k)
    fitted = getattr(methods, method)(space=space).fit(x, y)
    prefix = "p" if space == "proba" else "logit"
    hostile(x, [f"{prefix}_{i}" for i in range(k)], space).write_parquet(tmp_path / "x.parquet")
    query = fitted.to_sql("duckdb", table=f"'{tmp_path / 'x.parquet'}'", keep=["id"])
    compare(run(query), fitted, x, [f"p_{i}" for i in range(k)])


@pytest.mark.parametrize("method", REFUSED)
def test_other_maps_are_refused_by_name(method):
    x, y = predictions("proba", 3)
    with pytest.raises(InputError, match=method):
        getattr(methods, method)().fit(x, y).to_sql()


@pytest.mark.parametrize("space", ["proba", "logit"])
def test_one_score_of_two_classes_and_names_of_ones_own(space):
    x, y = predictions("proba", 2)
    fitted = methods.TemperatureScaling(classes=["no", "yes"]).fit(x, np.array(["no", "yes"])[y])
    names = ["p_no", "p_yes"]
    raw = x if space == "proba" else np.log(np.maximum(x, 1e-9))
    odd = ['a."b', "`c d"]
    frame = hostile(raw, odd, space)
    query = fitted.to_sql(table="frame", columns=odd, keep=["id"], space=space)
    shown = odd if space == "proba" else names
    want = x if space == "proba" else np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    compare(run(query, frame=frame), fitted, want, shown)
    score = raw[:, 1:] if space == "proba" else (raw[:, 1] - raw[:, 0])[:, None]
    frame = hostile(score, ["score"], space)
    query = fitted.to_sql(table="frame", columns=["score"], keep=["id"], space=space)
    out = run(query, frame=frame)
    compare(out, fitted, want, ["score"] if space == "proba" else ["p_yes"])


def test_what_is_asked_wrongly_is_refused():
    x, y = predictions("proba", 3)
    fitted = methods.TemperatureScaling().fit(x, y)
    with pytest.raises(InputError, match="dialect of to_sql must"):
        fitted.to_sql("oracle")
    with pytest.raises(InputError, match="columns of to_sql must name 3 columns"):
        fitted.to_sql(columns=["a"])
    on_logits = methods.TemperatureScaling(space="logit").fit(np.log(x + 1e-9), y)
    with pytest.raises(InputError, match="hold logits"):
        on_logits.to_sql(space="proba")


def test_a_map_too_long_is_refused(monkeypatch):
    x, y = predictions("proba", 3)
    monkeypatch.setattr("calibrant.calibrators._sql.LONGEST", 100)
    with pytest.raises(InputError, match="fits into 100 characters"):
        methods.TemperatureScaling().fit(x, y).to_sql()


def test_dialects_differ_in_names_and_numbers_alone():
    x, y = predictions("proba", 3)
    fitted = methods.IsotonicOneVsRest().fit(x, y)
    texts = {name: fitted.to_sql(name) for name in DIALECTS}
    assert "CAST(`p_0` AS FLOAT64)" in texts["bigquery"]
    assert 'CAST("p_0" AS DOUBLE)' in texts["snowflake"]
    plain = {
        text.replace("`", '"').replace("FLOAT64", "DOUBLE").replace("'inf'", "'Infinity'").replace("e0::DOUBLE", "e0")
        for text in (re.sub(r"(e-?\d+)::DOUBLE", r"\1", text) for text in texts.values())
    }
    assert len(plain) == 1


def test_names_and_numbers_of_dialects_that_are_not_run():
    """BigQuery escapes a backtick by a backslash; a number without a type would be a decimal on Snowflake."""
    x, y = predictions("proba", 3)
    fitted = methods.IsotonicOneVsRest().fit(x, y)
    odd = ["a`b", "c\\d", 'e"f']
    assert r"CAST(`a\`b` AS FLOAT64) AS raw_0" in fitted.to_sql("bigquery", columns=odd)
    assert r"CAST(`c\\d` AS FLOAT64) AS raw_1" in fitted.to_sql("bigquery", columns=odd)
    assert "CAST(`a``b` AS DOUBLE) AS raw_0" in fitted.to_sql("spark", columns=odd)
    assert 'CAST("e""f" AS DOUBLE) AS raw_2' in fitted.to_sql("snowflake", columns=odd)
    text = fitted.to_sql("snowflake")
    assert re.search(r"\de-?\d+::DOUBLE", text)
    assert not re.search(r"\de-?\d+(?![\d:])", text)


#: What users call their tables and columns, some of them as steps of the query are called.
TAKEN = ["usable", "raw_0", "x_0", "key_1", "select", 'q"u`o.te', "Group By"]


@pytest.mark.parametrize("table", ["scores", "calibrant_scores_", "usable"])
def test_any_name_may_be_taken(table):
    x, y = predictions("proba", 3)
    fitted = methods.PlattScaling().fit(x, y)
    frame = hostile(x, ["x_1", "raw_2", "mass_1"], "proba")
    frame = frame.with_columns(*(pl.col("id").alias(name) for name in TAKEN))
    out = run(fitted.to_sql(table=table, columns=["x_1", "raw_2", "mass_1"], keep=["id", *TAKEN]), **{table: frame})
    assert out.columns == ["id", *TAKEN, "x_1", "raw_2", "mass_1"]
    assert all(out[name].equals(out["id"], check_names=False) for name in TAKEN)
    compare(out, fitted, x, ["x_1", "raw_2", "mass_1"])


def test_a_name_twice_is_refused():
    x, y = predictions("proba", 3)
    fitted = methods.TemperatureScaling().fit(x, y)
    with pytest.raises(InputError, match=r"keep of to_sql must have other names .* got 'p_0'"):
        fitted.to_sql(keep=["p_0"])
    with pytest.raises(InputError, match="tolerance of to_sql must lie between 0 and 1"):
        fitted.to_sql(tolerance=0)
    assert 'AS "id"' in fitted.to_sql(keep="id")


def other_types(x):
    """The scores in other types, with how far those may miss 0, 1 and a sum of 1, and the rows that miss by more."""
    frame = pl.DataFrame({f"p_{k}": x[:, k] for k in range(3)})
    for digits in (2, 4):
        yield frame.select(pl.all().round(digits).cast(pl.Decimal(digits + 3, digits))), 1.5 * 10.0**-digits, 0
    off = pl.DataFrame({"p_0": [1 + 4e-5, 0.5], "p_1": [-4e-5, 0.6], "p_2": [0.0, 0.1]})
    yield frame.vstack(off).select(pl.all().cast(pl.Float32)), 1e-4, 1


@pytest.mark.parametrize("method", WRITTEN)
def test_other_types_give_what_apply_gives(method):
    """Values a hair outside of [0, 1] are clipped, rows of few decimals rescaled."""
    from calibrant.engines.apply import apply_frame

    x, y = predictions("proba", 3)
    fitted = getattr(methods, method)().fit(x, y)
    for frame, tolerance, lost in other_types(x):
        table = frame.with_row_index("id")
        got = run(fitted.to_sql(table="frame", keep=["id"], tolerance=tolerance), frame=table).drop("id")
        want = apply_frame(fitted, table).drop("id")
        assert got["p_0"].null_count() == want["p_0"].null_count() == lost
        full = [one.drop_nulls().to_numpy().astype(float) for one in (got, want)]
        np.testing.assert_allclose(*full, atol=1e-12)
        assert full[0].min() >= 0


def test_maps_side_by_side_share_their_steps():
    """A query of a hundred steps inside each other is too deep for Spark: a mixture is as deep as its deepest part."""
    x, y = predictions("proba", 3)
    names = ("TemperatureScaling", "PlattScaling", "BetaCalibration", "IsotonicOneVsRest", "VennAbers", "MatrixScaling")
    parts = [getattr(methods, name)() for name in names]
    fitted = methods.Ensemble(parts).fit(x, y)
    fitted.weights_ = np.full(len(parts), 1 / len(parts))
    frame = hostile(x, ["p_0", "p_1", "p_2"], "proba")
    query = fitted.to_sql(table="frame", keep=["id"])
    compare(run(query, frame=frame), fitted, x, ["p_0", "p_1", "p_2"])
    deepest = max(part.to_sql().count(" AS (\n") for part in fitted.calibrators_)
    assert query.count(" AS (\n") <= deepest + 3
