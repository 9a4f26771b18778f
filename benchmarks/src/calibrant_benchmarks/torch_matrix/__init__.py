"""Every part of calibrant.torch under every way a network is run: right, refused by name, or wrong (needs torch)."""

from calibrant_benchmarks.torch_matrix.judge import CONDITIONS, Cell, page, run_cells

__all__ = ["CONDITIONS", "Cell", "page", "run_cells"]
