"""Small files as programs and people really write them: one maker per habit, with the numbers that must come out.

Every maker writes one file and returns what to expect: `Right` with the scores and labels behind the file, or `Refused`
with the words of the one line that says what to do.
"""

from __future__ import annotations

import gzip
import inspect
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

CLASSES = ("bird", "cat", "dog")
N = 60


def make() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities of three classes with labels, and of one event with outcomes."""
    rng = np.random.default_rng(7)
    p = rng.dirichlet((0.6, 0.9, 0.7), N).round(6)
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    y = np.array([rng.choice(3, p=row / row.sum()) for row in np.clip(p, 0, 1)])
    s = rng.uniform(0.02, 0.98, N).round(4)
    return np.clip(p, 0, 1), y, s, (rng.random(N) < s).astype(int)


P, Y, S, T = make()
NAMES = np.array(CLASSES)[Y]


@dataclass
class Right:
    """What a file must give: probabilities with codes, pairs, or mean with variance; and words that are said."""

    p: np.ndarray
    y: np.ndarray
    kind: str = "classes"
    args: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    variance: np.ndarray | None = None
    command: str = "evaluate"
    options: dict[str, Any] = field(default_factory=dict)

    def numbers(self) -> dict[str, float]:
        """Return numbers computed from the definitions alone."""
        if self.kind == "regression":
            return {"mse": float(np.mean((self.y - self.p) ** 2)), "n": len(self.y)}
        if self.kind == "pairs":
            return {"accuracy": float(np.mean(self.y)), "confidence": float(np.mean(self.p)), "n": len(self.y)}
        p = np.stack([1 - self.p, self.p], axis=1) if self.p.ndim == 1 else self.p
        hot = np.eye(p.shape[1])[self.y]
        return {
            "brier": float(np.mean(((p - hot) ** 2).sum(axis=1))),
            "accuracy": float(np.mean(p.argmax(axis=1) == self.y)),
            "confidence": float(np.mean(p.max(axis=1))),
            "n": len(self.y),
        }


@dataclass
class Refused:
    """The words of the one line that a file must be refused with."""

    words: tuple[str, ...]
    args: tuple[str, ...] = ()


Expected = Right | Refused
MAKERS: dict[str, Callable[[Path], tuple[Path, Expected]]] = {}


def case(suffix: str) -> Callable[[Callable[[Path], Expected]], Callable[[Path], Expected]]:
    """Enter a maker under its own name; it writes the file and returns what to expect."""

    def enter(maker: Callable[[Path], Expected]) -> Callable[[Path], Expected]:
        def run(folder: Path) -> tuple[Path, Expected]:
            path = folder / f"{maker.__name__}{suffix}"
            return path, maker(path)

        MAKERS[maker.__name__] = run
        return maker

    return enter


def text(path: Path, lines: list[str], *, end: str = "\n", encoding: str = "utf-8") -> None:
    path.write_bytes((end.join(lines) + end).encode(encoding))


def wide(
    names: list[str], label: str = "label", labels: Any = NAMES, form: str = "{:.6f}", sep: str = ","
) -> list[str]:
    head = sep.join([*names, label])
    rows = [sep.join([*(form.format(v) for v in row), str(y)]) for row, y in zip(P, labels, strict=True)]
    return [head, *rows]


THREE = Right(P, Y)
TWO = Right(S, T)
WORDS = ["p_bird", "p_cat", "p_dog"]


# -- pandas -----------------------------------------------------------------------------------------


@case(".csv")
def pandas_to_csv_with_index(path: Path) -> Expected:
    rows = wide(WORDS)
    text(path, ["," + rows[0], *(f"{i},{row}" for i, row in enumerate(rows[1:]))])
    return THREE


@case(".csv")
def pandas_unnamed_columns(path: Path) -> Expected:
    text(path, wide(["0", "1", "2"], "target", Y))
    return THREE


@case(".csv")
def pandas_lists_in_cells(path: Path) -> Expected:
    rows = [f'{y},"[{", ".join(map(str, row))}]"' for row, y in zip(P.tolist(), Y, strict=True)]
    text(path, ["label,probs", *rows])
    return THREE


@case(".csv")
def pandas_numpy_arrays_in_cells(path: Path) -> Expected:
    rows = [f'{y},"{row}"' for row, y in zip(P, Y, strict=True)]
    text(path, ["y_true,y_prob", *rows])
    shown = np.array([[float(v) for v in str(row).strip("[]").split()] for row in P])
    return Right(shown / shown.sum(axis=1, keepdims=True), Y)


@case(".csv")
def numpy_arrays_cut_short(path: Path) -> Expected:
    text(path, ["label,probs", *[f'{y},"[0.1 0.2 ... 0.3 0.1]"' for y in Y]])
    return Refused(("cut short", "one column per class"))


@case(".json")
def pandas_to_json_columns(path: Path) -> Expected:
    table = {name: {str(i): float(P[i, k]) for i in range(N)} for k, name in enumerate(WORDS)}
    path.write_text(json.dumps(table | {"label": {str(i): str(NAMES[i]) for i in range(N)}}))
    return THREE


@case(".json")
def pandas_to_json_split(path: Path) -> Expected:
    rows = [[*map(float, P[i]), str(NAMES[i])] for i in range(N)]
    path.write_text(json.dumps({"columns": [*WORDS, "label"], "index": list(range(N)), "data": rows}))
    return THREE


@case(".json")
def pandas_to_json_records(path: Path) -> Expected:
    path.write_text(
        json.dumps([dict(zip([*WORDS, "label"], [*map(float, P[i]), str(NAMES[i])], strict=True)) for i in range(N)])
    )
    return THREE


@case(".json")
def pandas_to_json_index(path: Path) -> Expected:
    path.write_text(json.dumps({f"r{i}": {"score": float(S[i]), "label": int(T[i])} for i in range(N)}))
    return TWO


@case(".csv.gz")
def pandas_gzip(path: Path) -> Expected:
    path.write_bytes(gzip.compress("\n".join(wide(WORDS)).encode()))
    return THREE


@case(".csv.zst")
def polars_zstandard(path: Path) -> Expected:
    if "compression" not in inspect.signature(pl.LazyFrame.sink_csv).parameters:
        pytest.skip("this Polars writes no compressed text (1.38 does)")
    pl.LazyFrame({"label": T, "score": S}).sink_csv(path, compression="zstd")
    return TWO


# -- R ----------------------------------------------------------------------------------------------


@case(".csv")
def r_write_csv_caret(path: Path) -> Expected:
    rows = [
        f'"{i + 1}","{CLASSES[int(P[i].argmax())]}","{NAMES[i]}",{",".join(map(str, P[i]))},{i + 1}' for i in range(N)
    ]
    text(path, ['"","pred","obs","bird","cat","dog","rowIndex"', *rows])
    return THREE


@case(".txt")
def r_write_table(path: Path) -> Expected:
    rows = [f'"{i + 1}" "{NAMES[i]}" {" ".join(map(str, P[i]))}' for i in range(N)]
    text(path, ['"truth" "bird" "cat" "dog"', *rows])
    return THREE


@case(".csv")
def r_write_csv2(path: Path) -> Expected:
    rows = [f'"{i + 1}";"{NAMES[i]}";' + ";".join(str(v).replace(".", ",") for v in P[i]) for i in range(N)]
    text(path, ['"";"label";"p.bird";"p.cat";"p.dog"', *rows])
    return THREE


@case(".csv")
def r_tidymodels(path: Path) -> Expected:
    rows = [f"{NAMES[i]},{CLASSES[int(P[i].argmax())]},{','.join(map(str, P[i]))}" for i in range(N)]
    text(path, ["truth,.pred_class,.pred_bird,.pred_cat,.pred_dog", *rows])
    return THREE


@case(".csv")
def r_make_names(path: Path) -> Expected:
    towns = np.array(["New York", "São Paulo", "St. Louis"])[Y]
    rows = [f'"{towns[i]}",{",".join(map(str, P[i]))}' for i in range(N)]
    text(path, ["label,p_New.York,p_São.Paulo,p_St..Louis", *rows])
    return THREE


@case(".csv")
def r_missing_values(path: Path) -> Expected:
    rows = wide(WORDS)
    rows[5] = "NA,NA,NA,cat"
    rows[9] = "NA,NA,NA,cat"
    text(path, rows)
    return Refused(("be finite", "line 6", "1 more line: 10"))


@case(".csv")
def r_event_factor(path: Path) -> Expected:
    text(path, ["obs,Yes,No", *[f"{'Yes' if T[i] else 'No'},{S[i]},{1 - S[i]}" for i in range(N)]])
    return Right(np.stack([S, 1 - S], axis=1), 1 - T)


# -- spreadsheets -----------------------------------------------------------------------------------


@case(".csv")
def excel_german(path: Path) -> Expected:
    rows = [f"{NAMES[i]};" + ";".join(f"{v:.6f}".replace(".", ",") for v in P[i]) for i in range(N)]
    text(path, ["label;p_bird;p_cat;p_dog", *rows, ";;;"], end="\r\n", encoding="cp1252")
    return THREE


@case(".csv")
def excel_german_truth_values(path: Path) -> Expected:
    rows = [f"{'WAHR' if T[i] else 'FALSCH'};{str(S[i]).replace('.', ',')}" for i in range(N)]
    text(path, ["target;score", *rows], end="\r\n")
    return Right(S, T, said=("positive = WAHR",))


@case(".csv")
def excel_french_accents(path: Path) -> Expected:
    labels = np.array(["été", "hiver", "forêt"])[Y]
    rows = [f"{labels[i]};" + ";".join(str(v).replace(".", ",") for v in P[i]) for i in range(N)]
    text(path, ["label;été;hiver;forêt", *rows], end="\r\n", encoding="cp1252")
    return THREE


@case(".csv")
def excel_french_percent_cells(path: Path) -> Expected:
    rows = [f"{'VRAI' if T[i] else 'FAUX'};{100 * S[i]:.2f} %".replace(".", ",") for i in range(N)]
    text(path, ["label;score", *rows], end="\r\n", encoding="utf-8-sig")
    return Right(S, T, said=("percent signs",))


@case(".csv")
def excel_separator_line(path: Path) -> Expected:
    text(path, ["sep=;", *[line.replace(",", ";") for line in wide(WORDS)]], end="\r\n", encoding="utf-8-sig")
    return THREE


@case(".txt")
def excel_unicode_text(path: Path) -> Expected:
    text(path, [line.replace(",", "\t") for line in wide(WORDS)], end="\r\n", encoding="utf-16")
    return THREE


@case(".csv")
def excel_quoted_commas(path: Path) -> Expected:
    rows = [f'{T[i]},"{str(S[i]).replace(".", ",")}"' for i in range(N)]
    text(path, ["label,score", *rows])
    return TWO


@case(".xlsx")
def excel_workbook(path: Path) -> Expected:
    path.write_bytes(b"PK\x03\x04")
    return Refused(("spreadsheet", "CSV"))


# -- scikit-learn, XGBoost, Keras -------------------------------------------------------------------


@case(".csv")
def sklearn_two_columns(path: Path) -> Expected:
    text(path, ["y_true,proba_0,proba_1", *[f"{T[i]},{1 - S[i]},{S[i]}" for i in range(N)]])
    return Right(np.stack([1 - S, S], axis=1), T)


@case(".csv")
def sklearn_positive_column_alone(path: Path) -> Expected:
    text(path, ["y_test,y_pred,proba_1", *[f"{T[i]},{int(S[i] > 0.5)},{S[i]}" for i in range(N)]])
    return TWO


@case(".csv")
def sklearn_named_positive_alone(path: Path) -> Expected:
    rows = [f"{'malignant' if T[i] else 'benign'},{S[i]}" for i in range(N)]
    text(path, ["target,p_malignant", *rows])
    return Right(S, T, said=("positive = malignant",))


@case(".csv")
def sklearn_first_class_alone(path: Path) -> Expected:
    rows = [f"{'malignant' if T[i] else 'benign'},{1 - S[i]}" for i in range(N)]
    text(path, ["target,p_benign", *rows])
    return Right(1 - S, 1 - T, said=("positive = benign",))


@case(".csv")
def sklearn_minus_one(path: Path) -> Expected:
    text(path, ["y,y_score", *[f"{2 * T[i] - 1},{S[i]}" for i in range(N)]])
    return TWO


@case(".csv")
def sklearn_decision_function(path: Path) -> Expected:
    text(path, ["y,y_score", *[f"{T[i]},{np.log(S[i] / (1 - S[i])):.6f}" for i in range(N)]])
    return Refused(("lie in [0, 1]", "--space logit"))


@case(".csv")
def positive_is_the_other(path: Path) -> Expected:
    text(path, ["label,score", *[f"{'spam' if T[i] else 'ham'},{1 - S[i]}" for i in range(N)]])
    return Right(1 - S, 1 - T, args=("--positive", "ham"), said=("positive = ham",))


@case(".csv")
def positive_unknown(path: Path) -> Expected:
    text(path, ["label,score", *[f"{'spam' if T[i] else 'ham'},{S[i]}" for i in range(N)]])
    return Refused(("--positive must be one of the two labels", "'eggs'", "'ham', 'spam'"), ("--positive", "eggs"))


@case(".csv")
def xgboost_softprob(path: Path) -> Expected:
    text(path, wide(["class_0", "class_1", "class_2"], "label", Y, "{:.8g}"))
    return THREE


@case(".csv")
def xgboost_logistic_scientific(path: Path) -> Expected:
    text(path, ["label,pred", *[f"{T[i]},{S[i]:.6e}" for i in range(N)]])
    return TWO


@case(".csv")
def h2o_predict(path: Path) -> Expected:
    text(path, ["predict,p0,p1,actual", *[f"{int(S[i] > 0.5)},{1 - S[i]},{S[i]},{T[i]}" for i in range(N)]])
    return Right(np.stack([1 - S, S], axis=1), T)


@case(".csv")
def knime_class_columns(path: Path) -> Expected:
    text(path, wide(["P (species=bird)", "P (species=cat)", "P (species=dog)"], "class"))
    return THREE


@case(".csv")
def azure_scored_probabilities(path: Path) -> Expected:
    names = [f"Scored Probabilities_{name}" for name in CLASSES]
    text(path, wide(names, "Label"))
    return THREE


@case(".npz")
def keras_savez(path: Path) -> Expected:
    np.savez(path, y_true=Y, y_prob=P.astype(np.float32))
    p = P.astype(np.float32).astype(np.float64)
    return Right(p, Y)


@case(".npz")
def keras_one_column_of_sigmoid(path: Path) -> Expected:
    np.savez(path, y_true=T[:, None], y_prob=S[:, None])
    return TWO


@case(".npz")
def keras_one_hot_labels(path: Path) -> Expected:
    np.savez(path, y_true=np.eye(3)[Y], y_prob=P)
    return Right(P, Y, said=("one-hot rows",))


@case(".csv")
def numpy_savetxt_without_names(path: Path) -> Expected:
    text(path, [f"{S[i]:.18e},{T[i]:.18e}" for i in range(N)])
    return Refused(("no names of columns", "first line"))


@case(".npz")
def pickled_objects(path: Path) -> Expected:
    np.savez(path, probs=np.array([{"a": 1}], dtype=object), labels=Y)
    return Refused(("pickled",))


# -- Hugging Face -----------------------------------------------------------------------------------


@case(".npz")
def hugging_face_trainer(path: Path) -> Expected:
    np.savez(path, predictions=np.log(P + 1e-3), label_ids=Y)
    q = (P + 1e-3) / (P + 1e-3).sum(axis=1, keepdims=True)
    return Right(q, Y, args=("--space", "logit"))


@case(".npz")
def hugging_face_without_space(path: Path) -> Expected:
    np.savez(path, predictions=np.log(P + 1e-3) + 7, label_ids=Y)  # none is negative: the numbers do not say
    return Refused(("predictions", "may be logits or probabilities", "--space logit"))


@case(".npz")
def hugging_face_negative_logits(path: Path) -> Expected:
    np.savez(path, predictions=np.log(P + 1e-3), label_ids=Y)
    return Right((P + 1e-3) / (P + 1e-3).sum(axis=1, keepdims=True), Y, said=("logits = predictions",))


@case(".json")
def hugging_face_json(path: Path) -> Expected:
    path.write_text(json.dumps({"predictions": np.log(P + 1e-3).tolist(), "label_ids": Y.tolist()}))
    q = (P + 1e-3) / (P + 1e-3).sum(axis=1, keepdims=True)
    return Right(q, Y, args=("--space", "logit"))


@case(".jsonl")
def hugging_face_pipeline(path: Path) -> Expected:
    order = (2, 0, 1)
    rows = [
        {
            "text": f"t{i}",
            "label": CLASSES[Y[i]],
            "output": [{"label": CLASSES[k], "score": float(P[i, k])} for k in order],
        }
        for i in range(N)
    ]
    text(path, [json.dumps(row) for row in rows])
    return Right(P[:, order], np.array([order.index(y) for y in Y]))


@case(".jsonl")
def objects_of_probabilities(path: Path) -> Expected:
    rows = [{"label": CLASSES[Y[i]], "probs": dict(zip(CLASSES, map(float, P[i]), strict=True))} for i in range(N)]
    text(path, [json.dumps(row) for row in rows])
    return THREE


# -- language models --------------------------------------------------------------------------------


def _harness(i: int, n: int, **more: Any) -> dict[str, Any]:
    p = P[i, :n] + 1e-3
    return {
        "doc_id": i,
        "doc": {"question": "?", "choices": [f"c{k}" for k in range(n)], "subject": f"s{i % 3}"},
        "target": str(int(Y[i]) % n),
        "filtered_resps": [[str(np.log(v)), "False"] for v in p],
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0,
        **more,
    }


@case(".jsonl")
def lm_eval_multiple_choice(path: Path) -> Expected:
    text(path, [json.dumps(_harness(i, 3)) for i in range(N)])
    q = (P + 1e-3) / (P + 1e-3).sum(axis=1, keepdims=True)
    return Right(q, Y)


@case(".jsonl")
def lm_eval_unequal_choices(path: Path) -> Expected:
    sizes = [2 + i % 2 for i in range(N)]
    text(path, [json.dumps(_harness(i, sizes[i])) for i in range(N)])
    rows = [(P[i, :n] + 1e-3) / (P[i, :n] + 1e-3).sum() for i, n in enumerate(sizes)]
    hit = np.array([row.argmax() == Y[i] % sizes[i] for i, row in enumerate(rows)])
    return Right(np.array([row.max() for row in rows]), hit, kind="pairs", said=("2 to 3 choices",))


@case(".jsonl")
def lm_eval_several_filters(path: Path) -> Expected:
    rows = [_harness(i, 3, filter=name) for name in ("none", "strict-match") for i in range(N)]
    text(path, [json.dumps(row) for row in rows])
    q = (P + 1e-3) / (P + 1e-3).sum(axis=1, keepdims=True)
    return Right(q, Y, said=("2 filters",))


@case(".jsonl")
def lm_eval_letters_and_mutual_information(path: Path) -> Expected:
    rows = []
    for i in range(N):
        row = _harness(i, 3, target="ABC"[Y[i]])
        row["filtered_resps"] = [*row["filtered_resps"], *[["-9.0", "False"]] * 3]
        rows.append(json.dumps(row))
    text(path, rows)
    q = (P + 1e-3) / (P + 1e-3).sum(axis=1, keepdims=True)
    return Right(q, Y)


@case(".jsonl")
def lm_eval_generate_until(path: Path) -> Expected:
    rows = [
        {"doc_id": i, "doc": {}, "target": "4", "filtered_resps": ["4"], "filter": "none", "metrics": ["exact_match"],
         "resps": [[f"The answer is 4. Confidence: {int(100 * S[i])}%"]], "exact_match": float(T[i])}
        for i in range(N)
    ]  # fmt: skip
    text(path, [json.dumps(row) for row in rows])
    return Right(np.floor(100 * S) / 100, T, kind="pairs")


@case(".jsonl")
def lm_eval_generate_without_confidence(path: Path) -> Expected:
    rows = [
        {"doc_id": i, "doc": {}, "target": "4", "filtered_resps": ["4"], "filter": "none", "exact_match": 1.0}
        for i in range(N)
    ]
    text(path, [json.dumps(row) for row in rows])
    return Refused(("states no confidence", "Confidence: 85%"))


def _inspect(i: int) -> dict[str, Any]:
    return {
        "id": f"q{i // 2}",
        "epoch": 1 + i % 2,
        "choices": ["a", "b"],
        "target": "A",
        "scores": {
            "judge": {"value": "C" if T[i] else "I", "answer": "A", "metadata": {"confidence": int(100 * S[i])}}
        },
        "output": {"choices": [{"message": {"content": "A"}}]},
    }


@case(".json")
def inspect_json(path: Path) -> Expected:
    path.write_text(json.dumps({"version": 2, "eval": {"task": "t"}, "samples": [_inspect(i) for i in range(N)]}))
    return Right(np.floor(100 * S) / 100, T, kind="pairs", said=("repeated over epochs",))


@case(".eval")
def inspect_archive(path: Path) -> Expected:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {}}))
        for i in range(N):
            archive.writestr(f"samples/q{i // 2}_epoch_{1 + i % 2}.json", json.dumps(_inspect(i)))
    return Right(np.floor(100 * S) / 100, T, kind="pairs")


@case(".json")
def hle_judged(path: Path) -> Expected:
    rows = {f"q{i}": {"response": "", "judge_response": {"correct": "yes" if T[i] else "no", "confidence": int(100 * S[i])}}
            for i in range(N)}  # fmt: skip
    path.write_text(json.dumps(rows))
    return Right(np.floor(100 * S) / 100, T, kind="pairs")


@case(".json")
def helm_per_instance(path: Path) -> Expected:
    rows = [{"instance_id": f"id{i}", "stats": [{"name": {"name": "max_prob"}, "mean": float(S[i])},
                                                {"name": {"name": "exact_match"}, "mean": float(T[i])}]} for i in range(N)]  # fmt: skip
    path.write_text(json.dumps(rows))
    return Right(S, T, kind="pairs")


@case(".jsonl")
def openai_evals(path: Path) -> Expected:
    rows: list[dict[str, Any]] = [{"spec": {"eval_name": "e"}}]
    for i in range(N):
        rows.append({"run_id": "r", "event_id": 2 * i, "sample_id": f"s{i}", "type": "sampling",
                     "data": {"sampled": f"Paris. Confidence: {S[i]}"}})  # fmt: skip
        rows.append(
            {
                "run_id": "r",
                "event_id": 2 * i + 1,
                "sample_id": f"s{i}",
                "type": "match",
                "data": {"correct": bool(T[i])},
            }
        )
    text(path, [json.dumps(row) for row in [*rows, {"final_report": {}}]])
    return Right(S, T, kind="pairs")


@case(".csv")
def verbalized_percent(path: Path) -> Expected:
    text(path, ["question,confidence,correct", *[f"q{i},{int(100 * S[i])},{T[i]}" for i in range(N)]])
    return Right(np.floor(100 * S) / 100, T, kind="pairs", args=("--percent",))


@case(".csv")
def verbalized_percent_unannounced(path: Path) -> Expected:
    text(path, ["question,confidence,correct", *[f"q{i},{int(100 * S[i])},{T[i]}" for i in range(N)]])
    return Refused(("--confidence must be probabilities", "percentages: --percent"))


@case(".csv")
def verbalized_words(path: Path) -> Expected:
    words = ("very likely", "Likely", "about even", "unlikely")
    values = np.array([0.9, 0.75, 0.5, 0.2])
    text(path, ["confidence,correct", *[f"{words[i % 4]},{'yes' if T[i] else 'no'}" for i in range(N)]])
    return Right(values[np.arange(N) % 4], T, kind="pairs")


@case(".csv")
def verbalized_unknown_words(path: Path) -> Expected:
    text(path, ["confidence,correct", *[f"{('high', 'medium')[i % 2]},{T[i]}" for i in range(N)]])
    return Refused(("'high'", "60 of 60 rows"))


@case(".csv")
def pairs_under_other_names(path: Path) -> Expected:
    text(path, ["sure,won", *[f"{S[i]},{T[i]}" for i in range(N)]])
    return Right(S, T, kind="pairs", args=("--confidence", "sure", "--correct", "won"))


# -- databases --------------------------------------------------------------------------------------


@case(".txt")
def psql_output(path: Path) -> Expected:
    rows = [f" {NAMES[i]:<5} | {P[i, 0]:.6f} | {P[i, 1]:.6f} | {P[i, 2]:.6f}" for i in range(N)]
    text(path, [" label | p_bird | p_cat | p_dog ", "-------+--------+-------+-------", *rows, f"({N} rows)", ""])
    return THREE


@case(".txt")
def mysql_box(path: Path) -> Expected:
    rule = "+-------+--------+"
    rows = [f"| {T[i]:>5} | {S[i]:.4f} |" for i in range(N)]
    text(path, [rule, "| label | score  |", rule, *rows, rule, f"{N} rows in set (0.00 sec)"])
    return TWO


@case(".tsv")
def mysql_batch(path: Path) -> Expected:
    text(path, ["LABEL\tSCORE", *[f"{T[i]}\t{S[i]}" for i in range(N)]])
    return TWO


@case(".csv")
def postgres_copy_booleans(path: Path) -> Expected:
    text(path, ["outcome,probability", *[f"{'t' if T[i] else 'f'},{S[i]}" for i in range(N)]])
    return Right(S, T, said=("positive = t",))


@case(".csv")
def sql_null_label(path: Path) -> Expected:
    rows = wide(WORDS)
    rows[3] = rows[3].rsplit(",", 1)[0] + ","
    text(path, rows)
    return Refused(("a label in every row", "line 4"))


@case(".parquet")
def parquet_of_a_warehouse(path: Path) -> Expected:
    pl.DataFrame(
        {"ID": range(N), "TARGET": NAMES, **{f"PROB_{n.upper()}": P[:, k] for k, n in enumerate(CLASSES)}}
    ).write_parquet(path)
    return THREE


@case(".parquet")
def spark_vectors(path: Path) -> Expected:
    pl.DataFrame(
        {"label": Y.astype(float), "prediction": P.argmax(axis=1).astype(float), "probability": P.tolist()}
    ).write_parquet(path)
    return THREE


# -- people -----------------------------------------------------------------------------------------


@case(".csv")
def rounded_to_two_decimals(path: Path) -> Expected:
    text(path, wide(WORDS, form="{:.2f}"))
    q = np.array([[float(f"{v:.2f}") for v in row] for row in P])
    return Right(q / q.sum(axis=1, keepdims=True), Y, said=("rounded to 2 decimals",))


@case(".csv")
def percentages(path: Path) -> Expected:
    text(path, [wide(WORDS)[0], *[",".join([*(f"{100 * v:.6f}" for v in P[i]), NAMES[i]]) for i in range(N)]])
    return Right(P, Y, args=("--percent",))


@case(".csv")
def percentages_unannounced(path: Path) -> Expected:
    text(path, [wide(WORDS)[0], *[",".join([*(f"{100 * v:.6f}" for v in P[i]), NAMES[i]]) for i in range(N)]])
    return Refused(("rows that sum to 100", "--percent"))


@case(".csv")
def comments_on_top(path: Path) -> Expected:
    text(path, ["# model v3, seed 1", "# exported 2026-11-16", *wide(WORDS)])
    return THREE


@case(".csv")
def header_behind_a_sign(path: Path) -> Expected:
    text(path, ["#label,score", *[f"{T[i]},{S[i]}" for i in range(N)]])
    return TWO


@case(".csv")
def two_truths(path: Path) -> Expected:
    text(path, ["target,truth,score", *[f"{T[i]},{T[i]},{S[i]}" for i in range(N)]])
    return Refused(("several columns for the truth: target, truth", "--label"))


@case(".csv")
def two_scores(path: Path) -> Expected:
    text(path, ["label,y_prob,pred_prob", *[f"{T[i]},{S[i]},{S[i]}" for i in range(N)]])
    return Refused(("several columns for the scores", "--proba"))


@case(".csv")
def column_twice(path: Path) -> Expected:
    text(path, ["label,score,label", *[f"{T[i]},{S[i]},{T[i]}" for i in range(N)]])
    return Refused(("'label' twice",))


@case(".csv")
def no_truth(path: Path) -> Expected:
    text(path, [",".join(WORDS), *[",".join(map(str, row)) for row in P]])
    return Refused(("has no column 'label'", "--label"))


@case(".csv")
def class_without_a_column(path: Path) -> Expected:
    labels = NAMES.astype(object).copy()
    labels[[4, 9]] = "fox"
    text(path, wide(WORDS, labels=labels))
    return Refused(("'fox'", "line 6", "1 more line: 11"))


@case(".csv")
def class_that_never_occurs(path: Path) -> Expected:
    q = np.column_stack([0.9 * P, np.full(N, 0.1)])
    rows = [f"{NAMES[i]},{','.join(map(str, q[i]))}" for i in range(N)]
    text(path, ["label,bird,cat,dog,fox", *rows])
    return Right(q, Y, said=("class fox never occurs",))


@case(".csv")
def explicit_columns(path: Path) -> Expected:
    text(path, wide(["a1", "a2", "a3"], "t", Y))
    return Right(P, Y, args=("--proba", "a1,a2", "--proba", "a3", "--label", "t"))


@case(".csv")
def labels_counted_from_one(path: Path) -> Expected:
    text(path, wide(WORDS, labels=Y + 1))
    return Refused(("class indices 0 … 2", "count classes from 0"))


@case(".csv")
def labels_are_predictions(path: Path) -> Expected:
    text(path, wide(WORDS, labels=np.array(CLASSES)[P.argmax(axis=1)]))
    return Right(P, P.argmax(axis=1), said=("is it the prediction instead of the truth?",))


@case(".csv")
def columns_swapped(path: Path) -> Expected:
    worst = P.argmin(axis=1)
    text(path, wide(WORDS, labels=worst))
    return Right(P, worst, said=("below chance",))


@case(".csv")
def constant_scores(path: Path) -> Expected:
    text(path, ["label,score", *[f"{t},0.3" for t in T]])
    return Right(np.full(N, 0.3), T, said=("the same scores",))


@case(".csv")
def ragged_line(path: Path) -> Expected:
    rows = wide(WORDS)
    rows[7] += ",extra,more"
    text(path, rows)
    return Refused(("cannot be read",))


@case(".csv")
def empty_file(path: Path) -> Expected:
    path.write_bytes(b"")
    return Refused(("is empty",))


@case(".csv")
def header_alone(path: Path) -> Expected:
    text(path, ["label,score"])
    return Refused(("has no rows",))


@case(".npz")
def five_best_classes(path: Path) -> Expected:
    order = np.argsort(-P, axis=1)[:, :2]
    np.savez(path, scores_top5=np.take_along_axis(P, order, axis=1), labels_top5=order, labels=Y)
    return Right(P.max(axis=1), P.argmax(axis=1) == Y, kind="pairs")


# -- numbers ----------------------------------------------------------------------------------------


@case(".csv")
def regression_sigma(path: Path) -> Expected:
    y = S + 0.1
    text(path, ["mu,sigma,y_true", *[f"{S[i]},{0.2 + 0.001 * i},{y[i]}" for i in range(N)]])
    return Right(S, y, kind="regression", variance=(0.2 + 0.001 * np.arange(N)) ** 2)


@case(".csv")
def regression_scikit_learn(path: Path) -> Expected:
    text(path, ["y_test,y_pred,y_std", *[f"{S[i] + 0.1},{S[i]},0.3" for i in range(N)]])
    return Right(S, S + 0.1, kind="regression", variance=np.full(N, 0.09))


@case(".csv")
def regression_without_spread(path: Path) -> Expected:
    text(path, ["y,mean", *[f"{S[i] + 0.1},{S[i]}" for i in range(N)]])
    return Refused(("variance (or std)", "--mean and --variance or --std"))


@case(".csv")
def regression_quantiles(path: Path) -> Expected:
    text(path, ["y,q0.1,q0.5,q0.9", *[f"{S[i] + 0.05},{S[i] - 0.2},{S[i]},{S[i] + 0.2}" for i in range(N)]])
    return Right(S, S + 0.05, kind="regression")


@case(".csv")
def truth_known_by_its_values(path: Path) -> Expected:
    text(path, wide(list(CLASSES), "Species"))
    return THREE


@case(".csv")
def one_column_of_many_words(path: Path) -> Expected:
    text(path, ["y_true,y_pred,y_pred_proba_class_1", *[f"{T[i]},{int(S[i] > 0.5)},{S[i]}" for i in range(N)]])
    return TWO


@case(".csv")
def candidates_are_listed(path: Path) -> Expected:
    text(path, ["loan,label,PD", *[f"{i},{T[i]},{S[i]}" for i in range(N)]])
    return Refused(("no probabilities", "numbers between 0 and 1 are in PD", "--proba PD"))


@case(".csv")
def interval_without_a_level(path: Path) -> Expected:
    text(path, ["yhat,yhat_lower,yhat_upper,y", *[f"{S[i]},{S[i] - 1},{S[i] + 1},{S[i]}" for i in range(N)]])
    return Refused(("yhat_lower, yhat_upper", "level", "q0.05"))


@case(".csv")
def interval_with_a_level(path: Path) -> Expected:
    text(path, ["lower_90,upper_90,y", *[f"{S[i] - 1},{S[i] + 1},{S[i]}" for i in range(N)]])
    return Right(S, S, kind="regression", said=("quantiles = 0.05, 0.95",))


@case(".csv")
def forecasts_with_their_deviation(path: Path) -> Expected:
    rows = [f"2026-01-{i % 28 + 1:02d},{S[i] + 0.1},{S[i]},0.3" for i in range(N)]
    text(path, ["timestamp,actual,forecast,forecast_std", *rows])
    return Right(S, S + 0.1, kind="regression", variance=np.full(N, 0.09), said=("std = forecast_std",))


@case(".csv")
def truth_under_a_name_of_its_own(path: Path) -> Expected:
    text(path, ["customer,churned,score", *[f"C{i},{'Yes' if T[i] else 'No'},{S[i]}" for i in range(N)]])
    return Refused(("no column 'label'", "churned holds No, Yes", "--label churned"))


@case(".csv")
def margins_of_a_classifier(path: Path) -> Expected:
    text(path, ["y,decision_function", *[f"{2 * T[i] - 1},{10 * S[i] - 5:.4f}" for i in range(N)]])
    return Refused(("no probabilities", "--proba decision_function", "--space logit"))


@case(".csv")
def two_models_side_by_side(path: Path) -> Expected:
    text(path, ["outcome,model_a,model_b", *[f"{T[i]},{S[i]},{S[i] ** 2:.4f}" for i in range(N)]])
    return Refused(("model_a, model_b", "one at a time", "--proba model_a"))


@case(".csv")
def rows_without_a_label(path: Path) -> Expected:
    rows = [f"{'' if i in (1, 4) else NAMES[i]}," + ",".join(f"{v:.6f}" for v in P[i]) for i in range(N)]
    text(path, ["label,p_bird,p_cat,p_dog", *rows])
    return Refused(("--label must have a label in every row", "line 3", "line"))


# -- One line each: a table of columns, what is around it, and what must come out -------------------

TOP = P.max(axis=1)
HIT = P.argmax(axis=1) == Y
GUESS = np.array(CLASSES)[P.argmax(axis=1)]
EVENT = np.where(T == 1, "yes", "no")
CERTAIN = np.maximum(S, 1 - S)
SAID = np.where(S > 0.5, "yes", "no")
PAIRS = Right(TOP, HIT, "pairs")
TWO_PAIRS = Right(CERTAIN, (S > 0.5) == T, "pairs")


def forms(pattern: str, p: np.ndarray = P) -> dict[str, Any]:
    """Return one column per class, called after a pattern."""
    return {pattern.format(name): p[:, k] for k, name in enumerate(CLASSES)}


SPREAD = np.exp(S)
NORMAL = Right(S, np.round(S + T, 3), "regression", variance=SPREAD**2)
COLUMNS: dict[str, tuple[dict[str, Any], Expected]] = {
    "german_words": (forms("Wahrscheinlichkeit_{}") | {"Klasse": NAMES}, THREE),
    "german_one_word": ({"Wahrscheinlichkeit": S, "Klasse": np.where(T, "WAHR", "FALSCH")}, TWO),
    "french_one_word": ({"probabilité": S, "réel": np.where(T, "oui", "non")}, TWO),
    "probability_of": (forms("prob_of_{}") | {"label": NAMES}, THREE),
    "truth_found_by_its_values": (forms(".pred_{}") | {".pred_class": GUESS, "species": NAMES}, THREE),
    "two_of_a_kind_by_values": ({"p_B": 1 - S, "p_M": S, "diagnosis": np.where(T, "M", "B")}, TWO),
    "pandas_tuple_names": (forms("('prob', '{}')") | {"('truth', 'label')": NAMES}, THREE),
    "r_dots_in_names": (forms("prob.{}") | {"y.true": NAMES}, THREE),
    "log_probabilities": (forms("logprob_{}", np.log(P + 1e-9)) | {"label": NAMES}, THREE),
    "catboost_raw": (forms("RawFormulaVal:Class={}", np.log(P + 1e-9)) | {"Label": NAMES}, THREE),
    "spread_of_probabilities": (
        forms("p_{}") | forms("p_{}_std", P / 9 + 0.1) | {"label": NAMES},
        Right(P, Y, said=("left out",)),
    ),
    "p_value_beside": (forms("p_{}") | {"p_value": S, "label": NAMES}, Right(P, Y, said=("p_value: left out",))),
    "pipeline_top_one": ({"label": GUESS, "score": TOP, "gold": NAMES}, PAIRS),
    "pipeline_top_one_of_two": ({"label": SAID, "score": CERTAIN, "gold": EVENT}, TWO_PAIRS),
    "prediction_and_its_probability": ({"label": NAMES, "prediction": GUESS, "probability": TOP}, PAIRS),
    "prediction_of_two_and_its_probability": ({"label": EVENT, "prediction": SAID, "probability": CERTAIN}, TWO_PAIRS),
    "prediction_beside_the_probability": ({"label": EVENT, "prediction": SAID, "probability": S}, TWO),
    "weka_predictions": ({"inst#": range(N), "actual": NAMES, "predicted": GUESS, "prediction": TOP}, PAIRS),
    "best_classes_in_columns": ({"label": NAMES, "top1_label": GUESS, "top1_prob": TOP, "top2_prob": 1 - TOP}, PAIRS),
    "labels_one_and_two": ({"class": T + 1, "p": S}, Right(S, T, said=("positive = 2",))),
    "whole_labels_as_decimals": (forms("p_{}") | {"label": Y.astype(float)}, THREE),
    "posterior_mean": ({"y": NORMAL.y, "posterior_mean": S, "posterior_variance": SPREAD**2}, NORMAL),
    "mean_prediction": ({"y": NORMAL.y, "mean_prediction": S, "std_prediction": SPREAD}, NORMAL),
    "gaussian_process": ({"y_true": NORMAL.y, "y_pred_mean": S, "y_pred_std": SPREAD}, NORMAL),
    "weights_that_may_be_a_feature": (
        {"p": S, "y": T, "weight": np.full(N, 71.5)},
        Right(S, T, said=("weighted by weight",)),
    ),
    "two_models_of_two_classes": (
        {"label": T, "prob_xgb": S, "prob_lr": S**2},
        Refused(("do not sum to 1", "several models", "--proba prob_xgb")),
    ),
    "two_models_of_three_classes": (
        forms("xgb_{}") | forms("lr_{}", P[:, ::-1]) | {"label": NAMES},
        Refused(("several columns for the scores", "--proba 'lr_*'")),
    ),
    "two_truths_that_differ": (
        {"label": T, "y_true": 1 - T, "p": S},
        Refused(("which differ: label, y_true", "--label y_true")),
    ),
    "a_row_per_class": (
        {"truth": np.repeat(EVENT, 2), "class": ["no", "yes"] * N, "prob": np.column_stack([1 - S, S]).ravel()},
        Refused(("a row per class", "pivot"), ("--label", "truth")),
    ),
    "numbered_names_in_another_order": (
        {f"prob_class_{k}": P[:, k] for k in (2, 0, 1)} | {"y": Y},
        Right(P, Y, said=("class_0, class_1, class_2",)),
    ),
    "decimal_names_in_another_order": ({"p_1.0": S, "p_0.0": 1 - S, "label": T.astype(float)}, TWO),
    "yes_before_no": ({"prob_yes": S, "prob_no": 1 - S, "label": T}, TWO),
    "the_negative_class_alone": ({"prob_neg": 1 - S, "label": T}, Right(S, T, said=("positive = 0",))),
    "the_class_0_alone": ({"prob_class_0": 1 - S, "y": T}, Right(S, T, said=("positive = 0",))),
    "names_beside_the_numbers_of_classes": (
        {"label": (Y + 1) % 3, "label_text": NAMES} | forms("p_{}"),
        Right(P, Y, said=("label = label_text",)),
    ),
    "r_columns_counted_from_1": ({f"V{k + 1}": P[:, k] for k in (2, 0, 1)} | {"y": Y + 1}, THREE),
    "capitals_in_the_prediction": (
        {"actual": NAMES, "predicted": np.char.upper(GUESS), "confidence": TOP},
        Right(TOP, HIT, "pairs"),
    ),
    "whole_percentages": (
        {"label": T, "p": np.round(100 * S).astype(int)},
        Right(np.round(100 * S) / 100, T, args=("--percent",)),
    ),
    "hard_predictions": ({"y_true": T, "y_pred": (S > 0.5).astype(int)}, Refused(("no probabilities",))),
    "questions_are_no_quantiles": ({"q1": S, "q2": S / 2, "label": T}, Refused(("no probabilities", "--proba q1"))),
    "rolling_features": ({"label": T, "p": S, "rolling_mean": S * 9, "rolling_std": S}, TWO),
    "numpy_2_shows_its_type": ({"label": T, "p": [f"np.float64({v})" for v in S]}, TWO),
    "decimals_far_below": (
        {"label": [1] * 10_100 + T.tolist(), "p": ["0"] * 10_100 + [str(v) for v in S]},
        Right(np.append(np.zeros(10_100), S), np.append(np.ones(10_100, dtype=int), T)),
    ),
    "negative_deviation": (
        {"y": NORMAL.y, "mean": S, "std": -SPREAD},
        Refused(("--std must not be negative", "line 2")),
    ),
    "point_forecast": ({"y_true": NORMAL.y, "y_pred": S * 3}, Refused(("no mean with variance", "--std"))),
    "uncertainty_of_what": (
        {"y_true": NORMAL.y, "y_pred": S, "uncertainty": SPREAD},
        Refused(("no mean with variance", "--variance or --std")),
    ),
    "credit_score": ({"label": T, "score": 300 + 500 * S}, Refused(("lie in [0, 1]", "into probabilities"))),
    "link_of_a_regression": (
        {"y": T, ".fitted": np.log(S / (1 - S)), ".hat": S / 9},
        Refused(("--proba .fitted", "--space logit")),
    ),
    "labels_missing_among_numbers": (
        forms("p_{}") | {"label": [None, *Y[1:].tolist()]},
        Refused(("a label in every row", "line 2")),
    ),
    "first_line_is_data": (
        {str(P[0, 0] + 1e-9): P[1:, 0], str(1 - P[0, 0]): 1 - P[1:, 0], "cat": NAMES[1:]},
        Refused(("no names of columns",)),
    ),
}


def _enter(name: str, columns: dict[str, Any], expected: Expected) -> None:
    def maker(path: Path) -> Expected:
        pl.DataFrame({key: list(values) for key, values in columns.items()}, strict=False).write_csv(path)
        return expected

    maker.__name__ = name
    case(".csv")(maker)


for _name, (_columns, _expected) in COLUMNS.items():
    _enter(_name, _columns, _expected)


@case(".csv")
def title_above_the_header(path: Path) -> Expected:
    text(path, ["Export of 12.03.2026;;;", ";;;", *wide(WORDS, sep=";")])
    return THREE


@case(".csv")
def blank_lines_between(path: Path) -> Expected:
    text(path, [line for row in wide(WORDS) for line in (row, "")])
    return THREE


@case(".txt")
def sqlite_columns(path: Path) -> Expected:
    text(path, ["id  label  p     ", "--  -----  ------", *[f"{i:<3d} {T[i]}      {S[i]}" for i in range(N)]])
    return TWO


@case(".jsonl")
def bigquery_numbers_as_text(path: Path) -> Expected:
    text(path, [json.dumps({"label": str(T[i]), "p": str(S[i])}) for i in range(N)])
    return TWO


@case(".jsonl")
def spark_vectors_in_json(path: Path) -> Expected:
    rows = [{"label": float(Y[i]), "probability": {"type": 1, "values": P[i].tolist()}} for i in range(N - 1)]
    sparse = {"type": 0, "size": 3, "indices": [int(Y[-1])], "values": [1.0]}
    text(path, [json.dumps(row) for row in [*rows, {"label": float(Y[-1]), "probability": sparse}]])
    return Right(np.vstack([P[:-1], np.eye(3)[Y[-1]]]), Y)


@case(".json")
def names_beside_lists(path: Path) -> Expected:
    path.write_text(json.dumps({"labels": NAMES.tolist(), "probs": P.tolist(), "classes": list(CLASSES)}))
    return THREE


@case(".json")
def names_nowhere_beside_lists(path: Path) -> Expected:
    path.write_text(json.dumps({"labels": NAMES.tolist(), "probs": P.tolist()}))
    return Refused(("whole class indices", "one column each, or an array classes"))


@case(".jsonl")
def confidence_as_fractions(path: Path) -> Expected:
    text(path, [json.dumps({"confidence": f"{round(10 * TOP[i])}/10", "correct": bool(HIT[i])}) for i in range(N)])
    return Right(np.round(10 * TOP) / 10, HIT, "pairs")


@case(".csv.zip")
def pandas_zip(path: Path) -> Expected:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("preds.csv", "\n".join(wide(WORDS)))
    return THREE


@case(".npz")
def arrays_without_names(path: Path) -> Expected:
    np.savez(path, P, Y)
    return Refused(("--proba arr_0 --label arr_1",))


@case(".parquet")
def objects_in_parquet(path: Path) -> Expected:
    pl.DataFrame({"label": NAMES, "probs": [dict(zip(CLASSES, row, strict=True)) for row in P.tolist()]}).write_parquet(
        path
    )
    return THREE


@case(".parquet")
def numbers_as_text_in_parquet(path: Path) -> Expected:
    pl.DataFrame({"label": T.astype(str), "p": S.astype(str)}).write_parquet(path)
    return TWO


@case(".jsonl")
def nested_prediction(path: Path) -> Expected:
    rows = [{"label": GUESS[i], "probabilities": dict(zip(CLASSES, P[i].tolist(), strict=True))} for i in range(N)]
    text(path, [json.dumps({"truth": NAMES[i], "prediction": rows[i]}) for i in range(N)])
    return THREE


@case(".npy")
def keras_column_and_labels_in_text(path: Path) -> Expected:
    """``model.predict`` of a sigmoid is a matrix of one column; the labels stand in a text file, one in each line."""
    np.save(path, S[:, None])
    labels = path.with_name("labels.txt")
    labels.write_text("y\n" + "\n".join(map(str, T)) + "\n")
    return Right(S, T, args=("--label", str(labels)))


@case(".npy")
def one_hot_labels_beside_npy(path: Path) -> Expected:
    """Labels after ``to_categorical``."""
    np.save(path, P)
    labels = path.with_name("labels.npy")
    np.save(labels, np.eye(3)[Y])
    return Right(P, Y, args=("--label", str(labels)), said=("one-hot",))


@case(".npy")
def labels_in_text_of_other_rows(path: Path) -> Expected:
    """A text file with fewer labels than rows."""
    np.save(path, P)
    labels = path.with_name("labels.txt")
    labels.write_text("0\n1\n")
    return Refused(("2 lines for 60 rows",), args=("--label", str(labels)))


@case(".csv")
def delimiter_after_every_row(path: Path) -> Expected:
    """A printing loop ends its rows, but not its first line, with a comma."""
    path.write_text("label,score\n" + "".join(f"{t},{s},\n" for t, s in zip(T, S, strict=True)))
    return Refused(("a delimiter at the end of every row",))


@case(".jsonl")
def lists_of_log_probabilities(path: Path) -> Expected:
    """The log-softmax of PyTorch, one list in each row."""
    p = np.clip(P, 1e-9, 1)
    rows = zip(Y, np.log(p / p.sum(axis=1, keepdims=True)), strict=True)
    path.write_text("".join(json.dumps({"target": int(y), "log_probs": z.tolist()}) + "\n" for y, z in rows))
    return Right(p, Y)


@case(".csv")
def weight_of_patients(path: Path) -> Expected:
    """A feature called weight, which is not asked to weigh anything."""
    pl.DataFrame({"label": T, "score": S, "weight": np.linspace(50, 90, N)}).write_csv(path)
    return Right(S, T, args=("--weight", "none"))
