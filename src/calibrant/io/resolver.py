"""The one resolver: from names and types of arrays, table columns or frame columns to their roles."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant._typing import Space
from calibrant.core.inputs import check_words
from calibrant.errors import FileError, input_error
from calibrant.io import names as known
from calibrant.io.forms import Forms
from calibrant.io.labels import two_labels
from calibrant.io.layout import Columns, Field, Layout, listed, say, table_fields
from calibrant.io.lookup import NUMBERS, Values, refused
from calibrant.io.scale import tolerance_of

__all__ = ["NO_MEANS", "find_columns", "refuse_wide", "resolve"]

#: Above this many wide columns expressions outgrow the engines; a list column goes by batches.
MOST_COLUMNS = 64
#: The rule that forecasts of means break on an engine.
NO_MEANS = "hold class probabilities: cells know no means and variances"
#: Columns in class order, what they hold, names of the classes.
Scores = tuple[tuple[str, ...], Space, tuple[Any, ...] | None]


def find_columns(
    schema: Mapping[str, Any],
    layout: Layout,
    by: Sequence[str] = (),
    *,
    regression: bool = False,
    values: Values | None = None,
) -> Columns:
    """Return the roles of the columns of a frame, by its Narwhals schema.

    Engines take at most 64 wide columns; means and variances only where the caller says `regression`. `values` returns
    the distinct values of a column, where the two labels beside one score need a look (see `calibrant.io.labels`).

    Examples
    --------
    >>> import narwhals as nw
    >>> found = find_columns({"p_cat": nw.Float64(), "p_dog": nw.Float64(), "label": nw.String()}, Layout())
    >>> found.kind, found.scores, found.label
    ('wide', ('p_cat', 'p_dog'), 'label')
    """
    if layout.part is not None:
        raise refused("part", "be left out for tables", repr(layout.part), "filter the rows instead")
    fields = table_fields(schema)
    found = resolve(fields, layout, by, source="the frame", values=values)
    if layout.percent:
        raise refused("percent", "be left out on an engine", "True", "divide by 100, or read one file in memory")
    if found.kind in ("top-k", "quantiles"):
        what = "top-k scores" if found.kind == "top-k" else "quantiles"
        raise input_error("frame", "evaluate", "hold class probabilities on an engine", what, "read one file in memory")
    if found.kind == "regression" and not regression:
        raise input_error(
            "frame",
            "evaluate",
            NO_MEANS,
            f"{found.scores[0]} and {found.variance}",
            "read one file in memory, or name the probabilities with {proba}",
        )
    refuse_wide(found)
    if found.predicted is not None:
        raise input_error(
            "frame", "evaluate", "say in a column correct whether the top label was right", found.predicted, "add it"
        )
    if values is not None and found.label:
        found = two_labels(found, fields[found.label], values, layout.positive)
    declared = layout.declared or (lambda names: tolerance_of([schema[name] for name in names]))
    found = replace(found, tolerance=declared(found.scores))
    say(found, told=layout.weight is not None)
    return found


def refuse_wide(found: Columns) -> None:
    """Refuse more columns than an engine can name in one query."""
    if found.kind == "wide" and len(found.scores) > MOST_COLUMNS:
        rule, hint = (
            f"be at most {MOST_COLUMNS} wide columns on an engine",
            "store them as one list column probs (or logits)",
        )
        raise input_error("proba", "evaluate", rule, f"{len(found.scores)}", hint)


def resolve(
    fields: Mapping[str, Field],
    layout: Layout,
    by: Sequence[str] = (),
    *,
    source: str,
    things: str = "columns",
    values: Values | None = None,
) -> Columns:
    """Return the role of every column or array.

    Parameters
    ----------
    fields : mapping of str to Field
        Names with types, from `array_fields` or `table_fields`.
    layout : Layout
        What the caller said; the rest is found by name.
    by : sequence of str
        Columns that make slices; they must be there.
    source, things : str
        What errors call the data and its parts: a path and "columns", or "arrays".
    values : callable, optional
        Looks at the values of a column, where names alone do not say which columns are the classes.

    Examples
    --------
    >>> fields = {"target": Field("other"), "prob_cat": Field("number"), "prob_dog": Field("number")}
    >>> found = resolve(fields, Layout(), source="a.csv")
    >>> found.kind, found.label, found.classes
    ('wide', 'target', ('cat', 'dog'))
    >>> resolve(fields | {"y": Field("other")}, Layout(), source="a.csv")
    Traceback (most recent call last):
        ...
    calibrant.errors.FileError: a.csv has several columns for the truth: y, target. Hint: name one with label=.
    """
    return _Resolver(fields, layout, source, things, values).columns(tuple(check_words(by, "by", "find_columns")))


class _Resolver(Forms):
    """One look at the names; every question is asked once."""

    def columns(self, by: tuple[str, ...]) -> Columns:
        layout = self.layout
        if layout.proba is not None and not self.patterns:
            raise refused("proba", "name columns or a pattern", repr(layout.proba), "leave it out, or name them")
        for name in by:
            self.there(name, "the slices", "by")
        weight = None
        if (layout.weight or "").lower() != "none" or layout.weight in self.fields:
            weight = self.pick(known.WEIGHT, layout.weight, "the weights", "weight")
        more: dict[str, Any] = {"weight": weight, "by": by}
        if self.patterns and (layout.mean or layout.variance or layout.std):
            raise refused("proba", "be left out next to mean and variance", repr(layout.proba), "name one of them")
        found = None
        if layout.confidence or layout.correct:
            if self.patterns or layout.mean or layout.variance or layout.std:
                name = "confidence" if layout.confidence else "correct"
                raise refused(name, "be left out next to other scores", repr(getattr(layout, name)), "name one")
            found = self.pairs(more)
        if found is None and not self.patterns:
            asked = layout.mean or layout.variance or layout.std
            found = self.regression(standard=not asked, more=more)
            if asked and found is None:
                raise self.missing("mean with variance", "name them with {mean} and {variance} (or {std})")
        if found is None:
            found = self.classes(0, more) or self.pairs(more)
        if found is None and not self.patterns:
            found = self.regression(standard=False, more=more) or self.top_k(more) or self.classes(1, more)
            found = found or self.called_like_labels(more) or self.quantiles(more)
            found = found or self.same_stem(more) or self.last(more)
        if found is None:
            ends = self.interval_ends()
            if ends:
                raise FileError(
                    f"{self.source} has the interval {', '.join(ends)}, whose level its names do not say",
                    hint="rename them to lower_90 and upper_90, or to the quantiles q0.05 and q0.95",
                )
            label = layout.label or self.first(known.OUTCOME)
            if self.first(known.MEAN) is not None or self.is_real(label):
                what = "variance (or std) beside its mean" if self.first(known.MEAN) else "mean with variance (or std)"
                raise self.missing(what, "name them with {mean} and {variance} or {std}")
            wanted = "columns p_* or logit_*, a list column probs, score, or name them with {proba=prob_*}"
            raise self.missing("probabilities", self.margins_hint() or self.scores_hint() or wanted)
        self.check_two(found)
        if layout.space is not None and found.kind in ("pairs", "regression"):
            what = "top-label pairs" if found.kind == "pairs" else "means and variances"
            raise refused("space", f"be left out for {what}", repr(layout.space), "leave it out")
        return found

    def scores_hint(self) -> str | None:
        """Return how to name the columns that may hold the scores; None where none or too many do."""
        numbers = [n for n, f in self.fields.items() if f.kind == "number" and self.values]
        near = [name for name in numbers if self.differs(name)]
        if self.values is None:  # the names alone: whatever numbers there are beside the truth
            near = [n for n, f in self.fields.items() if f.kind == "number" and n != self.first(known.TRUTH)]
            hint = f"if {listed(near)} hold them, name them with {{proba={','.join(near)}}}"
            return hint if 0 < len(near) <= 12 else None
        lists = [name for name, field in self.fields.items() if field.kind == "list"]
        if self.things == "arrays" and len(lists) == 1 and len(self.fields) == 2:
            (other,) = set(self.fields) - set(lists)
            return f"if {lists[0]} holds probabilities and {other} the truth: {{proba={lists[0]}}} {{label={other}}}"
        if near and len(near) <= 6:
            if len(near) > 1 and self.sums_to_one(near) is False:
                return f"numbers between 0 and 1 are in {listed(near)}: one at a time, {{proba={near[0]}}}"
            return f"numbers between 0 and 1 are in {listed(near)}: name them with {{proba={','.join(near)}}}"
        return None

    def margins_hint(self) -> str | None:
        """Return how to name the one column that may hold log-odds."""
        numbers = [n for n, f in self.fields.items() if f.kind == "number" and self.values]
        label = self.first(known.TRUTH)
        margins = [name for name in numbers if name != label]
        margins = [n for n in margins if any(self.spelled(last) == n for last in known.LAST)] or margins
        if len(margins) == 1 and not self.differs(margins[0]) and label is not None and len(self.labels(label)) == 2:
            return f"if {margins[0]} holds log-odds or margins: {{proba={margins[0]}}} with {{space=logit}}"
        return None

    def check_two(self, found: Columns) -> None:
        """Refuse what is said of two classes or of percentages where there are none."""
        layout = self.layout
        two = found.kind in ("binary", "list") or (found.kind == "wide" and len(found.scores) == 2)
        if layout.positive is not None and not two:
            what = f"{len(found.scores)} classes" if found.kind == "wide" else _WORDS.get(found.kind, found.kind)
            raise refused("positive", f"be left out for {what}", repr(layout.positive), "leave it out")
        if layout.percent and (found.space == "logit" or found.kind in ("regression", "quantiles")):
            what = _WORDS.get(found.kind, "logits")
            raise refused("percent", f"be left out for {what}", "True", "leave it out")

    # -- forms ------------------------------------------------------------------------------------

    def regression(self, *, standard: bool, more: dict[str, Any]) -> Columns | None:
        layout = self.layout
        if layout.variance and layout.std:
            raise refused("std", "be left out next to variance", repr(layout.std), "name one of them")
        only = (lambda names: known.Names(names.standard)) if standard else (lambda names: names)
        mean = self.pick(only(known.MEAN), layout.mean, "the means", "mean")
        if mean is None and not standard:
            mean = self.pick(known.MEAN_BESIDE, None, "the means", "mean", strict=False)
        variance = None if layout.std else self.pick(only(known.VARIANCE), layout.variance, "the variances", "variance")
        std = None
        if variance is None:
            std = self.pick(only(known.DEVIATION), layout.std, "the standard deviations", "std")
        if mean is None or (variance or std) is None:
            return None
        if standard and variance is None and self.scores(0) is not None:
            return None  # class probabilities with columns that happen to be called mean and std
        label = self.truth(known.OUTCOME, taken=(mean, variance or std, more["weight"]))
        return Columns("regression", (mean,), label, variance=variance or std, std=variance is None, **more)

    def classes(self, row: int, more: dict[str, Any]) -> Columns | None:
        found = self.scores(row)
        if found is None:
            return None
        names, space, classes = found
        label = self.truth(known.TRUTH, taken=(*names, more["weight"]), numbers=names)
        return self.with_labels(names, space, classes, label, more)

    def pairs(self, more: dict[str, Any]) -> Columns | None:
        if self.patterns:
            return None
        label = self.there(self.layout.correct, "what was right", "correct") if self.layout.correct else ""
        confidence = self.pick(known.CONFIDENCE, self.layout.confidence, "the confidence", "confidence")
        if confidence is None:
            if self.layout.correct:
                raise self.missing("confidence beside the column correct", "name it with {confidence}")
            return None
        if self.layout.correct:
            return Columns("pairs", (confidence,), label, **more)
        predicted = self.first(known.PREDICTED)
        if self.layout.label and self.first(known.CORRECT) is None and predicted is None:
            return Columns("pairs", (confidence,), self.truth(known.CORRECT, taken=()), **more)
        if self.first(known.CORRECT) is None and predicted is not None:
            label = self.truth(known.TRUTH, taken=(confidence, predicted, more["weight"]))
            return Columns("pairs", (confidence,), label, predicted=predicted if label else None, **more)
        label = self.truth(known.CORRECT, taken=(confidence, more["weight"]))
        return Columns("pairs", (confidence,), label, **more)

    # -- roles ------------------------------------------------------------------------------------

    def scores(self, row: int) -> Scores | None:
        """Return the columns of the scores in class order, what they hold, and the names of the classes."""
        if self.patterns:
            return self.named_scores()
        found: list[tuple[tuple[str, ...], Space | None, tuple[Any, ...] | None]] = []
        winners = {self.spelled(name) for names in known.PREDICTED for name in names}  # .pred_class beside .pred_cat
        for pattern, space in known.WIDE[row]:
            hits = [name for name in self.matching(pattern) if not row or self.fields[name].kind in NUMBERS]
            hits = [name for name in hits if name not in winners]
            if len(hits) > 1:
                names, classes = _class_order(hits, pattern)
                found.append((names, space, classes))
        found += self.numbered() if row else []
        found += [((self.spelled(name),), space, None) for name, space in known.SINGLE[row] if self.usable(name, row)]
        if not found:
            return None
        if row and len(found) > 1:
            summing = [one for one in found if len(one[0]) == 1 or self.sums_to_one(one[0]) is not False]
            found = _distinct(summing or found)
        if row and len(found) > 1:
            candidates = " or ".join(listed(names) for names, *_ in found)
            raise FileError(
                f"{self.source} has several {self.things} for the scores: {candidates}",
                hint=f"name them with {{proba}}, for example {{proba={','.join(found[0][0])}}}",
            )
        names, space, classes = found[0]
        return names, self.space_of(names[0], space), classes

    def named_scores(self) -> Scores:
        names: list[str] = []
        classes: tuple[Any, ...] | None = None
        patterns = self.patterns
        for pattern in patterns:
            hits = [pattern] if pattern in self.fields else self.matching(pattern)
            if not hits:
                raise self.missing(f"{self.things} {pattern!r} for the scores", "name them with {proba=prob_*}")
            if "*" in pattern and pattern not in self.fields:
                hits = [name for name in hits if self.fields[name].kind in NUMBERS and name != self.layout.label]
            ordered, classes = _class_order(hits, pattern)
            names += [name for name in ordered if name not in names]
        if len(patterns) > 1:
            shapes = (pattern for pattern, _ in (*known.WIDE.standard, *known.WIDE.synonyms))
            stem = next((p for p in shapes if all(fnmatch.fnmatchcase(name, p) for name in names)), None)
            classes = tuple(names) if stem is None else _class_order(names, stem, ordered=True)[1]
        elif len(names) == 1:
            classes = None
        logit = all("logit" in name.lower() for name in names)
        return tuple(names), self.layout.space or ("logit" if logit else "proba"), classes

    def space_of(self, name: str, space: Space | None) -> Space:
        told = self.layout.space or space
        matrix = self.rows(name) if self.rows is not None and self.fields[name].kind == "list" else None
        if told is None and matrix is not None and matrix.dtype.kind == "f" and matrix.shape[-1] > 1:
            told = "logit" if (matrix < 0).any() else None  # no probability is negative
        if told is None:
            raise FileError(
                f"{self.source} has {name}, which may be logits or probabilities",
                hint="say {space=logit} or {space=proba}",
            )
        return told

    # -- names ------------------------------------------------------------------------------------


_WORDS = {
    "pairs": "top-label pairs",
    "regression": "means and variances",
    "top-k": "top-k scores",
    "quantiles": "quantiles",
}


def _distinct(found: list[Any]) -> list[Any]:
    """Return candidates without those that another one holds whole: ``pred_prob_*`` is not ``*_prob`` as well."""
    kept: list[Any] = []
    for one in sorted(found, key=lambda each: -len(each[0])):
        if not any(set(one[0]) <= set(other[0]) and len(other[0]) > 1 for other in kept):
            kept.append(one)
    return kept


def _class_order(
    hits: Sequence[str], pattern: str, *, ordered: bool = False
) -> tuple[tuple[str, ...], tuple[Any, ...] | None]:
    """Return the columns of a pattern in class order and the names of the classes (None: 0, 1, 2 and so on)."""
    head, star, tail = pattern.partition("*")
    if not star or "*" in tail or len(hits) < 2:
        return tuple(hits), tuple(hits) if len(hits) > 1 else None
    suffixes = [name[len(head) : len(name) - len(tail)] for name in hits]
    if not all(suffix.isdigit() for suffix in suffixes):
        return tuple(hits), tuple(suffixes)
    order = range(len(hits)) if ordered else sorted(range(len(hits)), key=lambda i: int(suffixes[i]))
    numbers = tuple(int(suffixes[i]) for i in order)
    return tuple(hits[i] for i in order), None if numbers == tuple(range(len(numbers))) else numbers
