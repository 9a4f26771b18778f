"""Formulas of the most used metrics as MathML, behind one click; the others are written out by their docstring."""

from __future__ import annotations

from calibrant.reporting.svg import Markup, tag

__all__ = ["formula"]


def _t(name: str, *content: str) -> Markup:
    return tag(name, *content)


def _i(*names: str) -> tuple[Markup, ...]:
    return tuple(_t("mi", name) for name in names)


def _o(sign: str) -> Markup:
    return _t("mo", sign)


def _sub(base: Markup, index: str) -> Markup:
    return _t("msub", base, _t("mi", index))


def _sum(index: str) -> Markup:
    return _t("munder", _o("∑"), _t("mi", index))


def _over(top: Markup, bottom: Markup) -> Markup:
    return _t("mfrac", top, bottom)


def _word(word: str) -> Markup:
    return _t("mtext", word)


def _gap(said: str, seen: str, index: str) -> tuple[Markup, ...]:
    return (_o("|"), _sub(_word(said), index), _o("−"), _sub(_word(seen), index), _o("|"))


def formula(name: str) -> Markup | None:
    """Return the formula of a metric by its short name, None where there is none.

    Examples
    --------
    >>> formula("ece").startswith("<math>"), formula("auc")
    (True, None)
    """
    n = _t("mi", "n")
    mean = _over(_t("mn", "1"), n)
    ece = (*_i("ECE"), _o("="), _sum("g"), _over(_sub(n, "g"), n), *_gap("claimed", "right", "g"))
    path = (_sum("i ≤ j"), _o("("), _sub(_t("mi", "s"), "i"), _o("−"), _sub(_t("mi", "t"), "i"), _o(")"))
    ks = (*_i("KS"), _o("="), _t("munder", _o("max"), _t("mi", "j")), mean, _o("|"), *path, _o("|"))
    squares = (_sum("k"), _t("msubsup", _t("mi", "CE"), _t("mi", "k"), _t("mn", "2")))
    cwce = (*_i("CWCE"), _o("="), tag("msqrt", *squares))
    distance = (
        _o("("),
        _sub(_t("mi", "p"), "ik"),
        _o("−"),
        _sub(_t("mi", "y"), "ik"),
        _t("msup", _o(")"), _t("mn", "2")),
    )
    brier = (*_i("Brier"), _o("="), mean, _sum("i"), _sum("k"), *distance)
    nll = (_word("log loss"), _o("="), _o("−"), mean, _sum("i"), _t("mi", "log"), _sub(_t("mi", "p"), "i,true"))
    known = {"ece": ece, "ks": ks, "cwce": cwce, "brier": brier, "nll": nll}
    return tag("math", *known[name]) if name in known else None
