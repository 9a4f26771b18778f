"""The race frame: turns, shares, absent peers, goals, and the three forms of the report."""

from __future__ import annotations

import json
import mmap
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant_benchmarks as bench
from calibrant.errors import InputError
from calibrant_benchmarks import report as report_module
from calibrant_benchmarks import waits
from calibrant_benchmarks.arrays import binary, clear, logits, probabilities
from calibrant_benchmarks.command import command
from calibrant_benchmarks.frame import Absent, Goal, Race, Seconds, checking, floor, load, ours, peer, run_race
from calibrant_benchmarks.growth import run_growth


def gone():
    raise Absent("nowhere: not installed")


def race(*entrants, goals=()) -> Race:
    return Race("toy", "a toy", lambda quick: entrants, tuple(goals))


def fixed(seconds: float):
    return lambda: Seconds(seconds)


def test_goals_are_judged_against_the_fastest_peer_or_by_name() -> None:
    outcome = run_race(
        race(
            ours("mine", fixed(2.0)),
            floor("np.sum", fixed(1.0)),
            peer("slow", lambda: fixed(30.0)),
            peer("quick", lambda: fixed(6.0)),
            goals=[
                Goal("faster", 3),
                Goal("faster", 4),
                Goal("faster", 15, "slow"),
                Goal("within", 2, "np.sum"),
                Goal("seconds", 2),
                Goal("faster", 1, "unknown"),
            ],
        )
    )
    assert [verdict.met for verdict in outcome.verdicts] == [True, False, True, True, False, None]
    assert outcome.verdicts[0].measured == pytest.approx(3.0)
    assert "quick" in outcome.verdicts[0].goal


def test_a_share_of_the_work_is_scaled_up() -> None:
    outcome = run_race(race(ours("mine", fixed(1.0)), peer("sampled", lambda: fixed(0.5), 1, 0.01)))
    assert outcome.timings[1].best == pytest.approx(50.0)
    assert outcome.timings[1].rounds == 1
    assert outcome.timings[0].rounds == 5


def test_entrants_take_turns_and_the_best_time_counts() -> None:
    order: list[str] = []
    outcome = run_race(
        race(
            ours("a", lambda: order.append("a")),
            peer("b", lambda: lambda: order.append("b")),
        ),
        rounds=3,
    )
    assert order == ["a", "b"] * 4  # once more for the memory
    assert outcome.timings[0].best <= outcome.timings[0].median


def test_an_absent_or_failing_peer_leaves_the_others_racing() -> None:
    def fails():
        raise RuntimeError("boom")

    outcome = run_race(race(ours("mine", fixed(1.0)), peer("gone", gone), peer("broken", lambda: fails)))
    assert [timing.name for timing in outcome.timings] == ["mine"]
    assert outcome.absent[0] == "gone (nowhere: not installed)"
    assert "failed: RuntimeError: boom" in outcome.absent[1]
    with pytest.raises(Absent, match="no_such_module"):
        load("no_such_module")


@pytest.mark.skipif(sys.platform != "linux", reason="the system keeps no mark of memory that can be reset")
def test_memory_is_the_peak_of_each_entrant_whoever_allocates() -> None:
    def outside():  # not through NumPy or Python objects
        with mmap.mmap(-1, 64_000_000) as area:
            area.write(b"x" * 64_000_000)

    outcome = run_race(
        race(
            ours("mine", lambda: np.ones(4_000_000).sum()),
            peer("other", lambda: outside),
            peer("slow", lambda: fixed(9.0)),
            goals=[Goal("memory", 40), Goal("memory", 20)],
        )
    )
    mine, other, slow = (timing.memory_mb for timing in outcome.timings)
    assert 30 < mine < 38
    assert 60 < other < 140
    assert slow is None  # no second run of an entrant that takes long
    assert [verdict.met for verdict in outcome.verdicts] == [True, False]


def test_who_runs_alone_gets_a_yardstick() -> None:
    names = [timing.name for timing in run_race(race(ours("mine", fixed(1.0)))).timings]
    assert names == ["mine", "np.sort of 10⁶ numbers"]


def test_fewer_rounds_are_said(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = race(ours("mine", fixed(1.0)), peer("other", lambda: fixed(2.0), 1))
    monkeypatch.setattr(report_module, "list_races", lambda: {"toys": (one,)})
    assert "other (1 of 5 rounds)" in bench.run().to_markdown()


def test_a_slow_entrant_stops_after_its_budget() -> None:
    outcome = run_race(race(ours("mine", fixed(20.0))), rounds=50, budget=50.0)
    assert outcome.timings[0].rounds == 3


def test_every_family_is_found_and_every_race_has_one_name() -> None:
    families = bench.list_races()
    assert {"measures", "calibrators", "inference"} <= set(families)
    names = [race.name for races in families.values() for race in races]
    assert len(set(names)) == len(names)
    assert all(race.goals for races in families.values() for race in races)


def test_arrays_are_forecasts_of_their_labels() -> None:
    p, y = probabilities(3000, 10)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    top = p.max(axis=1)
    accuracy = (p.argmax(axis=1) == y).mean()
    assert 0.5 < accuracy < top.mean()  # overconfident, as the docstring says
    assert logits(3000, 10)[0].dtype == np.float32
    score, outcome = binary(5000)
    assert ((score >= 0) & (score <= 1)).all()
    assert 0.45 < outcome.mean() < 0.55
    clear()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    other = peer("other | one", lambda: fixed(2.0))
    one = race(ours("mine", fixed(1e-4)), other, peer("gone", gone), goals=[Goal("faster", 3)])
    monkeypatch.setattr(report_module, "list_races", lambda: {"toys": (one,)})


@pytest.mark.usefixtures("toy")
def test_report_forms(tmp_path) -> None:
    runner = CliRunner()
    page = tmp_path / "bench.md"
    done = runner.invoke(command, ["-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "2e+04 ×" in done.output
    assert "absent" in done.output
    text = page.read_text(encoding="utf-8")
    assert "| a toy | ≥ 3× faster than the fastest peer (other \\| one) | 2e+04 × | yes |" in text
    assert not list(tmp_path.glob("*.part"))
    data = json.loads(runner.invoke(command, ["--json", "--only", "toys"]).stdout)
    assert data["schema"] == 1
    assert data["races"][0]["verdicts"][0]["met"] is True
    assert data["races"][0]["timings"][1]["best"] == 2.0
    quick = runner.invoke(command, ["--quick", "--only", "to"])
    assert "(yes)" in quick.output


@pytest.mark.usefixtures("toy")
def test_an_unknown_race_is_named() -> None:
    with pytest.raises(InputError, match="only of bench must be one of toys, toy"):
        bench.run(["ecce"])


def test_medians_are_judged_not_the_luckiest_round() -> None:
    mine = iter([1.0, 5.0, 5.0])
    outcome = run_race(
        race(ours("mine", lambda: Seconds(next(mine))), peer("other", lambda: fixed(4.0)), goals=[Goal("faster", 1)]),
        rounds=3,
    )
    assert outcome.verdicts[0].measured == pytest.approx(0.8)
    assert outcome.verdicts[0].met is False


def test_an_entrant_that_takes_nan_for_a_forecast_is_marked() -> None:
    def entrants(quick: bool):
        p, _ = binary(1000)

        def checked():
            if np.isnan(p).any():
                raise ValueError("nan")

        return [ours("checked", checked), peer("careless", lambda: p.sum), floor("read", p.sum)]

    assert checking(Race("toy", "a toy", entrants)) == {"checked": True, "careless": False}
    assert not np.isnan(binary(1000)[0]).any()


@pytest.mark.usefixtures("toy")
def test_a_loss_against_stored_ratios_fails(tmp_path) -> None:
    stored = tmp_path / "before.json"
    runner = CliRunner()
    assert runner.invoke(command, ["-o", str(stored)]).exit_code == 0
    assert runner.invoke(command, ["--compare", str(stored)]).exit_code == 0
    data = json.loads(stored.read_text(encoding="utf-8"))
    for timing in data["races"][0]["timings"]:
        timing["median"] *= 1.5 if timing["role"] == "peer" else 1
    stored.write_text(json.dumps(data), encoding="utf-8")
    done = runner.invoke(command, ["--compare", str(stored)])
    assert done.exit_code == 3
    assert "a toy: 0.67 times the stored ratio" in done.stderr


@pytest.mark.usefixtures("toy")
def test_times_are_printed_as_multiples_of_the_yardstick(tmp_path) -> None:
    before = {"best": 0.5, "cpu": 0.25, "memory_mb": None}
    (tmp_path / "yardstick.json").write_text(json.dumps({"races": {"toy": before}}), encoding="utf-8")
    done = CliRunner().invoke(command, ["--yardstick", str(tmp_path / "yardstick.json")])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-2].split()[-3:] == ["processor", "time", "memory"]
    assert done.stdout.splitlines()[-1].startswith("a toy ")


def test_a_busy_minute_is_no_loss(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 3.0, 1.0, 1.0, 3.0, 3.0])
    one = race(ours("mine", lambda: Seconds(next(times))), peer("other", lambda: fixed(2.0)))
    monkeypatch.setattr(report_module, "list_races", lambda: {"toys": (one,)})
    monkeypatch.setattr("calibrant_benchmarks.frame._peak_megabytes", lambda run: None)
    stored, runner = tmp_path / "before.json", CliRunner()
    once = ["--rounds", "1", "--compare", str(stored)]
    assert runner.invoke(command, ["-o", str(stored), "--rounds", "1"]).exit_code == 0
    assert runner.invoke(command, once).exit_code == 0  # 3 s, then 1 s
    assert runner.invoke(command, once).exit_code == 0  # 1 s at once
    assert runner.invoke(command, once).exit_code == 3  # 3 s twice


def test_a_failing_race_leaves_the_others_and_is_a_loss(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour of races is not lost to one of them, nor does a race that no longer runs pass for as fast as before."""

    def broken(quick):
        raise RuntimeError("no memory")

    good = Race("good", "a good one", lambda quick: (ours("mine", fixed(1.0)), peer("other", lambda: fixed(2.0))))
    stored, page = tmp_path / "bench.json", tmp_path / "after.md"
    runner = CliRunner()
    monkeypatch.setattr(report_module, "list_races", lambda: {"toys": (good,)})
    assert runner.invoke(command, ["-o", str(stored), "--rounds", "2"]).exit_code == 0
    timings = json.loads(stored.read_text(encoding="utf-8"))["races"][0]["timings"]
    assert [timing["rounds"] for timing in timings] == [2, 2]
    bad = Race("good", "a good one", broken, (Goal("seconds", 1),))
    monkeypatch.setattr(report_module, "list_races", lambda: {"toys": (bad, good)})
    done = runner.invoke(command, ["-o", str(page), "--compare", str(stored)])
    assert done.exit_code == 3
    assert "no time of ours (the whole race (failed: RuntimeError: no memory))" in done.stderr
    assert "mine" in page.read_text(encoding="utf-8")


def test_a_stopped_run_leaves_what_it_has(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(quick):
        raise KeyboardInterrupt

    first = Race("first", "the first", lambda quick: (ours("mine", fixed(1.0)),))
    monkeypatch.setattr(report_module, "list_races", lambda: {"toys": (first, Race("second", "the second", stop))})
    page = tmp_path / "bench.json"
    assert CliRunner().invoke(command, ["-o", str(page)]).exit_code != 0
    assert [race["name"] for race in json.loads(page.read_text(encoding="utf-8"))["races"]] == ["first"]


def test_growth_has_a_table_and_a_picture(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is absent (extra: plots)")
    monkeypatch.setattr("calibrant_benchmarks.growth.ROWS", ((10_000, 10),))
    monkeypatch.setattr("calibrant_benchmarks.growth.CLASSES", ((10_000, 10), (10_000, 3)))
    found = run_growth(quick=True)
    assert len(found.points) == 8
    assert all(point.nanoseconds > 0 for point in found.points)
    assert "| 100 | 3 | ks |" in found.to_markdown()  # the rows that were timed
    assert [point.shown for point in found.points[::4]] == [("rows", "classes"), ("classes",)]
    found.draw(tmp_path / "growth.svg")
    assert (tmp_path / "growth.svg").stat().st_size > 5000


def test_a_command_is_measured_without_the_bench_that_starts_it():
    """The peak of a new process counts that of its parent, and its processor time is not that of its parent."""
    held = np.ones(40_000_000)  # 320 MB of the bench itself
    used = waits._run([sys.executable, "-c", "sum(range(3_000_000))"], ".")
    assert held.nbytes / 1e6 > 300 > 100 > used.megabytes > 5
    assert 0.01 < used.cpu < 10
    with pytest.raises(RuntimeError, match="ValueError: no"):
        waits._run([sys.executable, "-c", "raise ValueError('no')"], ".")
