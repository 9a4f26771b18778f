"""One word per thing: the words we no longer use do not come back into source, help texts and documentation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import ROOT

#: Pattern -> what to write instead. They are looked for in prose: pages, comments, docstrings, messages and help.
WORDS = {
    r"\bnull values\b": "null distribution",
    r"\bdoing nothing\b": "uncalibrated",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\baside\b": "temporary file",
    r"\bforeign (data|rows)\b": "out-of-distribution data",
    r"\bplain facts?\b": "descriptive",
    r"\bleagues?\b": "methods compared",
    r"\bclaims what it reaches\b": "confidence matches accuracy",
    r"\b(the|one|other) (doors?|rooms?)\b": "validation, subpackage",
    r"\b(course of the|the|a new) watch\b": "history, monitor",
    r"\b(limit|empirical|normal|joint|uniform|null) laws?\b": "distribution",
    r"\bshare of (rows|hits|the mixture)\b": "fraction, weight",
    r"\b(predicted|observed) spread\b": "standard deviation",
    r"\bone-dimensional panel\b": "default set",
    r"\b(is|are) injective\b": "one-to-one",
    r"\b(over|under)-confiden(t|ce)\b": "overconfident, underconfident",
    r"\b(any|every|a|an|the|which|each|this|other|binned|all|of) measures?\b(?! (how|the|it)\b)": "metric",
    r"(\d|\}) %": "95%",
    r"(?<![\d.,·/–\-])[1-9]\d{0,2} \d{3}(?![\d.])": "10,000",
    r"\b\w*(normal|regular|serial|summar|optim|recogn|standard|general|minim|maxim|initial|penal|factor|parameter)"
    r"is(e|es|ed|er|ing|ation|able)\b": "-ize, -ization",
    r"\b(colour|behaviour|favour|neighbour|honour)\w*": "-or",
    r"\b(centre[sd]?|centring|labelled|labelling|unlabelled|modelled|judgement|grey|artefacts?|licence|learnt)\b": (
        "American spelling"
    ),
}
#: Piece of a line -> why the old word stands there.
ALLOWED = {
    "--league": "the option of calibrant bench, a table of methods on many data sets",
    "tables/league": "a table written by an earlier version",
    "viewBox": "coordinates",
    "Calibration Measures": "the title of a paper",
    "law of succession": "the title of a paper",
}
#: Strings that are keys of JSON documents and names of columns, not prose.
KEYS = {"share", "injective"}
PAGES = ["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/guide/*.md", "docs/reference/*.md", "src/**/*.j2"]


def between(text: str, start: tuple[int, int], end: tuple[int, int]) -> list[str]:
    """Lines from one place (line, column) to another."""
    lines = text.splitlines()[start[0] - 1 : end[0]]
    lines[-1] = lines[-1][: end[1]]
    lines[0] = lines[0][start[1] :]
    return lines


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a page; comments and strings of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    opened: list[tuple[int, int]] = []  # Python 3.12 and later cut formatted strings into pieces
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            opened.append(token.start)
        elif kind == "FSTRING_END":
            start = opened.pop()
            if not opened:
                yield from enumerate(between(text, start, token.end), start[0])
        elif opened or (kind == "STRING" and token.string.strip("rbf\"'") in KEYS):
            continue
        elif kind in ("COMMENT", "STRING"):
            yield from enumerate(token.string.splitlines(), token.start[0])


def old_words(path: Path) -> list[str]:
    """Old words of a file, with the line and what to write instead."""
    found = []
    for number, line in prose(path):
        if line.strip() in KEYS or any(piece in line for piece in ALLOWED):  # KEYS: parameters of version 0.1 too
            continue
        for pattern, instead in WORDS.items():
            if match := re.search(pattern, line, re.IGNORECASE):
                where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
                found.append(f"{where}:{number}: {match[0]!r}, write: {instead}")
    return found


def files() -> list[Path]:
    """Every file of the users' install and every page."""
    pages = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    return sorted([*(ROOT / "src" / "calibrant").rglob("*.py"), *pages])


def test_old_words_do_not_come_back():
    found = [line for path in files() for line in old_words(path)]
    assert not found, "\n".join(found)


def test_every_page_is_read():
    assert {"README.md", "CONTRIBUTING.md", "architecture.md", "cli.md"} <= {path.name for path in files()}


@pytest.mark.parametrize(
    "text",
    [
        "# null values of a metric",
        "'drop or mend the row'",
        '"""It costs 5 % of the rows."""',
        '"""At most 10 000 rows."""',
        '"""Normalised entropy."""',
        '"""Return any measure of calibration."""',
        "x = 1  # neighbouring cells",
        'f"{100 * x:.1f} % right"',
    ],
)
def test_an_old_word_is_found(tmp_path, text):
    path = tmp_path / "module.py"
    path.write_text(text + "\n", encoding="utf-8")
    assert old_words(path)


@pytest.mark.parametrize(
    "text", ['"""Measure how far it is; 95% of 10,000 rows, 2.5 100."""', 'key = "metrics"', "centre = 1"]
)
def test_good_words_pass(tmp_path, text):
    path = tmp_path / "module.py"
    path.write_text(text + "\n", encoding="utf-8")
    assert old_words(path) == []


def test_no_module_is_named_by_a_gerund():
    """Modules are called by a noun, or by the verb they implement."""
    names = {path.stem for path in (ROOT / "src" / "calibrant").rglob("*.py")}
    nouns = {
        "binning", "drawing", "increasing", "lightning", "monitoring", "preserving", "resampling", "scaling", "seeding", "smoothing",
        "training", "typing", "wording", "writing",
    }  # fmt: skip
    gerunds = {name for name in names if name.endswith("ing") and not any(name.endswith(noun) for noun in nouns)}
    assert not gerunds


def test_public_functions_say_metric():
    """No public function has a parameter `measure` or `measures` without its new name beside it."""
    old = []
    for path in sorted((ROOT / "src" / "calibrant").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (isinstance(node, ast.FunctionDef) and not node.name.startswith("_")) or (
                isinstance(node, ast.FunctionDef) and node.name == "__init__"
            ):
                names = {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
                if names & {"measure", "measures"} and not (names & {"metric", "metrics"} or node.args.kwarg):
                    old.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not old
