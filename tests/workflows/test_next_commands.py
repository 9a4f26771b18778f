"""Printed commands run as they are printed, whatever files and columns are called; names meet or are refused."""

from __future__ import annotations

import re
import shlex

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from calibrant.cli import cli

CLASSES = ("cat", "dog", "bird")


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def printed(done) -> list[str]:
    """Return the words of the command that the line Next ends with."""
    line = next(line for line in done.output.splitlines() if line.startswith("Next: "))
    return shlex.split(re.search(r"calibrant (.*)$", line)[1])


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    """Overconfident predictions of three classes, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    z = rng.normal(size=(600, 3)) * 3
    p, q = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (z, z / 3))
    codes = [rng.choice(3, p=row) for row in q]
    return pl.DataFrame(p, schema=[f"p_{name}" for name in CLASSES]).with_columns(
        label=pl.Series(CLASSES).gather(codes)
    )


@pytest.mark.parametrize(
    ("file", "names", "words"),
    [
        ("my preds (it's 1).csv", {}, ()),
        ("b.csv", {"label": "what is it"}, ("--label", "what is it")),
        ("c.csv", {f"p_{name}": f"out {name}" for name in CLASSES}, ("--proba", "out *")),
    ],
)
def test_from_evaluate_to_apply_as_printed(predictions, file, names, words):
    predictions.rename(names).write_csv(file)
    done = run("evaluate", file, "--resamples", 50, *words)
    assert "overconfident" in done.output
    for command in ("fit", "apply"):
        step = printed(done)
        assert step[0] == command
        done = run(*step, *(["--method", "temperature"] if command == "fit" else []))
        assert done.exit_code == 0, done.output


def test_nothing_to_apply_ends_in_a_command_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    even = {f"p_{name}": [1 / 3] * 600 for name in CLASSES} | {"label": list(CLASSES) * 200}
    pl.DataFrame(even).write_csv("even.csv")
    done = run("fit", "even.csv", "-o", "cal.json", "--candidate", "temperature", "--candidate", "vector")
    assert "nothing to apply" in done.output
    assert printed(done) == ["report", "even.csv"]


def test_numbered_columns_meet_names_only_in_an_order_that_is_said(predictions):
    predictions.write_csv("named.csv")
    numbers = {f"p_{name}": f"p_{k}" for k, name in enumerate(CLASSES)}
    codes = pl.Series([CLASSES.index(name) for name in predictions["label"]])
    predictions.rename(numbers).with_columns(label=codes).write_csv("numbered.csv")
    assert run("fit", "named.csv", "--method", "vector", "-o", "cal.json").exit_code == 0
    for words in (("apply", "cal.json", "numbered.csv", "-o", "out.csv"),
                  ("compare", "numbered.csv", "--calibrator", "cal.json")):  # fmt: skip
        done = run(*words)
        assert "no names in p_0, p_1, p_2" in str(done.exception)
        assert "--proba p_0,p_1,p_2" in str(done.exception)
        assert run(*words, "--proba", "p_0,p_1,p_2").exit_code == 0


def test_compare_names_the_file_whose_classes_differ(predictions):
    predictions.write_csv("a.csv")
    predictions.rename({"p_bird": "p_fox"}).with_columns(pl.col("label").replace("bird", "fox")).write_csv("b.csv")
    line = str(run("compare", "a.csv", "b.csv").exception)
    assert line.startswith("AFTER must have the classes cat, dog, bird; got cat, dog, fox")
