"""Write the page: ``python -m calibrant_benchmarks.torch_matrix -o docs/tables/torch.md``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from calibrant_benchmarks.torch_matrix.judge import CONDITIONS, page, run_cells, worker

COMMAND = "python -m calibrant_benchmarks.torch_matrix -o docs/tables/torch.md"


def main() -> int:
    """Run the cells asked for; the number of failing cells is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, help="Markdown file; printed by default")
    parser.add_argument("--condition", action="append", choices=CONDITIONS, help="only this column (repeat)")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("items", nargs="*", help="only these rows")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.items)
        return 0
    cells = run_cells(tuple(options.condition or CONDITIONS), options.items)
    text = page(cells, COMMAND)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    bad = [cell for cell in cells if cell.verdict == "fails"]
    for cell in bad:
        sys.stderr.write(f"fails: {cell.name}: {cell.detail}\n")
    return min(len(bad), 100)


if __name__ == "__main__":
    sys.exit(main())
