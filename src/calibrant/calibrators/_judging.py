"""What the league shows: the table, the shipped shares, and the reason in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators._league import LEAST, Entry, Held
from calibrant.calibrators._mixture import Mixture, drop_small, prior_shares
from calibrant.scores.rules import Log, ProperScore

#: Log score: the mixture gets the share 1/(1 + exp((EVIDENCE − e)/SLOPE)), e its held-out log-likelihood ratio to doing
#: nothing: a pseudo-Bayes factor, tempered because the same rows speak in several folds.
EVIDENCE, SLOPE = 3.0, 2.0
#: Other scores: with gain g and standard error s it gets the share 1 − (CAUTION·s/g)², all of it when g is CERTAIN · s.
CAUTION, CERTAIN = 0.8, 4.0
#: Nats that lifting exact zeros may cost in all where none of them was the truth so far.
UNSEEN = 0.02
#: A mixture trusted less than this is not worth shipping.
LEAST_TRUST = 0.2
#: Quantile of the 95 % intervals.
Z = 1.959963984540054


@dataclass(frozen=True)
class Judgement:
    """Shares of the candidates in the shipped map (doing nothing stands first), the table and the reason."""

    shares: Floats
    #: Uniform share that lifts the exact zeros of the input, where its place is taken by the lifted input.
    lift: float
    records: list[dict[str, Any]]
    reason: str


def row_losses(held: Held, score: ProperScore) -> Floats:
    """Score of every candidate on every held-out row, (M, N)."""
    if isinstance(score, Log) or held.forecasts is None:
        return np.asarray(-np.log(held.truth.T))
    return np.stack([score._rows(p, held.codes) for p in held.forecasts])


def uniform_share(truth: Floats, weights: Floats, n_classes: int) -> float:
    """Most likely share of the uniform distribution beside a forecast, by EM."""
    share = 0.1
    for _ in range(200):
        uniform = share / n_classes
        share = float(weights @ (uniform / (uniform + (1 - share) * truth)) / weights.sum())
    return share


def trust(gain: float, error: float, rows: float, score: ProperScore) -> float:
    """Share of the mixture beside doing nothing, by its gain on rows that neither members nor weights have seen."""
    if isinstance(score, Log):
        return float(1.0 / (1.0 + np.exp(min((EVIDENCE - rows * gain) / SLOPE, 700.0))))
    if gain <= CAUTION * error:
        return 0.0
    return 1.0 if gain > CERTAIN * error else 1.0 - (CAUTION * error / gain) ** 2


def judge(
    held: Held, entries: Sequence[Entry], score: ProperScore, *, mixture: bool, n_classes: int, rows: float,
    zeros: bool,
) -> Judgement:
    """Weigh the candidates; `entries` stand simplest first and begin with doing nothing.

    Where the input holds exact zeros the mixture is held against the input with its zeros lifted: a class called
    impossible costs without bound the day it comes, and one such score would drown every other gain.
    """
    losses = row_losses(held, score)
    gains = [held.mean_and_error(losses[0] - own) for own in losses]
    best = int(np.argmax([gain for gain, _ in gains]))
    single = _simplest(held, losses, best)
    shares, final = np.eye(len(entries))[single], losses[single]
    reference, lift = losses[0], 0.0
    if mixture and isinstance(score, Log) and zeros:
        seen = bool((held.truth[:, 0] <= LEAST).any())
        lift = uniform_share(held.truth[:, 0], held.weights, n_classes) if seen else UNSEEN / rows
        reference = -np.log((1 - lift) * held.truth[:, 0] + lift / n_classes)
    if mixture and len(entries) > 1:
        pool = Mixture(held, score, prior_shares(np.array([entry.prior for entry in entries])))
        final = pool.cross_fitted_losses()
        share = trust(*held.mean_and_error(reference - final), rows, score)
        shares = np.eye(len(entries))[0]
        if share >= LEAST_TRUST:
            shares = share * drop_small(pool.weights(np.ones(len(held.codes), dtype=bool))) + (1 - share) * shares
        if shares[0] == 1:
            final = reference
    records = _records(held, entries, losses, gains, shares)
    change = held.mean_and_error(losses[0] - final)
    return Judgement(shares, lift, records, _reason(entries, score, shares, lift, change, gains, single))


def _simplest(held: Held, losses: Floats, best: int) -> int:
    """One-standard-error rule: the simplest candidate whose paired difference to the best is within noise."""
    for index in range(len(losses)):
        behind, error = held.mean_and_error(losses[index] - losses[best])
        if behind <= error:
            return index
    return best


def _records(
    held: Held, entries: Sequence[Entry], losses: Floats, gains: list[tuple[float, float]], shares: Floats
) -> list[dict[str, Any]]:
    table = []
    for index, entry in enumerate(entries):
        gain, error = gains[index]
        table.append({
            "method": entry.name, "cv_score": held.mean_and_error(losses[index])[0], "gain": gain, "se": error,
            "low": gain - Z * error, "high": gain + Z * error, "preserves_argmax": entry.preserves_argmax,
            "chosen": bool(shares[index] > 0), "weight": float(shares[index]),
        })
    return sorted(table, key=lambda row: -row["gain"])


def _reason(
    entries: Sequence[Entry], score: ProperScore, shares: Floats, lift: float,
    gain: tuple[float, float], gains: list[tuple[float, float]], single: int,
) -> str:
    name = {"nll": "NLL", "brier": "Brier score"}.get(score.name, score.name)

    def change(pair: tuple[float, float]) -> str:
        digits = 3 if abs(pair[0]) >= 0.1 else 4
        value, low, high = (
            f"{-pair[0] + side * Z * pair[1]:+.{digits}f}".replace("-", "−") for side in (0, -1, 1)
        )
        return f"{value} {name} [{low}, {high}]"

    used = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    if used == [0] and lift > 0 and gain[0] > 0:
        return f"the input with its exact zeros lifted: {change(gain)} against doing nothing; more is within noise"
    if used == [0] and lift > 0:
        return "no change but for exact zeros, which are lifted a little: one that comes true costs without bound"
    if used == [0]:
        best = max(range(len(entries)), key=lambda i: gains[i][0])
        if best == 0:
            return "no change: no method beats doing nothing on held-out rows"
        return f"no change: the best method, {_title(entries[best])}, gives {change(gains[best])}, within noise"
    if len(used) == 1:
        return f"{_title(entries[used[0]])}: {change(gain)} against doing nothing"
    parts = [f"{_title(entries[i])} {100 * shares[i]:.0f} %" for i in used[:3]]
    more = f" and {len(used) - 3} more" if len(used) > 3 else ""
    keeps = "" if all(entries[i].preserves_argmax for i in used) else "; the predicted class may change"
    alone = "" if single == 0 else f"; alone, {_title(entries[single])} is the simplest within noise of the best"
    return f"mixture of {', '.join(parts)}{more}: {change(gain)} against doing nothing{alone}{keeps}"


def _title(entry: Entry) -> str:
    return "the input" if entry.name == "identity" else entry.title[0].lower() + entry.title[1:]
