"""What several networks say together: mean probabilities and the split of their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.links import softmax
from calibrant.errors import input_error


@dataclass(frozen=True)
class Predictive:
    """What several networks say together, as plain arrays.

    Attributes
    ----------
    proba : array of shape (n, K)
        Mean of the samples' probabilities, float64.
    total : array of shape (n,)
        Entropy of the mean, in nats.
    aleatoric : array of shape (n,)
        Mean of the samples' entropies: what would stay if the weights were known.
    sample_logits : array of shape (S, n, K) or None
        Logits of every sample, float32; None when they were not kept.
    labels : array of shape (n,) or None
        Targets, when the loader gave them.

    Notes
    -----
    total = aleatoric + epistemic; `epistemic` is the mutual information of label and weights, never negative.
    `logits` is log `proba`, ready for ``space="logit"``: a calibrator fitted on it acts on the averaged forecast.
    To temper every sample before averaging, as the UCE paper does, use `MonteCarloTemperature`.

    Examples
    --------
    Two networks that contradict each other with certainty: all uncertainty is epistemic.

    >>> import numpy as np
    >>> both = Predictive.from_logits(np.array([[[50.0, 0.0]], [[0.0, 50.0]]]))
    >>> both.proba.round(3), both.epistemic.round(6), both.aleatoric.round(6)
    (array([[0.5, 0.5]]), array([0.693147]), array([0.]))
    """

    proba: Floats
    total: Floats
    aleatoric: Floats
    sample_logits: Array | None = None
    labels: Ints | None = None

    @classmethod
    def from_logits(cls, sample_logits: Array, labels: Ints | None = None, temperature: float = 1.0) -> Predictive:
        """Average softmax(z/T) over samples (S, n, K) kept earlier."""
        mean = np.zeros(sample_logits.shape[1:])
        aleatoric = np.zeros(sample_logits.shape[1])
        for logits in sample_logits:
            proba = softmax(np.asarray(logits, dtype=np.float64) / temperature)
            mean += proba
            aleatoric += entropy(proba)
        mean /= len(sample_logits)
        return cls(mean, entropy(mean), aleatoric / len(sample_logits), sample_logits, labels)

    @property
    def epistemic(self) -> Floats:
        """Mutual information of label and weights, in nats."""
        return np.asarray(np.maximum(self.total - self.aleatoric, 0))

    @property
    def uncertainty(self) -> Floats:
        """Normalized entropy total/log K, in [0, 1]."""
        return np.asarray(np.clip(self.total / np.log(self.proba.shape[1]), 0, 1))

    @property
    def logits(self) -> Floats:
        """Return log of the mean probabilities (an exact 0 becomes the smallest positive float's log)."""
        return np.log(np.maximum(self.proba, np.finfo(np.float64).tiny))

    @property
    def sample_proba(self) -> Floats:
        """Probabilities of every sample, (S, n, K)."""
        return softmax(self._kept())

    def tempered(self, temperature: float) -> Predictive:
        """Divide the logits of every sample by a temperature and average anew."""
        return Predictive.from_logits(self._kept(), self.labels, temperature)

    def _kept(self) -> Array:
        if self.sample_logits is None:
            raise input_error(
                "sample_logits", "Predictive", "have been kept", "none", "call predict(…, keep_samples=True)"
            )
        return self.sample_logits

    def to_dict(self) -> dict[str, Any]:
        """Return the arrays by name."""
        return {
            "proba": self.proba,
            "total": self.total,
            "aleatoric": self.aleatoric,
            "epistemic": self.epistemic,
            "labels": self.labels,
        }

    def __str__(self) -> str:
        return (
            f"{len(self.proba)} predictions · {self.proba.shape[1]} classes · "
            f"mean entropy {self.total.mean():.4f} nats = "
            f"{self.aleatoric.mean():.4f} aleatoric + {self.epistemic.mean():.4f} epistemic"
        )


def entropy(proba: Floats) -> Floats:
    """Return the entropy of each row, in nats."""
    return np.asarray(-np.sum(proba * np.log(np.maximum(proba, np.finfo(np.float64).tiny)), axis=-1))
