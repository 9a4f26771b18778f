"""Every table and figure of the five papers: the list is complete, quick forms run, verdicts hold and can fail."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.calibrators._natural_spline import NaturalBasis
from calibrant.errors import FileError, InputError
from calibrant_papers import list_targets, reproduce, reproduction, store
from calibrant_papers.book import book_markdown, summary_page, write_book, write_target
from calibrant_papers.commands.reproduce import command
from calibrant_papers.hundred_classes import hundred_classes
from calibrant_papers.reproduction import PAPERS, Outcome, Target, attempt
from calibrant_papers.targets.gupta_tables import fit_published
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from helpers import ROOT, data_path

#: The list of the specification.
NAMES = {
    "gruber-theorem-3-1",
    "gruber-prop-3-2",
    "gruber-prop-d-2",
    "gruber-appendix-e",
    "gruber-table-1",
    "gruber-table-2",
    *(f"gruber-fig-{i}" for i in range(1, 10)),
    *(f"gupta-table-{i}" for i in (1, 2, 4, 5, 6, 7)),
    *(f"gupta-fig-{i}" for i in range(1, 11)),
    *(f"zhang-table-{i}" for i in range(1, 5)),
    *(f"zhang-fig-{i}" for i in (1, 5, 6, 7, 8, 9, 11, 12, 13)),
    "nixon-table-1",
    "nixon-table-2",
    *(f"nixon-fig-{i}" for i in range(1, 12)),
    "uce-table-1",
    "uce-table-2",
    *(f"uce-fig-{i}" for i in range(1, 11)),
}
SIMULATED = (
    "gruber-theorem-3-1",
    "gruber-prop-3-2",
    "gruber-prop-d-2",
    "gruber-appendix-e",
    "gruber-fig-2",
    "zhang-fig-5",
    "zhang-fig-7",
    "zhang-fig-8",
    "zhang-fig-9",
    "nixon-fig-7",
    "nixon-fig-8",
    "uce-fig-3",
    "uce-fig-4",
)
TRAINED = (
    "nixon-fig-3",
    "nixon-fig-5",
    "nixon-fig-6",
    "nixon-fig-9",
    "nixon-fig-10",
    "uce-table-1",
    "uce-table-2",
    "uce-fig-2",
    "uce-fig-7",
    "uce-fig-8",
    "uce-fig-9",
    "nixon-table-1",
    "nixon-table-2",
)  # tested in test_trained.py
#: Tested with their own study (test_variance_regression.py).
LONG = ("gruber-table-1", "gruber-table-2", "gruber-fig-4", "gruber-fig-8", "gruber-fig-9")
REAL = sorted(NAMES - {*SIMULATED, *TRAINED, *LONG})
#: Known distributions, and claims about forecasts at hand: every other target is judged on five seeds.
FIXED = {
    *("gruber-prop-3-2", "gruber-prop-d-2", "gruber-appendix-e", "gupta-table-5", "nixon-fig-2", "nixon-fig-4"),
    *(f"gupta-fig-{i}" for i in range(1, 11)),
    *(f"uce-fig-{i}" for i in (1, 3, 5, 6, 10)),
}


def _open(result):
    """What is not confirmed: numbers outside their bands and claims."""
    return {line.label for line in result.missed} | {finding.text for finding in result.unconfirmed}


#: What the quick form does not confirm, by target: a claim that starts or ceases to show is noticed.
OPEN: dict[str, set[str]] = {
    "zhang-fig-5": {"order 1: KDE is nearer to the truth than both histograms at every n"},
    "zhang-fig-9": {"at n = 64, case 2, it also beats them clipped at 0"},
    "zhang-table-1": {
        "cifar10_resnet110: IRM has a lower ECE than IROvA",
        "cifar10_resnet110: IROvA-TS has a lower ECE than IROvA",
    },
    "zhang-table-2": {
        "cifar100_wrn16_4: methods rank by gain as by ECE (rank correlation above 0.5)",
        "cifar10_resnet110: IROvA-TS has a larger gain than IROvA",
        "cifar10_resnet110: methods rank by gain as by ECE (rank correlation above 0.5)",
    },
    "zhang-table-3": {
        "cifar10_resnet110: with all rows ETS has a lower ECE than TS",
    },
    "zhang-table-4": {
        "cifar10_resnet110: IROvA-TS needs fewer rows than IROvA",
    },
    "zhang-fig-1": {
        "cifar100_wrn16_4: with all rows IROvA has a lower ECE than IRM",
    },
    "zhang-fig-6": {
        "cifar10_resnet110: with 128 rows TS has a lower ECE than IROvA",
        "cifar10_resnet110: with 512 rows IROvA-TS has a lower ECE than IROvA",
        "cifar10_resnet110: with all rows ETS has a lower ECE than TS",
    },
    "zhang-fig-11": {
        "cifar10_lenet5: with all rows ETS has a lower ECE than TS",
        "cifar10_lenet5: with all rows IRM has a lower ECE than TS",
        "cifar10_lenet5: with all rows IROvA has a lower ECE than TS",
    },
    "zhang-fig-12": {
        "cifar100_wrn16_4: with all rows IROvA has a lower ECE than IRM",
    },
    "zhang-fig-13": {
        "rvlcdip_dit_first: with 128 rows TS has a lower ECE than IROvA",
        "rvlcdip_dit_first: with 512 rows IROvA-TS has a lower ECE than IROvA",
        "rvlcdip_dit_first: with all rows ETS has a lower ECE than TS",
    },
    "gupta-table-1": {
        "cifar10_lenet5: the spline has a lower error than temperature scaling",
    },
    "gupta-table-2": {
        "cifar10_lenet5: the spline has a lower error than temperature scaling",
        "cifar10_resnet110: MS-ODIR",
        "cifar10_resnet110: spline",
    },
    "gupta-table-4": {
        "cifar10_resnet110: the spline has a lower error than temperature",
        "cifar10_resnet50_focal: the spline has a lower error than temperature scaling",
    },
    "gupta-table-6": {
        "cifar10_lenet5: the spline has a lower error than temperature scaling",
    },
    "gupta-table-7": {
        "cifar10_resnet110: the spline beats temperature scaling by KDE-ECE",
        "cifar10_resnet110: the spline beats temperature scaling by top-1 Brier",
    },
    "gupta-fig-3": {
        "the network overestimates the probability of its top-2 label, as the caption says",
    },
    "gupta-fig-4": {
        "but not perfect: worse than on the calibration rows",
    },
    "uce-fig-5": {
        "the most accurate model has the lowest Brier score and NLL, whatever the temperature",
    },
}


def test_the_list_is_the_specification():
    assert set(list_targets()) == NAMES
    assert all(target.paper in PAPERS.values() for target in list_targets().values())


@pytest.mark.parametrize("name", SIMULATED)
def test_theory_shows(name, quick):
    result = quick(name)
    assert result.kind == "S"
    assert result.quick
    assert result.data
    assert ("nothing random" in result.made_from) == (name in FIXED)
    assert result.findings
    assert _open(result) == OPEN.get(name, set())


@pytest.mark.parametrize("name", REAL)
def test_findings_show_and_exact_numbers_are_hit(name, quick):
    data_path("cifar10_resnet110")
    result = quick(name)
    assert result.name == name
    assert result.kind in "EP"
    assert result.findings
    assert result.data
    assert ("nothing random" in result.made_from) == (name in FIXED)
    assert _open(result) == OPEN.get(name, set())
    assert all(f.seeds is None or f.seeds >= MIN_SEEDS for f in result.findings)
    assert all(f.reason or f.measured for f in result.findings if not f.holds)
    assert all(line.reason for line in result.missed)
    assert all(np.isfinite(line.ours) or "reached" in line.note or "units" in line.note for line in result.lines)
    if result.kind == "E" and name.startswith("gupta-table"):
        assert sum(line.hit is True for line in result.lines) >= 3


def test_published_values_of_the_spline_paper(quick):
    """The exact numbers themselves, not only their bands."""
    data_path("cifar10_resnet110")
    lines = {line.label: line.ours for line in quick("gupta-table-1").lines}
    assert lines["cifar10_resnet110: uncalibrated"] == pytest.approx(4.750, abs=0.0006)
    assert lines["cifar10_resnet110: temperature"] == pytest.approx(0.916, abs=0.002)


def test_a_finished_claim_that_is_not_confirmed_has_its_numbers_and_a_reason():
    kept = [o for o in store.kept_all(ROOT / "papers", list_targets()) if store.EARLIER not in o.date]
    found = [(o.name, o.quick, f) for o in kept for f in o.result.unconfirmed]
    assert found
    assert not [(name, quick, f.text) for name, quick, f in found if not (f.measured and f.reason)]
    assert not [(o.name, line.label) for o in kept for line in o.result.missed if not line.reason]


# -- verdicts can fail ----------------------------------------------------------------------------


def test_a_missed_band_and_a_missing_finding_are_named():
    good = Line("a", 1.0, 1.001, band=(0.99, 1.01))
    result = TargetResult(
        "gupta-table-1", "E", "t", (good, Line("b", 2.0, 1.0, band=(0.9, 1.1))), (Finding("falls", False),)
    )
    assert not result.holds
    assert result.verdict == "not confirmed"
    assert "b outside its band" in result.summary
    assert "falls" in result.summary
    assert [row["verdict"] for row in result.rows()] == ["hit", "missed"]
    assert TargetResult("gupta-table-1", "E", "t", (good,), (Finding("falls", True),)).verdict == "confirmed"
    assert TargetResult("gupta-table-1", "E", "t", (good,), (Finding("falls", True, exact=True),)).verdict == "exact"
    assert TargetResult("gupta-table-1", "E", "t", (), (Finding.no_data("falls", "logits"),)).verdict == "no data"


@pytest.mark.parametrize(("shown", "verdict"), [(5, "confirmed"), (4, "confirmed"), (3, "not confirmed")])
def test_a_random_claim_carries_its_seeds(shown, verdict):
    claim = Finding.over("falls", [True] * shown + [False] * (5 - shown), measured="1 against 2", reason="noise")
    assert (claim.verdict, claim.shown, claim.seeds) == (verdict, shown, 5)
    seen = "seen in" if verdict == "not confirmed" else "in"
    assert f"{verdict}, {seen} {shown} of 5 seeds (1 against 2" in claim.judged
    assert ("noise" in claim.judged) == (verdict == "not confirmed")
    result = TargetResult("gupta-table-1", "P", "t", (), (claim, Finding("rises", True)), data="d", size="10 rows")
    assert result.verdict == verdict
    assert result.made_from == "d; 10 rows; 5 seeds"


# -- the command ----------------------------------------------------------------------------------


def test_missing_data_are_said_and_simulations_still_run(monkeypatch, tmp_path):
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    with pytest.raises(FileError, match="CALIBRANT_DATA"):
        reproduce("gupta-fig-1", quick=True)
    with pytest.raises(FileError, match="does not exist"):
        reproduce("gupta-fig-1", data=tmp_path / "nothing", quick=True)
    outcomes = attempt(["uce-fig-3", "gupta-fig-1"], data=None, quick=True)
    assert outcomes[0].verdict == "exact"
    assert outcomes[1].verdict == "no data"
    assert "CALIBRANT_DATA" in outcomes[1].summary
    with pytest.raises(InputError, match="gupta-table-1"):
        reproduce("gupta-table-99")


def test_command_lists_and_writes(tmp_path):
    listed = CliRunner().invoke(command, [])
    assert listed.exit_code == 0
    assert all(name in listed.output for name in NAMES)
    done = CliRunner().invoke(command, ["uce-fig-3", "gruber-prop-3-2", "--quick", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "uce-fig-3.md").read_text(encoding="utf-8")
    assert "0.571" in page
    assert "Verdict: exact" in page
    assert (tmp_path / "uce-fig-3.csv").read_text(encoding="utf-8").startswith("number,ours,published,difference")
    told = CliRunner().invoke(command, ["uce-fig-3", "--quick", "--json", "-o", str(tmp_path)])
    document = json.loads(told.stdout)
    assert document["schema"] == 1
    assert document["targets"][0]["verdict"] == "exact"
    assert {"text", "holds", "shown", "seeds", "verdict"} <= set(document["targets"][0]["findings"][0])


def test_the_book_has_both_forms_and_counts_verdicts(tmp_path):
    result = reproduce("uce-fig-3", quick=True)
    missing = Outcome("gupta-table-1", None, "the logits", quick=True)
    full = replace(result, quick=False, findings=(Finding("falls", False, measured="1 against 2", reason="noise"),))
    outcomes = [missing, Outcome("uce-fig-3", result, quick=True, seconds=2.0), Outcome("uce-fig-3", full)]
    text = write_book(outcomes, tmp_path / "book.html").read_text(encoding="utf-8")
    page, claims = summary_page(outcomes, "calibrant reproduce all"), book_markdown(outcomes, "calibrant reproduce all")
    assert "https://" not in text.replace("http://www.w3.org", "")
    for document in (text, page, claims):
        assert "holds" not in document
        assert "not confirmed (1 of 1 claims)" in document
        assert "1 against 2; noise" in document
        assert "the logits" in document
        assert "2 s" in document
    assert "| quick | targets | 1 | 0 | 0 | 1 | 0 |" in page
    assert "| full | targets | 0 | 0 | 1 | 0 | 1 |" in page
    assert write_target(result, tmp_path)


def test_a_run_in_shards_resumes_and_ends_in_one_book(tmp_path, monkeypatch):
    ran = []

    def small(name):
        def run(quick, data, rng):
            ran.append(name)
            return TargetResult(name, "S", "t", (Line("a", math.inf),), (Finding("falls", True),), quick=quick)

        return Target(name, "p", run)

    names = ("uce-fig-1", "uce-fig-3", "uce-fig-4")
    monkeypatch.setattr(reproduction, "list_targets", lambda: {name: small(name) for name in names})
    for shard in ("1/2", "2/2", "1/2"):
        done = CliRunner().invoke(command, ["all", "--quick", "--shard", shard, "-o", str(tmp_path)])
        assert done.exit_code == 0, done.output
    assert ran == ["uce-fig-1", "uce-fig-4", "uce-fig-3"]
    assert all(f"| {name} | S | confirmed |" in (tmp_path / "targets.md").read_text("utf-8") for name in names)
    assert "calibrant 0." in (tmp_path / "papers.md").read_text("utf-8")
    CliRunner().invoke(command, ["all", "-o", str(tmp_path), "--seed", "1"])
    assert len(ran) == 6
    other = CliRunner().invoke(command, ["all", "--quick", "--results", str(tmp_path), "-o", str(tmp_path / "book")])
    assert other.exit_code == 0, other.output
    assert len(ran) == 6
    page = (tmp_path / "book" / "targets.md").read_text("utf-8")
    assert "uce-fig-4" in page
    assert "by an earlier program |" not in page
    assert not (tmp_path / "book" / "results").exists()
    monkeypatch.setattr(store, "_digest", lambda run: "another program")
    told = CliRunner().invoke(command, ["all", "--report", "--results", str(tmp_path), "-o", str(tmp_path / "book")])
    assert told.exit_code == 0, told.output
    assert len(ran) == 6
    assert "by an earlier program |" in (tmp_path / "book" / "targets.md").read_text("utf-8")
    refused = CliRunner().invoke(command, ["all", "--shard", "3/2", "-o", str(tmp_path)])
    assert refused.exit_code == 2
    assert "--shard" in refused.output


def test_published_spline_is_the_swapped_interpolation():
    score, hit = np.array([0.2, 0.5, 0.5, 0.9]), np.array([0, 1, 0, 1])
    thresholds, values, knots = fit_published(score, hit, 3)
    at = score + NaturalBasis(3).spline(np.array([0, 1 / 3, 2 / 3, 1]), 1) @ knots

    def official(q):
        i = int(np.searchsorted(score, q))
        if i in (0, 4):
            return at[min(i, 3)]
        share = (q - score[i - 1]) / (score[i] - score[i - 1])
        return share * at[i - 1] + (1 - share) * at[i]

    query = [0.1, 0.2, 0.21, 0.4, 0.5, 0.51, 0.7, 0.9, 0.95]
    np.testing.assert_allclose(np.interp(query, thresholds, values), [official(q) for q in query], rtol=1e-12)


def test_hundred_classes_is_the_published_run():
    data = hundred_classes(part="all")
    right = data.y_proba.argmax(1) == data.y_true
    assert right[:10_000].mean() == 0.8763  # printed by the authors for the calibration part
    assert right[10_000:].mean() == 0.8635
    assert data.errors["ce2"] == 0.0
    test = hundred_classes(scale=1.5)
    assert test.y_proba.shape == (10_000, 100)
    assert np.array_equal(test.y_true, data.y_true[10_000:])
    assert np.array_equal(test.truth, data.y_proba[10_000:])
    assert test.errors["gap"] == pytest.approx(0.0466, abs=1e-4)
    assert 0.05 < test.errors["ce2"] < 0.1
