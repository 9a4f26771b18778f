"""Coverage of offered intervals and size of tests: the simulation itself, and (slow) its promises."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.inputs import check_forecast
from calibrant_papers.studies.arrays import build
from calibrant_papers.validation.coverage import MODELS, coverage, draw, draw_classes, is_size, truths


def test_truths_are_what_large_samples_show():
    """The known values against the plug-in values of one large sample with labels."""
    truth = truths("strong", 200_000)
    rng = np.random.default_rng(1)
    p, law, sharper = draw("strong", 200_000, rng)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(law.sum(axis=1), 1)
    y = draw_classes(law, rng)
    forecast, second = (check_forecast(y, q, caller="test") for q in (p, sharper))
    for name in ("ks", "ece", "tce", "mmce", "brier", "nll", "spherical", "rps", "accuracy"):
        assert build(name).value(forecast) == pytest.approx(truth[name], abs=0.006), name
    for name in ("brier", "nll", "rps"):
        change = build(name).value(forecast) - build(name).value(second)
        assert change == pytest.approx(truth[f"{name}, difference"], abs=0.005), name
    calm = truths("calibrated", 200_000)
    assert max(calm[name] for name in ("ks", "ece", "tce", "mmce")) < 1e-12


def test_the_study_counts(monkeypatch):
    import sys

    room = sys.modules["calibrant_papers.validation.coverage"]
    monkeypatch.setattr(room, "truths", lambda model: truths(model, 50_000))
    result = coverage(sizes=(300,), models=("calibrated",), repeats=4, parts=2)
    names = {(row["what"], row["name"]) for row in result.rows}
    assert {("interval", name) for name in room.INTERVALS} <= names
    assert {("test", name) for name in room.TESTS} <= names
    assert all(row["samples"] == 4 for row in result.rows)
    assert all(0 <= row["rate"] <= 100 for row in result.rows)


@pytest.mark.parametrize("epsilon", [0.02, 0.03, 0.05])
def test_the_upper_limit_decides_the_equivalence_test(epsilon):
    """The simulation uses the limit instead of twenty bisections: same decision, but for the random draws."""
    import sys

    from calibrant.inference import equivalence_test

    room = sys.modules["calibrant_papers.validation.coverage"]
    rng = np.random.default_rng(3)
    p, law, _ = draw("mild", 3000, rng)
    y = draw_classes(law, rng)
    upper = room._upper(y, p, np.random.default_rng(0))
    if abs(upper - epsilon) > 0.001:
        assert (upper < epsilon) == (equivalence_test(y, p, epsilon=epsilon, rng=0).pvalue <= 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [300, 1000])
def test_intervals_cover_and_tests_keep_their_size(model, n):
    """Coverage at least nominal − 3 points (and the noise of 400 samples); size at most 6.5%."""
    result = coverage(sizes=(n,), models=(model,), repeats=400, parts=2)
    for row in result.rows:
        noise = 200 * np.sqrt(0.05 * 0.95 / row["samples"])
        if row["what"] == "interval":
            assert row["rate"] >= 92 - noise, row
        elif is_size(row):
            assert row["rate"] <= 6.5 + noise, row
