"""The command line: one file per command, each found by its name and loaded when asked for.

Other packages add commands through the entry point group ``calibrant.commands``.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NoReturn

import click

from calibrant.cli._errors import in_flags, in_one_line
from calibrant.cli._text import emit, silence
from calibrant.errors import CalibrantError, is_panic

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Entry points by which other packages add commands.
PLUGINS = "calibrant.commands"
#: Commands that packages of this project add, for whoever asks for one that is not installed.
ADDED_BY = {
    "bench": "calibrant-benchmarks",
    "reproduce": "calibrant-papers",
    "study": "calibrant-papers",
    "train": "calibrant-papers",
}

#: Arguments that hold nothing but words of the command line: an error of theirs is one of usage.
WORDS = ("metrics", "view", "by", "n_bins")
#: Commands in the order in which they are needed.
STORY = ("evaluate", "fit", "apply", "compare", "check", "report", "monitor", "explain", "demo")
#: What others call our commands.
_MEANT = {
    "fit": "calibrate recalibrate",
    "evaluate": "measure eval score ece",
    "apply": "predict transform",
    "compare": "diff",
    "check": "gate test",
    "report": "plot html",
    "monitor": "watch drift",
    "explain": "help describe",
}
MEANT = {word: name for name, words in _MEANT.items() for word in words.split()}


def is_file_name(word: str) -> bool:
    """Whether a word in the place of a command names a file of predictions."""
    return Path(word).suffix.lower() in {*".csv .tsv .npz .parquet .jsonl .json .arrow .npy .eval".split()}  # noqa: SIM905


class CommandFolder(click.Group):
    """A group whose commands are the modules of this package that define `command`, and the plug-ins."""

    @cached_property
    def own(self) -> tuple[str, ...]:
        """Names of the commands of this package."""
        return tuple(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Commands of other packages, not loaded yet; none of them replaces one of ours."""
        from importlib.metadata import entry_points  # slow to import; our own commands do without it

        return {point.name: point for point in entry_points(group=PLUGINS) if point.name not in self.own}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the names of all commands in the order of the story, those of other packages last."""
        told = [name for name in STORY if name in self.own]
        return [*told, *sorted(set(self.own) - set(told)), *sorted(self.plugins)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in the order of the story, with whole summaries."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=200)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find a command; an unknown one gets the nearest names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not error.message.startswith("No such command"):
                raise
            import difflib

            every = self.list_commands(ctx)
            word = args[0].lower()
            near = difflib.get_close_matches(MEANT.get(word, word), every, 1, 0.5) or [n for n in every if n in word]
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(every)}"
            if is_file_name(args[0]):
                hint = f"did you mean 'calibrant evaluate {shlex.quote(args[0])}'?"
            raise click.UsageError(f"No such command {args[0]!r}. Hint: {hint}", ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in self.own:
            command: click.Command = import_module(f"{__name__}.{cmd_name}").command
            return command
        if cmd_name in self.plugins:
            return _load(self.plugins[cmd_name])
        if cmd_name in ADDED_BY:
            package = ADDED_BY[cmd_name]
            raise click.UsageError(f"{cmd_name} comes with {package}. Hint: pip install {package}.", ctx)
        return None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its errors speak of flags, and what it read is said on standard error."""
        reader = _Reader()
        log = logging.getLogger("calibrant.read")
        level = log.level
        log.addHandler(reader)
        log.setLevel(logging.INFO)
        scan = logging.getLogger("calibrant.scan")  # files that were left out
        scan.addHandler(reader)
        try:
            return super().invoke(ctx)
        except CalibrantError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            said = error if command is None else in_flags(error, command)
            if getattr(error, "argument", None) in WORDS:
                raise click.UsageError(str(said)) from error
            raise said from error.__cause__
        finally:
            log.removeHandler(reader)
            scan.removeHandler(reader)
            log.setLevel(level)


def _load(point: EntryPoint) -> click.Command:
    """Import a plug-in; one that fails becomes a command that says so in one line."""
    try:
        found = point.load()
        if isinstance(found, click.Command):
            return found
        reason = f"{point.value} is not a click command"
    except Exception as error:  # foreign code may fail in any way
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    package = point.dist.name if point.dist else point.value
    line = f"the command {point.name} of {package} cannot be loaded ({reason})"

    def fail() -> NoReturn:
        raise CalibrantError(f"{line}. Hint: install {package} again, or remove it.")

    anything = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(point.name, callback=fail, context_settings=anything, short_help=f"Broken: {reason}.")


class _Reader(logging.Handler):
    """Writes what was read as what to standard error; the same line only once."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        line = f"{'note' if getattr(record, 'note', False) else 'read'}: {record.getMessage()}"
        if line not in self._said:
            self._said.add(line)
            emit(line, err=True)


@click.command(
    cls=CommandFolder,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: calibrant evaluate preds.npz",
)
@click.version_option(package_name="calibrant")
def cli() -> None:
    """Know whether a model's probabilities can be trusted, repair them, prove how much it helped."""


def main() -> NoReturn:
    """Run the command line: 0 done, 1 data wrong, 2 usage wrong, 3 gate failed or alarm, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):  # a name need not be UTF-8, and must still be shown
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        emit("interrupted; nothing half-written was left behind", err=True)
        code = 130
    except click.ClickException as error:  # of usage: 2
        try:
            error.show()
        except OSError:
            silence(sys.stderr)
        code = error.exit_code
    except BrokenPipeError:  # who read our output has gone; nothing is left to be said
        silence(sys.stdout)
        code = 1
    except Exception as error:
        code = _fail(error)
    except BaseException as error:
        if not is_panic(error):
            raise
        code = _fail(error)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: BaseException) -> int:
    """Say in one line what went wrong; a fault of our own shows where when asked."""
    if os.environ.get("CALIBRANT_TRACEBACK"):
        raise error
    emit(f"error: {in_one_line(error)}", err=True)
    return 1
