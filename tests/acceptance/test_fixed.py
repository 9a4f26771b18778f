"""What was wrong in version 0.1 and must stay right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibrant
from acceptance.runner import run
from helpers import where_installed

FEW = ("--resamples", "50")


def document(argv: tuple[str, ...], folder: Path, *codes: int) -> dict:
    done = run((*argv, "--json"), folder)
    assert done.code in (codes or (0,)), done.err
    found: dict = json.loads(done.out)
    return found


def test_report_json_keeps_ks(folder: Path) -> None:
    found = document(("report", "k5.csv", "--no-league", *FEW), folder)
    assert found["evaluation"]["measures"]["ks"]["value"] > 0
    assert "ks" in {row["name"] for row in found["metrics"]}


@pytest.mark.parametrize("engine", where_installed([(), ("--engine", "polars"), ("--engine", "duckdb")]))
def test_apply_leaves_no_probabilities_under_logits(folder: Path, tmp_path: Path, engine: tuple[str, ...]) -> None:
    cal = tmp_path / "cal.json"
    assert run(("fit", "k5_logits.csv", "--method", "temperature", "-o", str(cal)), folder).code == 0
    done = run(("apply", str(cal), "k5_logits.csv", *engine, "-o", str(tmp_path / "out.csv")), folder)
    assert done.code == 0, done.err
    table = pl.read_csv(tmp_path / "out.csv")
    assert not [name for name in table.columns if name.startswith("logit")], table.columns
    probs = table.select(pl.selectors.starts_with("p_")).to_numpy()
    assert probs.shape[1] == 5
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-9)
    assert table["label"].to_list() == pl.read_csv(folder / "k5_logits.csv")["label"].to_list()
    again = document(("evaluate", str(tmp_path / "out.csv"), "--measure", "nll", *FEW), folder)
    assert again["measures"]["nll"]["value"] > 0


def test_apply_of_arrays_renames_logits(folder: Path, tmp_path: Path) -> None:
    cal = tmp_path / "cal.json"
    assert run(("fit", "k5.npz", "--method", "temperature", "-o", str(cal)), folder).code == 0
    assert run(("apply", str(cal), "k5.npz", "--part", "test", "-o", str(tmp_path / "out.npz")), folder).code == 0
    with np.load(tmp_path / "out.npz") as archive:
        names = set(archive.files)
        assert "logits_test" not in names
        assert "probs_test" in names or "probs" in names


def test_report_and_check_take_patterns(folder: Path, tmp_path: Path) -> None:
    page = document(("report", "csvlogs/*.csv", "--by", "site", "--no-league", *FEW), folder)
    whole = document(("evaluate", "csvlogs/*.csv", *FEW), folder)
    for name, entry in whole["measures"].items():
        assert page["evaluation"]["measures"][name]["value"] == pytest.approx(entry["value"], abs=1e-9)
    assert {part["name"] for part in page["slices"]} == {"north", "south", "west"}
    target = tmp_path / "report.html"
    assert run(("report", "csvlogs/*.csv", "--no-league", *FEW, "-o", str(target)), folder).code == 0
    assert "<html" in target.read_text(encoding="utf-8")
    assert document(("check", "csvlogs/*.csv", "--max", "ece=0.5", *FEW), folder)["passed"] is True
    assert document(("check", "csvlogs/*.csv", "--max", "ece=0.01", *FEW), folder, 3)["passed"] is False


@pytest.mark.parametrize("name", ["crps", "ence", "pit-ks", "std-scaling"])
def test_explain_knows_regression(folder: Path, name: str) -> None:
    done = run(("explain", name), folder)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) > 3
    assert document(("explain", name), folder)


def test_check_judges_regression(folder: Path) -> None:
    value = document(("evaluate", "reg.csv", "--measure", "ence", *FEW), folder)["measures"]["ence"]["value"]
    beyond = document(("check", "reg.csv", "--max", "ence=0.1", *FEW), folder, 3)
    assert beyond["checks"][0]["value"] == pytest.approx(value, abs=1e-9)
    assert document(("check", "reg.csv", "--max", f"ence={value + 0.5}", *FEW), folder, 0)["passed"] is True


def test_fit_by_name_and_apply_regression(folder: Path, tmp_path: Path) -> None:
    cal, out = tmp_path / "cal.json", tmp_path / "out.csv"
    assert run(("fit", "reg.csv", "--method", "std-scaling", "-o", str(cal)), folder).code == 0
    assert run(("apply", str(cal), "reg.csv", "-o", str(out)), folder).code == 0
    before, after = pl.read_csv(folder / "reg.csv"), pl.read_csv(out)
    ratio = (after["variance"] / before["variance"]).to_numpy()
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
    squares = ((before["y"] - before["mean"]) ** 2 / before["variance"]).mean()
    assert ratio[0] == pytest.approx(squares, rel=0.1)
    assert after["mean"].to_list() == before["mean"].to_list()


def test_compare_of_two_regression_files(folder: Path) -> None:
    found = document(("compare", "reg.csv", "reg_after.csv"), folder)
    assert {"crps", "nll"} <= set(json.dumps(found).replace('"', " ").split())
    text = run(("compare", "reg.csv", "reg_after.csv"), folder)
    assert text.code == 0
    assert "crps" in text.out
    backwards = document(("compare", "reg_after.csv", "reg.csv"), folder)
    assert json.dumps(backwards) != json.dumps(found)


@pytest.mark.parametrize("flag", ["--measure", "--metric"])
def test_evaluate_obeys_for_regression(folder: Path, flag: str) -> None:
    found = document(("evaluate", "reg.csv", flag, "crps", "--by", "site", *FEW), folder)
    assert "crps" in found["measures"]
    assert not {"mse", "ence", "pit-ks"} & set(found["measures"])
    assert {part["by"]["site"] for part in found["slices"]} == {"north", "south", "west"}
    table = pl.read_csv(folder / "reg.csv")
    for part in found["slices"]:
        rows = table.filter(pl.col("site") == part["by"]["site"])
        assert part["n"] == len(rows)
        direct = calibrant.metrics.crps(rows["y"].to_numpy(), rows["mean"].to_numpy(), rows["variance"].to_numpy())
        assert part["measures"]["crps"]["value"] == pytest.approx(direct, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "options", "argument"),
    [
        ("expected_calibration_error", {"n_bins": 0}, "n_bins"),
        ("expected_calibration_error", {"n_bins": "many"}, "n_bins"),
        ("kolmogorov_smirnov_error", {"view": "sideways"}, "view"),
        ("brier_score", {"view": "classwise"}, "view"),
        ("static_calibration_error", {"n_bins": -3}, "n_bins"),
        ("thresholded_adaptive_calibration_error", {"threshold": 2.0}, "threshold"),
        ("expected_calibration_error", {"norm": -1}, "norm"),
        ("expected_calibration_error", {"sample_weight": [1, 2]}, "sample_weight"),
    ],
)  # fmt: skip
def test_errors_name_function_and_argument(name: str, options: dict, argument: str) -> None:
    with pytest.raises((calibrant.errors.InputError, TypeError)) as caught:
        getattr(calibrant.metrics, name)([0, 1, 1], [0.2, 0.7, 0.9], **options)
    if caught.type is TypeError:
        assert argument in str(caught.value)
        return
    assert (caught.value.argument, caught.value.caller) == (argument, name)
    assert "Binned" not in str(caught.value)


def test_damaged_summary_is_refused_in_words() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 40)
    good = _bytes(p, rng)
    said = []
    for cut in range(0, len(good), max(1, len(good) // 40)):
        for broken in (good[:cut], good[:cut] + bytes([good[cut] ^ 255]) + good[cut + 1 :]):
            try:
                calibrant.Summary.from_bytes(broken)
            except calibrant.errors.CalibrantError as error:
                said.append(str(error))
    assert len(said) > 40
    assert all(len(text) > 20 for text in said)
    for junk in (b"", b"{}", b"junk", b"[1, 2]", json.dumps({"schema": 1}).encode()):
        with pytest.raises(calibrant.errors.CalibrantError):
            calibrant.Summary.from_bytes(junk)


def _bytes(p: np.ndarray, rng: np.random.Generator) -> bytes:
    frame = pl.DataFrame({f"p_{k}": p[:, k] for k in range(3)}).with_columns(
        label=pl.Series(rng.integers(0, 3, len(p)))
    )
    found: bytes = calibrant.engines.summarize(frame).whole.to_bytes()
    return found
