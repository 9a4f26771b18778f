"""Losses as they are used: padding, weights, soft labels, one logit, segmentation, short floats, slopes of slopes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant import torch as ct
from calibrant.errors import InputError
from calibrant.torch.mmce import MAX_PAIRS, _kernel_sums

F = torch.nn.functional

LOSSES = {
    "uce": ct.UCELoss,
    "uce-pooled": lambda **more: ct.UCELoss(per_class=False, **more),
    "mmce": ct.MMCELoss,
    "mmce-plain": lambda **more: ct.MMCELoss(weighted=False, **more),
    "mmce-official": lambda **more: ct.MMCELoss(normalization="official", **more),
    "entropy": ct.EntropyPenalty,
    "focal": ct.FocalLoss,
    "smoothing": ct.LabelSmoothing,
    "brier": ct.BrierLoss,
    "soft-ece": ct.SoftECELoss,
    "soft-ece-1": lambda **more: ct.SoftECELoss(norm=1, **more),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def batch(n=40, k=5, seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=draw, dtype=dtype)
    return logits, torch.randint(0, k, (n,), generator=draw)


def regularized(**more):
    return ct.RegularizedLoss(penalty=ct.UCELoss(**more))


@pytest.mark.parametrize("name", [*LOSSES, "regularized"])
@pytest.mark.parametrize("mark", [-100, 2])
def test_ignored_rows_are_as_if_dropped(name, mark):
    z, y = batch()
    make = LOSSES.get(name, regularized)
    if mark == -100:
        y[::3] = -100
    z[y == mark] = float("nan")  # padding may hold anything
    keep = y != mark
    z.requires_grad_()
    value = make(ignore_index=mark)(z, y)
    value.backward()
    assert value.item() == pytest.approx(make()(z[keep].detach(), y[keep]).item(), rel=1e-12)
    assert torch.equal(z.grad[~keep], torch.zeros_like(z.grad[~keep]))
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("name", [*LOSSES, "regularized"])
def test_a_batch_of_padding_alone_is_zero_with_slope_zero(name):
    z = torch.randn(4, 3, requires_grad=True)
    value = LOSSES.get(name, regularized)()(z, torch.full((4,), -100))
    value.backward()
    assert value.item() == 0
    assert not z.grad.any()


@every_loss
def test_whole_weights_repeat_rows(name):
    z, y = batch()
    times = torch.arange(40) % 4
    repeated = LOSSES[name]()(z.repeat_interleave(times, 0), y.repeat_interleave(times))
    weighted = LOSSES[name]()(z, y, times.double())
    tolerance = 2e-3 if name == "mmce-official" else 1e-9  # its 10⁻⁵ is no weight
    assert weighted.item() == pytest.approx(repeated.item(), rel=tolerance, abs=1e-9)


@every_loss
def test_class_weights_are_weights_of_rows(name):
    z, y = batch()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 0.0])
    if name == "smoothing":
        expected = F.cross_entropy(z, y, weight=weights.double(), label_smoothing=0.1)
    else:
        expected = LOSSES[name]()(z, y, weights.double()[y])
    assert LOSSES[name](class_weight=weights)(z, y).item() == pytest.approx(expected.item(), rel=1e-9)


@every_loss
def test_soft_labels_that_are_hard_change_nothing(name):
    z, y = batch()
    hard = F.one_hot(y, 5).double()
    assert LOSSES[name]()(z, hard).item() == pytest.approx(LOSSES[name]()(z, y).item(), rel=1e-9)


@pytest.mark.parametrize("name", ["uce", "uce-pooled", "mmce", "mmce-plain", "soft-ece", "soft-ece-1", "focal"])
def test_mixup_equals_its_two_halves(name):
    """A row with soft label λ·a + (1 − λ)·b counts as one row labeled a of weight λ and one labeled b."""
    z, y = batch()
    other, share = y.roll(1), torch.linspace(0.1, 0.9, 40, dtype=torch.float64)
    soft = share[:, None] * F.one_hot(y, 5) + (1 - share[:, None]) * F.one_hot(other, 5)
    both = LOSSES[name]()(torch.cat([z, z]), torch.cat([y, other]), torch.cat([share, 1 - share]))
    assert LOSSES[name]()(z, soft).item() == pytest.approx(both.item(), rel=1e-9)


def test_soft_labels_as_torch_has_them():
    z, _ = batch()
    soft = torch.softmax(torch.randn(40, 5, dtype=torch.float64), dim=1)
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 0.0], dtype=torch.float64)
    for smoothing in (0.0, 0.2):
        ours = ct.LabelSmoothing(smoothing, class_weight=weights)(z, soft)
        assert torch.allclose(ours, F.cross_entropy(z, soft, weight=weights, label_smoothing=smoothing))
    assert torch.allclose(
        ct.FocalLoss(gamma=0, class_weight=weights)(z, soft), F.cross_entropy(z, soft, weight=weights)
    )
    assert torch.allclose(ct.BrierLoss()(z, soft), (torch.softmax(z, dim=1) - soft).square().sum(dim=1).mean())


@every_loss
@pytest.mark.parametrize("shape", [(40,), (40, 1), (10, 1, 4)])
def test_one_logit_is_two_columns(name, shape):
    z = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2
    y = torch.arange(40) % 2
    expected = LOSSES[name]()(torch.stack([torch.zeros(40, dtype=torch.float64), z], dim=1), y).item()
    spots = shape[:1] + shape[2:]
    for target in (y.reshape(spots), y.reshape(spots).double(), y.reshape(shape), y.bool().reshape(spots)):
        assert LOSSES[name]()(z.reshape(shape), target).item() == pytest.approx(expected, rel=1e-9)


def test_one_logit_cross_entropy_is_torchs():
    z, y = torch.randn(20), (torch.arange(20) % 2).float()
    assert torch.allclose(ct.LabelSmoothing(0.0)(z, y), F.binary_cross_entropy_with_logits(z, y))
    y[3] = -100
    keep = y >= 0
    assert torch.allclose(ct.LabelSmoothing(0.0)(z, y), F.binary_cross_entropy_with_logits(z[keep], y[keep]))


@every_loss
def test_segmentation_has_its_classes_in_dimension_one(name):
    z, y = batch(n=2 * 4 * 5, k=3)
    image = z.reshape(2, 4, 5, 3).movedim(-1, 1).contiguous(memory_format=torch.channels_last)
    mask = y.reshape(2, 4, 5)
    assert LOSSES[name]()(image, mask).item() == pytest.approx(LOSSES[name]()(z, y).item(), rel=1e-12)
    if hasattr(LOSSES[name](), "reduction"):
        rows = LOSSES[name](reduction="none")(image, mask)
        assert rows.shape == mask.shape
        assert torch.allclose(rows.reshape(-1), LOSSES[name](reduction="none")(z, y))


@every_loss
def test_nan_flows_so_that_a_gradient_scaler_sees_it(name):
    z, y = batch(n=12)
    for bad in (float("nan"), float("inf")):
        broken = z.clone()
        broken[3, 1] = bad
        assert not torch.isfinite(LOSSES[name]()(broken, y))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_masked_classes_are_fine(name, dtype):
    z, y = batch(n=12, k=4, dtype=torch.float64)
    y = y % 3
    masked = z.to(dtype)
    masked[:, 3] = -torch.inf
    masked.requires_grad_()
    value = LOSSES[name]()(masked, y)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(masked.grad).all()
    if name not in ("uce", "uce-pooled"):  # which divides by log K: the masked class counts
        reference = LOSSES[name]()(z.to(dtype)[:, :3].double(), y).item()
        assert value.item() == pytest.approx(reference, rel=1e-9 if dtype == torch.float64 else 1e-4)


@every_loss
def test_slopes_of_slopes(name):
    z, y = batch(n=8, k=3, seed=5)
    assert torch.autograd.gradgradcheck(lambda z: LOSSES[name]()(z, y), z.clone().requires_grad_())


@every_loss
def test_torch_func(name):
    z, y = batch(n=8, k=3)
    loss = LOSSES[name]()
    (expected,) = torch.autograd.grad(loss(leaf := z.clone().requires_grad_(), y), leaf)
    assert torch.allclose(torch.func.grad(loss)(z, y), expected)
    (tangent,) = (torch.func.jvp(lambda z: loss(z, y), (z,), (z.cos(),))[1],)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.unpack_dual(loss(torch.autograd.forward_ad.make_dual(z, z.cos()), y)).tangent
    assert tangent.item() == pytest.approx((expected * z.cos()).sum().item(), rel=1e-9)
    assert dual.item() == pytest.approx(tangent.item(), rel=1e-9)


@every_loss
def test_slopes_of_single_rows_by_vmap(name):
    z, y = batch(n=6, k=3)
    y[2] = -100
    loss = LOSSES[name]()
    found = torch.func.vmap(torch.func.grad(lambda z, y: loss(z[None], y[None])))(z, y)
    for i in range(len(z)):
        (expected,) = torch.autograd.grad(loss(leaf := z[i : i + 1].clone().requires_grad_(), y[i : i + 1]), leaf)
        assert torch.allclose(found[i : i + 1], expected, atol=1e-12)


def test_many_rows_have_right_slopes_of_slopes_and_ties():
    draw = torch.Generator().manual_seed(0)
    n = MAX_PAIRS + 44
    score = (torch.rand(n, generator=draw, dtype=torch.float64) * 50).round() / 50
    b = torch.randn(n, 2, generator=draw, dtype=torch.float64)

    def pairs(score, b):
        return b.T @ torch.exp((score[:, None] - score).abs() / -0.4) @ b

    results = []
    for form in (lambda s, b: _kernel_sums(s, b, 0.4), pairs):
        s, c = score.clone().requires_grad_(), b.clone().requires_grad_()
        first = torch.autograd.grad(form(s, c).square().sum(), (s, c), create_graph=True)
        results.append([*first, *torch.autograd.grad(sum(g.square().sum() for g in first), (s, c))])
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-7)


def test_deterministic_algorithms_are_no_obstacle():
    z, y = batch(n=300)
    torch.use_deterministic_algorithms(True)
    try:
        for make in LOSSES.values():
            make()(z.clone().requires_grad_(), y).backward()
        meter = ct.StreamingCalibration(5)
        meter.update(z, y)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "call",
    [
        lambda z, y: ct.mmce_loss(z, y, normalization="Paper"),
        lambda z, y: ct.mmce_loss(z, y, width=0),
        lambda z, y: ct.uce_loss(z, y, n_bins=0),
        lambda z, y: ct.soft_ece_loss(z, y, norm=3),
        lambda z, y: ct.soft_ece_loss(z, y, temperature=-1.0),
        lambda z, y: ct.focal_loss(z, y, gamma=-1),
        lambda z, y: ct.label_smoothing(z, y, smoothing=1.5),
        lambda z, y: ct.brier_loss(z, y, reduction="average"),
        lambda z, y: ct.entropy_penalty(z, y, reduction="average"),
        lambda z, y: ct.uce_loss(z, y, sample_weight=torch.ones(3)),
        lambda z, y: ct.uce_loss(z, y, sample_weight=-torch.ones(40)),
        lambda z, y: ct.uce_loss(z, y, class_weight=torch.ones(3)),
        lambda z, y: ct.uce_loss(z, y.numpy()),
        lambda z, y: ct.uce_loss(z.numpy(), y),
        lambda z, y: ct.RegularizedLoss(penalty=ct.UCELoss(), warmup=-1),
    ],
)
def test_functions_refuse_what_the_classes_refuse(call):
    with pytest.raises(InputError, match="Hint"):
        call(*batch())


def test_compiled_padding_does_not_count():
    torch._dynamo.reset()
    z, y = batch(n=12, dtype=torch.float32)
    y[::3] = -100
    loss = regularized()
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(z, y), loss(z[y >= 0], y[y >= 0]))


# -- RegularizedLoss -----------------------------------------------------------------------------------------------


class Doubled(ct.BrierLoss):
    def forward(self, logits, target, sample_weight=None):
        return 2 * super().forward(logits, target, sample_weight)


@pytest.mark.parametrize("base", [None, ct.FocalLoss(), ct.FocalLoss(ignore_index=3), Doubled(), F.cross_entropy])
@pytest.mark.parametrize("penalty", [ct.MMCELoss(), ct.UCELoss(class_weight=torch.arange(1.0, 6)), Doubled()])
@pytest.mark.parametrize("mark", [-100, 4])
def test_two_losses_of_one_batch_are_what_each_is_alone(base, penalty, mark):
    z, y = batch()
    if mark == -100:
        y[::3] = mark
    penalty.ignore_index = mark
    plain = ct.LabelSmoothing(0.0, ignore_index=mark, class_weight=penalty.class_weight) if base is None else base
    if base is F.cross_entropy or getattr(base, "ignore_index", None) == 3:
        y[y == -100] = 1  # a base of its own marks
    expected = plain(z, y) + 0.5 * penalty(z, y)
    assert ct.RegularizedLoss(base, penalty, 0.5)(z, y).item() == pytest.approx(expected.item(), rel=1e-12)
    penalty.ignore_index = -100


def test_hooks_of_a_penalty_are_called():
    z, y = batch()
    penalty, seen = ct.UCELoss(), []
    loss = ct.RegularizedLoss(penalty=penalty)
    handle = penalty.register_forward_hook(lambda module, args, out: seen.append(out.item()))
    value = loss(z, y)
    handle.remove()
    assert seen == [pytest.approx(penalty(z, y).item())]
    assert loss(z, y).item() == pytest.approx(value.item(), rel=1e-12)


def test_parts_and_warm_up():
    z, y = batch()
    loss = ct.RegularizedLoss(ct.BrierLoss(), ct.MMCELoss(), weight=2.0, warmup=4)
    with pytest.raises(InputError, match="call the loss first"):
        loss.parts()
    seen = []
    for _ in range(6):
        value = loss(z.requires_grad_(), y)
        parts = loss.parts()
        seen.append(float(parts["weight"]))
        assert value.item() == pytest.approx(float(parts["base"] + parts["weight"] * parts["penalty"]))
        assert not parts["base"].requires_grad
    assert seen == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]
    again = ct.RegularizedLoss(ct.BrierLoss(), ct.MMCELoss(), weight=2.0, warmup=4)
    again.load_state_dict(loss.state_dict())
    again.eval()
    again(z, y)
    assert float(again.parts()["weight"]) == 2.0
    assert int(again.steps) == 6
    assert not ct.RegularizedLoss(penalty=ct.MMCELoss()).state_dict()


def test_default_base_is_torchs_cross_entropy_with_the_mask_and_weights_of_the_penalty():
    z, y = batch()
    y[::4] = 7
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 0.0], dtype=torch.float64)
    loss = ct.RegularizedLoss(penalty=ct.UCELoss(ignore_index=7, class_weight=weights))
    loss(z, y)
    expected = F.cross_entropy(z, y, ignore_index=7, weight=weights)
    assert float(loss.parts()["base"]) == pytest.approx(float(expected))
    assert loss(z.half(), y).dtype == torch.float32


# -- the meter -----------------------------------------------------------------------------------------------------


METRICS = ("accuracy", "ece", "ks", "uce", "brier", "nll", "sce", "rbs")


def meter_of(n_classes, *args, **more):
    meter = ct.StreamingCalibration(n_classes, METRICS, **more)
    meter.update(*args)
    return meter.compute()


@pytest.mark.parametrize("space", ["logit", "proba"])
def test_meter_pads_segments_and_takes_one_column(space):
    z, y = batch(n=40, k=3)
    z = z if space == "logit" else torch.softmax(z, dim=1)
    expected = meter_of(3, z, y, space=space)
    padded, labels = torch.cat([z, torch.full((5, 3), float("nan"))]), torch.cat([y, torch.full((5,), -100)])
    assert meter_of(3, padded, labels, space=space) == pytest.approx(expected)
    assert meter_of(3, z.reshape(2, 4, 5, 3).movedim(-1, 1), y.reshape(2, 4, 5), space=space) == pytest.approx(expected)
    column = z[:, 0] if space == "logit" else z[:, 0].clamp(0, 1)
    two = torch.stack([torch.zeros_like(column) if space == "logit" else 1 - column, column], dim=1)
    for form in (column, column[:, None]):
        assert meter_of(2, form, y % 2, space=space) == pytest.approx(meter_of(2, two, y % 2, space=space))
    with pytest.raises(InputError, match="hold class indices"):
        meter_of(3, z, torch.softmax(z, dim=1))
    with pytest.raises(InputError, match="weighted=True"):
        meter_of(3, z, y, torch.ones(40))


def test_meter_weights_are_repetitions():
    z, y = batch(n=60, k=3)
    times = torch.arange(60) % 3
    z[0] = torch.tensor([-torch.inf, 0, 0])  # weight 0: its infinite log score does not count
    y[0] = 0
    repeated = meter_of(3, z.repeat_interleave(times, 0), y.repeat_interleave(times))
    assert meter_of(3, z, y, times, weighted=True) == pytest.approx(repeated, abs=1e-12)
    assert meter_of(3, z, y, weighted=True)["ece"] == pytest.approx(meter_of(3, z, y)["ece"])


def test_meter_lets_nan_be_seen():
    z, y = batch(n=20, k=3)
    z[4] = float("nan")
    found = meter_of(3, z, y)
    assert all(np.isnan(found[name]) for name in METRICS[1:])


@pytest.mark.parametrize("move", [lambda m: m.half(), lambda m: m.float(), lambda m: m.to(torch.bfloat16)])
def test_meter_keeps_float64_wherever_the_model_goes(move):
    z, y = batch(n=3000, k=5)
    model = torch.nn.ModuleDict({"net": torch.nn.Linear(2, 2), "meter": ct.StreamingCalibration(5, METRICS)})
    move(model)
    assert model["meter"].state.dtype == torch.float64
    assert not dict(model.named_buffers())
    for rows in torch.arange(3000).split(500):
        model["meter"].update(z[rows], y[rows])
    assert model["meter"].compute() == pytest.approx(meter_of(5, z, y), abs=1e-12)
    model.to("meta")
    assert model["meter"].state.device.type == "meta"
    assert model["meter"].state.dtype == torch.float64
