"""Write the reference pages from what the code declares; nothing in them is typed by hand.

``python docs/generate.py`` rewrites the two pages that are kept in the repository, ``docs/reference/cli.md`` and
``docs/reference/cli-plugins.md``; the build calls `write_pages` for everything under ``docs/generated``.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import tomllib
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import calibrant

HERE = Path(__file__).resolve().parent
CLI_PAGE = HERE / "reference" / "cli.md"
PLUGIN_PAGE = HERE / "reference" / "cli-plugins.md"
#: Packages of this repository that add commands.
PLUGIN_PACKAGES = ("papers", "benchmarks")
REGENERATE = "python docs/generate.py"
#: Subpackages with a page of public names, in the order of the index; metrics and calibrators have pages of their own.
SUBPACKAGES = (
    "workflows", "views", "estimators", "metrics", "scores", "inference", "calibrators", "regression", "selective",
    "evidence", "datasets", "io", "summary", "engines", "monitoring", "plots", "reporting", "torch",
    "testing", "errors",
)  # fmt: skip
#: What an engine can do with each kind of state.
STATES = {"score sums": "yes", "table": "yes, from fine cells or bins", "all rows": "no: needs all rows at once"}


def write_pages(folder: Path) -> None:
    """Write every generated page into `folder`, replacing what was there only where it changed."""
    _INDEXED.clear()
    pages = {
        **metric_pages(), **calibrator_pages(), **subpackage_pages(),
        "metrics.md": metric_index(), "calibrators.md": calibrator_index(), "api.md": subpackage_index(),
        "capabilities.md": capability_page(), "api/calibrant.md": top_page(), "tables.md": table_index(),
        **example_pages(),
    }  # fmt: skip
    for old in folder.rglob("*.md") if folder.exists() else ():
        if old.relative_to(folder).as_posix() not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# -- pieces ----------------------------------------------------------------------------------------


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table."""
    lines = [list(head)]
    lines += [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def autodoc(directive: str, name: str, **options: str) -> str:
    """Return one autodoc directive inside a Markdown page."""
    extra = "".join(f"\n   :{key.replace('_', '-')}: {value}" for key, value in options.items())
    return f"```{{eval-rst}}\n.. {directive}:: {name}{extra}\n```"


#: Classes that have a page already: a second one, under another name, does not enter the index.
_INDEXED: dict[Any, str] = {}


def document(path: str, item: Any) -> str:
    """Return the directive that documents one public object."""
    if inspect.isclass(item):
        own = [name for name, value in vars(item).items() if not name.startswith("_") and _explained(value)]
        more = {"members": ", ".join(own), "member_order": "bysource"} if own else {}
        if _INDEXED.setdefault(item, path) != path:
            more["no_index"] = ""
        return autodoc("autoclass", path, **more)
    if callable(item):
        return autodoc("autofunction", path)
    return autodoc("autodata", path)


def _explained(value: Any) -> bool:
    value = getattr(value, "__func__", value)
    return (inspect.isfunction(value) or isinstance(value, property)) and bool(value.__doc__)


def summary(item: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(item) or "").partition("\n")[0]


def yes(flag: bool) -> str:
    """Return a flag in words."""
    return "yes" if flag else "no"


# -- metrics ---------------------------------------------------------------------------------------


def every_metric() -> list[Any]:
    """Return the metrics of both tasks, class probabilities first."""
    return [listing[name] for listing in map(calibrant.list_metrics, ("classes", "regression")) for name in listing]


def page_of(metric: Any) -> str:
    """Return the name of a metric's page: two tasks may have one name."""
    return metric.name if metric.task == "classes" else f"regression-{metric.name}"


def metric_pages() -> dict[str, str]:
    """Return one page per metric: its declaration, then its docstring."""
    return {f"metrics/{page_of(metric)}.md": _metric_page(metric) for metric in every_metric()}


def _metric_page(metric: Any) -> str:
    direction = {True: "smaller is better", False: "larger is better", None: "neither"}[metric.smaller_is_better]
    sides = {"lower": "a lower bound of ", "upper": "an upper bound of "}
    rows = [
        ("short name", f"`{metric.name}`"),
        ("function", f"`calibrant.metrics.{metric.function}`"),
        ("for", {"classes": "class probabilities", "regression": "means and variances"}[metric.task]),
        ("shows", metric.plain),
        ("judges", metric.notion),
        ("estimates", sides.get(metric.bound or "", "") + metric.estimates),
        ("direction", direction),
        ("perfect value", "–" if metric.perfect is None else f"{metric.perfect:g}"),
        ("range", f"{metric.range[0]:g} … {metric.range[1]:g}"),
        ("proper score", yes(metric.proper)),
        ("consistent", yes(metric.consistent)),
        ("weakness", metric.weakness),
        ("parameters", ", ".join(f"`{p.name}={p.default!r}`" for p in metric.parameters().values()) or "none"),
        ("cost", metric.cost),
        ("state", metric.state),
        ("paper", metric.paper),
        ("since", metric.since),
    ]
    call = f"```sh\ncalibrant evaluate preds.npz --metric {metric.name}\ncalibrant explain {metric.name}\n```"
    body = autodoc("autofunction", f"calibrant.metrics.{metric.function}")
    return f"# {metric.name}: {metric.title}\n\n{table(('', ''), rows)}\n\n{call}\n\n{body}\n"


def metric_index() -> str:
    """Return the list of metrics with what each estimates, and the taxonomy."""
    from calibrant.metrics.taxonomy import taxonomy_text

    rows = [
        (
            f"[`{m.name}`](metrics/{page_of(m)}.md)",
            m.title,
            {"classes": "class probabilities", "regression": "means and variances"}[m.task],
            m.plain,
            m.cost,
        )
        for m in every_metric()
    ]
    toc = "\n".join(f"metrics/{page_of(m)}" for m in every_metric())
    return (
        "# Metrics\n\nEvery number `calibrant` can compute, read from its declaration.\n\n"
        f"{table(('name', 'title', 'of', 'shows', 'cost'), rows)}\n\n"
        f"## Who bounds whom\n\n```text\n{taxonomy_text()}\n```\n\n"
        f"```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )


# -- calibrators -----------------------------------------------------------------------------------


def calibrator_pages() -> dict[str, str]:
    """Return one page per method: when to use it and when not, what it keeps, its docstring."""
    return {f"calibrators/{r['name']}.md": _calibrator_page(r) for r in calibrant.list_calibrators().records()}


def _calibrator_page(record: dict[str, Any]) -> str:
    count = record["n_parameters_10"]
    rows = [
        ("class", f"`calibrant.calibrators.{record['name']}`"),
        ("short name", f"`{record['short_name']}`"),
        ("preserves the predicted class (top-1)", yes(record["preserves_argmax"])),
        ("preserves every ranking", yes(record["preserves_order"])),
        ("one-to-one", yes(record["injective"])),
        ("can give exact 0 or 1", yes(record["may_saturate"])),
        ("free numbers at 10 classes", "grows with the rows" if count is None else count),
        ("minimizes", record["default_loss"]),
        ("exports", ", ".join(record["exports"]) or "JSON file only"),
        ("paper", record["paper"]),
    ]
    import calibrant.calibrators as methods

    body = document(f"calibrant.calibrators.{record['name']}", getattr(methods, record["name"]))
    when = f"## When to use it, and when not\n\n{record['when']}"
    facts = f"## What it declares\n\n{table(('', ''), rows)}"
    return f"# {record['title']}\n\n{when}\n\n{facts}\n\n## The class\n\n{body}\n"


def calibrator_index() -> str:
    """Return the list of methods with their properties."""
    records = calibrant.list_calibrators().records()
    head = ("method", "short name", "preserves top-1", "preserves order", "one-to-one", "exact 0/1", "when")
    rows = [
        (
            f"[{r['name']}](calibrators/{r['name']}.md)", f"`{r['short_name']}`", yes(r["preserves_argmax"]),
            yes(r["preserves_order"]), yes(r["injective"]), yes(r["may_saturate"]), r["when"],
        )
        for r in records
    ]  # fmt: skip
    toc = "\n".join(f"calibrators/{r['name']}" for r in records)
    return (
        "# Calibrators\n\nEvery method, with the properties it declares and the contract suite proves.\n\n"
        f"{table(head, rows)}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )


# -- subpackages -----------------------------------------------------------------------------------


def public_names(package: Any) -> list[str]:
    """Return the public names of a subpackage: its ``__all__``, or what it defines."""
    listed = getattr(package, "__all__", None)
    if listed is None:
        listed = [
            name for name, value in vars(package).items() if not name.startswith("_") and inspect.isfunction(value)
        ]
    return sorted(listed, key=str.lower)


def elsewhere() -> dict[str, str]:
    """Return the public names that have a page outside their subpackage's page: full name -> link target."""
    pages = {}
    for metric in every_metric():
        for package in ("metrics", "regression"):
            pages[f"{package}.{metric.function}"] = f"../metrics/{page_of(metric)}.md"
    for name in calibrant.list_calibrators():
        pages[f"calibrators.{name}"] = f"../calibrators/{name}.md"
    for name, home in calibrant._HOMES.items():  # the one list of top-level names
        pages[f"{home}.{name}"] = "calibrant.md"
    return pages


def subpackage_pages() -> dict[str, str]:
    """Return one page per subpackage."""
    known = elsewhere()
    return {f"api/{package}.md": _subpackage_page(package, known) for package in SUBPACKAGES}


def _subpackage_page(name: str, known: dict[str, str]) -> str:
    package = import_module(f"calibrant.{name}")
    links, bodies = [], []
    verbs = [public for public, home in calibrant._HOMES.items() if home.startswith(f"{name}.")]
    for public in sorted({*public_names(package), *verbs}, key=str.lower):
        item = getattr(calibrant if public in verbs else package, public)
        target = "calibrant.md" if public in verbs else known.get(f"{name}.{public}")
        if inspect.isfunction(item) and item.__name__ != public:  # a short name
            links.append((f"`{public}`", f"`{item.__name__}`"))
        elif target:
            links.append((f"[`{public}`]({target})", summary(item)))
        elif not inspect.ismodule(item):
            bodies.append(document(f"calibrant.{name}.{public}", item))
    parts = [f"# calibrant.{name}", summary(package)]
    if links:
        parts.append(table(("name", "what it is"), links))
    return "\n\n".join([*parts, *bodies]) + "\n"


def top_page() -> str:
    """Return the page of the names that `import calibrant` offers."""
    names = sorted(calibrant._HOMES, key=str.lower)
    bodies = [
        f"`calibrant.{name}` is [`calibrant.calibrators.{name}`](../calibrators/{name}.md)."
        if name in calibrant.list_calibrators()
        else document(f"calibrant.{name}", getattr(calibrant, name))
        for name in names
    ]
    return "\n\n".join(["# calibrant", summary(calibrant), *bodies]) + "\n"


def subpackage_index() -> str:
    """Return the list of subpackages."""
    rows = [("[`calibrant`](api/calibrant.md)", summary(calibrant))]
    rows += [
        (f"[`calibrant.{package}`](api/{package}.md)", summary(import_module(f"calibrant.{package}")))
        for package in SUBPACKAGES
    ]
    toc = "\n".join(f"api/{package}" for package in ("calibrant", *SUBPACKAGES))
    return f"# Library\n\n{table(('subpackage', 'what is in it'), rows)}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"


# -- capabilities ----------------------------------------------------------------------------------


def capability_page() -> str:
    """Return which metric works where, from parameters and state."""
    rows = []
    for m in every_metric():
        params = m.parameters()
        rows.append((
            f"[`{m.name}`](metrics/{page_of(m)}.md)",
            *(yes(name in params) for name in ("view", "norm", "convention")),
            yes(m.build().top_label_only), m.state,
            STATES[m.state] if m.task == "classes" else "no: rows only", yes(m.default),
        ))  # fmt: skip
    head = (
        "metric", "any view", "any norm", "conventions", "top-label pairs", "state", "Summary, Polars, DuckDB, Spark",
        "in the default table",
    )  # fmt: skip
    return (
        "# What works where\n\nRead from the declarations. Weights, class names, logits and every container work "
        "everywhere; a metric that needs all rows at once is refused by engines, with the reason.\n\n"
        f"{table(head, rows)}\n"
    )


# -- tables ----------------------------------------------------------------------------------------


def table_index() -> str:
    """Return the list of tables that long commands have written into ``docs/tables``."""
    entries = []
    for path in sorted((HERE / "tables").glob("*.md")):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        entries.append(f"{first.removeprefix('# ') if first.startswith('# ') else path.stem} <../tables/{path.stem}>")
    toc = f"\n\n```{{toctree}}\n\n{chr(10).join(entries)}\n```\n" if entries else "\n"
    return (
        "# Tables\n\nWritten by commands that take long (`calibrant bench`, `calibrant study coverage`, "
        f"`calibrant reproduce`, `calibrant train`), never by hand.{toc}"
    )


# -- examples --------------------------------------------------------------------------------------


def example_pages() -> dict[str, str]:
    """Return one page per script that is shown but not run in the gallery, because it trains a network."""
    pages = {}
    for path in sorted((HERE.parent / "examples").glob("*.py")):
        if not path.name.startswith("plot_"):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
            title, _, about = docstring.partition("\n")
            about = about.strip().strip("=").strip()
            show = f"```{{literalinclude}} ../../../examples/{path.name}\n:language: python\n```"
            pages[f"examples/{path.stem}.md"] = f"# {title.rstrip('.')}\n\n{about}\n\n{show}\n"
    toc = "\n".join(name.removesuffix(".md") for name in pages)
    pages["examples.md"] = (
        "# Scripts that train networks\n\nThey need `calibrant[torch]`; run them with Python.\n\n"
        f"```{{toctree}}\n\n{toc}\n```\n"
    )
    return pages


# -- command line ----------------------------------------------------------------------------------


def cli_page() -> str:
    """Return the command-line reference: the help text of every command of a plain install."""
    about = f"The help text of every command, as printed by `--help`. Regenerate this page with `{REGENERATE}`."
    more = "Further commands come with [other packages](cli-plugins.md)."
    parts = [f"# Command line\n\n{about} {more}", f"## calibrant\n\n```text\n{help_text()}\n```"]
    group = command_group()
    for name in group.own:
        parts.append(f"## calibrant {name}\n\n```text\n{help_text(name)}\n```")
        subs = getattr(group.get_command(None, name), "commands", {})
        parts.extend(f"### calibrant {name} {sub}\n\n```text\n{help_text(name, sub)}\n```" for sub in subs)
    return "\n\n".join(parts) + "\n"


def plugin_page() -> str:
    """Return the reference of the commands that the packages beside calibrant add."""
    about = (
        "Commands that packages of their own add to `calibrant` (entry point group `calibrant.commands`): "
        f"`calibrant-papers` and `calibrant-benchmarks`. Regenerate this page with `{REGENERATE}`."
    )
    parts = [f"# Commands of other packages\n\n{about}"]
    parts += [f"## calibrant {name}\n\n```text\n{help_text(name)}\n```" for name in plugin_points()]
    return "\n\n".join(parts) + "\n"


def plugin_points() -> dict[str, EntryPoint]:
    """Return the commands that the packages of this repository declare, installed or not."""
    found = {}
    for package in PLUGIN_PACKAGES:
        project = tomllib.loads((HERE.parent / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for group, points in project["entry-points"].items():
            found |= {name: EntryPoint(name=name, value=value, group=group) for name, value in points.items()}
    return found


def command_group(*, plugins: bool = False) -> Any:
    """Return the command line of a plain install, or with the commands of the packages of this repository."""
    from calibrant.cli import CommandFolder, cli

    group = CommandFolder(
        cli.name,
        params=cli.params,
        help=cli.help,
        epilog=cli.epilog,
        context_settings=cli.context_settings,
    )
    group.plugins = plugin_points() if plugins else {}
    return group


def help_text(*words: str) -> str:
    """Return what ``calibrant … --help`` prints on a wide terminal."""
    from click.testing import CliRunner

    group = command_group(plugins=bool(words))
    found = CliRunner().invoke(group, [*words, "--help"], prog_name="calibrant", terminal_width=100)
    if found.exit_code:
        raise RuntimeError(f"calibrant {' '.join(words)} --help failed: {found.output}")
    return found.output.rstrip()


def main() -> None:
    """Rewrite the pages that are kept in the repository."""
    CLI_PAGE.parent.mkdir(exist_ok=True)
    CLI_PAGE.write_text(cli_page(), encoding="utf-8")
    PLUGIN_PAGE.write_text(plugin_page(), encoding="utf-8")
    shutil.rmtree(HERE / "generated", ignore_errors=True)


if __name__ == "__main__":
    main()
