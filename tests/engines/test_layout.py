"""The one resolver: the same names give the same roles, whether they stand in arrays, tables or frames."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

from calibrant.errors import FileError, InputError
from calibrant.io.layout import Layout, array_fields, table_fields
from calibrant.io.names import proba_name
from calibrant.io.predictions import frame_predictions
from calibrant.io.readers import read_predictions
from calibrant.io.resolver import find_columns, resolve
from helpers import needs

P = {"cat": [0.7, 0.2, 0.5], "dog": [0.3, 0.8, 0.5]}
TRUTH = ["label", "labels", "y", "y_true", "target", "truth", "ground_truth", "class", "outcome", "Target"]
WIDE = ["p_{}", "prob_{}", "proba_{}", "probability_{}", "probs_{}", "{}_prob"]
SINGLE = ["score", "prob", "p", "y_prob", "y_score", "probability", "pred"]


def three_ways(columns, layout=None):
    """Roles of the same columns as arrays, as a Polars table and as a frame."""
    frame = pl.DataFrame(columns)
    arrays = {name: frame[name].to_numpy() for name in frame.columns}
    layout = layout or Layout()
    found = [
        resolve(array_fields(arrays), layout, source="it"),
        resolve(table_fields(frame.schema), layout, source="it"),
        find_columns(nw.from_native(frame.lazy()).collect_schema(), layout),
    ]
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize("truth", TRUTH)
@pytest.mark.parametrize("wide", WIDE)
def test_synonyms_of_truth_and_probabilities(truth, wide):
    found = three_ways({truth: ["cat", "dog", "cat"]} | {wide.format(n): v for n, v in P.items()})
    assert (found.kind, found.label, found.classes, found.space) == ("wide", truth, ("cat", "dog"), "proba")


@pytest.mark.parametrize("name", SINGLE)
def test_one_column_of_two_classes(name):
    found = three_ways({name: P["cat"], "target": [1, 0, 1]})
    assert (found.kind, found.scores, found.label) == ("binary", (name,), "target")


@pytest.mark.parametrize(
    ("columns", "candidates"),
    [
        ({"p_a": [0.5], "p_b": [0.5], "target": [0], "truth": [0]}, "target, truth"),
        ({"y_prob": [0.5], "y_score": [0.5], "label": [0]}, "y_prob or y_score"),
        ({"prob_a": [0.5], "prob_b": [0.5], "proba_a": [0.5], "proba_b": [0.5], "label": [0]}, "prob_a, prob_b or"),
        ({"score": [0.5], "label": [0], "sample_weight": [1], "sample_weights": [1]}, "sample_weight, sample_weights"),
    ],
)
def test_ambiguity_is_refused_with_the_candidates(columns, candidates):
    with pytest.raises(FileError, match=candidates):
        resolve(table_fields(pl.DataFrame(columns).schema), Layout(), source="it")


def test_standard_names_win_over_synonyms():
    found = three_ways({"p_0": [0.5], "p_1": [0.5], "score": [0.1], "label": [0], "y": [1.5], "weight": [1]})
    assert (found.scores, found.label, found.weight) == (("p_0", "p_1"), "label", "weight")


@pytest.mark.parametrize("given", ["dog,cat", ["dog", "cat"], ("dog,cat",)])
def test_probabilities_named_one_by_one_bring_the_class_names(given):
    found = three_ways(P | {"label": ["cat", "dog", "cat"]}, Layout(proba=given))
    assert (found.scores, found.classes) == (("dog", "cat"), ("dog", "cat"))


@pytest.mark.parametrize(
    ("columns", "variance", "std"),
    [
        (("mean", "variance"), "variance", False),
        (("mean", "std"), "std", True),
        (("mu", "sigma"), "sigma", True),
        (("mu", "var"), "var", False),
    ],
)
def test_means_with_variances_or_standard_deviations(columns, variance, std):
    fields = table_fields(pl.DataFrame({columns[0]: [0.0], columns[1]: [1.0], "target": [0.5]}).schema)
    found = resolve(fields, Layout(), source="it")
    assert (found.kind, found.variance, found.std, found.label) == ("regression", variance, std, "target")


def test_a_hint_never_turns_a_standard_deviation_into_a_variance(tmp_path):
    pl.DataFrame({"m": [0.0, 1.0], "s": [2.0, 3.0], "y": [0.0, 1.0]}).write_csv(tmp_path / "a.csv")
    assert read_predictions(tmp_path / "a.csv", Layout(mean="m", std="s")).variance.tolist() == [4.0, 9.0]
    assert read_predictions(tmp_path / "a.csv", Layout(mean="m", variance="s")).variance.tolist() == [2.0, 3.0]
    with pytest.raises(InputError, match="left out next to variance"):
        read_predictions(tmp_path / "a.csv", Layout(mean="m", std="s", variance="s"))


def test_options_that_have_no_meaning_are_refused_by_name(tmp_path):
    pl.DataFrame({"confidence": [0.5], "correct": [1]}).write_csv(tmp_path / "pairs.csv")
    with pytest.raises(InputError, match="space of read") as caught:
        read_predictions(tmp_path / "pairs.csv", Layout(space="logit"))
    assert caught.value.argument == "space"
    with pytest.raises(InputError, match="part of read"):
        read_predictions(tmp_path / "pairs.csv", Layout(part="cal"))
    np.save(tmp_path / "a.npy", np.array([0.5]))
    with pytest.raises(InputError, match="weight of read"):
        read_predictions(tmp_path / "a.npy", Layout(weight="w", labels_needed=False))


def test_predictions_of_unknown_space_must_be_told():
    fields = {"predictions": [0.5], "label_ids": [1]}
    with pytest.raises(FileError, match="space='logit'"):
        three_ways(fields)
    assert three_ways(fields, Layout(space="logit")).space == "logit"


@needs("pandas", "pyarrow")
def test_frames_of_pandas_and_arrow_read_alike():
    import pandas as pd

    columns = {"probs": [[0.7, 0.3], [0.1, 0.9]], "target": ["cat", "dog"], "site": ["a", "b"]}
    table = pl.DataFrame(columns)
    for frame in (table, pd.DataFrame(columns), table.to_arrow()):
        found = frame_predictions(frame, Layout())
        np.testing.assert_allclose(found.scores.astype(float), [[0.7, 0.3], [0.1, 0.9]])
        assert list(found.columns) == ["site"]
        assert found.truth.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("name", ["logits", "logit", "logit_a", "logits_test", "LOGITS_b", "a_logit", "a_logits"])
def test_no_probability_keeps_the_name_of_a_logit(name):
    assert "logit" not in proba_name(name).lower()


def test_what_was_read_is_said_in_one_line(caplog):
    with caplog.at_level("INFO", logger="calibrant.read"):
        frame_predictions(
            pl.DataFrame({f"p_{n}": v for n, v in P.items()} | {"target": ["cat", "dog", "cat"]}), Layout()
        )
    assert caplog.messages == ["label = target · classes cat, dog · 3 rows"]
