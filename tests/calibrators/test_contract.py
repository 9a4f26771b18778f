"""Every listed calibrator keeps the contract; a new method joins by being listed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils import estimator_checks

import calibrant.calibrators as room
from calibrant.core.links import softmax
from calibrant.errors import CalibrantWarning
from calibrant.testing import calibrators as suite
from calibrant.testing import check_calibrator


@pytest.mark.parametrize("name", list(room.CALIBRATORS))
def test_contract(name):
    check_calibrator(getattr(room, name))


@pytest.mark.parametrize("name", list(room.CALIBRATORS))
def test_scikit_learn_checks_that_need_no_features(name):
    kind = getattr(room, name)
    estimator_checks.check_parameters_default_constructible(name, kind())
    estimator_checks.check_no_attributes_set_in_init(name, kind())
    estimator_checks.check_get_params_invariance(name, kind())
    estimator_checks.check_set_params(name, kind())
    estimator_checks.check_estimator_cloneable(name, kind())
    estimator_checks.check_estimator_repr(name, kind())
    estimator_checks.check_estimator_tags_renamed(name, kind())
    estimator_checks.check_valid_tag_types(name, kind())


# latent functions are for K ≤ 100, and these are costly at a thousand classes; they say so in `when`
MANY = [
    name
    for name in room.CALIBRATORS
    if name not in ("GaussianProcessCalibration", "AutoCalibrator", "VennAbers", "BayesianBinning", "Ensemble")
]


@pytest.mark.parametrize("name", MANY)
def test_a_thousand_classes(name):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 1000)) * 3
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = softmax(z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        out = getattr(room, name)().fit(p, y).predict_proba(p)
    suite._on_simplex(name, out, p.shape, "a thousand classes")


class Careless(room.Identity):
    """Rolls the columns, and is not what it exports."""

    def _predict(self, x):
        return np.roll(x, 1, axis=1)


class Liar(room.Identity):
    """Says it keeps the order, and rolls the columns."""

    def _predict(self, x):
        return np.roll(x, 1, axis=1)

    def _map(self, graph, x):
        last = self.n_classes_ - 1
        return graph.concat([graph.columns(x, last, last + 1), graph.columns(x, 0, last)])


class Leaky(room.Identity):
    """Leaves the simplex."""

    def apply_block(self, raw):
        return 1.01 * raw


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Careless, "argmax is kept"),
        (Liar, "argmax is kept"),
        (Leaky, "lies in"),
    ],
)
def test_the_suite_catches_a_broken_method(kind, words):
    with pytest.raises(AssertionError, match=f"{kind.__name__} breaks the contract: .*{words}"):
        check_calibrator(kind)
