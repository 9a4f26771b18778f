"""One store, many models: one false-alarm rate for all, retries that change nothing, backfill, numbers for alerts."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import subprocess
import sys
import threading

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.errors import InputError
from calibrant.monitoring import family
from calibrant.monitoring.family import share_of
from calibrant.summary.slices import Slices
from calibrant.summary.summary import Summary

MODELS = ("a", 'b "x"', "c")


def night(seed=0, n=300, broken=(), models=MODELS, classes=2, day=None):
    rng = np.random.default_rng(seed)
    frames = []
    for model in models:
        p = rng.dirichlet(np.ones(classes), n)
        truth = p if model not in broken else p[:, ::-1]
        y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        columns = {f"p_{k}": p[:, k] for k in range(classes)} | {"label": y, "model": [model] * n}
        frames.append(pl.DataFrame(columns if day is None else columns | {"day": [day] * n}))
    return pl.concat(frames)


def content(store):
    return {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_rates_of_models_add_to_that_of_the_store():
    assert sum(share_of(0.05, place) for place in range(1, 10_000)) == pytest.approx(0.05, rel=1e-3)
    assert all(share_of(0.05, place) > share_of(0.05, place + 1) for place in range(1, 50))


def test_a_broken_model_is_named_and_the_others_are_not(tmp_path):
    for day in range(1, 5):
        report = calibrant.monitor(
            tmp_path / "s", night(day, broken=("c",) if day > 2 else ()), name=f"2026-11-0{day}", by="model"
        )
    assert report.alarm
    assert [model.alarm for model in report.models] == [False, False, True]
    assert [alarm["by"] for alarm in report.alarms] == [{"model": "c"}]
    limits = [model.log_threshold for model in report.models]
    assert limits == pytest.approx([math.log(1 / share_of(0.01, place)) for place in (1, 2, 3)])
    assert "900 predictions of 3 models by model" in str(report)
    late = calibrant.monitor(tmp_path / "s", night(2), name="2026-11-02", by="model")  # the same night again
    assert (late.name, late.n) == ("2026-11-02", 900)
    assert "model=c: ALARM since 2026-11-0" in str(report)
    again = calibrant.monitor(tmp_path / "s")  # the store knows its columns
    assert (again.name, again.alarms) == (report.name, report.alarms)


def test_retries_change_nothing_and_a_refused_night_writes_nothing(tmp_path):
    store = tmp_path / "s"
    for day in ("2026-11-01", "2026-11-02"):
        calibrant.monitor(store, night(int(day[-1])), name=day, by="model")
    before = content(store)
    for _ in range(3):
        calibrant.monitor(store, night(2), name="2026-11-02", by="model")
    assert content(store) == before
    with pytest.raises(InputError, match="have the classes of the store"):
        calibrant.monitor(store, night(3, classes=3), name="2026-11-03", by="model")
    with pytest.raises(InputError, match="which the store holds with other predictions"):
        calibrant.monitor(store, night(9), name="2026-11-02", by="model")
    with pytest.raises(InputError, match="by of monitor must stay"):
        calibrant.monitor(store, night(3).with_columns(site=pl.lit("x")), name="2026-11-03", by="site")
    assert content(store) == before
    calibrant.monitor(store, night(9), name="2026-11-02", by="model", replace=True)
    assert content(store) != before


def test_a_model_that_comes_later_leaves_the_others_as_they_were(tmp_path):
    calibrant.monitor(tmp_path / "s", night(1), name="2026-11-01", by="model")
    report = calibrant.monitor(tmp_path / "s", night(2, models=("0new", "a")), name="2026-11-02", by="model")
    assert [model.by["model"] for model in report.models] == ["0new", "a", 'b "x"', "c"]
    assert report.models[0].log_threshold == pytest.approx(math.log(1 / share_of(0.01, 4)))
    assert report.absent == ({"model": 'b "x"'}, {"model": "c"})
    assert report.n == 600


def test_backfill_is_the_same_as_night_by_night(tmp_path):
    days = [dt.date(2026, 11, day) for day in (9, 10, 11)]
    frames = [night(day.day, day=day) for day in days]
    pl.concat(frames[::-1]).write_parquet(tmp_path / "all.parquet")
    at_once = calibrant.monitor(tmp_path / "one", tmp_path / "all.parquet", by="model", days="day")
    for day, frame in zip(days, frames, strict=True):
        in_turn = calibrant.monitor(tmp_path / "two", frame, name=str(day), by="model")
    for one, two in zip(at_once.models, in_turn.models, strict=True):
        for mine, yours in zip(one.history, two.history, strict=True):
            numbers = {key: value for key, value in yours.items() if isinstance(value, float)}
            assert mine == yours | {key: pytest.approx(value, abs=1e-9) for key, value in numbers.items()}
    assert [m.window.ks_pvalue for m in at_once.models] == [m.window.ks_pvalue for m in in_turn.models]
    before = content(tmp_path / "one")
    calibrant.monitor(tmp_path / "one", tmp_path / "all.parquet", by="model", days="day")
    assert content(tmp_path / "one") == before
    with pytest.raises(InputError, match="days of monitor must come with"):
        calibrant.monitor(tmp_path / "three", tmp_path / "all.parquet", days="day")
    with pytest.raises(InputError, match="days of monitor must be another column"):
        calibrant.monitor(tmp_path / "one", tmp_path / "all.parquet", by="model", days="model")
    with pytest.raises(InputError, match="name of monitor must be left out"):
        calibrant.monitor(tmp_path / "one", tmp_path / "all.parquet", by="model", days="day", name="x")


def test_a_model_without_a_usable_row_raises_an_alarm(tmp_path):
    calibrant.monitor(tmp_path / "s", night(1), name="2026-11-01", by="model")
    bad = night(2).with_columns(pl.when(pl.col("model") == "a").then(None).otherwise(pl.col("p_0")).alias("p_0"))
    report = calibrant.monitor(tmp_path / "s", bad, name="2026-11-02", by="model")
    assert [(alarm["kind"], alarm["by"]["model"], alarm["value"]) for alarm in report.alarms] == [
        ("rejected", "a", 1.0)
    ]


def test_rows_left_out_of_many_models_are_said(tmp_path):
    """Of all days of a backfill, in text and JSON."""
    every = pl.concat([night(i).with_columns(day=pl.lit(f"2026-11-0{i}")) for i in (1, 2)])
    holed = every.with_columns(pl.when(pl.int_range(pl.len()) % 400 == 0).then(None).otherwise("p_0").alias("p_0"))
    bad = holed["p_0"].null_count()
    assert bad > 1
    report = calibrant.monitor(tmp_path / "s", holed, by="model", days="day")
    assert f"Note: {bad} rows were left out ({bad} missing)." in str(report)
    assert report.to_dict()["rejected"]["missing"] == bad
    again = calibrant.monitor(tmp_path / "s", by="model")
    assert again.rejected["missing"] == sum(model.rejected["missing"] for model in again.models)


SAMPLE = re.compile(r'^[a-z_]+(\{([a-z_]+="(\\.|[^"\\\n])*",?)+\})? -?[0-9.e+-]+$')


def test_the_command_line_gives_numbers_for_alerts(tmp_path):
    night(1, broken=("c",), n=2000).write_parquet(tmp_path / "2026-11-01.parquet")
    line = ["monitor", str(tmp_path / "s"), str(tmp_path / "2026-11-01.parquet"), "--by", "model", "--json"]
    done = CliRunner().invoke(cli, [*line, "--openmetrics", str(tmp_path / "state.prom")])
    assert done.exit_code == 3, done.output
    document = json.loads(done.stdout)
    keys = {"schema", "name", "n", "by", "alarm", "false_alarm_rate", "models", "alarms", "absent", "notes", "rejected"}
    assert set(document) == keys
    assert set(document["alarms"][0]) == {"kind", "since", "value", "limit", "text", "by"}
    assert document["models"][0]["by"] == {"model": "a"}
    text = (tmp_path / "state.prom").read_text(encoding="utf-8")
    assert text.endswith("# EOF\n")
    samples = [row for row in text.splitlines() if not row.startswith("#")]
    assert all(SAMPLE.match(row) for row in samples)
    assert 'calibrant_alarm{model="c",kind="calibration"} 1' in samples
    assert 'calibrant_alarm{model="b \\"x\\"",kind="calibration"} 0' in samples
    assert 'calibrant_rows{model="a"} 2000' in samples
    refused = CliRunner().invoke(cli, [*line[:3], "--by", "model", "--report", str(tmp_path / "page.html")])
    assert isinstance(refused.exception, InputError)
    assert "--report must be left out" in str(refused.exception)


def test_one_model_speaks_openmetrics_too(tmp_path):
    report = calibrant.monitor(tmp_path / "s", night(1, models=("a",)), name="2026-11-01")
    text = report.to_openmetrics()
    assert "calibrant_rows 300" in text
    assert 'calibrant_metric{metric="ece"} ' in text


NAME, VALUE = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'(?:[^"\\\n]|\\["\\n])*'
LABEL = rf'([a-zA-Z_][a-zA-Z0-9_]*)="({VALUE})"'
STRICT = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,(?:{LABEL}))*)\}})? (-?\d+(?:\.\d+)?(?:e[+-]\d+)?)")


def parsed(text):
    """Read OpenMetrics text as strictly as its grammar; return the values by family and labels."""
    *lines, end, empty = text.split("\n")
    assert (end, empty) == ("# EOF", "")
    found, seen, family = {}, set(), None
    for line in lines:
        if line.startswith("# TYPE "):
            family, kind = line.removeprefix("# TYPE ").split(" ")
            assert re.fullmatch(NAME, family)
            assert kind == "gauge"
            assert family not in seen
            seen.add(family)
        elif line.startswith("# HELP "):
            named, _, words = line.removeprefix("# HELP ").partition(" ")
            assert named == family
            assert words
        else:
            match = STRICT.fullmatch(line)
            assert match, line
            assert match[1] == family
            labels = re.findall(LABEL, match[2] or "")
            assert not any(name.startswith("__") for name, _ in labels)
            assert len(dict(labels)) == len(labels)
            key = family, tuple(sorted(labels))
            assert key not in found, key
            found[key] = float(match[match.lastindex])
    return found


def test_openmetrics_is_strict_whatever_names_the_models(tmp_path):
    when = dt.datetime(2026, 11, 15, 6, 30)  # noqa: DTZ001 -- without a zone, as many logs have it
    values = {
        "kind": ["x", None],
        "a.b": ["None", None],
        "a b": ["\\n", "\n"],
        "__x": ['"', "\\"],
        "1st": [when, None],
        "reason": [1.5, 2.5],
    }
    frame = night(models=("a", "b")).drop("model")
    frame = frame.with_columns(*(pl.Series(name, [x] * 300 + [y] * 300) for name, (x, y) in values.items()))
    report = calibrant.monitor(tmp_path / "s", frame, name="2026-11-01", by=list(values))
    found = parsed(report.to_openmetrics())
    rows = [dict(labels) for family, labels in found if family == "calibrant_rows"]
    names = ["kind_", "a_b", "a_b_", "_x", "_1st", "reason_"]
    assert rows == [
        dict(zip(names, given, strict=True))
        for given in (
            ("x", "None", "\\\\n", '\\"', "2026-11-15T06:30:00", "1.5"),
            ("", "", "\\n", "\\\\", "", "2.5"),
        )
    ]
    kinds = {dict(labels)["kind"] for family, labels in found if family == "calibrant_alarm"}
    assert kinds == {"calibration", "rejected", "volume"}
    assert parsed(calibrant.monitor(tmp_path / "one", night(1, models=("a",)), name="x").to_openmetrics())


def test_writers_in_processes_of_their_own_lose_nothing(tmp_path):
    """Four at once on a new store of many models and on a summary file: two write the same night."""
    for number in (1, 2, 3):
        night(number).write_parquet(tmp_path / f"2026-11-0{number}.parquet")
    run = [sys.executable, "-m", "calibrant"]
    files = [str(tmp_path / f"2026-11-0{number}.parquet") for number in (1, 2, 3, 1)]
    lines = [["monitor", str(tmp_path / "s"), file, "--by", "model", "--json"] for file in files]
    lines += [["summarize", file, "--by", "model", "-o", str(tmp_path / "out.calsum"), "--json"] for file in files]
    for some in (lines[:4], lines[4:]):
        writers = [subprocess.Popen([*run, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for line in some]
        for writer in writers:
            said = writer.communicate(timeout=120)
            assert writer.returncode == 0, said
    report = calibrant.monitor(tmp_path / "s")
    assert [(model.by["model"], model.days) for model in report.models] == [(name, 3) for name in MODELS]
    assert len(list((tmp_path / "s").rglob("*.day"))) == 9
    assert not list(tmp_path.rglob("*.tmp"))
    assert any(
        Slices.load(tmp_path / "out.calsum").whole.same_rows(calibrant.workflows.summarize.summarize(file).slices.whole)
        for file in files
    )


def test_a_night_of_many_models_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """Another first writer, whose classes differ, comes while the first model of a night is written."""
    from calibrant.monitoring import family

    rng, refused = np.random.default_rng(0), []
    two, three = (Summary(k).update(rng.integers(0, k, 200), rng.dirichlet(np.ones(k), 200)) for k in (2, 3))

    def other():
        try:
            family.add_models(tmp_path, [("2026-11-16", None, {("b",): two, ("c",): two})], by=["model"])
        except InputError as error:
            refused.append(str(error))

    genuine, writers = family.add_day, [threading.Thread(target=other)]

    def slow(store, *given, **options):
        made = genuine(store, *given, **options)
        if not writers[0].ident:
            writers[0].start()
            writers[0].join(1)
        return made

    monkeypatch.setattr(family, "add_day", slow)
    report = family.add_models(tmp_path, [("2026-11-15", None, {("a",): three, ("b",): three})], by=["model"])
    writers[0].join()
    assert [model.by["model"] for model in report.models] == ["a", "b"]
    assert len(refused) == 1
    assert "classes of the store" in refused[0]
    left = family.add_models(tmp_path, by=["model"])
    assert [(model.by["model"], model.name) for model in left.models] == [("a", "2026-11-15"), ("b", "2026-11-15")]


def test_nights_of_one_call_have_one_class_set(tmp_path):
    rng = np.random.default_rng(3)
    three, two = (Summary(k).update(rng.integers(0, k, 200), np.full((200, k), 1 / k)) for k in (3, 2))
    nights = [("2026-11-15", None, {("a",): three}), ("2026-11-16", None, {("a",): two, ("b",): two})]
    with pytest.raises(InputError, match="classes of the store"):
        family.add_models(tmp_path / "new", nights, by=["model"])
    with pytest.raises(InputError, match="at least one model"):  # nothing was written
        family.add_models(tmp_path / "new", by=["model"])
    found = family.add_models(tmp_path / "new", nights, by=["model"], restart=True)
    assert [(model.by["model"], model.name, model.days) for model in found.models] == [
        ("a", "2026-11-16", 1), ("b", "2026-11-16", 1)
    ]  # fmt: skip
    again = family.add_models(tmp_path / "new", nights, by=["model"], restart=True)
    assert [(model.name, model.days) for model in again.models] == [("2026-11-16", 1)] * 2
    with pytest.raises(InputError, match="classes of the store"):  # a model that the store does not know
        family.add_models(tmp_path / "new", [(n, d, {("c",): p["a",]}) for n, d, p in nights], by=["model"])
    assert [model.by["model"] for model in family.add_models(tmp_path / "new", by=["model"]).models] == ["a", "b"]


@pytest.mark.parametrize("by", [None, "model"])
def test_files_left_out_are_said(tmp_path, by):
    (tmp_path / "2026-11-01").mkdir()
    night(1).write_parquet(tmp_path / "2026-11-01" / "a.parquet")
    (tmp_path / "2026-11-01" / "b.parquet").write_bytes(b"PAR1 no more")
    report = calibrant.monitor(tmp_path / "s", tmp_path / "2026-11-01", by=by, skip_bad_files=True)
    assert "1 files could not be read and were left out." in str(report)
    assert len(report.notes) == 1


def test_refusals_write_other_arguments_as_the_caller_does(tmp_path):
    night(day="2026-11-01").write_parquet(tmp_path / "all.parquet")
    with pytest.raises(InputError, match=r"days of monitor must come with by=;"):
        calibrant.monitor(tmp_path / "s", tmp_path / "all.parquet", days="day")
    done = CliRunner().invoke(cli, ["monitor", str(tmp_path / "s"), str(tmp_path / "all.parquet"), "--days", "day"])
    assert "--days must come with --by;" in str(done.exception)
