"""The comparison of methods: reading sets, taking up a stopped run, shares of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.links import softmax
from calibrant.errors import FileError
from calibrant_papers.validation.league import LeagueReport, read_sets, run_league


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(600, 3))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "net.npz", probs_test=softmax(2.5 * logits), labels_test=y)
    two = rng.uniform(size=(200, 2))
    two[:3, 1] = np.nan
    np.savez(tmp_path / "days.npz", prob_test=two, methods=np.array(["a", "b"]), outcome_test=rng.integers(2, size=200))
    np.savez(tmp_path / "top.npz", conf_test=two[:, 0], pred_test=y[:200], labels_test=y[:200])
    return tmp_path


def test_sets_are_split_by_the_rule(folder):
    sets = {s.name: s for s in read_sets(folder)}
    assert sorted(sets) == ["days:a", "days:b", "net"]
    order = np.random.default_rng(0).permutation(600)
    with np.load(folder / "net.npz") as arrays:
        assert np.array_equal(sets["net"].y_cal, arrays["labels_test"][order[:300]])
    assert len(sets["days:b"].y_cal) + len(sets["days:b"].y_test) == 197
    with pytest.raises(FileError, match="holds no"):
        list(read_sets(folder / "none"))


def test_run_report_and_checkpoint(folder, tmp_path):
    saved = tmp_path / "cells"
    report = run_league(folder, sizes=(None,), fast=True, only=("net",), checkpoint=saved)
    row = report.rows[0]
    assert row["nll"]["auto"] < row["nll"]["identity"]
    told = []
    again = run_league(
        folder, sizes=(None,), fast=True, only=("net",), checkpoint=saved, progress=lambda *now: told.append(now)
    )
    assert again.rows == report.rows
    assert told == [(1, 1, "")]
    assert "| net | all | 3 | 300 |" in report.to_markdown()


def test_page_has_one_row_per_set_with_means_over_draws(folder):
    report = run_league(folder, sizes=(100,), draws=2, fast=True, only=("net",))
    page = report.to_markdown().splitlines()
    (row,) = [line for line in page if line.startswith("| net | 100 |")]
    after = sum(r["nll"]["auto"] for r in report.rows) / 2
    assert f"→ {after:.4f}" in row
    assert any("means over 2 draws" in line for line in page)


def test_shares_per_set_and_of_the_sums():
    rows = [
        {
            "set": "a",
            "size": None,
            "classes": 2,
            "test_rows": 10,
            "harm": 0.0,
            "measures": {},
            "nll": {"identity": 1.0, "temperature": 0.5, "vector": 0.8, "auto": 0.4},
        },
        {
            "set": "b",
            "size": None,
            "classes": 3,
            "test_rows": 10,
            "harm": 0.1,
            "measures": {},
            "nll": {"identity": 1.0, "temperature": 1.1, "vector": 0.9, "auto": 1.1},
        },
        {
            "set": "c",
            "size": None,
            "classes": 3,
            "test_rows": 10,
            "harm": 0.0,
            "measures": {},
            "nll": {"identity": 1.0, "temperature": 1.2, "vector": 1.1, "auto": 1.0},
        },
    ]
    group = LeagueReport(tuple(rows)).to_dict()["groups"]["all sets"]  # the oracle gains 0.5, 0.1 and nothing
    assert group["auto"] == {"mean": pytest.approx((0.6 / 0.5 - 0.1 / 0.1) / 2), "sums": pytest.approx(0.5 / 0.6)}
    assert group["singles"]["temperature"]["sums"] == pytest.approx((0.5 - 0.1 - 0.2) / 0.6)
    assert group["singles"]["vector"]["mean"] == pytest.approx((0.2 / 0.5 + 0.1 / 0.1) / 2)
    assert (group["harmed"], group["largest_harm"]) == (1, 0.1)
