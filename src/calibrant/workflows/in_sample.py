"""In-sample: what is measured on the rows that a calibrator was fitted on says nothing about new rows.

A calibrator knows its rows again by their fingerprint. A file that `apply` made of such rows has a small file beside
it, ``NAME.in-sample.json``, so that commands that see the output alone know as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.core.atomic import write_text
from calibrant.core.fingerprint import moment_rows, share_seen
from calibrant.core.links import input_scores
from calibrant.core.text import percent
from calibrant.inference.verdict import Verdict
from calibrant.io.predictions import Predictions

__all__ = ["InSample", "find_mark", "judged_in_sample", "known_rows", "seen_share", "write_mark"]

_TITLES = {"nll": "NLL", "brier": "Brier score", "dss": "Dawid–Sebastiani score", "crps": "CRPS", "rps": "RPS"}
PROVE = "or fit on one part and prove on the other: calibrant fit FILE --holdout 0.3 -o cal.json"


@dataclass(frozen=True)
class InSample:
    """How many of the rows a calibrator was fitted on, and what it gained on rows held out while it was fitted."""

    share: float
    gain: dict[str, Any] | None = None

    @property
    def sentence(self) -> str:
        """The finding in words."""
        which = "these rows" if self.share > 0.99 else f"about {percent(self.share, 0)} of these rows"
        text = f"In-sample: the calibrator was fitted on {which}, so this says nothing about new ones."
        if self.gain is None:
            return text
        low, high = self.gain["low"], self.gain["high"]
        title = _TITLES.get(self.gain["criterion"], self.gain["criterion"])
        proof = "beyond noise" if low > 0 else "a loss" if high < 0 else "within noise"
        return (
            (
                f"{text} On rows held out while it was fitted, the {title} changed by {-self.gain['gain']:+.4f} "
                f"[{-high:+.4f}, {-low:+.4f}]: {proof}."
            )
            .replace("-", "−")
            .replace("In−sample", "In-sample")
        )

    @property
    def verdict(self) -> Verdict:
        """The finding as a verdict."""
        return Verdict(
            self.sentence,
            status="cannot tell",
            headline="In-sample",
            sentence=self.sentence,
            next_step="collect rows",
            advice=f"judge on rows that the calibrator has not seen; {PROVE}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"share": self.share, "cross_fitted_gain": self.gain}


def seen_share(fitted: Any, share: float) -> InSample | None:
    """Return the finding for the fraction of rows that a calibrator was fitted on; None where there are none."""
    return InSample(share, fitted.fitted_on_.get("gain")) if share > 0 else None


def known_rows(fitted: Any, rows: Predictions, *, normalize: bool = False) -> InSample | None:
    """Return whether a calibrator was fitted on these rows; None where it was not, or does not know."""
    known = getattr(fitted, "fitted_on_", None)
    if not known:
        return None
    if rows.kind == "regression":
        share = 0.0 if rows.variance is None else share_seen(known, moment_rows(rows.scores, rows.variance))
        return seen_share(fitted, share)
    scores = input_scores(np.asarray(rows.scores), rows.space, fitted.input_space, normalize=normalize)
    if rows.kind == "vectors" and rows.classes is not None and scores.ndim == 2:
        names = [str(name) for name in fitted.classes_]
        places = {str(name): place for place, name in enumerate(rows.classes)}
        if set(names) == set(places):
            scores = scores[:, [places[name] for name in names]]
    return seen_share(fitted, share_seen(known, scores, fitted.input_space))


def _mark(path: str | Path) -> Path:
    whole = Path(f"{Path(path)}.in-sample.json")
    name = os.fsencode(whole.name)  # a name has at most 255 bytes
    return whole if len(name) <= 255 else whole.with_name(f"{hashlib.sha256(name).hexdigest()}.in-sample.json")


def _digest(path: str | Path) -> str:
    """Return the checksum of a file; of a directory that of the names and sizes of its files."""
    if Path(path).is_dir():
        files = sorted(
            (str(one.relative_to(path)), one.stat().st_size) for one in Path(path).rglob("*") if one.is_file()
        )
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_mark(path: str | Path, found: InSample | None) -> None:
    """Write beside an output that it was made of rows the calibrator was fitted on; remove an old mark otherwise."""
    if found is None:
        _mark(path).unlink(missing_ok=True)
        return
    text = json.dumps({"format": "calibrant-in-sample", "sha256": _digest(path), **found.to_dict()})
    write_text(_mark(path), text)


def find_mark(path: Any) -> InSample | None:
    """Return what stands beside a file or directory, if it belongs to its content."""
    mark = _mark(path) if isinstance(path, str | Path) else None
    if mark is None or not mark.is_file() or not Path(path).exists():
        return None
    try:
        found = json.loads(mark.read_text(encoding="utf-8"))
        if found.get("format") != "calibrant-in-sample" or found.get("sha256") != _digest(path):
            return None
        return InSample(float(found["share"]), found.get("cross_fitted_gain"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def judged_in_sample(done: Any, found: InSample | None) -> Any:
    """Return an evaluation or a comparison with the verdict that belongs to rows that were fitted on."""
    if found is None:
        return done
    if hasattr(done, "whole"):
        return replace(done, whole=judged_in_sample(done.whole, found))
    verdict = found.verdict if isinstance(done.verdict, Verdict) else found.sentence
    return replace(done, verdict=verdict, in_sample=found.to_dict())
