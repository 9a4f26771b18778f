"""Every command still answers what version 0.1 answered, except the numbers named in `CHANGED`.

`frozen.json` was written by version 0.1 (`python tests/acceptance/jobs.py`). A key of 0.1 that is gone, a number that
moved by more than 1e-9 or an identifier that reads otherwise fails the test, unless `CHANGED` gives the reason.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from acceptance.jobs import JOBS, answer
from acceptance.runner import run
from helpers import needs

FROZEN: dict[str, Any] = json.loads((Path(__file__).parent / "frozen.json").read_text(encoding="utf-8"))

MEANS = "{brier,nll,spherical,rps,rbs}"
#: Pattern of "job.path" -> why the answer is another one now. Mirrored in the changelog under "Changed numbers".
CHANGED: dict[str, str] = {
    f"*.measures.{MEANS}.{{null_mean,null_std,pvalue}}": "the moments the forecasts imply, without a draw: rows = engines",
    "{evaluate,report}/regression*.{low,high}": "the skewness-corrected interval of every mean",
    "evaluate/{polars*,duckdb}.*.{low,high}": "the skewness-corrected interval of rows, also for accuracy and confidence",
    "*.slices.*.{pvalue,corrected,corrected_pvalue}": "one slice test, corrected by step-down maxT on joint draws",
    "evaluate/polars-by.json.slices.*": "slices from cells have the null, p-value and interval of rows",
    "report/regression.json.{source,measures.*,method.*}": "the report of regression says where it comes from, like others",
    "report/regression.json.evaluation.measures.*.{null_mean,null_std,pvalue}": "the report obeys --resamples",
    "fit/regression.json.league": "methods of regression are listed like others",
    "check/k5-by.json.checks.*.value": "p-values of slices are corrected for their number, as evaluate prints them",
    "compare/*.measures.{accuracy,ece,ks,mmce}.{low,high,pvalue}": "Tango's interval with McNemar's exact test; errors have intervals",
    "compare/*.measures.*.pvalue": "the p-value is read off the interval",
    "report/*.facts.*": "words of the tiles follow the design page",
    "report/*.json.measures.*.pvalue": "the p-values above, as text",
    "{evaluate,report}/*weights*.json.n": "weights that are counts count: n is their sum",
    "evaluate/k5-groups.json.measures.*": "clusters: signs of whole clusters are drawn, CR2 errors, intervals of errors",
    "compare/k5-some.json.measures.brier.{low,high}": "clusters: CR2 errors and Satterthwaite's degrees of freedom",
    "{evaluate,report}/k2*.ece.low": "an interval begins at 0 unless the resampling test rejects",
    "evaluate/{k5,k2}-by.json.slices.*.nll.{low,high}": "few effective events: the exact interval of a scaled count",
    "report/*.size.resolvable": "what the joint test detects, not KS alone",
    "report/*.comparison.*": "the change of an error has an interval, accuracy Tango's; p-values follow",
    "fit/*.written.program": "the maximum of a row is subtracted before scaling: margins of 1e300 fit",
    "fit/auto.{json.league,written.state.records_}.*": "folds start from the first fit, to 1e-7 of a loss",
    "fit/{temperature,isotonic}.json.league.*": "folds are dealt at random, not class by class: chance is no gain",
    "fit/{polars,duckdb}.json.league.*": "Platt and beta without a ridge where classes overlap",
    "apply/duckdb.written.score.sum": "Platt and beta without a ridge where classes overlap",
    "explain/all.json.measures": "more metrics: kuiper, sweep, tl-ece",
    "explain/taxonomy.json.bounds": "the kernel calibration error KCE stands in the taxonomy",
    f"{{evaluate,report,compare}}/*.{MEANS[:-1]},entropy,confidence}}.{{low,high}}": "the far end of a skewed mean reaches further",
    "monitor/k2*.json.{log_evalue,history.*.log_evalue}": "two classes: bets on the probability of class 1",
    "monitor/*.json.window.changes.*.{low,high,method,pvalue}": "changes of windows from the intervals of both sides",
    "report/k2.json.{views.*,pickers.*,size.resolvable}": "two classes: the probability of class 1 comes first",
    "check/k2.json.checks.*.value": "two classes: a limit on an error judges class 1",
    "check/k5-by.{exit,json.passed,json.checks.*.passed}": "a p-value below 0.0001 is found: a hundred draws cannot show one",
    "fit/auto.written.state.best_.calibrator.params.calibrators": "a mixture brings its members and can be fitted again",
    "fit/regression.written.state.records_.list.*": "folds of variances depend on content and count weights as copies",
    "report/k2.json.measures": "two classes: one more row, ks@class-1, which the verdict and gates judge",
}
#: Pattern -> why a key is no longer written; `test_old_files` reads files that have it.
GONE: dict[str, str] = {
    "fit/regression.written.state.best_.regression": "a regression calibrator inside another is stored as every other",
    "report/*.json.{facts,classes_drawn,classes.*.bar}": "nothing read them",
    "report/*.json.{measures,repair.league}": "they are called metrics and methods",
    "report/k5.json.slices.*.{lean,heat}": "the gap of a slice is called gap; nothing read heat",
    "compare/k2.json.measures.{ece,ks,mmce}": "two classes: errors are those of class 1, called ece@class-1",
}
#: Pattern -> why other random numbers were drawn; the new answer must lie within Monte-Carlo error of the old one.
DRAWN: dict[str, str] = {
    "evaluate/regression*.{null_mean,null_std,pvalue}": "one stream of draws for every metric of an evaluation",
    "{evaluate,report}/k2*.{null_mean,null_std,pvalue}": "two classes: labels are drawn from the table of class 1",
    "evaluate/{k5,pairs}-by.json.slices.*.ks.{null_mean,null_std,pvalue}": "the row ks of a slice is the slice's test",
    "evaluate/k5-all.*.uce.{null_mean,null_std,pvalue}": "hits of bins are drawn from their exact distribution",
    "evaluate/k5-view.*.{null_mean,null_std,pvalue}": "sums of probabilities are drawn from their own table",
}


class Difference(NamedTuple):
    """Where an answer differs, in which words, and whether other draws of 100 explain it."""

    where: str
    what: str
    drawn: bool = False


class Answers:
    """Answers of today's command line, each job run once, after the jobs whose files it reads."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.known = folder, {}

    def __getitem__(self, job: str) -> dict[str, Any]:
        if job not in self.known:
            for other in needed(job):
                self[other]
            self.known[job] = answer(JOBS[job], self.folder, run)
        return self.known[job]


def needed(job: str) -> Iterator[str]:
    """Yield the jobs whose output file `job` reads, or that come before it in the same store."""
    for other, argv in JOBS.items():
        if other == job:
            return
        made = argv[argv.index("-o") + 1] if "-o" in argv else argv[1] if argv[0] == "monitor" else None
        if made in JOBS[job]:
            yield other


@pytest.fixture(scope="module")
def answers(folder: Path) -> Answers:
    return Answers(folder)


def differences(old: Any, new: Any, path: str, spread: float | None = None) -> Iterator[Difference]:
    """Yield where a new answer lacks a key of the old one or says another number."""
    if isinstance(old, dict):
        if not isinstance(new, dict):
            yield Difference(path, f"was an object, is {new!r}"[:80])
            return
        for key, value in old.items():
            if key in new:
                yield from differences(value, new[key], f"{path}.{key}", old.get("null_std"))
            else:
                yield Difference(f"{path}.{key}", "key is gone")
    elif isinstance(old, list):
        if not isinstance(new, list) or len(old) != len(new):
            yield Difference(path, f"was {old!r}, is {new!r}"[:160])
            return
        for index, (one, two) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, two, f"{path}.{index}")
    elif path.endswith(".checksum") and old != "…":  # of fitted numbers: last bits differ by processor and SciPy
        if not (isinstance(new, str) and re.fullmatch(f"[0-9a-f]{{{len(old)}}}", new)):
            yield Difference(path, f"was {old!r}, is {new!r}")
    elif isinstance(old, bool) or old is None or isinstance(old, str):
        if old != "…" and old != new:
            yield Difference(path, f"was {old!r}, is {new!r}")
    elif not is_number(new):
        yield Difference(path, f"was {old!r}, is {new!r}")
    elif not math.isclose(old, new, rel_tol=1e-9, abs_tol=1e-9):
        yield Difference(path, f"was {old!r}, is {new!r}", by_chance(path.rpartition(".")[2], old, new, spread))


def by_chance(key: str, old: float, new: float, spread: float | None, draws: int = 100) -> bool:
    """Whether two sets of draws may differ so much: five standard errors."""
    if key == "null_mean" and spread is not None:
        return abs(old - new) <= 5 * spread * math.sqrt(2 / draws)
    if key == "null_std":
        return 0.6 <= new / old <= 1 / 0.6
    middle = (old + new) / 2
    return "pvalue" in key and abs(old - new) <= 5 * math.sqrt(2 * middle * (1 - middle) / draws) + 2 / draws


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def alternatives(pattern: str) -> list[str]:
    """Write out the braces of a pattern."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        return [pattern]
    choices, _, after = rest.partition("}")
    return [before + choice + tail for choice in choices.split(",") for tail in alternatives(after)]


def matches(where: str, patterns: dict[str, str]) -> bool:
    return any(fnmatch.fnmatchcase(where, one) for pattern in patterns for one in alternatives(pattern))


def allowed(found: Difference) -> bool:
    if found.what == "key is gone":
        return matches(found.where, GONE)
    return matches(found.where, CHANGED) or (found.drawn and matches(found.where, DRAWN))


def test_every_command_is_frozen() -> None:
    assert set(FROZEN) == set(JOBS)
    verbs = {argv[0] for argv in JOBS.values()}
    assert verbs == {"evaluate", "fit", "apply", "compare", "check", "report", "monitor", "explain"}


def marked(job: str) -> Any:
    """Mark a job that runs on DuckDB, or that reads what one of them wrote."""
    words = [word for name in (job, *needed(job)) for word in JOBS[name]]
    return pytest.param(job, marks=needs("duckdb")) if "duckdb" in words else job


@pytest.mark.parametrize("job", [marked(job) for job in JOBS])
def test_answers_of_0_1(job: str, answers: Answers) -> None:
    found = [one for one in differences(FROZEN[job], answers[job], job) if not allowed(one)]
    assert not found, "\n".join(f"{one.where}: {one.what}" for one in found[:40])


def test_differences_are_seen() -> None:
    old = {"a": 1.0, "b": [1, {"c": "name"}], "d": None}
    assert list(differences(old, {"a": 1.0 + 1e-12, "b": [1, {"c": "name"}], "d": None, "e": 5}, "x")) == []
    moved = {"a": 1.0 + 1e-6, "b": [1, {"c": "other"}]}
    assert [one.where for one in differences(old, moved, "x")] == ["x.a", "x.b.1.c", "x.d"]
    hashes = [list(differences({"checksum": "ab12"}, {"checksum": new}, "x")) for new in ("cd34", "cd3", None)]
    assert [len(one) for one in hashes] == [0, 1, 1]
    assert by_chance("pvalue", 0.5, 0.6, None)
    assert not by_chance("pvalue", 0.5, 0.95, None)
    assert not by_chance("value", 0.5, 0.500001, None)
