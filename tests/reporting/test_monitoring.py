"""The page of a monitor shows the numbers of the monitor."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from calibrant.monitoring.days import add_day as monitor
from calibrant.reporting.monitoring import report_monitor
from calibrant.summary.summary import Summary


def day(shift, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.5, 1, 800)
    return Summary(n_classes=2).update((rng.random(800) < p - shift).astype(int), p)


def test_page_shows_every_day_and_the_alarm(tmp_path):
    for i, shift in enumerate([0.0, 0.0, 0.3]):
        report = monitor(tmp_path / "store", day(shift, i), name=f"day-{i}", rng=0)
    page = report_monitor(report)
    assert report.alarm
    assert "Alarm since day-2" in page.html
    assert all(f"day-{i}" in page.html for i in range(3))
    assert [picture.count("<circle") for picture in page.summary["evidence"]] == [3, 3, 3]  # desk, tablet, phone
    assert page.html.count("<script") == 1
    assert " bet " not in page.html.partition('id="read"')[0]  # explained before it is used


def test_page_of_two_classes_speaks_of_the_event(tmp_path):
    for i in range(2):
        report = monitor(tmp_path / "store", day(0.1, i), name=f"day-{i}", rng=0)
    last = report.history[-1]
    page = report_monitor(report)
    assert report.event == "1"
    said = f"the score predicts class 1 in {last['predicted']:.1%} of cases; it happens in {last['observed']:.1%}"
    assert said in page.summary["page"]["lead"]
    assert last["predicted"] - last["observed"] > 0.06
    assert 'data-l="Happens"' in page.html
    assert "to be right" not in page.html
    assert "Right" not in page.summary["errors"][0]


def test_page_of_more_classes_speaks_of_what_was_right(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 600)
    rows = Summary(n_classes=3).update((p.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1), p)
    report = monitor(tmp_path / "store", rows, name="monday", rng=0)
    assert report.event is None
    assert "claims to be right" in report_monitor(report).summary["page"]["lead"]


def test_command_writes_it(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 500)
    np.savez(tmp_path / "a.npz", probs=p, labels=(rng.random(500) < p).astype(int))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "calibrant",
            "monitor",
            str(tmp_path / "store"),
            str(tmp_path / "a.npz"),
            "--report",
            str(tmp_path / "monitor.html"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "<h2>No day lies above the alarm line</h2>" in (tmp_path / "monitor.html").read_text(encoding="utf-8")
