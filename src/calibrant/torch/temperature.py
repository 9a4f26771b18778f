"""One temperature for all Monte-Carlo samples, applied before they are averaged."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats
from calibrant.core.inputs import check_labels
from calibrant.core.links import softmax
from calibrant.errors import NotFittedError, input_error
from calibrant.torch.batch import check_word
from calibrant.torch.predictive import Predictive


class MonteCarloTemperature:
    """Divide the logits of every sample by one temperature, then average the softmax.

    Parameters
    ----------
    objective : {"mean", "samples"}, default="mean"
        What T minimizes on held-out rows: the log score of the averaged forecast, or — the UCE paper's program —
        the mean of the samples' own log scores, which ignores that averaging already lowers the confidence and
        so ends too unsure when samples disagree.

    Attributes
    ----------
    temperature_ : float
        T; above 1 the samples were overconfident.

    Notes
    -----
    p(x) = (1/N) Σ_i softmax(z_i/T). "mean": −mean log p_y, bounded search in log T over [0.01, 100]; "samples" is
    `calibrant.calibrators.TemperatureScaling` on all samples stacked (convex). Cost O(samples·n·K) per step.

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), eq. (28).

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.log([[[0.9, 0.1]] * 4])  # one sample, 90% sure, right in three of four
    >>> cal = MonteCarloTemperature().fit(logits, [0, 0, 0, 1])
    >>> cal.predict(logits).proba[0].round(3)
    array([0.75, 0.25])
    """

    def __init__(self, objective: Literal["mean", "samples"] = "mean") -> None:
        self.objective = check_word(objective, ("mean", "samples"), "objective", "MonteCarloTemperature")

    def fit(self, samples: Predictive | Array, y: ArrayLike | None = None) -> MonteCarloTemperature:
        """Find T from held-out sample logits (S, n, K), or a `Predictive` that kept them and its labels."""
        if isinstance(samples, Predictive):
            y = samples.labels if y is None else y
            samples = samples._kept()
        logits = np.asarray(samples)
        if logits.ndim != 3 or logits.shape[2] < 2:
            raise input_error(
                "samples",
                "MonteCarloTemperature",
                "have shape (S, n, K)",
                f"shape {logits.shape}",
                "pass predict(…).sample_logits",
            )
        if y is None:
            raise input_error("y", "MonteCarloTemperature", "be given", "None", "use a loader that yields targets")
        codes = check_labels(y, logits.shape[1], logits.shape[2], None, "MonteCarloTemperature")
        if self.objective == "samples":
            from calibrant.calibrators.temperature import TemperatureScaling

            stacked = logits.reshape(-1, logits.shape[2])
            fitted = TemperatureScaling(space="logit").fit(stacked, np.tile(codes, len(logits)))
            self.temperature_ = float(fitted.temperature_)
            return self
        self.temperature_ = self._search(logits, codes)
        return self

    @staticmethod
    def _search(logits: Array, codes: Array) -> float:
        from scipy.optimize import minimize_scalar

        rows = np.arange(len(codes))

        def loss(log_temperature: float) -> float:
            true: Floats = np.zeros(len(codes))
            for sample in logits:
                true += softmax(np.asarray(sample, dtype=np.float64) * np.exp(-log_temperature))[rows, codes]
            return float(-np.log(np.maximum(true / len(logits), 1e-300)).mean())  # [1] eq. (28) in eq. (2)

        bounds = (np.log(0.01), np.log(100.0))
        return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x))

    def predict(self, samples: Predictive | Array) -> Predictive:
        """Temper and average new sample logits."""
        if not hasattr(self, "temperature_"):
            raise NotFittedError("MonteCarloTemperature is not fitted. Hint: call fit on held-out samples first.")
        if isinstance(samples, Predictive):
            return samples.tempered(self.temperature_)
        return Predictive.from_logits(np.asarray(samples), temperature=self.temperature_)
