"""Other libraries' numbers, stored with version and command, come out of the convention that bears their name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from calibrant import metrics
from calibrant.core.conventions import CONVENTIONS, NAMES, assign, convention
from calibrant.errors import InputError
from calibrant.estimators import Binned
from golden.peer_values import INPUTS, STORE, measure

STORED = json.loads(STORE.read_text(encoding="utf-8"))["rows"]
OURS = {"torchmetrics": "torchmetrics", "netcal": "netcal", "uncertainty-calibration": "gruber"}


def given(row: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    pair = INPUTS[row["data"]]()
    if pair is None:
        pytest.skip(f"real data set {row['data']} is absent (set CALIBRANT_DATA)")
    return pair[0][: row["rows"]], pair[1][: row["rows"]]


def binned(
    name: str,
    score: np.ndarray,
    hit: np.ndarray,
    n_bins: int,
    norm: float,
    *,
    bins: str = "width",
    classwise: bool = False,
    debias: bool = False,
    average: str = "count",
) -> float:
    """Ten lines, independent of the library's own estimators: the p-th power of the binned error."""
    index, count = assign(name, score, n_bins, bins, classwise=classwise)
    n = np.bincount(index, minlength=count)
    n, s, t = (np.bincount(index, x, count)[n > 0] for x in (np.ones(len(score)), score, hit))
    gap = np.abs(s - t) / n
    if np.isinf(norm):
        return float(gap.max())
    power = gap**norm
    if debias:
        power = np.where(n > 1, power - (t / n) * (1 - t / n) / np.maximum(n - 1, 1), 0)
    return float(np.average(power, weights=n if average == "count" else None))


def test_cumulative_statistic_of_mapie():
    """The example of `kolmogorov_smirnov_statistic` in mapie/metrics/calibration.py: 0.978, our KS over its scale."""
    y, p = np.array([0, 1, 0, 1, 0]), np.array([0.1, 0.9, 0.21, 0.9, 0.5])
    ours = metrics.kolmogorov_smirnov_error(y, p, view="class-1")
    assert round(ours / (np.sqrt(np.sum(p * (1 - p))) / len(p)), 3) == 0.978


def classes(name: str, p: np.ndarray, y: np.ndarray, n_bins: int, norm: float, threshold: float = -1, **more: Any):
    """The same for every class, on values above the threshold."""
    keep = [p[:, k] > threshold for k in range(p.shape[1])]
    return [
        binned(name, p[rows, k], (y[rows] == k) * 1.0, n_bins, norm, classwise=True, **more) if rows.any() else 0.0
        for k, rows in enumerate(keep)
    ]


BINNED = [row for row in STORED if row["measure"] == "binned"]


@pytest.mark.parametrize("row", BINNED, ids=lambda row: f"{row['data']}-{row['command']}")
def test_the_convention_reproduces_the_peer(row: dict[str, Any]) -> None:
    p, y = given(row)
    parameters = dict(row["parameters"])
    view, norm, n_bins = parameters.pop("view"), float(parameters.pop("norm")), parameters.pop("n_bins")
    name = OURS[row["peer"]]
    if view == "classwise":
        powers = classes(name, p, y, n_bins, norm, **parameters)
        value = np.mean([max(power, 0.0) for power in powers])  # this peer clips each class before the mean
    elif view == "top-1":
        value = binned(name, p.max(axis=1), (p.argmax(axis=1) == y) * 1.0, n_bins, norm, **parameters)
    else:
        value = binned(name, p[:, 0], (y == 0) * 1.0, n_bins, norm, classwise=True, **parameters)
    value = value if np.isinf(norm) else max(value, 0.0) ** (1 / norm)
    # torchmetrics adds in float32: five millionths off at 10⁴ rows
    assert value == pytest.approx(row["value"], abs=2e-5 if row["peer"] == "torchmetrics" else 1e-9)


#: Not ours to reproduce: this peer clips the debiased error of each class, we clip once after the sum.
CLIPPED_PER_CLASS = [r for r in BINNED if r["parameters"]["view"] == "classwise" and r["parameters"].get("debias")]
SAME_RULE = [row for row in BINNED if row not in CLIPPED_PER_CLASS]


@pytest.mark.parametrize("row", SAME_RULE, ids=lambda row: f"{row['data']}-{row['command']}")
def test_the_library_reproduces_the_peer_through_convention(row: dict[str, Any]) -> None:
    p, y = given(row)
    parameters = dict(row["parameters"])
    view, norm = parameters.pop("view"), float(parameters.pop("norm"))
    estimator = Binned(**parameters, convention=OURS[row["peer"]])
    value = metrics.calibration_error(y, p, view=view, estimator=estimator, norm=norm)
    assert value == pytest.approx(row["value"], abs=2e-5 if row["peer"] == "torchmetrics" else 1e-9)


@pytest.mark.parametrize("row", [r for r in STORED if r["measure"] == "mmce"], ids=lambda r: r["data"])
def test_mmce_equals_netcal(row: dict[str, Any]) -> None:
    p, y = given(row)
    assert metrics.maximum_mean_calibration_error(y, p) == pytest.approx(row["value"], abs=1e-10)


@pytest.mark.parametrize("row", [r for r in STORED if r["measure"] == "smece"], ids=lambda r: r["data"])
def test_smece_equals_relplot_to_the_width_of_its_bisection(row: dict[str, Any]) -> None:
    p, y = given(row)
    value = metrics.smooth_calibration_error(y, p)
    if row["data"] == "cifar10_resnet110":
        # Its reflection loses half of the mass at exactly 1. Every smoothed residual has one sign here, so the
        # integral is the plain mean whatever the bandwidth; probcal 0.4.0, smooth_ece(hit, top), says 0.047613.
        assert value == pytest.approx(abs(p.max(axis=1).mean() - (p.argmax(axis=1) == y).mean()), abs=1e-6)
        assert row["value"] > 1.4 * value
    else:
        assert value == pytest.approx(row["value"], abs=2e-3)


@pytest.fixture(scope="module")
def network() -> tuple[np.ndarray, np.ndarray]:
    return given({"data": "cifar10_resnet110", "rows": None})


# Anchors: official-code facts on CIFAR-10 ResNet-110 (float64 softmax), each under the code that produced it.


def test_nixon_anchors(network: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = network
    assert np.mean(classes("nixon", p, y, 15, 1)) == pytest.approx(0.009829, abs=5e-7)
    assert np.mean(classes("nixon", p, y, 15, 1, bins="mass")) == pytest.approx(0.003583, abs=5e-7)
    assert np.mean(classes("nixon", p, y, 15, 1, 0.01, bins="mass")) == pytest.approx(0.053906, abs=5e-7)
    assert np.mean(classes("nixon", p, y, 15, 1, 0.001, bins="mass")) == pytest.approx(0.055993, abs=5e-7)
    tace = metrics.thresholded_adaptive_calibration_error
    assert metrics.static_calibration_error(y, p, convention="nixon") == pytest.approx(0.009829, abs=5e-7)
    assert metrics.adaptive_calibration_error(y, p, convention="nixon") == pytest.approx(0.003583, abs=5e-7)
    assert tace(y, p, convention="nixon") == pytest.approx(0.053906, abs=5e-7)
    assert tace(y, p, threshold=0.001, convention="nixon") == pytest.approx(0.055993, abs=5e-7)


def test_kull_anchor_is_a_sum_over_fourteen_bins(network: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = network
    assert np.sum(classes("kull", p, y, 15, 1)) == pytest.approx(0.098456, abs=5e-7)
    assert np.sum(classes("gruber", p, y, 15, 1)) == pytest.approx(0.098290, abs=5e-7)  # fifteen bins
    assert metrics.static_calibration_error(y, p, convention="kull") == pytest.approx(0.098456, abs=5e-7)
    assert metrics.classwise_calibration_error(y, p, norm=1, convention="kull") == pytest.approx(0.098456, abs=5e-7)
    assert convention("kull").reduce == "sum"
    assert binned("kull", p.max(axis=1), (p.argmax(axis=1) == y) * 1.0, 15, 1) == pytest.approx(0.047504, abs=5e-7)


def test_gruber_anchors(network: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = network
    top, hit = p.max(axis=1), (p.argmax(axis=1) == y) * 1.0
    assert binned("gruber", top, hit, 15, 2, bins="mass", debias=True) ** 0.5 == pytest.approx(0.0907056, abs=5e-8)
    assert binned("gruber", top, hit, 100, 2) ** 0.5 == pytest.approx(0.0919551, abs=5e-8)
    assert np.sum(classes("gruber", p, y, 15, 2)) ** 0.5 == pytest.approx(0.0899329, abs=5e-8)
    assert np.sum(classes("gruber", p, y, 100, 2)) ** 0.5 == pytest.approx(0.1579637, abs=5e-8)
    tce, cwce = metrics.top_label_calibration_error, metrics.classwise_calibration_error
    debiased = tce(y, p, norm=2, bins="mass", debias=True, convention="gruber")
    assert debiased == pytest.approx(0.0907056, abs=5e-8)
    assert tce(y, p, norm=2, n_bins=100, convention="gruber") == pytest.approx(0.0919551, abs=5e-8)
    assert cwce(y, p, norm=2, convention="gruber") == pytest.approx(0.0899329, abs=5e-8)
    assert cwce(y, p, norm=2, n_bins=100, convention="gruber") == pytest.approx(0.1579637, abs=5e-8)


# By hand: where 0, an inner edge and 1 go.


@pytest.mark.parametrize(
    ("name", "classwise", "bins", "count"),
    [
        ("nixon", False, [0, 2, 4], 5),
        ("kull", False, [0, 1, 3], 4),
        ("kull", True, [0, 1, 3], 4),
        ("gruber", False, [0, 1, 3], 4),
        ("torchmetrics", False, [0, 2, 4], 5),
        ("netcal", False, [0, 2, 3], 4),
    ],
)
def test_zero_edge_and_one(name: str, classwise: bool, bins: list[int], count: int) -> None:
    index, n = assign(name, np.array([0.0, 0.5, 1.0]), 4, classwise=classwise)
    assert (index.tolist(), n) == (bins, count)


@pytest.mark.parametrize("name", [n for n in NAMES if CONVENTIONS[n].mass])
@pytest.mark.parametrize("n_bins", [1, 2, 7, 15])
def test_mass_bins_keep_ties_together_and_cover_every_score(name: str, n_bins: int) -> None:
    for score in (INPUTS["decimals"]()[0][:, 0], INPUTS["smooth"]()[0][:, 1], np.array([0.3]), np.ones(9), np.zeros(0)):
        index, count = assign(name, score, n_bins, "mass")
        assert index.shape == score.shape
        assert count <= n_bins
        assert ((index >= 0) & (index < count)).all()
        for value in np.unique(score):
            assert len(np.unique(index[score == value])) == 1
        assert (np.diff(index[np.argsort(score)]) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_bins", [2, 3, 10, 15, 100])
@pytest.mark.parametrize("classwise", [False, True])
def test_width_bins_cover_every_score(name: str, n_bins: int, classwise: bool) -> None:
    score = np.linspace(0, 1, 4001)
    index, count = assign(name, score, n_bins, classwise=classwise)
    assert index.min() == 0
    assert index.max() < count
    assert (np.diff(index) >= 0).all()


def test_refusals_say_why() -> None:
    with pytest.raises(InputError, match="no equal-mass bins"):
        assign("torchmetrics", np.array([0.5]), 15, "mass")
    with pytest.raises(InputError, match="did you mean 'nixon'"):
        assign("nixom", np.array([0.5]), 15)
    with pytest.raises(InputError, match="at least 2"):
        assign("kull", np.array([0.5]), 1, classwise=True)


@pytest.mark.peers
@pytest.mark.parametrize("peer", ["torchmetrics", "netcal", "uncertainty-calibration", "relplot"])
def test_stored_numbers_are_what_the_peer_still_says(peer: str) -> None:
    pytest.importorskip({"uncertainty-calibration": "calibration"}.get(peer, peer))
    stored = {(r["data"], r["command"]): r["value"] for r in STORED}
    for row in measure(peer):
        assert row["value"] == pytest.approx(stored[row["data"], row["command"]], abs=1e-6)
