"""How targets are written: a page with CSV and figure each, the summary of both forms, the book."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calibrant.core.atomic import write_text
from calibrant.core.text import count, significant
from calibrant.errors import MissingExtraError
from calibrant_papers.reproduction import PAPERS
from calibrant_papers.studies.drawing import draw_panels, panels_svg
from calibrant_papers.studies.writing import markdown_table, stamp
from calibrant_papers.targets.result import VERDICTS, Line, Outcome, TargetResult

__all__ = ["book_markdown", "summary_page", "summary_rows", "target_markdown", "write_book", "write_target"]

KINDS = "E exact numbers on the same data, P the paper's finding on data we have, S simulation with known truth."
VERDICT_RULE = (
    "*exact*: nothing is random and the data are the paper's own, or the truth is known. *confirmed*: the claim shows, "
    "in k of m seeds where something is random (at least four in five, m at least 5). *not confirmed*: it does not. "
    "*no data*: it cannot be judged here. The verdict of a target is that of its weakest claim; a number outside its "
    "band makes it *not confirmed*."
)
NOT_RUN = (
    "*not run*: that form takes long (networks to train, many draws) and is not finished; `make papers FULL=1` goes on "
    "with it. *by an earlier program*: the next run makes it again."
)


def target_markdown(result: TargetResult, command: str) -> str:
    """Return one target as a Markdown page."""
    quick = " Quick form: fewer repeats than the paper." if result.quick else ""
    parts = [f"# {result.name}: {result.title}", f"{PAPERS[result.name.split('-')[0]]}. Kind {result.kind}.{quick}"]
    parts += [f"**Verdict: {result.summary}.**", f"Made from: {result.made_from}."]
    parts += ["\n".join(f"- {f.text}: **{f.verdict}**{f.judged.removeprefix(f.verdict)}" for f in result.findings)]
    if result.lines:
        parts.append(markdown_table(result.rows()))
    parts += [f"> {note}" for note in result.notes]
    return "\n\n".join([*filter(None, parts), stamp(command), ""])


def write_target(result: TargetResult, folder: str | Path) -> list[Path]:
    """Write NAME.md, NAME.csv and, with matplotlib, NAME.svg and NAME.png; return the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
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


# -- both forms side by side ------------------------------------------------------------------------


def _forms(outcomes: Iterable[Outcome]) -> dict[str, dict[bool, Outcome]]:
    """Return name -> {quick: outcome}."""
    found: dict[str, dict[bool, Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.name, {})[outcome.quick] = outcome
    return found


def _made(outcome: Outcome | None) -> str:
    """Return data, size, seeds and time of one form in words."""
    if outcome is None:
        return ""
    if outcome.result is None:
        return outcome.reason
    time = "" if outcome.seconds is None else f"{max(1, round(outcome.seconds)):,} s"
    return "; ".join(filter(None, (outcome.result.made_from, time, outcome.date)))


def _short(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.result is None:
        return outcome.verdict
    if outcome.result.verdict != "not confirmed":
        return outcome.result.summary
    judged = [f for f in outcome.result.findings if f.holds is not None]
    bands = [line for line in outcome.result.lines if line.hit is not None]
    parts = [
        f"{missed} of {total} {what}"
        for missed, total, what in (
            (len(outcome.result.unconfirmed), len(judged), "claims"),
            (len(outcome.result.missed), len(bands), "bands"),
        )
        if missed
    ]
    return f"not confirmed ({', '.join(parts)})"


def summary_rows(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return the table "target · kind · quick · full", each form with what it was made from."""
    rows = []
    for name, forms in _forms(outcomes).items():
        quick, full = forms.get(True), forms.get(False)
        kind = next((o.kind for o in (full, quick) if o is not None and o.kind), "")
        rows.append(
            {
                "target": name,
                "kind": kind,
                "quick": _short(quick),
                "quick made from": _made(quick),
                "full": _short(full),
                "full made from": _made(full),
            }
        )
    return rows


def counts(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return how many targets and claims got each verdict, by form, and how many bands were hit."""
    rows: list[dict[str, Any]] = []
    outcomes = list(outcomes)
    for form, quick in (("quick", True), ("full", False)):
        chosen = [o for o in outcomes if o.quick == quick]
        if not chosen:
            continue
        results = [o.result for o in chosen if o.result is not None]
        targets = Counter(o.verdict for o in chosen)
        targets["not run"] += len({o.name for o in outcomes} - {o.name for o in chosen})
        claims = Counter[str](f.verdict for r in results for f in r.findings)
        bands = [line.hit for r in results for line in r.lines if line.hit is not None]
        for what, found in (("targets", targets), ("claims", claims)):
            rows.append({"form": form, "of": what} | {v: found.get(v, 0) for v in (*VERDICTS, "not run")})
        rows.append(
            {"form": form, "of": "printed numbers"}
            | dict.fromkeys(VERDICTS, "")
            | {"exact": f"{sum(bands)} of {len(bands)} in band"}
        )
    return rows


def _line(line: Line) -> str:
    printed = "" if line.published is None else f", published {significant(line.published)}"
    band = "" if line.band is None else f", band {line.band[0]:.4g} … {line.band[1]:.4g}"
    why = line.reason or line.note
    return f"{line.label}: {significant(line.ours)}{printed}{band}{f'; {why}' if why else ''}"


def _open_points(outcomes: list[Outcome]) -> str:
    """Return what is not confirmed or has no data, with numbers and reasons; the full form where there is one."""
    points: dict[str, list[str]] = {"not confirmed": [], "no data": []}
    for name, forms in _forms(outcomes).items():
        outcome = forms.get(False) or forms[True]
        result, form = outcome.result, "quick" if outcome.quick else "full"
        if result is None:
            points["no data"].append(f"- {name} ({form}): {outcome.reason}")
            continue
        points["not confirmed"] += [f"- {name} ({form}), number: {_line(line)}" for line in result.missed]
        for finding in result.findings:
            if finding.verdict in points:
                points[finding.verdict].append(f"- {name} ({form}): {finding.text}: {finding.judged}")
    parts = []
    for verdict, lines in points.items():
        title = "What is not confirmed" if verdict == "not confirmed" else "What cannot be judged here"
        parts += [f"## {title}", "\n".join(lines) or "Nothing."]
    return "\n\n".join(parts)


def _versions(outcomes: Iterable[Outcome]) -> str:
    found = sorted({", ".join(f"{k} {v}" for k, v in o.versions.items()) for o in outcomes if o.versions})
    return "Made with " + "; ".join(found) + "." if found else ""


def summary_page(outcomes: list[Outcome], command: str) -> str:
    """Return the page docs/tables/targets.md."""
    return (
        "\n\n".join(
            filter(
                None,
                [
                    "# Every table and figure of the five papers",
                    stamp(command),
                    _versions(outcomes),
                    f"{KINDS} {VERDICT_RULE} {NOT_RUN}",
                    markdown_table(counts(outcomes)),
                    _open_points(outcomes),
                    "## Every target",
                    markdown_table(summary_rows(outcomes)),
                ],
            )
        )
        + "\n"
    )


def book_markdown(outcomes: list[Outcome], command: str) -> str:
    """Return the page docs/tables/papers.md: the claims of every target, both forms, without figures."""
    parts = ["# The papers, claim by claim", stamp(command), _versions(outcomes), f"{VERDICT_RULE} {NOT_RUN}"]
    forms = _forms(outcomes)
    for key, paper in PAPERS.items():
        chosen = {name: found for name, found in forms.items() if name.startswith(f"{key}-")}
        if not chosen:
            continue
        parts.append(f"## {paper}")
        for name, found in chosen.items():
            title = next((o.result.title for o in found.values() if o.result is not None), "")
            parts.append(f"### {name}{f': {title}' if title else ''}")
            for quick in (True, False):
                outcome = found.get(quick)
                word = "Quick" if quick else "Full"
                if outcome is None:
                    parts.append(f"{word}: not run.")
                    continue
                parts.append(f"{word}: **{_short(outcome)}**. {_made(outcome)}.")
                if outcome.result is not None:
                    lines = [f"- {f.text}: {f.judged}" for f in outcome.result.findings]
                    bands = [line for line in outcome.result.lines if line.hit is not None]
                    if bands:
                        hit = sum(bool(line.hit) for line in bands)
                        lines.append(f"- printed numbers and other bands: {hit} of {count(len(bands))} hit")
                    lines += [f"- missed: {_line(line)}" for line in outcome.result.missed]
                    parts.append("\n".join(lines))
            notes = dict.fromkeys(n for o in found.values() if o.result is not None for n in o.result.notes)
            parts += [f"> {note}" for note in notes]
    return "\n\n".join(filter(None, parts)) + "\n"


def write_book(outcomes: list[Outcome], path: str | Path, command: str = "calibrant reproduce all") -> Path:
    """Write one self-contained HTML page with every target: verdicts of both forms, numbers, figure, notes."""
    import jinja2

    forms = _forms(outcomes)
    shown = {name: found.get(False) or found[True] for name, found in forms.items()}
    figures = {}
    for name, outcome in shown.items():
        if outcome.result is not None and outcome.result.curves:
            try:
                figures[name] = panels_svg(outcome.result.curves)
            except MissingExtraError:
                break
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant_papers", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: "" if value is None else f"{value:.5g}"
    environment.filters["made"] = _made
    environment.filters["short"] = _short
    chapters = [(paper, {n: f for n, f in forms.items() if n.startswith(f"{key}-")}) for key, paper in PAPERS.items()]
    text = environment.get_template("book.html.j2").render(
        chapters=[c for c in chapters if c[1]],
        figures=figures,
        shown=shown,
        stamp=stamp(command).replace("`", ""),
        versions=_versions(outcomes),
        counts=counts(outcomes),
        verdicts=(*VERDICTS, "not run"),
        rule=f"{KINDS} {VERDICT_RULE} {NOT_RUN}".replace("*", ""),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path
