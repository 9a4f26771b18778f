"""A score that would be infinite for a class called impossible has no interval; its value stays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from calibrant import Summary, compare, evaluate, report
from calibrant.core.declare import declare, lookup, withdraw
from calibrant.engines.frames import summarize
from calibrant.errors import InputError
from calibrant.inference.evaluation import evaluate_evidence
from calibrant.inference.intervals import interval
from calibrant.metrics.recipes import MeanScore

WHY = "7 rows give probability 0 to a class that may still happen: no interval of nll"


def draw(zeros: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 400)
    p[:zeros, 2] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    return (rng.random((400, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1), p


def frame(y: np.ndarray, **forecasts: np.ndarray) -> pl.DataFrame:
    columns = {f"{name}_{k}": p[:, k] for name, p in forecasts.items() for k in range(p.shape[1])}
    return pl.DataFrame({"label": y, **columns})


def check(found, interval_too: bool = False) -> None:
    assert (found["nll"].interval is not None) == interval_too
    assert math.isfinite(found["nll"].value)
    assert found["brier"].interval is not None
    assert any(WHY in note for note in found.notes) != interval_too


def test_rows_have_no_interval():
    y, p = draw()
    found = evaluate(y, p, rng=0)
    check(found)
    assert found["nll"].pvalue is not None  # under calibration what is impossible never comes
    assert WHY in str(found)
    assert WHY in found.to_text()
    check(evaluate(*draw(0), rng=0), interval_too=True)
    check(evaluate(y, p, groups=np.arange(400) // 4, rng=0))
    with pytest.raises(InputError, match="percentile"):
        interval("nll", y, p)


def test_polars_and_merged_summaries_count_the_same_rows():
    y, p = draw()
    whole = summarize(frame(y, p=p)).whole
    parts = summarize(frame(y[:5], p=p[:5])).whole + summarize(frame(y[5:], p=p[5:])).whole
    for found in (whole, parts, Summary(3).update(y, p)):
        one = Summary.from_bytes(found.to_bytes())
        assert {name for name, sums in one.sums.items() if sums.zeros} == {"nll"}
        check(evaluate_evidence(one, metrics=["nll", "brier"], rng=0))
    check(evaluate_evidence(summarize(frame(draw(0)[0], p=draw(0)[1])).whole, rng=0), interval_too=True)


def test_own_scores_of_top_label_pairs():
    """A score of confidence and hit is infinite for a sure miss, in rows, summaries and frames."""
    own = MeanScore(lambda graph: 0.0 - graph.log(graph.p), pairs_suffice=True)
    declare(replace(lookup("nll"), name="own", function="", title="Own", recipe=own))
    y, s = np.arange(200) % 2 == 0, np.full(200, 0.6)
    y[:3], s[:3] = True, 1.0
    try:
        for one in (Summary(pairs=True).update(y, s), summarize(pl.DataFrame({"correct": y, "confidence": s})).whole):
            assert one.sums["own"].zeros == 3
    finally:
        withdraw("own")


def test_weights_and_logits():
    y, p = draw()
    weights = np.where(np.arange(400) < 7, 0.0, 1.0)  # rows of weight 0 are absent
    check(evaluate(y, p, sample_weight=weights, rng=0), interval_too=True)
    logits = np.log(np.maximum(p, 1e-300))  # what is tiny but not 0 has a finite score
    assert evaluate(y, logits, space="logit", rng=0)["nll"].interval is not None


def test_slices_and_the_page():
    y, p = draw()
    site = np.where(np.arange(400) < 200, "a", "b")
    table = frame(y, p=p).with_columns(pl.Series("site", site))
    for found in (evaluate(table, by="site", rng=0), summarize(table, by=["site"]).evaluate(rng=0)):
        shown = {part.by["site"]: part.evaluation["nll"].interval is not None for part in found.slices}
        assert shown == {"a": False, "b": True}
    assert WHY in report(y, p, compare_methods=False, n_resamples=50, rng=0).html


@pytest.mark.parametrize("swap", [False, True])
def test_compare_of_rows_and_of_an_engine(swap, tmp_path):
    y, p = draw()
    q = 0.9 * p + 0.1 / 3
    pair = (q, p) if swap else (p, q)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, one in zip(paths, pair, strict=True):
        frame(y, p=one).with_columns(pl.Series("id", np.arange(400))).write_parquet(path)
    engine = compare(str(paths[0]), str(paths[1]), key="id", engine="polars")
    for found in (compare(y, *pair), engine):
        assert (found["nll"].interval, found["nll"].pvalue) == (None, None)
        assert math.isfinite(found["nll"].change)
        assert found["brier"].interval is not None
        assert WHY in found.notes
    assert compare(y, q, 0.8 * p + 0.2 / 3)["nll"].interval is not None
