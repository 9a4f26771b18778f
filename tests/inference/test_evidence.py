"""One evidence: rows and cells answer alike, slices have one test, whoever prints it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.core.declare import declared
from calibrant.core.inputs import check_forecast, check_pairs
from calibrant.core.resampling import PathNull
from calibrant.engines.frames import summarize
from calibrant.errors import InputError
from calibrant.evidence import Evidence
from calibrant.inference import compare_evidence, evaluate_evidence, sliced_tests
from calibrant.inference.null import null_distribution
from calibrant.inference.slices import evaluate_slices, split
from calibrant.metrics._ks import METRIC as KS
from calibrant.reporting import report_evidence
from calibrant.summary import Summary
from calibrant.workflows.evaluate import evaluate


def predictions(n=1500, k=3, gap=1.6, seed=0):
    """Labels drawn from p; the forecast is p made sharper."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.8), n)
    y = (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, k - 1)
    q = p**gap
    return y, q / q.sum(axis=1, keepdims=True)


def forms(k=3, n=1500, **options):
    y, p = predictions(n, k, **options)
    return check_forecast(y, p, caller="evaluate"), Summary(k).update(y, p)


def test_rows_and_cells_are_evidence():
    rows, cells = forms()
    assert isinstance(rows, Evidence)
    assert isinstance(cells, Evidence)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_scores_of_rows_and_cells_agree(k, weighted):
    y, p = predictions(k=k)
    w = np.random.default_rng(1).integers(1, 4, len(y)) if weighted else None
    names = [metric.name for metric in declared("classes") if metric.build().is_mean]
    one = calibrant.evaluate(y, p, metrics=names, sample_weight=w, rng=0)
    parts = np.array_split(np.arange(len(y)), 7)
    summary = sum(Summary(k).update(y[i], p[i], sample_weight=None if w is None else w[i]) for i in parts)
    two = summary.evaluate(metrics=names, rng=0)
    assert "brier" in names
    for a, b in zip(one, two, strict=True):
        for field in ("value", "null_mean", "null_std", "pvalue"):
            assert getattr(b, field) == pytest.approx(getattr(a, field), abs=1e-9), (a.name, field)
        assert (a.interval is None) == (b.interval is None), a.name
        if a.interval is not None:
            assert (b.interval.low, b.interval.high) == pytest.approx((a.interval.low, a.interval.high), abs=1e-9)
            assert b.interval.method == a.interval.method
    assert one["brier"].pvalue is not None
    assert one["brier"].pvalue < 0.05


def test_binned_errors_of_rows_and_cells_agree():
    rows, cells = forms(n=6000, gap=1.0)
    names = ["ece", "tce", "sce", "cwce"]
    one, two = (evaluate_evidence(form, metrics=names, n_resamples=800, rng=3) for form in (rows, cells))
    for a, b in zip(one, two, strict=True):
        assert b.value == pytest.approx(a.value, abs=1e-9)
        assert b.null_mean == pytest.approx(a.null_mean, abs=5 * a.null_std / 800**0.5 * 2**0.5), a.name


def test_ks_has_one_rule_on_rows_and_cells():
    rows, cells = forms(n=400)
    far = 0.9  # nothing calibrated comes near
    for form in (rows, cells):
        null = null_distribution({"ks": KS.build()}, form, 200, np.random.default_rng(0))["ks"]
        assert null.pvalue(far) == 1 / 201  # never below what the draws support
    rows, cells = forms(n=30_000, gap=1.0)
    for form in (rows, cells):
        null = null_distribution({"ks": KS.build()}, form, 200, np.random.default_rng(0))["ks"]
        assert isinstance(null, PathNull)


# -- slices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_one_slice_has_one_corrected_pvalue(tmp_path, k):
    y, p = predictions(2400, k, gap=1.25, seed=5)
    site = np.array(["north", "south", "west"])[np.random.default_rng(2).integers(0, 3, len(y))]
    forecast = check_forecast(y, p, caller="evaluate")
    rows = evaluate_slices(forecast, split(forecast, {"site": site}), ["site"], n_resamples=200, rng=0)
    frame = pl.DataFrame({f"p_{j}": p[:, j] for j in range(k)} | {"label": y, "site": site})
    cells = summarize(frame, by=["site"]).evaluate(n_resamples=200, rng=0)
    page = calibrant.report(y, p, by={"site": site}, compare_methods=False, n_resamples=200, rng=0)
    tested = sliced_tests(y, p, site, n_resamples=200, rng=0)
    wanted = {part.by["site"]: part.corrected for part in rows.slices}
    assert len(wanted) == 3
    assert {part.by["site"]: part.corrected for part in cells.slices} == wanted
    assert {row["name"]: row["corrected"] for row in page.summary["slices"]} == wanted
    assert {name: test.pvalue for name, test in tested.items()} == wanted
    frame.write_csv(tmp_path / "a.csv")
    read = evaluate(tmp_path / "a.csv", by="site", n_resamples=200, rng=0)
    assert {part.by["site"]: part.corrected for part in read.slices} == pytest.approx(wanted)


def test_many_slices_can_still_fail():
    """Holm's smallest p-value at 200 draws and 100 slices would be 0.5; shared draws keep it at 1/201."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(100), 60)
    p = rng.uniform(0.3, 0.9, 6000)
    y = rng.random(6000) < np.where(site == 17, p - 0.3, p)
    found = {name: test.pvalue for name, test in sliced_tests(y, p, site, n_resamples=200, rng=0).items()}
    assert found[17] == 1 / 201
    assert min(value for name, value in found.items() if name != 17) > 0.05


def test_slices_of_calibrated_rows_rarely_fail():
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.2, 0.8, 800)
        found = sliced_tests(rng.random(800) < p, p, np.repeat(np.arange(20), 40), n_resamples=99, rng=seed)
        alarms += min(test.pvalue for test in found.values()) <= 0.05
    assert alarms <= 9  # P(Binomial(60, 0.05) > 9) = 0.1%


# -- comparisons and reports ----------------------------------------------------------------------


def test_cells_refuse_a_paired_comparison_by_name():
    rows, cells = forms()
    with pytest.raises(InputError, match="paired comparison"):
        compare_evidence(cells, cells, metrics=["brier"])
    assert compare_evidence(rows, rows, metrics=["brier"])["brier"].change == 0


def test_pairs_are_compared_by_what_they_know():
    hit, one = np.random.default_rng(0).random(500) < 0.7, np.random.default_rng(1).uniform(0.5, 1, 500)
    first, second = (check_pairs(hit, s, caller="compare") for s in (one, np.full(500, 0.7)))
    found = compare_evidence(first, second)
    assert found["brier@top-1"].interval is not None
    assert found.verdict.startswith("Better")


@pytest.mark.parametrize("k", [2, 4])
def test_a_report_from_cells_says_what_one_from_rows_says(k):
    rows, cells = forms(k=k)
    one, two = (report_evidence(form, compare_methods=False, n_resamples=100) for form in (rows, cells))
    for key in ("headline", "bin_counts", "digits"):
        assert two.summary[key] == one.summary[key], key
    assert [tile["values"] for tile in two.summary["page"]["tiles"]][:3] == [
        tile["values"] for tile in one.summary["page"]["tiles"]
    ][:3]
    assert two.summary["judgment"]["status"] == one.summary["judgment"]["status"]
    assert [view.name for view in two.summary["views"]] == [
        view.name for view in one.summary["views"] if view.name != "within-2"
    ]
    for a, b in zip(one.summary["classes"], two.summary["classes"], strict=True):
        assert b["error"] == pytest.approx(a["error"], abs=1e-9)
    assert two.html.startswith("<!doctype html>")
    assert "ks" in two.to_dict()["evaluation"]["metrics"]


def test_slices_of_an_engine_make_a_report():
    y, p = predictions()
    frame = pl.DataFrame({f"p_{j}": p[:, j] for j in range(3)} | {"label": y, "day": np.arange(len(y)) % 2})
    page = report_evidence(summarize(frame, by=["day"]), n_resamples=50)
    assert [row["name"] for row in page.summary["slices"]] == ["0", "1"]
    assert "Groups" in page.html


def test_json_of_a_report_keeps_ks_and_drops_pictures():
    y, p = predictions(300)
    page = calibrant.report(y, p, by={"day": np.arange(300) % 2}, compare_methods=False, n_resamples=30)
    document = json.loads(json.dumps(page.to_dict()))
    assert document["evaluation"]["metrics"]["ks"]["value"] == pytest.approx(calibrant.metric("ks", y, p))
    assert all("ks" in row for row in document["slices"])
    assert "<svg" not in json.dumps(document)
