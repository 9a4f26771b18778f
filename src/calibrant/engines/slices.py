"""Summaries by slice: the whole, and one coarse summary for each combination of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import RNG
from calibrant.engines.summary import Summary
from calibrant.errors import input_error

if TYPE_CHECKING:
    from calibrant.engines.evaluating import FileEvaluation

__all__ = ["Slices"]


@dataclass(frozen=True)
class Slices:
    """What an engine gives back.

    `whole` is the summary of all rows (fine grid), `parts` maps a tuple of values of the columns `by` to
    the summary of that slice (coarse grid), `rejected` counts the rows left out.
    """

    whole: Summary
    by: tuple[str, ...] = ()
    parts: dict[tuple[Any, ...], Summary] = field(default_factory=dict)

    @property
    def rejected(self) -> dict[str, int]:
        """Rows left out, by reason."""
        return self.whole.rejected

    def __add__(self, other: object) -> Slices:
        if not isinstance(other, Slices):
            return NotImplemented
        if self.by != other.by:
            raise input_error("other", "Slices.__add__", f"be sliced by {self.by}", str(other.by), "slice both alike")
        parts = dict(self.parts)
        for key, part in other.parts.items():
            parts[key] = parts[key] + part if key in parts else part
        return Slices(self.whole + other.whole, self.by, parts)

    def evaluate(
        self,
        *,
        measures: Iterable[str] | str | None = None,
        n_bins: int = 15,
        level: float = 0.95,
        n_resamples: int = 1000,
        slice_resamples: int = 0,
        rng: RNG = None,
    ) -> FileEvaluation:
        """Evaluate the whole and every slice; KS tests of slices are Holm-corrected.

        Slices take the limit law of KS unless `slice_resamples` says otherwise: a thousand slices are a
        matter of seconds then.
        """
        from calibrant.engines.evaluating import FileEvaluation, Slice
        from calibrant.inference.multiplicity import holm

        names = None if measures is None else [measures] if isinstance(measures, str) else list(measures)
        chosen: Any = "all" if names == ["all"] else names
        generator = np.random.default_rng(rng)
        settings: dict[str, Any] = {"measures": chosen, "n_bins": n_bins, "level": level}
        whole = self.whole.evaluate(**settings, n_resamples=n_resamples, rng=generator)
        filled = {key: part for key, part in sorted(self.parts.items(), key=_order) if part.n}
        evaluated = {
            key: part.evaluate(**settings, n_resamples=slice_resamples, rng=generator) for key, part in filled.items()
        }
        tested = [key for key, one in evaluated.items() if one.facts.pvalue is not None]
        corrected = dict(zip(tested, holm(np.array([evaluated[key].facts.pvalue for key in tested])), strict=True))
        return FileEvaluation(
            whole,
            tuple(
                Slice(dict(zip(self.by, key, strict=True)), one, float(corrected[key]) if key in corrected else None)
                for key, one in evaluated.items()
            ),
        )


def _order(item: tuple[tuple[Any, ...], Summary]) -> tuple[tuple[bool, str, Any], ...]:
    """Sort slices by value, mixed types and None included."""
    return tuple((v is None, "" if v is None else type(v).__name__, 0 if v is None else v) for v in item[0])
