"""Running cases, and the files of stored answers."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from frozen.case import Case
from frozen.inputs import make_inputs
from frozen.judge import ABSENT, SEEDS, Moved, clean, differences, pool

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "answers"


class Kitchen:
    """The inputs, written once; every run of a case finds them in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.count = root, 0
        self.inputs = root / "inputs"
        make_inputs(self.inputs)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        self.count += 1
        path = self.root / f"case{self.count}"
        shutil.copytree(self.inputs, path, copy_function=os.link)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def answer(self, case: Case, seed: int = 0) -> Any:
        """Run a case once; a crash is an answer too, so that the others are still judged."""
        with self.folder() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            here = Path.cwd()
            try:
                return clean(case.run(folder, seed), folder)
            except Exception as error:
                return clean({"crashed": f"{type(error).__name__}: {error}"}, folder)
            finally:
                os.chdir(here)

    def stored(self, case: Case) -> Any:
        """Run a case with ten seeds, or twice where nothing is drawn, and return what is stored."""
        one = self.answer(case)
        if isinstance(one, dict) and "crashed" in one:
            raise ValueError(f"{case.name} is no answer to keep: {one['crashed']}")
        if case.draws:
            return pool([one, *(self.answer(case, seed) for seed in SEEDS[1:])])
        two = self.answer(case)
        for moved in differences(one, two, 0, case.tolerance)[:1]:
            raise ValueError(f"{case.name} draws nothing, but {moved.where} is {moved.old!r} and then {moved.new!r}")
        return one


@contextmanager
def kitchen() -> Iterator[Kitchen]:
    with tempfile.TemporaryDirectory(prefix="frozen") as name:
        yield Kitchen(Path(name))


def file_of(family: str, lane: str) -> Path:
    return ANSWERS / (f"{family}.json" if lane == "day" else f"{family}.{lane}.json")


def load(family: str, lane: str) -> dict[str, Any]:
    path = file_of(family, lane)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(family: str, lane: str, new: dict[str, Any]) -> None:
    """Add answers to a file, one case a line in the order of their names; what is absent is taken out."""
    answers = {name: answer for name, answer in (load(family, lane) | new).items() if answer is not ABSENT}
    lines = [
        f"{json.dumps(name)}: {json.dumps(answers[name], sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"
        for name in sorted(answers)
    ]
    path = file_of(family, lane)
    if lines:
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def moved(case: Case, old: Any, new: Any) -> list[Moved]:
    """Return where a case's answer is another one than the stored one."""
    if old is ABSENT or new is ABSENT:
        return [] if old is new else [Moved((case.name,), old, new)]
    return [one._replace(path=(case.name, *one.path)) for one in differences(old, new, case.draws, case.tolerance)]
