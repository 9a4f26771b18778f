"""Files of a run: written aside and renamed, so that a killed run leaves whole files only."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array
from calibrant.errors import FileError, input_error
from calibrant.studies.training.plan import SCHEMA, Plan


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write one JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    text = json.dumps(_words({"schema": SCHEMA, **document}), indent=1, allow_nan=False)
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON file of ours; newer schemas are refused."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        schema = document["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is not a file of this study ({error}). Hint: remove it and run again.") from error
    if schema > SCHEMA:
        raise FileError(f"{path} was written by a newer calibrant (schema {schema}). Hint: upgrade calibrant.")
    return dict(_numbers(document))


def _words(value: Any) -> Any:
    """Replace infinite and undefined numbers by the words "inf", "-inf" and "nan": JSON has none of them."""
    if isinstance(value, dict):
        return {key: _words(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_words(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    """Turn the words back into numbers."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def write_arrays(path: Path, arrays: dict[str, Array]) -> None:
    """Write one .npz file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.stem}.{os.getpid()}.part.npz")
    np.savez(aside, allow_pickle=False, **arrays)
    aside.replace(path)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read one .npz file; pickles are never loaded."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def claim_folder(folder: Path, plan: Plan, data_name: str) -> None:
    """Start or resume a run in a folder; a folder of another plan is refused."""
    settings = {"plan": plan.to_dict(), "data": data_name}
    path = folder / "plan.json"
    if not path.exists():
        write_json(path, settings)
        return
    found = read_json(path)
    if found["data"] != data_name:
        raise input_error("out", "train", f"hold a run on {data_name}", f"one on {found['data']}", "use another folder")
    wanted = json.loads(json.dumps(settings["plan"]))
    growing = ("methods", "penalties", "seeds", "data")  # more cells may join a finished run
    changed = [key for key, value in wanted.items() if found["plan"].get(key) != value and key not in growing]
    if changed:
        raise input_error(
            "out", "train", "hold a run with the same settings",
            ", ".join(f"{key} = {found['plan'].get(key)!r} instead of {wanted[key]!r}" for key in changed),
            "use another folder, or the same options to resume",
        )
