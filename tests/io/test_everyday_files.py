"""Files as programs and people really write them: the right numbers, or the right one-line refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.cli import cli
from calibrant.errors import CalibrantError
from io_files import everyday

METRICS = {"classes": ("brier", "accuracy", "confidence"), "pairs": ("accuracy", "confidence"), "regression": ("mse",)}


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.mark.parametrize("name", list(everyday.MAKERS))
def test_everyday_file(tmp_path, name):
    path, expected = everyday.MAKERS[name](tmp_path)
    if isinstance(expected, everyday.Refused):
        done = run("evaluate", path, "--resamples", 0, *expected.args)
        assert isinstance(done.exception, CalibrantError), (done.output, done.exception)
        line = str(done.exception)
        assert "\n" not in line
        assert "Hint:" in line
        for word in expected.words:
            assert word in line
        return
    metrics = [word for metric in METRICS[expected.kind] for word in ("--metric", metric)]
    done = run("evaluate", path, "--resamples", 0, "--json", *metrics, *expected.args)
    assert done.exit_code == 0, (done.stderr, done.exception)
    found = json.loads(done.stdout)
    wanted = expected.numbers()
    assert found["n"] == wanted.pop("n")
    for metric, value in wanted.items():
        if name == "regression_quantiles":  # the mean of a table of quantiles is its own convention
            continue
        assert found["metrics"][metric]["value"] == pytest.approx(value, abs=2e-6), metric
    assert done.stderr.startswith(("read: ", "note: "))
    for word in expected.said:
        assert word in done.stderr


def test_there_are_enough_of_them():
    assert len(everyday.MAKERS) >= 60
    assert np.allclose(everyday.P.sum(axis=1), 1)
