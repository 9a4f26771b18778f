"""Monte-Carlo prediction: several random passes over the batches of a loader."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._typing import RNG, Array, Floats, Ints
from calibrant.core.links import softmax
from calibrant.core.options import check_count
from calibrant.errors import CalibrantWarning, InputError, input_error
from calibrant.torch.batch import IGNORE
from calibrant.torch.dropout import AlwaysTraining, GaussianDropout, MCDropout
from calibrant.torch.layers import _BayesWeights
from calibrant.torch.passes import (
    as_batches,
    counted,
    device_of,
    evaluating,
    is_output,
    logit_rows,
    logits_of,
    output_layer,
    run,
    split_batch,
    watched,
)
from calibrant.torch.predictive import Predictive, entropy
from calibrant.torch.seeding import seeded

CALLER = "predict"


@runtime_checkable
class Posterior(Protocol):
    """Something that holds many networks: `SWAG`, `DeepEnsemble`, `LastLayerLaplace`."""

    def draws(self, samples: int) -> Iterator[nn.Module]:
        """Yield one network after the other; the last step restores what was changed."""
        ...


@runtime_checkable
class LastLayerPosterior(Protocol):
    """A posterior of one layer: the rest of the network runs once."""

    model: nn.Module

    def head(self) -> tuple[nn.Module | None, bool]:
        """Return the random layer (None when there are more), and whether it has to be the model's output."""
        ...

    def head_draws(self, samples: int) -> list[dict[str, Tensor]]:
        """Return draws of that layer's parameters by name."""
        ...


def predict(
    model: nn.Module,
    loader: Iterable[Any],
    samples: int = 25,
    *,
    keep_samples: bool = True,
    rng: RNG = None,
    device: str | torch.device | None = None,
    ignore_index: int = IGNORE,
) -> Predictive:
    """Average the softmax of several random passes and split the uncertainty.

    Parameters
    ----------
    model : Module or posterior
        A network with random layers (`MCDropout`, `GaussianDropout`, `BayesLinear`, …, layers of your own), or a
        `SWAG`, `DeepEnsemble` or `LastLayerLaplace`. A network without any is passed once, with a warning.
    loader : iterable
        Batches: a tensor x, a pair (x, target), a longer tuple whose first two are these, or a dictionary of named
        inputs with "labels" (Hugging Face). A tensor or dictionary is one batch. A shuffled loader must give targets;
        for `SWAG` of all layers it is walked once per sample and must not shuffle at all.
    samples : int, default=25
        Number of passes; the UCE paper's. An ensemble gives its members, a plain network one.
    keep_samples : bool, default=True
        Keep the logits of every pass (samples × n × K float32, held once), which tempering each sample needs.
    rng : None, int or Generator
        Seed of the random layers; torch's global state is left as it was.
    device : optional
        Where to compute; by default where the model's first parameter lives.
    ignore_index : int, default=-100
        Rows with this target are left out: padding, unlabeled pixels.

    Returns
    -------
    Predictive
        Arrays on the CPU; modes and weights of the model are as before.

    Notes
    -----
    p(x) = (1/N) Σ_i softmax(f_{w_i}(x)), eq. (28) of [1]; total = H(p), aleatoric = mean H(p_i), epistemic = the
    difference [2]. The model runs in eval mode: batch norm uses its running statistics and ordinary dropout is
    off, the layers of calibrant stay random (`mc_dropout` keeps ordinary dropout on). One logit becomes two columns;
    pixels (batch, K, …) and tokens become rows. The body of a network whose last layer alone is random runs once.

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
    check_count(samples, "samples", CALLER, 1, "25")
    walk = _Walk(loader, device, ignore_index, keep_samples)
    with seeded(rng, CALLER), evaluating(model):
        if not _is_posterior(model):
            networks = [model] * _count(model, walk, int(samples))
        elif (head := _head(model, walk)) is not None:
            draws = model.head_draws(int(samples))
            return walk.once(lambda inputs: _head_passes(model.model, head, draws, inputs, device))
        elif not hasattr(model, "members"):
            return walk.each(model.draws(int(samples)))
        else:
            networks = list(model.draws(int(samples)))
        return walk.once(lambda inputs: (run(net, inputs, device_of(net, device)) for net in networks))


def _is_posterior(model: Any) -> bool:
    return isinstance(model, Posterior)


def is_random(model: nn.Module) -> bool:
    """Whether a model holds a layer of calibrant that stays random in eval mode."""
    kinds = (MCDropout, GaussianDropout, _BayesWeights, AlwaysTraining)
    return any(isinstance(module, kinds) for module in model.modules())


def _count(model: nn.Module, walk: _Walk, samples: int) -> int:
    """Return how many passes of one network differ; say so when one is all there is."""
    if samples == 1 or is_random(model) or walk.differs(model):
        return samples
    warnings.warn(
        "predict made one pass: the network has no random layer. Hint: keep its dropout on with "
        "calibrant.torch.mc_dropout(model), or ask for samples=1.",
        CalibrantWarning,
        stacklevel=3,
    )
    return 1


def _head(model: Any, walk: _Walk) -> nn.Module | None:
    """Return the only random layer of a posterior, when the model's output is its output."""
    if not isinstance(model, LastLayerPosterior) or is_random(model.model):
        return None
    layer, must = model.head()
    if layer is None:
        return None
    inputs, where = walk.first(), device_of(model, walk.device)
    with watched(layer) as calls:
        logits = logits_of(run(model.model, inputs, where), CALLER)
    if len(calls) == 1 and is_output(calls[0][1], logits):
        return layer
    if must:
        raise wrong_layer(model, inputs, where)
    return None


def wrong_layer(posterior: Any, inputs: Any, where: torch.device) -> InputError:
    """Return the error of a posterior whose layer is not the one that gives the model's output."""
    name = output_layer(posterior.model, inputs, where)
    return input_error(
        "layer",
        type(posterior).__name__,
        "give the model's output",
        "a layer that is last in the order of registration only, or whose output goes on",
        f"pass layer={name!r}" if name else "wrap the model so that it returns the output of its last layer",
    )


def _head_passes(
    model: nn.Module, layer: nn.Module, draws: list[dict[str, Tensor]], inputs: Any, device: str | torch.device | None
) -> Iterator[Any]:
    """Run the body once and the last layer with each draw."""
    with watched(layer) as calls:
        run(model, inputs, device_of(model, device))
    for draw in draws:
        yield torch.func.functional_call(layer, draw, calls[-1][0])


class _Walk:
    """Walks the batches of a loader and gathers what networks say about their rows."""

    def __init__(self, loader: Any, device: str | torch.device | None, ignore_index: int, keep_samples: bool) -> None:
        self.batches = as_batches(loader)
        if isinstance(self.batches, Iterator):  # a generator gives its rows once
            self.batches = list(self.batches)
        self.shuffled = isinstance(getattr(loader, "sampler", None), torch.utils.data.RandomSampler)
        self.device, self.ignore_index, self.keep_samples = device, ignore_index, keep_samples

    def first(self) -> Any:
        """Return the inputs of the first batch."""
        for batch in self.batches:
            return split_batch(batch)[0]
        raise _empty()

    def differs(self, model: nn.Module) -> bool:
        """Whether two passes over the first batch differ: layers of the user's own may be random."""
        inputs, where = self.first(), device_of(model, self.device)
        one, two = (logits_of(run(model, inputs, where), CALLER) for _ in range(2))
        return not torch.equal(one, two)

    def _split(self, batch: Any) -> tuple[Any, Tensor | None]:
        inputs, target = split_batch(batch)
        if target is None and self.shuffled:
            raise _shuffled("a shuffled loader without targets")
        return inputs, target

    def _rows(self, out: Any, target: Tensor | None) -> tuple[Array, Ints | None]:
        """Return the logits and labels of the rows that count."""
        logits = logit_rows(logits_of(out, CALLER), target, CALLER)
        labels, keep = counted(target, len(logits), self.ignore_index)
        logits = logits if keep is None else logits[keep.to(logits.device)]
        return logits.cpu().numpy(), None if labels is None else labels.cpu().numpy().astype(np.int64)

    def once(self, passes: Callable[[Any], Iterator[Any]]) -> Predictive:
        """Walk once; `passes` gives the outputs of every network on one batch."""
        found: list[tuple[Floats, Floats, Ints | None]] = []
        kept: list[Array] = []
        for batch in self.batches:
            inputs, target = self._split(batch)
            sums = _Sums()
            for out in passes(inputs):
                logits, labels = self._rows(out, target)
                sums.add(logits)
                if self.keep_samples:
                    kept.append(logits)
            if not sums.count:
                raise input_error("model", CALLER, "give at least one network", "none", "train members first")
            found.append((sums.mean / sums.count, sums.aleatoric / sums.count, labels))
        if not found:
            raise _empty()
        proba, aleatoric = (np.concatenate([part[i] for part in found]) for i in (0, 1))
        labels = None if found[0][2] is None else np.concatenate([part[2] for part in found])
        samples = _one_copy(kept, sums.count, len(proba)) if self.keep_samples else None
        return Predictive(proba, entropy(proba), aleatoric, samples, labels)

    def each(self, networks: Iterable[nn.Module]) -> Predictive:
        """Walk once for every network, because only one exists at a time."""
        if self.shuffled:
            raise _shuffled("a shuffled loader, which is walked once per sample")
        sums, kept, before = _Sums(), [], None
        for network in networks:
            network.eval()
            parts, seen = [], []
            for batch in self.batches:
                inputs, target = self._split(batch)
                out = run(network, inputs, device_of(network, self.device))
                parts.append(self._rows(out, target))
                seen.append(_digest(inputs) if parts[-1][1] is None else parts[-1][1])
            if not parts:
                raise _empty()
            if before is not None and not (len(before) == len(seen) and all(map(np.array_equal, before, seen))):
                raise _shuffled("labels or inputs that moved")
            before = before or seen
            logits = np.concatenate([part[0] for part in parts])
            sums.add(logits)
            if self.keep_samples:
                kept.append(logits)
        if not sums.count:
            raise input_error("model", CALLER, "give at least one network", "none", "collect weights first")
        proba = sums.mean / sums.count
        labels = None if parts[0][1] is None else np.concatenate([part[1] for part in parts])
        samples = _stack(kept) if self.keep_samples else None
        return Predictive(proba, entropy(proba), sums.aleatoric / sums.count, samples, labels)


class _Sums:
    """Running sums of probabilities and entropies over samples."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = 0.0
        self.aleatoric: Any = 0.0

    def add(self, logits: Array) -> None:
        proba = softmax(logits)
        self.mean = self.mean + proba
        self.aleatoric = self.aleatoric + entropy(proba)
        self.count += 1


def _one_copy(kept: list[Array], count: int, n: int) -> Array:
    """Return (samples, n, K) from the samples of each batch in turn, giving each part back as it is copied."""
    out = np.empty((count, n, kept[0].shape[1]), dtype=kept[0].dtype)
    kept.reverse()
    stop = 0
    while kept:
        start, stop = stop, stop + len(kept[-1])
        for sample in range(count):
            out[sample, start:stop] = kept.pop()
    return out


def _stack(kept: list[Array]) -> Array:
    out = np.empty((len(kept), *kept[0].shape), dtype=kept[0].dtype)
    for sample in reversed(range(len(out))):
        out[sample] = kept.pop()
    return out


def _digest(inputs: Any) -> Array:
    """Return a few numbers that change when other rows come."""
    values = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    flat = [value.reshape(-1) for value in values if isinstance(value, Tensor)]
    return np.array([float(part.double().sum()) for part in flat] + [float(x) for part in flat for x in part[:8]])


def _empty() -> InputError:
    return input_error("loader", CALLER, "hold at least one batch", "none", "a generator is empty after one walk")


def _shuffled(got: str) -> InputError:
    return input_error(
        "loader", CALLER, "give the same rows in the same order for every sample", got, "use shuffle=False"
    )


__all__ = ["Posterior", "Predictive", "device_of", "is_random", "predict", "split_batch"]
