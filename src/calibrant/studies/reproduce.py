"""The papers' tables and figures by name: run one, write it as Markdown, CSV and figure, bind all into a book."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant._typing import RNG
from calibrant.core.inputs import check_names
from calibrant.core.results import Record
from calibrant.errors import FileError, MissingExtraError
from calibrant.studies.frame import Tell, workspace, write_text
from calibrant.studies.targets.result import TargetResult
from calibrant.studies.writing import markdown_table, stamp

__all__ = ["PAPERS", "Outcome", "Target", "data_folder", "list_targets", "reproduce", "write_book", "write_target"]

#: Beginning of a target's name -> paper.
PAPERS = {
    "gruber": "Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores",
    "gupta": "Gupta et al. (2021), Calibration of Neural Networks using Splines",
    "zhang": "Zhang, Kailkhura & Han (2020), Mix-n-Match",
    "nixon": "Nixon et al. (2019), Measuring Calibration in Deep Learning",
    "uce": "Laves et al. (2020), Uncertainty Calibration Error",
}
#: Modules of `calibrant.studies.targets` that hold targets.
MODULES = (
    "gruber_theory",
    "gruber_sizes",
    "gruber_variance",
    "gupta_tables",
    "gupta_figures",
    "zhang_estimators",
    "zhang_methods",
    "nixon",
    "uce",
    "trained",
)
Run = Callable[[bool, Path | None, RNG], TargetResult]


@dataclass(frozen=True)
class Target(Record):
    """One table or figure of a paper."""

    name: str
    paper: str
    run: Run


@dataclass(frozen=True, eq=False)
class Outcome(Record):
    """What became of a target: its result, or why there is none (no data, no torch)."""

    name: str
    result: TargetResult | None
    reason: str = ""

    @property
    def kind(self) -> str:
        """E, P or S; empty without a result."""
        return "" if self.result is None else self.result.kind

    @property
    def verdict(self) -> str:
        """Verdict in words."""
        return f"not run: {self.reason}" if self.result is None else self.result.verdict


@lru_cache(maxsize=1)
def list_targets() -> dict[str, Target]:
    """Return every target by name, in the order of the papers."""
    found: dict[str, Run] = {}
    for module in MODULES:
        found |= import_module(f"calibrant.studies.targets.{module}").TARGETS
    papers = list(PAPERS)

    def place(name: str) -> tuple[int, str, int, str]:
        paper, kind, *rest = name.split("-")
        number = int(rest[-1]) if rest and rest[-1].isdigit() else 0
        return papers.index(paper), {"theorem": "0", "prop": "1", "table": "2", "fig": "3"}.get(kind, "9"), number, name

    return {name: Target(name, PAPERS[name.split("-")[0]], found[name]) for name in sorted(found, key=place)}


def data_folder(data: str | Path | None) -> Path | None:
    """Return the folder of real data: the one given, else that of the variable CALIBRANT_DATA, else None."""
    chosen = data if data is not None else os.environ.get("CALIBRANT_DATA")
    if not chosen:
        return None
    folder = Path(chosen)
    if not folder.is_dir():
        raise FileError(f"the data folder {folder} does not exist. Hint: pass --data DIR, or set CALIBRANT_DATA.")
    return folder


def reproduce(name: str, *, data: str | Path | None = None, quick: bool = False, rng: RNG = 0) -> TargetResult:
    """Run one table or figure of the five papers and return ours beside the published numbers.

    Parameters
    ----------
    name : str
        For example ``"gupta-table-1"``; `list_targets` gives all.
    data : path, optional
        Folder of real predictions; default the variable CALIBRANT_DATA. Simulations need none.
    quick : bool, default False
        Fewer repeats; the result says so.
    rng : None, int or Generator, default 0
        Randomness.

    Returns
    -------
    TargetResult
        Lines (ours, published, difference, band), findings that hold or not, curves, notes on flawed protocols.

    Examples
    --------
    >>> reproduce("uce-fig-3", quick=True).verdict
    'holds'
    """
    targets = list_targets()
    check_names(name, tuple(targets), "name", "reproduce")
    return targets[name].run(quick, data_folder(data), rng)


def attempt(
    names: Iterable[str],
    *,
    data: Path | None,
    quick: bool,
    folder: Path | None = None,
    jobs: int | None = 1,
    progress: Callable[[str], None] | None = None,
    tell: Tell | None = None,
    seed: int = 0,
) -> list[Outcome]:
    """Run targets one after the other; one that cannot run (no data, no torch) says why and does not stop the rest."""
    outcomes = []
    for name in names:
        if progress is not None:
            progress(name)
        try:
            with workspace(folder, jobs=jobs, progress=tell):
                result = list_targets()[name].run(quick, data, seed)
            outcomes.append(Outcome(name, result))
        except (FileError, MissingExtraError) as error:
            outcomes.append(Outcome(name, None, str(error)))
    return outcomes


# -- writing --------------------------------------------------------------------------------------


def target_markdown(result: TargetResult, command: str) -> str:
    """Return one target as a Markdown page."""
    quick = " Quick form: fewer repeats than the paper." if result.quick else ""
    parts = [f"# {result.name}: {result.title}", f"{PAPERS[result.name.split('-')[0]]}. Kind {result.kind}.{quick}"]
    parts.append(f"**Verdict: {result.verdict}.**")
    parts += ["\n".join(f"- {'yes' if f.holds else '**no**'} – {f.text}" for f in result.findings)]
    if result.lines:
        parts.append(markdown_table(result.rows()))
    parts += [f"> {note}" for note in result.notes]
    return "\n\n".join([*filter(None, parts), stamp(command), ""])


def write_target(result: TargetResult, folder: str | Path) -> list[Path]:
    """Write NAME.md, NAME.csv and, with matplotlib, NAME.svg and NAME.png; return the paths."""
    from calibrant.studies.drawing import draw_panels

    folder = Path(folder)
    page, table = folder / f"{result.name}.md", folder / f"{result.name}.csv"
    write_text(page, target_markdown(result, f"calibrant reproduce {result.name}{' --quick' if result.quick else ''}"))
    text = io.StringIO()
    rows = result.rows()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_text(table, text.getvalue())
    written = [page, table]
    if result.curves:
        try:
            written += [draw_panels(result.curves, folder / f"{result.name}{s}", result.name) for s in (".svg", ".png")]
        except MissingExtraError:
            return written
    return written


def summary_rows(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return the table "target · kind · verdict"."""
    return [{"target": o.name, "kind": o.kind, "verdict": o.verdict} for o in outcomes]


def summary_page(outcomes: list[Outcome], command: str) -> str:
    """Return the page docs/tables/targets.md."""
    held = sum(o.result is not None and o.result.holds for o in outcomes)
    head = "E exact numbers on the same data, P the paper's finding on data we have, S simulation with known truth."
    return "\n\n".join(
        [
            "# Every table and figure of the five papers",
            stamp(command),
            head,
            f"{held} of {len(outcomes)} hold.",
            markdown_table(summary_rows(outcomes)),
            "",
        ]
    )


def write_book(outcomes: list[Outcome], path: str | Path, command: str = "calibrant reproduce all") -> Path:
    """Write one self-contained HTML page with every target: findings, numbers, figure, notes."""
    import jinja2

    from calibrant.studies.drawing import panels_svg

    figures = {}
    for outcome in outcomes:
        if outcome.result is not None and outcome.result.curves:
            try:
                figures[outcome.name] = panels_svg(outcome.result.curves)
            except MissingExtraError:
                break
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant.studies", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: "" if value is None else f"{value:.5g}"
    chapters = [(paper, [o for o in outcomes if o.name.startswith(f"{key}-")]) for key, paper in PAPERS.items()]
    text = environment.get_template("book.html.j2").render(
        chapters=[c for c in chapters if c[1]],
        figures=figures,
        stamp=stamp(command).replace("`", ""),
        held=sum(o.result is not None and o.result.holds for o in outcomes),
        total=len(outcomes),
        quick=any(o.result is not None and o.result.quick for o in outcomes),
    )
    path = Path(path)
    write_text(path, text)
    return path
