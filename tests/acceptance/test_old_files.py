"""Summaries that version 0.1 wrote are read, and give its numbers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import calibrant

WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "written_by_0_1.json").read_text(encoding="utf-8"))


def test_summary_of_0_1() -> None:
    summary = calibrant.Summary.from_bytes(base64.b64decode(WRITTEN["summary"]["bytes"]))
    for name, value in WRITTEN["summary"]["values"].items():
        assert summary.measure(name) == pytest.approx(value, abs=1e-12), name
