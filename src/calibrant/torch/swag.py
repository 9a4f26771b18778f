"""SWAG: a Gaussian over weights from the path of the optimiser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant.errors import NotFittedError, input_error
from calibrant.torch.predict import device_of, split_batch

#: Smallest variance of a weight; the original's.
VARIANCE_FLOOR = 1e-30


class SWAG(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Gaussian over weights fitted to the iterates of any optimiser.

    Parameters
    ----------
    model : Module
        The network being trained; it is shared, not copied.
    rank : int, default=0
        Number of last deviations kept for the low-rank part; 0 is the diagonal form of the UCE paper, 20 the
        original's.
    layers : {"all", "last"}, default="all"
        Which weights are random: every parameter, or those of the last layer that has any (the UCE paper).
    refresh : iterable, optional
        Training batches on which batch-norm statistics are recomputed for every sample. Needed when sampled
        weights lie before a batch norm.

    Notes
    -----
    Call `collect` once per epoch (or every few steps) near the optimum. Moments are kept in float64 in one flat
    vector: μ = mean w, σ² = max(mean w² − μ², 10⁻³⁰) [1, eq. (34)]. A sample is
    μ + √scale · (σ·ε₁ + D ε₂/√(rank − 1)) with D the last `rank` deviations from the running mean; scale is ½ with
    the low-rank part (the two ½ of [2]) and 1 without. `state_dict` holds everything.

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), appendix A.2.
    .. [2] Maddox et al. (2019), "A Simple Baseline for Bayesian Uncertainty in Deep Learning", NeurIPS, eq. (1).

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Linear(1, 2, bias=False)
    >>> swag = SWAG(net)
    >>> for value in (1.0, 3.0):
    ...     _ = torch.nn.init.constant_(net.weight, value)
    ...     swag.collect()
    >>> swag.mean.tolist(), swag.variance.tolist()
    ([2.0, 2.0], [1.0, 1.0])
    """

    def __init__(
        self, model: nn.Module, rank: int = 0, layers: Literal["all", "last"] = "all",
        refresh: Iterable[Any] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(rank, bool) or int(rank) != rank or rank < 0 or rank == 1:
            raise input_error("rank", "SWAG", "be 0 or a whole number of at least 2", repr(rank), "20 is usual")
        if layers not in ("all", "last"):
            raise input_error("layers", "SWAG", "be 'all' or 'last'", repr(layers), "choose one of them")
        self.model = model
        self.rank = int(rank)
        self.layers = layers
        self.refresh = refresh
        size = sum(parameter.numel() for parameter in self._parameters_to_draw())
        where = device_of(model, None)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64, device=where))
        self.register_buffer("square", torch.zeros(size, dtype=torch.float64, device=where))
        self.register_buffer("deviations", torch.zeros(self.rank, size, dtype=torch.float64, device=where))

    def _parameters_to_draw(self) -> list[nn.Parameter]:
        if self.layers == "all":
            return list(self.model.parameters())
        return list(last_layer(self.model).parameters(recurse=False))

    def forward(self, x: Tensor) -> Tensor:
        """Run the network with the weights it holds now."""
        return self.model(x)

    def collect(self) -> None:
        """Take the network's present weights into the moments."""
        with torch.no_grad():
            now = nn.utils.parameters_to_vector(self._parameters_to_draw()).double()
            seen = int(self.count)
            self.mean += (now - self.mean) / (seen + 1)
            self.square += (now.square() - self.square) / (seen + 1)
            if self.rank:
                self.deviations[seen % self.rank] = now - self.mean
            self.count += 1

    @property
    def variance(self) -> Tensor:
        """Diagonal of the covariance, at least 10⁻³⁰."""
        return (self.square - self.mean.square()).clamp_min(VARIANCE_FLOOR)  # [1] eq. (34)

    def use_mean(self) -> None:
        """Write the mean weights into the network (stochastic weight averaging)."""
        self._need()
        self._write(self.mean)

    def sample(self, scale: float | None = None, generator: torch.Generator | None = None) -> None:
        """Write one draw of the weights into the network and refresh its batch norms."""
        self._need()
        noise = self.variance.sqrt() * _normal(self.mean, generator)
        kept = min(int(self.count), self.rank)
        if kept > 1:
            weights = _normal(self.mean.new_empty(kept), generator)
            noise = noise + weights @ self.deviations[:kept] / (kept - 1) ** 0.5  # [2] eq. (1)
        if scale is None:
            scale = 0.5 if kept > 1 else 1.0
        self._write(self.mean + scale**0.5 * noise)

    def draws(self, samples: int) -> Iterator[nn.Module]:
        """Yield the network with one draw of weights after the other; its own weights come back at the end."""
        self._need()
        kept = {name: value.clone() for name, value in self.model.state_dict().items()}
        try:
            for _ in range(samples):
                self.sample()
                yield self.model
        finally:
            self.model.load_state_dict(kept)

    def _need(self) -> None:
        if not int(self.count):
            raise NotFittedError("SWAG holds no weights yet. Hint: call collect() after training epochs.")

    def _write(self, vector: Tensor) -> None:
        parameters = self._parameters_to_draw()
        with torch.no_grad():
            nn.utils.vector_to_parameters(vector.to(parameters[0].dtype), parameters)
        if self.layers == "all":
            refresh_batch_norm(self.model, self.refresh)


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def last_layer(model: nn.Module) -> nn.Module:
    """Return the last module that has parameters of its own."""
    owners = [module for module in model.modules() if any(True for _ in module.parameters(recurse=False))]
    if not owners:
        raise input_error("model", "SWAG", "have parameters", "none", "pass a network")
    return owners[-1]


def refresh_batch_norm(model: nn.Module, loader: Iterable[Any] | None) -> None:
    """Recompute the running statistics of every batch norm as plain means over the batches of a loader."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    norms = [module for module in norms if module.track_running_stats]
    if not norms:
        return
    if loader is None:
        raise input_error(
            "refresh", "SWAG", "give training batches, because the network has batch norms", "None",
            "pass refresh=train_loader, or layers='last'",
        )
    where = device_of(model, None)
    modes = {module: module.training for module in model.modules()}
    momenta = {module: module.momentum for module in norms}
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative mean
        norm.train()
    try:
        with torch.no_grad():
            for batch in loader:
                model(split_batch(batch)[0].to(where))
    finally:
        for module, training in modes.items():
            module.training = training
        for norm, momentum in momenta.items():
            norm.momentum = momentum
