"""Every table and figure of the five papers: the list is complete, quick forms run, verdicts hold and can fail."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.cli.reproduce import command
from calibrant.errors import FileError, InputError
from calibrant.studies import list_targets, reproduce
from calibrant.studies.reproduce import PAPERS, Outcome, attempt, summary_page, write_book, write_target
from calibrant.studies.targets.result import Finding, Line, TargetResult
from helpers import data_path

#: The list of the specification.
NAMES = {
    "gruber-theorem-3-1", "gruber-prop-3-2", "gruber-prop-d-2", "gruber-appendix-e", "gruber-table-1", "gruber-table-2",
    *(f"gruber-fig-{i}" for i in range(1, 10)),
    *(f"gupta-table-{i}" for i in (1, 2, 4, 5, 6, 7)), *(f"gupta-fig-{i}" for i in range(1, 11)),
    *(f"zhang-table-{i}" for i in range(1, 5)), *(f"zhang-fig-{i}" for i in (1, 5, 6, 7, 8, 9, 11, 12, 13)),
    "nixon-table-1", "nixon-table-2", *(f"nixon-fig-{i}" for i in range(1, 12)),
    "uce-table-1", "uce-table-2", *(f"uce-fig-{i}" for i in range(1, 11)),
}
SIMULATED = (
    "gruber-theorem-3-1", "gruber-prop-3-2", "gruber-prop-d-2", "gruber-appendix-e", "zhang-fig-5", "zhang-fig-7",
    "zhang-fig-8", "zhang-fig-9", "nixon-fig-7", "nixon-fig-8", "uce-fig-3", "uce-fig-4",
)
TRAINED = (
    "nixon-fig-3", "nixon-fig-5", "nixon-fig-6", "nixon-fig-9", "nixon-fig-10", "uce-table-1", "uce-table-2", "uce-fig-2",
    "uce-fig-7", "uce-fig-8", "uce-fig-9",
)
#: Tested with their own study (tests/studies/test_variance_regression.py), or long.
LONG = ("gruber-table-1", "gruber-table-2", "gruber-fig-4", "gruber-fig-8", "gruber-fig-9", "gruber-fig-2")
REAL = sorted(NAMES - {*SIMULATED, *TRAINED, *LONG})


def test_the_list_is_the_specification():
    assert set(list_targets()) == NAMES
    assert all(target.paper in PAPERS.values() for target in list_targets().values())


@pytest.mark.parametrize("name", SIMULATED)
def test_theory_holds(name):
    result = reproduce(name, quick=True)
    assert result.kind == "S"
    assert result.quick
    assert result.findings
    assert result.verdict == "holds"


@pytest.mark.parametrize("name", REAL)
def test_findings_show_and_exact_numbers_are_hit(name):
    folder = data_path("cifar10_resnet110").parent
    result = reproduce(name, data=folder, quick=True)
    assert result.name == name
    assert result.kind in "EP"
    assert result.findings
    assert result.verdict == "holds"
    assert all(np.isfinite(line.ours) or "reached" in line.note or "units" in line.note for line in result.lines)
    if result.kind == "E" and name.startswith("gupta-table"):
        assert sum(line.hit is True for line in result.lines) >= 3


@pytest.mark.parametrize("name", TRAINED)
def test_trained_targets_run(name):
    pytest.importorskip("torch")
    result = reproduce(name, quick=True)
    assert result.lines
    assert result.findings
    assert result.verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_targets(name):
    folder = data_path("residential_building").parent
    assert reproduce(name, data=folder, quick=True).verdict == "holds"


def test_published_values_of_the_spline_paper():
    """The exact numbers themselves, not only their bands."""
    folder = data_path("cifar10_resnet110").parent
    lines = {line.label: line.ours for line in reproduce("gupta-table-1", data=folder, quick=True).lines}
    assert lines["cifar10_resnet110: uncalibrated"] == pytest.approx(4.750, abs=0.0006)
    assert lines["cifar10_resnet110: temperature"] == pytest.approx(0.916, abs=0.002)


# -- verdicts can fail ----------------------------------------------------------------------------


def test_a_missed_band_and_a_missing_finding_are_named():
    good = Line("a", 1.0, 1.001, band=(0.99, 1.01))
    result = TargetResult("gupta-table-1", "E", "t", (good, Line("b", 2.0, 1.0, band=(0.9, 1.1))), (Finding("falls", False),))
    assert not result.holds
    assert "b outside its band" in result.verdict
    assert "falls" in result.verdict
    assert [row["verdict"] for row in result.rows()] == ["hit", "missed"]
    assert TargetResult("gupta-table-1", "E", "t", (good,), (Finding("falls", True),)).holds


def test_shuffled_labels_break_the_findings(monkeypatch):
    """A target that held whatever the data said would prove nothing."""
    from calibrant.studies.targets import gupta_figures, gupta_tables

    true_split = gupta_tables.split_of

    def shuffled(data, name):
        split = true_split(data, name)
        labels = np.random.default_rng(0).permutation(split.test.labels)
        return split._replace(test=split.test._replace(labels=labels))

    folder = data_path("cifar10_resnet110").parent
    monkeypatch.setattr(gupta_figures, "split_of", shuffled)
    assert not reproduce("gupta-fig-2", data=folder, quick=True).holds


# -- the command ----------------------------------------------------------------------------------


def test_missing_data_are_said_and_simulations_still_run(monkeypatch, tmp_path):
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    with pytest.raises(FileError, match="CALIBRANT_DATA"):
        reproduce("gupta-fig-1", quick=True)
    with pytest.raises(FileError, match="does not exist"):
        reproduce("gupta-fig-1", data=tmp_path / "nothing", quick=True)
    outcomes = attempt(["uce-fig-3", "gupta-fig-1"], data=None, quick=True)
    assert outcomes[0].verdict == "holds"
    assert outcomes[1].verdict.startswith("not run")
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
    assert "Verdict: holds" in page
    assert (tmp_path / "uce-fig-3.csv").read_text(encoding="utf-8").startswith("number,ours,published,difference")
    told = CliRunner().invoke(command, ["uce-fig-3", "--quick", "--json", "-o", str(tmp_path)])
    document = json.loads(told.stdout)
    assert document["schema"] == 1
    assert document["targets"][0]["verdict"] == "holds"


def test_the_book_holds_every_outcome(tmp_path):
    result = reproduce("uce-fig-3", quick=True)
    outcomes = [Outcome("uce-fig-3", result), Outcome("gupta-table-1", None, "no data")]
    text = write_book(outcomes, tmp_path / "book.html").read_text(encoding="utf-8")
    assert "1 of 2 hold" in text
    assert "not run: no data" in text
    assert "https://" not in text.replace("http://www.w3.org", "")
    page = summary_page(outcomes, "calibrant reproduce all")
    assert "| uce-fig-3 | S | holds |" in page
    assert write_target(result, tmp_path)
