"""Paths: which files a path, pattern or directory names, and of which format they are."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibrant.core.atomic import disk_is_full
from calibrant.core.options import check_path, check_type
from calibrant.core.pipes import is_pipe
from calibrant.errors import CalibrantError, FileError, is_panic

__all__ = [
    "FORMATS", "TABLES", "bounded_lengths", "expand", "file_format", "in_utf8", "is_many", "is_path", "plain_errors",
    "target_format"
]  # fmt: skip

#: Formats by suffix; a pickle is never opened.
FORMATS = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".eval": "eval",
    ".txt": "csv",
    ".tab": "tsv",
    ".dat": "csv",
}
#: Suffixes of tables that engines scan.
SCANNED = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc", ".jsonl", ".ndjson")
#: Suffixes of compressed files; the suffix before says the format.
COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".zip")
SPREADSHEETS = {".xlsx", ".xls", ".ods", ".numbers"}
PICKLES = {".pkl", ".pickle", ".p", ".pt", ".pth", ".joblib"}
#: Formats with columns.
TABLES = ("csv", "tsv", "parquet", "arrow", "jsonl", "json")


def suffix_of(path: str | Path) -> str:
    """Return the suffix that says the format, that of compression left out.

    Examples
    --------
    >>> suffix_of("preds.csv.gz"), suffix_of("PREDS.CSV")
    ('.csv', '.csv')
    """
    path = Path(path)
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def is_path(value: Any) -> bool:
    """Whether a first argument names files, instead of holding rows."""
    return isinstance(value, str | Path)


def in_utf8(path: str | Path) -> bool:
    r"""Whether a name is text; libraries take no other.

    Examples
    --------
    >>> in_utf8("a*.parquet"), in_utf8("\udcff.parquet")
    (True, False)
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_many(path: str | Path) -> bool:
    """Whether a path names more than one file: a pattern or a directory."""
    if not str(path):
        raise FileError("the name of the file is empty", hint="check the path")
    return not Path(path).is_file() and (glob.has_magic(str(path)) or Path(path).is_dir())


def file_format(path: str | Path, input_format: str | None = None) -> str:
    """Return the format of a file by its suffix (or by name for standard input), after looking that it is there."""
    check_type(input_format, str | None, "input_format", "read", "be the name of a format", "for example csv")
    if str(path) == "-":
        return input_format or "csv"
    path = Path(check_path(path, "path", "read"))
    suffix = suffix_of(path)
    if suffix in PICKLES:
        raise FileError(f"{path} looks like a pickle, which is never loaded", hint="save arrays with numpy.savez")
    if not path.exists():
        raise FileError(f"{path} does not exist", hint="check the path")
    if path.is_dir():
        raise FileError(f"{path} is a directory", hint=f"name a file, or a pattern such as '{path}/*.parquet'")
    kind = input_format or FORMATS.get(suffix)
    if is_pipe(path) and kind not in ("csv", "tsv", "jsonl", "json"):
        raise FileError(f"{path} is a pipe", hint="name a file; pipes hold text alone, of {input_format=csv} or jsonl")
    if input_format is not None:
        return input_format
    if suffix in SPREADSHEETS:
        raise FileError(f"{path} is a spreadsheet, which is not opened", hint="save it as CSV (any locale)")
    if suffix not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise FileError(
            f"{path} has no known suffix ({known})", hint="write CSV, Parquet or .npz; if it is one, {input_format=csv}"
        )
    return FORMATS[suffix]


def target_format(out: str | Path, *, directory: bool = False) -> str:
    """Return the format in which an output is written; standard output is CSV, a directory (Spark) Parquet."""
    if str(check_path(out, "output", "apply")) == "-":
        return "csv"
    suffix = Path(out).suffix.lower()
    if directory and not suffix:
        return "parquet"
    if FORMATS.get(suffix, "eval") == "eval":
        raise FileError(f"{out} has no known suffix ({', '.join(sorted(FORMATS))})", hint="rename it")
    if Path(out).is_dir():
        raise FileError(f"{out} is a directory", hint="name a file")
    return FORMATS[suffix]


def expand(pattern: str | Path) -> tuple[list[str], str]:
    """Return the files a path, pattern or directory names, and their one format."""
    text = str(pattern)
    if Path(text).is_dir():
        found = sorted(str(p) for p in Path(text).rglob("*") if p.suffix.lower() in SCANNED and p.is_file())
        files = [name for name in found if not _is_hidden(Path(name).relative_to(text))]
    elif Path(text).exists():
        if is_pipe(text):
            raise FileError(f"{text} is a pipe, and engines read files more than once", hint="name a file")
        files = [text]
    else:
        found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 -- patterns may be absolute
        plain = len(_literal_parts(text))
        files = [name for name in found if Path(name).is_file() and not _is_hidden(Path(*Path(name).parts[plain:]))]
    if not files:
        raise FileError(f"{text} matches no file", hint="check the path, and quote the pattern")
    foreign = next((name for name in files if not in_utf8(name)), None)
    if foreign is not None:
        raise FileError(f"{foreign!a} is a name that engines do not take: it is no UTF-8", hint="rename the file")
    suffixes = {Path(name).suffix.lower() for name in files}
    if suffixes & PICKLES:
        raise FileError(f"{text} looks like a pickle, which is never loaded", hint="write Parquet or CSV")
    kinds = {FORMATS.get(suffix, suffix) for suffix in suffixes}
    if len(kinds) > 1 or not kinds <= {*TABLES} - {"json"}:
        listed = ", ".join(sorted(suffixes))
        raise FileError(
            f"{text} must be tables of one kind (csv, tsv, parquet, arrow, jsonl); got {listed}", hint="name one"
        )
    kind = kinds.pop()
    if kind == "arrow":
        _check_arrow(files)
    return files, kind


def _check_arrow(files: list[str]) -> None:
    """Read every batch and check its offsets: an engine that trusts a damaged file takes the process down with it."""
    if find_spec("pyarrow") is None:
        return  # then Polars alone reads such files: it looks at offsets for itself, but allocates what it is told
    import pyarrow as pa
    import pyarrow.ipc

    for name in files:
        with (
            plain_errors(name),
            bounded_lengths(name),
            pa.memory_map(name) as source,
            pyarrow.ipc.open_file(source) as reader,
        ):
            for i in range(reader.num_record_batches):
                reader.get_batch(i).validate(full=True)


@contextmanager
def bounded_lengths(source: str | Path) -> Iterator[None]:
    """Refuse a file that declares more than memory holds: most likely it is damaged."""
    try:
        yield
    except MemoryError as error:
        raise FileError(f"{source} declares more than memory holds", hint="check that it is complete") from error


def _literal_parts(pattern: str) -> tuple[str, ...]:
    """Return the parts of a pattern before the first one with a wildcard: what the user spelled out is meant."""
    parts = Path(pattern).parts
    first = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return parts[:first]


def _is_hidden(path: Path) -> bool:
    """Whether a path below the one that was named is no data: ``.hidden``, ``_temporary``, ``_SUCCESS``.

    Directories of partitions may start with an underscore: ``_day=1``.
    """
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.parts)


@contextmanager
def plain_errors(
    source: str | Path, hint: str = "check that it is complete and of its suffix's format"
) -> Iterator[None]:
    """Turn any library's complaint about a file into one clear line; every library has its own family."""
    try:
        yield
    except (CalibrantError, MemoryError):
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        if disk_is_full(error):  # the output is to blame, not the input
            raise
        causes = re.findall(r"Caused by: (.+)", str(error))  # of Java, the last of which began it
        text = " ".join((causes[-1] if causes else str(error)).split())
        if "allow_pickle" in text:
            raise FileError(
                f"{source} holds pickled objects, which are never loaded", hint="save text with dtype=str"
            ) from error
        raise FileError(f"{source} cannot be read: {text[:300]}", hint=hint) from error
