"""Layers, posteriors and `predict` as they are used: short floats, autocast, channels-last, dictionaries, loaders."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from calibrant import torch as ct
from calibrant.errors import CalibrantWarning, InputError
from calibrant.torch.passes import each_loader, find_layer

F = torch.nn.functional
LAYERS = {
    "gaussian": lambda: ct.GaussianDropout(6, 3, bias=False),
    "linear": lambda: ct.BayesLinear(6, 3),
    "conv1d": lambda: torch.nn.Sequential(torch.nn.Unflatten(1, (2, 3)), ct.BayesConv1d(2, 3, 3), torch.nn.Flatten()),
    "conv2d": lambda: torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 2, 3)), ct.BayesConv2d(1, 3, (2, 3)), torch.nn.Flatten()
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("mode", ["half", "bfloat16", "autocast"])
def test_variances_are_wide(name, mode):
    """Inputs whose squares leave float16: 300² overflows, (10⁻⁴)² underflows; nothing is NaN and the noise is right."""
    torch.manual_seed(0)
    layer = LAYERS[name]()
    reference = copy.deepcopy(layer)
    dtype = torch.bfloat16 if mode == "bfloat16" else torch.float16
    if mode != "autocast":
        layer.to(dtype)
    for scale in (1e-4, 1.0, 300.0):
        x = scale * torch.randn(1, 6).to(dtype).expand(4000, 6)
        with torch.autocast("cpu", dtype=torch.float16, enabled=mode == "autocast"):
            out = layer(x.float() if mode == "autocast" else x)
        assert out.dtype == dtype
        assert torch.isfinite(out).all()
        expected = reference(x.float()).std(dim=0)
        assert torch.allclose(out.float().std(dim=0), expected, rtol=0.1, atol=3e-3 * scale)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [1, "same"])
def test_bayesian_convolutions_have_the_mean_of_torchs(axes, mode, padding):
    torch.manual_seed(1)
    ours = getattr(ct, f"BayesConv{axes}d")
    theirs = getattr(torch.nn, f"Conv{axes}d")
    kernel = 4 if padding == "same" and mode == "zeros" else 3
    layer = ours(4, 6, kernel, padding=padding, groups=2, padding_mode=mode, initial_std=1e-6)
    plain = theirs(4, 6, kernel, padding=padding, groups=2, padding_mode=mode)
    plain.weight.data, plain.bias.data = layer.weight.data, layer.bias.data
    x = torch.randn(2, 4, *[5] * axes)
    with torch.no_grad():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says once that an even kernel makes it copy
            expected = plain(x)
        assert torch.allclose(layer(x), expected, atol=1e-4)
    with pytest.raises(InputError, match="divide in_channels"):
        ours(4, 6, 3, groups=4)
    with pytest.raises(InputError, match="padding_mode"):
        ours(4, 6, 3, padding_mode="mirror")
    with pytest.raises(InputError, match="'same'"):
        ours(4, 6, 3, padding="same", stride=2)


def test_bayes_conv_in_channels_last_and_kl_in_half():
    torch.manual_seed(2)
    layer = ct.BayesConv2d(3, 4, 3, padding=1)
    x = torch.randn(2, 3, 6, 6)
    torch.manual_seed(0)
    expected = layer(x)
    wide = ct.kl(layer)
    layer.to(memory_format=torch.channels_last)
    torch.manual_seed(0)
    found = layer(x.contiguous(memory_format=torch.channels_last))
    assert found.shape == expected.shape
    assert torch.isfinite(found).all()
    layer.half()
    assert ct.kl(layer).dtype == torch.float32
    assert float(ct.kl(layer).detach()) == pytest.approx(float(wide.detach()), rel=1e-3)


# -- mc_dropout ------------------------------------------------------------------------------------------------------


class Attentive(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.body = kind
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        x = x.reshape(-1, 2, 8)
        out = self.body(x, x, x)[0] if isinstance(self.body, torch.nn.MultiheadAttention) else self.body(x)
        return self.head((out[0] if isinstance(out, tuple) else out).mean(dim=1))


def converted():
    nn = torch.nn
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    return {
        "dropout": nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.3), nn.Linear(8, 3)),
        "nested": nn.Sequential(nn.Sequential(nn.Linear(16, 8), nn.AlphaDropout(0.3)), nn.Linear(8, 3)),
        "channels": nn.Sequential(nn.Unflatten(1, (4, 2, 2)), nn.Dropout2d(0.4), nn.Flatten(), nn.Linear(16, 3)),
        "attention": Attentive(nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)),
        "lstm": Attentive(nn.LSTM(8, 8, 2, dropout=0.3, batch_first=True)),
        "gru": Attentive(nn.GRU(8, 8, 2, dropout=0.3, batch_first=True)),
        "transformer": Attentive(nn.TransformerEncoder(encoder, 2, enable_nested_tensor=False)),
    }


@pytest.mark.parametrize("name", converted())
def test_mc_dropout_converts_what_is_there(name):
    torch.manual_seed(0)
    model = converted()[name].eval()
    names, x = set(model.state_dict()), torch.randn(5, 16)
    plain = ct.predict(model, x, samples=1).proba
    assert ct.mc_dropout(model) is model
    assert set(model.state_dict()) == names
    copied = copy.deepcopy(model).eval()
    found = ct.predict(copied, x, samples=400, rng=0)
    assert found.epistemic.max() > 1e-5
    spread = found.sample_logits.std(axis=0).max()
    assert spread > 1e-3
    assert np.abs(found.proba - plain).max() < 0.2
    model.eval()
    with torch.no_grad():
        assert not torch.equal(model(x), model(x))


def test_mc_dropout_rates_and_refusals():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout2d(0.3))
    assert "p=0.1, kind=Dropout2d" in repr(ct.mc_dropout(model, p=0.1))
    assert isinstance(ct.mc_dropout(torch.nn.Dropout(0.4)), ct.MCDropout)
    with pytest.raises(InputError, match="hold a dropout layer"):
        ct.mc_dropout(torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match="kind of MCDropout"):
        ct.MCDropout(0.2, torch.nn.Linear)


# -- SWAG ------------------------------------------------------------------------------------------------------------


def steps(model, swag, n=4, size=0.1, seed=0):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(n):
        with torch.no_grad():
            for p in model.parameters():
                p.add_((size * torch.randn(p.shape, generator=draw)).to(p.dtype))
        swag.collect()


def small_cnn():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(36, 3))


def test_swag_on_a_channels_last_network():
    model, other = small_cnn(), small_cnn()
    model.to(memory_format=torch.channels_last)
    swag, plain = ct.SWAG(model, rank=2), ct.SWAG(other, rank=2)
    steps(model, swag)
    steps(other, plain)
    x = torch.randn(4, 3, 5, 5)
    ours, theirs = (ct.predict(s, x, samples=3, rng=0).proba for s in (swag, plain))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_swag_keeps_each_dtype_and_its_own_precision():
    model = small_cnn()
    model[3].to(torch.bfloat16)
    model[0].half()
    swag = ct.SWAG(model, device="cpu")
    steps(model, swag, size=0.05)
    swag.half()
    assert {value.dtype for name, value in swag._wide.items() if name != "count"} == {torch.float64, torch.float32}
    swag.sample()
    assert (model[0].weight.dtype, model[3].weight.dtype) == (torch.float16, torch.float16)  # .half() moved the network


def test_swag_variance_survives_half():
    model = torch.nn.Linear(20, 5)
    swag = ct.SWAG(model, rank=2)
    steps(model, swag, 6, size=1e-3)
    before = swag.variance.clone()
    assert 1e-7 < float(before.median()) < 1e-5
    for move in ("half", "float", "bfloat16"):
        getattr(swag, move)()
    assert torch.equal(swag.variance, before)
    assert not dict(swag.named_buffers())


class Backwards(torch.nn.Module):
    """Its head was registered before its body."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.head = torch.nn.Linear(4, 3)
        self.body = torch.nn.Linear(4, 4)
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        return self.head(torch.relu(self.body(x)))


@pytest.mark.parametrize("kind", ["swag", "laplace"])
def test_the_last_layer_is_the_one_that_gives_the_output(kind):
    x = torch.randn(6, 4)
    model = Backwards()

    def posterior(**more):
        if kind == "laplace":
            return ct.LastLayerLaplace(model, prior_precision=1.0, **more).fit([x])
        swag = ct.SWAG(model, layers="last", **more)
        steps(model, swag)
        return swag

    with pytest.raises(InputError, match="layer='head'"):
        ct.predict(posterior(), x, samples=2)
    found = posterior(layer="head")
    assert found.head()[0] is model.head
    assert posterior(layer=model.head).head()[0] is model.head
    state = copy.deepcopy(model.state_dict())
    model.passes = 0
    result = ct.predict(found, [x[:3], x[3:]], samples=20, rng=0)
    assert model.passes == 3  # two batches, and one that looks for the layer
    assert result.sample_logits.shape == (20, 6, 3)
    assert result.epistemic.max() > 0
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    with pytest.raises(InputError, match="choose one of"):
        find_layer(model, "tail", "SWAG")


def test_cached_features_equal_whole_passes():
    x = torch.randn(6, 4)
    model = Backwards()
    laplace = ct.LastLayerLaplace(model, prior_precision=1.0, layer="head").fit([x])
    fast = ct.predict(laplace, x, samples=5, rng=3)
    torch.manual_seed(3)
    with torch.no_grad():
        slow = np.stack([network(x).numpy() for network in laplace.draws(5)])
    np.testing.assert_allclose(fast.sample_logits, slow, atol=1e-6)


# -- Laplace ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hessian", ["kron", "full"])
def test_probit_predictive(hessian):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    x, y = torch.randn(50, 3), torch.arange(50) % 3
    laplace = ct.LastLayerLaplace(model, hessian, prior_precision=0.5).fit([(x, y)])
    found = laplace.predict([(x[:20], y[:20]), (x[20:], y[20:])])
    drawn = ct.predict(laplace, x, samples=4000, rng=0)
    np.testing.assert_allclose(found.logit_variance, drawn.sample_logits.var(axis=0), rtol=0.15)
    np.testing.assert_allclose(found.logit_mean, model(x).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(found.proba, drawn.proba, atol=0.03)
    shrunk = found.logit_mean / np.sqrt(1 + np.pi / 8 * found.logit_variance)
    np.testing.assert_allclose(found.proba, np.exp(shrunk) / np.exp(shrunk).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(found.labels, y.numpy())
    assert (found.total >= ct.predict(model, x, samples=1).total - 1e-9).mean() > 0.9


@pytest.mark.parametrize("hessian", ["kron", "full"])
def test_laplace_of_one_logit_is_the_hessian_of_its_loss(hessian):
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    x = torch.randn(40, 3)
    laplace = ct.LastLayerLaplace(model, hessian, prior_precision=1.0).fit([x])
    features = torch.cat([x, torch.ones(40, 1)], dim=1).double()

    def loss(w):
        return F.binary_cross_entropy_with_logits(features @ w, torch.zeros(40, dtype=torch.float64), reduction="sum")

    w = torch.cat([model.weight[0], model.bias]).detach().double()
    expected = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, w))
    assert torch.allclose(laplace.eigenvalues.flatten().sort().values, expected, atol=1e-6)
    assert laplace.predict([x]).proba.shape == ct.predict(laplace, x, samples=3).proba.shape == (40, 2)


def test_laplace_leaves_padding_out_and_keeps_its_precision():
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 3)
    x, y = torch.randn(40, 3), torch.arange(40) % 3
    y[::2] = -100
    padded = ct.LastLayerLaplace(model, prior_precision=1.0).fit([(x, y)])
    kept = ct.LastLayerLaplace(model, prior_precision=1.0).fit([(x[1::2], y[1::2])])
    assert torch.allclose(padded.eigenvalues, kept.eigenvalues)
    padded.half()
    assert padded.eigenvalues.dtype == torch.float64
    assert ct.predict(padded, x.half(), samples=3).proba.shape == (40, 3)


# -- predict ---------------------------------------------------------------------------------------------------------


class Named(torch.nn.Module):
    """A network as Hugging Face has them: named inputs, a record out."""

    def __init__(self, tokens=False):
        super().__init__()
        torch.manual_seed(0)
        self.drop, self.head, self.tokens = ct.MCDropout(0.2), torch.nn.Linear(4, 3), tokens

    def forward(self, x, mask=None):
        logits = self.head(self.drop(x if mask is None else x * mask))
        return {"logits": logits}


def test_dictionaries_of_inputs():
    x, y = torch.randn(10, 4), torch.arange(10) % 3
    batches = [{"x": x[i : i + 5], "mask": torch.ones(5, 4), "labels": y[i : i + 5]} for i in (0, 5)]
    found = ct.predict(Named(), batches, samples=4, rng=np.int64(3))
    np.testing.assert_array_equal(found.labels, y.numpy())
    np.testing.assert_array_equal(found.proba, ct.predict(Named(), batches, samples=4, rng=3).proba)
    assert ct.predict(Named(), {"x": x}, samples=4).proba.shape == (10, 3)
    tokens = {"x": torch.randn(2, 6, 4), "labels": torch.tensor([[0, 1, 2, -100, -100, 1], [2, 2, 1, 0, 0, -100]])}
    found = ct.predict(Named(), tokens, samples=2, rng=0)
    np.testing.assert_array_equal(found.labels, [0, 1, 2, 1, 2, 2, 1, 0, 0])
    assert found.sample_logits.shape == (2, 9, 3)
    with pytest.raises(InputError, match="which axis holds the classes"):
        ct.predict(Named(), {"x": torch.randn(2, 6, 4)}, samples=2)


def test_one_logit_and_images():
    x = torch.randn(10, 4)
    binary = torch.nn.Sequential(ct.MCDropout(0.2), torch.nn.Linear(4, 1))
    for model in (binary, torch.nn.Sequential(binary, torch.nn.Flatten(0))):
        found = ct.predict(model, [(x, torch.arange(10) % 2)], samples=3, rng=0)
        assert found.proba.shape == (10, 2)
        np.testing.assert_allclose(
            found.proba[:, 1], (1 / (1 + np.exp(-found.sample_logits[..., 1]))).mean(axis=0), rtol=1e-5
        )
    image = torch.nn.Sequential(ct.MCDropout(0.2), torch.nn.Conv2d(2, 3, 1))
    pixels, mask = torch.randn(2, 2, 4, 4), torch.arange(32).reshape(2, 4, 4) % 3
    mask[0, 0] = -100
    found = ct.predict(image, [(pixels, mask)], samples=3, rng=0)
    assert found.proba.shape == (28, 3)
    np.testing.assert_array_equal(found.labels, mask[mask >= 0].numpy())


def test_a_network_without_randomness_says_so():
    x = torch.randn(6, 4)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    with pytest.warns(CalibrantWarning, match="mc_dropout"):
        assert ct.predict(plain, x).sample_logits.shape == (1, 6, 3)

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x[:, :3] + torch.randn(len(x), 3)

    assert ct.predict(Noisy(), x, samples=7).sample_logits.shape == (7, 6, 3)


def test_shuffled_loaders():
    x, y = torch.randn(32, 4), torch.arange(32) % 3
    model = torch.nn.Sequential(ct.MCDropout(0.2), torch.nn.Linear(4, 3))
    with pytest.raises(InputError, match="without targets"):
        ct.predict(model, DataLoader(x, 8, shuffle=True), samples=2)
    mixed = ct.predict(model, DataLoader(TensorDataset(x, y), 8, shuffle=True), samples=2)
    assert sorted(mixed.labels) == sorted(y.tolist())
    swag = ct.SWAG(torch.nn.Linear(4, 3))
    steps(swag.model, swag)
    with pytest.raises(InputError, match="walked once per sample"):
        ct.predict(swag, DataLoader(TensorDataset(x, y), 8, shuffle=True), samples=2)

    class Moving:
        def __iter__(self):
            return iter(x[torch.randperm(32)].split(8))

    with pytest.raises(InputError, match="that moved"):
        ct.predict(swag, Moving(), samples=2)
    assert ct.predict(swag, DataLoader(x, 8), samples=2).proba.shape == (32, 3)
    assert ct.predict(swag, (part for part in x.split(8)), samples=2).proba.shape == (32, 3)


def test_samples_of_several_batches_stand_in_order():
    x = torch.randn(10, 4)
    members = ct.DeepEnsemble(lambda: torch.nn.Linear(4, 3))
    one, many = ct.predict(members, x), ct.predict(members, x.split(3))
    np.testing.assert_allclose(one.sample_logits, many.sample_logits, atol=1e-6)
    np.testing.assert_allclose(one.proba, many.proba, atol=1e-7)


def test_loaders_are_found_in_whatever_holds_them():
    """Lightning takes one validation loader, a list of them or a dictionary, one in the other."""
    rows = [(torch.zeros(1, 2), torch.zeros(1))]
    one, two, three = (torch.utils.data.DataLoader(rows) for _ in range(3))
    for held, expected in (
        (one, [one]),
        ([one, two], [one, two]),
        ({"a": one, "b": [two, (three,)]}, [one, two, three]),
    ):
        assert list(each_loader(held)) == expected
