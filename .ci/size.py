"""Count the lines of the user's package by subpackage, and hold their sum under the limit below.

python .ci/size.py   print the table; exit code 1 if the package is larger than LIMIT
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "calibrant"
GOAL = 32_000
LIMIT = 63_518  # lines; comes down to GOAL as copies disappear, and never goes up without a decision


def count(source: Path = SOURCE) -> dict[str, int]:
    """Lines of every Python file and template in the wheel, by subpackage."""
    lines: dict[str, int] = {}
    for path in sorted(source.rglob("*")):
        if path.suffix in {".py", ".j2", ".js", ".css"} and "__pycache__" not in path.parts:
            parts = path.relative_to(source).parts
            name = parts[0] if len(parts) > 1 else "calibrant"
            lines[name] = lines.get(name, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return lines


def main() -> int:
    """Print the table and return the exit code."""
    lines = count()
    total = sum(lines.values())
    for name, number in sorted(lines.items(), key=lambda item: -item[1]):
        print(f"{name:<14}{number:>8,}")
    print(f"{'all':<14}{total:>8,}  (limit {LIMIT:,}, goal {GOAL:,})")
    if total > LIMIT:
        print(
            f"the package has {total:,} lines, more than {LIMIT:,}: move what serves the team out of it",
            file=sys.stderr,
        )
    return int(total > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
