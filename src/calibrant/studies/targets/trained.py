"""Targets that train networks: tables 1-2, figures 2, 7-9 of Laves et al. (2020), five figures of Nixon et al. (2019).

All come from one run of the training experiment (``calibrant train``) on Fashion-MNIST, or on scikit-learn's digits
where that is not installed; the quick form is a much smaller network run, enough to show that everything is there.

References
----------
[1] Laves et al. (2020), "Uncertainty Calibration Error: A New Metric for Multi-Class Classification".
[2] Nixon et al. (2019), "Measuring Calibration in Deep Learning", CVPR workshops.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import RNG
from calibrant.studies.frame import current_workspace
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.targets.uce import ACE_NOTE, sweep_result
from calibrant.studies.temperature_sweep import TEMPERATURES, temperature_sweep

if TYPE_CHECKING:
    from calibrant.studies.training import TrainingReport

__all__ = ["TARGETS"]

NOTE = "Small networks on Fashion-MNIST (or digits) stand in for the papers' residual networks on CIFAR."

#: Points of accuracy a penalty may cost: few rows and few steps (quick) cost more.
COST = {True: 6, False: 2}


@lru_cache(maxsize=2)
def _run(quick: bool) -> tuple[TrainingReport, dict[str, dict[str, Any]]]:
    """Train once for all targets; return the report and the test logits of every model."""
    from calibrant.studies import training

    plan = training.Plan.make(quick=quick)
    if quick:
        plan = replace(
            plan,
            methods=("plain", "swag", "ensemble"),
            penalties=("none", "uce"),
            rows=800,
            n_cal=800,
            n_test=1500,
            epochs=25,
            average_epochs=5,
            samples=5,
            trace_steps=300,
            trace_every=50,
        )
    here = current_workspace()

    def work(folder: Path) -> tuple[TrainingReport, dict[str, dict[str, Any]]]:
        report = training.run(folder, plan, jobs=1 if quick else (here.jobs or None))
        logits = {}
        for path in sorted((folder / "logits").glob("*.npz")):
            with np.load(path, allow_pickle=False) as archive:
                logits[path.stem] = {key: archive[key] for key in archive.files}
        return report, logits

    if here.folder is not None:
        return work(here.folder / f"training-{'quick' if quick else 'full'}")
    with tempfile.TemporaryDirectory() as place:
        return work(Path(place))


def _row(report: TrainingReport, method: str, penalty: str, temperature: str) -> dict[str, Any] | None:
    wanted = (method, penalty, temperature)
    return next((r for r in report.summary() if (r["method"], r["penalty"], r["temperature"]) == wanted), None)


def uce_table_1(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """SWAG with and without penalties, at optimal temperature, beside the published Fashion-MNIST rows."""
    del data, rng
    from calibrant.studies.training.report import PUBLISHED

    report, _ = _run(quick)
    lines = []
    for (penalty, temperature), columns in PUBLISHED.items():
        row = _row(report, "swag", penalty, temperature)
        if row is not None:
            lines += [
                Line(f"SWAG, {penalty}, T {temperature}: {c}", row[c]["mean"], value) for c, value in columns.items()
            ]
    plain, repaired = _row(report, "swag", "none", "1"), _row(report, "swag", "uce", "optimal")
    findings = []
    if plain is not None and repaired is not None:
        findings = [
            Finding(
                "UCE penalty with optimal temperature lowers the ECE of the network as trained",
                repaired["ece"]["mean"] < plain["ece"]["mean"],
            ),
            Finding(
                f"it costs at most {COST[quick]} points of accuracy",
                repaired["accuracy"]["mean"] > plain["accuracy"]["mean"] - COST[quick] / 100,
            ),
        ]
    return TargetResult(
        "uce-table-1",
        "P",
        "penalties and temperature, SWAG",
        tuple(lines),
        tuple(findings),
        notes=(NOTE, ACE_NOTE),
        quick=quick,
    )


def uce_table_2(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Bayesian methods without penalty."""
    del data, rng
    report, _ = _run(quick)
    rows = {r["method"]: r for r in report.summary() if r["penalty"] == "none" and r["temperature"] == "1"}
    columns = ("accuracy", "ece", "ace", "uce", "mmce", "brier", "nll")
    lines = [Line(f"{method}: {c}", row[c]["mean"]) for method, row in rows.items() for c in columns]
    best = min(rows, key=lambda m: rows[m]["nll"]["mean"])
    findings = (
        Finding(
            "the ensemble has a lower log-loss than the plain network",
            rows["ensemble"]["nll"]["mean"] < rows["plain"]["nll"]["mean"],
        ),
        Finding(
            "every measure calls the plain network over-confident (ECE above 1 %)", rows["plain"]["ece"]["mean"] > 0.01
        ),
        Finding("the best log-loss is not the plain network's", best != "plain"),
    )
    return TargetResult(
        "uce-table-2", "P", "Bayesian methods, no penalty", tuple(lines), findings, notes=(NOTE, ACE_NOTE), quick=quick
    )


def _cells(report: TrainingReport) -> list[dict[str, Any]]:
    return [cell for cell in report.cells if cell["penalty"] == "none"]


def uce_rejection(target: str, temperature: str, quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Error of kept rows against the threshold; uncertainty against the share of foreign rows."""
    del data, rng
    from calibrant.studies.training.report import error_falls

    report, _ = _run(quick)
    lines, falls, rises = [], [], []
    reject: dict[str, list[float]] = {}
    swap: dict[str, list[float]] = {}
    for cell in _cells(report):
        result = cell["results"][temperature]
        curve, foreign = result["rejection"], result["swap_in"]
        name = f"{cell['method']} {cell['seed']}"
        reject.setdefault("threshold", curve["threshold"])
        reject[name] = [float("nan") if v is None else float(v) for v in curve["error"]]
        swap.setdefault("share of foreign rows", foreign["share"])
        swap[name] = foreign["uncertainty"]
        falls.append(error_falls(curve["error"], curve["coverage"]))
        rises.append(foreign["uncertainty"][-1] > foreign["uncertainty"][0])
        lines += [
            Line(f"{name}: error of all rows", float(curve["error"][0])),
            Line(
                f"{name}: mean uncertainty, all own / all foreign",
                foreign["uncertainty"][0],
                note=f"{foreign['uncertainty'][-1]:.3f} foreign",
            ),
        ]
    findings = [
        Finding("the error of kept rows falls as the threshold falls, for every model", all(falls)),
        Finding("the mean uncertainty rises with the share of foreign rows, for every model", all(rises)),
    ]
    curves = {"rejection": reject, "foreign data": swap}
    return TargetResult(
        target,
        "P",
        f"rejection and foreign data, T {temperature}",
        tuple(lines),
        tuple(findings),
        curves,
        (NOTE,),
        quick,
    )


def uce_sweep(target: str, method: str, quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Measures against temperature for each penalty."""
    del data, rng
    report, logits = _run(quick)
    seed = report.cells[0]["seed"]
    rows, best = {}, {}
    for penalty in dict.fromkeys(cell["penalty"] for cell in report.cells):
        arrays = logits[f"{method}-{penalty}-{seed}"]
        found = temperature_sweep(
            arrays["labels_test"].astype(np.int64),
            arrays["logits_test"],
            space="logit",
            temperatures=TEMPERATURES[::2] if quick else TEMPERATURES,
        ).rows
        rows[f"{method}, {penalty}"] = found
        best[penalty] = min(found, key=lambda row: row["NLL"])["temperature"]
    sharp = [found[0]["ECE"] > 2 * min(row["ECE"] for row in found) for found in rows.values()]
    extra = (
        Finding(
            "networks as trained are over-confident: without a penalty the best temperature is above 1",
            best["none"] > 1,
        ),
        Finding("sharpening (small temperatures) at least doubles the ECE, for every penalty", all(sharp)),
    )
    closer = "nearer to 1" if abs(np.log(best["uce"])) < abs(np.log(best["none"])) else "no nearer to 1"
    where = (
        f"The paper sees penalties move the best temperature towards 1; here the UCE penalty gives {best['uce']:.3g}, "
        f"{closer} than {best['none']:.3g} without."
    )
    return sweep_result(target, rows, extra, (NOTE, where), quick)


# -- Nixon's traces -------------------------------------------------------------------------------


def _trace(report: TrainingReport, start: str) -> dict[str, Any]:
    return next(trace for trace in report.traces if trace["initialisation"] == start)


def nixon_traces(target: str, start: str, quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """ECE, SCE, ACE and TACE over training, training and held-out rows."""
    del data, rng
    report, _ = _run(quick)
    trace = _trace(report, start)
    curves = {
        m.upper(): {
            "step": [float(s) for s in trace["step"]],
            "training": trace["train"][m],
            "held out": trace["held_out"][m],
        }
        for m in ("ece", "sce", "ace", "tace")
    }
    lines = [
        Line(f"{m}, {side}, last step", trace[side][m][-1])
        for m in ("ece", "sce", "ace", "tace")
        for side in ("train", "held_out")
    ]
    apart = trace["held_out"]["ece"][-1] - trace["train"]["ece"][-1]
    findings = (
        Finding("at the end held-out rows are worse calibrated than training rows", apart > 0),
        Finding("accuracy rises over training", trace["held_out"]["accuracy"][-1] > trace["held_out"]["accuracy"][0]),
        Finding(
            "SCE stays below ECE: a mean over classes", trace["held_out"]["sce"][-1] < trace["held_out"]["ece"][-1]
        ),
    )
    return TargetResult(
        target, "P", f"measures over training, {start} start", tuple(lines), findings, curves, (NOTE,), quick
    )


def nixon_fig_3(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Lower bounds of adaptive ranges over training."""
    del data, rng
    report, _ = _run(quick)
    trace = _trace(report, "glorot")
    bounds = np.array(trace["lower_bounds"])
    curves = {
        "lower bounds of 15 adaptive ranges": {
            "step": [float(s) for s in trace["step"]],
            **{f"range {i + 1}": bounds[:, i].tolist() for i in (0, 4, 8, 11, 13, 14)},
        }
    }
    small = float((bounds[-1] < 0.01).mean())
    lines = [Line(f"lower bound of range {i + 1}, last step", float(bounds[-1, i])) for i in range(bounds.shape[1])]
    findings = (
        Finding(
            "at the end most ranges begin below 0.01: adaptive ranges look almost only at tiny probabilities",
            small > 0.5,
        ),
        Finding("early in training they are spread wider than at the end", float((bounds[0] < 0.01).mean()) < small),
    )
    return TargetResult(
        "nixon-fig-3",
        "P",
        "lower bounds of adaptive ranges over training",
        tuple(lines),
        findings,
        curves,
        (NOTE,),
        quick,
    )


def nixon_fig_9(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Good against poor initialisation."""
    del data, rng
    report, _ = _run(quick)
    good, poor = _trace(report, "glorot"), _trace(report, "normal")
    step = [float(s) for s in good["step"]]
    curves = {
        m.upper(): {"step": step, "good start": good["held_out"][m], "poor start": poor["held_out"][m]}
        for m in ("ece", "ace", "tace", "accuracy")
    }
    lines = [
        Line(f"{m} at the end, {name} start", trace["held_out"][m][-1])
        for m in ("ece", "sce", "ace", "tace")
        for name, trace in (("good", good), ("poor", poor))
    ]
    findings = (
        Finding("a poor start ends with a larger ECE", poor["held_out"]["ece"][-1] > good["held_out"]["ece"][-1]),
        Finding("and with a larger ACE", poor["held_out"]["ace"][-1] > good["held_out"]["ace"][-1]),
    )
    return TargetResult(
        "nixon-fig-9", "P", "good against poor initialisation", tuple(lines), findings, curves, (NOTE,), quick
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "nixon-fig-3": nixon_fig_3,
    "nixon-fig-5": partial(nixon_traces, "nixon-fig-5", "glorot"),
    "nixon-fig-6": partial(nixon_traces, "nixon-fig-6", "glorot"),
    "nixon-fig-9": nixon_fig_9,
    "nixon-fig-10": partial(nixon_traces, "nixon-fig-10", "normal"),
    "uce-table-1": uce_table_1,
    "uce-table-2": uce_table_2,
    "uce-fig-2": partial(uce_rejection, "uce-fig-2", "1"),
    "uce-fig-7": partial(uce_sweep, "uce-fig-7", "swag"),
    "uce-fig-8": partial(uce_sweep, "uce-fig-8", "plain"),
    "uce-fig-9": partial(uce_rejection, "uce-fig-9", "optimal"),
}
