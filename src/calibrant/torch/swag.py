"""SWAG: a Gaussian over weights from the path of the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant.calibrators._torch_module import WideStates
from calibrant.errors import NotFittedError, input_error
from calibrant.torch.batch import check_word
from calibrant.torch.passes import device_of, find_layer, run, split_batch

#: Smallest variance of a weight; the original's.
VARIANCE_FLOOR = 1e-30
#: Kinds of moments, each one tensor per parameter.
MOMENTS = ("mean", "square", "deviations")


class SWAG(WideStates):
    """Gaussian over weights fitted to the iterates of any optimizer.

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
    layer : Module or str, optional
        The one layer whose weights are random, itself or by name, where the last one by registration is not meant.
    device : optional
        Where the moments are kept, for example "cpu" for large networks; beside the weights by default.

    Notes
    -----
    Call `collect` once per epoch (or every few steps) near the optimum. Moments stand beside each parameter and never
    change their dtype: μ = mean w and mean w² in float64, σ² = max(mean w² − μ², 10⁻³⁰) [1, eq. (34)], the last
    `rank` deviations D from the running mean in float32. A sample is μ + √scale · (σ·ε₁ + D ε₂/√(rank − 1)); scale is ½
    with the low-rank part (the two ½ of [2]) and 1 without. Weights keep their dtype and memory format. `state_dict`
    holds everything; `mean`, `square`, `variance` and `deviations` show it as flat vectors.

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
        self,
        model: nn.Module,
        rank: int = 0,
        layers: Literal["all", "last"] = "all",
        refresh: Iterable[Any] | None = None,
        *,
        layer: nn.Module | str | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        super().__init__()
        if isinstance(rank, bool) or int(rank) != rank or rank < 0 or rank == 1:
            raise input_error("rank", "SWAG", "be 0 or a whole number of at least 2", repr(rank), "20 is usual")
        check_word(layers, ("all", "last"), "layers", "SWAG")
        self.model = model
        self.rank = int(rank)
        self.layers = layers
        self.refresh = refresh
        self._wide_device = None if device is None else torch.device(device)
        self._layer = "" if layers == "all" else _name_of(model, last_layer(model))
        if layer is not None:
            self._layer = _name_of(model, find_layer(model, layer, "SWAG"))
        self._chosen = layer is not None
        self.add_wide("count", torch.zeros((), dtype=torch.long))
        for name, parameter in self._drawn().items():
            where = self._wide_device or parameter.device
            for kind, dtype in zip(MOMENTS, (torch.float64, torch.float64, torch.float32), strict=True):
                shape = (self.rank, *parameter.shape) if kind == "deviations" else parameter.shape
                self.add_wide(f"{kind}.{name}", torch.zeros(shape, dtype=dtype, device=where))

    def _part(self) -> nn.Module:
        """Return what is random: the whole model, or one layer."""
        return self.model.get_submodule(self._layer)

    def _drawn(self) -> dict[str, nn.Parameter]:
        return dict(self._part().named_parameters(recurse=self._chosen or self.layers == "all"))

    def _flat(self, kind: str) -> Tensor:
        parts = [self._wide[f"{kind}.{name}"] for name in self._drawn()]
        if kind == "deviations":
            return torch.cat([part.reshape(self.rank, -1) for part in parts], dim=1)
        return torch.cat([part.reshape(-1) for part in parts])

    @property
    def count(self) -> Tensor:
        """Number of iterates taken in."""
        return self._wide["count"]

    @property
    def mean(self) -> Tensor:
        """Mean weights, one flat vector."""
        return self._flat("mean")

    @property
    def square(self) -> Tensor:
        """Mean squared weights, one flat vector."""
        return self._flat("square")

    @property
    def deviations(self) -> Tensor:
        """Last deviations from the running mean, (rank, weights)."""
        return self._flat("deviations")

    @property
    def variance(self) -> Tensor:
        """Diagonal of the covariance, at least 10⁻³⁰."""
        return (self.square - self.mean.square()).clamp_min(VARIANCE_FLOOR)  # [1] eq. (34)

    def forward(self, x: Tensor) -> Tensor:
        """Run the network with the weights it holds now."""
        return self.model(x)

    def collect(self) -> None:
        """Take the network's present weights into the moments."""
        with torch.no_grad():
            seen = int(self.count)
            for name, parameter in self._drawn().items():
                mean, square, deviations = (self._wide[f"{kind}.{name}"] for kind in MOMENTS)
                now = parameter.detach().to(mean.device).double()
                mean += (now - mean) / (seen + 1)
                square += (now.square() - square) / (seen + 1)
                if self.rank:
                    deviations[seen % self.rank] = now - mean
            self.count.add_(1)

    def use_mean(self) -> None:
        """Write the mean weights into the network (stochastic weight averaging)."""
        self._need()
        self._write({name: self._wide[f"mean.{name}"] for name in self._drawn()})

    def sample(self, scale: float | None = None, generator: torch.Generator | None = None) -> None:
        """Write one draw of the weights into the network and refresh its batch norms."""
        self._write(self._draw(scale, generator))

    def _draw(self, scale: float | None = None, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Return one draw of each random parameter, in its own dtype."""
        self._need()
        kept = min(int(self.count), self.rank)
        if scale is None:
            scale = 0.5 if kept > 1 else 1.0
        parameters = self._drawn()
        shared = _normal(self._wide[f"mean.{next(iter(parameters))}"].new_empty(kept), generator) if kept > 1 else None
        drawn = {}
        for name, parameter in parameters.items():
            mean, square, deviations = (self._wide[f"{kind}.{name}"] for kind in MOMENTS)
            noise = (square - mean.square()).clamp_min(VARIANCE_FLOOR).sqrt() * _normal(mean, generator)
            if shared is not None:
                low = torch.tensordot(shared.to(deviations.dtype), deviations[:kept], dims=1)
                noise = noise + low / (kept - 1) ** 0.5  # [2] eq. (1)
            drawn[name] = (mean + scale**0.5 * noise).to(parameter)
        return drawn

    def draws(self, samples: int) -> Iterator[nn.Module]:
        """Yield the network with one draw of weights after the other; its own weights come back at the end."""
        self._need()
        part = self.model if self._refreshes() else self._part()
        kept = {name: value.clone() for name, value in part.state_dict().items()}
        try:
            for _ in range(samples):
                self.sample()
                yield self.model
        finally:
            part.load_state_dict(kept)

    def head(self) -> tuple[nn.Module | None, bool]:
        """Return the only random layer, and whether it has to be the model's output (as "last" says)."""
        return (self._part(), not self._chosen) if self._layer else (None, False)

    def head_draws(self, samples: int) -> list[dict[str, Tensor]]:
        """Return draws of the random layer's parameters by name."""
        return [self._draw() for _ in range(samples)]

    def _need(self) -> None:
        if not int(self.count):
            raise NotFittedError("SWAG holds no weights yet. Hint: call collect() after training epochs.")

    def _refreshes(self) -> bool:
        return not self._layer or self._chosen

    def _write(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._drawn().items():
                parameter.copy_(weights[name])  # in place: dtype and memory format stay
        if self._refreshes():
            refresh_batch_norm(self.model, self.refresh)


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    where = like.device if generator is None else generator.device
    return torch.randn(like.shape, dtype=like.dtype, device=where, generator=generator).to(like.device)


def _name_of(model: nn.Module, layer: nn.Module) -> str:
    return next(name for name, module in model.named_modules() if module is layer)


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
            "refresh",
            "SWAG",
            "give training batches, because the network has batch norms",
            "None",
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
                run(model, split_batch(batch)[0], where)
    finally:
        for module, training in modes.items():
            module.training = training
        for norm, momentum in momenta.items():
            norm.momentum = momentum
