"""A small plain table is read without Polars, and as Polars reads it."""

import random

import numpy as np
import pytest

from calibrant.errors import FileError
from calibrant.io import text
from calibrant.io.readers import read_predictions


def _cell(kind, rng):
    if kind == "whole":
        return str(rng.choice([0, 1, -3, 17, 10**12]))
    if kind == "number":
        return rng.choice(
            [repr(rng.random()), f"{rng.random():.3f}", repr(rng.random() * 1e-7), "0", "1", ".5", "-0.25"]
        )
    if kind == "word":
        return rng.choice(["cat", "dog", "a b", "x-1", "v1.0", "T"])
    return rng.choice(["", "NA", "nan", "inf", "true", "False", "+5", "007", "1e999", "5.", "1_0", " 1", "1 ", "-", "90%",
                       "0,5", "[0.1 0.9]", "2026-11-17", "12345678901234567890", "e", "é", "1e5", "-1.e2", "#a"])  # fmt: skip


def _table(rng):
    kinds = rng.choices(["whole", "number", "word", "odd"], [4, 4, 3, 1], k=rng.randint(1, 4))
    mark, end = rng.choice([",", ",", "\t"]), rng.choice(["\n", "\n", "\r\n"])
    rows = [mark.join(f"c{i}" for i in range(len(kinds)))]
    rows += [mark.join(_cell(kind, rng) for kind in kinds) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.05:
        rows.insert(rng.randint(1, len(rows)), "")
    return (end.join(rows) + rng.choice(["", end])).encode()


def test_plain_columns_are_those_of_polars():
    rng = random.Random(0)
    read = 0
    for _ in range(3_000):
        raw = _table(rng)
        try:
            columns = text.read_plain(raw, "x")
        except FileError:
            continue  # raised before either reader begins
        if columns is None:
            continue
        read += 1
        frame = text.read_text(raw, "x")
        assert list(columns) == frame.columns, raw
        for name, column in columns.items():
            theirs = frame[name].to_numpy()
            assert column.dtype == theirs.dtype, (raw, name)
            assert column.tolist() == theirs.tolist(), (raw, name)
    assert read > 1_000


def test_numbers_are_read_to_the_last_bit():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.random(20_000), rng.random(2_000) * 10.0 ** -rng.integers(0, 300, 2_000)])
    raw = ("score\n" + "\n".join(map(repr, values.tolist())) + "\n").encode()
    columns = text.read_plain(raw, "x")
    assert columns is not None
    assert (columns["score"] == values).all()
    assert (text.read_text(raw, "x")["score"].to_numpy() == values).all()


@pytest.mark.parametrize("row", ["0.5,1,", "0.5", "0.5,1,2"])
def test_rows_of_other_lengths_are_left_to_the_reader_that_names_them(row):
    assert text.read_plain(f"score,label\n0.1,0\n{row}\n".encode(), "x") is None


def test_errors_count_lines_and_refuse_parts_alike(tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    file.write_text("score,label\n0.5,1\n1.25,0\n", encoding="utf-8")
    said = []
    for small in (text.SMALL, 0):
        monkeypatch.setattr(text, "SMALL", small)
        from calibrant import evaluate

        with pytest.raises(ValueError, match="line 3") as raised:
            evaluate(file)
        said.append(str(raised.value))
        with pytest.raises(ValueError, match="left out for tables") as raised:
            evaluate(file, part="test")
        said.append(str(raised.value))
        assert read_predictions(file).first_line == 2
    assert said[:2] == said[2:]
