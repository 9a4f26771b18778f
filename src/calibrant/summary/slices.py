"""Summaries by slice: the whole, and one coarse summary for each combination of values."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from calibrant._typing import RNG
from calibrant.core.atomic import atomic_path
from calibrant.core.pipes import read_bytes
from calibrant.errors import CalibrantError, FileError, input_error
from calibrant.inference.slices import FileEvaluation, evaluate_slices
from calibrant.inference.verdict import TOLERANCE
from calibrant.summary.keys import from_typed, order, typed
from calibrant.summary.summary import Summary

__all__ = ["Slices"]

MAGIC = b"CALSLICE"
SCHEMA = 1


@dataclass(frozen=True)
class Slices:
    """What an engine gives back.

    `whole` is the summary of all rows (fine grid), `parts` maps a tuple of values of the columns `by` to
    the summary of that slice (coarse grid), `rejected` counts the rows left out.
    """

    whole: Summary
    by: tuple[str, ...] = ()
    parts: dict[tuple[Any, ...], Summary] = field(default_factory=dict)

    @property
    def rejected(self) -> dict[str, int]:
        """Rows left out, by reason."""
        return self.whole.rejected

    def __add__(self, other: object) -> Slices:
        if not isinstance(other, Slices):
            return NotImplemented
        if self.by != other.by:
            raise input_error("other", "Slices.__add__", f"be sliced by {self.by}", str(other.by), "slice both alike")
        parts = dict(self.parts)
        for key, part in other.parts.items():
            parts[key] = parts[key] + part.aligned(parts[key]) if key in parts else part.aligned(self.whole)
        return Slices(self.whole + other.whole.aligned(self.whole), self.by, parts)

    def regrouped(self, by: Iterable[str]) -> Slices:
        """Return the slices by fewer columns, those with the same values added up."""
        names = tuple(by)
        if not set(names) <= set(self.by):
            have = ", ".join(self.by) or "none"
            raise input_error(
                "by", "Slices.regrouped", f"be among its columns ({have})", ", ".join(names), "summarize anew"
            )
        places = [self.by.index(name) for name in names]
        parts: dict[tuple[Any, ...], Summary] = {}
        for key, part in self.parts.items():
            new = tuple(key[place] for place in places)
            parts[new] = parts[new] + part if new in parts else part
        return Slices(self.whole, names, parts)

    def to_bytes(self) -> bytes:
        """Return the whole and the slices as bytes: a head with the typed keys, then the bytes of every summary."""
        parts = self.sorted_parts()
        blobs = [self.whole.to_bytes(), *(part.to_bytes() for part in parts.values())]
        keys = [[typed(value) for value in key] for key in parts]
        head = {"schema": SCHEMA, "by": list(self.by), "keys": keys, "sizes": [len(blob) for blob in blobs]}
        text = json.dumps(head, ensure_ascii=True).encode()
        return MAGIC + struct.pack("<QI", len(text), zlib.crc32(text)) + text + b"".join(blobs)

    @classmethod
    def from_bytes(cls, data: bytes) -> Slices:
        """Read what `to_bytes` wrote, or the bytes of one `Summary`; damaged or newer data are refused."""
        if data[: len(MAGIC)] != MAGIC:
            return cls(Summary.from_bytes(data))
        try:
            size, check = struct.unpack_from("<QI", data, len(MAGIC))
            start = len(MAGIC) + 12
            text = data[start : start + size]
            if zlib.crc32(text) != check:
                raise ValueError("its checksum does not match")
            head = json.loads(text)
            if head["schema"] > SCHEMA:
                raise FileError(
                    f"These slices have schema {head['schema']}; this version reads up to {SCHEMA}",
                    hint="update calibrant to read them",
                )
            ends = list(accumulate(head["sizes"], initial=start + size))
            if ends[-1] != len(data):
                raise ValueError("its length does not match")
            summaries = [Summary.from_bytes(data[a:b]) for a, b in pairwise(ends)]
            keys = [tuple(from_typed(value) for value in key) for key in head["keys"]]
            return cls(summaries[0], tuple(head["by"]), dict(zip(keys, summaries[1:], strict=True)))
        except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as error:
            if isinstance(error, CalibrantError):
                raise
            raise FileError(f"These slices are damaged ({error})", hint="copy or write them again") from error

    def save(self, path: str | Path) -> Path:
        """Write the slices to a file, all or nothing; `load` reads it."""
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.to_bytes())
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Slices:
        """Read a file written by `save` or ``calibrant summarize``; errors name it."""
        try:
            return cls.from_bytes(read_bytes(path))
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}", hint="check the path") from error
        except FileError as error:
            raise FileError(f"{path}: {error}") from error

    def sorted_parts(self) -> dict[tuple[Any, ...], Summary]:
        """Return the parts in the order of their values, mixed types and None included."""
        return dict(sorted(self.parts.items(), key=lambda item: order(item[0])))

    def evaluate(
        self,
        *,
        metrics: Iterable[str] | str | None = None,
        n_bins: int = 15,
        level: float = 0.95,
        n_resamples: int = 1000,
        slice_resamples: int | None = None,
        tolerance: float = TOLERANCE,
        rng: RNG = None,
    ) -> FileEvaluation:
        """Evaluate the whole and every slice; the tests of slices are corrected for their number.

        The same test as on rows: see `calibrant.inference.slices`.
        """
        names = None if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
        return evaluate_slices(
            self.whole,
            self.sorted_parts(),
            self.by,
            metrics="all" if names == ["all"] else names,
            n_bins=n_bins,
            level=level,
            n_resamples=n_resamples,
            slice_resamples=slice_resamples,
            tolerance=tolerance,
            rng=rng,
        )
