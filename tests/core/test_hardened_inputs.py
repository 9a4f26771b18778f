"""What a first campaign broke: byte order, masks, object labels, weights and values at the edge, options by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import AutoCalibrator, Ensemble
from calibrant.errors import FileError, InputError
from helpers import needs

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 2, 1], 40)
Y = RNG.integers(0, 3, 40)


@pytest.mark.parametrize("name", ["accuracy", "ece", "ks", "brier", "nll"])
def test_byte_order_changes_nothing(name):
    swapped = calibrant.metric(name, Y.astype(">i4"), P.astype(">f8"), sample_weight=np.ones(40, dtype=">f4"))
    assert swapped == calibrant.metric(name, Y, P)


@pytest.mark.parametrize("where", ["y", "p", "w"])
def test_a_masked_value_is_refused_with_its_row(where):
    y, p, w = (np.ma.array(a, mask=np.zeros(a.shape, bool)) for a in (Y, P, np.ones(40)))
    assert calibrant.metric("ece", y, p, sample_weight=w) == calibrant.metric("ece", Y, P)
    {"y": y, "p": p, "w": w}[where][7] = np.ma.masked
    with pytest.raises(InputError, match="masked value at row 7"):
        calibrant.metric("ece", y, p, sample_weight=w)


def test_object_labels():
    labels = np.array([0, 1, 2] * 13 + [1], dtype=object)
    assert calibrant.metric("ece", labels, P) == calibrant.metric("ece", labels.astype(int), P)
    assert calibrant.metric("ece", labels, P, classes=[0, 1, 2]) == calibrant.metric("ece", labels.astype(int), P)
    for value, said in ((None, "no label at row 3"), ("1", "'1' at row 3"), (float("nan"), "none at row 3")):
        bad = labels.copy()
        bad[3] = value
        with pytest.raises(InputError, match=said):
            calibrant.metric("ece", bad, P)
        with pytest.raises(InputError, match="row 3"):
            calibrant.metric("ece", bad, P, classes=[0, 1, 2])
    with pytest.raises(InputError, match="row 0"):
        calibrant.metric("ece", labels, P, classes=["0", "1", "2"])


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e200, 1e308])
def test_weights_of_any_size(size):
    weights = RNG.integers(1, 4, 40).astype(float)
    scaled = weights / 4 * size if size > 1 else weights * size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("accuracy", "ece", "ks", "brier", "tce"):
            value = calibrant.metric(name, Y, P, sample_weight=scaled)
            assert np.isfinite(value)
            if 1e-300 < size < 1e300:
                assert value == pytest.approx(calibrant.metric(name, Y, P, sample_weight=weights), rel=1e-12)


@pytest.mark.parametrize(
    "rows", [([1e308], [0.0], [1.0]), ([0.0], [0.0], [5e-324]), ([1.0], [0.0], [1e308]), ([1e60], [-1e60], [1e-140])]
)
def test_regression_at_the_edge_is_refused(rows):
    with pytest.raises(InputError, match=r"y_true|variance"):
        calibrant.metric("crps", *map(np.array, rows))


@pytest.mark.parametrize("value", [-1, 1.5, "many", True])
def test_resamplings_are_a_whole_number(value):
    with pytest.raises(InputError, match="n_resamples"):
        calibrant.evaluate(Y, P, n_resamples=value)
    with pytest.raises(InputError, match="n_resamples"):
        calibrant.interval("ece", Y, P, n_resamples=value)


def test_members_and_candidates_by_name():
    for wrong in ("abc", [1], 3):
        with pytest.raises(InputError, match="calibrators of Ensemble"):
            Ensemble(wrong).fit(P, Y)
        with pytest.raises(InputError, match="candidates of AutoCalibrator"):
            AutoCalibrator(candidates=wrong).fit(P, Y)


def test_a_mask_inside_a_list_hides_too():
    hidden = np.ma.array(P[3], mask=[False, True, False])
    with pytest.raises(InputError, match="y_proba of metric must not be masked; got a masked value at row 3"):
        calibrant.metric("ece", Y, [*P[:3], hidden, *P[4:]])
    rows = np.empty(40, dtype=object)
    rows[:] = [*P[:3], hidden, *P[4:]]
    with pytest.raises(InputError, match="masked value at row 3"):
        calibrant.metric("ece", Y, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="masked value at row 1"):
            calibrant.metric("ece", [0, np.ma.masked], P[:2])
    seen = [np.ma.array(row, mask=False) for row in P]
    assert calibrant.metric("ece", Y, seen) == calibrant.metric("ece", Y, P)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([np.inf], {}),
        ([-np.inf, np.inf], {}),
        ([[np.inf, np.inf]], {}),
        ([[1e308, 1e308]], {}),
        ([[1e308, 1e308]], {"normalize": True}),
        ([[5e-324, 0.0]], {"normalize": True}),
        ([[1e308, -1e308]], {"space": "logit"}),
        ([1e308, -1e308], {"space": "logit"}),
    ],
)
def test_what_is_far_from_a_forecast_is_refused_in_one_line(rows, options):
    labels = [0] * len(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="row 0") as caught:
            calibrant.metric("nll", labels, rows, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("more", [0.0, 1e-16, 1e-9, 4e-7])
def test_brier_score_of_a_coin_however_it_is_rounded(more):
    """Rounding may leave both classes a little above one half."""
    p = np.full((4, 2), 0.5) + more
    assert calibrant.metric("brier", [0, 1, 1, 0], p) == pytest.approx(0.5, abs=1e-6)
    assert calibrant.metric("rbs", [0, 1, 1, 0], p) == pytest.approx(np.sqrt(0.5), abs=1e-6)


def test_brier_score_of_a_coin_in_logits():
    z = np.repeat(np.round(np.random.default_rng(0).normal(size=(200, 1)) * 5, 6), 2, axis=1)
    assert calibrant.metric("brier", np.arange(200) % 2, z, space="logit") == pytest.approx(0.5, abs=1e-12)


def test_complement_of_a_coin_in_every_engine():
    from calibrant.calibrators._logistic import log_complement, log_complement_node
    from calibrant.core.programs import Graph

    log_p = np.log(np.full((1, 2), 0.5) + 1e-9)
    graph = Graph()
    found = graph.program(log_complement_node(graph, graph.x)).run(log_p)
    np.testing.assert_allclose(found, np.log(0.5), atol=1e-8)
    np.testing.assert_allclose(log_complement(log_p), found, rtol=1e-12)


def test_truths_that_almost_agree_have_a_kernel():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(calibrant.metric("skce", np.array([5e-324, 0.0]), np.array([0.0, 5e-324]), np.ones(2)))


@pytest.mark.parametrize("store", [[None], 3, None, b"x"])
def test_a_store_is_a_path(store):
    with pytest.raises(InputError, match="store of monitor must be a path"):
        calibrant.monitor(store, Y, P)


def test_the_level_of_windows_is_a_share():
    from calibrant.monitoring import compare_windows

    summary = calibrant.Summary(3).update(Y, P)
    for level in ([0.9], "x", 1.5, None):
        with pytest.raises(InputError, match="level of compare_windows"):
            compare_windows(summary, summary, level=level)


def test_options_that_the_campaign_passed(tmp_path, monkeypatch):
    import polars as pl

    from calibrant import report
    from calibrant.engines import open_paths
    from calibrant.inference import evaluate_evidence
    from calibrant.io import read_table
    from calibrant.monitoring import compare_windows

    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"p_0": P[:, 0], "p_1": P[:, 1], "p_2": P[:, 2], "label": Y}).write_parquet("given.parquet")
    summary = calibrant.Summary(3).update(Y, P)
    calls = {
        "view of Summary": lambda: summary.coarse_table("classwise"),
        "output": lambda: calibrant.apply(calibrant.calibrators.Identity().fit(P, Y), "given.parquet", 3),
        "output of report": lambda: calibrant.report(Y, P, compare_methods=False, n_resamples=0, output=[1]),
        "test": lambda: evaluate_evidence(summary, test="x", n_resamples=0),
        "views": lambda: calibrant.Summary(3, views=object()),
        "pairs": lambda: calibrant.Summary(pairs=[1]),
        "weights": lambda: Ensemble(weights=object()).fit(P, Y),
        "input_format": lambda: read_table("given.parquet", input_format=["x"]),
        "data": lambda: open_paths(-3.0),
        "metric": lambda: calibrant.testing.assert_calibrated(Y, P, metric=[1]),
        "current_names": lambda: compare_windows(summary, summary, current_names=None),
        "command": lambda: report(Y, P, compare_methods=False, n_resamples=0, command=[]),
        "name": lambda: calibrant.explain(float("nan")),
        "name of metric": lambda: summary.metric(["ece"]),
        "pairs of report": lambda: report(Y, P, compare_methods=False, n_resamples=0, pairs=np.array([])),
        "store": lambda: calibrant.monitor("a\0", Y, P, name="day"),
    }
    for words, call in calls.items():
        with pytest.raises(InputError, match=words):
            call()
    assert summary.grid_of("entropy") > 0
    with pytest.raises(FileError, match="null character"):
        calibrant.calibrators.Identity().fit(P, Y).save("a\0.json")


@needs("matplotlib")
def test_options_of_plots_that_the_campaign_passed():
    from calibrant import plots

    calls = {
        "ax": lambda: plots.plot_ks(Y, P, ax=range(3)),
        "level": lambda: plots.plot_local(Y, P, level=[0.9]),
        "level of plot_reliability": lambda: plots.plot_reliability(Y, P, level="x"),
        "view": lambda: plots.plot_local(Y, P, view="canonical"),
        "n_bins": lambda: plots.plot_reliability(Y, P, n_bins=2**63),
        "windows": lambda: plots.plot_ks(Y, P, windows=np.array([np.nan])),
        "decay": lambda: plots.plot_local(Y, P, decay=()),
    }
    for words, call in calls.items():
        with pytest.raises(InputError, match=words):
            call()


def test_links_that_go_round_in_a_circle_stay(tmp_path):
    from calibrant.core.atomic import write_text

    for name, target in (("a", "b"), ("b", "a"), ("c", "c")):
        (tmp_path / name).symlink_to(tmp_path / target)
    for name in "abc":
        with pytest.raises(FileError, match="circle"):
            write_text(tmp_path / name, "text")
        assert (tmp_path / name).is_symlink()


def test_what_a_killed_monitor_left_is_swept_by_the_next_run(tmp_path):
    from calibrant.core.atomic import _host

    calibrant.monitor(tmp_path / "store", Y, P, name="one")
    left = tmp_path / "store" / f".day.{_host()}-999999999-abcd.tmp"
    left.write_bytes(b"half")
    calibrant.monitor(tmp_path / "store", Y, P, name="one")  # the same rows: nothing is written
    assert not left.exists()


def test_a_masked_value_two_lists_deep_is_refused_with_its_row():
    rows = [[0.5, 0.5], [np.ma.masked, 0.5], (0.5, np.ma.masked)]
    for bad, row in ((rows, 1), (rows[::2], 1), (tuple(rows[2:]), 0)):
        with pytest.raises(InputError, match=f"masked value at row {row}"):
            calibrant.metric("nll", [0] * len(bad), bad)


def test_plain_objects_in_a_column_of_pandas_are_values():
    import pandas as pd

    p = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])
    scores = {f"p_{k}": p[:, k] for k in range(3)}

    def nll(labels, **columns):
        frame = pd.DataFrame(scores | columns | {"label": pd.Series(labels, dtype=object)})
        return calibrant.evaluate(frame, metrics=["nll"], n_resamples=0)["nll"].value

    assert nll([0, 1, 2]) == calibrant.metric("nll", [0, 1, 2], p)
    assert nll([0, 1, 2], p_0=pd.Series(p[:, 0].tolist(), dtype=object)) == calibrant.metric("nll", [0, 1, 2], p)
    for labels, rule in (([0, "a", 2], "'a' at row 1"), ([0, None, 2], "row 1"), ([0, np.ma.masked, 2], "row 1")):
        with pytest.raises(InputError, match=rule):
            nll(labels)
    with pytest.raises(FileError, match="lists of 1 and of 0"):
        nll([[0], 1, 2])


def test_options_that_the_sweep_passed():
    from calibrant.datasets import dirichlet_temperature, two_gaussians
    from calibrant.inference import equivalence_test

    calls = {
        "concentration": lambda: dirichlet_temperature(2, concentration=1e308),
        "temperature": lambda: dirichlet_temperature(2, temperature=5e-324),
        "beta0": lambda: two_gaussians(2, beta0=1e308),
        "beta1": lambda: two_gaussians(2, beta1=1e308),
        "error": lambda: equivalence_test(Y, P, epsilon=0.1, error=np.zeros((2, 2))),
        "n_classes": lambda: calibrant.Summary(2**63),
        "prior": lambda: calibrant.calibrators.BayesianBinning(prior=1e308).fit(P, Y),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for words, call in calls.items():
            with pytest.raises(InputError, match=f"^{words} of "):
                call()


@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-200])
def test_probabilities_of_any_size(tiny):
    """Powers of their variances are 0 in floating point; skewness, p-values and fits are not."""
    y = RNG.integers(0, 2, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = calibrant.evaluate(y, np.full(60, tiny), n_resamples=20, metrics=["brier", "ece"])
        assert found["brier"].pvalue == pytest.approx(1e-6)
        assert calibrant.evaluate(0 * y, np.full(60, tiny), n_resamples=20, metrics=["brier"])["brier"].pvalue == 1
        three = np.stack([np.full(60, tiny), np.full(60, tiny), np.ones(60)], axis=1)
        calibrant.evaluate(RNG.integers(0, 3, 60), three, n_resamples=20, groups=np.arange(60) // 2)
        halves = np.where(np.arange(60) < 30, tiny, 0.7)
        for scores in (np.full(60, tiny), halves):
            for method in ("platt", "beta"):
                assert np.isfinite(calibrant.fit(y, scores, method=method).calibrator.predict_proba(scores)).all()


@pytest.mark.parametrize("wrong", [None, 3, ["cal.json"]])
def test_load_takes_a_path(wrong):
    with pytest.raises(InputError, match=r"path of load must be a path; got .*Hint") as caught:
        calibrant.load(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT")])
def test_a_missing_cluster_is_refused_with_its_row(missing):
    groups = np.repeat(np.arange(20), 2).astype(object)
    groups[[7, 9]] = missing
    typed = np.array(groups.tolist(), dtype=float) if isinstance(missing, float) else groups
    for given in (groups, groups.tolist(), typed):
        with pytest.raises(
            InputError, match=r"groups of evaluate must name the cluster of every row; got none at row 7"
        ):
            calibrant.evaluate(Y, P, groups=given, n_resamples=20)
        with pytest.raises(InputError, match=r"groups of compare must name the cluster"):
            calibrant.compare(Y, P, P[:, [1, 0, 2]], groups=given)


def test_labels_beyond_64_bits(tmp_path):
    """Whole numbers of 26 digits are two labels like others, and no class indices."""
    import polars as pl

    rng = np.random.default_rng(0)
    path = tmp_path / "a.csv"
    path.write_text("score,label\n" + "\n".join(f"{x:.3f},{10**25 + i % 2}" for i, x in enumerate(rng.random(40))))
    found = calibrant.evaluate(path, n_resamples=0, positive=str(10**25 + 1), metrics=["brier"])
    frame = pl.read_csv(path)
    assert frame["label"].dtype == pl.Int128
    again = calibrant.evaluate(frame, n_resamples=0, positive=str(10**25 + 1), metrics=["brier"])
    assert again["brier"].value == found["brier"].value
    frame = frame.with_columns(p_0=1 - pl.col("score"), p_1="score", p_2=pl.lit(0.0)).drop("score")
    frame.write_csv(path)
    with pytest.raises(InputError, match=r"must hold class indices 0 … 2; got 1e\+25 at line 2"):
        calibrant.evaluate(path, n_resamples=0)
