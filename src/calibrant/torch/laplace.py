"""Laplace's approximation of the last layer's posterior, after training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._typing import Floats, Ints
from calibrant.calibrators._torch_module import WideStates
from calibrant.core.links import softmax
from calibrant.errors import NotFittedError, input_error
from calibrant.torch.batch import check_positive, check_word
from calibrant.torch.passes import (
    as_batches,
    counted,
    device_of,
    evaluating,
    find_layer,
    is_output,
    logits_of,
    run,
    split_batch,
    watched,
)
from calibrant.torch.predict import wrong_layer
from calibrant.torch.predictive import entropy

#: Largest number of weights for which the whole Hessian is kept.
MAX_FULL = 4000


@dataclass(frozen=True)
class ProbitPredictive:
    """What `LastLayerLaplace.predict` returns: probabilities in closed form, with the logits' mean and variance."""

    proba: Floats
    logit_mean: Floats
    logit_variance: Floats
    labels: Ints | None = None

    @property
    def total(self) -> Floats:
        """Entropy of the probabilities, in nats."""
        return entropy(self.proba)


class LastLayerLaplace(WideStates):
    """Gaussian over the last linear layer of a trained classifier, from the curvature of its loss.

    Parameters
    ----------
    model : Module
        A trained network whose last `torch.nn.Linear` gives the logits; it is shared, not copied.
    hessian : {"kron", "full"}, default="kron"
        Kronecker-factored (any size) or the whole generalized Gauss-Newton matrix (up to 4000 weights).
    prior_precision : float or "evidence", default="evidence"
        δ of the prior N(0, 1/δ); "evidence" maximizes the marginal likelihood.
    layer : Linear or str, optional
        The layer that gives the logits, itself or by name; by default the last `torch.nn.Linear` by registration. `fit`
        checks that its output is the model's output.

    Notes
    -----
    With φ the layer's input (and a 1 for the bias) and p the softmax, the curvature of the summed loss is
    H = Σ_i (diag p_i − p_i p_iᵀ) ⊗ φ_i φ_iᵀ; "kron" replaces the sum of products by the product of sums over n. The
    posterior is N(w, (H + δI)⁻¹) at the trained w [1]. log evidence = ½(P log δ − δ‖w‖² − log det(H + δI)) + const
    is maximized over log δ. `calibrant.torch.predict` averages draws; `predict` needs none. States are float64 and stay
    so. One output is a binary network: its curvature is p(1 − p).

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
        self,
        model: nn.Module,
        hessian: Literal["kron", "full"] = "kron",
        prior_precision: float | Literal["evidence"] = "evidence",
        *,
        layer: nn.Module | str | None = None,
    ) -> None:
        super().__init__()
        check_word(hessian, ("kron", "full"), "hessian", "LastLayerLaplace")
        if prior_precision != "evidence":
            check_positive(float(prior_precision), "prior_precision", "LastLayerLaplace")
        self.model = model
        self.hessian = hessian
        self.prior_precision = prior_precision
        self._linear = self._find(layer)
        last = self._layer()
        width = last.in_features + (last.bias is not None)
        if hessian == "full" and last.out_features * width > MAX_FULL:
            raise input_error(
                "hessian",
                "LastLayerLaplace",
                f"be 'kron' beyond {MAX_FULL} weights",
                f"{last.out_features * width} weights",
                "use hessian='kron'",
            )
        wide = {"dtype": torch.float64, "device": last.weight.device}
        k, size = last.out_features, last.out_features * width
        self.add_wide("precision", torch.zeros((), **wide))  # δ; 0 = not fitted
        self.add_wide("eigenvalues", torch.zeros((k, width) if hessian == "kron" else (size,), **wide))
        self.add_wide("left", torch.zeros((k, k) if hessian == "kron" else (size, size), **wide))
        self.add_wide("right", torch.zeros((width, width) if hessian == "kron" else (0, 0), **wide))

    def _find(self, layer: nn.Module | str | None) -> str:
        names = {name: module for name, module in self.model.named_modules() if isinstance(module, nn.Linear)}
        if layer is not None:
            found = find_layer(self.model, layer, "LastLayerLaplace")
            names = {name: module for name, module in names.items() if module is found}
        if not names:
            raise input_error("model", "LastLayerLaplace", "end in a torch.nn.Linear", "none", "wrap the head in one")
        return list(names)[-1]

    def _layer(self) -> nn.Linear:
        return self.model.get_submodule(self._linear)

    @property
    def precision(self) -> Tensor:
        """δ of the prior; 0 before `fit`."""
        return self._wide["precision"]

    @property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues of the curvature."""
        return self._wide["eigenvalues"]

    @property
    def left(self) -> Tensor:
        """Eigenvectors by class ("kron"), or of the whole matrix."""
        return self._wide["left"]

    @property
    def right(self) -> Tensor:
        """Eigenvectors by input ("kron")."""
        return self._wide["right"]

    def forward(self, x: Tensor) -> Tensor:
        """Run the network with the weights it holds now."""
        return self.model(x)

    def fit(self, loader: Iterable[Any]) -> LastLayerLaplace:
        """Walk the training batches once and factor the curvature; targets are not needed."""
        outer, curve, whole, n = 0.0, 0.0, 0.0, 0
        for features, logits, _ in self._features(loader):
            p = torch.softmax(logits, dim=1) if logits.shape[1] > 1 else torch.sigmoid(logits)
            if p.shape[1] == 1:
                curvature = p * (1 - p)
                outer = outer + features.T @ (curvature * features)
                curve, whole = torch.full_like(p[:1], 1.0), outer
            elif self.hessian == "kron":
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
            values, left = torch.linalg.eigh(curve)
            others, right = torch.linalg.eigh(outer)
            scale = n if left.shape[0] > 1 else 1  # one output needs no factors: its curvature is exact
            self._keep(eigenvalues=values.clamp_min(0)[:, None] * others.clamp_min(0) / scale, left=left, right=right)
        else:
            values, left = torch.linalg.eigh(whole)
            self._keep(eigenvalues=values.clamp_min(0), left=left)
        chosen = self._best_precision() if self.prior_precision == "evidence" else float(self.prior_precision)
        self.precision.fill_(chosen)
        return self

    def _keep(self, **states: Tensor) -> None:
        for name, value in states.items():
            self._wide[name].copy_(value)

    def _features(self, loader: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Yield inputs (with a 1 for the bias) and outputs of the last layer, float64, and targets, batch by batch."""
        layer, where = self._layer(), device_of(self.model, None)
        checked = False
        with evaluating(self.model), watched(layer) as calls:
            for batch in as_batches(loader):
                inputs, target = split_batch(batch)
                calls.clear()
                logits = logits_of(run(self.model, inputs, where), "LastLayerLaplace")
                if not checked and not (len(calls) == 1 and is_output(calls[0][1], logits) and logits.ndim == 2):
                    raise wrong_layer(self, inputs, where)
                checked = True
                features = calls[0][0][0].to(self.precision.device).double()
                logits = logits.to(features)
                if layer.bias is not None:
                    features = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
                labels, keep = counted(target, len(logits))
                if keep is not None:  # padding has no curvature
                    features, logits = features[keep], logits[keep]
                yield features, logits, labels

    def _weights(self) -> Tensor:
        layer = self._layer()
        weight = layer.weight.detach().to(self.precision.device).double()
        return weight if layer.bias is None else torch.cat([weight, layer.bias.detach().to(weight)[:, None]], dim=1)

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
        self._need()
        mean = self._weights()
        noise = (
            torch.randn(self.eigenvalues.shape, dtype=torch.float64, device=mean.device, generator=generator)
            / (self.eigenvalues + self.precision).sqrt()
        )
        if self.hessian == "kron":
            return mean + self.left @ noise @ self.right.T
        return mean + (self.left @ noise).reshape(mean.shape)

    def head(self) -> tuple[nn.Module | None, bool]:
        """Return the random layer, which has to be the model's output."""
        return self._layer(), True

    def head_draws(self, samples: int) -> list[dict[str, Tensor]]:
        """Return draws of the last layer's weight and bias."""
        layer = self._layer()
        found = []
        for _ in range(samples):
            draw = self.sample()
            parts = {"weight": draw[:, : layer.in_features].to(layer.weight)}
            if layer.bias is not None:
                parts["bias"] = draw[:, -1].to(layer.bias)
            found.append(parts)
        return found

    def draws(self, samples: int) -> Iterator[nn.Module]:
        """Yield the network with one draw of its last layer after the other; the trained weights come back."""
        layer = self._layer()
        kept = {name: value.clone() for name, value in layer.state_dict().items()}
        try:
            for draw in self.head_draws(samples):
                with torch.no_grad():
                    for name, value in draw.items():
                        getattr(layer, name).copy_(value)
                yield self.model
        finally:
            layer.load_state_dict(kept)

    def predict(self, loader: Iterable[Any]) -> ProbitPredictive:
        """Average over the posterior in closed form: no draws, one pass.

        Parameters
        ----------
        loader : iterable
            Batches as for `calibrant.torch.predict`.

        Returns
        -------
        ProbitPredictive
            p = softmax(z_k / √(1 + π/8 · v_k)) with the logits' mean z and variance v_k = φᵀΣ_kk φ; of one output the
            sigmoid, where this is MacKay's approximation of the integral.
        """
        self._need()
        found = [(self._variance(features), logits, labels) for features, logits, labels in self._features(loader)]
        if not found:
            raise input_error("loader", "LastLayerLaplace", "hold at least one batch", "none", "pass batches")
        variance, mean = (torch.cat([part[i] for part in found]).cpu().numpy() for i in (0, 1))
        shrunk = mean / np.sqrt(1 + np.pi / 8 * variance)
        if shrunk.shape[1] == 1:
            shrunk = np.concatenate([np.zeros_like(shrunk), shrunk], axis=1)
        labels = None if found[0][2] is None else torch.cat([part[2] for part in found]).cpu().numpy().astype(np.int64)
        return ProbitPredictive(softmax(shrunk), mean, variance, labels)

    def _variance(self, features: Tensor) -> Tensor:
        """Return the posterior variance of each logit."""
        inverse = 1 / (self.eigenvalues + self.precision)
        if self.hessian == "kron":
            return (features @ self.right).square() @ inverse.T @ self.left.square().T
        k = self._layer().out_features
        rows = self.left.reshape(k, features.shape[1], -1)
        return torch.stack([((features @ rows[i]).square() * inverse).sum(dim=1) for i in range(k)], dim=1)

    def _need(self) -> None:
        if not float(self.precision):
            raise NotFittedError("LastLayerLaplace is not fitted. Hint: call fit(train_loader) first.")
