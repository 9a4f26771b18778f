"""`calibrant evaluate` and `explain` as a person at a terminal meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import calibrant
from helpers import data_path


def run(*args, stdin=None, **env):

    return subprocess.run(
        [sys.executable, "-m", "calibrant", *map(str, args)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        input=stdin,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **env},
        check=False,
    )


@pytest.fixture
def preds(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.4] * 3, 1500)
    y = np.array([rng.choice(3, p=0.7 * row + 0.1) for row in p])
    np.savez(tmp_path / "preds.npz", probs=p, labels=y, day=np.repeat([1, 2, 3], 500))
    return tmp_path / "preds.npz"


def test_text(preds):
    done = run("evaluate", preds, "--resamples", 200)
    assert done.returncode == 0
    assert done.stderr == "read: label = labels · probabilities = probs · 1,500 rows\n"
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1,500 predictions · 3 classes · accuracy")
    assert "if calibrated" in lines[1]
    assert any(line.startswith("Verdict: Not calibrated: overconfident") for line in lines)
    assert len(lines) <= 24


def test_json_keys(preds):
    done = run("evaluate", preds, "--json", "--resamples", 50)
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert (document["n"], document["n_classes"]) == (1500, 3)
    assert {"value", "null_mean", "pvalue", "low", "high"} <= set(document["metrics"]["ece"])
    assert document["metrics"]["accuracy"]["pvalue"] is None


def test_repeats_itself_exactly(preds):
    assert run("evaluate", preds, "--json").stdout == run("evaluate", preds, "--json").stdout


def test_measure_view_bins_and_slices(preds):
    done = run("evaluate", preds, "--metric", "ks", "--view", "rank-2", "--by", "day", "--json", "--resamples", 50)
    document = json.loads(done.stdout)
    assert list(document["metrics"]) == ["ks@rank-2"]
    assert [part["by"]["day"] for part in document["slices"]] == [1, 2, 3]
    assert sum(part["n"] for part in document["slices"]) == 1500
    text = run("evaluate", preds, "--by", "day", "--resamples", 50).stdout
    assert "day=2" in text


@pytest.mark.parametrize("form", ["md", "html"])
def test_other_forms(preds, form):
    done = run("evaluate", preds, "--format", form, "--resamples", 20)
    assert done.returncode == 0
    assert "ece" in done.stdout


def test_stdin_csv():
    csv = "score,label\n" + "\n".join(f"{p},{y}" for p, y in [(0.9, 1), (0.8, 1), (0.3, 0), (0.6, 0)] * 20)
    done = run("evaluate", "-", "--json", "--resamples", 20, stdin=csv)
    assert json.loads(done.stdout)["n"] == 80


def test_infinite_values_are_strings(tmp_path):
    (tmp_path / "a.csv").write_text("score,label\n1.0,0\n0.5,1\n", encoding="utf-8")
    document = json.loads(run("evaluate", tmp_path / "a.csv", "--json", "--resamples", 20).stdout)
    assert document["metrics"]["nll"]["value"] == "inf"


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("evaluate", "gone.npz"), 1, "does not exist"),
        (("evaluate",), 2, "Missing argument"),
        (("evaluate", "x.npz", "--bins", "0"), 2, "bins"),
        (("explain", "nonsense"), 2, "nonsense"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_exit_codes_and_no_traceback(args, code, word):
    done = run(*args)
    assert done.returncode == code
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_rows_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("p_0,p_1,label\n0.5,0.5,0\n0.7,0.7,1\n", encoding="utf-8")
    done = run("evaluate", tmp_path / "a.csv")
    assert done.returncode == 1
    assert "line 3" in done.stderr
    assert "--normalize" in done.stderr
    assert run("evaluate", tmp_path / "a.csv", "--normalize", "--resamples", 20).returncode == 0


def test_plain_ascii_when_the_terminal_cannot_show_more(preds):
    done = run("evaluate", preds, "--resamples", 20, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()


def test_tiny_input_claims_nothing(tmp_path):
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 0.9, 30)
    np.savez(tmp_path / "a.npz", probs=p, labels=(rng.random(30) < p).astype(int))
    assert "Cannot tell: too few rows to tell. With 30 rows only" in run("evaluate", tmp_path / "a.npz").stdout


def test_the_promise():
    done = run("evaluate", data_path("cifar10_resnet110"), "--json")
    measures = json.loads(done.stdout)["metrics"]
    assert measures["ece"]["value"] == pytest.approx(0.047504, abs=5e-7)
    assert measures["ece"]["low"] < 0.0475 < measures["ece"]["high"]
    assert measures["ece"]["null_mean"] < 0.006


@pytest.mark.parametrize("name", ["ece", "temperature", "taxonomy", "skce"])
def test_explain(name):
    done = run("explain", name)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5
    assert json.loads(run("explain", name, "--json").stdout)["schema"] == 1


def test_import_is_light():
    code = (
        "import sys, calibrant, calibrant.cli; "
        "heavy = {'torch', 'sklearn', 'matplotlib', 'polars', 'scipy', 'pandas'} & set(sys.modules); "
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


_HEAVY = "narwhals pyarrow pandas duckdb sklearn torch matplotlib rich onnx"
_SCIPY = "stats optimize linalg sparse spatial interpolate signal"
_OWN = "engines.frames engines.batches calibrators._base calibrators.auto plots monitoring testing torch"


@pytest.mark.parametrize("words", ["evaluate small.csv", "report small.csv --no-compare"])
def test_a_small_csv_needs_little(words, tmp_path):
    rows = "\n".join(f"{i % 2},{0.05 + 0.009 * i:.3f}" for i in range(100))
    (tmp_path / "small.csv").write_text(f"label,score\n{rows}\n", encoding="utf-8")
    code = (
        "import sys, calibrant.cli\n"
        f"sys.argv = ['calibrant', *{words.split()!r}]\n"
        "try:\n"
        "    calibrant.cli.main()\n"
        "finally:\n"
        "    print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    code = "import sys, scipy.special; print(*sys.modules, sep='\\n')"
    theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()) - set(theirs.stdout.splitlines())  # SciPy 1.15 brings linalg and sparse
    assert "calibrant.inference.evaluation" in loaded
    assert loaded & {*_HEAVY.split()} == set()
    assert loaded & {f"scipy.{name}" for name in _SCIPY.split()} == set()
    assert loaded & {f"calibrant.{name}" for name in _OWN.split()} == set()
    if words.startswith("evaluate"):
        assert loaded & {"jinja2", "scipy.fft", "calibrant.reporting", "calibrant.calibrators"} == set()


def test_a_page_asks_every_mean_score_once(monkeypatch):
    from calibrant.metrics import recipes

    asked = []
    real = recipes.score_columns

    def counted(scores, forecast, *, pairs, null):
        asked.append((scores, pairs, null))
        return real(scores, forecast, pairs=pairs, null=null)

    monkeypatch.setattr(recipes, "score_columns", counted)
    p = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    calibrant.report(p.argmax(axis=1), p, compare_methods=False, n_resamples=20)
    assert len(asked) == len(set(asked)) <= 6


def test_core_and_metrics_need_numpy_and_scipy_alone():
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] in {'sklearn', 'polars', 'narwhals', 'click', 'rich', 'jinja2', 'torch', 'pandas', 'backports'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "import calibrant.metrics, calibrant.inference, calibrant.scores\n"
        "print(calibrant.metrics.expected_calibration_error([1, 0], [0.5, 0.5]), calibrant.evaluate([1, 0, 1], [0.6, 0.5, 0.7], rng=0).n)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.0", "3"]


@pytest.mark.parametrize(
    ("arrays", "hint"),
    [
        ({"probs": [[2.0, -1.0], [0.3, 0.7]], "labels": [0, 1]}, "--space logit"),
        ({"probs": [[0.2, 0.8], [0.3, 0.7]], "labels": ["a", "b"]}, "give the names of the classes"),
    ],
)
def test_hints_speak_of_flags(tmp_path, arrays, hint):
    np.savez(tmp_path / "bad.npz", **{name: np.array(array) for name, array in arrays.items()})
    done = run("evaluate", tmp_path / "bad.npz")
    assert done.returncode == 1
    assert hint in done.stderr
    assert "='" not in done.stderr
    assert "classes=" not in done.stderr
