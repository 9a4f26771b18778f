"""The report on means and variances: verdict, PIT histogram, variance against error, table, slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from calibrant._typing import RNG, Array
from calibrant.core.moments import wilson
from calibrant.core.rows import Rows, check_rows
from calibrant.core.tables import Table
from calibrant.core.text import count, first_upper, points
from calibrant.core.text import percent as as_percent
from calibrant.errors import input_error
from calibrant.inference.error_bars import RegressionFacts
from calibrant.inference.evaluation import Evaluation, evaluate_evidence
from calibrant.inference.slices import Slice
from calibrant.inference.verdict import TOLERANCE, signed
from calibrant.regression import compute_pit, compute_variance_table
from calibrant.reporting import diagram, words
from calibrant.reporting.content import day_in_words
from calibrant.reporting.decisions import _some, thousand
from calibrant.reporting.downloads import Download
from calibrant.reporting.gaps import group_section
from calibrant.reporting.glossary import error_bar_glossary, provenance
from calibrant.reporting.page import Report
from calibrant.reporting.scoreboard import metric_section
from calibrant.reporting.spread import pit_figure, variance_figure
from calibrant.reporting.steps import Group
from calibrant.reporting.summary import Parts, frame, slices_of
from calibrant.reporting.words import GLYPHS, ErrorBars, smallest_gap, tile

__all__ = ["report_regression", "summarize_rows"]

CONVENTIONS = "'If calibrated' takes the truths as normal with the forecast's mean and variance, row by row."


class MeanVariance(Protocol):
    """What a file of regression forecasts holds."""

    @property
    def scores(self) -> Array:
        """Predicted means."""

    @property
    def truth(self) -> Array | None:
        """Observed values."""

    @property
    def variance(self) -> Array | None:
        """Predicted variances."""

    @property
    def weights(self) -> Array | None:
        """Frequencies of the rows."""


def report_regression(predictions: MeanVariance, **settings: Any) -> Report:
    """Return a report on means and variances as a file holds them; settings as in `summarize_rows`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> y = 2 * rng.normal(size=500)
    >>> rows = SimpleNamespace(scores=np.zeros(500), variance=np.ones(500), truth=y, weights=None)
    >>> report_regression(rows, n_resamples=100).summary["judgment"]["headline"]
    'Error bars too narrow'
    """
    if predictions.truth is None or predictions.variance is None:
        raise input_error("predictions", "report_regression", "hold truths and variances", "none", "check the columns")
    rows = check_rows(
        predictions.truth,
        predictions.scores,
        predictions.variance,
        caller="report",
        sample_weight=predictions.weights,
    )
    return Report(summarize_rows(rows, **settings), kind="regression")


def summarize_rows(
    rows: Rows,
    *,
    by: Mapping[str, Array] | None = None,
    parts: tuple[Sequence[str], Parts] | None = None,
    title: str = "Calibration report",
    source: str | None = None,
    command: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    tolerance: float = TOLERANCE,
    rng: RNG = 0,
    groups: Array | None = None,
) -> dict[str, Any]:
    """Return the content of a report on rows of means and variances; the settings are those of `summarize`."""
    settings: dict[str, Any] = {"level": level, "n_resamples": n_resamples, "tolerance": tolerance, "rng": rng}
    evaluation = evaluate_evidence(rows, groups=groups, **settings)
    slices = slices_of(rows, by or {}, parts, settings, groups)
    pit = compute_pit(rows.y, rows.forecast, sample_weight=rows.weights, rng=rng)
    ranges = None
    if rows.table is None:
        ranges = compute_variance_table(rows.y, rows.forecast, sample_weight=rows.weights)
    summary = {
        **frame(
            evaluation,
            rows,
            title=title,
            source=source,
            command=command,
            n_resamples=n_resamples,
            rng=rng,
            conventions=CONVENTIONS,
        ),
        "facts": _facts(evaluation.facts),
        "slices": [
            {
                "name": part.label,
                "n": part.evaluation.n,
                "inside": part.evaluation.facts.inside,
                "ratio": part.evaluation.facts.ratio,
                "corrected": part.corrected,
            }
            for part in slices
        ],
        "pit_table": pit.to_dict(),
        "variance_table": None if ranges is None else ranges.to_dict(),
        "pit": [pit_figure(pit, narrow=narrow) for narrow in (False, True)],
        "variance": None if ranges is None else [variance_figure(ranges, narrow=narrow) for narrow in (False, True)],
    }
    summary["page"] = _page(rows, evaluation, slices, level, summary["date"]) | {
        "provenance": provenance(
            summary["method"],
            data=f"{source + ': ' if source else ''}{count(rows.n)} rows of "
            + ("quantiles" if ranges is None else "means and variances"),
            repair=None,
            rows=[("Intervals", "{level}%. Fractions: Wilson. Means: corrected for skewness.")],
            limits="How the model behaves on data unlike these rows, or later in time.",
            level=f"{100 * level:g}",
        )
    }
    return summary


#: Levels of the diagram, and those of the table.
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_SHOWN = (0.5, 0.8, 0.9, 0.95, 0.99)


def _page(rows: Rows, evaluation: Evaluation, slices: Sequence[Slice], level: float, date: str) -> dict[str, Any]:
    """Return the sections of the page."""
    language, facts, verdict = ErrorBars(), evaluation.facts, evaluation.verdict
    groups = _coverage(rows, level)
    page: dict[str, Any] = {
        "headline": verdict.headline,
        "lead": verdict.sentence,
        "kick": f"{count(evaluation.n)} predictions · {day_in_words(date)}",
        "date": day_in_words(date),
        "states": [
            {
                "kind": "before",
                "label": "As delivered",
                "glyph": GLYPHS[verdict.status],
                "words": words.state_word(verdict),
                "line": words.state_line(verdict, language, level),
            }
        ],
        "todo": dict(zip(("words", "line"), words.what_to_do(evaluation, None, None, None), strict=True)),
        "tiles": _tiles(rows, facts, level),
        "language": language,
        "diagram": _diagram(groups, language) if groups else None,
        "decisions": _decisions(groups, rows, level, facts.meant) if facts.inside is not None else None,
        "groups": group_section({"before": slices}, rows.n, language, lambda f: (f.inside, f.meant, f.gap))
        if all(part.evaluation.facts.inside is not None for part in slices)
        else None,
        "metrics": metric_section({"before": evaluation}, None, level),
        "spread": _spread(facts, found=verdict.found),
        "read": error_bar_glossary(),
    }
    links = (
        ("diagram", "Diagram"),
        ("decisions", "Decisions"),
        ("groups", "Groups"),
        ("metrics", "Metrics"),
        ("spread", "Errors"),
        ("read", "How to read"),
    )
    page["contents"] = [*((key, name) for key, name in links if page[key]), ("method", "Methods and data")]
    return page


def _coverage(rows: Rows, level: float) -> list[Group]:
    """Return what lies inside the central intervals of each level; nothing where no interval is stated."""
    groups = []
    for meant in rows.central_levels(_LEVELS):
        inside = rows.inside(meant)
        low, high = (float(end) for end in wilson(inside, rows.total, level))
        half = 1.96 * float(np.sqrt(meant * (1 - meant) / rows.total))
        groups.append(
            Group(
                meant,
                meant,
                float(rows.total),
                meant,
                float(inside),
                low,
                high,
                max(0.0, meant - half),
                min(1.0, meant + half),
            )
        )
    return groups


def _diagram(groups: Sequence[Group], language: ErrorBars) -> dict[str, Any]:
    layer = diagram.Layer("before", Table.empty(), groups)
    outside = [group for group in groups if group.outside]
    side = {group.gap > 0 for group in outside}
    if not outside:
        title = "Intervals contain what they promise, within chance."
    elif len(side) > 1:
        title = "Some intervals are too narrow, others too wide."
    else:
        start = "Every interval is" if len(outside) >= 0.8 * len(groups) else "Intervals are"
        title = f"{start} too {'narrow' if side == {True} else 'wide'}."
    name = "Coverage: fraction of outcomes inside each interval against the fraction meant"
    return {
        "title": title,
        "sub": "Each dot is one kind of interval. On the diagonal, intervals contain as many outcomes "
        "as they promise. The gray band is where 95% of a calibrated model’s dots would fall.",
        "pictures": [
            diagram.draw([layer], language, diagram.Range(0.0, 1.0), narrow=narrow, title=name, desc=title)
            for narrow in (False, True)
        ],
        "download": Download.of(
            "coverage",
            ["meant", "inside", "low", "high", "band_low", "band_high"],
            [[g.score, g.rate, g.least, g.most, g.band_low, g.band_high] for g in groups],
        ),
    }


def _spread(facts: RegressionFacts, *, found: bool) -> dict[str, str]:
    """Return title and caption of the pictures of the errors."""
    ratio = facts.ratio if found and "ratio" in facts.clear else None
    title = "Where truths fall" if found else "Truths fall where they should, within chance"
    if ratio is not None:
        title = f"Truths fall too {'often near the middle' if ratio < 1 else 'far from the middle'} of their forecasts"
    left, right = ("Left: where", " Right: the actual error of rows with similar error bars.")
    if facts.levels:
        left, right = "Where", ""
    sub = (
        f"{left} the truth falls in its own forecast; flat inside the gray band is right, a pile in the middle means "
        f"error bars that are too wide, piles at both ends too narrow.{right}"
    )
    return {"title": title, "sub": sub}


def _near(value: float) -> str:
    return ">99.9%" if 0.9995 <= value < 1 else as_percent(value, 1)


def _decisions(groups: Sequence[Group], rows: Rows, level: float, meant: float) -> dict[str, Any]:
    main = next(group for group in groups if group.score == meant)
    missed = 1000 * (1 - main.rate)
    low, high = 1000 * (1 - main.most), 1000 * (1 - main.least)
    shown = [group for group in groups if group.score in (*_SHOWN, meant)]
    of_hundred = "almost all" if 0.995 <= main.rate < 1 else f"{100 * main.rate:.0f}"
    few = _some(missed)
    return {
        "title": f"Of 100 intervals at {100 * meant:g}%, {of_hundred} contain the truth.",
        "sub": f"1,000 intervals meant to contain the truth in {1000 * meant:.0f} cases. Each dot is one; large dots "
        "miss it.",
        "picture": thousand(round(missed), "before", f"{few} of 1,000 intervals miss the truth"),
        "caption": first_upper(f"{few} {'misses' if few.endswith('1') and missed < 1.5 else 'miss'} the truth"),
        "detail": f"{1000 * (1 - meant):.0f} promised. {100 * level:g}% interval {low:.0f} to {high:.0f}.",
        "rows": [
            {
                "meant": f"{100 * group.score:g}%",
                "inside": _near(group.rate),
                "ends": f"{_near(group.least)} to {_near(group.most)}",
                "promised": count(round((1 - group.score) * rows.total)),
                "made": count(round((1 - group.rate) * rows.total)),
                "off": group.outside,
            }
            for group in shown
        ],
        "download": Download.of(
            "intervals", ["meant", "inside", "low", "high"], [[g.score, g.rate, g.least, g.most] for g in shown]
        ),
    }


def _tiles(rows: Rows, facts: RegressionFacts, level: float) -> list[dict[str, Any]]:
    tiles: list[dict[str, Any]] = []
    sized = ErrorBars().signed
    if facts.inside is not None:
        low, high = (float(end) for end in wilson(facts.inside, rows.total, level))
        inside = f"{count(round(facts.inside * rows.total))} of {count(rows.total)} outcomes"
        gap, between = facts.gap, "No interval: weights are not counts."
        if gap is not None:
            between = f"Between {sized(gap.low)} and {sized(gap.high)} points ({100 * level:g}% interval)."
        meant = f"{100 * facts.meant:g}%"
        foot = f"{inside} ({_near(low)} to {_near(high)})."
        tiles += [
            tile(f"Inside the {meant} interval", [_near(facts.inside)], "", foot, plain=True),
            tile("Meant to be inside", [meant], "", "What the error bars promise."),
            tile("Gap: meant minus inside", [sized(facts.meant - facts.inside)], "points", between),
        ]
    return [*tiles, smallest_gap(points(facts.resolvable), facts.n)]


def _facts(facts: RegressionFacts) -> list[tuple[str, str]]:
    """Return the few numbers that stand beside the verdict."""
    rows = []
    if facts.inside is not None:
        rows = [
            (f"Inside the {100 * facts.meant:g}% interval", _near(facts.inside)),
            ("Meant to be inside", f"{100 * facts.meant:g}%"),
            ("Gap: meant minus inside", f"{signed(facts.meant - facts.inside)} points"),
        ]
    return [*rows, ("Smallest gap these rows can detect", f"{points(facts.resolvable)} points")]
