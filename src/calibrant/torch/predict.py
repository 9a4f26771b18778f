"""Monte-Carlo prediction: mean probabilities and the split of their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._typing import RNG, Array, Floats, Ints
from calibrant.core.links import softmax
from calibrant.errors import input_error
from calibrant.torch.layers import GaussianDropout, MCDropout, _BayesWeights
from calibrant.torch.seeding import seeded


@runtime_checkable
class Posterior(Protocol):
    """Something that holds many networks: `SWAG`, `DeepEnsemble`, `LastLayerLaplace`."""

    def draws(self, samples: int) -> Iterator[nn.Module]:
        """Yield one network after the other; the last step restores what was changed."""
        ...


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
            aleatoric += _entropy(proba)
        mean /= len(sample_logits)
        return cls(mean, _entropy(mean), aleatoric / len(sample_logits), sample_logits, labels)

    @property
    def epistemic(self) -> Floats:
        """Mutual information of label and weights, in nats."""
        return np.asarray(np.maximum(self.total - self.aleatoric, 0))

    @property
    def uncertainty(self) -> Floats:
        """Normalised entropy total/log K, in [0, 1]."""
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
            "proba": self.proba, "total": self.total, "aleatoric": self.aleatoric, "epistemic": self.epistemic,
            "labels": self.labels,
        }

    def __str__(self) -> str:
        return (
            f"{len(self.proba)} predictions · {self.proba.shape[1]} classes · "
            f"mean entropy {self.total.mean():.4f} nats = "
            f"{self.aleatoric.mean():.4f} aleatoric + {self.epistemic.mean():.4f} epistemic"
        )


def _entropy(proba: Floats) -> Floats:
    return np.asarray(-np.sum(proba * np.log(np.maximum(proba, np.finfo(np.float64).tiny)), axis=-1))


def predict(
    model: nn.Module, loader: Iterable[Any], samples: int = 25, *, keep_samples: bool = True, rng: RNG = None,
    device: str | torch.device | None = None,
) -> Predictive:
    """Average the softmax of several random passes and split the uncertainty.

    Parameters
    ----------
    model : Module or posterior
        A network with random layers (`MCDropout`, `GaussianDropout`, `BayesLinear`, `BayesConv2d`), a plain
        network (one pass is enough and one is made), or a `SWAG`, `DeepEnsemble` or `LastLayerLaplace`.
    loader : iterable
        Batches: a tensor x, a pair (x, target), or a longer tuple whose first two are these. Must give the same
        rows in the same order each time (no shuffling): it is walked once per sample. A tensor is one batch.
    samples : int, default=25
        Number of passes; the UCE paper's. An ensemble gives its members, a plain network one.
    keep_samples : bool, default=True
        Keep the logits of every pass (samples × n × K float32), which tempering each sample needs.
    rng : None, int or Generator
        Seed of the random layers; torch's global state is left as it was.
    device : optional
        Where to compute; by default where the model's first parameter lives.

    Returns
    -------
    Predictive
        Arrays on the CPU; modes and weights of the model are as before.

    Notes
    -----
    p(x) = (1/N) Σ_i softmax(f_{w_i}(x)), eq. (28) of [1]; total = H(p), aleatoric = mean H(p_i), epistemic = the
    difference [2]. The model runs in eval mode: batch norm uses its running statistics and ordinary dropout is
    off, the layers of calibrant stay random.

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), appendix A.2.
    .. [2] Depeweg et al. (2018), "Decomposition of Uncertainty in Bayesian Deep Learning", ICML.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import MCDropout
    >>> net = torch.nn.Sequential(MCDropout(0.2), torch.nn.Linear(4, 3))
    >>> result = predict(net, torch.ones(5, 4), samples=10, rng=0)
    >>> result.proba.shape, result.sample_logits.shape
    ((5, 3), (10, 5, 3))
    """
    if isinstance(samples, bool) or int(samples) != samples or samples < 1:
        raise input_error("samples", "predict", "be a whole number of at least 1", repr(samples), "25 is usual")
    batches: Iterable[Any] = [loader] if isinstance(loader, Tensor) else loader
    passes: list[Array] = []
    total: Floats | None = None
    aleatoric: Floats | None = None
    labels: Ints | None = None
    count = 0
    modes = {module: module.training for module in model.modules()}
    try:
        with seeded(rng, "predict"), torch.no_grad():
            for network in _networks(model, samples):
                network.eval()
                logits, labels = _one_pass(network, batches, device, labels)
                proba = softmax(logits)
                total = proba if total is None else total + proba
                entropy = _entropy(proba)
                aleatoric = entropy if aleatoric is None else aleatoric + entropy
                count += 1
                if keep_samples:
                    passes.append(logits)
    finally:
        for module, training in modes.items():
            module.training = training
    if total is None or aleatoric is None:
        raise input_error("model", "predict", "give at least one network", "none", "collect or train members first")
    mean = total / count
    return Predictive(mean, _entropy(mean), aleatoric / count, np.stack(passes) if keep_samples else None, labels)


def is_random(model: nn.Module) -> bool:
    """Whether a second pass of a model in eval mode gives another answer."""
    return any(isinstance(module, MCDropout | GaussianDropout | _BayesWeights) for module in model.modules())


def _networks(model: nn.Module, samples: int) -> Iterator[nn.Module]:
    if isinstance(model, Posterior):
        yield from model.draws(samples)
    else:
        for _ in range(samples if is_random(model) else 1):
            yield model


def split_batch(batch: Any) -> tuple[Any, Tensor | None]:
    """Return inputs and targets (or None) of one batch of a loader."""
    if isinstance(batch, tuple | list):
        return batch[0], torch.as_tensor(batch[1]) if len(batch) > 1 else None
    return batch, None


def device_of(model: nn.Module, device: str | torch.device | None) -> torch.device:
    """Return the asked device, or the one of the model's first parameter."""
    if device is not None:
        return torch.device(device)
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def _one_pass(
    network: nn.Module, batches: Iterable[Any], device: str | torch.device | None, labels: Ints | None
) -> tuple[Array, Ints | None]:
    where = device_of(network, device)
    rows: list[Array] = []
    targets: list[Ints] = []
    for batch in batches:
        inputs, target = split_batch(batch)
        out = network(inputs.to(where) if hasattr(inputs, "to") else inputs)
        out = getattr(out, "logits", out)  # Hugging Face models return a record
        if out.ndim != 2:
            raise input_error(
                "model", "predict", "return logits of shape (batch, K)", f"shape {tuple(out.shape)}",
                "wrap the model so that its forward returns the logits",
            )
        rows.append(out.float().cpu().numpy())
        if target is not None:
            targets.append(target.cpu().numpy().astype(np.int64))
    if not rows:
        raise input_error("loader", "predict", "hold at least one batch", "none", "a generator is empty after one walk")
    found = np.concatenate(targets) if targets else None
    if labels is not None and found is not None and not np.array_equal(labels, found):
        raise input_error(
            "loader", "predict", "give the same rows in the same order for every sample", "labels that moved",
            "use shuffle=False",
        )
    return np.concatenate(rows), found


__all__ = ["Posterior", "Predictive", "device_of", "is_random", "predict", "split_batch"]
