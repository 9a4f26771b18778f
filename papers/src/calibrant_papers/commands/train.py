"""``calibrant train``: the training experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calibrant.cli._options import emit, emit_json
from calibrant.cli._progress import progress

METHODS = ("plain", "mc-dropout", "gaussian-dropout", "bbb", "swag", "ensemble")
PENALTIES = ("none", "entropy", "mmce", "uce")


@click.command(
    "train",
    context_settings={"help_option_names": ["-h", "--help"]},  # also where it is called without its group
    epilog="Example: calibrant train --quick -o runs/quick && calibrant evaluate runs/quick/logits/swag-uce-0.npz",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("calibrant-train"),
    show_default=True,
    help="Folder of the run; a run that was stopped goes on there.",
)
@click.option(
    "--data",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="fashion-mnist, fashion-mnist-14 (14 × 14 pixels), digits, cifar10-outputs or cifar100-outputs (what "
    "published networks say, from CALIBRANT_DATA), a folder with the four idx files, or auto: the first that is found.",
)
@click.option("--method", "methods", multiple=True, type=click.Choice(METHODS), help="Method (repeat; default: all).")
@click.option(
    "--penalty", "penalties", multiple=True, type=click.Choice(PENALTIES), help="Penalty (repeat; default: all)."
)
@click.option("--seeds", type=click.IntRange(1), help="Number of seeds [default: 3, wide 5, with --quick 1].")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="First seed.")
@click.option(
    "--epochs", type=click.IntRange(1), help="Epochs of each network [default: 20, wide 40, with --quick 40]."
)
@click.option("--rows", type=click.IntRange(100), help="Training rows [default: all, with --quick 2000].")
@click.option(
    "--network",
    type=click.Choice(["small", "two-layer", "wide"]),
    default="small",
    show_default=True,
    help="Small: 8 and 16 filters, 64 units; two-layer: Nixon's, 32 and 64 filters, 1024 units; wide: two layers of "
    "256 units that fit every training row, no early stopping.",
)
@click.option("--choose-weight", "choose", is_flag=True, help="Choose λ of every penalty on the calibration rows.")
@click.option("--quick", is_flag=True, help="2000 training rows, one seed, shorter traces: under five minutes.")
@click.option("--no-traces", is_flag=True, help="Leave out the traces over training steps.")
@click.option("--jobs", type=click.IntRange(1), help="Processes [default: one per core]; never changes a number.")
@click.option("--figures/--no-figures", default=True, help="Draw figures (needs matplotlib, else they are left out).")
@click.option(
    "--report", "only_report", is_flag=True, help="Train nothing: the report of what is finished in the folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def command(
    out: Path,
    data: str,
    as_json: bool,
    jobs: int | None,
    no_traces: bool,
    figures: bool,
    only_report: bool,
    **options: Any,
) -> None:
    """Train networks with and without calibration penalties and compare them.

    Methods {plain, MC dropout, Gaussian dropout, Bayes by Backprop, SWAG, ensemble of 3} × penalties {none,
    entropy, MMCE, UCE} × temperature {1, optimal}, measured on test rows, with rejection, out-of-distribution data and
    the course of calibration over training. Writes tables, figures and the logits of every model into a folder.
    """
    from calibrant_papers import training

    plan = training.Plan.make(data=data, traces=not no_traces, **options)
    if only_report:
        report = training.report_of(out)
    else:
        with progress("training") as show:
            tell = None if show is None else (lambda state: show(state.done, state.total, state.label))
            report = training.run(out, plan, jobs=jobs, progress=tell)
    training.write_report(out, report, figures=figures)
    if report.note:
        emit(report.note, err=True)
    if as_json:
        emit_json(report.to_dict())
    else:
        emit(str(report))
        emit(f"Written to {out}: train.md, train.json, logits/*.npz (for calibrant evaluate).", err=True)
