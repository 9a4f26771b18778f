"""Every decision has a number of its own and a line in the index."""

from __future__ import annotations

import importlib.util

import pytest

from helpers import ROOT

_SPEC = importlib.util.spec_from_file_location("decisions_index", ROOT / "decisions" / "index.py")
index = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(index)


def test_every_decision_is_numbered_once():
    assert index.problems() == []


def test_every_decision_is_listed():
    assert len(index.decisions()) >= 9
    text = (ROOT / "decisions" / "README.md").read_text(encoding="utf-8")
    assert text == index.render(), "run python decisions/index.py"


def test_a_bad_name_a_double_number_and_a_missing_title_are_seen(tmp_path):
    for name in ("0001-first-choice.md", "0001-second.md", "third.md", "0004_x.md"):
        (tmp_path / name).write_text("# Title\n")
    assert index.problems(tmp_path) == [
        "0004_x.md: the name must be NNNN-topic.md",
        "third.md: the name must be NNNN-topic.md",
        "0001-first-choice.md: number 0001 is used twice",
        "0001-second.md: number 0001 is used twice",
    ]
    (tmp_path / "0005-none.md").write_text("no title\n")
    with pytest.raises(ValueError, match=r"0005-none\.md must start with"):
        index.render(tmp_path)
