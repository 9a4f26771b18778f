"""Claims of the UCE paper and of Nixon et al. about trained networks and tables: what shows, and what turns it red."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from calibrant_papers import list_targets, reproduce, store
from calibrant_papers.targets import nixon, trained_nixon, trained_uce, training_runs
from calibrant_papers.targets.result import MIN_SEEDS, VERDICTS
from calibrant_papers.training import networks
from helpers import ROOT, data_path

QUICK = ("nixon-fig-10", "nixon-table-2", "uce-fig-2", "uce-fig-9")
SLOW = (
    *("nixon-table-1", "nixon-fig-3", "nixon-fig-5", "nixon-fig-6", "nixon-fig-9"),
    *("uce-table-1", "uce-table-2", "uce-fig-7", "uce-fig-8"),
)
#: Claims whose margin is far above what another processor's rounding moves; all others are free to be red or green.
SURE = {
    "nixon-table-1": {"vector scaling has a lower SCE than temperature scaling"},
    "nixon-table-2": {"vector scaling has a lower SCE than temperature scaling"},
    "nixon-fig-3": {"TACE (50 ranges) is above ACE (100 ranges): tiny probabilities no longer fill the ranges"},
    "nixon-fig-5": {"at the end SCE of held-out rows is above that of training rows"},
    "nixon-fig-6": {f"at the end {m} of held-out rows is above that of training rows" for m in ("ECE", "SCE", "TACE")},
    "nixon-fig-9": {"the logit norm of a poor start is at least ten times larger"},
    "nixon-fig-10": {f"at the end {m} of held-out rows is above that of training rows" for m in ("ECE", "SCE", "TACE")},
    "uce-table-1": {
        "entropy + T has a lower ECE than no penalty at T = 1",
        "MMCE + T has a lower ECE than no penalty at T = 1",
        "UCE + T has a lower ECE than no penalty at T = 1",
        "MMCE moves the optimal temperature towards 1",
    },
    "uce-table-2": {"the network as trained is overconfident: a temperature lowers its ECE"},
    "uce-fig-2": {"the mean entropy rises at every step with the fraction of out-of-distribution rows"},
    "uce-fig-7": {"without a penalty the optimal temperature is above 1: overconfident"},
    "uce-fig-8": {"without a penalty the optimal temperature is above 1: overconfident"},
    "uce-fig-9": {"the error of kept rows falls with every step of the threshold on normalized entropy"},
}


def forget():
    for function in (
        training_runs.penalties_run,
        training_runs.forecasts,
        trained_nixon.trace,
        nixon._measured,
    ):
        function.cache_clear()


def result_of(name):
    return reproduce(name, data=data_path("cifar10_lenet5").parent, quick=True)


def green(name):
    return {finding.text for finding in result_of(name).findings if finding.holds}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_every_claim_is_judged_on_five_seeds_with_its_numbers(name):
    result = result_of(name)
    assert result.lines
    assert result.data
    assert result.size
    for finding in result.findings:
        assert finding.verdict in VERDICTS
        if finding.holds is not None:
            assert finding.seeds >= MIN_SEEDS
            assert finding.measured
            assert finding.novelty
            assert finding.reason
    assert SURE[name] <= green(name)


def no_penalty(name):
    def patch(monkeypatch):
        monkeypatch.setitem(networks.PENALTIES, name, None)

    return patch


def no_temperature(monkeypatch):
    """The optimal temperature is 1 for every model."""
    from calibrant_papers.training import cell

    class Fixed:
        temperature_ = 1.0

        def fit(self, held_out):
            return self

    monkeypatch.setattr(cell, "MonteCarloTemperature", Fixed)


def neither(monkeypatch):
    """No penalty and no temperature: the network as trained, under other names."""
    no_temperature(monkeypatch)
    for name in ("entropy", "mmce", "uce"):
        no_penalty(name)(monkeypatch)


def random_uncertainty(monkeypatch):
    draw = np.random.default_rng(0)
    monkeypatch.setattr(trained_uce, "uncertainty", lambda proba, by: draw.random(len(proba)))


def only_confidence(monkeypatch):
    true = trained_uce.uncertainty
    monkeypatch.setattr(trained_uce, "uncertainty", lambda proba, by: true(proba, "max p"))


def same_rows(monkeypatch):
    """Held-out rows are the training rows."""
    true = networks.tensors
    monkeypatch.setattr(networks, "tensors", lambda images, part: true(images, "train"))


def untrained(monkeypatch):
    """Steps are counted, nothing is learned."""

    def train(model, x, y, *, epochs, batch_size, after_step=None, **_):
        for step in range(1, epochs * -(-len(x) // batch_size) + 1):
            if after_step is not None:
                after_step(step)

    monkeypatch.setattr(networks, "train", train)


def good_start(monkeypatch):
    from calibrant_papers.training import traces

    true = traces.initialize
    monkeypatch.setattr(traces, "initialize", lambda model, kind: true(model, "glorot"))


def no_threshold(monkeypatch):
    true = trained_nixon.thresholded_adaptive_calibration_error
    monkeypatch.setattr(trained_nixon, "THRESHOLD", 0.0)
    monkeypatch.setattr(
        trained_nixon,
        "thresholded_adaptive_calibration_error",
        lambda y, p, n_bins=15, threshold=0.01: true(y, p, n_bins=n_bins, threshold=0.0),
    )


def one_member(monkeypatch):
    plan = training_runs._plan
    monkeypatch.setattr(training_runs, "_plan", lambda *args: replace(plan(*args), members=1))


def no_posterior(monkeypatch):
    """SWAG samples nothing: the plain network under its name."""
    from calibrant_papers.training import cell

    true = cell.predict
    monkeypatch.setattr(cell, "_averaged", lambda body, head, plan, c: head)
    monkeypatch.setattr(cell, "predict", lambda head, x, samples, rng: true(head, x, 1, rng=rng))


def tempered_as_trained(monkeypatch):
    """What is shown at T = 1 is no longer overconfident: it was tempered."""
    true = training_runs.Trained.value
    monkeypatch.setattr(
        training_runs.Trained, "value", lambda run, m, penalty, t, column: true(run, m, penalty, "optimal", column)
    )


def one_bin(monkeypatch):
    """Every bin shows the error of all rows (in 64ths, so that its means are exact)."""
    true = trained_nixon.look

    def look(*args):
        found = true(*args)
        return found | {"gaps": [round(64 * found["ECE"]) / 64] * trained_nixon.BINS}

    monkeypatch.setattr(trained_nixon, "look", look)


def penalized_matrix(monkeypatch):
    """Matrix scaling with its usual penalty."""
    monkeypatch.setattr(nixon, "MatrixScaling", lambda odir, space: nixon.make_method("ms-odir", space))


def method(**instead):
    def patch(monkeypatch):
        for name, new in instead.items():
            monkeypatch.setitem(nixon.METHODS, name, new)

    return patch


def one_metric(monkeypatch):
    monkeypatch.setattr(nixon, "MEASURES", dict.fromkeys(nixon.MEASURES, "ece"))


#: (target, what replaces the novelty, the novelty of the claims that must turn red).
MUTATIONS = [
    ("uce-fig-2", random_uncertainty, "uncertainty"),
    ("uce-fig-2", only_confidence, "normalized entropy"),
    ("uce-fig-9", random_uncertainty, "uncertainty"),
    ("nixon-table-2", method(vector="ts-nll"), "VS"),
    ("nixon-table-2", one_metric, "all classes"),
]
SLOW_MUTATIONS = [
    ("uce-table-1", no_penalty("uce"), "UCE penalty"),
    ("uce-table-1", no_penalty("mmce"), "MMCE penalty"),
    ("uce-table-1", no_penalty("entropy"), "entropy penalty"),
    ("uce-table-1", neither, "penalty and temperature"),
    ("uce-table-2", one_member, "ensemble"),
    ("uce-table-2", no_temperature, "temperature"),
    ("uce-table-2", no_posterior, "SWAG"),
    ("uce-table-2", tempered_as_trained, "overconfidence"),
    *((f"uce-fig-{i}", no_temperature, "temperature") for i in (7, 8)),
    *(
        (f"uce-fig-{i}", no_penalty(name), f"{title} penalty")
        for i in (7, 8)
        for name, title in (("uce", "UCE"), ("mmce", "MMCE"), ("entropy", "entropy"))
    ),
    ("nixon-table-1", method(vector="ts-nll"), "VS"),
    ("nixon-table-1", method(temperature="irova"), "TS by NLL"),
    ("nixon-table-1", one_metric, "all classes"),
    ("nixon-table-2", method(temperature="irova"), "TS by NLL"),
    ("nixon-table-2", penalized_matrix, "no penalty"),
    ("nixon-fig-10", same_rows, "held-out rows of training"),
    ("nixon-fig-3", untrained, "training"),
    ("nixon-fig-3", no_threshold, "threshold"),
    ("nixon-fig-5", same_rows, "held-out rows of training"),
    ("nixon-fig-6", same_rows, "held-out rows of training"),
    ("nixon-fig-9", untrained, "training"),
    ("nixon-fig-9", good_start, "initialization"),
    ("nixon-fig-9", one_bin, "bins"),
]


def test_every_novelty_of_a_finished_result_has_its_mutation():
    """A claim that nobody tries to turn red is found by its name, in both forms; matrix scaling of 100 classes is the same
    program as of ten.
    """
    known = {(name, novelty) for name, _, novelty in (*MUTATIONS, *SLOW_MUTATIONS)} | {("nixon-table-1", "no penalty")}
    kept = store.kept_all(ROOT / "papers", {name: list_targets()[name] for name in (*QUICK, *SLOW)})
    assert {outcome.name for outcome in kept} == {*QUICK, *SLOW}
    found = {(o.name, f.novelty) for o in kept for f in o.result.findings if f.holds is not None}
    assert found
    assert not found - known


@pytest.mark.parametrize(
    ("name", "patch", "novelty"),
    [*MUTATIONS, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW_MUTATIONS)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_claim_fails_without_its_novelty(monkeypatch, name, patch, novelty):
    claims = {finding.text for finding in result_of(name).findings if finding.novelty == novelty and finding.holds}
    named = {finding.novelty for finding in result_of(name).findings}
    assert novelty in named
    keep = patch in (random_uncertainty, only_confidence)  # these change nothing that is trained
    patch(monkeypatch)
    if not keep:
        forget()
    still = claims & green(name)
    monkeypatch.undo()
    if not keep:
        forget()
    assert not still
