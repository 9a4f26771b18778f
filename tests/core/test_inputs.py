"""The one door: containers, tolerances, messages."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.inputs import check_forecast, check_pairs
from calibrant.errors import InputError


def check(y, p, **more):
    return check_forecast(y, p, caller="test", **more)


class DeviceTensor:
    """Stand-in for a tensor on a GPU: only `.detach().cpu()` gives an array. Real devices are untested here."""

    def __init__(self, array):
        self.array, self.steps = array, []

    def detach(self):
        self.steps.append("detach")
        return self

    def cpu(self):
        self.steps.append("cpu")
        return self.array


def test_tensor_on_a_device_comes_by_detach_and_cpu():
    tensor = DeviceTensor(np.array([[0.25, 0.75]], dtype=np.float16))
    forecast = check([1], tensor)
    assert tensor.steps == ["detach", "cpu"]
    assert forecast.top_score.tolist() == [0.75]


def test_torch_half_and_bfloat16():
    torch = pytest.importorskip("torch", reason="torch is absent (extra: torch)")

    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        assert check([1, 0], p.to(dtype).requires_grad_(False)).top.tolist() == [1, 0]


@pytest.mark.parametrize(("dtype", "off"), [(np.float64, 5e-7), (np.float32, 5e-5), (np.float16, 5e-3)])
def test_rounding_within_the_dtype_is_accepted_beyond_it_is_not(dtype, off):
    p = np.array([[0.5, 0.5], [0.25, 0.75]])
    near, far = p.copy(), p.copy()
    near[1, 0] += off
    far[1, 0] += 40 * off
    check([0, 1], near.astype(dtype))
    with pytest.raises(InputError, match=r"row 1.*normalize=True"):
        check([0, 1], far.astype(dtype))


def test_a_value_outside_by_rounding_counts_as_zero_or_one():
    p = np.array([[1.0000002, -0.0000002], [0.5, 0.5]], dtype=np.float32)
    forecast = check([0, 1], p)
    assert forecast.top_score.max() == 1.0
    assert forecast.block(slice(0, 2)).min() == 0.0
    assert p[0, 0] > 1  # the caller's array is as it was


def test_negative_zero_is_zero():
    forecast = check([1, 0], np.array([[-0.0, 1.0], [1.0, -0.0]]))
    assert forecast.top.tolist() == [1, 0]


def test_normalize_rescales_rows():
    forecast = check([0, 1], [[0.33, 0.66], [2, 6]], normalize=True)
    assert forecast.top_score == pytest.approx([2 / 3, 3 / 4])
    assert forecast.block(slice(0, 2)).sum(axis=1) == pytest.approx([1, 1])
    with pytest.raises(InputError, match="row 1"):
        check([0, 1], [[0.3, 0.6], [0.0, 0.0]], normalize=True)


def test_logits_are_never_guessed():
    with pytest.raises(InputError, match="space='logit'"):
        check([0, 1], [[2.0, -1.0], [0.5, 0.5]])
    forecast = check([0, 1], [[2.0, -1.0], [0.5, 0.5]], space="logit")
    assert forecast.block(slice(0, 2)).sum(axis=1) == pytest.approx([1, 1])
    with pytest.raises(InputError, match="row 0"):
        check([0], [[np.inf, 0.0]], space="logit")


def test_log_odds_of_class_one():
    forecast = check([1, 0], [40.0, -800.0], space="logit")
    assert forecast.true_log_score == pytest.approx([-np.exp(-40.0), 0.0], abs=1e-20)


def test_log_score_of_logits_does_not_underflow():
    assert check([1], [[0.0, -2000.0]], space="logit").true_log_score[0] == -2000.0


def test_ties_take_the_lowest_index():
    assert check([0, 0], [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]).top.tolist() == [0, 1]
    assert check([0], [0.5]).top.tolist() == [0]


def test_non_contiguous_and_transposed_matrices():
    p = np.asfortranarray(np.random.default_rng(0).dirichlet([1, 1, 1], 50))
    assert (check(np.zeros(50, int), p).top == p.argmax(axis=1)).all()
    bad = p.copy(order="F")
    bad[7, 1] = -0.5
    with pytest.raises(InputError, match="row 7"):
        check(np.zeros(50, int), bad)


def test_the_first_of_many_bad_rows_is_named():
    p = np.full((200_000, 2), 0.5, dtype=np.float32)
    p[[150_321, 170_000]] = np.nan
    with pytest.raises(InputError, match="nan at row 150321"):
        check(np.zeros(200_000, int), p)


@pytest.mark.parametrize(
    ("weights", "word"),
    [([1.0, np.nan], "row 1"), ([1, -1], "row 1"), ([0, 0], "positive"), ([1, 2, 3], "one weight per row")],
)
def test_bad_weights(weights, word):
    with pytest.raises(InputError, match=word):
        check([0, 1], [[0.5, 0.5]] * 2, sample_weight=weights)


def test_bad_classes():
    with pytest.raises(InputError, match="'x' twice"):
        check(["x", "x"], [[0.5, 0.5]] * 2, classes=["x", "x"])
    with pytest.raises(InputError, match=r"'z'.* at row 1"):
        check(["x", "z"], [[0.5, 0.5]] * 2, classes=["x", "y"])
    with pytest.raises(InputError, match="3 names"):
        check([0, 1], [[0.5, 0.5]] * 2, classes=["x", "y", "z"])


def test_pairs():
    forecast = check_pairs([1, 0], [0.9, 0.4], caller="test")
    assert forecast.hit.tolist() == [True, False]
    with pytest.raises(InputError, match="whole probability vectors"):
        forecast.block(slice(0, 2))
    with pytest.raises(InputError, match="row 1"):
        check_pairs([1, 0], [0.9, 1.4], caller="test")


def test_other_rows_and_other_outcomes_keep_nothing_of_the_old_ones():
    """Sums kept by one forecast must not answer for its parts or for resampled labels."""
    from calibrant.metrics._ks import METRIC as KS

    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    y = rng.integers(0, 3, 200)
    forecast = check_forecast(y, p, caller="test")
    whole = KS.build().value(forecast)
    part = KS.build().value(forecast.take(np.arange(50)))
    assert part == KS.build().value(check_forecast(y[:50], p[:50], caller="test"))
    other = rng.integers(0, 3, 200)
    swapped = KS.build().value(forecast.with_codes(other))
    assert swapped == KS.build().value(check_forecast(other, p, caller="test"))
    assert len({whole, part, swapped}) == 3


@pytest.mark.parametrize("place", [0, 70_000, -1])
def test_long_columns_are_checked_to_their_end(place):
    p, y = np.full(150_000, 0.5), np.arange(150_000) % 2
    assert check(y, p).n == 150_000
    for bad in (np.nan, -0.2, 1.7):
        broken = p.copy()
        broken[place] = bad
        with pytest.raises(InputError, match="y_proba"):
            check(y, broken)
    for bad in (-1, 2):
        labels = y.copy()
        labels[place] = bad
        with pytest.raises(InputError, match="y_true"):
            check(labels, p)


def test_checksum_knows_weights_and_every_probability():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    same = check([0, 2], p).checksum()
    assert check([0, 2], np.asfortranarray(p)).checksum() == same
    others = [
        check([0, 2], p[:, [0, 2, 1]] @ np.eye(3)),
        check([0, 2], p, sample_weight=[1, 2]),
        check([0, 2], p, sample_weight=[2, 1]),
        check([0, 1], p),
        check_pairs([1, 0], [0.5, 0.7], caller="test"),
        check_pairs([1, 0], [0.5, 0.7], caller="test", sample_weight=[1, 2]),
    ]
    assert len({same, *(one.checksum() for one in others)}) == 7
