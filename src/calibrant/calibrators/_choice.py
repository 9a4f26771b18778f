"""What the comparison shows: the table, the shipped weights, and the reason in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators._crossfit import LEAST, Entry, Held
from calibrant.calibrators._mixture import Mixture, drop_small, prior_shares
from calibrant.scores.rules import Log, ProperScore

#: Log score: the mixture gets the weight 1/(1 + exp((EVIDENCE − e)/SLOPE)), e its held-out log-likelihood ratio to
#: the uncalibrated forecast: a pseudo-Bayes factor, tempered because the same rows speak in several folds.
EVIDENCE, SLOPE = 3.0, 2.0
#: Other scores: with gain g and standard error s it gets the weight 1 − (CAUTION·s/g)², all when g is CERTAIN · s.
CAUTION, CERTAIN = 0.8, 4.0
#: Nats that lifting exact zeros may cost in all where none of them was the truth so far.
UNSEEN = 0.02
#: A mixture trusted less than this is not worth shipping.
LEAST_TRUST = 0.2
#: A mixture trusted this much is proven: EVIDENCE nats, odds of twenty to one, which chance gives once in twenty times.
PROVEN_TRUST = 0.5
#: Quantile of the 95% intervals.
Z = 1.959963984540054


@dataclass(frozen=True)
class Judgment:
    """Weights of the candidates in the shipped map (the uncalibrated forecast first), the table and the reason."""

    shares: Floats
    #: Uniform weight that lifts the exact zeros of the input, where its place is taken by the lifted input.
    lift: float
    records: list[dict[str, Any]]
    reason: str
    #: Cross-fitted gain of the shipped map over the uncalibrated forecast, and its standard error.
    gain: tuple[float, float] = (0.0, 0.0)


def row_losses(held: Held, score: ProperScore) -> Floats:
    """Score of every candidate on every held-out row, (M, N)."""
    if isinstance(score, Log) or held.forecasts is None:
        return np.asarray(-np.log(held.truth.T))
    return np.stack([score._rows(p, held.codes) for p in held.forecasts])


def uniform_share(truth: Floats, weights: Floats, n_classes: int) -> float:
    """Most likely weight of the uniform distribution beside a forecast, by EM."""
    share = 0.1
    for _ in range(200):
        uniform = share / n_classes
        share = float(weights @ (uniform / (uniform + (1 - share) * truth)) / weights.sum())
    return share


def trust(gain: float, error: float, rows: float, score: ProperScore) -> float:
    """Weight of the mixture beside the uncalibrated forecast, by its gain on rows that nothing has seen."""
    if isinstance(score, Log):
        return float(1.0 / (1.0 + np.exp(min((EVIDENCE - rows * gain) / SLOPE, 700.0))))
    if gain <= CAUTION * error:
        return 0.0
    return 1.0 if gain > CERTAIN * error else 1.0 - (CAUTION * error / gain) ** 2


def proven(gain: float, error: float) -> bool:
    """Whether a cross-fitted gain is beyond noise: the 95% interval lies above 0."""
    return gain > Z * error


def _limit(error: float, rows: float, score: ProperScore, least: float) -> float:
    """Return the gain from which on a mixture gets the weight `least`: the inverse of `trust`."""
    if isinstance(score, Log):
        return float((EVIDENCE - SLOPE * np.log(1.0 / least - 1.0)) / rows)
    return float(CAUTION * error / np.sqrt(1.0 - least))


def selection_luck(gain: float, error: float, limit: float) -> float:
    """Return by how much a gain is too large that is told only where it passes a limit.

    A gain with mean γ and a normal error is γ + error·φ(x)/Φ(−x) on average where it passes, x = (limit − γ)/error; the
    γ for which that is the gain seen is the most likely one given the choice (Cohen 1959, Technometrics 1). It may lie
    one standard error below 0: where nothing is to be gained, less is claimed.
    """
    from scipy.special import log_ndtr

    low, high = -error, max(gain, -error)
    for _ in range(50):
        middle = 0.5 * (low + high)
        x = (limit - middle) / error
        passed = middle + error * float(np.exp(-0.5 * x * x - log_ndtr(-x))) / np.sqrt(2.0 * np.pi)
        low, high = (low, middle) if passed > gain else (middle, high)
    return gain - low


def judge(
    held: Held,
    entries: Sequence[Entry],
    score: ProperScore,
    *,
    mixture: bool,
    proof: bool,
    n_classes: int,
    rows: float,
    zeros: bool,
) -> Judgment:
    """Weigh the candidates; `entries` stand simplest first and begin with the uncalibrated forecast.

    With `proof` a mixture whose gain is not proven is not shipped; without, it gets the share that its gain speaks for.

    Where the input holds exact zeros the mixture is held against the input with its zeros lifted: a class called
    impossible costs without bound the day it comes, and one such score would drown every other gain.
    """
    losses = row_losses(held, score)
    gains = [held.mean_and_error(losses[0] - own) for own in losses]
    best = int(np.argmax([gain for gain, _ in gains]))
    single = _simplest(held, losses, best)
    single = single if mixture or proven(*gains[single]) else 0
    shares, final = np.eye(len(entries))[single], losses[single]
    reference, lift = losses[0], 0.0
    if mixture and isinstance(score, Log) and zeros:
        seen = bool((held.truth[:, 0] <= LEAST).any())
        lift = uniform_share(held.truth[:, 0], held.weights, n_classes) if seen else UNSEEN / rows
        reference = -np.log((1 - lift) * held.truth[:, 0] + lift / n_classes)
    taken = 0.0
    if mixture and len(entries) > 1:
        pool = Mixture(held, score, prior_shares(np.array([entry.prior for entry in entries])))
        final = pool.cross_fitted_losses()
        change = held.mean_and_error(reference - final)
        share = trust(*change, rows, score)
        shares = np.eye(len(entries))[0]
        least = PROVEN_TRUST if proof else LEAST_TRUST
        if share >= least and (not proof or isinstance(score, Log) or proven(*change)):
            shares = share * drop_small(pool.weights(np.ones(len(held.codes), dtype=bool))) + (1 - share) * shares
        if shares[0] == 1:
            final = reference
        else:
            final = _shrunk_losses(pool, final, reference, share, score)
            taken = _taken_off(
                held.mean_and_error(reference - final), change, share, _limit(change[1], rows, score, least)
            )
    records = _records(held, entries, losses, gains, shares)
    gain, error = held.mean_and_error(losses[0] - final)
    claim = gain - taken, error
    reason = _reason(entries, score, shares, lift, claim, gains, single)
    return Judgment(shares, lift, records, reason, claim)


def _shrunk_losses(pool: Mixture, mixed: Floats, reference: Floats, share: float, score: ProperScore) -> Floats:
    """Score the map that is shipped, shrinkage included, on rows that neither its members nor its weights have seen."""
    if isinstance(score, Log):
        return np.asarray(-np.log(share * np.exp(-mixed) + (1 - share) * np.exp(-reference)))
    return pool.cross_fitted_losses(share)


def _taken_off(shipped: tuple[float, float], mixed: tuple[float, float], share: float, limit: float) -> float:
    """Return what a claim leaves out of the gain of the shipped map: luck, and the chance that nothing is gained.

    What is told only where it passes a limit is too large on average: that luck is taken off. The rest counts with the
    weight of the evidence for it, its fraction of the mixture.
    """
    part = shipped[1] / mixed[1] if mixed[1] > 0 else 0.0
    luck = part * selection_luck(*mixed, limit) if part > 0 else 0.0
    return shipped[0] - share * (shipped[0] - luck)


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
        table.append(
            {
                "method": entry.name,
                "cv_score": held.mean_and_error(losses[index])[0],
                "gain": gain,
                "se": error,
                "low": gain - Z * error,
                "high": gain + Z * error,
                "preserves_argmax": entry.preserves_argmax,
                "chosen": bool(shares[index] > 0),
                "weight": float(shares[index]),
            }
        )
    return sorted(table, key=lambda row: -row["gain"])


def _reason(
    entries: Sequence[Entry],
    score: ProperScore,
    shares: Floats,
    lift: float,
    gain: tuple[float, float],
    gains: list[tuple[float, float]],
    single: int,
) -> str:
    name = {"nll": "NLL", "brier": "Brier score"}.get(score.name, score.name)

    def told(pair: tuple[float, float]) -> str:
        return f"{change(pair)} against the uncalibrated forecast" + ("" if proven(*pair) else ", which may be nothing")

    def change(pair: tuple[float, float]) -> str:
        digits = 3 if abs(pair[0]) >= 0.1 else 4
        value, low, high = (f"{-pair[0] + side * Z * pair[1]:+.{digits}f}".replace("-", "−") for side in (0, -1, 1))
        return f"{value} {name} [{low}, {high}]"

    used = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    if used == [0] and lift > 0 and gain[0] > 0:
        return f"the input with its exact zeros lifted: {told(gain)}; more is within noise"
    if used == [0] and lift > 0:
        return "no change but for exact zeros, which are lifted a little: one that comes true costs without bound"
    if used == [0]:
        best = max(range(len(entries)), key=lambda i: gains[i][0])
        if best == 0:
            return "no change: no method beats the uncalibrated forecast on held-out rows"
        why = "not proven on rows that nothing has seen" if proven(*gains[best]) else "within noise"
        return f"no change: the best method, {_title(entries[best])}, gives {change(gains[best])}, {why}"
    if len(used) == 1:
        return f"{_title(entries[used[0]])}: {told(gain)}"
    parts = [f"{_title(entries[i])} {100 * shares[i]:.0f}%" for i in used[:3]]
    more = f" and {len(used) - 3} more" if len(used) > 3 else ""
    keeps = "" if all(entries[i].preserves_argmax for i in used) else "; the predicted class may change"
    alone = "" if single == 0 else f"; alone, {_title(entries[single])} is the simplest within noise of the best"
    return f"mixture of {', '.join(parts)}{more}: {told(gain)}{alone}{keeps}"


def _title(entry: Entry) -> str:
    return "the input" if entry.name == "identity" else entry.title[0].lower() + entry.title[1:]
