"""Write the changelog from its fragments.

python changelog.d/build.py                   rewrite the section "Unreleased" of CHANGELOG.md
python changelog.d/build.py --check           say whether that section is up to date (exit code 1: no)
python changelog.d/build.py --release 0.2.0   make it the section of a version and delete the fragments

README.md beside this file says how a fragment is written.
"""

from __future__ import annotations

import argparse
import datetime as dt
import difflib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHANGELOG = HERE.parent / "CHANGELOG.md"
CATEGORIES = ("Changed numbers", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
UNRELEASED = "## Unreleased"
_HEADING = re.compile(r"#+ +(.+?)[ :.]*$")

Section = dict[str, dict[str, list[str]]]
"""Category, then topic ("" for none), then blocks of Markdown."""


class FragmentError(ValueError):
    """A fragment that does not follow README.md."""


def category_of(heading: str) -> str | None:
    """Category a heading names, None for the heading of a topic; a misspelled category is an error."""
    known = {name.lower(): name for name in CATEGORIES}
    if heading.lower() in known:
        return known[heading.lower()]
    close = difflib.get_close_matches(heading.lower(), known, n=1, cutoff=0.8)
    if close:
        raise FragmentError(f"heading '{heading}' is no category; '{known[close[0]]}' is")
    return None


def parse(text: str, *, category: str) -> Section:
    """Entries of one fragment by category and topic; lines before any heading belong to `category`."""
    section: Section = {}
    topic = ""
    for line in text.strip().splitlines():
        heading = _HEADING.match(line)
        if heading:
            named = category_of(heading[1])
            category, topic = (named, "") if named else (category, heading[1])
            continue
        blocks = section.setdefault(category, {}).setdefault(topic, [])
        if line.startswith(("- ", "* ")):
            blocks.append("- " + line[2:].rstrip())
        elif line.strip():
            if not blocks:
                raise FragmentError(f"must start with '- ' or a heading, not '{line.strip()[:40]}'")
            blocks[-1] += "\n" + line.rstrip()
    section = {name: {key: blocks for key, blocks in topics.items() if blocks} for name, topics in section.items()}
    if not any(section.values()):
        raise FragmentError("says nothing")
    return section


def fragments(folder: Path = HERE) -> list[Path]:
    """Fragments of the section to come, in alphabetical order."""
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


def parse_file(path: Path) -> Section:
    """Entries of one file; numbers-<topic>.md holds changed numbers."""
    category = "Changed numbers" if path.name.startswith("numbers-") else "Changed"
    try:
        return parse(path.read_text(encoding="utf-8"), category=category)
    except FragmentError as error:
        raise FragmentError(f"{path.name}: {error}") from None


def render(sections: list[Section]) -> str:
    """Markdown of all entries: categories in their order, entries without a topic first."""
    lines: list[str] = []
    for category in CATEGORIES:
        topics: dict[str, list[str]] = {"": []}
        for section in sections:
            for topic, blocks in section.get(category, {}).items():
                topics.setdefault(topic, []).extend(blocks)
        if any(topics.values()):
            lines.append(f"### {category}\n")
        for topic, blocks in topics.items():
            if topic:
                lines.append(f"#### {topic}\n")
            if blocks:
                lines.append("\n".join(blocks) + "\n")
    return "\n".join(lines)


def split(changelog: str) -> tuple[str, str]:
    """Introduction and released sections of a changelog, without what is unreleased."""
    start = changelog.index(UNRELEASED)
    released = re.search(r"^## (?!Unreleased)", changelog, flags=re.MULTILINE)
    return changelog[:start], changelog[released.start() :] if released else ""


def build(changelog: str, folder: Path = HERE) -> str:
    """Changelog with the section "Unreleased" taken from the fragments."""
    head, released = split(changelog)
    body = render([parse_file(path) for path in fragments(folder)])
    return "\n".join(part for part in (f"{head}{UNRELEASED}\n", body, released) if part)


def release(changelog: str, version: str, date: str, folder: Path = HERE) -> str:
    """Changelog in which what was unreleased has become a version."""
    if f"\n## {version} " in changelog:
        raise FragmentError(f"version {version} stands in the changelog already")
    return build(changelog, folder).replace(UNRELEASED, f"{UNRELEASED}\n\n## {version} ({date})", 1)


def main() -> int:
    """Run the command above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if CHANGELOG.md is out of date")
    parser.add_argument("--release", metavar="VERSION", help="make the unreleased section the one of VERSION")
    parser.add_argument("--date", default=dt.datetime.now(dt.UTC).date().isoformat(), help="of the release")
    options = parser.parse_args()
    before = CHANGELOG.read_text(encoding="utf-8")
    try:
        after = release(before, options.release, options.date) if options.release else build(before)
    except FragmentError as error:
        print(error, file=sys.stderr)
        return 1
    if options.check:
        if before != after:
            print("CHANGELOG.md is out of date: run python changelog.d/build.py", file=sys.stderr)
        return int(before != after)
    CHANGELOG.write_text(after, encoding="utf-8")
    if options.release:
        for path in fragments():
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
