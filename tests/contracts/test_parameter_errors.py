"""A wrong parameter is refused in the words of the function the user called, for every metric of the registry."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calibrant
from calibrant import metrics
from calibrant.core.declare import declared
from calibrant.errors import InputError

Y = np.array([0, 1, 2, 1, 0, 2])
P = np.array(
    [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.3, 0.3, 0.4]],
)
NUMBERS = (0, -1, "many", None, math.nan)
#: Values every metric with this parameter refuses; a new parameter needs an entry.
BAD = {
    "n_bins": (0, -3, 2.5, "many", None, True),
    "bins": ("equal", 3, None),
    "view": ("nothing", 7, None, "top-0", "class--1", "rank-9", "class-9"),
    "convention": ("nobody", 3),
    "norm": (0.5, "two", None, math.nan),
    "debias": ("yes", 1),
    "pooled": ("yes", 1),
    "per_class": ("yes", 1),
    "root": ("yes", 1),
    "threshold": (-0.1, 1.0, "low"),
    "bandwidth": (*NUMBERS[:2], "wide", math.nan),
    "scale_by_half": ("yes", 2, None),
    "width": NUMBERS,
    "gamma": (*NUMBERS[:2], "wide", math.nan),
    "estimator": ("best", None),
    "kernel": ("best", None),
    "block_size": (1, "many", 2.5),
}
CASES = [
    pytest.param(metric, name, value, id=f"{metric.name}-{name}-{value!r}")
    for metric in declared()
    for name in metric.parameters()
    for value in BAD.get(name, ())
]


def test_every_parameter_has_bad_values():
    assert {name for metric in declared() for name in metric.parameters()} <= set(BAD)


@pytest.mark.parametrize(("metric", "name", "value"), CASES)
def test_errors_name_function_and_argument(metric, name, value):
    function = getattr(metrics, metric.function)
    with pytest.raises(InputError) as caught:
        function(Y, P, **{name: value})
    assert (caught.value.argument, caught.value.caller) == (name, metric.function)
    assert str(caught.value).startswith(f"{name} of {metric.function} must ")
    with pytest.raises(InputError) as caught:
        calibrant.metric(metric.name, Y, P, **{name: value})
    assert (caught.value.argument, caught.value.caller) == (name, "metric")


def test_unknown_parameters_and_combinations_name_the_function():
    with pytest.raises(InputError, match=r"^bandwith of metric must be a parameter"):
        calibrant.metric("kde", Y, P, bandwith=1)
    with pytest.raises(InputError, match=r"^debias of top_label_calibration_error must go with norm=2"):
        metrics.top_label_calibration_error(Y, P, norm=1, debias=True)
    with pytest.raises(InputError, match=r"^view of kolmogorov_smirnov_error must give pairs"):
        metrics.kolmogorov_smirnov_error(Y, P, view="canonical")
    with pytest.raises(InputError, match=r"^n_bins of Binned must"):  # here the user called Binned
        calibrant.estimators.Binned(0)


@pytest.mark.parametrize(
    ("call", "caller"),
    [
        (lambda: calibrant.evaluate(Y, P, n_bins=0), "evaluate"),
        (lambda: calibrant.interval("ece", Y, P, n_bins=0), "interval"),
        (lambda: calibrant.Summary(3, n_bins=[0]), "Summary"),
        (lambda: calibrant.Summary(3).update(Y, P).metric("ece", n_bins=0), "Summary.metric"),
        (lambda: calibrant.Summary(3).update(Y, P).evaluate(n_bins=0), "Summary"),
    ],
)
def test_other_functions_speak_for_themselves(call, caller):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == "n_bins"
    assert caught.value.caller.rpartition(".")[2] == caller.rpartition(".")[2]


@pytest.mark.parametrize("curve", ["reliability_curve", "class_table"])
def test_curves_name_function_and_argument(curve):
    for name in ("n_bins", "bins"):
        for value in BAD[name]:
            with pytest.raises(InputError, match=rf"^{name} of {curve} must"):
                getattr(metrics, curve)(Y, P, **{name: value})


@pytest.mark.parametrize(
    ("curve", "name", "value"),
    [
        ("reliability_curve", "level", 1.0),
        ("reliability_curve", "view", "classwise"),
        ("cumulative_curve", "view", "nothing"),
        ("isotonic_curve", "view", "class-9"),
        ("local_curve", "decay", 1.0),
        ("local_curve", "decay", "slow"),
    ],
)
def test_other_parameters_of_curves(curve, name, value):
    with pytest.raises(InputError, match=rf"^{name} of {curve} must"):
        getattr(metrics, curve)(Y, P, **{name: value})
