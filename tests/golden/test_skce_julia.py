"""SKCE against the values printed in the documentation of the Julia reference.

CalibrationErrors.jl, page "Classification of penguin species": naive Bayes on two measurements of 333 penguins (Palmer
Station LTER, CC0), a random 70 % for training. Two builds of the page are reproduced: Julia 1.6.1, July 2021
(independent normal laws, maximum likelihood), and Julia 1.10.0, v0.6.4, 2024 (normal laws with full covariance).
The columns train_2021 and train_2024 hold the splits that ``Random.seed!(100); shuffle!(…)`` gave in those versions
(dSFMT and Xoshiro256++), recomputed from the published generators; the printed log-likelihoods prove them right.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from calibrant.metrics import brier_score, log_score
from calibrant.metrics import squared_kernel_calibration_error as skce

SPECIES = ("Adelie", "Chinstrap", "Gentoo")


def penguins(split):
    with (Path(__file__).parent / "penguins.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    x = np.array([[float(row["bill_length_mm"]), float(row["flipper_length_mm"])] for row in rows])
    y = np.array([SPECIES.index(row["species"]) for row in rows])
    return x, y, np.array([row[split] == "1" for row in rows])


def naive_bayes(x, y, train, independent):
    """Class probabilities of every row from normal laws fitted to the training rows."""
    logits = []
    for k in range(3):
        own = x[train & (y == k)]
        cov = np.diag(own.var(axis=0)) if independent else np.cov(own.T)
        gap = x - own.mean(axis=0)
        distance = np.einsum("ij,jk,ik->i", gap, np.linalg.inv(cov), gap)
        logits.append(np.log(len(own) / train.sum()) - 0.5 * distance - 0.5 * np.log(np.linalg.det(cov)))
    z = np.exp(np.stack(logits, 1) - np.max(logits, axis=0)[:, None])
    return z / z.sum(axis=1, keepdims=True)


def median_distance(p):
    return np.median(np.linalg.norm(p[:, None] - p[None], axis=-1)[np.triu_indices(len(p), 1)])


@pytest.mark.parametrize(
    ("split", "independent", "part", "printed"),
    [
        (
            "train_2021",
            True,
            "train",
            (
                -0.16058604043768188,
                0.08706532529022006,
                0.00016588937409555026,
                -0.00020867716002565199,
                0.0055413100343273975,
            ),
        ),
        (
            "train_2021",
            True,
            "val",
            (
                -0.15222956008152239,
                0.07996618801228182,
                0.00015800704078239178,
                -0.0006481362013539627,
                0.0164687415259268,
            ),
        ),
        (
            "train_2024",
            False,
            "val",
            (
                -0.12188703745583586,
                0.07385286949971775,
                0.0007888007181424227,
                5.0779821358820946e-5,
                0.01903306352441053,
            ),
        ),
    ],
)
def test_values_printed_in_the_documentation(split, independent, part, printed):
    x, y, train = penguins(split)
    p = naive_bayes(x, y, train, independent)
    rows = train if part == "train" else ~train
    how = {"kernel": "gaussian", "gamma": median_distance(p[train])}
    ours = (
        -log_score(y[rows], p[rows]),
        brier_score(y[rows], p[rows]),
        skce(y[rows], p[rows], estimator="biased", **how),
        skce(y[rows], p[rows], **how),
        skce(y[rows], p[rows], estimator="block", block_size=2, **how),
    )
    assert ours == pytest.approx(printed, rel=1e-9, abs=1e-12)


def test_median_heuristic_is_theirs():
    x, y, train = penguins("train_2021")
    p, labels = naive_bayes(x, y, train, independent=True)[train], y[train]
    by_name = skce(labels, p, kernel="gaussian", estimator="biased")
    assert by_name == pytest.approx(0.00016588937409555026, rel=1e-9)
