"""Docstrings of families: what every member shares is written once and filled in where a member is declared.

A metric's function writes its summary, its own parameters, notes and an example. The rest of the page (input columns,
weights, direction, weakness, cost, paper) comes from this file and from the declaration, so no fact is written twice.
Calibrators, losses and pictures write what they share next to their base, and `fill` adds it.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, TypeVar

__all__ = ["PARAMETERS", "complete", "fill", "read_sections"]

_Documented = TypeVar("_Documented")

#: Fill a paragraph; the words that metrics share are filled once for all of them.
_fill = functools.cache(functools.partial(textwrap.fill, width=110))
#: Parameters that mean the same in every metric of a task: name -> (type, words).
PARAMETERS: dict[str, dict[str, tuple[str, str]]] = {
    "classes": {
        "y_true": ("array-like of shape (n,)", "Class indices, or any labels with `classes`."),
        "y_proba": ("array-like of shape (n, K) or (n,)", "Probabilities, or the probability of class 1."),
        "n_bins": ("int", "Number of bins."),
        "bins": ('{"width", "mass"}', "Equal width or equal mass."),
        "view": ("View or str", "Which pairs (score, outcome) are judged: a view or its name."),
        "norm": ("float", "p ≥ 1, or inf for the maximum."),
        "convention": (
            "str or None",
            'Another code\'s bin edges by name: "nixon", "kull", "gruber", "torchmetrics", "netcal".',
        ),
        "sample_weight": (
            "array-like of shape (n,), optional",
            "Frequencies: an integer weight equals repeated rows.",
        ),
        "classes": (
            "array-like of shape (K,), optional",
            "Names of the columns, in order, when `y_true` holds names.",
        ),
        "space": ('{"proba", "logit"}', "What `y_proba` holds; logits go through softmax in float64."),
        "normalize": ("bool", "Rescale rows to sum 1 (decimals rounded in a file)."),
    },
    "regression": {
        "y_true": ("array-like of shape (n,)", "Truth."),
        "mean": (
            "array-like of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast",
            "Predicted means; a forecast object stands for mean and variance.",
        ),
        "variance": (
            "array-like of shape (n,), optional",
            "Predicted variances, positive; none next to an object.",
        ),
        "levels": (
            "int or increasing levels in (0, 1)",
            "Levels of the quantiles; a whole number m means j/(m + 1), j = 1 … m.",
        ),
        "sample_weight": (
            "array-like of shape (n,), optional",
            "Frequencies: an integer weight equals repeated rows.",
        ),
        "rng": ("None, int or Generator", "Coins for samples and quantiles, whose distributions have steps."),
    },
}


def read_sections(doc: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by title; what stands before the first has the title ''."""
    lines = inspect.cleandoc(doc).splitlines()
    heads = [i for i, line in enumerate(lines[1:]) if line and set(line) == {"-"} and len(line) == len(lines[i])]
    sections = {"": "\n".join(lines[: heads[0]] if heads else lines).strip()}
    for start, stop in zip(heads, [*heads[1:], len(lines)] if heads else [], strict=True):
        sections[lines[start]] = "\n".join(lines[start + 2 : stop]).strip("\n")
    return sections


def _entries(section: str) -> dict[str, str]:
    """Return the written parameters by name, or by names that share an entry: "low, high"."""
    entries: dict[str, list[str]] = {}
    name = ""
    for line in section.splitlines():
        if line and not line.startswith(" "):
            name = line.partition(" :")[0]
            entries[name] = []
        entries[name].append(line)
    return {name: "\n".join(lines).rstrip() for name, lines in entries.items()}


def _parameter(parameter: inspect.Parameter, shared: Mapping[str, tuple[str, str]]) -> str:
    kind, words = shared[parameter.name]
    default = parameter.default
    if default is not inspect.Parameter.empty and default is not None and "optional" not in kind:
        kind += f', default "{default}"' if isinstance(default, str) else f", default {default}"
    elif default is None and "optional" not in kind and "None" in kind:
        kind += ", default None"
    return f"{parameter.name} : {kind}\n{textwrap.indent(_fill(words), '    ')}"


def complete(function: Any, *, task: str, about: str, notes: str, paper: str) -> str:
    """Return the whole docstring of a metric's function.

    Parameters
    ----------
    function : callable
        Its docstring holds a summary line and any of the sections Parameters (its own only), Returns, Notes,
        References, Examples.
    task : str
        Whose shared parameters are filled in.
    about, notes, paper : str
        Second paragraph, last line of Notes, and reference [1] if none is written.
    """
    written = read_sections(function.__doc__ or "")
    summary, _, more = written[""].partition("\n\n")
    own = _entries(written.get("Parameters", ""))
    parameters = [
        own.get(name) or _parameter(parameter, PARAMETERS[task])
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    sections = {
        "Parameters": "\n".join(parameters),
        "Returns": written.get("Returns", "float\n    The value."),
        "Raises": written.get("Raises", "InputError\n    Columns that break a rule above, by argument and row."),
        "Notes": "\n".join(part for part in (written.get("Notes", ""), notes) if part),
        "References": written.get("References", f"[1] {_fill(paper)}." if paper != "–" else ""),
        "Examples": written.get("Examples", ""),
    }
    parts = [summary, _fill(about), more]
    parts += [f"{title}\n{'-' * len(title)}\n{body}" for title, body in sections.items() if body]
    return "\n\n".join(part for part in parts if part) + "\n"


def fill(member: _Documented, shared: str) -> _Documented:
    """Complete the docstring of a function or class from that of its family, and return it.

    Parameters
    ----------
    member : function or class
        Its own words come first. Parameters stand in the order of its signature.
    shared : str
        Docstring with a section Parameters, of which those are taken that `member` has and does not describe, and
        other sections, taken where `member` has none.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> fill(lambda classes: None, brier_score.__doc__).__doc__ is None  # nothing to complete
    True
    """
    if not member.__doc__:  # python -OO
        return member
    written, family = read_sections(member.__doc__), read_sections(shared)
    own, more = (_entries(sections.pop("Parameters", "")) for sections in (written, family))
    names: list[str] = list(inspect.signature(member).parameters)  # type: ignore[arg-type]  # a function or class
    described = {name for key in own for name in key.split(", ")}
    wanted = set(names) - described
    own |= {key: entry for key, entry in more.items() if wanted.issuperset(key.split(", "))}
    order = sorted(own, key=lambda key: names.index(key.split(", ")[0]))
    sections = {"": "", "Parameters": "\n".join(own[key] for key in order)} | family | written
    member.__doc__ = "\n\n".join(
        f"{title}\n{'-' * len(title)}\n{body}" if title else body for title, body in sections.items() if body
    )
    return member
