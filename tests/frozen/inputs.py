"""Small deterministic inputs of every task, from NumPy alone: the same numbers, and the same CSV bytes, everywhere.

Scores are rounded to nine decimals, so that a CSV file holds them exactly and the last bits of a processor do not count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

N = 400
NAMES = ("ant", "bee", "cat", "dog", "eel")
TASKS = ("classes", "two", "pairs", "regression")
Table = dict[str, np.ndarray]


def _softmax(logits: np.ndarray) -> np.ndarray:
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def _normal(rng: np.random.Generator, shape: Any) -> np.ndarray:
    """Sums of twelve uniform numbers: nearly normal, from the plainest stream there is."""
    return np.round(rng.random((*np.atleast_1d(shape), 12)).sum(axis=-1) - 6.0, 6)


def _sides(seed: int, n: int = N) -> Table:
    rng = np.random.default_rng(1000 + seed)
    return {
        "site": np.array(["north", "south", "west"])[(3 * rng.random(n)).astype(int)],
        "patient": (40 * rng.random(n)).astype(int),
    }


def _classes(seed: int, heat: float, *, logits: bool = False) -> Table:
    """Five classes with words as labels; scores are too sure by the factor `heat`."""
    rng = np.random.default_rng(seed)
    honest = 1.5 * _normal(rng, (N, 5))
    truth = _softmax(honest)
    codes = (truth.cumsum(axis=1) < rng.random(N)[:, None]).sum(axis=1).clip(0, 4)
    scores = np.round(heat * honest, 6)
    if not logits:
        scores = np.round(_softmax(scores), 9)
        scores[:, -1] = np.round(1.0 - scores[:, :-1].sum(axis=1), 9).clip(0.0, 1.0)
    prefix = "logit_" if logits else "p_"
    columns: Table = {f"{prefix}{name}": scores[:, i] for i, name in enumerate(NAMES)}
    return {**columns, "label": np.array(NAMES)[codes]}


def _two(power: float) -> Table:
    rng = np.random.default_rng(6)
    truth = rng.random(N) ** 2
    return {"score": np.round(truth**power, 9), "label": (rng.random(N) < truth).astype(int)}


def _pairs(heat: float) -> Table:
    five = _classes(1, heat)
    scores = np.column_stack([five[f"p_{name}"] for name in NAMES])
    winner = np.array(NAMES)[np.column_stack([_classes(1, 1.7)[f"p_{name}"] for name in NAMES]).argmax(axis=1)]
    return {"confidence": scores.max(axis=1), "correct": (winner == five["label"]).astype(int)}


def _regression(narrow: float) -> Table:
    rng = np.random.default_rng(7)
    mean = _normal(rng, N)
    std = np.round(0.5 + rng.random(N), 6)
    y = mean + std * _normal(rng, N)
    return {"mean": mean, "variance": np.round((narrow * std) ** 2, 9), "y": np.round(y, 9)}


def table(task: str, *, after: bool = False, logits: bool = False, weights: str | None = None) -> Table:
    """Return the columns of a task: `after` a repair, as logits, with weights ("whole" numbers or "parts" of one)."""
    if task == "classes":
        columns = _classes(1, 1.1 if after else 1.9, logits=logits)
    elif task == "two":
        columns = _two(1.05 if after else 0.6)
        if logits:
            odds = columns.pop("score").clip(1e-6, 1 - 1e-6)
            columns = {"logit": np.round(np.log(odds / (1.0 - odds)), 6), **columns}
    elif task == "pairs":
        columns = _pairs(1.1 if after else 1.9)
    else:
        columns = _regression(0.95 if after else 0.6)
    columns = {**columns, **_sides(3)}
    if weights is not None:
        rng = np.random.default_rng(5)
        drawn = rng.random(N)
        columns["weight"] = 1 + (3 * drawn).astype(int) if weights == "whole" else np.round(0.25 + drawn, 6)
    return columns


def csv_text(columns: Table) -> str:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(repr(cell).strip("'") for cell in row) for row in rows)]
    return "\n".join(lines) + "\n"


def write_csv(columns: Table, path: Path) -> None:
    path.write_text(csv_text(columns), encoding="utf-8", newline="\n")


def make_inputs(folder: Path) -> None:
    """Write every input file into `folder`.

    ``<task>.csv``, ``<task>.parquet``, ``<task>_shards/*.parquet`` and ``<task>_texts/*.csv`` in four files, and the same of
    ``<task>_after``; ``<task>_weights.csv``, ``_parts.csv`` (weights that are no counts) and ``_logits.csv``; two archives.
    """
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        plain, after = table(task), table(task, after=True)
        write_csv(plain, folder / f"{task}.csv")
        write_csv(after, folder / f"{task}_after.csv")
        write_csv(table(task, weights="whole"), folder / f"{task}_weights.csv")
        write_csv(table(task, weights="parts"), folder / f"{task}_parts.csv")
        for name, columns in ((task, plain), (f"{task}_after", after)):
            pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
            (folder / f"{name}_shards").mkdir(exist_ok=True)
            (folder / f"{name}_texts").mkdir(exist_ok=True)
            for day in range(4):
                rows = {key: column[day * N // 4 : (day + 1) * N // 4] for key, column in columns.items()}
                pl.DataFrame(rows).write_parquet(folder / f"{name}_shards" / f"day{day}.parquet")
                write_csv(rows, folder / f"{name}_texts" / f"day{day}.csv")
    for task in ("classes", "two"):
        write_csv(table(task, logits=True), folder / f"{task}_logits.csv")
    logits = table("classes", logits=True)
    scores = np.column_stack([logits[f"logit_{name}"] for name in NAMES])
    half = N // 2
    np.savez(
        folder / "classes.npz",
        logits_cal=scores[:half],
        labels_cal=logits["label"][:half],
        logits_test=scores[half:],
        labels_test=logits["label"][half:],
        classes=np.array(NAMES),
        site_test=logits["site"][half:],
    )
    rows = table("regression")
    np.savez(folder / "regression.npz", mean=rows["mean"], std=np.sqrt(rows["variance"]), y=rows["y"])
    (folder / "gate.toml").write_text("[max]\nks = 0.02\n[min]\naccuracy = 0.2\n", encoding="utf-8")
