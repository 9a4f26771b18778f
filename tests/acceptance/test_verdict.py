"""Point 5: the verdict is an object, judged once; everybody who shows it shows the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calibrant
from acceptance.runner import run

STATES = {
    "miscalibrated", "small gap", "calibrated within tolerance", "no gap found", "cannot tell", "right on average",
}  # fmt: skip
FEW = ("--resamples", "100")
FILES = ("k5.csv", "k5_after.csv", "k2.csv", "pairs.csv", "reg.csv", "csvlogs/*.csv")


def forecast(n: int, gap: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.55, 0.95, n)
    return (rng.random(n) < p - gap).astype(int), p


@pytest.mark.parametrize(
    ("n", "gap", "states", "direction"),
    [
        (4000, 0.1, {"miscalibrated"}, "over"),
        (4000, -0.1, {"miscalibrated"}, "under"),
        (200_000, 0.01, {"small gap"}, "over"),
        (100_000, 0.0, {"calibrated within tolerance"}, None),
        (900, 0.0, {"no gap found", "cannot tell"}, None),
        (30, 0.0, {"cannot tell"}, None),
    ],
)
def test_states(n: int, gap: float, states: set[str], direction: str | None) -> None:
    verdict = calibrant.evaluate(*forecast(n, gap), n_resamples=200, rng=0).verdict
    assert verdict.status in states, verdict
    if direction is not None:
        assert direction in str(verdict.direction)
    assert str(verdict)


def test_right_on_average() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.55, 0.95, 20_000)
    wrong = np.where(p > 0.75, -0.08, 0.08)
    y = (rng.random(len(p)) < p + wrong).astype(int)
    assert calibrant.evaluate(y, p, n_resamples=200, rng=0).verdict.status in ("right on average", "miscalibrated")


def test_tolerance_decides() -> None:
    y, p = forecast(100_000, 0.015)
    strict = calibrant.evaluate(y, p, n_resamples=100, rng=0, tolerance=0.005).verdict
    lenient = calibrant.evaluate(y, p, n_resamples=100, rng=0, tolerance=0.05).verdict
    assert (strict.status, lenient.status) == ("miscalibrated", "small gap")


def test_fields() -> None:
    verdict = calibrant.evaluate(*forecast(4000, 0.1), n_resamples=100, rng=0).verdict
    assert verdict.status in STATES
    gap = verdict.gap
    assert gap.low < gap.value < gap.high
    assert gap.low < 0.1 < gap.high
    assert 0 < verdict.detectable < 0.1
    assert verdict.tolerance == 0.02
    with pytest.raises((AttributeError, TypeError)):
        verdict.status = "other"


@pytest.mark.parametrize("file", FILES)
def test_everybody_shows_the_same(folder: Path, file: str) -> None:
    verdict = calibrant.evaluate(_path(folder, file), n_resamples=100, rng=0).verdict
    assert verdict.status in STATES
    text = run(("evaluate", file, *FEW), folder).out
    assert str(verdict) in text
    written = json.loads(run(("evaluate", file, *FEW, "--json"), folder).out)
    assert written["verdict"] == str(verdict)
    page = json.loads(run(("report", file, "--no-compare", *FEW, "--json"), folder).out)
    assert page["verdict"] == str(verdict)
    assert page["evaluation"]["verdict"] == str(verdict)
    limit = "ence=99" if file == "reg.csv" else "ece=0.9"
    gate = json.loads(run(("check", file, "--max", limit, *FEW, "--json"), folder).out)
    assert gate["verdict"] == str(verdict)
    notebook = calibrant.evaluate(_path(folder, file), n_resamples=100, rng=0)._repr_html_()
    assert verdict.status in notebook or verdict.headline in notebook or str(verdict)[:40] in notebook
    for document in (written, page, gate):
        assert verdict.status in json.dumps(document), "the JSON names the status for machines"


def _path(folder: Path, file: str) -> str:
    return str(folder / file)
