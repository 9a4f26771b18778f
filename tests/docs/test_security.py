"""What SECURITY.md says calibrant never does, read from the code: no pickle, no network, no code from data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from helpers import ROOT

FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN |= {"socket", "ssl", "urllib", "http", "ftplib", "smtplib", "requests", "httpx", "aiohttp"}
#: The contract suites copy a user's calibrator through a pickle of its own making, as scikit-learn's checks do.
EXEMPT = {(f"src/calibrant/testing/{name}.py", "pickle") for name in ("calibrators", "regression_calibrators")}
#: Reading an address that stands in a file needs no network.
EXEMPT |= {(f"src/calibrant/engines/{name}.py", "urllib") for name in ("partitions", "tables")}


def offences(text: str, path: str) -> list[str]:
    """Forbidden imports and calls of one source file."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
            bare_load = called in {"np.load", "numpy.load"} and keywords.get("allow_pickle") != "False"
            if called in {"eval", "exec", "compile", "torch.load", "__import__"} or bare_load:
                found.append(f"{path}:{node.lineno}: {ast.unparse(node)[:80]}")
        found += [
            f"{path}:{node.lineno}: import {name}"
            for name in names
            if name.split(".")[0] in FORBIDDEN and (path, name.split(".")[0]) not in EXEMPT
        ]
    return found


def test_the_source_keeps_the_promises():
    files = sorted((ROOT / "src" / "calibrant").rglob("*.py"))
    assert files
    assert [
        line for path in files for line in offences(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from urllib.request import urlopen",
        "np.load(path)",
        "np.load(p, allow_pickle=True)",
        "eval(x)",
        "import http.client",
    ],
)
def test_the_reader_sees_offences(text):
    assert len(offences(text, "x.py")) == 1


def test_the_promises_stand_in_the_page():
    page = Path(ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for promise in ("No code from data", "allow_pickle=False", "No network", "How to report", "Supported versions"):
        assert promise in page
