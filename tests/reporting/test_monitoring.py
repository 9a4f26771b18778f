"""The page of a watch shows the numbers of the watch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from calibrant.engines.monitor import monitor
from calibrant.engines.summary import Summary
from calibrant.reporting.monitoring import report_monitor


def day(shift, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.5, 1, 800)
    return Summary(n_classes=2).update((rng.random(800) < p - shift).astype(int), p)


def test_page_shows_every_day_and_the_alarm(tmp_path):
    for i, shift in enumerate([0.0, 0.0, 0.3]):
        report = monitor(tmp_path / "watch", day(shift, i), name=f"day-{i}", rng=0)
    page = report_monitor(report)
    assert report.alarm
    assert "Alarm since day-2" in page.html
    assert all(f"day-{i}" in page.html for i in range(3))
    assert page.html.count("<circle") == 3
    assert "<script" not in page.html


def test_command_writes_it(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 500)
    np.savez(tmp_path / "a.npz", probs=p, labels=(rng.random(500) < p).astype(int))
    done = subprocess.run(
        [sys.executable, "-m", "calibrant", "monitor", str(tmp_path / "watch"), str(tmp_path / "a.npz"), "--report", str(tmp_path / "watch.html")],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "The course of the watch" in (tmp_path / "watch.html").read_text(encoding="utf-8")
