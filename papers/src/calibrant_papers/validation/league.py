"""The comparison of methods on real predictions: how close the automatic choice comes to a hindsight oracle."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.text import percent
from calibrant.errors import CalibrantWarning, FileError
from calibrant_papers.studies.checkpoints import Piece, Tell, run_pieces
from calibrant_papers.studies.writing import markdown, stamp

__all__ = ["LeagueReport", "RealSet", "read_sets", "run_league"]

#: Single methods the oracle may choose from (with hindsight: by the test rows).
SINGLES = (
    "identity",
    "temperature",
    "ensemble-temperature",
    "vector",
    "structured-matrix",
    "dirichlet",
    "platt",
    "beta",
    "histogram",
    "scaling-binning",
    "isotonic",
    "isotonic-multiclass",
    "venn-abers",
    "spline",
    "order-preserving",
)
#: Dirichlet calibration with cross-validated penalty is left out above so many scores.
DIRICHLET_SCORES = 60_000
CALIBRATION_ROWS = 5_000
MEASURES = ("brier", "ece", "ks")
#: A probability of the truth counts as no less than this.
LEAST = 1e-15
#: Least gain of the oracle, in nats, that is worth a ratio.
MATTERS = 0.003
ABOUT = (
    f"The oracle picks, with hindsight, the best of {len(SINGLES)} single methods for each set by its test rows. "
    "A fraction is the NLL gained over the uncalibrated forecast, divided by what the oracle gains: averaged over the "
    "sets where "
    f"that is more than {MATTERS} nats, and of the sums over all sets. "
    "Harm: NLL worse than the uncalibrated forecast by more than two paired standard errors."
)
#: What a file name had better not hold.
_FORBIDDEN = re.compile(r"[^\w.-]+")
#: Fewest rows of a set with several forecasters that some days leave out.
FEWEST = 80


@dataclass(frozen=True)
class RealSet:
    """One model's scores with the truth, split into calibration and test rows."""

    name: str
    cal: Array
    y_cal: Ints
    test: Array
    y_test: Ints
    space: str

    @property
    def n_classes(self) -> int:
        """Number of columns."""
        return int(self.cal.shape[1])

    def draw(self, rows: int, draw: int) -> RealSet:
        """Return the set with a few calibration rows, drawn at random."""
        some = np.random.default_rng([draw, rows]).permutation(len(self.y_cal))[:rows]
        return RealSet(self.name, self.cal[some], self.y_cal[some], self.test, self.y_test, self.space)


def read_sets(folder: str | Path) -> Iterator[RealSet]:
    """Yield every set of a folder of .npz files that holds whole probability vectors.

    A file without calibration part is permuted by ``default_rng(0)``; its first 5,000 rows (half of them below
    10,000 rows) calibrate.
    """
    files = sorted(Path(folder).glob("*.npz"))
    if not files:
        raise FileError(f"{folder} holds no .npz files. Hint: name the folder of real predictions with --data.")
    for file in files:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if "logits_cal" in arrays:
            yield RealSet(
                file.stem,
                arrays["logits_cal"],
                arrays["labels_cal"].astype(np.int64),
                arrays["logits_test"],
                arrays["labels_test"].astype(np.int64),
                "logit",
            )
        elif "logits_test" in arrays:
            yield _split(file.stem, arrays["logits_test"], arrays["labels_test"], "logit")
        elif "probs_test" in arrays or "counts_test" in arrays:
            p = arrays.get("probs_test", arrays.get("counts_test")).astype(np.float64)  # type: ignore[union-attr]
            yield _split(file.stem, p / p.sum(axis=1, keepdims=True), arrays["labels_test"], "proba")
        elif "prob_test" in arrays:
            columns = np.atleast_2d(arrays["prob_test"].astype(np.float64).T)
            for index, column in enumerate(columns):
                known = np.isfinite(column)
                if known.sum() < FEWEST:
                    continue
                one = np.clip(column[known], 0.0, 1.0)
                name = file.stem if len(columns) == 1 else f"{file.stem}:{arrays['methods'][index]}"
                yield _split(name, np.stack([1 - one, one], axis=1), arrays["outcome_test"][known], "proba")


def _split(name: str, scores: Array, y: Array, space: str) -> RealSet:
    order = np.random.default_rng(0).permutation(len(y))
    size = CALIBRATION_ROWS if len(y) >= 2 * CALIBRATION_ROWS else len(y) // 2
    cal, test, codes = order[:size], order[size:], y.astype(np.int64)
    return RealSet(name, scores[cal], codes[cal], scores[test], codes[test], space)


def _forecasts(data: RealSet, fast: bool) -> dict[str, Floats]:
    """Fit every method on the calibration rows and forecast the test rows."""
    from calibrant.calibrators import AutoCalibrator, get_calibrator

    door: dict[str, Any] = {"space": data.space}
    lead = get_calibrator("temperature")(**door).fit(data.cal, data.y_cal)
    out = {"auto": AutoCalibrator(fast=fast, **door).fit(data.cal, data.y_cal).predict_proba(data.test)}
    for name in SINGLES:
        if name == "dirichlet" and data.cal.size > DIRICHLET_SCORES:
            continue
        method = get_calibrator(name)(**door)
        if lead.floor_ > 0 and "floor" in method.get_params():
            method.set_params(floor=lead.floor_)  # one fitted floor for all, or the search would take most of the time
        out[name] = method.fit(data.cal, data.y_cal).predict_proba(data.test)
    return out


def _judge(data: RealSet, fast: bool) -> dict[str, Any]:
    from calibrant.metrics.catalog import metric

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        forecasts = _forecasts(data, fast)
    rows = np.arange(len(data.y_test))
    losses = {name: -np.log(np.maximum(p[rows, data.y_test], LEAST)) for name, p in forecasts.items()}
    worse = losses["auto"] - losses["identity"]
    error = float(worse.std() / np.sqrt(len(worse)))
    return {
        "classes": data.n_classes,
        "test_rows": len(rows),
        "nll": {n: float(v.mean()) for n, v in losses.items()},
        "measures": {
            name: {m: metric(m, data.y_test, forecasts[name]) for m in MEASURES} for name in ("identity", "auto")
        },
        "harm": float(worse.mean()) if worse.mean() > 2 * error else 0.0,
    }


@dataclass(frozen=True)
class LeagueReport:
    """Results by set, number of calibration rows and draw."""

    rows: tuple[dict[str, Any], ...]

    def groups(self) -> dict[str, list[dict[str, Any]]]:
        """Return the groups the goals speak of."""
        full = [row for row in self.rows if row["size"] is None]
        groups = {
            "all sets": full,
            "sets with ≥ 2,000 test rows": [r for r in full if r["test_rows"] >= 2000],
            "two classes": [r for r in full if r["classes"] == 2],
        }
        for size in sorted({row["size"] for row in self.rows if row["size"]}, reverse=True):
            groups[f"{size:,} calibration rows"] = [row for row in self.rows if row["size"] == size]
        return {name: rows for name, rows in groups.items() if rows}

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1,
            "groups": {name: _summary(rows) for name, rows in self.groups().items()},
            "sets": list(self.rows),
        }

    def to_markdown(self) -> str:
        """Return the page: the groups, the single methods, and one row per set with means over its draws."""
        draws = max((row["draw"] for row in self.rows), default=0) + 1
        times = f"{draws} draws" if draws > 1 else "one draw"
        lines = [
            stamp("calibrant bench --league"),
            "",
            f"{ABOUT} Smaller numbers of calibration rows are means over {times} of them.",
            "",
        ]
        groups = {name: _summary(rows) for name, rows in self.groups().items()}
        cells: list[tuple[str, ...]] = [
            ("group", "runs", "automatic: mean fraction", "fraction of sums", "harmed (largest, nats)")
        ]
        for name, got in groups.items():
            fractions = (percent(got["auto"][key], 1) for key in ("mean", "sums"))
            cells.append((name, str(got["sets"]), *fractions, f"{got['harmed']} ({got['largest_harm']:.4f})"))
        lines += [*markdown(cells), "", "Mean fraction (fraction of sums) of the single methods compared:", ""]
        cells = [("method", *groups)]
        for method in SINGLES[1:]:
            each = (got["singles"].get(method) for got in groups.values())
            parts = ("–" if v is None else f"{percent(v['mean'], 0)} ({percent(v['sums'], 0)})" for v in each)
            cells.append((method, *parts))
        lines += markdown(cells)
        cells = [("set", "rows", "classes", "test rows", "NLL before → after", "Brier", "ECE %", "KS %", "best single")]
        for (name, size), rows in _by_set(self.rows).items():
            old, new = ({m: _mean(r["measures"][n][m] for r in rows) for m in MEASURES} for n in ("identity", "auto"))
            nll = {n: _mean(r["nll"][n] for r in rows) for n in rows[0]["nll"] if all(n in r["nll"] for r in rows)}
            best = min((n for n in nll if n != "auto"), key=nll.__getitem__)
            pairs = [(nll["identity"], nll["auto"], 4), (old["brier"], new["brier"], 4)]
            pairs += [(100 * old[m], 100 * new[m], 2) for m in ("ece", "ks")]
            changes = (f"{before:.{digits}f} → {after:.{digits}f}" for before, after, digits in pairs)
            about = (name, f"{size:,}" if size else "all", str(rows[0]["classes"]), f"{rows[0]['test_rows']:,}")
            cells.append((*about, *changes, f"{best} {nll[best]:.4f}"))
        lines += ["", *markdown(cells)]
        return "\n".join(["# The automatic method against a hindsight oracle", "", *lines, ""])

    __str__ = to_markdown


def _by_set(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int | None], list[dict[str, Any]]]:
    """Return the draws of every set and number of calibration rows."""
    found: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["set"], row["size"]), []).append(row)
    return found


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    harm = [row["harm"] for row in rows]
    return {
        "sets": len(rows),
        "auto": _shares(rows, "auto"),
        "harmed": sum(h > 0 for h in harm),
        "largest_harm": max(harm),
        "singles": {n: _shares(rows, n) for n in SINGLES if all(n in row["nll"] for row in rows)},
    }


def _shares(rows: list[dict[str, Any]], method: str) -> dict[str, float]:
    """Return the gain of a method as a fraction of the oracle's: averaged over sets, and of the sums."""
    nothing = np.array([row["nll"]["identity"] for row in rows])
    oracle = nothing - np.array([min(v for n, v in row["nll"].items() if n != "auto") for row in rows])
    gain = nothing - np.array([row["nll"][method] for row in rows])
    matters = oracle > MATTERS
    return {
        "mean": float((gain[matters] / oracle[matters]).mean()) if matters.any() else float("nan"),
        "sums": float(gain.sum() / oracle.sum()) if oracle.any() else float("nan"),
    }


def run_league(
    folder: str | Path,
    *,
    sizes: Sequence[int | None] = (None, 1000, 200),
    draws: int = 10,
    fast: bool = False,
    only: Sequence[str] = (),
    checkpoint: str | Path | None = None,
    progress: Tell | None = None,
) -> LeagueReport:
    """Run the comparison on a folder of real predictions.

    Parameters
    ----------
    folder : path
        .npz files, see `read_sets`.
    sizes : sequence of int or None
        Numbers of calibration rows; None means all of them.
    draws : int
        Draws of the calibration rows for each number.
    fast : bool
        Use the fast automatic choice.
    only : sequence of str
        Beginnings of set names; empty means all.
    checkpoint : path, optional
        A folder of finished results, taken up after a stop.
    progress : callable, optional
        Called with (done, all, name) after each run.
    """
    sets = [s for s in read_sets(folder) if not only or s.name.startswith(tuple(only))]
    runs = [
        (data, size, draw, fast)
        for size in sizes
        for draw in range(1 if size is None else draws)
        for data in sets
        if size is None or len(data.y_cal) >= 1.3 * size
    ]
    place = None if checkpoint is None else Path(checkpoint)
    pieces = [
        Piece(name, run, None if place is None else place / f"{_FORBIDDEN.sub('_', name)}.json")
        for run in runs
        for name in [_name(*run)]
    ]
    return LeagueReport(tuple(run_pieces(_row, pieces, progress=progress)))


def _name(data: RealSet, size: int | None, draw: int, fast: bool) -> str:
    return f"{data.name}, {size or 'all'} rows, draw {draw + 1}{', fast' if fast else ''}"


def _row(data: RealSet, size: int | None, draw: int, fast: bool) -> dict[str, Any]:
    part = data if size is None else data.draw(size, draw)
    key = f"{data.name}|{size}|{draw}|{fast}"
    return {"key": key, "set": data.name, "size": size, "draw": draw, **_judge(part, fast)}
