"""The one writer: tables and arrays appear whole or not at all, and logits never keep their name as probabilities."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array
from calibrant.core.atomic import atomic_path
from calibrant.errors import FileError
from calibrant.io.names import proba_name

__all__ = ["new_names", "write_arrays", "write_table"]


def new_names(scores: Sequence[str], every: Sequence[str], source: str = "the data") -> dict[str, str]:
    """Return the names of calibrated scores, old → new; a new name that is already taken is refused.

    Examples
    --------
    >>> new_names(["logit_cat", "logit_dog"], ["id", "logit_cat", "logit_dog"])
    {'logit_cat': 'p_cat', 'logit_dog': 'p_dog'}
    """
    renamed = {name: proba_name(name) for name in scores}
    for old, new in renamed.items():
        if new != old and new in every:
            raise FileError(
                f"{source} has {old} and {new} already, so the probabilities have no name", hint=f"drop or rename {new}"
            )
    return renamed


def write_table(frame: Any, out: str | Path, kind: str) -> None:
    """Write a Polars frame; ``-`` is standard output."""
    if str(out) == "-":
        sys.stdout.write(frame.write_csv())
        return
    writers: dict[str, Callable[[Path], Any]] = {
        "csv": frame.write_csv,
        "tsv": lambda path: frame.write_csv(path, separator="\t"),
        "parquet": frame.write_parquet,
        "arrow": frame.write_ipc,
        "jsonl": frame.write_ndjson,
        "json": frame.write_json,
    }
    with atomic_path(out) as temporary:
        writers[kind](temporary)


def write_arrays(arrays: Mapping[str, Array], out: str | Path, kind: str) -> None:
    """Write arrays as ``.npz``, or the array `probs` as ``.npy``."""
    with atomic_path(out) as temporary, temporary.open("wb") as file:
        if kind == "npy":
            np.save(file, arrays["probs"], allow_pickle=False)
        else:
            np.savez_compressed(file, allow_pickle=False, **arrays)
