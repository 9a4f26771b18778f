"""Layers and posteriors: what they answer with known noise against float64 weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from calibrant import torch as ct
from calibrant_benchmarks.torch_matrix import inputs as given
from calibrant_benchmarks.torch_matrix.judge import ROUNDING, Comparison


def _some_vector_scaling() -> nn.Module:
    layer = ct.VectorScaling(5)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.3, 1.7)
    return layer


#: Layer -> (how it is built, shape of its input after the batch, whether classes stand in dimension 1).
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "GaussianDropout": (lambda: ct.GaussianDropout(8, 5), (8,), False),
    "BayesLinear": (lambda: ct.BayesLinear(8, 5), (8,), False),
    "BayesConv1d": (lambda: ct.BayesConv1d(4, 5, 3, padding=1), (4, 6), True),
    "BayesConv2d": (lambda: ct.BayesConv2d(4, 5, 3, padding=1), (4, 6, 6), True),
    "BayesConv3d": (lambda: ct.BayesConv3d(2, 5, 3, padding=1), (2, 4, 4, 4), True),
    "TemperatureScaling": (lambda: ct.TemperatureScaling(1.7), (5,), True),
    "VectorScaling": (_some_vector_scaling, (5,), True),
}


FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def check_layer(name: str, condition: str) -> list[Comparison]:
    """Compare the mean and the mean plus one standard deviation of a layer, and the slopes of its weights."""
    build, shape, spatial = LAYERS[name]
    torch.manual_seed(0)
    layer = build()
    exact: Any = copy.deepcopy(layer).double()
    draw = torch.Generator().manual_seed(1 + given.rank())
    x = torch.randn(6, *shape, generator=draw)
    if condition == "segmentation" and len(shape) == 1:  # each pixel is a row of a linear layer
        image = torch.randn(6, *shape, 3, 4, generator=draw)
        x = image if spatial else image.movedim(1, -1)
    layer = given.turned(layer, condition)
    if condition in (".half()", ".bfloat16()"):
        exact = copy.deepcopy(layer).double()  # the rounded weights
    x = (300 * x if name == "GaussianDropout" else x).to(given.dtype_of(condition))  # 300² is no float16
    if condition == "channels-last":
        if x.ndim in FORMATS:
            layer, x = layer.to(memory_format=FORMATS[x.ndim]), x.contiguous(memory_format=FORMATS[x.ndim])
        else:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
    if condition == "padding":
        x[0] = torch.nan
    run: Any = layer
    if condition == "compile":
        run = given.compiled(layer)
    if condition == "DDP":
        run = given.wrapped(layer)
    kept = slice(1, None) if condition == "padding" else slice(None)
    pairs: list[Comparison] = []
    outs = []
    for noise in (0.0, 1.0):
        with given.known_noise(noise):
            with given.autocast(condition):
                out = run(x)
            expected = exact(x[kept].double())
        pairs.append((out[kept], expected, ROUNDING[out.dtype]))
        outs.append((out[kept], expected))
    if not torch.equal(outs[0][1], outs[1][1]):  # the spread alone: a variance in float16 shows
        tolerance = ROUNDING[outs[0][0].dtype] * float(outs[1][1].abs().max() / (outs[1][1] - outs[0][1]).abs().max())
        pairs.append((outs[1][0] - outs[0][0], outs[1][1] - outs[0][1], 2 * tolerance))
    if condition in ("float32", "compile", "DDP"):
        pairs += _slopes(outs[1], layer, exact, condition)
    return pairs


def _slopes(outs: tuple[Tensor, Tensor], layer: nn.Module, exact: nn.Module, condition: str) -> list[Comparison]:
    for out in outs:
        (out.square().sum() / 1000).backward()
    found, expected = ([p.grad for p in part.parameters()] for part in (layer, exact))
    if condition == "DDP":  # the mean over both processes
        for grad in expected:
            torch.distributed.all_reduce(grad)
        expected = [grad / 2 for grad in expected]
    return [(a, b, 1e-4) for a, b in zip(found, expected, strict=True)]


def check_dropout(condition: str) -> list[Comparison]:
    """What `MCDropout` keeps is x/(1 − p), and it keeps a fraction of 1 − p (within five standard deviations)."""
    torch.manual_seed(given.rank())
    p, layer = 0.25, ct.MCDropout(0.25).eval()
    network: Any = given.turned(nn.Sequential(nn.Identity(), layer, nn.Linear(1, 1)), condition)[:2]
    x = torch.rand(40, 10, 10, 10).to(given.dtype_of(condition)) + 1
    if condition == "channels-last":
        x = x.contiguous(memory_format=torch.channels_last)
    if condition == "padding":
        x[::2] = torch.nan
    if condition == "compile":
        network = given.compiled(network)
    if condition == "DDP":
        network = given.wrapped(nn.Sequential(network, nn.Identity(), _Anchor()))
    with given.autocast(condition):
        out = network(x).detach()
    x, out = (x[1::2], out[1::2]) if condition == "padding" else (x, out)
    kept = out != 0
    share = kept.double().mean()
    spread = 5 * (p * (1 - p) / kept.numel()) ** 0.5
    return [
        (out[kept], x[kept].double() / (1 - p), ROUNDING[out.dtype]),
        (share, torch.tensor(1 - p), spread / (1 - p)),
    ]


class _Anchor(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A weight of 1, because data-parallel models need one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by it."""
        return x * self.weight


# -- posteriors ------------------------------------------------------------------------------------


def network(dense: bool = False, noisy: bool = False) -> nn.Sequential:
    """Return a small network of images: one answer for each, or for each pixel."""
    torch.manual_seed(0)
    if dense:
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    head = ct.GaussianDropout(36, 3) if noisy else nn.Linear(36, 3)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), head)


def _prepared(condition: str, **more: bool) -> tuple[Any, Tensor, Tensor]:
    """Return network, images and labels of a condition; the network is turned, compiled or wrapped."""
    dense = condition == "segmentation"
    model: Any = given.turned(network(dense, **more), condition)
    x = torch.randn(8, 3, 5, 5, generator=torch.Generator().manual_seed(2)).to(given.dtype_of(condition))
    shape = (8, 5, 5) if dense else (8,)
    y = torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(3))
    if condition in ("padding", "segmentation"):
        y[::2] = -100
    if condition == "channels-last":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if condition == "compile":
        model = given.compiled(model)
    if condition == "DDP":
        model = given.wrapped(model)
    return model, x, y


def _exact(weights: dict[str, Tensor], x: Tensor, y: Tensor, condition: str) -> Tensor:
    """Return float64 probabilities of the rows that count."""
    model = network(condition == "segmentation").double()
    model.load_state_dict(weights)
    with torch.no_grad():
        out = torch.softmax(model(x.double()), dim=1)
    rows = given.as_rows(out) if out.ndim == 4 else out
    return rows[y.reshape(-1) >= 0]


def _plain(model: Any) -> nn.Module:
    """Return the network inside compiled and data-parallel wrappers."""
    return getattr(model, "_orig_mod", getattr(model, "module", model))


def _tolerance(condition: str) -> float:
    return ROUNDING[given.SHORT[condition]] if condition in given.SHORT else 2e-5


def check_swag(last: bool, condition: str) -> list[Comparison]:
    """Weights one standard deviation from the mean of the path, against float64 moments of that path."""
    short = condition in (".half()", ".bfloat16()")
    model, x, y = _prepared("float32" if short else condition)
    plain = _plain(model)
    swag = ct.SWAG(model, layers="last" if last else "all")
    draw, path = torch.Generator().manual_seed(4), []
    for _ in range(5):
        with torch.no_grad():
            for p in plain.parameters():
                p.add_((0.05 * torch.randn(p.shape, generator=draw)).to(p.dtype))
        swag.collect()
        path.append({name: value.detach().double().clone() for name, value in plain.state_dict().items()})
    if short:  # the moments of the path stay what they were
        swag, x = given.turned(swag, condition), x.to(given.dtype_of(condition))
    own = {name: value.double().clone() for name, value in plain.state_dict().items()}
    with given.known_noise(), given.autocast(condition):
        found = ct.predict(swag, [(x, y)], samples=2, rng=0)
    drawn = [name for name in path[0] if not last or name.startswith(next(reversed(path[0])).split(".")[0])]
    weights, spread = dict(own), []
    for name in drawn:
        values = torch.stack([step[name] for step in path])
        spread.append(values.var(dim=0, correction=0).flatten())
        weights[name] = (values.mean(dim=0) + values.std(dim=0, correction=0)).to(plain.state_dict()[name]).double()
    expected = _exact(weights, x, y, condition)
    still = torch.stack([(value.double() - own[name]).abs().max() for name, value in plain.state_dict().items()])
    return [
        (torch.from_numpy(found.proba), expected, _tolerance(condition)),
        (swag.variance, torch.cat(spread), 1e-6),
        (still + 1, torch.ones_like(still), 1e-12),  # its own weights came back
    ]


def check_laplace(condition: str) -> list[Comparison]:
    """The closed-form predictive against the inverse of the whole Hessian in float64."""
    model, x, y = _prepared(condition)
    plain = _plain(model)
    with given.autocast(condition):
        laplace = ct.LastLayerLaplace(model, "full", prior_precision=2.0).fit([(x, y)])
        found = laplace.predict([(x, y)])
    weights = {name: value.double() for name, value in plain.state_dict().items()}
    wide = network().double()
    wide.load_state_dict(weights)
    keep = y >= 0
    with torch.no_grad():
        features = torch.cat([wide[:3](x.double()), torch.ones(len(x), 1, dtype=torch.float64)], dim=1)[keep]
        logits = wide(x.double())[keep]
    proba = torch.softmax(logits, dim=1)
    hessian = 2.0 * torch.eye(3 * features.shape[1], dtype=torch.float64)
    for p, row in zip(proba, features, strict=True):
        hessian += torch.kron(torch.diag(p) - torch.outer(p, p), torch.outer(row, row))
    inverse = torch.linalg.inv(hessian).reshape(3, features.shape[1], 3, features.shape[1])
    variance = torch.stack([torch.einsum("ni,ij,nj->n", features, inverse[k, :, k], features) for k in range(3)], 1)
    expected = torch.softmax(logits / (1 + torch.pi / 8 * variance).sqrt(), dim=1)
    return [(torch.from_numpy(found.proba), expected, _tolerance(condition))]


def check_ensemble(condition: str) -> list[Comparison]:
    """The mean of the members' probabilities."""
    model, x, y = _prepared(condition)
    members = ct.DeepEnsemble(lambda: model, 1)
    other = _prepared(condition)[0]
    with torch.no_grad():
        for p in _plain(other).parameters():
            p.mul_(1.5)
    members.members.append(other)
    with given.autocast(condition):
        found = ct.predict(members, [(x, y)])
    parts = [{name: v.double() for name, v in _plain(m).state_dict().items()} for m in (model, other)]
    expected = sum(_exact(weights, x, y, condition) for weights in parts) / 2
    return [(torch.from_numpy(found.proba), expected, _tolerance(condition))]


def check_predict(condition: str) -> list[Comparison]:
    """`predict` with a noisy last layer."""
    if condition == "segmentation":
        model, x, y = _prepared(condition)
        with given.autocast(condition):
            found = ct.predict(nn.Sequential(ct.MCDropout(0.0), model), [(x, y)], samples=2)
        weights = {name: value.double() for name, value in model.state_dict().items()}
        return [(torch.from_numpy(found.proba), _exact(weights, x, y, condition), 2e-5)]
    model, x, y = _prepared(condition, noisy=True)
    wide = copy.deepcopy(_plain(model)).double()
    with given.known_noise():
        with given.autocast(condition):
            found = ct.predict(model, [(x, y)], samples=2)
        with torch.no_grad():
            expected = torch.softmax(wide(x.double()), dim=1)[y >= 0]
    return [(torch.from_numpy(found.proba), expected, _tolerance(condition))]


CHECKS: dict[tuple[str, str], Callable[[str], list[Comparison]]] = {
    ("layers", "MCDropout"): check_dropout,
    **{("layers", name): partial(check_layer, name) for name in LAYERS},
    ("posteriors", "SWAG"): partial(check_swag, False),
    ("posteriors", 'SWAG(layers="last")'): partial(check_swag, True),
    ("posteriors", "LastLayerLaplace"): check_laplace,
    ("posteriors", "DeepEnsemble"): check_ensemble,
    ("posteriors", "predict"): check_predict,
}
