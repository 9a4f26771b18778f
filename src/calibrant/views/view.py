"""What a view is, the two that need no class of their own, and the way from a name to a view."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from calibrant._typing import Floats
from calibrant.core.cells import above
from calibrant.core.inputs import Forecast
from calibrant.core.tables import COARSE, FINE, Bins, Pairs, Table, mass_bins, width_bins
from calibrant.errors import InputError, input_error

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
#: Word of a short name → view; every view enters itself.
_NAMED: dict[str, Any] = {}


class PairSource(Protocol[T_co]):
    """Where pairs come from other than a `Forecast`: a frame of an engine, a batch of tensors."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    def top(self) -> T_co:
        """Return (confidence, correct)."""

    def one_class(self, k: int) -> T_co:
        """Return (p_k, y == k)."""

    def classes(self) -> T_co:
        """Return the pairs of every class, with their class."""

    def entropy(self, *, by_predicted: bool) -> T_co:
        """Return (normalized entropy, wrong, 1 − max p), with the predicted class if asked for."""


def needs_rows(what: str) -> InputError:
    """Return the refusal of what cells cannot answer, with the alternative.

    Examples
    --------
    >>> str(needs_rows("skce"))[:50]
    'Skce needs the rows, which a Summary does not keep'
    """
    return InputError(
        f"{what[0].upper()}{what[1:]} needs the rows, which a Summary does not keep. Hint: take a sample of rows and "
        "use calibrant.metric there, for kernel metrics skce with estimator='block'."
    )


@dataclass(frozen=True)
class View:
    """Base of all views: yields pairs, one group at a time, and answers questions about itself (see the module)."""

    #: True when top-label pairs suffice and no probability vector is needed.
    top_label_only: ClassVar[bool] = False
    #: True when the view is the whole vector, which has no pairs.
    canonical: ClassVar[bool] = False
    #: True when the groups are the classes.
    per_class: ClassVar[bool] = False
    #: True when the forecast expects something else of the outcome than the score.
    own_expectation: ClassVar[bool] = False

    #: The short name, or its word before the number; a view without one cannot be asked for by name.
    word: ClassVar[str] = ""
    #: The field that holds the number of ``word-number``.
    number: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        word = cls.__dict__.get("word")  # an inherited word names the parent
        if not word:
            return
        taken = _NAMED.get(word, cls)
        if (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):  # equal where it is reloaded
            raise TypeError(f"the view name {word!r} belongs to {taken.__name__}: choose another word")
        _NAMED[word] = cls

    @property
    def name(self) -> str:
        """Short name as used by ``--view``."""
        if not self.word:
            raise TypeError(f"{type(self).__name__} has no name")
        return f"{self.word}-{getattr(self, self.number)}" if self.number else self.word

    def label(self, names: Sequence[Any]) -> str:  # noqa: ARG002 -- one class of them is named by ClassK
        """Return words for an axis that shows the score; `names` are those of the classes."""
        return f"score ({self.name})"

    # -- groups -------------------------------------------------------------------------------

    @property
    def single_group(self) -> bool:
        """Whether there is one group of pairs."""
        return True

    def group_count(self, n_classes: int) -> int:
        """Return the number of groups at `n_classes` classes."""
        return 1 if self.single_group else n_classes

    @property
    def one_table(self) -> bool:
        """Whether one table of independent outcomes holds all pairs."""
        return self.single_group

    def mirrored(self, n_classes: int) -> bool:  # noqa: ARG002 -- Classwise needs it
        """Whether there are two groups and one is the mirror of the other."""
        return False

    @property
    def has_interval(self) -> bool:
        """Whether errors seen through this view have a verified interval."""
        return self.one_table and not self.own_expectation

    @property
    def lowest(self) -> float | None:
        """The threshold: scores up to it are left out."""
        return None

    @property
    def largest(self) -> float:
        """The largest value an error can take."""
        return 1.0

    @property
    def additive(self) -> bool:
        """Whether the parts of a score may be joined over the groups, because all pairs count alike."""
        return True

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return the pairs of a view with one group."""
        raise input_error("view", forecast.caller, "have one group of scores", repr(self.name), "pass 'top-1'")

    def groups(self, forecast: Forecast) -> Iterator[Pairs]:
        """Yield the pairs of each group."""
        yield self.pairs(forecast)

    def numbered(self, forecast: Forecast) -> Iterator[tuple[int, Pairs]]:
        """Yield the number and the pairs of each group that occurs."""
        yield from enumerate(self.groups(forecast))

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect every group into `m` equal-width bins."""
        return Bins.stack([width_bins(pairs, m) for pairs in self.groups(forecast)])

    def mass_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect every group into at most `m` equal-mass bins."""
        return Bins.stack([mass_bins(pairs, m) for pairs in self.groups(forecast)])

    def numbered_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect into `m` equal-width bins, one row per number of a group, also of those that do not occur."""
        return self.width_bins(forecast, m)

    def join(self, powers: Floats, norm: float = 1.0) -> Floats:  # noqa: ARG002 -- one group: nothing to join
        """Join the p-th powers of the groups (last axis); for the maximum norm, the maxima."""
        return np.asarray(powers[..., 0])

    # -- kept cells ---------------------------------------------------------------------------

    def plain(self) -> View:
        """Return the view whose cells this one reads: without threshold and way of joining."""
        return self

    def keepable(self, pairs: bool, caller: str = "Summary") -> View:
        """Return the form a summary keeps cells of, or say why it cannot; `pairs`: only top labels are known."""
        if self.canonical:
            raise needs_rows("the canonical view")
        if pairs and not self.top_label_only:
            raise input_error("views", caller, "be top-1 for pairs", self.name, "keep the probability vectors")
        if self.lowest is not None:
            raise input_error(
                "views",
                caller,
                "have no threshold: it is applied to the cells later",
                repr(self),
                f"keep {self.name} and give the threshold to the metric",
            )
        return self

    def grid(self, coarse: bool = False) -> int:
        """Return the number of cells kept for a group: fewer where there are many groups."""
        return FINE if self.single_group and not coarse else COARSE

    def sources(self, n_classes: int) -> Iterator[View]:  # noqa: ARG002 -- ClassK needs it
        """Yield the plain views from whose cells the tables of this one follow, best first."""
        yield self.plain()

    def derive(self, source: View, tables: tuple[Table, ...]) -> tuple[Table, ...]:  # noqa: ARG002 -- by subclasses
        """Return the tables of this view from the kept tables of one of its sources."""
        return self._cut(tables)

    def _cut(self, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        return tables if self.lowest is None else tuple(above(table, self.lowest) for table in tables)

    def occupied(self, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        """Return the tables of the groups that are joined."""
        return tables

    def occupied_bins(self, bins: Bins) -> Bins:
        """Return the bins of the groups that are joined."""
        return bins

    # -- elsewhere ----------------------------------------------------------------------------

    def select(self, source: PairSource[T]) -> T | None:  # noqa: ARG002 -- ranks have no form on an engine
        """Return the pairs from an engine or a batch, or None where the view has no form there."""
        return None

    def spec(self) -> dict[str, Any]:
        """Return the view as plain values; `from_spec` reads them."""
        return {"view": type(self).__name__, **vars(self)}


@dataclass(frozen=True)
class TopLabel(View):
    """The largest probability against "the predicted class is right"; ties go to the lowest index."""

    word: ClassVar[str] = "top-1"
    top_label_only: ClassVar[bool] = True

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (confidence, correct)."""
        return Pairs(forecast.top_score, forecast.hit, forecast.weights)

    def label(self, names: Sequence[Any]) -> str:  # noqa: ARG002 -- of any class
        """Return words for an axis."""
        return "confidence of the top label"

    def select(self, source: PairSource[T]) -> T | None:
        """Return (confidence, correct)."""
        return source.top()


@dataclass(frozen=True)
class Canonical(View):
    """The whole vector: kernel metrics and proper scores only."""

    word: ClassVar[str] = "canonical"
    canonical: ClassVar[bool] = True

    @property
    def one_table(self) -> bool:
        """Whether a table holds it: no."""
        return False


def as_view(view: View | str, caller: str = "calibration_error") -> View:
    """Return a view from itself or its name: top-1, rank-R, within-R, class-K, classwise, pooled, entropy.

    Examples
    --------
    >>> as_view("within-2")
    WithinTopR(r=2)
    """
    if isinstance(view, View):
        return view
    if isinstance(view, str):
        if view in _NAMED and not _NAMED[view].number:
            return _NAMED[view]()
        word, _, number = view.rpartition("-")
        if re.fullmatch(r"\d+", number) and word in _NAMED and _NAMED[word].number:
            return _NAMED[word](int(number))
    raise input_error(
        "view",
        caller,
        "be a view or one of top-1, rank-R, within-R, class-K, classwise, pooled, entropy",
        repr(view),
        "for example {view=within-2}",
    )


def from_spec(spec: dict[str, Any]) -> View:
    """Return the view that `View.spec` described.

    Examples
    --------
    >>> from_spec({"view": "RankR", "r": 2}).name
    'rank-2'
    """
    facts = dict(spec)
    name = facts.pop("view")
    known = {cls.__name__: cls for cls in _NAMED.values()}
    return known[name](**facts)
