"""A mean score that is declared in this file alone works everywhere a built-in one does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.calibrators import AutoCalibrator
from calibrant.cli import cli
from calibrant.core.declare import Metric, declare, lookup, withdraw
from calibrant.core.inputs import check_forecast
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.engines.frames import summarize
from calibrant.metrics.recipes import MeanScore, criteria


def pseudo_spherical(graph: ScoreGraph) -> Node:
    """−p_k²/(Σ p³)^⅔: Gneiting & Raftery (2007), Strictly Proper Scoring Rules, JASA 102, section 4.1, α = 3."""
    square = graph.p * graph.p
    norm = graph.exp(graph.log(graph.sum(square * graph.p)) * (2.0 / 3.0))
    return -square / norm


@pytest.fixture
def score():
    metric = declare(
        Metric(
            name="pseudo",
            title="Pseudo-spherical score",
            notion="proper score",
            estimates="the pseudo-spherical calibration error, less 1",
            bound="upper",
            recipe=lambda: MeanScore(pseudo_spherical),
            weakness="hard to read",
            paper="Gneiting & Raftery (2007)",
            cost="O(n·K)",
            state="score sums",
            range=(-1.0, 0.0),
            perfect=-1.0,
            proper=True,
            percent=False,
            default=True,
        )
    )
    yield metric
    withdraw("pseudo")
    assert "pseudo" not in criteria()


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(3, 0.6), 900)
    y = (rng.random((900, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return p, y


def by_hand(p, y):
    return float(-(p[np.arange(len(y)), y] ** 2 / (p**3).sum(axis=1) ** (2 / 3)).mean())


def columns_of(p, y):
    return {**{f"p_{k}": p[:, k] for k in range(p.shape[1])}, "label": y}


def test_rows_and_summaries(score, data):
    p, y = data
    assert calibrant.metric("pseudo", y, p) == pytest.approx(by_hand(p, y), rel=1e-12)
    halves = calibrant.Summary(3).update(y[:400], p[:400]) + calibrant.Summary(3).update(y[400:], p[400:])
    agree(calibrant.Summary.from_bytes(halves.to_bytes()), p, y)


def agree(found, p, y):
    recipe = lookup("pseudo").build()
    forecast = check_forecast(y, p, caller="test")
    assert found.metric("pseudo") == pytest.approx(by_hand(p, y), rel=1e-12)
    ours, theirs = found.moments(recipe), forecast.moments(recipe)
    assert (ours.mean, ours.error, ours.skewness) == pytest.approx((theirs.mean, theirs.error, theirs.skewness))
    assert found.null_moments(recipe).pvalue() == pytest.approx(forecast.null_moments(recipe).pvalue(), rel=1e-9)


def test_every_local_engine(score, data, make_frame):
    agree(summarize(make_frame(columns_of(*data))).whole, *data)


def test_lists_of_probabilities(score, data):
    import polars as pl

    p, y = data
    agree(summarize(pl.DataFrame({"probs": p.tolist(), "label": y})).whole, p, y)


def test_torch_stream(score, data):
    torch = pytest.importorskip("torch", reason="torch is absent (extra: torch)")
    from calibrant.torch import StreamingCalibration

    p, y = data
    meter = StreamingCalibration(3, ["pseudo", "spherical", "rps"], space="proba")
    for part in (slice(0, 300), slice(300, None)):
        meter.update(torch.from_numpy(p[part]), torch.from_numpy(y[part]))
    found = meter.compute()
    assert found["pseudo"] == pytest.approx(by_hand(p, y), rel=1e-12)
    for name in ("spherical", "rps"):
        assert found[name] == pytest.approx(calibrant.metric(name, y, p), rel=1e-12)


def test_criterion_of_fit(score, data, tmp_path):
    p, y = data
    assert "pseudo" in criteria()
    fitted = AutoCalibrator("pseudo", fast=True, rng=0).fit(p, y)
    assert fitted.predict_proba(p[:2]).shape == (2, 3)
    path = tmp_path / "preds.npz"
    np.savez(path, probs=p, labels=y)
    done = CliRunner().invoke(
        cli, ["fit", str(path), "--criterion", "pseudo", "--fast", "-o", str(tmp_path / "cal.json"), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert "pseudo" in CliRunner().invoke(cli, ["fit", "--help"]).output
    refused = CliRunner().invoke(cli, ["fit", str(path), "--criterion", "ece"])
    assert refused.exit_code == 2


def test_evaluate_explain_and_report(score, data):
    p, y = data
    result = calibrant.evaluate(y, p, metrics=["pseudo", "ece"], rng=0)
    assert "pseudo" in str(result)
    assert result["pseudo"].interval.low < result["pseudo"].value < result["pseudo"].interval.high
    assert 0 < result["pseudo"].pvalue <= 1
    explained = CliRunner().invoke(cli, ["explain", "pseudo", "--json"])
    assert json.loads(explained.output)["title"] == "Pseudo-spherical score"
    page = calibrant.report(y, p, compare_methods=False, rng=0)
    assert "Pseudo-spherical score" in page.html
