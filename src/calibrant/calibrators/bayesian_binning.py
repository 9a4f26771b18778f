"""Bayesian binning into quantiles (BBQ): the average of many histograms, weighted by how well they explain the data."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._one_vs_rest import fit_each
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.histogram import edges_after, look_up
from calibrant.core.links import sigmoid
from calibrant.core.options import check_scale
from calibrant.core.pav import Pieces, pool_ties
from calibrant.core.programs import Graph, Node

#: The paper's constant C: histograms of n^(1/3)/C … C·n^(1/3) bins are averaged.
SPREAD = 10.0
#: Rows a bin should hold on average: bounds the number of bins when n is below some hundreds.
FEWEST = 5
#: Most bins of one histogram, unless the distinct scores alone allow more: heavy weights ask for no more memory.
MOST_BINS = 1_000


class BayesianBinning(Calibrator):
    """Average histograms of all plausible numbers of bins, each weighted by its marginal likelihood.

    Smoother than one histogram and free of its number of bins; like every binning it blurs the ranking.

    Parameters
    ----------
    criterion : {"bdeu", "bic", "aic"}, default "bdeu"
        Weight of a histogram: its marginal likelihood under a Beta prior in each bin (as in the paper), or
        exp(−BIC/2), exp(−AIC/2) of the plain fractions of hits (as in other libraries).
    prior : float, default 2.0
        Equivalent sample size N′ of the Beta priors of one histogram; only used by "bdeu".

    Attributes
    ----------
    edges_, values_ : lists of K arrays (of one array, for class 1, with two classes)
        The average is itself a step function: upper edges of all steps but the last, and the values.
    n_bins_ : array
        Average number of bins under the weights, one entry per curve.

    Notes
    -----
    One class against the rest. A histogram M with B equal-mass bins of N_b rows and m_b hits has

    P(D | M) = Π_b Γ(N′/B)/Γ(N_b + N′/B) · Γ(m_b + α_b)/Γ(α_b) · Γ(N_b − m_b + β_b)/Γ(β_b)

    with α_b = N′/B·c_b, β_b = N′/B·(1 − c_b) and c_b the center of the bin [1]_. The answer is Σ_M P(M | D)·
    (m_b + α_b)/(N_b + N′/B), normalized over the classes. n is the sum of weights, so integer weights equal repeated
    rows. Between n^(1/3)/10 and 10·n^(1/3) bins are tried, at most one bin for five rows. All histograms of a class
    are scored in one pass over O(n^(2/3)) bins after one sort.

    References
    ----------
    .. [1] Naeini, Cooper & Hauskrecht (2015), "Obtaining Well Calibrated Probabilities Using Bayesian Binning",
       AAAI, section "Method".

    Examples
    --------
    >>> p = np.linspace(0.05, 0.95, 10)
    >>> method = BayesianBinning().fit(p, [0, 0, 0, 1, 0, 1, 0, 1, 1, 1])
    >>> method.predict_proba([0.1, 0.9]).round(2)
    array([[0.7, 0.3],
           [0.3, 0.7]])
    """

    short_name = "bayesian-binning"
    title = "Bayesian binning into quantiles"
    paper = "Naeini et al. (2015)"
    when = (
        "Use it for two classes when binning is wanted but its number of bins is not known. Not when the ranking "
        "within a bin or the predicted class must stay, nor when the map has to leave Python."
    )
    default_loss = "nll"
    exports = ()
    view: ClassVar[View] = "rank"
    free_parameters: ClassVar[float] = float("inf")  # the number of bins grows with the rows
    state: ClassVar[tuple[str, ...]] = ("edges_", "values_", "n_bins_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"criterion": ("bdeu", "bic", "aic")}

    edges_: list[Floats]
    values_: list[Floats]
    n_bins_: Floats

    def __init__(
        self, *, criterion: str = "bdeu", prior: float = 2.0, space: Space = "proba", classes: ArrayLike | None = None
    ) -> None:
        self.criterion = criterion
        self.prior = prior
        self.space = space
        self.classes = classes

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_scale(self.prior, "prior", caller, "leave it at 2, as published")

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        p = scores.values()

        def one(k: int) -> tuple[Floats, Floats, float]:
            table = pool_ties(np.ascontiguousarray(p[:, k]), codes == k, weights)
            return average_histograms(table, self.criterion, self.prior, odds=scores.space == "logit")

        curves = fit_each(self.n_classes_, one)
        self.edges_ = [edges for edges, _, _ in curves]
        self.values_ = [values for _, values, _ in curves]
        self.n_bins_ = np.array([size for _, _, size in curves])

    def _map(self, graph: Graph, x: Node) -> Node:
        return look_up(graph, x, self.edges_, self.values_, self._probabilities(graph, x))


def average_histograms(table: Pieces, score: str, prior: float, *, odds: bool = False) -> tuple[Floats, Floats, float]:
    """Return edges and values of the averaged step function of a sorted table, and the mean number of bins.

    With `odds` the table and the edges hold log-odds.
    """
    rows = len(table.weight)
    running = np.cumsum(table.weight)
    total = float(running[-1])
    root = np.cbrt(total)
    most = max(1, int(min(np.ceil(SPREAD * root), np.ceil(total / FEWEST), max(SPREAD * np.cbrt(rows), MOST_BINS))))
    sizes = np.arange(max(1, min(most, int(root / SPREAD))), most + 1)
    # every split of every histogram, one after another: row after which a bin ends, the last row included
    model = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(model)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    last = np.minimum(np.searchsorted(running, total * place / sizes[model] * (1 - 1e-12)), rows - 1)
    fresh = np.concatenate([[True], (last[1:] != last[:-1]) | (model[1:] != model[:-1])])  # ties leave fewer bins
    model, last = model[fresh], last[fresh]
    opens = np.concatenate([[True], model[1:] != model[:-1]])
    first = np.where(opens, 0, np.concatenate([[0], last[:-1] + 1]))
    count = np.diff(np.append(np.flatnonzero(opens), len(model)))

    before = np.concatenate([[0.0], running])
    hits_before = np.concatenate([[0.0], np.cumsum(table.hits)])
    weight = before[last + 1] - before[first]
    hits = np.clip(hits_before[last + 1] - hits_before[first], 0.0, weight)
    edges = edges_after(table, np.arange(rows - 1))
    border = np.concatenate([[0.0], sigmoid(edges) if odds else edges, [1.0]])
    center = (border[first] + border[last + 1]) / 2
    if odds:  # margins are not yet probabilities: no bin is taken for more certain than its rows could show
        center = np.clip(center, 1 / (total + 2), 1 - 1 / (total + 2))
    log_score, share = score_bins(weight, hits, center, prior / count[model], score, total)
    fit = np.add.reduceat(log_score, np.flatnonzero(opens))
    posterior = np.exp(fit - fit.max())
    posterior /= posterior.sum()

    # the average as a step function of the row: add each bin's value where it starts, take it back where it ends
    change = np.zeros(rows + 1)
    np.add.at(change, first, posterior[model] * share)
    np.add.at(change, last + 1, -posterior[model] * share)
    splits = np.unique(last[last < rows - 1])
    values = np.clip(np.cumsum(change[:-1])[np.append(0, splits + 1)], share.min(), share.max())
    return edges[splits], values, float(posterior @ count)


def score_bins(
    weight: Floats, hits: Floats, center: Floats, strength: Floats, score: str, total: float
) -> tuple[Floats, Floats]:
    """Return the log score of each bin and its estimate of the probability of a hit."""
    if score == "bdeu":
        from scipy.special import gammaln

        center = np.clip(center, 1e-9, 1 - 1e-9)
        alpha, beta = strength * center, strength * (1 - center)
        value = (  # [1] marginal likelihood of a binning model
            gammaln(strength)
            - gammaln(weight + strength)
            + gammaln(hits + alpha)
            - gammaln(alpha)
            + gammaln(weight - hits + beta)
            - gammaln(beta)
        )
        return value, (hits + alpha) / (weight + strength)  # [1] posterior mean of a bin
    from scipy.special import xlogy

    share = hits / weight
    penalty = 1.0 if score == "aic" else 0.5 * np.log(total)
    return xlogy(hits, share) + xlogy(weight - hits, 1 - share) - penalty, share
