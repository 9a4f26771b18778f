"""The race frame: turns, shares, absent peers, goals, and the three forms of the report."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.cli.bench import command
from calibrant.errors import InputError
from calibrant.studies import bench
from calibrant.studies.bench import report as report_module
from calibrant.studies.bench.arrays import binary, clear, logits, probabilities
from calibrant.studies.bench.frame import Absent, Goal, Race, Seconds, floor, load, ours, peer, run_race


def gone():
    raise Absent("nowhere: not installed")


def race(*entrants, goals=(), memory=False) -> Race:
    return Race("toy", "a toy", lambda quick: entrants, tuple(goals), memory)


def fixed(seconds: float):
    return lambda: Seconds(seconds)


def test_goals_are_judged_against_the_fastest_peer_or_by_name() -> None:
    outcome = run_race(race(
        ours("mine", fixed(2.0)), floor("np.sum", fixed(1.0)), peer("slow", lambda: fixed(30.0)),
        peer("quick", lambda: fixed(6.0)),
        goals=[Goal("faster", 3), Goal("faster", 4), Goal("faster", 15, "slow"), Goal("within", 2, "np.sum"),
               Goal("seconds", 2), Goal("faster", 1, "unknown")],
    ))
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
    outcome = run_race(race(
        ours("a", lambda: order.append("a")), peer("b", lambda: lambda: order.append("b")),
    ), rounds=3)
    assert order == ["a", "b"] * 3
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


def test_memory_is_the_peak_of_our_own_run() -> None:
    outcome = run_race(race(
        ours("mine", lambda: np.ones(2_000_000).sum()), goals=[Goal("memory", 20), Goal("memory", 10)], memory=True,
    ))
    assert 15 < outcome.memory_mb < 18
    assert [verdict.met for verdict in outcome.verdicts] == [True, False]


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
    assert 0.5 < accuracy < top.mean()  # over-confident, as the docstring says
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
