"""The monitor: kills, two writers, windows, alarms, and the rate of false ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibrant.errors import FileError, InputError
from calibrant.monitoring.days import add_day as monitor
from calibrant.monitoring.days import compare_windows
from calibrant.monitoring.sequential import BETS, log_evalue, log_increments
from calibrant.monitoring.store import Store
from calibrant.summary.summary import Summary

SRC = Path(__file__).resolve().parents[2] / "src"


def day(rng, n=2000, shift=0.0):
    s = rng.beta(5, 1.5, n)
    return Summary(pairs=True).update(rng.random(n) < np.clip(s - shift, 0, 1), s)


def test_alarm_comes_after_a_break_and_says_since_when(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(6):
        report = monitor(tmp_path / "w", day(rng), name=f"good{i}")
        assert not report.alarm
    for i in range(6):
        report = monitor(tmp_path / "w", day(rng, shift=0.08), name=f"bad{i}")
    assert report.alarm
    assert report.since.startswith("bad")
    assert report.window.ks_pvalue < 0.01
    assert [h["name"] for h in report.history][-1] == "bad5"
    assert json.loads(json.dumps(report.to_dict()))["false_alarm_rate"] == 0.01
    assert monitor(tmp_path / "w").since == report.since  # reading changes nothing
    assert not monitor(tmp_path / "w", day(rng), name="after repair", restart=True).alarm


def test_a_tolerated_error_raises_no_alarm_and_a_larger_one_does(tmp_path):
    rng = np.random.default_rng(1)
    for i in range(10):
        small = monitor(tmp_path / "a", day(rng, 5000, 0.02), name=str(i), tolerance=0.03)
        large = monitor(tmp_path / "b", day(rng, 5000, 0.08), name=str(i), tolerance=0.03)
    assert not small.alarm
    assert large.alarm
    with pytest.raises(InputError, match="tolerance"):
        monitor(tmp_path / "a", day(rng), name="x", tolerance=0.5)


def test_same_day_twice_is_harmless_and_a_different_one_refused(tmp_path):
    rng = np.random.default_rng(2)
    one = day(rng)
    first = monitor(tmp_path / "w", one, name="mon")
    again = monitor(tmp_path / "w", one, name="mon")
    assert (first.days, again.days) == (1, 1)
    with pytest.raises(InputError, match="other predictions"):
        monitor(tmp_path / "w", day(rng), name="mon")


def test_refusals(tmp_path):
    rng = np.random.default_rng(3)
    with pytest.raises(InputError, match="name the day"):
        monitor(tmp_path / "w", day(rng))
    with pytest.raises(InputError, match="at least one day"):
        monitor(tmp_path / "w")
    with pytest.raises(InputError, match="whole numbers"):
        monitor(tmp_path / "w", Summary(pairs=True).update([1], [0.5], sample_weight=[0.3]), name="a")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x", encoding="utf-8")
    with pytest.raises(FileError, match="not a store"):
        monitor(tmp_path / "other", day(rng), name="a")
    monitor(tmp_path / "w", day(rng), name="a")
    path = next((tmp_path / "w").glob("*.day"))
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(FileError, match="damaged"):
        monitor(tmp_path / "w")


def _with_head(path, text):
    body = path.read_bytes().partition(b"\n")[2]
    path.write_bytes(f"{zlib.crc32(text):08x} ".encode() + text + b"\n" + body)


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: p.write_bytes(b""),
        lambda p: p.write_bytes(b"zzzzzzzz {}\n"),
        lambda p: p.write_bytes(p.read_bytes().partition(b"\n")[0]),
        lambda p: p.write_bytes(p.read_bytes()[:-9]),
        lambda p: _with_head(p, b"{}"),
        lambda p: _with_head(p, b"[1]"),
        lambda p: _with_head(p, b"no JSON"),
        lambda p: _with_head(p, b'{"name": 3, "n": 1, "facts": {}}'),
        lambda p: _with_head(p, b'{"name": "a", "n": 1, "facts": {"restart": false}}'),
        lambda p: p.rename(p.with_name("1x.day")),
        lambda p: (p.parent / "store.json").write_text("[]"),
        lambda p: (p.parent / "store.json").write_text('{"schema": "x"}'),
    ],
)
def test_whatever_happened_to_a_day_is_one_line(tmp_path, damage):
    monitor(tmp_path / "w", day(np.random.default_rng(3), 200), name="a")
    path = next((tmp_path / "w").glob("*.day"))
    damage(path)
    with pytest.raises(FileError) as caught:
        monitor(tmp_path / "w", day(np.random.default_rng(5), 200), name="a")
    assert str(tmp_path / "w") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_writers_at_once_lose_nothing(tmp_path):
    rng = np.random.default_rng(4)
    days = {f"d{i}": day(rng, 200) for i in range(24)}
    Store(tmp_path / "w", {"alpha": 0.01, "tolerance": 0.0})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: monitor(tmp_path / "w", item[1], name=item[0]), days.items()))
    found = Store(tmp_path / "w").days()
    assert sorted(d.name for d in found) == sorted(days)
    assert [d.number for d in found] == list(range(1, 25))
    assert not list((tmp_path / "w").glob("*.part"))
    assert all(d.summary().to_bytes() == days[d.name].to_bytes() for d in found)


WRITER = """
import sys, itertools
import numpy as np
from calibrant.monitoring.days import add_day as monitor
from calibrant.summary.summary import Summary
rng = np.random.default_rng(0)
s = rng.random(200_000)
summary = Summary(pairs=True).update(rng.random(200_000) < s, s)
print("ready", flush=True)
for i in itertools.count():
    monitor(sys.argv[1], summary, name=f"d{i}", window=1)
    print("stored", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_store_survives_kill_9_at_any_moment(tmp_path):
    for attempt in range(3):
        env = {**os.environ, "PYTHONPATH": str(SRC)}
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "w")], stdout=subprocess.PIPE, env=env, text=True
        )
        try:
            assert process.stdout.readline() == "ready\n"
            for _ in range(attempt):  # the first is killed while it starts to write, the others in the middle
                assert process.stdout.readline() == "stored\n"
            time.sleep(0.03 * attempt)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        days = Store(tmp_path / "w").days()
        assert len(days) >= attempt
        assert [d.number for d in days] == list(range(1, len(days) + 1))
        for one in days:
            assert one.summary().n == 200_000


def test_of_two_first_writers_with_other_classes_one_wins(tmp_path, monkeypatch):
    """The second stores its day while the first, which saw an empty store, is still counting."""
    from calibrant.monitoring import days

    rng = np.random.default_rng(9)
    first, second = (
        Summary(3, classes=list(names)).update(rng.choice(list(names), 50), rng.dirichlet(np.ones(3), 50))
        for names in ("abc", "abd")
    )
    facts = days._facts

    def overtaken(*given, **options):
        monkeypatch.setattr(days, "_facts", facts)
        monitor(tmp_path / "w", second, name="second")
        return facts(*given, **options)

    monkeypatch.setattr(days, "_facts", overtaken)
    with pytest.raises(InputError, match=r"must have the classes of the store \(a, b, d\); got a, b, c"):
        monitor(tmp_path / "w", first, name="first")
    assert [one.name for one in Store(tmp_path / "w").days()] == ["second"]


def test_a_store_that_was_only_opened_takes_days(tmp_path):
    assert Store(tmp_path / "w").days() == []
    assert not monitor(tmp_path / "w", day(np.random.default_rng(0)), name="mon").alarm
    assert Store(tmp_path / "w").settings == Store(tmp_path / "v").settings


READER = """
import sys
from calibrant.workflows.apply import apply
from calibrant.calibrators import TemperatureScaling
cal = TemperatureScaling().fit([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2, [0, 0, 1, 1, 1])
print("ready", flush=True)
apply(cal, sys.argv[1], sys.argv[2])
print("done", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_reader_killed_in_the_middle_of_a_file_leaves_no_output(tmp_path):
    p = np.random.default_rng(0).random(3_000_000)
    pl.DataFrame({"p_0": 1 - p, "p_1": p}).write_parquet(tmp_path / "in.parquet")
    process = subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.15)
    process.kill()
    rest = process.stdout.read()
    process.wait()
    process.stdout.close()
    assert "done" not in rest or (tmp_path / "out.parquet").exists()
    if (tmp_path / "out.parquet").exists():  # renamed, with or without the time to say so: then it is whole
        assert pl.scan_parquet(tmp_path / "out.parquet").select(pl.len()).collect().item() == 3_000_000


def test_wealth_is_a_fair_game_under_calibration():
    rng = np.random.default_rng(5)
    gains = np.array([np.exp(log_increments(day(rng, 25).tables("top-1")[0])) for _ in range(1200)])
    small = [i for i, (_, size) in enumerate(BETS) if abs(size) <= 0.25]
    error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
    assert (gains.mean(axis=0)[small] <= 1 + 4 * error[small]).all()  # mean at most 1: a supermartingale
    assert (gains.mean(axis=0)[small] >= 1 - 4 * error[small] - 1e-3).all()  # and hardly less: little is given away


def test_cells_never_overstate_the_wealth():
    rng = np.random.default_rng(6)
    s = rng.beta(5, 1.5, 4000)
    t = rng.random(4000) < s
    fine = log_increments(Summary(pairs=True).update(t, s).tables("top-1")[0])
    coarse = log_increments(Summary(pairs=True, coarse=True).update(t, s).tables("top-1")[0])
    shift = [i for i, (kind, _) in enumerate(BETS) if kind == "shift"]
    rows = np.array([(size * t - np.log1p(s * np.expm1(size))).sum() for kind, size in BETS if kind == "shift"])
    assert (fine[shift] <= rows + 1e-9).all()
    assert (coarse[shift] <= fine[shift] + 1e-9).all()
    np.testing.assert_allclose(fine[shift], rows, atol=1e-3)


def false_alarms(replicates, days, rows, alpha, seed):
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(replicates):
        gains = [log_increments(day(rng, rows).tables("top-1")[0]) for _ in range(days)]
        alarms += bool((log_evalue(gains) >= np.log(1 / alpha)).any())
    return alarms / replicates


def test_false_alarm_rate_small():
    assert false_alarms(60, 10, 100, 0.05, 7) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("days", "rows"), [(10, 1000), (60, 50), (200, 20)])
def test_false_alarm_rate(days, rows):
    replicates = 400
    rate = false_alarms(replicates, days, rows, 0.05, 8)
    assert rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / replicates)


def test_window_test_has_its_size_and_power():
    rng = np.random.default_rng(9)
    null = [compare_windows(day(rng, 500), day(rng, 700), n_resamples=99, rng=rng).ks_pvalue for _ in range(100)]
    assert np.mean(np.array(null) <= 0.05) <= 0.12
    moved = compare_windows(day(rng, 3000), day(rng, 3000, 0.1), n_resamples=199, rng=rng)
    assert moved.ks_pvalue <= 0.01
    accuracy = moved.changes[0]
    assert accuracy.name == "accuracy"
    assert accuracy.change > 0.05
    assert accuracy.pvalue < 0.001


def test_command_line_exits_three_on_alarm(tmp_path):
    rng = np.random.default_rng(10)
    s = rng.uniform(0.6, 1, 3000)
    for name, shift in (("mon", 0.0), ("tue", 0.3)):
        pl.DataFrame({"confidence": s, "correct": rng.random(3000) < s - shift}).write_csv(tmp_path / f"{name}.csv")
    run = [sys.executable, "-c", "from calibrant.cli import main; main()", "monitor", str(tmp_path / "w")]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    first = subprocess.run(
        [*run, str(tmp_path / "mon.csv"), "--json"], capture_output=True, text=True, env=env, check=False
    )
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["alarm"] is False
    second = subprocess.run([*run, str(tmp_path / "tue.csv")], capture_output=True, text=True, env=env, check=False)
    assert second.returncode == 3, second.stderr
    assert "ALARM since tue" in second.stdout


def test_twenty_retries_of_a_night_change_nothing(tmp_path):
    from calibrant.workflows.monitor import monitor as night

    rng = np.random.default_rng(11)
    p = rng.dirichlet(np.ones(3), 30_000)
    y = (p.cumsum(1) > rng.random((30_000, 1))).argmax(1)
    (tmp_path / "2026-11-15").mkdir()
    for i in range(3):
        rows = slice(10_000 * i, 10_000 * (i + 1))
        frame = pl.DataFrame({f"p_{k}": p[rows, k] for k in range(3)} | {"label": y[rows]})
        frame.write_parquet(tmp_path / "2026-11-15" / f"part-{i}.parquet")
    pattern = str(tmp_path / "2026-11-15" / "*.parquet")
    reports = [night(tmp_path / "w", pattern) for _ in range(20)]
    assert {report.name for report in reports} == {"2026-11-15"}
    assert {report.log_evalue for report in reports} == {reports[0].log_evalue}
    assert len(list((tmp_path / "w").glob("*.day"))) == 1


def test_a_late_day_is_not_the_newest_and_the_evidence_takes_days_as_they_come(tmp_path):
    rng = np.random.default_rng(12)
    for name in ("2026-11-01", "2026-11-03", "2026-11-04"):
        monitor(tmp_path / "w", day(rng), name=name)
    late = monitor(tmp_path / "w", day(rng), name="2026-11-02")
    assert late.name == "2026-11-04"
    assert [one["name"][-2:] for one in late.history] == ["01", "02", "03", "04"]
    assert monitor(tmp_path / "w", day(rng), name="first", date="2026-10-31").history[0]["name"] == "first"
    with pytest.raises(InputError, match="date"):
        monitor(tmp_path / "w", day(rng), name="x", date="soon")


def test_a_day_is_replaced_in_its_place(tmp_path):
    rng = np.random.default_rng(13)
    for name in ("a", "b", "c"):
        monitor(tmp_path / "w", day(rng), name=name)
    report = monitor(tmp_path / "w", day(rng, 500), name="b", replace=True)
    assert [(one["name"], one["n"]) for one in report.history] == [("a", 2000), ("b", 500), ("c", 2000)]


def test_another_class_set_is_refused_before_a_word_is_written(tmp_path):
    rng = np.random.default_rng(14)

    def classes(names, n=300):
        p = rng.dirichlet(np.ones(len(names)), n)
        y = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
        return Summary(len(names), classes=names).update(np.array(names)[y], p)

    monitor(tmp_path / "w", classes(["ant", "bee"]), name="1")
    monitor(tmp_path / "w", classes(["bee", "ant"]), name="2")  # the same classes in another order
    before = sorted(path.name for path in (tmp_path / "w").iterdir())
    with pytest.raises(InputError, match="ant, bee, cat"):
        monitor(tmp_path / "w", classes(["ant", "bee", "cat"]), name="3")
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == before
    assert monitor(tmp_path / "w").window is not None
    assert monitor(tmp_path / "w", classes(["ant", "bee", "cat"]), name="3", restart=True).days == 1
    assert monitor(tmp_path / "w", classes(["cat", "ant", "bee"]), name="4").days == 2


def test_nights_before_a_restart_may_come_late_or_again(tmp_path):
    rng = np.random.default_rng(15)

    def classes(names, n=300):
        p = rng.dirichlet(np.ones(len(names)), n)
        y = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
        return Summary(len(names), classes=names).update(np.array(names)[y], p)

    old, new, store = ["ant", "bee"], ["ant", "bee", "cat"], tmp_path / "w"
    first, third = classes(old), classes(new)
    monitor(store, first, name="2026-11-01")
    monitor(store, third, name="2026-11-03", restart=True)
    monitor(store, classes(new), name="2026-11-04")
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    for night, name in ((first, "2026-11-01"), (third, "2026-11-03")):
        assert monitor(store, night, name=name).days == 2  # a retry, of the night of the restart without its flag too
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before
    with pytest.raises(InputError, match="have the classes of the store"):
        monitor(store, classes(old), name="2026-11-05")
    with pytest.raises(InputError, match="have the classes of the store"):
        monitor(store, classes(new), name="2026-11-02")
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before
    late = monitor(store, classes(old), name="2026-11-02")
    assert (late.name, late.days) == ("2026-11-04", 2)
    replaced = monitor(store, classes(new), name="2026-11-03", replace=True)
    assert (replaced.days, replaced.history[0]["name"]) == (2, "2026-11-03")  # it still is a restart
    assert replaced.window is not None


def test_alarms_on_rows_that_cannot_be_used_and_on_their_number(tmp_path):
    rng = np.random.default_rng(15)
    for i in range(4):
        assert monitor(tmp_path / "w", day(rng), name=str(i)).alarms == ()
    small = day(rng, 300)
    small.add_rows(0, 0, {}, {"missing": 30})
    report = monitor(tmp_path / "w", small, name="4")
    assert [alarm["kind"] for alarm in report.alarms] == ["rejected", "volume"]
    assert not report.alarm
    assert report.rejected["missing"] == 30
    assert "Note: 4: 30 rows were left out (30 missing)." in str(report)
    assert report.to_dict()["notes"] == ["4: 30 rows were left out (30 missing)"]


def test_a_few_rows_left_out_are_said_even_without_an_alarm(tmp_path):
    """Also those of a day that comes late, and without new data those of the latest day."""
    rng = np.random.default_rng(16)
    for name, missing in (("2026-11-02", 3), ("2026-11-03", 1), ("2026-11-01", 2)):
        summary = day(rng)
        summary.add_rows(0, 0, {}, {"missing": missing})
        report = monitor(tmp_path / "w", summary, name=name)
        assert report.alarms == ()
        assert f"Note: {name}: {missing} rows were left out ({missing} missing)." in str(report)
    assert "Note: 2026-11-03: 1 rows were left out (1 missing)." in str(monitor(tmp_path / "w"))
