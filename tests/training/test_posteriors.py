"""SWAG, ensembles and Laplace: moments by hand, samples by theory, batch norms, seeds, checkpoints."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from calibrant import torch as ct
from calibrant.errors import InputError, NotFittedError


def walk(model, swag, steps, seed=0):
    """Move the weights at random, collecting each place; return the places."""
    generator = torch.Generator().manual_seed(seed)
    places = []
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator))
        swag.collect()
        places.append(torch.nn.utils.parameters_to_vector(model.parameters()).detach().double())
    return torch.stack(places)


def test_swag_moments_by_hand():
    model = torch.nn.Linear(3, 2)
    swag = ct.SWAG(model, rank=3)
    places = walk(model, swag, 5)
    assert torch.allclose(swag.mean, places.mean(dim=0), atol=1e-10)
    assert torch.allclose(swag.variance, places.square().mean(dim=0) - places.mean(dim=0).square(), atol=1e-10)
    running = torch.stack([places[: i + 1].mean(dim=0) for i in range(5)])
    kept = (places - running)[2:]
    order = torch.tensor([3, 4, 2]) - 2  # a ring of three: the fourth and fifth replaced the first and second
    assert torch.allclose(swag.deviations.double(), kept[order], atol=1e-6)  # float32


def test_swag_samples_have_the_stated_covariance():
    model = torch.nn.Linear(2, 1)
    for rank in (0, 2):
        swag = ct.SWAG(model, rank=rank)
        walk(model, swag, 6, seed=rank)
        generator = torch.Generator().manual_seed(1)
        draws = []
        for _ in range(6000):
            swag.sample(generator=generator)
            draws.append(torch.nn.utils.parameters_to_vector(model.parameters()).detach().double())
        draws = torch.stack(draws)
        expected = torch.diag(swag.variance)
        if rank:
            expected = 0.5 * (expected + swag.deviations.double().T @ swag.deviations.double() / (rank - 1))
        assert torch.allclose(draws.mean(dim=0), swag.mean, atol=0.2)
        assert torch.allclose(torch.cov(draws.T), expected, atol=0.09 * float(expected.diag().max()))
        swag.use_mean()
        assert torch.allclose(torch.nn.utils.parameters_to_vector(model.parameters()).double(), swag.mean, atol=1e-6)


def test_swag_of_the_last_layer_leaves_the_rest_alone():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    swag = ct.SWAG(model, layers="last")
    walk(model, swag, 4)
    assert len(swag.mean) == 4 * 2 + 2
    state = copy.deepcopy(model.state_dict())
    x = torch.randn(5, 3)
    first, again = ct.predict(swag, x, samples=4, rng=3), ct.predict(swag, x, samples=4, rng=3)
    np.testing.assert_array_equal(first.sample_logits, again.sample_logits)
    assert first.sample_logits.std(axis=0).max() > 0
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_swag_refreshes_batch_norms_for_every_sample():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    train = [(torch.randn(16, 3), torch.zeros(16)) for _ in range(3)]
    walk(model, swag := ct.SWAG(model), 3)
    with pytest.raises(InputError, match="refresh=train_loader"):
        swag.sample()
    swag.refresh = train
    swag.sample(generator=torch.Generator().manual_seed(0))
    inner = torch.stack([model[0](x).detach() for x, _ in train])
    assert torch.allclose(model[1].running_mean, inner.mean(dim=(0, 1)), atol=1e-5)
    assert torch.allclose(model[1].running_var, inner.var(dim=1).mean(dim=0), rtol=1e-4)
    assert model[1].momentum == 0.1
    assert model[1].training


def test_swag_checkpoint_and_misuse():
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    swag, copied = ct.SWAG(model, rank=2), ct.SWAG(other, rank=2)
    with pytest.raises(NotFittedError, match="collect"):
        swag.sample()
    walk(model, swag, 4)
    copied.load_state_dict(swag.state_dict())
    x = torch.randn(4, 3)
    np.testing.assert_array_equal(ct.predict(swag, x, 3, rng=1).proba, ct.predict(copied, x, 3, rng=1).proba)
    for rank in (1, -1, 1.5):
        with pytest.raises(InputError, match="rank of SWAG"):
            ct.SWAG(model, rank=rank)
    with pytest.raises(InputError, match="layers of SWAG"):
        ct.SWAG(model, layers="first")


def test_swag_beats_its_worst_iterate_on_a_noisy_path():
    """The mean of noisy iterates is closer to the optimum than a typical iterate."""
    torch.manual_seed(2)
    model = torch.nn.Linear(5, 2)
    goal = torch.nn.utils.parameters_to_vector(model.parameters()).detach().double()
    swag = ct.SWAG(model)
    for _ in range(30):
        torch.nn.utils.vector_to_parameters((goal + torch.randn(len(goal)).double()).float(), model.parameters())
        swag.collect()
    assert (swag.mean - goal).norm() < 0.5 * len(goal) ** 0.5


def test_ensemble_seeds_members_and_mean():
    ensemble = ct.DeepEnsemble(lambda: torch.nn.Linear(4, 3), n_members=3, seeds=[5, 6, 7])
    twin = ct.DeepEnsemble(lambda: torch.nn.Linear(4, 3), n_members=3, seeds=[7, 6, 5])
    assert torch.equal(ensemble.members[0].weight, twin.members[2].weight)
    assert not torch.equal(ensemble.members[0].weight, ensemble.members[1].weight)
    x = torch.randn(5, 4)
    result = ct.predict(ensemble, x, samples=25)
    np.testing.assert_allclose(result.sample_logits, ensemble(x).detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(result.proba, torch.softmax(ensemble(x), dim=2).mean(dim=0).detach().numpy(), atol=1e-6)
    seen = []
    assert ensemble.fit(lambda member, seed: seen.append((seed, float(torch.rand(()))))) is ensemble
    again = []
    ensemble.fit(lambda member, seed: again.append((seed, float(torch.rand(())))))
    assert seen == again
    assert [seed for seed, _ in seen] == [5, 6, 7]
    fresh = ct.DeepEnsemble(lambda: torch.nn.Linear(4, 3))
    fresh.load_state_dict(ensemble.state_dict())
    assert fresh.seeds.tolist() == [5, 6, 7]
    with pytest.raises(InputError, match="different integers"):
        ct.DeepEnsemble(lambda: torch.nn.Linear(4, 3), seeds=[1, 1, 2])


def trained():
    torch.manual_seed(3)
    x = torch.randn(200, 2)
    y = (x[:, 0] + 0.5 * torch.randn(200) > 0).long()
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, x, y


def test_laplace_full_curvature_is_the_hessian():
    model, x, y = trained()
    laplace = ct.LastLayerLaplace(model, hessian="full", prior_precision=2.0).fit([(x[:80], y[:80]), (x[80:], y[80:])])
    features = model[1](model[0](x)).detach().double()
    features = torch.cat([features, torch.ones(200, 1)], dim=1)

    def loss(weights):
        return torch.nn.functional.cross_entropy(features @ weights.reshape(2, 4).T, y, reduction="sum")

    weights = torch.cat([model[2].weight, model[2].bias[:, None]], dim=1).detach().double().flatten()
    hessian = torch.autograd.functional.hessian(loss, weights)
    rebuilt = laplace.left @ torch.diag(laplace.eigenvalues) @ laplace.left.T
    assert torch.allclose(rebuilt, hessian, atol=1e-5)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([laplace.sample(generator).flatten() for _ in range(8000)])
    expected = torch.linalg.inv(hessian + 2 * torch.eye(8, dtype=torch.float64))
    assert torch.allclose(torch.cov(draws.T), expected, atol=0.06 * float(expected.diag().max()))


def test_laplace_kron_equals_full_for_one_row():
    model, x, _ = trained()
    kron = ct.LastLayerLaplace(model, prior_precision=1.0).fit([x[:1]])
    full = ct.LastLayerLaplace(model, hessian="full", prior_precision=1.0).fit([x[:1]])
    assert torch.allclose(kron.eigenvalues.flatten().sort().values, full.eigenvalues.sort().values, atol=1e-9)


def test_laplace_is_surer_near_the_data_and_restores_the_weights():
    model, x, y = trained()
    laplace = ct.LastLayerLaplace(model).fit([(x, y)])
    assert 1e-4 < float(laplace.precision) < 1e3
    state = copy.deepcopy(model.state_dict())
    near = ct.predict(laplace, x, samples=40, rng=0)
    far = ct.predict(laplace, 20 * x, samples=40, rng=0)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert near.epistemic.max() > 1e-3
    plain = ct.predict(model, 20 * x, samples=1)
    assert far.total.mean() > plain.total.mean()
    twin = ct.LastLayerLaplace(copy.deepcopy(model))
    twin.load_state_dict(laplace.state_dict())
    np.testing.assert_array_equal(ct.predict(twin, x, 3, rng=1).proba, ct.predict(laplace, x, 3, rng=1).proba)


def test_laplace_misuse():
    with pytest.raises(NotFittedError, match="fit"):
        ct.LastLayerLaplace(torch.nn.Linear(2, 2)).sample()
    with pytest.raises(InputError, match=r"end in a torch\.nn\.Linear"):
        ct.LastLayerLaplace(torch.nn.Flatten())
    with pytest.raises(InputError, match="kron"):
        ct.LastLayerLaplace(torch.nn.Linear(1000, 10), hessian="full")
