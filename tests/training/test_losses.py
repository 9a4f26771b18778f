"""Every loss against its numpy twin, its slope, and the batches that break naive code."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant import torch as ct
from calibrant.errors import InputError


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# -- twins: the formulas as printed, with loops ---------------------------------------------------


def twin_uce(z, y, n_bins=15, per_class=True):
    p = softmax(z)
    with np.errstate(divide="ignore", invalid="ignore"):
        h = -np.where(p > 0, p * np.log(p), 0).sum(axis=1) / np.log(p.shape[1])
    wrong = p.argmax(axis=1) != y
    bins = np.clip(np.ceil((h - 2.0**-24) * n_bins) - 1, 0, n_bins - 1)
    groups = [p.argmax(axis=1) == k for k in range(p.shape[1])] if per_class else [np.ones(len(y), bool)]
    values = []
    for rows in groups:
        if rows.any():
            value = 0.0
            for b in range(n_bins):
                inside = rows & (bins == b)
                if inside.any():
                    value += inside.sum() / rows.sum() * abs(wrong[inside].mean() - h[inside].mean())
            values.append(value)
    return np.mean(values)


def twin_mmce(z, y, width=0.4, weighted=True, normalization="paper"):
    p = softmax(z)
    conf, correct = p.max(axis=1), p.argmax(axis=1) == y

    def pairs(a, b, f, g):
        return sum(f(x) * g(t) * np.exp(-abs(x - t) / width) for x in a for t in b)

    if not weighted:
        r = correct - conf
        n = len(r)
        kernel = [[np.exp(-abs(a - b) / width) for a in conf] for b in conf]
        return np.sqrt(max(sum(r[i] * r[j] * kernel[i][j] for i in range(n) for j in range(n)), 0)) / n
    c, w = conf[correct], conf[~correct]
    m, n = len(c), len(w)
    cc, ww = pairs(c, c, lambda x: 1 - x, lambda x: 1 - x), pairs(w, w, lambda x: x, lambda x: x)
    cw = pairs(c, w, lambda x: 1 - x, lambda x: x)
    if normalization == "official":
        if not m or not n:
            return 0.0
        value = cc / m**2 / (m**2 + 1e-5) + ww / n**2 / (n**2 + 1e-5) - 2 * cw / (m * n) / (m * n + 1e-5)
        return np.sqrt(value + 1e-10)
    value = (cc / m**2 if m else 0) + (ww / n**2 if n else 0) - (2 * cw / (m * n) if m and n else 0)
    return np.sqrt(max(value, 0))


def twin_entropy(z, y):
    p = softmax(z)
    return np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0).sum(axis=1).mean()


def twin_focal(z, y, gamma=2.0):
    log_p = z - z.max(axis=1, keepdims=True)
    log_p = (log_p - np.log(np.exp(log_p).sum(axis=1, keepdims=True)))[np.arange(len(y)), y]
    return np.mean(-((-np.expm1(log_p)) ** gamma) * log_p)


def twin_smoothing(z, y, smoothing=0.1):
    log_p = z - z.max(axis=1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    target = np.full(z.shape, smoothing / z.shape[1])
    target[np.arange(len(y)), y] += 1 - smoothing
    return -(target * log_p).sum(axis=1).mean()


def twin_brier(z, y):
    return ((softmax(z) - np.eye(z.shape[1])[y]) ** 2).sum(axis=1).mean()


def twin_soft_ece(z, y, n_bins=15, temperature=0.01, norm=2):
    p = softmax(z)
    conf, correct = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    center = (np.arange(n_bins) + 0.5) / n_bins
    u = softmax(-((conf[:, None] - center) ** 2) / temperature)
    value = 0.0
    for j in range(n_bins):
        s = u[:, j].sum()
        if s > 1e-100:
            gap = abs((u[:, j] * correct).sum() / s - (u[:, j] * conf).sum() / s)
            value += s / len(y) * gap**norm
    return value ** (1 / norm)


LOSSES = {
    "uce": (ct.UCELoss(), twin_uce),
    "uce-pooled": (ct.UCELoss(n_bins=10, per_class=False), lambda z, y: twin_uce(z, y, 10, False)),
    "mmce": (ct.MMCELoss(), twin_mmce),
    "mmce-plain": (ct.MMCELoss(width=0.2, weighted=False), lambda z, y: twin_mmce(z, y, 0.2, False)),
    "mmce-official": (ct.MMCELoss(normalization="official"), lambda z, y: twin_mmce(z, y, normalization="official")),
    "entropy": (ct.EntropyPenalty(), twin_entropy),
    "focal": (ct.FocalLoss(), twin_focal),
    "focal-half": (ct.FocalLoss(gamma=0.5), lambda z, y: twin_focal(z, y, 0.5)),
    "smoothing": (ct.LabelSmoothing(), twin_smoothing),
    "brier": (ct.BrierLoss(), twin_brier),
    "soft-ece": (ct.SoftECELoss(), twin_soft_ece),
    "soft-ece-1": (ct.SoftECELoss(n_bins=10, norm=1), lambda z, y: twin_soft_ece(z, y, 10, norm=1)),
    "regularised": (
        ct.RegularizedLoss(ct.BrierLoss(), ct.UCELoss(), weight=3.0),
        lambda z, y: twin_brier(z, y) + 3 * twin_uce(z, y),
    ),
}


def random_batch(seed, n=40, k=5, scale=2.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)) * scale, rng.integers(0, k, n)


def hard_batches():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 12)
    hit = np.eye(4)[y] * 5 + rng.normal(size=(12, 4)) * 0.1
    miss = np.eye(4)[(y + 1) % 4] * 5 + rng.normal(size=(12, 4)) * 0.1
    one = np.zeros(12, int)
    return {
        "all-correct": (hit, y),
        "all-wrong": (miss, y),
        "saturated-right": (np.eye(4)[y] * 120 - 60, y),
        "saturated-wrong": (np.eye(4)[(y + 1) % 4] * 120 - 60, y),
        "one-row": (rng.normal(size=(1, 4)), y[:1]),
        "one-class": (rng.normal(size=(12, 4)) + np.eye(4)[0] * 9, one),
        "uniform": (np.zeros((12, 4)), y),
        "two-classes": (rng.normal(size=(12, 2)), y % 2),
    }


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_numpy_twin(name, seed):
    loss, twin = LOSSES[name]
    z, y = random_batch(seed)
    assert loss(torch.tensor(z), torch.tensor(y)).item() == pytest.approx(twin(z, y), abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("batch", hard_batches())
def test_hard_batches_value_and_finite_slope(name, batch):
    loss, twin = LOSSES[name]
    z, y = hard_batches()[batch]
    logits = torch.tensor(z, requires_grad=True)
    value = loss(logits, torch.tensor(y))
    value.backward()
    assert value.item() == pytest.approx(twin(z, y), abs=1e-6)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("batch", hard_batches())
def test_short_floats(name, dtype, batch):
    loss, twin = LOSSES[name]
    z, y = hard_batches()[batch]
    logits = torch.tensor(z).to(dtype).requires_grad_()
    value = loss(logits, torch.tensor(y))
    value.backward()
    rounded = logits.detach().double().numpy()
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(twin(rounded, y), abs=2e-5)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_gradcheck(name):
    loss, _ = LOSSES[name]
    z, y = random_batch(7, n=12, k=4)
    target = torch.tensor(y)
    assert torch.autograd.gradcheck(lambda logits: loss(logits, target), torch.tensor(z, requires_grad=True))


def test_uce_slope_flows_through_entropy_only():
    """A bin that is too certain is pushed towards more entropy, one that is too unsure towards less."""
    for scale, sign in ((4.0, 1.0), (0.5, -1.0)):
        y = torch.arange(20) % 2
        logits = torch.zeros(20, 2, dtype=torch.float64)
        logits[:, 0] = scale  # predicts class 0 always
        right = y.clone() if sign > 0 else torch.zeros(20, dtype=torch.long)
        logits.requires_grad_()
        before = ct.uce_loss(logits, right)
        (slope,) = torch.autograd.grad(before, logits)
        moved = (logits - 0.01 * slope * 20).detach()
        entropy = torch.distributions.Categorical(logits=moved).entropy().mean()
        assert sign * (entropy - torch.distributions.Categorical(logits=logits).entropy().mean()) > 0
        assert ct.uce_loss(moved, right) < before


def test_mmce_slope_at_zero_is_zero_and_bounded_near_it():
    logits = torch.zeros(10, 2, dtype=torch.float64, requires_grad=True)  # 0.5 sure, half right: MMCE = 0
    value = ct.mmce_loss(logits, torch.arange(10) % 2, weighted=False)
    value.backward()
    assert value.item() == 0
    assert torch.isfinite(logits.grad).all()
    for shift in (1e-9, 1e-7, 1e-5, 1e-3):
        near = torch.zeros(10, 2)
        near[:, 0] = shift
        near.requires_grad_()
        ct.mmce_loss(near, torch.arange(10) % 2, weighted=False).backward()
        assert near.grad.abs().max() < 1.0


def test_official_mmce_is_zero_without_correct_or_wrong_rows():
    y = torch.tensor([0, 1, 2])
    sure = torch.eye(3) * 3
    loss = ct.MMCELoss(normalization="official")
    assert loss(sure, y).item() == 0
    assert loss(sure, (y + 1) % 3).item() == 0
    assert ct.MMCELoss()(sure, y).item() > 0.05


@pytest.mark.parametrize("loss", [ct.FocalLoss, ct.BrierLoss, ct.LabelSmoothing, ct.EntropyPenalty])
def test_reductions_agree(loss):
    z, y = random_batch(5)
    z, y = torch.tensor(z), torch.tensor(y)
    rows = loss(reduction="none")(z, y)
    assert rows.shape == (40,)
    assert torch.allclose(loss(reduction="sum")(z, y), rows.sum())
    assert torch.allclose(loss()(z, y), rows.mean())


def test_agrees_with_torch():
    z, y = (torch.tensor(a) for a in random_batch(11))
    nll = torch.nn.functional.cross_entropy
    assert torch.allclose(ct.FocalLoss(gamma=0)(z, y), nll(z, y))
    assert torch.allclose(ct.LabelSmoothing(0.2)(z, y), nll(z, y, label_smoothing=0.2))


def test_penalty_weights_are_the_papers():
    z, y = (torch.tensor(a) for a in random_batch(2))
    nll = torch.nn.functional.cross_entropy(z, y)
    official = ct.MMCELoss(normalization="official")
    for penalty, weight in ((ct.UCELoss(), 10), (official, 10), (ct.MMCELoss(), 0.5), (ct.EntropyPenalty(), 0.1)):
        assert torch.allclose(ct.RegularizedLoss(penalty=penalty)(z, y), nll + weight * penalty(z, y))
    with pytest.raises(InputError, match="weight of RegularizedLoss must be a finite number"):
        ct.RegularizedLoss(penalty=lambda logits, target: logits.sum())


@pytest.mark.parametrize(
    ("logits", "target", "words"),
    [
        (torch.zeros(3, 1), torch.zeros(4, dtype=torch.long), r"hold 3 integer class indices of shape \(3,\)"),
        (torch.zeros(()), torch.zeros((), dtype=torch.long), "one number"),
        (torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.long), r"movedim\(-1, 1\)"),
        (torch.zeros(3, 4), torch.full((3, 4), 0.3), "sum to 1"),
        (torch.zeros(3), torch.tensor([0.0, 2.0, 1.0]), "sum to 1"),
        (torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), "hold at least one row"),
        (torch.zeros(3, 4, dtype=torch.long), torch.zeros(3, dtype=torch.long), "be floating point"),
        (torch.zeros(3, 4), torch.zeros(3), "hold 3 integer class indices"),
        (torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.long), "argmax"),
        (torch.zeros(3, 4), torch.tensor([0, -1, 1]), "-1 at row 1"),
        (torch.zeros(3, 4), torch.tensor([0, 1, 4]), "4 at row 2"),
    ],
)
def test_bad_batches_are_named(logits, target, words):
    with pytest.raises(InputError, match=words):
        ct.UCELoss()(logits, target)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ct.UCELoss(n_bins=0),
        lambda: ct.MMCELoss(width=0),
        lambda: ct.MMCELoss(normalization="none"),
        lambda: ct.FocalLoss(gamma=-1),
        lambda: ct.LabelSmoothing(1.0),
        lambda: ct.BrierLoss(reduction="max"),
        lambda: ct.SoftECELoss(norm=3),
        lambda: ct.SoftECELoss(temperature=0),
        ct.RegularizedLoss,
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InputError, match="Hint"):
        make()


def test_autocast_keeps_the_reductions_wide():
    model = torch.nn.Linear(8, 4)
    x, y = torch.randn(16, 8, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 4
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
        assert logits.dtype == torch.bfloat16
        value = ct.RegularizedLoss(penalty=ct.UCELoss())(logits, y)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(model.weight.grad).all()


@pytest.mark.parametrize("width", [0.005, 0.02, 0.4, 5.0])
def test_kernel_sums_without_pairs_equal_pairs_and_their_slopes(width):
    from calibrant.torch.mmce import _kernel_sums

    rng = np.random.default_rng(0)
    score = torch.tensor(np.round(rng.random(50), 2), requires_grad=True)  # with ties
    b, mix = torch.tensor(rng.normal(size=(50, 2)), requires_grad=True), torch.tensor(rng.normal(size=(2, 2)))
    slow = b.T @ torch.exp((score[:, None] - score[None, :]).abs() / -width) @ b
    fast = _kernel_sums(score, b, width)
    assert torch.allclose(fast, slow, rtol=1e-9)
    slopes = (torch.autograd.grad((mix * sums).sum(), (score, b)) for sums in (fast, slow))
    for ours, theirs in zip(*slopes, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", [0, 1])
def test_equal_to_the_measures_of_the_library(seed):
    from calibrant.metrics import brier_score, maximum_mean_calibration_error, uncertainty_calibration_error

    z, y = random_batch(seed, n=300)
    logits, target = torch.tensor(z), torch.tensor(y)
    for per_class in (True, False):
        ours = ct.UCELoss(per_class=per_class)(logits, target).item()
        assert ours == pytest.approx(uncertainty_calibration_error(y, z, per_class=per_class, space="logit"), abs=1e-9)
    plain = ct.MMCELoss(weighted=False)(logits, target).item()
    assert plain == pytest.approx(maximum_mean_calibration_error(y, z, space="logit"), abs=1e-6)
    assert ct.BrierLoss()(logits, target).item() == pytest.approx(brier_score(y, z, space="logit"), abs=1e-9)
