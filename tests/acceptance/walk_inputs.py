"""Files for the walk over every option: each holds a second column for whatever an option may name."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl

from acceptance.inputs import NAMES, classes, probabilities

N = 120


def _extra(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "weight2": rng.integers(1, 5, N),
        "site": np.array(["north", "south"])[rng.integers(0, 2, N)],
        "patient": rng.integers(0, 25, N),
    }


def _classes() -> pl.DataFrame:
    logits, codes = classes(11, n=N, k=3)
    other, second = classes(12, n=N, k=3)
    columns = {f"p_{name}": probabilities(logits)[:, i] for i, name in enumerate(NAMES[:3])}
    columns |= {f"alt_{name}": probabilities(other)[:, i] for i, name in enumerate(NAMES[:3])}
    names = np.array(NAMES)
    return pl.DataFrame({**columns, "label": names[codes], "label2": names[second], **_extra(13)})


def _pairs() -> pl.DataFrame:
    rng = np.random.default_rng(14)
    confidence = np.round(0.5 + 0.5 * rng.random(N), 9)
    columns = {"confidence": confidence, "correct": (rng.random(N) < confidence**2).astype(int)}
    return pl.DataFrame(
        {**columns, "conf2": np.round(confidence**2, 9), "correct2": (rng.random(N) < 0.7).astype(int), **_extra(15)}
    )


def _regression() -> pl.DataFrame:
    rng = np.random.default_rng(16)
    mean, std = rng.normal(size=N), 0.5 + rng.random(N)
    y = mean + 1.5 * std * rng.normal(size=N)
    columns = {"mean": mean, "variance": std**2, "y": y, "mean2": mean + 0.3, "variance2": 2 * std**2, "y2": y + 0.2}
    return pl.DataFrame({**{name: np.round(values, 9) for name, values in columns.items()}, **_extra(17)})


def _shards(table: pl.DataFrame, folder: Path, suffix: str = ".csv") -> None:
    folder.mkdir()
    for part in range(2):
        table[part * len(table) // 2 : (part + 1) * len(table) // 2].write_csv(folder / f"part{part}{suffix}")


def make_walk(folder: Path) -> None:
    """Write the files of the walk: a base file per task, and variants that only an option can read."""
    tables = {"classes": _classes(), "pairs": _pairs(), "regression": _regression()}
    for task, table in tables.items():
        table.write_csv(folder / f"{task}.csv")
        shutil.copy(folder / f"{task}.csv", folder / f"{task}.data")
        scores = [name for name in table.columns if name.startswith(("p_", "alt_", "conf", "mean", "variance"))]
        later = table.with_columns(pl.col(scores[0]) ** 3 if task == "pairs" else pl.col(scores[0]) + 0.1)
        if task == "classes":
            late, _ = classes(18, n=N, k=3, heat=0.9)
            later = table.with_columns(pl.Series(f"p_{n}", probabilities(late)[:, i]) for i, n in enumerate(NAMES[:3]))
        later.write_csv(folder / f"{task}_after.csv")
        later.write_csv(folder / f"{task}_after.data")
        holed = table.with_columns(
            pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.col(scores[0])).alias(scores[0])
        )
        holed.write_csv(folder / f"{task}_holed.csv")
        _shards(holed, folder / f"{task}_holed")
    table = tables["classes"]
    _shards(table, folder / "pattern")
    _shards(table, folder / "pattern_data", ".data")
    _shards(table, folder / "pattern_bad")
    (folder / "pattern_bad" / "part9.csv").write_bytes(b"")
    _shards(later_classes(folder), folder / "pattern_after")
    coarse = table.with_columns(pl.selectors.starts_with("p_") * 0.98)
    coarse.write_csv(folder / "classes_coarse.csv")
    _shards(coarse, folder / "pattern_coarse")
    logits, codes = classes(19, n=2 * N, k=3)
    other, _ = classes(20, n=2 * N, k=3)
    more = _extra(21)
    np.savez(
        folder / "arrays.npz",
        logits_cal=logits[:N], labels_cal=codes[:N], logits_test=logits[N:], labels_test=codes[N:],
        alt_cal=other[:N], alt_test=other[N:], label2_cal=(codes[:N] + 1) % 3, label2_test=(codes[N:] + 1) % 3,
        **{f"{name}_{part}": values for name, values in more.items() for part in ("cal", "test")},
    )  # fmt: skip
    shutil.copy(folder / "arrays.npz", folder / "arrays.data")
    np.savez(folder / "arrays_after.npz", logits_test=0.6 * logits[N:], labels_test=codes[N:], alt_test=other[N:],
             label2_test=(codes[N:] + 1) % 3, logits_cal=logits[:N], labels_cal=codes[:N],
             **{f"{name}_test": values for name, values in more.items()})  # fmt: skip
    shutil.copy(folder / "arrays_after.npz", folder / "arrays_after.data")
    rough = 0.98 * probabilities(logits)
    np.savez(folder / "arrays_coarse.npz", probs_cal=rough[:N], labels_cal=codes[:N], probs_test=rough[N:],
             labels_test=codes[N:])  # fmt: skip
    (folder / "gate.toml").write_text("[max]\nmce = 0.000001\n")
    (folder / "gate_regression.toml").write_text("[max]\nvce = 0.000001\n")


def later_classes(folder: Path) -> pl.DataFrame:
    """The second model's table, whole."""
    return pl.read_csv(folder / "classes_after.csv")
