"""``calibrant bench``: our speed beside other libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("bench")
@click.option("--quick", is_flag=True, help="One round on small arrays: shows that everything runs, proves no goal.")
@click.option("--only", multiple=True, metavar="NAME", help="A family (measures, calibrators, …) or the beginning of a "
              "race's name; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write the result: .md, .json or .txt.")
def command(quick: bool, only: tuple[str, ...], as_json: bool, output: Path | None) -> None:
    """Run our measures and calibrators and those of other libraries side by side.

    Every entrant gets the same arrays and its turn in every round; plain NumPy passes over the same arrays
    stand beside them. A library that is not installed is listed as absent.

    Example: calibrant bench --only ece --only ks -o bench.md
    """
    from calibrant.studies import bench

    def tell(name: str) -> None:
        click.echo(f"racing {name} …", err=True)

    report = bench.run(only, quick=quick, progress=tell if sys.stderr.isatty() else None)
    text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False)
    if output is not None:
        page = {".md": report.to_markdown(), ".json": text + "\n"}.get(output.suffix, f"{report}\n")
        aside = output.with_name(output.name + ".part")
        aside.write_text(page, encoding="utf-8")
        aside.replace(output)
    click.echo(text if as_json else str(report))
