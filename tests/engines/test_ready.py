"""Rows made ready by one loop count as the engine's own expressions say, and slices are found without a join."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from calibrant.engines import dense, frame_rows
from calibrant.engines.frames import summarize
from calibrant.engines.ready import Plain
from helpers import where_installed

N = 3000


def columns(kind, dtype):
    """Rows of every kind of trouble: nothing there, not a number, outside, no class, ties, weights of any kind."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3, 0.4), N).astype(dtype)
    p[::53, 0], p[::59, 1], p[::61], p[::67] = np.nan, 1.5, [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]
    p[::71, 2] -= dtype(3e-5)  # within the tolerance of single precision alone
    p[::83] *= dtype(0.98)  # every number is fine, their sum is not
    p[::89, 0] = 1.005
    label, slices = rng.integers(-1, 4, N), rng.integers(0, 4, N)
    if kind == "pairs":
        return {"confidence": p[:, 0], "correct": label == 1, "g": slices}
    if kind == "binary":
        return {"score": p[:, 0], "label": rng.integers(0, 3, N), "g": slices}
    held = {f"p_{k}": p[:, k] for k in range(3)} | {"label": label, "g": slices}
    if kind == "weighted":
        held["weight"] = rng.integers(0, 3, N) + np.where(np.arange(N) % 73, 0.0, -5.0)
    return held


def to_frame(held, engine):
    frame = pl.DataFrame(held, nan_to_null=False)
    frame = frame.with_columns(pl.when(pl.int_range(N) % 79 > 0).then(pl.col(frame.columns[0])))  # NULL beside NaN
    if engine == "polars":
        return frame.lazy()
    import duckdb

    connection = duckdb.connect()
    connection.register("rows", frame.to_arrow())
    return connection.table("rows")


@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["wide", "weighted", "binary", "pairs"])
@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
def test_one_loop_says_what_expressions_say(monkeypatch, engine, kind, dtype, by):
    held = columns(kind, dtype)
    asked, real = [], frame_rows.plain
    monkeypatch.setattr(frame_rows, "plain", lambda *given: asked.append(real(*given)) or asked[-1])
    ready = summarize(to_frame(held, engine), by=by, views=["top-1"] if kind == "pairs" else ["top-1", "classwise"])
    assert asked[0] is not None
    monkeypatch.setattr(frame_rows, "plain", lambda *_: None)
    slow = summarize(to_frame(held, engine), by=by, views=ready.whole.views)
    assert ready.rejected == slow.rejected
    assert sum(ready.rejected.values()) > 80
    assert set(ready.parts) == set(slow.parts)
    for key, one, other in [((), ready.whole, slow.whole), *((k, ready.parts[k], slow.parts[k]) for k in slow.parts)]:
        assert (one.n, one.rejected) == (other.n, other.rejected), key
        for view in other.views:
            for mine, theirs in zip(one.tables(view), other.tables(view), strict=True):
                np.testing.assert_array_equal(mine.key, theirs.key)
                np.testing.assert_array_equal(mine.n, theirs.n)
                for name in ("w", "ws", "wt", "w2"):
                    np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-12, atol=1e-12)
        for name in other.sums:
            np.testing.assert_allclose(tuple(one.sums[name]), tuple(other.sums[name]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", ["wide", "weighted", "binary"])
def test_the_top_label_alone_is_made_where_no_more_is_asked(monkeypatch, kind, clean):
    held, made, real = columns(kind, np.float32), [], Plain._ready
    if clean:
        p = np.random.default_rng(3).dirichlet(np.ones(3), N).astype(np.float32)
        p[::61] = [0.5, 0.5, 0.0]
        p[::71, 2] -= np.float32(3e-5)  # within the tolerance, a hair below 0 for some
        scores = {"score": p[:, 0]} if kind == "binary" else {f"p_{k}": p[:, k] for k in range(3)}
        held |= scores | {"label": np.arange(N) % 2}
        held |= {"weight": np.arange(N) % 3} if kind == "weighted" else {}
    monkeypatch.setattr(Plain, "_ready", lambda *given: made.append(real(*given)) or made[-1])

    def found(plain):
        monkeypatch.setattr(frame_rows, "plain", plain)
        frame = pl.DataFrame(held, nan_to_null=False).lazy()
        return summarize(frame, views=["top-1"], need=lambda summary: (summary.views, ())).whole

    ready, slow = found(frame_rows.plain), found(lambda *_: None)
    assert {len(rows) for rows, _ in made} == {6 if kind == "weighted" else 2}  # weights are summed with the scores
    assert all((good is None) == clean for _, good in made)
    assert (ready.n, ready.rejected) == (slow.n, slow.rejected)
    for mine, theirs in zip(ready.tables(ready.views[0]), slow.tables(slow.views[0]), strict=True):
        np.testing.assert_array_equal(mine.key, theirs.key)
        for name in ("n", "w", "ws", "wt"):
            np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("row", "label"),
    [([0.2, 0.3, 0.5], 2.0), ([-0.1, 0.6, 0.5], 0.0), ([1.1, -1e-7, -0.1], 0.0), ([0.2, 0.3, 0.4], 0.0),
     ([np.nan, 0.5, 0.5], 0.0), ([0.2, 0.3, 0.5], 3.0), ([0.2, 0.3, 0.5], -1.0), ([0.2, 0.3, 0.5], 0.5),
     ([0.2, 0.3, 0.5], np.nan)],
)  # fmt: skip
def test_one_bad_row_of_a_batch_is_found(row, label):
    p, y = np.tile([[0.2], [0.3], [0.5]], 50), np.zeros(50)
    p[:, 7], y[7] = row, label
    rows, good = Plain(None, None, 3, 1e-6)._ready(p, y, False)
    if label == 2.0:  # nothing is wrong with it
        assert (good, rows.shape) == (None, (6, 50))
    else:
        assert np.flatnonzero(~good).tolist() == [7]
        assert rows.shape == (6, 49)


def values(kind):
    rng = np.random.default_rng(1)
    number = rng.integers(0, 5, 400)
    first = {
        "numbers": pl.Series(number - 2, dtype=pl.Int16),
        "far apart": pl.Series(number * 2**40),
        "words": pl.Series([None if i == 3 else f"m{i}" for i in number]),
        "days": pl.Series([dt.date(2026, 11, 1) + dt.timedelta(int(i)) for i in number]),
        "half": pl.Series(number / 2),
    }[kind]
    return pl.DataFrame({"a": first, "b": pl.Series(rng.random(400) < 0.5)})


@pytest.mark.parametrize("kind", ["numbers", "far apart", "words", "days", "half"])
def test_slices_keep_their_numbers_from_batch_to_batch(kind):
    frame, slices = values(kind), dense.SliceCells(None, ("a", "b"))
    looked_up = dense._looked_up(frame, frame.clear())
    assert (looked_up is None) == (kind in ("far apart", "half"))
    numbers = [slices.slots(frame[start : start + 100]) for start in range(0, 400, 100)]
    assert slices.known[np.concatenate(numbers)].equals(frame, null_equal=True)
    assert slices.known.height == frame.n_unique() == 10
