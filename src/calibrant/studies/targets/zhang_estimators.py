"""Mix-n-Match, Zhang et al. (2020), figures 5, 7, 8 and 9: estimators against a truth known by quadrature.

References
----------
[1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 5.1 and appendix E.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from calibrant._typing import RNG
from calibrant.studies.estimator_bias import CASES, SIZES, estimator_bias
from calibrant.studies.frame import Row, StudyResult
from calibrant.studies.targets.result import Finding, Line, TargetResult

__all__ = ["TARGETS"]

#: Truth by quadrature (order -> case -> value).
TRUTH = {1: (0.074443, 0.023459), 2: (0.00924516, 0.000911696)}
VIEW_NOTE = "The error is that of the probability of one class (view class-1), not of the larger probability."


@lru_cache(maxsize=4)
def _study(order: int, quick: bool) -> StudyResult:
    return estimator_bias(order=order, repeats=100 if quick else 1000, sizes=(64, 256, 1024) if quick else SIZES)


def _at(rows: tuple[Row, ...], model: str, n: int, estimator: str, key: str = "mean_absolute_error") -> float:
    return float(next(r[key] for r in rows if (r["model"], r["n"], r["estimator"]) == (model, n, estimator)))


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
        rows = _study(order, quick).rows
        sizes = sorted({row["n"] for row in rows})
        lines += _truths(order, rows)
        better = []
        for model in CASES:
            panel: dict[str, list[float]] = {"n": [float(n) for n in sizes]}
            for name in ("KDE", "15 bins", "Sturges bins"):
                panel[name] = [_at(rows, model, n, name) for n in sizes]
                lines += [
                    Line(f"order {order}, {model}, n = {n}: {name}", v) for n, v in zip(sizes, panel[name], strict=True)
                ]
            curves[f"order {order}, {model}"] = panel
            better += [
                k < min(a, b) for k, a, b in zip(panel["KDE"], panel["15 bins"], panel["Sturges bins"], strict=True)
            ]
        findings.append(
            Finding(f"order {order}: KDE is nearer to the truth than both histograms at every n", all(better))
        )
    return TargetResult(
        "zhang-fig-5",
        "S",
        "mean absolute error of ECE estimators",
        tuple(lines),
        tuple(findings),
        curves,
        (VIEW_NOTE,),
        quick,
    )


def _distribution(name: str, model: str, quick: bool) -> TargetResult:
    rows = _study(1, quick).rows
    lines, curves, median = _truths(1, rows), {}, {}
    for n in (64, 1024):
        names = ("KDE", "15 bins", "Sturges bins")
        panel: dict[str, list[float]] = {"quantile": [0.05, 0.25, 0.5, 0.75, 0.95]}
        for estimator in names:
            panel[estimator] = [_at(rows, model, n, estimator, f"error q{q}") for q in (5, 25, 50, 75, 95)]
            median[n, estimator] = panel[estimator][2]
            lines.append(Line(f"n = {n}: median error of {estimator}", panel[estimator][2]))
        curves[f"{model}, n = {n}: quantiles of the error"] = panel
    findings = (
        Finding(
            "at n = 64 histograms are too large in most samples",
            median[64, "15 bins"] > 0 and median[64, "Sturges bins"] > 0,
        ),
        Finding(
            "at n = 64 the KDE's median error is smaller than both",
            abs(median[64, "KDE"]) < min(abs(median[64, e]) for e in ("15 bins", "Sturges bins")),
        ),
        Finding(
            "errors shrink from n = 64 to n = 1024",
            all(abs(median[1024, e]) < abs(median[64, e]) for e in ("KDE", "15 bins", "Sturges bins")),
        ),
    )
    return TargetResult(
        name, "S", f"distribution of errors, {model}", tuple(lines), findings, curves, (VIEW_NOTE,), quick
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
    rows = _study(2, quick).rows
    sizes = sorted({row["n"] for row in rows})
    clipped = ("15 bins, debiased", "15 mass bins, debiased")
    plain = tuple(f"{name}, may be negative" for name in clipped)
    lines, curves = _truths(2, rows), {}
    for model in CASES:
        panel: dict[str, list[float]] = {"n": [float(n) for n in sizes]}
        for name in ("KDE", *clipped, *plain):
            panel[name] = [_at(rows, model, n, name) for n in sizes]
            lines += [Line(f"{model}, n = {n}: {name}", v) for n, v in zip(sizes, panel[name], strict=True)]
        curves[model] = panel

    def beats(model: str, names: tuple[str, ...], n: int) -> bool:
        return _at(rows, model, n, "KDE") < min(_at(rows, model, n, name) for name in names)

    findings = (
        Finding(
            "at n = 64 KDE beats the debiased histograms as they are, in both cases",
            all(beats(m, plain, 64) for m in CASES),
        ),
        Finding("at n = 64, case 1, it also beats them clipped at 0", beats("case 1", clipped, 64)),
        Finding(
            "beyond the paper: clipped at 0 the debiased histogram wins case 2, whose truth is near 0",
            not beats("case 2", clipped, 64),
        ),
    )
    notes = (
        VIEW_NOTE,
        "The paper finds KDE better throughout; near calibration, clipping a debiased square at 0 reverses that.",
    )
    return TargetResult(
        "zhang-fig-9", "S", "KDE against debiased histograms", tuple(lines), findings, curves, notes, quick
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "zhang-fig-5": figure_5,
    "zhang-fig-7": figure_7,
    "zhang-fig-8": figure_8,
    "zhang-fig-9": figure_9,
}
