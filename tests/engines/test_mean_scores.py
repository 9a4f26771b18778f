"""Rows, summaries and engines agree on value, interval and p-value of every mean score; old and damaged bytes."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib

import numpy as np
import pytest
from scipy.stats import binom

from calibrant import Summary
from calibrant.core.inputs import check_forecast, check_pairs
from calibrant.core.moments import NullMoments, mean_ends, mean_moments
from calibrant.core.row_scores import infinite_at_zero
from calibrant.engines.frames import summarize
from calibrant.errors import FileError, InputError
from calibrant.metrics.recipes import ScoreSums
from calibrant.summary.codec import _HEAD, MAGIC, SCHEMA
from calibrant.summary.sums import kept_scores


def draw(n, k, seed, sharpness=0.3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, sharpness), n)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return p, y


def _with_zeros():
    p, y = draw(2000, 5, 1)
    weights = np.random.default_rng(5).integers(0, 4, 2000).astype(float)
    p[::7, 0] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    y = np.where(p[np.arange(len(y)), y] > 0, y, p.argmax(axis=1))
    return p, y, weights


def _shifted(n, gap):
    rng = np.random.default_rng(6)
    small = gap * rng.uniform(0.5, 1.5, n)
    p = np.stack([1.0 - small, 0.4 * small, 0.6 * small], axis=1)
    y = np.zeros(n, dtype=int)
    y[:2] = 1
    return p, y, None


def _uniform(n):
    rng = np.random.default_rng(7)
    p = np.full((n, 4), 0.25) + 1e-5 * rng.normal(size=(n, 4))
    p /= p.sum(axis=1, keepdims=True)
    return p, rng.integers(0, 4, n), None


def _constant(n):
    rng = np.random.default_rng(8)
    p = np.tile([0.7, 0.2, 0.1], (n, 1)) + 1e-9 * rng.uniform(size=(n, 1)) * np.array([1.0, -1.0, 0.0])
    return p, rng.choice(3, n, p=[0.7, 0.2, 0.1]), None


CASES = {
    "plain": lambda: (*draw(2000, 4, 0), None),
    "weights and zeros": _with_zeros,
    "two classes": lambda: (*draw(1500, 2, 2), None),
    "nearly certain": lambda: _shifted(3000, 1e-7),
    "nearly uniform": lambda: _uniform(20_000),
    "nearly constant": lambda: _constant(5000),
}


def compare(one, other):
    for name, recipe in kept_scores().items():
        assert one.value(recipe) == pytest.approx(other.value(recipe), rel=1e-9), name
        mine, theirs = one.moments(recipe), other.moments(recipe)
        assert one.zero_rows(recipe) == other.zero_rows(recipe), name
        assert (mine is None) == (theirs is None) == (one.zero_rows(recipe) > 0), name
        if mine is not None:
            assert mean_ends(mine, 0.95) == pytest.approx(mean_ends(theirs, 0.95), rel=1e-9), name
        null, expected = one.null_moments(recipe), other.null_moments(recipe)
        assert (null is None) == (expected is None), name
        if null is not None:
            assert (null.mean, null.error) == pytest.approx((expected.mean, expected.error), rel=1e-9), name
            assert null.pvalue() == pytest.approx(expected.pvalue(), rel=1e-9, abs=1e-300), name


class Rows:
    """A forecast that answers like a summary."""

    def __init__(self, forecast):
        self.moments, self.null_moments = forecast.moments, forecast.null_moments
        self.zero_rows = forecast.zero_rows
        self.value = lambda recipe: recipe.value(forecast)


@pytest.mark.parametrize("case", list(CASES))
def test_engines_agree_with_rows(case, make_frame):
    p, y, weights = CASES[case]()
    columns = {**{f"p_{k}": p[:, k] for k in range(p.shape[1])}, "label": y}
    if weights is not None:
        columns["weight"] = weights
    rows = Rows(check_forecast(y, p, caller="test", sample_weight=weights))
    compare(summarize(make_frame(columns)).whole, rows)


@pytest.mark.parametrize("case", list(CASES))
def test_merged_summaries_agree_with_rows(case):
    p, y, weights = CASES[case]()
    parts = np.array_split(np.arange(len(y)), 7)
    whole = sum(
        Summary(p.shape[1]).update(y[i], p[i], sample_weight=None if weights is None else weights[i]) for i in parts
    )
    compare(whole, Rows(check_forecast(y, p, caller="test", sample_weight=weights)))


def test_logits_agree_even_where_probabilities_vanish(make_frame):
    rng = np.random.default_rng(9)
    z = 400.0 * rng.normal(size=(500, 3))
    y = rng.integers(0, 3, 500)
    found = summarize(make_frame({**{f"logit_{k}": z[:, k] for k in range(3)}, "label": y})).whole
    recipe = kept_scores()["nll"]
    expected = recipe.value(check_forecast(y, z, caller="test", space="logit"))
    assert math.isfinite(expected)
    assert found.value(recipe) == pytest.approx(expected, rel=1e-9)


def test_an_exact_zero_on_the_truth_is_infinite(make_frame):
    columns = {"p_0": [1.0, 0.5], "p_1": [0.0, 0.5], "label": [1, 0]}
    found = summarize(make_frame(columns)).whole
    nll = kept_scores()["nll"]
    assert infinite_at_zero(nll.score)
    assert found.value(nll) == math.inf
    assert found.moments(nll) is None
    assert found.null_moments(nll).pvalue() == 0.0
    assert found.moments(kept_scores()["brier"]) is not None


def test_integer_weights_are_repeated_rows():
    p, y = draw(200, 3, 4)
    weights = np.random.default_rng(4).integers(0, 4, 200)
    again = np.repeat(np.arange(200), weights)
    weighted = Rows(check_forecast(y, p, caller="test", sample_weight=weights))
    compare(weighted, Rows(check_forecast(y[again], p[again], caller="test")))


def test_pairs_have_the_same_moments_as_vectors():
    p, y = draw(300, 3, 4)
    vectors = check_forecast(y, p, caller="test")
    pairs = check_pairs(vectors.hit, vectors.top_score, caller="test")
    for name in ("accuracy", "confidence", "brier@top-1"):
        recipe = kept_scores()[name]
        assert pairs.moments(recipe) == vectors.moments(recipe)
        assert pairs.null_moments(recipe) == vectors.null_moments(recipe)


def test_clusters_are_for_rows():
    p, y = draw(300, 3, 4)
    groups = np.arange(300) // 3
    recipe = kept_scores()["brier"]
    forecast = check_forecast(y, p, caller="test")
    assert forecast.moments(recipe, groups) == mean_moments(recipe.rows(forecast), None, groups)
    with pytest.raises(InputError, match="groups of Summary"):
        Summary(3).update(y, p).moments(recipe, groups)


def test_sums_add_up_like_their_rows():
    rng = np.random.default_rng(0)
    x, w = 5.0 + 1e-4 * rng.exponential(size=1000), rng.integers(0, 3, 1000).astype(float)
    parts = [ScoreSums.of(x[i], w[i]) for i in np.array_split(np.arange(1000), 9)]
    total = sum(parts[1:], parts[0])
    assert total.moments().skewness == pytest.approx(mean_moments(x, w, None).skewness, rel=1e-9)
    gap = x - 5.0
    powers = [float((w * gap**j).sum()) for j in (1, 2, 3)]
    read = ScoreSums.about(5.0, float(w.sum()), powers)
    assert read.moments().skewness == pytest.approx(total.moments().skewness, rel=1e-7)


@pytest.mark.parametrize(("n", "p"), [(50, 0.01), (100, 0.01), (1000, 0.01), (1000, 1e-4), (10_000, 1e-4), (30, 0.499)])
@pytest.mark.parametrize("name", ["brier", "nll", "spherical"])
def test_pvalues_of_rare_events_against_exact_tails(name, n, p):
    """Rare events: at most 10% too small near 0.05; a fair coin over few rows: at most a factor 1.55."""
    recipe = kept_scores()[name]
    checked = 0
    for count in range(n + 1):
        exact = min(1.0, 2.0 * min(binom.sf(count - 1, n, p), binom.cdf(count, n, p)))
        if not 0.008 <= exact <= 0.2:
            continue
        y = np.zeros(n, dtype=int)
        y[:count] = 1
        found = check_forecast(y, np.full(n, p), caller="test").null_moments(recipe).pvalue()
        assert found / exact > (0.9 if p < 0.1 else 0.645)
        assert found / exact < 1.8
        checked += 1
    assert checked


def test_pvalue_where_nothing_can_vary():
    sure = NullMoments(0.5, 0.0, 0.0, 10.0, 0.0)
    assert sure.pvalue() == 1.0
    assert NullMoments(0.5, 0.0, 0.0, 10.0, 0.1).pvalue() == 0.0
    p = np.full((50, 2), 0.5)
    y = np.arange(50) % 2
    assert check_forecast(y, p, caller="test").null_moments(kept_scores()["brier"]).pvalue() == 1.0


# -- bytes --------------------------------------------------------------------------------------------


def _parts(data):
    body = data[_HEAD.size :]
    (size,) = struct.unpack_from("<Q", body)
    return json.loads(body[8 : 8 + size]), body[8 + size :]


def _join(head, arrays):
    text = json.dumps(head).encode()
    body = struct.pack("<Q", len(text)) + text + arrays
    return _HEAD.pack(MAGIC, SCHEMA, len(body), hashlib.sha256(body).digest()) + body


def test_damage_is_one_line():
    p, y = draw(50, 3, 0)
    data = Summary(3, n_bins=[7]).update(y, p).to_bytes()
    head, arrays = _parts(data)
    damaged = [data[:20], data[:-3], b"", b"CALSUM", data[:100] + bytes([data[100] ^ 1]) + data[101:]]
    damaged += [_join({k: v for k, v in head.items() if k != key}, arrays) for key in head]
    damaged += [_join({**head, key: value}, arrays) for key in head for value in (None, [7], {"a": 1}, "x", -1)]
    damaged += [_join(head, arrays[:-4]), _join(head, zlib.compress(b"")), _join(head, zlib.compress(b"0" * 80_000))]
    damaged += [_join([], arrays), _join({**head, "sums": {"brier": ["0x1p0"]}}, arrays)]
    messages = [message for message in map(refusal, damaged) if message is not None]
    assert not [message for message in messages if "\n" in message]
    assert len(messages) >= len(damaged) - 16  # some values, such as classes=None, are what they were


def refusal(data):
    try:
        Summary.from_bytes(data)
    except FileError as error:
        return str(error)
    return None
