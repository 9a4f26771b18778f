"""The changelog says what its fragments say, and every fragment says something in the form its README names."""

from __future__ import annotations

import importlib.util

import pytest

from helpers import ROOT

_SPEC = importlib.util.spec_from_file_location("changelog_build", ROOT / "changelog.d" / "build.py")
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_fragments():  # no parameters: right after a release there are none, and nothing may be skipped
    for path in build.fragments():
        build.parse_file(path)
        assert len(path.read_text(encoding="utf-8").split()) >= 5, f"{path.name} says nothing"


def test_the_folder_holds_fragments_their_rule_and_the_script_alone():
    others = {path.name for path in (ROOT / "changelog.d").iterdir()} - {path.name for path in build.fragments()}
    assert others - {"__pycache__"} == {"README.md", "build.py"}


def test_every_category_is_explained():
    rule = (ROOT / "changelog.d" / "README.md").read_text(encoding="utf-8")
    assert all(f"`### {category}`" in rule for category in build.CATEGORIES)


def test_changelog_is_up_to_date():
    assert build.build(CHANGELOG) == CHANGELOG, "run python changelog.d/build.py"


def test_released_versions_stay():
    assert build.split(CHANGELOG)[1].startswith("## ")
    assert "\n## 0.1.0 (2026-11-16)\n\n### Added\n" in CHANGELOG


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "README.md").write_text("not a fragment")
    (tmp_path / "b.md").write_text(
        "- second change\n  in two lines\n\n### Added\n- an option\n### A topic\n* its line\n"
    )
    (tmp_path / "a.md").write_text("- first change\n### changed numbers:\n- old 1, new 2\n")
    (tmp_path / "numbers-ece.md").write_text("- old 3, new 4\n")
    return tmp_path


OLD = "# Changelog\n\nIntroduction.\n\n## Unreleased\n\n### Added\n\n- gone\n\n## 0.1.0 (2026-11-16)\n\n- all\n"


def test_assembly(folder):
    expected = """# Changelog

Introduction.

## Unreleased

### Changed numbers

- old 1, new 2
- old 3, new 4

### Added

- an option

#### A topic

- its line

### Changed

- first change
- second change
  in two lines

## 0.1.0 (2026-11-16)

- all
"""
    assert build.build(OLD, folder) == expected
    assert build.build(expected, folder) == expected  # a second run changes nothing


def test_release(folder):
    text = build.release(OLD, "0.2.0", "2026-12-01", folder)
    assert "## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n### Changed numbers\n" in text
    assert build.split(text)[1].startswith("## 0.2.0")
    with pytest.raises(build.FragmentError, match=r"0\.1\.0 stands in the changelog"):
        build.release(OLD, "0.1.0", "2026-12-01", folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no dash\n", "must start with"),
        ("### Added\n", "says nothing"),
        ("", "says nothing"),
        ("### Changed number\n- x\n", "'Changed numbers' is"),
    ],
)
def test_a_bad_fragment_is_refused(tmp_path, text, message):
    (tmp_path / "bad.md").write_text(text)
    with pytest.raises(build.FragmentError, match=rf"bad\.md: .*{message}"):
        build.build(OLD, tmp_path)
