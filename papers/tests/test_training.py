"""`calibrant train`: the findings on real images, resuming after kill -9, files, messages."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from calibrant.errors import FileError, InputError
from calibrant_papers import training
from calibrant_papers.training.cell import predicted_class_ace, swap_in
from calibrant_papers.training.images import FILES, HOW_TO_GET, load_images, read_idx
from calibrant_papers.training.report import error_falls
from helpers import load_data

TINY = replace(
    training.Plan.make(quick=True, data="digits", methods=["plain", "swag", "mc-dropout"], penalties=["none", "uce"]),
    rows=200,
    epochs=3,
    trace_steps=0,
    samples=5,
    average_epochs=3,
)


def write_idx(folder, arrays):
    """Write images the way Fashion-MNIST is packed."""
    folder.mkdir(exist_ok=True)
    for key, file in FILES.items():
        array = arrays[key].astype(np.uint8)
        head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
        (folder / file).write_bytes(gzip.compress(head + array.tobytes(), 1))
    return folder


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A short run on real clothes: plain and SWAG, every penalty, both starts."""
    folder = tmp_path_factory.mktemp("real")
    images = write_idx(folder / "images", load_data("fashion_mnist_subset"))
    plan = training.Plan.make(quick=True, data=str(images), methods=["plain", "swag"])
    plan = replace(plan, rows=1280, lr=5e-3, trace_steps=80, trace_every=40)
    return folder / "run", plan, training.run(folder / "run", plan, jobs=1)


def values(report, method, penalty, temperature):
    return next(
        row
        for row in report.summary()
        if (row["method"], row["penalty"], row["temperature"]) == (method, penalty, temperature)
    )


def test_penalty_and_temperature_repair_an_over_confident_network(real):
    """Table 1 of the UCE paper: penalties with optimal T have lower ECE and UCE than no penalty at T = 1.

    ECE penalty by penalty; UCE of so few rows is noisier, and rounding differs between processors: on average.
    """
    _, _, report = real
    for method in ("plain", "swag"):
        start = values(report, method, "none", "1")
        assert start["ece"]["mean"] > 0.06  # overconfident, so there is something to repair
        repaired = {p: values(report, method, p, "optimal") for p in ("entropy", "mmce", "uce")}
        assert np.mean([row["uce"]["mean"] for row in repaired.values()]) < start["uce"]["mean"] - 0.01, method
        for penalty, after in repaired.items():
            assert after["ece"]["mean"] < start["ece"]["mean"] - 0.02, (method, penalty)
            assert after["accuracy"]["mean"] > start["accuracy"]["mean"] - 0.04, (method, penalty)


def test_mmce_trains_towards_calibration_without_temperature(real):
    _, _, report = real
    before, after = (values(report, "plain", penalty, "1") for penalty in ("none", "mmce"))
    assert after["ece"]["mean"] < 0.7 * before["ece"]["mean"]
    assert after["nll"]["mean"] < before["nll"]["mean"]


def test_rejection_and_foreign_data(real):
    _, _, report = real
    results = [result for cell in report.cells for result in cell["results"].values()]
    falls = [error_falls(r["rejection"]["error"], r["rejection"]["coverage"]) for r in results]
    assert np.mean(falls) >= 0.8  # networks of 1,280 rows differ between processors
    for result in results:
        assert result["swap_in"]["uncertainty"][-1] > result["swap_in"]["uncertainty"][0] + 0.05
        assert result["ood"]["auroc"] > 0.6


def test_poor_start_is_worse_calibrated(real):
    _, _, report = real
    last = {trace["initialization"]: trace["held_out"]["ece"][-1] for trace in report.traces}
    assert last["normal"] > last["glorot"] + 0.05
    for trace in report.traces:
        assert len(trace["step"]) == len(trace["held_out"]["tace"]) == len(trace["lower_bounds"])
        assert (np.diff(trace["lower_bounds"], axis=1) >= 0).all()


def test_findings_and_pages(real, tmp_path):
    _, _, report = real
    claims = {finding.claim: finding.holds for finding in report.findings()}
    assert claims["penalty + T lowers ECE against the plain network at T = 1"]
    assert claims["penalty + T lowers UCE against the plain network at T = 1"]
    assert claims["a poor start ends worse calibrated"]
    training.write_report(tmp_path, report)
    page = (tmp_path / "train.md").read_text(encoding="utf-8")
    assert "3.97" in page  # the published ECE stands beside ours
    assert "torch" in page
    document = json.loads((tmp_path / "train.json").read_text(encoding="utf-8"))
    assert document["schema"] == 1
    assert len(document["cells"]) == 8
    assert "NO " in str(replace(report, cells=tuple(_worse(cell) for cell in report.cells)))


def test_penalties_are_compared_seed_by_seed(real):
    """A second seed in which the penalty is worse: better in one of two."""
    _, _, report = real
    assert {(row["seeds"], row["method"]) for row in report.by_seed()} == {(1, "plain"), (1, "swag")}
    again = [cell | {"seed": 1} for cell in report.cells]
    worse = [_worse(cell) if cell["penalty"] != "none" else cell for cell in again]
    both = replace(report, cells=(*report.cells, *worse))
    first = {(row["method"], row["penalty"]): row["ECE, optimal T"] for row in report.by_seed()}
    for row in both.by_seed():
        assert row["seeds"] == 2
        assert row["ECE, optimal T"] == first[row["method"], row["penalty"]]
        assert row["ECE, T = 1"] in (0, 2)
    assert "## Seed by seed" in both.to_markdown()
    assert "## Seed by seed" not in report.to_markdown()


def _worse(cell):
    """The same cell with an optimal temperature that made everything worse."""
    results = json.loads(json.dumps(cell["results"]))
    results["optimal"]["measures"]["ece"] = 0.5
    return {**cell, "results": results}


def _made_up(method, penalty, seed, ece, nll):
    measures = dict.fromkeys(("accuracy", "ace", "ace_nixon", "mmce", "brier"), 0.5) | {
        "ece": ece,
        "uce": ece,
        "nll": nll,
    }
    curve = {"threshold": [1.0, 0.5], "error": [0.2, 0.1], "coverage": [1.0, 0.5]}
    swap = {"share": [0.0, 1.0], "uncertainty": [0.1, 0.2]}
    parts = {
        "aurc": 0.1,
        "rejection": curve,
        "swap_in": swap,
        "ood": {"auroc": 0.9, "fpr95": 0.1},
        "measures": measures,
    }
    results = {"1": {"temperature": 1.0, **parts}, "optimal": {"temperature": 2.0, **parts}}
    return {"method": method, "penalty": penalty, "seed": seed, "results": results}


@pytest.mark.parametrize(("better", "helps"), [(10, True), (8, True), (7, False)])
def test_the_page_says_whether_a_penalty_helps_beyond_a_temperature(better, helps, tmp_path):
    """Five seeds of two methods are ten pairs: eight of them and the mean must be lower."""
    cells = []
    for i, (method, seed) in enumerate((m, s) for m in ("plain", "swag") for s in range(5)):
        cells += [_made_up(method, "none", seed, 0.02, 0.3), _made_up(method, "entropy", seed, 0.03, 0.4)]
        cells.append(_made_up(method, "uce", seed, 0.01 if i < better else 0.021, 0.3))
    report = training.TrainingReport("made up", "other", "", {"rows": 2000}, tuple(cells), ())
    found = {row["penalty"]: row for row in report.beyond_temperature()}
    assert found["uce"]["ece"]["lower"] == better
    assert found["uce"]["ece"]["helps"] is helps
    assert not found["uce"]["nll"]["helps"]
    page = report.to_markdown()
    assert page.startswith("# Training for calibration: made up, 2,000 training rows\n")
    assert ("uce lowers ECE and UCE in the mean" in page) == helps
    assert ("No: beyond temperature scaling no penalty lowers" in page) != helps
    assert "- entropy, 10 pairs: ECE 2.00% without and 3.00% with it, lower in 0" in page
    training.write_report(tmp_path, report)
    assert "uce, T optimal" in (tmp_path / "penalties.svg").read_text(encoding="utf-8")


def test_one_lucky_mean_is_no_help():
    """Lower in eight of ten pairs, higher in the mean: no help."""
    cells = [_made_up("plain", "none", seed, 0.02, 0.3) for seed in range(10)]
    cells += [_made_up("plain", "uce", seed, 0.019 if seed < 8 else 0.09, 0.3) for seed in range(10)]
    (row,) = training.TrainingReport("made up", "other", "", {}, tuple(cells), ()).beyond_temperature()
    assert row["ece"]["lower"] == 8
    assert not row["ece"]["helps"]


def test_saved_logits_are_what_was_measured(real):
    from calibrant.metrics import expected_calibration_error

    folder, _, report = real
    for suffix, temperature in (("", "1"), ("-tempered", "optimal")):
        with np.load(folder / "logits" / f"swag-uce-0{suffix}.npz", allow_pickle=False) as saved:
            found = expected_calibration_error(saved["labels_test"], saved["logits_test"], space="logit")
            assert saved["logits_cal"].shape == (453, 10)
        assert found == pytest.approx(values(report, "swag", "uce", temperature)["ece"]["mean"], abs=1e-5)


def test_the_papers_ace_on_the_anchor():
    data = load_data("cifar10_resnet110")
    from calibrant.core.links import softmax

    assert predicted_class_ace(data["labels_test"], softmax(data["logits_test"])) == pytest.approx(0.047415, abs=2e-5)


WORKER = """
import signal, sys
from dataclasses import replace
from calibrant_papers import training
plan = replace(
    training.Plan.make(quick=True, data="digits", methods=["plain", "swag", "mc-dropout"], penalties=["none", "uce"]),
    rows=200, epochs=3, trace_steps=0, samples=5, average_epochs=3,
)


def die_soon(progress):  # in the middle of the third cell, after processor time and not after a clock's
    if progress.done == 2:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.005)


training.run(sys.argv[1], plan, jobs=1, progress=die_soon)
"""


def test_resumes_after_kill_with_the_same_result(tmp_path):
    whole = training.run(tmp_path / "whole", TINY, jobs=1)
    killed = tmp_path / "killed"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    worker = subprocess.run([sys.executable, "-c", WORKER, str(killed)], env=environment, check=False)
    assert worker.returncode == -signal.SIGVTALRM
    done = {path: path.stat().st_mtime_ns for path in killed.glob("cells/*.json")}
    assert 2 <= len(done) < 6
    seen = []
    again = training.run(killed, TINY, jobs=1, progress=seen.append)
    assert json.dumps(again.to_dict()) == json.dumps(whole.to_dict())
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())
    assert (seen[0].done, seen[0].total) == (len(done), 6)
    assert seen[-1].done == 6
    assert seen[-1].seconds_left == 0
    finished = training.run(killed, TINY, jobs=1, progress=seen.append)
    assert json.dumps(finished.to_dict()) == json.dumps(whole.to_dict())


@pytest.mark.slow
def test_processes_do_not_change_a_number(tmp_path):
    one, two = (training.run(tmp_path / str(jobs), TINY, jobs=jobs) for jobs in (1, 2))
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())


def test_a_folder_of_another_plan_is_refused(tmp_path):
    small = replace(TINY, methods=("plain",), penalties=("none",), epochs=1)
    training.run(tmp_path, small, jobs=1)
    with pytest.raises(InputError, match="epochs = 1 instead of 2"):
        training.run(tmp_path, replace(small, epochs=2), jobs=1)
    training.run(tmp_path, replace(small, methods=("plain", "bbb")), jobs=1)  # more cells may join
    (tmp_path / "plan.json").write_text('{"schema": 99}', encoding="utf-8")
    with pytest.raises(FileError, match="newer calibrant"):
        training.run(tmp_path, small, jobs=1)


def test_command_falls_back_to_digits_and_says_how_to_get_the_data(tmp_path, monkeypatch):
    from calibrant_papers.commands.train import command
    from calibrant_papers.training import images

    monkeypatch.setattr(images, "system_folders", lambda name: [])
    runner = CliRunner()
    options = ["--quick", "--method", "plain", "--penalty", "none", "--epochs", "1", "--no-traces", "--jobs", "1"]
    done = runner.invoke(command, [*options, "-o", str(tmp_path / "run"), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "apt-get install dataset-fashion-mnist" in done.stderr
    document = json.loads(done.stdout)
    assert document["data"] == "scikit-learn digits"
    assert document["summary"][0]["method"] == "plain"
    assert (tmp_path / "run" / "train.md").exists()
    with pytest.raises(FileError, match="apt-get install"):
        load_images("fashion-mnist")
    assert "fashion" in HOW_TO_GET


def test_files_are_valid_json_and_come_back(tmp_path):
    from calibrant_papers.studies.checkpoints import read_json, write_json

    write_json(tmp_path / "a.json", {"x": [1.0, float("inf"), -float("inf"), float("nan")], "y": {"z": "word"}})
    json.loads((tmp_path / "a.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    back = read_json(tmp_path / "a.json")
    assert back["x"][:3] == [1.0, float("inf"), -float("inf")]
    assert np.isnan(back["x"][3])
    assert back["y"] == {"z": "word"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_images_of_a_folder_are_the_ones_trained_on(tmp_path):
    """`--data` of a target that trains on images: a folder of idx files wins over the system's."""
    from calibrant_papers.targets import trained_nixon

    draw = np.random.default_rng(0)
    for key, file in FILES.items():
        n = 200 if "train" in key else 50
        shape = (n, 28, 28) if key.startswith("x") else (n,)
        values = draw.integers(0, 256 if key.startswith("x") else 10, shape).astype(np.uint8)
        head = struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
        (tmp_path / file).write_bytes(gzip.compress(head + values.tobytes()))
    for quick, pixels in ((True, 14), (False, 28)):
        name = trained_nixon._images(quick, tmp_path)
        assert name.endswith(f"={tmp_path}")
        images = load_images(name, n_cal=20)
        assert images.x_test.shape == (50, pixels, pixels)
    assert trained_nixon._images(True, tmp_path / "none") != name


def test_images_are_checked(tmp_path):
    with pytest.raises(InputError, match="be a folder with"):
        load_images(str(tmp_path))
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(FileError, match="not a readable idx file"):
        read_idx(tmp_path / "bad.gz")
    (tmp_path / "bad.gz").write_bytes(gzip.compress(struct.pack(">HBBI", 0, 9, 1, 5) + b"12345"))
    with pytest.raises(FileError, match="idx file of bytes"):
        read_idx(tmp_path / "bad.gz")
    digits = load_images("digits")
    assert digits.x_train.shape[1:] == (28, 28)
    assert 0 <= digits.x_train.min() <= digits.x_train.max() <= 1
    together = [x.tobytes() for part in (digits.x_train, digits.x_cal, digits.x_test) for x in part]
    assert len(set(together)) > 0.99 * len(together)  # parts do not overlap


@pytest.mark.parametrize(
    "options",
    [
        {"methods": ["resnet"]},
        {"penalties": ["l2"]},
        {"network": "huge"},
        {"seeds": 0},
        {"epochs": 0},
    ],
)
def test_plans_are_checked(options):
    with pytest.raises(InputError, match="of train must"):
        training.Plan.make(**options)


def test_plan_says_everything():
    plan = training.Plan.make(quick=True, seeds=2, seed=5)
    assert plan.seeds == (5, 6)
    assert len(list(plan.cells())) == 2 * 24
    assert json.loads(json.dumps(plan.to_dict()))["rows"] == 2000
    assert Path(next(plan.cells()).name).name == "plain-none-5"


def test_weights_are_chosen_on_calibration_rows(tmp_path):
    plan = training.Plan.make(data="digits", network="wide", methods=["plain"], traces=False, choose=True, seeds=1)
    plan = replace(plan, rows=200, epochs=4, samples=1)
    assert [name for name, _ in plan.grid] == ["entropy", "mmce", "uce"]
    report = training.run(tmp_path, plan, jobs=1)
    assert len(report.trials) == 9
    best = {}
    for trial in report.trials:
        best.setdefault(trial["penalty"], []).append((trial["nll_tempered"], trial["weight"]))
    assert dict(report.plan["weights"]) == {name: min(found)[1] for name, found in best.items()}
    weights = {cell["penalty"]: cell.get("weight") for cell in report.cells}
    assert weights == {"none": None, **dict(report.plan["weights"])}
    assert len(list((tmp_path / "trials").glob("*.json"))) == 9
    more = training.run(tmp_path, replace(plan, methods=("mc-dropout",), penalties=("none",)), jobs=1)
    assert {cell["method"] for cell in more.cells} == {"plain", "mc-dropout"}  # the report is of the whole folder
    told = training.report_of(tmp_path)
    assert len(told.cells) == 5
    assert "(chosen)" in told.to_markdown()
    with pytest.raises(InputError, match="grid"):
        training.run(tmp_path, replace(plan, grid=()), jobs=1)


def test_outputs_of_published_networks_are_features(monkeypatch):
    from helpers import data_path

    folder = data_path("cifar10_lenet5").parent
    images = load_images(f"cifar10-outputs={folder}", 300)
    assert images.x_train.shape == (300, 30)
    assert images.x_test.shape == images.foreign.shape == (3000, 30)
    assert images.n_classes == 10
    assert "CIFAR-10" in images.name
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    with pytest.raises(FileError, match="CALIBRANT_DATA"):
        load_images("cifar10-outputs")
    with pytest.raises(InputError, match="data of train"):
        load_images("imagenet-outputs")


def test_swap_in_by_hand():
    rng = np.random.default_rng(4)
    known, foreign = rng.uniform(0, 0.4, 500), rng.uniform(0.4, 1, 90)
    share, mean = swap_in(known, foreign, 0)
    assert share[[0, 50, 100]].tolist() == [0.0, 0.5, 1.0]
    assert mean[0] == pytest.approx(0.2, abs=0.02)
    assert mean[-1] == pytest.approx(foreign.mean(), abs=0.03)
    assert (np.diff(mean) > 0).all()
