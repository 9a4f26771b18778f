"""Run the terminal sessions and Python blocks of a page, so that what it shows is what happens.

A page's blocks run top to bottom in one empty folder: ```` ```python ```` blocks are executed (as a doctest when they
hold ``>>>``), and in ```` ```console ```` blocks every ``$ calibrant …`` line is run and what follows it is its output.
``python docs/consoles.py`` rewrites the outputs in all pages.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Guides whose every block can run anywhere, offline and in seconds.
GUIDE = (
    *("start", "metrics", "inference", "calibrators", "regression"),
    *("one-file", "scikit-learn", "pytorch", "risk", "language-model", "how-to", "migrate", "faq"),
)
PAGES = (ROOT / "README.md", *(ROOT / "docs" / "guide" / f"{name}.md" for name in GUIDE))
REGENERATE = "python docs/consoles.py"
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMPARED = re.compile(r"\$ calibrant fit (?!.*--method)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?")


def run_page(text: str) -> str:
    """Return the page with the outputs of its terminal sessions as they are now; Python blocks must run."""
    scope: dict[str, object] = {}
    with _empty_folder():
        return _BLOCK.sub(lambda block: f"```{block[1]}\n{_run_block(block[1], block[2], scope)}```", text)


def _run_block(kind: str, body: str, scope: dict[str, object]) -> str:
    if kind == "console":
        commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
        return "".join(f"$ {command}\n{run_command(command)}" for command in commands)
    if ">>>" in body:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        test = doctest.DocTestParser().get_doctest(body, scope, "page", None, 0)
        test.globs = scope
        doctest.DebugRunner(optionflags=flags).run(test, clear_globs=False)
    else:
        exec(compile(body, "page", "exec"), scope)  # noqa: S102  -- the page is our own
    return body


def run_command(command: str) -> str:
    """Run one ``calibrant …`` line in this process; return what a terminal would show."""
    from click.testing import CliRunner

    from calibrant.cli import cli

    words = shlex.split(command)
    if words[0] != "calibrant":
        raise ValueError(f"only calibrant commands are run in console blocks, not {command!r}")
    found = CliRunner().invoke(cli, words[1:], prog_name="calibrant", terminal_width=100)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return "\n".join(line.rstrip() for line in found.output.rstrip().splitlines()) + "\n"


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def difference(old: str, new: str, tolerance: float = 0.05) -> str | None:
    """Return the first line in which two pages differ by more than rounding of numbers, or None.

    In a table of methods close rivals may change places from machine to machine: there the first words count.
    """
    for mine, theirs in zip([*_lines(old), ""], [*_lines(new), ""], strict=False):
        if _words(mine) != _words(theirs) or not _near(mine, theirs, tolerance):
            return f"- {mine}\n+ {theirs}"
    return None


def _lines(text: str) -> Iterator[str]:
    """Yield the lines to compare; the methods compared as one line of sorted first words."""
    methods: list[str] | None = None
    for line in text.splitlines():
        if line.startswith(("$ ", "```")):
            if methods is not None:
                yield " ".join(sorted(methods))
            methods = [] if _COMPARED.match(line) else None
            yield line
        elif methods is not None:
            methods.append(line.partition(" ")[0])
        else:
            yield line


def _words(line: str) -> list[str]:
    return _NUMBER.sub("#", line).split()


def _near(old: str, new: str, tolerance: float) -> bool:
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    for one, two in pairs:
        try:
            a, b = float(one.replace(",", "")), float(two.replace(",", ""))
        except ValueError:
            if one != two:
                return False
            continue
        if abs(a - b) > max(0.02, tolerance * abs(a)):
            return False
    return True


def main() -> None:
    """Rewrite every page whose outputs have changed."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        new = run_page(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"rewritten: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
