"""No windows, and no figure left open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

mpl = pytest.importorskip("matplotlib", reason="matplotlib is absent (extra: plots)")
mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before
