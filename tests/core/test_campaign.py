"""The campaign of fuzz/run.py: the same inputs everywhere, and it outlives what it finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"
OWN = [path.stem for path in FUZZ.glob("*.py")]


@pytest.fixture(scope="module")
def fuzz():
    """Modules of the folder, which is no package."""
    sys.path.insert(0, str(FUZZ))
    import campaign
    import kinds
    import run
    import shrink

    yield type("Fuzz", (), {"campaign": campaign, "kinds": kinds, "run": run, "shrink": shrink})
    sys.path.remove(str(FUZZ))
    for name in OWN:
        sys.modules.pop(name, None)


def test_a_process_that_dies_is_a_finding_and_the_rest_goes_on(fuzz):
    program = "\n".join(
        (
            "import json, os, sys",
            "report = int(sys.argv[-1])",
            "for line in sys.stdin:",
            "    kind, first, count = json.loads(line)",
            "    for number in range(first, first + count):",
            "        if number == 2: os.abort()",
            '        os.write(report, b\'["refused", "", ""]\\n\')',
        )
    )
    worker = fuzz.campaign.Worker([sys.executable, "-c", program])
    told = list(worker.run("files", 0, 5))
    worker.close()
    assert [outcome for outcome, _, _ in told] == ["refused", "refused", "FINDING", "refused", "refused"]
    assert told[2][1].startswith("files: the process ended with -6")
    assert "'files':2" in told[2][2]


def test_the_same_inputs_whatever_the_number_of_workers(fuzz):
    metrics = [fuzz.kinds.KINDS["metrics against the oracle"]]
    one, two = (fuzz.campaign.run(metrics, seed=3, inputs=300, jobs=jobs) for jobs in (1, 2))
    assert one.counts == two.counts
    assert one.total == 300
    assert not one.findings


def test_every_kind_gets_its_share(fuzz):
    kinds = list(fuzz.kinds.KINDS.values())
    spread = {}
    for kind, first, count in fuzz.campaign.chunks(kinds, 5000):
        assert first == spread.get(kind, 0)
        spread[kind] = first + count
    assert spread == fuzz.campaign.counts_of(kinds, 5000)
    assert abs(sum(spread.values()) - 5000) <= len(kinds)


def test_a_finding_is_reduced(fuzz):
    def draw(rng):
        return {
            "rows": {"y": rng.integers(10, size=50), "w": np.ones(50)},
            "options": {"a": 1, "b": 2},
            "edits": [1, 2],
        }

    def check(case):
        if 7 in case["rows"]["y"] and "b" in case["options"]:
            raise ValueError("seven")
        return "fine"

    outcome, key, text = fuzz.campaign.run_one(0, "rows", 0, draw, check)
    assert outcome == "FINDING"
    assert key.startswith("ValueError test_campaign.py")
    assert "{'rows': {'y': array([7]), 'w': None}, 'options': {'b': 2}, 'edits': [" in text


def test_an_input_is_made_by_its_number_alone(fuzz):
    kind = fuzz.kinds.KINDS["damaged files"]
    with kind.open(1) as (draw, _):
        one = draw(fuzz.campaign.generator(1, kind.name, 5))
        draw(fuzz.campaign.generator(1, kind.name, 6))
        assert draw(fuzz.campaign.generator(1, kind.name, 5)) == one


def test_every_declared_metric_has_a_slow_twin_or_a_reason(fuzz):
    import oracle

    from calibrant.core.declare import declared

    every = {(task, metric.name) for task in ("classes", "regression") for metric in declared(task)}
    assert every == set(oracle.ORACLE) | set(oracle.UNCOVERED)
    assert not set(oracle.ORACLE) & set(oracle.UNCOVERED)


def test_every_public_function_class_and_command_is_fuzzed_or_says_why_not(fuzz):
    pytest.importorskip("torch", reason="torch is absent (extra: torch)")
    import commands
    import walk

    from calibrant.cli import cli

    assert set(commands.BASE) | set(commands.LEFT_OUT) == set(cli.own)
    assert {"plots", "io", "summary", "engines", "monitoring", "reporting", "testing"} <= set(walk.packages())
    assert set(walk.packages(trained=True)) == {"torch"}
    there = {name for trained in (False, True) for name, _ in walk.exported(callable, trained=trained)}
    unknown = {*walk.EXCLUDED, *walk.NOT_MADE} - there
    assert not unknown, f"left out, but not there: {unknown}"
    called = {*walk.functions(), *walk.functions(trained=True)}
    assert {"plots.plot_ks", "io.read_table", "engines.summarize", "torch.brier_loss"} <= called
    assert {"calibrant.Summary", "views.RankR", "scores.Brier"} <= set(walk.classes())


def test_a_file_that_is_not_whole_is_found(fuzz, tmp_path):
    import deaths

    torn = tmp_path / "out.html"
    torn.write_text("<html>half", encoding="utf-8")
    assert not deaths.whole(torn)
    torn.write_text("<html></html>\n", encoding="utf-8")
    assert deaths.whole(torn)


def test_new_parts_are_added_to_the_page(fuzz, tmp_path):
    page, part = tmp_path / "fuzz.md", tmp_path / "part.json"
    page.write_bytes(fuzz.run.TABLE.read_bytes())
    before = fuzz.run.read_part(page)
    fuzz.run.write_table([before], page)
    assert page.read_bytes() == fuzz.run.TABLE.read_bytes()
    more = {"runs": ["- `run` (today)"], "versions": [], "counts": {"fits": {"refused": 1000}}, "findings": 2}
    part.write_text(json.dumps(more))
    fuzz.run.write_table([fuzz.run.read_part(page), fuzz.run.read_part(part)], page)
    after = fuzz.run.read_part(page)
    assert after["counts"]["fits"]["refused"] == before["counts"]["fits"]["refused"] + 1000
    assert after["findings"] == before["findings"] + 2
    with pytest.raises(SystemExit, match="twice"):
        fuzz.run.write_table([after, more], page)
