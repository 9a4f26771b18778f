"""Every file layout of the product page, one test each, and every way a file can be wrong."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from calibrant.errors import FileError
from calibrant.io.layout import Layout
from calibrant.io.predictions import to_forecast
from calibrant.io.readers import read_predictions
from calibrant.workflows.evaluate import evaluate
from calibrant.workflows.summarize import merge, summarize

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], 40)
Y = np.array([RNG.choice(3, p=row) for row in P])
B = RNG.random(40)
T = (RNG.random(40) < B).astype(int)


def ece(predictions):
    from calibrant.core.declare import lookup

    return lookup("ece").build().value(to_forecast(predictions, caller="test"))


def expected(y=Y, p=P):
    import calibrant

    return calibrant.metric("ece", y, p)


# -- npz ------------------------------------------------------------------------------------------


def test_npz_probs_labels_weights_classes_and_columns(tmp_path):
    path = tmp_path / "a.npz"
    day = np.repeat([1, 2], 20)
    names = np.array(["x", "y", "z"])
    np.savez(path, probs=P, labels=names[Y], weights=np.arange(40), classes=names, day=day, note=np.arange(7))
    found = read_predictions(path)
    assert found.classes == ("x", "y", "z")
    assert list(found.columns) == ["day"]
    assert found.weights.sum() == 780
    forecast = to_forecast(found, caller="test")
    assert (forecast.codes == Y).all()


def test_npz_logits(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.log(P), labels=Y)
    found = read_predictions(tmp_path / "a.npz")
    assert found.space == "logit"
    assert ece(found) == pytest.approx(expected(), abs=1e-12)


def test_npz_parts(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(
        path, logits_cal=np.log(P), labels_cal=Y, logits_test=np.log(P[:10]), labels_test=Y[:10], group_test=Y[:10]
    )
    assert read_predictions(path).n == 10
    assert read_predictions(path, Layout(default_part="cal")).n == 40
    assert read_predictions(path, Layout(part="cal")).n == 40
    assert list(read_predictions(path).columns) == ["group"]
    with pytest.raises(FileError, match="it has cal, test"):
        read_predictions(path, Layout(part="train"))


def test_npz_binary_prob_and_outcome(tmp_path):
    np.savez(tmp_path / "a.npz", prob_test=B, outcome_test=T)
    assert ece(read_predictions(tmp_path / "a.npz")) == pytest.approx(expected(T, B))


def test_npz_binary_probs_vector(tmp_path):
    np.savez(tmp_path / "a.npz", probs=B, labels=T)
    assert ece(read_predictions(tmp_path / "a.npz")) == pytest.approx(expected(T, B))


def test_npz_confidence_and_correct(tmp_path):
    np.savez(tmp_path / "a.npz", confidence=P.max(axis=1), correct=P.argmax(axis=1) == Y)
    found = read_predictions(tmp_path / "a.npz")
    assert found.kind == "pairs"
    assert ece(found) == pytest.approx(expected())


def test_npz_conf_pred_labels(tmp_path):
    np.savez(tmp_path / "a.npz", conf=P.max(axis=1), pred=P.argmax(axis=1), labels=Y)
    assert ece(read_predictions(tmp_path / "a.npz")) == pytest.approx(expected())


def test_npz_mean_and_std(tmp_path):
    np.savez(tmp_path / "a.npz", mean=B, std=B + 1, y=B)
    found = read_predictions(tmp_path / "a.npz")
    assert found.kind == "regression"
    assert found.variance == pytest.approx((B + 1) ** 2)


def test_npy_pair(tmp_path):
    np.save(tmp_path / "probs.npy", P)
    np.save(tmp_path / "labels.npy", Y)
    found = read_predictions(tmp_path / "probs.npy", Layout(label=str(tmp_path / "labels.npy")))
    assert ece(found) == pytest.approx(expected())
    with pytest.raises(FileError, match=r"label='labels\.npy'"):
        read_predictions(tmp_path / "probs.npy")


# -- tables ---------------------------------------------------------------------------------------


def frame(**more):
    return pl.DataFrame({f"p_{k}": P[:, k] for k in (2, 0, 1)} | {"label": Y, "day": [1] * 40} | more)


WRITERS = {
    "csv": lambda f, path: f.write_csv(path),
    "tsv": lambda f, path: f.write_csv(path, separator="\t"),
    "parquet": lambda f, path: f.write_parquet(path),
    "arrow": lambda f, path: f.write_ipc(path),
    "jsonl": lambda f, path: f.write_ndjson(path),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_tables_with_numbered_columns(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    WRITERS[kind](frame(), path)
    found = read_predictions(path)
    assert found.source == ("p_0", "p_1", "p_2")  # ordered by number, not as in the file
    assert "day" in found.columns
    assert ece(found) == pytest.approx(expected(), abs=1e-9)


def test_arrow_stream(tmp_path):
    frame().write_ipc_stream(tmp_path / "a.arrow")
    assert ece(read_predictions(tmp_path / "a.arrow")) == pytest.approx(expected())


def test_named_columns_and_named_labels(tmp_path):
    names = np.array(["ant", "bee", "cat"])
    table = pl.DataFrame({f"p_{name}": P[:, k] for k, name in enumerate(names)} | {"label": names[Y]})
    table.write_csv(tmp_path / "a.csv")
    found = read_predictions(tmp_path / "a.csv")
    assert found.classes == ("ant", "bee", "cat")
    assert ece(found) == pytest.approx(expected(), abs=1e-9)


def test_numbered_from_one(tmp_path):
    pl.DataFrame({f"p_{k + 1}": P[:, k] for k in range(3)} | {"label": Y + 1}).write_csv(tmp_path / "a.csv")
    assert ece(read_predictions(tmp_path / "a.csv")) == pytest.approx(expected(), abs=1e-9)


@pytest.mark.parametrize("name", ["probs", "logits"])
def test_list_column(tmp_path, name):
    values = (np.log(P) if name == "logits" else P).tolist()
    pl.DataFrame({name: values, "label": Y}).write_parquet(tmp_path / "a.parquet")
    assert ece(read_predictions(tmp_path / "a.parquet")) == pytest.approx(expected(), abs=1e-9)


def test_logit_columns_and_other_names(tmp_path):
    pl.DataFrame({f"logit_{k}": np.log(P[:, k]) for k in range(3)} | {"truth": Y, "w": np.ones(40)}).write_csv(
        tmp_path / "a.csv"
    )
    found = read_predictions(tmp_path / "a.csv", Layout(label="truth", weight="w"))
    assert found.space == "logit"
    assert found.weights is not None
    pl.DataFrame({f"prob_{k}": P[:, k] for k in range(3)} | {"label": Y}).write_csv(tmp_path / "b.csv")
    assert ece(read_predictions(tmp_path / "b.csv", Layout(proba="prob_*"))) == pytest.approx(expected(), abs=1e-9)


def test_binary_score_and_pairs(tmp_path):
    pl.DataFrame({"score": B, "label": T}).write_csv(tmp_path / "a.csv")
    assert ece(read_predictions(tmp_path / "a.csv")) == pytest.approx(expected(T, B), abs=1e-9)
    pl.DataFrame({"confidence": P.max(axis=1), "correct": P.argmax(axis=1) == Y}).write_csv(tmp_path / "b.csv")
    assert ece(read_predictions(tmp_path / "b.csv")) == pytest.approx(expected(), abs=1e-9)


def test_regression_columns(tmp_path):
    pl.DataFrame({"mu": B, "var": B + 1, "y": B}).write_csv(tmp_path / "a.csv")
    found = read_predictions(tmp_path / "a.csv", Layout(mean="mu", variance="var", label="y"))
    assert found.kind == "regression"


def test_lm_evaluation_harness_samples(tmp_path):
    lines = [
        json.dumps(
            {
                "doc_id": i,
                "doc": {"question": "?", "subject": "law"},
                "target": int(Y[i]),
                "resps": [[[float(np.log(v)), False]] for v in P[i]],
                "filtered_resps": [[float(np.log(v)), False] for v in P[i]],
            }
        )
        for i in range(40)
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = read_predictions(tmp_path / "samples.jsonl")
    assert found.columns["subject"][0] == "law"
    assert ece(found) == pytest.approx(expected(), abs=1e-9)


# -- wrong files ----------------------------------------------------------------------------------


def write(path, data: bytes):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("gone.npz", None, "does not exist"),
        ("a.pkl", b"\x80\x04", "pickle"),
        ("a.npz", b"not a zip file", "cannot be read|pickle"),
        ("a.parquet", b"PAR1 broken", "cannot be read"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"a,b\n1,2\n", "no probabilities"),
        ("a.csv", b"p_0,p_1\n0.5,0.5\n", "label"),
        ("a.jsonl", b'{"a": 1}\n{oops\n', "line 2"),
        ("a.xyz", b"?", "suffix"),
    ],
)
def test_wrong_files_get_one_clear_line(tmp_path, name, data, word):
    path = tmp_path / name
    if data is not None:
        write(path, data)
    with pytest.raises(FileError, match=word) as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)


def test_pickled_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", probs=np.array([{"a": 1}], dtype=object), labels=[0])
    with pytest.raises(FileError, match="pickle"):
        read_predictions(tmp_path / "a.npz")


def test_ragged_lists(tmp_path):
    pl.DataFrame({"probs": [[0.5, 0.5], [0.2, 0.3, 0.5]], "label": [0, 1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(FileError, match="row 1"):
        read_predictions(tmp_path / "a.parquet")


def test_slices_are_evaluated_and_corrected(tmp_path):
    rng = np.random.default_rng(5)
    p = rng.uniform(0.5, 1, 3000)
    part = np.repeat(["good", "bad", "good too"], 1000)
    y = rng.random(3000) < np.where(part == "bad", p - 0.3, p)
    np.savez(tmp_path / "a.npz", probs=p, labels=y.astype(int), part=part)
    found = evaluate(tmp_path / "a.npz", by="part", n_resamples=200)
    corrected = {piece.by["part"]: piece.corrected for piece in found.slices}
    assert corrected["bad"] == 1 / 201  # what 200 draws support, whatever the number of slices
    assert min(corrected["good"], corrected["good too"]) > 0.05
    with pytest.raises(FileError, match="'color'"):
        evaluate(tmp_path / "a.npz", by="color")


def test_summaries_of_the_same_rows_do_not_count_twice(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random((2, 500))
    for name, score, engine in (("a", p[0], "polars"), ("b", p[1], "polars"), ("again", p[0], "duckdb")):
        rows = pl.DataFrame({"score": score, "label": (p[0] > 0.5).astype(int)})
        rows.write_parquet(tmp_path / f"{name}.parquet")
        summarize(tmp_path / f"{name}.parquet", tmp_path / f"{name}.calsum", engine=engine)
    one, two, again = (tmp_path / f"{name}.calsum" for name in ("a", "b", "again"))
    assert merge([one, two]).slices.whole.n == 1000
    for files in ([one, one], [one, two, again], [tmp_path / "a*.calsum"]):
        with pytest.raises(FileError, match=r"a.*calsum and .*a.*calsum hold the same rows"):
            merge(files)
    with pytest.raises(FileError, match="hold the same rows"):
        evaluate(tmp_path / "*.calsum")
