"""The exception family: every error is ours *and* the builtin a caller would expect."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = [
    "CalibrantError", "CalibrantWarning", "ConvergenceWarning", "CoverageWarning",
    "FileError", "InputError", "MissingExtraError", "NotFittedError", "UndefinedWarning", "WeightsWarning",
    "input_error", "python_word", "require", "spell"
]  # fmt: skip

_MARK = re.compile(r"\{([a-z_]+)(?:=([^{}]*))?\}")


def python_word(argument: str, value: str | None = None) -> str:
    """Return an argument as Python writes it.

    Examples
    --------
    >>> python_word("label"), python_word("space", "logit"), python_word("normalize", "True")
    ('label=', "space='logit'", 'normalize=True')
    """
    if value is None or value in ("True", "False", "None") or value.replace(".", "", 1).isdigit():
        return f"{argument}={value or ''}"
    return f"{argument}={value!r}"


def spell(text: str, word: Callable[[str, str | None], str] = python_word) -> str:
    """Write the arguments that a hint marks as ``{label}`` or ``{space=logit}`` in somebody's own words.

    The library writes them as Python arguments, the command line as its flags.

    Examples
    --------
    >>> spell("name the truth with {label}, or {space=logit}")
    "name the truth with label=, or space='logit'"
    """
    return _MARK.sub(lambda mark: word(mark[1], mark[2]), text)


class CalibrantError(Exception):
    """Base of every error raised on purpose by calibrant."""


def one_line(text: str, most: int = 200) -> str:
    r"""Return a text as one line of at most so many characters: the repr of an array has many of both.

    Examples
    --------
    >>> one_line("array([[0., 0.],\n       [0., 0.]])"), one_line("x" * 300)[-3:]
    ('array([[0., 0.], [0., 0.]])', 'xx…')
    """
    line = " ".join(text.splitlines()) if "\n" in text else text
    while "  " in line and line != text:
        line = line.replace("  ", " ")
    return line if len(line) <= most else line[: most - 1] + "…"


class InputError(CalibrantError, ValueError):
    """An argument broke a rule; the message names it, the first offending row and one action.

    Attributes
    ----------
    argument, caller, rule, got, hint : str or None
        The parts of the message, so that nobody needs to read the sentence: the argument as the caller of the
        library wrote it, the function, the rule, what came instead, and one action. The command line turns
        `argument` into its own flag. All are None when only a message was given.
    rows : tuple of int
        The first bad rows, counted from 0, where rows are to blame.
    n_rows : int
        How many rows are bad.
    first_line : int or None
        Line of the file that holds row 0; then rows are counted as an editor counts lines.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        argument: str | None = None,
        caller: str | None = None,
        rule: str | None = None,
        got: str | None = None,
        hint: str | None = None,
        rows: Sequence[int] = (),
        n_rows: int = 0,
        first_line: int | None = None,
    ) -> None:
        self.rows, self.n_rows, self.first_line = tuple(rows), n_rows or len(rows), first_line
        got = None if got is None else one_line(got)
        self.argument, self.caller, self.rule, self.got, self.hint = argument, caller, rule, got, hint
        super().__init__(message if message is not None else self.sentence())

    def sentence(self, argument: str | None = None, caller: str | None = None, hint: str | None = None) -> str:
        """Return the one message form, with other words for argument, caller or hint if given."""
        return (
            f"{argument or self.argument} of {caller or self.caller} must {spell(self.rule or '')}; "
            f"got {self.got}{self.where}. Hint: {spell(hint or self.hint or '')}."
        )

    @property
    def where(self) -> str:
        """Where the bad rows are: the first, how many more there are, and the next few of them."""
        if not self.rows:
            return ""
        word, start = ("row", 0) if self.first_line is None else ("line", self.first_line)
        first, *others = (row + start for row in self.rows)
        if self.n_rows < 2:
            return f" at {word} {first}"
        listed = ", ".join(map(str, others)) + (", …" if self.n_rows > len(self.rows) else "")
        more = f"{self.n_rows - 1:,} more {word}{'s' if self.n_rows > 2 else ''}"
        return f" at {word} {first}, and in {more}: {listed}" if others else f" at {word} {first}, and in {more}"

    def in_file(self, first_line: int) -> InputError:
        """Return the same error with its rows counted as lines of a file."""
        return self.renamed(first_line=first_line)

    def renamed(
        self,
        *,
        argument: str | None = None,
        caller: str | None = None,
        hint: str | None = None,
        first_line: int | None = None,
    ) -> InputError:
        """Return the same error in the words of another caller."""
        line = self.first_line if first_line is None else first_line
        parts = {"argument": argument or self.argument, "caller": caller or self.caller, "hint": hint or self.hint}
        return self._changed(None, {**parts, "first_line": line})

    def _changed(self, message: str | None, parts: Mapping[str, Any]) -> InputError:
        names = ("argument", "caller", "rule", "got", "hint", "rows", "n_rows", "first_line")
        return InputError(message, **{name: getattr(self, name) for name in names} | dict(parts))

    def with_names(self, names: dict[str, str]) -> InputError:
        """Return the same error with other names of arguments, also where rule and hint mention them."""

        def say(words: str | None) -> str | None:
            for old, new in names.items():
                words = None if words is None else words.replace(old, new)
            return words

        parts = {name: say(getattr(self, name)) for name in ("argument", "rule", "hint")}
        return self._changed(None if self.argument else say(str(self)), parts)


class FileError(CalibrantError, ValueError):
    """A file is missing, unreadable, foreign, damaged or holds no predictions.

    Attributes
    ----------
    problem, hint : str
        What is wrong, and one action (with arguments marked as in `spell`); the hint is empty when the message
        was given whole.
    """

    def __init__(self, problem: str, *, hint: str = "") -> None:
        self.problem, self.hint = (one_line(text, len(text)) for text in (problem, hint))  # a name may hold line ends
        super().__init__(self.sentence())

    def sentence(self, word: Callable[[str, str | None], str] = python_word) -> str:
        """Return the message, with arguments in somebody's own words."""
        return f"{self.problem}. Hint: {spell(self.hint, word)}." if self.hint else self.problem


class NotFittedError(CalibrantError, ValueError, AttributeError):
    """A calibrator was asked to predict before it was fitted."""


class MissingExtraError(CalibrantError, ImportError):
    """An optional library is needed; the message names the extra that installs it."""


class CalibrantWarning(UserWarning):
    """Base of every warning of calibrant."""


class ConvergenceWarning(CalibrantWarning):
    """A solver stopped before its tolerance, or the data do not determine the optimum."""


class WeightsWarning(CalibrantWarning):
    """Weights were given that a part of the work cannot take."""


class UndefinedWarning(CalibrantWarning):
    """A metric has no value on this input; nan is returned."""


class CoverageWarning(CalibrantWarning):
    """An interval was asked for whose coverage simulation does not support."""


def input_error(
    argument: str, caller: str, rule: str, got: str, hint: str, *, rows: Sequence[int] = (), n_rows: int = 0
) -> InputError:
    """Build the one message form every bad argument gets.

    Examples
    --------
    >>> str(input_error("level", "interval", "lie between 0 and 1", "2", "use 0.95"))
    'level of interval must lie between 0 and 1; got 2. Hint: use 0.95.'
    """
    return InputError(argument=argument, caller=caller, rule=rule, got=got, hint=hint, rows=rows, n_rows=n_rows)


def is_panic(error: BaseException) -> bool:
    """Whether an error is a library's own collapse (Rust's panic), which is no `Exception` in Python."""
    return type(error).__name__ == "PanicException"


def require(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {module}, which is not installed. Hint: pip install 'calibrant[{extra}]'."
        ) from error
