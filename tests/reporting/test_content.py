"""The sections of the page: groups, gaps, decisions, words and downloads say what the library says."""

from __future__ import annotations

import base64
import csv
import io
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibrant
from calibrant.core.moments import wilson
from calibrant.core.tables import Pairs, value_table
from calibrant.reporting import words
from calibrant.reporting.content import _note
from calibrant.reporting.decisions import auc, decisions, thousand
from calibrant.reporting.diagram import Layer, finding
from calibrant.reporting.downloads import Download
from calibrant.reporting.figures import consistency
from calibrant.reporting.funnel import funnel
from calibrant.reporting.gaps import ClassSums, _funnel_title, class_sums
from calibrant.reporting.labels import Board, Box
from calibrant.reporting.scoreboard import metric_section
from calibrant.reporting.steps import FEWEST, Group, group_edges, groups_of
from calibrant.reporting.svg import WIDTHS
from calibrant.reporting.tracks import scale_of
from calibrant.reporting.words import Language, share


def rows(n: int = 4000, sharp: float = 2.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, 4))
    true = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    said = np.exp(sharp * z)
    return y, said / said.sum(axis=1, keepdims=True)


def table_of(score: np.ndarray, outcome: np.ndarray) -> Any:
    return value_table(Pairs(score, outcome.astype(bool)))


def test_groups_hold_every_row_and_enough_of_them() -> None:
    rng = np.random.default_rng(0)
    s = rng.beta(9, 1, 5000)
    t = rng.random(5000) < s
    table = table_of(s, t)
    edges = group_edges([table], risk=False)
    assert {0.95, 0.99} <= set(edges)  # most rows claim more than 90%
    groups = groups_of(table, edges)
    assert sum(group.n for group in groups) == 5000
    assert min(group.n for group in groups) >= FEWEST
    for group in groups:
        inside = (s > group.low) & (s <= group.high)
        assert group.n == inside.sum()
        assert group.score == pytest.approx(s[inside].mean())
        assert group.rate == pytest.approx(t[inside].mean())
        np.testing.assert_allclose((group.least, group.most), wilson(t[inside].mean(), inside.sum(), 0.95))


def test_a_rare_event_gets_narrow_steps_and_thirty_rows_some_groups() -> None:
    rng = np.random.default_rng(1)
    s = rng.beta(1, 60, 20_000)
    table = table_of(s, rng.random(20_000) < s)
    assert 0.005 in group_edges([table], risk=True)
    small = table_of(s[:30], np.zeros(30))
    assert 1 <= len(groups_of(small, group_edges([small], risk=True))) <= 7


def test_band_of_a_calibrated_model_holds_about_95_percent_of_its_groups() -> None:
    outside = total = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s = rng.uniform(0.3, 1, 1500)
        table = table_of(s, rng.random(1500) < s)
        groups = groups_of(table, group_edges([table], risk=False))
        outside, total = outside + sum(g.outside for g in groups), total + len(groups)
    assert 0.01 < outside / total < 0.09


def test_class_gaps_are_those_of_the_predicted_classes() -> None:
    y, p = rows()
    page = calibrant.report(y, p, compare_methods=False, n_resamples=50)
    top = p.argmax(axis=1)
    for row in page.summary["class_gaps"]:
        mine = top == row["index"]
        assert row["n"] == mine.sum()
        assert row["gaps"]["before"] == pytest.approx(p.max(axis=1)[mine].mean() - (y[mine] == row["index"]).mean())
        assert row["low"]["before"] < row["gaps"]["before"] < row["high"]["before"]
    assert all(row["verdict"] == "Too sure" for row in page.summary["class_gaps"])


def test_calibrated_classes_are_rarely_called_off() -> None:
    found = 0
    for seed in range(40):
        y, p = rows(1500, sharp=1.0, seed=seed)
        evidence = calibrant.core.inputs.check_forecast(y, p, caller="report")
        found += bool(class_sums(evidence).found())
    assert found <= 6  # 5% of 40 families, with room for chance


def test_decisions_count_rows_above_the_threshold() -> None:
    y, p = rows()
    s, hit = p.max(axis=1), p.argmax(axis=1) == y
    section = decisions({"before": table_of(s, hit)}, Language(), 0.95)
    assert section is not None
    for values in section["download"].rows:
        above = s >= values[0]
        assert values[1] == above.sum()
        assert values[2] == pytest.approx((1 - s[above]).sum())
        assert values[3] == (~hit[above]).sum()


def test_moved_threshold_flags_as_many() -> None:
    rng = np.random.default_rng(3)
    q = rng.beta(1, 40, 20_000)
    y = rng.random(20_000) < q
    before, after = np.minimum(2.5 * q, 1), q
    section = decisions({"before": table_of(before, y), "after": table_of(after, y)}, Language("fraud", 2), 0.95)
    assert section is not None
    for row in section["rows"]:
        wanted = (before >= float(row["threshold"].rstrip("%")) / 100).sum()
        got = (after >= float(row["same"].rstrip("%")) / 100).sum()
        assert abs(got - wanted) < 0.05 * len(y)
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is absent")
    assert auc(table_of(after, y)) == pytest.approx(sklearn.roc_auc_score(y, after))


def test_a_thousand_dots_are_two_patterns() -> None:
    picture = thousand(124, "before", "124 of 1,000 wrong")
    assert picture.count("<circle") == 2
    assert "M0 0H300V12H0Z" in picture
    assert "M0 12H144V18H0Z" in picture


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (("miscalibrated", "over", 0.05), ("no gap found", None, 0.001), "Overconfident, now repaired"),
        (("miscalibrated", "over", 0.05), ("small gap", "over", 0.01), "Overconfident, now mostly repaired"),
        (("miscalibrated", "under", 0.05), ("small gap", "under", 0.04), "Too cautious, now partly repaired"),
        (("miscalibrated", "over", 0.05), ("miscalibrated", "over", 0.05), "Overconfident; repair changed nothing"),
        (("miscalibrated", "over", 0.05), ("miscalibrated", "under", 0.09), "The repair made it worse"),
        (("no gap found", None, 0.001), ("miscalibrated", "under", 0.09), "The repair made it worse"),
    ],
)
def test_headline_of_two_states_has_at_most_five_words(before: Any, after: Any, word: str) -> None:
    def state(status: str, direction: str | None, ks: float) -> Any:
        found = status in ("miscalibrated", "small gap", "right on average")
        verdict = SimpleNamespace(status=status, direction=direction, found=found, headline="No gap found so far")
        return SimpleNamespace(verdict=verdict, facts=SimpleNamespace(ks=ks, predicted=0.9, observed=0.8), results=())

    text = words.headline(state(*before), state(*after), Language())
    assert text == word
    assert len(text.split()) <= 5


@pytest.mark.parametrize(
    ("ks", "found", "word"),
    [
        (0.001, False, "Intervals too wide, now repaired"),
        (0.01, True, "Intervals too wide, mostly repaired"),
        (0.05, True, "Intervals too wide, not repaired"),
    ],
)
def test_headline_of_error_bars_has_its_subject(ks: float, found: bool, word: str) -> None:
    def state(ks: float, found: bool) -> Any:
        verdict = SimpleNamespace(status="", direction="under", found=found, headline="Error bars too wide")
        return SimpleNamespace(verdict=verdict, facts=SimpleNamespace(ks=ks), results=())

    assert words.headline(state(0.05, True), state(ks, found), words.ErrorBars()) == word


def test_the_page_says_which_test_decides_where_verdict_and_metrics_differ() -> None:
    def section(found: bool) -> dict[str, Any]:
        y, p = rows(1200, 3.0)
        evaluation = calibrant.evaluate(y, p, n_resamples=60, rng=0)
        verdict = SimpleNamespace(found=found)
        return metric_section({"before": replace(evaluation, verdict=verdict)}, None, 0.95)

    assert section(found=True)["sub"].endswith("not with zero.")
    assert section(found=False)["sub"].endswith("the verdict at the top rests on one joint test.")


def test_too_few_rows_do_not_praise_the_metrics() -> None:
    y, p = rows(30, 1.0, seed=5)
    found = calibrant.report(y, p, n_resamples=200).summary
    assert found["judgment"]["status"] == "cannot tell"
    assert found["page"]["metrics"]["title"] == "No metric lies outside the calibrated range: too few rows to tell"


def test_real_reports_have_short_headlines() -> None:
    for sharp in (0.5, 1.0, 2.0):
        y, p = rows(1200, sharp)
        for after in (None, rows(1200, 1.0)[1], rows(1200, 3.0)[1]):
            page = calibrant.report(y, p, after=after, compare_methods=False, n_resamples=60).summary["page"]
            assert len(page["headline"].split()) <= 5, page["headline"]
            assert len(page["states"]) == (1 if after is None else 2)


def test_downloads_read_back_and_guard_formulas() -> None:
    table = Download.of("t", ["name", "value"], [["=1+1", 0.1], ["a,b", np.float64(1 / 3)], ["c", float("nan")]])
    text = base64.b64decode(table.csv.partition("base64,")[2]).decode()
    read = list(csv.reader(io.StringIO(text)))
    assert read == [["name", "value"], ["'=1+1", "0.1"], ["a,b", "0.3333333333"], ["c", ""]]


def test_labels_stay_inside_and_apart() -> None:
    board = Board(Box(0, 0, 300, 200))
    boxes = [board.nearest(150, 100, ["one label", "of two lines"], 5) for _ in range(40)]
    found = [box for box in boxes if box is not None]
    assert 3 <= len(found) < 40  # the board is full, and says so
    for i, box in enumerate(found):
        assert 0 <= box.left <= box.right <= 300
        assert box.overlap(Board(board.area, found[:i]).held()) == 0


def test_a_label_stands_near_its_dot_on_its_side() -> None:
    def distance(box: Box, x: float, y: float) -> float:
        return float(np.hypot(x - np.clip(x, box.left, box.right), y - np.clip(y, box.top, box.bottom)))

    for below in (True, False):
        board = Board(Box(0, 0, 500, 500))
        box = board.nearest(250, 250, ["As delivered: 648 predictions", "predicted 24%"], 6, below=below)
        assert box is not None
        assert 10 <= distance(box, 250, 250) < 20
        assert (box.left + box.right + box.top + box.bottom > 1000) is below
    board = Board(Box(0, 0, 500, 500))
    board.take(200, 200, 300, 300)  # a crowd around the dot: outside it, and nowhere within reach
    assert board.nearest(250, 250, ["label"], 6, reach=20) is None
    assert distance(board.nearest(250, 250, ["label"], 6), 250, 250) < 60  # type: ignore[arg-type]


def test_rare_events_name_their_dots_nearby() -> None:
    rng = np.random.default_rng(2)
    risk = rng.beta(0.5, 30, 20_000)
    y, p = (rng.random(20_000) < risk).astype(int), np.clip(2.3 * risk, 0, 0.95)
    page = calibrant.report(y, p, after=p / 2.3, compare_methods=False, n_resamples=20).summary["page"]
    for picture, longest in zip(page["diagram"]["pictures"], (130, 160), strict=True):
        lines = re.findall(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)" class="lead"', picture)
        assert lines
        assert all(np.hypot(float(a) - float(c), float(b) - float(d)) < longest for a, b, c, d in lines)


def test_numbers_of_a_row_have_the_same_decimals() -> None:
    y, p = rows(1500, 2.0)
    page = calibrant.report(y, p, after=rows(1500, 1.0)[1], compare_methods=False, n_resamples=20).summary["page"]
    for row in page["metrics"]["scores"]:
        assert len({len(text.partition(".")[2]) for text in row["values"].values()}) == 1, row


def test_decisions_speak_of_a_tenth_of_the_rows_at_least() -> None:
    score = np.concatenate([np.full(930, 0.85), np.full(70, 0.96)])
    page = calibrant.report(np.arange(1000) % 8 > 0, score, pairs=True, n_resamples=20).summary["page"]
    assert page["decisions"]["title"].startswith("“80% or more”")


def test_scales_have_round_ends_and_cut_with_an_arrow() -> None:
    scale = scale_of([-0.012, 0.103])
    assert (scale.low, scale.high) == (-0.05, 0.15)
    assert "›" in scale.track([words_mark(0.4)])
    assert "›" not in scale.track([words_mark(0.1)])


def words_mark(value: float) -> Any:
    from calibrant.reporting.tracks import Mark

    return Mark(value, None, None, "after")


def test_shares_near_the_ends_keep_their_digits() -> None:
    assert [share(v) for v in (0.5, 0.016, 0.996, 0.99995, 1.0, 0.0)] == [
        "50%",
        "1.6%",
        "99.6%",
        ">99.9%",
        "100%",
        "0%",
    ]


def test_rows_the_repair_was_fitted_on_prove_nothing(tmp_path: Any) -> None:
    from calibrant.calibrators import TemperatureScaling

    y, p = rows(800)
    np.savez(tmp_path / "preds.npz", probs=p, labels=y)
    fitted = calibrant.fit(str(tmp_path / "preds.npz"), method="temperature").calibrator
    assert isinstance(fitted, TemperatureScaling)
    page = calibrant.report(str(tmp_path / "preds.npz"), calibrator=fitted, n_resamples=50)
    assert "Judged on its own rows" in page.html
    assert "now repaired" not in page.html
    assert "Judge it on new rows" in page._repr_html_()


def test_a_group_that_the_whole_hides_makes_the_headline() -> None:
    rng = np.random.default_rng(4)
    n = 6000
    site = np.where(np.arange(n) % 2 == 0, "north", "south")
    p = rng.uniform(0.6, 0.9, n)
    y = rng.random(n) < p + np.where(site == "north", 0.08, -0.08)
    page = calibrant.report(y, p, pairs=True, by={"site": site}, n_resamples=200, compare_methods=False).summary
    assert page["page"]["headline"] == "Right overall, 2 groups off"
    assert page["judgment"]["status"] == "right on average"
    assert "for “north”" in page["page"]["lead"]
    assert "“south”" in page["page"]["todo"]["line"]
    calm = calibrant.report(
        rng.random(n) < p, p, pairs=True, by={"site": site}, n_resamples=200, compare_methods=False
    ).summary
    assert "off" not in calm["page"]["headline"]


def test_a_direction_needs_an_interval_that_excludes_zero() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    site, odds = np.where(np.arange(n) % 2, "north", "south"), rng.normal(0, 2, n)
    y = rng.random(n) < 1 / (1 + np.exp(-odds * np.where(site == "north", 0.5, 1.0)))  # north: extreme both ways
    found = calibrant.report(y, 1 / (1 + np.exp(-odds)), by={"site": site}, compare_methods=False, n_resamples=200)
    groups = found.summary["page"]["groups"]
    north = next(row for row in groups["rows"] if row["short"] == "north")
    assert north["low"]["before"] < 0 < north["high"]["before"]
    assert (north["verdict"], north["outside"]) == ("Mixed", True)
    assert groups["title"] == "“north” is right only on average"


@pytest.mark.parametrize(("k", "by_chance"), [(100, "fewer than 1"), (499, "fewer than 1"), (2000, "about 4")])
def test_the_funnel_says_how_many_classes_leave_its_limits_by_chance(k: int, by_chance: str) -> None:
    sums = ClassSums(np.full(k, 100.0), np.full(k, 90.0), np.full(k, 50.0), np.full(k, 9.0), np.zeros((3, k)), True)
    far = [{"gap": 0.4, "n": 100.0, "outside": True} for _ in range(k)]
    title = _funnel_title(far, sums, after=False)
    assert title == f"{k:,} of {k:,} classes leave the 99.8% limits; by chance {by_chance} would"


def test_no_heading_contradicts_the_verdict() -> None:
    groups = [
        Group(i / 10, (i + 1) / 10, 1000.0, i / 10 + 0.05, i / 10 + 0.05, 0.0, 1.0, i / 10, i / 10 + 0.1)
        for i in range(9)
    ]
    far = Group(0.9, 1.0, 20.0, 0.95, 0.7, 0.5, 0.9, 0.85, 1.0)
    assert finding([*groups, far], Language(), found=False) == "most claims match what happens"
    assert finding([*groups, far], Language()) == "claims are too high at 1 of 10 dots"
    assert finding(groups, Language(), found=True) == "no dot leaves the gray band"
    heavy = replace(far, n=9000.0)
    assert finding([*groups, heavy], Language()) == "claims above 90% are too high"
    first = replace(far, low=0.0, high=0.1, score=0.3, rate=0.05, band_low=0.2, band_high=0.4, n=9000.0)
    words = finding([first, *groups[1:], heavy], Language())
    assert words == "claims are too high at 2 of 10 dots"


@pytest.mark.parametrize(
    ("values", "form"),
    [([-0.0041, 0.0021], "plain"), ([0.0, 0.0237], "percent"), ([-0.018, 0.011], "points"), ([0.0, 0.0948], "percent")],
)
def test_ticks_of_a_column_are_even_and_do_not_meet(values: list[float], form: str) -> None:
    scale = scale_of(values, form=form)
    shown = re.findall(r"left:([\d.]+)%;transform:translateX\(-([\d.]+)%\)[^>]*>([^<]+)<", str(scale.axis()))
    places = [float(place) for place, _, _ in shown]
    assert len(shown) >= 3
    np.testing.assert_allclose(np.diff(places), places[1] - places[0], atol=0.02)
    assert any(words.strip("%") == "0" for _, _, words in shown)
    ends = [(178 * float(at) - 7.8 * len(words) * float(back)) / 100 for at, back, words in shown]
    assert all(
        left + 7.8 * len(words) < right for left, right, (_, _, words) in zip(ends, ends[1:], shown, strict=False)
    )
    assert scale_of([0.0, 0.08], form="percent").axis().count("<span") == 6


def test_one_group_outside_the_band_does_not_contradict_the_verdict() -> None:
    rng = np.random.default_rng(6)
    p = rng.dirichlet([1, 1, 1], 20_000)
    y = (p.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    (note,) = calibrant.report(y, p, n_resamples=200, compare_methods=False).summary["page"]["diagram"]["notes"]
    assert note["title"] == "Mostly within chance"
    assert note["text"].startswith("1 of 7 dots lies above the gray band. Of the ")


def test_the_funnel_shows_every_class_inside_its_axes() -> None:
    rows = [
        {"name": str(i), "short": str(i), "title": "", "n": 5.0 + i % 20, "gap": g, "beyond": abs(g) > 0.4}
        for i, g in enumerate(np.linspace(-0.2, 0.9, 200))
    ]
    for width in WIDTHS:
        drawn = str(funnel(rows, 0.2, "before", width=width, title="t"))
        heights = [float(y) for y in re.findall(r'cy="([\d.-]+)"', drawn)]
        assert len(set(heights)) > 50  # not clipped to one edge
        assert min(heights) > 14


# -- slope and intercept --------------------------------------------------------------------------


def test_two_classes_have_slope_and_intercept_on_the_page():
    rng = np.random.default_rng(0)
    odds = rng.normal(-2, 1, 3000)
    p, y = 1 / (1 + np.exp(-odds)), rng.random(3000) < 1 / (1 + np.exp(-(0.7 * odds - 0.5)))
    found = calibrant.report(y, p, n_resamples=20, rng=0)
    section, cox = found.summary["page"]["risk"], calibrant.evaluate(y, p, risk=True, n_resamples=20, rng=0).risk
    assert section["title"] == "Risks are too extreme"
    assert section["rows"][2]["cells"]["before"]["value"] == "0.64"
    table = section["download"]
    assert dict(zip(table.columns, table.rows[2], strict=True))["before_low"] == pytest.approx(cox.slope.low)
    assert ("risk", "Slope") in found.summary["page"]["contents"]
    assert 'id="risk"' in found.html
    assert found.to_dict()["evaluation"]["risk"]["slope"]["value"] == pytest.approx(cox.slope.value)
    assert "| Calibration slope; below 1: too extreme | 0.64 (0.53 to 0.75) | 1 |" in found.markdown


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["no event", "one score", "separated"])
def test_a_slope_that_cannot_be_known_is_a_dash(kind: str):
    p = np.r_[np.linspace(0.1, 0.2, 20), np.linspace(0.7, 0.9, 20)] if kind == "separated" else np.full(40, 0.3)
    y = np.zeros(40, dtype=int) if kind == "no event" else np.repeat([0, 1], 20)
    section = calibrant.report(y, p, n_resamples=20, rng=0).summary["page"]["risk"]
    assert section["rows"][2]["cells"]["before"] == {"value": "–", "span": "–"}
    assert section["title"] == "Too few events for a slope" if kind == "no event" else "No slope can be fitted"


def test_more_classes_and_pairs_have_no_slope():
    y, p = rows(300)
    assert calibrant.report(y, p, n_resamples=20, rng=0).summary["page"]["risk"] is None


def test_a_group_that_chance_does_not_explain_is_named_in_the_note() -> None:
    inside = [Group(i / 10, (i + 1) / 10, 500.0, i / 10 + 0.05, i / 10 + 0.05, 0.0, 1.0, 0.0, 1.0) for i in range(2)]
    far = [
        Group(0.2, 0.8, 97.0, 0.28, 0.08, 0.04, 0.15, 0.2, 0.37),
        Group(0.8, 1.0, 40.0, 0.9, 0.5, 0.3, 0.7, 0.8, 1.0),
    ]
    note = _note(Layer("after", None, [*inside, *far]), Language("fraud"), many=True, found=False)
    assert note["title"] == "After repair: some risks off"
    assert note["text"].endswith("Of the 40 predictions with a risk of 80% to 100%, it happens in 50% (30% to 70%).")
    one = [*inside * 9, far[0]]  # 8% where 28% was predicted: twice as far off as the band reaches
    assert _note(Layer("after", None, one), Language("fraud"), many=True, found=False)["title"] == note["title"]
    near = [*inside * 9, replace(far[0], rate=0.19)]
    quiet = _note(Layer("after", None, near), Language("fraud"), many=True, found=False)
    assert quiet["title"] == "After repair: mostly within chance"


def test_the_box_says_what_its_test_is_and_a_change_has_the_unit_of_its_interval() -> None:
    y, p = rows()
    page = calibrant.report(y, p, compare_methods=False).summary["page"]
    assert page["states"][0]["line"].endswith("p < 0.002 in one test of all kinds of gap.")
    lines = str(calibrant.compare(y, p, rows(sharp=1.0)[1], metrics=["accuracy", "ece", "brier"])).splitlines()
    accuracy, ece, brier = (line.split() for line in lines[2:5])
    assert re.fullmatch(r"[+-]\d+\.\d\d%", accuracy[3])
    assert re.fullmatch(r"[+-]\d+\.\d\d%", ece[3])
    assert "%" not in brier[3]


def test_page_and_terminal_give_one_verdict() -> None:
    # 60,000 calibrated rows and 60 at 30% where it never happens: a far group is shown, and judges nothing
    risk = np.repeat([0.004, 0.012, 0.03, 0.06, 0.3], [30_000, 15_000, 10_000, 5_000, 60])
    y = np.concatenate([np.arange(n) < round(p * n) for p, n in ((0.004, 30_000), (0.012, 15_000))])
    y = np.concatenate([y, np.arange(10_000) < 300, np.arange(5_000) < 300, np.zeros(60, bool)]).astype(int)
    page = calibrant.report(y, risk, compare_methods=False, n_resamples=200, rng=0).summary["page"]
    verdict = calibrant.evaluate(y, risk, n_resamples=200, rng=0).verdict
    box = page["states"][-1]
    assert page["headline"] == verdict.headline
    assert (box["glyph"], box["words"]) == (words.GLYPHS[verdict.status], words.state_word(verdict))
    assert page["todo"]["words"] == "Use it"
    assert "overstated" not in page["todo"]["line"]
    assert page["diagram"]["notes"][-1]["title"] == "Some risks off"


@pytest.mark.parametrize("n", [30, 100, 101, 2000])
def test_a_dot_of_a_calibrated_model_is_rarely_called_far(n: int) -> None:
    hits = np.arange(n + 1)
    for rows_due in np.geomspace(0.01, n / 2, 80):
        rate = rows_due / n
        ends = consistency(float(n), rows_due, rows_due * (1 - rate))
        far = [Group(0.0, 1.0, n, rate, k / n, 0.0, 1.0, *ends).far for k in hits]
        assert binom.pmf(hits, n, rate)[far].sum() <= 1 / 150, rows_due
