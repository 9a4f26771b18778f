"""``calibrant reproduce``: the papers' tables and figures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from calibrant.cli._options import emit, emit_json


@click.command(
    "reproduce",
    epilog="Examples: calibrant reproduce · calibrant reproduce gupta-table-1 --data DIR -o out · "
    "calibrant reproduce all --quick --data DIR -o book",
)
@click.argument("names", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of real predictions [default: the variable CALIBRANT_DATA]; simulations need none.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("calibrant-reproduce"),
    show_default=True,
    help="Folder for Markdown, CSV and figures; a run that was stopped goes on there.",
)
@click.option("--quick", is_flag=True, help="Fewer repeats; the output says so.")
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes [default: one per core].")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the simulations.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(
    names: tuple[str, ...], data: Path | None, out: Path, quick: bool, jobs: int, seed: int, as_json: bool
) -> None:
    """List the papers' tables and figures, or run some of them (TARGET all: every one, with an HTML book)."""
    from calibrant.core.inputs import check_names
    from calibrant.studies.frame import write_text
    from calibrant.studies.reproduce import attempt, data_folder, list_targets, summary_page, write_book, write_target

    targets = list_targets()
    if not names:
        if as_json:
            emit_json({"schema": 1, "targets": [{"name": t.name, "paper": t.paper} for t in targets.values()]})
        else:
            emit("\n".join(f"{t.name:<22}{t.paper}" for t in targets.values()))
        return
    every = "all" in names
    chosen = list(targets) if every else [check_names(name, tuple(targets), "TARGET", "reproduce") for name in names]
    folder = data_folder(data)
    if folder is None:
        emit("no data folder (--data DIR or CALIBRANT_DATA): only simulations run", err=True)
    talk = sys.stderr.isatty()
    outcomes = attempt(
        chosen,
        data=folder,
        quick=quick,
        folder=None if quick else out / "checkpoints",
        jobs=1 if quick else jobs,
        progress=(lambda name: emit(f"{name} …", err=True)) if talk else None,
        tell=(lambda done, total, _: click.echo(f"\r  {done}/{total} cells", nl=False, err=True)) if talk else None,
        seed=seed,
    )
    for outcome in outcomes:
        if outcome.result is not None:
            write_target(outcome.result, out)
    line = f"calibrant reproduce {' '.join(names)}{' --quick' if quick else ''}"
    if every:
        write_text(out / "targets.md", summary_page(outcomes, line))
        write_book(outcomes, out / "book.html", line)
    if as_json:
        emit_json(
            {
                "schema": 1,
                "quick": quick,
                "targets": [
                    {
                        "name": o.name,
                        "kind": o.kind or None,
                        "verdict": o.verdict,
                        "lines": [] if o.result is None else o.result.rows(),
                        "findings": [] if o.result is None else [f.to_dict() for f in o.result.findings],
                    }
                    for o in outcomes
                ],
            }
        )
    elif every:
        emit("\n".join(f"{o.name:<22}{o.kind:<3}{o.verdict}" for o in outcomes))
    else:
        emit("\n\n".join(str(o.result) if o.result else f"{o.name}: {o.verdict}" for o in outcomes))
    emit(f"Written to {out}.", err=True)
    if not every and any(o.result is None for o in outcomes):
        raise click.exceptions.Exit(1)
