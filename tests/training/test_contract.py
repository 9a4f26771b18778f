"""The public suite for losses: ours pass, broken ones are caught; compilation."""

from __future__ import annotations

import pytest
import torch

from calibrant import torch as ct
from calibrant.testing import check_loss

LOSSES = [
    ct.UCELoss(),
    ct.UCELoss(n_bins=7, per_class=False),
    ct.MMCELoss(),
    ct.MMCELoss(weighted=False),
    ct.MMCELoss(normalization="official"),
    ct.EntropyPenalty(),
    ct.FocalLoss(),
    ct.FocalLoss(gamma=0.5),
    ct.LabelSmoothing(),
    ct.BrierLoss(),
    ct.SoftECELoss(),
    ct.SoftECELoss(norm=1),
    ct.RegularizedLoss(penalty=ct.UCELoss()),
    ct.RegularizedLoss(ct.FocalLoss(), ct.MMCELoss(), 0.5),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_ours_keep_the_contract(loss):
    check_loss(loss)


def softmax_log(z, y):
    return -torch.log(torch.softmax(z.float(), dim=1)[torch.arange(len(y)), y]).mean()


@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        (softmax_log, "finite"),
        (lambda z, y: torch.nn.functional.cross_entropy(z, y, reduction="none"), "scalar"),
        (
            lambda z, y: torch.nn.functional.cross_entropy(z.float(), y).detach() * 1.0 + 0 * z.float().sum(),
            "slopes equal",
        ),
        (lambda z, y: z.softmax(dim=1).square().sum().sqrt(), "float32 or better"),
        (lambda z, y: (z.float().mean() - z.float().mean()).sqrt(), "slopes are finite"),
    ],
)
def test_broken_losses_are_caught(loss, rule):
    with pytest.raises(AssertionError, match=rule):
        check_loss(loss)


def test_a_wrong_twin_is_caught():
    with pytest.raises(AssertionError, match="twin agrees"):
        check_loss(ct.BrierLoss(), lambda z, y: 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_trace_into_one_graph(loss):
    torch._dynamo.reset()
    z = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.arange(8) % 4
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(z, y), loss(z, y))


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        ct.MCDropout(),
        ct.GaussianDropout(4, 3),
        ct.BayesLinear(4, 3),
        torch.nn.Sequential(torch.nn.Unflatten(1, (1, 2, 2)), ct.BayesConv2d(1, 2, 1)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_trace_into_one_graph(layer):
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    x = torch.ones(5, 4)
    torch.manual_seed(0)
    first = compiled(x)
    torch.manual_seed(0)
    assert torch.allclose(first, layer(x))


def compiled(call):
    """Compile by torch's default backend, which needs a C++ compiler."""
    torch._dynamo.reset()
    return torch.compile(call)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_compiled_by_the_default_backend(loss):
    y = torch.arange(64) % 10
    y[5:9] = -100
    found = []
    for call in (compiled(loss), loss):
        z = torch.randn(64, 10, generator=torch.Generator().manual_seed(0), requires_grad=True)
        try:
            value = call(z, y)
        except RuntimeError as error:  # no C++ compiler on this machine
            pytest.skip(f"torch.compile does not work here: {error}")
        value.backward()
        found.append((value.detach(), z.grad))
    for ours, eager in zip(*found, strict=True):
        assert torch.allclose(ours, eager, atol=1e-6)


@pytest.mark.slow
def test_meter_compiled_by_the_default_backend():
    z, y = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 10
    y[5:9] = -100
    meters = [ct.StreamingCalibration(10), ct.StreamingCalibration(10)]
    try:
        compiled(meters[0].update)(z, y)
    except RuntimeError as error:
        pytest.skip(f"torch.compile does not work here: {error}")
    meters[1].update(z, y)
    assert meters[0].compute() == pytest.approx(meters[1].compute(), rel=1e-12)
