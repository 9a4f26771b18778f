"""`summarize`: predictions of any size into one small file, and `merge`: such files into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant._typing import ArrayLike, Space
from calibrant.core.options import check_path, check_type, listed
from calibrant.core.results import Record
from calibrant.core.text import count
from calibrant.errors import InputError, input_error
from calibrant.io.paths import file_format, is_many, is_path
from calibrant.io.readers import read_table
from calibrant.summary.files import SUFFIX, add_files, load_summaries, summary_files
from calibrant.summary.slices import Slices
from calibrant.summary.summary import Summary
from calibrant.workflows.sources import FILE, IN_MEMORY, Reading, names_of, open_data, summarize_data

#: Suffixes of tables that are summarized in place, whatever their size.
SCANNED = (".calsum", ".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc", ".ndjson")

__all__ = ["Summarized", "merge", "of_rows", "summarize"]


@dataclass(frozen=True)
class Summarized(Record):
    """What was summarized and where it was written; `str()` is the terminal text."""

    slices: Slices
    output: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        whole = self.slices.whole
        return {
            "schema": 1,
            "output": self.output,
            "n": whole.n,
            "n_classes": whole.n_classes,
            "classes": None if whole.classes is None else list(whole.classes),
            "by": list(self.slices.by),
            "slices": len(self.slices.parts),
            "checksum": whole.checksum(),
            "rejected": dict(whole.rejected),
            "skipped_files": list(whole.skipped),
        }

    def __str__(self) -> str:
        whole, parts = self.slices.whole, f" in {len(self.slices.parts)} slices" if self.slices.by else ""
        text = f"{count(whole.n)} predictions{parts}" + ("" if self.output is None else f" written to {self.output}")
        return "; ".join([text, *whole.notes])


def summarize(
    data: Any,
    output: str | Path | None = None,
    *,
    by: str | Sequence[str] | None = None,
    n_bins: Iterable[int] = (),
    space: Space | None = None,
    normalize: bool = False,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    part: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float | str | None = None,
    y_proba: ArrayLike | None = None,
    input_format: str | None = None,
    positive: Any = None,
    percent: bool = False,
    confidence: str | None = None,
    correct: str | None = None,
) -> Summarized:
    """Return predictions as cells and sums, and write them to a file that every command takes.

    Parameters
    ----------
    data : path, pattern, directory, table, frame, summary file or array-like
        The predictions; labels next to `y_proba`. Several summary files are merged.
    output : path, optional
        Where to write, ending in ``.calsum``; the file appears whole or not at all.
    by : str or sequence of str, optional
        Columns whose combinations are summarized each, on the coarse grid.
    n_bins : iterable of int, default ()
        Further numbers of bins to keep, for those that do not divide the grid (such as 7 or 18).
    space, normalize, proba, label, weight, part, engine, master, strict, skip_bad_files, max_rejected, y_proba,
    input_format, positive, percent, confidence, correct
        As in `calibrant.evaluate`.

    Examples
    --------
    >>> import polars as pl
    >>> done = summarize(pl.LazyFrame({"score": [0.9, 0.2], "label": [1, 0], "site": ["a", "b"]}), by="site")
    >>> done.slices.whole.n, sorted(done.slices.parts)
    (2, [('a',), ('b',)])
    """
    how = Reading.of("summarize", locals())
    _check_output(output, "summarize")
    names = names_of(by, "summarize")
    stored = load_summaries(data)
    if stored is not None:
        every = ("space", "normalize", "proba", "label", "weight", "engine", "master", "strict", "input_format")
        more = ("part", "skip_bad_files", "max_rejected", "positive", "percent", "confidence", "correct")
        how.refuse((*every, *more), "for summary files")
        found = stored.regrouped(names) if names else stored
    else:
        found = cells_of(data, y_proba, how, names, tuple(listed(n_bins, "n_bins", "summarize")))
    if output is not None:
        found.save(output)
    return Summarized(found, None if output is None else str(output))


def cells_of(data: Any, y_proba: Any, how: Reading, by: Sequence[str] = (), n_bins: Iterable[int] = ()) -> Slices:
    """Return data that are no summary files as cells: tables are scanned, the rest is read.

    One text file that memory holds is read as every other command reads it, and its bad rows are counted.
    """
    options = {"by": list(by), "n_bins": tuple(n_bins)}
    arrays = y_proba is not None or hasattr(data, "null_draws") or hasattr(data, "sorted_parts")
    alone = not arrays and is_path(data) and not is_many(data) and Path(data).is_file() and how.input_format is None
    text = alone and how.engine is None and FILE not in by and file_format(data) in ("csv", "tsv")
    text = text and Path(data).stat().st_size <= IN_MEMORY
    scanned = not is_path(data) or is_many(data) or (Path(data).suffix.lower() in SCANNED and how.input_format is None)
    if not arrays and not text and scanned:
        return summarize_data(data, how, **options)
    try:
        opened = open_data(data, y_proba, replace(how, strict=False, max_rejected=None) if text else how, by=by or None)
    except InputError as error:
        if not text or how.strict or not error.rows:
            raise
        return summarize_data(read_table(data), how, **options)
    if isinstance(opened.cells, Slices):
        return opened.cells
    parts = {key: of_rows(rows, n_bins, coarse=True, caller=how.caller) for key, rows in opened.parts.items()}
    return Slices(of_rows(opened.evidence, n_bins, caller=how.caller), opened.by, parts)


def of_rows(evidence: Any, n_bins: Iterable[int] = (), *, coarse: bool = False, caller: str = "summarize") -> Summary:
    """Return rows as cells; cells as they are."""
    if isinstance(evidence, Summary):
        return evidence
    if evidence.task == "regression":
        raise input_error("data", caller, "hold class probabilities", "means and variances", "keep their rows")
    pairs = evidence.task == "pairs"
    shape: dict[str, Any] = {"pairs": pairs, "classes": evidence.classes, "coarse": coarse, "n_bins": tuple(n_bins)}
    return Summary(None if pairs else evidence.n_classes, **shape).add(evidence)


def merge(files: Sequence[str | Path], output: str | Path | None = None) -> Summarized:
    """Return summary files as one: rows add up, slices of the same values too; classes meet by name.

    Two files of the same rows are refused: they would count twice.

    Parameters
    ----------
    files : sequence of paths or patterns
        Written by `summarize`, with the same slices.
    output : path, optional
        Where to write, ending in ``.calsum``.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> folder = tempfile.mkdtemp()
    >>> for day, score in [("a", 0.9), ("b", 0.8)]:
    ...     _ = summarize(pl.LazyFrame({"score": [score, 0.2], "label": [1, 0]}), f"{folder}/{day}.calsum")
    >>> merge([f"{folder}/*.calsum"]).slices.whole.n
    4
    """
    _check_output(output, "merge")
    named: list[str] = []
    for name in [files] if is_path(files) else check_type(files, Iterable, "files", "merge", "be paths", "name some"):
        these = summary_files(name)
        if these is None:
            raise input_error(
                "files", "merge", f"be summary files ({SUFFIX})", str(name), "calibrant summarize makes them"
            )
        named += these
    if not named:
        raise input_error("files", "merge", "name at least one file", "none", "name some")
    found = add_files(named)
    if output is not None:
        found.save(output)
    return Summarized(found, None if output is None else str(output))


def _check_output(output: str | Path | None, caller: str) -> None:
    if output is not None and Path(check_path(output, "output", caller)).suffix != SUFFIX:
        raise input_error("output", caller, f"end in {SUFFIX}", str(output), f"name it day{SUFFIX}")
