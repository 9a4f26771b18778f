"""Pictures look as stored, take every form of data, follow the reader's settings, and say what they leave out."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import calibrant
from calibrant import plots
from calibrant.calibrators import VectorScaling
from calibrant.core.inputs import check_forecast
from calibrant.core.links import softmax
from calibrant.core.rows import check_rows

IMAGES = Path(__file__).parent / "images"
#: Mean difference of pixels (0 to 1) up to which a picture counts as the same: fonts render a little differently.
TOLERANCE = 0.02


def rows(n: int = 1200, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    y = (softmax(logits / 2).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return y, softmax(logits), logits


def pixels(figure: Any) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=40, format="png")
    buffer.seek(0)
    return plt.imread(buffer)[..., :3]


def pictures() -> dict[str, Any]:
    y, p, logits = rows()
    rng = np.random.default_rng(1)
    return {
        "reliability": lambda: plots.plot_reliability(y, p, n_resamples=50),
        "reliability-odds": lambda: plots.plot_reliability(y, p, scale="logit", n_resamples=0),
        "classes": lambda: plots.plot_reliability(y, p, view="classwise", n_resamples=0),
        "temperature": lambda: plots.plot_against_temperature(y, logits, metrics=("ece", "ks")),
        "ks": lambda: plots.plot_ks(y, p),
        "pit": lambda: plots.plot_pit(rng.normal(size=400), np.zeros(400), np.ones(400)),
    }


@pytest.mark.skipif(
    mpl.__version_info__ < (3, 11), reason="Matplotlib 3.11 drew the stored pictures; older ones set text elsewhere"
)
@pytest.mark.parametrize("name", list(pictures()))
def test_picture_is_the_stored_one(name: str) -> None:
    with mpl.rc_context():
        mpl.rcdefaults()
        plt.close("all")
        shown = pictures()[name]()
        axes = np.ravel(shown.ax)[0]
        now = pixels(axes.figure)
    path = IMAGES / f"{name}.png"
    if os.environ.get("CALIBRANT_STORE_IMAGES"):
        plt.imsave(path, now)
    stored = plt.imread(path)[..., :3]
    height, width = (min(a, b) for a, b in zip(now.shape[:2], stored.shape[:2], strict=True))
    assert abs(now.shape[0] - stored.shape[0]) <= 3
    assert abs(now.shape[1] - stored.shape[1]) <= 3
    assert np.abs(now[:height, :width] - stored[:height, :width]).mean() < TOLERANCE


def test_pictures_differ_from_each_other() -> None:
    """The comparison can fail: another picture of the same size is not taken for the stored one."""
    y, p, _ = rows()
    with mpl.rc_context():
        mpl.rcdefaults()
        now = pixels(plots.plot_reliability(y, np.full_like(p, 1 / 3) * 0.8 + 0.2 * p, n_resamples=50).ax.figure)
    stored = plt.imread(IMAGES / "reliability.png")[..., :3]
    assert np.abs(now[: len(stored)] - stored[: len(now)]).mean() > TOLERANCE


def overlaps(axis: Any) -> bool:
    """Whether two tick labels of an axis lie on each other."""
    axis.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axis.get_ticklabels(which="both") if label.get_text()]
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_ticks_do_not_overlap() -> None:
    y, p, logits = rows()
    turned = plots.plot_against_temperature(y, logits, metrics="ece").ax
    assert [label.get_text() for label in turned.xaxis.get_ticklabels()] == ["0.2", "0.5", "1", "2", "5"]
    odds = plots.plot_reliability(y, p, scale="logit", n_resamples=0).ax
    sizes = plots.plot_against_sample_size(y, p, metrics="ece", n_repeats=2).ax
    for axes in (turned, odds, sizes):
        assert not overlaps(axes.yaxis)
    for axes in (turned, sizes):
        assert not overlaps(axes.xaxis)


def test_figure_says_value_interval_rows_and_ribbon() -> None:
    y, p, _ = rows()
    shown = plots.plot_reliability(y, p, n_resamples=50)
    title = shown.ax.get_title(loc="left")
    assert f"ECE {100 * shown.error:.2f}%" in title
    assert f"({100 * shown.error_low:.2f} to {100 * shown.error_high:.2f})" in title
    assert "n = 1,200" in title
    assert "ribbon: where 95% of calibrated models lie" in title


def test_ks_says_its_interval() -> None:
    y, p, _ = rows()
    shown = plots.plot_ks(y, p)
    found = calibrant.evaluate(y, p, metrics=["ks"], n_resamples=200, rng=0)["ks"]
    assert (shown.ks_low, shown.ks_high) == (found.interval.low, found.interval.high)
    assert f"({100 * shown.ks_low:.2f} to {100 * shown.ks_high:.2f})" in shown.ax[0].texts[0].get_text()
    assert plots.plot_ks(y, p, n_resamples=0).ks_low is None
    words, (claimed, happened) = shown.ax[0].texts[0], shown.ax[0].get_lines()[:2]
    box = words.get_window_extent().transformed(shown.ax[0].transData.inverted())
    for curve in (claimed, happened):  # the words lie above both curves
        assert np.interp(box.x1, curve.get_xdata(), curve.get_ydata()) < box.y0


def test_ks_of_a_rare_event_uses_the_space() -> None:
    p = np.linspace(0, 0.2, 400)
    shown = plots.plot_ks((np.arange(400) % 10 == 0).astype(int), p, n_resamples=0, windows=8)
    assert shown.ax[2].get_ylim() == shown.ax[3].get_xlim() == shown.ax[3].get_ylim() == (0, 0.2)


def test_nothing_of_a_saved_figure_is_cut_off() -> None:
    y, p, logits = rows()
    rng = np.random.default_rng(1)
    regression = (rng.normal(size=400), np.zeros(400), rng.uniform(0.5, 2.0, 400))
    drawn = [
        plots.plot_reliability(y, p, n_resamples=20),
        plots.plot_reliability(y, p, scale="logit", n_resamples=20),
        plots.plot_against_temperature(y, logits, metrics="ece"),
        plots.plot_local(y, p, n_resamples=20),
        plots.plot_class_errors(y, p),
        plots.plot_rejection(y, p),
        plots.plot_variance(*regression),
    ]
    for shown in drawn:
        figure = shown.ax.figure
        figure.canvas.draw()
        box, page = figure.get_tightbbox(), figure.get_size_inches()
        assert box.x0 >= -0.02, type(shown).__name__
        assert box.y0 >= -0.02, type(shown).__name__
        assert box.x1 <= page[0] + 0.12, type(shown).__name__  # the dots and turned ticks at the right end
        assert box.y1 <= page[1] + 0.02, type(shown).__name__


def test_every_picture_of_rows_says_how_many() -> None:
    y, p, logits = rows()
    for shown in (
        plots.plot_against_temperature(y, logits, metrics="ece"),
        plots.plot_local(y, p, n_resamples=20),
        plots.plot_class_errors(y, p),
        plots.plot_rejection(y, p),
        plots.plot_risk_coverage(y, p),
        plots.plot_against_bins(y, p, n_resamples=20),
    ):
        assert "n = 1,200" in shown.ax.get_title(loc="left"), type(shown).__name__
    assert "n = 1,200" in plots.plot_ks(y, p).ax[0].get_title(loc="left")


def test_grid_of_classes_shares_its_labels() -> None:
    y, p, _ = rows(k=4)
    shown = plots.plot_reliability(y, p, view="classwise", n_resamples=0)
    figure = shown.ax[0].figure
    assert figure.get_supxlabel() == "predicted probability of the class"
    assert figure.get_supylabel() == "how often it happens"


def test_many_classes_are_said_to_be_left_out() -> None:
    y, p, _ = rows(4000, 60)
    shown = plots.plot_class_errors(y, p, metrics="sce")
    assert shown.ax.get_title(loc="left") == "n = 4,000; the 40 of 60 classes with the largest errors"
    assert len(shown.ax.patches) == 40
    fitted = VectorScaling().fit(p, y)
    legend = plots.plot_calibration_map(fitted).ax.get_legend()
    assert legend.get_title().get_text() == "7 of 60 classes"


def test_every_form_of_data_draws_the_same(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is absent")
    y, p, _ = rows(300)
    frame = pd.DataFrame({"label": y, "p_0": p[:, 0], "p_1": p[:, 1], "p_2": p[:, 2]})
    frame.to_csv(tmp_path / "preds.csv", index=False)
    forms = (frame, tmp_path / "preds.csv", str(tmp_path / "preds.csv"), check_forecast(y, p, caller="evaluate"))
    for draw in (plots.plot_reliability, plots.plot_ks, plots.plot_class_errors, plots.plot_risk_coverage):
        wanted = draw(y, p).to_dict()
        for form in forms:
            got = draw(form).to_dict()
            for key in ("x", "y", "ks", "aurc"):
                if key in wanted:
                    np.testing.assert_allclose(got[key], wanted[key], atol=1e-9)
    with pytest.raises(ValueError, match="y_proba of plot_ks must be given"):
        plots.plot_ks(y)


def test_regression_pictures_take_evidence() -> None:
    rng = np.random.default_rng(0)
    y, mean, variance = rng.normal(size=200), np.zeros(200), np.ones(200)
    evidence = check_rows(y, mean, variance, caller="evaluate")
    np.testing.assert_array_equal(plots.plot_pit(evidence).share, plots.plot_pit(y, mean, variance).share)


def test_style_follows_the_reader() -> None:
    y, p, _ = rows(300)
    with mpl.rc_context({"axes.prop_cycle": mpl.cycler(color=["#123456", "#654321"]), "axes.spines.top": True}):
        theirs = plots.plot_risk_coverage(y, p, style="matplotlib")
        assert theirs.ax.get_lines()[0].get_color() == "#123456"
        assert theirs.ax.spines["top"].get_visible()
        ours = plots.plot_risk_coverage(y, p)
        assert ours.ax.get_lines()[0].get_color() != "#123456"
        assert not ours.ax.spines["top"].get_visible()
    with mpl.rc_context({"axes.prop_cycle": mpl.cycler(color=[(0.1, 0.2, 0.3), (0.4, 0.5, 0.6)])}):  # colors as numbers
        drawn = plots.plot_reliability(y, p, n_resamples=20, style="matplotlib")
        assert len(drawn.ax.collections) >= 2
    with pytest.raises(ValueError, match="style"):
        plots.plot_ks(y, p, style="fancy")
