"""Check text files: no trailing blanks, no carriage returns, one newline at the end, no conflict marks, no large files.

python .ci/text.py            every file git knows
python .ci/text.py FILE ...   these files
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LARGEST = 2_000_000  # bytes; the frozen answers of the verbs are 1.3 MB, all else is smaller
WRITTEN = {"docs/tables", "tests/acceptance"}  # files that our commands wrote end as they were written
MARKS = (b"<<<<<<< ", b"=======\n", b">>>>>>> ")


def problems(path: Path) -> list[str]:
    """What is wrong with one file; one that holds a zero byte is not text, and nobody types a picture."""
    data = path.read_bytes()
    found = [f"larger than {LARGEST:,} bytes"] if len(data) > LARGEST else []
    if b"\0" in data or not data or path.suffix == ".svg":
        return found
    lines = data.splitlines(keepends=True)
    if b"\r\n" in data:
        found.append("carriage returns")
    found += [
        f"line {i}: blanks at the end" for i, line in enumerate(lines, 1) if line.rstrip(b"\r\n")[-1:] in {b" ", b"\t"}
    ]
    if path.suffix != ".rst":
        found += [f"line {i}: conflict mark" for i, line in enumerate(lines, 1) if line.startswith(MARKS)]
    if path.parent.as_posix() in WRITTEN:
        return found
    if not data.endswith(b"\n"):
        found.append("no newline at the end")
    elif data.endswith(b"\n\n"):
        found.append("blank lines at the end")
    return found


def main(names: list[str]) -> int:
    """Print the problems of the named files, or of all; return the exit code."""
    if not names:  # the option lets containers read a checkout that belongs to another user
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
        names = [
            name
            for name in subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
            if name
        ]
    found = [f"{name}: {problem}" for name in names if Path(name).is_file() for problem in problems(Path(name))]
    for line in found:
        print(line)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
