"""Evaluate one file of predictions, whole or by slices: the library call behind ``calibrant evaluate``."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import metrics as _metrics  # noqa: F401  -- declares every measure
from calibrant._typing import Array
from calibrant.core.inputs import Forecast, check_forecast, check_pairs
from calibrant.engines.files import Layout, Predictions, read_predictions
from calibrant.errors import FileError, input_error
from calibrant.inference import wording
from calibrant.inference.evaluation import Evaluation, evaluate_forecast
from calibrant.inference.multiplicity import holm

__all__ = ["FileEvaluation", "Slice", "evaluate_file", "to_forecast"]


@dataclass(frozen=True)
class Slice:
    """The rows with one combination of values, and their evaluation."""

    by: dict[str, Any]
    evaluation: Any
    #: p-value of the top-label KS test, Holm-corrected over the slices.
    corrected: float | None


@dataclass(frozen=True)
class FileEvaluation:
    """What a file's predictions show: the whole, and the slices if asked for."""

    whole: Any
    slices: tuple[Slice, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form, with slices if there are any."""
        document: dict[str, Any] = self.whole.to_dict()
        if self.slices:
            document["slices"] = [
                {
                    "by": part.by,
                    "n": part.evaluation.n,
                    "measures": part.evaluation.to_dict()["measures"],
                    "verdict": part.evaluation.verdict,
                    "corrected_pvalue": part.corrected,
                }
                for part in self.slices
            ]
        return document

    def to_text(self, *, width: int | None = None) -> str:
        """Return the terminal text; slices as a table, worst first."""
        whole = self.whole
        lines = [wording.evaluation_text(whole, width=width) if isinstance(whole, Evaluation) else str(whole)]
        if self.slices:
            lines += ["", *self._slice_lines()]
        return "\n".join(lines)

    def _slice_lines(self) -> list[str]:
        rows = [("slice", "n", "accuracy", "confidence", "ks", "corrected p")]
        ordered = sorted(
            self.slices, key=lambda part: (part.corrected is None, part.corrected, -part.evaluation.facts.ks)
        )
        for part in ordered:
            facts = part.evaluation.facts
            label = ", ".join(f"{key}={value}" for key, value in part.by.items())
            p = "–" if part.corrected is None else "< 0.001" if part.corrected < 0.001 else f"{part.corrected:.3f}"
            rows.append(
                (
                    label,
                    wording.count(facts.n),
                    f"{100 * facts.accuracy:.1f} %",
                    f"{100 * facts.confidence:.1f} %",
                    f"{100 * facts.ks:.2f} %",
                    p,
                )
            )
        sizes = [max(len(row[i]) for row in rows) for i in range(6)]
        return ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]

    def to_markdown(self) -> str:
        """Return headline, table and verdict as Markdown."""
        whole = self.whole
        if not isinstance(whole, Evaluation):
            return f"```\n{whole}\n```"
        rows = [list(wording.cells(result)) for result in whole.results]
        heads = [head.format(level=f"{100 * whole.level:g} %") for head in wording.HEADERS]
        lines = [wording.headline(whole), "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        return "\n".join([*lines, "", f"**{whole.verdict}**"])

    def to_html(self) -> str:
        """Return a plain HTML fragment (the full page is ``calibrant report``)."""
        body: str = self.whole._repr_html_()
        if self.slices:
            body += f"<pre>{html.escape(chr(10).join(self._slice_lines()))}</pre>"
        return body


def to_forecast(predictions: Predictions, *, caller: str, normalize: bool = False) -> Forecast:
    """Check what a file held."""
    if predictions.truth is None:
        raise FileError("no labels were found. Hint: name them with --label.")
    if predictions.kind == "pairs":
        return check_pairs(predictions.truth, predictions.scores, caller=caller, sample_weight=predictions.weights)
    return check_forecast(
        predictions.truth,
        predictions.scores,
        caller=caller,
        sample_weight=predictions.weights,
        classes=predictions.classes,
        space=predictions.space,
        normalize=normalize,
    )


def _column(predictions: Predictions, name: str) -> Array:
    if name not in predictions.columns:
        have = ", ".join(predictions.columns) or "none"
        raise FileError(f"there is no column {name!r} to slice or group by; there are: {have}. Hint: check the name.")
    return predictions.columns[name]


def evaluate_file(
    path: str | Path,
    layout: Layout | None = None,
    *,
    measures: list[str] | None = None,
    n_bins: int = 15,
    by: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    groups: str | None = None,
    seed: int = 0,
    normalize: bool = False,
    input_format: str | None = None,
) -> FileEvaluation:
    """Evaluate one file; `by` names columns (comma-separated) whose combinations are evaluated each."""
    predictions = read_predictions(path, layout, input_format=input_format)
    if predictions.kind == "regression":
        return FileEvaluation(_evaluate_regression(predictions, level, n_resamples, seed))
    forecast = to_forecast(predictions, caller="evaluate", normalize=normalize)
    clusters = None if groups is None else _column(predictions, groups)
    settings: dict[str, Any] = {"measures": measures, "n_bins": n_bins, "level": level, "n_resamples": n_resamples}
    whole = evaluate_forecast(forecast, **settings, groups=clusters, rng=seed)
    if by is None:
        return FileEvaluation(whole)
    names = [name.strip() for name in by.split(",")]
    columns = [_column(predictions, name) for name in names]
    keys, where = unique_rows(columns)
    if len(keys) > 5000:
        raise input_error("by", "evaluate", "give at most 5 000 slices", f"{len(keys)} of them", "use --engine polars")
    parts = []
    for index, key in enumerate(keys):
        rows = np.flatnonzero(where == index)
        part = evaluate_forecast(
            forecast.take(rows), **settings, groups=None if clusters is None else clusters[rows], rng=seed
        )
        parts.append((dict(zip(names, key, strict=True)), part))
    pvalues = [part.facts.pvalue for _, part in parts]
    tested = [p for p in pvalues if p is not None]
    corrected = iter(holm(np.array(tested)).tolist())
    slices = tuple(
        Slice(key, part, None if part.facts.pvalue is None else float(next(corrected))) for key, part in parts
    )
    return FileEvaluation(whole, slices)


def unique_rows(columns: list[Array]) -> tuple[list[tuple[Any, ...]], Array]:
    """Return the distinct combinations of several columns and the combination of each row."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    values = []
    for column in columns:
        distinct, code = np.unique(column, return_inverse=True)
        values.append(distinct)
        codes = codes * len(distinct) + code
    present, where = np.unique(codes, return_inverse=True)
    keys = []
    for packed in present.tolist():
        key, code = [], packed
        for distinct in reversed(values):
            code, position = divmod(code, len(distinct))
            key.append(distinct[position].item() if hasattr(distinct[position], "item") else distinct[position])
        keys.append(tuple(reversed(key)))
    return keys, where


def _evaluate_regression(predictions: Predictions, level: float, n_resamples: int, seed: int) -> Any:
    from calibrant import regression

    if predictions.truth is None or predictions.variance is None:
        raise FileError("means need variances and outcomes. Hint: name them with --variance and --label.")
    return regression.evaluate(
        predictions.truth,
        predictions.scores,
        predictions.variance,
        sample_weight=predictions.weights,
        level=level,
        n_resamples=n_resamples,
        rng=seed,
    )
