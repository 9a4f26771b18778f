"""A damaged Arrow or Parquet file is refused before a library sees it: some took the process down with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibrant.errors import FileError
from calibrant.io.damage import check_lengths
from calibrant.io.paths import expand

#: Reads files that claim lengths they do not hold; an abort is the exit code of the child alone.
READER = """
import sys
from calibrant.errors import FileError
from calibrant.io.readers import read_table
for name in sys.argv[1:]:
    try:
        read_table(name)
    except FileError as error:
        print(str(error).count("\\n"), "damaged" in str(error))
"""
SRC = Path(__file__).resolve().parents[2] / "src"


def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame({"score": rng.random(30), "g": ["a", "bb", "some words of more than twelve"] * 10})


WRITERS = {
    "plain.arrow": lambda path: frame().write_ipc(path, compression="uncompressed"),
    "packed.arrow": lambda path: frame().write_ipc(path, compression="zstd"),
    "stream.arrow": lambda path: frame().write_ipc_stream(path),
    "old.feather": lambda path: frame().write_ipc(path, compat_level=pl.CompatLevel.oldest()),
    "a.parquet": lambda path: frame().write_parquet(path),
    "lists.parquet": lambda path: frame().group_by("g").agg("score").write_parquet(path, compression="snappy"),
    "empty.parquet": lambda path: frame().clear().write_parquet(path),
    "empty.arrow": lambda path: frame().clear().write_ipc(path),
}


def kind_of(path):
    return "parquet" if path.suffix == ".parquet" else "arrow"


@pytest.mark.parametrize("name", WRITERS)
def test_sound_files_pass(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    check_lengths(path, kind_of(path), name)
    check_lengths(path.read_bytes(), kind_of(path), name)


def test_what_other_writers_make_passes(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is absent (extra: engines)")
    table = frame().to_arrow()
    for version, codec in (("1.0", "snappy"), ("2.0", "zstd"), ("2.0", "none")):
        path = tmp_path / f"{version}{codec}.parquet"
        pq.write_table(table, path, data_page_version=version, compression=codec, data_page_size=64, row_group_size=7)
        check_lengths(path, "parquet", str(path))


def test_no_length_ends_the_process(tmp_path):
    spoiled = []
    for name in ("plain.arrow", "stream.arrow"):
        WRITERS[name](tmp_path / name)
        data = (tmp_path / name).read_bytes()
        at = data.index((30 * 8).to_bytes(8, "little"))  # the length of a buffer of 30 numbers
        spoiled.append(tmp_path / f"bad-{name}")
        spoiled[-1].write_bytes(data[: at + 5] + b"\x7f" + data[at + 6 :])
    WRITERS["a.parquet"](tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    spoiled.append(tmp_path / "bad.parquet")
    at = data.index(b"\x2c\x15\x3c\x15") + 2  # the head of a page says 30 values: now -31
    spoiled[-1].write_bytes(data[:at] + b"\x3d" + data[at + 1 :])
    done = subprocess.run(
        [sys.executable, "-c", READER, *map(str, spoiled)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines() == ["0 True"] * 3


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_that_were_changed_or_cut_give_one_line(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    good, rng, refused = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(200):
        data = bytearray(good)
        for at in rng.integers(len(data), size=3):
            data[at] = int(rng.integers(256))
        if rng.random() < 0.2:
            del data[int(rng.integers(len(data))) :]
        try:
            check_lengths(bytes(data), kind_of(path), name)
        except FileError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017 -- most damage lies in values, which are not looked at
    assert refused > 20


def test_every_damage_is_refused_or_harmless(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is absent (extra: engines)")
    rng = np.random.default_rng(0)
    path = tmp_path / "a.arrow"
    pl.DataFrame({"score": rng.random(30), "g": ["a", "bb", "ccc"] * 10}).write_ipc(path)
    assert expand(path) == ([str(path)], "arrow")
    good, refused = path.read_bytes(), 0
    for _ in range(200):
        data = bytearray(good)
        for at in rng.integers(len(data), size=3):
            data[at] = int(rng.integers(256))
        path.write_bytes(bytes(data))
        try:
            expand(path)
        except FileError:
            refused += 1
    assert refused > 50
