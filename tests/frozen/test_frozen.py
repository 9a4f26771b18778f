"""Today's answers are the stored ones; and the judge that says so can fail."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from frozen.answers import Kitchen, load, moved
from frozen.case import Case, selected
from frozen.judge import ABSENT, clean, differences, pool
from helpers import needs

pytest.importorskip("polars", reason="the frozen inputs are written with Polars")
MARKS = {"day": (), "duckdb": (needs("duckdb"),), "spark": (pytest.mark.spark,)}
#: What a word in the name of a case needs.
OPTIONAL = {
    "pandas": needs("pandas", "pyarrow"),
    "exports": needs("onnx", "onnxruntime", "torch"),
    "torch": needs("torch"),
    "plots": needs("matplotlib"),
}


def marked() -> Iterator[Any]:
    for family, case in selected():
        marks = [*MARKS[case.lane], *(mark for word, mark in OPTIONAL.items() if word in case.name.split("/"))]
        yield pytest.param(family, case, marks=marks, id=f"{family}:{case.name}")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Kitchen:
    return Kitchen(tmp_path_factory.mktemp("frozen"))


stored = cache(load)


@pytest.mark.parametrize(("family", "case"), list(marked()))
def test_answer_is_the_stored_one(family: str, case: Case, made: Kitchen) -> None:
    found = moved(case, stored(family, case.lane).get(case.name, ABSENT), made.answer(case))
    lines = [f"{one.where}: {one.old!r} → {one.new!r}"[:300] for one in found]
    assert not lines, "\n".join([*lines[:40], "cd tests && python -m frozen lists all; --write --why stores them"])


def test_every_stored_answer_has_its_case() -> None:
    cases = {(family, case.lane, case.name) for family, case in selected()}
    places = {(family, lane) for family, lane, _ in cases}
    assert {(family, lane, name) for family, lane in places for name in stored(family, lane)} == cases


OLD = {"value": 0.25, "pvalue": 0.5, "name": "ece", "rows": [1, 2], "ok": True, "note": None}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"value": 0.25 + 1e-12}, []),
        ({"value": 0.25 + 1e-8}, ["value"]),
        ({"value": None}, ["value"]),
        ({"name": "ECE"}, ["name"]),
        ({"more": 1}, ["more"]),
        ({"rows": [1, 3]}, ["rows.1"]),
        ({"rows": [1, 2, 3]}, ["rows.(length)"]),
        ({"ok": False}, ["ok"]),
        ({"ok": 1}, ["ok"]),
        ({"note": "seen"}, ["note"]),
    ],
)
def test_judge_sees_what_moved(change: dict[str, Any], where: list[str]) -> None:
    assert [one.where for one in differences(OLD, {**OLD, **change})] == where


def test_judge_sees_a_lost_key() -> None:
    assert [one.where for one in differences(OLD, {key: OLD[key] for key in OLD if key != "value"})] == ["value"]


def seeds(**values: Any) -> Any:
    """Ten answers, of which each given list says the first ones and repeats its last."""
    return pool([{key: some[min(seed, len(some) - 1)] for key, some in values.items()} for seed in range(10)])


@pytest.mark.parametrize(("pvalue", "seen"), [(0.5, False), (0.6, False), (0.64, False), (0.65, True), (0.1, True)])
def test_drawn_pvalue_has_four_standard_errors(pvalue: float, seen: bool) -> None:
    assert bool(differences(seeds(pvalue=[0.5, 0.52, 0.47]), {"pvalue": pvalue}, draws=200)) is seen


def test_pvalue_that_is_a_count_is_drawn_even_if_seeds_agree() -> None:
    assert not differences({"pvalue": 1 / 201}, {"pvalue": 2 / 201}, draws=200)
    assert differences({"pvalue": 1 / 201}, {"pvalue": 9 / 201}, draws=200)
    assert differences({"pvalue": 0.0051}, {"pvalue": 2 / 201}, draws=200)


@pytest.mark.parametrize(("low", "seen"), [(0.1, False), (0.05, False), (0.2, False), (0.04, True), (0.21, True)])
def test_drawn_number_lies_in_the_widened_range(low: float, seen: bool) -> None:
    kept = seeds(low=[0.12, 0.1, 0.1501, 0.13])
    assert bool(differences(kept, {"low": low}, draws=200)) is seen


def test_sentences_are_judged_by_their_words() -> None:
    kept = seeds(text=["gap 5.1 points, p = 0.03", "gap 5.1 points, p = 0.05"])
    assert not differences(kept, {"text": "gap 5.1 points,  p = 0.04"}, draws=200)
    for other in ("gap 5.4 points, p = 0.04", "gap 5.1 points, p = 0.09", "gap 5.1 rows, p = 0.04"):
        assert differences(kept, {"text": other}, draws=200)


def test_status_may_change_only_if_its_pvalue_may_cross() -> None:
    for pvalue, seen in ((0.06, False), (0.5, True)):
        kept = seeds(status=["calibrated"], pvalue=[pvalue, pvalue + 0.01], name=["ks"])
        assert bool(differences(kept, {"status": "other", "pvalue": pvalue, "name": "ks"}, draws=200)) is seen
        assert differences(kept, {"status": "calibrated", "pvalue": pvalue, "name": "kuiper"}, draws=200)


def test_answers_hold_nothing_of_this_run(tmp_path: Any) -> None:
    assert clean({"at": f"written to {tmp_path}/a.csv", "seconds": 3.1}, tmp_path) == {
        "at": "written to …/a.csv",
        "seconds": "…",
    }
    long = clean(list(range(100)))
    assert long["#"] == 100
    assert differences(long, clean([*range(50), 51, 50, *range(52, 100)]))
