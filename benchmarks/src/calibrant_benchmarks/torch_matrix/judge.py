"""Run the cells of the matrix, judge them, and write the page."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from calibrant.errors import CalibrantError
from calibrant_papers.studies.writing import markdown, stamp

CONDITIONS = (
    "float32",
    "bfloat16",
    "float16 autocast",
    ".half()",
    ".bfloat16()",
    "compile",
    "DDP",
    "channels-last",
    "padding",
    "segmentation",
)
GROUPS = ("losses", "layers", "posteriors", "meter", "exports")
#: What a cell compares: found, reference in float64, and the largest error beside the largest reference.
Comparison = tuple[Tensor, Tensor, float]
#: Rounding of the answer alone, which was computed in float64.
OUTPUT = {torch.float64: 1e-9, torch.float32: 2e-7, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8.5}
#: Rounding of the answer's own dtype, with a few operations on the way.
ROUNDING = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Cell:
    """One cell: "right" with its error, "refused" with the message, or "fails" with the reason."""

    group: str
    item: str
    condition: str
    verdict: str
    detail: str

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.item} × {self.condition}"


def judge(group: str, item: str, condition: str, check: Callable[[str], list[Comparison]]) -> Cell:
    """Run one cell and compare what it found."""

    def cell(verdict: str, detail: str) -> Cell:
        return Cell(group, item, condition, verdict, detail)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = check(condition)
    except CalibrantError as error:
        return cell("refused", str(error))
    except Exception as error:  # whatever it is, the cell fails and says so
        return cell("fails", f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")
    worst = 0.0
    for given, exact, tolerance in pairs:
        found, reference = given.detach().double(), exact.detach().double()
        if found.shape != reference.shape:
            return cell("fails", f"shape {tuple(found.shape)} instead of {tuple(reference.shape)}")
        if not bool(torch.isfinite(found).all()):
            return cell("fails", "not finite")
        off = float((found - reference).abs().max() / reference.abs().max().clamp_min(1e-30))
        if not off <= tolerance:
            return cell("fails", f"relative error {off:.1e} above {tolerance:.0e}")
        worst = max(worst, off)
    return cell("right", f"{worst:.0e}")


def all_checks() -> dict[tuple[str, str], Callable[[str], list[Comparison]]]:
    """Return the rows of the matrix: (group, item) -> check of one condition."""
    from calibrant_benchmarks.torch_matrix import losses, models, outputs

    return {**losses.CHECKS, **models.CHECKS, **outputs.CHECKS}


def run_cells(conditions: Sequence[str] = CONDITIONS, items: Iterable[str] = ()) -> list[Cell]:
    """Run the cells of some conditions (and items) and return them; DDP runs in two processes over gloo."""
    chosen = set(items)
    checks = {key: check for key, check in all_checks().items() if not chosen or key[1] in chosen}
    found = [
        judge(group, item, condition, check)
        for (group, item), check in checks.items()
        for condition in conditions
        if condition != "DDP"
    ]
    return found + (two_processes(sorted(chosen)) if "DDP" in conditions else [])


def two_processes(items: Sequence[str]) -> list[Cell]:
    """Run the DDP column in two processes; both must agree."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / f"{rank}.json" for rank in range(2)]
        workers = [
            subprocess.Popen(  # noqa: S603  # this program itself
                [sys.executable, "-m", "calibrant_benchmarks.torch_matrix", "--worker", str(outs[rank]), *items],
                env=os.environ
                | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
                | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for rank in range(2)
        ]
        codes = [process.wait(timeout=900) for process in workers]
        if any(codes):
            return [
                Cell(*key, "DDP", "fails", "a process died") for key in all_checks() if not items or key[1] in items
            ]
        one, two = ([Cell(**cell) for cell in json.loads(out.read_text(encoding="utf-8"))] for out in outs)
    return [a if a.verdict != "right" else b for a, b in zip(one, two, strict=True)]


def worker(out: Path, items: Iterable[str]) -> None:
    """Run the DDP column in one of two processes."""
    from datetime import timedelta

    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    chosen = set(items)
    cells = []
    for (group, item), check in all_checks().items():
        if not chosen or item in chosen:
            cells.append(judge(group, item, "DDP", check))
            torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    out.write_text(json.dumps([asdict(cell) for cell in cells]), encoding="utf-8")


def page(cells: Sequence[Cell], command: str) -> str:
    """Return the Markdown page."""
    found: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        found.setdefault((cell.group, cell.item), {})[cell.condition] = cell
    notes: dict[str, int] = {}

    def shown(cell: Cell) -> str:
        if cell.verdict == "right":
            return f"right ({cell.detail})"
        number = notes.setdefault(cell.detail, len(notes) + 1)
        return f"{cell.verdict} [{number}]" if cell.verdict == "refused" else f"**fails** [{number}]"

    counts = {verdict: sum(cell.verdict == verdict for cell in cells) for verdict in ("right", "refused", "fails")}
    lines = [
        "# calibrant.torch as networks are really run",
        "",
        stamp(command, "torch"),
        "",
        (
            f"{len(cells)} cells: {counts['right']} right, {counts['refused']} refused by name, {counts['fails']} "
            "fail. "
            "Right: the answer, and for losses and layers also its slopes, equal a float64 computation on the same "
            "(rounded) inputs; in brackets the largest error beside the largest reference value. Random layers and "
            "posteriors are compared with their noise set to 1, so that mean and spread are seen."
        ),
        "",
        (
            "bfloat16 and float16 autocast: float32 weights under `torch.autocast`. `.half()`, `.bfloat16()`: the "
            'module itself is turned. compile: `torch.compile(fullgraph=True, backend="aot_eager")` for losses, '
            "layers and exports, of the network for posteriors, of the update for the meter. DDP: two processes over "
            "gloo, inside the wrapped model. Padding: rows that hold NaN and, where labels are taken, −100. "
            "Segmentation: classes in dimension 1."
        ),
    ]
    for group in GROUPS:
        rows: list[list[str]] = [["", *CONDITIONS]]
        for (kind, item), row in found.items():
            if kind == group:
                rows.append([f"`{item}`", *(shown(row[c]) if c in row else "" for c in CONDITIONS)])
        if len(rows) > 1:
            lines += ["", f"## {group[0].upper()}{group[1:]}", "", *markdown(rows)]
    if notes:
        lines += ["", "## Notes", ""]
        lines += [f"{number}. {' '.join(text.split())}" for text, number in notes.items()]
    return "\n".join([*lines, ""])
