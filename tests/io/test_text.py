"""Text tables: what begins like a comment, letters far below the first lines, names that hold a comma."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.io.layout import Layout
from calibrant.io.readers import read_predictions
from calibrant.io.text import read_text


def test_rows_that_begin_like_a_comment_are_read(tmp_path, caplog):
    path = tmp_path / "a.csv"
    rows = [f"{'#' if i % 4 == 0 else ''}{i},0.{10 + i},{i % 2}" for i in range(40)]
    path.write_text("\n".join(["# made by hand", "id,score,label", *rows[:20], "# second half", *rows[20:]]) + "\n")
    with caplog.at_level(logging.INFO, "calibrant.read"):
        found = read_predictions(path)
    assert found.scores.tolist() == [float(f"0.{10 + i}") for i in range(40)]
    assert found.columns["id"][:2].tolist() == ["#0", "1"]
    assert "10 rows begin with # and have as many cells as the header: read as rows" in caplog.text


def test_comments_between_rows_are_left_out(caplog):
    text = '# first\n#\nid,name,score\n1,"a\n# b",0.5\n# nothing here\n2,c,0.25\n#\n'
    with caplog.at_level(logging.INFO, "calibrant.read"):
        frame = read_text(text.encode(), "a.csv")
    assert frame["score"].to_list() == [0.5, 0.25]
    assert frame["name"].to_list() == ["a\n# b", "c"]
    assert not caplog.text


def test_letters_below_the_first_lines(tmp_path):
    rows = [f"0.{1000 + i % 9000},{i % 2},plain" for i in range(30_000)]
    text = "\n".join(["score,label,name", *rows, "0.5,1,café"]) + "\n"
    for encoding in ("cp1252", "utf-8"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text.encode(encoding))
        assert read_predictions(path).columns["name"][-1] == "café"
    path.write_bytes(text.replace("plain", "naïve", 1).encode() + "0.5,1,café\n".encode("cp1252"))
    with pytest.raises(calibrant.errors.FileError, match="utf-8"):  # two encodings: damage, not a choice
        read_predictions(path)


def test_names_with_commas_win_over_several_names(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 50).round(6)
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    frame = pl.DataFrame({"label": rng.integers(0, 2, 50), "P(a,b)": p[:, 0], "b)": p[:, 1], "P(a": p[:, 2]})
    frame.write_csv(tmp_path / "a.csv")
    for proba in ("P(a,b)", ["P(a,b)"]):
        found = read_predictions(tmp_path / "a.csv", Layout(proba=proba))
        assert found.source == ("P(a,b)",)
        assert found.scores.tolist() == p[:, 0].tolist()
        lazy = calibrant.evaluate(frame.lazy(), proba=proba, metrics=["brier"])
        assert lazy["brier"].value == pytest.approx(
            calibrant.evaluate(frame, proba=proba, metrics=["brier"])["brier"].value
        )
    three = frame.with_columns(label=pl.Series(rng.integers(0, 3, 50)))
    for proba in ("P(a,b),b),P(a", ["P(a,b)", "b)", "P(a"], ["P(a,b) , b)", "P(a"]):
        three.write_csv(tmp_path / "b.csv")
        assert read_predictions(tmp_path / "b.csv", Layout(proba=proba)).source == ("P(a,b)", "b)", "P(a")


def test_numbers_are_read_to_the_last_bit():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.random(20_000), rng.random(2_000) * 10.0 ** -rng.integers(0, 300, 2_000)])
    raw = ("score\n" + "\n".join(map(repr, values.tolist())) + "\n").encode()
    assert (read_text(raw, "x")["score"].to_numpy() == values).all()


def test_errors_count_lines_and_refuse_parts(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("score,label\n0.5,1\n1.25,0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3"):
        calibrant.evaluate(file)
    with pytest.raises(ValueError, match="left out for tables"):
        calibrant.evaluate(file, part="test")
    assert read_predictions(file).first_line == 2
