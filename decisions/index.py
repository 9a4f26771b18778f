"""Write decisions/README.md: one line for each decision, in the order of the numbers.

python decisions/index.py           rewrite the index
python decisions/index.py --check   exit code 1 if it is out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = re.compile(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
HEAD = """# Decisions

A choice that shapes others gets about ten lines here: the question, the choice, what it cost and what else was tried.
A decision is never rewritten; a later one says which it replaces. The file is called `NNNN-topic.md`, with the next
free number. `python decisions/index.py` writes this list; the tests compare it with the folder.

"""


def decisions(folder: Path = HERE) -> list[Path]:
    """Files of the folder that hold a decision, in order."""
    return sorted(path for path in folder.iterdir() if path.suffix == ".md" and path.name != "README.md")


def title(path: Path) -> str:
    """Return the first heading of a decision."""
    first = path.read_text(encoding="utf-8").lstrip().splitlines()[0]
    if not first.startswith("# "):
        raise ValueError(f"{path.name} must start with '# ' and the choice in one line")
    return re.sub(r"^\d{4}[ .:—–-]*", "", first[2:].strip())


def problems(folder: Path = HERE) -> list[str]:
    """Names without a number, and numbers used twice."""
    names = [path.name for path in decisions(folder)]
    numbers = [name[:4] for name in names]
    found = [f"{name}: the name must be NNNN-topic.md" for name in names if not NAME.fullmatch(name)]
    return found + [f"{name}: number {name[:4]} is used twice" for name in names if numbers.count(name[:4]) > 1]


def render(folder: Path = HERE) -> str:
    """Markdown of the index."""
    return HEAD + "".join(f"- [{path.name[:4]}]({path.name}) {title(path)}\n" for path in decisions(folder))


def main(arguments: list[str]) -> int:
    """Run the command above."""
    found = problems()
    index = HERE / "README.md"
    text = render()
    if "--check" not in arguments:
        index.write_text(text, encoding="utf-8")
    elif not index.exists() or index.read_text(encoding="utf-8") != text:
        found.append("decisions/README.md is out of date: run python decisions/index.py")
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
