"""Canonical calibration error by a Dirichlet kernel."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Ints, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe, check_norm
from calibrant.core.inputs import Forecast, check_flag, check_names
from calibrant.core.kernels import spread_rows
from calibrant.core.options import check_scale
from calibrant.core.parallel import map_chunks
from calibrant.errors import UndefinedWarning, input_error

#: Bandwidths tried by the likelihood search: 15 from 1e-5 to 1e-1 in equal ratios, then 0.2 … 1 [1, published code].
GRID = np.concatenate([np.logspace(-5, -1, 15), np.linspace(0.2, 1.0, 5)])
#: Log kernel values handled at once (queries × rows) by one thread: they stay in its cache.
_CELLS = 1 << 17
#: Multiplications up to which BLAS stays on one thread.
_SMALL_PRODUCT = 1 << 18
#: The search averages the left-out likelihood of so many rows, more as long as the pairs with all rows stay few.
_QUERIES, _SEARCH_PAIRS = 512, 10_000_000
#: Stands for log 0: an exact zero counts as the smallest normal float.
_LOG_ZERO = math.log(np.finfo(np.float64).tiny)


class DirichletKernels:
    """Dirichlet kernels on all rows, sorted by label: log k_h(q; p_i) = c_i(h) + ⟨p_i, log q⟩/h."""

    def __init__(self, points: Floats, codes: Ints, weights: Floats | None) -> None:
        order = np.argsort(codes, kind="stable")
        self.points, self.codes = points[order], codes[order]
        self.weights = np.ones(len(points)) if weights is None else weights[order]
        self.log_weights = np.log(self.weights, out=np.full(len(points), -np.inf), where=self.weights > 0)
        with np.errstate(divide="ignore"):
            self.log_points = np.maximum(np.log(self.points), _LOG_ZERO)
        self.present, self.starts = np.unique(self.codes, return_index=True)

    def norms(self, bandwidth: float) -> Floats:
        """Return c_i(h) = log Γ(1/h + K) − Σ_k log Γ(p_ik/h + 1), less what all rows share, plus log w_i."""
        from scipy.special import gammaln

        total = np.zeros(len(self.points))
        for column in self.points.T:
            total += gammaln(column / bandwidth + 1.0)
        return np.asarray(self.log_weights - total)  # [1] eq. (8): concentration p/h + 1

    def cross(self, queries: Array) -> Floats:
        """Return ⟨p_i, log q_j⟩ for some rows j against all rows i."""
        left = self.log_points[queries]
        step = max(64, _SMALL_PRODUCT // left.size)
        out = np.empty((len(left), len(self.points)))
        for start in range(0, len(self.points), step):
            out[:, start : start + step] = left @ self.points[start : start + step].T
        return out

    def leave_one_out(self, cross: Floats, queries: Array, norms: Floats, bandwidth: float) -> tuple[Floats, Floats]:
        """Return kernel values of each query, scaled to at most 1, without one copy of itself; and the log scale."""
        values = cross / bandwidth
        values += norms
        row = np.arange(len(queries))
        with np.errstate(divide="ignore"):
            left = np.log(np.maximum(self.weights[queries] - 1.0, 0.0)) - self.log_weights[queries]
        values[row, queries] += left
        peak = values.max(axis=1)
        values -= peak[:, None]
        return np.exp(values, out=values), peak

    def batches(self, queries: Ints) -> list[Ints]:
        """Cut the queries so that a batch of kernel values stays small."""
        step = max(1, _CELLS // len(self.points))
        return [queries[start : start + step] for start in range(0, len(queries), step)]


def conditional_frequencies(values: Floats, kernels: DirichletKernels) -> Floats:
    """Return the estimate of P(Y = k | f = q) for each row of kernel values, shape (rows, K)."""
    sums = np.add.reduceat(values, kernels.starts, axis=1)  # rows are sorted by label
    out = np.zeros((len(values), kernels.points.shape[1]))
    out[:, kernels.present] = sums / sums.sum(axis=1, keepdims=True)  # [1] eq. (6)
    return out


def choose_bandwidth(kernels: DirichletKernels, rule: str = "likelihood") -> float:
    """Return the bandwidth of the grid under which what was left out is most likely.

    ``"likelihood"``: the labels given the forecasts, which is what the error needs. ``"published"``: the forecasts
    themselves, as in the paper. Works in logarithms; an exact zero counts as the smallest float and each estimated
    frequency is mixed with 1/W of the uniform distribution, so every likelihood is finite and a best one exists.
    """
    from scipy.special import gammaln

    key = np.einsum("ij,ij->i", kernels.points, kernels.points)
    k, total = kernels.points.shape[1], float(kernels.weights.sum())
    queries = spread_rows(key, kernels.weights, max(_QUERIES, _SEARCH_PAIRS // int(total)))
    share = 1.0 / total
    all_norms = list(map_chunks(kernels.norms, GRID.tolist()))

    def visit(part: Ints) -> Floats:
        cross, likelihood = kernels.cross(part), np.empty(len(GRID))
        for i, (h, norms) in enumerate(zip(GRID.tolist(), all_norms, strict=True)):
            values, peak = kernels.leave_one_out(cross, part, norms, h)
            if rule == "published":
                likelihood[i] = (np.log(values.sum(axis=1)) + peak + gammaln(1.0 / h + k)).sum()  # [1] section 3
            else:
                true = conditional_frequencies(values, kernels)[np.arange(len(part)), kernels.codes[part]]
                likelihood[i] = np.log((1.0 - share) * true + share / k).sum()
        return likelihood

    likelihoods = np.sum(list(map_chunks(visit, kernels.batches(queries))), axis=0)
    return float(GRID[int(np.argmax(likelihoods))])


@dataclass(frozen=True)
class CanonicalKDE(Recipe):
    """Mean of ‖p̂(Y | f) − f‖_p^p over rows, each left out of its own estimate."""

    norm: float
    bandwidth: float | str
    root: bool

    def __post_init__(self) -> None:
        caller = "canonical_kde_calibration_error"
        if math.isinf(check_norm(self.norm, caller)):
            raise input_error("norm", caller, "be finite", repr(self.norm), "use norm=1 or norm=2")
        if isinstance(self.bandwidth, str):
            check_names(self.bandwidth, ("likelihood", "published"), "bandwidth", caller)
        else:
            check_scale(self.bandwidth, "bandwidth", caller, "use bandwidth='likelihood'")
        check_flag(self.root, "root", caller)

    def fill(self, forecast: Forecast) -> Forecast:
        """Keep all rows: every row is compared with every other."""
        forecast.need_counts("leave-one-out")
        return forecast

    def finish(self, state: Forecast) -> float:
        """Return the estimate."""
        if state.total < 2:
            warnings.warn(
                "one row has no others to compare with: ce-kde is undefined, nan is returned",
                UndefinedWarning,
                stacklevel=2,
            )
            return math.nan
        kernels = DirichletKernels(state.proba(), state.codes, state.weights)
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str):
            bandwidth = choose_bandwidth(kernels, bandwidth)
        norms = kernels.norms(bandwidth)

        def visit(rows: Ints) -> float:
            values, _ = kernels.leave_one_out(kernels.cross(rows), rows, norms, bandwidth)
            gap = np.abs(conditional_frequencies(values, kernels) - kernels.points[rows])
            return float(np.sum(kernels.weights[rows] * (gap**self.norm).sum(axis=1)))  # [1] eq. (7)

        power = math.fsum(map_chunks(visit, kernels.batches(np.flatnonzero(kernels.weights > 0)))) / state.total
        return power ** (1.0 / self.norm) if self.root else power


METRIC = Metric(
    name="ce-kde",
    title="Canonical calibration error by Dirichlet kernels",
    plain="gap between whole forecasts and class frequencies, smoothed",
    notion="canonical calibration",
    estimates="the canonical error CE_p",
    bound=None,
    weakness="biased upwards at small n and with many classes, where no forecast has close neighbors",
    paper="Popordanoska, Sayer & Blaschko (2022), A consistent and differentiable Lp canonical calibration error "
    "estimator, NeurIPS, eq. (6)-(8)",
    cost="O(n²·K)",
    state="all rows",
    range=(0.0, 2.0),
)


@METRIC.defines
def canonical_kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    norm: float = 2.0,
    bandwidth: float | str = "likelihood",
    root: bool = True,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Estimate how far whole forecasts are from the frequencies of the classes among similar forecasts.

    Parameters
    ----------
    norm : float, default 2.0
        p ≥ 1, finite.
    bandwidth : float, "likelihood" or "published", default "likelihood"
        Bandwidth h of the kernel, or how it is chosen from a fixed grid (1e-5 … 1): by the likelihood of left-out
        labels given the forecasts, or by that of left-out forecasts, the published rule, which looks at no label
        and gives values of 0.5 for calibrated models with ten classes at n = 2000 (0.08 by the default).
    root : bool, default True
        False gives the p-th power, as the published code does.
    sample_weight : array-like of shape (n,), optional
        Frequencies: an integer weight equals repeated rows; other weights are refused.

    Returns
    -------
    float
        The value; nan with a warning for a single row.

    Notes
    -----
    ((1/n) Σ_j ‖Σ_{i≠j} k(f_j; f_i) e_{y_i} / Σ_{i≠j} k(f_j; f_i) − f_j‖_p^p)^(1/p) with k(·; f_i) the density of the
    Dirichlet distribution with concentration f_i/h + 1. All in logarithms relative to the largest kernel of a row, so
    that far rows and exact zeros (which count as the smallest float) never give 0/0, whatever K.
    Memory is O(n·K); the search adds 20 passes of 512 rows (more at small n) against all.

    Examples
    --------
    >>> from calibrant.metrics import canonical_kde_calibration_error
    >>> y, p = [0, 0, 0, 1] * 2, [[0.5, 0.5]] * 8  # class 0 in 5 of 7 other rows, or in 6 of 7
    >>> canonical_kde_calibration_error(y, p, norm=1)  # 2·(6·(5/7 − 1/2) + 2·(6/7 − 1/2))/8
    0.5
    """
    return CanonicalKDE(norm, bandwidth, root)
