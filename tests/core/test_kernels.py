"""Compiled kernels, called directly: every number they return is that of a line of NumPy.

What they serve is tested on both paths elsewhere (`test_fast`), but a fit or a p-value may forgive a wrong number.
"""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.resampling import SharedOrder, hits_of_bins
from calibrant.core.tables import Table
from calibrant.engines.tape import _OPS

pytest.importorskip("numba", reason="numba is absent (extra: fast)")

NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "greater": np.greater,
    "not_less": np.greater_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "exp": lambda a, _: np.exp(a),
    "log": lambda a, _: np.log(a),
    "sqrt": lambda a, _: np.sqrt(a),
    "equal": np.equal,
}


def compiled(name):
    from calibrant._compiled import compiled

    return compiled(name)


@pytest.mark.parametrize("slots", [np.zeros(0, dtype=np.int64), np.arange(700) % 3])
@pytest.mark.parametrize("op", _OPS)
def test_every_instruction_of_the_tape(op, slots):
    rng = np.random.default_rng(1)
    columns = rng.integers(1, 9, (3, 700)) / 4.0  # many are equal
    columns[2] = np.arange(700) % 2
    if op == "where":
        line, expected = [2, 0, 1], np.where(columns[2] > 0, columns[0], columns[1])
    else:
        line, expected = [0, 1, 1], NUMPY[op](columns[0], columns[1])
    code, sums = np.array([[_OPS.index(op), 3, *line]]), np.zeros((3 if len(slots) else 1, 2))
    compiled("tape_pass")(code, columns, np.zeros((4, 512)), np.array([3, 0]), slots, sums)
    for column, values in enumerate((expected, columns[0])):
        places = slots if len(slots) else np.zeros(700, dtype=np.int64)
        np.testing.assert_allclose(sums[:, column], np.bincount(places, values), rtol=1e-13)


def test_loss_and_slopes_of_a_scale_for_each_class():
    rng = np.random.default_rng(2)
    x, theta, share = rng.normal(size=(60, 4)) * 3, rng.normal(size=(2, 4)), rng.random(60)
    codes, q, slopes = rng.integers(0, 4, 60), np.empty((60, 4)), np.zeros((2, 4))
    loss = compiled("vector_pass")(x, codes, share, theta, q, slopes)
    p = np.exp(theta[0] * x + theta[1])
    p /= p.sum(axis=1, keepdims=True)
    assert loss == pytest.approx(-share @ np.log(p[np.arange(60), codes]), rel=1e-12)
    np.testing.assert_allclose(q, p, rtol=1e-12)
    off = p - np.eye(4)[codes]
    np.testing.assert_allclose(slopes, [share @ (off * x), share @ off], rtol=1e-11, atol=1e-13)


def test_loss_and_probabilities_of_logits():
    rng = np.random.default_rng(3)
    z, share, codes = rng.normal(size=(60, 5)) * 3, rng.random(60), rng.integers(0, 5, 60)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert compiled("softmax_pass")(z, codes, share) == pytest.approx(
        -share @ np.log(p[np.arange(60), codes]), rel=1e-12
    )
    np.testing.assert_allclose(z, p, rtol=1e-12)


def some_rows(n: int) -> Table:
    rng = np.random.default_rng(n)
    score = np.sort(rng.uniform(0.0, 1.0, 90))
    count = 1.0 + rng.multinomial(n, np.full(90, 1 / 90))
    we, wt = count * score, rng.binomial(count.astype(int), score).astype(float)
    return Table(1200, np.arange(90), count, count, we, wt, we, count)


@pytest.mark.parametrize("n", [200, 20_000])
def test_a_walk_comes_to_what_its_residuals_do(n):
    rng = np.random.default_rng(4)
    rows, order, weights = some_rows(n), SharedOrder(100, 300, rng), rng.normal(size=(3, 90))
    weights[2] = np.where(np.arange(90) % 9 == 8, rng.random(90), -1.0)  # ten groups of nine rows
    found = order.walk(compiled("walk_pass"), rows, np.random.default_rng(1), weights)
    steps = order.residuals(rows, np.random.default_rng(1), np.empty((100, 301)))
    groups = np.add.reduceat(steps, np.arange(0, 90, 9), axis=1) ** 2 @ weights[2, 8::9]
    paths = steps.cumsum(axis=1)
    expected = [np.abs(paths).max(axis=1), paths[:, -1], steps @ weights[0], steps @ weights[1], groups]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [200, 20_000])
def test_hits_of_bins_are_drawn_alike(monkeypatch, n):
    drawn = []
    for wish in "01":
        monkeypatch.setenv("CALIBRANT_FAST", wish)
        drawn.append(hits_of_bins(some_rows(n), np.arange(0, 90, 30))(400, np.random.default_rng(1)))
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("scale", [2.0, 60.0])
@pytest.mark.parametrize("near", [-1.0, np.inf])  # distances are taken as they are, or made anew
def test_sums_over_pairs_by_distance(near, scale):
    rng = np.random.default_rng(5)
    a, b, product = rng.random((7, 3)), rng.random((9, 3)), rng.normal(size=(7, 9))
    square = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    expected = (product * np.exp(-scale * np.sqrt(square))).sum()
    given = square if near < 0 else np.zeros((7, 9))
    assert compiled("tile_pass")(a, b, given, product, scale, near, 0.0) == pytest.approx(expected, rel=1e-12)
