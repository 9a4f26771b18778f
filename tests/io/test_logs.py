"""Logs of language-model evaluations: one scale for a whole file, every answer once, no scorer taken in silence."""

from __future__ import annotations

import json
import logging

import pytest

from calibrant.errors import FileError
from calibrant.io.readers import read_predictions


def inspect_log(path, confidences, **more):
    samples = [
        {"id": i, "epoch": 1, "scores": {"judge": {"value": "C", "metadata": {"confidence": value}}}, **more}
        for i, value in enumerate(confidences)
    ]
    path.write_text(json.dumps({"eval": {}, "samples": samples}), encoding="utf-8")
    return path


def openai_log(path, events):
    head = [{"spec": {}}]
    rows = [{"run_id": "r", "sample_id": name, "type": kind, "data": data} for name, kind, data in events]
    path.write_text("\n".join(map(json.dumps, head + rows)), encoding="utf-8")
    return path


def said(number):
    return {"sampled": f"Paris. Confidence: {number}"}


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        ([1, 2, 95, 0, 100], [0.01, 0.02, 0.95, 0, 1]),
        (["1", "2", "95%"], [0.01, 0.02, 0.95]),
        ([0.5, 12.5, 95], [0.005, 0.125, 0.95]),  # tenths of percents
        ([1, 0.5, 0], [1, 0.5, 0]),
        (["1", "0.5", "95%", "3/10"], [1, 0.5, 0.95, 0.3]),
    ],
)
def test_the_scale_of_confidences_is_that_of_the_file(tmp_path, stated, read):
    path = inspect_log(tmp_path / "a.json", stated)
    assert read_predictions(path).scores.tolist() == pytest.approx(read)
    events = []
    for i, value in enumerate(stated):
        events += [(f"s{i}", "sampling", said(value)), (f"s{i}", "match", {"correct": True})]
    path = openai_log(tmp_path / "b.jsonl", events)
    assert read_predictions(path).scores.tolist() == pytest.approx(read)


def test_two_scales_in_one_file_are_refused(tmp_path):
    path = inspect_log(tmp_path / "a.json", [0.9, 85, 0.7, 1])
    with pytest.raises(
        FileError, match=r"two scales: 2 answers below 1 \(0.9\) beside others up to 85.*Hint"
    ) as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)


def test_judged_answers_of_hle_are_percentages(tmp_path):
    path = tmp_path / "a.json"
    rows = {f"q{i}": {"judge_response": {"correct": "yes", "confidence": c}} for i, c in enumerate([0, 1, 2])}
    path.write_text(json.dumps(rows), encoding="utf-8")
    assert read_predictions(path).scores.tolist() == [0, 0.01, 0.02]


def test_repeated_samples_of_openai_evals_are_rows_of_their_own(tmp_path, caplog):
    events, at_once, after = [], [], []
    for i in range(30):
        sample, flag = f"s{i % 10}", {"correct": i % 3 == 0}
        events += [(sample, "sampling", said(i / 100)), (sample, "match", flag)]
    for name, add in (("first", 0.1), ("second", 0.2)):  # two answers to one question before either is judged
        at_once += [(name, "sampling", said(add)), (name, "sampling", said(add + 0.5))]
        at_once += [(name, "match", {"correct": True}), (name, "match", {"correct": False})]
    for name in "ab":  # drafts before an answer, and a confidence beside the judgment
        for number in (0.3, 0.4):
            after += [(name, "sampling", said(0.9)), (name, "sampling", {"sampled": "A"})]
            after += [(name, "match", {"correct": True, "confidence": number})]
    with caplog.at_level(logging.INFO, "calibrant.read"):
        found = read_predictions(openai_log(tmp_path / "a.jsonl", events))
    assert found.scores.tolist() == [i / 100 for i in range(30)]
    assert found.truth.tolist() == [i % 3 == 0 for i in range(30)]
    assert found.columns["sample_id"].tolist() == [f"s{i % 10}" for i in range(30)]
    assert "--groups sample_id" in caplog.text
    found = read_predictions(openai_log(tmp_path / "b.jsonl", at_once))
    assert found.scores.tolist() == [0.1, 0.6, 0.2, 0.7]
    assert found.truth.tolist() == [True, False, True, False]
    found = read_predictions(openai_log(tmp_path / "c.jsonl", after))
    assert found.scores.tolist() == [0.3, 0.4, 0.3, 0.4]


def test_of_two_scorers_one_is_taken_and_named(tmp_path, caplog):
    path = inspect_log(tmp_path / "a.json", [0.5, 0.75])
    log = json.loads(path.read_text(encoding="utf-8"))
    log["samples"][0]["scores"]["match"] = {"value": "I"}
    log["samples"][1]["scores"] = {"match": {"value": "I"}, **log["samples"][1]["scores"]}
    path.write_text(json.dumps(log), encoding="utf-8")
    with caplog.at_level(logging.INFO, "calibrant.read"):
        assert read_predictions(path).truth.tolist() == [True, True]
    assert "2 scorers (judge, match): judge is taken" in caplog.text
