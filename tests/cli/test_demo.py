"""The demo tells the whole story with required packages only."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.cli import cli
from calibrant.core.links import softmax
from calibrant.workflows import demo


def model(name, sharpen, seed):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(240, 3))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    p = softmax(sharpen * logits)
    return demo.Models(name, p[:120], y[:120], p[120:], y[120:])


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(demo, "digits_models", lambda _: [model("network", 3.0, 0), model("forest", 0.3, 1)])
    for name in ("torch", "matplotlib", "pandas", "duckdb", "pyarrow", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it fails


def test_story(quick, tmp_path):
    result = CliRunner().invoke(cli, ["demo", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    assert "overconfident" in result.stdout
    assert "too cautious" in result.stdout
    assert "Better: the Brier score falls" in result.stdout
    story = result.stdout.split("$ calibrant fit")[1].split("Chosen:")
    weights = [line.split()[-1] for line in story[0].splitlines()[3:] if line.strip()]
    named = [weight for weight in weights if weight.endswith("%")]
    assert len(weights) > len(named) > 1  # every method is listed
    assert weights[: len(named)] == sorted(named, key=lambda weight: -int(weight[:-1]))  # and those shipped come first
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8").lower()
    for name in ("network", "forest"):
        assert (tmp_path / f"{name}.npz").exists()
        after = CliRunner().invoke(
            cli,
            ["compare", str(tmp_path / f"{name}.npz"), "--calibrator", str(tmp_path / f"{name}-cal.json"), "--json"],
        )
        assert json.loads(after.stdout)["metrics"]["nll"]["change"] > 0


def test_digits_give_one_over_and_one_under_confident_model():
    for made, sign in zip(demo.digits_models(), (1, -1), strict=True):
        lean = made.test.max(axis=1).mean() - (made.test.argmax(axis=1) == made.y_test).mean()
        assert sign * lean > 0.04
