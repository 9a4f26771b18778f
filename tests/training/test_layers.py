"""Random layers: moments by simulation against theory, slopes, seeds, checkpoints."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calibrant import torch as ct
from calibrant.errors import InputError

N = 20_000


def close_moments(draws, mean, variance):
    """Within five standard errors of the theory, coordinate by coordinate."""
    n = len(draws)
    assert torch.all((draws.mean(dim=0) - mean).abs() <= 5 * (variance / n).sqrt() + 1e-7)
    assert torch.all((draws.var(dim=0) - variance).abs() <= 5 * variance * math.sqrt(2 / n) + 1e-12)


def test_gaussian_dropout_moments():
    torch.manual_seed(0)
    layer = ct.GaussianDropout(4, 3, p=0.3).eval()
    x = torch.tensor([0.5, -2.0, 0.0, 1.5])
    mean = layer.weight @ x + layer.bias
    variance = 0.3 / 0.7 * layer.weight.square() @ x.square()
    close_moments(layer(x.expand(N, 4)).detach(), mean.detach(), variance.detach())


def test_gaussian_dropout_equals_bernoulli_dropout_in_two_moments():
    torch.manual_seed(1)
    x = torch.randn(6)
    layer = ct.GaussianDropout(6, 2, p=0.2)
    bernoulli = torch.nn.functional.linear(ct.MCDropout(0.2)(x.expand(N, 6)), layer.weight, layer.bias).detach()
    variance = 0.25 * (layer.weight.square() @ x.square()).detach()
    assert torch.allclose(bernoulli.mean(dim=0), (layer.weight @ x + layer.bias).detach(), atol=0.03)
    assert torch.allclose(bernoulli.var(dim=0), variance, rtol=0.1)


def test_bayes_linear_moments():
    torch.manual_seed(2)
    layer = ct.BayesLinear(4, 3, initial_std=0.2).eval()
    with torch.no_grad():
        layer.weight_rho += torch.randn_like(layer.weight_rho)
    x = torch.tensor([0.5, -2.0, 0.0, 1.5])
    sigma, sigma_bias = (torch.nn.functional.softplus(r) for r in (layer.weight_rho, layer.bias_rho))
    variance = sigma.square() @ x.square() + sigma_bias.square()
    close_moments(layer(x.expand(N, 4)).detach(), (layer.weight @ x + layer.bias).detach(), variance.detach())


def test_bayes_conv_moments_equal_sampling_the_weights():
    torch.manual_seed(3)
    layer = ct.BayesConv2d(2, 3, 3, stride=2, padding=1, initial_std=0.3)
    image = torch.randn(1, 2, 5, 5)
    mean = torch.nn.functional.conv2d(image, layer.weight, layer.bias, 2, 1)[0].detach()
    variance = torch.nn.functional.conv2d(image.square(), torch.full_like(layer.weight, 0.09), None, 2, 1)[0].detach()
    close_moments(layer(image.expand(8000, 2, 5, 5)).detach(), mean, variance + 0.09)


def test_kl_by_hand_and_by_torch():
    layer = ct.BayesLinear(5, 2, prior_std=0.7)
    with torch.no_grad():
        layer.weight_rho.normal_()
    p, q = torch.distributions.Normal, torch.nn.functional.softplus
    prior = p(0.0, 0.7)
    expected = torch.distributions.kl_divergence(p(layer.weight, q(layer.weight_rho)), prior).sum()
    expected = expected + torch.distributions.kl_divergence(p(layer.bias, q(layer.bias_rho)), prior).sum()
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), layer, ct.BayesConv2d(1, 1, 1, bias=False))
    assert torch.allclose(ct.kl(model), expected + model[2].kl())


@pytest.mark.parametrize("rho", [-200.0, -50.0, 0.0, 40.0])
def test_kl_and_outputs_have_finite_slopes_at_extreme_widths(rho):
    layer = ct.BayesLinear(3, 2)
    with torch.no_grad():
        layer.weight_rho.fill_(rho)
    (ct.kl(layer) + layer(torch.zeros(4, 3)).sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("layer", [ct.GaussianDropout(3, 2), ct.BayesLinear(3, 2, bias=False)])
def test_zero_input_gives_no_noise_and_a_finite_slope(layer):
    x = torch.zeros(5, 3, requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert out.std(dim=0).max() < 1e-6


def test_training_improves_a_bayesian_network():
    torch.manual_seed(4)
    x = torch.randn(256, 2)
    y = (x[:, 0] > 0).long()
    model = torch.nn.Sequential(ct.BayesLinear(2, 16), torch.nn.ReLU(), ct.BayesLinear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = torch.nn.functional.cross_entropy(model(x), y) + ct.kl(model) / 5000
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (ct.predict(model, x, samples=10, rng=0).proba.argmax(axis=1) == y.numpy()).mean() > 0.95


def networks():
    return {
        "mc": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), ct.MCDropout(0.2), torch.nn.Linear(8, 3)),
        "gauss": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), ct.GaussianDropout(8, 3)),
        "bbb": torch.nn.Sequential(ct.BayesLinear(4, 8), torch.nn.ReLU(), ct.BayesLinear(8, 3)),
        "plain": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)),
    }


@pytest.mark.parametrize("name", networks())
def test_predict_by_seed_and_by_hand(name):
    torch.manual_seed(5)
    model = networks()[name]
    model.train()
    x, y = torch.randn(7, 4), torch.arange(7) % 3
    loader = [(x[:4], y[:4]), (x[4:], y[4:])]
    before = torch.get_rng_state()
    many = 1 if name == "plain" else 6
    first, again = (ct.predict(model, loader, samples=many, rng=11) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(module.training for module in model.modules())
    np.testing.assert_array_equal(first.sample_logits, again.sample_logits)
    np.testing.assert_array_equal(first.labels, y.numpy())
    assert len(first.sample_logits) == (1 if name == "plain" else 6)
    samples = torch.softmax(torch.tensor(first.sample_logits).double(), dim=2).numpy()
    np.testing.assert_allclose(first.proba, samples.mean(axis=0), atol=1e-12)
    entropy = -(samples * np.log(samples)).sum(axis=2)
    np.testing.assert_allclose(first.aleatoric, entropy.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(first.total, first.aleatoric + first.epistemic, atol=1e-12)
    assert (first.epistemic >= 0).all()
    if name == "plain":
        np.testing.assert_allclose(first.epistemic, 0, atol=1e-12)
        model.eval()
        np.testing.assert_allclose(first.sample_logits[0], model(x).detach().numpy(), atol=1e-6)
    else:
        assert first.epistemic.max() > 1e-4
        assert not np.array_equal(first.sample_logits, ct.predict(model, loader, samples=6, rng=12).sample_logits)
    thin = ct.predict(model, loader, samples=many, rng=11, keep_samples=False)
    np.testing.assert_allclose(thin.proba, first.proba, atol=1e-12)
    with pytest.raises(InputError, match="keep_samples=True"):
        thin.tempered(2.0)


@pytest.mark.parametrize("name", networks())
def test_state_dict_round_trip(name):
    torch.manual_seed(6)
    model, other = networks()[name], networks()[name]
    other.load_state_dict(model.state_dict())
    x = torch.randn(5, 4)
    many = 1 if name == "plain" else 3
    np.testing.assert_array_equal(ct.predict(model, x, many, rng=0).proba, ct.predict(other, x, many, rng=0).proba)


def test_predict_refuses_what_it_cannot_average():
    model = torch.nn.Linear(4, 3)
    x = torch.randn(6, 4)
    with pytest.raises(InputError, match="samples of predict"):
        ct.predict(model, x, samples=0)
    with pytest.raises(InputError, match="hold at least one batch"):
        ct.predict(model, [], samples=1)
    with pytest.raises(InputError, match="give 24 targets"):
        ct.predict(torch.nn.Flatten(0), [(x, torch.zeros(6))], samples=1)
    with pytest.raises(InputError, match="return logits of shape"):
        ct.predict(torch.nn.LSTM(4, 3), [x], samples=1)


def test_monte_carlo_temperature():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 4)) * 1.5
    labels = np.array([rng.choice(4, p=row) for row in np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)])
    sharp = np.stack([3 * logits, 3 * logits])  # two equal samples, three times too sharp
    for objective in ("mean", "samples"):
        fitted = ct.MonteCarloTemperature(objective).fit(sharp, labels)
        assert fitted.temperature_ == pytest.approx(3.0, rel=0.15)
    assert ct.MonteCarloTemperature("mean").fit(sharp, labels).temperature_ == pytest.approx(
        ct.MonteCarloTemperature("samples").fit(sharp, labels).temperature_, rel=1e-4
    )
    noisy = 3 * logits[None] + rng.normal(size=(8, 400, 4)) * 3  # averaging already softens: less T is needed
    assert (
        ct.MonteCarloTemperature("mean").fit(noisy, labels).temperature_
        < ct.MonteCarloTemperature("samples").fit(noisy, labels).temperature_
    )
    cold = ct.Predictive.from_logits(sharp, labels)
    np.testing.assert_allclose(ct.MonteCarloTemperature().fit(cold).predict(cold).proba.sum(axis=1), 1)


def test_mean_logits_hand_over_to_a_calibrator():
    from calibrant.calibrators.temperature import TemperatureScaling

    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 300)
    samples = np.eye(3)[labels] * 2 + rng.normal(size=(5, 300, 3)) * 2
    result = ct.Predictive.from_logits(samples, labels)
    tempered = TemperatureScaling(space="logit").fit(result.logits, labels).predict_proba(result.logits)
    assert tempered.shape == (300, 3)
    nll = -np.log(result.proba[np.arange(300), labels]).mean()
    assert -np.log(tempered[np.arange(300), labels]).mean() <= nll


@pytest.mark.parametrize(
    "make",
    [
        lambda: ct.MCDropout(1.0),
        lambda: ct.GaussianDropout(2, 2, p=-0.1),
        lambda: ct.BayesLinear(2, 2, prior_std=0),
        lambda: ct.BayesConv2d(1, 1, 1, initial_std=0),
        lambda: ct.MonteCarloTemperature("best"),
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InputError, match="Hint"):
        make()
