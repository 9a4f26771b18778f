"""Every public name works as the first thing a process does: nobody need have imported anything before it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import calibrant

#: The public names of the top level, each with a call that works in a fresh process (`c` is calibrant).
CALLS = {
    "AutoCalibrator": "c.AutoCalibrator(candidates=['platt']).fit(p, y)",
    "Normal": "c.Normal([0.0], [1.0])",
    "Quantiles": "c.Quantiles([0.1, 0.9], [[0.0, 1.0]])",
    "Samples": "c.Samples([[0.0, 1.0]])",
    "Summary": "c.Summary(2).update(y, p).metric('ks')",
    "apply": "c.apply('cal.json', p)",
    "check": "c.check(y, p, max_values={'ks': 0.9}, n_resamples=20)",
    "compare": "c.compare(y, p, p)",
    "equivalence_test": "c.equivalence_test(y, p, epsilon=0.5)",
    "evaluate": "c.evaluate(y, p, n_resamples=20)",
    "explain": "c.explain('ks')",
    "fit": "c.fit(y, p, method='platt')",
    "get_calibrator": "c.get_calibrator('platt')",
    "interval": "c.interval('ks', y, p)",
    "list_calibrators": "assert 'PlattScaling' in c.list_calibrators()",
    "list_metrics": "assert 'ks' in c.list_metrics()",
    "load": "c.load('cal.json')",
    "merge": "c.merge(['day.calsum'])",
    "metric": "c.metric('ks', y, p)",
    "monitor": "c.monitor('store', y, p, name='2026-11-15')",
    "predict_from_json": "c.predict_from_json('cal.json', p)",
    "report": "c.report(y, p, compare_methods=False, n_resamples=20)",
    "summarize": "c.summarize(y, y_proba=p)",
    "test_calibration": "c.test_calibration(y, p, n_resamples=20)",
}
#: Classes of results, which others make, and the wrapper of a classifier.
CLASSES = (
    "Applied", "CalibratedClassifier", "Comparison", "Evaluation", "Explanation", "FitResult", "Gate", "Interval",
    "MonitorReport", "Report", "Summarized", "TestResult"
)  # fmt: skip
#: Calls of what `calibrant.inference` has beside them.
INFERENCE = {
    "classwise_tests": "(y, p, n_resamples=20)",
    "cox_calibration": "(y, p)",
    "ece_bias": "(y, p)",
    "evaluate_evidence": "(c.Summary(2).update(y, p), n_resamples=20)",
    "expected_ece": "(100, y, p)",
    "holm": "([0.1, 0.2])",
    "hosmer_lemeshow_test": "(y, p, n_resamples=20)",
    "required_sample_size": "(0.02, y, p)",
    "sliced_tests": "(y, p, y, n_resamples=20)",
    "spiegelhalter_test": "(y, p, n_resamples=20)",
}
#: Packages whose names are all asked for; those of torch and plots need libraries that are not installed everywhere.
_PACKAGES = (
    "calibrators", "datasets", "engines", "errors", "estimators", "inference", "io", "metrics", "monitoring",
    "regression", "reporting", "scores", "selective", "summary", "testing", "views"
)  # fmt: skip

#: Runs each line of its standard input in a child of a process that has imported nothing of calibrant but its top.
PARENT = """
import os, sys
import numpy as np
import scipy.optimize, scipy.special, sklearn.model_selection  # libraries of others: they fill no registry of ours
import calibrant as c

loaded = sorted(name for name in sys.modules if name.startswith("calibrant."))
assert loaded == ["calibrant._lazy"], loaded
rng = np.random.default_rng(0)
p = rng.random(60)
y = (rng.random(60) < p).astype(int)
failed = 0
for line in sys.stdin.read().splitlines():
    child = os.fork()
    if child == 0:
        try:
            exec(line)
        except BaseException as error:
            print(f"{line}: {type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed > 0)
"""


def test_every_public_name_has_its_call():
    subpackages = set(calibrant._SUBPACKAGES)
    assert {*CALLS, *CLASSES, "__version__"} == set(calibrant.__all__) - subpackages
    functions = {name for name in calibrant.inference.__all__ if name.islower()} - set(CALLS)
    made = {"compare_evidence", "evaluate_slices", "judge", "null_distribution"}  # they take what another call made
    assert set(INFERENCE) == functions - made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child without imports is a fork")
def test_every_public_name_may_come_first(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(60)
    y = rng.random(60) < p
    calibrant.fit(y, p, method="platt").calibrator.save(tmp_path / "cal.json")
    from calibrant.workflows.summarize import summarize

    summarize(y, tmp_path / "day.calsum", y_proba=p)
    lines = [
        *CALLS.values(),
        f"[getattr(c, name) for name in {CLASSES}]",
        *(f"c.inference.{name}{call}" for name, call in INFERENCE.items()),
        f"[getattr(package, name) for one in {_PACKAGES} for package in [getattr(c, one)] for name in dir(package)]",
        "from calibrant.core.declare import lookup; lookup('crps', task='regression')",
        "from calibrant.core.declare import declared; assert len(list(declared(None))) > 30",
    ]
    command = [sys.executable, "-c", PARENT]
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr
