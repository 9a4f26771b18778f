"""Scaling-binning: scale smoothly first, then round the scaled scores to the means of equal-mass bins."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._one_vs_rest import fit_each
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.histogram import fit_bins, look_up
from calibrant.calibrators.platt import PlattScaling
from calibrant.core.inputs import check_n_bins
from calibrant.core.options import check_rng
from calibrant.core.pav import pool_ties
from calibrant.core.programs import Graph, Node


class ScalingBinning(Calibrator):
    """Fit a smooth map, then replace its output by its mean in each of a few equal-mass bins.

    The remaining calibration error can be measured honestly, because the output takes few values, and it needs fewer
    rows than histogram binning, because the bins average scaled scores instead of hits.

    Parameters
    ----------
    n_bins : int, default 10
        Bins per class; ties and small sets may leave fewer.
    scaler : Calibrator, optional
        The smooth map that is fitted first; Platt scaling by default, as in the paper. It takes the same `space`.
    split : bool, default False
        Fit the map, the bins and the means on three random thirds of the rows, as the theory assumes. By
        default all rows serve all three steps, as in the authors' library.
    rng : None, int or Generator, default 0
        Draws the thirds when ``split=True``.

    Attributes
    ----------
    scaler_ : Calibrator
        The fitted map.
    edges_, values_ : lists of K arrays (of one array, for class 1, with two classes)
        Upper edges of all bins but the last, and the mean scaled score of each bin.

    Notes
    -----
    q_k ∝ mean of g_k over the calibration rows in the bin of g_k(x), with g the fitted map and bins that hold
    equal numbers of rows [1]_. Cost: the smooth fit plus O(K·n log n).

    References
    ----------
    .. [1] Kumar, Liang & Ma (2019), "Verified Uncertainty Calibration", NeurIPS, section 4.1.

    Examples
    --------
    >>> from calibrant.calibrators import TemperatureScaling
    >>> p = np.linspace(0.05, 0.95, 10)
    >>> method = ScalingBinning(n_bins=2, scaler=TemperatureScaling()).fit(p, [0, 0, 0, 1, 0, 1, 0, 1, 1, 1])
    >>> len(np.unique(method.predict_proba(p)[:, 1]))
    2
    """

    short_name = "scaling-binning"
    title = "Scaling-binning"
    paper = "Kumar et al. (2019), section 4.1"
    when = (
        "Use it when the remaining calibration error must be measured with a guarantee, or few probability levels are "
        "wanted from few rows. Not when ranking within a bin matters or the predicted class must stay."
    )
    default_loss = "brier"
    state: ClassVar[tuple[str, ...]] = ("scaler_", "edges_", "values_")

    scaler_: Calibrator
    edges_: list[Floats]
    values_: list[Floats]

    def __init__(
        self,
        *,
        n_bins: int = 10,
        scaler: Calibrator | None = None,
        split: bool = False,
        rng: RNG = 0,
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.n_bins = n_bins
        self.scaler = scaler
        self.split = split
        self.rng = rng
        self.space = space
        self.classes = classes

    @property
    def view(self) -> View:  # type: ignore[override]  # the scaler takes the scores as they came
        """What the map starts from: the raw scores."""
        return "logit" if isinstance(self.space, str) and self.space == "logit" else "proba"

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return the parameters of Platt scaling; the bins only average them."""
        return PlattScaling.n_parameters(n_classes)

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_n_bins(self.n_bins, caller)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        from sklearn.base import clone

        scaler = self.scaler
        if scaler is None:
            scaler = PlattScaling()
        parts = self._parts(scores.n)
        self.scaler_ = clone(scaler).set_params(space=self.space, classes=None)
        self.scaler_.fit(scores.matrix[parts[0]], codes[parts[0]], sample_weight=weights[parts[0]])
        binned, averaged = (self.scaler_.predict_proba(scores.matrix[rows]) for rows in parts[1:])

        def one(k: int) -> tuple[Floats, Floats]:
            column = np.ascontiguousarray(binned[:, k])
            edges, values = fit_bins(pool_ties(column, column, weights[parts[1]]), self.n_bins, "mass")
            if self.split:  # [1] section 4.1, step 3: the means come from rows of their own
                place = np.searchsorted(edges, averaged[:, k])
                total = np.bincount(place, weights[parts[2]], len(values))
                mass = np.bincount(place, weights[parts[2]] * averaged[:, k], len(values))
                values = np.divide(mass, total, out=values, where=total > 0)
            return edges, values

        curves = fit_each(self.n_classes_, one)
        self.edges_ = [edges for edges, _ in curves]
        self.values_ = [values for _, values in curves]

    def _parts(self, n: int) -> list[Ints] | list[slice]:
        """Return the rows that fit the map, place the bins and give the means."""
        if not self.split or n < 3:
            return [slice(0, n)] * 3
        return list(np.array_split(check_rng(self.rng, "ScalingBinning.fit").permutation(n), 3))

    def _map(self, graph: Graph, x: Node) -> Node:
        p = self.scaler_.describe(graph, x)
        return look_up(graph, p, self.edges_, self.values_, p)
