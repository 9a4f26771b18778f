"""Gates have three answers, and check, assert_calibrated and the equivalence test give the same one."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.results import Interval, Result
from calibrant.errors import InputError
from calibrant.inference import equivalence_test
from calibrant.inference.limits import decide, rows_to_decide
from calibrant.testing import assert_calibrated
from calibrant.workflows.check import Limits, check


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
