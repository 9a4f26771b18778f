"""Columns meet classes by name: in a frame given to a calibrator, and in a report."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.calibrators import Compose, Identity, SplineCalibration, VectorScaling, VennAbers
from calibrant.core.inputs import check_forecast
from calibrant.errors import InputError
from calibrant.reporting.recalibration import apply_named
from helpers import where_installed

NAMES = ["ant", "bee", "cat"]


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([4.0, 2.0, 1.0], 400)
    labels = np.array(NAMES)[[rng.choice(3, p=row) for row in p**1.5 / (p**1.5).sum(axis=1, keepdims=True)]]
    return VectorScaling(classes=NAMES).fit(p, labels), p, labels


@pytest.mark.parametrize("stem", ["", "p_", "prob_"])
@pytest.mark.parametrize("kind", where_installed(["polars", "pandas", "pyarrow"]))
def test_a_frame_in_another_order(fitted, stem, kind):
    calibrator, p, _ = fitted
    plain = calibrator.predict_proba(p)
    mirrored = pl.DataFrame({f"{stem}{name}": p[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    frame = mirrored if kind == "polars" else mirrored.to_pandas() if kind == "pandas" else mirrored.to_arrow()
    assert not np.allclose(calibrator.predict_proba(p[:, ::-1])[:, ::-1], plain, atol=1e-3)
    np.testing.assert_array_equal(calibrator.predict_proba(frame)[:, ::-1], plain)


def test_labels_and_scores_of_a_frame_in_another_order(fitted):
    calibrator, p, labels = fitted
    mirrored = pl.DataFrame({name: p[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    np.testing.assert_array_equal(calibrator.predict(mirrored), calibrator.predict(p))
    assert calibrator.score(mirrored, labels) == calibrator.score(p, labels)


@pytest.mark.parametrize("space", ["proba", "logit"])
def test_an_interval_of_a_frame_in_another_order(fitted, space):
    _, p, labels = fitted
    x = p if space == "proba" else np.log(p)
    calibrator = VennAbers(classes=NAMES, space=space).fit(x, labels)
    mirrored = pl.DataFrame({f"p_{name}": x[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    for plain, named in zip(calibrator.predict_interval(x), calibrator.predict_interval(mirrored), strict=True):
        np.testing.assert_array_equal(named[:, ::-1], plain)


def test_curves_per_class_of_a_frame_in_another_order(fitted):
    _, p, labels = fitted
    calibrator = SplineCalibration(target="classwise", classes=NAMES).fit(p, labels)
    mirrored = pl.DataFrame({f"p_{name}": p[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    np.testing.assert_allclose(calibrator.recalibrate(mirrored)[:, ::-1], calibrator.recalibrate(p), rtol=1e-12)


def test_a_file_applied_to_a_frame_in_another_order(fitted, tmp_path):
    calibrator, p, _ = fitted
    calibrator.save(tmp_path / "cal.json")
    mirrored = pl.DataFrame({f"p_{name}": p[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    plain = calibrant.predict_from_json(tmp_path / "cal.json", p)
    np.testing.assert_allclose(calibrant.predict_from_json(tmp_path / "cal.json", mirrored)[:, ::-1], plain, rtol=1e-12)
    with pytest.raises(InputError, match="have the classes ant, bee, cat; got x, y, z"):
        calibrant.predict_from_json(tmp_path / "cal.json", pl.DataFrame(p, schema=["x", "y", "z"]))


def test_classes_that_contradict_a_frame(fitted):
    _, p, labels = fitted
    frame = pl.DataFrame(p, schema=[f"p_{name}" for name in NAMES])
    VectorScaling(classes=NAMES).fit(frame, labels)
    with pytest.raises(InputError, match=r"columns of X in their order \(ant, bee, cat\); got cat, bee, ant"):
        VectorScaling(classes=NAMES[::-1]).fit(frame, labels)


def test_other_names(fitted):
    calibrator, p, _ = fitted
    with pytest.raises(InputError, match="have the classes ant, bee, cat; got x, y, z"):
        calibrator.predict_proba(pl.DataFrame(p, schema=["x", "y", "z"]))
    with pytest.raises(InputError, match="have the classes ant, bee, cat; got ant, bee, dog"):
        calibrator.predict_proba(pl.DataFrame(p, schema=["ant", "bee", "dog"]))


def test_report_applies_by_name(fitted):
    calibrator, p, labels = fitted
    plain = check_forecast(labels, p, caller="report", classes=NAMES)
    mirrored = check_forecast(labels, p[:, ::-1], caller="report", classes=NAMES[::-1])
    after = [apply_named(forecast, calibrator)[0].proba() for forecast in (plain, mirrored)]
    np.testing.assert_allclose(after[0], after[1][:, ::-1])
    columns = {"p_ant": p[:, 0], "p_bee": p[:, 1], "p_dog": p[:, 2], "label": np.where(labels == "cat", "dog", labels)}
    with pytest.raises(InputError, match="have the classes ant, bee, cat; got ant, bee, dog"):
        calibrant.report(pl.DataFrame(columns), calibrator=calibrator, n_resamples=20)


def test_report_gives_logits_to_a_composite_of_logits(fitted):
    _, p, labels = fitted
    z = np.log(p)
    forecast = check_forecast(labels, z, caller="report", classes=NAMES, space="logit")
    both = Compose(VectorScaling(space="logit"), Identity(), classes=NAMES).fit(z, labels)
    np.testing.assert_allclose(apply_named(forecast, both)[0].proba(), both.predict_proba(z), rtol=1e-12)
