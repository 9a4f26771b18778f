"""Layers that stay random at test time: Bernoulli and Gaussian dropout, Bayes by Backprop."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own abbreviation

from calibrant.torch.batch import check_positive, check_rate, smooth_root

#: One number for both axes, or a pair.
Size: TypeAlias = int | tuple[int, int]
#: Below this variance the standard deviation bends to 0 linearly instead of with an infinite slope.
TINY_VARIANCE = 1e-16


class MCDropout(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Dropout that is active in training *and* at test time.

    Parameters
    ----------
    p : float, default=0.2
        Share of inputs set to 0; the rest is divided by 1 − p.

    Notes
    -----
    Averaging the softmax of several passes (`predict`) is variational inference with Bernoulli weights [1].

    References
    ----------
    .. [1] Gal and Ghahramani (2016), "Dropout as a Bayesian Approximation", ICML.

    Examples
    --------
    >>> import torch
    >>> layer = MCDropout(0.5).eval()
    >>> sorted(set(layer(torch.ones(1000)).tolist()))
    [0.0, 2.0]
    """

    def __init__(self, p: float = 0.2) -> None:
        super().__init__()
        self.p = check_rate(p, "MCDropout")

    def forward(self, x: Tensor) -> Tensor:
        """Drop at random, whatever the mode."""
        return F.dropout(x, self.p, training=True)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"p={self.p}"


class GaussianDropout(nn.Linear):  # type: ignore[misc]  # torch is untyped here
    """Linear layer whose outputs carry the Gaussian noise that dropout on its inputs would cause.

    Parameters
    ----------
    in_features, out_features : int
        As in `torch.nn.Linear`.
    p : float, default=0.2
        The dropout rate whose noise is imitated.
    bias : bool, default=True
        Whether to add a (noise-free) bias.

    Notes
    -----
    y_k ~ N(Σ_j w_kj x_j + b_k, p/(1−p) · Σ_j w_kj² x_j²), drawn per output unit [1, eq. (29)-(32)]; active in
    training and at test time. A zero input gives no noise and a zero, finite slope.

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), appendix A.2.
    .. [2] Wang and Manning (2013), "Fast Dropout Training", ICML.

    Examples
    --------
    >>> import torch
    >>> layer = GaussianDropout(3, 2, p=0.2)
    >>> layer(torch.zeros(1, 3)).shape
    torch.Size([1, 2])
    """

    def __init__(self, in_features: int, out_features: int, p: float = 0.2, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self.p = check_rate(p, "GaussianDropout")

    def forward(self, x: Tensor) -> Tensor:
        """Draw the outputs of one pass."""
        mean = F.linear(x, self.weight, self.bias)  # [1] eq. (30)
        variance = self.p / (1 - self.p) * F.linear(x.square(), self.weight.square())  # [1] eq. (31)
        return mean + smooth_root(variance, TINY_VARIANCE) * torch.randn_like(mean)  # [1] eq. (32)

    def extra_repr(self) -> str:
        """Show sizes and rate."""
        return f"{super().extra_repr()}, p={self.p}"


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
        """Return σ² of weights and bias, σ = softplus(ρ)."""
        weight = F.softplus(self.weight_rho).square()
        return weight, None if self.bias_rho is None else F.softplus(self.bias_rho).square()

    def kl(self) -> Tensor:
        """Return the Kullback–Leibler divergence of the weights' Gaussians from the prior N(0, prior_std²)."""
        total = _kl(self.weight, self.weight_rho, self.prior_std)
        return total if self.bias is None else total + _kl(self.bias, self.bias_rho, self.prior_std)


def _kl(mean: Tensor, rho: Tensor, prior_std: float) -> Tensor:
    """Σ log(s/σ) + (σ² + μ²)/(2s²) − ½, with log σ safe where softplus(ρ) underflows."""
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
    σ = softplus(ρ). The outputs are drawn, not the weights (local reparameterisation [2]): mean x·μ + b, variance
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
        self, in_features: int, out_features: int, bias: bool = True, *, prior_std: float = 1.0,
        initial_std: float = 0.05,
    ) -> None:
        super().__init__((out_features, in_features), bias, prior_std, initial_std, "BayesLinear")

    def forward(self, x: Tensor) -> Tensor:
        """Draw the outputs of one pass."""
        weight, bias = self.variances()
        mean = F.linear(x, self.weight, self.bias)
        variance = F.linear(x.square(), weight, bias)  # [2] eq. (6)
        return mean + smooth_root(variance, TINY_VARIANCE) * torch.randn_like(mean)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}, prior_std={self.prior_std}"


class BayesConv2d(_BayesWeights):
    """Convolution with a Gaussian for each weight, trained by Bayes by Backprop; see `BayesLinear`.

    Parameters
    ----------
    in_channels, out_channels : int
        As in `torch.nn.Conv2d`.
    kernel_size, stride, padding, dilation : int or pair, default stride 1, padding 0, dilation 1
        As in `torch.nn.Conv2d`.
    groups : int, default=1
        As in `torch.nn.Conv2d`.
    bias : bool, default=True
        Whether to add a bias (Gaussian too).
    prior_std, initial_std : float, default=1.0, 0.05
        Prior and starting standard deviations.

    Notes
    -----
    Local reparameterisation: each output position is drawn with the mean and variance of its convolution; the
    noise of neighbouring positions is independent, which has the same marginal law.

    Examples
    --------
    >>> import torch
    >>> BayesConv2d(1, 4, 3, padding=1)(torch.ones(2, 1, 5, 5)).shape
    torch.Size([2, 4, 5, 5])
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0,
        dilation: Size = 1, groups: int = 1, bias: bool = True, *, prior_std: float = 1.0, initial_std: float = 0.05,
    ) -> None:
        size = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
        shape = (out_channels, in_channels // groups, *size)
        super().__init__(shape, bias, prior_std, initial_std, "BayesConv2d")
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def forward(self, x: Tensor) -> Tensor:
        """Draw the outputs of one pass."""
        place = (self.stride, self.padding, self.dilation, self.groups)
        weight, bias = self.variances()
        mean = F.conv2d(x, self.weight, self.bias, *place)
        variance = F.conv2d(x.square(), weight, bias, *place)
        return mean + smooth_root(variance, TINY_VARIANCE) * torch.randn_like(mean)

    def extra_repr(self) -> str:
        """Show the shape of the kernel."""
        return f"{tuple(self.weight.shape)}, stride={self.stride}, padding={self.padding}, prior_std={self.prior_std}"


def kl(model: nn.Module) -> Tensor:
    """Sum the divergence from the prior over every Bayesian layer of a model; 0 if there is none.

    Parameters
    ----------
    model : Module
        Any module that holds `BayesLinear` or `BayesConv2d` layers.

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
