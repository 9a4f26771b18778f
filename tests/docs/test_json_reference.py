"""The reference of the JSON documents names every key that the commands print, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.cli import cli
from calibrant.datasets import dirichlet_temperature
from helpers import ROOT

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
COMMANDS = {
    "evaluate": "evaluate preds.npz --json --resamples 20",
    "fit": "fit preds.npz --method temperature -o cal.json --json",
    "compare": "compare preds.npz --calibrator cal.json --json",
    "check": "check preds.npz --max ece=0.5 --json",
    "apply": "apply cal.json preds.npz -o out.npz --json",
    "monitor": "monitor store preds.npz --name 2026-11-15 --json",
    "report": "report preds.npz --json --resamples 20 --no-compare",
    "explain": "explain ece --json",
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("json")
    data = dirichlet_temperature(1000, n_classes=3, concentration=0.3, temperature=0.6, rng=0)
    p, y = data.y_proba, data.y_true
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        np.savez("preds.npz", probs_cal=p[:500], labels_cal=y[:500], probs_test=p[500:], labels_test=y[500:])
        for name, line in COMMANDS.items():
            done = CliRunner().invoke(cli, line.split())
            assert done.exit_code in (0, 3), done.output
            found[name] = json.loads(done.stdout)
        found["calibrator"] = json.loads(Path("cal.json").read_text(encoding="utf-8"))
    return found


def tables(name: str) -> list[str]:
    """First columns of the tables in the section of a command."""
    section = PAGE.split(f"## `calibrant {name} --json`")[1].split("\n## ")[0]
    return [" ".join(line.split("|")[1] for line in part) for part in _grouped(section.splitlines())]


def _grouped(lines: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("| `"):
            parts[-1].append(line)
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def keys(column: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", column))


@pytest.mark.parametrize("name", COMMANDS)
def test_top_level_keys_are_those_of_the_page(name: str, documents: dict[str, Any]) -> None:
    assert keys(tables(name)[0]) == set(documents[name])


def test_keys_inside_the_evaluation(documents: dict[str, Any]) -> None:
    _, measure, judgment = tables("evaluate")
    assert keys(measure) == set(documents["evaluate"]["metrics"]["ece"])
    assert keys(judgment) == set(documents["evaluate"]["judgment"])


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("compare", "metrics"),
        ("check", "checks"),
        ("fit", "cv_results"),
        ("monitor", "history"),
        ("monitor", "alarms"),
    ],
)
def test_rows_have_the_keys_their_line_names(name: str, path: str, documents: dict[str, Any]) -> None:
    section = PAGE.split(f"## `calibrant {name} --json`")[1].split("\n## ")[0]
    line = next(line for line in section.splitlines() if line.startswith(f"| `{path}`"))
    row = documents[name][path]
    first = row["ece"] if isinstance(row, dict) else row[0]
    named = keys(line.split("|")[2]) - {"null", "pass", "fail"}
    assert named == set(first)


def test_a_calibrator_file_has_the_keys_of_the_page(documents: dict[str, Any]) -> None:
    section = PAGE.split("## Files")[1]
    assert set(documents["calibrator"]) == (keys(section) | {"format"}) - {"CALSUM"}
    assert documents["calibrator"]["format"] in section


def test_statuses_are_those_of_the_verdict() -> None:
    from typing import get_args

    from calibrant.inference.verdict import Status

    line = next(line for line in PAGE.splitlines() if line.startswith("| `status`"))
    assert set(re.findall(r"`([a-z ]+)`", line.split("|")[2])) == set(get_args(Status))
