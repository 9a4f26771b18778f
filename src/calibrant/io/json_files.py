"""JSON as programs really write it: records, columns, the orients of pandas, objects of probabilities."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.errors import FileError
from calibrant.io.cells import tidy_cells
from calibrant.io.paths import plain_errors

__all__ = ["frame_of", "read_json", "read_lines", "unnested"]


def read_lines(text: str, source: str) -> list[Any]:
    """Return the documents of JSON lines."""
    records = []
    for number, line in enumerate(text.splitlines()):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise FileError(
                    f"{source} is not JSON at line {number + 1}: {error.msg}", hint="one record per line"
                ) from error
    if not records:
        raise FileError(f"{source} has no records", hint="check how it was written")
    return records


def read_json(text: str, source: str) -> Any:
    """Return the document of a JSON file; one record per line is a list of them."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Extra data"):
            return read_lines(text, source)
        line = f"line {error.lineno}"
        raise FileError(f"{source} is not JSON at {line}: {error.msg}", hint="check that it is complete") from error


def frame_of(document: Any, source: str) -> Any:
    """Return a JSON document as a Polars frame: records, columns, or one of the orients of pandas."""
    import polars as pl

    found = _records(document)
    if found is None:
        kind = type(document).__name__
        raise FileError(
            f"{source} holds a JSON {kind} that is no table",
            hint="write a list of records, or columns such as y_true and y_prob",
        )
    with plain_errors(source):
        if isinstance(found, Mapping):
            return tidy_cells(pl.DataFrame({name: list(values) for name, values in found.items()}, strict=False))
        frame = pl.DataFrame([_flat(record) for record in found], infer_schema_length=None, strict=False)
        return tidy_cells(frame)  # BigQuery writes numbers as text


def _records(document: Any) -> Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | None:
    if isinstance(document, list):
        return document if document and all(isinstance(one, dict) for one in document) else None
    if not isinstance(document, dict) or not document:
        return None
    if isinstance(document.get("data"), list) and isinstance(document.get("columns"), list):  # pandas: split
        return [dict(zip(document["columns"], row, strict=True)) for row in document["data"]]
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    tables = [value for value in lists.values() if value and all(isinstance(one, dict) for one in value)]
    if len(tables) == 1 and not any(_is_column(value) for value in lists.values() if value is not tables[0]):
        return tables[0]
    columns = {name: value for name, value in lists.items() if _is_column(value)}
    if columns:
        longest = max(len(value) for value in columns.values())
        return {name: value for name, value in columns.items() if len(value) == longest}
    inner = list(document.values())
    if all(isinstance(value, dict) for value in inner):
        keys = list(inner[0])
        by_row = all(str(key).lstrip("-").isdigit() for key in keys)
        if by_row and all(list(value) == keys for value in inner):  # pandas: columns
            return {name: list(value.values()) for name, value in document.items()}
        return [{"id": name, **value} for name, value in document.items()]  # pandas: index
    return None


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not isinstance(value[0], dict)


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record whose objects of probabilities are columns: ``{"probs": {"cat": 0.9}}`` gives ``p_cat``."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        pairs = _named_numbers(value)
        if pairs is None:
            flat[name] = _vector(value) if isinstance(value, dict) else value
            if isinstance(value, dict) and flat[name] is None:
                inner = _flat(value)
                flat |= {key if key.startswith(("p_", "logit_")) else f"{name}_{key}": v for key, v in inner.items()}
        else:
            stem = "logit" if re.search("logit|log_?p", name.lower()) else "p"
            flat |= {f"{stem}_{key}": number for key, number in pairs.items()}
    return flat


def _vector(value: Mapping[str, Any]) -> list[float] | None:
    """Return a vector of Spark, dense or sparse; None for any other object."""
    if "type" not in value or not isinstance(value.get("values"), list):
        return None
    held = dict(zip(value.get("indices") or range(len(value["values"])), value["values"], strict=True))
    return [held.get(place, 0.0) for place in range(value.get("size") or len(held))]


def _named_numbers(value: Any) -> dict[str, float] | None:
    """Return the probabilities an object names: ``{"cat": 0.9}`` or ``[{"label": "cat", "score": 0.9}]``."""
    if isinstance(value, dict) and value:
        numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in value.values())
        return {str(key): float(n) for key, n in value.items()} if numbers else None
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) and one for one in value):
        return None
    name = next((key for key in ("label", "class", "key", "name") if key in value[0]), None)
    score = next((key for key in ("score", "prob", "probability", "logit", "value") if key in value[0]), None)
    if name is None or score is None or not all(name in one and score in one for one in value):
        return None
    return {str(one[name]): float(one[score]) for one in value}


def unnested(frame: Any) -> Any:
    """Return a Polars frame whose columns of objects are columns of what they hold, and whose text is what it says."""
    import polars as pl

    nested = [n for n, t in frame.schema.items() if t == pl.Struct or t == pl.List(pl.Struct)]
    if nested:
        held = pl.DataFrame([_flat(row) for row in frame.select(nested).to_dicts()], infer_schema_length=None)
        frame = frame.drop(nested)
        frame = frame.hstack(held.drop([name for name in held.columns if name in frame.columns]))
    return tidy_cells(frame)
