"""Files that `apply` writes: text as text, arrays and Parquet as their columns and types.

``identity`` files hold probabilities in steps of 1/64, which pass unchanged, so their text is compared byte by byte. In
``temperature`` files every calibrated number stands as ``#`` in the text, and its value beside it.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calibrant import calibrators, regression
from frozen.asking import commanded
from frozen.case import Case
from frozen.fixed import answer, class_rows, mean_rows

N = 8
#: Files of one case.
PART = 10
NAMES = ("bird", "cat", "dog")
NUMBER = re.compile(r"\d+\.\d{6,}(?:[eE]-?\d+)?|\d\.\d+[eE]-\d+")


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Return labels and probabilities in steps of 1/64."""
    y = np.arange(N) % 3
    first = np.array([8, 40, 16, 3, 60, 20, 1, 30])
    second = np.array([16, 8, 16, 60, 2, 24, 1, 4])
    return y, np.stack([first, second, 64 - first - second], axis=1) / 64


def table(form: str = "{:.6f}", sep: str = ",", head: tuple[str, ...] = ("p_bird", "p_cat", "p_dog")) -> list[str]:
    """Return lines of a table: an id with zeros in front, three probabilities, the label, a remark."""
    y, p = rows()
    lines = [sep.join(("id", *head, "label", "remark"))]
    for i in range(N):
        numbers = [form.format(value) for value in p[i]]
        lines.append(sep.join((f"{i:03d}", *numbers, NAMES[y[i]], ("", "ok", "süß", "x y")[i % 4])))
    return lines


def text(path: Path, lines: list[str], end: str = "\n", encoding: str = "utf-8") -> Path:
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def packed(path: Path, opener: Callable[..., Any]) -> Path:
    with opener(path, "wb") as file:
        file.write(("\n".join(table()) + "\n").encode())
    return path


def comma_lines() -> list[str]:
    return table(sep=";", form="{:.6f}")[:1] + [line.replace(".", ",") for line in table(sep=";")[1:]]


def quoted_lines() -> list[str]:
    return [",".join(f'"{cell}"' for cell in line.split(",")) for line in table()]


def json_rows() -> list[dict[str, Any]]:
    y, p = rows()
    return [
        {"id": f"{i:03d}", "label": NAMES[y[i]], **dict(zip(("p_bird", "p_cat", "p_dog"), p[i].tolist(), strict=True))}
        for i in range(N)
    ]


def frame() -> pl.DataFrame:
    y, p = rows()
    return pl.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(N)],
            **{f"p_{name}": p[:, k] for k, name in enumerate(NAMES)},
            "label": [NAMES[k] for k in y],
            "small": pl.Series(range(N), dtype=pl.Int8),
            "day": pl.Series([f"2026-01-0{1 + i % 2}" for i in range(N)]).str.to_date(),
        }
    )


def npz(path: Path, **more: Any) -> Path:
    y, p = rows()
    np.savez(path, probs=p, labels=y.astype(np.int16), id=np.arange(N, dtype=np.uint8), **more)
    return path


def npy(path: Path, dtype: str = "f8") -> Path:
    np.save(path, rows()[1].astype(dtype))
    return path


def parquet(path: Path) -> Path:
    frame().write_parquet(path)
    return path


def arrow(path: Path) -> Path:
    frame().write_ipc(path)
    return path


def shards(path: Path) -> Path:
    path.mkdir()
    frame()[:5].write_parquet(path / "a.parquet")
    frame()[5:].write_parquet(path / "b.parquet")
    return path


def text_shards(path: Path) -> Path:
    path.mkdir()
    text(path / "a.csv", table()[:5])
    text(path / "b.csv", [table()[0], *table()[5:]])
    return path


#: Name of the input -> its maker, the output, further words.
FILES: dict[str, tuple[Callable[[Path], Path], str, tuple[str, ...]]] = {
    "plain.csv": (lambda path: text(path, table()), "out.csv", ()),
    "windows.csv": (lambda path: text(path, table(), end="\r\n"), "out.csv", ()),
    "semicolon.csv": (lambda path: text(path, table(sep=";")), "out.csv", ()),
    "decimal-comma.csv": (lambda path: text(path, comma_lines()), "out.csv", ()),
    "tabs.tsv": (lambda path: text(path, table(sep="\t")), "out.tsv", ()),
    "tabs-to-csv.tsv": (lambda path: text(path, table(sep="\t")), "out.csv", ()),
    "quotes.csv": (lambda path: text(path, quoted_lines()), "out.csv", ()),
    "percent.csv": (
        lambda path: text(path, [line if not i else _percent(line) for i, line in enumerate(table())]),
        "out.csv",
        (),
    ),
    "hundred.csv": (
        lambda path: text(path, [line if not i else _percent(line, "") for i, line in enumerate(table())]),
        "out.csv",
        ("--percent",),
    ),
    "preamble.csv": (lambda path: text(path, ["# made by hand", "# version 3", *table()]), "out.csv", ()),
    "mark.csv": (lambda path: text(path, table(), encoding="utf-8-sig"), "out.csv", ()),
    "utf16.csv": (lambda path: text(path, table(), encoding="utf-16"), "out.csv", ()),
    "latin.csv": (lambda path: text(path, table(), encoding="cp1252"), "out.csv", ()),
    "packed.csv.gz": (lambda path: packed(path, gzip.open), "out.csv", ()),
    "to-gz.csv": (lambda path: text(path, table()), "out.csv.gz", ()),
    "packed.csv.bz2": (lambda path: packed(path, bz2.open), "out.csv", ()),
    "logits.csv": (
        lambda path: text(path, table(head=("logit_bird", "logit_cat", "logit_dog"))),
        "out.csv",
        (),
    ),
    "numbered.csv": (
        lambda path: text(
            path, [line.replace("bird", "0").replace("cat", "1").replace("dog", "2") for line in table()]
        ),
        "out.csv",
        (),
    ),
    "bad-row.csv": (lambda path: text(path, [*table(), "008,,0.5,0.5,cat,", "009,2,0.5,0.5,cat,"]), "out.csv", ()),
    "to-parquet.csv": (lambda path: text(path, table()), "out.parquet", ()),
    "to-json.csv": (lambda path: text(path, table()), "out.json", ()),
    "to-jsonl.csv": (lambda path: text(path, table()), "out.jsonl", ()),
    "to-npz.csv": (lambda path: text(path, table()), "out.npz", ()),
    "to-stdout.csv": (lambda path: text(path, table()), "-", ()),
    "rows.json": (lambda path: text(path, [json.dumps(json_rows())]), "out.json", ()),
    "rows.jsonl": (lambda path: text(path, [json.dumps(one) for one in json_rows()]), "out.jsonl", ()),
    "lists.jsonl": (
        lambda path: text(
            path, [json.dumps({"probs": p.tolist(), "label": int(y)}) for y, p in zip(*rows(), strict=True)]
        ),
        "out.jsonl",
        (),
    ),
    "arrays.npz": (npz, "out.npz", ()),
    "arrays-to-csv.npz": (npz, "out.csv", ()),
    "array.npy": (npy, "out.npy", ()),
    "single.npy": (lambda path: npy(path, "f4"), "out.npy", ()),
    "array-to-csv.npy": (npy, "out.csv", ()),
    "frame.parquet": (parquet, "out.parquet", ()),
    "frame-to-csv.parquet": (parquet, "out.csv", ()),
    "frame.arrow": (arrow, "out.arrow", ()),
    "shards": (shards, "out.parquet", ()),
    "shards-by-day": (shards, "out", ("--partition-by", "day")),
    "text-shards": (text_shards, "out.csv", ()),
    "itself.csv": (lambda path: text(path, table()), "itself.csv", ()),
    "to-nothing.csv": (lambda path: text(path, table()), "out.xyz", ()),
}


def _percent(line: str, sign: str = "%") -> str:
    cells = line.split(",")
    return ",".join([cells[0], *(f"{100 * float(cell):.4f}{sign}" for cell in cells[1:4]), *cells[4:]])


def cases() -> Iterator[Case]:
    """Yield files that pass unchanged, files with a temperature; then two classes, pairs, and regression."""
    for start in range(0, len(FILES), PART):
        names = list(FILES)[start : start + PART]
        yield Case(f"written/identity/{start:02d}", partial(write, names, "identity"))
        yield Case(f"written/temperature/{start:02d}", partial(write, names, "temperature"), tolerance=1e-7)
    yield Case("written/two", partial(each, two_classes, ("one.csv", "two.csv", "quoted-comma.csv")), tolerance=1e-7)
    yield Case("written/pairs", partial(each, pairs, ("pairs.csv",)), tolerance=1e-7)
    moved = ("moments.csv", "std.csv", "moments.npz", "moments.parquet")
    yield Case("written/regression", partial(each, moments, moved), tolerance=1e-7)


def each(run: Callable[[str, Path], Any], names: tuple[str, ...], folder: Path, seed: int) -> Any:
    """Return the answer for each file, every one in a folder of its own."""
    found = {}
    for name in names:
        here = folder / f"of {name}"
        here.mkdir()
        found[name] = answer(run, name, here)
    return found


@cache
def fitted(method: str, name: str) -> Any:
    """Return a calibrator of three classes: of words, or of the numbers that arrays have."""
    y, p = class_rows(90, 3, seed=20)[:2]
    numbered = name.startswith(("array", "single", "lists", "numbered"))
    classes = None if numbered else np.array(NAMES)
    labels = y if numbered else np.array(NAMES)[y]
    kind = calibrators.Identity if method == "identity" else calibrators.TemperatureScaling
    return kind(classes=classes).fit(p, labels)


def write(names: list[str], method: str, folder: Path, seed: int) -> Any:
    """Return what apply says and writes."""

    def one(name: str, here: Path) -> Any:
        make, out, words = FILES[name]
        make(here / name)
        fitted(method, name).save(here / "cal.json")
        return applied(here, name, out, words, verbatim=method == "identity" and "logits" not in name)

    return each(one, tuple(names), folder, seed)


def applied(here: Path, name: str, out: str, words: tuple[str, ...] = (), *, verbatim: bool = False) -> Any:
    """Return the outcome of ``calibrant apply`` with everything that was written."""
    before = {path.name for path in here.iterdir()}
    done = commanded(here, "apply", "cal.json", name, "-o", out, *words)
    if out == "-":
        done["out"] = content("".join(f"{line}\n" for line in done["out"]), verbatim=verbatim)
    new = [one for path in sorted(here.iterdir()) if path.name not in before for one in walk(path)]
    return {**done, "files": {str(one.relative_to(here)): shown(one, verbatim=verbatim) for one in new}}


def walk(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def shown(path: Path, *, verbatim: bool) -> Any:
    """Return a written file: columns with types where bytes depend on a library's version, else its text."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return {key: [str(arrays[key].dtype), arrays[key]] for key in arrays.files}
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        return [str(array.dtype), array]
    if path.suffix in (".parquet", ".arrow"):
        read = pl.read_parquet if path.suffix == ".parquet" else pl.read_ipc
        found = read(path) if path.suffix == ".arrow" else read(path, hive_partitioning=False)
        return {key: [str(found[key].dtype), found[key].to_list()] for key in found.columns}
    data = path.read_bytes()
    return content((gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8"), verbatim=verbatim)


def content(said: str, *, verbatim: bool) -> Any:
    """Return text by lines with their ends, and a sum of its bytes or its long numbers beside it."""
    if verbatim:  # the letter keeps the judge from reading numbers, where 000 is 0
        return {"text": said.splitlines(keepends=True), "bytes": f"x{hashlib.sha256(said.encode()).hexdigest()[:24]}"}
    numbers = [float(found) for found in NUMBER.findall(said)]
    return {"text": NUMBER.sub("#", said).splitlines(keepends=True), "numbers": numbers}


def two_classes(name: str, here: Path) -> Any:
    """Return a file of two classes: one score, both, and names with commas in quotes."""
    y, p = class_rows(90, 2, seed=23)[:2]
    s = rows()[1][:, 0]
    truth = np.arange(N) % 2
    if name == "one.csv":
        lines, classes = ["id,score,label", *[f"{i:03d},{s[i]},{truth[i]}" for i in range(N)]], None
    elif name == "two.csv":
        lines, classes = (
            ["p_no,p_yes,y", *[f"{1 - s[i]},{s[i]},{('no', 'yes')[truth[i]]}" for i in range(N)]],
            ["no", "yes"],
        )
    else:
        lines = ['"P(a,b)",label,"remark, long"', *[f'{s[i]},{truth[i]},"a, ""b"""' for i in range(N)]]
        classes = None
    labels = y if classes is None else np.array(classes)[y]
    text(here / name, lines)
    calibrators.PlattScaling(classes=classes).fit(p, labels).save(here / "cal.json")
    return applied(here, name, "out.csv")


def pairs(name: str, here: Path) -> Any:
    """Return a file of confidences with hits; the calibrator is fitted by the command."""
    y, p = class_rows(90, 3, seed=20)[:2]
    hits = (p.argmax(axis=1) == y).astype(int)
    text(
        here / "fit.csv",
        ["confidence,correct", *[f"{one:.6f},{hit}" for one, hit in zip(p.max(axis=1), hits, strict=True)]],
    )
    made = commanded(here, "fit", "fit.csv", "--method", "platt", "-o", "cal.json")
    text(here / name, ["id,confidence,correct", *[f"{i:02d},{0.5 + i / 20},{i % 2}" for i in range(N)]])
    return {"fit": made["exit"], **applied(here, name, "out.csv")}


def moments(name: str, here: Path) -> Any:
    """Return a file of means and variances."""
    train, new = mean_rows(90, seed=40), mean_rows(N, seed=41)
    path = here / name
    columns = {"mean": new.mean, "variance": new.variance, "y": new.y}
    if name == "std.csv":
        columns = {"mean": new.mean, "std": np.sqrt(new.variance).round(6), "y": new.y}
    if path.suffix == ".csv":
        lines = [",".join(map(str, one)) for one in zip(*(column.tolist() for column in columns.values()), strict=True)]
        text(path, [",".join(columns), *lines])
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        pl.DataFrame(columns).write_parquet(path)
    regression.StdScaling().fit(train.mean, train.variance, train.y).save(here / "cal.json")
    return applied(here, name, f"out{path.suffix}")
