"""``calibrant demo``: the whole story in one command."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli._options import emit, emit_json, shown, terminal_width


@click.command("demo", epilog="Example: calibrant demo -o demo && calibrant evaluate demo/network.npz")
@shown(
    "-o", "--output", click.Path(file_okay=False), "calibrant-demo",
    "Folder for the predictions, calibrators and reports.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of training and resampling.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(output: str, seed: int, *, as_json: bool) -> None:
    """Judge two classifiers of handwritten digits, repair them, prove the gain, write report.html.

    An overconfident network and an underconfident forest, trained here and now; offline, under a minute.
    """
    from calibrant.workflows.demo import run_demo

    chapters = run_demo(output, seed=seed, tell=lambda text: emit(text, err=True))
    if as_json:
        emit_json({"schema": 1, "chapters": [chapter.to_dict() for chapter in chapters]})
        return
    for chapter in chapters:
        emit("\n".join(_story(chapter, output)))
    emit(
        f"The same with your own predictions: calibrant evaluate preds.csv · calibrant fit cal.csv -o cal.json · "
        f"calibrant apply cal.json preds.csv -o repaired.csv. Open {chapters[0].files[-1]} in a browser."
    )


def _story(chapter: Any, folder: str) -> list[str]:
    from calibrant.inference.wording import evaluation_text
    from calibrant.workflows.fit import FitResult

    name, made = f"{folder}/{chapter.name}", chapter.calibrator
    rows = tuple(sorted(made.records_, key=lambda row: -row["weight"]))
    return [
        f"━━ The {chapter.name} " + "━" * 50,
        f"$ calibrant evaluate {name}.npz",
        evaluation_text(chapter.evaluation, width=terminal_width()),
        "",
        f"$ calibrant fit {name}.npz -o {name}-cal.json      (here the methods that are shipped come first)",
        str(FitResult(made, "auto", made.fitted_on_["n"], made.n_classes_, rows, made.reason_)),
        "",
        f"$ calibrant compare {name}.npz --calibrator {name}-cal.json",
        str(chapter.comparison),
        f"Written: {', '.join(str(path) for path in chapter.files)}",
        "",
    ]
