"""One declaration per measure; library, command line, report, docs and contract tests read it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from calibrant._typing import ArrayLike, Space
from calibrant.core.inputs import Forecast, check_forecast, check_names
from calibrant.errors import input_error

#: Arguments that belong to the door, not to a measure.
DOOR = ("y_true", "y_proba", "sample_weight", "classes", "space", "normalize")


class Recipe:
    """How a measure is computed once its parameters are fixed: forecast → state → value.

    `fill` and `finish` are separate, because states add up over chunks, engines and machines.
    """

    def fill(self, forecast: Forecast) -> Any:
        """Return the state of these predictions."""
        raise TypeError(f"{type(self).__name__} defines no state for {forecast.caller}")

    def finish(self, state: Any) -> Any:
        """Return the value of a state."""
        raise TypeError(f"{type(self).__name__} defines no value of a {type(state).__name__}")

    def value(self, forecast: Forecast) -> float:
        """Return the value of these predictions."""
        return float(self.finish(self.fill(forecast)))

    @property
    def top_label_only(self) -> bool:
        """Whether top-label pairs suffice."""
        return False


@dataclass(frozen=True)
class Measure:
    """What a measure is: everything about it that is not arithmetic."""

    name: str
    title: str
    notion: str
    #: What the number estimates, in words: the rest of the sentence "estimates …".
    estimates: str
    #: "lower", "upper" or "exact": on which side of what it estimates the population value lies.
    bound: str | None
    recipe: Callable[..., Recipe]
    weakness: str
    paper: str
    cost: str
    state: str
    smaller_is_better: bool | None = True
    perfect: float | None = 0.0
    range: tuple[float, float] = (0.0, 1.0)
    proper: bool = False
    consistent: bool = True
    #: Whether the command line shows it as a percentage.
    percent: bool = True
    #: Whether `evaluate` shows it unless told otherwise.
    panel: bool = False
    since: str = "0.1"
    #: Name of the public function in `calibrant.metrics`.
    function: str = ""

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the parameters of the recipe by name."""
        return dict(inspect.signature(self.recipe).parameters)

    def build(self, **params: Any) -> Recipe:
        """Return the recipe for these parameters; unknown ones are refused by name."""
        known = self.parameters()
        for key, given in params.items():
            if key not in known:
                allowed = ", ".join(known) or "none"
                raise input_error(
                    key, self.name, f"be a parameter of this measure ({allowed})", f"{key}={given!r}", "drop it"
                )
        return self.recipe(**params)

    def __call__(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        space: Space = "proba",
        normalize: bool = False,
        **params: Any,
    ) -> float:
        """Check, fill, finish."""
        recipe = self.build(**params)
        forecast = check_forecast(
            y_true,
            y_proba,
            caller=self.function or self.name,
            sample_weight=sample_weight,
            classes=classes,
            space=space,
            normalize=normalize,
        )
        return recipe.value(forecast)


_REGISTRY: dict[str, Measure] = {}


def declare(measure: Measure) -> Measure:
    """Enter a measure into the registry; its short name must be new."""
    if measure.name in _REGISTRY and _REGISTRY[measure.name].recipe.__module__ != measure.recipe.__module__:
        raise ValueError(f"a measure named {measure.name!r} exists already")
    _REGISTRY[measure.name] = measure
    return measure


def withdraw(name: str) -> None:
    """Remove a measure (tests and plug-ins)."""
    _REGISTRY.pop(name, None)


def lookup(name: str, caller: str = "measure") -> Measure:
    """Return a declared measure by its short name."""
    return _REGISTRY[check_names(name, tuple(_REGISTRY), "name", caller)]


def declared() -> Iterator[Measure]:
    """Yield all measures in the order of declaration."""
    yield from _REGISTRY.values()


def check_norm(norm: float, caller: str) -> float:
    """Return p ≥ 1 as a float, ∞ included."""
    try:
        p = float(norm)
    except (TypeError, ValueError):
        p = math.nan
    if not p >= 1:
        raise input_error("norm", caller, "be a number ≥ 1 or inf", repr(norm), "use 1, 2 or inf")
    return p
