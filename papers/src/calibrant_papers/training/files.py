"""Files of a run: arrays, and the folder that belongs to one plan."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from calibrant._typing import Array
from calibrant.core.atomic import atomic_path
from calibrant.errors import input_error
from calibrant_papers.studies.checkpoints import read_json, write_json
from calibrant_papers.training.plan import Plan


def write_arrays(path: Path, arrays: dict[str, Array]) -> None:
    """Write one .npz file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


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
    keys = [key for key in dict.fromkeys([*wanted, *found["plan"]]) if key not in growing]
    changed = [key for key in keys if found["plan"].get(key) != wanted.get(key)]
    if changed:
        raise input_error(
            "out",
            "train",
            "hold a run with the same settings",
            ", ".join(f"{key} = {found['plan'].get(key)!r} instead of {wanted.get(key)!r}" for key in changed),
            "use another folder, or the same options to resume",
        )
