"""Text tables as programs really write them: delimiter, decimal comma, encoding, comments, row names, grids.

`sniff` looks at the first lines and says how a file is written; `read_text` reads it so. Nothing here knows what the
columns mean.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from calibrant.core.text import count
from calibrant.errors import FileError
from calibrant.io.cells import number_like, tidy_cells
from calibrant.io.layout import note

__all__ = ["Dialect", "read_text", "sniff"]

#: How much of a file is looked at.
HEAD = 1 << 18
#: Lines that decide between delimiters.
LINES = 40
DELIMITERS = (",", ";", "\t", "|")
_RULE = re.compile(r"[-+|=\s]*[-=]{2,}[-+|=\s]*")
_FOOTER = re.compile(r"\(?\d+ rows?( in set.*| affected.*)?\)?")
_DECIMAL = re.compile(r'"?[-+]?\d*,\d+([eE][-+]?\d+)?\s?%?"?')


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    separator: str = ","
    decimal_comma: bool = False
    comments: bool = False
    #: Lines before the header: comments, blank lines, the ``sep=;`` of a spreadsheet.
    skipped: int = 0
    encoding: str = "utf-8"
    #: Why the text has to be written anew before a plain reader takes it: spaces, a grid, row names.
    odd: str | None = None


def sniff(head: bytes, source: str = "the file") -> Dialect:
    r"""Return how a text table is written.

    Examples
    --------
    >>> sniff(b"label;p_cat;p_dog\ncat;0,9;0,1\n").separator
    ';'
    >>> sniff(b"label;p_cat;p_dog\ncat;0,9;0,1\n").decimal_comma
    True
    """
    encoding = _encoding(head)
    lines = head.decode(encoding, "replace").lstrip("\ufeff").splitlines()
    if len(head) >= HEAD and len(lines) > 2:
        lines = lines[:-1]  # cut in the middle
    said = re.fullmatch(r'"?sep=(.)"?', lines[0].strip()) if lines else None
    skipped = 0
    while skipped < len(lines) and (
        not lines[skipped].strip() or _before_header(lines, skipped) or (said and not skipped)
    ):
        skipped += 1
    comments = any(line.startswith("#") for line in lines[:skipped])
    skipped += 0 if said else _titles(lines[skipped:])
    body = [line for line in lines[skipped:] if line.strip() and not (comments and line.startswith("#"))][:LINES]
    if not body:
        raise FileError(f"{source} has no rows", hint="check how it was written")
    if _RULE.fullmatch(body[0].strip()) or (len(body) > 1 and _RULE.fullmatch(body[1].strip())):
        form = "a grid" if "|" in "".join(body) else "spaces"
        return Dialect("|", _commas("|", body), comments, skipped, encoding, form)
    separator = said[1] if said else _separator(body)
    if separator is None:
        words = [line.split() for line in body]
        if len(words[0]) > 1 and len(words) > 1 and len(words[1]) in (len(words[0]), len(words[0]) + 1):
            return Dialect(" ", False, comments, skipped, encoding, "spaces")
        separator = ","
    rows = list(csv.reader(body, delimiter=separator))
    odd = "row names" if len(rows) > 1 and all(len(row) == len(rows[0]) + 1 for row in rows[1:]) else None
    if odd and not any(row[-1].strip() for row in rows[1:]):
        what = f"{source} has a delimiter at the end of every row, and none at the end of its first line"
        raise FileError(what, hint="remove it from the rows, or add it to the names")
    if b"\r" in head and b"\n" not in head:
        odd = odd or "old line ends"
    return Dialect(separator, _commas(separator, body), comments, skipped, encoding, odd)


def _titles(lines: list[str]) -> int:
    """Return how many lines of one cell stand above a table of three columns or more, as a spreadsheet's title does."""
    counts = [max(line.count(mark) for mark in DELIMITERS) for line in lines[:LINES]]
    wide = sorted(counts)[len(counts) // 2] >= 2
    at = 0
    while wide and at < len(counts) - 2 and len([c for c in re.split("[,;\t|]", lines[at]) if c.strip(' "\r')]) <= 1:
        at += 1
    return at


def _before_header(lines: list[str], at: int) -> bool:
    """Whether a line is blank or a comment, and not a header that begins with a sign."""
    line = lines[at]
    if not line.strip():
        return True
    if not line.startswith(("#", "%")):
        return False
    following = next((text for text in lines[at + 1 :] if text.strip()), "")
    for mark in DELIMITERS:
        times = line.count(mark)
        if times and times == following.count(mark) and not following.startswith(line[0]):
            cells = [cell.strip().strip('"') for cell in following.split(mark)]
            return not any(map(number_like, cells))  # numbers below: this line is their header
    return True


def _encoding(head: bytes) -> str:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 4 and len(head) >= HEAD:
            return "utf-8"
        return "cp1252"
    return "utf-8"


def _first_letter_is_western(raw: bytes) -> bool:
    """Whether the first letter beyond ASCII in a whole file is not UTF-8; one after others that are is damage."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return raw[: error.start].isascii()
    return False


def _uncommented(raw: bytes, how: Dialect, width: int) -> bytes:
    """Return the text without comments below the header; a line with the cells of a row, numbers among them, is one."""
    kept, rows, quoted = [], 0, False
    for at, line in enumerate(raw.split(b"\n")):
        if at > how.skipped and not quoted and line.startswith(b"#"):
            cells = next(csv.reader([line.decode("utf-8", "replace").rstrip("\r")], delimiter=how.separator))
            if len(cells) != width or not any(number_like(cell.strip()) for cell in cells[1:]):
                continue
            rows += 1
        quoted ^= at > how.skipped and line.count(b'"') % 2 == 1
        kept.append(line)
    if rows:
        note(f"{count(rows)} rows begin with # and have as many cells as the header: read as rows, not as comments")
    return b"\n".join(kept)


def _separator(body: list[str]) -> str | None:
    """Return the delimiter that cuts the lines into equally many cells, None where none does."""
    best: tuple[float, int] = (0.0, 0)
    found = None
    for mark in DELIMITERS:
        if mark not in body[0]:
            continue
        rows = list(csv.reader(body, delimiter=mark))
        width = len(rows[0])
        if width < 2:
            continue
        same = sum(len(row) in (width, width + 1) for row in rows) / len(rows)
        if (same, width) > best:
            best, found = (same, width), mark
    return found


def _commas(separator: str, body: list[str]) -> bool:
    """Whether numbers have a decimal comma."""
    if separator == ",":
        return False
    cells = [cell.strip() for line in body[1:] for cell in line.split(separator)]
    comma = sum(bool(_DECIMAL.fullmatch(cell)) for cell in cells)
    point = sum(bool(re.fullmatch(r'"?[-+]?\d*\.\d+([eE][-+]?\d+)?"?', cell)) for cell in cells)
    return comma > point


def read_text(raw: bytes, source: str) -> Any:
    """Return a text table as a Polars frame, with cells that hold numbers, percentages or lists turned into them."""
    import polars as pl

    if not raw[:HEAD].strip() and not raw.strip():
        raise FileError(f"{source} is empty", hint="check how it was written")
    how = sniff(raw[:HEAD], source)
    if how.encoding == "utf-8" and _first_letter_is_western(raw):
        how = replace(how, encoding="cp1252")
    if how.encoding != "utf-8" or how.odd:
        raw = _rewritten(raw, how)
        how = Dialect("\t" if how.odd else how.separator, how.decimal_comma, False if how.odd else how.comments,
                      0 if how.odd else how.skipped)  # fmt: skip
    names = _header(raw, how, source)
    if how.comments and len(names) > 1 and b"\n#" in raw:
        raw = _uncommented(raw, how, len(names))
    read = partial(
        pl.read_csv,
        raw,
        separator=how.separator,
        has_header=False,
        skip_lines=how.skipped + 1,
        decimal_comma=how.decimal_comma,
    )
    try:
        try:
            frame = read(infer_schema_length=10_000)
        except pl.exceptions.ComputeError:  # decimals or text below the rows that were looked at
            frame = read(infer_schema_length=None)
    except pl.exceptions.NoDataError as error:
        raise FileError(f"{source} has no rows", hint="check how it was written") from error
    if frame.width != len(names):  # before 2.0, Polars names the columns it finds and says nothing
        raise FileError(
            f"{source} cannot be read: it names {len(names)} columns and has {frame.width} cells in a row",
            hint="check its separator, and quote cells that hold it",
        )
    frame.columns = names
    return tidy_cells(_without_blanks(frame))


def _header(raw: bytes, how: Dialect, source: str) -> list[str]:
    """Return the names of the columns, once each; a file without names is refused."""
    end = -1
    for _ in range(how.skipped + 1):
        end = raw.find(b"\n", end + 1) if end + 1 < len(raw) else -1
        if end < 0:
            end = len(raw)
            break
    lines = raw[: max(1 << 20, end)].decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    line = lines[how.skipped] if how.skipped < len(lines) else ""
    cells = [cell.strip() for cell in next(csv.reader([line.lstrip("#%") if how.skipped or line[:1] in "#%" else line],
                                                     delimiter=how.separator))]  # fmt: skip
    whole = [cell.lstrip("-").isdigit() for cell in cells]
    long = any(number_like(cell) and len(cell) > 8 for cell in cells)
    if long or (all(map(number_like, cells)) and not all(whole)):
        raise FileError(
            f"{source} has no names of columns: its first line holds numbers" + ("" if long else " alone"),
            hint="write a first line such as label,p_cat,p_dog",
        )
    seen: dict[str, int] = {}
    names = []
    for place, cell in enumerate(cells):
        name = cell or f"unnamed_{place}"
        if name in seen:
            raise FileError(f"{source} has the column {name!r} twice", hint="rename one of them")
        seen[name] = place
        names.append(name)
    return names


def _without_blanks(frame: Any) -> Any:
    """Drop the empty columns and the empty lines that spreadsheets leave."""
    import polars as pl

    empty = [name for name in frame.columns if name.startswith("unnamed_") and frame[name].null_count() == frame.height]
    frame = frame.drop(empty)
    if not frame.width or not frame.height:
        return frame
    held = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    return frame if held.all() else frame.filter(held)


def _rewritten(raw: bytes, how: Dialect) -> bytes:
    """Return the text as UTF-8, odd forms as cells between tabs."""
    text = raw.decode(how.encoding, "replace").lstrip("\ufeff")
    if not how.odd:
        return text.encode()
    lines = [line for line in text.splitlines()[how.skipped :] if line.strip()]
    if how.comments:
        lines = [line for line in lines if not line.startswith("#")]
    if how.odd in ("a grid", "spaces"):
        lines = [line for line in lines if not _RULE.fullmatch(line.strip()) and not _FOOTER.fullmatch(line.strip())]
    if how.odd == "a grid":
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    elif how.odd == "spaces":
        rows = [_words(line) for line in lines]
    else:
        rows = list(csv.reader(lines, delimiter=how.separator))
    if len(rows) > 1 and len(rows[1]) == len(rows[0]) + 1:
        rows[0] = ["", *rows[0]]
    out = io.StringIO()
    csv.writer(out, delimiter="\t", lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _words(line: str) -> list[str]:
    """Return the words of a line, quoted ones whole."""
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)]
