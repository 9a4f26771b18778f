"""Everything public is documented, and the pages that are kept equal what the code says now."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

import calibrant
from calibrant.cli import cli
from helpers import ROOT

COMMANDS = cli.own
#: Commands of the packages in papers/ and benchmarks/.
PLUGINS = ("bench", "reproduce", "study", "train")
#: Subpackages a bare development environment can import; torch comes with `make test`.
SUBPACKAGES = (
    "calibrators", "datasets", "engines", "errors", "estimators", "evidence", "inference", "io", "metrics", "monitoring",
    "plots", "regression", "reporting", "scores", "selective", "summary", "testing", "torch", "views",
    "workflows",
)  # fmt: skip
#: Public functions without a runnable example of their own, and why.
NO_EXAMPLE = {
    "open_paths": "gives an engine's own object",
    "null_distribution": "works on recipes, not on arrays",
    "require": "imports an optional library",
    "refresh_batch_norm": "needs a trained network",
    "summarize": "behind calibrant.report, or engines.summarize, which has one",
}


def words(text: str) -> list[str]:
    return text.split()


def test_command_line_page_is_up_to_date(generate):
    kept = generate.CLI_PAGE.read_text(encoding="utf-8")
    assert words(kept) == words(generate.cli_page()), f"docs/reference/cli.md is stale; run: {generate.REGENERATE}"


def test_page_of_plugin_commands_is_up_to_date(generate):
    _plugins_or_skip()
    assert sorted(generate.plugin_points()) == list(PLUGINS)
    kept = generate.PLUGIN_PAGE.read_text(encoding="utf-8")
    assert words(kept) == words(generate.plugin_page()), f"{generate.PLUGIN_PAGE.name} is stale; {generate.REGENERATE}"


def _plugins_or_skip():
    for package in ("calibrant_papers", "calibrant_benchmarks"):
        pytest.importorskip(package, reason=f"{package} is not installed (make test installs it)")


@pytest.mark.parametrize("command", [*COMMANDS, *PLUGINS])
def test_every_command_is_documented_with_an_example(generate, command):
    if command in PLUGINS:
        _plugins_or_skip()
    text = generate.help_text(command)
    assert re.search(rf"Examples?: calibrant {command}\b", " ".join(words(text))), f"{command} --help has no example"
    page = generate.PLUGIN_PAGE if command in PLUGINS else generate.CLI_PAGE
    assert f"## calibrant {command}\n" in page.read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "guide" / "command-line.md").read_text(encoding="utf-8")
    assert re.search(rf"`(calibrant )?{command}\b", guide), f"docs/guide/command-line.md does not name {command}"


@pytest.mark.parametrize("command", [*COMMANDS, *PLUGINS])
def test_every_option_is_explained(generate, command):
    if command in PLUGINS:
        _plugins_or_skip()
    group = generate.command_group(plugins=True)
    silent = [p.name for p in group.get_command(None, command).params if p.param_type_name == "option" and not p.help]
    assert not silent, f"options of {command} without help: {silent}"


@pytest.mark.parametrize("name", list(calibrant.list_metrics()))
def test_every_metric_has_a_page_and_a_full_docstring(generate, name):
    metric = calibrant.list_metrics()[name]
    page = generate.metric_pages()[f"metrics/{name}.md"]
    assert metric.weakness in page
    assert metric.paper in page
    doc = inspect.getdoc(getattr(calibrant.metrics, metric.function))
    for section in ("Parameters", "Returns", "Notes", "Examples"):
        assert f"{section}\n---" in doc, f"{metric.function} has no section {section}"
    assert f"calibrant.metrics.{metric.function}" in page


@pytest.mark.parametrize("name", list(calibrant.list_calibrators()))
def test_every_calibrator_says_when_to_use_it_and_when_not(generate, name):
    page = generate.calibrator_pages()[f"calibrators/{name}.md"]
    when = getattr(calibrant.calibrators, name).when
    assert when in page
    assert len(re.findall(r"[.;:!?](?:\s|$)", when)) >= 2, f"{name}.when must say when to use it and when not: {when!r}"
    doc = inspect.getdoc(getattr(calibrant.calibrators, name))
    for section in ("Parameters", "Examples"):
        assert f"{section}\n---" in doc, f"{name} has no section {section}"


def test_every_subpackage_is_listed(generate):
    assert set(generate.SUBPACKAGES) == set(SUBPACKAGES)
    assert set(generate.SUBPACKAGES) == set(calibrant._SUBPACKAGES) - {"core"} | {"evidence"}


@pytest.mark.parametrize("package", SUBPACKAGES)
def test_every_public_name_has_a_summary(generate, package):
    if package == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    module = import_module(f"calibrant.{package}")
    assert generate.summary(module), f"calibrant.{package} has no docstring"
    silent = [
        name
        for name in generate.public_names(module)
        if (inspect.isclass(item := getattr(module, name)) or inspect.isfunction(item)) and not inspect.getdoc(item)
    ]
    assert not silent, f"public names of calibrant.{package} without a docstring: {silent}"


@pytest.mark.parametrize("name", sorted(calibrant._HOMES))
def test_every_top_level_function_has_an_example(name):
    item = getattr(calibrant, name)
    if inspect.isfunction(item):
        assert "Examples\n---" in inspect.getdoc(item), f"calibrant.{name} has no example"


@pytest.mark.parametrize("package", [package for package in SUBPACKAGES if package not in {"plots"}])  # long; pictures
def test_every_public_function_has_an_example(generate, package):
    if package == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    module = import_module(f"calibrant.{package}")
    functions = [name for name in generate.public_names(module) if inspect.isfunction(getattr(module, name))]
    silent = [n for n in functions if n not in NO_EXAMPLE and "Examples\n---" not in inspect.getdoc(getattr(module, n))]
    assert not silent, f"functions of calibrant.{package} without an example: {silent}"


def test_capabilities_cover_every_metric(generate):
    page = generate.capability_page()
    assert all(f"[`{name}`]" in page for name in calibrant.list_metrics())
