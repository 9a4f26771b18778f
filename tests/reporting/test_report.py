"""Numbers of the report are the library's; content is escaped; sizes stay small; every form says the same."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.core.links import softmax
from calibrant.core.predictions import Normal
from calibrant.core.rows import check_rows
from calibrant.core.tables import width_index
from calibrant.errors import InputError
from calibrant.reporting import figures, report_evidence
from calibrant.reporting.cells import BIN_COUNTS, GRID
from calibrant.reporting.cumulative import Curves
from calibrant.reporting.svg import nice_ticks
from calibrant.views import ClassK, TopLabel, WithinTopR
from helpers import load_data

NASTY = "<script>alert(1)</script>"


def forecast(n: int = 2000, k: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    y = (softmax(logits / 2).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return y, softmax(logits)


class Balance(HTMLParser):
    """Every opened element is closed, in order."""

    void = ("meta", "link", "input", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> Any:
    y, p = forecast()
    return calibrant.report(y, p, by={"half": np.arange(len(y)) % 2}, n_resamples=100, rng=3)


def test_cells_rebin_to_the_library_for_every_count() -> None:
    y, p = forecast()
    page = calibrant.report(y, p, compare_methods=False, n_resamples=0)
    views = {"top-1": TopLabel(), "within-2": WithinTopR(2), **{f"class-{k}": ClassK(k) for k in range(4)}}
    assert {cells.name for cells in page.summary["views"]} == set(views)
    for cells in page.summary["views"]:
        for m in BIN_COUNTS:
            value = calibrant.metric("ece", y, p, n_bins=m, view=views[cells.name])
            assert cells.error(m) == pytest.approx(value, abs=1e-14)


def test_embedded_cells_are_exact_at_bin_edges() -> None:
    """Scores on edges of every count fall where the bin rule puts them."""
    scores = np.unique(np.concatenate([np.arange(m + 1) / m for m in BIN_COUNTS]))
    for stored in (scores, scores.astype(np.float32)):
        cell = width_index(stored, GRID)
        for m in BIN_COUNTS:
            np.testing.assert_array_equal(cell * m // GRID, width_index(stored, m))


def test_numbers_of_the_page_are_the_evaluation(page: Any) -> None:
    y, p = forecast()
    evaluation = calibrant.evaluate(y, p, n_resamples=100, rng=3)
    assert page.summary["evaluation"] == evaluation.to_dict()
    assert page.summary["verdict"] == evaluation.verdict
    assert page.to_dict()["evaluation"]["metrics"]["ece"]["value"] == calibrant.metric("ece", y, p)
    row = next(row for row in page.summary["page"]["metrics"]["rows"] if "(ECE)" in row["name"])
    assert row["values"]["before"] == f"{100 * evaluation['ece'].value:.2f}%"
    assert f'<span class="b-t">{row["values"]["before"]}</span>' in page.html
    shown = page.summary["page"]  # the headline has the decimals of the tiles under it
    assert shown["headline"] == f"Overconfident by {100 * evaluation.facts.bias:.1f} points"
    assert shown["headline"].split()[:2] == evaluation.verdict.headline.split()[:2]
    assert f"{100 * evaluation.facts.bias:+.1f}" in shown["tiles"][2]["values"]
    assert evaluation.verdict.sentence in page.summary["page"]["lead"]


def test_classes_and_slices_are_the_library(page: Any) -> None:
    y, p = forecast()
    for row in page.summary["classes"]:
        k = row["index"]
        assert row["error"] == pytest.approx(calibrant.metric("ece", y, p, view=ClassK(k)), abs=1e-14)
        assert row["gap"] == pytest.approx(p[:, k].mean() - (y == k).mean(), abs=1e-12)
    assert [row["error"] for row in page.summary["classes"]] == sorted(
        (row["error"] for row in page.summary["classes"]), reverse=True
    )
    for row in page.summary["slices"]:
        part = np.arange(len(y)) % 2 == int(row["name"])
        assert row["ks"] == pytest.approx(calibrant.metric("ks", y[part], p[part]), abs=1e-14)
        assert row["n"] == part.sum()


def test_dots_of_the_diagram_lie_at_the_bins(page: Any) -> None:
    cells = page.summary["views"][0]
    w, ws, wt, _ = cells.rebin(15)
    kept = w > 0
    drawn = np.array(re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', figures.reliability(cells)), dtype=float)
    np.testing.assert_allclose(drawn[:, 0], 52 + 320 * ws[kept] / w[kept], atol=0.006)
    np.testing.assert_allclose(drawn[:, 1], 10 + 320 * (1 - wt[kept] / w[kept]), atol=0.006)


def test_ribbon_is_the_binomial_of_small_bins() -> None:
    from scipy.stats import binom

    for n in (1, 3, 10, 37, 100):
        for mean in (0.03, 0.5, 0.8, 0.999):
            low, high = figures.consistency(float(n), n * mean, n * mean * (1 - mean))
            assert (low, high) == tuple(binom.ppf([0.025, 0.975], n, mean) / n)
    low, high = figures.consistency(10_000.0, 5000.0, 2500.0)
    np.testing.assert_allclose([low, high], binom.ppf([0.025, 0.975], 10_000, 0.5) / 10_000, atol=1e-4)
    assert figures.consistency(4.0, 4.0, 0.0) == (1.0, 1.0)


def test_largest_distance_of_the_cumulative_graph_is_ks() -> None:
    from calibrant.core.tables import value_table

    y, p = forecast()
    hit = p.argmax(axis=1) == y
    from calibrant.core.tables import Pairs

    curves = Curves.of(value_table(Pairs(p.max(axis=1), hit)))
    assert curves.ks == pytest.approx(calibrant.metric("ks", y, p), abs=1e-14)
    assert curves.peak in curves.thin()


def test_page_is_well_formed_and_self_contained(page: Any) -> None:
    html = page.html
    parser = Balance()
    parser.feed(html)
    assert parser.open == []
    without = html.replace("http://www.w3.org/2000/svg", "")
    assert "http" not in re.sub(r'http-equiv="', "", without)
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html


def test_content_of_users_is_escaped_everywhere() -> None:
    y, p = forecast(300, 3)
    names = (NASTY, "quote \" and ' it", "a|b")
    page = calibrant.report(
        np.array(names)[y],
        p,
        classes=names,
        title=NASTY,
        source=NASTY,
        command=NASTY,
        by={NASTY: np.array(names)[y]},
        compare_methods=False,
        n_resamples=20,
    )
    assert page.html.count("<script") == 2
    assert NASTY not in page.html
    assert NASTY not in page.markdown
    assert NASTY not in page._repr_html_()
    assert "a\\|b" in page.markdown


def test_sizes(tmp_path: Path) -> None:
    y, p = forecast(5000, 10)
    after = softmax(np.log(p) / 2)
    path = calibrant.report(y, p, after=after, n_resamples=20).save(tmp_path / "ten.html")
    assert path.stat().st_size < 320_000
    y, p = forecast(4000, 1000)
    path = calibrant.report(y, p, n_resamples=20, classes=None).save(tmp_path / "thousand.html")
    assert path.stat().st_size < 500_000
    html = path.read_text(encoding="utf-8")
    assert "The 8 classes farthest outside" in html
    assert html.count('class="fdots"') == 3


def test_repair_is_named_and_compared() -> None:
    y, p = forecast()
    page = calibrant.report(y, p, after=softmax(np.log(p) / 2), n_resamples=20)
    comparison = calibrant.compare(y, p, softmax(np.log(p) / 2))
    assert page.summary["comparison"]["verdict"] == comparison.verdict
    assert page.summary["comparison"]["json"]["metrics"]["brier"]["change"] == comparison["brier"].change


def test_methods_are_the_auto_calibrators(page: Any) -> None:
    repair = page.summary["repair"]
    assert {row["method"] for row in repair["methods"]} >= {"identity", "temperature"}
    assert repair["sentence"].startswith(("Recommended: ", "No change: "))
    assert any(row["chosen"] for row in repair["methods"])
    rows = page.summary["page"]["methods"]["rows"]
    assert len(rows) == min(14, sum(r["low"] is not None and r["method"] != "identity" for r in repair["methods"]))


def test_tiny_binary_pairs_and_weights_make_a_page() -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(size=30)
    y = rng.uniform(size=30) < p
    assert "Cannot tell" in calibrant.report(y, p).summary["verdict"]
    assert calibrant.report(y, p, sample_weight=rng.uniform(size=30)).html
    assert calibrant.report(y, np.maximum(p, 1 - p), pairs=True).html
    assert calibrant.report([1], [0.5], n_resamples=10).html
    assert calibrant.report([0, 0], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], n_resamples=10).html


def test_slices_of_two_classes_have_true_names() -> None:
    rng = np.random.default_rng(1)
    p = rng.beta(1, 4, 3000)
    y, site = rng.random(3000) < 0.7 * p, np.arange(3000) % 2
    page = calibrant.report(y, p, by={"site": site}, compare_methods=False, n_resamples=1000)
    for row in page.to_dict()["slices"]:
        part = site == int(row["name"])
        assert row["accuracy"] == pytest.approx(((p[part] > 0.5) == y[part]).mean())
        assert row["confidence"] == pytest.approx(np.maximum(p[part], 1 - p[part]).mean())
        assert row["observed"] == pytest.approx(y[part].mean())
        assert row["predicted"] == pytest.approx(p[part].mean())
        assert row["gap"] == pytest.approx(p[part].mean() - y[part].mean())
        shown = f"| site = {row['name']} | 1,500 | {100 * y[part].mean():.1f} | {100 * p[part].mean():.1f} |"
        assert shown in page.markdown
        assert row["corrected"] < 0.05
    assert "| slice | rows | happens, % | predicted, % | predicted minus happens, points |" in page.markdown
    assert "accuracy, %" not in page.markdown
    assert "| &lt; 0.0" in page.markdown.partition("| slice |")[2]  # escaped like every cell
    error = calibrant.metric("ece", y, p, view="class-1")
    assert f"Of the ECE of {100 * error:.2f}%" in page.summary["size"]["text"]


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_notes_of_the_evaluation_reach_every_form(task: str) -> None:
    rng = np.random.default_rng(1)
    p, w = rng.uniform(size=200), np.repeat([1.5, 2.5], 100)
    y = (rng.random(200) < p).astype(int)
    groups = np.arange(200) // 40  # five clusters: too few
    if task == "regression":
        page = calibrant.report(rng.normal(size=200), Normal(0 * p, 0 * p + 1), groups=groups, n_resamples=20)
    else:
        page = calibrant.report(y, p, sample_weight=w, groups=groups, compare_methods=False, n_resamples=20)
    (note,) = (note for note in page.to_dict()["notes"] if "clusters" in note)
    assert f"Note: {note}." in page.markdown
    assert f"<dt>Note</dt><dd>{note}.</dd>" in page.html.replace("\xa0", " ")


def test_odd_slices() -> None:
    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 2, 600), rng.uniform(size=600)
    by = {"id": np.arange(600) % 300, "gap": np.array([None, "a"], dtype=object)[y]}
    rows = calibrant.report(y, p, by=by, compare_methods=False, n_resamples=5).summary["slices"]
    assert [row["name"] for row in rows if row["column"] == "gap"] == ["a", "None"]
    assert sum(row["column"] == "id" for row in rows) == 200
    with pytest.raises(ValueError, match="one value per row"):
        calibrant.report(y, p, by={"id": [1, 2]}, compare_methods=False, n_resamples=5)


def test_pairs_before_and_after() -> None:
    rng = np.random.default_rng(1)
    score = rng.uniform(0.5, 1, 400)
    page = calibrant.report(rng.uniform(size=400) < score**2, score, pairs=True, after=score**2, n_resamples=10)
    assert page.summary["views_after"][0].error(15) < page.summary["views"][0].error(15)


def test_regression_numbers_are_the_library() -> None:
    from calibrant import regression

    rng = np.random.default_rng(0)
    variance = rng.uniform(0.5, 2, 800)
    y = rng.normal(size=800) * np.sqrt(variance)
    page = report_evidence(check_rows(y, np.zeros(800), variance, caller="report"), n_resamples=50, rng=1)
    evaluation = regression.evaluate(y, np.zeros(800), variance, n_resamples=50, rng=1)
    assert page.summary["evaluation"] == evaluation.to_dict()
    assert page.summary["verdict"] == evaluation.verdict
    pit = regression.compute_pit(y, np.zeros(800), variance)
    assert tuple(page.summary["pit_table"]["share"]) == pit.share
    drawn = re.findall(r'class="bar before"[^>]* height="([\d.]+)"', page.summary["pit"][0])
    top = 1.08 * max(*pit.share, pit.expected + 3 * pit.expected_std)
    np.testing.assert_allclose([float(h) for h in drawn], 288 * np.array(pit.share) / top, atol=0.006)
    assert page.summary["variance"][0].count('class="dot') == 15
    inside = next(row for row in page.summary["page"]["decisions"]["rows"] if row["meant"] == "90%")
    assert inside["cells"]["before"]["inside"] == f"{100 * evaluation.facts.inside:.1f}%"
    assert json.dumps(page.to_dict())
    assert page.text.splitlines()[1] == evaluation.headline
    assert evaluation.verdict in page.markdown


def test_regression_before_and_after(tmp_path: Path) -> None:
    from calibrant.calibrators import TemperatureScaling
    from calibrant.calibrators.regression import StdScaling

    rng = np.random.default_rng(4)
    std = rng.uniform(0.5, 3, 3000)
    y = 1.5 * std * rng.normal(size=3000)
    columns = pl.DataFrame({"mean": np.zeros(3000), "std": std, "y": y, "site": np.arange(3000) % 2})
    columns[1000:].write_csv(tmp_path / "new.csv")
    columns[:1000].write_csv(tmp_path / "old.csv")
    fitted = StdScaling().fit(np.zeros(1000), std[:1000] ** 2, y[:1000])
    settings = {"mean": "mean", "std": "std", "label": "y", "n_resamples": 100}
    page = calibrant.report(tmp_path / "new.csv", calibrator=fitted, by="site", **settings)
    shown, summary = page.summary["page"], page.summary
    assert shown["headline"] == "Intervals too narrow, now repaired"
    assert "After the repair they contain " in shown["lead"]
    assert [box["kind"] for box in shown["states"]] == ["before", "after"]
    assert [len(tile["values"]) for tile in shown["tiles"]] == [2, 1, 2, 1]
    assert all(set(row["cells"]) == {"before", "after"} for row in shown["decisions"]["rows"])
    assert "after repair" in page.html
    change = calibrant.compare(tmp_path / "new.csv", calibrator=fitted, mean="mean", std="std", label="y")
    assert summary["comparison"]["verdict"] == change.verdict
    assert summary["after"]["judgment"]["status"] in ("calibrated within tolerance", "no gap found")
    assert change.verdict in page.markdown.replace("\\", "")
    assert summary["notes"] == []
    assert "| site=0 | 1,000 | " in page.markdown
    own = calibrant.report(tmp_path / "old.csv", calibrator=fitted, **settings)
    assert "Judged on its own rows" in own.html
    with pytest.raises(InputError, match="map means and variances"):
        calibrant.report(
            tmp_path / "new.csv", calibrator=TemperatureScaling().fit([[0.6, 0.4]] * 9, [0, 1, 0] * 3), **settings
        )


def test_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0, 1) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert nice_ticks(-0.013, 0.04) == [-0.0, 0.02, 0.04] or all(-0.013 <= t <= 0.04 for t in nice_ticks(-0.013, 0.04))
    assert nice_ticks(2.0, 2.0) == [2.0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    y, p = forecast(400, 3)
    path = tmp_path / "preds.npz"
    np.savez(path, probs=p, labels=y, day=np.arange(400) % 2)
    return path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments))


def test_every_format_of_the_command(file: Path, tmp_path: Path) -> None:
    base = ["report", str(file), "--no-compare", "--resamples", "20", "--by", "day"]
    target = tmp_path / "out.html"
    result = run(*base, "-o", str(target))
    assert result.exit_code == 0, result.output
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.glob(".*")) == []
    marked = run(*base, "--format", "md")
    assert marked.stdout.startswith("# Calibration of preds.npz")
    assert "| ece |" in marked.stdout
    plain = run(*base, "--format", "text")
    assert plain.stdout.startswith("Calibration of preds.npz")
    assert "Verdict:" in plain.stdout
    assert "|" not in plain.stdout.splitlines()[2]
    short, long = run(*base, "--json"), run(*base, "--format", "json")
    assert short.stdout == long.stdout
    content = json.loads(short.stdout)
    assert content["schema"] == 1
    assert content["evaluation"]["n"] == 400
    assert [row["name"] for row in content["slices"]] == ["0", "1"]
    assert "<svg" not in short.stdout


def test_commands_name_the_file_and_hold_rows_out(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page, fit = calibrant.report(file, n_resamples=100), "calibrant fit preds.npz --holdout 0.3 -o cal.json"
    assert page.summary["next"] == str(calibrant.evaluate(file.name, n_resamples=100)).splitlines()[-1]
    assert page.summary["next"].endswith(fit)
    shown = page.summary["page"]
    assert fit in shown["todo"]["line"]
    assert shown["commands"] == fit
    assert f"<code>{fit}</code>" in re.sub(r"</?span[^>]*>", "", page.html)
    assert "FILE" not in page.html
    assert str(tmp_path) not in page.html
    calibrant.fit(file, method="temperature").save(tmp_path / "t.json")
    own = calibrant.report(file, calibrator=tmp_path / "t.json", n_resamples=100)
    assert own.summary["page"]["commands"] == "calibrant apply t.json preds.npz -o preds.calibrated.npz"
    assert f"{fit} fits on one part" in re.sub(r"<[^>]*>", "", own.html)
    assert str(tmp_path) not in own.html


def test_command_writes_the_regression_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "forecast.npz"
    np.savez(path, mean=np.zeros(300), variance=np.ones(300), y=rng.normal(size=300))
    result = run("report", str(path), "-o", str(tmp_path / "r.html"))
    assert result.exit_code == 0, result.output
    assert "PIT histogram" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_real_network_reads_as_in_the_design() -> None:
    data = load_data("cifar10_resnet110")
    page = calibrant.report(data["labels_test"], data["logits_test"], space="logit", n_resamples=100)
    assert page.summary["verdict"].startswith(
        "Not calibrated: overconfident by 4.8 points. The model claims to be right 98.3% of the time but is right 93.6%"
    )
    assert page.summary["views"][0].error(15) == pytest.approx(0.047503, abs=1e-6)
    assert len(page.html) < 300_000


def test_results_show_themselves_in_a_notebook() -> None:
    y, p = forecast(300, 3)
    names = (NASTY, "b", "c")
    evaluation = calibrant.evaluate(np.array(names)[y], p, classes=names, n_resamples=20, rng=0)
    comparison = calibrant.compare(y, p, softmax(np.log(p) / 2))
    page = calibrant.report(y, p, compare_methods=False, n_resamples=20)
    for shown, verdict in (
        (evaluation, evaluation.verdict),
        (comparison, comparison.verdict),
        (page, page.summary["verdict"]),
    ):
        html = shown._repr_html_()
        parser = Balance()
        parser.feed(html)
        assert parser.open == []
        assert NASTY not in html
        assert verdict.split(" (")[0].split(":")[0] in html
    assert "brier" in comparison._repr_html_()
    assert "report.save" in page._repr_html_()


def test_the_result_of_every_verb_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    y, p = forecast(300, 3)
    np.savez(tmp_path / "preds.npz", probs=p, labels=y)
    fitted = calibrant.fit(y, p, method="temperature")
    summary = calibrant.Summary(n_classes=3).update(y, p)
    evaluation = calibrant.evaluate(y, p, n_resamples=20, rng=0)
    shown = [
        evaluation,
        evaluation.verdict,
        evaluation.verdict.gap,
        evaluation["ece"],
        calibrant.check(y, p, max_values={"ece": 0.5}, n_resamples=20),
        fitted,
        calibrant.apply(fitted.calibrator, tmp_path / "preds.npz", tmp_path / "out.npz"),
        summary,
        calibrant.explain("ece"),
        calibrant.monitor(tmp_path / "store", summary, name="2026-01-01"),
    ]
    for one in shown:
        html = one._repr_html_()
        parser = Balance()
        parser.feed(html)
        assert parser.open == [], type(one).__name__
        assert "max-width:1080px" in html, type(one).__name__  # the look of the report


def test_the_change_by_a_calibrator_follows_the_seed() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array([rng.choice(3, p=row) for row in p])
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    first, second = (calibrant.report(y, sharp, after=p, n_resamples=20).to_dict()["comparison"] for _ in range(2))
    assert first == second
