"""Result records: frozen, plain dicts, readable text, invisible to pytest."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from calibrant.core.results import Decomposition, Difference, Interval, Result, TestResult

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
