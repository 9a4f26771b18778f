"""`fit`: a calibrator from held-out rows, with the comparison of methods that speaks for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant._typing import ArrayLike, Space
from calibrant.calibrators import AutoCalibrator, get_calibrator
from calibrant.calibrators.application import declares
from calibrant.core.arguments import check_options
from calibrant.core.frames import is_lazy
from calibrant.core.notebook import notebook_html
from calibrant.core.options import check_share
from calibrant.core.results import Record
from calibrant.core.text import DASH, count, percent, table
from calibrant.core.weights import WeightKind
from calibrant.engines.fit import fit_frame, fit_summary, uses_every_row
from calibrant.engines.sample import draw
from calibrant.errors import ConvergenceWarning, FileError, InputError, input_error
from calibrant.inference.comparison import Comparison, compare_evidence
from calibrant.io.layout import Layout
from calibrant.io.paths import is_many, is_path, plain_errors
from calibrant.io.predictions import Predictions, refuse_normalize, score_matrix, to_evidence, weighed
from calibrant.io.suspicions import say_suspicions
from calibrant.scores.rules import as_score
from calibrant.summary.files import load_summaries
from calibrant.summary.summary import Summary
from calibrant.workflows.rejection import check_rejected
from calibrant.workflows.second import recalibrated
from calibrant.workflows.sources import SAME_COLUMNS, Reading, array_rows, is_large, left_out, on_files, open_rows

__all__ = ["FitResult", "fit"]

#: Called with (done, total) after every fit of the comparison.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FitResult(Record):
    """A fitted calibrator with the methods it was compared with; `str()` is the terminal text."""

    calibrator: Any
    method: str
    n: int
    n_classes: int | None
    cv_results: tuple[dict[str, Any], ...]
    reason: str
    #: Rows the map was fitted on and rows the methods were compared on, when that is a sample.
    n_fitted: int | None = None
    n_compared: int | None = None
    rejected: dict[str, int] = field(default_factory=dict)
    #: Before against after on the rows that were held out, where a share of them was asked for.
    proof: Comparison | None = None
    #: Files that could not be read and were left out.
    skipped: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        """Write the calibrator as JSON."""
        self.calibrator.save(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1,
            "n": self.n,
            "n_classes": self.n_classes,
            "method": self.method,
            "n_fitted": self.n_fitted or self.n,
            "n_compared": self.n_compared or self.n,
            "rejected": self.rejected,
            "skipped_files": list(self.skipped),
            "space": getattr(self.calibrator, "input_space", None),
            "reason": self.reason,
            "cv_results": list(self.cv_results),
            **({} if self.proof is None else {"n_held_out": self.proof.n, "held_out": self.proof.to_dict()}),
        }

    @property
    def changes_nothing(self) -> bool:
        """Whether the calibrator leaves the predictions as they are, because nothing was proven to help."""
        return self.reason.startswith("no change")

    def __getitem__(self, name: str) -> dict[str, Any]:
        for row in self.cv_results:
            if row["method"] == name:
                return row
        raise KeyError(f"{name!r} was not compared; there are {', '.join(row['method'] for row in self.cv_results)}")

    def __repr__(self) -> str:
        words = self.reason.partition(":")[0].partition(";")[0]
        return f"FitResult({self.method!r}, n={self.n:,}, {words!r})"

    def _repr_html_(self) -> str:
        rows = map(_cells, self.cv_results)
        said = notebook_html(self._head, f"Chosen: {self.reason}", _HEADS if self.cv_results else (), rows)
        return said if self.proof is None else f"{said}{self.proof._repr_html_()}"

    @property
    def _head(self) -> str:
        classes = f" · {self.n_classes} classes" if self.n_classes else ""
        head = f"{count(self.n)} calibration rows" + classes
        if self.n_compared:
            head += f" · compared on a random sample of {count(self.n_compared)}, fitted on "
            head += "it" if self.n_fitted else "all"
        return head

    def __str__(self) -> str:
        rows = [_HEADS, *map(_cells, self.cv_results)] if self.cv_results else []
        proof = [] if self.proof is None else [f"Proof on rows held out: {self.proof}"]
        return "\n".join([self._head, *(table(rows) if rows else []), f"Chosen: {self.reason.rstrip('.')}.", *proof])


_HEADS = ("method", "held-out score", "gain", "95% interval", "preserves top-1", "weight")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    weight, preserves = row.get("weight"), row.get("preserves_argmax")
    return (
        row["method"],
        f"{row['cv_score']:.4f}",
        f"{row['gain']:+.4f}",
        f"{row['low']:+.4f} to {row['high']:+.4f}",
        DASH if preserves is None else "yes" if preserves else "no",
        DASH if not weight else percent(weight, 0),
    )


def _listed(candidates: Any) -> list[Any] | None:
    """Return the candidates as a list; none at all are as good as not given."""
    if candidates is None:
        return None
    if isinstance(candidates, str) or not isinstance(candidates, Iterable):
        raise input_error("candidates", "fit", "be a list of methods", repr(candidates), "pass for example ['platt']")
    return list(candidates) or None


def fit(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    method: str = "auto",
    criterion: str | None = None,
    preserve: str | None = None,
    candidates: Sequence[Any] | None = None,
    fast: bool = False,
    holdout: float | None = None,
    rng: int = 0,
    progress: Progress | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space | None = None,
    normalize: bool = False,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    weight_kind: WeightKind | None = None,
    mean: str | None = None,
    variance: str | None = None,
    std: str | None = None,
    part: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float | str | None = None,
    input_format: str | None = None,
    positive: Any = None,
    percent: bool = False,
    confidence: str | None = None,
    correct: str | None = None,
) -> FitResult:
    """Return a calibrator fitted on held-out rows, with the cross-validated comparison of methods.

    Parameters
    ----------
    y_true, y_proba
        As in `calibrant.evaluate`: arrays, or a path, pattern or frame. Of an ``.npz`` file with parts the part
        ``cal`` is used. Many or large files (a pattern, a lazy frame, an engine by name) are fitted on all rows
        where the method allows it, else on a random sample; the comparison always uses the sample.
    method : str, default "auto"
        Short name (`calibrant.list_calibrators`); a named method is compared with the uncalibrated forecast too.
    criterion : str, optional
        Proper score that decides; default "nll" for classes, "dss" for means and variances.
    preserve : {"argmax", "order"}, optional
        Use only methods that keep the predicted class, or every ranking.
    candidates : sequence of short names or calibrators, optional
        Methods to compare.
    fast : bool, default False
        Fewer methods and folds: about a tenth of the time.
    holdout : float, optional
        Share of the rows that is not fitted on but judged by: ``0.3`` fits on 70% and compares before with after on
        the other 30% (`FitResult.proof`).
    rng : int, default 0
        Seed of the folds, of the sample and of the rows held out.
    progress : callable, optional
        Called with (done, total) after every fit.
    sample_weight, classes, space, normalize, proba, label, weight, weight_kind, mean, variance, std, part, input_format
        As in `calibrant.evaluate`.
    engine, master, strict, skip_bad_files, max_rejected, positive, percent, confidence, correct
        As in `calibrant.evaluate`.

    Returns
    -------
    FitResult
        ``.calibrator``, ``.cv_results``, ``.reason``, ``.save(path)``; ``str()`` is the terminal text.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=400)
    >>> done = fit((rng.uniform(size=400) < 0.25 + 0.5 * p).astype(int), p, method="temperature")
    >>> type(done.calibrator).__name__, len(done.cv_results)
    ('TemperatureScaling', 2)
    """
    check_options(fit, locals())
    how = Reading.of("fit", locals(), default_part="cal")
    wishes: dict[str, Any] = {
        "criterion": criterion,
        "preserve": preserve,
        "candidates": _listed(candidates),
        "fast": fast,
    }
    if holdout is not None:
        check_share(holdout, "holdout", "fit", "0.3")
    stored = load_summaries(y_true) if y_proba is None else None
    if stored is not None:
        if holdout is not None:
            raise left_out("holdout", "fit", "for summary files", holdout, "fit on some files, compare on others")
        return _fit_summary(stored.whole, how, method)
    if y_proba is None and (
        (is_path(y_true) and (engine or is_many(y_true) or is_large(y_true, how))) or is_lazy(y_true)
    ):
        how.refuse(("weight_kind",), "on an engine")
        if holdout is not None:
            raise left_out("holdout", "fit", "on an engine", holdout, "fit on some files, compare on others")
        return _fit_many(y_true, how, method, wishes, rng, progress)
    rows = _array_rows(y_true, y_proba, how) if y_proba is not None else open_rows(y_true, how)
    if rows.truth is None:
        raise FileError("the calibration rows have no labels", hint="name them with {label}")
    if rows.levels:
        raise FileError("quantiles cannot be recalibrated", hint="fit takes means with variances, or probabilities")
    if rows.kind != "regression":
        evidence = to_evidence(rows, caller="fit", normalize=normalize)
        if rows.kind == "vectors":
            say_suspicions(evidence)
    rows = weighed(rows, weight_kind, caller="fit", normalize=normalize)
    held = None
    if holdout is not None:
        rows, held = _parted(rows, holdout, rng)
    if rows.kind == "regression":
        refuse_normalize(normalize, "fit", "means and variances")
        done = _fit_regression(rows, method, wishes, rng)
    else:
        done = _fit_rows(rows.right_or_wrong(), method, normalize, wishes | {"rng": rng}, progress)
    return done if held is None else replace(done, proof=_proof(done.calibrator, held, normalize))


def _parted(rows: Predictions, share: float, rng: int) -> tuple[Predictions, Predictions]:
    """Return the rows to fit on and the rows held out, drawn at random."""
    order = np.random.default_rng(rng).permutation(rows.n)
    n_held = round(share * rows.n)
    if n_held < 2 or rows.n - n_held < 2:
        got = f"{share:g} of {rows.n} rows"
        raise input_error("holdout", "fit", "leave at least two rows on either side", got, "use 0.3, or more rows")
    held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
    return rows.take(kept), rows.take(held)


def _proof(calibrator: Any, held: Predictions, normalize: bool) -> Comparison:
    """Compare before with after on rows that were held out."""
    before = to_evidence(held, caller="fit", normalize=normalize)
    after = to_evidence(recalibrated(calibrator, held, normalize=normalize, ordered=True), caller="fit")
    return compare_evidence(before, after, injective=declares(calibrator, "injective"), rng=0)


def _array_rows(y_true: Any, y_proba: Any, how: Reading) -> Predictions:
    names = ("proba", "label", "weight", "part", "input_format", "confidence", "correct")
    how.refuse((*names, "engine", "master", "strict", "skip_bad_files", "max_rejected"), "next to arrays")
    if hasattr(y_proba, "crps"):
        how.refuse(("space", "classes", "positive", "percent"), "for regression")
        return Predictions("regression", y_proba.mean, y_true, weights=how.sample_weight, variance=y_proba.variance)
    how.refuse(("mean", "variance", "std"), "next to arrays", "give a Normal forecast in place of probabilities")
    return array_rows(y_true, y_proba, how)


def _fit_summary(summary: Summary, how: Reading, method: str) -> FitResult:
    """Fit on the cells of summary files: methods that need no rows."""
    every = ("space", "normalize", "proba", "label", "weight", "part", "engine", "master", "strict", "input_format")
    how.refuse((*every, "skip_bad_files", "max_rejected", "mean", "variance", "std"), "for summary files")
    how.refuse(("positive", "percent", "confidence", "correct", "weight_kind"), "for summary files")
    if method == "auto":
        hint = "for example {method=isotonic}, platt, beta, histogram or spline"
        raise input_error("method", "fit", "be named for summary files: methods are compared on rows", "auto", hint)
    calibrator = fit_summary(get_calibrator(method)(), summary)
    reason = f"{method} was asked for and fitted on the cells of a summary"
    known: dict[str, Any] = {"rejected": dict(summary.rejected), "skipped": summary.skipped}
    return FitResult(calibrator, method, summary.n, summary.n_classes, (), reason, **known)


def _fit_many(
    data: Any, how: Reading, method: str, wishes: dict[str, Any], rng: int, progress: Progress | None
) -> FitResult:
    """Fit on files larger than memory: on all rows where the method allows, else on a random sample."""
    if not is_path(data):
        how.refuse(("engine", "master", "input_format", "skip_bad_files"), "for a frame: it brings its engine")
        with plain_errors("the frame", SAME_COLUMNS):
            return _fit_frame(data, how.layout, how, method, wishes, rng, progress)

    def work(scan: Any, module: Any, layout: Layout) -> FitResult:
        frame = scan.open(module, how.master or "local[*]")
        return _fit_frame(frame, layout, how, method, wishes, rng, progress)

    done, scan = on_files(data, how, work)
    return replace(done, skipped=scan.skipped)


def _fit_frame(
    frame: Any,
    layout: Layout,
    how: Reading,
    method: str,
    wishes: dict[str, Any],
    rng: int,
    progress: Progress | None,
) -> FitResult:
    sample = draw(frame, layout, seed=rng, normalize=how.normalize)
    if how.strict and any(sample.rejected.values()):
        listed = ", ".join(f"{rows} {reason}" for reason, rows in sample.rejected.items() if rows)
        raise FileError(f"some rows cannot be used ({listed})", hint="repair them, or leave out {strict}")
    check_rejected(sample.rejected, sample.n, how)
    done = _fit_rows(sample.predictions, method, how.normalize, wishes | {"rng": rng}, progress)
    known: dict[str, Any] = {"n": sample.n, "rejected": sample.rejected}
    if sample.whole:
        return replace(done, **known)
    known["n_compared"] = sample.predictions.n
    if not uses_every_row(done.calibrator):
        return replace(done, **known, n_fitted=sample.predictions.n)
    every = clone(done.calibrator)
    if hasattr(done.calibrator, "temperature_"):  # passes over all rows start where the sample ends
        every.temperature_ = done.calibrator.temperature_
    if sample.zeros and hasattr(every, "floor"):  # zeros too rare for the sample: what one row in all weighs
        every.set_params(floor=done.calibrator.floor_ or 1.0 / sample.n)
    return replace(done, **known, calibrator=fit_frame(every, frame, layout, normalize=how.normalize))


def _fit_rows(
    rows: Predictions, method: str, normalize: bool, wishes: dict[str, Any], progress: Progress | None
) -> FitResult:
    kind = get_calibrator(method, "fit")
    if rows.space == "logit":
        refuse_normalize(normalize, "fit", "logits")
    x = score_matrix(rows, normalize)
    options = wishes | {"criterion": _criterion(wishes["criterion"] or "nll")}
    given = {"space": rows.space, "classes": rows.classes}
    if method == "auto":
        compared = AutoCalibrator(**options, **given, proof=True)
    else:
        for name in ("candidates", "preserve", "fast"):
            if wishes[name]:
                why = "with a named method: it is the only candidate"
                raise left_out(name, "fit", why, wishes[name], "leave it out, or fit {method=auto}")
        compared = AutoCalibrator(**options | {"candidates": [kind()], "mixture": False}, **given)
    compared.on_progress(progress).fit(x, rows.truth, sample_weight=rows.weights)
    records = [dict(record) for record in compared.records_]
    if method == "auto":
        return FitResult(compared, method, rows.n, compared.n_classes_, tuple(records), compared.reason_)
    chosen = kind(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("default", ConvergenceWarning)
        chosen.fit(x, rows.truth, sample_weight=rows.weights)
    reason = _as_asked(chosen, records, str(options["criterion"]))
    return FitResult(chosen, method, rows.n, chosen.n_classes_, tuple(records), reason)


def _gain(row: dict[str, Any] | None, criterion: str) -> dict[str, Any] | None:
    """Return the cross-fitted gain of a method, as a calibrator keeps it."""
    return None if row is None else {"criterion": criterion, **{key: row[key] for key in ("gain", "low", "high")}}


def _as_asked(chosen: Any, records: list[dict[str, Any]], criterion: str) -> str:
    """Mark the method that was asked for in its comparison, let its calibrator keep the gain, and return the reason."""
    reason, row = f"{chosen.title.lower()}, as asked", None
    for record in records:
        record["chosen"] = record["method"] == chosen.short_name
        record["weight"] = float(record["chosen"])
        row = record if record["chosen"] else row
    if row is not None:
        reason += f"; gain over the uncalibrated forecast {row['gain']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
    chosen.fitted_on_ = (chosen.fitted_on_ or {}) | {"gain": _gain(row, criterion)}
    return reason


def _criterion(criterion: Any) -> Any:
    """Return the proper score that decides, refused under its own name."""
    try:
        as_score(criterion, "fit")
    except InputError as error:
        raise error.renamed(argument="criterion") from None
    return criterion


def _fit_regression(rows: Predictions, method: str, wishes: dict[str, Any], rng: int) -> FitResult:
    for name in ("preserve", "candidates", "fast"):
        if wishes[name]:
            raise left_out(name, "fit", "for means and variances", wishes[name])
    kind = get_calibrator(method, "fit", task="regression")
    auto = get_calibrator("auto", "fit", task="regression")(criterion=wishes["criterion"] or "dss", rng=rng)
    auto.fit(rows.scores, rows.variance, rows.truth, rows.weights)
    records = [_record(record, auto.criterion) for record in auto.records_]
    if method == "auto":
        row = next((record for record in records if record["chosen"]), None)
        auto.fitted_on_ = (auto.fitted_on_ or {}) | {"gain": _gain(row, auto.criterion)}
        return FitResult(auto, method, rows.n, None, tuple(records), auto.reason_)
    chosen = kind().fit(rows.scores, rows.variance, rows.truth, rows.weights)
    records = [record for record in records if record["method"] in ("identity", method)]
    return FitResult(chosen, method, rows.n, None, tuple(records), _as_asked(chosen, records, auto.criterion))


def _record(record: dict[str, Any], criterion: str) -> dict[str, Any]:
    """Return a row of the comparison of variance maps in the form that classes have."""
    error = record["gain_se"]
    row = {key: value for key, value in record.items() if key != criterion}
    return row | {
        "cv_score": record[criterion],
        "low": record["gain"] - 1.959964 * error,
        "high": record["gain"] + 1.959964 * error,
        "weight": float(record["chosen"]),
    }
