"""Gates have three answers, and check, assert_calibrated and the equivalence test give the same one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calibrant import Summary
from calibrant.core.results import Interval, Result
from calibrant.errors import InputError
from calibrant.inference import equivalence_test
from calibrant.inference.limits import decide, rows_to_decide
from calibrant.metrics import kolmogorov_smirnov_error
from calibrant.testing import assert_calibrated
from calibrant.workflows.check import Limits, check
from calibrant.workflows.evaluate import evaluate


def result(value: float, low: float, high: float, n: int = 1000) -> Result:
    return Result("brier", value, interval=Interval(value, low, high, 0.95, "hall", n))


@pytest.mark.parametrize(
    ("limit", "side", "answer"),
    [
        (0.30, "max", "within"),
        (0.24, "max", "within"),
        (0.21, "max", "undecided"),
        (0.19, "max", "undecided"),
        (0.15, "max", "beyond"),
        (0.16, "max", "undecided"),
        (0.10, "min", "within"),
        (0.16, "min", "within"),
        (0.20, "min", "undecided"),
        (0.25, "min", "beyond"),
    ],
)
def test_three_answers(limit, side, answer):
    found = decide(result(0.2, 0.16, 0.24), limit, side)
    assert found.answer == answer
    if answer == "undecided":
        assert [found.passes(word) for word in ("point", "pass", "fail")] == [found.kept_by_value, True, False]
    else:
        assert {found.passes(word) for word in ("point", "pass", "fail")} == {answer == "within"}


def test_without_an_interval_only_the_value_speaks():
    found = decide(Result("mce", 0.2), 0.3)
    assert (found.answer, found.kept_by_value, found.rows) == ("undecided", True, None)
    assert "only the value speaks" in found.need
    assert decide(Result("nll", float("nan")), 0.3).answer == "beyond"


def test_the_rows_named_decide():
    """A mean 0.01 below its limit with a half-width of 0.02 needs four times the rows; on them it is decided."""
    assert rows_to_decide(result(0.2, 0.18, 0.22), 0.21) == 4000
    assert decide(result(0.2, 0.19, 0.21, 4000), 0.21).answer == "within"
    assert rows_to_decide(result(0.2, 0.18, 0.22), 0.2) is None


def sample(n: int, error: float = 0.0):
    rng = np.random.default_rng(7)
    p = rng.uniform(0.55, 0.95, n)
    return (rng.random(n) < p - error).astype(int), p


@pytest.mark.parametrize(
    ("n", "error", "answer"), [(300, 0.0, "undecided"), (6000, 0.0, "within"), (3000, 0.1, "beyond")]
)
def test_check_and_assertion_and_equivalence_agree(n, error, answer):
    y, p = sample(n, error)
    gate = check(y, p, max_values="ks=0.03", rng=0)
    (line,) = gate.lines
    assert line.answer == answer
    assert gate.to_dict()["checks"][0]["answer"] == answer
    cleared = equivalence_test(y, p, epsilon=0.03, rng=0).pvalue
    assert (cleared <= 0.025) == (answer == "within")
    for undecided in ("point", "pass", "fail"):
        passed = check(y, p, max_values="ks=0.03", undecided=undecided, rng=0).passed
        if passed:
            assert_calibrated(y, p, max_error=0.03, undecided=undecided)
        else:
            with pytest.raises(AssertionError, match="ks is"):
                assert_calibrated(y, p, max_error=0.03, undecided=undecided)


def test_an_undecided_gate_says_so_and_names_the_rows():
    y, p = sample(300)
    text = str(check(y, p, max_values="ks=0.03", rng=0))
    assert "undecided" in text
    assert "the value decides" in text
    assert "rows would decide" in text
    assert "counts as broken" in str(check(y, p, max_values="ks=0.03", undecided="fail", rng=0))
    with pytest.raises(InputError, match="undecided of check must"):
        check(y, p, max_values="ks=0.03", undecided="maybe")


def test_percent_and_fraction_are_the_same(tmp_path):
    words = Limits().with_words(["ks=5%", "brier=0.3"], None, "1%")
    assert words.most == {"ks": 0.05, "brier": 0.3}
    assert words.pvalues == {"ks": 0.01}
    file = tmp_path / "gate.toml"
    file.write_text('min-pvalue = "1%"\n[max]\nks = "5%"\nbrier = 0.3\n', encoding="utf-8")
    assert Limits.read(file).with_words() == words
    file.write_text('[max]\nks = "five"\n', encoding="utf-8")
    with pytest.raises(InputError, match="give numbers as limits"):
        Limits.read(file)


@pytest.mark.parametrize("word", ["ks=5", "ks=1.01", "ks=500%", "ks=-0.1", "brier=3", "accuracy=2"])
def test_limits_nothing_can_break_are_refused(word):
    with pytest.raises(InputError, match="lie in the range of"):
        Limits().with_words(word)
    with pytest.raises(InputError, match="range of a p-value"):
        Limits().with_words(None, None, "ks=1.5")


def test_clusters_reach_the_gate():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 25)
    p = rng.uniform(0.6, 0.9, 1000)
    y = (rng.random(1000) < np.clip(p + 0.3 * rng.standard_normal(40)[groups], 0, 1)).astype(int)
    alone, together = (check(y, p, max_values="brier=0.52", groups=g, rng=0).lines[0] for g in (None, groups))
    assert together.high - together.low > 1.2 * (alone.high - alone.low)


def mirrored(n: int = 4000):
    """Class 1 is predicted ten points too high everywhere, so that the errors of the top label cancel about ½."""
    rng = np.random.default_rng(3)
    p = rng.uniform(0.12, 0.98, n)
    return (rng.random(n) < p - 0.1).astype(int), p


def test_two_classes_are_gated_by_the_positive_class():
    """The top label hides most of an error that class 1 shows, and a gate judges what the verdict judges."""
    y, p = mirrored()
    gate = check(y, p, max_values=["ks=0.06", "ks@top-1=0.06", "ece=0.06", "brier=0.6"], min_pvalues=0.01, rng=0)
    one, top, ece, brier, pvalue = gate.lines
    shown = gate.evaluation
    assert [line.metric for line in gate.lines] == ["ks@class-1", "ks@top-1", "ece@class-1", "brier", "ks@class-1"]
    assert (one.answer, one.passed) == ("beyond", False)
    assert top.value < 0.05 < one.value == gate["ks"].value == shown["ks@class-1"].value
    assert shown.facts.ks == pytest.approx(one.value)
    assert (ece.passed, brier.passed, pvalue.passed) == (False, True, False)
    assert "ks@class-1" in str(gate)
    assert "probability of class 1" in str(gate)
    assert [row["metric"] for row in gate.to_dict()["checks"]][:2] == ["ks@class-1", "ks@top-1"]
    with pytest.raises(AssertionError, match=r"ks is 0\.[0-9]+ \(class 1\)"):
        assert_calibrated(y, p, max_error=0.06)
    assert_calibrated(y, p, max_error=0.06, metric="ks@top-1")
    assert equivalence_test(y, p, epsilon=0.06, rng=0).pvalue > 0.05
    assert equivalence_test(y, p, epsilon=0.06, error="ks@top-1", rng=0).pvalue < 0.05


def test_the_table_of_two_classes_shows_what_the_gate_judges():
    y, p = mirrored(1000)
    table = evaluate(y, p, rng=0)
    for name in ("ks", "ece"):
        (line,) = check(y, p, max_values={name: 0.05}, rng=0).lines
        assert line.value == table[line.metric].value == table[f"{name}@judged"].value
        assert line.value != table[name].value


def test_cells_and_files_are_gated_by_the_class_that_is_asked_for(tmp_path):
    y, p = mirrored(2000)
    rows = pl.DataFrame({"target": np.where(y, "fraud", "ok"), "score": p})
    path = tmp_path / "preds.parquet"
    rows.write_parquet(path)
    values = []
    for engine in (None, "polars"):
        gate = check(path, max_values="ks=0.06", positive="fraud", engine=engine, rng=0)
        assert gate.lines[0].metric == "ks@class-1"
        assert "probability of fraud" in str(gate)
        values.append(gate.lines[0].value)
    assert values[0] == pytest.approx(values[1], abs=1e-3)
    assert values[0] == pytest.approx(kolmogorov_smirnov_error(y, p, view="class-1"))
    summary = Summary(2).update(y, p)
    assert check(summary, max_values="ks=0.06", rng=0).lines[0].value == pytest.approx(values[0], abs=1e-3)


def test_more_classes_and_pairs_are_gated_by_the_top_label():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 500)
    y = np.array([rng.choice(3, p=row) for row in p])
    (line,) = check(y, p, max_values="ks=0.06", rng=0).lines
    assert line.metric == "ks"
    assert line.value == pytest.approx(kolmogorov_smirnov_error(y, p))
    right = p.argmax(axis=1) == y
    assert check(right, p.max(axis=1), max_values="ks=0.06", pairs=True, rng=0).lines[0].metric == "ks"
    with pytest.raises(InputError, match="view of check must be left out"):
        check(y, p, max_values="ks=0.06", view="class-1")


def test_limits_that_contradict_each_other_are_refused(tmp_path):
    y, p = [1, 0, 1, 1], [0.9, 0.2, 0.8, 0.6]
    for least in ({"accuracy": 0.9}, {"Accuracy@judged": 0.9}):
        with pytest.raises(InputError, match=r"(?i)min_values of check .*0\.2; got accuracy.*=0\.9") as caught:
            check(y, p, max_values={"accuracy": 0.2}, min_values=least)
        assert "\n" not in str(caught.value)
    (tmp_path / "limits.toml").write_text("[max]\nACCURACY = 0.2\n")
    with pytest.raises(InputError, match="min_values of check"):
        check(y, p, min_values={"accuracy": 0.9}, config=tmp_path / "limits.toml")
    assert len(check(y, p, max_values="accuracy=1", min_values="accuracy=1").lines) == 2  # one value is allowed


def test_an_assertion_names_its_own_arguments():
    with pytest.raises(InputError, match=r"^metric of assert_calibrated must be one of .*; got 'nope'"):
        assert_calibrated([1, 0], [0.5, 0.5], metric="nope")
    with pytest.raises(InputError, match=r"^max_error of assert_calibrated must lie in the range of ks"):
        assert_calibrated([1, 0], [0.5, 0.5], max_error=2.0)
    with pytest.raises(InputError, match=r"^min_pvalue of assert_calibrated must lie in the range of a p-value"):
        assert_calibrated([1, 0], [0.5, 0.5], min_pvalue=2.0)
