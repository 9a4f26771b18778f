"""``calibrant bench``: our speed beside other libraries."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click

from calibrant.cli._progress import progress
from calibrant.core.atomic import write_text
from calibrant.core.text import table as text_table


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})  # also without its group
@click.option("--quick", is_flag=True, help="One round on small arrays: shows that everything runs, proves no goal.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="A family (metrics, calibrators, …) or the beginning of a race's name; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the result: .md, .json or .txt; may be repeated.",
)
@click.option(
    "--compare",
    "before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A stored result (.json): exit code 3 if a race lost more than 20% against its ratios, twice in a row.",
)
@click.option(
    "--yardstick",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Stored times (benchmarks/yardstick.json): also print ours as multiples of them.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Turns of every entrant of a race."
)
@click.option(
    "--budget",
    type=click.FloatRange(0),
    default=12.0,
    show_default=True,
    help="Seconds after which an entrant of a race takes no further turn: the way to bound the whole run.",
)
@click.option("--growth", is_flag=True, help="Instead: time per number as rows and classes grow.")
@click.option("--scale", is_flag=True, help="Run the engines on a large file instead.")
@click.option(
    "--scratch",
    type=click.Path(file_okay=False),
    help="Folder for the files of --scale (about 50 bytes a row), which are kept; default: a temporary one.",
)
@click.option("--rows", type=click.IntRange(1000), default=50_000_000, show_default=True, help="Rows of --scale.")
@click.option(
    "--repeat",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="With --scale: also read the same parts so often; 20 makes a billion rows of fifty million.",
)
@click.option("--spark", is_flag=True, help="With --scale: also Spark, on a tenth of the rows.")
@click.option("--league", is_flag=True, help="Instead: the automatic repair against a hindsight oracle on real sets.")
@click.option("--data", type=click.Path(file_okay=False), envvar="CALIBRANT_DATA", help="Folder of sets for --league.")
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Draws of 1,000 and of 200 calibration rows of --league; it goes on from -o after a stop.",
)
def command(
    quick: bool,
    only: tuple[str, ...],
    as_json: bool,
    outputs: tuple[Path, ...],
    before: Path | None,
    yardstick: Path | None,
    rounds: int,
    budget: float,
    growth: bool,
    scale: bool,
    scratch: str | None,
    rows: int,
    repeat: int,
    spark: bool,
    league: bool,
    data: str | None,
    draws: int,
) -> None:
    """Run our metrics and calibrators and those of other libraries side by side.

    Every entrant gets the same arrays and its turn in every round; plain NumPy passes over the same arrays
    stand beside them. A library that is not installed is listed as absent.

    Example: calibrant bench --only ece --only ks -o bench.md
    """
    import calibrant_benchmarks

    def announce(name: str) -> None:
        click.echo(f"racing {name} …", err=True)

    tell = announce if sys.stderr.isatty() else None
    report: Any

    def save(report: Any) -> None:
        for output in outputs:
            text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n"
            page = {".md": report.to_markdown(), ".json": text}.get(output.suffix, f"{report}\n")
            write_text(output, page)

    if scale:
        from calibrant_benchmarks.scale import run_scale

        place: AbstractContextManager[str] = (
            nullcontext(scratch) if scratch else tempfile.TemporaryDirectory(prefix="calibrant-scale-")
        )
        with place as folder:
            rounds_of = 1 if quick else 3
            report = run_scale(folder, rows=rows, rounds=rounds_of, spark=spark, repeat=repeat, progress=tell)
    elif growth:
        from calibrant_benchmarks.growth import run_growth

        report = run_growth(quick=quick, progress=tell)
        for output in outputs:
            if output.suffix == ".md":
                report.draw(output.with_suffix(".svg"))
    elif league:
        if data is None:
            raise click.UsageError("--league needs --data FOLDER (or CALIBRANT_DATA) with .npz files of predictions.")
        from calibrant_papers.validation.league import run_league

        saved = outputs[0].with_name(outputs[0].name + ".cells") if outputs else None
        sizes = (None,) if quick else (None, 1000, 200)
        with progress("league") as show:
            report = run_league(data, sizes=sizes, draws=draws, only=only, checkpoint=saved, progress=show)
    else:
        report = calibrant_benchmarks.run(only, quick=quick, rounds=rounds, budget=budget, progress=tell, save=save)
    save(report)
    click.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else str(report))
    if yardstick is not None:
        if scale or league or growth:
            raise click.UsageError("--yardstick goes with the races alone.")
        ratios = report.against_yardstick(json.loads(yardstick.read_text(encoding="utf-8")))
        click.echo("\n".join(["", *text_table([("task", "best time", "processor time", "memory"), *ratios])]))
    if before is not None:
        if scale or league or growth:
            raise click.UsageError("--compare goes with the races alone.")
        stored = json.loads(before.read_text(encoding="utf-8"))
        lost = report.losses(stored)
        if lost:  # a busy minute is no loss: those races run once more
            again = calibrant_benchmarks.run(tuple(lost), quick=quick, rounds=rounds, budget=budget, progress=tell)
            lost = {name: line for name, line in again.losses(stored).items() if name in lost}
        for line in lost.values():
            click.echo(f"slower than before: {line}", err=True)
        if lost:
            raise SystemExit(3)
