"""Every failure that simulations found in version 0.1, measured again: what it was, what it is, what it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.inputs import check_names, check_words
from calibrant_papers.studies.checkpoints import Document, read_json
from calibrant_papers.studies.frame import (
    Cell,
    Row,
    Study,
    StudyResult,
    Tell,
    cell_file,
    cell_key,
    claim_folder,
    run_cells,
)
from calibrant_papers.studies.writing import made
from calibrant_papers.validation import generators as data
from calibrant_papers.validation import probes

__all__ = ["FINDINGS", "PARTS", "Finding", "findings"]


@dataclass(frozen=True)
class Finding:
    """One line of the table: what is drawn, what version 0.1 showed, and what must hold.

    The rule reads "≤ 6%", "≥ 93%" (rates in percent) or "≥ 0.0045", "6 ± 2.5" (other numbers).
    """

    part: str
    setting: str
    seen: str
    rule: str
    sample: Callable[[np.random.Generator], probes.Shown]
    #: Share of the repeats that this line gets, because a sample takes long; 0: nothing is drawn, one says everything.
    share: float = 1.0

    @property
    def percent(self) -> bool:
        """Whether the numbers are rates."""
        return self.rule.endswith("%")

    def kept(self, value: float | None, shown: float, squares: float) -> bool:
        """Return whether a mean over samples obeys the rule, two standard errors allowed; a dash always does."""
        if value is None:
            return True
        first, *rest = self.rule.rstrip("%").split()
        if first in ("≤", "≥"):
            bound, slack = float(rest[0]), 0.0
        else:
            bound, slack = float(first), float(rest[1])
        scale = 100.0 if self.percent else 1.0
        share = min(max(bound / 100, 0.0), 1.0)
        variance = share * (1 - share) if self.percent else max(squares / shown - value * value, 0.0)
        noise = 2 * scale * float(np.sqrt(variance / shown)) + 1e-9
        above = scale * value - bound
        if first == "≤":
            return bool(above <= noise)
        return bool(above >= -noise if first == "≥" else abs(above) <= slack + noise)


_RARE, _LOW = "1% positives, calibrated", "1% positives, predicted 4 times too low"
_SHARP, _WRONG = "confidences above 0.999, calibrated", "confidences above 0.999, 5 times the errors"
_FEW = ("ece", "ks", "mmce", "ece@class-1", "ks@class-1", "mmce@class-1", "brier", "nll", "accuracy")
_TCE = ("tce", "tce@class-1")
_STEEP = partial(data.sloped, slope=0.8, spread=2.0)
_MOVED = partial(data.sloped, slope=1.0, shift=-0.2)
_CALM = partial(data.sloped, slope=1.0)


def _clusters(sample: Callable[..., probes.Shown], clusters: int, unequal: bool = False) -> Callable[..., probes.Shown]:
    return partial(sample, clusters, unequal)


FINDINGS: tuple[Finding, ...] = (
    Finding("families", "classwise_tests, K = 100, n = 300", "18%", "≤ 6%", partial(probes.classwise, 300), 0.5),
    Finding("families", "classwise_tests, K = 100, n = 1,000", "38%", "≤ 6%", partial(probes.classwise, 1000), 0.25),
    Finding("families", "sliced_tests, 50 slices of 40 sharp rows", "27%", "≤ 6%", probes.sliced),
    Finding("tail", "one error in 100 rows of 0.99995 (exact: 0.0050)", "1.1e-44", "≥ 0.0045", probes.tail, 0),
    Finding("intervals", f"{_RARE}, n = 100", "55–57%", "≥ 93%", partial(probes.intervals, _RARE, 100, _FEW)),
    Finding("intervals", f"{_RARE}, n = 300", "85%", "≥ 93%", partial(probes.intervals, _RARE, 300, _TCE)),
    Finding("intervals", f"{_RARE}, n = 1,000", "73%", "≥ 93%", partial(probes.intervals, _RARE, 1000, _TCE)),
    Finding("intervals", f"{_RARE}, n = 5,000", "87%", "≥ 93%", partial(probes.intervals, _RARE, 5000, _TCE)),
    Finding("intervals", f"{_SHARP}, n = 100", "87%", "≥ 93%", partial(probes.intervals, _SHARP, 100, _FEW)),
    Finding("clusters", "50 × 20, calibrated: verdict", "82%", "≤ 7%", _clusters(probes.cluster_verdict, 50)),
    Finding(
        "clusters", "50 × 20 unequal, calibrated: verdict", "", "≤ 7%", _clusters(probes.cluster_verdict, 50, True)
    ),
    Finding("clusters", "20 × 50, calibrated: verdict", "", "≤ 7%", _clusters(probes.cluster_verdict, 20)),
    Finding("clusters", "20 × 50 unequal: intervals", "", "≥ 92%", _clusters(probes.cluster_intervals, 20, True)),
    Finding("clusters", "50 × 20 unequal: intervals", "", "≥ 92%", _clusters(probes.cluster_intervals, 50, True)),
    Finding("compare", "groups 20 × 50", "83–90%", "≥ 92%", _clusters(probes.cluster_compare, 20)),
    Finding("compare", "groups 10 × 50", "83–90%", "≥ 92%", _clusters(probes.cluster_compare, 10)),
    Finding("compare", "groups 20 × 50, unequal", "83–90%", "≥ 92%", _clusters(probes.cluster_compare, 20, True)),
    Finding("compare", "about 5 discordant pairs", "86%", "≥ 93%", partial(probes.discordant, "coverage")),
    Finding("compare", "about 5 discordant pairs, one distribution", "9%", "≤ 0%", partial(probes.discordant, "agree")),
    Finding(
        "verdict", "truth ± 10 points about ½, n = 2,000", "17%", "≥ 95%", partial(probes.found, data.symmetric, 2000)
    ),
    Finding("verdict", "calibrated, two classes, n = 300", "8.3%", "≤ 6%", partial(probes.found, _CALM, 300)),
    Finding("verdict", "calibrated, two classes, n = 2,000", "8.3%", "≤ 6%", partial(probes.found, _CALM, 2000)),
    Finding("verdict", "predicts 3.5%, happens 1.6%", "“underconfident”", "≤ 0%", probes.rare_words, 0.25),
    Finding("verdict", "true gap 6 points, n = 300", "17", "6 ± 2.5", partial(probes.claim, "gap")),
    Finding("verdict", "true gap 6 points, n = 300: interval", "", "≥ 93%", partial(probes.claim, "interval")),
    Finding("verdict", "the gap seen 4 times in 5, n = 500", "", "≥ 80%", partial(probes.detectable, 500)),
    Finding("verdict", "the gap seen 4 times in 5, n = 3,000", "", "≥ 80%", partial(probes.detectable, 3000)),
    Finding("power", "slope 0.8, n = 1,000", "92% (Spiegelhalter)", "≥ 87%", partial(probes.power, _STEEP)),
    Finding("power", "S-shape ± 5 points, n = 1,000", "58% (H–L)", "≥ 53%", partial(probes.power, data.s_shaped)),
    Finding("power", "shift −0.2, n = 1,000", "65% (KS of class 1)", "≥ 60%", partial(probes.power, _MOVED)),
    Finding("gate", "ks ≤ 0.02, true error 0, n = 300", "passes 28%", "≤ 5%", probes.gate),
    Finding("weights", "1 or 20, sampled at 1/20", "42%", "≥ 93%", probes.weighted),
    Finding("tests", "1% positives, n = 300", "17%", "≤ 6%", partial(probes.classic, data.rare, "hosmer-lemeshow")),
    Finding("tests", "very sharp, n = 300", "12%", "≤ 6%", partial(probes.classic, data.sharp, "spiegelhalter")),
    Finding("tests", "1% positives, n = 300, z", "", "≤ 6%", partial(probes.classic, data.rare, "spiegelhalter")),
    Finding("risk", "6.5 of 300 events due: intervals", "", "≥ 93%", partial(probes.risk, "covered", -4.2, 300)),
    Finding("risk", "6.5 of 300 events due: tests", "", "≤ 6%", partial(probes.risk, "rejected", -4.2, 300)),
    Finding("risk", "30 of 3,000 events due: intervals", "", "≥ 93%", partial(probes.risk, "covered", -5.0, 3000)),
    Finding("risk", "30 of 3,000 events due: tests", "", "≤ 6%", partial(probes.risk, "rejected", -5.0, 3000)),
    Finding("risk", "rare in 50 unequal clusters: intervals", "", "≥ 92%", partial(probes.clustered_risk, "covered")),
    Finding("risk", "rare in 50 unequal clusters: tests", "", "≤ 7%", partial(probes.clustered_risk, "rejected")),
    *(
        Finding("engines", f"{engine}: {model}, n = 300: {what}", "", rule, partial(probes.engine_cells, *case))
        for case in product(("polars", "duckdb"), (_RARE, _SHARP), ("verdict", "intervals"))
        for engine, model, what in (case,)
        for rule in ("≤ 6%" if what == "verdict" else "≥ 93%",)
    ),
    Finding("equivalence", "at the border, sharp, n = 100", "10%", "≤ 5%", partial(probes.border, _WRONG)),
    Finding(
        "equivalence", "at the border, rare and underpredicted, n = 100", "17%", "≤ 5%", partial(probes.border, _LOW)
    ),
    *(
        Finding("automatic", setting, seen, rule, partial(probes.automatic, gap, n, what), 0.25)
        for setting, seen, rule, gap, n, what in (
            ("two classes, n = 200, small gain", "0.0050", "0 ± 0.001", True, 200, "claim"),
            ("five sharp classes, n = 500, no gain", "", "0 ± 0.001", False, 500, "claim"),
            ("five sharp classes, n = 500, no gain: words", "", "≤ 5%", False, 500, "proven"),
        )
    ),
    Finding("regression", "log-normal variances, n = 200", "60–73%", "≥ 93%", partial(probes.regression, 200)),
    Finding(
        "monitor", "every row five times, bets per cluster", "100%", "≤ 5%", partial(probes.repeated_rows, "cluster")
    ),
    Finding("monitor", "every row five times, bets per day", "100%", "≤ 5%", partial(probes.repeated_rows, "day")),
    Finding("monitor", "break on day 100 against day 1, days later", "", "≤ 1", probes.late_break, 0.25),
)

#: Parts of the table.
PARTS: tuple[str, ...] = tuple(dict.fromkeys(line.part for line in FINDINGS))


def findings(
    *,
    only: Iterable[str] | None = None,
    repeats: int = 400,
    parts: int = 2,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Tell | None = None,
) -> StudyResult:
    """Measure every line of the table of failures of version 0.1 again.

    Parameters
    ----------
    only : iterable of str, optional
        Parts to measure; default all. Parts that `folder` holds already are shown too. A named part is measured again
        where other code of this package made what is kept.
    repeats : int, default 400
        Samples of each line.
    parts, seed, folder, jobs, progress
        As in `coverage`.

    Returns
    -------
    StudyResult
        Rows: part, setting, number, what 0.1 showed, samples, shown (percent of samples with a number instead of a
        dash), now, what must be, whether it is kept (within the bound, two standard errors allowed), and when and by
        which code it was measured.
    """
    chosen = list(PARTS if only is None else check_words(only, "only", "findings"))
    for name in chosen:
        check_names(name, PARTS, "only", "findings")
    cells: list[Cell] = [
        {
            "line": line.setting,
            "group": line.part,
            "part": part,
            "repeats": max(1, round(repeats * line.share) // parts),
        }
        for line in FINDINGS
        for part in range(parts if line.share else 1)
    ]
    study = Study("inference", _one_cell, tuple(cell for cell in cells if cell["group"] in chosen), {}, seed)
    _kept_cells(study, folder, None if only is None else made()["code"])
    done = dict(zip(map(cell_key, study.cells), run_cells(study, folder, jobs, progress), strict=True))
    done |= _kept_cells(replace(study, cells=tuple(cells)), folder)
    missing = {cell["group"] for cell in cells if cell_key(cell) not in done}
    shown = [done[cell_key(cell)] for cell in cells if cell["group"] not in missing]
    rows = _collect(shown)
    text = _sentence(rows, [part for part in PARTS if part in missing])
    times = {row["measured"] for row in rows}
    if len(times) == 1:  # said once, not in every row
        text += f" All were measured {times.pop()}."
        rows = [{name: value for name, value in row.items() if name != "measured"} for row in rows]
    return StudyResult("inference", tuple(rows), text)


def _kept_cells(study: Study, folder: str | Path | None, made_by: str | None = None) -> dict[str, Document]:
    """Return the finished cells of a folder by `cell_key`; those of other code than `made_by` are removed."""
    kept: dict[str, Document] = {}
    if folder is None:
        return kept
    place = claim_folder(Path(folder), study)
    for cell in study.cells:
        path = place / cell_file(cell)
        found = read_json(path) if path.exists() else {}
        if found and made_by not in (None, found.get("made", {}).get("code")):
            path.unlink()
        elif found:
            kept[cell_key(cell)] = found
    return kept


def _find(cell: Cell) -> Finding:
    return next(line for line in FINDINGS if (line.part, line.setting) == (cell["group"], cell["line"]))


def _one_cell(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:  # noqa: ARG001
    line = _find(cell)
    sums: dict[str, Floats] = {}
    for _ in range(cell["repeats"]):
        for name, value in line.sample(rng).items():
            row = [1.0, 0.0, 0.0, 0.0] if value is None else [1.0, 1.0, value, value * value]
            sums[name] = sums.get(name, np.zeros(4)) + np.array(row)
    return [
        {"group": line.part, "line": line.setting, "what": name, "sums": values.tolist()}
        for name, values in sums.items()
    ]


def _collect(found: list[Document]) -> list[Row]:
    sums: dict[tuple[str, str, str], Floats] = {}
    times: dict[tuple[str, str], str] = {}
    for answer in found:
        for row in answer["rows"]:
            key = (row["group"], row["line"], row["what"])
            sums[key] = sums.get(key, np.zeros(4)) + np.array(row["sums"])
            when = "{date}, {version}, code {code}".format(**answer["made"])
            times[key[:2]] = min(times.get(key[:2], when), when)
    rows: list[Row] = []
    for (group, setting, what), (samples, shown, total, squares) in sums.items():
        line = _find({"group": group, "line": setting})
        now = total / shown if shown else None
        aside = what.startswith("(")  # another number for comparison, not bound
        rows.append(
            {
                "part": group,
                "setting": setting,
                "number": what,
                "in 0.1": "" if aside else line.seen,
                "samples": int(samples),
                "shown": f"{100 * shown / samples:.0f}%",
                "now": "–" if now is None else f"{100 * now:.1f}%" if line.percent else f"{now:.3g}",
                "must be": "" if aside else line.rule,
                "kept": None if aside else line.kept(now, shown, squares),
                "measured": times[group, setting],
            }
        )
    return rows


def _sentence(rows: list[Row], missing: list[str]) -> str:
    judged = [row for row in rows if row["kept"] is not None]
    broken: dict[str, list[str]] = {}
    for row in judged:
        if not row["kept"]:
            broken.setdefault(f"{row['part']}, {row['setting']}", []).append(f"{row['number']} {row['now']}")
    kept = len(judged) - sum(map(len, broken.values()))
    text = f"{kept} of {len(judged)} numbers are within their bound (two standard errors allowed)."
    lines = "; ".join(f"{where} ({', '.join(what)})" for where, what in broken.items())
    text += f" Outside: {lines}." if broken else ""
    older = list(dict.fromkeys(row["part"] for row in rows if not row["measured"].endswith(made()["code"])))
    text += f" Measured with other code than that of this page ({made()['code']}): {', '.join(older)}." if older else ""
    return text + (f" Not measured yet: {', '.join(missing)}." if missing else "")
