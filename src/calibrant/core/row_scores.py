"""Scores of single rows, written once as programs; what they expect of themselves follows.

A mean score declares the block S of *possible* scores from the block of probabilities: S[i, k] is the score of row i
if the truth were class k. It does so by calling the methods of a `ScoreGraph`, so the same description runs in NumPy,
in torch and as expressions of a frame. Everything else is derived here, in the same language:

- the observed score x = S[i, y], without computing the other columns where the formula works entry by entry;
- the moments of the score when the truth is drawn from the forecast itself, m1 = Σ p S, m2 = Σ p (S − m1)² and
  m3 = Σ p (S − m1)³, with 0·∞ = 0: a class of probability 0 never comes.

Scores of top-label pairs (confidence s, correct t) are the same with the two "classes" wrong and right: their block of
probabilities is (1 − s, s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.programs import Graph, Node, Program, Step

__all__ = ["COLUMNS", "RowScore", "ScoreGraph", "depends_on_truth", "infinite_at_zero", "possible_scores", "program"]

#: What is computed of each score: the observed one, its excess over m1, and m2, m3.
COLUMNS = ("x", "excess", "m2", "m3")
#: Operations that work entry by entry, so that picking a column may come first.
_ENTRYWISE = frozenset(
    ("add", "sub", "mul", "div", "greater", "not_less", "exp", "log", "sqrt", "sigmoid", "maximum", "minimum", "where")
)


class ScoreGraph(Graph):
    """Records a row score: `p` is the block of probabilities (n, K), `log_p` its logarithm.

    `log_p` comes from the logits themselves where they are known, and is −inf at an exact zero. Equal steps are
    recorded once, so scores described on one graph share what they have in common.

    Examples
    --------
    >>> graph = ScoreGraph(2)
    >>> brier = graph.sum(graph.p * graph.p) + 1.0 - 2.0 * graph.p
    >>> graph.program(brier).run([[0.25, 0.75]])
    array([[1.125, 0.125]])
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.n_classes = n_classes
        self._known: dict[Any, Node] = {}
        self._picked: dict[int, Node] = {}

    @property
    def p(self) -> Node:
        """Probabilities, (n, K)."""
        return self.x

    @property
    def log_p(self) -> Node:
        """Log-probabilities, (n, K)."""
        return self._add("log_input")

    @property
    def label(self) -> Node:
        """Index of the truth, (n, 1)."""
        return self._add("label")

    def p_log_p(self) -> Node:
        """Return p·log p of every class, 0 at p = 0."""
        return self.where(self.p > 0.0, self.p * self.log_p, 0.0)

    def _add(self, op: str, inputs: Sequence[Any] = (), arrays: Sequence[Any] = (), **options: Any) -> Node:
        nodes = tuple(self._node(value).index for value in inputs)
        constants = tuple(np.asarray(a, dtype=np.float64) for a in arrays)
        key = (op, nodes, tuple((a.shape, a.tobytes()) for a in constants), tuple(sorted(options.items())))
        if key not in self._known:
            self.steps.append(Step(op, nodes, constants, options))
            self._known[key] = Node(self, len(self.steps) - 1)
        return self._known[key]

    def width(self, node: Node) -> int:
        """Return the number of columns of a value: K, or 1 where it is the same for every class."""
        step = self.steps[node.index]
        match step.op:
            case "sum" | "max" | "truth" | "log_truth" | "label" | "pick":
                return 1
            case "constant":
                return int(step.arrays[0].shape[-1]) if step.arrays[0].ndim else 1
            case "columns":
                return int(step.options["stop"] - step.options["start"])
            case "concat":
                return sum(self.width(Node(self, i)) for i in step.inputs)
            case "input" | "log_input":
                return self.n_classes
            case _:
                return max((self.width(Node(self, i)) for i in step.inputs), default=self.n_classes)

    def shortcut(self, node: Node, observed: Node) -> Node:
        """Return `node`, of which the entry at the truth is known by a shorter way."""
        self._picked[node.index] = observed
        return node

    def observed(self, node: Node) -> Node:
        """Return the entry at the truth of each row, (n, 1): picked as early as the formula allows."""
        if node.index in self._picked:
            return self._picked[node.index]
        step = self.steps[node.index]
        if self.width(node) == 1:
            found = node
        elif step.op == "input":
            found = self._add("truth")
        elif step.op == "log_input":
            found = self._add("log_truth")
        elif step.op in _ENTRYWISE:
            found = self._add(step.op, [self.observed(Node(self, i)) for i in step.inputs])
        else:
            found = self._add("pick", (node, self.label))
        self._picked[node.index] = found
        return found


RowScore: TypeAlias = Callable[[ScoreGraph], Node]


@lru_cache(maxsize=256)
def _possible(score: RowScore, n_classes: int) -> Program:
    graph = ScoreGraph(n_classes)
    return graph.program(score(graph))


def possible_scores(score: RowScore, p: Array) -> Floats:
    """Return S (n, K): the score of each row for every possible truth; p holds probabilities (n, K)."""
    wide = np.asarray(p, dtype=np.float64)

    def logs() -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(wide))

    found = _possible(score, wide.shape[1]).run(wide, {"log_input": logs})
    return np.asarray(np.broadcast_to(found, wide.shape))


@lru_cache(maxsize=256)
def depends_on_truth(score: RowScore) -> bool:
    """Whether the score of a row depends on what happened (the confidence and the entropy do not)."""
    graph = ScoreGraph(2)
    return graph.width(score(graph)) > 1


@lru_cache(maxsize=256)
def infinite_at_zero(score: RowScore) -> bool:
    """Whether a truth of probability 0 makes the score infinite."""
    return not bool(np.isfinite(possible_scores(score, np.array([[1.0, 0.0]]))).all())


@lru_cache(maxsize=64)
def program(scores: tuple[RowScore, ...], n_classes: int, *, null: bool) -> Program:
    """Return the program of all columns of several scores, side by side.

    Each score has one column x, or with `null` the four of `COLUMNS`. Its sources are "log_input", "truth" and
    "log_truth" (p and log p of the truth, (n, 1)) and "label" (its index, (n, 1)).
    """
    graph = ScoreGraph(n_classes)
    parts = []
    for score in scores:
        block = score(graph)
        x = graph.observed(block)
        parts.append(x)
        if null:
            parts += _moments(graph, score, block, x)
    return graph.program(graph.concat(parts))


def _moments(graph: ScoreGraph, score: RowScore, block: Node, x: Node) -> list[Node]:
    """Return x − m1, m2 and m3; central from the start, because raw third moments of sharp forecasts cancel."""
    if not depends_on_truth(score):
        return [graph.sum(graph.p) * 0.0] * 3
    p = graph.p
    if infinite_at_zero(score):
        block = graph.where(p > 0.0, block, 0.0)  # 0·∞ = 0: what never comes does not count
    share = p / graph.sum(p)  # rows may miss 1 by rounding
    m1 = graph.sum(share * block)
    gap = block - m1
    second = share * gap * gap
    return [x - m1, graph.sum(second), graph.sum(second * gap)]


def pair_block(score: Array) -> Floats:
    """Return the block (1 − s, s) of top-label confidences: the probabilities of "wrong" and "right"."""
    s = np.asarray(score, dtype=np.float64)
    return np.stack([1.0 - s, s], axis=1)


def observed_rows(score: RowScore, p: Array, codes: Ints) -> Floats:
    """Return S(p, y) of each row from probabilities (n, K) and class indices."""
    wide, label = np.asarray(p, dtype=np.float64), np.asarray(codes)[:, None]
    found = program((score,), wide.shape[1], null=False).run(wide, array_sources(wide, label))
    return np.asarray(np.broadcast_to(found, label.shape)[:, 0])


def array_sources(wide: Floats, label: Ints) -> dict[str, Callable[[], Any]]:
    """Return the sources of a score program for plain arrays of probabilities and labels (n, 1)."""

    def log(x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(x))

    def truth() -> Floats:
        return np.take_along_axis(wide, label, axis=1)

    return {
        "log_input": lambda: log(wide),
        "truth": truth,
        "log_truth": lambda: log(truth()),
        "label": lambda: label,
    }
