"""The command line: help, terminal text, Markdown and the visible page of every task, JSON where it adds something, exit codes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import calibrant
from frozen.asking import B, asked, commanded, seen
from frozen.case import Case
from frozen.inputs import TASKS
from frozen.verbs import COMPARED, FIT, QUICK, WATCHED, content_of, unhashed

FEW = ("--resamples", str(B))
COMMANDS = (
    "evaluate",
    "fit",
    "apply",
    "compare",
    "check",
    "report",
    "monitor",
    "summarize",
    "merge",
    "explain",
    "demo",
)


def cases() -> Iterator[Case]:
    """Yield every command once per task, and what is said when one is misused."""
    yield Case("inputs/bytes", hashes)
    for name in COMMANDS:
        yield Case(f"help/{name}", partial(told, argv=(name, "--help")))
    yield Case("help", partial(told, argv=("--help",)))
    yield Case("version", partial(told, argv=("--version",)))
    for task in TASKS:
        yield from _of_task(task)
    yield from _engines()
    yield from _refusals()
    yield Case("explain/every", every_explanation)
    for name in ("", "ece", "temperature", "taxonomy", "crps", "eec"):
        yield Case(f"explain/{name or 'all'}", partial(told, argv=("explain", *([name] if name else []))))


def _of_task(task: str) -> Iterator[Case]:
    file, after, method = f"{task}.csv", f"{task}_after.csv", QUICK[task]
    limit = ("--max", "crps=0.01") if task == "regression" else ("--max", "ks=0.02", "--min", "accuracy=0.1")
    drawn = {"draws": B}
    yield Case(f"text/evaluate/{task}", partial(told, argv=("evaluate", file, *FEW), seeded=True), **drawn)
    yield Case(f"text/evaluate/{task}/after", partial(told, argv=("evaluate", after, *FEW), seeded=True), **drawn)
    yield Case(
        f"text/evaluate/{task}/by", partial(told, argv=("evaluate", file, "--by", "site", *FEW), seeded=True), **drawn
    )
    yield Case(f"json/evaluate/{task}", partial(told, argv=("evaluate", file, *FEW, "--json"), seeded=True), **drawn)
    markdown = ("evaluate", file, "--by", "site", "--format", "md", *FEW)
    yield Case(f"markdown/evaluate/{task}", partial(told, argv=markdown, seeded=True), **drawn)
    yield Case(f"page/evaluate/{task}", partial(page, argv=("evaluate", file, "--format", "html", *FEW)), **drawn)
    yield Case(f"text/check/{task}", partial(told, argv=("check", file, *limit, *FEW), seeded=True), **drawn)
    yield Case(f"text/compare/{task}", partial(told, argv=("compare", file, after)), draws=COMPARED)
    yield Case(f"json/compare/{task}", partial(told, argv=("compare", file, after, "--json")), draws=COMPARED)
    fit = ("fit", file, "--method", method, "--holdout", "0.3", "-o", "cal.json")
    yield Case(f"text/fit/{task}", partial(told, argv=fit), tolerance=FIT)
    yield Case(f"json/fit/{task}", partial(told, argv=(*fit, "--json")), tolerance=FIT)
    yield Case(f"text/fit/{task}/auto", partial(told, argv=("fit", file, "-o", "cal.json")), tolerance=FIT)
    yield Case(
        f"text/apply/{task}",
        partial(fitted_first, fit=fit, argv=("apply", "cal.json", after, "-o", "out.csv")),
        tolerance=FIT,
    )
    same = ("apply", "cal.json", file, "-o", "out.csv", "--json")
    yield Case(
        f"json/apply/{task}/same",
        partial(fitted_first, fit=fit, argv=same, then=("compare", file, "out.csv")),
        draws=COMPARED,
        tolerance=FIT,
    )
    ask = ("compare", after, "--calibrator", "cal.json")
    yield Case(
        f"text/compare/{task}/calibrator", partial(fitted_first, fit=fit, argv=ask), draws=COMPARED, tolerance=FIT
    )
    yield Case(
        f"text/report/{task}",
        partial(told, argv=("report", file, "--no-compare", "--format", "text", *FEW), seeded=True),
        **drawn,
    )
    yield Case(
        f"markdown/report/{task}",
        partial(told, argv=("report", file, "--by", "site", "--format", "md", *FEW), seeded=True),
        **drawn,
    )
    yield Case(
        f"json/report/{task}",
        partial(told, argv=("report", file, "--json", "-o", "page.html", *FEW), seeded=True),
        **drawn,
    )
    yield Case(
        f"page/report/{task}", partial(page, argv=("report", file, "--by", "site", *FEW), file="report.html"), **drawn
    )
    ask = ("report", after, "--calibrator", "cal.json", *FEW)
    yield Case(
        f"page/report/{task}/calibrator", partial(page, argv=ask, file="report.html", fit=fit), draws=B, tolerance=FIT
    )
    if task == "regression":
        yield Case(f"text/monitor/{task}", partial(told, argv=("monitor", "store", file)))
        yield Case(f"text/summarize/{task}", partial(told, argv=("summarize", file, "-o", "day.calsum")))
        return
    yield Case(f"text/monitor/{task}", partial(watched, task=task), draws=WATCHED)
    yield Case(f"text/monitor/{task}/by", partial(watched, task=task, by=True), draws=WATCHED)
    yield Case(f"text/summary/{task}", partial(summarized, task=task), draws=B)


def _engines() -> Iterator[Case]:
    for engine in ("polars", "duckdb"):
        lane = "day" if engine == "polars" else engine
        shards = ("classes_shards/*.parquet", "--engine", engine)
        yield Case(f"engine/{engine}/evaluate", partial(told, argv=("evaluate", *shards, *FEW), seeded=True), lane, B)
        fit = ("fit", *shards, "--method", "temperature", "-o", "cal.json")
        yield Case(f"engine/{engine}/fit", partial(told, argv=fit), lane, tolerance=FIT)
        ask = ("apply", "cal.json", *shards, "-o", "out", "--partition-by", "site")
        yield Case(f"engine/{engine}/apply", partial(fitted_first, fit=fit, argv=ask), lane, tolerance=FIT)
        ask = ("compare", *shards, "--calibrator", "cal.json")
        yield Case(f"engine/{engine}/compare", partial(fitted_first, fit=fit, argv=ask), lane, COMPARED, FIT)


def _refusals() -> Iterator[Case]:
    """Yield exit codes: 2 for usage, 1 for what cannot be read, 3 for a broken limit."""
    wrong: dict[str, tuple[str, ...]] = {
        "no command": ("evalute",),
        "file without command": ("classes.csv",),
        "no file": ("evaluate", "nowhere.csv"),
        "unknown metric": ("evaluate", "classes.csv", "--metric", "eec"),
        "unknown column": ("evaluate", "classes.csv", "--by", "sight"),
        "unknown label": ("evaluate", "classes.csv", "--label", "truth"),
        "unknown method": ("fit", "classes.csv", "--method", "plat"),
        "level": ("evaluate", "classes.csv", "--level", "2"),
        "negative resamples": ("evaluate", "classes.csv", "--resamples", "-1"),
        "no limit": ("check", "classes.csv"),
        "limit out of range": ("check", "classes.csv", "--max", "ece=5"),
        "limit without number": ("check", "classes.csv", "--max", "ece"),
        "config absent": ("check", "classes.csv", "--config", "nowhere.toml"),
        "nothing to compare with": ("compare", "classes.csv"),
        "other rows": ("compare", "classes.csv", "two.csv"),
        "no calibrator": ("apply", "nowhere.json", "classes.csv", "-o", "out.csv"),
        "not a calibrator": ("apply", "classes.csv", "classes.csv", "-o", "out.csv"),
        "no output": ("apply", "cal.json", "classes.csv"),
        "calibrator of two classes": ("apply", "cal.json", "classes.csv", "-o", "out.csv"),
        "empty store": ("monitor", "nowhere"),
        "wrong suffix": ("summarize", "classes.csv", "-o", "day.csv"),
        "not summaries": ("merge", "classes.csv", "-o", "all.calsum"),
        "no merge": ("merge", "-o", "all.calsum"),
        "same day": ("monitor", "store", "two.csv", "--name", "day1"),
    }
    for name, argv in wrong.items():
        yield Case(f"refusal/{name.replace(' ', '-')}", partial(refused, argv=argv))


# -- how they are asked


def told(folder: Path, seed: int, argv: tuple[str, ...], *, seeded: bool = False) -> Any:
    with comparing(seed):
        return commanded(folder, *argv, *(("--seed", seed) if seeded else ()))


@contextmanager
def comparing(seed: int) -> Iterator[None]:
    """Seed `compare`, whose command has no option for it: what it draws must be known as drawn."""
    defaults = calibrant.compare.__kwdefaults__
    usual = defaults["rng"]
    defaults["rng"] = seed
    try:
        yield
    finally:
        defaults["rng"] = usual


def refused(folder: Path, seed: int, argv: tuple[str, ...]) -> Any:
    """Run a command that fails, where a calibrator and a store stand ready if it names them."""
    if "cal.json" in argv:
        commanded(folder, "fit", "two.csv", "--method", "platt", "-o", "cal.json")
    if "store" in argv:
        commanded(folder, "monitor", "store", "two.csv", "--name", "day1")
    return commanded(folder, *argv)


def page(folder: Path, seed: int, argv: tuple[str, ...], file: str | None = None, fit: tuple[str, ...] = ()) -> Any:
    if fit:
        commanded(folder, *fit)
    done = commanded(folder, *argv, "--seed", seed)
    if file is None:
        return {**done, "out": seen("\n".join(done["out"]))}
    return {**done, "page": seen((folder / file).read_text(encoding="utf-8")) if (folder / file).exists() else None}


def fitted_first(
    folder: Path, seed: int, fit: tuple[str, ...], argv: tuple[str, ...], then: tuple[str, ...] = ()
) -> Any:
    """Fit, run a command with the calibrator, and return what it said and wrote."""
    commanded(folder, *fit)
    with comparing(seed):
        found = commanded(folder, *argv)
    for made in (folder / "out.csv", folder / "out"):
        if made.exists():
            found["written"] = content_of(made, ordered=made.is_file())
    found["files"] = sorted(str(path.relative_to(folder)) for path in folder.rglob("out*") if path.is_file())
    found["files"] += sorted(str(path.parent.relative_to(folder)) for path in folder.glob("out/*/*.parquet"))
    if not then:
        return found
    with comparing(seed):
        return {**found, "then": commanded(folder, *then)}


def watched(folder: Path, seed: int, task: str, *, by: bool = False) -> Any:
    family = ("--by", "site") if by else ()
    more = ("--report", "page.html", "--openmetrics", "metrics.prom", "--seed", seed)
    first = commanded(folder, "monitor", "store", f"{task}.csv", "--name", "2026-01-01", *family)
    second = commanded(folder, "monitor", "store", f"{task}_after.csv", "--name", "2026-01-02", "--window", "1", *more)
    html, lines = folder / "page.html", folder / "metrics.prom"
    return {
        "first": first,
        "second": second,
        "status": commanded(folder, "monitor", "store"),
        "page": seen(html.read_text(encoding="utf-8")) if html.exists() else None,
        "openmetrics": lines.read_text(encoding="utf-8").splitlines() if lines.exists() else None,
    }


def summarized(folder: Path, seed: int, task: str) -> Any:
    said = [
        commanded(folder, "summarize", f"{task}_shards/day{day}.parquet", "-o", f"day{day}.calsum", "--by", "site")
        for day in (0, 1)
    ]
    merged = commanded(folder, "merge", "day*.calsum", "-o", "all.calsum")
    document = commanded(folder, "merge", "day*.calsum", "-o", "all.calsum", "--json")
    return {
        "summarize": said,
        "merge": merged,
        "json": unhashed(document),
        "evaluate": commanded(folder, "evaluate", "all.calsum", *FEW, "--seed", seed),
        "check": commanded(folder, "check", "all.calsum", "--max", "ece=0.001", *FEW, "--seed", seed),
        "text": commanded(folder, "evaluate", "all.calsum", "--by", "site", *FEW, "--seed", seed),
    }


def every_explanation(folder: Path, seed: int) -> Any:
    """Explain every name that the list of everything has, as JSON."""
    whole = calibrant.explain().to_dict()
    names = sorted({*calibrant.list_metrics(None), *calibrant.list_calibrators()})
    return {"all": whole, **{name: asked(lambda name=name: calibrant.explain(name)) for name in names}}


def hashes(folder: Path, seed: int) -> Any:
    """Hash the inputs that must be the same bytes everywhere, so that a moved input is not blamed on an answer."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in sorted(folder.glob("*.csv"))}
