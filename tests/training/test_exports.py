"""`to_torch` in a network: dtypes, pickles, images, and training on from the fitted map."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
import torch

from calibrant import calibrators as cc
from calibrant.errors import InputError

METHODS = [
    cc.TemperatureScaling,
    cc.VectorScaling,
    cc.MatrixScaling,
    cc.StructuredMatrixScaling,
    cc.DirichletCalibration,
    cc.SplineCalibration,
    cc.IsotonicMulticlass,
    cc.BetaCalibration,
]
LINEAR = METHODS[:5]


def rows(n=400, k=3):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, k)) * 2
    p = np.exp(z / 2) / np.exp(z / 2).sum(axis=1, keepdims=True)
    return z, np.array([rng.choice(k, p=row) for row in p])


@pytest.fixture(scope="module")
def fitted():
    z, y = rows()
    return {method: method(space="logit").fit(z, y) for method in METHODS}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_dtype_of_the_input_precision_of_the_library(fitted, method):
    z, _ = rows()
    body = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.eye_(body.weight)
    model = torch.nn.Sequential(body, fitted[method].to_torch())
    for move, dtype, tolerance in (
        (lambda m: m.float(), torch.float32, 1e-7),
        (lambda m: m.double(), torch.float64, 1e-9),
        (lambda m: m.to(torch.bfloat16), torch.bfloat16, 2e-3),
        (lambda m: m.half(), torch.float16, 3e-4),
        (lambda m: m.float(), torch.float32, 1e-7),  # and back: no constant was rounded on the way
    ):
        move(model)
        x = torch.tensor(z, dtype=dtype)
        found = model(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.detach().double().numpy(), fitted[method].predict_proba(x.double().numpy()), atol=tolerance
        )


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_pickles_checkpoints_and_images(fitted, method):
    z, _ = rows(60)
    module = fitted[method].to_torch()
    x = torch.tensor(z)
    expected = module(x)
    assert torch.equal(pickle.loads(pickle.dumps(module))(x), expected)  # noqa: S301  # written one call earlier
    store = io.BytesIO()
    torch.save(module.state_dict(), store)
    store.seek(0)
    fresh = fitted[method].to_torch()
    fresh.load_state_dict(torch.load(store, weights_only=True))
    assert torch.equal(fresh(x), expected)
    image = x.reshape(3, 4, 5, 3).movedim(-1, 1)
    assert torch.allclose(module(image), expected.reshape(3, 4, 5, 3).movedim(-1, 1))
    with pytest.raises(InputError, match=r"movedim\(-1, 1\)"):
        module(x.reshape(3, 20, 3))


@pytest.mark.parametrize("method", LINEAR, ids=lambda m: m.__name__)
def test_trainable_maps_start_at_the_fit_and_learn(fitted, method):
    z, y = rows()
    module = fitted[method].to_torch(trainable=True)
    x, target = torch.tensor(z, dtype=torch.float32), torch.tensor(y)
    start = torch.softmax(module(x).double(), dim=1).detach().numpy()
    np.testing.assert_allclose(start, fitted[method].predict_proba(z), atol=1e-5)
    assert module.training
    parameters = list(module.parameters())
    assert parameters
    assert all(p.dtype == torch.float32 for p in parameters)
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    moved = (target + 1) % 3  # labels that the fit has never seen
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), moved)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.05
    assert torch.equal(pickle.loads(pickle.dumps(module))(x), module(x))  # noqa: S301  # written one call earlier


@pytest.mark.parametrize("method", [cc.IsotonicMulticlass, cc.BetaCalibration], ids=lambda m: m.__name__)
def test_maps_without_a_linear_end_are_not_trainable(fitted, method):
    with pytest.raises(InputError, match=f"got {method.__name__}"):
        fitted[method].to_torch(trainable=True)
