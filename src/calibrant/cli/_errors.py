"""Errors in the words of the command line: arguments of the library become flags, here and nowhere else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import click

from calibrant.errors import CalibrantError, FileError, InputError, spell

__all__ = ["in_flags", "in_one_line", "usage"]

#: Paths of temporary files, which nobody asked for.
_TEMPORARY = re.compile(r"\S*\.[0-9a-f]{8}-\d+-[0-9a-f]{8}\.tmp")
#: Arguments of the library that the command line calls by another name.
ALIASES = {
    "y_true": "label",
    "y_proba": "proba",
    "sample_weight": "weight",
    "rng": "seed",
    "compare_methods": "no_compare",
    "data": "file",
    "frame": "file",
    "folder": "out",
}


def _flags(command: click.Command) -> dict[str, tuple[str, bool]]:
    """Return the flag of every option of a command, and whether it takes no value."""
    found = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name:
            flag = next((opt for opt in parameter.opts if opt.startswith("--")), parameter.opts[0])
            found[parameter.name] = found[flag.lstrip("-").replace("-", "_")] = (flag, parameter.is_flag)
        elif isinstance(parameter, click.Argument) and parameter.name:
            found[parameter.name] = (parameter.make_metavar(click.Context(command)).strip("[]"), False)
    return found


def in_flags(error: CalibrantError, command: click.Command) -> CalibrantError:
    """Return the same error, its arguments written as the flags of a command."""
    flags = _flags(command)

    def look(argument: str) -> tuple[str, bool] | None:
        return (
            flags.get(argument)
            or flags.get(ALIASES.get(argument, ""))
            or (flags.get("before") if argument == "data" else None)
        )

    def word(argument: str, value: str | None) -> str:
        found = look(argument)
        if found is None:
            return f"--{argument.replace('_', '-')}" + (f" {value}" if value and value != "True" else "")
        flag, bare = found
        return flag if bare or value is None else f"{flag} {shlex.quote(value)}"

    if isinstance(error, FileError) and error.hint:
        return _say(error, error.sentence(word))
    if isinstance(error, InputError) and error.argument is not None:
        found = look(error.argument)
        name = found[0] if found is not None else error.argument
        hint = spell(error.hint or "", word)
        return _say(error, f"{name} must {spell(error.rule or '', word)}; got {error.got}{error.where}. Hint: {hint}.")
    return error


def in_one_line(error: BaseException) -> str:
    """Return what to say about anything that ends a command."""
    from calibrant.core.atomic import disk_is_full

    if isinstance(error, CalibrantError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = f"not enough memory ({error or 'none is left'}). Hint: check the size the file claims, or use --engine"
    elif isinstance(error, RecursionError):
        text = "the input is nested too deeply. Hint: check how it was written"
    elif disk_is_full(error):
        text = "the disk is full. Hint: free some space, or choose another disk"
    elif isinstance(error, OSError) and error.strerror:
        about = error.filename if isinstance(error.filename, str) else ""
        text = f"{about}: {error.strerror}" if about else error.strerror
    else:
        text = f"calibrant failed ({type(error).__name__}: {error}). Hint: CALIBRANT_TRACEBACK=1 shows where"
    return _TEMPORARY.sub("the output", " ".join(text.split()))


def _say(error: CalibrantError, sentence: str) -> CalibrantError:
    """Change what an error says, not what it is."""
    error.args = (sentence,)
    return error


@contextmanager
def usage(command: click.Command) -> Iterator[None]:
    """Turn a wrong word on the command line into an error of usage (exit code 2), in the command's own flags."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(in_flags(error, command))) from error
