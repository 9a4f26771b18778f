"""Everything else: torch, selective prediction, data sets, pictures, the suites of `testing`, monitoring, notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant import calibrators, datasets, monitoring, plots, selective, summary, testing
from frozen.case import Case
from frozen.fixed import answer, class_rows, mean_rows, plain, softmax

#: Resamples behind every drawn number.
B = 99
#: What float32 keeps.
SINGLE = 1e-6


def cases() -> Iterator[Case]:
    """Yield the cases of each part."""
    yield Case("rest/torch/losses", losses, tolerance=SINGLE)
    yield Case("rest/torch/streaming", streaming, tolerance=SINGLE)
    yield Case("rest/torch/scaling", scaling, tolerance=SINGLE)
    yield Case("rest/torch/posteriors", posteriors, tolerance=SINGLE)
    yield Case("rest/torch/draws", posterior_draws, draws=40, tolerance=SINGLE)
    yield Case("rest/selective", selected)
    yield Case("rest/selective/drawn", selected_drawn, draws=B)
    yield Case("rest/datasets", simulated)
    for name in PICTURES:
        yield Case(f"rest/plots/{name}", partial(picture, name), tolerance=1e-7)
    for name in DRAWN_PICTURES:
        yield Case(f"rest/plots/{name}", partial(drawn_picture, name), draws=B)
    yield Case("rest/testing/assert_calibrated", asserted, draws=B)
    yield Case("rest/testing/suites", suites)
    yield Case("rest/monitoring", monitored, draws=B)
    yield Case("rest/monitoring/family", family, draws=B)
    yield Case("rest/monitoring/windows", windows, draws=B)
    yield Case("rest/summary", summed)
    yield Case("rest/notebook", notebook, draws=B)


# -- torch --------------------------------------------------------------------------------------------


def losses(folder: Path, seed: int) -> Any:
    """Return each loss and the sums of its gradient, in both precisions, with weights, and with rows left out."""
    import torch

    from calibrant import torch as ct

    rows = class_rows(48, 4)
    kinds = {
        "brier": (ct.BrierLoss, {}),
        "brier, sum": (ct.BrierLoss, {"reduction": "sum"}),
        "entropy": (ct.EntropyPenalty, {}),
        "focal": (ct.FocalLoss, {}),
        "focal, 0.5": (ct.FocalLoss, {"gamma": 0.5}),
        "smoothing": (ct.LabelSmoothing, {}),
        "smoothing, 0.3": (ct.LabelSmoothing, {"smoothing": 0.3}),
        "mmce": (ct.MMCELoss, {}),
        "mmce, plain": (ct.MMCELoss, {"width": 0.2, "weighted": False}),
        "mmce, official": (ct.MMCELoss, {"normalization": "official"}),
        "soft ece": (ct.SoftECELoss, {}),
        "soft ece, 1": (ct.SoftECELoss, {"n_bins": 10, "norm": 1}),
        "uce": (ct.UCELoss, {}),
        "uce, pooled": (ct.UCELoss, {"n_bins": 10, "per_class": False}),
    }
    target = torch.from_numpy(rows.y)
    some = torch.where(torch.arange(48) % 5 == 0, -100, target)
    classes = {"class_weight": torch.tensor([1.0, 2.0, 0.5, 1.5])}

    def one(loss: Any, labels: Any, dtype: Any, *more: Any) -> Any:
        logits = torch.tensor(rows.z, dtype=dtype, requires_grad=True)
        value = loss(logits, labels, *more)
        value.sum().backward()
        slope = logits.grad
        return [value, slope.sum(), slope.abs().sum(), slope[3], str(value.dtype)]

    def half(loss: Any) -> str:
        return str(loss(torch.tensor(rows.z, dtype=torch.bfloat16), target).dtype)

    weight = torch.tensor(rows.shares, dtype=torch.float32)
    found: dict[str, Any] = {}
    for name, (kind, options) in kinds.items():
        found[name] = {
            "float32": answer(one, kind(**options), target, torch.float32),
            "float64": answer(one, kind(**options), target, torch.float64),
            "bfloat16": answer(half, kind(**options)),
            "left out": answer(one, kind(**options), some, torch.float32),
            "classes": answer(one, kind(**options, **classes), target, torch.float32),
            "weights": answer(one, kind(**options), target, torch.float32, weight),
        }
    both = ct.RegularizedLoss(ct.BrierLoss(), ct.UCELoss(), weight=3.0)
    found["regularized"] = answer(one, both, target, torch.float64)
    found["regularized, parts"] = answer(lambda: both.parts)
    found["warm up"] = [
        answer(one, loss, target, torch.float64)
        for loss in [ct.RegularizedLoss(penalty=ct.MMCELoss(), warmup=4)]
        for _ in range(3)
    ]
    found["functions"] = {
        name: answer(getattr(ct, name), torch.tensor(rows.z), target)
        for name in (
            "brier_loss",
            "entropy_penalty",
            "focal_loss",
            "label_smoothing",
            "mmce_loss",
            "soft_ece_loss",
            "uce_loss",
        )
    }
    found["rows"] = answer(ct.brier_loss, torch.tensor(rows.z[:4]), target[:4], reduction="none")
    found["refused"] = [
        answer(ct.brier_loss, torch.tensor(rows.z), target + 9),
        answer(ct.brier_loss, torch.tensor(rows.z), target[:-1]),
        answer(ct.focal_loss, torch.tensor(rows.z), target, gamma=-1.0),
        answer(ct.BrierLoss, reduction="mode"),
        answer(ct.soft_ece_loss, torch.tensor(rows.z), target, n_bins=0),
    ]
    return found


def streaming(folder: Path, seed: int) -> Any:
    """Return meters over three batches: metrics, weights, both spaces, two classes, merged, and what they refuse."""
    import torch

    from calibrant import torch as ct

    names = [name for name in calibrant.list_metrics("classes") if name not in ("skce", "ce-kde")]
    rows, two = class_rows(90, 4), class_rows(90, 2, seed=3)
    y, z, p = torch.from_numpy(rows.y), torch.from_numpy(rows.z), torch.from_numpy(rows.p)

    def meter(scores: Any, labels: Any, weight: Any = None, **options: Any) -> Any:
        made = ct.StreamingCalibration(scores.shape[1] if scores.ndim > 1 else 2, **options)
        for part in (slice(0, 30), slice(30, 31), slice(31, None)):
            made.update(scores[part], labels[part], *(() if weight is None else (weight[part],)))
        return made

    def offered(name: str) -> Any:
        return answer(lambda: meter(z, y, metrics=[name]).compute()[name])

    one, other = meter(z[:40], y[:40]), meter(z[40:], y[40:])
    one.merge_state(other)
    return {
        "every metric": {name: offered(name) for name in [*names, "skce", "ks@class-1", "ece@classwise"]},
        "proba": answer(lambda: meter(p, y, space="proba").compute()),
        "single": answer(lambda: meter(z.float(), y).compute()),
        "weights": answer(lambda: meter(z, y, torch.from_numpy(rows.shares), weighted=True).compute()),
        "two": answer(lambda: meter(torch.from_numpy(two.z), torch.from_numpy(two.y)).compute()),
        "left out": answer(lambda: meter(z, torch.where(y == 1, -100, y)).compute()),
        "merged": answer(one.compute),
        "repr": str(one),
        "nothing yet": answer(lambda: ct.StreamingCalibration(4).compute()),
        "not alike": answer(one.merge_state, ct.StreamingCalibration(4, ["ks"])),
        "classes": answer(lambda: meter(z, y + 4).compute()),
    }


def scaling(folder: Path, seed: int) -> Any:
    """Return fitted layers, and temperatures of sampled logits."""
    import torch

    from calibrant import torch as ct

    rows = class_rows(120, 4)
    z, y = torch.tensor(rows.z, dtype=torch.float32), torch.from_numpy(rows.y)
    samples = rows.z[None] + np.random.RandomState(7).normal(0, 0.5, (5, *rows.z.shape)).round(6)
    drawn = ct.Predictive.from_logits(samples, rows.y)
    found: dict[str, Any] = {
        name: {"state": dict(layer.state_dict()), "logits": layer(z[:4])}
        for name, layer in (
            ("temperature", ct.TemperatureScaling().fit(z, y)),
            ("vector", ct.VectorScaling(4).fit(z, y)),
        )
    }
    found["predictive"] = plain({**drawn.to_dict(), "uncertainty": drawn.uncertainty})
    found["predictive, text"] = str(drawn)
    for objective in ("mean", "samples"):
        fitted = ct.MonteCarloTemperature(objective).fit(drawn)
        found[objective] = [fitted.temperature_, fitted.predict(samples[:, :3]).proba]
    found["refused"] = [answer(ct.MonteCarloTemperature().predict, samples), answer(ct.MonteCarloTemperature, "other")]
    return plain(found)


def network() -> Any:
    """Return a small network of fixed weights."""
    import torch

    draw = np.random.RandomState(11)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(5, 3))
    with torch.no_grad():
        for part in net.parameters():
            part.copy_(torch.from_numpy(draw.normal(0, 0.8, tuple(part.shape)).round(4)))
    return net.eval()


def batches() -> list[Any]:
    import torch

    rows = class_rows(40, 4)
    x, y = torch.tensor(rows.z, dtype=torch.float32), torch.from_numpy(rows.y % 3)
    return [(x[:25], y[:25]), (x[25:], y[25:])]


def posteriors(folder: Path, seed: int) -> Any:
    """Return what a posterior says without a draw: Laplace, the moments of SWAG, divergences, an ensemble."""
    import torch

    from calibrant import torch as ct

    found: dict[str, Any] = {}
    for hessian in ("kron", "full"):
        for prior in ("evidence", 2.0):
            laplace = ct.LastLayerLaplace(network(), hessian, prior).fit(batches())
            done = laplace.predict(batches())
            found[f"laplace, {hessian}, {prior}"] = [
                laplace.precision,
                done.proba[:4],
                done.logit_variance[:4],
                done.total[:4],
            ]
    net = network()
    swag = ct.SWAG(net, rank=2)
    for _ in range(3):
        with torch.no_grad():
            for part in net.parameters():
                part.mul_(0.9)
        swag.collect()
    found["swag"] = [swag.count, swag.mean, swag.variance]
    swag.use_mean()
    found["swag, mean"] = swag(batches()[0][0][:3])
    layer = ct.BayesLinear(3, 2)
    with torch.no_grad():
        layer.weight.fill_(0.3)
        layer.bias.fill_(-0.2)
    found["kl"] = [ct.kl(layer), ct.kl(torch.nn.Sequential(layer, layer)), ct.kl(network())]
    ensemble = ct.DeepEnsemble(network, 2, seeds=[0, 1])
    found["ensemble"] = ct.predict(ensemble, batches(), rng=0)
    found["plain"] = answer(ct.predict, network(), batches(), rng=0)
    found["refused"] = [answer(ct.SWAG(network()).use_mean), answer(ct.LastLayerLaplace, network(), "diag")]
    return plain(found)


def posterior_draws(folder: Path, seed: int) -> Any:
    """Return averages over random passes."""
    from calibrant import torch as ct

    laplace = ct.LastLayerLaplace(network()).fit(batches())
    found = {
        "dropout": ct.predict(ct.mc_dropout(network()), batches(), 40, rng=seed),
        "laplace": ct.predict(laplace, batches(), 40, rng=seed),
    }
    return plain({name: [done.proba[:4], done.epistemic[:4]] for name, done in found.items()})


# -- selective prediction and data sets -----------------------------------------------------------------


def foreign() -> np.ndarray:
    return softmax(np.random.RandomState(9).normal(0, 0.6, (50, 4)).round(6))


def selected(folder: Path, seed: int) -> Any:
    """Return risk–coverage and rejection curves, and points with and without a guarantee."""
    rows = class_rows(80, 4)
    found: dict[str, Any] = {}
    for by in ("entropy", "confidence", "margin", "none"):
        found[by] = {
            "uncertainty": answer(selective.uncertainty, rows.p[:6], by=by),
            "curve": answer(selective.risk_coverage_curve, rows.y, rows.p, by=by),
            "counts": answer(selective.risk_coverage_curve, rows.y, rows.p, by=by, sample_weight=rows.counts),
            "rejection": answer(selective.rejection_curve, rows.y, rows.p, by=by, thresholds=[0.2, 0.5, 0.8]),
            "point": answer(selective.coverage_at_risk, rows.y, rows.p, by=by, risk=0.3),
            "guarantee": answer(selective.coverage_at_risk, rows.y, rows.p, by=by, risk=0.45, delta=0.1),
            "out of reach": answer(selective.coverage_at_risk, rows.y, rows.p, by=by, risk=0.001, delta=0.05),
        }
    score = rows.shares / rows.shares.max()
    found["own score"] = answer(selective.risk_coverage_curve, rows.y, rows.p, by=score)
    found["rejection"] = answer(selective.rejection_curve, rows.y, rows.p, sample_weight=rows.shares)
    found["logits"] = answer(selective.uncertainty, rows.z[:6], space="logit")
    found["refused"] = answer(selective.coverage_at_risk, rows.y, rows.p, risk=2)
    return found


def selected_drawn(folder: Path, seed: int) -> Any:
    """Return what is drawn: intervals of areas, detection of foreign rows, rows swapped in."""
    rows = class_rows(120, 4)
    given = {"n_resamples": B, "rng": seed}
    return {
        "aurc": answer(selective.risk_coverage_interval, rows.y, rows.p, **given),
        "excess": answer(selective.risk_coverage_interval, rows.y, rows.p, what="excess_aurc", **given),
        "counts": answer(selective.risk_coverage_interval, rows.y, rows.p, sample_weight=rows.counts, **given),
        "foreign": answer(selective.ood_detection, rows.p, foreign(), **given),
    }


def simulated(folder: Path, seed: int) -> Any:
    """Return the first rows and the true errors of every simulated set."""
    made = {
        "two_gaussians": datasets.two_gaussians(200, rng=0),
        "two_gaussians, other": datasets.two_gaussians(200, beta0=0.0, beta1=1.0, rng=0),
        "dirichlet_temperature": datasets.dirichlet_temperature(200, rng=0),
        "dirichlet_temperature, sharp": datasets.dirichlet_temperature(
            200, n_classes=5, temperature=0.5, mixing=0.1, rng=0
        ),
        "hidden": datasets.hidden_miscalibration(200, rng=0),
        "hidden, whole": datasets.hidden_miscalibration(),
        "replaced": datasets.accuracy_replaced(200, rng=0),
        "replaced, whole": datasets.accuracy_replaced(),
        "collapsed": datasets.collapsed(200, rng=0),
        "collapsed, whole": datasets.collapsed(),
    }
    found = {name: first_rows(one) for name, one in made.items()}
    found["refused"] = [answer(datasets.two_gaussians, 0), answer(datasets.collapsed, 10, share=2)]
    return found


def first_rows(one: Any) -> Any:
    return plain(
        {
            "text": str(one),
            "n": one.n,
            "errors": dict(one.errors),
            "labels": one.y_true[:8],
            "proba": one.y_proba[:3],
            "truth": None if one.truth is None else one.truth[:3],
            "weights": None if one.sample_weight is None else one.sample_weight[:8],
            "sum": [float(np.sum(one.y_true)), float(np.sum(np.asarray(one.y_proba) ** 2))],
        }
    )


# -- pictures -------------------------------------------------------------------------------------------

TRACE = {
    "step": [1, 2, 3],
    "train": {"ece": [0.3, 0.2, 0.1]},
    "held_out": {"ece": [0.3, 0.25, 0.2], "ks": [0.1, 0.1, 0.2]},
}
METHODS = [
    {
        "method": name,
        "gain": gain,
        "low": gain - 0.02,
        "high": gain + 0.03,
        "preserves_argmax": gain > 0,
        "chosen": gain > 0.05,
    }
    for name, gain in (("temperature", 0.1), ("isotonic", -0.01), ("beta", 0.04))
]
PICTURES: dict[str, Any] = {
    "plot_against_temperature": lambda rows: plots.plot_against_temperature(rows.y, rows.z, temperatures=[0.5, 1.0, 2.0]),
    "plot_calibration_map": lambda rows: plots.plot_calibration_map(calibrators.BetaCalibration().fit(rows.p[:, :2] / rows.p[:, :2].sum(axis=1, keepdims=True), rows.y % 2), points=11),
    "plot_calibration_map, three": lambda rows: plots.plot_calibration_map(calibrators.TemperatureScaling().fit(rows.p[:, :3] / rows.p[:, :3].sum(axis=1, keepdims=True), rows.y % 3), points=11),
    "plot_calibration_map, four": lambda rows: plots.plot_calibration_map(calibrators.TemperatureScaling().fit(rows.p, rows.y), points=11),
    "plot_class_errors": lambda rows: plots.plot_class_errors(rows.y, rows.p),
    "plot_methods": lambda rows: plots.plot_methods(METHODS),
    "plot_risk_coverage": lambda rows: plots.plot_risk_coverage(rows.y, rows.p),
    "plot_rejection": lambda rows: plots.plot_rejection(rows.y, rows.p, thresholds=[0.2, 0.5, 0.8]),
    "plot_training": lambda rows: plots.plot_training(TRACE),
    "plot_training, reader's style": lambda rows: plots.plot_training(TRACE, metrics=["ks"], style="matplotlib"),
    "plot_pit": lambda rows: plots.plot_pit(*mean_rows(80)[:3]),
    "plot_variance": lambda rows: plots.plot_variance(*mean_rows(80)[:3], n_bins=6),
    "plot_ks, nothing drawn": lambda rows: plots.plot_ks(rows.y, rows.p, windows=10, n_resamples=0),
    "plot_reliability, nothing drawn": lambda rows: plots.plot_reliability(rows.y, rows.p, n_resamples=0),
    "plot_local, nothing drawn": lambda rows: plots.plot_local(rows.y, rows.p, n_resamples=0),
}  # fmt: skip
DRAWN_PICTURES: dict[str, Any] = {
    "plot_against_bins": lambda rows, rng: plots.plot_against_bins(rows.y, rows.p, n_bins=[5, 15], n_resamples=B, rng=rng),
    "plot_against_sample_size": lambda rows, rng: plots.plot_against_sample_size(rows.y, rows.p, sizes=[30, 60], rng=rng),
    "plot_ks": lambda rows, rng: plots.plot_ks(rows.y, rows.p, windows=10, n_resamples=B),
    "plot_local": lambda rows, rng: plots.plot_local(rows.y, rows.p, decay=(0.9, 0.5), n_resamples=B, rng=rng),
    **{
        f"plot_reliability, {word}": lambda rows, rng, options=options: plots.plot_reliability(rows.y, rows.p, n_resamples=B, rng=rng, **options)
        for word, options in {
            "bins": {}, "isotonic": {"curve": "isotonic"}, "smooth": {"curve": "smooth"}, "local": {"curve": "local"},
            "mass": {"bins": "mass", "n_bins": 6}, "classwise": {"view": "classwise"}, "logit": {"scale": "logit"},
            "class-1": {"view": "class-1", "counts": False}
        }.items()
    },
}  # fmt: skip


def picture(name: str, folder: Path, seed: int) -> Any:
    """Return the numbers behind a picture and what stands on its axes."""
    return answer(lambda: painted(PICTURES[name](class_rows(100, 4))))


def drawn_picture(name: str, folder: Path, seed: int) -> Any:
    """Return the same of a picture with a drawn band."""
    return answer(lambda: painted(DRAWN_PICTURES[name](class_rows(100, 4), seed)))


def painted(display: Any) -> Any:
    """Return the numbers of a display, and every line, bar, point and text of its figure; the figure is closed."""
    import matplotlib.pyplot as plt

    figures = [plt.figure(number) for number in plt.get_fignums()]
    axes = [axis(one) for figure in figures for one in figure.axes]
    plt.close("all")
    return {"display": type(display).__name__, "numbers": display.to_dict(), "caption": display.caption, "axes": axes}


def axis(ax: Any) -> Any:
    """Return what stands on axes."""
    legend = ax.get_legend()
    return {
        "x": ax.get_xlabel(),
        "y": ax.get_ylabel(),
        "title": [ax.get_title(loc=side) for side in ("left", "center", "right")],
        "limits": [*ax.get_xlim(), *ax.get_ylim()],
        "scales": [ax.get_xscale(), ax.get_yscale()],
        "names": [
            text for label in (*ax.get_xticklabels(), *ax.get_yticklabels()) if (text := label.get_text()).isalpha()
        ],
        "lines": [[line.get_xdata(), line.get_ydata()] for line in ax.get_lines()],
        "bars": [
            [patch.get_x(), patch.get_width(), patch.get_height()] for patch in ax.patches if hasattr(patch, "get_x")
        ],
        "areas": [len(path.vertices) for shape in ax.collections for path in shape.get_paths()],
        "points": [shape.get_offsets().tolist() for shape in ax.collections if len(shape.get_offsets()) > 1],
        "texts": [text.get_text() for text in ax.texts],
        "legend": [] if legend is None else [text.get_text() for text in legend.get_texts()],
    }


# -- suites of testing, monitoring, summaries, notebooks -------------------------------------------------


def raised(call: Any, *args: Any, **options: Any) -> Any:
    try:
        return answer(call, *args, **options)
    except AssertionError as error:
        return {"raised": str(error).splitlines()}


def asserted(folder: Path, seed: int) -> Any:
    """Return what is raised on a bad model, and that a good one passes."""
    bad, two = class_rows(200, 3, temperature=4.0), class_rows(200, 2, seed=3, temperature=4.0)
    given = {"n_resamples": B, "rng": seed}
    return {
        "defaults": raised(testing.assert_calibrated, bad.y, bad.p, **given),
        "bad": raised(testing.assert_calibrated, bad.y, bad.p, max_error=0.02, **given),
        "two": raised(testing.assert_calibrated, two.y, two.p, max_error=0.02, **given),
        "metric": raised(testing.assert_calibrated, bad.y, bad.p, metric="ece", max_error=0.01, **given),
        "p-value": raised(testing.assert_calibrated, bad.y, bad.p, max_error=0.9, min_pvalue=0.2, **given),
        "undecided": raised(testing.assert_calibrated, bad.y, bad.p, max_error=0.15, undecided="fail", **given),
        "good": raised(testing.assert_calibrated, bad.y, bad.p, max_error=0.5, **given),
        "unknown": raised(testing.assert_calibrated, bad.y, bad.p, metric="kss", **given),
    }


class Constant:
    """A method that keeps no contract."""

    def fit(self, X: Any, y: Any) -> Any:
        return self

    def predict_proba(self, X: Any) -> Any:
        return X


def suites(folder: Path, seed: int) -> Any:
    """Return that suites pass on ours and what they say of a method that keeps no contract."""

    return {
        "metric": raised(testing.check_metric, "brier"),
        "metric of regression": raised(testing.check_metric, "crps"),
        "calibrator": raised(testing.check_calibrator, calibrators.TemperatureScaling()),
        "calibrator of regression": raised(testing.check_calibrator, calibrators.StdScaling()),
        "no metric": raised(testing.check_metric, "zzz"),
    }


def day(number: int, temperature: float = 1.0) -> Any:
    return class_rows(120, 3, seed=50 + number, temperature=temperature)


def monitored(folder: Path, seed: int) -> Any:
    """Return a monitor over good days and bad ones, as text, JSON and OpenMetrics."""
    found: list[Any] = []
    for number in range(6):
        rows = day(number, 1.0 if number < 3 else 2.5)
        done = calibrant.monitor(folder / "store", rows.y, rows.p, name=f"2026-01-0{number + 1}", window=2, rng=seed)
        found.append(answer(done.to_dict))
    shown = calibrant.monitor(folder / "store", rng=seed)
    twice = answer(calibrant.monitor, folder / "store", *day(0)[:2], name="2026-01-06")
    clusters = [
        answer(
            lambda n=n: calibrant.monitor(
                folder / "units", *day(n)[:2], groups=day(n).groups, name=f"day {n}", rng=seed
            ).to_dict()
        )
        for n in range(2)
    ]
    text = shown.to_openmetrics().splitlines()
    return {
        "days": found[-1],
        "first": found[0],
        "text": str(shown).splitlines(),
        "open": text,
        "twice": twice,
        "clusters": clusters,
    }


def family(folder: Path, seed: int) -> Any:
    """Return a monitor of two models."""
    import polars as pl

    shown: Any = None
    for number in range(3):
        rows = day(number, 1.6)
        columns = {f"p_{k}": rows.p[:, k] for k in range(3)}
        frame = pl.DataFrame({"model": np.where(np.arange(120) % 2, "a", "b"), "label": rows.y, **columns})
        shown = calibrant.monitor(folder / "models", frame, by="model", name=f"2026-02-0{number + 1}", rng=seed)
    return {"json": answer(shown.to_dict), "text": str(shown).splitlines(), "open": shown.to_openmetrics().splitlines()}


def windows(folder: Path, seed: int) -> Any:
    """Return one window of days against another."""
    before, after = (summary.Summary(3).update(*day(number, heat)[:2]) for number, heat in ((0, 1.0), (1, 2.5)))
    return answer(monitoring.compare_windows, before, after, ["monday"], ["tuesday"], n_resamples=B, rng=seed)


def summed(folder: Path, seed: int) -> Any:
    """Return metrics of cells, merged from parts, and what cells refuse."""
    rows = class_rows(200, 4)
    parts = [
        summary.Summary(4, n_bins=(7,)).update(rows.y[part], rows.p[part]) for part in (slice(0, 70), slice(70, None))
    ]
    whole = parts[0] + parts[1]
    done = calibrant.evaluate(whole, metrics="all", n_resamples=0)
    weighted = summary.Summary(4).update(rows.y, rows.p, sample_weight=rows.counts)
    return {
        "n": whole.n,
        "all": {one.name: one.value for one in done},
        "7 bins": answer(lambda: calibrant.evaluate(whole, metrics=["ece"], n_bins=7, n_resamples=0)["ece"].value),
        "8 bins": answer(lambda: calibrant.evaluate(whole, metrics=["ece"], n_bins=8, n_resamples=0)["ece"].value),
        "skce": answer(lambda: calibrant.evaluate(whole, metrics=["skce"], n_resamples=0)["skce"].value),
        "counts": answer(
            lambda: calibrant.evaluate(weighted, metrics=["ece", "brier", "ks"], n_resamples=0).to_dict()["metrics"]
        ),
        "repr": re.sub(r"\d+(\.\d+)? (kB|MB|bytes)", "# bytes", str(whole)).splitlines(),
        "other classes": answer(lambda: whole + summary.Summary(3)),
    }


def notebook(folder: Path, seed: int) -> Any:
    """Return the words of results in a notebook: pages without their tags."""
    rows, two = class_rows(200, 3, temperature=4.0), class_rows(200, 2, seed=3, temperature=4.0)
    moments = mean_rows(100)
    made = {
        "classes": calibrant.evaluate(rows.y, rows.p, n_resamples=B, rng=seed),
        "two": calibrant.evaluate(two.y, two.p, n_resamples=B, rng=seed, risk=True),
        "regression": calibrant.regression.evaluate(*moments[:3], n_resamples=B, rng=seed),
        "compare": calibrant.compare(rows.y, rows.p, softmax(rows.z / 1.4), rng=seed),
        "interval": calibrant.interval("brier", rows.y, rows.p, rng=seed),
        "slices": calibrant.evaluate(rows.y, rows.p, by={"half": rows.groups % 2}, n_resamples=B, rng=seed),
    }
    return {name: words_of(one._repr_html_()) for name, one in made.items()}


def words_of(page: str) -> list[str]:
    page = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return [" ".join(line.split()) for line in re.sub(r"<[^>]+>", "\n", page).splitlines() if line.strip()]
