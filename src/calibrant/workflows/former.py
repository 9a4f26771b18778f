"""Functions of version 0.1 under their old names; they warn and call the verb that took their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from calibrant._deprecated import warn_renamed
from calibrant.io.layout import Layout
from calibrant.summary.slices import Slices
from calibrant.views import View
from calibrant.workflows.apply import apply
from calibrant.workflows.sources import Reading, summarize_data

__all__ = ["apply_paths", "evaluate_paths"]

_NAMES = ("proba", "label", "weight", "space", "mean", "variance", "std", "part")


def _named(layout: Layout | None) -> dict[str, Any]:
    return {} if layout is None else {name: getattr(layout, name) for name in _NAMES}


def evaluate_paths(
    pattern: str | Path,
    engine: str = "auto",
    *,
    layout: Layout | None = None,
    by: Sequence[str] = (),
    views: Iterable[View | str] | None = None,
    n_bins: Iterable[int] = (),
    strict: bool = False,
    normalize: bool = False,
    master: str | None = None,
) -> Slices:
    """Return the summaries of files larger than memory: `summarize` of `open_paths` in version 0.1."""
    warn_renamed("calibrant.engines.evaluate_paths", "calibrant.evaluate, or summarize(open_paths(...))")
    how = Reading("evaluate", engine=engine, master=master, strict=strict, normalize=normalize, **_named(layout))
    return summarize_data(pattern, how, by=by, views=views, n_bins=n_bins)


def apply_paths(
    calibrator: Any,
    pattern: str | Path,
    out: str | Path,
    *,
    engine: str = "auto",
    layout: Layout | None = None,
    normalize: bool = False,
    master: str | None = None,
) -> None:
    """Write calibrated files: `calibrant.apply` under its name of version 0.1."""
    warn_renamed("calibrant.engines.apply_paths", "calibrant.apply")
    apply(calibrator, pattern, out, engine=engine, normalize=normalize, master=master, **_named(layout))
