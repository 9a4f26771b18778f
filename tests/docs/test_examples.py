"""Every gallery script runs; the gallery of the docs is made from the same files."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("plot_*.py"))


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs_and_draws(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is absent (extra: plots)").use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    runpy.run_path(str(script), run_name="__main__")
    drawn = len(plt.get_fignums())
    plt.close("all")
    assert drawn >= 2
    assert capsys.readouterr().out
    assert script.read_text(encoding="utf-8").startswith('"""\n')
