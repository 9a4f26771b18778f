"""Every option of every command acts on every task, or is refused by name; none is ignored.

The list of commands and options comes from click. `ROWS` gives for each option the words that must change the
outcome; an option that is not in it fails `test_every_option_is_walked`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from acceptance.runner import Outcome, run
from acceptance.walk_inputs import make_walk

TASKS = ("classes", "arrays", "pairs", "regression", "pattern")
FILES = {
    "classes": "classes.csv",
    "arrays": "arrays.npz",
    "pairs": "pairs.csv",
    "regression": "regression.csv",
    "pattern": "pattern/*.csv",
}
AFTER = {
    "classes": "classes_after.csv",
    "arrays": "arrays_after.npz",
    "pairs": "pairs_after.csv",
    "regression": "regression_after.csv",
    "pattern": "pattern_after/*.csv",
}
LIMIT = dict.fromkeys(TASKS, "ece=0.9") | {"regression": "ence=99"}
METHOD = dict.fromkeys(TASKS, "temperature") | {"regression": "std-scaling"}
#: What each command is given before the option under test.
BASE: dict[str, list[str]] = {
    "evaluate": ["{file}", "--resamples", "30", "--json"],
    "fit": ["{file}", "--method", "{method}", "-o", "{out}/cal.json", "--json"],
    "apply": ["{calibrator}", "{file}", "-o", "{out}/applied{suffix}", "--json"],
    "compare": ["{file}", "{after}", "--json"],
    "check": ["{file}", "--max", "{limit}", "--resamples", "30", "--json"],
    "report": ["{file}", "--no-compare", "--resamples", "30", "--json"],
    "monitor": ["{out}/store", "{file}", "--name", "day4", "--json"],
    "summarize": ["{file}", "-o", "{out}/day.calsum", "--json"],
    "merge": ["day.calsum", "later.calsum", "-o", "{out}/both.calsum", "--json"],
    "explain": ["ece"],
}
#: What a command need not do for a task; it then says so in one line. Everything else must work.
CANNOT = {
    ("monitor", "regression"),
    ("summarize", "regression"),
    ("compare", "pattern"),
}
#: Commands too slow to walk.
SLOW = {"demo"}
#: Options that are tried on one task only: they do not look at the predictions.
ONCE = {("merge", "--output"), ("merge", "--json"), ("explain", "--json")}


@dataclass(frozen=True)
class Row:
    """Two command lines whose outcomes must differ: the base with `a`, the base with `b`."""

    b: list[str] | dict[str, list[str]]
    a: list[str] | dict[str, list[str]] = field(default_factory=list)
    #: Files other than the base, by task.
    files: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    #: Words of the base that are left out, with their value.
    drop: tuple[str, ...] = ()
    #: The option acts by making the command fail, with words of its own.
    breaks: bool = False
    #: A library that is hidden from the second command, so that using it shows.
    hide: str | None = None

    def words(self, task: str, *, first: bool = False) -> list[str]:
        """Words of the second (or the first) command line."""
        words = self.a if first else self.b
        return words if isinstance(words, list) else words.get(task, words["*"])


DATA = {task: name.replace(".csv", ".data").replace(".npz", ".data") for task, name in FILES.items()}
DATA["pattern"] = "pattern_data/*.data"
COARSE = {"classes": "classes_coarse.csv", "arrays": "arrays_coarse.npz", "pattern": "pattern_coarse/*.csv"}
HOLED = {
    "classes": "classes_holed.csv",
    "pairs": "pairs_holed.csv",
    "regression": "regression_holed.csv",
    "pattern": "classes_holed/*.csv",
}
FORMAT = {"*": ["--input-format", "csv"], "arrays": ["--input-format", "npz"]}

_STORE = ("{out}/store", "{file}")
_MAPPED = ["--calibrator", "{calibrator}"]

#: (command or "*", option) -> what must change the outcome.
ROWS: dict[tuple[str, str], Row] = {
    # -- where things are in a file
    ("*", "--proba"): Row(
        {
            "*": ["--proba", "alt_*"],
            "arrays": ["--proba", "alt", "--space", "logit"],
            "pairs": ["--proba", "conf2", "--label", "correct"],
            "regression": ["--proba", "mean2"],
        }
    ),
    ("*", "--label"): Row({"*": ["--label", "label2"], "pairs": ["--label", "correct2"], "regression": ["--label", "y2"]}),
    ("*", "--weight"): Row(["--weight", "weight2"]),
    ("*", "--weight-kind"): Row(["--weight", "weight2", "--weight-kind", "importance"], a=["--weight", "weight2"]),
    ("*", "--space"): Row({"*": ["--space", "logit"], "arrays": ["--space", "proba"]}, breaks=True),
    ("*", "--part"): Row({"*": ["--part", "cal"]}, a=[]),
    ("fit", "--part"): Row({"*": ["--part", "test"]}),
    ("*", "--normalize"): Row(["--normalize"], files=COARSE),
    ("apply", "--normalize"): Row(["--normalize"], files={task: name for task, name in COARSE.items() if task != "arrays"}),
    ("*", "--input-format"): Row(FORMAT, files=DATA),
    ("*", "--mean"): Row(["--mean", "mean2"]),
    # the mean passes through unchanged, so the name of a column that is not there must be refused
    ("apply", "--mean"): Row({"*": ["--mean", "mean2"], "regression": ["--mean", "nowhere"]}, breaks=True),
    ("*", "--variance"): Row(["--variance", "variance2"]),
    ("*", "--std"): Row(["--std", "variance2"]),
    ("*", "--positive"): Row(["--positive", "ant"]),
    ("*", "--percent"): Row(["--percent"]),
    ("*", "--confidence"): Row({"*": ["--confidence", "nowhere"], "pairs": ["--confidence", "conf2"]}),
    ("*", "--correct"): Row({"*": ["--correct", "nowhere"], "pairs": ["--correct", "correct2"]}),
    # -- engines
    ("*", "--engine"): Row(["--engine", "duckdb"], hide="duckdb"),
    ("*", "--master"): Row(["--master", "local[2]"]),
    ("*", "--strict"): Row(["--strict"], files=HOLED, breaks=True),
    ("*", "--max-rejected"): Row(["--max-rejected", "0.1%"], files=HOLED, breaks=True),
    ("*", "--skip-bad-files"): Row(["--skip-bad-files"], files={"pattern": "pattern_bad/*.csv"}),
    # -- what is asked
    ("*", "--metric"): Row({"*": ["--metric", "mce"], "regression": ["--metric", "crps"]}),
    ("*", "--view"): Row(["--view", "classwise"]),
    ("*", "--bins"): Row(["--bins", "4"]),
    ("*", "--by"): Row(["--by", "site"]),
    ("*", "--level"): Row(["--level", "0.5"]),
    ("*", "--resamples"): Row(["--resamples", "0"], drop=("--resamples",)),
    ("check", "--resamples"): Row(["--min-pvalue", "{limit_name}=0.04", "--resamples", "30"], a=["--min-pvalue", "{limit_name}=0.04", "--resamples", "60"], drop=("--resamples",)),
    ("*", "--groups"): Row(["--groups", "patient"]),
    ("*", "--seed"): Row(["--seed", "7"]),
    ("*", "--tolerance"): Row(["--tolerance", "0.3"]),
    ("*", "--json"): Row(["--json"], drop=("--json",)),
    ("*", "--format"): Row(["--format", "md"], drop=("--json",)),
    # -- fit
    ("fit", "--method"): Row({"*": ["--method", "isotonic"], "regression": ["--method", "variance-scaling"]}, drop=("--method",)),
    ("fit", "--output"): Row(["-o", "{out}/other.json"], drop=("-o",), a=["-o", "{out}/cal.json"]),
    ("fit", "--criterion"): Row({"*": ["--criterion", "brier"], "regression": ["--criterion", "crps"]}, drop=("--method",)),
    ("fit", "--preserve"): Row(["--preserve", "order"], drop=("--method",)),
    ("fit", "--candidate"): Row({"*": ["--candidate", "temperature"], "regression": ["--candidate", "std-scaling"]}, drop=("--method",)),
    ("fit", "--fast"): Row(["--fast"], drop=("--method",)),
    ("fit", "--holdout"): Row(["--holdout", "0.4"]),
    ("fit", "--seed"): Row(["--seed", "7"], drop=("--method",)),
    # -- apply, compare, check, report, monitor
    ("apply", "--output"): Row(["-o", "{out}/other{suffix}"], drop=("-o",), a=["-o", "{out}/applied{suffix}"]),
    ("apply", "--partition-by"): Row(["--partition-by", "site"]),
    ("summarize", "--output"): Row(["-o", "{out}/other.calsum"], drop=("-o",), a=["-o", "{out}/day.calsum"]),
    ("merge", "--output"): Row(["-o", "{out}/other.calsum"], drop=("-o",), a=["-o", "{out}/both.calsum"]),
    ("compare", "--calibrator"): Row(["--calibrator", "{calibrator}"], drop=("{after}",), a=["{file}"]),
    ("compare", "--key"): Row(["--key", "patient"]),
    ("compare", "--engine"): Row([*_MAPPED, "--engine", "duckdb"], a=_MAPPED, drop=("{after}",), hide="duckdb"),
    ("compare", "--strict"): Row([*_MAPPED, "--strict"], a=_MAPPED, drop=("{after}",), files=HOLED, breaks=True),
    ("compare", "--max-rejected"): Row(
        [*_MAPPED, "--max-rejected", "0.1%"], a=_MAPPED, drop=("{after}",), files=HOLED, breaks=True
    ),
    ("compare", "--skip-bad-files"): Row(
        [*_MAPPED, "--skip-bad-files"], a=_MAPPED, drop=("{after}",), files={"pattern": "pattern_bad/*.csv"}
    ),
    ("check", "--max"): Row({"*": ["--max", "ece=0.0001"], "regression": ["--max", "ence=0.0001"]}, drop=("--max",), a=["--max", "{limit}"]),
    ("check", "--min"): Row({"*": ["--min", "ece=0.99"], "regression": ["--min", "ence=99"]}),
    ("check", "--min-pvalue"): Row({"*": ["--min-pvalue", "ece=0.999999"], "regression": ["--min-pvalue", "ence=0.999999"]}),
    ("check", "--config"): Row({"*": ["--config", "gate.toml"], "regression": ["--config", "gate_regression.toml"]}),
    ("check", "--undecided"): Row(["--undecided", "fail"]),
    # the binned error of variances shows no interval, so clusters show in that of the squared error
    ("check", "--groups"): Row(
        {"*": ["--groups", "patient"], "regression": ["--max", "mse=99", "--groups", "patient"]},
        a={"*": [], "regression": ["--max", "mse=99"]},
    ),
    ("check", "--bins"): Row(["--bins", "4"]),
    ("check", "--seed"): Row(
        {
            "*": ["--min-pvalue", "ece=0.0001", "--seed", "7"],
            "regression": ["--variance", "variance2", "--min-pvalue", "ence=0.0001", "--seed", "8"],
        },
        a={"*": ["--min-pvalue", "ece=0.0001"], "regression": ["--variance", "variance2", "--min-pvalue", "ence=0.0001"]},
    ),
    ("report", "--output"): Row(["-o", "{out}/other.html"], a=["-o", "{out}/report.html"], drop=("--json",)),
    ("report", "--calibrator"): Row(["--calibrator", "{calibrator}"]),
    ("report", "--title"): Row(["--title", "A title of my own"]),
    ("report", "--no-compare"): Row(["--no-compare"], drop=("--no-compare",)),
    ("monitor", "--name"): Row(["--name", "other"], drop=("--name",), a=["--name", "day4"]),
    ("monitor", "--window"): Row(["--window", "1"]),
    ("monitor", "--proba"): Row(
        {
            "*": ["{out}/new", "{file}", "--proba", "alt_*"],
            "arrays": ["{out}/new", "{file}", "--proba", "alt", "--space", "logit"],
            "pairs": ["{out}/new", "{file}", "--proba", "conf2", "--label", "correct"],
        },
        a=["{out}/new", "{file}"],
        drop=_STORE,
    ),
    ("monitor", "--alpha"): Row(["{out}/new", "{file}", "--alpha", "0.2"], a=["{out}/new", "{file}"], drop=_STORE),
    ("monitor", "--tolerance"): Row(["{out}/new", "{file}", "--tolerance", "0.3"], a=["{out}/new", "{file}"], drop=_STORE),
    ("evaluate", "--risk"): Row(["--risk"]),
    ("monitor", "--unit"): Row(["{out}/new", "{file}", "--unit", "day"], a=["{out}/new", "{file}"], drop=_STORE),
    ("monitor", "--run-length"): Row(["{out}/new", "{file}", "--run-length", "50"], a=["{out}/new", "{file}"], drop=_STORE),
    ("monitor", "--groups"): Row(["{out}/new", "{file}", "--groups", "patient"], a=["{out}/new", "{file}"], drop=_STORE),
    ("monitor", "--restart"): Row(["--restart"]),
    ("monitor", "--by"): Row(["{out}/new", "{file}", "--by", "site"], a=["{out}/new", "{file}"], drop=_STORE),
    ("monitor", "--days"): Row(
        ["{out}/new", "{file}", "--by", "site", "--days", "patient"],
        a=["{out}/new", "{file}", "--by", "site", "--name", "day4"],
        drop=(*_STORE, "--name"),
    ),
    ("monitor", "--openmetrics"): Row(["--openmetrics", "{out}/state.prom"]),
    ("monitor", "--date"): Row(["--date", "2026-11-15"], drop=("--json",)),
    ("monitor", "--replace"): Row(["--name", "day1", "--replace"], a=["--name", "day1"], drop=("--name",), files=AFTER),
    ("monitor", "--report"): Row(["--report", "{out}/page.html"]),
}  # fmt: skip


# -- the list of options, from click itself -----------------------------------------------------------


def commands() -> dict[str, click.Command]:
    """Commands of calibrant itself, by name; plug-ins of other packages are theirs to walk."""
    from calibrant.cli import cli

    context = click.Context(cli)
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    own = {name: one for name, one in found.items() if one is not None and one.callback is not None}
    return {name: one for name, one in own.items() if one.callback.__module__.startswith("calibrant.cli")}


def options() -> Iterator[tuple[str, click.Option]]:
    for name, command in commands().items():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_eager:
                yield name, option


def row_of(command: str, option: click.Option) -> Row | None:
    words = [*option.opts, *(("--metric",) if "--metric" in option.opts else ())]
    for where in (command, "*"):
        for word in words:
            if (where, word) in ROWS:
                return ROWS[where, word]
    return None


def long_name(option: click.Option) -> str:
    return max(option.opts, key=len)


CASES = [
    pytest.param(command, option, task, id=f"{command} {long_name(option)} {task}")
    for command, option in options()
    if command not in SLOW
    for task in (TASKS if (command, long_name(option)) not in ONCE else ("classes",))
]


# -- running ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("walk"))


class Bench:
    """The files of the walk, fitted calibrators, and every outcome seen so far."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.known, self.count = folder, {}, 0
        make_walk(folder)
        for task in ("classes", "arrays", "pairs", "regression"):
            done = run(("fit", FILES[task], "--method", METHOD[task], "-o", f"{task}.json"), folder)
            if done.code != 0:  # regression methods by name are new
                run(("fit", FILES[task], "-o", f"{task}.json"), folder)
        for name, files in (("day", FILES), ("later", AFTER)):
            run(("summarize", files["pattern"], "-o", f"{name}.calsum"), folder)
        for task in TASKS:
            for day in (1, 2, 3):
                run(("monitor", f"{task}_store", (AFTER, FILES)[day % 2][task], "--name", f"day{day}"), folder)

    def outcome(self, command: str, task: str, row: Row, words: list[str], hide: str | None) -> tuple[Outcome, Any]:
        """Run one command line in a folder of its own; return what was said and everything comparable."""
        base = _without(BASE[command], row.drop)
        fields = {
            "file": row.files.get(task, FILES[task]),
            "after": row.after.get(task, AFTER[task]),
            "calibrator": {"pattern": "classes"}.get(task, task) + ".json",
            "suffix": Path(FILES[task]).suffix,
            "limit": LIMIT[task],
            "limit_name": LIMIT[task].split("=")[0],
            "method": METHOD[task],
            "out": "OUT",
        }
        line = tuple(word.format(**fields) for word in [*base, *words])
        key = (command, line, hide)
        if key not in self.known:
            out = self.folder / "OUT"
            shutil.rmtree(out, ignore_errors=True)
            if command == "monitor" and (self.folder / f"{task}_store").is_dir():
                shutil.copytree(self.folder / f"{task}_store", out / "store")
            out.mkdir(exist_ok=True)
            saved = sys.modules.get(hide) if hide else None
            try:
                if hide:
                    sys.modules[hide] = None  # type: ignore[assignment]
                done = run((command, *line), self.folder)
            finally:
                if hide and saved is not None:
                    sys.modules[hide] = saved
                elif hide:
                    sys.modules.pop(hide, None)
            files = {str(path.relative_to(out)): _content(path) for path in sorted(out.rglob("*")) if path.is_file()}
            self.known[key] = done, (done.code, _plain(done.out), _talk(done), files)
        return self.known[key]


def _without(base: list[str], dropped: tuple[str, ...]) -> list[str]:
    flags = {"--json", "--no-compare", "--quick"}
    kept, skip = [], False
    for word in base:
        if skip:
            skip = False
        elif word in dropped:
            skip = word.startswith("-") and word not in flags
        else:
            kept.append(word)
    return kept


_CLOCK = re.compile(r"seconds|date|time|created|path|file|output|bytes")


def _plain(text: str) -> Any:
    try:
        return _timeless(json.loads(text))
    except ValueError:
        return text


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if not _CLOCK.fullmatch(key)}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _talk(done: Outcome) -> str:
    return "" if done.code in (0, 3) else done.err


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return _plain(path.read_text(encoding="utf-8"))
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return {name: archive[name].tolist() for name in archive.files}
    return path.read_text(encoding="utf-8") if path.suffix == ".csv" else None


@pytest.mark.parametrize(("command", "option", "task"), CASES)
def test_option_acts_or_is_refused_by_name(command: str, option: click.Option, task: str, bench: Bench) -> None:
    row = row_of(command, option)
    assert row is not None, f"{command} {long_name(option)} is not in the table of the walk"
    before, old = bench.outcome(command, task, row, row.words(task, first=True), None)
    after, new = bench.outcome(command, task, row, row.words(task), row.hide)
    for done in (before, after):
        assert "Traceback" not in done.err
        assert done.code in (0, 1, 2, 3), done
    plain, _ = bench.outcome(command, task, Row([]), [], None)
    if plain.code in (1, 2):
        return  # test_command_serves_task judges that
    named = any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", after.err) for word in option.opts)
    if after.code in (1, 2):
        acted = (row.breaks or row.hide) and old != new
        assert named or acted, f"exit {after.code} does not name {long_name(option)}: {after.err.strip()[-300:]}"
        return
    assert old != new, f"{command} {' '.join(row.words(task))} changed nothing on {task}: it is ignored"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("command", sorted(BASE))
def test_command_serves_task(command: str, task: str, bench: Bench) -> None:
    done, seen = bench.outcome(command, task, Row([]), [], None)
    if (command, task) in CANNOT and done.code != 0:
        assert done.code in (1, 2)
        assert "Hint: " in done.err
    else:
        assert done.code in (0, 3), done.err
        bench.known.clear()
        assert bench.outcome(command, task, Row([]), [], None)[1] == seen, "the same words give another answer"


def test_every_option_is_walked() -> None:
    missing = [
        f"{command} {long_name(option)}"
        for command, option in options()
        if command not in SLOW and row_of(command, option) is None
    ]
    assert not missing, f"add to ROWS: {', '.join(missing)}"
    assert set(commands()) - SLOW == set(BASE)
