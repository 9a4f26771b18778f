"""Composition: one calibrator after another."""

from __future__ import annotations

from typing import ClassVar

from sklearn.base import clone

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._common import fact
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.isotonic import IsotonicOneVsRest
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.core.programs import Graph, Node
from calibrant.errors import input_error


class Compose(Calibrator):
    """Fit one calibrator, then a second on what the first gives (Mix-n-Match composition).

    Lets a parametric map do the coarse work and a flexible one the rest:
    ``Compose(TemperatureScaling(loss="brier"), IsotonicOneVsRest())`` is IROvA-TS. Nest for more
    steps. Both steps see the same rows, so a flexible second step can overfit as it would alone.

    Parameters
    ----------
    first : Calibrator, optional
        Default: temperature scaling by squared error.
    second : Calibrator, optional
        Fitted on the probabilities of the first. Default: isotonic regression one-versus-rest.
    space : {"proba", "logit"}, optional
        What X holds; by default what `first` says.

    Attributes
    ----------
    first_, second_ : Calibrator
        The fitted steps.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 3.4.

    Examples
    --------
    >>> from calibrant.calibrators import Identity, TemperatureScaling
    >>> p, y = [[0.9, 0.1]] * 5, [0, 0, 0, 0, 1]
    >>> cal = Compose(TemperatureScaling(), Identity()).fit(p, y)
    >>> cal.predict_proba([[0.9, 0.1]]).round(3)
    array([[0.8, 0.2]])
    """

    short_name = "compose"
    title = "Composition"
    paper = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, section 3.4"
    when = (
        "To let a temperature do the coarse work and a flexible method the rest, with thousands of rows. "
        "Not when one step alone is good enough: each step adds noise."
    )
    preserves_argmax = fact(False, lambda self: all(part.preserves_argmax for part in self._steps()))
    preserves_order = fact(False, lambda self: all(part.preserves_order for part in self._steps()))
    may_saturate = True
    view: ClassVar[View] = "raw"
    free_parameters: ClassVar[float] = float("inf")  # the default second step grows with the rows
    state: ClassVar[tuple[str, ...]] = ("first_", "second_")

    def __init__(
        self,
        first: Calibrator | None = None,
        second: Calibrator | None = None,
        *,
        space: Space | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.first = first
        self.second = second
        self.space = space  # type: ignore[assignment]  # None means: as the first step says
        self.classes = classes

    @property
    def input_space(self) -> Space:
        """What X holds: the own option, or that of the first step."""
        return self.space or (self.first.input_space if isinstance(self.first, Calibrator) else "proba")

    @property
    def can_export(self) -> bool:
        """Whether both fitted steps have maps other runtimes can run."""
        return all(part.can_export for part in self._steps())

    def _steps(self) -> tuple[Calibrator, Calibrator]:
        """Return the fitted steps; before `fit` those that will be fitted."""
        return (self.first_, self.second_) if hasattr(self, "second_") else self._parts()

    def _check_options(self, caller: str) -> None:
        for name in ("first", "second"):
            step = getattr(self, name)
            if step is None or isinstance(step, Calibrator):
                continue
            several = isinstance(step, list | tuple)
            raise input_error(
                name,
                caller,
                "be one calibrator",
                f"a {type(step).__name__} of {len(step)}" if several else repr(step),
                "write Compose(a, b), and Compose(Compose(a, b), c) for three steps",
            )
        super()._check_options(caller)

    def _parts(self) -> tuple[Calibrator, Calibrator]:
        first = TemperatureScaling(loss="brier") if self.first is None else clone(self.first)
        second = IsotonicOneVsRest() if self.second is None else clone(self.second)
        return (first.set_params(space=self.input_space, classes=None), second.set_params(space="proba", classes=None))

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        self.first_, self.second_ = self._parts()
        self.first_.fit(scores.matrix, codes, sample_weight=weights)
        self.second_.fit(self.first_.predict_proba(scores.matrix), codes, sample_weight=weights)

    def _predict(self, x: Floats) -> Floats:
        return self.second_.apply_block(self.first_.apply_block(x))

    def _map(self, graph: Graph, x: Node) -> Node:
        return self.second_.describe(graph, self.first_.describe(graph, x))
