"""The network against torch, the published protocols, and the findings of tables 1-2 and figures 4, 8, 9."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from calibrant.errors import FileError
from calibrant_papers import variance_regression
from calibrant_papers.mlp import VarianceNetwork, train
from calibrant_papers.targets import gruber_variance
from calibrant_papers.variance_tables import before_after
from helpers import data_path


@pytest.mark.parametrize("head", ["absolute", "exp"])
def test_network_and_optimizer_equal_torch(head):
    torch = pytest.importorskip("torch", reason="torch is absent (extra: torch)")

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    network = VarianceNetwork((4, 7, 5, 2), head, np.random.default_rng(1))
    weights = [torch.tensor(w, requires_grad=True) for w in network.weights]
    optimizer = torch.optim.Adam(weights, lr=0.001)
    for _ in train(network, x, y, 25):
        out = torch.tensor(x)
        for layer in range(0, len(weights), 2):
            out = out @ weights[layer] + weights[layer + 1]
            out = torch.relu(out) if layer + 2 < len(weights) else out
        variance = out[:, 1].abs().clamp_min(1e-10) if head == "absolute" else out[:, 1].exp() + 1e-10
        loss = ((out[:, 0] - torch.tensor(y)) ** 2 / variance + variance.log()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for ours, theirs in zip(network.weights, weights, strict=True):
        assert ours == pytest.approx(theirs.detach().numpy(), abs=1e-9)


def test_friedman_rows_have_the_stated_noise():
    x, y = variance_regression.friedman_rows(100_000, np.random.default_rng(0))
    signal = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    for low in (0.0, 0.5, 0.9):
        inside = (x[:, 5] > low) & (x[:, 5] < low + 0.1)
        assert (y - signal)[inside].std() == pytest.approx(0.55 + low, rel=0.05)


#: What is not confirmed: networks and splits vary more than the paper says.
OPEN = {
    "gruber-table-2": {
        "uncalibrated variances are overconfident by a factor above 3 at every iteration",
        "recalibrated ratios lie between 0.5 and 1.5",
    },
    "gruber-fig-9": {
        "recalibrated DSS is lower at every iteration",
        "the plain variance keeps falling after that point (by more than a tenth)",
    },
}


@pytest.fixture(scope="module")
def folder():
    return data_path("residential_building").parent


@pytest.fixture(scope="module")
def shared_runs():
    """Tables and figures train the same networks: train each once for this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gruber_variance, "residential", functools.cache(variance_regression.residential))
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "gruber-fig-9" else n for n in gruber_variance.TARGETS]
)
def test_findings_of_the_paper_show(name, folder, shared_runs):
    """Every claim is judged on five networks."""
    result = gruber_variance.TARGETS[name](True, folder, 0)
    assert all(finding.seeds == 5 for finding in result.findings)
    assert result.name == name
    assert {finding.text for finding in result.unconfirmed} == OPEN.get(name, set())
    assert result.quick
    assert len(result.findings) >= 4
    assert name in str(result)
    if "table" in name:
        assert any(line.published is not None and line.difference is not None for line in result.lines)
    else:
        assert all(len({len(values) for values in panel.values()}) == 1 for panel in result.curves.values())


def test_regime_of_table_1_is_the_published_one(folder, shared_runs):
    """Uncalibrated variance near 0.8 million, error of some millions, as published (0.83 and 2.6 - 10.5)."""
    lines = {line.label: line for line in gruber_variance.table_1(True, folder, 0).lines}
    for iteration in (500, 1000, 2000):
        assert lines[f"variance_before at {iteration} (1e6)"].ours == pytest.approx(0.8, abs=0.15)
        assert 1 < lines[f"mse at {iteration} (1e6)"].ours < 100


def test_targets_without_data_say_so():
    with pytest.raises(FileError, match="--data DIR"):
        gruber_variance.table_1(True, None, 0)


def test_before_and_after_on_real_data(folder):
    table = before_after(folder, names=("qm9_evidential", "uci_concrete", "uci_energy"))
    assert len(table.rows) == 12
    for row in table.rows:
        assert row.low > 0, row  # every map improves every one of these models, beyond noise
        assert abs(np.log(row.ratio_after)) < abs(np.log(row.ratio_before))
    assert "qm9_evidential" in str(table)
    assert table.to_frame().height == 12
