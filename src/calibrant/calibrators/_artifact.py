"""A fitted calibrator as one JSON file: schema number, checksum, arrays to the last bit, never pickle.

This module needs NumPy only; the classes are looked up when a file is loaded back into one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import __version__
from calibrant.calibrators import find_class
from calibrant.calibrators._state import StateError, check_state, try_map
from calibrant.core.atomic import write_text
from calibrant.core.options import check_path
from calibrant.core.pipes import read_bytes
from calibrant.core.programs import Program, Step
from calibrant.errors import FileError

if TYPE_CHECKING:
    from calibrant.calibrators._common import BaseCalibrator

SCHEMA = 1
FORMAT = "calibrant-calibrator"
#: Types of numbers an artifact may hold.
_DTYPES = frozenset(("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"))
#: Task and class name → calibrator of any package, entered when its module is imported.
IMPORTED: dict[tuple[str, str], type[BaseCalibrator]] = {}


def encode(value: Any) -> Any:
    """Turn a state or parameter value into JSON without losing a bit."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            return {"list": [encode(item) for item in value.tolist()], "array": True}
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return {
            "dtype": little.dtype.str,
            "shape": list(value.shape),
            "data": base64.b64encode(little.tobytes()).decode("ascii"),
        }
    if isinstance(value, list | tuple):
        return {"list": [encode(item) for item in value], "tuple": isinstance(value, tuple)}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if hasattr(type(value), "fitted_state"):
        return {"calibrator": describe(value)}
    if isinstance(value, range) or hasattr(type(value), "__array__"):
        return encode(np.asarray(value))
    raise FileError(f"a calibrator with a {type(value).__name__} inside cannot be written as JSON.")


def decode(value: Any) -> Any:
    """Undo `encode`."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(str(value["float"]))
    if "data" in value:
        if value["dtype"] not in _DTYPES:
            raise StateError(f"an array has the dtype {value['dtype']!r}")
        raw = np.frombuffer(base64.b64decode(value["data"], validate=True), dtype=np.dtype(value["dtype"]))
        return raw.reshape(value["shape"]).astype(raw.dtype.newbyteorder("="), copy=True)
    if "list" in value:
        items = [decode(item) for item in value["list"]]
        if value.get("array"):
            return np.asarray(items)
        return tuple(items) if value.get("tuple") else items
    if "dict" in value:
        return {decode(key): decode(item) for key, item in value["dict"]}
    return rebuild(value["calibrator"])


def describe(calibrator: BaseCalibrator) -> dict[str, Any]:
    """Return what one calibrator is: task, kind, options, fitted state (absent before `fit`)."""
    options = calibrator.get_params(deep=False)
    record: dict[str, Any] = {
        "task": calibrator.task,
        "kind": type(calibrator).__name__,
        # a generator has no value that lasts
        "params": {k: encode(None if isinstance(v, np.random.Generator) else v) for k, v in options.items()},
    }
    if calibrator.__sklearn_is_fitted__():
        if hasattr(calibrator, "classes_"):
            record["classes"] = encode(calibrator.classes_)
        record["state"] = {name: encode(value) for name, value in calibrator.fitted_state().items()}
    return record


def rebuild(record: dict[str, Any]) -> BaseCalibrator:
    """Return the calibrator a record describes."""
    kind = _find_class(record["kind"], record["task"])
    calibrator = kind(**{name: decode(value) for name, value in record["params"].items()})
    getattr(calibrator, "_check_options", calibrator._check_choices)("load")
    if "state" in record:
        if "classes" in record:
            calibrator.classes_ = decode(record["classes"])
        state = {name: decode(value) for name, value in record["state"].items()}
        check_state(calibrator, state)
        calibrator.restore(state)
        try_map(calibrator)
    return calibrator


def _find_class(name: str, task: str) -> type[BaseCalibrator]:
    found = find_class(name, task) or IMPORTED.get((task, name))
    if found is not None:
        return found
    raise FileError(f"the file holds a {name}, which this calibrant does not know. Hint: import its package first.")


def encode_program(program: Program) -> list[dict[str, Any]]:
    """Write the steps of a map as JSON."""
    return [
        {"op": s.op, "in": list(s.inputs), "arrays": [encode(a) for a in s.arrays], "options": s.options}
        for s in program.steps
    ]


def decode_program(steps: list[dict[str, Any]]) -> Program:
    """Undo `encode_program`."""
    return Program([Step(s["op"], tuple(s["in"]), tuple(decode(a) for a in s["arrays"]), s["options"]) for s in steps])


def checksum(payload: dict[str, Any]) -> str:
    """SHA-256 of the canonical text of everything but the checksum itself."""
    content = {key: value for key, value in payload.items() if key != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def to_payload(calibrator: BaseCalibrator) -> dict[str, Any]:
    """Return the whole artifact as plain data."""
    payload: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": f"calibrant {__version__}",
        **describe(calibrator),
        **calibrator.extra_payload(),
        "fitted_on": encode(calibrator.fitted_on_),
    }
    payload["checksum"] = checksum(payload)
    return payload


def write(payload: dict[str, Any], path: str | Path) -> None:
    """Write the artifact; a reader never sees half a file."""
    write_text(path, json.dumps(payload, allow_nan=False))


def read(source: str | Path | dict[str, Any]) -> dict[str, Any]:
    """Return a verified payload, or say in one line why not."""
    name = "the calibrator" if isinstance(source, dict) else str(source)
    if isinstance(source, dict):
        payload: Any = source
    else:
        try:
            payload = json.loads(read_bytes(source).decode())
        except FileError:  # a pipe
            raise
        except OSError as error:
            raise FileError(f"{name} cannot be read: {error.strerror or error}. Hint: check the path.") from error
        except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number of a million digits, too deep
            raise FileError(f"{name} is not a calibrator file: it is not JSON.") from error
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        raise FileError(f"{name} is not a calibrator file of calibrant. Hint: write one with save().")
    schema = payload.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FileError(
            f"{name} has schema {schema}, newer than the {SCHEMA} this calibrant reads. Hint: update calibrant."
        )
    try:
        found = checksum(payload)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is not a calibrator file: it holds what JSON does not.") from error
    if payload.get("checksum") != found:
        raise FileError(f"{name} was changed after it was written (its checksum differs). Hint: save it again.")
    return payload


def load(path: str | Path) -> Any:
    """Load a calibrator written by `save`, for `calibrant.load`."""
    payload = read(check_path(path, "path", "load"))
    try:
        found = rebuild(payload)
        found.fitted_on_ = decode(payload.get("fitted_on"))
    except FileError:
        raise
    except Exception as error:  # whatever a changed file makes a class do, the file is to blame
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FileError(f"{path} is no valid calibrator: {reason}", hint="save it again") from error
    return found
