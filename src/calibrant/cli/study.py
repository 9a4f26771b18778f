"""``calibrant study``: how far a number can be trusted on the user's own file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calibrant.cli._options import emit, emit_json, file_options, layout_of

NAMES = (
    "sample-size",
    "learning-curves",
    "bins",
    "temperature",
    "estimator-bias",
    "label-noise",
    "resolution",
    "coverage",
)
#: Studies that simulate when no file is given.
FREE = ("estimator-bias", "label-noise", "coverage")


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
    if sizes is not None and not all(part.strip().isdigit() for part in sizes.split(",")):
        raise click.UsageError(f"--sizes takes whole numbers separated by commas, not {sizes!r}")
    if file is None and name not in FREE:
        raise click.UsageError(f"study {name} needs a FILE of predictions")
    with _bar(name) as tell:
        result = _run(
            name,
            file,
            options,
            repeats,
            quick,
            {
                **({"sizes": [int(part) for part in sizes.split(",")]} if sizes else {}),
                "seed": seed,
                "folder": out,
                "jobs": 1 if quick else jobs,
                "progress": tell,
            },
        )
    if out is not None:
        written = result.save(out)
        emit(f"Written to {out}: {', '.join(path.name for path in written)}.", err=True)
        if result.curves and not any(path.suffix == ".svg" for path in written):
            emit("No figure: matplotlib is not installed (pip install 'calibrant[plots]').", err=True)
    if page is not None:
        from calibrant.studies.frame import write_text
        from calibrant.studies.writing import study_page

        line = f"calibrant study {name}{' ' + file if file else ''}{f' --repeats {repeats}' if repeats else ''}"
        line += f" --sizes {sizes}" if sizes else ""
        write_text(page, study_page(result, line + (" --quick" if quick else "")))
    if as_json:
        emit_json(result.to_dict())
    else:
        emit(str(result))


def _run(
    name: str, file: str | None, options: dict[str, Any], repeats: int | None, quick: bool, how: dict[str, Any]
) -> Any:
    """Read the file and call the study."""
    from calibrant import studies

    if name == "coverage":
        return studies.coverage(repeats=repeats or (20 if quick else 1000), **how)
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


def _read(file: str, options: dict[str, Any]) -> Any:
    import numpy as np

    from calibrant.engines.files import read_predictions
    from calibrant.errors import FileError

    input_format = options.pop("input_format", None)
    options.pop("normalize", None)
    found = read_predictions(file, layout_of(options), input_format=input_format)
    if found.kind == "normal" or found.variance is not None:
        raise FileError("studies take class probabilities. Hint: calibrant evaluate serves means with variances.")
    if found.classes is not None and found.truth is not None and np.asarray(found.truth).dtype.kind not in "iub":
        from dataclasses import replace

        names = {name: i for i, name in enumerate(found.classes)}
        found = replace(found, truth=np.array([names[value] for value in np.asarray(found.truth).tolist()]))
    return found


class _bar:  # noqa: N801 -- used as a function
    """A progress bar on a terminal only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Any:
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import Progress

        self._progress = Progress(console=Console(stderr=True))
        self._progress.start()
        task = self._progress.add_task(self._name, total=None)
        return lambda done, total, _: self._progress.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_progress"):
            self._progress.stop()
