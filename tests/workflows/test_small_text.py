"""One text file that memory holds is the same rows to every command, whatever way it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.errors import CalibrantError
from calibrant.workflows.monitor import monitor
from calibrant.workflows.summarize import summarize

Y = [1, 0, 1, 1, 0, 0, 1, 0] * 5
P = [0.9, 0.2, 0.75, 0.6, 0.4, 0.1, 0.8, 0.3] * 5
SITES = ["a", "b", "", "b"] * 10
WAYS = {
    "semicolons": ("label;score;site", "{y};{p};{site}", lambda p: f"{p}".replace(".", ",")),
    "percent signs": ("label,score,site", "{y},{p},{site}", lambda p: f"{100 * p:g}%"),
    "spaces in the header": ("label, score, site", "{y},{p},{site}", str),
}


def written(folder: Path, way: str, last: str = "") -> Path:
    head, line, cell = WAYS[way]
    lines = [line.format(y=y, p=cell(p), site=site) for y, p, site in zip(Y, P, SITES, strict=True)]
    path = folder / f"{way.split(maxsplit=1)[0]}.csv"
    path.write_text("\n".join([head, *lines]) + "\n" + last, encoding="utf-8")
    return path


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_evaluate_reads_is_summarized(tmp_path, way):
    whole = summarize(written(tmp_path, way)).slices.whole
    assert calibrant.evaluate(whole)["ece"].value == pytest.approx(calibrant.evaluate(Y, P)["ece"].value, abs=1e-12)


def test_slices_of_a_file_have_the_keys_of_the_engine(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"label": Y, "score": P, "site": [site or None for site in SITES], "k": rng.integers(0, 3, 40)}
    )
    frame.write_csv(path := tmp_path / "rows.csv")
    for by in ("site", "k", ["site", "k"]):
        read = summarize(path, by=by).slices.sorted_parts()
        scanned = summarize(path, by=by, engine="polars").slices.sorted_parts()
        assert list(read) == list(scanned)
        assert [part.n for part in read.values()] == [part.n for part in scanned.values()]


def test_a_missing_value_is_a_slice_of_its_own_not_a_word():
    site = np.array(["a", None, "None", np.nan] * 10, dtype=object)
    found = calibrant.evaluate(Y, P, by={"site": site})
    assert {part.by["site"]: part.evaluation.n for part in found.slices} == {"a": 10, "None": 10, None: 20}


def test_bad_rows_of_a_file_are_counted_and_strict_refuses_them(tmp_path):
    path = written(tmp_path, "semicolons", last="1;NA;a\n")
    done = summarize(path, by="site")
    assert (done.slices.whole.n, done.slices.whole.rejected["missing"]) == (40, 1)
    with pytest.raises(CalibrantError, match="finite"):
        summarize(path, strict=True)
    with pytest.raises(CalibrantError, match="1%"):
        summarize(path, max_rejected="1%")


def test_models_in_one_file_are_monitored(tmp_path):
    report = monitor(tmp_path / "store", written(tmp_path, "percent signs"), by="site", name="2026-11-18")
    assert (report.n, len(report.models)) == (40, 3)
