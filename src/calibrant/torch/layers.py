"""Layers with a Gaussian for each weight (Bayes by Backprop), random in training and at test time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own abbreviation

from calibrant.errors import input_error
from calibrant.torch.batch import check_positive, check_word, widen
from calibrant.torch.dropout import add_noise, wide

#: One number for all axes, or one for each.
Size: TypeAlias = int | tuple[int, ...]


class _BayesWeights(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A Gaussian for each weight and bias: means, softplus standard deviations, divergence from the prior."""

    def __init__(self, shape: tuple[int, ...], bias: bool, prior_std: float, initial_std: float, caller: str) -> None:
        super().__init__()
        self.prior_std = check_positive(prior_std, "prior_std", caller)
        self.initial_std = check_positive(initial_std, "initial_std", caller)
        self.weight = nn.Parameter(torch.empty(shape))
        self.weight_rho = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(shape[0])) if bias else None
        self.bias_rho = nn.Parameter(torch.empty(shape[0])) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the means as torch's own layers do, and every standard deviation at `initial_std`."""
        rho = math.log(math.expm1(self.initial_std))  # softplus⁻¹
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        nn.init.constant_(self.weight_rho, rho)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)
            nn.init.constant_(self.bias_rho, rho)

    def variances(self) -> tuple[Tensor, Tensor | None]:
        """Return σ² of weights and bias, σ = softplus(ρ), in float32 or better."""
        weight = F.softplus(widen(self.weight_rho)).square()
        return weight, None if self.bias_rho is None else F.softplus(widen(self.bias_rho)).square()

    def kl(self) -> Tensor:
        """Return the Kullback–Leibler divergence of the weights' Gaussians from the prior N(0, prior_std²)."""
        total = _kl(self.weight, self.weight_rho, self.prior_std)
        return total if self.bias is None else total + _kl(self.bias, self.bias_rho, self.prior_std)


def _kl(mean: Tensor, rho: Tensor, prior_std: float) -> Tensor:
    """Σ log(s/σ) + (σ² + μ²)/(2s²) − ½, with log σ safe where softplus(ρ) underflows."""
    mean, rho = widen(mean), widen(rho)
    low = rho < -20
    sigma = F.softplus(rho)
    log_sigma = torch.where(low, rho, torch.where(low, torch.ones_like(sigma), sigma).log())
    return (math.log(prior_std) - log_sigma + (sigma.square() + mean.square()) / (2 * prior_std**2) - 0.5).sum()


class BayesLinear(_BayesWeights):
    """Linear layer with a Gaussian for each weight, trained by Bayes by Backprop.

    Parameters
    ----------
    in_features, out_features : int
        As in `torch.nn.Linear`.
    bias : bool, default=True
        Whether to add a bias (Gaussian too).
    prior_std : float, default=1.0
        Standard deviation of the prior N(0, prior_std²).
    initial_std : float, default=0.05
        Where every posterior standard deviation starts.

    Notes
    -----
    σ = softplus(ρ). The outputs are drawn, not the weights (local reparameterization [2]): mean x·μ + b, variance
    x²·σ² + σ_b², independent for each row. Train with ``loss + kl(model) / len(train_set)`` [1, eq. (2)].

    References
    ----------
    .. [1] Blundell et al. (2015), "Weight Uncertainty in Neural Networks", ICML.
    .. [2] Kingma, Salimans and Welling (2015), "Variational Dropout and the Local Reparameterization Trick", NeurIPS.

    Examples
    --------
    >>> import torch
    >>> layer = BayesLinear(3, 2)
    >>> layer(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    >>> bool(kl(layer) > 0)
    True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        prior_std: float = 1.0,
        initial_std: float = 0.05,
    ) -> None:
        super().__init__((out_features, in_features), bias, prior_std, initial_std, "BayesLinear")

    def forward(self, x: Tensor) -> Tensor:
        """Draw the outputs of one pass."""
        mean = F.linear(x, self.weight, self.bias)
        with wide(x):
            variance = F.linear(widen(x).square(), *self.variances())  # [2] eq. (6)
        return add_noise(mean, variance)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}, prior_std={self.prior_std}"


class _BayesConv(_BayesWeights):
    """Convolution of any dimension with a Gaussian for each weight."""

    n_axes: int
    convolve: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        prior_std: float = 1.0,
        initial_std: float = 0.05,
    ) -> None:
        caller = type(self).__name__
        size, steps, holes = (self._axes(value) for value in (kernel_size, stride, dilation))
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise input_error(
                "groups",
                caller,
                "divide in_channels and out_channels",
                f"{groups} with {in_channels} and {out_channels}",
                "use 1, or in_channels for a depthwise layer",
            )
        modes = ("zeros", "reflect", "replicate", "circular")
        check_word(padding_mode, modes, "padding_mode", caller, "as in torch's convolutions")
        super().__init__((out_channels, in_channels // groups, *size), bias, prior_std, initial_std, caller)
        self.stride, self.padding, self.dilation, self.groups = steps, padding, holes, groups
        self.padding_mode = padding_mode
        sides = _sides(padding, size, steps, holes, caller, self.n_axes)
        inside = padding_mode == "zeros" and sides[::2] == sides[1::2]  # torch pads zeros itself, without a copy
        self._padding = sides[::-2] if inside else (0,) * self.n_axes
        self._sides = () if inside or not any(sides) else sides

    @classmethod
    def _axes(cls, value: Size) -> tuple[int, ...]:
        return value if isinstance(value, tuple) else (value,) * cls.n_axes

    def forward(self, x: Tensor) -> Tensor:
        """Draw the outputs of one pass."""
        if self._sides:
            x = F.pad(x, self._sides, mode="constant" if self.padding_mode == "zeros" else self.padding_mode)
        place = (self.stride, self._padding, self.dilation, self.groups)
        convolve = type(self).convolve
        mean = convolve(x, self.weight, self.bias, *place)
        with wide(x):
            variance = convolve(widen(x).square(), *self.variances(), *place)
        return add_noise(mean, variance)

    def extra_repr(self) -> str:
        """Show the shape of the kernel."""
        shown = f"{tuple(self.weight.shape)}, stride={self.stride}, padding={self.padding}"
        more = "" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode!r}"
        return f"{shown}, groups={self.groups}{more}, prior_std={self.prior_std}"


def _sides(
    padding: Size | str,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    caller: str,
    n_axes: int,
) -> tuple[int, ...]:
    """Return what `F.pad` wants: left and right of each axis, the last axis first."""
    if padding == "valid":
        return (0,) * (2 * n_axes)
    if padding == "same":
        if any(step != 1 for step in stride):
            raise input_error("padding", caller, "be a number with a stride", "'same'", "use stride=1")
        whole = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
        pairs = [(total // 2, total - total // 2) for total in whole]
    elif isinstance(padding, str):
        raise input_error("padding", caller, "be 'same', 'valid' or whole numbers", repr(padding), "use 0")
    else:
        pairs = [(p, p) for p in (padding if isinstance(padding, tuple) else (padding,) * n_axes)]
    return tuple(side for pair in reversed(pairs) for side in pair)


class BayesConv1d(_BayesConv):
    """Convolution of sequences with a Gaussian for each weight; see `BayesConv2d`.

    Examples
    --------
    >>> import torch
    >>> BayesConv1d(2, 4, 3, padding="same", padding_mode="circular")(torch.ones(2, 2, 7)).shape
    torch.Size([2, 4, 7])
    """

    n_axes, convolve = 1, F.conv1d


class BayesConv2d(_BayesConv):
    """Convolution with a Gaussian for each weight, trained by Bayes by Backprop; see `BayesLinear`.

    Parameters
    ----------
    in_channels, out_channels : int
        As in `torch.nn.Conv2d`.
    kernel_size, stride, padding, dilation : int or tuple, default stride 1, padding 0, dilation 1
        As in `torch.nn.Conv2d`; padding may be "same" or "valid".
    groups : int, default=1
        As in `torch.nn.Conv2d`.
    bias : bool, default=True
        Whether to add a bias (Gaussian too).
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, default="zeros"
        As in `torch.nn.Conv2d`.
    prior_std, initial_std : float, default=1.0, 0.05
        Prior and starting standard deviations.

    Notes
    -----
    Local reparameterization: each output position is drawn with the mean and variance of its convolution; the
    noise of neighboring positions is independent, which has the same marginal distribution.

    Examples
    --------
    >>> import torch
    >>> BayesConv2d(1, 4, 3, padding=1)(torch.ones(2, 1, 5, 5)).shape
    torch.Size([2, 4, 5, 5])
    """

    n_axes, convolve = 2, F.conv2d


class BayesConv3d(_BayesConv):
    """Convolution of volumes with a Gaussian for each weight; see `BayesConv2d`.

    Examples
    --------
    >>> import torch
    >>> BayesConv3d(2, 4, 3, groups=2)(torch.ones(1, 2, 5, 5, 5)).shape
    torch.Size([1, 4, 3, 3, 3])
    """

    n_axes, convolve = 3, F.conv3d


def kl(model: nn.Module) -> Tensor:
    """Sum the divergence from the prior over every Bayesian layer of a model; 0 if there is none.

    Parameters
    ----------
    model : Module
        Any module that holds `BayesLinear`, `BayesConv1d`, `BayesConv2d` or `BayesConv3d` layers.

    Returns
    -------
    Tensor
        A scalar in nats; add ``kl(model) / len(train_set)`` to the mean loss of a batch.

    Notes
    -----
    KL(N(μ, σ²) ‖ N(0, s²)) = Σ log(s/σ) + (σ² + μ²)/(2s²) − ½.

    References
    ----------
    .. [1] Blundell et al. (2015), "Weight Uncertainty in Neural Networks", ICML, eq. (2).

    Examples
    --------
    >>> import torch
    >>> float(kl(torch.nn.Linear(2, 2)))
    0.0
    """
    terms = [module.kl() for module in model.modules() if isinstance(module, _BayesWeights)]
    if terms:
        return torch.stack(terms).sum()
    parameter = next(model.parameters(), None)
    return torch.zeros((), device=None if parameter is None else parameter.device)
