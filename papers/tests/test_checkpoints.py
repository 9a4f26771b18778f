"""Work in pieces: kept, taken up again, read back as it was, refused when it comes from a newer version."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from calibrant.core.folds import stratified_folds
from calibrant.errors import FileError
from calibrant_papers.studies.checkpoints import Piece, read_json, run_pieces, write_json


def power(base, exponent):
    if exponent < 0:
        raise KeyboardInterrupt
    return {"value": np.float64(base) ** exponent, "pair": (base, exponent), "odd": [math.inf, -math.inf]}


def pieces(folder, *exponents):
    return [Piece(f"2^{e}", (2, e), folder / f"{e}.json") for e in exponents]


def test_finished_pieces_are_kept_and_equal_what_was_computed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_pieces(power, pieces(tmp_path, 3, 1, -1, 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.json", "3.json"]
    told = []
    answers = run_pieces(power, pieces(tmp_path, 3, 1, 2), progress=lambda *now: told.append(now))
    assert told == [(2, 3, ""), (3, 3, "2^2")]
    assert answers == run_pieces(power, pieces(tmp_path / "fresh", 3, 1, 2))
    assert answers == run_pieces(power, [Piece("", (2, e)) for e in (3, 1, 2)])
    assert answers[0] == {"value": 8.0, "pair": [2, 3], "odd": [math.inf, -math.inf]}
    assert type(answers[0]["value"]) is float


def test_a_damaged_file_is_computed_again_and_a_newer_one_refused(tmp_path):
    kept = tmp_path / "3.json"
    for text in ("{half", "[]", '{"value": 1}'):
        kept.write_text(text, encoding="utf-8")
        assert run_pieces(power, pieces(tmp_path, 3))[0]["value"] == 8
    document = json.loads(kept.read_text(encoding="utf-8"))
    kept.write_text(json.dumps({**document, "schema": 2}), encoding="utf-8")
    with pytest.raises(FileError, match=r"newer calibrant \(schema 2\)"):
        run_pieces(power, pieces(tmp_path, 3))


def test_json_is_valid_and_a_foreign_file_is_named(tmp_path):
    write_json(tmp_path / "a" / "b.json", {"x": [math.nan, 1.5]})
    json.loads((tmp_path / "a" / "b.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert math.isnan(read_json(tmp_path / "a" / "b.json")["x"][0])
    with pytest.raises(FileError, match="is not a file of this run"):
        read_json(tmp_path / "absent.json")


@pytest.mark.parametrize(("n", "k", "n_folds"), [(100, 3, 5), (7, 2, 3), (1000, 10, 4)])
def test_folds_share_out_every_class(n, k, n_folds):
    codes = np.random.default_rng(1).integers(0, k, n)
    fold = stratified_folds(codes, n_folds, np.random.default_rng(2))
    sizes = np.bincount(fold, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for label in range(k):
        shares = np.bincount(fold[codes == label], minlength=n_folds)
        assert shares.max() - shares.min() <= 1
