"""Importance weights count by their relative sizes alone, in every metric that takes them."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import calibrant
from calibrant import metrics
from calibrant.core.declare import declared
from calibrant.errors import InputError
from calibrant.metrics.regression.kernel import check_lengths, expected_terms, row_points

RNG = np.random.default_rng(16)
N = 12
W = RNG.random(N) + 0.05
P = RNG.dirichlet([1, 1, 1], N)
COLUMNS = {
    "classes": (RNG.integers(3, size=N), P),
    "regression": (RNG.normal(size=N), RNG.normal(size=N), RNG.uniform(0.5, 2, N)),
}
#: They leave a row out of its own estimate, which importance weights cannot say.
COUNTS = {("classes", "skce"), ("classes", "ce-kde")}


@pytest.mark.parametrize(
    ("task", "name"), [(task, metric.name) for task in COLUMNS for metric in declared(task)], ids=str
)
def test_a_factor_changes_nothing(task, name):
    def value(w):
        return calibrant.metric(name, *COLUMNS[task], task=task, sample_weight=w)

    if (task, name) in COUNTS:
        with pytest.raises(InputError, match="whole numbers"):
            value(W)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = value(W)
        for factor in (1e-300, 1e-3, 0.1, 1e3 / 7, 1e300):
            assert value(W * factor) == pytest.approx(first, rel=1e-9, abs=1e-12), factor


@pytest.mark.parametrize(
    ("task", "name"), [(task, metric.name) for task in COLUMNS for metric in declared(task)], ids=str
)
@pytest.mark.parametrize("size", [0.001, 0.1, 1e300])
def test_equal_weights_are_none(task, name, size):
    if (task, name) not in COUNTS:
        options = {"n_bins": 3} if name in ("ace", "tace", "ence", "vce") else {}
        values = [
            calibrant.metric(name, *COLUMNS[task], task=task, sample_weight=w, **options)
            for w in (None, np.full(N, size))
        ]
        assert values[1] == pytest.approx(values[0], rel=1e-9, abs=1e-12)


def test_one_hit_has_no_spread():
    y, p = (
        [1, 0, 1, 0],
        np.array([[0.7536923, 0.2463077], [0.1, 0.9], [0.08218695, 0.91781305], [0.48421425, 0.51578575]]),
    )
    plain = metrics.kde(y, p, norm=2.0)
    assert metrics.kde(y, p, norm=2.0, sample_weight=np.full(4, 1e-300)) == pytest.approx(plain, rel=1e-9)
    assert metrics.kde(y, p, norm=2.0, sample_weight=np.full(4, 0.3)) == pytest.approx(plain, rel=1e-9)


def test_the_kernel_error_of_importance_weights_is_the_mean_over_pairs():
    from calibrant.core.rows import check_rows

    y, mean, variance = COLUMNS["regression"]
    points = row_points(check_rows(y, mean, variance, caller="test"))
    lengths = check_lengths("median", points, "test")
    table = np.array([[expected_terms(points.part(slice(i, i + 1)), points.part(slice(j, j + 1)), 0.0, 0.0, lengths)[0]
                       for j in range(N)] for i in range(N)])  # fmt: skip
    pairs = [(i, j) for i, j in itertools.product(range(N), repeat=2) if i != j]
    expected = sum(W[i] * W[j] * table[i, j] for i, j in pairs) / sum(W[i] * W[j] for i, j in pairs)
    assert metrics.skce_normal(y, mean, variance, sample_weight=W) == pytest.approx(expected, rel=1e-9)
