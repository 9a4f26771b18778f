"""Views of the largest probabilities: the r-th alone, or the r largest together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from calibrant._typing import Floats
from calibrant.core.inputs import Forecast
from calibrant.core.tables import Pairs
from calibrant.core.vectors import computed, ranked
from calibrant.errors import input_error
from calibrant.views.view import TopLabel, View


def _ranks(forecast: Forecast, r: int, name: str) -> tuple[Floats, Any]:
    """Scores and classes of the `r` largest probabilities of each row, or an error that names the view."""
    if not 1 <= r <= forecast.n_classes:
        raise input_error(
            "view", forecast.caller, f"name a rank from 1 to {forecast.n_classes}", repr(name), "count ranks from 1"
        )
    return ranked(forecast, r)


@dataclass(frozen=True)
class RankR(View):
    """The r-th largest probability against "the truth is the r-th ranked class" (Gupta et al. 2021)."""

    word: ClassVar[str] = "rank"
    number: ClassVar[str] = "r"
    r: int

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (r-th score, truth has rank r)."""
        scores, classes = _ranks(forecast, self.r, self.name)
        return Pairs(scores[:, -1].copy(), classes[:, -1] == forecast.codes, forecast.weights)

    def plain(self) -> View:
        """Return the top-label view for the first rank."""
        return TopLabel() if self.r == 1 else self

    def keepable(self, pairs: bool, caller: str = "Summary") -> View:
        """Return the form a summary keeps."""
        return TopLabel() if self.r == 1 else super().keepable(pairs, caller)


@dataclass(frozen=True)
class WithinTopR(View):
    """The sum of the r largest probabilities against "the truth is among them" (Gupta et al. 2021)."""

    word: ClassVar[str] = "within"
    number: ClassVar[str] = "r"
    r: int

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (sum of the r largest, truth among them)."""
        scores, classes = _ranks(forecast, self.r, self.name)
        return Pairs(computed(scores.sum(axis=1)), (classes == forecast.codes[:, None]).any(axis=1), forecast.weights)

    def label(self, names: Sequence[Any]) -> str:  # noqa: ARG002 -- of any class
        """Return words for an axis."""
        return f"probability of the {self.r} largest together"
