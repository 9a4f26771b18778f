"""Saved files, other runtimes, the list of methods."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import calibrant.calibrators as room
from calibrant.calibrators import BetaCalibration, Compose, Ensemble, Identity, TemperatureScaling, VectorScaling
from calibrant.calibrators._artifact import checksum, load
from calibrant.calibrators.portable import predict_from_json
from calibrant.core.links import softmax
from calibrant.core.programs import Graph
from calibrant.errors import FileError


@pytest.fixture
def saved(toy, tmp_path):
    z, y = toy
    cal = TemperatureScaling(space="logit").fit(z, y)
    path = tmp_path / "cal.json"
    cal.save(path)
    return cal, path


def test_file_says_what_it_is(saved):
    cal, path = saved
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["schema"] == 1
    assert content["kind"] == "TemperatureScaling"
    assert content["space"] == "logit"
    assert content["library"].startswith("calibrant ")
    assert content["checksum"] == checksum(content)
    assert content["state"]["temperature_"] == cal.temperature_
    assert [p.name for p in path.parent.iterdir()] == ["cal.json"]  # nothing left aside


def test_refusals(saved, tmp_path):
    _, path = saved
    content = json.loads(path.read_text(encoding="utf-8"))
    tampered = {**content, "state": {**content["state"], "temperature_": 1.0}}
    newer = {**content, "schema": 99}
    newer["checksum"] = checksum(newer)
    for bad, words in ((tampered, "changed after"), (newer, "newer"), ({"a": 1}, "not a calibrator"), ([1], "not a")):
        path.write_text(json.dumps(bad), encoding="utf-8")
        with pytest.raises(FileError, match=words) as caught:
            load(path)
        assert "\n" not in str(caught.value)
        with pytest.raises(FileError, match=words):
            predict_from_json(path, [[0.0, 1.0, 2.0, 3.0]])
    path.write_bytes(b"\x80\x04not json")
    with pytest.raises(FileError, match="not JSON"):
        load(path)
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "absent.json")
    path.write_text(json.dumps(content), encoding="utf-8")
    assert TemperatureScaling.load(path).temperature_ == content["state"]["temperature_"]
    with pytest.raises(FileError, match="holds a TemperatureScaling"):
        VectorScaling.load(path)
    unknown = {**content, "kind": "Mystery"}
    unknown["checksum"] = checksum(unknown)
    path.write_text(json.dumps(unknown), encoding="utf-8")
    with pytest.raises(FileError, match="Mystery"):
        load(path)


def test_nested_and_named_classes_survive(toy, tmp_path):
    z, y = toy
    p, names = softmax(z), np.array(["w", "x", "y", "z"])
    inner = Compose(TemperatureScaling(loss="brier"), BetaCalibration("am"))
    cal = Ensemble([inner, VectorScaling(), Identity()], weights=[2, 1, 1], classes=names).fit(p, names[y])
    cal.save(tmp_path / "mix.json")
    again = load(tmp_path / "mix.json")
    assert np.array_equal(again.predict_proba(p), cal.predict_proba(p))
    assert list(again.classes_) == list(names)
    assert list(again.predict(p)) == list(cal.predict(p))
    assert predict_from_json(tmp_path / "mix.json", p) == pytest.approx(cal.predict_proba(p), abs=1e-12)


def test_zeros_go_through_every_runtime(toy, tmp_path):
    torch = pytest.importorskip("torch")
    z, y = toy
    p = softmax(z)
    sparse = np.where(p < 0.05, 0, p)
    sparse /= sparse.sum(axis=1, keepdims=True)
    for cal in (TemperatureScaling().fit(p, y), TemperatureScaling().fit(sparse, y), BetaCalibration().fit(sparse, y)):
        expected = cal.predict_proba(sparse)
        cal.save(tmp_path / "cal.json")
        assert predict_from_json(tmp_path / "cal.json", sparse) == pytest.approx(expected, abs=1e-12)
        assert cal.to_torch()(torch.from_numpy(sparse)).numpy() == pytest.approx(expected, abs=1e-9)


def test_torch_module_is_differentiable(toy):
    torch = pytest.importorskip("torch")
    z, y = toy
    module = TemperatureScaling(space="logit").fit(z, y).to_torch()
    x = torch.tensor(z[:5], requires_grad=True)
    (module(x)[:, 0]).sum().backward()
    assert bool(torch.isfinite(x.grad).all())


def test_onnx_file(toy, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    z, y = toy
    cal = VectorScaling(space="logit").fit(z, y)
    model = cal.to_onnx(tmp_path / "cal.onnx")
    assert (tmp_path / "cal.onnx").read_bytes() == model
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert session.run(None, {"scores": z})[0] == pytest.approx(cal.predict_proba(z), abs=1e-9)


def test_program_interpolates_as_numpy():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    knots = [np.sort(rng.normal(size=m)) for m in (2, 5, 9)]
    values = [rng.normal(size=len(k)) for k in knots]
    graph = Graph()
    out = graph.program(graph.interp(graph.x, knots, values)).run(x)
    expected = np.stack([np.interp(x[:, i], knots[i], values[i]) for i in range(3)], axis=1)
    assert out == pytest.approx(expected, abs=1e-12)
    graph = Graph()
    assert graph.program(graph.interp(graph.x, knots[1], values[1])).run(x) == pytest.approx(
        np.interp(x, knots[1], values[1]), abs=1e-12
    )


def test_predict_from_json_needs_numpy_only(saved):
    _, path = saved
    code = (
        "import sys, calibrant; calibrant.predict_from_json; "  # twice: the name must stay the function
        f"calibrant.predict_from_json({str(path)!r}, [[0.0, 1.0, 2.0, 3.0]]); "
        "heavy = [m for m in ('sklearn', 'scipy', 'torch', 'polars') if m in sys.modules]; "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_methods_are_listed_once():
    listing = room.list_calibrators()
    assert list(listing) == list(room.CALIBRATORS)
    text, frame = str(listing), listing.to_frame()
    assert all(name in text for name in listing)
    assert frame["name"].to_list() == list(listing)
    short = frame["short_name"].to_list()
    assert len(set(short)) == len(short)
    assert all(room.get_calibrator(word).__name__ == name for word, name in zip(short, listing, strict=True))
    with pytest.raises(ValueError, match="did you mean 'temperature'"):
        room.get_calibrator("temprature")
    with pytest.raises(AttributeError):
        room.Nothing  # noqa: B018
    assert frame["when"].str.len_chars().min() > 40
