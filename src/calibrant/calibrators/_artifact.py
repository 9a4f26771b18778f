"""A fitted calibrator as one JSON file: schema number, checksum, arrays to the last bit, never pickle.

This module needs NumPy only; the classes are looked up when a file is loaded back into one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.calibrators._program import Program, Step
from calibrant.errors import FileError

if TYPE_CHECKING:
    from calibrant.calibrators._base import Calibrator

SCHEMA = 1
FORMAT = "calibrant-calibrator"
#: State every calibrator carries.
COMMON = ("n_classes_", "floor_", "smallest_")


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
            "dtype": little.dtype.str, "shape": list(value.shape),
            "data": base64.b64encode(little.tobytes()).decode("ascii"),
        }
    if isinstance(value, list | tuple):
        return {"list": [encode(item) for item in value], "tuple": isinstance(value, tuple)}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if hasattr(value, "predict_proba") and hasattr(type(value), "state"):
        return {"calibrator": describe(value)}
    raise FileError(f"a calibrator with a {type(value).__name__} inside cannot be written as JSON.")


def decode(value: Any) -> Any:
    """Undo `encode`."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "data" in value:
        raw = np.frombuffer(base64.b64decode(value["data"]), dtype=np.dtype(value["dtype"]))
        return raw.reshape(value["shape"]).astype(raw.dtype.newbyteorder("="), copy=True)
    if "list" in value:
        items = [decode(item) for item in value["list"]]
        if value.get("array"):
            return np.asarray(items)
        return tuple(items) if value.get("tuple") else items
    if "dict" in value:
        return {decode(key): decode(item) for key, item in value["dict"]}
    return rebuild(value["calibrator"])


def describe(calibrator: Calibrator) -> dict[str, Any]:
    """Return what one calibrator is: kind, options, fitted state (absent before `fit`)."""
    kind = type(calibrator)
    record: dict[str, Any] = {
        "kind": kind.__name__,
        "params": {name: encode(value) for name, value in calibrator.get_params(deep=False).items()},
    }
    if hasattr(calibrator, "classes_"):
        record["classes"] = encode(calibrator.classes_)
        record["state"] = {name: encode(getattr(calibrator, name)) for name in (*COMMON, *kind.state)}
    return record


def rebuild(record: dict[str, Any]) -> Calibrator:
    """Return the calibrator a record describes."""
    kind = _find_class(record["kind"])
    calibrator = kind(**{name: decode(value) for name, value in record["params"].items()})
    if "state" in record:
        calibrator.classes_ = decode(record["classes"])
        for name, value in record["state"].items():
            setattr(calibrator, name, decode(value))
        calibrator.n_features_in_ = calibrator.n_classes_
    return calibrator


def _find_class(name: str) -> type[Calibrator]:
    import calibrant.calibrators as room
    from calibrant.calibrators._base import Calibrator

    if name in room.CALIBRATORS:
        return getattr(room, name)
    waiting: list[type[Calibrator]] = [Calibrator]
    while waiting:  # a third party's class, if its module was imported
        kind = waiting.pop()
        if kind.__name__ == name:
            return kind
        waiting.extend(kind.__subclasses__())
    raise FileError(f"the file holds a {name}, which this calibrant does not know. Hint: import its package first.")


def encode_program(program: Program) -> list[dict[str, Any]]:
    """Write the steps of a map as JSON."""
    return [
        {"op": s.op, "in": list(s.inputs), "arrays": [encode(a) for a in s.arrays], "options": s.options}
        for s in program.steps
    ]


def decode_program(steps: list[dict[str, Any]]) -> Program:
    """Undo `encode_program`."""
    return Program([
        Step(s["op"], tuple(s["in"]), tuple(decode(a) for a in s["arrays"]), s["options"]) for s in steps
    ])


def checksum(payload: dict[str, Any]) -> str:
    """SHA-256 of the canonical text of everything but the checksum itself."""
    content = {key: value for key, value in payload.items() if key != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def to_payload(calibrator: Calibrator) -> dict[str, Any]:
    """Return the whole artefact as plain data."""
    from calibrant import __version__

    payload: dict[str, Any] = {
        "format": FORMAT, "schema": SCHEMA, "library": f"calibrant {__version__}",
        **describe(calibrator), "space": calibrator.input_space,
        "program": encode_program(calibrator.program()) if calibrator.can_export else None,
    }
    payload["checksum"] = checksum(payload)
    return payload


def save(calibrator: Calibrator, path: str | Path) -> None:
    """Write the artefact of a fitted calibrator."""
    write(to_payload(calibrator), path)


def write(payload: dict[str, Any], path: str | Path) -> None:
    """Write aside, then rename: a reader never sees half a file."""
    target = Path(path)
    text = json.dumps(payload, allow_nan=False)
    aside = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        aside.write_text(text, encoding="utf-8")  # with the permissions the user's umask gives
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def read(source: str | Path | dict[str, Any]) -> dict[str, Any]:
    """Return a verified payload, or say in one line why not."""
    name = "the calibrator" if isinstance(source, dict) else str(source)
    if isinstance(source, dict):
        payload: Any = source
    else:
        try:
            payload = json.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{name} cannot be read: {error.strerror or error}.") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileError(f"{name} is not a calibrator file: it is not JSON.") from error
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        raise FileError(f"{name} is not a calibrator file of calibrant. Hint: write one with save().")
    schema = payload.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FileError(
            f"{name} has schema {schema}, newer than the {SCHEMA} this calibrant reads. Hint: update calibrant."
        )
    if payload.get("checksum") != checksum(payload):
        raise FileError(f"{name} was changed after it was written (its checksum differs). Hint: save it again.")
    return payload


def load(path: str | Path) -> Calibrator:
    """Load a calibrator written by `save`; predictions equal the saved one's to the last bit.

    Parameters
    ----------
    path : str or Path
        A JSON file. A changed file, a newer schema or a foreign file raises `FileError`.
    """
    payload = read(path)
    try:
        return rebuild(payload)
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path} lacks a part of a calibrator ({error}). Hint: save it again.") from error
