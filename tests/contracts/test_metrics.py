"""Every declared metric keeps the public contract, and the contract can fail."""

from __future__ import annotations

import importlib
import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import metrics
from calibrant.core.declare import Metric, Recipe, declared, lookup, withdraw
from calibrant.testing import check_metric
from calibrant.testing.metrics import CHECKS, simulate

EVERY = [pytest.param(m, id=f"{m.task}-{m.name}") for m in declared(None)]
NAMES = [m.name for m in declared()]
#: Row-pair metrics and density estimates have no state that adds up.
CANONICAL = {"skce", "ce-kde"}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("metric", EVERY)
def test_every_metric(metric, check):
    check(metric, np.random.default_rng(0))


@pytest.mark.parametrize("metric", EVERY)
def test_short_names_are_aliases(metric):
    package = metrics.regression if metric.task == "regression" else metrics
    assert getattr(package, metric.alias) is getattr(metrics, metric.function)


def test_one_name_two_tasks():
    y, mean, variance = simulate("regression", np.random.default_rng(0))
    assert calibrant.metric("nll", y, mean, variance) == metrics.nll_normal(y, mean, variance)
    assert calibrant.metric("nll", y, mean, variance=variance) == metrics.nll_normal(y, mean, variance)
    labels, p = simulate("classes", np.random.default_rng(0))
    assert calibrant.metric("nll", labels, p) == metrics.log_score(labels, p)
    assert lookup("skce", task="regression").task == "regression"
    assert "crps" not in calibrant.list_metrics()
    assert "crps" in calibrant.list_metrics("regression")
    both = calibrant.list_metrics(None)
    assert len(both.records()) == len(list(declared(None))) == len(both) + 2  # nll and skce come once
    with pytest.raises(ValueError, match="did you mean 'ence'"):
        calibrant.metric("enc", y, mean, variance)


class Broken(Recipe):
    """A recipe that breaks one rule after the other."""

    def __init__(self, rule):
        self.rule = rule

    def value(self, forecast):
        return float(self.rule(forecast))


def broken(rule, **facts):
    declaration = {
        "name": "broken", "title": "Broken", "notion": "none", "estimates": "nothing", "bound": None,
        "weakness": "all", "paper": "none", "cost": "O(n)", "state": "all rows",
    }  # fmt: skip
    return Metric(**(declaration | facts), recipe=lambda: Broken(rule))


def ignores_input(forecast):
    if not np.isfinite(forecast.top_score).all():
        return 0.0
    return 0.5


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (broken(lambda f: float(f.codes[0]) / 9), "order of rows"),
        (broken(lambda f: f.hit.mean()), "whole weights"),
        (broken(lambda f: f.total), "range"),
        (broken(lambda f: 0.5, state="some"), "state"),
        (broken(lambda f: 0.5, perfect=3.0), "perfect inside its range"),
        (broken(lambda f: 0.5, function="no_such_function"), "has the function"),
        (broken(lambda f: math.nan if f.n == 1 else 0.5), "nan and a warning"),
        (broken(lambda f: np.average(f.codes == 0, weights=f.weights)), "order of classes"),
        (
            broken(lambda r: np.average(r.y**2, weights=r.weights), task="regression", range=(0, 1e9)),
            "only the distance",
        ),
    ],
)
def test_the_contract_can_fail(metric, words):
    with pytest.raises(AssertionError, match=words):
        check_metric(metric)


def test_a_name_will_do():
    check_metric("nll", task="regression")
    with pytest.raises(ValueError, match="did you mean 'brier'"):
        check_metric("breir")


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(0, 2), min_size=n, max_size=n),
            st.lists(st.tuples(*[st.integers(0, 10)] * 3), min_size=n, max_size=n),
        )
    ),
    st.sampled_from([n for n in NAMES if n not in CANONICAL | {"nll"}]),
)
def test_any_forecast_on_a_coarse_grid(case, name):
    """Ties, edges, zeros and ones are what a coarse grid is made of."""
    y, raw = case
    p = np.array(raw, dtype=float) + np.array([1e-300, 0, 0])
    p = np.where(p.sum(axis=1, keepdims=True) > 1e-200, p / p.sum(axis=1, keepdims=True), 1 / 3)
    found = calibrant.metric(name, y, p)
    low, high = lookup(name).range
    assert low - 1e-9 <= found <= high + 1e-9


def test_made_up_metric_takes_one_file(tmp_path, monkeypatch):
    """A new metric is one file: declaration and recipe; listing, calling and evaluating follow."""
    (tmp_path / "made_up.py").write_text(
        """
from calibrant.core.declare import Metric, declare
from calibrant.estimators import Binned
from calibrant.estimators import CalibrationError
from calibrant.views import WithinTopR

def _recipe(*, n_bins: int = 5):
    return CalibrationError(WithinTopR(2), Binned(n_bins), 2)

METRIC = declare(Metric(name="made-up", title="Made up", notion="within two", estimates="nothing", bound=None,
    recipe=_recipe, weakness="made up", paper="none", cost="O(n·K)", state="table"))
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("made_up")
    try:
        y, p = simulate("classes", np.random.default_rng(0))
        assert "made-up" in calibrant.list_metrics()
        assert calibrant.metric("made-up", y, p, n_bins=7) >= 0
        result = calibrant.evaluate(y, p, metrics=["made-up"], n_resamples=50, rng=0)["made-up"]
        assert result.null_mean is not None
        assert 0 < result.pvalue <= 1
        check_metric("made-up")
    finally:
        withdraw("made-up")


@pytest.mark.parametrize("name", list(calibrant.list_metrics()))
def test_options_of_rows_are_written_out(name):
    """The source says ``**rows``; users see every option, and a wrong one is refused as Python refuses it."""
    function = getattr(calibrant.metrics, lookup(name).function)
    given = inspect.signature(function).parameters
    assert {"sample_weight": None, "classes": None, "space": "proba", "normalize": False}.items() <= {
        key: parameter.default for key, parameter in given.items()
    }.items()
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in given.values())
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'weights'"):
        function([0, 1], [0.2, 0.7], weights=[1, 1])
