"""``calibrant bench``: our speed beside other libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click


@click.command("bench")
@click.option("--quick", is_flag=True, help="One round on small arrays: shows that everything runs, proves no goal.")
@click.option("--only", multiple=True, metavar="NAME", help="A family (measures, calibrators, …) or the beginning of a "
              "race's name; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write the result: .md, .json or .txt.")
@click.option("--scale", is_flag=True, help="Run the engines on a large file instead (needs --scratch).")
@click.option("--scratch", type=click.Path(file_okay=False), help="Folder for the files of --scale; they are kept.")
@click.option("--rows", type=click.IntRange(1000), default=100_000_000, show_default=True, help="Rows of --scale.")
@click.option("--spark", is_flag=True, help="With --scale: also Spark on one and two threads.")
@click.option("--league", is_flag=True, help="Instead: the automatic repair against a hindsight oracle on real sets.")
@click.option("--data", type=click.Path(file_okay=False), envvar="CALIBRANT_DATA", help="Folder of sets for --league.")
@click.option("--draws", type=click.IntRange(1), default=10, show_default=True,
              help="Draws of 1 000 and of 200 calibration rows of --league; it goes on from -o after a stop.")
def command(
    quick: bool, only: tuple[str, ...], as_json: bool, output: Path | None, scale: bool, scratch: str | None, rows: int,
    spark: bool, league: bool, data: str | None, draws: int,
) -> None:
    """Run our measures and calibrators and those of other libraries side by side.

    Every entrant gets the same arrays and its turn in every round; plain NumPy passes over the same arrays
    stand beside them. A library that is not installed is listed as absent.

    Example: calibrant bench --only ece --only ks -o bench.md
    """
    from calibrant.studies import bench

    def tell(name: str) -> None:
        click.echo(f"racing {name} …", err=True)

    progress = tell if sys.stderr.isatty() else None
    report: Any
    if scale:
        if scratch is None:
            raise click.UsageError("--scale needs --scratch FOLDER for its files (about 8 bytes a row).")
        from calibrant.studies.bench.scale import run_scale

        report = run_scale(scratch, rows=rows, rounds=1 if quick else 3, spark=spark, progress=progress)
    elif league:
        if data is None:
            raise click.UsageError("--league needs --data FOLDER (or CALIBRANT_DATA) with .npz files of predictions.")
        from calibrant.studies.bench.league import run_league

        saved = None if output is None else output.with_name(output.name + ".rows.jsonl")
        sizes = (None,) if quick else (None, 1000, 200)
        report = run_league(data, sizes=sizes, draws=draws, only=only, checkpoint=saved, progress=progress)
    else:
        report = bench.run(only, quick=quick, progress=progress)
    text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False)
    if output is not None:
        page = {".md": report.to_markdown(), ".json": text + "\n"}.get(output.suffix, f"{report}\n")
        aside = output.with_name(output.name + ".part")
        aside.write_text(page, encoding="utf-8")
        aside.replace(output)
    click.echo(text if as_json else str(report))
