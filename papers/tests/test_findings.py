"""The adversarial grid and the table of findings: the simulation itself, and (slow) its promises."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import evaluate
from calibrant_papers.studies import writing
from calibrant_papers.validation import generators as data
from calibrant_papers.validation.adversarial import adversarial
from calibrant_papers.validation.findings import FINDINGS, Finding, findings


@pytest.mark.parametrize("name", [name for name in data.GENERATORS if "K = 100" not in name])
def test_truths_are_what_large_samples_show(name):
    """Labels drawn from the probabilities give the known values back."""
    rng = np.random.default_rng(3)
    rows, known = data.draw(name, 60_000, rng), data.truth(name)
    shown = evaluate(rows.labels(rng), rows.forecast, metrics=list(known), n_resamples=0)
    for metric, value in known.items():
        if np.isfinite(value):
            assert shown[metric].value == pytest.approx(value, abs=0.012), metric


def test_generators_do_what_they_say():
    rng = np.random.default_rng(0)
    assert data.rare(50_000, rng).labels(rng).mean() == pytest.approx(0.01, abs=0.002)
    sharp = data.sharp(5000, rng)
    assert np.maximum(sharp.forecast, 1 - sharp.forecast).min() > 0.999
    clustered = data.clustered(1000, rng, 20, True)
    sizes = np.bincount(clustered.groups)
    assert len(sizes) == 20
    assert sizes.max() > 3 * sizes.min()
    many = data.many_classes(2000, rng)
    assert (many.forecast.mean(axis=0) < 0.001).sum() == 90
    weighted = data.importance(20_000, rng)
    assert weighted.weights @ (weighted.weights == 20) / weighted.weights.sum() == pytest.approx(0.8, abs=0.02)


def test_clustered_rows_are_calibrated_but_dependent():
    rng = np.random.default_rng(1)
    means = []
    for _ in range(300):
        rows = data.clustered(400, rng, 20)
        means.append(float((rows.labels(rng) - rows.forecast).mean()))
    assert abs(np.mean(means)) < 0.02  # right on average …
    assert np.std(means) > 1.8 * 0.5 / np.sqrt(400)  # … but about twice as noisy as 400 independent rows


def test_a_finding_keeps_its_rule():
    most = Finding("a", "b", "", "≤ 6%", lambda _: {})
    assert most.kept(0.06, 400, 0.0)
    assert most.kept(0.08, 400, 0.0)
    assert not most.kept(0.09, 400, 0.0)
    least = Finding("a", "b", "", "≥ 93%", lambda _: {})
    assert least.kept(0.91, 400, 0.0)
    assert not least.kept(0.89, 400, 0.0)
    assert least.kept(None, 0, 0.0)
    about = Finding("a", "b", "", "6 ± 2.5", lambda _: {})
    assert about.kept(8.0, 100, 100 * 65.0)
    assert not about.kept(17.0, 100, 100 * 290.0)


def test_the_studies_count():
    grid = adversarial(sizes=(100,), models=("1% positives, calibrated",), repeats=4, parts=2)
    assert {row["metric"] for row in grid.rows} == {*data.truth("1% positives, calibrated"), "verdict"}
    assert all(row["samples"] == 4 for row in grid.rows)
    assert grid.tables
    table = findings(only=("tail", "tests"), repeats=4)
    assert [row["samples"] for row in table.rows] == [1, 4, 4, 4]
    assert all(row["kept"] in (True, False) for row in table.rows)
    assert "Not measured yet: families" in table.finding


def test_a_store_keeps_finished_parts(tmp_path, monkeypatch):
    """Parts add up over runs, say when and by which code they were measured, and are measured again when named."""

    def code(word):
        for home in (
            "calibrant_papers.studies.writing",
            "calibrant_papers.studies.frame",
            "calibrant_papers.validation.findings",
        ):
            monkeypatch.setattr(f"{home}.made", lambda: {"date": "2026-01-01", "version": "9", "code": word})

    code("old")
    first = findings(only=["tail"], repeats=2, folder=tmp_path)
    assert [row["part"] for row in first.rows] == ["tail"]
    code("new")
    both = findings(only=["gate"], repeats=2, folder=tmp_path)
    assert [(row["part"], row["measured"]) for row in both.rows] == [
        ("tail", "2026-01-01, 9, code old"),
        ("gate", "2026-01-01, 9, code new"),
    ]
    assert "other code than that of this page (new): tail." in both.finding
    assert "2026-01-01, 9, code old" in writing.study_page(both, "a command")
    again = findings(only=["tail"], repeats=2, folder=tmp_path)
    assert "All were measured 2026-01-01, 9, code new." in again.finding
    assert not any("measured" in row for row in again.rows)
    assert again.rows[0]["now"] == first.rows[0]["now"]
    assert "other code" not in again.finding
    monkeypatch.setattr("calibrant_papers.validation.findings._one_cell", None)  # nothing is left to do
    assert findings(only=["tail", "gate"], repeats=2, folder=tmp_path).rows == again.rows
    with pytest.raises(ValueError, match="only of findings must be one of"):
        findings(only=["tails"])


def red(rows):
    return [row for row in rows if row["kept"] is False]


@pytest.mark.slow
@pytest.mark.parametrize("line", FINDINGS, ids=[f"{line.part}: {line.setting}" for line in FINDINGS])
def test_every_finding_is_kept(line, monkeypatch):
    """Every line of the table, 200 samples each; what is red there is measured with 1,600, which decide."""
    import sys

    monkeypatch.setattr(sys.modules["calibrant_papers.validation.findings"], "FINDINGS", (line,))
    monkeypatch.setattr(sys.modules["calibrant_papers.validation.findings"], "PARTS", (line.part,))
    if red(findings(repeats=200).rows):
        assert not red(findings(repeats=1600).rows)


@pytest.mark.slow
@pytest.mark.parametrize("model", data.GENERATORS)
def test_the_grid_is_kept(model):
    """Coverage where an interval is shown, no contradictions, no false verdicts: 100 samples of 100 to 1,000 rows.

    Forty-five sets of samples are drawn, so one may be red by chance: its size is measured with 1,000, which decide.
    """
    sizes = sorted({row["n"] for row in red(adversarial(sizes=(100, 300, 1000), models=(model,), repeats=100).rows)})
    if sizes:
        assert not red(adversarial(sizes=tuple(sizes), models=(model,), repeats=1000).rows)
