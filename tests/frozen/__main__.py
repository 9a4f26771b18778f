"""``python -m frozen``: what moved, one line a place; exit code 1 if anything did."""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
import time
from collections.abc import Iterable
from typing import Any

from frozen import FAMILIES
from frozen.answers import HERE, Kitchen, kitchen, load, moved, save
from frozen.case import LANES, Case, family_cases, selected
from frozen.judge import ABSENT, Moved, shown, words

MOVED = HERE / "moved.md"
_HEAD = """# What moved on purpose

Written by `python -m frozen --write --why "reason"`. A row stands for all places that differ in an index, a name or a number
alone; the example is the first of them.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m frozen", description=__doc__)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this family (repeat)")
    parser.add_argument("--case", default="*", metavar="GLOB", help="only cases whose name matches")
    parser.add_argument("--lane", action="append", choices=LANES, help="lanes [default: day and duckdb]")
    parser.add_argument("--write", action="store_true", help="store the new answers; with --why")
    parser.add_argument("--why", help="the reason, for moved.md")
    parser.add_argument(
        "--mutate", action="store_true", help="change one constant of each subpackage: all must be seen"
    )
    parser.add_argument("--times", action="store_true", help="print the CPU seconds of the slowest cases")
    asked = parser.parse_args()
    if asked.write and not asked.why:
        parser.error('--write needs --why "reason"')
    if asked.mutate:
        from frozen.mutations import mutate

        return mutate(asked.case)
    chosen = tuple(asked.family or FAMILIES)
    lanes = tuple(asked.lane or ("day", "duckdb"))
    cases = list(selected(chosen, asked.case, lanes))
    if not cases:
        parser.error(f"no case matches {asked.case}")
    with kitchen() as made, sessions(lanes):
        return write(made, cases, asked) if asked.write else compare(made, cases, asked)


def sessions(lanes: tuple[str, ...]) -> Any:
    """Start Spark for its lane."""
    from contextlib import nullcontext

    if "spark" not in lanes:
        return nullcontext()
    from helpers import spark_session

    return spark_session()


def compare(made: Kitchen, cases: list[tuple[str, Case]], asked: argparse.Namespace) -> int:
    found: list[Moved] = []
    times = []
    known = {(family, case.lane): load(family, case.lane) for family, case in cases}
    for family, case in cases:
        start = time.process_time()
        old = known[family, case.lane].get(case.name, ABSENT)
        here = moved(case, old, made.answer(case))
        times.append((time.process_time() - start, case.name))
        for one in here:
            print(f"{one.where}: {' → '.join(pair(one))}", flush=True)
        found += here
    if asked.case == "*":
        found += lost(known)
    print(f"{len(cases)} cases, {sum(t for t, _ in times):.0f} CPU seconds: {len(found)} places moved", file=sys.stderr)
    if asked.times:
        for seconds, name in sorted(times, reverse=True)[:25]:
            print(f"  {seconds:6.2f}  {name}", file=sys.stderr)
    return 1 if found else 0


def lost(known: dict[tuple[str, str], dict[str, Any]]) -> list[Moved]:
    """Return stored answers whose case is gone."""
    found = []
    for (family, lane), answers in known.items():
        names = {case.name for case in family_cases(family) if case.lane == lane}
        found += [Moved((name,), "stored", ABSENT) for name in sorted(set(answers) - names)]
    for one in found:
        print(f"{one.where}: {one.old} → {one.new}")
    return found


def write(made: Kitchen, cases: list[tuple[str, Case]], asked: argparse.Namespace) -> int:
    known = {(family, case.lane): load(family, case.lane) for family, case in cases}
    written: dict[tuple[str, str], dict[str, Any]] = {place: {} for place in known}
    found: list[Moved] = []
    if asked.case == "*":
        found += lost(known)
        for place, answers in known.items():
            written[place] |= {name: ABSENT for name in answers if any(one.where == name for one in found)}
    for number, (family, case) in enumerate(cases, 1):
        new = made.stored(case)
        old = known[family, case.lane].get(case.name, ABSENT)
        if old is not ABSENT:  # what came for seed 0 is what a comparison would have seen
            found += moved(case, old, seed_zero(new))
        written[family, case.lane][case.name] = new
        if number % 25 == 0:
            print(f"{number} of {len(cases)}", file=sys.stderr, flush=True)
    for (family, lane), answers in written.items():
        save(family, lane, answers)
    if found:
        note(found, asked.why)
    print(f"{len(cases)} cases written, {len(found)} places moved", file=sys.stderr)
    return 0


def seed_zero(stored: Any) -> Any:
    """Return the answer of seed 0 from a stored one."""
    value = shown(stored)
    if isinstance(value, dict):
        return {key: seed_zero(item) for key, item in value.items()}
    return [seed_zero(item) for item in value] if isinstance(value, list) else value


def note(found: list[Moved], why: str) -> None:
    """Append what moved, folded to one row for all places of one kind."""
    text = MOVED.read_text(encoding="utf-8") if MOVED.exists() else _HEAD
    rows = []
    for name, places in folded(found).items():
        old, new = map(cell, pair(places[0]))
        rows.append(f"| {cell(name)} | {len(places)} | `{cell(places[0].where)}` | {old} | {new} |")
    day = dt.datetime.now(dt.UTC).date().isoformat()
    table = "\n".join(["| what | places | example | old | new |", "|---|---|---|---|---|", *rows])
    MOVED.write_text(f"{text}\n## {day}: {why}\n\n{table}\n", encoding="utf-8")


def folded(found: Iterable[Moved]) -> dict[str, list[Moved]]:
    """Group places by what happened to which key: a rename is one row, however often the key occurs."""
    groups: dict[str, list[Moved]] = {}
    for one in found:
        keys = [part for part in one.path if isinstance(part, str)]
        if len(one.path) == 1:
            family = str(one.path[0]).partition("/")[0]
            name = f"cases {family}/… {'are new' if one.old is ABSENT else 'are gone'}"
        elif one.old is ABSENT or one.new is ABSENT:
            name = f"{keys[-1]} is {'new' if one.old is ABSENT else 'gone'}"
        elif isinstance(one.old, str) and isinstance(one.new, str):
            name = f"{keys[-1]}: {words(one.old)[:60]} → {words(one.new)[:60]}"
        else:
            name = keys[-1]
        groups.setdefault(name, []).append(one)
    return groups


def pair(one: Moved) -> tuple[str, str]:
    """Return old and new for a line of print; of long texts the part around the first difference."""
    texts = [value if isinstance(value, str) else repr(value) for value in (one.old, one.new)]
    start = max(0, next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), 0) - 40)
    old, new = (
        ("… " if start else "") + text[start : start + 120] + (" …" if len(text) > start + 120 else "")
        for text in texts
    )
    return old, new


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
