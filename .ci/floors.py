"""Compare how much of each subpackage the tests run with its floor in .ci/floors.toml.

python .ci/floors.py           print the table; exit code 1 if a subpackage is below its floor or has none
python .ci/floors.py --write   set every floor one point below what was measured, when that raises it

`make coverage` makes the data. Lines are counted, not branches; programs that tests start are not measured.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "calibrant"
FLOORS = ROOT / ".ci" / "floors.toml"
HEAD = "# Least percentage of lines the tests run, by subpackage (.ci/floors.py). Raise freely; lower with a reason.\n"
TOP = "calibrant"  # the files beside the subpackages

Counts = Mapping[str, tuple[int, int]]


def subpackage(path: Path, source: Path = SOURCE) -> str:
    """Name of the subpackage a file belongs to."""
    parts = path.relative_to(source).parts
    return parts[0] if len(parts) > 1 else TOP


def sources(omit: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Files whose lines count: all but those that a pattern of the coverage settings leaves out."""
    left_out = {path for pattern in omit for path in root.glob(pattern)}
    return sorted(set((root / "src" / "calibrant").rglob("*.py")) - left_out)


def measured(data_file: Path) -> dict[str, tuple[int, int]]:
    """Lines and lines run, by subpackage; files no test imports count in full."""
    import coverage

    run = coverage.Coverage(data_file=str(data_file), config_file=str(ROOT / "pyproject.toml"))
    run.load()
    counts: dict[str, tuple[int, int]] = {}
    for path in sources(run.get_option("run:omit") or ()):
        _, statements, _, missing, _ = run.analysis2(str(path))
        lines, hit = counts.get(subpackage(path), (0, 0))
        counts[subpackage(path)] = lines + len(statements), hit + len(statements) - len(missing)
    return counts


def percent(lines: int, hit: int) -> float:
    """Percentage of lines run, rounded down to a tenth; 100 when there are none."""
    return math.floor(1000 * hit / lines) / 10 if lines else 100.0


def problems(counts: Counts, floors: Mapping[str, float]) -> list[str]:
    """Subpackages below their floor, without one, and floors without a subpackage."""
    found = [f"{name} has no floor in .ci/floors.toml" for name in counts if name not in floors]
    found += [f"{name} has a floor and does not exist" for name in floors if name not in counts]
    return found + [
        f"{name}: {percent(*counts[name])}% of lines run, floor {floors[name]}%"
        for name in counts
        if name in floors and percent(*counts[name]) < floors[name]
    ]


def table(counts: Counts, floors: Mapping[str, float]) -> Iterable[str]:
    """Lines of the table, and the sum."""
    yield f"{'subpackage':<14}{'lines':>8}{'run':>8}{'floor':>8}"
    for name, (lines, hit) in sorted(counts.items()):
        yield f"{name:<14}{lines:>8,}{percent(lines, hit):>7.1f}%{floors.get(name, math.nan):>7g}%"
    lines, hit = (sum(column) for column in zip(*counts.values(), strict=True))
    yield f"{'all':<14}{lines:>8,}{percent(lines, hit):>7.1f}%"


def main(arguments: list[str]) -> int:
    """Run the command above."""
    data_file = ROOT / ".coverage"
    if not data_file.exists():
        print("no coverage data: run make coverage", file=sys.stderr)
        return 1
    counts = measured(data_file)
    floors = tomllib.loads(FLOORS.read_text(encoding="utf-8")) if FLOORS.exists() else {}
    if "--write" in arguments:
        floors = {name: max(floors.get(name, 0), math.floor(percent(*counts[name]) - 1)) for name in sorted(counts)}
        FLOORS.write_text(HEAD + "".join(f"{name} = {value:g}\n" for name, value in floors.items()), encoding="utf-8")
    print("\n".join(table(counts, floors)))
    found = problems(counts, floors)
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
