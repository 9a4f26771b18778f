"""Coverage of every interval we offer and size of every test, by simulation with known truth.

Three classes; the top score c = ½ + ½·Beta(4, 1.2) belongs to a random class, the rest is split at random. The top
label is right with probability g(c): g(c) = c (calibrated), c − 0.06·(c − ½) (mild), c − 0.25·(c − ½) (strong); the
other classes are scaled along. Truths are means over a million rows of the conditional expectations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.declare import Recipe, lookup
from calibrant.core.inputs import check_forecast
from calibrant.core.kernels import laplace_sum
from calibrant.inference.intervals import offered_interval
from calibrant.inference.multiplicity import classwise_tests, sliced_tests
from calibrant.inference.tests import test_calibration as run_test
from calibrant.scores import as_score
from calibrant.workflows.compare import compare
from calibrant_papers.studies.arrays import build
from calibrant_papers.studies.frame import Cell, Row, Study, StudyResult, Tell, run_study

__all__ = ["INTERVALS", "MODELS", "TESTS", "coverage", "draw"]

MODELS = ("calibrated", "mild", "strong")
SIZES = (300, 1000, 10_000)
#: Name -> metric whose offered interval is checked.
INTERVALS = {
    "ks": "ks",
    "ece": "ece",
    "tce": "tce",
    "tce, debiased": "tce:bins=mass,debias=True",
    "mmce": "mmce",
    "brier": "brier",
    "nll": "nll",
    "spherical": "spherical",
    "rps": "rps",
    "accuracy": "accuracy",
}
PAIRED = ("brier", "nll", "spherical", "rps", "accuracy")
TESTS = ("ks", "hosmer-lemeshow", "spiegelhalter", "skce", "resampling of ece", "classwise", "sliced", "equivalence")
SLOPE = {"calibrated": 0.0, "mild": 0.06, "strong": 0.25}
LEVEL = 0.95
RESAMPLES = 199
#: Above this many rows the kernel test is left out of the simulation: its cost grows with n².
KERNEL_ROWS = 1000


def draw(model: str, n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return forecasts (n, 3), true laws (n, 3) and a second forecast: the same made sharper."""
    c = 0.5 + 0.5 * rng.beta(4.0, 1.2, n)
    share = rng.uniform(0.2, 0.8, n)
    rest = np.stack([share, 1 - share], axis=1)
    chance = c - SLOPE[model] * (c - 0.5)
    forecast = np.column_stack([c, (1 - c)[:, None] * rest])
    law = np.column_stack([chance, (1 - chance)[:, None] * rest])
    sharper = np.column_stack([0.5 * (1 + c), 0.5 * (1 - c)[:, None] * rest])
    turn = rng.integers(0, 3, n)
    order = (np.arange(3)[None, :] + turn[:, None]) % 3
    return tuple(np.take_along_axis(p, order, axis=1) for p in (forecast, law, sharper))  # type: ignore[return-value]


def draw_classes(law: Floats, rng: np.random.Generator) -> Ints:
    """Draw one label per row."""
    return np.asarray((np.cumsum(law, axis=1) <= rng.random(len(law))[:, None]).sum(axis=1).clip(0, 2))


@lru_cache(maxsize=4)
def truths(model: str, n: int = 1_000_000) -> dict[str, float]:
    """Return the population value of every metric and of every paired difference."""
    forecast, law, sharper = draw(model, n, np.random.default_rng(12345))
    top = forecast.argmax(axis=1)
    rows = np.arange(n)
    score, chance = forecast[rows, top], law[rows, top]
    order = np.argsort(score)
    s, d = score[order], (chance - score)[order]
    width = np.clip(np.ceil((score - 2.0**-24) * 15) - 1, 0, 14).astype(int)
    gap, share = np.bincount(width, chance - score, 15) / n, np.bincount(width, minlength=15) / n
    mass = np.bincount(np.arange(n) * 15 // n, d, 15) / n
    found = {
        "ks": float(np.abs(np.cumsum(d)).max() / n),
        "ece": float(np.abs(gap).sum()),
        "tce": float(np.sqrt((gap**2 / np.where(share > 0, share, 1)).sum())),
        "tce, debiased": float(np.sqrt((mass**2 * 15).sum())),
        "mmce": float(np.sqrt(max(float(laplace_sum(s, d, 0.4)), 0.0)) / n),
        "accuracy": float(chance.mean()),
        "accuracy, difference": 0.0,
    }
    for name in ("brier", "nll", "spherical", "rps"):
        before, after = (_expected(name, p, law) for p in (forecast, sharper))
        found |= {name: before, f"{name}, difference": before - after}
    return found


def _expected(name: str, forecast: Floats, law: Floats) -> float:
    rule = as_score(name, "coverage")
    return float(np.mean(rule.expected_score(forecast, law)))


def coverage(
    *,
    sizes: Iterable[int] = SIZES,
    models: Iterable[str] = MODELS,
    repeats: int = 1000,
    tests: bool = True,
    parts: int = 4,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Simulate how often every offered interval covers the truth, and how often every test rejects.

    Parameters
    ----------
    sizes : iterable of int, default 300, 1000, 10,000
        Rows of a sample.
    models : iterable of str
        ``calibrated``, ``mild``, ``strong``.
    repeats : int, default 1000
        Samples of each cell (a quarter of them at 10,000 rows).
    tests : bool, default True
        Also count rejections at the 5% level.
    parts : int, default 4
        Into how many cells the repeats are cut.
    seed, folder, jobs, progress
        As in `run_study`.

    Returns
    -------
    StudyResult
        Rows: what (interval or test), name, model, n, samples, and rate: coverage in percent, or rejections in percent,
        with the fraction of truths below and above the interval and its mean width.
    """
    cells: list[Cell] = [
        {
            "model": model,
            "n": int(n),
            "part": part,
            "tests": tests,
            "repeats": max(1, (repeats // 4 if n >= 10_000 else repeats) // parts),
        }
        for n in sizes
        for model in models
        for part in range(parts)
    ]
    study = Study("coverage", _one_cell, tuple(cells), {}, seed)
    rows = _collect(run_study(study, folder=folder, jobs=jobs, progress=progress))
    return StudyResult("coverage", tuple(rows), _finding(rows), _curves(rows))


def _one_cell(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:  # noqa: ARG001
    truth = truths(cell["model"])
    recipes: dict[str, tuple[Any, Recipe]] = {
        name: (lookup(spec.partition(":")[0]), build(spec)) for name, spec in INTERVALS.items()
    }
    sums: dict[tuple[str, str], Floats] = {}

    def add(kind: str, name: str, *values: float) -> None:
        sums[kind, name] = sums.get((kind, name), np.zeros(5)) + np.array([1.0, *values, *([0.0] * (4 - len(values)))])

    for _ in range(cell["repeats"]):
        p, law, sharper = draw(cell["model"], cell["n"], rng)
        y = draw_classes(law, rng)
        forecast = check_forecast(y, p, caller="coverage")
        for name, (measure, recipe) in recipes.items():
            found = offered_interval(
                measure, recipe, forecast, level=LEVEL, n_resamples=1000, groups=None, rng=rng, method="auto"
            )
            if found is not None:
                _cover(add, name, truth[name], found.low, found.high)
        paired = compare(y, p, sharper, metrics=PAIRED)
        for name in PAIRED:
            span = paired[name].interval
            if span is not None:
                _cover(add, f"{name}, difference", truth[f"{name}, difference"], span.low, span.high)
        if cell["tests"]:
            for name, pvalue in _pvalues(y, p, cell, truth, rng).items():
                add("test", name, float(pvalue <= 0.05))
    return [
        {
            "what": kind,
            "name": name,
            "model": cell["model"],
            "n": cell["n"],
            **dict(zip(("samples", "hits", "below", "above", "width"), values.tolist(), strict=True)),
        }
        for (kind, name), values in sums.items()
    ]


def _cover(add: Any, name: str, truth: float, low: float, high: float) -> None:
    below, above = truth < low - 1e-12, truth > high + 1e-12
    add("interval", name, float(not (below or above)), float(below), float(above), high - low)


def _pvalues(y: Ints, p: Floats, cell: Cell, truth: dict[str, float], rng: np.random.Generator) -> dict[str, float]:
    """Return the p-value of every test; of many tests at once the smallest corrected one."""
    found = {
        name: run_test(y, p, method=name, n_resamples=RESAMPLES, rng=rng).pvalue
        for name in ("ks", "hosmer-lemeshow", "spiegelhalter")
    }
    if cell["n"] <= KERNEL_ROWS:
        found["skce"] = run_test(y, p, method="skce", n_resamples=RESAMPLES, rng=rng).pvalue
    found["resampling of ece"] = run_test(
        y, p, method="resampling", metric="ece", n_resamples=RESAMPLES, rng=rng
    ).pvalue
    found["classwise"] = min(t.pvalue for t in classwise_tests(y, p, n_resamples=RESAMPLES, rng=rng).values())
    slices = np.arange(len(y)) % 3
    found["sliced"] = min(t.pvalue for t in sliced_tests(y, p, slices, n_resamples=RESAMPLES, rng=rng).values())
    # its hypothesis is "the error is at least epsilon": true (at the border) for epsilon = the true error
    epsilon = truth["ks"] if cell["model"] != "calibrated" else 0.03
    found["equivalence"] = 0.0 if _upper(y, p, rng) < epsilon else 1.0
    return found | _peer_pvalues(y, p)


def _peer_pvalues(y: Ints, p: Floats) -> dict[str, float]:
    """Return the p-values of another library's tests on the same top-label pairs, if it is installed."""
    try:
        from mapie.metrics import calibration as peer
    except ImportError:
        return {}
    hit, score = (p.argmax(axis=1) == y).astype(int), p.max(axis=1)
    tests = {"ks": "kolmogorov_smirnov", "kuiper": "kuiper", "spiegelhalter": "spiegelhalter"}
    return {f"MAPIE {name}": float(getattr(peer, f"{test}_p_value")(hit, score)) for name, test in tests.items()}


def _upper(y: Ints, p: Floats, rng: np.random.Generator) -> float:
    """Return the upper limit whose fall below epsilon is a p-value of at most 0.05 in `equivalence_test`."""
    forecast = check_forecast(y, p, caller="coverage")
    found = offered_interval(lookup("ks"), build("ks"), forecast, level=0.9, rng=rng)
    return 1.0 if found is None else found.high


def is_size(row: Row) -> bool:
    """Whether the test's hypothesis is true for this row's model, so that rejections are errors."""
    return bool(row["what"] == "test" and ((row["name"] == "equivalence") != (row["model"] == "calibrated")))


def _collect(found: list[Row]) -> list[Row]:
    sums: dict[tuple[Any, ...], Floats] = {}
    for row in found:
        key = (row["what"], row["name"], row["model"], row["n"])
        values = np.array([row[k] for k in ("samples", "hits", "below", "above", "width")])
        sums[key] = sums.get(key, np.zeros(5)) + values
    rows = []
    for (what, name, model, n), (samples, hits, below, above, width) in sums.items():
        line: Row = {"what": what, "name": name, "model": model, "n": n, "samples": int(samples)}
        line["rate"] = round(float(100 * hits / samples), 2)
        if what == "interval":
            line |= {
                "below": round(float(100 * below / samples), 2),
                "above": round(float(100 * above / samples), 2),
                "width": float(width / samples),
            }
        else:
            line["means"] = "size" if is_size(line) else "power"
        rows.append(line)
    return sorted(rows, key=lambda r: (r["what"], r["name"], MODELS.index(r["model"]), r["n"]))


def _finding(rows: list[Row]) -> str:
    spans = [row for row in rows if row["what"] == "interval"]
    sizes = [row for row in rows if is_size(row)]
    worst = min(spans, key=lambda row: row["rate"])
    text = (
        f"Nominal 95%: the lowest coverage is {worst['rate']:.1f}% "
        f"({worst['name']}, {worst['model']}, n = {worst['n']}); "
        f"{sum(row['rate'] >= 92 for row in spans)} of {len(spans)} cells reach 92%."
    )
    if sizes:
        largest = max(sizes, key=lambda row: row["rate"])
        text += f" The largest size of a 5% test is {largest['rate']:.1f}% ({largest['name']}, n = {largest['n']})."
    return text


def _curves(rows: list[Row]) -> dict[str, dict[str, list[float]]]:
    curves: dict[str, dict[str, list[float]]] = {}
    for model in MODELS:
        mine = [row for row in rows if row["what"] == "interval" and row["model"] == model]
        if mine:
            panel: dict[str, list[float]] = {"n": sorted({float(row["n"]) for row in mine})}
            for name in dict.fromkeys(row["name"] for row in mine):
                values = [row["rate"] for row in mine if row["name"] == name]
                if len(values) == len(panel["n"]):
                    panel[name] = values
            curves[f"coverage in %, {model}"] = panel
    return curves
