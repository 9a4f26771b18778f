"""Estimators: how far E[t | s] is from s, given pairs.

Each estimator says which table it needs (`fill`) and how the p-th power of the error follows from it
(`power`); outcome sums may carry leading axes, so replicates are finished by the same lines. It also answers what
others need to know about it, so that nobody asks for its class:

===============================  ======================================================================
``has_norm``                     a norm has a meaning
``from_tables``                  tables of any key suffice, rows are not needed (False for other codes' bins)
``needs_rows``                   what needs the rows, in words, or None
``needs_counts``                 weights must be whole numbers
``width_bins``                   number of equal-width bins, or None: exact on a grid it divides
``state(table)``                 the state that `power` finishes, from the table of a single group
``state_of(tables)``             the same from the tables of all groups, replicates included; bins that do not divide
                                 the grid take cells by their mean score
``bin_index(pairs)``             the bin of each pair, or None where there are no bins
``row_bins(table)``              the bin of each table row where only sums of bins count, else None
``precision(view, tables)``      how far a value from cells may be from the value from rows (`Precision`)
``joint_cells(grid)``            neighboring cells whose labels may be drawn together, None: each alone
``is_path``                      the error is the supremum of a cumulative path, which has a limit distribution
``noise(norm, root)``            which function of cell means plus Gaussian noise it is (`Noise`), None: no interval
``noise_cells(pairs)``           the cell of each pair and their number, for that noise
``gram(scores)``                 inner products of cells for a norm in a kernel space
===============================  ======================================================================
"""

from calibrant.estimators.curves import KDE, Isotonic, Local, check_decay
from calibrant.estimators.estimator import (
    Binned,
    CalibrationError,
    Estimator,
    Noise,
    State,
    binned,
    root,
)
from calibrant.estimators.precision import EXACT, Precision
from calibrant.estimators.residuals import Cumulative, Kernel, PathRange, Smooth
from calibrant.estimators.sweep import Sweep

__all__ = [
    "EXACT", "KDE", "Binned", "CalibrationError", "Cumulative", "Estimator", "Isotonic", "Kernel", "Local",
    "Noise", "PathRange", "Precision", "Smooth", "State", "Sweep", "binned", "check_decay", "root"
]  # fmt: skip
