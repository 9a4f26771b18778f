"""The twelve rows of docs/edge-cases.md, as promised there."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calibrant
from calibrant.core.tables import width_index
from calibrant.errors import InputError
from calibrant.inference.intervals import interval
from helpers import ROOT

HALF = [[0.5, 0.5]] * 3


def ece(y, p, **more):
    return calibrant.metric("ece", y, p, **more)


def test_1_nan():
    with pytest.raises(InputError, match="row 1"):
        ece([0, 1, 1], [[0.5, 0.5], [np.nan, 0.5], [0.5, 0.5]])


def test_2_rounding_of_float32():
    p = np.array([[1.0000002, 0.0], [0.5, 0.5]], dtype=np.float32)
    assert ece([0, 1], p) == pytest.approx(0.25)


def test_3_beyond_rounding():
    with pytest.raises(InputError, match=r"1\.01 at row 0"):
        ece([0, 1], [[1.01, -0.01], [0.5, 0.5]])


def test_4_and_5_one_and_zero():
    assert width_index(np.array([1.0, 0.0]), 15).tolist() == [14, 0]
    assert calibrant.metric("sce", [0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_6_decimals_on_edges(dtype):
    assert width_index(np.array([0.3, 0.6, 0.7], dtype=dtype), 10).tolist() == [2, 5, 6]


def test_7_two_labels_out_of_four():
    p = np.full((4, 4), 0.25)
    assert calibrant.evaluate([0, 1, 0, 1], p, n_resamples=0).n_classes == 4
    assert calibrant.metric("cwce", [0, 1, 0, 1], p, norm=1) == pytest.approx(1.0)


def test_8_logits_are_told():
    with pytest.raises(InputError, match="space='logit'"):
        ece([0, 1], [[3.0, -1.0], [0.5, 0.5]])


def test_9_rounded_rows():
    with pytest.raises(InputError, match="normalize=True"):
        ece([0, 1], [[0.33, 0.66], [0.5, 0.5]])
    assert ece([0, 1], [[0.33, 0.66], [0.5, 0.5]], normalize=True) > 0


def test_10_zero_on_the_truth():
    assert calibrant.metric("nll", [0, 1], [[0.0, 1.0], [0.5, 0.5]]) == math.inf
    with pytest.raises(InputError, match="percentile"):
        interval("nll", [1] * 30 + [0] * 10, [0.7] * 39 + [0.0])
    assert interval("nll", [1] * 30 + [0] * 10, [0.7] * 39 + [0.1]).low > 0


def test_11_ties():
    assert calibrant.metric("accuracy", [0, 0, 0], HALF) == 1.0
    assert calibrant.metric("accuracy", [1, 1, 1], HALF) == 0.0


def test_12_weights_are_frequencies():
    p, y = np.array([0.9, 0.6, 0.3]), np.array([1, 0, 0])
    w = np.array([3, 1, 2])
    rows = np.repeat(np.arange(3), w)
    assert ece(y, p, sample_weight=w) == pytest.approx(ece(y[rows], p[rows]))


def test_the_page_has_these_twelve_rows():
    page = (ROOT / "docs" / "edge-cases.md").read_text(encoding="utf-8")
    assert [
        line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()
    ] == [str(i) for i in range(1, 13)]
