"""Temperature and vector scaling as layers: trained in the loop, or fitted on held-out rows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from calibrant import calibrators
from calibrant.errors import input_error
from calibrant.torch.batch import IGNORE, check_batch, check_positive, widen


class _Scaling(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A linear map of logits, classes in dimension 1, computed in float32 or better."""

    def _fitted(self, logits: Tensor, target: Tensor, ignore_index: int) -> Any:
        """Return the library's calibrator of the same name, fitted on the rows that count."""
        name = type(self).__name__
        if logits.ndim == 1 or logits.shape[1] == 1:
            raise input_error("logits", name, "have two columns or more", f"shape {tuple(logits.shape)}", "stack them")
        batch = check_batch(logits.detach(), target, name, ignore_index=ignore_index)
        if batch.target is None:
            raise input_error("target", name, "hold class indices", "soft labels", "use target.argmax(dim=1)")
        keep = slice(None) if batch.outer is None else batch.outer > 0
        rows, codes = batch.logits[keep].cpu().numpy(), batch.target[keep].cpu().numpy()
        return getattr(calibrators, name)(space="logit").fit(rows, codes)


class TemperatureScaling(_Scaling):
    """Divide logits by one trainable temperature.

    Parameters
    ----------
    temperature : float, default=1.0
        Where T starts.

    Notes
    -----
    z/T with T = exp(log_temperature), so T stays positive while an optimizer moves it. Trained together with the
    network T is one more weight of it; to calibrate, freeze the network and call `fit` on held-out rows, which is
    `calibrant.calibrators.TemperatureScaling` (exact, no learning rate). Images (batch, K, …) keep their shape.

    References
    ----------
    .. [1] Guo et al. (2017), "On Calibration of Modern Neural Networks", ICML, eq. (9).

    Examples
    --------
    >>> import torch
    >>> layer = TemperatureScaling().fit(torch.tensor([[0.9, 0.1]]).log().repeat(4, 1), torch.tensor([0, 0, 0, 1]))
    >>> torch.softmax(layer(torch.tensor([[0.9, 0.1]]).log()), dim=1).detach()
    tensor([[0.7500, 0.2500]])
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        start = math.log(check_positive(temperature, "temperature", "TemperatureScaling"))
        self.log_temperature = nn.Parameter(torch.tensor(start))

    @property
    def temperature(self) -> float:
        """T."""
        return float(self.log_temperature.detach().double().exp())

    def forward(self, logits: Tensor) -> Tensor:
        """Return logits / T, in the dtype of the logits."""
        return (widen(logits) * widen(-self.log_temperature).exp()).to(logits.dtype)  # [1] eq. (9)

    def fit(self, logits: Tensor, target: Tensor, *, ignore_index: int = IGNORE) -> TemperatureScaling:
        """Set T to the optimum on held-out logits (n, K) or (n, K, …)."""
        fitted = self._fitted(logits, target, ignore_index)
        with torch.no_grad():
            self.log_temperature.fill_(math.log(fitted.temperature_))
        return self

    def extra_repr(self) -> str:
        """Show the temperature."""
        return f"temperature={self.temperature:.4g}"


class VectorScaling(_Scaling):
    """Scale and shift the logit of each class by trainable numbers.

    Parameters
    ----------
    n_classes : int
        K.

    Notes
    -----
    a_k·z_k + b_k. `fit` is `calibrant.calibrators.VectorScaling` on held-out rows.

    References
    ----------
    .. [1] Guo et al. (2017), "On Calibration of Modern Neural Networks", ICML, section 4.2.

    Examples
    --------
    >>> import torch
    >>> VectorScaling(3)(torch.tensor([[1.0, 2.0, 3.0]])).detach()
    tensor([[1., 2., 3.]])
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        if isinstance(n_classes, bool) or int(n_classes) != n_classes or n_classes < 2:
            raise input_error("n_classes", "VectorScaling", "be at least 2", repr(n_classes), "count columns")
        self.weight = nn.Parameter(torch.ones(int(n_classes)))
        self.bias = nn.Parameter(torch.zeros(int(n_classes)))

    def forward(self, logits: Tensor) -> Tensor:
        """Return a·z + b, in the dtype of the logits."""
        if logits.ndim < 2 or logits.shape[1] != len(self.weight):
            raise input_error(
                "logits",
                "VectorScaling",
                f"have shape (batch, {len(self.weight)}) or (batch, {len(self.weight)}, …)",
                f"shape {tuple(logits.shape)}",
                "classes stand in dimension 1, as in torch: logits.movedim(-1, 1)",
            )
        shape = (-1, *[1] * (logits.ndim - 2))
        wide = widen(logits) * widen(self.weight).reshape(shape) + widen(self.bias).reshape(shape)  # [1] section 4.2
        return wide.to(logits.dtype)

    def fit(self, logits: Tensor, target: Tensor, *, ignore_index: int = IGNORE) -> VectorScaling:
        """Set scale and shift to the optimum on held-out logits (n, K) or (n, K, …)."""
        fitted = self._fitted(logits, target, ignore_index)
        with torch.no_grad():
            self.weight.copy_(torch.as_tensor(fitted.scale_))
            self.bias.copy_(torch.as_tensor(fitted.shift_))
        return self

    def extra_repr(self) -> str:
        """Show the number of classes."""
        return f"n_classes={len(self.weight)}"
