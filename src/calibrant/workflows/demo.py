"""The whole story on scikit-learn's digits: judge two real classifiers, repair them, prove what it brought."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.calibrators import AutoCalibrator
from calibrant.calibrators._multinomial import one_blas_thread
from calibrant.core.inputs import check_forecast
from calibrant.core.parallel import map_chunks
from calibrant.inference.comparison import compare_evidence
from calibrant.inference.evaluation import evaluate_evidence
from calibrant.reporting import report_evidence

__all__ = ["Chapter", "Models", "digits_models", "run_demo"]

#: Rows of the digits that train the classifiers and that repair them; the rest judges.
TRAIN, CALIBRATE = 600, 600


@dataclass(frozen=True)
class Models:
    """Forecasts of one classifier on calibration and test rows."""

    name: str
    cal: Floats
    y_cal: Array
    test: Floats
    y_test: Array

    def save(self, path: Path) -> None:
        """Write the forecasts as a file every command takes."""
        np.savez_compressed(
            path, probs_cal=self.cal, labels_cal=self.y_cal, probs_test=self.test, labels_test=self.y_test
        )


@dataclass(frozen=True)
class Chapter:
    """One classifier's story: before, the repair, the change, and the files that were written."""

    name: str
    evaluation: Any
    calibrator: Any
    comparison: Any
    files: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "name": self.name,
            "evaluation": self.evaluation.to_dict(),
            "reason": self.calibrator.reason_,
            "comparison": self.comparison.to_dict(),
            "files": [str(path) for path in self.files],
        }


def digits_models(seed: int = 0) -> list[Models]:
    """Train an overconfident network and an underconfident forest on 600 digits."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    noise = np.random.default_rng(seed + 1).normal(scale=5.0, size=x.shape)  # a worn scanner: the task is not trivial
    x = (x + noise) / 16.0
    train, cal, test = np.split(order, [TRAIN, TRAIN + CALIBRATE])
    network = MLPClassifier((64,), alpha=1e-6, max_iter=300, random_state=seed)
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=seed, n_jobs=1)

    def trained(model: Any) -> Models:
        model.fit(x[train], y[train])
        name = "forest" if model is forest else "network"
        return Models(name, model.predict_proba(x[cal]), y[cal], model.predict_proba(x[test]), y[test])

    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return list(map_chunks(trained, (network, forest)))


def run_demo(
    folder: str | Path,
    *,
    seed: int = 0,
    models: list[Models] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Chapter]:
    """Evaluate, repair and compare; write files, calibrators and reports into a folder.

    Parameters
    ----------
    folder : path
        Where ``NAME.npz``, ``NAME-cal.json`` and ``report.html`` (of the network), ``report-NAME.html`` go.
    seed : int
        Seed of split, training and resampling.
    models : list of Models, optional
        Forecasts to use instead of the digits.
    tell : callable
        Called with each step in a sentence.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    tell("training a network and a forest on 600 digits …")
    chapters = []
    for index, model in enumerate(models or digits_models(seed)):
        files = [place / f"{model.name}.npz", place / f"{model.name}-cal.json"]
        model.save(files[0])
        tell(f"{model.name}: evaluating on {len(model.y_test)} test rows …")
        before = check_forecast(model.y_test, model.test, caller="evaluate")
        evaluation = evaluate_evidence(before, rng=seed)
        tell(f"{model.name}: trying repairs on {len(model.y_cal)} calibration rows …")
        calibrator = AutoCalibrator(proof=True, rng=seed).fit(model.cal, model.y_cal)
        calibrator.save(files[1])
        after = calibrator.predict_proba(model.test)
        repaired = check_forecast(model.y_test, after, caller="compare")
        comparison = compare_evidence(before, repaired, rng=seed)
        page = place / ("report.html" if index == 0 else f"report-{model.name}.html")
        report_evidence(
            before,
            calibrator=calibrator,
            calibrated=after,
            evaluation=evaluation,
            title=f"The {model.name} on handwritten digits",
            source=f"{model.name}.npz",
            command=f"calibrant report {model.name}.npz --calibrator {model.name}-cal.json",
            rng=seed,
        ).save(page)
        files.append(page)
        chapters.append(Chapter(model.name, evaluation, calibrator, comparison, tuple(files)))
    return chapters
