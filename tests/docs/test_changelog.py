"""Every fragment of the changelog says something, in the form the assembly rule expects."""

from __future__ import annotations

import pytest

from helpers import ROOT

FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")


def test_there_are_fragments_and_a_rule():
    assert FRAGMENTS
    assert (ROOT / "changelog.d" / "README.md").exists()


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_fragment(path):
    assert path.suffix == ".md"
    text = path.read_text(encoding="utf-8")
    assert len(text.split()) >= 5, f"{path.name} says nothing"
    assert text.lstrip().startswith(("- ", "* ", "#")), f"{path.name} must start with '- ' or a heading"
