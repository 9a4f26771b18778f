"""What a run says: the table with spread, beside the paper's numbers, and whether its findings show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.core.text import table
from calibrant_papers.studies.writing import markdown, stamp

COLUMNS = ("accuracy", "ece", "ace", "ace_nixon", "uce", "mmce", "brier", "nll")
TITLES = {
    "accuracy": "accuracy %",
    "ece": "ECE %",
    "ace": "ACE %",
    "ace_nixon": "ACE (Nixon) %",
    "uce": "UCE %",
    "mmce": "MMCE %",
    "brier": "Brier",
    "nll": "NLL",
}
PLAIN_NUMBERS = ("brier", "nll")
#: What a penalty is compared with none by, seed by seed: title, temperature, column.
BY_SEED = (
    ("ECE, T = 1", "1", "ece"),
    ("UCE, T = 1", "1", "uce"),
    ("ECE, optimal T", "optimal", "ece"),
    ("UCE, optimal T", "optimal", "uce"),
    ("NLL, optimal T", "optimal", "nll"),
)
#: What a penalty must lower beyond a temperature, and in which share of the pairs of method and seed.
BEYOND, HELPS = ("ece", "uce", "nll"), 0.8
#: Table 1 of the UCE paper, Fashion-MNIST, SWAG on a ResNet: (penalty, temperature) → columns.
PUBLISHED: dict[tuple[str, str], dict[str, float]] = {
    key: dict(zip(("accuracy", "ece", "ace", "uce", "mmce", "brier", "nll"), values, strict=True))
    for key, values in {
        ("none", "1"): (0.947, 0.0397, 0.0396, 0.0385, 0.0360, 0.09, 0.29),
        ("entropy", "optimal"): (0.947, 0.0186, 0.0428, 0.0213, 0.0096, 0.09, 0.24),
        ("mmce", "optimal"): (0.947, 0.0054, 0.0140, 0.0064, 0.0017, 0.08, 0.15),
        ("uce", "optimal"): (0.948, 0.0052, 0.0175, 0.0063, 0.0011, 0.08, 0.16),
    }.items()
}


@dataclass(frozen=True)
class Finding:
    """A claim of a paper and whether this run shows it."""

    claim: str
    holds: bool
    detail: str

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'NO '}  {self.claim}: {self.detail}"


@dataclass(frozen=True)
class TrainingReport:
    """All cells of a run with its plan; everything else is read from them."""

    data: str
    foreign: str
    note: str
    plan: dict[str, Any]
    cells: tuple[dict[str, Any], ...]
    traces: tuple[dict[str, Any], ...]
    trials: tuple[dict[str, Any], ...] = ()

    def summary(self) -> list[dict[str, Any]]:
        """Return mean and standard deviation over seeds of every column, by method, penalty and temperature."""
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
        for cell in self.cells:
            for temperature, result in cell["results"].items():
                groups[cell["method"], cell["penalty"], temperature].append(result)
        rows = []
        for (method, penalty, temperature), results in groups.items():
            row: dict[str, Any] = {"method": method, "penalty": penalty, "temperature": temperature}
            row["seeds"] = len(results)
            for column in COLUMNS:
                row[column] = _spread([result["measures"][column] for result in results])
            row["T"] = _spread([result["temperature"] for result in results])
            row["aurc"] = _spread([result["aurc"] for result in results])
            row["ood_auroc"] = _spread([result["ood"]["auroc"] for result in results])
            rows.append(row)
        return rows

    def by_seed(self) -> list[dict[str, Any]]:
        """Return in how many seeds a penalty is better than none with the same method, number by number."""
        cells = {(c["method"], c["penalty"], c["seed"]): c["results"] for c in self.cells}
        rows = []
        for method, penalty in dict.fromkeys((m, p) for m, p, _ in cells if p != "none"):
            pairs = [
                (own, cells[method, "none", seed])
                for (m, p, seed), own in cells.items()
                if (m, p) == (method, penalty) and (method, "none", seed) in cells
            ]
            if not pairs:
                continue
            row: dict[str, Any] = {"method": method, "penalty": penalty, "seeds": len(pairs)}
            for title, at, key in BY_SEED:
                row[title] = sum(bool(own[at]["measures"][key] < none[at]["measures"][key]) for own, none in pairs)
            distance = [[abs(np.log(r["optimal"]["temperature"])) for r in pair] for pair in pairs]
            rows.append(row | {"T nearer to 1": sum(bool(a < b) for a, b in distance)})
        return rows

    def beyond_temperature(self) -> list[dict[str, Any]]:
        """Return what every penalty adds to a temperature, over pairs of method and seed with and without it."""
        cells = {(c["method"], c["penalty"], c["seed"]): c["results"]["optimal"]["measures"] for c in self.cells}
        rows = []
        for penalty in dict.fromkeys(p for _, p, _ in cells if p != "none"):
            pairs = [
                (cells[method, "none", seed], own)
                for (method, p, seed), own in cells.items()
                if p == penalty and (method, "none", seed) in cells
            ]
            if not pairs:
                continue
            row: dict[str, Any] = {"penalty": penalty, "pairs": len(pairs)}
            for key in BEYOND:
                without, own = np.array([[a[key], b[key]] for a, b in pairs]).T
                lower = int((own < without).sum())
                row[key] = {
                    "without": float(without.mean()),
                    "with": float(own.mean()),
                    "lower": lower,
                    "helps": bool(lower >= HELPS * len(pairs) and own.mean() < without.mean()),
                }
            rows.append(row)
        return rows

    def _answer(self) -> list[str]:
        """Say whether a penalty helps beyond temperature scaling, with the numbers."""
        rows = self.beyond_temperature()
        if not rows:
            return []
        names = {key: TITLES[key].removesuffix(" %") for key in BEYOND}
        helped = {row["penalty"]: [names[key] for key in BEYOND if row[key]["helps"]] for row in rows}
        words = "; ".join(f"{penalty} lowers {' and '.join(found)}" for penalty, found in helped.items() if found)
        head = (
            f"Beyond temperature scaling {words} in the mean and four of five pairs; nothing else shows."
            if words
            else "No: beyond temperature scaling no penalty lowers ECE, UCE or NLL in the mean and four of five pairs."
        )
        lines = []
        for row in rows:
            parts = [
                f"{names[key]} {_unit(row[key]['without'], key)} without and {_unit(row[key]['with'], key)} with it, "
                f"lower in {row[key]['lower']}"
                for key in BEYOND
            ]
            lines.append(f"- {row['penalty']}, {row['pairs']} pairs: {'; '.join(parts)}.")
        how = "A pair is one method and one seed, both at the optimal temperature, with and without the penalty."
        return ["## Does a penalty help beyond a temperature?", "", f"{head} {how}", "", *lines, ""]

    def findings(self) -> list[Finding]:
        """Check what the papers say against the cells."""
        return [*self._repair(), *self._refusal(), *self._starts()]

    def _repair(self) -> list[Finding]:
        """Check that each penalty with optimal temperature beats the plain network as trained – and temperature alone.

        The paper compares with the network as trained only; what a penalty adds to temperature scaling is asked too.
        """
        values = {(row["method"], row["penalty"], row["temperature"]): row for row in self.summary()}
        repaired = {key: row for key, row in values.items() if key[1] != "none" and key[2] == "optimal"}
        found = []
        for measure in ("ece", "uce"):
            name = measure.upper()
            for against, words in (("1", "the plain network at T = 1"), ("optimal", "temperature alone")):
                pairs = []
                for (method, _, _), row in repaired.items():
                    base = values.get(("plain" if against == "1" else method, "none", against))
                    if base is not None:
                        pairs.append((base[measure]["mean"], row[measure]["mean"]))
                if pairs:
                    better = sum(after < before for before, after in pairs)
                    before, after = 100 * np.mean(pairs, axis=0)
                    detail = f"{better} of {len(pairs)} models, mean {before:.2f}% → {after:.2f}%"
                    found.append(Finding(f"penalty + T lowers {name} against {words}", better == len(pairs), detail))
        return found

    def _refusal(self) -> list[Finding]:
        found = []
        falls, rises, curves = 0, 0, 0
        for cell in self.cells:
            for result in cell["results"].values():
                curves += 1
                falls += error_falls(result["rejection"]["error"], result["rejection"]["coverage"])
                swap = np.asarray(result["swap_in"]["uncertainty"])
                rises += bool((np.diff(swap) > 0).all())
        if curves:
            found = [
                Finding("error of kept rows falls with the threshold", falls == curves, f"{falls} of {curves} models"),
                Finding(
                    "mean entropy rises with the fraction of out-of-distribution rows",
                    rises == curves,
                    f"{rises} of {curves} models",
                ),
            ]
        return found

    def _starts(self) -> list[Finding]:
        last: dict[str, list[float]] = defaultdict(list)
        over = []
        for trace in self.traces:
            last[trace["initialization"]].append(trace["held_out"]["ece"][-1])
            if trace["initialization"] == "glorot":
                over.append((trace["train"]["ece"][-1], trace["held_out"]["ece"][-1]))
        if not {"glorot", "normal"} <= last.keys():
            return []
        good, poor = np.mean(last["glorot"]), np.mean(last["normal"])
        train, held = np.mean(over, axis=0)
        starts, sides = (f"ECE {100 * a:.2f}% against {100 * b:.2f}%" for a, b in ((good, poor), (train, held)))
        return [
            Finding("a poor start ends worse calibrated", bool(poor > good), starts),
            Finding("held-out error ends above training error", bool(held > train), sides),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "schema": 1,
            "data": self.data,
            "foreign": self.foreign,
            "note": self.note,
            "plan": self.plan,
            "summary": self.summary(),
            "by_seed": self.by_seed(),
            "beyond_temperature": self.beyond_temperature(),
            "published": [{"penalty": p, "temperature": t, **values} for (p, t), values in PUBLISHED.items()],
            "findings": [{"claim": f.claim, "holds": f.holds, "detail": f.detail} for f in self.findings()],
            "cells": list(self.cells),
            "traces": list(self.traces),
            **({"trials": list(self.trials)} if self.trials else {}),
        }

    def __str__(self) -> str:
        head = f"{self.data} · {len(self.cells)} models · out-of-distribution data: {self.foreign}"
        blocks = [head, "\n".join(table(_table(self.summary()), right_from=2))]
        beside = self._beside()
        if beside:
            blocks += ["SWAG beside the UCE paper (Fashion-MNIST, ResNet): ours / published"]
            blocks += ["\n".join(table(beside, right_from=2))]
        blocks += ["\n".join(str(finding) for finding in self.findings())]
        return "\n\n".join([*blocks, *([self.note] if self.note else [])])

    def to_markdown(self) -> str:
        """Return a page with the table, versions and date."""
        hidden = ("methods", "penalties", "grid")
        shown = {key: value for key, value in self.plan.items() if key not in hidden and value is not None}
        if str(self.plan.get("data")).partition("=")[0].endswith("-outputs"):  # whose parts are fixed
            shown = {k: v for k, v in shown.items() if k not in ("n_cal", "n_test")} | {"calibration rows": 2000}
        plan = ", ".join(f"{key} {str(value).partition('=')[0]}" for key, value in shown.items())
        reading = (
            "T = 1: as trained; any other T: one temperature for all samples, fitted on the calibration rows. "
            "Mean ± standard deviation over seeds. ACE is the UCE paper's (top label, by predicted class)."
        )
        rows = f", {self.plan['rows']:,} training rows" if self.plan.get("rows") else ""
        lines = [
            f"# Training for calibration: {self.data}{rows}",
            "",
            stamp("calibrant train", "torch"),
            "",
            f"Data: {self.data}; out-of-distribution data: {self.foreign}. Settings: {plan}.",
            "",
            *self._answer(),
            "## Every model",
            "",
            reading,
            "",
            *markdown(_table(self.summary()), right_from=2),
            "",
        ]
        beside = self._beside()
        if beside:
            lines += [
                "## Beside the UCE paper",
                "",
                "SWAG rows, ours / published (a ResNet on all of Fashion-MNIST).",
                "",
                *markdown(beside, right_from=2),
                "",
            ]
        seeds = self.by_seed()
        if any(row["seeds"] > 1 for row in seeds):
            titles = [*(title for title, _, _ in BY_SEED), "T nearer to 1"]
            body = [[r["method"], r["penalty"], *(f"{r[t]} of {r['seeds']}" for t in titles)] for r in seeds]
            lines += ["## Seed by seed", "", "Seeds in which a penalty is better than none with the same method.", ""]
            lines += [*markdown([["method", "penalty", *titles], *body], right_from=2), ""]
        if self.trials:
            lines += ["## Trials of λ", "", *markdown(self._trials(), right_from=1), ""]
        lines += ["## Findings", ""]
        lines += [f"- {'yes' if f.holds else '**no**'} – {f.claim}: {f.detail}" for f in self.findings()]
        return "\n".join([*lines, ""])

    def _trials(self) -> list[list[str]]:
        head = ["penalty", "λ", "accuracy %", "ECE %", "NLL", "NLL, optimal T"]
        chosen = dict(self.plan.get("weights", []))
        return [head] + [
            [
                trial["penalty"],
                f"{trial['weight']:g}" + (" (chosen)" if chosen.get(trial["penalty"]) == trial["weight"] else ""),
                *(f"{100 * trial[key]:.2f}" for key in ("accuracy", "ece")),
                *(f"{trial[key]:.3f}" for key in ("nll", "nll_tempered")),
            ]
            for trial in self.trials
        ]

    def _beside(self) -> list[list[str]]:
        rows = {(r["penalty"], r["temperature"]): r for r in self.summary() if r["method"] == "swag"}
        columns = [column for column in COLUMNS if column != "ace_nixon"]
        body = [
            [penalty, temperature, *(f"{_number(rows[key][c]['mean'], c)} / {_number(values[c], c)}" for c in columns)]
            for key, values in PUBLISHED.items()
            if key in rows
            for penalty, temperature in [key]
        ]
        return [["penalty", "T", *(TITLES[column] for column in columns)], *body] if body else []


def error_falls(error: Sequence[float], coverage: Sequence[float]) -> bool:
    """Whether the error falls each time a further 5% of the rows are refused, while at least 5% are kept."""
    points, last = [error[0]], coverage[0]
    for value, kept in zip(error, coverage, strict=True):
        if 0.05 <= kept <= last - 0.05:
            points.append(value)
            last = kept
    return len(points) > 1 and bool((np.diff(points) < 0).all())


def _spread(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def _number(value: float, column: str) -> str:
    return f"{value:.3f}" if column in PLAIN_NUMBERS else f"{100 * value:.2f}"


def _unit(value: float, column: str) -> str:
    return _number(value, column) + ("" if column in PLAIN_NUMBERS else "%")


def _seeds(row: dict[str, Any]) -> str:
    return f" ({row['seeds']} seeds)" if row["seeds"] > 1 else ""


def _table(rows: list[dict[str, Any]]) -> list[list[str]]:
    def cell(row: dict[str, Any], column: str) -> str:
        text = _number(row[column]["mean"], column)
        return f"{text} ± {_number(row[column]['std'], column)}" if row["seeds"] > 1 else text

    head = ["method", "penalty", "T", *(TITLES[column] for column in COLUMNS), "OoD AUROC"]
    body = []
    for row in rows:
        temperature = "1" if row["temperature"] == "1" else f"{row['T']['mean']:.2f}"
        numbers = [cell(row, column) for column in COLUMNS]
        body.append(
            [row["method"], f"{row['penalty']}{_seeds(row)}", temperature, *numbers, f"{row['ood_auroc']['mean']:.3f}"]
        )
    return [head, *body]
