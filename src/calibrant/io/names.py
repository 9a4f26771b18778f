"""Names that columns and arrays go by, role by role: the one place where a new synonym is added.

Every role has two rows. Names of the first row are the standard: the first that is there is taken. Names of the
second row are synonyms, in any case: they count when no standard name is there, and two of them are one too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from calibrant._typing import Space  # brings NumPy, which the help of the command line does without

__all__ = [
    "CONFIDENCE", "CORRECT", "DEVIATION", "LAST", "MEAN", "MEAN_BESIDE", "NUMBERED", "OUTCOME", "PART_STEMS",
    "PLAINLY_TRUTH", "PREDICTED", "SINGLE", "TOP_LABELS", "TOP_SCORES", "TRUTH", "VARIANCE", "WEIGHT", "WIDE",
    "Names", "ScoreNames", "proba_name"
]  # fmt: skip


class Names(NamedTuple):
    """Names of one role: the standard ones in order, and their synonyms."""

    standard: tuple[str, ...]
    synonyms: tuple[str, ...] = ()


class ScoreNames(NamedTuple):
    """Names of scores with what they hold; None: the name does not say whether logits or probabilities."""

    standard: tuple[tuple[str, Space | None], ...]
    synonyms: tuple[tuple[str, Space | None], ...] = ()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _scores(text: str) -> tuple[tuple[str, Space | None], ...]:
    """Return names of scores; those with ``log`` in them hold logits or log-probabilities."""
    return tuple((name, "logit" if "log" in name else "proba") for name in text.split())


#: The class that came true.
TRUTH = Names(
    ("label", "labels"),
    _words(
        "y y_true target targets truth ground_truth gold class outcome label_id label_ids true_label true_labels"
        " true_class gold_label ground_truth_label groundtruth gt actual actual_label actual_class y_test y_actual obs"
        " observed reference expected response_variable true_y label_true labels_true klasse classe wahrheit vérité"
        " verite tatsächlich réel clase etichetta"
    ),
)
#: Names that say that the truth itself is meant, where a column ``label`` may be what a pipeline predicted.
PLAINLY_TRUTH = _words(
    "y_true truth ground_truth gold true_label true_labels true_class gold_label ground_truth_label actual"
    " actual_label actual_class expected reference"
)
#: The value that came true (regression).
OUTCOME = Names(
    ("y", "label", "labels"),
    _words("y_true target targets truth ground_truth outcome observed obs actual y_test value true_value"),
)
WEIGHT = Names(("weight", "weights"), ("sample_weight", "sample_weights"))
#: One column per class; a star stands for the class.
WIDE = ScoreNames(
    (("p_*", "proba"), ("logit_*", "logit")),
    _scores(
        "prob_* probs_* proba_* probability_* probability(*) prob(*) p(*) p.* prob.* proba.* score_* scores_* .pred_*"
        " pred_proba_* pred_prob_* y_prob_* y_proba_* y_score_* class_*_probability softmax_* logits_* logit.*"
        " logprob_* log_prob_* logp_* *_prob *_proba *_probability *_probabilities *_score *_logit *_logits *_logprob"
    ),
)
#: One column for all classes: a list, a matrix, or the probability of the second of two classes.
SINGLE = ScoreNames(
    (("probs", "proba"), ("logits", "logit"), ("prob", "proba"), ("score", "proba")),
    (
        *_scores(
            "p proba probability probabilities y_prob y_proba y_score logit y_logit y_scores y_probs y_pred_proba"
            " y_pred_prob pred_proba pred_prob pred_probs predicted_probability predicted_probabilities"
            " predicted_proba predicted_prob predicted_risk prediction_score p_hat phat risk wahrscheinlichkeit"
            " probabilité probabilite probabilidad probabilità log_probs logprobs log_probabilities"
        ),
        *(("predictions", None), ("outputs", None), ("output", None), ("pred", "proba")),
    ),
)
#: Names that hold a probability, a class or a value, as it comes: taken last, and only where their numbers are
#: probabilities that differ.
LAST = _words("y_pred y_hat yhat prediction predicted fitted forecast output")
#: Names of the classes 0, 1, 2 and so on, or 1, 2, 3, without a sign between: ``p0``, ``class1``.
NUMBERED = _words("p prob proba class c probability")
#: Scores and labels of the few best classes, a star for their number.
TOP_SCORES = _words("scores_top* top*_scores top*_prob top*_probs top*_score topk_scores")
TOP_LABELS = _words("labels_top* top*_labels top*_pred top*_preds top*_label topk_labels")
#: Confidence of the top label, whether it was right, and the label itself.
CONFIDENCE = Names(
    ("confidence", "conf"),
    _words(
        "top_score top_prob top1_prob top1_score top_1_prob max_prob max_probability max_proba p_max pmax"
        " verbalized_confidence verbalised_confidence verbal_confidence stated_confidence model_confidence"
        " answer_confidence confidence_score self_confidence pred_confidence prediction_confidence konfidenz confiance"
    ),
)
CORRECT = Names(
    ("correct",),
    _words(
        "is_correct was_correct hit correctness iscorrect right is_right judged_correct judge_correct exact_match acc"
    ),
)
PREDICTED = Names(
    ("pred",),
    _words(
        "prediction predicted predict predicted_label predicted_labels predicted_class pred_label pred_labels"
        " pred_class y_pred .pred_class prediction_label scored_label scored_labels top1_label top_1_label top1_class"
        " top1_pred top_label top_class"
    ),
)
#: Predicted mean, variance and standard deviation.
MEAN = Names(("mean",), _words("mu pred_mean y_mean"))
#: Names of the mean that count only beside a variance or standard deviation.
MEAN_BESIDE = Names((), _words("y_pred y_hat yhat pred prediction predicted forecast predicted_mean"))
#: What stands before a variance or standard deviation: ``forecast_std``, ``y_pred_var``.
_OF = _words("pred prediction predicted forecast y y_pred y_hat yhat mean mu")
VARIANCE = Names(("variance",), ("var", "sigma2", *(f"{of}_{word}" for of in _OF for word in ("var", "variance"))))
DEVIATION = Names(
    ("std",),
    (
        *_words("sigma stddev std_dev stdev sd standard_deviation"),
        *(f"{of}_{word}" for of in _OF for word in ("std", "sd", "sigma", "stddev", "stdev")),
    ),
)
#: Names that may carry the name of a part: ``probs_cal``, ``labels_test``.
PART_STEMS = frozenset(
    (
        *TRUTH.standard,
        *OUTCOME.standard,
        *WEIGHT.standard,
        *(name for name, _ in SINGLE.standard if name != "score"),
        *CONFIDENCE.standard,
        *CORRECT.standard,
        *PREDICTED.standard,
        *MEAN.standard,
        *VARIANCE.standard,
        *DEVIATION.standard,
        "outcome",
    )
)


def proba_name(name: str) -> str:
    """Return the name of a column or array after its logits have become probabilities; other names stay.

    Examples
    --------
    >>> [proba_name(name) for name in ("logit_cat", "logits", "logits_test", "cat_logit", "p_cat")]
    ['p_cat', 'probs', 'probs_test', 'cat_prob', 'p_cat']
    """
    low = name.lower()
    if low.startswith("logit_"):
        return "p_" + name[len("logit_") :]
    if low.startswith("logits"):
        return "probs" + name[len("logits") :]
    if low.startswith("logit"):
        return "prob" + name[len("logit") :]
    for tail, new in (("_logits", "_probs"), ("_logit", "_prob")):
        if low.endswith(tail):
            return name[: -len(tail)] + new
    return name
