"""Small deterministic files of every task: what the acceptance tests feed to every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

NAMES = ("ant", "bee", "cat", "dog", "eel")
N = 400


def _softmax(logits: np.ndarray) -> np.ndarray:
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def _draw(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (probs.cumsum(axis=1) < rng.random(len(probs))[:, None]).sum(axis=1).clip(0, probs.shape[1] - 1)


def classes(seed: int, n: int = N, k: int = 5, heat: float = 1.7) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a model that is too sure by the factor `heat`, and labels from the honest probabilities."""
    rng = np.random.default_rng(seed)
    honest = 1.5 * rng.normal(size=(n, k))
    return np.round(heat * honest, 6), _draw(_softmax(honest), rng)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits, rounded so that a CSV file holds them exactly."""
    probs = np.round(_softmax(logits), 9)
    probs[:, -1] = np.round(1.0 - probs[:, :-1].sum(axis=1), 9).clip(0.0, 1.0)
    return probs


def _sides(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(1000 + seed)
    return {
        "site": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
        "patient": rng.integers(0, 40, n),
    }


def _vectors(seed: int, names: tuple[Any, ...], prefix: str = "p_", **more: Any) -> pl.DataFrame:
    logits, labels = classes(seed, **more)
    scores = probabilities(logits) if prefix == "p_" else logits
    columns: dict[str, Any] = {f"{prefix}{name}": scores[:, i] for i, name in enumerate(names)}
    columns["label"] = [names[i] for i in labels]
    return pl.DataFrame({**columns, **_sides(len(labels), seed)})


def _regression(seed: int, narrow: float = 0.6) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=N)
    std = 0.5 + rng.random(N)
    y = mean + std * rng.normal(size=N)
    return pl.DataFrame(
        {
            "mean": np.round(mean, 9),
            "variance": np.round((narrow * std) ** 2, 9),
            "y": np.round(y, 9),
            **_sides(N, seed),
        }
    )


def make_inputs(folder: Path) -> None:
    """Write every file of the acceptance tests into `folder`; the same bytes of numbers on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    five = _vectors(1, NAMES)
    five.write_csv(folder / "k5.csv")
    five.write_parquet(folder / "k5.parquet")
    cooler = _vectors(1, NAMES, heat=1.1)
    cooler.write_csv(folder / "k5_after.csv")
    weights = np.random.default_rng(5).integers(1, 4, N)
    _vectors(2, tuple(range(5))).with_columns(weight=pl.Series(weights)).write_csv(folder / "k5w.csv")
    logits, codes = classes(3, n=2 * N)
    labels = np.array(NAMES)[codes]
    np.savez(
        folder / "k5.npz",
        logits_cal=logits[:N],
        labels_cal=labels[:N],
        logits_test=logits[N:],
        labels_test=labels[N:],
        classes=np.array(NAMES),
        site_test=_sides(N, 3)["site"],
    )
    _vectors(4, NAMES, prefix="logit_").write_csv(folder / "k5_logits.csv")

    rng = np.random.default_rng(6)
    truth = np.round(rng.beta(1.2, 3.0, N), 9)
    binary = pl.DataFrame(
        {"score": np.round(truth**0.7, 9), "label": (rng.random(N) < truth).astype(int), **_sides(N, 6)}
    )
    binary.write_csv(folder / "k2.csv")
    binary.with_columns(score=pl.Series(truth)).write_csv(folder / "k2_after.csv")
    binary.with_columns(weight=pl.Series(weights)).write_parquet(folder / "k2w.parquet")

    five_probs = five.select(pl.selectors.starts_with("p_")).to_numpy()
    winner = [NAMES[i] for i in five_probs.argmax(axis=1)]
    pairs = pl.DataFrame(
        {
            "confidence": five_probs.max(axis=1),
            "correct": (np.array(winner) == five["label"].to_numpy()).astype(int),
            **_sides(N, 1),
        }
    )
    pairs.write_csv(folder / "pairs.csv")
    after = cooler.select(pl.selectors.starts_with("p_")).to_numpy()
    pairs.with_columns(confidence=pl.Series(after.max(axis=1))).write_csv(folder / "pairs_after.csv")

    regression = _regression(7)
    regression.write_csv(folder / "reg.csv")
    _regression(7, narrow=0.95).write_csv(folder / "reg_after.csv")
    np.savez(folder / "reg.npz", mean=regression["mean"], std=np.sqrt(regression["variance"]), y=regression["y"])

    for name, table in (("logs", five), ("csvlogs", five), ("reglogs", regression), ("pairlogs", pairs)):
        (folder / name).mkdir(exist_ok=True)
        for day in range(4):
            part = table[day * N // 4 : (day + 1) * N // 4]
            if name == "logs":
                part.write_parquet(folder / name / f"day{day}.parquet")
            else:
                part.write_csv(folder / name / f"day{day}.csv")
    (folder / "gate.toml").write_text("[max]\nks = 0.02\n[min]\naccuracy = 0.2\n")


if __name__ == "__main__":
    import sys

    make_inputs(Path(sys.argv[1]))
