"""Temperature and vector scaling as layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant import calibrators as cc
from calibrant import torch as ct
from calibrant.errors import InputError


def rows(n=600, k=3):
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(n, k, generator=draw) * 3
    y = torch.distributions.Categorical(logits=z / 2).sample()
    return z, y


@pytest.mark.parametrize("name", ["TemperatureScaling", "VectorScaling"])
def test_fit_is_the_library_and_training_reaches_it(name):
    torch.manual_seed(0)
    z, y = rows()

    def build():
        return ct.TemperatureScaling() if name == "TemperatureScaling" else ct.VectorScaling(3)

    fitted = build().fit(z, y)
    library = getattr(cc, name)(space="logit").fit(z.numpy(), y.numpy())
    found = torch.softmax(fitted(z), dim=1).detach().numpy()
    np.testing.assert_allclose(found, library.predict_proba(z.numpy()), atol=1e-5)
    layer = build()
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(layer(z), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(torch.softmax(layer(z), dim=1).detach().numpy(), found, atol=2e-3)
    image = z.reshape(10, 60, 3).movedim(-1, 1)
    assert torch.allclose(fitted(image).movedim(1, -1).reshape(-1, 3), fitted(z))
    padded = build().fit(torch.cat([z, 9 * z[:50]]), torch.cat([y, torch.full((50,), -100)]))
    assert torch.allclose(padded(z), fitted(z), atol=1e-5)
    fitted.half()
    assert fitted(z.half()).dtype == torch.float16


def test_temperature_stays_positive_and_misuse_is_named():
    layer = ct.TemperatureScaling(2.0)
    assert layer.temperature == pytest.approx(2.0)
    assert "temperature=2" in repr(layer)
    with pytest.raises(InputError, match="temperature of TemperatureScaling"):
        ct.TemperatureScaling(0)
    with pytest.raises(InputError, match=r"movedim\(-1, 1\)"):
        ct.VectorScaling(3)(torch.zeros(2, 4))
    with pytest.raises(InputError, match="two columns"):
        ct.TemperatureScaling().fit(torch.zeros(4, 1), torch.zeros(4, dtype=torch.long))
    with pytest.raises(InputError, match="class indices"):
        ct.TemperatureScaling().fit(torch.zeros(4, 2), torch.full((4, 2), 0.5))
