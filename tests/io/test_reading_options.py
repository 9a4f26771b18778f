"""Options of reading: kept in every printed command, refused when empty, the same on every engine."""

from __future__ import annotations

import re
import shlex

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.errors import CalibrantError

NAMES = ("cat", "dog", "bird")


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def printed(done) -> list[str]:
    line = next(line for line in done.output.splitlines() if line.startswith("Next: "))
    return shlex.split(re.search(r"calibrant (.*)$", line)[1])


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    z = rng.normal(size=(400, 3)) * 3
    p, q = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (z, z / 3))
    codes = np.array([rng.choice(3, p=row) for row in q])
    return pl.DataFrame(p, schema=["p_0", "p_1", "p_2"]).with_columns(label=pl.Series(codes))


def named(rows):
    names = {f"p_{k}": f"out {name}" for k, name in enumerate(NAMES)}
    return rows.rename(names).with_columns(label=pl.Series(NAMES).gather(rows["label"]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": "my truth"}, ("--label", "my truth", "--proba", "out *")),
        ({"label": "X"}, ("--label", "X", "--proba", "out *", "--weight", "w", "--weight-kind", "frequency")),
    ],
)
def test_every_printed_command_keeps_the_options(rows, change, words):
    named(rows).with_columns(w=pl.lit(2)).rename(change).write_csv("a.csv")
    done = run("fit", "a.csv", *words, "--method", "temperature", "--holdout", 0.3)
    for command in ("apply", "compare"):
        step = printed(done)
        assert step[0] == command
        assert step[step.index("--label") + 1] == words[1]
        assert ("--weight" in step) == ("--weight" in words)
        done = run(*step)
        assert done.exit_code == 0, done.output


def test_the_part_that_was_read_stays(rows):
    p, y = rows.select("^p_.$").to_numpy(), rows["label"].to_numpy()
    np.savez("a.npz", probs_val=p, labels_val=y, probs_test=p, labels_test=y)
    for words, part in ((("--part", "val"), "val"), ((), "test")):
        step = printed(run("evaluate", "a.npz", *words, "--resamples", 100))
        assert step[:4] == ["fit", "a.npz", "--part", part]
        assert run(*step, "--method", "temperature").exit_code == 0


def test_wrong_words_are_errors_of_usage(rows):
    rows.write_csv("a.csv")
    for words in (("evaluate", "a.csv", "-m", "foo"), ("compare", "a.csv", "a.csv", "-m", "foo"),
                  ("evaluate", "a.csv", "--view", "foo"), ("evaluate", "a.csv", "--by", ""),
                  ("report", "a.csv", "--by", ","), ("evaluate", "a.csv", "-m", "")):  # fmt: skip
        done = run(*words)
        assert done.exit_code == 2, words
        assert f"{words[-2].replace('-m', '--metric')} must " in done.output
    done = run("evaluate", "a.csv", "--proba", "")
    assert "--proba must name columns or a pattern" in str(done.exception)


@pytest.mark.parametrize("kind", ["wide", "list"])
@pytest.mark.parametrize("engine", [None, "polars", "duckdb"])
@pytest.mark.parametrize("command", ["evaluate", "fit"])
def test_labels_from_one_are_refused_alike(rows, engine, command, kind):
    table = rows.with_columns(pl.col("label") + 1)
    if kind == "list":
        table = table.select("label", probs=pl.concat_list("p_0", "p_1", "p_2"))
    table.write_parquet("a.parquet")
    done = run(command, "a.parquet", *(("--engine", engine) if engine else ()))
    assert done.exit_code == 1
    assert "--label must hold class indices 0 … 2; got " in str(done.exception)
    assert "Hint: count classes from 0, or give the names of the classes" in str(done.exception)


@pytest.mark.parametrize("engine", [None, "polars"])
def test_a_feature_called_weight(rows, engine):
    kilos = np.random.default_rng(0).normal(70, 12, len(rows)).round()
    rows.with_columns(weight=pl.Series(kilos)).write_csv("a.csv")
    rows.write_csv("plain.csv")
    more = ("--resamples", 0, "--metric", "brier", "--json", *(("--engine", engine) if engine else ()))
    done = run("evaluate", "a.csv", *more)
    assert "rows weighted by weight" in done.stderr
    assert "if it is a feature of the rows, say --weight none" in done.stderr
    off, plain = (run("evaluate", *words, *more) for words in (("a.csv", "--weight", "none"), ("plain.csv",)))
    assert "weight" not in off.stderr
    assert off.stdout.replace("a.csv", "plain.csv") == plain.stdout != done.stdout.replace("a.csv", "plain.csv")
    told = run("evaluate", "a.csv", "--weight", "weight", *more)
    assert "if it is a feature" not in told.stderr


@pytest.mark.parametrize("spoiled", ["0.2524\x00", "0.1¶279", "n/a?"])
def test_text_among_scores_is_refused_in_one_line(tmp_path, spoiled):
    """Found by the campaign: the look at the sums of rows ended in a ValueError."""
    rows = [
        f"{0.1 * i:.1f},{1 - 0.1 * i:.1f},1" for i in range(1, 10)
    ]  # one class alone: are both columns its forecast?
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["p_0,p_1,label", *rows, f"{spoiled},0.5,1"]) + "\n", encoding="utf-8")
    with pytest.raises(CalibrantError) as refused:
        calibrant.evaluate(str(path), n_resamples=0)
    assert "\n" not in str(refused.value)


_SLIP = "drop or fix the row"
_PERCENT = "percent"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: np.where(np.arange(60) == 7, 1.7, s), _SLIP),  # one number just above 1
        (lambda s: np.where(np.arange(60) == 7, 17.0, s), _SLIP),  # a point forgotten
        (lambda s: np.where(np.arange(60) == 7, -0.2, s), _SLIP),
        (lambda s: 1.7 * s, "turn these scores into probabilities first"),
        (lambda s: 5 * s, "turn these scores into probabilities first"),  # ratings
        (lambda s: 300 * s, "turn these scores into probabilities first"),
        (lambda s: 6 * s - 3, "logit"),
        (lambda s: 100 * s, _PERCENT),
        (lambda s: 30 * s**3, _PERCENT),  # rare events: many are below 1%
    ],
)
def test_the_hint_speaks_of_percentages_where_the_numbers_do(change, said, tmp_path):
    score = change(np.linspace(0.01, 0.99, 60))
    outcome = np.tile([0, 1], 30)
    pl.DataFrame({"score": score, "label": outcome}).write_csv(tmp_path / "one.csv")
    for call in (
        lambda: calibrant.evaluate(str(tmp_path / "one.csv"), n_resamples=0),
        lambda: calibrant.metric("brier", outcome, score),
    ):
        with pytest.raises(CalibrantError) as caught:
            call()
        assert said in str(caught.value)
        assert (_PERCENT in str(caught.value)) == (said == _PERCENT)


@pytest.mark.parametrize(("scale", "bad", "said"), [(1, 1.7, _SLIP), (100, 50.0, _PERCENT), (7, 2.0, "several models")])
def test_the_hint_of_several_columns(scale, bad, said):
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 60)
    p[7, 2] = bad / scale
    with pytest.raises(CalibrantError, match=said):
        calibrant.metric("brier", np.arange(60) % 3, scale * p)


def test_what_a_new_user_meets(rows, tmp_path):
    """Words of errors that sent a reader the wrong way, or of rows that were left out without a word."""
    rows.write_csv("plain.csv")
    rows[:3].with_columns(pl.when(pl.int_range(3) > 0).then("p_0").alias("p_0")).write_csv("gap.csv")
    rows.with_columns(pl.col("label") + 1).write_csv("from one.csv")
    named(rows).write_csv("named.csv")
    pl.DataFrame({"confidence": rows["p_0"], "correct": rows["label"] == 0}).write_csv("pairs.csv")
    assert run("fit", "plain.csv", "--method", "temperature", "-o", "cal.json").exit_code == 0
    names = ",".join(name for name in named(rows).columns if name.startswith("out "))
    cases = {
        ("summarize", "gap.csv", "-o", "gap.calsum"): "written to gap.calsum; 1 rows were left out (1 missing)",
        ("evaluate", "from one.csv"): "in a file: p_1 is the column of class 1",
        ("compare", "plain.csv", "pairs.csv"): "must hold class probabilities like the first; got top-label pairs",
        ("compare", "pairs.csv", "plain.csv"): "must hold top-label pairs like the first; got class probabilities",
        ("check", "plain.csv"): "Hint: for example --max ks=0.02 or --min accuracy=0.9",
        (
            "report",
            "plain.csv",
            "-o",
            "page.pdf",
            "--no-compare",
            "--resamples",
            "0",
        ): "--output must end in .html; got page.pdf",
        ("apply", "cal.json", "named.csv", "--proba", "out *", "-o", "o.csv"): f"--proba '{names}'",
    }
    for words, said in cases.items():
        done = run(*words)
        assert said in f"{done.output}{done.exception}", words
    assert not (tmp_path / "page.pdf").exists()
