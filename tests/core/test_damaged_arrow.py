"""A damaged Arrow file is refused in one line where PyArrow is there; tables of every writer are read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from calibrant.errors import FileError
from calibrant.io.paths import expand
from calibrant.io.readers import read_table

#: Reads damaged files; an abort is the exit code of the child alone.
READER = """
import sys
from calibrant.errors import FileError
from calibrant.io.readers import read_table
for name in sys.argv[1:]:
    try:
        read_table(name)
    except FileError as error:
        print(str(error).count("\\n"))
"""


def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame({"score": rng.random(30), "g": ["a", "bb", "some words of more than twelve"] * 10})


WRITERS = {
    "plain.arrow": lambda path: frame().write_ipc(path, compression="uncompressed"),
    "packed.arrow": lambda path: frame().write_ipc(path, compression="zstd"),
    "stream.arrow": lambda path: frame().write_ipc_stream(path),
    "old.feather": lambda path: frame().write_ipc(path, compat_level=pl.CompatLevel.oldest()),
    "a.parquet": lambda path: frame().write_parquet(path),
}


@pytest.mark.parametrize("without", [(), ("pyarrow",)])
@pytest.mark.parametrize("name", WRITERS)
def test_sound_files_are_read(tmp_path, name, without, monkeypatch):
    WRITERS[name](tmp_path / name)
    monkeypatch.setattr("calibrant.io.readers.find_spec", lambda module: None if module in without else object())
    if not without:
        pytest.importorskip("pyarrow", reason="pyarrow is absent (extra: engines)")
    assert read_table(tmp_path / name).equals(frame())


def test_a_table_without_rows_is_refused(tmp_path):
    frame().clear().write_ipc(tmp_path / "empty.arrow")
    with pytest.raises(FileError, match="has no rows"):
        read_table(tmp_path / "empty.arrow")


def test_no_damage_ends_the_process(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is absent (extra: engines)")
    rng, spoiled = np.random.default_rng(1), []
    for name in [name for name in WRITERS if not name.endswith(".parquet")]:
        WRITERS[name](tmp_path / name)
        good = (tmp_path / name).read_bytes()
        for i in range(50):
            data = bytearray(good)
            for at in rng.integers(len(data), size=3):
                data[at] = int(rng.integers(256))
            if rng.random() < 0.2:
                del data[int(rng.integers(len(data))) :]
            spoiled.append(tmp_path / f"{i}-{name}")
            spoiled[-1].write_bytes(bytes(data))
    for name in ("plain.arrow", "stream.arrow"):
        data = (tmp_path / name).read_bytes()
        at = data.index((30 * 8).to_bytes(8, "little"))  # the length of a buffer of 30 numbers
        spoiled.append(tmp_path / f"long-{name}")
        spoiled[-1].write_bytes(data[: at + 5] + b"\x7f" + data[at + 6 :])
    done = subprocess.run(
        [sys.executable, "-c", READER, *map(str, spoiled)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert set(done.stdout.split()) == {"0"}
    assert len(done.stdout.split()) > 50


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
