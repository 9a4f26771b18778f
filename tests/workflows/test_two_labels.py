"""Two labels beside one score mean the same wherever they are read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.errors import InputError
from helpers import where_installed

LOCAL = where_installed([None, "polars", "duckdb"])
ENGINES = [*LOCAL, pytest.param("spark", marks=pytest.mark.spark)]
PAIRS = [("no", "yes"), ("false", "true"), ("False", "True"), (-1, 1), ("0", "1"), ("neg", "pos"), ("benign", "malignant"),
         ("YES ", "No"), (False, True), (-1.0, 1.0)]  # fmt: skip


def table(negative, positive, n=200):
    rng = np.random.default_rng(0)
    score = rng.random(n).round(3)
    y = rng.random(n) < score
    return pl.DataFrame({"score": score, "label": [positive if one else negative for one in y]}), y.astype(int), score


@pytest.mark.spark
@pytest.mark.parametrize(("pair", "suffix"), [(("no", "yes"), "csv"), ((-1.0, 1.0), "parquet")], ids=str)
def test_one_answer_on_spark(tmp_path, pair, suffix):
    test_one_answer(tmp_path, pair, suffix, "spark")


@pytest.mark.parametrize("engine", LOCAL)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_one_answer(tmp_path, pair, suffix, engine):
    pair = (pair[1], pair[0]) if pair[0] == "YES " else pair
    frame, y, score = table(*pair)
    path = tmp_path / f"two.{suffix}"
    getattr(frame, f"write_{suffix}")(path)
    plain = calibrant.evaluate(y, score, n_resamples=0)
    found = calibrant.evaluate(str(path), engine=engine, n_resamples=0)
    assert found.n == plain.n
    for name in ("brier", "ece", "nll", "accuracy"):
        assert found[name].value == pytest.approx(plain[name].value, abs=1e-9), name


@pytest.mark.parametrize("engine", ENGINES)
def test_two_named_columns_and_booleans(tmp_path, engine):
    frame, y, score = table(False, True)
    wide = frame.select(p_yes="score", p_no=1 - pl.col("score"), label="label")
    wide.write_parquet(tmp_path / "two.parquet")
    found = calibrant.evaluate(str(tmp_path / "two.parquet"), engine=engine, n_resamples=0)
    assert found["brier"].value == pytest.approx(calibrant.evaluate(y, score, n_resamples=0)["brier"].value)
    wide.rename({"p_yes": "p_cat", "p_no": "p_dog"}).write_parquet(tmp_path / "cats.parquet")
    with pytest.raises(InputError, match=r"label of read must hold names of the classes cat, dog; got booleans"):
        calibrant.evaluate(str(tmp_path / "cats.parquet"), engine=engine, n_resamples=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_three_labels_are_refused_by_name(tmp_path, engine):
    frame, *_ = table("a", "b")
    frame = frame.with_columns(label=pl.when(pl.col("score") < 0.1).then(pl.lit("c")).otherwise("label"))
    frame.write_csv(tmp_path / "three.csv")
    with pytest.raises(InputError, match="label of read must hold two labels beside the score of one class; got 3"):
        calibrant.evaluate(str(tmp_path / "three.csv"), engine=engine, n_resamples=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_names_that_look_like_numbers(tmp_path, engine):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 100)
    names = np.array(["10", "2", "9"])
    y = rng.integers(0, 3, 100)
    columns = {f"p_{name}": p[:, k] for k, name in enumerate(names)}
    want = calibrant.evaluate(y, p, n_resamples=0)["brier"].value
    pl.DataFrame(columns | {"label": names[y]}).write_parquet(tmp_path / "text.parquet")
    pl.DataFrame(columns | {"label": names[y].astype(int)}).write_parquet(tmp_path / "integers.parquet")
    for file in ("text.parquet", "integers.parquet"):
        assert calibrant.evaluate(str(tmp_path / file), engine=engine, n_resamples=0)["brier"].value == pytest.approx(
            want
        )
    if engine is None:
        np.savez(tmp_path / "text.npz", **columns, label=names[y])
        assert calibrant.evaluate(str(tmp_path / "text.npz"), n_resamples=0)["brier"].value == pytest.approx(want)


def test_the_positive_label_is_said(tmp_path, caplog):
    frame, *_ = table("benign", "malignant")
    with caplog.at_level("INFO", logger="calibrant.read"):
        calibrant.evaluate(frame, n_resamples=0)
    assert "classes benign, malignant · positive = malignant" in caplog.text
