"""The command line: one file per command, each found by its name and loaded when asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import NoReturn

import click

from calibrant.errors import CalibrantError, MissingExtraError


class CommandFolder(click.Group):
    """A group whose commands are the modules of this package that define `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the names of all commands."""
        return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return command


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
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.UsageError as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing half-written was left behind", err=True)
        code = 130
    except MissingExtraError as error:
        click.echo(f"error: {error}", err=True)
        code = 1
    except (CalibrantError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
