"""From a file of predictions to a repaired file, an honest statement of the gain, and a gate."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.core.links import softmax


def forecasts(n=600, k=3, seed=0, sharpen=2.5):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k))
    y = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    return sharpen * logits, y


def arrays(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def run(*args, code=0):
    result = CliRunner().invoke(cli, [str(a) for a in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert code == 1, result.exception
        assert "Hint: " in str(result.exception) or str(result.exception)
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (z_cal, y_cal), (z, y) = forecasts(seed=0), forecasts(seed=1)
    p_cal, p = softmax(z_cal), softmax(z)
    np.savez(folder / "p.npz", probs_cal=p_cal, labels_cal=y_cal, probs_test=p, labels_test=y, day_test=np.arange(600))
    np.savez(folder / "z.npz", logits_cal=z_cal, labels_cal=y_cal, logits_test=z, labels_test=y)

    def table(q, labels, name):
        pl.DataFrame(
            {
                "id": np.arange(len(labels)),
                **{f"{name}{i}": q[:, i] for i in range(3)},
                "label": labels,
                "note": ["x"] * len(labels),
            }
        ).write_csv(folder / f"{name}.csv")

    table(p_cal, y_cal, "p_")
    table(z, y, "logit_")
    run("fit", folder / "p.npz", "--fast", "-o", folder / "cal.json")
    run("fit", folder / "z.npz", "--method", "temperature", "-o", folder / "t.json")
    return folder


def test_three_commands_from_a_csv_to_a_statement_of_the_gain(files, tmp_path):
    out = run("fit", files / "p_.csv", "--fast", "-o", tmp_path / "cal.json")
    assert "against the uncalibrated forecast" in out
    assert "order-preserving" in out
    run("apply", tmp_path / "cal.json", files / "p_.csv", "-o", tmp_path / "new.csv")
    old, new = pl.read_csv(files / "p_.csv"), pl.read_csv(tmp_path / "new.csv")
    assert old.columns == new.columns
    assert old.select("id", "label", "note").equals(new.select("id", "label", "note"))
    calibrator = calibrant.load(tmp_path / "cal.json")
    expected = calibrator.predict_proba(old.select("^p_.*$").to_numpy())
    np.testing.assert_allclose(new.select("^p_.*$").to_numpy(), expected, atol=1e-12)
    answer = json.loads(run("compare", files / "p_.csv", tmp_path / "new.csv", "--json"))
    assert answer["metrics"]["brier"]["change"] > 0
    assert answer["metrics"]["brier"]["low"] > 0


def test_fit_json_and_named_method(files, tmp_path):
    answer = json.loads(run("fit", files / "p.npz", "--method", "vector", "-o", tmp_path / "v.json", "--json"))
    assert answer["schema"] == 1
    assert answer["n"] == 600
    assert answer["n_classes"] == 3
    chosen = [row["method"] for row in answer["cv_results"] if row["chosen"]]
    assert chosen == ["vector"]
    assert type(calibrant.load(tmp_path / "v.json")).__name__ == "VectorScaling"


def test_fit_repeats_itself_and_follows_the_seed_option(files, tmp_path):
    for name in ("a", "b"):
        run("fit", files / "p.npz", "--fast", "--seed", 3, "-o", tmp_path / f"{name}.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_preserve_argmax(files, tmp_path):
    run("fit", files / "p.npz", "--preserve", "argmax", "--fast", "-o", tmp_path / "a.json")
    p = arrays(files / "p.npz")["probs_test"]
    q = calibrant.load(tmp_path / "a.json").predict_proba(p)
    assert (p.argmax(1) == q.argmax(1)).all()


def test_apply_npz_replaces_probabilities_only(files, tmp_path):
    run("apply", files / "cal.json", files / "p.npz", "-o", tmp_path / "new.npz")
    old, new = arrays(files / "p.npz"), arrays(tmp_path / "new.npz")
    assert sorted(old) == sorted(new)
    for name in old:
        assert np.array_equal(old[name], new[name]) == (name != "probs_test")
    expected = calibrant.load(files / "cal.json").predict_proba(old["probs_test"])
    np.testing.assert_array_equal(new["probs_test"], expected)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "arrow", "npz", "tsv"])
def test_apply_writes_the_format_of_the_suffix(files, tmp_path, suffix):
    out = tmp_path / f"new.{suffix}"
    run("apply", files / "cal.json", files / "p_.csv", "-o", out)
    answer = json.loads(run("evaluate", out, "--metric", "nll", "--resamples", 0, "--json"))
    p, y = pl.read_csv(files / "p_.csv").select("^p_.*$").to_numpy(), pl.read_csv(files / "p_.csv")["label"].to_numpy()
    q = calibrant.load(files / "cal.json").predict_proba(p)
    assert answer["metrics"]["nll"]["value"] == pytest.approx(calibrant.metric("nll", y, q), abs=1e-9)


def test_logits_go_through_softmax_with_a_note_and_the_reverse_is_refused(files, tmp_path):
    result = CliRunner().invoke(
        cli, ["apply", str(files / "cal.json"), str(files / "z.npz"), "-o", str(tmp_path / "o.npz")]
    )
    assert result.exit_code == 0
    assert "softmax" in result.stderr
    assert "probs_test" in arrays(tmp_path / "o.npz")
    result = CliRunner().invoke(
        cli, ["apply", str(files / "cal.json"), str(files / "logit_.csv"), "-o", str(tmp_path / "o.csv")]
    )
    assert result.exit_code == 0
    assert "softmax" in result.stderr
    assert [c for c in pl.read_csv(tmp_path / "o.csv").columns if c.startswith("p_")] == ["p_0", "p_1", "p_2"]
    assert "logits" in run("apply", files / "t.json", files / "p.npz", "-o", tmp_path / "no.npz", code=1)
    assert "logits" in run("apply", files / "t.json", files / "p_.csv", "-o", tmp_path / "no.csv", code=1)
    assert not (tmp_path / "no.npz").exists()
    assert not (tmp_path / "no.csv").exists()


def test_compare_with_a_calibrator_knows_whether_the_map_is_injective(files):
    answer = json.loads(run("compare", files / "z.npz", "--calibrator", files / "t.json", "--json"))
    assert answer["metrics"]["brier"]["exact"] is True
    run("compare", files / "z.npz", code=2)
    run("compare", files / "z.npz", files / "p.npz", "--calibrator", files / "t.json", code=2)


def test_compare_refuses_other_rows(files, tmp_path):
    z = arrays(files / "z.npz")
    np.savez(tmp_path / "other.npz", logits_test=z["logits_test"], labels_test=(z["labels_test"] + 1) % 3)
    assert "row 0" in run("compare", files / "z.npz", tmp_path / "other.npz", code=1)


def test_many_files_lead_to_evaluate_and_compare_as_one(files, tmp_path):
    folder, out = tmp_path / "logs", tmp_path / "out.csv"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_bytes((files / "p_.csv").read_bytes())
    done = CliRunner().invoke(cli, ["apply", str(files / "cal.json"), str(folder), "-o", str(out)])
    assert f"Next: calibrant evaluate {out}" in done.stderr
    assert pl.read_csv(out).height == 1200
    assert "brier" in run("compare", folder, out)


@pytest.mark.parametrize("many", [False, True])
def test_apply_to_a_truncated_table_is_one_clear_line(files, tmp_path, many):
    whole, source, out = tmp_path / "whole.parquet", tmp_path / "logs", tmp_path / "out.parquet"
    pl.read_csv(files / "p_.csv").write_parquet(whole)
    source.mkdir()
    (source / "a.parquet").write_bytes(whole.read_bytes()[:300])
    said = run("apply", files / "cal.json", source if many else source / "a.parquet", "-o", out, code=1)
    assert "cannot be read" in said
    assert "Hint: " in said
    assert not out.exists()


def test_check_gates(files, tmp_path):
    run("check", files / "p.npz", "--max", "ks=0.5", "--min", "accuracy=0.3")
    out = run("check", files / "p.npz", "--max", "ks=0.01", "--min", "accuracy=0.3", code=3)
    assert "FAILED" in out
    answer = json.loads(run("check", files / "p.npz", "--max", "ks=0.01", "--min-pvalue", "0.01", "--json", code=3))
    assert answer["passed"] is False
    assert [c["passed"] for c in answer["checks"]] == [False, False]
    run("apply", files / "cal.json", files / "p.npz", "-o", tmp_path / "new.npz")
    run("check", tmp_path / "new.npz", "--min-pvalue", "0.001")
    (tmp_path / "gate.toml").write_text("min-pvalue = 0.001\n[max]\nks = 0.01\n", encoding="utf-8")
    run("check", files / "p.npz", "--config", tmp_path / "gate.toml", code=3)
    run("check", files / "p.npz", "--config", tmp_path / "gate.toml", "--max", "ks=1", "--min-pvalue", "0")
    (tmp_path / "slices.csv").write_text(
        "p_0,p_1,label,city\n" + "0.9,0.1,0,a\n" * 20 + "0.9,0.1,1,b\n" * 3, encoding="utf-8"
    )
    assert "city=b" in run("check", tmp_path / "slices.csv", "--max", "ks=0.5", "--by", "city", code=3)


@pytest.mark.parametrize("words", [[], ["--max", "ks"], ["--max", "kss=0.1"], ["--min-pvalue", "x"]])
def test_check_refuses_limits_it_does_not_understand(files, words):
    run("check", files / "p.npz", *words, code=2)


def test_wrong_files_give_one_clear_line(files, tmp_path):
    whole = (files / "cal.json").read_text()
    (tmp_path / "half.json").write_text(whole[: len(whole) // 2])
    for name in (tmp_path / "half.json", tmp_path / "none.json", files / "p.npz"):
        message = run("apply", name, files / "p.npz", "-o", tmp_path / "o.npz", code=1)
        assert "\n" not in message.strip()
    (tmp_path / "half.csv").write_text("p_0,p_1\n0.5,0.5\n0.1", encoding="utf-8")
    run("apply", files / "cal.json", tmp_path / "half.csv", "-o", tmp_path / "o.csv", code=1)
    run("apply", files / "cal.json", files / "p.npz", "-o", tmp_path / "o.xyz", code=1)
    run("fit", files / "p.npz", "--method", "nonsense", code=2)
    assert not list(tmp_path.glob("o.*"))


KILLED = """
import os, signal, sys
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = die  # the last moment before the new file takes the place of the old one
from calibrant.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("command", ["apply", "fit"])
def test_a_kill_at_the_last_moment_leaves_the_old_file(files, tmp_path, command):
    out = tmp_path / ("out.csv" if command == "apply" else "out.json")
    words = {
        "apply": ["apply", files / "cal.json", files / "p_.csv", "-o", out],
        "fit": ["fit", files / "p_.csv", "--fast", "-o", out],
    }[command]
    out.write_bytes(b"old")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], env=env, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert out.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["new.csv", "new.npz", "new.jsonl"])
def test_an_interrupt_leaves_nothing_half_written(files, tmp_path, monkeypatch, name):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    words = ["apply", files / "cal.json", files / "p_.csv", "-o", tmp_path / name]
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code != 0
    assert not list(tmp_path.iterdir())


def test_assert_calibrated_explains():
    from calibrant.testing import assert_calibrated

    z, y = forecasts(400)
    assert_calibrated(y, softmax(z / 2.5), max_error=0.05)
    with pytest.raises(AssertionError, match="a calibrated model would show"):
        assert_calibrated(y, softmax(z), max_error=0.05)
    with pytest.raises(AssertionError, match="KS test rejects"):
        assert_calibrated(y, softmax(z), max_error=1.0, min_pvalue=0.01)
