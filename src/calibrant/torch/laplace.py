"""Laplace's approximation of the last layer's posterior, after training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant.errors import NotFittedError, input_error
from calibrant.torch.batch import check_positive
from calibrant.torch.predict import device_of, split_batch

#: Largest number of weights for which the whole Hessian is kept.
MAX_FULL = 4000


class LastLayerLaplace(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Gaussian over the last linear layer of a trained classifier, from the curvature of its loss.

    Parameters
    ----------
    model : Module
        A trained network whose last `torch.nn.Linear` gives the logits; it is shared, not copied.
    hessian : {"kron", "full"}, default="kron"
        Kronecker-factored (any size) or the whole generalised Gauss-Newton matrix (up to 4000 weights).
    prior_precision : float or "evidence", default="evidence"
        δ of the prior N(0, 1/δ); "evidence" maximises the marginal likelihood.

    Notes
    -----
    With φ the layer's input (and a 1 for the bias) and p the softmax, the curvature of the summed loss is
    H = Σ_i (diag p_i − p_i p_iᵀ) ⊗ φ_i φ_iᵀ; "kron" replaces the sum of products by the product of sums over n. The
    posterior is N(w, (H + δI)⁻¹) at the trained w [1]. log evidence = ½(P log δ − δ‖w‖² − log det(H + δI)) + const
    is maximised over log δ.

    References
    ----------
    .. [1] Daxberger et al. (2021), "Laplace Redux – Effortless Bayesian Deep Learning", NeurIPS, eq. (4)-(6).

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Linear(2, 2)
    >>> laplace = LastLayerLaplace(net, prior_precision=1.0).fit([(torch.eye(2), torch.tensor([0, 1]))])
    >>> laplace.eigenvalues.shape
    torch.Size([2, 3])
    """

    def __init__(
        self, model: nn.Module, hessian: Literal["kron", "full"] = "kron",
        prior_precision: float | Literal["evidence"] = "evidence",
    ) -> None:
        super().__init__()
        if hessian not in ("kron", "full"):
            raise input_error("hessian", "LastLayerLaplace", "be 'kron' or 'full'", repr(hessian), "choose one of them")
        if prior_precision != "evidence":
            check_positive(float(prior_precision), "prior_precision", "LastLayerLaplace")
        self.model = model
        self.hessian = hessian
        self.prior_precision = prior_precision
        layer = self._layer()
        width = layer.in_features + (layer.bias is not None)
        if hessian == "full" and layer.out_features * width > MAX_FULL:
            raise input_error(
                "hessian", "LastLayerLaplace", f"be 'kron' beyond {MAX_FULL} weights",
                f"{layer.out_features * width} weights", "use hessian='kron'",
            )
        wide = {"dtype": torch.float64, "device": layer.weight.device}
        k, size = layer.out_features, layer.out_features * width
        self.register_buffer("precision", torch.zeros((), **wide))  # δ; 0 = not fitted
        self.register_buffer("eigenvalues", torch.zeros((k, width) if hessian == "kron" else (size,), **wide))
        self.register_buffer("left", torch.zeros((k, k) if hessian == "kron" else (size, size), **wide))
        self.register_buffer("right", torch.zeros((width, width) if hessian == "kron" else (0, 0), **wide))

    def _layer(self) -> nn.Linear:
        linear = [module for module in self.model.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise input_error("model", "LastLayerLaplace", "end in a torch.nn.Linear", "none", "wrap the head in one")
        return linear[-1]

    def forward(self, x: Tensor) -> Tensor:
        """Run the network with the weights it holds now."""
        return self.model(x)

    def fit(self, loader: Iterable[Any]) -> LastLayerLaplace:
        """Walk the training batches once and factor the curvature; targets are not needed."""
        outer, curve, whole, n = 0.0, 0.0, 0.0, 0
        for features, logits in self._features(loader):
            p = torch.softmax(logits, dim=1)
            if self.hessian == "kron":
                outer = outer + features.T @ features
                curve = curve + torch.diag(p.sum(dim=0)) - p.T @ p
            else:
                local = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
                block = torch.einsum("nij,na,nb->iajb", local, features, features)
                whole = whole + block.reshape(p.shape[1] * features.shape[1], -1)
            n += len(p)
        if not n:
            raise input_error("loader", "LastLayerLaplace", "hold at least one batch", "none", "pass training batches")
        if self.hessian == "kron":
            values, self.left = torch.linalg.eigh(curve)
            others, self.right = torch.linalg.eigh(outer)
            self.eigenvalues = values.clamp_min(0)[:, None] * others.clamp_min(0) / n
        else:
            values, self.left = torch.linalg.eigh(whole)
            self.eigenvalues = values.clamp_min(0)
        chosen = self._best_precision() if self.prior_precision == "evidence" else float(self.prior_precision)
        self.precision.fill_(chosen)
        return self

    def _features(self, loader: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs (with a 1 for the bias) and outputs of the last layer, float64, batch by batch."""
        layer, caught = self._layer(), []
        handle = layer.register_forward_hook(lambda _, args, out: caught.append((args[0], out)))
        modes = {module: module.training for module in self.model.modules()}
        self.model.eval()
        try:
            with torch.no_grad():
                for batch in loader:
                    self.model(split_batch(batch)[0].to(device_of(self.model, None)))
                    features, logits = caught.pop()
                    caught.clear()
                    features = features.double()
                    if layer.bias is not None:
                        features = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
                    yield features, logits.double()
        finally:
            handle.remove()
            for module, training in modes.items():
                module.training = training

    def _weights(self) -> Tensor:
        layer = self._layer()
        weight = layer.weight.detach().double()
        return weight if layer.bias is None else torch.cat([weight, layer.bias.detach().double()[:, None]], dim=1)

    def _best_precision(self) -> float:
        from scipy.optimize import minimize_scalar

        norm = float(self._weights().square().sum())
        values = self.eigenvalues.flatten()

        def loss(log_precision: float) -> float:
            precision = torch.tensor(log_precision, dtype=torch.float64).exp()
            return float(precision * norm + (values / precision).log1p().sum())  # −2 log evidence [1]

        return float(torch.tensor(minimize_scalar(loss, bounds=(-12, 12), method="bounded").x).exp())

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw the last layer's weights (K, inputs + bias) from the posterior."""
        if not float(self.precision):
            raise NotFittedError("LastLayerLaplace is not fitted. Hint: call fit(train_loader) first.")
        mean = self._weights()
        noise = torch.randn(
            self.eigenvalues.shape, dtype=torch.float64, device=mean.device, generator=generator
        ) / (self.eigenvalues + self.precision).sqrt()
        if self.hessian == "kron":
            return mean + self.left @ noise @ self.right.T
        return mean + (self.left @ noise).reshape(mean.shape)

    def draws(self, samples: int) -> Iterator[nn.Module]:
        """Yield the network with one draw of its last layer after the other; the trained weights come back."""
        layer = self._layer()
        weight, bias = layer.weight.detach().clone(), None if layer.bias is None else layer.bias.detach().clone()
        drawn = [self.sample() for _ in range(samples)]
        try:
            for draw in drawn:
                with torch.no_grad():
                    layer.weight.copy_(draw[:, : layer.in_features])
                    if bias is not None:
                        layer.bias.copy_(draw[:, -1])
                yield self.model
        finally:
            with torch.no_grad():
                layer.weight.copy_(weight)
                if bias is not None:
                    layer.bias.copy_(bias)
