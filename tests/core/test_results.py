"""Result records: frozen, plain dicts, readable text, invisible to pytest."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import calibrant
from calibrant.core.notebook import notebook_html
from calibrant.core.results import Decomposition, Difference, Interval, Result, TestResult
from calibrant.core.text import pvalue, pvalue_phrase

INTERVAL = Interval(0.02, 0.01, 0.03, 0.95, "normal", 12_345)
RECORDS = [
    INTERVAL,
    TestResult(1.5, 0.0002, "ks", 100),
    Result("ece", 0.04, 0.01, 0.002, 0.001, INTERVAL, "the top-label error", "lower"),
    Result("accuracy", 0.9),
    Difference("brier", 0.12, 0.1, 0.02, INTERVAL, 0.01, True),
    Difference("nll", 0.1, 0.12, -0.02, Interval(-0.02, -0.03, -0.01, 0.95, "normal", 10), 0.2),
    Decomposition(0.2, 0.25, 0.01, 0.06),
]


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_records_are_frozen_plain_and_readable(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, dataclasses.fields(record)[0].name, 0)
    plain = record.to_dict()
    assert list(plain) == [field.name for field in dataclasses.fields(record)]
    json.dumps(plain)
    assert "None" not in str(record)


def test_words():
    assert "12,345" in str(INTERVAL)
    assert 0.015 in INTERVAL
    assert 0.5 not in INTERVAL
    assert "p < 0.001" in str(RECORDS[1])
    assert "worsened by 0.02 [0.01, 0.03]" in str(RECORDS[5])
    assert TestResult.__test__ is False
    assert Interval(np.float64(1.0), 0, 2, 0.9, "bca", 3).to_dict()["value"] == 1.0


def test_a_p_value_reads_alike_and_names_few_draws() -> None:
    assert [pvalue_phrase(p) for p in (0.0005, 0.00143, 0.0021)] == ["p < 0.001", "p < 0.002", "p = 0.002"]
    assert pvalue(1 / 41, 40) == "< 0.025 (40 draws)"
    assert pvalue(2 / 1001, 1000) == "< 0.002"
    assert "p < 0.025 (40 draws)" in str(Result("cwce", 0.1, 0.01, 0.001, 1 / 41, draws=40))


def test_draws_are_named_only_where_none_reached_the_value() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 400)
    y = (p.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    off, fine = (calibrant.evaluate(label, p, n_resamples=40, rng=0)["cwce"] for label in ((y + 1) % 3, y))
    assert (off.draws, off.pvalue) == (40, pytest.approx(1 / 41))
    assert fine.draws is None
    assert fine.pvalue > 0.05


def test_gate_fit_and_slices_show_tables_in_a_notebook() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 400)
    y = (p.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    gate = calibrant.check(y, p, max_values={"ece": 0.0, "ks": 0.9}, n_resamples=40)
    fit = calibrant.fit(y, p, method="temperature", holdout=0.3)
    whole = calibrant.evaluate(y, p, by={"<b>": np.arange(400) % 2}, n_resamples=40, rng=0)
    shown = [one._repr_html_() for one in (gate, fit, whole, whole.slices[0])]
    assert all("<table" in html and "<pre" not in html for html in shown)
    assert ">1 broken" in shown[0]
    assert ">FAILED</td>" in shown[0]
    assert f"Chosen: {fit.reason[:20]}" in shown[1]
    assert shown[1].count("<table") == 2  # the methods, and the proof on rows held out
    assert "&lt;b&gt;=1</td>" in shown[2]
    assert "<b>" not in shown[2] + shown[3]


def test_no_option_breaks_at_its_hyphen() -> None:
    html = notebook_html("", "run: calibrant fit a-b.csv --holdout 0.3 -o cal.json", (), ())
    assert ">--holdout</span>" in html
    assert ">-o</span>" in html
    assert "a-b.csv" in html
