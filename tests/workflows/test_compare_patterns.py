"""`compare` on patterns and directories: files are paired by the order of their names."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calibrant import compare
from calibrant.errors import FileError
from calibrant.workflows import second
from calibrant.workflows.summarize import summarize


def _write(folder, sharpness, sizes=(200, 300), seed=0, dtype=np.float64):
    folder.mkdir()
    frames = []
    for day, n in enumerate(sizes):
        rng = np.random.default_rng([seed, day])
        p = rng.dirichlet([1.0, 1.0, 1.0], n)
        y = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
        q = p**sharpness
        q = (q / q.sum(axis=1, keepdims=True)).astype(dtype)
        frame = pl.DataFrame({"p_0": q[:, 0], "p_1": q[:, 1], "p_2": q[:, 2], "label": y})
        frame.write_parquet(folder / f"day-{day}.parquet")
        frames.append(frame)
    whole = folder.parent / f"{folder.name}.parquet"
    pl.concat(frames).write_parquet(whole)
    return whole


def test_patterns_and_directories_give_what_one_file_gives(tmp_path):
    one, two = _write(tmp_path / "a", 2.0), _write(tmp_path / "b", 1.0)
    alone = compare(one, two).to_dict()
    assert alone["metrics"]["brier"]["change"] > 0
    assert compare(str(tmp_path / "a" / "*.parquet"), str(tmp_path / "b")).to_dict() == alone
    assert compare(tmp_path / "a", two).to_dict() == alone


def test_files_that_do_not_pair_are_named(tmp_path):
    _write(tmp_path / "a", 2.0)
    _write(tmp_path / "fewer", 1.0, sizes=(200,))
    _write(tmp_path / "shorter", 1.0, sizes=(201, 299))
    _write(tmp_path / "other", 1.0, seed=1)
    with pytest.raises(FileError, match="there are 2 and 1 of them"):
        compare(tmp_path / "a", tmp_path / "fewer")
    with pytest.raises(FileError, match=r"a/day-0\.parquet has 200 rows and .*shorter/day-0\.parquet 201"):
        compare(tmp_path / "a", tmp_path / "shorter")
    with pytest.raises(FileError, match=r"labels of .* differ at row"):
        compare(tmp_path / "a", tmp_path / "other")


def test_what_has_no_rows_to_pair_is_refused_with_the_action(tmp_path, monkeypatch):
    one = _write(tmp_path / "a", 2.0)
    summarize(one, tmp_path / "a.calsum")
    with pytest.raises(FileError, match="keeps no rows"):
        compare(tmp_path / "a.calsum", one)
    with pytest.raises(FileError, match="no common order of rows"):
        compare(pl.scan_parquet(one), one)
    monkeypatch.setattr(second, "LARGE", 10)
    with pytest.raises(FileError, match="compare one day or part at a time"):
        compare(tmp_path / "a", one)
