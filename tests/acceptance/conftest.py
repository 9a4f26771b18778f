"""One folder of inputs for all acceptance tests of a worker, and the list of what is known to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("polars", reason="the acceptance tests write their inputs with Polars")

from acceptance.inputs import make_inputs

#: Tests whose subject is not finished: one "file::test[case]" a line. Whoever finishes it removes the line.
PENDING = Path(__file__).parent / "pending.txt"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lines = PENDING.read_text(encoding="utf-8").splitlines() if PENDING.exists() else []
    pending = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    for item in items:
        if item.nodeid.partition("acceptance/")[2] in pending:
            item.add_marker(pytest.mark.xfail(reason="listed in tests/acceptance/pending.txt", strict=True))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with every input file; tests write their outputs elsewhere or under names of their own."""
    path = tmp_path_factory.mktemp("acceptance")
    make_inputs(path)
    return path
