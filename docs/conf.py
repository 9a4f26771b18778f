"""The documentation: built offline, warnings are errors, reference pages written from the declarations."""

import os
import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
os.environ.setdefault("MPLBACKEND", "agg")
sys.path.insert(0, str(HERE))

import generate  # noqa: E402

import calibrant  # noqa: E402

generate.write_pages(HERE / "generated")

project = "calibrant"
author = "The calibrant developers"
version = release = calibrant.__version__
extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "images"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["deflist", "smartquotes"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"(?:^|[\\/])(?!plot_)[^\\/]+\.py$",  # those train networks: shown by `generate`, not run
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": "True",
    "min_reported_time": 1e9,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "calibrant"
html_static_path = ["_static"]
html_css_files = ["calibrant.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"generated/**": ["page-toc"], "reference/*": ["page-toc"]},  # guides need the width
    "show_prev_next": True,
    "navigation_with_keys": False,
    "use_edit_page_button": False,
}
#: Columns of terminal output.
WIDTH = 100
copyright = f"{author}; Apache License 2.0"


def tidy_docstring(app, what, name, obj, options, lines):  # noqa: ARG001  -- the signature Sphinx calls
    """Show a docstring as it is written: |x| is an absolute value, and each reference has a line of its own."""
    section, listed = "", False
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and set(lines[i + 1].strip()) == {"-"}:
            section, listed = line.strip(), False
        elif section == "References" and re.match(r"\[\d+\] ", line):
            lines[i], listed = f"* {line}", True
        elif listed:
            lines[i] = f"  {line.strip()}".rstrip()
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", lines[i])
            lines[i] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def fold_sentences(app, docname, source):  # noqa: ARG001  -- the signature Sphinx calls
    """Fold long sentences of terminal output as a terminal does; tables stay whole and scroll inside their box."""
    lines, inside = [], False
    for line in source[0].split("\n"):
        if line.startswith("```") or (inside and line[:1].strip() and docname.startswith("gallery")):
            inside = line.startswith("```console")
        elif line.strip() == ".. code-block:: none":
            inside = True
        if inside and len(line) > WIDTH and "  " not in line.strip() and not line.startswith("$ "):
            indent = line[: len(line) - len(line.lstrip())]
            lines += textwrap.wrap(
                line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        else:
            lines.append(line)
    source[0] = "\n".join(lines)


def setup(app):
    """Register what runs during the build; before numpydoc, which has the priority 500."""
    app.connect("autodoc-process-docstring", tidy_docstring, priority=400)
    app.connect("source-read", fold_sentences)
