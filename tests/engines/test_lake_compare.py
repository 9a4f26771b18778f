"""`compare` on a lake: the answer of rows in memory on Polars, DuckDB and real Spark; what cannot be told is refused."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from tests.engines.test_lake import ENGINES, on_engines

from calibrant.calibrators import IsotonicOneVsRest, TemperatureScaling
from calibrant.errors import FileError, InputError
from calibrant.workflows.compare import compare
from calibrant.workflows.fit import fit

__all__ = ["engine"]

EXACT = ("accuracy", "ece", "brier", "nll")


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "duckdb":
        pytest.importorskip("duckdb", reason="DuckDB is absent (extra: engines)")
    return request.param


def forecasts(n=1500, k=3, seed=0):
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, k))
    p, true = (np.exp(b * z) / np.exp(b * z).sum(axis=1, keepdims=True) for b in (1.0, 0.6))
    y = np.minimum((true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)
    return p, true, y


def wide(p, y=None, names=None, **more):
    names = names or [str(i) for i in range(p.shape[1])]
    label = {} if y is None else {"label": y}
    return pl.DataFrame({f"p_{name}": p[:, i] for i, name in enumerate(names)} | label | more)


def write(frame, folder, parts=3):
    folder.mkdir(parents=True)
    for i, part in enumerate(frame.iter_slices(-(-frame.height // parts))):
        part.write_parquet(folder / f"{i}.parquet")
    return str(folder / "*.parquet")


def fitted(kind=TemperatureScaling):
    p, _, y = forecasts(seed=9)
    return kind().fit(p, y)


def same(one, two, exact=EXACT):
    """Sums and bins are those of the rows; what is read from cells is near."""
    assert [r.name for r in one] == [r.name for r in two]
    for a, b in zip(one, two, strict=True):
        tight = a.name in exact
        near = {"rel": 1e-6, "abs": 1e-9} if tight else {"rel": 0.1, "abs": 2e-3}
        assert (a.before, a.after) == pytest.approx((b.before, b.after), **near)
        assert (a.interval is None) == (b.interval is None)
        if a.interval is not None:
            ends = [(r.interval.low, r.interval.high) for r in (a, b)]
            assert ends[0] == pytest.approx(ends[1], **({"rel": 0.03, "abs": 1e-3} if a.name == "ece" else near))
            assert a.pvalue == pytest.approx(b.pvalue, rel=0.05, abs=1e-3)
    assert (one.n, one.n_classes) == (two.n, two.n_classes)


def table(case, p, y):
    rng = np.random.default_rng(5)
    if case == "weights":
        return wide(p, y, weight=rng.integers(0, 4, len(y)))
    if case == "lists":
        return pl.DataFrame({"probs": p.tolist(), "label": y})
    if case == "logits":
        return pl.DataFrame({f"logit_{i}": np.log(p[:, i]) for i in range(3)} | {"label": y})
    if case == "names":  # in another order than the calibrator has them
        return wide(p[:, [2, 0, 1]], np.array(["a", "b", "c"])[y], ["c", "a", "b"])
    return wide(p, y)


CASES = ("temperature", "isotonic", "weights", "lists", "logits", "names")


@on_engines("case", CASES, spark=["temperature", "isotonic"])
def test_a_calibrator_is_compared_as_on_rows(tmp_path, engine, case):
    p, _, y = forecasts()
    map_ = fitted(IsotonicOneVsRest if case == "isotonic" else TemperatureScaling)
    if case == "names":
        q, _, truth = forecasts(seed=9)
        map_ = TemperatureScaling(classes=["a", "b", "c"]).fit(q, np.array(["a", "b", "c"])[truth])
    frame = table(case, p, y)
    path, rows = write(frame, tmp_path / "logs"), compare(frame, calibrator=map_)
    found = compare(path, calibrator=map_, engine=engine)
    same(found, rows)
    assert found.verdict == rows.verdict
    assert found["brier"].exact == (case != "isotonic")


def test_a_key_joins_two_forecasts_whatever_their_order(tmp_path, engine):
    p, q, y = forecasts()
    key = np.arange(len(y))
    first = write(wide(p, y, id=key), tmp_path / "old")
    ordered = write(wide(q, id=key), tmp_path / "ordered")
    mixed = wide(q, y, id=key).sample(fraction=1.0, shuffle=True, seed=3)
    second = write(mixed, tmp_path / "new", parts=5)
    same(compare(first, second, key="id", engine=engine), compare(first, ordered))
    for wrong, message in (
        (
            (mixed.head(1000), "1,500 and 1,000 rows"),
            (mixed.with_columns(id=pl.col("id") // 2 * 2), "750 values"),
            (mixed.with_columns(label=pl.lit(0)), "labels of the two differ"),
        )
        if engine == "polars"
        else ()
    ):
        other = write(wrong, tmp_path / message.split()[0] / message.split()[1])
        with pytest.raises(FileError, match=message):
            compare(first, other, key="id", engine=engine)


def test_rows_left_out_are_counted_in_json_and_limited(tmp_path, engine):
    p, _, y = forecasts(600)
    frame = wide(p, y).with_columns(
        pl.when(pl.int_range(600) < 6).then(None).otherwise(pl.col("p_0")).alias("p_0"),
        pl.when(pl.int_range(600) == 9).then(7).otherwise(pl.col("label")).alias("label"),
    )
    path = write(frame, tmp_path / "logs")
    found = compare(path, calibrator=fitted(), engine=engine, metrics=["brier"], max_rejected="5%")
    told = json.loads(json.dumps(found.to_dict()))
    assert found.n == 593
    assert told["rejected"] == {"missing": 6, "label": 1, "outside": 0, "weight": 0}
    assert "7 rows were left out" in str(found)
    if engine == "polars":
        (tmp_path / "logs" / "9.parquet").write_bytes(b"PAR1 no more")
        with pytest.raises(FileError, match=r"9\.parquet"):
            compare(path, calibrator=fitted(), engine=engine)
        options = {"calibrator": fitted(), "engine": engine, "metrics": ["brier"]}
        skipped = compare(path, skip_bad_files=True, max_rejected="5%", **options).to_dict()
        assert [name[-9:] for name in skipped["skipped_files"]] == ["9.parquet"]
        with pytest.raises(FileError, match="more than 1%"):
            compare(path, skip_bad_files=True, max_rejected="1%", **options)
        with pytest.raises(InputError, match="strict"):
            compare(path, skip_bad_files=True, strict=True, **options)


def test_top_label_pairs_and_two_classes(tmp_path, engine):
    p, _, y = forecasts(k=2)
    pl.DataFrame({"score": p[:, 1], "label": y}).write_parquet(tmp_path / "two.parquet")
    map_ = TemperatureScaling().fit(*[x[:700] for x in (forecasts(k=2, seed=4)[0], forecasts(k=2, seed=4)[2])])
    path = str(tmp_path / "two.parquet")
    same(compare(path, calibrator=map_, engine=engine), compare(path, calibrator=map_))
    if engine == "spark":
        return
    right = p.argmax(axis=1) == y
    pl.DataFrame({"confidence": p.max(axis=1), "correct": right}).write_parquet(tmp_path / "pairs.parquet")
    path = str(tmp_path / "pairs.parquet")
    pair = fit(path, method="beta").calibrator
    names = ["brier@top-1", "accuracy", "ece"]  # what is read off cells alone may fall on the other side of 0
    found, rows = (compare(path, calibrator=pair, metrics=names, **more) for more in ({"engine": engine}, {}))
    same(found, rows, exact=names)
    assert found.in_sample is not None  # fitted on these rows
    assert found.in_sample == rows.in_sample
    with pytest.raises(InputError, match="map probabilities of classes"):
        compare(str(tmp_path / "two.parquet"), calibrator=pair, engine=engine)


def test_a_lazy_frame_brings_its_engine(tmp_path):
    p, q, y = forecasts()
    frame = wide(p, y, id=np.arange(len(y)))
    lazy = compare(frame.lazy(), calibrator=fitted())
    same(lazy, compare(frame, calibrator=fitted()))
    other = wide(q, id=np.arange(len(y)))
    same(compare(frame.lazy(), other.lazy(), key="id"), compare(frame, other))
    with pytest.raises(FileError, match="no common order of rows"):
        compare(frame.lazy(), other.lazy())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["skce"]}, "skce|rows"),
        ({"groups": "id"}, "groups"),
        ({"weight_kind": "importance"}, "weight_kind"),
        ({"key": "id"}, "key"),
    ],
)
def test_what_an_engine_cannot_tell_is_refused_by_name(tmp_path, options, message):
    p, _, y = forecasts(300)
    path = write(wide(p, y, id=np.arange(300)), tmp_path / "logs")
    with pytest.raises((FileError, InputError), match=message):
        compare(path, calibrator=fitted(), engine="polars", **options)


def test_two_patterns_on_an_engine_ask_for_a_key(tmp_path):
    p, q, y = forecasts(300)
    one, two = write(wide(p, y), tmp_path / "a"), write(wide(q), tmp_path / "b")
    with pytest.raises(FileError, match="no common order of rows") as error:
        compare(one, two, engine="polars")
    assert "{key}" in str(error.value) or "key" in str(error.value)
    assert compare(one, two)["brier"].change > 0  # in memory, by the order of their names


def test_weights_that_are_no_counts_give_values_alone(tmp_path):
    p, _, y = forecasts(500)
    path = write(wide(p, y, weight=np.linspace(0.1, 1.7, 500)), tmp_path / "logs")
    found, rows = compare(path, calibrator=fitted()), compare(pl.read_parquet(path), calibrator=fitted())
    assert found["brier"].change == pytest.approx(rows["brier"].change)
    assert all(r.interval is None and r.pvalue is None for r in found)
    assert any("values alone" in note for note in found.notes)


def test_bins_that_do_not_divide_the_grid(tmp_path):
    p, _, y = forecasts(800)
    path = write(wide(p, y), tmp_path / "logs")
    one, two = (compare(x, calibrator=fitted(), metrics=["ece"], n_bins=7) for x in (path, pl.read_parquet(path)))
    assert (one["ece"].before, one["ece"].after) == pytest.approx((two["ece"].before, two["ece"].after), rel=1e-9)
