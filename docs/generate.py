"""Write the reference pages from what the code declares; nothing in them is typed by hand.

``python docs/generate.py`` rewrites the one page that is kept in the repository, ``docs/reference/cli.md``; the build
calls `write_pages` for everything under ``docs/generated``.
"""

from __future__ import annotations

import ast
import inspect
import shutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import calibrant

HERE = Path(__file__).resolve().parent
CLI_PAGE = HERE / "reference" / "cli.md"
REGENERATE = "python docs/generate.py"
#: Rooms with a page of public names, in the order of the index; measures and calibrators have pages of their own.
ROOMS = (
    "views", "estimators", "metrics", "scores", "inference", "calibrators", "regression", "selective", "datasets",
    "engines", "plots", "reporting", "torch", "studies", "testing", "errors",
)  # fmt: skip
#: What an engine can do with each kind of state.
STATES = {"score sums": "yes", "table": "yes, from fine cells or bins", "all rows": "no: needs all rows at once"}


def write_pages(folder: Path) -> None:
    """Write every generated page into `folder`, replacing what was there only where it changed."""
    pages = {
        **measure_pages(), **calibrator_pages(), **room_pages(),
        "measures.md": measure_index(), "calibrators.md": calibrator_index(), "api.md": room_index(),
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


def document(path: str, item: Any) -> str:
    """Return the directive that documents one public object."""
    if inspect.isclass(item):
        own = [name for name, value in vars(item).items() if not name.startswith("_") and _explained(value)]
        more = {"members": ", ".join(own), "member_order": "bysource"} if own else {}
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


# -- measures --------------------------------------------------------------------------------------


def measure_pages() -> dict[str, str]:
    """Return one page per measure: its declaration, then its docstring."""
    measures = calibrant.list_measures()
    return {f"measures/{name}.md": _measure_page(measures[name]) for name in measures}


def _measure_page(measure: Any) -> str:
    direction = {True: "smaller is better", False: "larger is better", None: "neither"}[measure.smaller_is_better]
    sides = {"lower": "a lower bound of ", "upper": "an upper bound of "}
    rows = [
        ("short name", f"`{measure.name}`"),
        ("function", f"`calibrant.metrics.{measure.function}`"),
        ("judges", measure.notion),
        ("estimates", sides.get(measure.bound or "", "") + measure.estimates),
        ("direction", direction),
        ("perfect value", "–" if measure.perfect is None else f"{measure.perfect:g}"),
        ("range", f"{measure.range[0]:g} … {measure.range[1]:g}"),
        ("proper score", yes(measure.proper)),
        ("consistent", yes(measure.consistent)),
        ("weakness", measure.weakness),
        ("parameters", ", ".join(f"`{p.name}={p.default!r}`" for p in measure.parameters().values()) or "none"),
        ("cost", measure.cost),
        ("state", measure.state),
        ("paper", measure.paper),
        ("since", measure.since),
    ]
    call = f"```sh\ncalibrant evaluate preds.npz --measure {measure.name}\ncalibrant explain {measure.name}\n```"
    body = autodoc("autofunction", f"calibrant.metrics.{measure.function}")
    return f"# {measure.name}: {measure.title}\n\n{table(('', ''), rows)}\n\n{call}\n\n{body}\n"


def measure_index() -> str:
    """Return the list of measures with what each estimates, and the taxonomy."""
    from calibrant.metrics.taxonomy import taxonomy_text

    measures = calibrant.list_measures()
    sides = {"lower": "lower bound of ", "upper": "upper bound of "}
    rows = [
        (f"[`{m.name}`](measures/{m.name}.md)", m.title, m.notion, sides.get(m.bound or "", "") + m.estimates, m.cost)
        for m in (measures[name] for name in measures)
    ]
    toc = "\n".join(f"measures/{name}" for name in measures)
    return (
        "# Measures\n\nEvery number `calibrant` can compute, read from its declaration.\n\n"
        f"{table(('name', 'title', 'judges', 'estimates', 'cost'), rows)}\n\n"
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
        ("keeps the predicted class", yes(record["preserves_argmax"])),
        ("keeps every ranking", yes(record["preserves_order"])),
        ("one-to-one", yes(record["injective"])),
        ("can give exact 0 or 1", yes(record["may_saturate"])),
        ("free numbers at 10 classes", "grows with the rows" if count is None else count),
        ("minimises", record["default_loss"]),
        ("exports", ", ".join(record["exports"]) or "JSON file only"),
        ("paper", record["paper"]),
    ]
    import calibrant.calibrators as room

    body = document(f"calibrant.calibrators.{record['name']}", getattr(room, record["name"]))
    when = f"## When to use it, and when not\n\n{record['when']}"
    facts = f"## What it declares\n\n{table(('', ''), rows)}"
    return f"# {record['title']}\n\n{when}\n\n{facts}\n\n## The class\n\n{body}\n"


def calibrator_index() -> str:
    """Return the list of methods with their properties."""
    records = calibrant.list_calibrators().records()
    head = ("method", "short name", "class kept", "order kept", "one-to-one", "exact 0/1", "when")
    rows = [
        (
            f"[{r['name']}](calibrators/{r['name']}.md)", f"`{r['short_name']}`", yes(r["preserves_argmax"]),
            yes(r["preserves_order"]), yes(r["injective"]), yes(r["may_saturate"]), r["when"],
        )
        for r in records
    ]  # fmt: skip
    toc = "\n".join(f"calibrators/{r['name']}" for r in records)
    return (
        "# Calibrators\n\nEvery repair, with the properties it declares and the contract suite proves.\n\n"
        f"{table(head, rows)}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )


# -- rooms -----------------------------------------------------------------------------------------


def public_names(room: Any) -> list[str]:
    """Return the public names of a room: its ``__all__``, or what it defines."""
    listed = getattr(room, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(room).items() if not name.startswith("_") and inspect.isfunction(value)]
    return sorted(listed, key=str.lower)


def elsewhere() -> dict[str, str]:
    """Return the public names that have a page outside their room's page: full name -> link target."""
    measures, pages = calibrant.list_measures(), {}
    for name in measures:
        pages[f"metrics.{measures[name].function}"] = f"../measures/{name}.md"
    for name in calibrant.list_calibrators():
        pages[f"calibrators.{name}"] = f"../calibrators/{name}.md"
    for name, home in calibrant._HOMES.items():  # the one list of top-level names
        pages[f"{home}.{name}"] = "calibrant.md"
    return pages


def room_pages() -> dict[str, str]:
    """Return one page per room."""
    known = elsewhere()
    return {f"api/{room}.md": _room_page(room, known) for room in ROOMS}


def _room_page(name: str, known: dict[str, str]) -> str:
    room = import_module(f"calibrant.{name}")
    links, bodies = [], []
    for public in public_names(room):
        item = getattr(room, public)
        target = known.get(f"{name}.{public}")
        if target:
            links.append((f"[`{public}`]({target})", summary(item)))
        elif not inspect.ismodule(item):
            bodies.append(document(f"calibrant.{name}.{public}", item))
    parts = [f"# calibrant.{name}", summary(room)]
    if links:
        parts.append(table(("name", "what it is"), links))
    return "\n\n".join([*parts, *bodies]) + "\n"


def top_page() -> str:
    """Return the page of the names that `import calibrant` offers."""
    names = sorted(calibrant._HOMES, key=str.lower)
    bodies = [document(f"calibrant.{name}", getattr(calibrant, name)) for name in names]
    return "\n\n".join(["# calibrant", summary(calibrant), *bodies]) + "\n"


def room_index() -> str:
    """Return the list of rooms."""
    rows = [("[`calibrant`](api/calibrant.md)", summary(calibrant))]
    rows += [(f"[`calibrant.{room}`](api/{room}.md)", summary(import_module(f"calibrant.{room}"))) for room in ROOMS]
    toc = "\n".join(f"api/{room}" for room in ("calibrant", *ROOMS))
    return f"# Library\n\n{table(('room', 'what is in it'), rows)}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"


# -- capabilities ----------------------------------------------------------------------------------


def capability_page() -> str:
    """Return which measure works where, from parameters and state."""
    measures = calibrant.list_measures()
    rows = []
    for m in (measures[name] for name in measures):
        params = m.parameters()
        rows.append((
            f"[`{m.name}`](measures/{m.name}.md)",
            *(yes(name in params) for name in ("view", "norm", "convention")),
            yes(m.build().top_label_only), m.state, STATES[m.state], yes(m.panel),
        ))  # fmt: skip
    head = (
        "measure", "any view", "any norm", "conventions", "top-label pairs", "state", "Summary, Polars, DuckDB, Spark",
        "in the default table",
    )  # fmt: skip
    return (
        "# What works where\n\nRead from the declarations. Weights, class names, logits and every container work "
        "everywhere; a measure that needs all rows at once is refused by engines, with the reason.\n\n"
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
    """Return the command-line reference: the help text of every command."""
    from calibrant.cli import cli

    about = f"The help text of every command, as printed by `--help`. Regenerate this page with `{REGENERATE}`."
    parts = [f"# Command line\n\n{about}", f"## calibrant\n\n```text\n{help_text()}\n```"]
    for name in cli.list_commands(None):
        parts.append(f"## calibrant {name}\n\n```text\n{help_text(name)}\n```")
        subs = getattr(cli.get_command(None, name), "commands", {})
        parts.extend(f"### calibrant {name} {sub}\n\n```text\n{help_text(name, sub)}\n```" for sub in subs)
    return "\n\n".join(parts) + "\n"


def help_text(*words: str) -> str:
    """Return what ``calibrant … --help`` prints on a wide terminal."""
    from click.testing import CliRunner

    from calibrant.cli import cli

    found = CliRunner().invoke(cli, [*words, "--help"], prog_name="calibrant", terminal_width=100)
    if found.exit_code:
        raise RuntimeError(f"calibrant {' '.join(words)} --help failed: {found.output}")
    return found.output.rstrip()


def main() -> None:
    """Rewrite the pages that are kept in the repository."""
    CLI_PAGE.parent.mkdir(exist_ok=True)
    CLI_PAGE.write_text(cli_page(), encoding="utf-8")
    shutil.rmtree(HERE / "generated", ignore_errors=True)


if __name__ == "__main__":
    main()
