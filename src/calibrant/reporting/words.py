"""The words of a page: what is judged, what it is called, and the one sentence for every case of the design page.

Everything is taken from `Verdict` and facts; no sentence is read to learn what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.core.text import count, first_upper, percent, points, pvalue_phrase
from calibrant.inference.verdict import ALPHA, Verdict, event_name, first_lower, rates

__all__ = ["GLYPHS", "ErrorBars", "Language", "joined", "language_of", "repair_word", "share"]

#: A sign beside the words of a state; never alone.
GLYPHS = {
    "miscalibrated": "✕",
    "small gap": "◐",
    "calibrated within tolerance": "✓",
    "no gap found": "○",
    "cannot tell": "?",
    "right on average": "◐",
}
_STATES = {
    "miscalibrated": "Not calibrated",
    "small gap": "Small gap",
    "no gap found": "No gap found",
    "cannot tell": "Cannot tell",
    "right on average": "Right on average",
}
#: The command that fits on some of the rows and judges on the others.
PROVE = "calibrant fit FILE --holdout 0.3 -o cal.json"
_STEPS = {
    "repair": "Repair it",
    "use": "Use it",
    "add rows": "Use it with care",
    "collect rows": "Collect more rows",
}


@dataclass(frozen=True)
class Language:
    """How the page speaks of what is judged: the confidence of a prediction, or the risk of an event."""

    #: Name of the event; None where the top label is judged.
    event: str | None = None
    #: Decimals of a difference in points: two where the event is rare or the rows tell such small gaps apart.
    decimals: int = 1

    @property
    def risk(self) -> bool:
        """Whether the probability of one event is judged."""
        return self.event is not None

    @property
    def eyebrow(self) -> str:
        """The topic of the diagram."""
        return "Prediction against outcome" if self.risk else "Claim against truth"

    @property
    def x_axis(self) -> str:
        """What the model says."""
        return f"Predicted probability of {self.event}" if self.risk else "How sure the model says it is"

    @property
    def y_axis(self) -> str:
        """What happened."""
        return "How often it happens" if self.risk else "How often it is right"

    @property
    def above(self) -> tuple[str, str]:
        """The corner above the diagonal."""
        if self.risk:
            return "Understated", "happens more often than predicted"
        return "Too cautious", "right more often than claimed"

    @property
    def below(self) -> tuple[str, str]:
        """The corner below the diagonal."""
        if self.risk:
            return "Overstated", "happens less often than predicted"
        return "Too sure", "right less often than claimed"

    @property
    def claims(self) -> str:
        """The things that lie in the groups of the diagram."""
        return "risks" if self.risk else "claims"

    @property
    def diagonal(self) -> str:
        """What holds on the diagonal."""
        return "prediction = outcome" if self.risk else "claim = truth"

    def side(self, gap: float) -> str:
        """Return the direction of a gap of a class or group in words."""
        return (self.below if gap > 0 else self.above)[0]

    def points(self, value: float) -> str:
        """Return the size of a difference in points."""
        return _decimals(value, self.decimals)

    def signed(self, value: float) -> str:
        """Return a difference in points with its sign."""
        text = _decimals(value, self.decimals)
        return text if float(text) == 0 else f"{'+' if value > 0 else '−'}{text}"

    def amount(self, value: float) -> str:
        """Return a gap as a phrase: ``Claims 4.8 points too much on average``."""
        verb = "Predicts" if self.risk else "Claims"
        if float(self.points(value)) == 0:
            return f"{'Prediction and outcome' if self.risk else 'Claim and truth'} agree on average"
        return f"{verb} {self.points(value)} points too {'much' if value > 0 else 'little'} on average"

    def dot(self, name: str, group: Any) -> str:
        """Return what one dot of the diagram shows."""
        return (
            f"{name}: {count(round(group.n, 1))} predictions {'are predicted' if self.risk else 'claim'} "
            f"{percent(group.score, 1)} on average; it {'happens' if self.risk else 'is right'} "
            f"{percent(group.rate, 1)} of the time (95% interval {percent(group.least, 1)} to {percent(group.most, 1)})"
        )

    def callout(self, who: str, group: Any, *, narrow: bool) -> list[str]:
        """Return the two lines beside the dot that stands out most."""
        return [
            f"{who}{count(round(group.n))}{'' if narrow and who else ' predictions'}",
            self.claim(group.score, group.rate),
        ]

    def size(self, facts: Any) -> float:
        """Return the gap the page speaks of."""
        return float(facts.bias)

    def now(self, how: str, facts: Any, *, still: bool) -> str:
        """Return what holds after a repair."""
        if self.risk:
            return f"{how} it predicts {rates(facts.predicted, facts.observed)[0]}{' still' if still else ''}."
        return f"{how} it {'still claims' if still else 'claims'} {percent(facts.predicted, 1)}."

    def claim(self, score: float, rate: float) -> str:
        """Return claim and truth of one group: ``claim 98%, right 67%``."""
        said, seen = (share(value) for value in (score, rate))
        return f"predicted {said}, happens {seen}" if self.risk else f"claim {said}, right {seen}"


def _decimals(value: float, digits: int) -> str:
    """Return a size in points with fixed decimals, so that a gap and its interval can be compared.

    Examples
    --------
    >>> _decimals(0.2151, 1), _decimals(-0.0004, 1), _decimals(0.0004, 2)
    ('21.5', '0.0', '0.04')
    """
    return f"{100 * abs(value):.{digits}f}"


class ErrorBars(Language):
    """How the page speaks of intervals that are meant to contain a fraction of the outcomes."""

    eyebrow = "Promise against outcome"
    x_axis = "Outcomes meant to lie inside"
    y_axis = "Outcomes that lie inside"
    above = ("Too wide", "more inside than meant")
    below = ("Too narrow", "fewer inside than meant")
    claims = "intervals"
    diagonal = "meant = inside"

    def amount(self, value: float) -> str:
        """Return a gap as a phrase."""
        if float(self.points(value)) == 0:
            return "Intervals contain as many outcomes as meant"
        return f"Intervals contain {self.points(value)} points too {'few' if value > 0 else 'many'}"

    def dot(self, name: str, group: Any) -> str:
        """Return what one dot of the diagram shows."""
        return (
            f"{name}: intervals meant to contain {percent(group.score, 0)} contain {percent(group.rate, 1)} "
            f"(95% interval {percent(group.least, 1)} to {percent(group.most, 1)})"
        )

    def callout(self, who: str, group: Any, *, narrow: bool) -> list[str]:  # noqa: ARG002 -- short enough for a phone
        """Return the two lines beside the dot that stands out most."""
        return [f"{who}meant {share(group.score)}", f"inside {share(group.rate)}"]

    def size(self, facts: Any) -> float:
        """Return the gap the page speaks of."""
        return float(facts.meant - facts.inside)

    def now(self, how: str, facts: Any, *, still: bool) -> str:
        """Return what holds after a repair."""
        return f"{how} they {'still contain' if still else 'contain'} {near(facts.inside)}."


def language_of(facts: Any) -> Language:
    """Return the language for facts on class probabilities; an event that is a bare number is a class."""
    return Language(None if facts.event is None else event_name(facts.event), facts.decimals)


def near(value: float) -> str:
    """Return a percentage with one decimal, two near 100%, that says 100% only of all.

    Examples
    --------
    >>> near(0.9342), near(0.9997), near(0.99999), near(1.0)
    ('93.4%', '99.97%', '>99.99%', '100.0%')
    """
    if 0.9995 <= value < 1:
        return ">99.99%" if value >= 0.99995 else percent(value, 2)
    return percent(value, 1)


def share(value: float) -> str:
    """Return a fraction as a percentage for a picture: more decimals near the ends.

    Examples
    --------
    >>> share(0.673), share(0.9963), share(0.0312), share(0.99999)
    ('67%', '99.6%', '3.1%', '>99.9%')
    """
    if value > 0.999 and value < 1:
        return ">99.9%"
    digits = 0 if 0.1 <= value <= 0.985 or value in (0, 1) else 1
    return percent(value, digits)


def tile(label: str, values: list[str], unit: str, foot: str, *, plain: bool = False) -> dict[str, Any]:
    """Return one of the numbers under the verdict; `plain` ones are not drawn in the color of a state."""
    return {"label": label, "values": values, "unit": unit, "foot": foot, "plain": plain}


def smallest_gap(size: str, n: float) -> dict[str, Any]:
    """Return the number that says what these rows can show."""
    foot = f"A real gap of this size would be found in 4 of 5 test sets of {count(n)} rows."
    return tile("Smallest gap these rows can detect", [size], "points", foot, plain=True)


def joined(words: list[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def state_word(verdict: Verdict, *, after: bool = False) -> str:
    """Return the two or three words of a state."""
    if verdict.status == "calibrated within tolerance":
        return f"Calibrated within {100 * verdict.tolerance:g} points"
    if after and verdict.status == "small gap":
        return "Small gap left"
    return _STATES[verdict.status]


def state_line(verdict: Verdict, language: Language, level: float, *, short: bool = False) -> str:
    """Return the line of a state: size of the gap, its interval, and what chance would do."""
    gap, p = verdict.gap, verdict.pvalue
    if gap is None or p is None:
        return f"{verdict.sentence}"
    name = "" if short else f"{100 * level:g}% interval "
    write, ends = language.signed, [gap.low, gap.high]
    if (gap.low > 0) == (gap.high > 0):
        write, ends = language.points, sorted(map(abs, ends))
    size = f"{language.amount(gap.value)} ({name}{write(ends[0])} to {write(ends[1])})."
    alone = pvalue_phrase(p)
    said = f"{alone} in one test of all kinds of gap"
    if verdict.status == "right on average":
        part = "classes" if "class" in verdict.headline else "groups"
        inside = "Inside, the gaps are" if p < ALPHA else f"Gaps of single {part} are"
        return f"{size} {inside} larger than chance allows{f': {said}' if p < ALPHA else ''}."
    if verdict.status == "small gap":
        if gap.low <= 0 <= gap.high:
            return f"{size} That much is within chance, but a test of several kinds of gap finds a small one: {alone}."
        return f"{size} Small, but real: {said}."
    if verdict.found:
        return f"{size} Chance alone does not explain it: {said}."
    if verdict.status == "cannot tell" and verdict.detectable is not None:
        return f"{size} These rows could show only a gap above {points(verdict.detectable)} points."
    return f"{size} That much is within chance: {said}."


def repair_word(before: Any, after: Any) -> str:
    """Return what a repair did, judged by the largest added-up gap.

    One of ``repaired``, ``mostly repaired``, ``partly repaired``, ``changed nothing`` and ``made it worse``; ``not
    needed`` where no gap was found before and none after.
    """
    found = after.verdict.found
    if not before.verdict.found:
        return "made it worse" if found else "not needed"
    if not found:
        return "repaired"
    size = _off(before)
    removed = 1 - _off(after) / size if size > 0 else 0.0
    for limit, word in ((0.5, "mostly repaired"), (0.1, "partly repaired"), (-0.1, "changed nothing")):
        if removed >= limit:
            return word
    return "made it worse"


def _off(evaluation: Any) -> float:
    """Return the largest added-up gap; of means and variances, of where truths fall in their forecasts."""
    found = [result.value for result in evaluation.results if result.name == "pit-ks"]
    return float(found[0] if found else evaluation.facts.ks)


def fault(before: Any, language: Language) -> tuple[str, str]:
    """Return what is wrong, in one to three words that begin a headline, and shorter."""
    direction = before.verdict.direction
    if language.claims == "intervals" and " too " in before.verdict.headline:
        text = str(before.verdict.headline).replace("Error bars", "Intervals")
        return text, text
    if language.risk and direction in ("over", "under"):
        ends = sorted((before.facts.predicted, before.facts.observed))
        twofold = ends[0] > 0 and 1.8 <= ends[1] / ends[0] < 2.6
        text = f"Risk {'overstated' if direction == 'over' else 'understated'}"
        return f"{text}{' twofold' if twofold else ''}", text
    text = {"over": "Overconfident", "under": "Too cautious"}.get(direction or "", "Wrong inside")
    return text, text


def headline(before: Any, after: Any, language: Language) -> str:
    """Return at most five words: what is wrong, and what the repair did."""
    verdict: Verdict = before.verdict
    if after is None:
        return verdict.headline
    word = repair_word(before, after)
    if word == "not needed":
        return f"{verdict.headline}" if verdict.status != "no gap found" else "No gap found, none needed"
    if word == "made it worse":
        return "The repair made it worse"
    start, shorter = fault(before, language)
    end = "; repair changed nothing" if word == "changed nothing" else f", now {word}"
    if language.claims == "intervals":  # three words of their own leave room for two
        end = ", not repaired" if word == "changed nothing" else f", {'now ' * (' ' not in word)}{word}"
    return f"{start if len(f'{start}{end}'.split()) <= 5 else shorter}{end}"


def lead(before: Any, after: Any, language: Language, name: str, changed: int | None) -> str:
    """Return one or two plain sentences under the headline."""
    text = str(before.verdict.sentence)
    if after is None:
        return text
    facts, word = after.facts, repair_word(before, after)
    text += f" {language.now(f'After {first_lower(name)}', facts, still=word == 'changed nothing')}"
    if changed == 0 and not language.risk:
        text += " No prediction changes, only how sure it says it is."
    elif changed is not None and not language.risk:
        text += f" {count(changed)} of {count(facts.n)} predictions change."
    if word == "made it worse":
        sizes = [language.size(one.facts) for one in (before, after)]
        text += (
            f" The gap grew from {language.points(sizes[0])} to {language.points(sizes[1])} points."
            if abs(sizes[1]) > abs(sizes[0])
            else f" The largest added-up gap grew from {points(_off(before))} to {points(_off(after))} points."
        )
    return text


def in_sample_page(page: dict[str, Any], sentence: str) -> dict[str, Any]:
    """Return the page of rows that the repair was fitted on: it praises nothing and says what would prove it.

    Examples
    --------
    >>> page = {"states": [{"kind": "before"}], "headline": "Overconfident, now repaired", "prove": PROVE}
    >>> in_sample_page(page, "In-sample: fitted on these rows.")["headline"]
    'Judged on its own rows'
    """
    states = [dict(box) for box in page["states"]]
    states[-1] |= {"glyph": "?", "words": "In-sample", "line": sentence}
    todo = {
        "words": "Judge it on new rows",
        "line": f"{page['prove']} fits on one part and proves on the other.",
    }
    return page | {"headline": "Judged on its own rows", "lead": sentence, "states": states, "todo": todo}


def what_to_do(before: Any, after: Any, best: str | None, watch: str | None) -> tuple[str, str]:
    """Return the one recommendation of the page: words, and the line under them.

    `best` names the method that gained most, `watch` the classes or groups to keep an eye on.
    """
    if after is None:
        step = _STEPS[before.verdict.next_step]
        advice = str(before.next_step)
        for start in (f"{first_lower(step)}; ", f"{first_lower(step)}, or ", f"{first_lower(step)} "):
            advice = advice.removeprefix(start)  # the words above the line have said it
        if advice.startswith("collect about"):
            advice = f"{advice.removeprefix('collect ')} would show a gap of {100 * before.verdict.tolerance:g} points"
        return step, f"{first_upper(advice)}."
    word = repair_word(before, after)
    if word == "made it worse":
        return "Use the version as delivered", "This repair does not help on these rows."
    if word == "not needed":
        return _STEPS[before.verdict.next_step], "Nothing has to be repaired; the repaired version is no worse."
    if word == "changed nothing":
        tried = f": {best} gained most where methods were compared" if best else ""
        return "Try another repair", f"Fit another method{tried}."
    if watch:
        return "Use the repaired version", watch
    if after.verdict.found:
        left = state_word(after.verdict, after=True).lower()
        return "Use the repaired version", f"Better, but not perfect: {left}. The sections below show where."
    command = "check" if before.task == "regression" else "monitor"
    return "Use the repaired version", f"Keep checking it on new rows: calibrant {command}."
