"""``calibrant study``: how far a number can be trusted on the user's own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from calibrant.cli._options import emit, emit_json, file_options, layout_of
from calibrant.cli._progress import progress
from calibrant.core.atomic import write_text

NAMES = (
    "sample-size", "learning-curves", "bins", "temperature", "estimator-bias", "label-noise", "resolution", "coverage"
)  # fmt: skip
#: Studies that simulate when no file is given.
FREE = ("estimator-bias", "label-noise", "coverage")
#: What the study coverage simulates.
GRIDS = ("ordinary", "adversarial", "findings")


@click.command(
    "study",
    epilog="Examples: calibrant study resolution preds.npz · calibrant study sample-size preds.npz -o out --quick · "
    "calibrant study coverage -o out",
)
@click.argument("name", type=click.Choice(NAMES))
@click.argument("file", type=click.Path(), required=False)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for Parquet, CSV, JSON and figure, and for checkpoints: a study that was stopped goes on there.",
)
@click.option("--repeats", type=click.IntRange(1), help="Random draws [default: as in the papers].")
@click.option("--sizes", metavar="N,…", help="Rows of a sample, comma-separated (coverage only).")
@click.option(
    "--grid",
    type=click.Choice(GRIDS),
    help="What coverage simulates: ordinary models [default], the adversarial grid, or every finding in version 0.1.",
)
@click.option(
    "--only",
    metavar="PART,…",
    help="Parts of the findings to measure, comma-separated; the others are shown as the folder of -o holds them.",
)
@click.option("--quick", is_flag=True, help="Few draws; under a minute.")
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes [default: one per core].")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed; the same seed gives the same table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option(
    "--markdown",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the table as a Markdown page.",
)
@file_options
def command(
    name: str,
    file: str | None,
    out: Path | None,
    repeats: int | None,
    sizes: str | None,
    grid: str | None,
    only: str | None,
    quick: bool,
    jobs: int,
    seed: int,
    as_json: bool,
    page: Path | None,
    **options: Any,
) -> None:
    """Run a sensitivity study on the predictions in FILE (estimator-bias, label-noise and coverage simulate without).

    sample-size: errors and improvements against the number of test rows; learning-curves: methods against the number
    of calibration rows; bins; temperature; estimator-bias against a known truth; label-noise; resolution: which ECE
    these rows can resolve; coverage of our intervals and size of our tests.
    """
    if sizes is not None and name != "coverage":
        raise click.UsageError("--sizes goes with the study coverage")
    if grid is not None and name != "coverage":
        raise click.UsageError("--grid goes with the study coverage")
    if sizes is not None and grid == "findings":
        raise click.UsageError("--sizes has no meaning for the findings: each has its own")
    if only is not None and grid != "findings":
        raise click.UsageError("--only goes with --grid findings")
    if sizes is not None and not all(part.strip().isdigit() for part in sizes.split(",")):
        raise click.UsageError(f"--sizes takes whole numbers separated by commas, not {sizes!r}")
    if file is None and name not in FREE:
        raise click.UsageError(f"study {name} needs a FILE of predictions")
    _refuse_unused(name, file, repeats, seed, options)
    with progress(name) as show:
        result = _run(
            name,
            grid,
            file,
            options,
            repeats,
            quick,
            {
                **({"sizes": [int(part) for part in sizes.split(",")]} if sizes else {}),
                **({"only": [part.strip() for part in only.split(",")]} if only else {}),
                "seed": seed,
                "folder": out,
                "jobs": 1 if quick else jobs,
                "progress": show,
            },
        )
    if out is not None:
        written = result.save(out)
        emit(f"Written to {out}: {', '.join(path.name for path in written)}.", err=True)
        if result.curves and not any(path.suffix == ".svg" for path in written):
            emit("No figure: matplotlib is not installed (pip install 'calibrant[plots]').", err=True)
    if page is not None:
        from calibrant_papers.studies.writing import study_page

        line = f"calibrant study {name}{' ' + file if file else ''}{f' --repeats {repeats}' if repeats else ''}"
        line += f" --sizes {sizes}" if sizes else ""
        line += f" --grid {grid}" if grid else ""
        line += f" --only {only}" if only else ""
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(page, study_page(result, line + (" --quick" if quick else "")))
    if as_json:
        emit_json(result.to_dict())
    else:
        emit(str(result))


def _refuse_unused(name: str, file: str | None, repeats: int | None, seed: int, options: dict[str, Any]) -> None:
    """Refuse options that a study has no use for, by name."""
    if repeats is not None and name in ("resolution", "bins", "temperature"):
        raise click.UsageError(f"--repeats has no meaning for the study {name}")
    if seed and name == "resolution":
        raise click.UsageError("--seed has no meaning for the study resolution: nothing is drawn")
    if options.get("weight"):
        raise click.UsageError("--weight has no meaning for studies: they count every row once")
    if name == "coverage" and file is not None:
        raise click.UsageError("the study coverage simulates and takes no FILE")
    if file is None:
        names = ("proba", "label", "space", "part", "normalize", "input_format")
        for option in (*names, "positive", "percent", "confidence", "correct"):
            if options.get(option):
                raise click.UsageError(f"--{option.replace('_', '-')} needs a FILE of predictions")


def _run(
    name: str,
    grid: str | None,
    file: str | None,
    options: dict[str, Any],
    repeats: int | None,
    quick: bool,
    how: dict[str, Any],
) -> Any:
    """Read the file and call the study."""
    from calibrant_papers import studies

    if name == "coverage":
        return _coverage(grid or "ordinary")(repeats=repeats or (20 if quick else 400 if grid else 1000), **how)
    what: dict[str, Any] = {}
    if file is not None:
        found = _read(file, options)
        what = {"y_true": found.truth, "y_proba": found.scores, "space": found.space}
        if found.kind == "pairs":
            if name in ("learning-curves", "temperature", "label-noise", "resolution"):
                raise click.UsageError(f"study {name} needs probability vectors, not top-label pairs")
            what["pairs"] = True
    if name == "resolution":
        return studies.resolution(**what)
    if name == "bins":
        return studies.bins(n_resamples=20 if quick else 200, **what, **how)
    if name == "temperature":
        return studies.temperature_sweep(**what, **how)
    if name == "label-noise":
        return studies.label_noise(models=repeats or (20 if quick else 100), **what, **how)
    if name == "sample-size":
        return studies.sample_size(repeats=repeats or (25 if quick else 10_000), **what, **how)
    if name == "learning-curves":
        return studies.learning_curves(repeats=repeats or (2 if quick else 20), **what, **how)
    return studies.estimator_bias(repeats=repeats or (50 if quick else 1000), **what, **how)


def _coverage(grid: str) -> Callable[..., Any]:
    """Return the study of the given grid."""
    if grid == "adversarial":
        from calibrant_papers.validation.adversarial import adversarial

        return adversarial
    if grid == "findings":
        from calibrant_papers.validation.findings import findings

        return findings
    from calibrant_papers.validation.coverage import coverage

    return coverage


def _read(file: str, options: dict[str, Any]) -> Any:
    from dataclasses import replace

    import numpy as np

    from calibrant.errors import FileError
    from calibrant.io.predictions import refuse_normalize, score_matrix, to_forecast
    from calibrant.io.readers import read_predictions

    input_format, normalize = options.pop("input_format", None), options.pop("normalize", False)
    found = read_predictions(file, layout_of(options), input_format=input_format)
    if found.kind == "regression":
        raise FileError("studies take class probabilities", hint="calibrant evaluate serves means with variances")
    if found.kind == "pairs":
        refuse_normalize(normalize, "study", "top-label pairs")
    elif normalize:
        found = replace(found, scores=score_matrix(found, normalize))
    if found.classes is not None and found.truth is not None:
        forecast = to_forecast(found, caller="study", normalize=normalize and found.kind != "pairs")
        found = replace(found, truth=np.asarray(forecast.codes))
    return found
