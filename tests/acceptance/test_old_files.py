"""Calibrators and summaries that version 0.1 wrote are read, and give its numbers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant

WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "written_by_0_1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", WRITTEN["artifacts"])
def test_calibrator_of_0_1(tmp_path: Path, name: str) -> None:
    entry = WRITTEN["artifacts"][name]
    path = tmp_path / "cal.json"
    path.write_text(json.dumps(entry["json"]), encoding="utf-8")
    calibrator = calibrant.load(path)
    if name == "regression":
        found = np.array(calibrator.predict(*entry["input"]))
    else:
        found = calibrator.predict_proba(np.array(entry["input"]))
        portable = calibrant.predict_from_json(entry["json"], np.array(entry["input"]))
        np.testing.assert_allclose(portable, entry["output"], atol=1e-12)
    np.testing.assert_allclose(found, entry["output"], atol=1e-12)
    calibrator.save(tmp_path / "again.json")
    again = calibrant.load(tmp_path / "again.json")
    assert type(again) is type(calibrator)


def test_summary_of_0_1() -> None:
    summary = calibrant.Summary.from_bytes(base64.b64decode(WRITTEN["summary"]["bytes"]))
    for name, value in WRITTEN["summary"]["values"].items():
        assert summary.measure(name) == pytest.approx(value, abs=1e-12), name
