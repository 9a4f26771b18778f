"""How the command line speaks: the story in its help, hints for wrong words, colors on a terminal alone."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import STORY, cli
from calibrant.cli._progress import progress
from calibrant.cli._text import colored


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_commands_are_listed_by_story():
    text = run().output
    places = [text.index(f"\n  {name} ") for name in STORY]
    assert places == sorted(places)
    assert "before and after" in text
    assert "..." not in text.split("Commands:")[1]  # whole summaries


@pytest.mark.parametrize(
    ("word", "meant"), [("evalute", "evaluate"), ("calibrate", "fit"), ("preds.csv", "calibrant evaluate preds.csv")]
)
def test_wrong_words_get_a_hint(word, meant):
    done = run(word)
    assert done.exit_code == 2
    assert f"did you mean '{meant}'?" in done.output


def test_metric_names_in_any_case(tmp_path):
    (tmp_path / "a.csv").write_text("label,score\n" + "\n".join(f"{i % 2},0.{3 + 4 * (i % 2)}" for i in range(30)))
    assert "ece" in run("evaluate", tmp_path / "a.csv", "--metric", "ECE", "--resamples", 0).stdout
    assert calibrant.evaluate([1, 0], [0.9, 0.2], metrics=["Brier"], n_resamples=0)["BRIER"].value > 0
    assert calibrant.check([1, 0], [0.9, 0.2], max_values="BRIER=0.3")["brier"].passed


def test_check_and_evaluate_show_the_same_units(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(400)
    calibrant_text = str(calibrant.evaluate(rng.random(400) < p, p, metrics=["ece@class-1"], n_resamples=0))
    value = next(word for word in calibrant_text.split("\n")[2].split() if word.endswith("%"))
    rng = np.random.default_rng(0)
    p = rng.random(400)
    assert value in str(calibrant.check(rng.random(400) < p, p, max_values="ece=20%"))


def test_colors_on_a_terminal_alone(monkeypatch):
    text = "head\nVerdict: Not calibrated: overconfident by 4 points. More."
    assert colored(text) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colored(text) == "head\nVerdict: \x1b[31m\x1b[1mNot calibrated:\x1b[0m overconfident by 4 points. More."
    assert "\x1b[33m" in colored("Verdict: In-sample: the rows. More.")
    monkeypatch.setenv("NO_COLOR", "1")
    assert colored(text) == text


def test_progress_appears_after_a_while(monkeypatch, capsys):
    drawn = threading.Event()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: drawn.set())
    with progress("waiting", after=0.05):
        assert drawn.wait(300), "no bar"
    drawn.clear()
    with progress("quick", after=300.0):
        pass
    assert not drawn.is_set()


def test_a_bar_that_appears_at_the_end_is_taken_away(monkeypatch):
    calls, begun = [], threading.Event()

    def start(bar):
        begun.set()
        time.sleep(0.05)  # work ends while the bar is being drawn
        calls.append("start")

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("rich.progress.Progress.start", start)
    monkeypatch.setattr("rich.progress.Progress.stop", lambda bar: calls.append("stop"))
    with progress("ends", after=0.001):
        begun.wait(300)
    assert calls == ["start", "stop"]


def test_objects_are_short():
    rng = np.random.default_rng(0)
    p = rng.random(100)
    y = (rng.random(100) < p).astype(int)
    done = calibrant.fit(y, p, method="platt")
    everything = (
        calibrant.evaluate(y, p, n_resamples=10),
        calibrant.compare(y, p, p**2),
        calibrant.check(y, p, max_values="ece=0.5"),
        done,
    )
    for one in everything:
        assert len(repr(one)) < 250, repr(one)
        assert "\n" not in repr(one)
    assert done["platt"]["method"] == "platt"
    assert str(everything[0]) == str(calibrant.evaluate(y, p, n_resamples=10))  # seeded by default
