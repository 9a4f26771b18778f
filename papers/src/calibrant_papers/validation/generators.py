"""Forecasts that break careless inference: few events, sharp scores, ties, many classes, clusters, drawn weights.

Every generator knows the probability of each row's label, so the truth of any metric is a mean over a large sample
without labels. The generators were written from the question "where may an interval or a test fail?", not from the
methods they check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy.special import expit, logit, ndtr

from calibrant._typing import Bools, Floats, Ints
from calibrant.core.kernels import laplace_sum

__all__ = ["GENERATORS", "Draw", "Generator", "draw", "truth"]

#: Rows behind a truth.
TRUTH_ROWS = 400_000


@dataclass(frozen=True, eq=False)
class Draw:
    """Rows of one sample: forecasts, the probability of every label, and what else the generator decides.

    `forecast` and `chance` have shape (n,) (class 1 of two) or (n, K). `uniform`, where given, holds the dependent
    uniform numbers that decide the labels of two classes; `groups` their clusters.
    """

    forecast: Floats
    chance: Floats
    uniform: Floats | None = None
    groups: Ints | None = None
    weights: Floats | None = None
    other: Floats | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.forecast)

    def labels(self, rng: np.random.Generator) -> Ints:
        """Draw one label per row."""
        if self.chance.ndim == 1:
            u = rng.random(self.n) if self.uniform is None else self.uniform
            return np.asarray(u < self.chance, dtype=np.int64)
        total = np.cumsum(self.chance, axis=1)
        return np.asarray((total <= (rng.random(self.n) * total[:, -1])[:, None]).sum(axis=1), dtype=np.int64)


#: Draws n rows.
Generator = Callable[[int, np.random.Generator], Draw]


# -- two classes ------------------------------------------------------------------------------


def rare(n: int, rng: np.random.Generator, factor: float = 1.0) -> Draw:
    """One percent positives; the forecast is the probability times a factor."""
    chance = rng.beta(0.5, 49.5, n)
    return Draw(np.clip(factor * chance, 1e-12, 0.999), chance)


def rare_shifted(n: int, rng: np.random.Generator) -> Draw:
    """A risk model that predicts 3.5% where 1.6% happens."""
    forecast = rng.beta(2.0, 55.14, n)
    return Draw(forecast, forecast * (1.6 / 3.5))


def sharp(n: int, rng: np.random.Generator, factor: float = 1.0) -> Draw:
    """Every confidence above 0.999, on either side; errors happen `factor` times as often as stated."""
    doubt = 0.001 * rng.random(n)
    side = rng.random(n) < 0.4
    wrong = factor * doubt
    return Draw(np.where(side, 1 - doubt, doubt), np.where(side, 1 - wrong, wrong))


def sharp_slices(n: int, rng: np.random.Generator) -> Draw:
    """Calibrated sharp rows (confidence 0.99 to 0.9999) in slices of forty: `groups` names the slice."""
    doubt = 10.0 ** rng.uniform(-4, -2, n)
    side = rng.random(n) < 0.5
    forecast = np.where(side, 1 - doubt, doubt)
    return Draw(forecast, forecast, groups=np.arange(n) // 40)


def rounded(n: int, rng: np.random.Generator, calibrated: bool = True) -> Draw:
    """Scores rounded to tenths; calibrated at each tenth, or labels from the score before rounding."""
    before = rng.beta(1.2, 1.6, n)
    tenths = np.round(before, 1)
    return Draw(tenths, tenths if calibrated else before)


def s_shaped(n: int, rng: np.random.Generator, size: float = 0.05) -> Draw:
    """Too low on one half and too high on the other: symmetric about one half, right on average."""
    forecast = rng.random(n)
    return Draw(forecast, forecast + size * np.sin(2 * np.pi * forecast))


def symmetric(n: int, rng: np.random.Generator, size: float = 0.1) -> Draw:
    """The probability is `size` off towards one half, so that shifts of the two halves cancel."""
    forecast = np.where(rng.random(n) < 0.5, rng.uniform(0.12, 0.45, n), rng.uniform(0.55, 0.88, n))
    return Draw(forecast, forecast + np.where(forecast < 0.5, size, -size))


def sloped(n: int, rng: np.random.Generator, slope: float = 1.6, shift: float = 0.0, spread: float = 1.5) -> Draw:
    """Log-odds of the label are `shift` + `slope` times those of the forecast (above 1: underconfident)."""
    odds = spread * rng.standard_normal(n)
    return Draw(expit(odds), expit(shift + slope * odds))


def label_shift(n: int, rng: np.random.Generator, prior: float = 0.1) -> Draw:
    """A model of balanced classes used where class 1 has another prior."""
    y = rng.random(n) < prior
    odds = 2 * rng.normal(np.where(y, 1.0, -1.0), 1.0)
    return Draw(expit(odds), expit(odds + logit(prior)))


# -- many classes -----------------------------------------------------------------------------


def many_classes(n: int, rng: np.random.Generator, sharpen: float = 1.0, n_classes: int = 100) -> Draw:
    """A hundred classes, ninety of them rare together; `sharpen` above 1 makes the forecast overconfident."""
    common = max(2, n_classes // 10)
    base = np.concatenate([np.full(common, 0.97 / common), np.full(n_classes - common, 0.03 / (n_classes - common))])
    raw = rng.standard_gamma(np.maximum(4.0 * base * common, 1e-3), (n, n_classes)) + 1e-12
    chance = raw / raw.sum(axis=1, keepdims=True)
    if sharpen == 1.0:
        return Draw(chance, chance)
    power = chance**sharpen
    return Draw(power / power.sum(axis=1, keepdims=True), chance)


def three_classes(n: int, rng: np.random.Generator, sharpen: float = 1.0) -> Draw:
    """Three classes from a Dirichlet distribution, sharpened by a power."""
    chance = rng.dirichlet([0.9, 0.7, 0.5], n)
    power = np.maximum(chance, 1e-12) ** sharpen
    return Draw(power / power.sum(axis=1, keepdims=True), chance)


# -- clusters and weights ---------------------------------------------------------------------


def clustered(
    n: int, rng: np.random.Generator, clusters: int = 50, unequal: bool = False, correlation: float = 0.35
) -> Draw:
    """Calibrated rows whose labels share a normal factor inside a cluster (Gaussian copula), as do the scores."""
    shares = 1.0 / (1.0 + np.arange(clusters)) ** 0.7 if unequal else np.ones(clusters)
    sizes = np.maximum(2, np.floor(n * shares / shares.sum()).astype(int))
    sizes[0] += max(0, n - int(sizes.sum()))
    groups = np.repeat(np.arange(clusters), sizes)
    total = len(groups)
    forecast = expit(1.2 * (0.7 * rng.standard_normal(clusters)[groups] + 0.7 * rng.standard_normal(total)))
    factor = rng.standard_normal(clusters)[groups]
    z = np.sqrt(correlation) * factor + np.sqrt(1 - correlation) * rng.standard_normal(total)
    drift = 0.6 * rng.standard_normal(clusters)[groups]
    other = expit(0.75 * logit(forecast) + 0.2 * drift)
    return Draw(forecast, forecast, uniform=ndtr(z), groups=groups, other=other)


def importance(n: int, rng: np.random.Generator) -> Draw:
    """A population of which the hard four fifths were sampled at one in twenty: weights 1 or 20."""
    hard = rng.random(n) < (0.8 / 20) / (0.8 / 20 + 0.2)
    forecast = np.where(hard, rng.uniform(0.2, 0.8, n), rng.beta(0.3, 6.0, n))
    return Draw(forecast, forecast, weights=np.where(hard, 20.0, 1.0))


def few_discordant(n: int, rng: np.random.Generator, pairs: float = 5.0) -> Draw:
    """Two models that disagree on about `pairs` rows; where they do, each is right half of the time."""
    forecast = np.where(rng.random(n) < 0.5, rng.uniform(0.6, 0.95, n), rng.uniform(0.05, 0.4, n))
    flip = rng.random(n) < pairs / n
    forecast = np.where(flip, rng.uniform(0.51, 0.6, n), forecast)
    return Draw(forecast, np.where(flip, 0.5, forecast), other=np.where(flip, 1 - forecast, forecast))


#: The adversarial grid by name.
GENERATORS: dict[str, Generator] = {
    "1% positives, calibrated": rare,
    "1% positives, predicted 3 times too high": partial(rare, factor=3.0),
    "1% positives, predicted 4 times too low": partial(rare, factor=0.25),
    "confidences above 0.999, calibrated": sharp,
    "confidences above 0.999, 5 times the errors": partial(sharp, factor=5.0),
    "scores rounded to 0.1, calibrated": rounded,
    "scores rounded to 0.1 after the fact": partial(rounded, calibrated=False),
    "S-shaped, 5 points": s_shaped,
    "symmetric about one half, 10 points": symmetric,
    "underconfident, slope 1.6": sloped,
    "overconfident, slope 0.6": partial(sloped, slope=0.6),
    "label shift, prior 0.5 to 0.1": label_shift,
    "K = 100, calibrated": many_classes,
    "K = 100, overconfident": partial(many_classes, sharpen=1.6),
    "K = 3, overconfident": partial(three_classes, sharpen=1.5),
}


def draw(name: str, n: int, rng: np.random.Generator) -> Draw:
    """Draw n rows of a generator of the grid.

    Examples
    --------
    >>> sample = draw("1% positives, calibrated", 50_000, np.random.default_rng(0))
    >>> round(float(sample.labels(np.random.default_rng(1)).mean()), 2)
    0.01
    """
    return GENERATORS[name](n, rng)


# -- truth ------------------------------------------------------------------------------------


def _pairs(rows: Draw, view: str) -> tuple[Floats, Floats]:
    """Return score and probability of the judged outcome, row by row."""
    if view == "class-1":
        return (rows.forecast, rows.chance) if rows.forecast.ndim == 1 else (rows.forecast[:, 1], rows.chance[:, 1])
    if rows.forecast.ndim == 1:
        up: Bools = rows.forecast > 0.5
        return np.where(up, rows.forecast, 1 - rows.forecast), np.where(up, rows.chance, 1 - rows.chance)
    top = rows.forecast.argmax(axis=1)[:, None]
    return np.take_along_axis(rows.forecast, top, 1)[:, 0], np.take_along_axis(rows.chance, top, 1)[:, 0]


def truth_of(rows: Draw) -> dict[str, float]:
    """Return the value of every metric on a sample, with probabilities in the place of labels."""
    w = np.full(rows.n, 1.0 / rows.n) if rows.weights is None else rows.weights / rows.weights.sum()
    found = _errors(*_pairs(rows, "top-1"), w)
    found |= {f"{name}@class-1": value for name, value in _errors(*_pairs(rows, "class-1"), w).items()}
    found["accuracy"] = float(w @ _pairs(rows, "top-1")[1])
    p, q = (np.stack([1 - x, x], axis=1) if x.ndim == 1 else x for x in (rows.forecast, rows.chance))
    found["brier"] = float(w @ ((p * p).sum(axis=1) + 1 - 2 * (p * q).sum(axis=1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        found["nll"] = float(w @ np.where(q > 0, -q * np.log(p), 0.0).sum(axis=1))
    return found


def _errors(s: Floats, c: Floats, w: Floats) -> dict[str, float]:
    order = np.argsort(s, kind="stable")
    s, gap, w = s[order], (w * (c - s))[order], w[order]
    last = np.append(s[1:] != s[:-1], True)  # ties end together
    cell = np.clip(np.ceil((s - 2.0**-24) * 15) - 1, 0, 14).astype(int)
    binned, share = np.bincount(cell, gap, 15), np.bincount(cell, w, 15)
    return {
        "ece": float(np.abs(binned).sum()),
        "ks": float(np.abs(np.cumsum(gap)[last]).max()),
        "tce": float(np.sqrt((binned**2 / np.where(share > 0, share, 1)).sum())),
        "mmce": float(np.sqrt(max(float(laplace_sum(s, gap, 0.4)), 0.0))),
    }


@lru_cache(maxsize=64)
def truth(name: str) -> dict[str, float]:
    """Return the true value of every metric of a generator of the grid.

    Examples
    --------
    >>> round(truth("symmetric about one half, 10 points")["ece@class-1"], 3)
    0.1
    """
    rows = TRUTH_ROWS // 10 if "K = 100" in name else TRUTH_ROWS
    return truth_of(GENERATORS[name](rows, np.random.default_rng(20240613)))
