"""Logs of language-model evaluations: lm-evaluation-harness, inspect, HELM, OpenAI evals, HLE's judged answers.

Each becomes class probabilities (log-likelihoods of equally many choices) or top-label pairs (a confidence and whether
the answer was right), with the columns that name question, epoch and subject for `by` and `groups`. Answers without a
confidence are counted and left out with a note: silence is not certainty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.core.text import count, percent
from calibrant.errors import FileError, input_error
from calibrant.io.bounds import open_members
from calibrant.io.confidence import Stated, on_one_scale, stated_confidence
from calibrant.io.layout import Columns, Layout, note, say
from calibrant.io.paths import plain_errors
from calibrant.io.predictions import Predictions

__all__ = ["find_log", "read_inspect_archive"]

#: Options that a log has no use for: its layout is known.
_UNUSED = ("proba", "label", "weight", "space", "part", "mean", "variance", "std", "positive", "confidence", "correct")
_CORRECT = {"C": True, "I": False, "N": False, "P": None}
#: Names under which harness samples hold whether a generated answer was right, in order.
_METRICS = ("exact_match", "acc", "em", "pass@1", "correct", "score")


def find_log(document: Any, layout: Layout, source: str) -> Predictions | None:
    """Return the predictions of a log whose form is known; None for any other JSON."""
    if isinstance(document, dict):
        if "eval" in document and isinstance(document.get("samples"), list):
            return _inspect(document["samples"], layout, source)
        if document and all(isinstance(v, dict) and "judge_response" in v for v in document.values()):
            return _hle(document, layout, source)
        return None
    if not isinstance(document, list) or not document or not isinstance(document[0], dict):
        return None
    if any("filtered_resps" in record for record in document[:3]):
        return _harness(document, layout, source)
    if "stats" in document[0] and "instance_id" in document[0]:
        return _helm(document, layout, source)
    if "spec" in document[0] or {"run_id", "type", "data"} <= document[0].keys():
        return _openai(document, layout, source)
    return None


def _refuse(layout: Layout, what: str) -> None:
    for name in _UNUSED:
        if getattr(layout, name) is not None:
            rule = f"be left out for {what}: their layout is known"
            raise input_error(name, "read", rule, repr(getattr(layout, name)), "leave it out")
    if layout.percent:
        rule = f"be left out for {what}: their scale is known"
        raise input_error("percent", "read", rule, "True", "leave it out")


def _pairs(
    rows: Sequence[tuple[float | None, bool | None]], columns: Mapping[str, Sequence[Any]], what: str, source: str
) -> Predictions:
    """Return top-label pairs; rows without a confidence or a judgment are counted and left out."""
    kept = [i for i, (confidence, right) in enumerate(rows) if confidence is not None and right is not None]
    if not kept:
        raise FileError(
            f"{source} states no confidence beside its {count(len(rows))} answers",
            hint="ask the model for a line such as 'Confidence: 85%', or log the choices' log-likelihoods",
        )
    silent = len(rows) - len(kept)
    if silent:
        note(f"{count(silent)} of {count(len(rows))} answers ({percent(silent / len(rows), 1)}) state no confidence or "
             "were not judged: left out")  # fmt: skip
    named = {name: np.asarray([values[i] for i in kept]) for name, values in columns.items()}
    say(Columns("pairs", (f"confidence of {what}",), "correct"), len(kept))
    confidence, right = (np.array([rows[i][place] for i in kept]) for place in (0, 1))
    return Predictions(
        "pairs", confidence.astype(np.float64), right.astype(bool), columns=named, source=("confidence",)
    )


def _columns(records: Sequence[Any], names: Iterable[str], get: Any) -> dict[str, list[Any]]:
    found = {}
    for name in names:
        values = [get(record, name) for record in records]
        if any(value is not None for value in values):
            found[name] = [str(value) if isinstance(value, dict | list) else value for value in values]
    return {name: values for name, values in found.items() if None not in values}


# -- lm-evaluation-harness ------------------------------------------------------------------------


def _harness(records: list[dict[str, Any]], layout: Layout, source: str) -> Predictions:
    """Samples of lm-evaluation-harness: log-likelihoods of the choices, or generated answers with a confidence."""
    _refuse(layout, "samples of lm-evaluation-harness")
    records = _one_filter(records)
    columns = _columns(records, ("doc_id", "task_name", "subject", "category"), _field)
    logits = [_choices(record) for record in records]
    if all(row is None for row in logits):
        said = on_one_scale([_said(record) for record in records], source)
        return _pairs(list(zip(said, map(_right, records), strict=True)), columns, "generated answers", source)
    bad = next((i for i, row in enumerate(logits) if row is None or len(row) < 2), None)
    truth = [_target(record, 0 if row is None else len(row)) for record, row in zip(records, logits, strict=True)]
    bad = bad if bad is not None else next((i for i, code in enumerate(truth) if code is None), None)
    if bad is not None:
        raise FileError(
            f"{source} is no multiple-choice sample at record {bad + 1}",
            hint="calibration needs one log-likelihood per choice and the index, letter or text of the target",
        )
    if len({len(row) for row in logits if row is not None}) == 1:
        say(Columns("list", ("filtered_resps",), "target", "logit"), len(truth))
        known = {name: np.asarray(values) for name, values in columns.items()}
        where = ("filtered_resps",)
        return Predictions("vectors", np.array(logits), np.array(truth), "logit", columns=known, source=where)
    sizes = sorted({len(row) for row in logits if row is not None})
    note(f"questions have {sizes[0]} to {sizes[-1]} choices: the probability of the best choice is judged (top label)")
    shares = [_softmax(np.asarray(row)) for row in logits]
    rows = [(float(p.max()), bool(int(p.argmax()) == code)) for p, code in zip(shares, truth, strict=True)]
    return _pairs(rows, columns, "the best choice", source)


def _one_filter(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the samples of one filter; each filter repeats every question."""
    filters = list(dict.fromkeys(record.get("filter") for record in records))
    if len(filters) < 2:
        return records
    chosen = "none" if "none" in filters else filters[0]
    note(f"samples of {len(filters)} filters ({', '.join(map(str, filters))}): {chosen} is taken, once per question")
    return [record for record in records if record.get("filter") == chosen]


def _choices(record: Mapping[str, Any]) -> list[float] | None:
    """Return one log-likelihood per choice; None for a generated answer."""
    found = record.get("filtered_resps") or []
    try:
        values = [float(choice[0]) for choice in found if isinstance(choice, list | tuple)]
    except (TypeError, ValueError, IndexError):
        return None
    if not values or len(values) != len(found):
        return None
    choices = _n_choices(record)
    return values[:choices] if choices and len(values) == 2 * choices else values  # acc_mutual_info repeats them


def _n_choices(record: Mapping[str, Any]) -> int | None:
    doc = record.get("doc")
    found: Any = doc.get("choices") if isinstance(doc, dict) else None
    found = found.get("text") if isinstance(found, dict) else found
    return len(found) if isinstance(found, list) else None


def _target(record: Mapping[str, Any], n: int) -> int | None:
    target = record.get("target")
    target = target[0] if isinstance(target, list) and len(target) == 1 else target
    if isinstance(target, bool) or target is None or isinstance(target, list):
        return None
    text = str(target).strip()
    if text.lstrip("-").isdigit():
        return int(text) if 0 <= int(text) < n else None
    letter = text.strip("().").upper()
    if len(letter) == 1 and letter.isalpha():
        return ord(letter) - ord("A") if ord(letter) - ord("A") < n else None
    doc = record.get("doc")
    choices: Any = doc.get("choices") if isinstance(doc, dict) else None
    choices = choices.get("text") if isinstance(choices, dict) else choices
    if isinstance(choices, list) and text in [str(choice).strip() for choice in choices]:
        return [str(choice).strip() for choice in choices].index(text)
    arguments: Any = record.get("arguments")
    endings = [str(one[-1]).strip() for one in arguments] if isinstance(arguments, list) and arguments else []
    return endings.index(text) if text in endings else None


def _said(record: Mapping[str, Any]) -> Stated | None:
    for place in ("resps", "filtered_resps"):
        text = json.dumps(record.get(place)) if record.get(place) is not None else ""
        found = stated_confidence(text)
        if found is not None:
            return found
    return None


def _right(record: Mapping[str, Any]) -> bool | None:
    names = [*(record.get("metrics") or ()), *_METRICS]
    for name in names:
        value = record.get(name)
        if isinstance(value, bool | int | float):
            return float(value) >= 0.5
    return None


def _field(record: Mapping[str, Any], name: str) -> Any:
    doc = record.get("doc")
    return record.get(name, doc.get(name) if isinstance(doc, dict) else None)


def _softmax(row: Any) -> Any:
    shifted = np.exp(row - row.max())
    return shifted / shifted.sum()


# -- inspect --------------------------------------------------------------------------------------


def read_inspect_archive(path: str | Path, layout: Layout) -> Predictions:
    """Return the samples of an ``.eval`` file, a zip of JSON members."""
    with plain_errors(path, hint="check that it is complete, or convert it with 'inspect log dump'"):
        samples = [json.loads(member) for member in open_members(path, "samples/*.json")]
    if not samples:
        raise FileError(f"{path} holds no samples", hint="log them, or name another file")
    return _inspect(samples, layout, str(path))


def _inspect(samples: list[dict[str, Any]], layout: Layout, source: str) -> Predictions:
    """Samples of inspect: a score says what was right; a confidence stands in its metadata or in the text."""
    _refuse(layout, "logs of inspect")
    scorers = list(dict.fromkeys(name for sample in samples for name in sample.get("scores") or ()))
    if len(scorers) > 1:
        note(f"scores of {len(scorers)} scorers ({', '.join(scorers)}): {scorers[0]} is taken")
    scores = [(sample.get("scores") or {}).get(scorers[0]) or {} if scorers else {} for sample in samples]
    said = on_one_scale(list(map(_inspect_confidence, samples, scores)), source)
    rows = list(zip(said, map(_inspect_right, scores), strict=True))
    columns = _columns(samples, ("id", "epoch"), lambda sample, name: sample.get(name))
    metadata = {key for sample in samples for key in (sample.get("metadata") or {})}
    columns |= _columns(samples, sorted(metadata), lambda sample, name: (sample.get("metadata") or {}).get(name))
    if len(set(columns.get("epoch", ()))) > 1:
        note("questions are repeated over epochs: name their cluster with --groups id")
    return _pairs(rows, columns, "answers", source)


def _inspect_right(score: Mapping[str, Any]) -> bool | None:
    value = score.get("value")
    if isinstance(value, str):
        return _CORRECT.get(value.strip().upper()[:1])
    return float(value) >= 0.5 if isinstance(value, bool | int | float) else None


def _inspect_confidence(sample: Mapping[str, Any], score: Mapping[str, Any]) -> Stated | None:
    for place in (score.get("metadata") or {}, sample.get("metadata") or {}):
        for name, value in place.items():
            if "confidence" in str(name).lower():
                found = _number(value)
                if found is not None:
                    return found
    output = sample.get("output") or {}
    for choice in output.get("choices") or ():
        message = choice.get("message") or {}
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content)
        found = stated_confidence(text or "")
        if found is not None:
            return found
        share = _letter_share(sample, score, choice)
        if share is not None:
            return Stated(share, 1.0)
    return stated_confidence(str(output.get("completion") or ""))


def _letter_share(sample: Mapping[str, Any], score: Mapping[str, Any], choice: Mapping[str, Any]) -> float | None:
    """Return the probability of the answered letter among the letters of the choices, from token log-probabilities."""
    letters = [chr(ord("A") + i) for i in range(len(sample.get("choices") or ()))]
    answer = str(score.get("answer") or "").strip().upper()
    for token in (choice.get("logprobs") or {}).get("content") or ():
        if str(token.get("token", "")).strip().upper() == answer and answer in letters:
            top = {
                str(t.get("token", "")).strip().upper(): float(t["logprob"]) for t in token.get("top_logprobs") or ()
            }
            shares = {letter: np.exp(top[letter]) for letter in letters if letter in top}
            if answer in shares and len(shares) > 1:
                return float(shares[answer] / sum(shares.values()))
    return None


def _number(value: Any) -> Stated | None:
    """Return a confidence that is stated as a number or as text."""
    if isinstance(value, str):
        return stated_confidence(f"confidence: {value}")
    return None if isinstance(value, bool) or not isinstance(value, int | float) else Stated(float(value))


# -- HELM, OpenAI evals, HLE ----------------------------------------------------------------------


def _helm(records: list[dict[str, Any]], layout: Layout, source: str) -> Predictions:
    """Per-instance statistics of HELM: max_prob beside exact_match."""
    _refuse(layout, "per-instance statistics of HELM")
    rows, ids = [], []
    for record in records:
        stats = {}
        for stat in record["stats"]:
            name = stat.get("name")
            stats[name.get("name") if isinstance(name, dict) else name] = stat.get("mean", stat.get("sum"))
        right = next(
            (stats[name] for name in ("exact_match", "quasi_exact_match") if stats.get(name) is not None), None
        )
        rows.append((stats.get("max_prob"), None if right is None else float(right) >= 0.5))
        ids.append(record["instance_id"])
    return _pairs(rows, {"instance_id": ids}, "max_prob", source)


def _openai(records: list[dict[str, Any]], layout: Layout, source: str) -> Predictions:
    """Events of OpenAI evals: a match says what was right; a confidence stands beside it or in the sampled text."""
    _refuse(layout, "logs of OpenAI evals")
    right: list[bool] = []
    samples: list[str] = []
    events: dict[tuple[Any, str], list[Any]] = {}  # of one question: what was stated, or the number of its judgment
    for record in records:
        data, kind, sample = record.get("data") or {}, record.get("type"), str(record.get("sample_id"))
        held = events.setdefault((record.get("run_id"), sample), [])
        found = _number(data["confidence"]) if "confidence" in data else None
        if found is None and kind == "sampling":
            found = stated_confidence(str(data.get("sampled") or ""))
        if found is not None or kind == "sampling":
            held.append(found)
        if kind == "match" and "correct" in data:
            held.append(len(right))
            right.append(bool(data["correct"]))
            samples.append(sample)
    if not right:
        raise FileError(f"{source} has no events of type match", hint="calibration needs to know what was right")
    if len(set(samples)) < len(samples):
        note("questions are repeated: name their cluster with --groups sample_id")
    said = {row: found for held in events.values() for row, found in _answers(held)}
    shares = on_one_scale([said[row] for row in range(len(right))], source)
    return _pairs(list(zip(shares, right, strict=True)), {"sample_id": samples}, "answers", source)


def _answers(held: list[Any]) -> list[tuple[int, Stated | None]]:
    """Return the judgments of one question with what was stated for each: the n-th, or the last one before it."""
    rows = [one for one in held if isinstance(one, int)]
    stated = [one for one in held if not isinstance(one, int)]
    if len(stated) == len(rows):
        return list(zip(rows, stated, strict=True))
    if len(rows) == 1:
        return [(rows[0], next((one for one in reversed(stated) if one is not None), None))]
    found: list[tuple[int, Stated | None]] = []
    last: Stated | None = None
    for one in held:
        if isinstance(one, int):
            found.append((one, last))
            last = None
        else:
            last = one if one is not None else last
    return found


def _hle(document: Mapping[str, Any], layout: Layout, source: str) -> Predictions:
    """Judged answers of HLE: correct is yes or no, confidence from 0 to 100."""
    _refuse(layout, "judged answers of HLE")
    rows = []
    for entry in document.values():
        judged = entry["judge_response"] or {}
        value = judged.get("confidence")
        stated = float(value) / 100 if isinstance(value, int | float) and 0 <= value <= 100 else None
        word = str(judged.get("correct", "")).strip().lower()
        rows.append((stated, {"yes": True, "no": False}.get(word)))
    if any(confidence == 1.0 for confidence, _ in rows):
        note("the judge of HLE writes 100 where no confidence was stated: those rows count as certain here")
    return _pairs(rows, {"id": list(document)}, "answers", source)
