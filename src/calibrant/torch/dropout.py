"""Dropout that stays on at test time: Bernoulli, Gaussian, and the layers a network has already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own abbreviation

from calibrant.errors import input_error
from calibrant.torch.batch import check_rate, smooth_root, widen

#: Below this variance the standard deviation bends to 0 linearly instead of with an infinite slope.
TINY_VARIANCE = 1e-16
#: What each of torch's dropout layers does.
KINDS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Dropout: F.dropout,
    nn.Dropout1d: F.dropout1d,
    nn.Dropout2d: F.dropout2d,
    nn.Dropout3d: F.dropout3d,
    nn.AlphaDropout: F.alpha_dropout,
    nn.FeatureAlphaDropout: F.feature_alpha_dropout,
}


def wide(x: Tensor) -> torch.autocast:
    """Return a context in which autocast does not shorten what is computed."""
    return torch.autocast(x.device.type, enabled=False)


def add_noise(mean: Tensor, variance: Tensor) -> Tensor:
    """Draw from N(mean, variance); variances are float32 or better, the answer has the dtype of the mean."""
    return mean + (smooth_root(variance, TINY_VARIANCE) * torch.randn_like(variance)).to(mean.dtype)


class MCDropout(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Dropout that is active in training *and* at test time.

    Parameters
    ----------
    p : float, default=0.2
        Fraction of inputs set to 0; the rest is divided by 1 − p.
    kind : type, default=torch.nn.Dropout
        Whose rule is followed: `torch.nn.Dropout2d` drops whole channels, `torch.nn.AlphaDropout` keeps mean and
        variance.

    Notes
    -----
    Averaging the softmax of several passes (`predict`) is variational inference with Bernoulli weights [1].
    `mc_dropout` puts it in the place of the dropout layers of a network.

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

    def __init__(self, p: float = 0.2, kind: type[nn.Module] = nn.Dropout) -> None:
        super().__init__()
        if kind not in KINDS:
            names = ", ".join(each.__name__ for each in KINDS)
            raise input_error("kind", "MCDropout", f"be one of torch's {names}", repr(kind), "leave it out")
        self.p = check_rate(p, "MCDropout")
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """Drop at random, whatever the mode."""
        return KINDS[self.kind](x, self.p, training=True)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"p={self.p}" + ("" if self.kind is nn.Dropout else f", kind={self.kind.__name__}")


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
    training and at test time. A zero input gives no noise and a zero, finite slope. Variances are float32 or better,
    also under autocast and after `.half()`.

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
        with wide(x):
            variance = self.p / (1 - self.p) * F.linear(widen(x).square(), widen(self.weight).square())  # [1] eq. (31)
        return add_noise(mean, variance)  # [1] eq. (32)

    def extra_repr(self) -> str:
        """Show sizes and rate."""
        return f"{super().extra_repr()}, p={self.p}"


class AlwaysTraining(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A layer of torch whose only random part is dropout, kept in training mode so that it stays on."""

    def train(self, mode: bool = True) -> AlwaysTraining:
        """Set the mode of the parts; the layer itself stays in training."""
        super().train(mode)
        self.training = True
        return self


class MCMultiheadAttention(AlwaysTraining, nn.MultiheadAttention):  # type: ignore[misc]  # torch is untyped here
    """Attention whose dropout stays on."""


class MCLSTM(AlwaysTraining, nn.LSTM):  # type: ignore[misc]  # torch is untyped here
    """LSTM whose dropout stays on."""


class MCGRU(AlwaysTraining, nn.GRU):  # type: ignore[misc]  # torch is untyped here
    """GRU whose dropout stays on."""


class MCRNN(AlwaysTraining, nn.RNN):  # type: ignore[misc]  # torch is untyped here
    """Plain recurrent layer whose dropout stays on."""


class MCTransformerEncoderLayer(AlwaysTraining, nn.TransformerEncoderLayer):  # type: ignore[misc]  # untyped
    """Encoder layer without the shortcut of evaluation mode, which leaves its dropout out."""


#: Layers that drop inside their own forward, by what takes their place.
INNER: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: MCMultiheadAttention,
    nn.LSTM: MCLSTM,
    nn.GRU: MCGRU,
    nn.RNN: MCRNN,
    nn.TransformerEncoderLayer: MCTransformerEncoderLayer,
}


def mc_dropout(model: nn.Module, p: float | None = None) -> nn.Module:
    """Keep the dropout of a trained network on at test time, in place.

    Parameters
    ----------
    model : Module
        A network with dropout layers: `torch.nn.Dropout`, its channel-wise and alpha forms, attention, recurrent and
        transformer encoder layers with ``dropout=``. Weights and names of parameters stay as they are.
    p : float, optional
        Another rate for the dropout layers (not those inside attention and recurrent layers); each keeps its own by
        default.

    Returns
    -------
    Module
        The same network, ready for `predict`. A bare dropout layer comes back as `MCDropout`.

    Notes
    -----
    Dropout that a network calls as a function (``torch.nn.functional.dropout(x, training=self.training)``) is not seen.

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)).eval()
    >>> mc_dropout(net)[1]
    MCDropout(p=0.3)
    """
    if p is not None:
        check_rate(p, "mc_dropout")
    if type(model) in KINDS:
        return MCDropout(_rate(model, p), type(model))
    found = 0
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) in KINDS:
                setattr(parent, name, MCDropout(_rate(child, p), type(child)))
                found += 1
        kind = INNER.get(type(parent))
        if kind is not None and (kind is MCTransformerEncoderLayer or getattr(parent, "dropout", False)):
            parent.__class__ = kind
            parent.train(parent.training)
            found += 1
    if not found:
        raise input_error(
            "model",
            "mc_dropout",
            "hold a dropout layer",
            type(model).__name__,
            "put MCDropout(0.2) before its last layer",
        )
    return model


def _rate(layer: Any, p: float | None) -> float:
    return check_rate(layer.p if p is None else p, "mc_dropout")
