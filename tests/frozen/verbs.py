"""Every verb × task × source, through the library: what a result gives as JSON, and what `apply` wrote."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from frozen.asking import B, asked
from frozen.case import Case
from frozen.inputs import NAMES, TASKS, table

#: Draws of `compare`, which bootstraps errors, and of `monitor`, whose p-value compares windows.
COMPARED, WATCHED = 1000, 999
FIT = 1e-7
#: Sources that every lane has; the others need an engine.
SOURCES = ("arrays", "pandas", "polars", "file", "parquet", "shards", "folder", "lazy", "summary")
ENGINES = {"duckdb": ("duckdb", "relation"), "spark": ("spark", "sparkframe")}
LANE = {source: lane for lane, sources in ENGINES.items() for source in sources}
#: The quick ones of the day for what need not be asked of every source.
FEW = ("arrays", "polars", "file", "shards")
EVERY = (*SOURCES, *LANE)


# -- sources


def scores(columns: dict[str, np.ndarray]) -> Any:
    """Return the forecast of a table as arrays."""
    if "mean" in columns:
        return calibrant.regression.Normal(columns["mean"], columns["variance"])
    names = [name for name in columns if name.startswith(("p_", "logit_"))]
    if names:
        return np.column_stack([columns[name] for name in names])
    return next(columns[name] for name in ("score", "logit", "confidence") if name in columns)


def truth(columns: dict[str, np.ndarray]) -> np.ndarray:
    return next(columns[name] for name in ("label", "correct", "y") if name in columns)


def words(task: str) -> dict[str, Any]:
    """Return what arrays cannot say of themselves."""
    return {"classes": {"classes": list(NAMES)}, "pairs": {"pairs": True}}.get(task, {})


def given(source: str, task: str, *, after: bool = False, which: str = "") -> tuple[Any, dict[str, Any]]:
    """Return a source of a task as (what is passed, options), standing in the folder of the inputs."""
    name = f"{task}_after" if after else task
    if source == "file":
        return f"{name}{which}.csv", {}
    if source == "parquet":
        return f"{name}.parquet", {}
    if source == "shards":
        return f"{name}_shards/*.parquet", {}
    if source == "folder":
        return f"{name}_texts", {}
    if source in ("duckdb", "spark"):
        return f"{name}_shards/*.parquet", {"engine": source}
    if source == "summary":
        from calibrant.workflows.summarize import summarize

        made = f"{name}.calsum"
        summarize(f"{name}.csv", made, by="site")
        return made, {}
    import polars as pl

    frame = pl.DataFrame(table(task, after=after, **_more(which)))
    if source == "lazy":
        return frame.lazy(), {}
    if source == "pandas":
        return frame.to_pandas(), {}
    if source == "relation":
        import duckdb

        frame.write_parquet(f"{name}.relation.parquet")
        return duckdb.read_parquet(f"{name}.relation.parquet"), {}
    if source == "sparkframe":
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession().read.parquet(str(Path(f"{name}_shards").resolve())), {}
    return frame, {}


def _more(which: str) -> dict[str, Any]:
    return {"": {}, "_weights": {"weights": "whole"}, "_parts": {"weights": "parts"}, "_logits": {"logits": True}}[
        which
    ]


def passed(source: str, task: str, *, which: str = "") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional arguments and options for verbs that take (y_true, y_proba) or one source."""
    if source != "arrays":
        data, options = given(source, task, which=which)
        return (data,), options
    columns = table(task, **_more(which))
    options = dict(words(task))
    if "weight" in columns:
        options["sample_weight"] = columns["weight"]
    if which == "_logits":
        options["space"] = "logit"
    return (truth(columns), scores(columns)), options


def side(source: str, task: str, name: str) -> Any:
    """Return a column by its name, or its values where there are no names."""
    return table(task)[name] if source == "arrays" else name


def sliced(source: str, task: str) -> Any:
    return {"site": table(task)["site"]} if source == "arrays" else "site"


# -- what is asked

Ask = Callable[[int], Any]


def standing(ask: Ask) -> Callable[[Path, int], Any]:
    """Return a case's `run` that stands in the folder while it asks."""

    def run(folder: Path, seed: int) -> Any:
        os.chdir(folder)
        return asked(lambda: ask(seed))

    return run


#: What a verb need not be asked of every source for every task: its reading is that of `evaluate`, and costs time.
_AS_EVALUATE = ("check", "report", "monitor")
_ALIKE = {"pandas", "parquet", "folder", "lazy", "relation", "sparkframe"}


def sources(verb: str, task: str) -> list[str]:
    """Return the sources to ask a verb for."""
    left_out = set(_ALIKE) if verb in _AS_EVALUATE else set()
    if verb in _AS_EVALUATE and task != "two":
        left_out |= {"spark", "polars"}
    if verb in ("fit", "apply", "compare"):
        left_out |= {"sparkframe"}
    if task == "regression" and verb != "evaluate":  # cells know no means: said once a verb
        left_out |= {"folder", "lazy", "summary", "relation", "sparkframe", "spark"}
        left_out |= {"arrays", "pandas", "polars", "parquet"} if verb in ("monitor", "summarize") else set()
    return [source for source in EVERY if source not in left_out]


def evaluated(seed: int, source: str, task: str, which: str = "", **more: Any) -> Any:
    args, options = passed(source, task, which=which)
    for name in ("by", "groups"):
        if name in more:
            more = {**more, name: sliced(source, task) if name == "by" else side(source, task, "patient")}
    return calibrant.evaluate(*args, **{"n_resamples": B, "rng": seed, **options, **more})


def checked(seed: int, source: str, task: str, **more: Any) -> Any:
    args, options = passed(source, task)
    if "by" in more:
        more = {**more, "by": sliced(source, task)}
    return calibrant.check(*args, n_resamples=B, rng=seed, **options, **more)


def compared(seed: int, source: str, task: str, **more: Any) -> Any:
    if "groups" in more:
        more = {**more, "groups": side(source, task, "patient")}
    if source == "arrays":
        before, after = table(task), table(task, after=True)
        named = {} if task == "pairs" else words(task)
        return calibrant.compare(truth(before), scores(before), scores(after), rng=seed, **named, **more)
    (one, options), (two, _) = given(source, task), given(source, task, after=True)
    return calibrant.compare(one, two, rng=seed, **options, **more)


def compared_with_calibrator(seed: int, source: str, task: str, method: str) -> Any:
    args, options = passed(source, task)
    fitted = calibrant.fit(f"{task}_after.csv", method=method).calibrator
    return calibrant.compare(*args, calibrator=fitted, rng=seed, **options)


def fitted(seed: int, source: str, task: str, which: str = "", **more: Any) -> Any:
    """Fit, and map fixed rows: the map is what a fit is for, and the proof table says how well it did."""
    args, options = passed(source, task, which=which)
    options.pop("pairs", None)
    done = calibrant.fit(*args, **options, **more)
    rows, _ = given("polars", task, after=True)
    return {"json": done.to_dict(), "maps": asked(lambda: rows_of(calibrant.apply(done.calibrator, rows)))}


def applied(seed: int, source: str, task: str, method: str, suffix: str = "csv") -> Any:
    """Fit on one file and apply to another source; what comes out, or what stands in the file."""
    calibrator = calibrant.fit(f"{task}.csv", method=method).calibrator
    if source == "arrays":
        columns = table(task, after=True)
        return rows_of(calibrant.apply(calibrator, scores(columns)))
    data, options = given(source, task, after=True)
    if not isinstance(data, str):
        return rows_of(calibrant.apply(calibrator, data, **options))
    done = calibrant.apply(calibrator, data, f"out.{suffix}", **options).to_dict()
    left = sorted(str(path) for path in Path().glob("out*"))
    return {"json": done, "written": left, "content": content_of(Path(f"out.{suffix}"), ordered="*" not in data)}


def applied_to_archive(seed: int) -> Any:
    """Fit on the calibration part of an archive and apply to its test part."""
    calibrator = calibrant.fit("classes.npz", method="temperature").calibrator
    done = calibrant.apply(calibrator, "classes.npz", "out.npz", part="test").to_dict()
    compared = calibrant.compare("classes.npz", calibrator=calibrator, part="test").to_dict()
    return {"json": done, "content": content_of(Path("out.npz")), "compared": compared}


def reported(seed: int, source: str, task: str, **more: Any) -> Any:
    args, options = passed(source, task)
    if "by" in more:
        more = {**more, "by": sliced(source, task)}
    if "calibrator" in more:
        more = {**more, "calibrator": calibrant.fit(f"{task}_after.csv", method=more["calibrator"]).calibrator}
    return calibrant.report(*args, **{"n_resamples": B, "rng": seed, "compare_methods": False, **options, **more})


def watched(seed: int, source: str, task: str, **more: Any) -> Any:
    """Two days: the first as it was, the second after a repair; then how things stand."""
    first = {key: value for key, value in more.items() if key in ("alpha", "tolerance", "unit", "by")}
    if "groups" in more:
        first |= {"groups": side(source, task, "patient")}
    args, options = passed(source, task)
    one = calibrant.monitor("store", *args, name="2026-01-01", rng=seed, **options, **first)
    if source == "arrays":
        columns = table(task, after=True)
        args = (truth(columns), scores(columns))
    else:
        args = (given(source, task, after=True)[0],)
    again = {"groups": first["groups"]} if "groups" in first else {}
    two = calibrant.monitor("store", *args, name="2026-01-02", window=1, rng=seed, **options, **again)
    status = calibrant.monitor("store", window=1, rng=seed)
    metrics = two.to_openmetrics() if hasattr(two, "to_openmetrics") else None
    return {
        "first": one.to_dict(),
        "second": two.to_dict(),
        "status": "as after the second day" if status.to_dict() == two.to_dict() else status.to_dict(),
        "openmetrics": metrics.splitlines(),
    }


def summarized(seed: int, source: str, task: str, **more: Any) -> Any:
    """Summarize and evaluate what was written, without draws."""
    from calibrant.workflows.summarize import summarize

    if source == "arrays":
        columns = table(task)
        done = summarize(truth(columns), "made.calsum", y_proba=scores(columns), **more)
    else:
        data, options = given(source, task)
        done = summarize(data, "made.calsum", **options, **more)
    found = calibrant.evaluate("made.calsum", n_resamples=0)
    return {"json": done.to_dict(), "text": str(done), "evaluation": found.to_dict()}


def merged(seed: int, task: str, twice: bool = False) -> Any:
    from calibrant.workflows.summarize import merge, summarize

    for day in range(1 if twice else 2):
        summarize(f"{task}_shards/day{day}.parquet", f"day{day}.calsum", by="site")
    done = merge(["day0.calsum", "day0.calsum"] if twice else ["day*.calsum"], "all.calsum")
    found = calibrant.evaluate("all.calsum", n_resamples=B, rng=seed)
    return {"json": done.to_dict(), "text": str(done), "evaluation": found.to_dict()}


# -- outputs


def rows_of(found: Any) -> Any:
    """Return arrays and frames of any library as columns of plain values."""
    if isinstance(found, np.ndarray):
        return {"shape": list(found.shape), "dtype": str(found.dtype), "values": found.ravel().tolist()}
    if hasattr(found, "mean") and hasattr(found, "variance") and not hasattr(found, "columns"):
        return {"mean": np.asarray(found.mean).tolist(), "variance": np.asarray(found.variance).tolist()}
    import polars as pl

    kind = f"{type(found).__module__.partition('.')[0]}.{type(found).__name__}"
    for how in ("collect", "pl", "toPandas"):
        if hasattr(found, how) and not isinstance(found, pl.DataFrame):
            found = getattr(found, how)()
            break
    if not isinstance(found, pl.DataFrame):
        found = pl.from_pandas(found)
    return {"kind": kind, "columns": {name: cells(found[name].to_list()) for name in found.columns}}


def cells(column: list[Any]) -> Any:
    """Return a column; of words the first ones and a hash of all."""
    if not any(isinstance(cell, str) for cell in column):
        return column
    return {"first": column[:3], "all": hashlib.sha256("\n".join(map(str, column)).encode()).hexdigest()[:12]}


_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def content_of(path: Path, *, ordered: bool = True) -> Any:
    """Return what stands in a file: text byte for byte but for the last digits of its fitted numbers, tables by column.

    Shards may be written in any order: then columns are sorted.
    """
    import polars as pl

    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: cells(archive[name].ravel().tolist()) for name in archive.files}
    if path.suffix == ".parquet" or path.is_dir():
        frame = (
            pl.read_parquet(path / "**/*.parquet", hive_partitioning=True) if path.is_dir() else pl.read_parquet(path)
        )
        columns = {name: frame[name].to_list() for name in frame.columns}
        if not ordered:
            columns = {name: sorted(column, key=str) for name, column in columns.items()}
        types = {name: str(kind) for name, kind in frame.schema.items()}
        return {"types": types, "columns": {name: cells(column) for name, column in columns.items()}}
    text = path.read_bytes().decode("utf-8")
    lines = text.splitlines(keepends=True) if ordered else sorted(text.splitlines(keepends=True))
    masked = hashlib.sha256("".join(_NUMBER.sub("#", line) for line in lines).encode()).hexdigest()[:12]
    numbers = [float(found) for line in lines for found in _NUMBER.findall(line)]
    return {"first lines": lines[:4], "last line": lines[-1], "text but for numbers": masked, "numbers": numbers}


def listed(metrics: tuple[str, ...]) -> dict[str, Any]:
    return {"metrics": list(metrics)}


# -- the list


def cases() -> Iterator[Case]:
    """Yield every verb × task × source that makes sense, and the refusals of those that do not."""
    yield from _evaluate()
    yield from _fit_and_apply()
    yield from _compare()
    yield from _check_and_report()
    yield from _monitor()
    yield from _summaries()


def _case(name: str, source: str, ask: Ask, draws: int = 0, tolerance: float = 1e-9) -> Case:
    run = standing(ask)
    if source not in ("arrays", "file", "summary"):
        return Case(name, lambda folder, seed: unhashed(run(folder, seed)), LANE.get(source, "day"), draws, tolerance)
    return Case(name, run, LANE.get(source, "day"), draws, tolerance)


def unhashed(answer: Any) -> Any:
    """Mask hashes of cells that an engine added up: its threads come in any order, and the last bits with them."""
    if isinstance(answer, dict):
        return {key: "(hash)" if key == "checksum" else unhashed(item) for key, item in answer.items()}
    return [unhashed(item) for item in answer] if isinstance(answer, list) else answer


def _evaluate() -> Iterator[Case]:
    for task in TASKS:
        for source in EVERY:
            name = f"evaluate/{task}/{source}"
            yield _case(name, source, partial(evaluated, source=source, task=task), B)
            if source in ("arrays", "file", "shards", "summary", "duckdb", "spark"):
                yield _case(f"{name}/by", source, partial(evaluated, source=source, task=task, by=True), B)
        for source in ("arrays", "file", "shards"):
            if source != "shards" or task == "two":
                ask = partial(evaluated, source=source, task=task, groups=True)
                yield _case(f"evaluate/{task}/{source}/groups", source, ask, B)
        for source, which in (("arrays", "_parts"), ("file", "_weights"), ("polars", "_weights")):
            if source != "polars" or task == "two":
                ask = partial(evaluated, source=source, task=task, which=which)
                yield _case(f"evaluate/{task}/{source}/{which[1:]}", source, ask, B)
        ask = partial(evaluated, source="file", task=task, which="_weights", weight_kind="importance")
        yield _case(f"evaluate/{task}/file/importance", "file", ask, B)
        ask = partial(evaluated, source="file", task=task, metrics="all", n_resamples=0)
        yield _case(f"evaluate/{task}/file/all", "file", ask)
        ask = partial(
            evaluated, source="file", task=task, level=0.9, tolerance=0.2, n_bins=None if task == "regression" else 10
        )
        yield _case(f"evaluate/{task}/file/level", "file", ask, B)
        ask = partial(evaluated, source="file", task=f"{task}_after")
        yield _case(f"evaluate/{task}/file/after", "file", ask, B)
    for source in ("arrays", "file"):
        for task in ("classes", "two"):
            ask = partial(evaluated, source=source, task=task, which="_logits")
            yield _case(f"evaluate/{task}/{source}/logits", source, ask, B)
    for source in ("file", "shards"):
        yield _case(f"evaluate/two/{source}/risk", source, partial(evaluated, source=source, task="two", risk=True), B)
        for view in ("rank-2", "class-1", "classwise", "within-2"):
            ask = partial(evaluated, source=source, task="classes", view=view)
            yield _case(f"evaluate/classes/{source}/{view}", source, ask, B)
    many = ("ece", "ece@classwise", "kuiper", "uce", "brier")
    yield _case(
        "evaluate/classes/file/some", "file", partial(evaluated, source="file", task="classes", **listed(many)), B
    )
    yield _case(
        "evaluate/classes/arrays/unknown",
        "arrays",
        partial(evaluated, source="arrays", task="classes", metrics=["eec"]),
    )
    yield _case(
        "evaluate/classes/npz", "file", lambda seed: calibrant.evaluate("classes.npz", n_resamples=B, rng=seed), B
    )
    yield _case(
        "evaluate/regression/npz", "file", lambda seed: calibrant.evaluate("regression.npz", n_resamples=B, rng=seed), B
    )
    yield _case("evaluate/classes/absent", "file", lambda seed: calibrant.evaluate("nowhere.csv"))


METHODS = {
    "classes": ("temperature", "isotonic", "platt", "beta", "auto", "vector"),
    "two": ("temperature", "isotonic", "platt", "beta", "auto"),
    "pairs": ("temperature", "isotonic", "platt", "beta", "auto"),
    "regression": ("auto", "std-scaling", "platt"),
}
QUICK = {"classes": "temperature", "two": "platt", "pairs": "isotonic", "regression": "std-scaling"}


def _fit_and_apply() -> Iterator[Case]:
    for task in TASKS:
        for method in METHODS[task]:
            ask = partial(fitted, source="file", task=task, method=method, holdout=0.3)
            yield _case(f"fit/{task}/file/{method}", "file", ask, 0, FIT)
        for source in sources("fit", task):
            ask = partial(fitted, source=source, task=task, method=QUICK[task])
            yield _case(f"fit/{task}/{source}", source, ask, 0, FIT)
            for suffix in ("csv", "parquet") if source in ("file", "shards", "duckdb") else ("parquet",):
                ask = partial(applied, source=source, task=task, method=QUICK[task], suffix=suffix)
                yield _case(f"apply/{task}/{source}/{suffix}", source, ask, 0, FIT)
        ask = partial(fitted, source="file", task=task, which="_weights", method=QUICK[task], holdout=0.3)
        yield _case(f"fit/{task}/file/weights", "file", ask, 0, FIT)
        yield _case(f"fit/{task}/file/fast", "file", partial(fitted, source="file", task=task, fast=True), 0, FIT)
    for source in ("arrays", "file"):
        ask = partial(fitted, source=source, task="classes", which="_logits", method="temperature", holdout=0.3)
        yield _case(f"fit/classes/{source}/logits", source, ask, 0, FIT)
    ask = partial(fitted, source="file", task="classes", candidates=["temperature", "vector"], preserve="argmax")
    yield _case("fit/classes/file/candidates", "file", ask, 0, FIT)
    yield _case("apply/classes/npz", "file", applied_to_archive, 0, FIT)
    for method in ("isotonic", "beta"):
        for task in ("classes", "two"):
            yield _case(
                f"apply/{task}/file/{method}", "file", partial(applied, source="file", task=task, method=method), 0, FIT
            )


def _compare() -> Iterator[Case]:
    for task in TASKS:
        for source in sources("compare", task):
            yield _case(f"compare/{task}/{source}", source, partial(compared, source=source, task=task), COMPARED)
        ask = partial(compared, source="file", task=task, groups=True)
        yield _case(f"compare/{task}/file/groups", "file", ask, COMPARED)
        for source in ("file", "polars", "shards", "duckdb", "spark"):
            ask = partial(compared_with_calibrator, source=source, task=task, method=QUICK[task])
            yield _case(f"compare/{task}/{source}/calibrator", source, ask, COMPARED, FIT)


LIMITS: dict[str, Any] = {
    "hold": {"max_values": {"ece": 0.9}, "min_values": {"accuracy": 0.1}},
    "break": {"max_values": "ks=2%", "min_values": {"accuracy": 0.9}, "min_pvalues": 0.01},
    "undecided": {"max_values": {"brier": 0.55}, "undecided": "fail"},
    "by": {"max_values": {"ece": 0.5}, "min_pvalues": 0.001, "by": True},
}
LIMITS_OF_MEANS: dict[str, Any] = {
    "hold": {"max_values": {"crps": 9.0}},
    "break": {"max_values": {"crps": 0.01}, "min_pvalues": {"pit-ks": 0.01}},
    "undecided": {"max_values": {"mse": 1.2}, "undecided": "fail"},
    "by": {"max_values": {"mse": 2.0}, "by": True},
}


def _check_and_report() -> Iterator[Case]:
    for task in TASKS:
        for name, limits in (LIMITS_OF_MEANS if task == "regression" else LIMITS).items():
            yield _case(f"check/{task}/file/{name}", "file", partial(checked, source="file", task=task, **limits), B)
            if name == "break":
                for source in [one for one in sources("check", task) if one != "file"]:
                    yield _case(
                        f"check/{task}/{source}", source, partial(checked, source=source, task=task, **limits), B
                    )
        yield _case(f"check/{task}/file/nothing", "file", partial(checked, source="file", task=task))
        for source in sources("report", task):
            yield _case(f"report/{task}/{source}", source, partial(reported, source=source, task=task), B)
        yield _case(f"report/{task}/file/by", "file", partial(reported, source="file", task=task, by=True), B)
        ask = partial(reported, source="file", task=task, calibrator=QUICK[task])
        yield _case(f"report/{task}/file/calibrator", "file", ask, B, FIT)
        ask = partial(reported, source="file", task=task, compare_methods=True)
        yield _case(f"report/{task}/file/methods", "file", ask, B, FIT)
    yield _case(
        "check/classes/file/config", "file", partial(checked, source="file", task="classes", config="gate.toml"), B
    )


def _monitor() -> Iterator[Case]:
    for task in TASKS:
        for source in sources("monitor", task):
            yield _case(f"monitor/{task}/{source}", source, partial(watched, source=source, task=task), WATCHED)
        if task == "regression":
            continue
        for source in ("file", "shards", "duckdb"):
            ask = partial(watched, source=source, task=task, by="site")
            yield _case(f"monitor/{task}/{source}/by", source, ask, WATCHED)
        for name, options in (
            ("tolerance", {"tolerance": 0.3}),
            ("days", {"unit": "day"}),
            ("groups", {"groups": True}),
        ):
            yield _case(
                f"monitor/{task}/file/{name}", "file", partial(watched, source="file", task=task, **options), WATCHED
            )


def _summaries() -> Iterator[Case]:
    for task in TASKS:
        for source in sources("summarize", task):
            yield _case(f"summarize/{task}/{source}", source, partial(summarized, source=source, task=task))
        yield _case(
            f"summarize/{task}/file/by", "file", partial(summarized, source="file", task=task, by="site", n_bins=[7])
        )
        yield _case(f"merge/{task}", "shards", partial(merged, task=task), B)
        yield _case(f"merge/{task}/twice", "file", partial(merged, task=task, twice=True))
