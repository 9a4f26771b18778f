"""Commands of other packages: listed, loaded when asked for, reported in one line when broken."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

import calibrant.cli
from calibrant.cli import CommandFolder, main

OWN = {
    "apply",
    "check",
    "compare",
    "demo",
    "evaluate",
    "explain",
    "fit",
    "merge",
    "monitor",
    "report",
    "summarize",
}


@click.command("greet")
@click.argument("name")
def greet(name: str) -> None:
    """Greet somebody."""
    click.echo(f"hello {name}")


def points(**values: str) -> list[EntryPoint]:
    return [EntryPoint(name=name, value=value, group="calibrant.commands") for name, value in values.items()]


@pytest.fixture
def group(monkeypatch, request):
    """The command line with the entry points given as parameter."""
    asked = []

    def found(*, group):
        asked.append(group)
        return points(**request.param)

    monkeypatch.setattr(importlib.metadata, "entry_points", found)
    folder = CommandFolder("calibrant")
    folder.asked = asked
    return folder


@pytest.mark.parametrize("group", [{}], indirect=True)
def test_a_plain_install_has_the_users_commands(group):
    assert set(group.list_commands(None)) == OWN


@pytest.mark.parametrize("group", [{"greet": "some_package:greet"}], indirect=True)
def test_a_plugin_is_listed_and_runs(group, monkeypatch):
    module = ModuleType("some_package")
    module.greet = greet
    monkeypatch.setitem(sys.modules, "some_package", module)
    assert set(group.list_commands(None)) == {*OWN, "greet"}
    assert group.list_commands(None)[0] == "evaluate"  # the order of the story
    assert group.asked == ["calibrant.commands"]
    answer = CliRunner().invoke(group, ["greet", "you"])
    assert (answer.exit_code, answer.output) == (0, "hello you\n")
    assert "Greet somebody." in CliRunner().invoke(group, ["--help"]).output


@pytest.mark.parametrize("group", [{"greet": "absent_package.commands:greet"}], indirect=True)
def test_own_commands_do_not_ask_for_plugins(group):
    assert group.get_command(None, "evaluate").name == "evaluate"
    assert group.asked == []


@pytest.mark.parametrize("group", [{"evaluate": "absent_package:evaluate"}], indirect=True)
def test_a_plugin_never_replaces_our_command(group):
    assert set(group.list_commands(None)) == OWN
    assert group.get_command(None, "evaluate").help.startswith("Measure calibration")


@pytest.mark.parametrize("group", [{"greet": "absent_package.commands:greet"}], indirect=True)
@pytest.mark.parametrize("words", [["greet"], ["greet", "you", "--loud"], ["greet", "--help"]])
def test_a_broken_plugin_says_so_in_one_line(group, words, monkeypatch, capsys):
    listing = CliRunner().invoke(group, ["--help"])
    assert listing.exit_code == 0
    assert "Broken: ModuleNotFoundError" in listing.output
    assert "evaluate" in listing.output
    monkeypatch.setattr(calibrant.cli, "cli", group)
    monkeypatch.setattr(sys, "argv", ["calibrant", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    talk = capsys.readouterr()
    assert stop.value.code == 1
    assert talk.out == ""
    assert talk.err.startswith("error: the command greet of absent_package.commands:greet cannot be loaded")
    assert talk.err.count("\n") == 1


@pytest.mark.parametrize("group", [{"greet": "math:pi"}], indirect=True)
def test_what_is_no_command_is_refused(group):
    answer = CliRunner().invoke(group, ["greet"])
    assert "math:pi is not a click command" in str(answer.exception)


@pytest.mark.parametrize("group", [{}], indirect=True)
@pytest.mark.parametrize(("command", "package"), sorted(calibrant.cli.ADDED_BY.items()))
def test_a_command_that_moved_names_its_package(group, command, package):
    answer = CliRunner().invoke(group, [command])
    assert answer.exit_code == 2
    assert f"{command} comes with {package}. Hint: pip install {package}." in answer.output


def test_the_command_line_starts_without_the_other_packages():
    code = (
        "import sys; from calibrant.cli import cli; cli.get_command(None, 'evaluate'); "
        "sys.exit(any(name.startswith(('calibrant_papers', 'calibrant_benchmarks')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
