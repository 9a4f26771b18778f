"""What README and guides show is what happens: their code runs and their terminal sessions repeat themselves."""

from __future__ import annotations

import re

import pytest

from helpers import ROOT, needs

PAGES = [
    "README.md",
    *(f"docs/guide/{name}.md" for name in ("start", "metrics", "inference", "calibrators", "regression")),
    *(f"docs/guide/{name}.md" for name in ("one-file", "scikit-learn", "pytorch", "risk")),
    *(f"docs/guide/{name}.md" for name in ("language-model", "how-to", "migrate", "faq")),
]
WRITTEN = [
    "README.md",
    "CONTRIBUTING.md",
    *(
        page.relative_to(ROOT).as_posix()
        for part in (".", "guide", "reference", "tables")
        for page in sorted((ROOT / "docs" / part).glob("*.md"))
    ),
]


def test_all_sessions_are_run_here(consoles):
    assert [str(path.relative_to(ROOT)) for path in consoles.PAGES] == PAGES


LIBRARIES = {
    "docs/guide/how-to.md": "matplotlib",
    "docs/guide/migrate.md": "matplotlib",
    "docs/guide/pytorch.md": "torch",
}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=needs(LIBRARIES[page])) if page in LIBRARIES else page for page in PAGES]
)
def test_code_runs_and_terminal_repeats_itself(consoles, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    change = consoles.difference(text, consoles.run_page(text))
    assert change is None, f"{page} shows something else than the commands; run: {consoles.REGENERATE}\n{change}"


@pytest.mark.parametrize("page", WRITTEN)
def test_links_and_pictures_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    made = ("generated/", "../generated/")  # written by the build
    assert not [link for link in links if not link.startswith(made) and not ((ROOT / page).parent / link).exists()]


@pytest.mark.parametrize("page", WRITTEN)
def test_no_machine_is_named(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.findall(r"(?:^|[\s(`'\"])/(?:work|tmp|root|home|opt)/", text)


def test_the_two_commands_and_ten_lines(consoles):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert block.count(">>>") <= 11
    assert "$ calibrant evaluate" in text


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("ece 10.53%", "ece 10.54%", True),
        ("ece 10.53%", "ece 11.53%", False),
        ("ece 10.53%", "ks 10.53%", False),
        ("p < 0.001", "p < 0.001\nmore", False),
        ("$ calibrant fit a\nplatt 0.50\nbeta 0.51\n```", "$ calibrant fit a\nbeta 0.50\nplatt 0.50\n```", True),
        ("$ calibrant fit a\nplatt 0.50\nbeta 0.51\n```", "$ calibrant fit a\nbeta 0.50\n```", False),
    ],
)
def test_rounding_is_forgiven_and_nothing_else(consoles, old, new, same):
    assert (consoles.difference(old, new) is None) is same
