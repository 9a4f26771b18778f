"""The generated matrix of calibrant.torch × ways to run it: every cell is right, or refused by name."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("calibrant_benchmarks")

from calibrant.calibrators import _torch_module
from calibrant.torch import batch, dropout, regularized
from calibrant_benchmarks.torch_matrix import CONDITIONS, run_cells
from calibrant_benchmarks.torch_matrix.judge import all_checks
from helpers import ROOT

TABLE = ROOT / "docs" / "tables" / "torch.md"
LONG = ("compile", "DDP")
#: The only cell that may be refused: a posterior of a linear layer, given a convolution.
REFUSED = {("LastLayerLaplace", "segmentation")}


def check(cells):
    assert not [f"{cell.name}: {cell.detail}" for cell in cells if cell.verdict == "fails"]
    assert {(cell.item, cell.condition) for cell in cells if cell.verdict == "refused"} <= REFUSED
    for cell in cells:
        assert cell.verdict == "right" or "Hint: " in cell.detail


def test_every_cell_in_one_process():
    cells = run_cells([condition for condition in CONDITIONS if condition not in LONG])
    assert len(cells) == (len(CONDITIONS) - len(LONG)) * len(all_checks())
    check(cells)


@pytest.mark.slow
def test_every_cell_compiled_and_in_two_processes():
    check(run_cells(LONG))


def test_the_committed_table_has_every_cell_and_no_failure():
    text = TABLE.read_text(encoding="utf-8")
    assert "**fails**" not in text
    for _, item in all_checks():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{item}` |"))
        assert len(re.findall(r"right \(|refused \[", row)) == len(CONDITIONS), item


def verdict(item, condition):
    (cell,) = run_cells([condition], [item])
    return cell.verdict


def test_the_matrix_sees_short_variances(monkeypatch):
    assert verdict("GaussianDropout", ".half()") == "right"
    monkeypatch.setattr(dropout, "widen", lambda values: values)
    assert verdict("GaussianDropout", ".half()") == "fails"


@pytest.mark.parametrize("item", ["FocalLoss", "StreamingCalibration", "SWAG", "SplineCalibration.to_torch()"])
def test_the_matrix_sees_states_that_follow_the_dtype(monkeypatch, item):
    monkeypatch.setattr(_torch_module, "follow", lambda value, fn: fn(value))
    assert verdict(item, ".bfloat16()") == "fails"


def test_the_matrix_sees_padding_that_counts(monkeypatch):
    monkeypatch.setattr(batch, "_indices", lambda target, *_: (target.reshape(-1).clamp_min(0), None))
    assert verdict("BrierLoss", "padding") == "fails"


def test_compiled_slopes_of_the_warm_up_are_this_steps(monkeypatch):
    """The step counter is replaced, not changed in place, or the slopes of one backend read the next λ."""
    loss = regularized.RegularizedLoss(penalty=batch.widen, weight=1.0, warmup=3)
    loss.penalty = lambda logits, target: logits.square().mean()
    before = loss.steps
    loss(torch.zeros(2, 2, requires_grad=True), torch.tensor([0, 1]))
    assert int(loss.steps) == 1
    assert int(before) == 0
