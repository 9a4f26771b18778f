"""Targets of the UCE paper that train networks: tables 1-2, figures 2 and 7-9, claim by claim over five seeds.

References
----------
[1] Laves et al. (2020), "Uncertainty Calibration Error: A New Metric for Multi-Class Classification".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from calibrant import selective
from calibrant._typing import RNG, Floats
from calibrant_papers.studies.temperature_sweep import TEMPERATURES, temperature_sweep
from calibrant_papers.targets.result import Finding, Line, TargetResult
from calibrant_papers.targets.training_runs import HUNDRED, MAIN, SEEDS, Trained, forecasts, penalties_run, source
from calibrant_papers.targets.uce import ACE_NOTE

__all__ = ["TARGETS"]

NOTE = (
    "A wide network on features or small images stands in for the paper's residual networks: compare signs, not sizes."
)
PENALTIES = {"entropy": "entropy penalty", "mmce": "MMCE penalty", "uce": "UCE penalty"}
#: Metrics of the captions of figures 7 and 8; the first leaves out the Brier score.
CAPTION = ("ece", "ace", "uce", "mmce", "nll")
COLUMNS = ("accuracy", "ece", "ace", "uce", "mmce", "brier", "nll")


def _compare(
    text: str, better: list[float], worse: list[float], name: str, novelty: str, reason: str, percent: bool = True
) -> Finding:
    """Claim that one number lies below another in every seed."""
    unit, scale = ("%", 100) if percent else ("", 1)
    means = f"{name} {scale * np.mean(better):.3g}{unit} against {scale * np.mean(worse):.3g}{unit}"
    shown = [a < b for a, b in zip(better, worse, strict=True)]
    return Finding.over(text, shown, measured=means, reason=reason, novelty=novelty)


def _penalty_claims(run: Trained, method: str, penalty: str) -> list[Finding]:
    novelty, title = PENALTIES[penalty], {"entropy": "entropy", "mmce": "MMCE", "uce": "UCE"}[penalty]
    found = []
    for column in ("ece", "uce"):
        none = {t: run.value(method, "none", t, column) for t in ("1", "optimal")}
        own = {t: run.value(method, penalty, t, column) for t in ("1", "optimal")}
        metric = column.upper()
        found += [
            _compare(
                f"{title} + T has a lower {metric} than no penalty at T = 1",
                own["optimal"],
                none["1"],
                metric,
                "penalty and temperature",
                "the network is not overconfident enough",
            ),
            _compare(
                f"{title} at T = 1 has a lower {metric} than no penalty at T = 1",
                own["1"],
                none["1"],
                metric,
                novelty,
                "the penalty sees training rows, nearly all right, and asks for certainty; with held-out rows it "
                "does so too, if less: the error of calibrated forecasts is below their normalized entropy (figure 3)"
                if penalty == "uce"
                else "λ was chosen at the optimal temperature",
            ),
            _compare(
                f"{title} + T has a lower {metric} than temperature alone",
                own["optimal"],
                none["optimal"],
                metric,
                novelty,
                "one temperature repairs what the penalty could",
            ),
        ]
    distance = {p: [abs(np.log(t)) for t in run.value(method, p, "optimal", "T")] for p in ("none", penalty)}
    temperatures = [f"{np.mean(run.value(method, p, 'optimal', 'T')):.2f}" for p in (penalty, "none")]
    nearer = Finding.over(
        f"{title} moves the optimal temperature towards 1",
        [a < b for a, b in zip(distance[penalty], distance["none"], strict=True)],
        measured=f"T {temperatures[0]} against {temperatures[1]}",
        reason="rows that are learned by heart are asked to be surer still"
        if penalty == "uce"
        else "the penalty is too weak to undo what the network has learned by heart",
        novelty=novelty,
    )
    return [*found, nearer]


def table_1(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """SWAG with and without penalties, T = 1 and optimal, beside the published Fashion-MNIST rows."""
    del rng
    from calibrant_papers.training.report import PUBLISHED

    run = penalties_run(quick, data)
    lines = []
    for penalty in ("none", *PENALTIES):
        for temperature in ("1", "optimal"):
            beside = PUBLISHED.get((penalty, temperature), {})
            lines += [
                Line(f"SWAG, {penalty}, T {temperature}: {c}", float(np.mean(values)), beside.get(c))
                for c in COLUMNS
                for values in [run.value("swag", penalty, temperature, c)]
            ]
    findings = [claim for penalty in PENALTIES for claim in _penalty_claims(run, "swag", penalty)]
    findings += [
        _compare(
            f"{penalty.upper()} + T has a lower ECE than entropy + T",
            run.value("swag", penalty, "optimal", "ece"),
            run.value("swag", "entropy", "optimal", "ece"),
            "ECE",
            PENALTIES[penalty],
            "after a temperature all penalties are alike",
        )
        for penalty in ("mmce", "uce")
    ]
    findings.append(
        _compare(
            "UCE + T has a higher accuracy than no penalty",
            [-v for v in run.value("swag", "uce", "optimal", "accuracy")],
            [-v for v in run.value("swag", "none", "optimal", "accuracy")],
            "minus accuracy",
            "UCE penalty",
            "the penalty does not teach classes",
        )
    )
    weights = dict(run.report.plan.get("weights", []))
    chosen = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
    notes = (NOTE, ACE_NOTE, f"λ chosen on calibration rows: {chosen}." if chosen else "λ as published.")
    return TargetResult(
        "uce-table-1", "P", "penalties and temperature, SWAG", tuple(lines), tuple(findings), {}, notes, quick,
        run.data, run.size,
    )  # fmt: skip


def table_2(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Bayesian methods without penalty."""
    del rng
    run = penalties_run(quick, data)
    methods = list(dict.fromkeys(c["method"] for c in run.report.cells if c["penalty"] == "none"))
    values = {m: {c: run.value(m, "none", "1", c) for c in COLUMNS} for m in methods}
    lines = [Line(f"{m}: {c}", float(np.mean(values[m][c]))) for m in methods for c in COLUMNS]
    full = [m for m in methods if len(values[m]["ece"]) == len(SEEDS)]
    ranks = {
        c: [tuple(sorted(full, key=lambda m: values[m][c][i])) for i in range(len(SEEDS))]
        for c in COLUMNS
        if c != "accuracy"
    }
    alike = [len({ranks[c][i] for c in ranks}) == 1 for i in range(len(SEEDS))]
    orders = "; ".join(f"{c} {' < '.join(ranks[c][0])}" for c in ranks)
    findings = [
        Finding.over(
            "at T = 1 all metrics rank the methods alike",
            alike,
            measured=f"first seed: {orders}",
            reason="methods that differ little are ranked by noise",
            novelty="overconfidence",
        ),
        _compare(
            "the ensemble has a lower ECE than the plain network",
            values["ensemble"]["ece"],
            values["plain"]["ece"],
            "ECE",
            "ensemble",
            "three members are few",
        ),
        _compare(
            "the ensemble has a lower NLL than the plain network",
            values["ensemble"]["nll"],
            values["plain"]["nll"],
            "NLL",
            "ensemble",
            "three members are few",
            percent=False,
        ),
        _compare(
            "SWAG has a lower ECE than the plain network",
            values["swag"]["ece"],
            values["plain"]["ece"],
            "ECE",
            "SWAG",
            "the last layer alone is random, and its path is short",
        ),
        _compare(
            "the network as trained is overconfident: a temperature lowers its ECE",
            run.value("plain", "none", "optimal", "ece"),
            values["plain"]["ece"],
            "ECE",
            "temperature",
            "it is not",
        ),
    ]
    few = [m for m in methods if m not in full]
    notes = (NOTE, ACE_NOTE, *((f"One seed only: {', '.join(few)}.",) if few else ()))
    return TargetResult(
        "uce-table-2", "P", "Bayesian methods, no penalty", tuple(lines), tuple(findings), {}, notes, quick, run.data,
        run.size,
    )  # fmt: skip


def uncertainty(proba: Floats, by: str) -> Floats:
    """Return the normalized entropy or 1 − max p of each row; a test replaces it."""
    if by == "max p":
        return np.asarray(1 - proba.max(axis=1))
    p = np.maximum(proba, np.finfo(float).tiny)
    return np.asarray(-(p * np.log(p)).sum(axis=1) / np.log(proba.shape[1]))


#: Largest uncertainty kept, step by step.
THRESHOLDS = np.arange(1.0, 0.05, -0.1)


def _kept_errors(wrong: Floats, score: Floats) -> tuple[list[int], list[float]]:
    """Return how many rows every threshold keeps, and their error."""
    kept = [score <= threshold for threshold in THRESHOLDS]
    return [int(k.sum()) for k in kept], [float(wrong[k].mean()) for k in kept]


def _falls(wrong: Floats, score: Floats) -> bool:
    """Whether the error of kept rows falls at every step of the threshold that refuses rows."""
    rows, errors = _kept_errors(wrong, score)
    refused = np.diff(rows) < 0
    return bool(refused.any() and (np.diff(errors)[refused] < 0).all())


def rejection(target: str, name: str, quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Error of kept rows against the share refused, by entropy and by max p; and out-of-distribution rows."""
    del rng
    falls: dict[str, list[bool]] = {"normalized entropy": [], "max p": []}
    rises: list[bool] = []
    finds: dict[str, list[float]] = {"normalized entropy": [], "max p": []}
    lines, curves = [], {}
    for seed in SEEDS:
        y, known, foreign, label = forecasts(source(data, name), quick, seed)
        wrong = (known.argmax(axis=1) != y).astype(np.float64)
        for by, shown in falls.items():
            own, other = uncertainty(known, by), uncertainty(foreign, by)
            shown.append(_falls(wrong, own))
            found = selective.ood_detection(own, other, by="score", n_resamples=0, rng=0)
            finds[by].append(float(found.auroc.value))
            if seed == 0:
                curves[f"error of kept rows, {by}"] = {
                    "largest uncertainty kept": THRESHOLDS.tolist(),
                    "error": _kept_errors(wrong, own)[1],
                }
        means = [
            (1 - s) * uncertainty(known, "entropy").mean() + s * uncertainty(foreign, "entropy").mean()
            for s in np.arange(0, 1.01, 0.1)
        ]
        rises.append(bool((np.diff(means) > 0).all()))
        lines.append(Line(f"seed {seed}: error of all rows", float(wrong.mean())))
    findings = [
        Finding.over(
            f"the error of kept rows falls with every step of the threshold on {by}",
            shown,
            measured=f"error of all rows {100 * np.mean([line.ours for line in lines]):.2f}%",
            reason="few errors are left, so a step refuses right rows alone",
            novelty="uncertainty",
        )
        for by, shown in falls.items()
    ]
    if target == "uce-fig-2":
        auroc = {by: float(np.mean(values)) for by, values in finds.items()}
        findings += [
            Finding.over(
                "the mean entropy rises at every step with the fraction of out-of-distribution rows",
                rises,
                measured=f"AUROC {auroc['normalized entropy']:.3f}",
                reason="the rows are not seen as foreign",
                novelty="uncertainty",
            ),
            Finding.over(
                "entropy detects out-of-distribution rows better than max p",
                [a > b for a, b in zip(finds["normalized entropy"], finds["max p"], strict=True)],
                measured=f"AUROC {auroc['normalized entropy']:.4f} against {auroc['max p']:.4f}",
                reason="with one class in play both say the same",
                novelty="normalized entropy",
            ),
        ]
    return TargetResult(
        target, "P", "refusing, and out-of-distribution rows", tuple(lines), tuple(findings), curves, (NOTE,), quick,
        label, f"{len(y):,} test rows",
    )  # fmt: skip


def _against_entropy(run: Trained, columns: tuple[str, ...]) -> list[Finding]:
    """Captions of figures 7 and 8: MMCE and UCE beat entropy at the optimal temperature by these metrics."""
    names, found = ", ".join(c.upper() if c != "brier" else "Brier score" for c in columns), []
    for penalty in ("mmce", "uce"):
        pairs = {c: [run.value("swag", p, "optimal", c) for p in (penalty, "entropy")] for c in columns}
        below = np.array([np.array(own) < np.array(other) for own, other in pairs.values()])
        seen = ", ".join(f"{c} in {int(row.sum())}" for c, row in zip(columns, below, strict=True))
        found.append(
            Finding.over(
                f"{penalty.upper()} + T is below entropy + T by each of {names}",
                below.all(axis=0),
                measured=f"seeds by metric: {seen} of {below.shape[1]}",
                reason="after a temperature all penalties are alike",
                novelty=PENALTIES[penalty],
            )
        )
    return found


def _entropy_as_trained(run: Trained) -> Finding:
    """Caption of figure 8: on CIFAR-100 entropy without a temperature outperforms MMCE and UCE."""
    ece = {p: np.array(run.value("swag", p, "1", "ece")) for p in PENALTIES}
    return Finding.over(
        "at T = 1 entropy has a lower ECE than MMCE and than UCE",
        ece["entropy"] < np.minimum(ece["mmce"], ece["uce"]),
        measured="ECE " + ", ".join(f"{p} {100 * v.mean():.3g}%" for p, v in ece.items()),
        reason="MMCE acts on confidence itself",
        novelty="entropy penalty",
    )


def sweep(target: str, name: str, quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Every metric against the temperature for each penalty (first seed), and where the optimum lies (all seeds)."""
    del rng
    method, run = "swag", penalties_run(quick, data, name)
    curves: dict[str, dict[str, list[float]]] = {}
    lines = []
    for penalty in ("none", *PENALTIES):
        arrays = run.logits[f"{method}-{penalty}-{SEEDS[0]}"]
        rows = temperature_sweep(
            arrays["labels_test"].astype(np.int64),
            arrays["logits_test"],
            space="logit",
            temperatures=TEMPERATURES[:: 4 if quick else 1],
        ).rows
        for metric in (key for key in rows[0] if key != "temperature"):
            curves.setdefault(metric, {"temperature": [row["temperature"] for row in rows]})
            curves[metric][penalty] = [row[metric] for row in rows]
        values = run.value(method, penalty, "optimal", "T")
        lines.append(Line(f"{method}, {penalty}: optimal temperature", float(np.mean(values))))
    nearer = [
        claim for p in PENALTIES for claim in _penalty_claims(run, method, p) if "temperature towards 1" in claim.text
    ]
    over = run.value(method, "none", "optimal", "T")
    findings = [
        Finding.over(
            "without a penalty the optimal temperature is above 1: overconfident",
            [t > 1 for t in over],
            measured=f"T {np.mean(over):.2f}",
            reason="too few epochs",
            novelty="temperature",
        ),
        *nearer,
        *_against_entropy(run, CAPTION if name == MAIN else (*CAPTION, "brier")),
        *(() if name == MAIN else (_entropy_as_trained(run),)),
    ]
    title = f"metrics against temperature, SWAG, {run.data}"
    return TargetResult(target, "P", title, tuple(lines), tuple(findings), curves, (NOTE,), quick, run.data, run.size)


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "uce-table-1": table_1,
    "uce-table-2": table_2,
    "uce-fig-2": partial(rejection, "uce-fig-2", "cifar10-outputs"),
    "uce-fig-7": partial(sweep, "uce-fig-7", MAIN),
    "uce-fig-8": partial(sweep, "uce-fig-8", HUNDRED),
    "uce-fig-9": partial(rejection, "uce-fig-9", "cifar100-outputs"),
}
