"""``calibrant reproduce``: the papers' tables and figures."""

from __future__ import annotations

from pathlib import Path

import click

from calibrant.cli._options import emit, emit_json
from calibrant.cli._progress import progress
from calibrant.core.atomic import write_text


@click.command(
    "reproduce",
    context_settings={"help_option_names": ["-h", "--help"]},  # also where it is called without its group
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
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder whose results/ keeps finished targets of `all` [default: --out]; those found there are not run again.",
)
@click.option("--quick", is_flag=True, help="Fewer repeats; the output says so.")
@click.option(
    "--shard",
    metavar="I/N",
    help="Run part I of N of the targets; parts that share --out end in one book.",
)
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes [default: one per core].")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the simulations.")
@click.option("--report", "only_report", is_flag=True, help="Run nothing: the book of what is finished (TARGET all).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(
    names: tuple[str, ...],
    data: Path | None,
    out: Path,
    results: Path | None,
    quick: bool,
    shard: str | None,
    jobs: int,
    seed: int,
    only_report: bool,
    as_json: bool,
) -> None:
    """List the papers' tables and figures, or run some of them (TARGET all: every one, with an HTML book)."""
    from calibrant.core.inputs import check_names
    from calibrant_papers.book import book_markdown, summary_page, write_book, write_target
    from calibrant_papers.reproduction import attempt, data_folder, list_targets
    from calibrant_papers.store import kept_all, shard_of

    targets = list_targets()
    if not names:
        if as_json:
            emit_json({"schema": 1, "targets": [{"name": t.name, "paper": t.paper} for t in targets.values()]})
        else:
            emit("\n".join(f"{t.name:<22}{t.paper}" for t in targets.values()))
        return
    every = "all" in names
    chosen = list(targets) if every else [check_names(name, tuple(targets), "TARGET", "reproduce") for name in names]
    if shard is not None:
        chosen = shard_of(chosen, _shard(shard))
    chosen = [] if only_report else chosen
    folder = data_folder(data)
    if folder is None and chosen:
        emit("no data folder (--data DIR or CALIBRANT_DATA): only simulations run", err=True)
    with progress("targets") as show:
        outcomes = attempt(
            chosen,
            data=folder,
            quick=quick,
            folder=out / "checkpoints",
            jobs=1 if quick else jobs,
            progress=None if show is None else (lambda i, note: show(i, len(chosen), note)),
            seed=seed,
            results=(results or out) if every else results,
        )
    for outcome in outcomes:
        if outcome.result is not None:
            write_target(outcome.result, out)
    line = f"calibrant reproduce {' '.join(names)}{' --quick' if quick else ''}{' --report' if only_report else ''}"
    if every:
        out.mkdir(parents=True, exist_ok=True)
        book = kept_all(results or out, targets)
        done = {(o.name, o.quick) for o in book}
        book += [o for o in outcomes if (o.name, o.quick) not in done]
        book.sort(key=lambda o: (list(targets).index(o.name), not o.quick))
        write_text(out / "targets.md", summary_page(book, line))
        write_text(out / "papers.md", book_markdown(book, line))
        write_book(book, out / "book.html", line)
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
                        "summary": o.summary,
                        "seconds": o.seconds,
                        "data": "" if o.result is None else o.result.data,
                        "size": "" if o.result is None else o.result.size,
                        "lines": [] if o.result is None else o.result.rows(),
                        "findings": []
                        if o.result is None
                        else [{**f.to_dict(), "verdict": f.verdict} for f in o.result.findings],
                    }
                    for o in outcomes
                ],
            }
        )
    elif every:
        emit("\n".join(f"{o.name:<22}{o.kind:<3}{o.summary}" for o in outcomes))
    else:
        emit("\n\n".join(str(o.result) if o.result else f"{o.name}: {o.summary}" for o in outcomes))
    emit(f"Written to {out}.", err=True)
    if not every and any(o.result is None for o in outcomes):
        raise click.exceptions.Exit(1)


def _shard(text: str) -> tuple[int, int]:
    """Return the two numbers of --shard."""
    part, slash, total = text.partition("/")
    if not (slash and part.isdigit() and total.isdigit() and 1 <= int(part) <= int(total)):
        raise click.BadParameter(f"must be I/N with 1 ≤ I ≤ N, for example 2/4; got {text!r}.", param_hint="--shard")
    return int(part), int(total)
