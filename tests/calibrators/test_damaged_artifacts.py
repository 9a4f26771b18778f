"""A file may be changed and its checksum written anew: `load` takes a valid calibrator or says in one line why not."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import (
    BetaCalibration,
    Ensemble,
    IsotonicOneVsRest,
    PlattScaling,
    StdScaling,
    TemperatureScaling,
)
from calibrant.calibrators._artifact import checksum, encode
from calibrant.errors import FileError

RNG = np.random.default_rng(0)
P = RNG.dirichlet([2, 1, 1], 60)
Y = (P.cumsum(axis=1) < RNG.random((60, 1))).sum(axis=1)


def written(payload, path):
    payload["checksum"] = checksum(payload)
    path.write_text(json.dumps(payload), encoding="utf-8")
    return path


def changed(calibrator, path, **state):
    payload = calibrator.to_payload()
    payload["state"] |= {name: encode(value) for name, value in state.items()}
    return written(payload, path)


FALLING = [np.array([0.9, 0.1])] * 3


@pytest.mark.parametrize(
    ("calibrator", "state", "said"),
    [
        (TemperatureScaling(), {"temperature_": -2.0}, "temperature_ must be positive"),
        (TemperatureScaling(), {"temperature_": float("nan")}, "temperature_ must be finite"),
        (TemperatureScaling(), {"temperature_": "2"}, "str where numbers belong"),
        (TemperatureScaling(), {"predict_proba": 1.0}, "predict_proba must be one of"),
        (TemperatureScaling(), {"n_classes_": 10**12}, "classes must name every class once"),
        (Ensemble([TemperatureScaling()], weights=[1.0]), {"weights_": np.array([2.0])}, "weights_ must be shares"),
        (IsotonicOneVsRest(), {"thresholds_": FALLING}, "thresholds_ must not fall"),
        (PlattScaling(), {"floor_": 0.0, "smallest_": 0.0}, "floor_ or smallest_ must be positive"),
        (BetaCalibration(), {"a_": np.ones((2, 2))}, "no valid calibrator"),
        (BetaCalibration(), {"c_": np.full(3, np.inf)}, "c_ must be finite"),
    ],
)
def test_wrong_states_are_refused(calibrator, state, said, tmp_path):
    with pytest.raises(FileError, match=said) as caught:
        calibrant.load(changed(calibrator.fit(P, Y), tmp_path / "cal.json", **state))
    assert "\n" not in str(caught.value)


def test_regression_states_too(tmp_path):
    fitted = StdScaling().fit(np.zeros(40), np.ones(40), RNG.normal(size=40))
    with pytest.raises(FileError, match="factor_ must be positive"):
        calibrant.load(changed(fitted, tmp_path / "cal.json", factor_=-1.0))


def test_what_json_never_holds(tmp_path):
    path = tmp_path / "cal.json"
    payload = TemperatureScaling().fit(P, Y).to_payload()
    path.write_text(json.dumps(payload | {"state": {"temperature_": float("nan")}}), encoding="utf-8")
    for text in (None, "[" * 100_000, "1" * 10_000, '{"format": "calibrant-calibrator", "schema": 1}', "\ud800"):
        if text is not None:
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
        with pytest.raises(FileError) as caught:
            calibrant.load(path)
        assert "\n" not in str(caught.value)


def test_missing_parts_and_wrong_types(tmp_path):
    good = TemperatureScaling().fit(P, Y).to_payload()
    for key in ("kind", "params", "state", "classes"):
        broken = {name: value for name, value in good.items() if name not in (key, "checksum")}
        if key == "state":
            broken["state"] = {"n_classes_": 3}
        with pytest.raises(FileError):
            calibrant.load(written(broken, tmp_path / "cal.json"))
    for dtype in ("O", "V8", "<M8[s]"):
        broken = good | {"state": good["state"] | {"temperature_": {"dtype": dtype, "shape": [1], "data": "AAAAAAAA"}}}
        with pytest.raises(FileError, match="dtype"):
            calibrant.load(written(broken, tmp_path / "cal.json"))
