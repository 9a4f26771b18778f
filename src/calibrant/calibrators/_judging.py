"""What the league shows: the table, the shipped shares, and the reason in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators._league import Entry, Held
from calibrant.calibrators._mixture import LinearPool, LogPool, cross_fitted_losses, drop_small
from calibrant.scores.rules import Log, ProperScore

#: A pool with gain g and standard error s over doing nothing gets the share 1 − (CAUTION·s/g)².
CAUTION = 1.0
#: Quantile of the 95 % intervals.
Z = 1.959963984540054


@dataclass(frozen=True)
class Judgement:
    """Shares of the candidates in the shipped map, how they are pooled, and how far the pool is trusted."""

    shares: Floats
    kind: Literal["linear", "log"]
    trust: float
    records: list[dict[str, Any]]
    reason: str


def row_losses(held: Held, score: ProperScore) -> Floats:
    """Score of every candidate on every held-out row, (M, N)."""
    if isinstance(score, Log):
        return np.asarray(-np.log(held.truth.T))
    return np.stack([score._rows(p, held.codes) for p in held.forecasts])


def judge(held: Held, entries: Sequence[Entry], score: ProperScore, *, mixture: bool) -> Judgement:
    """Weigh the candidates; `entries` stand simplest first and begin with doing nothing."""
    losses = row_losses(held, score)
    nothing = losses[0]
    gains = [held.mean_and_error(nothing - rows) for rows in losses]
    best = int(np.argmax([gain for gain, _ in gains]))
    single = _simplest(held, losses, best)
    shares = np.eye(len(entries))[single]
    kind: Literal["linear", "log"] = "linear"
    final = losses[single]
    if mixture and len(entries) > 1:
        shares, kind, final = _pooled(held, score)
    gain, error = held.mean_and_error(nothing - final)
    trust = 1.0
    if single == 0 and not mixture:
        trust = 0.0
    elif mixture:
        trust = max(0.0, 1.0 - (CAUTION * error / gain) ** 2) if gain > 0 else 0.0
    if trust < 0.02:
        shares, kind, trust = np.eye(len(entries))[0], "linear", 0.0
    records = _records(held, entries, losses, gains, shares / shares.sum() * (trust or 1.0))
    reason = _reason(entries, score, shares, trust, (gain, error), gains, single)
    return Judgement(shares, kind, trust, records, reason)


def _simplest(held: Held, losses: Floats, best: int) -> int:
    """One-standard-error rule: the simplest candidate whose paired difference to the best is within noise."""
    for index in range(len(losses)):
        behind, error = held.mean_and_error(losses[index] - losses[best])
        if behind <= error:
            return index
    return best


def _pooled(held: Held, score: ProperScore) -> tuple[Floats, Literal["linear", "log"], Floats]:
    """Return weights, kind and cross-fitted losses of the better pool."""
    pools: list[LinearPool | LogPool] = [LinearPool(held, score), LogPool(held, score)]
    crossed = [cross_fitted_losses(pool) for pool in pools]
    chosen = int(np.argmin([held.weights @ rows for rows in crossed]))
    pool = pools[chosen]
    weights = pool.weights(np.ones(len(held.codes), dtype=bool))
    return (drop_small(weights), "linear", crossed[0]) if chosen == 0 else (weights, "log", crossed[1])


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
            "fit_seconds": float(held.seconds[index]),
        })
    return sorted(table, key=lambda row: -row["gain"])


def _reason(
    entries: Sequence[Entry], score: ProperScore, shares: Floats, trust: float,
    gain: tuple[float, float], gains: list[tuple[float, float]], single: int,
) -> str:
    name = {"nll": "NLL", "brier": "Brier score"}.get(score.name, score.name)

    def change(pair: tuple[float, float]) -> str:
        digits = 3 if abs(pair[0]) >= 0.1 else 4
        value, low, high = (
            f"{-pair[0] + side * Z * pair[1]:+.{digits}f}".replace("-", "−") for side in (0, -1, 1)
        )
        return f"{value} {name} [{low}, {high}]"

    if trust == 0:
        best = max(range(len(entries)), key=lambda i: gains[i][0])
        if best == 0:
            return "no change: no method beats doing nothing on held-out rows"
        return f"no change: the best method, {entries[best].title.lower()}, gives {change(gains[best])}, within noise"
    order = np.argsort(-shares)
    used = [int(i) for i in order if shares[i] > 0]
    if len(used) == 1:
        what = entries[used[0]].title.lower()
    else:
        total = shares.sum()
        parts = [f"{entries[i].title.lower()} {100 * shares[i] / total:.0f} %" for i in used[:3]]
        what = "pool of " + ", ".join(parts) + (f" and {len(used) - 3} more" if len(used) > 3 else "")
    if trust < 0.995:
        what += f", held back towards the input by {100 * (1 - trust):.0f} %"
    text = f"{what}: {change(gain)} against doing nothing"
    if len(used) > 1 and single > 0:
        entry = entries[single]
        keeps = "" if entry.preserves_argmax else ", which may change the predicted class"
        text += f"; the simplest single method within noise of the best is {entry.title.lower()}{keeps}"
    return text

