"""The verdict: an object with a status, a direction, a size and the words for it, judged in one place.

Terminal, JSON, report, gate and notebook take everything from the `Verdict` that `judge` returns; nobody reads the
sentence to learn what it says. Rules and words follow the design page of the report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from calibrant.core.clusters import FEWEST
from calibrant.core.notebook import notebook_html
from calibrant.core.options import check_number
from calibrant.core.results import Interval, Record
from calibrant.core.text import count, percent, points, proportion, pvalue_phrase

__all__ = ["ALPHA", "ClassGap", "Facts", "Status", "Verdict", "judge", "rows_needed"]

#: Level of the evidence behind the words.
ALPHA = 0.05
#: Data that detect only gaps above this cannot clear a model.
TOO_COARSE = 0.05
#: How far a gap may go and still count as calibrated, unless given otherwise.
TOLERANCE = 0.02
#: Below this rate an event is rare and differences need two decimals.
RARE = 0.05
#: Below this width of the interval of the gap, one decimal would not tell its ends apart.
SHARP = 0.002
#: Rows behind "when it says A, it is right B".
CLAIM_ROWS = 30
#: What to do about a gap.
REPAIR = "fit the best repair on labeled rows kept out of training: calibrant fit FILE -o cal.json"

Status: TypeAlias = Literal[
    "miscalibrated", "small gap", "calibrated within tolerance", "no gap found", "cannot tell", "right on average"
]
Direction: TypeAlias = Literal["over", "under", "mixed"]
NextStep: TypeAlias = Literal["repair", "use", "add rows", "collect rows"]


class Verdict(str):
    """The text of a verdict with its fields.

    It is a string, so that it prints and serializes as one; the fields say what the text says.

    Attributes
    ----------
    status : str
        One of ``miscalibrated``, ``small gap``, ``calibrated within tolerance``, ``no gap found``, ``cannot tell``,
        ``right on average``.
    direction : {"over", "under", "mixed"} or None
        Which way the gap goes; None where none was found.
    gap : Interval or None
        Predicted minus observed, with its interval.
    detectable : float or None
        Smallest gap that this many rows detect 4 times in 5.
    tolerance : float
        How far a gap may go and still count as calibrated.
    pvalue : float or None
        p-value of the joint test behind the status.
    headline : str
        At most five words.
    sentence : str
        One or two plain sentences.
    next_step : {"repair", "use", "add rows", "collect rows"}
        What to do.
    advice : str
        The next step in words.

    Examples
    --------
    >>> verdict = Verdict("No gap found.", status="no gap found")
    >>> verdict.status, str(verdict)
    ('no gap found', 'No gap found.')
    """

    status: Status
    direction: Direction | None
    gap: Interval | None
    detectable: float | None
    tolerance: float
    pvalue: float | None
    headline: str
    sentence: str
    next_step: NextStep
    advice: str

    _FIELDS: ClassVar[dict[str, Any]] = {
        "status": "cannot tell",
        "direction": None,
        "gap": None,
        "detectable": None,
        "tolerance": TOLERANCE,
        "pvalue": None,
        "headline": "",
        "sentence": "",
        "next_step": "collect rows",
        "advice": "",
    }

    def __new__(cls, text: str = "", **fields: Any) -> Verdict:
        """Return the text with its fields; those left out keep their defaults."""
        self = super().__new__(cls, text)
        self.__dict__.update({name: fields.pop(name, default) for name, default in cls._FIELDS.items()})
        if fields:
            raise TypeError(f"a Verdict has no field {', '.join(fields)}")
        return self

    def _repr_html_(self) -> str:
        return notebook_html("", self, (), ())

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Verdict does not change; {name} stays {getattr(self, name, None)!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Verdict does not change; {name} stays")

    @property
    def text(self) -> str:
        """The verdict in words."""
        return str.__str__(self)

    @property
    def found(self) -> bool:
        """Whether a gap was found."""
        return self.status in ("miscalibrated", "small gap", "right on average")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values; the gap as value, low and high."""
        gap = None if self.gap is None else {"value": self.gap.value, "low": self.gap.low, "high": self.gap.high}
        return {name: gap if name == "gap" else getattr(self, name) for name in self._FIELDS}


@dataclass(frozen=True)
class ClassGap(Record):
    """A class whose mean probability misses its frequency."""

    name: Any
    gap: float
    pvalue: float


@dataclass(frozen=True)
class Facts(Record):
    """What the verdict on class probabilities rests on.

    Two classes are judged by the probability of the positive class (class 1), more than two and top-label pairs by
    the confidence of the top label: `observed`, `predicted`, `gap`, `ks` and what follows from it speak of that.
    """

    n: int
    n_classes: int
    accuracy: float
    confidence: float
    ks: float
    ks_null_mean: float | None = None
    ks_null_std: float | None = None
    pvalue: float | None = None
    #: Smallest gap that this many rows detect with probability 0.8 at level 0.05.
    resolvable: float | None = None
    #: Claim and truth where most scores lie.
    claim: tuple[float, float] | None = None
    class_gaps: tuple[ClassGap, ...] = ()
    #: How often the judged outcome happened, and how often it was predicted.
    observed: float = math.nan
    predicted: float = math.nan
    #: Predicted minus observed, with its interval.
    gap: Interval | None = None
    #: Name of the positive class where that is judged; None where the top label is.
    event: Any = None
    #: Rows behind `claim`, and the interval of its truth.
    claim_rows: float = 0.0
    claim_interval: Interval | None = None
    #: Clusters the rows belong to; None where rows are taken as independent.
    clusters: int | None = None
    #: Part of the error rate that the test of the judged view has; the gaps of classes have the rest.
    share: float = 1.0
    #: Resamplings that a test at 5% needs, where fewer were made; 0 where they are enough.
    needs_resamples: int = 0

    @property
    def bias(self) -> float:
        """Predicted minus observed."""
        return self.predicted - self.observed

    @property
    def decimals(self) -> int:
        """Decimals of a difference in points: two where the event is rare or the rows tell such small gaps apart."""
        rare = self.event is not None and min(self.observed, self.predicted) < RARE
        return 2 if rare or (self.gap is not None and self.gap.high - self.gap.low < SHARP) else 1

    @property
    def smallest(self) -> float | None:
        """The p-value of the whole test: of the judged view and of the classes, each corrected for the other."""
        return None if self.pvalue is None else min(self.pvalue, *(gap.pvalue for gap in self.class_gaps), 1.0)


def judge(facts: Any, tolerance: float = TOLERANCE) -> Verdict:
    """Return the verdict on facts: the one place where status and words are decided.

    Examples
    --------
    >>> gap = Interval(0.048, 0.043, 0.052, 0.95, "hall", 10_000)
    >>> facts = Facts(10_000, 10, 0.936, 0.983, 0.048, 0.0021, 0.0007, 0.0005, 0.006,
    ...               observed=0.936, predicted=0.983, gap=gap)
    >>> judge(facts).status, judge(facts).headline
    ('miscalibrated', 'Overconfident by 4.7 points')
    """
    check_number(tolerance, "tolerance", "judge", "be a number", "use 0.02")
    verdict: Verdict = facts.judge(tolerance) if hasattr(facts, "judge") else judge_classes(facts, tolerance)
    return verdict


def judge_classes(facts: Facts, tolerance: float) -> Verdict:
    """Judge class probabilities or top-label pairs."""
    if facts.event is not None and tolerance == TOLERANCE:
        tolerance = _rare(tolerance, min(facts.observed, 1 - facts.observed))
    status, direction = _status(facts, tolerance)
    words = _Words(facts, tolerance, status, direction)
    head, sentence = words.headline(), words.sentence()
    step, advice = words.next_step()
    opening = words.opening()
    return Verdict(
        f"{f'{opening}: {first_lower(head)}' if opening else head}. {sentence} {words.evidence()}",
        status=status,
        direction=direction,
        gap=facts.gap,
        detectable=facts.resolvable,
        tolerance=tolerance,
        pvalue=facts.smallest,
        headline=head,
        sentence=sentence,
        next_step=step,
        advice=advice,
    )


def _rare(tolerance: float, rate: float) -> float:
    """Return the tolerance for an event: a quarter of its rate where that is less, so that it means something.

    Examples
    --------
    >>> _rare(0.02, 0.3), _rare(0.02, 0.0162)  # two points are more than an event of 1.6% has
    (0.02, 0.004)
    """
    return min(tolerance, float(f"{rate / 4:.1g}"))


def _status(facts: Facts, tolerance: float) -> tuple[Status, Direction | None]:
    if facts.pvalue is None:
        return "cannot tell", None
    bias, gap = facts.bias, facts.gap
    inside = gap is not None and -tolerance <= gap.low and gap.high <= tolerance
    coarse = facts.resolvable is not None and facts.resolvable > TOO_COARSE
    if facts.pvalue < ALPHA:
        # errors that cancel: half of a symmetric error of size τ shows as an added-up gap of τ/2
        level = gap is not None and gap.low <= 0 <= gap.high
        if (abs(bias) < 0.5 * facts.ks or level) and (facts.ks > 0.5 * tolerance or not inside):
            return "right on average", "mixed"
        return "small gap" if inside else "miscalibrated", "over" if bias > 0 else "under"
    if facts.needs_resamples:
        return "cannot tell", None
    if facts.class_gaps:
        return "right on average", "mixed"
    if coarse:
        return "cannot tell", None
    if inside and facts.resolvable is not None and facts.resolvable <= tolerance:
        return "calibrated within tolerance", None
    return "no gap found", None


def resamples_needed(pvalues: float) -> int:
    """Return how many resamplings can reject at 5% where the smallest p-value is multiplied by `pvalues`.

    Examples
    --------
    >>> resamples_needed(1), 1 / 21 < 0.05 <= 1 / 20
    (20, True)
    """
    return math.floor(pvalues / ALPHA + 1e-9)


def no_answer(facts: Any) -> str:
    """Return the headline where nothing can be told."""
    if facts.pvalue is None:
        return "No test was made"
    return "Too few resamplings to tell" if facts.needs_resamples else "Too few rows to tell"


def too_few_draws(facts: Any) -> str:
    """Return why a test at 5% says nothing."""
    return f"A test at 5% needs at least {facts.needs_resamples} resamplings: with fewer it cannot find a gap"


def let_it_test(facts: Any) -> str:
    """Return what makes a test possible."""
    most = f"at least {facts.needs_resamples} resamplings" if facts.needs_resamples else "at least one resampling"
    return f"let it test: whole-number weights and {most}"


def rows_needed(n: int, detectable: float | None, tolerance: float) -> int | None:
    """Return about how many rows would detect a gap of the tolerance, to two digits.

    Examples
    --------
    >>> rows_needed(900, 0.031, 0.02)
    2200
    """
    if detectable is None or not tolerance > 0 or not detectable > tolerance:
        return None
    exact = n * (detectable / tolerance) ** 2
    unit = 10.0 ** (math.floor(math.log10(exact)) - 1)
    return int(math.ceil(exact / unit) * unit)


#: From which ratio of predicted to observed on which words say it.
_RATIOS = ((1.4, "slightly {}"), (1.8, "{} by half"), (2.6, "{} twofold"))


@dataclass(frozen=True)
class _Words:
    """The words for one set of facts."""

    facts: Facts
    tolerance: float
    status: Status
    direction: Direction | None

    def opening(self) -> str:
        """Return the word a text begins with where the headline alone does not name the status."""
        if self.status == "miscalibrated":
            return "Not calibrated"
        if self.status == "small gap":
            return "Small gap"
        return "Cannot tell" if self.status == "cannot tell" else ""

    def headline(self) -> str:
        facts = self.facts
        if self.status in ("miscalibrated", "small gap"):
            return self._risk() if facts.event is not None else self._confidence()
        if self.status == "right on average":
            gaps = len(facts.class_gaps)
            if facts.pvalue is not None and facts.pvalue < ALPHA:
                return "Right on average, wrong inside"
            return f"Right overall, {gaps} {'class' if gaps == 1 else 'classes'} off"
        if self.status == "calibrated within tolerance":
            return f"Calibrated within {100 * self.tolerance:g} points"
        if self.status == "no gap found":
            return "No gap found so far"
        return no_answer(facts)

    def _confidence(self) -> str:
        return f"{'Overconfident' if self.facts.bias > 0 else 'Too cautious'} by {self._size()} points"

    def _size(self) -> str:
        """Return the size of the gap with the decimals of its interval."""
        return f"{100 * abs(self.facts.bias):.{self.facts.decimals}f}"

    def _risk(self) -> str:
        facts = self.facts
        word = "overstated" if facts.bias > 0 else "understated"
        larger, smaller = max(facts.predicted, facts.observed), min(facts.predicted, facts.observed)
        ratio = larger / smaller if smaller > 0 else math.inf
        if ratio < 1.1:
            return f"Risk {word} by {self._size()} points"
        for limit, phrase in _RATIOS:
            if ratio < limit:
                return f"Risk {phrase.format(word)}"
        return f"Risk {word} {ratio:.2g} times" if math.isfinite(ratio) else f"Risk {word}"

    # -- sentences ----------------------------------------------------------------------------

    def sentence(self) -> str:
        """Return what was predicted and what happened, in plain words."""
        facts, claim = self.facts, self._claim()
        if self.status == "small gap":
            return f"{claim}. The gap is real but within {100 * self.tolerance:g} points."
        if self.status == "right on average":
            return self._mixed()
        if self.status == "calibrated within tolerance" and facts.gap is not None:
            return f"{claim}. The gap is between {' and '.join(signed_ends(facts.gap))} points."
        if self.status == "no gap found":
            hidden = points(facts.resolvable or 0)
            return (
                f"{claim}. That is within chance for {count(facts.n)} rows, but a gap up to {hidden} points could hide."
            )
        if facts.needs_resamples and self.status == "cannot tell":
            return f"{claim}. {too_few_draws(facts)}."
        if self.status == "cannot tell" and facts.pvalue is not None:
            rows, seen = f"With {count(facts.n)} row{'s' * (facts.n != 1)}", facts.resolvable or 0.0
            shows = f"only a gap above {points(seen)} points would show" if seen < 1 else "no gap would show"
            return f"{rows} {shows}. The {points(facts.bias)}-point gap seen here may be chance."
        if facts.pvalue is not None:
            rely = self.direction == "under" and facts.event is None
            return f"{claim}.{' You can rely on it more than it says.' if rely else ''}"
        few = "" if self._enough_clusters() else f" {facts.clusters} clusters are too few for a test."
        return f"{claim}.{few} Without a test there is no verdict."

    def _enough_clusters(self) -> bool:
        return self.facts.clusters is None or self.facts.clusters >= FEWEST

    def _claim(self) -> str:
        facts = self.facts
        if facts.event is not None:
            predicted, observed = rates(facts.predicted, facts.observed)
            return f"The score predicts {event_name(facts.event)} in {predicted} of cases; it happens in {observed}"
        if facts.bias < 0:
            only = "but claims only" if self.status == "miscalibrated" else "and claims"
            right, claimed = percent(facts.observed, 1), percent(facts.predicted, 1)
            return f"The model is right {right} of the time {only} {claimed}"
        but = "but" if self.status == "miscalibrated" else "and"
        return (
            f"The model claims to be right {percent(facts.predicted, 1)} of the time "
            f"{but} is right {percent(facts.observed, 1)} of the time"
        )

    def _mixed(self) -> str:
        facts = self.facts
        if facts.pvalue is not None and facts.pvalue < ALPHA:
            return f"{self._claim()}, but it is too sure in some places and too cautious in others."
        named = ", ".join(
            f"“{gap.name}” {'over' if gap.gap > 0 else 'under'}-predicted by {points(gap.gap)} points"
            for gap in facts.class_gaps[:2]
        )
        more = len(facts.class_gaps) - 2
        tail = f" and {more} more" if more > 0 else ""
        return f"Over all classes the gap is {signed(facts.bias)} points, but {named}{tail}."

    def evidence(self) -> str:
        """Return the numbers behind the sentence, and what a claim of the model is worth."""
        facts = self.facts
        if facts.pvalue is None:
            return f"KS {percent(facts.ks)}."
        if self.status == "right on average" and facts.pvalue >= ALPHA:
            return f"Corrected p {', '.join(f'{gap.pvalue:.2g}' for gap in facts.class_gaps[:2])}."
        null = f"a calibrated model would show {percent(facts.ks_null_mean)} ± {percent(facts.ks_null_std)}"
        text = f"KS {percent(facts.ks)}, {null} at n = {count(facts.n)}; joint test {pvalue_phrase(facts.smallest)}."
        if self.status in ("miscalibrated", "small gap") and facts.gap is not None:
            text = f"Gap {' to '.join(signed_ends(facts.gap))} points; {text}"
        if self.status == "miscalibrated" and facts.claim is not None and facts.claim_rows >= CLAIM_ROWS:
            said, true = (proportion(value) for value in facts.claim)
            text += f" When it says {said}, it {'is right' if facts.event is None else 'happens'} {true} of the time"
            ends = facts.claim_interval
            text += "." if ends is None else f" ({proportion(ends.low)} to {proportion(ends.high)})."
        return text

    def next_step(self) -> tuple[NextStep, str]:
        facts = self.facts
        if self.status == "miscalibrated":
            return "repair", REPAIR
        if self.status == "right on average":
            return "repair", f"do not use single probabilities yet; {REPAIR}"
        if self.status in ("small gap", "calibrated within tolerance"):
            return "use", "use it; keep watching it with calibrant check or calibrant monitor"
        if facts.pvalue is None and not self._enough_clusters():
            return "collect rows", f"collect rows of more clusters: at least {FEWEST}"
        if facts.pvalue is None or (facts.needs_resamples and self.status == "cannot tell"):
            return "add rows", let_it_test(facts)
        rows = rows_needed(facts.n, facts.resolvable, self.tolerance or TOLERANCE)
        if self.status == "no gap found":
            more = "" if rows is None else f", or add rows: about {count(rows)} would settle it"
            return "add rows", f"use it with care{more}"
        return "collect rows", f"collect about {count(rows or facts.n)} labeled rows"


def event_name(event: object) -> str:
    """Return an event as a sentence names it; a bare number is a class.

    Examples
    --------
    >>> event_name("fraud"), event_name(1)
    ('fraud', 'class 1')
    """
    bare = isinstance(event, bool | int | float) or str(event).lstrip("+-").isdigit()
    return f"class {event}" if bare else str(event)


def first_lower(text: str) -> str:
    """Return the text with its first letter lowered."""
    return text[:1].lower() + text[1:]


def signed(value: float) -> str:
    """Return a difference in points with its sign: ``+4.8`` or ``−0.2``.

    Examples
    --------
    >>> signed(0.048), signed(-0.002), signed(0.0)
    ('+4.8', '−0.2', '0')
    """
    if abs(value) <= 1e-12:
        return "0"
    return f"{'+' if value > 0 else '−'}{points(value)}"


def signed_ends(gap: Interval) -> tuple[str, str]:
    """Return both ends of a gap in points, with the same number of decimals, as many as tell them apart.

    Examples
    --------
    >>> signed_ends(Interval(0.1316, 0.1308, 0.1324, 0.95, "hall", 10**6))
    ('+13.08', '+13.24')
    >>> signed_ends(Interval(-0.006, -0.012, 0.0006, 0.95, "hall", 20_000))
    ('−1.2', '+0.1')
    """
    ends = (gap.low, gap.high)
    small = min(map(abs, ends)) < 0.00095 and max(map(abs, ends)) < 0.0095
    texts = [f"{100 * end:+.{2 if small or gap.high - gap.low < SHARP else 1}f}".replace("-", "−") for end in ends]
    low, high = (text if float(text[1:]) else text[1:] for text in texts)
    return low, high


def rates(*values: float) -> list[str]:
    """Return how often an event is predicted and happens: two decimals when any of them is rarer than 5%, else one.

    Examples
    --------
    >>> rates(0.061, 0.031), rates(0.42, 0.3)
    (['6.10%', '3.10%'], ['42.0%', '30.0%'])
    """
    return [percent(value, 2 if min(values) < RARE else 1) for value in values]
