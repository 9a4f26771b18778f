"""A lake of logged predictions: the same answer on Polars, DuckDB and real Spark, whatever lies in it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import subprocess
import sys
from urllib.parse import unquote

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.calibrators import HistogramBinning, IsotonicOneVsRest, TemperatureScaling
from calibrant.errors import FileError, InputError
from calibrant.summary.slices import Slices
from calibrant.workflows.apply import apply
from calibrant.workflows.sources import Reading, summarize_data
from calibrant.workflows.summarize import summarize as summarize_verb

SPARK = [
    pytest.mark.spark,
    *(
        pytest.mark.filterwarnings(f"ignore::{kind}")
        for kind in ("FutureWarning", "UserWarning", "ResourceWarning", "DeprecationWarning")
    ),
]
#: Spark answers a question about a hundred rows in seconds: it is asked once for each item.
LOCAL = ["polars", "duckdb"]
ENGINES = [*LOCAL, pytest.param("spark", marks=SPARK)]


def on_engines(name, cases, spark):
    """Every case on local engines, and some on Spark."""
    every = [(engine, case) for engine in LOCAL for case in cases]
    return pytest.mark.parametrize(
        ("engine", name), [*every, *(pytest.param("spark", case, marks=SPARK) for case in spark)], indirect=["engine"]
    )


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "duckdb":
        pytest.importorskip("duckdb", reason="DuckDB is absent (extra: engines)")
    return request.param


def rows(n=400, k=3, seed=0, dtype=np.float64, classes=None):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), n).astype(dtype)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    names = classes or [str(i) for i in range(k)]
    label = np.array(classes)[y] if classes else y
    return pl.DataFrame({f"p_{name}": p[:, i] for i, name in enumerate(names)} | {"label": label})


def summarize(path, engine, by=(), **options):
    return summarize_data(str(path), Reading("evaluate", engine=engine, **options), by=list(by), views=["top-1"])


# -- 1: unusable rows in apply ----------------------------------------------------------------------

METHODS = {"temperature": TemperatureScaling, "isotonic": IsotonicOneVsRest, "histogram": HistogramBinning}


@on_engines("method", METHODS, spark=["temperature", "isotonic"])  # an expression, and batches
def test_an_unusable_row_gives_null_and_touches_no_neighbor(tmp_path, engine, method):
    frame = rows(60)
    p = frame.select("p_0", "p_1", "p_2").to_numpy()
    fitted = METHODS[method]().fit(p, frame["label"].to_numpy())
    bad = frame.with_columns(
        pl.when(pl.int_range(60) == 7).then(None).otherwise(pl.col("p_1")).alias("p_1"),
        pl.when(pl.int_range(60) == 9).then(2.0).otherwise(pl.col("p_0")).alias("p_0"),
        pl.when(pl.int_range(60) == 11).then(float("nan")).otherwise(pl.col("p_2")).alias("p_2"),
        id=pl.int_range(60),
    )
    bad.write_parquet(tmp_path / "in.parquet")
    done = apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet", engine=engine)
    assert (done.n, done.rejected) == (60, {"missing": 2, "outside": 1})
    out = pl.read_parquet(tmp_path / ("out.parquet/*.parquet" if engine == "spark" else "out.parquet")).sort("id")
    got = out.select("p_0", "p_1", "p_2")
    empty = [i for i, row in enumerate(got.rows()) if row == (None, None, None)]
    assert empty == [7, 9, 11]
    keep = [i for i in range(60) if i not in empty]
    np.testing.assert_allclose(got.to_numpy()[keep], fitted.predict_proba(p)[keep], atol=1e-12)
    for refused in ({"strict": True}, {"max_rejected": "1%"}) if method == "temperature" else ():
        with pytest.raises(FileError, match="cannot be used"):
            apply(fitted, tmp_path / "in.parquet", tmp_path / "never.parquet", engine=engine, **refused)
    assert not (tmp_path / "never.parquet").exists()
    if engine != "spark":
        apply(fitted, tmp_path / "in.parquet", tmp_path / "fine.parquet", engine=engine, max_rejected=0.1)


def test_a_list_column_gives_null_lists(tmp_path, engine):
    frame = rows(40)
    p = frame.select("p_0", "p_1", "p_2").to_numpy()
    fitted = TemperatureScaling().fit(p, frame["label"].to_numpy())
    lists = [*p[:38].tolist(), None, [0.5, 0.5]]
    pl.DataFrame({"probs": lists, "id": range(40)}).write_parquet(tmp_path / "in.parquet")
    done = apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet", engine=engine)
    assert done.rejected == {"missing": 2, "outside": 0}
    out = pl.read_parquet(tmp_path / ("out.parquet/*.parquet" if engine == "spark" else "out.parquet")).sort("id")
    assert out["probs"].to_list()[38:] == [None, None]
    np.testing.assert_allclose(out["probs"].to_list()[:38], fitted.predict_proba(p[:38]), atol=1e-12)


# -- 4: partitions; 5: values that name slices; 6: what is no data ------------------------------------


def write_lake(folder, kind="parquet"):
    for number, (model, day) in enumerate([("a b", "2026-11-01"), ("a b", "2026-11-02"), ("01", "2026-11-01")]):
        target = folder / f"model={model}" / f"day={day}"
        target.mkdir(parents=True)
        frame = rows(100, seed=number)
        frame.write_parquet(target / "x.parquet") if kind == "parquet" else frame.write_csv(target / "x.csv")


def add_what_is_no_data(folder):
    for name in ("_temporary/0", "model=a b/_committed", ".hidden", "model=a b/.tmp", "_delta_log_old"):
        (folder / name).mkdir(parents=True)
        rows(50).write_parquet(folder / name / "y.parquet")
    (folder / "_SUCCESS").write_bytes(b"")


@on_engines("kind", ["parquet", "csv"], spark=["parquet", "csv"])
def test_directories_name_columns_and_what_is_no_data_is_skipped(tmp_path, engine, kind):
    write_lake(tmp_path / "lake", kind)
    paths = [tmp_path / "lake" / "model=*" / "day=2026*" / f"*.{kind}", tmp_path / "lake"]
    if kind == "parquet":
        add_what_is_no_data(tmp_path / "lake")
        paths.insert(0, tmp_path / "lake" / "**" / "*.parquet")
    for path in paths[-1:] if engine == "spark" else paths:
        found = summarize(path, engine, by=["model", "day"])
        one, two = dt.date(2026, 11, 1), dt.date(2026, 11, 2)
        assert list(found.sorted_parts()) == [("01", one), ("a b", one), ("a b", two)]
        assert [part.n for part in found.parts.values()] == [100, 100, 100]


def test_values_of_every_type_name_slices(tmp_path, engine):
    time = dt.datetime(2026, 11, 15, 6, 30)  # noqa: DTZ001 -- without a zone, as many logs have it
    values = {
        "date": [dt.date(2026, 11, 15), None],
        "time": [time, None],
        "zoned": [time.replace(tzinfo=dt.UTC), None],
        "price": [decimal.Decimal("1.50"), None],
        "raw": [b"\xff\x00", None],
        "flag": [True, None],
        "number": [1.5, float("nan")],
    }
    frame = rows(100).with_columns(
        *(pl.Series(name, [x[0]] * 50 + [x[1]] * 50) for name, x in values.items()),
        user=pl.struct(country=pl.Series(["de"] * 50 + ["fr"] * 50)),
    )
    frame.write_parquet(tmp_path / "a.parquet")
    first = tuple(x[0] for x in values.values())
    empty = (*(None for _ in values), "fr")
    found = summarize(tmp_path / "a.parquet", engine, by=[*values, "user.country"])
    assert list(found.sorted_parts()) == [(*first, "de"), empty]
    assert list(Slices.from_bytes(found.to_bytes()).sorted_parts()) == [(*first, "de"), empty]
    assert json.dumps(calibrant.evaluate(found, n_resamples=0).to_dict())  # plain data, whatever names a slice
    for name in values if engine != "spark" else ():
        found = summarize(tmp_path / "a.parquet", engine, by=[name])
        assert list(found.sorted_parts()) == [(values[name][0],), (None,)], name


# -- 7: schema first -----------------------------------------------------------------------------------


def write_two(folder, one, two, kind="parquet"):
    folder.mkdir(exist_ok=True)
    for name, frame in (("a", one), ("b", two)):
        if kind == "parquet":
            frame.write_parquet(folder / f"{name}.parquet")
        else:
            frame.write_csv(folder / f"{name}.csv")
    return folder


WIDENED = {
    "float32 and float64": (rows(), rows(seed=1, dtype=np.float32)),
    "int32 and int64": (rows().with_columns(pl.col("label").cast(pl.Int32)), rows(seed=1)),
    "other order of columns": (rows(), rows(seed=1).select("label", "p_2", "p_0", "p_1")),
    "a column more": (rows(), rows(seed=1).with_columns(note=pl.lit("x"))),
    "categories and text": (
        rows(classes=["ant", "bee", "cat"]).with_columns(pl.col("label").cast(pl.Categorical)),
        rows(seed=1, classes=["ant", "bee", "cat"]),
    ),
    "decimals": (
        rows(),
        rows(seed=1).with_columns(pl.col("p_0", "p_1", "p_2").map_batches(lambda s: s.round(3)).cast(pl.Decimal(6, 3))),
    ),
}


#: All that are numbers, in one lake.
WIDENED["numbers of all kinds"] = tuple(
    frame for name, pair in WIDENED.items() if name != "categories and text" for frame in pair
)


@on_engines("case", WIDENED, spark=["numbers of all kinds", "categories and text"])
def test_types_are_widened(tmp_path, engine, case):
    frames = WIDENED[case]
    (tmp_path / "lake").mkdir()
    for number, frame in enumerate(frames):
        frame.write_parquet(tmp_path / "lake" / f"{number}.parquet")
    found = summarize(tmp_path / "lake", engine)
    assert (found.whole.n, sum(found.rejected.values())) == (400 * len(frames), 0)
    reference = calibrant.Summary(3)
    for frame in frames:
        p = frame.select("p_" + c for c in (frame["label"].cast(pl.String).unique().sort().to_list())).to_numpy()
        names = frame["label"].cast(pl.String).unique().sort().to_list()
        y = np.array([names.index(str(v)) for v in frame["label"].to_list()])
        reference.update(y, p.astype(np.float64), normalize=True)
    assert found.whole.metric("accuracy") == pytest.approx(reference.metric("accuracy"), abs=1e-9)
    assert found.whole.metric("ece") == pytest.approx(reference.metric("ece"), abs=2e-3)


def test_half_precision_is_read_or_refused_by_name(tmp_path, engine):
    frame = rows(dtype=np.float16).select(pl.col("p_0", "p_1", "p_2").cast(pl.Float16), "label")
    folder = write_two(tmp_path / "lake", frame, frame)
    if engine == "spark":
        with pytest.raises(FileError, match="16 bits"):
            summarize(folder, engine)
    else:
        assert summarize(folder, engine).whole.n == 800


REFUSED = {
    "another class set": (rows(k=3), rows(k=4), "scores"),
    "lists and columns": (
        rows(),
        rows().select(pl.concat_list("p_0", "p_1", "p_2").alias("probs"), "label"),
        "form|scores",
    ),
    "a weight somewhere": (rows(), rows().with_columns(weight=pl.lit(2.0)), "weight"),
    "another label": (rows(), rows().rename({"label": "target"}), "label"),
    "no label": (rows(), rows().drop("label"), "label"),
    "text beside numbers": (rows(), rows().with_columns(pl.col("label").cast(pl.String)), "label"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_do_not_fit_together_are_named(tmp_path, engine, case):
    one, two, word = REFUSED[case]
    folder = write_two(tmp_path / "lake", one, two)
    with pytest.raises(FileError, match=word) as caught:
        summarize(folder, engine)
    assert "b.parquet" in str(caught.value)


def test_csv_types_are_the_same_everywhere(tmp_path, engine):
    one = pl.DataFrame({"p_0": [0, 1, 1], "p_1": [1, 0, 0], "label": [1, 0, 0], "site": ["1", "2", None]})
    two = pl.DataFrame({"p_0": [0.25, 0.5], "p_1": [0.75, 0.5], "label": [1, 0], "site": ["x", "2"]})
    folder = write_two(tmp_path / "lake", one, two, "csv")
    found = summarize(folder, engine, by=["site"])
    assert list(found.sorted_parts()) == [("1",), ("2",), ("x",), (None,)]
    assert found.whole.n == 5


# -- 8: a corrupt file ---------------------------------------------------------------------------------


@on_engines("damage", ["footer", "page"], spark=["page"])
def test_a_corrupt_file_is_named_or_counted(tmp_path, engine, damage):
    (tmp_path / "lake").mkdir()
    for i in range(6):
        rows(50, seed=i).write_parquet(tmp_path / "lake" / f"{i}.parquet", compression="snappy")
    path = tmp_path / "lake" / "3.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:60] if damage == "footer" else data[:8] + b"\xff" * 200 + data[208:])
    with pytest.raises(FileError, match=r"3\.parquet cannot be read"):
        summarize(tmp_path / "lake", engine)
    found = summarize(tmp_path / "lake", engine, skip_bad_files=True)
    assert found.whole.n == 250
    assert [name[-9:] for name in found.whole.skipped] == ["3.parquet"]
    if engine != "spark":
        data = str(tmp_path / "lake")
        document = calibrant.evaluate(data, engine=engine, skip_bad_files=True, n_resamples=0).to_dict()
        assert len(document["skipped_files"]) == 1


# -- 9: rejected rows reach machines --------------------------------------------------------------------


def test_rejected_rows_are_counted_by_slice_and_limited(tmp_path, engine):
    frame = rows(200).with_columns(site=pl.Series(["a"] * 100 + ["b"] * 100))
    holed = frame.with_columns(pl.when(pl.int_range(200) % 10 == 0).then(None).otherwise(pl.col("p_0")).alias("p_0"))
    holed = holed.with_columns(pl.when(pl.int_range(200) == 151).then(7).otherwise(pl.col("label")).alias("label"))
    holed.write_parquet(tmp_path / "a.parquet")
    options = {"engine": engine, "by": "site", "n_resamples": 0, "max_rejected": "20%"}
    done = calibrant.evaluate(str(tmp_path / "a.parquet"), **options).to_dict()
    assert done["rejected"] == {"missing": 20, "label": 1, "outside": 0, "weight": 0}
    assert [part["rejected"]["missing"] for part in done["slices"]] == [10, 10]
    assert [part["rejected"]["label"] for part in done["slices"]] == [0, 1]
    with pytest.raises(FileError, match="more than 1%"):
        calibrant.evaluate(str(tmp_path / "a.parquet"), engine=engine, max_rejected="1%", n_resamples=0)
    if engine != "spark":
        assert (
            calibrant.evaluate(str(tmp_path / "a.parquet"), engine=engine, max_rejected="20%", n_resamples=0).n == 179
        )


@on_engines("kind", ["parquet", "csv", "mixed"], spark=["parquet"])
def test_rejected_rows_are_counted_by_file(tmp_path, engine, kind, monkeypatch):
    (tmp_path / "a lake").mkdir()
    monkeypatch.chdir(tmp_path)
    bad = rows(100).with_columns(pl.when(pl.int_range(100) < 7).then(None).otherwise(pl.col("p_0")).alias("p_0"))
    write = (lambda f, path: f.write_csv(path)) if kind == "csv" else (lambda f, path: f.write_parquet(path))
    end = "csv" if kind == "csv" else "parquet"
    write(bad, f"a lake/x.{end}")
    write(rows(50, dtype=np.float32 if kind == "mixed" else np.float64), f"a lake/y.{end}")
    told = calibrant.evaluate("a lake", engine=engine, by="_file", n_resamples=0).to_dict()
    found = {part["by"]["_file"]: (part["n"], part["rejected"]["missing"]) for part in told["slices"]}
    assert found == {f"a lake/x.{end}": (93, 7), f"a lake/y.{end}": (50, 0)}


def test_rejected_rows_of_lists_are_counted_by_slice(tmp_path, engine):
    lists = [*rows(98).select(pl.concat_list("p_0", "p_1", "p_2")).to_series().to_list(), None, [0.1, 0.9]]
    table = pl.DataFrame({"probs": lists, "label": [0] * 100, "site": ["a", "b"] * 50})
    table.write_parquet(tmp_path / "a.parquet")
    found = summarize(tmp_path / "a.parquet", engine, by=["site"])
    assert {key: part.rejected["missing"] for key, part in found.parts.items()} == {("a",): 1, ("b",): 1}


@on_engines("verb", ["evaluate", "summarize", "monitor", "fit", "compare"], spark=["evaluate"])
def test_scores_out_of_range_are_an_error_unless_allowed(tmp_path, engine, verb):
    """Of percentages of a rare event few exceed 1: without them the rest would be judged as if they were fractions."""
    rng = np.random.default_rng(0)
    score = 100 * rng.beta(0.5, 200, 3000)
    score = np.where(np.arange(3000) % 300 == 7, 1.5 + score, score.clip(0, 1))
    (tmp_path / "logs").mkdir()
    label = rng.integers(0, 2, 3000)
    pl.DataFrame({"score": score, "label": label}).write_parquet(tmp_path / "logs" / "a.parquet")
    calls = {
        "evaluate": lambda **more: calibrant.evaluate(tmp_path / "logs", engine=engine, n_resamples=0, **more),
        "summarize": lambda **more: summarize_verb(tmp_path / "logs", engine=engine, **more),
        "monitor": lambda **more: calibrant.monitor(tmp_path / "store", tmp_path / "logs", engine=engine, **more),
        "fit": lambda **more: calibrant.fit(tmp_path / "logs", engine=engine, method="temperature", **more),
        "compare": lambda **more: calibrant.compare(
            tmp_path / "logs", calibrator=TemperatureScaling().fit(score.clip(0, 1), label), engine=engine, **more
        ),
    }
    with pytest.raises(FileError, match=r"10 of 3,000 rows .* out of range.*or allow them with max_rejected='5%'"):
        calls[verb]()
    done = calls[verb](max_rejected="5%").to_dict()
    assert done["rejected"]["outside"] == 10


def test_unknown_labels_and_bad_weights_are_an_error_too():
    frame = pl.LazyFrame({"score": [0.2, 0.9, 0.4, 0.5], "label": [0, 1, 7, 1], "weight": [1.0, 1.0, 1.0, -1.0]})
    with pytest.raises(FileError, match=r"\(1 with an unknown label, 1 with a bad weight\)"):
        calibrant.evaluate(frame, n_resamples=0)
    holed = pl.LazyFrame({"score": [0.2, 0.9, None, 0.5], "label": [0, 1, 0, 1]})
    assert calibrant.evaluate(holed, n_resamples=0).to_dict()["rejected"]["missing"] == 1


def test_a_share_is_read_or_refused():
    with pytest.raises(InputError, match="max_rejected"):
        calibrant.evaluate(pl.LazyFrame({"score": [0.5], "label": [1]}), max_rejected="lots")


def test_nan_is_missing_whatever_the_statistics_of_a_file_say(tmp_path, engine):
    score = [0.2, float("nan"), 0.9, 0.4]
    pl.DataFrame({"score": score, "label": [0, 1, 1, 0]}).write_parquet(tmp_path / "a.parquet")
    found = summarize(tmp_path / "a.parquet", engine)
    assert (found.whole.n, found.rejected["missing"]) == (3, 1)
    assert found.whole.metric("brier") == pytest.approx(2 * np.mean([0.04, 0.01, 0.16]))
    if engine == "duckdb":  # a user's own relation, whose connection trusts them
        import duckdb

        own = calibrant.engines.summarize(duckdb.read_parquet(str(tmp_path / "a.parquet")))
        assert own.rejected == found.rejected


# -- 2: idempotent nights; 3: a day with another class set; columns of any name ---------------------------


def test_a_retried_night_changes_nothing_and_another_class_set_is_refused(tmp_path, engine):
    for number in range(2):
        (tmp_path / "2026-11-01").mkdir(exist_ok=True)
        rows(100, seed=number).write_parquet(tmp_path / "2026-11-01" / f"{number}.parquet")
    store = tmp_path / "store"
    pattern = str(tmp_path / "2026-11-01" / "*.parquet")
    first = calibrant.monitor(store, pattern, engine="polars")
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    again = calibrant.monitor(store, pattern, engine=engine)  # a retry on another engine is the same night
    assert (again.name, again.n, again.days) == (first.name, 200, 1) == ("2026-11-01", first.n, first.days)
    (tmp_path / "2026-11-02").mkdir()
    rows(100, k=4).write_parquet(tmp_path / "2026-11-02" / "0.parquet")
    with pytest.raises(InputError, match="have the classes of the store"):
        calibrant.monitor(store, str(tmp_path / "2026-11-02" / "*.parquet"), engine=engine)
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before


def test_columns_that_make_slices_may_have_any_name(tmp_path, engine):
    names = ["n", "ws", "__key", "__s", "a.b", 'q"q', "b`t", "s p", "\N{GRINNING FACE}", "Ü"]
    frame = rows(60).with_columns(*(pl.Series(name, [f"{name}-x", "y"] * 30) for name in names))
    frame.write_parquet(tmp_path / "a.parquet")
    found = summarize(tmp_path / "a.parquet", engine, by=names)
    assert found.by == tuple(names)
    keys = [tuple(f"{name}-x" for name in names), ("y",) * len(names)]
    assert {key: part.n for key, part in found.parts.items()} == dict.fromkeys(keys, 30)


def test_partitioned_output_keeps_every_key(tmp_path, engine):
    write_lake(tmp_path / "lake")
    frame = rows(60)
    p = frame.select("p_0", "p_1", "p_2").to_numpy()
    fitted = TemperatureScaling().fit(p, frame["label"].to_numpy())
    apply(fitted, tmp_path / "lake", tmp_path / "out", engine=engine, partition_by=["model", "day"])
    found = summarize(tmp_path / "out", engine, by=["model", "day"])
    one, two = dt.date(2026, 11, 1), dt.date(2026, 11, 2)
    assert {key: part.n for key, part in found.parts.items()} == dict.fromkeys(
        [("01", one), ("a b", one), ("a b", two)], 100
    )
    names = sorted(unquote(path.name) for path in (tmp_path / "out").glob("model=*"))  # Hive writes a%20b
    assert names == ["model=01", "model=a b"]


def test_columns_of_directories_come_last_in_their_order(tmp_path, engine):
    write_lake(tmp_path / "lake")
    frame = rows(60)
    fitted = TemperatureScaling().fit(frame.select("p_0", "p_1", "p_2").to_numpy(), frame["label"].to_numpy())
    apply(fitted, tmp_path / "lake", tmp_path / "out.parquet", engine=engine)
    out = tmp_path / ("out.parquet/*.parquet" if engine == "spark" else "out.parquet")
    assert pl.read_parquet(out).columns == ["p_0", "p_1", "p_2", "label", "model", "day"]


def test_the_library_is_silent_and_the_command_line_names_skipped_files(tmp_path):
    (tmp_path / "lake").mkdir()
    rows(50).write_parquet(tmp_path / "lake" / "a.parquet")
    (tmp_path / "lake" / "b.parquet").write_bytes(b"PAR1 this is none")
    code = "import calibrant, sys; calibrant.evaluate(sys.argv[1], skip_bad_files=True, n_resamples=0)"
    line = [str(tmp_path / "lake"), "--skip-bad-files", "--resamples", "0", "--json"]
    quiet = subprocess.run([sys.executable, "-c", code, line[0]], capture_output=True, text=True, check=True)
    assert (quiet.stdout, quiet.stderr) == ("", "")
    loud = subprocess.run(
        [sys.executable, "-m", "calibrant", "evaluate", *line], capture_output=True, text=True, check=True
    )
    assert "skipped" in loud.stderr
    assert "b.parquet" in loud.stderr
    assert len(json.loads(loud.stdout)["skipped_files"]) == 1


def keys(value):
    """The keys of a document, whatever its values."""
    if isinstance(value, dict):
        return {name: keys(held) for name, held in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else None


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=SPARK)], indirect=True)
def test_documents_for_machines_have_the_same_keys_on_every_engine(tmp_path, engine):
    holes = pl.when(pl.int_range(200) % 50 == 0).then(None).otherwise(pl.col("p_0")).alias("p_0")
    rows(200).with_columns(holes, site=pl.Series(["a", None] * 100)).write_parquet(tmp_path / "2026-11-01.parquet")
    path, frame, found = str(tmp_path / "2026-11-01.parquet"), rows(60), {}
    fitted = TemperatureScaling().fit(frame.select("p_0", "p_1", "p_2").to_numpy(), frame["label"].to_numpy())
    for one in ("polars", engine):
        made = (
            calibrant.evaluate(path, engine=one, by="site", n_resamples=20, rng=0),
            calibrant.check(path, engine=one, max_values={"ece": 0.5}, n_resamples=20),
            calibrant.monitor(tmp_path / one, path, engine=one, by="site"),
            apply(fitted, path, tmp_path / f"{one}.parquet", engine=one),
        )
        found[one] = [keys(document.to_dict()) for document in made]
        assert [document.to_dict()["rejected"]["missing"] for document in (made[0], made[3])] == [4, 4]
    assert found[engine] == found["polars"]


# -- speed: only what is asked, one pass, whatever the batches -------------------------------------------


def bad_rows(n=6000):
    return rows(n).with_columns(
        pl.when(pl.int_range(n) % 97 == 0).then(None).otherwise(pl.col("p_1")).alias("p_1"),
        pl.Series("site", np.arange(n) % 7),
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_and_sums_do_not_depend_on_the_batches(tmp_path, engine, monkeypatch, weighted):
    from calibrant.engines import dense

    frame = bad_rows()
    if weighted:
        frame = frame.with_columns(weight=pl.int_range(6000) % 3)
    frame.write_parquet(tmp_path / "a.parquet")
    good = frame.filter(pl.col("p_1").is_not_null())
    weight = good["weight"].to_numpy() if weighted else None
    p = good.select("p_0", "p_1", "p_2").to_numpy()
    expected = calibrant.Summary(3).update(good["label"].to_numpy(), p, sample_weight=weight)
    monkeypatch.setattr(dense, "_BATCH", 500)
    monkeypatch.setattr(dense, "_SUMMED", 700)  # several times while DuckDB streams
    for by in ([], ["site"]):
        found = summarize_data(str(tmp_path / "a.parquet"), Reading("evaluate", engine=engine), by=by)
        assert found.whole.n == expected.n
        assert found.rejected["missing"] == 6000 - len(good)
        for view in ("top-1", "classwise"):
            for mine, other in zip(found.whole.tables(view), expected.tables(view), strict=True):
                assert mine.key.tolist() == other.key.tolist()
                assert mine.n.tolist() == other.n.tolist()
                np.testing.assert_allclose(mine.ws, other.ws, rtol=1e-9)
                np.testing.assert_allclose(mine.wt, other.wt, rtol=1e-9)
        for name, sums in expected.sums.items():
            np.testing.assert_allclose(found.whole.sums[name], sums, rtol=1e-9, atol=1e-9, err_msg=name)
        if by:
            assert sum(part.n for part in found.parts.values()) == expected.n
            assert sum(part.rejected["missing"] for part in found.parts.values()) == 6000 - len(good)


@pytest.mark.parametrize("engine", LOCAL, indirect=True)  # Spark groups slices itself
@pytest.mark.parametrize("weighted", [False, True])
def test_slices_are_the_same_in_one_pass_and_grouped_by_the_engine(tmp_path, engine, monkeypatch, weighted):
    from calibrant.engines import dense

    frame = bad_rows(3000).with_columns(
        name=pl.when(pl.int_range(3000) % 5 == 0).then(None).otherwise(pl.format("s{}", pl.int_range(3000) % 4)),
        level=pl.when(pl.int_range(3000) % 3 == 0).then(float("nan")).otherwise(0.5),
        **({"weight": pl.int_range(3000) % 3} if weighted else {}),
    )
    frame[:1100].write_parquet(tmp_path / "a.parquet")
    frame[1100:].write_parquet(tmp_path / "b.parquet")
    monkeypatch.setattr(dense, "_BATCH", 700)
    ways = []
    for most in (dense.MOST_BYTES, 1):  # the second has room for no slice
        monkeypatch.setattr(dense, "MOST_BYTES", most)
        how = Reading("evaluate", engine=engine)
        ways.append(summarize_data(str(tmp_path), how, by=["name", "level"]))
    one, other = ways
    assert one.whole.same_rows(other.whole)
    assert set(one.parts) == set(other.parts)
    assert len(one.parts) == 10
    for key, part in one.parts.items():
        assert part.same_rows(other.parts[key])
        for name, sums in other.parts[key].sums.items():
            np.testing.assert_allclose(part.sums[name], sums, rtol=1e-9, atol=1e-9, err_msg=name)


def test_cells_that_nobody_touches_take_no_memory():
    """Ends of the grid that no score of a slice reaches: large pages of memory would hold them all."""
    from calibrant.core.tables import COARSE
    from calibrant.engines.dense import _Cells

    def resident():
        with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123 -- no file of ours
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    slots = 2_000
    rows = np.full(slots, 0.5), np.ones(slots), 1, None, np.arange(slots)
    _Cells(COARSE, False, slots).add(*rows)  # what a first call loads is not counted
    before, cells = resident(), _Cells(COARSE, False, slots)
    assert cells.sums.nbytes > 90 << 20
    cells.add(*rows)
    assert resident() - before < 30 << 10
    assert [table.n.tolist() for table in cells.tables(2)] == [[1.0], [1.0]]


@pytest.mark.parametrize("engine", LOCAL, indirect=True)  # Spark counts by queries: the next test
@pytest.mark.parametrize(
    ("metrics", "n_resamples", "views", "scores"),
    [
        (["ece"], 0, ["top-1"], []),
        (["ece", "brier"], 0, ["top-1"], ["brier"]),
        (["ece"], 100, ["top-1", "classwise"], []),
        (["uce"], 0, ["top-1", "entropy"], []),
        (None, 100, ["top-1", "classwise"], ["brier", "nll"]),
        ("all", 0, ["top-1", "classwise", "entropy"], ["brier", "nll", "spherical", "rps", "rbs", "entropy"]),
    ],
)
def test_only_what_is_asked_is_counted(tmp_path, engine, monkeypatch, metrics, n_resamples, views, scores):
    from calibrant.engines import frames

    kept = []
    original = frames.rows.prepare

    def prepare(table, columns, normalize, names=None):
        kept.append(names)
        return original(table, columns, normalize, names)

    made = []
    monkeypatch.setattr(frames.rows, "prepare", prepare)
    monkeypatch.setattr(frames, "fill_batches", _noted(frames.fill_batches, made))
    bad_rows().write_parquet(tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    done = calibrant.evaluate(path, engine=engine, metrics=metrics, n_resamples=n_resamples, rng=0)
    assert [view.name for view in made[0]] == views
    assert {name for name in kept[0] if "@" not in name} <= set(scores)
    monkeypatch.undo()
    whole = summarize_data(path, Reading("evaluate", engine=engine)).whole
    every = whole.evaluate(metrics=metrics, n_resamples=n_resamples, rng=0)
    assert [one.name for one in done.results] == [one.name for one in every.results]
    for mine, other in zip(done.results, every.results, strict=True):
        assert mine.value == pytest.approx(other.value, rel=1e-9)
        assert mine.pvalue == (None if other.pvalue is None else pytest.approx(other.pvalue, rel=1e-6))
    assert done.rejected == every.rejected
    assert str(done.verdict) == str(every.verdict)


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=SPARK)], indirect=True)
def test_queries_nobody_reads_are_not_run(tmp_path, engine, monkeypatch):
    from calibrant.engines import frames

    run = []
    original = frames.collect

    def collect(queries):
        run.append(len(queries))
        return original(queries)

    monkeypatch.setattr(frames, "collect", collect)
    rows().write_parquet(tmp_path / "a.parquet")
    calibrant.evaluate(str(tmp_path / "a.parquet"), engine=engine, metrics=["ece"], n_resamples=0)
    assert run == [1, 1]  # cells of the top label, and the number of rows
    run.clear()
    calibrant.evaluate(str(tmp_path / "a.parquet"), engine=engine, metrics=["ece", "brier"], n_resamples=20)
    assert run == [2, 1]  # sums; cells of the top label and of the classes in one query


@pytest.mark.parametrize("metric", ["skce", "ce-kde", "tl-ece", "ece@rank-2"])
def test_what_cells_cannot_tell_is_refused_by_name(tmp_path, metric):
    rows(600).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"needs the rows|one it keeps"):
        calibrant.evaluate(str(tmp_path / "a.parquet"), engine="polars", metrics=[metric], n_resamples=0)


def _noted(function, seen):
    def run(prepared, summary, views, **options):
        seen.append(views)
        return function(prepared, summary, views, **options)

    return run
