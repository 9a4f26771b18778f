"""Mix-n-Match, Zhang et al. (2020), figures 5, 7, 8 and 9: estimators against a truth known by quadrature.

References
----------
[1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 5.1 and appendix E.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from calibrant._typing import RNG
from calibrant_papers.studies.estimator_bias import CASES, SIZES, estimator_bias
from calibrant_papers.studies.frame import Row, StudyResult
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult

__all__ = ["TARGETS"]

#: Truth by quadrature (order -> case -> value).
TRUTH = {1: (0.074443, 0.023459), 2: (0.00924516, 0.000911696)}
VIEW_NOTE = "The error is that of the probability of one class (view class-1), not of the larger probability."


REPEATS = {True: 20, False: 200}


@lru_cache(maxsize=4)
def _studies(order: int, quick: bool) -> tuple[StudyResult, ...]:
    """The study of every seed; together the repeats of the paper."""
    sizes = (64, 256, 1024) if quick else SIZES
    return tuple(
        estimator_bias(order=order, repeats=REPEATS[quick], sizes=sizes, seed=seed) for seed in range(MIN_SEEDS)
    )


def _at(rows: tuple[Row, ...], model: str, n: int, estimator: str, key: str = "mean_absolute_error") -> float:
    return float(next(r[key] for r in rows if (r["model"], r["n"], r["estimator"]) == (model, n, estimator)))


def _mean(studies: tuple[StudyResult, ...], model: str, n: int, name: str, key: str = "mean_absolute_error") -> float:
    return float(np.mean([_at(study.rows, model, n, name, key) for study in studies]))


def _size(quick: bool) -> str:
    return f"n = 64 … 1,024, {MIN_SEEDS} × {REPEATS[quick]} samples"


DATA = "two Gaussian classes, simulated"
HISTOGRAMS = ("15 bins", "Sturges bins")


def _truths(order: int, rows: tuple[Row, ...]) -> list[Line]:
    lines = []
    for model, value in zip(CASES, TRUTH[order], strict=True):
        ours = next(row["truth"] for row in rows if row["model"] == model)
        lines.append(
            Line(
                f"truth of order {order}, {model}",
                ours,
                value,
                "by quadrature",
                (value * (1 - 1e-5), value * (1 + 1e-5)),
            )
        )
    return lines


def figure_5(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Mean absolute error against n, order 1 and order 2."""
    del data, rng
    lines, findings, curves = [], [], {}
    for order in (1, 2):
        studies = _studies(order, quick)
        sizes = sorted({row["n"] for row in studies[0].rows})
        lines += _truths(order, studies[0].rows)
        for model in CASES:
            panel: dict[str, list[float]] = {"n": [float(n) for n in sizes]}
            for name in ("KDE", *HISTOGRAMS):
                panel[name] = [_mean(studies, model, n, name) for n in sizes]
                lines += [
                    Line(f"order {order}, {model}, n = {n}: {name}", v) for n, v in zip(sizes, panel[name], strict=True)
                ]
            curves[f"order {order}, {model}"] = panel
        findings.append(
            Finding.over(
                f"order {order}: KDE is nearer to the truth than both histograms at every n",
                [
                    all(
                        _at(study.rows, m, n, "KDE") < min(_at(study.rows, m, n, h) for h in HISTOGRAMS)
                        for m in CASES
                        for n in sizes
                    )
                    for study in studies
                ],
                measured="; ".join(
                    f"{m}, n = {n}: {_mean(studies, m, n, 'KDE'):.2g} against "
                    f"{min(_mean(studies, m, n, h) for h in HISTOGRAMS):.2g}"
                    for m in CASES
                    for n in (sizes[0], sizes[-1])
                ),
                reason="at n = 1,024 KDE and Sturges bins are nearly alike: with few samples noise decides",
                novelty="KDE",
            )
        )
    title = "mean absolute error of ECE estimators"
    return TargetResult(
        "zhang-fig-5",
        "S",
        title,
        tuple(lines),
        tuple(findings),
        curves,
        (VIEW_NOTE,),
        quick,
        data=DATA,
        size=_size(quick),
    )


def _distribution(name: str, model: str, quick: bool) -> TargetResult:
    studies = _studies(1, quick)
    lines, curves = _truths(1, studies[0].rows), {}
    names = ("KDE", *HISTOGRAMS)
    for n in (64, 1024):
        panel: dict[str, list[float]] = {"quantile": [0.05, 0.25, 0.5, 0.75, 0.95]}
        for estimator in names:
            panel[estimator] = [_mean(studies, model, n, estimator, f"error q{q}") for q in (5, 25, 50, 75, 95)]
            lines.append(Line(f"n = {n}: median error of {estimator}", panel[estimator][2]))
        curves[f"{model}, n = {n}: quantiles of the error"] = panel

    def median(study: StudyResult, n: int, estimator: str) -> float:
        return _at(study.rows, model, n, estimator, "error q50")

    text = ", ".join(f"{e} {_mean(studies, model, 64, e, 'error q50'):.2g}" for e in names)
    findings = (
        Finding.over(
            "at n = 64 histograms are too large in most samples",
            [min(median(s, 64, e) for e in HISTOGRAMS) > 0 for s in studies],
            measured=text,
            novelty="histograms",
        ),
        Finding.over(
            "at n = 64 the KDE's median error is smaller than both",
            [abs(median(s, 64, "KDE")) < min(abs(median(s, 64, e)) for e in HISTOGRAMS) for s in studies],
            measured=text,
            novelty="KDE",
        ),
        Finding.over(
            "errors shrink from n = 64 to n = 1024",
            [all(abs(median(s, 1024, e)) < abs(median(s, 64, e)) for e in names) for s in studies],
            reason="the median error of the KDE at n = 64 is near 0 already",
            novelty="more rows",
        ),
    )
    title = f"distribution of errors, {model}"
    return TargetResult(
        name, "S", title, tuple(lines), findings, curves, (VIEW_NOTE,), quick, data=DATA, size=_size(quick)
    )


def figure_7(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Distribution of errors, case 1."""
    del data, rng
    return _distribution("zhang-fig-7", "case 1", quick)


def figure_8(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Distribution of errors, case 2."""
    del data, rng
    return _distribution("zhang-fig-8", "case 2", quick)


def figure_9(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """KDE against debiased histograms, order 2."""
    del data, rng
    studies = _studies(2, quick)
    sizes = sorted({row["n"] for row in studies[0].rows})
    clipped = ("15 bins, debiased", "15 mass bins, debiased")
    plain = tuple(f"{name}, may be negative" for name in clipped)
    lines, curves = _truths(2, studies[0].rows), {}
    for model in CASES:
        panel: dict[str, list[float]] = {"n": [float(n) for n in sizes]}
        for name in ("KDE", *clipped, *plain):
            panel[name] = [_mean(studies, model, n, name) for n in sizes]
            lines += [Line(f"{model}, n = {n}: {name}", v) for n, v in zip(sizes, panel[name], strict=True)]
        curves[model] = panel

    def beats(study: StudyResult, model: str, names: tuple[str, ...]) -> bool:
        return _at(study.rows, model, 64, "KDE") < min(_at(study.rows, model, 64, name) for name in names)

    findings = (
        Finding.over(
            "at n = 64 KDE beats the debiased histograms as they are, in both cases",
            [all(beats(s, m, plain) for m in CASES) for s in studies],
            novelty="KDE",
        ),
        Finding.over(
            "at n = 64, case 1, it also beats them clipped at 0",
            [beats(s, "case 1", clipped) for s in studies],
            novelty="KDE",
        ),
        Finding.over(
            "at n = 64, case 2, it also beats them clipped at 0",
            [beats(s, "case 2", clipped) for s in studies],
            measured=f"KDE {_mean(studies, 'case 2', 64, 'KDE'):.2g} against "
            f"{min(_mean(studies, 'case 2', 64, name) for name in clipped):.2g}",
            reason="the truth is near 0: clipping a debiased square there makes it small",
            novelty="KDE",
        ),
    )
    notes = (
        VIEW_NOTE,
        "The paper finds KDE better throughout; near calibration, clipping a debiased square at 0 reverses that.",
    )
    title = "KDE against debiased histograms"
    return TargetResult(
        "zhang-fig-9", "S", title, tuple(lines), findings, curves, notes, quick, data=DATA, size=_size(quick)
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "zhang-fig-5": figure_5,
    "zhang-fig-7": figure_7,
    "zhang-fig-8": figure_8,
    "zhang-fig-9": figure_9,
}
