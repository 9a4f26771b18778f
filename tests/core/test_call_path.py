"""How many files a reader follows: every file of the package with a call of its own counts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.metrics import expected_calibration_error

_ROOT = Path(calibrant.__file__).parent


def files_of(call: Callable[[], Any]) -> set[str]:
    """Return the files of the package that a call passes, once everything is imported."""
    call()
    found: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(_ROOT):
            found.add(path.relative_to(_ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


@pytest.fixture
def predictions() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    return rng.integers(0, 3, 200), p


@pytest.mark.parametrize("form", ["matrix", "column", "weights"])
def test_the_expected_calibration_error_passes_six_files(predictions, form):
    y, p = predictions
    options = {"sample_weight": np.ones(200)} if form == "weights" else {}
    y, p = (y == 1, p[:, 1]) if form == "column" else (y, p)
    passed = files_of(lambda: expected_calibration_error(y, p, **options))
    assert passed == {
        "metrics/_ece.py",
        "core/declare.py",
        "core/inputs.py",
        "views/view.py",
        "core/tables.py",
        "estimators/estimator.py",
    } | ({"core/weights.py"} if form == "weights" else set())


#: What the command passes today. The aim is 25; each default metric, estimator and form of uncertainty has a file of its
#: own, which is the larger good, so this bound may only fall. (It rose when everyday files came to be read, and when
#: the types of all options came to be checked in one place: decision 34.)
_EVALUATE_FILES = 61


def test_the_command_evaluate_passes_no_more_files_than_today(predictions, tmp_path, monkeypatch):
    monkeypatch.setenv(
        "CALIBRANT_FAST", "0"
    )  # kernels that an earlier test has loaded are not on the path of a command
    y, p = predictions
    path = tmp_path / "preds.csv"
    rows = [",".join([*(f"{value:.17g}" for value in row), str(label)]) for row, label in zip(p, y, strict=True)]
    path.write_text("\n".join(["p_0,p_1,p_2,label", *rows]) + "\n")

    def command() -> None:
        result = CliRunner().invoke(cli, ["evaluate", str(path)])
        assert result.exit_code == 0, result.output

    passed = files_of(command)
    assert len(passed) <= _EVALUATE_FILES, sorted(passed)
