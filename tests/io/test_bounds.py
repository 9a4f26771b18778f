"""Archives that unpack to gigabytes, tables of 100,000 columns and pipes without an end."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import threading
import time
from importlib import import_module

import numpy as np
import pytest

import calibrant
from calibrant.core import pipes
from calibrant.errors import FileError, InputError
from calibrant.io import bounds
from calibrant.io.paths import expand
from calibrant.io.readers import read_predictions, read_table

zstd, zipfile = import_module(bounds._ZSTD), import_module(bounds._ZIPFILE)
TEXT = b"score,label\n" + b"0.5,1\n0.4,0\n" * 500
SKIPPED = bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"abcd"


def declare(path, size):
    """Write a small archive of arrays whose directory declares more, as a bomb's does."""
    np.savez_compressed(path, probs=np.full(1000, 0.5), labels=np.zeros(1000, int))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = size.to_bytes(4, "little")
    path.write_bytes(bytes(data))


def test_an_archive_is_measured_before_it_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    declare(path, 2**32 - 2)
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("it was opened"))
    monkeypatch.setattr(pipes, "_DEFAULT", 3.0)
    with pytest.raises(FileError, match=r"unpacks to more than 3 GiB.*CALIBRANT_UNPACKED_GIB=64") as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)


def test_the_limit_can_be_raised_and_must_be_a_number(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, probs=np.full(100_000, 0.5), labels=np.arange(100_000) % 2)
    assert len(read_predictions(path).scores) == 100_000
    monkeypatch.setenv(bounds.LIMIT, "0.001")
    with pytest.raises(FileError, match="unpacks to more"):
        read_predictions(path)
    monkeypatch.setenv(bounds.LIMIT, "1")
    assert len(read_predictions(path).scores) == 100_000
    for wrong in ("x", "-1", "nan", "inf"):
        monkeypatch.setenv(bounds.LIMIT, wrong)
        with pytest.raises(FileError, match="number of GiB"):
            read_predictions(path)


@pytest.mark.parametrize(("module", "suffix"), [(gzip, "gz"), (bz2, "bz2"), (lzma, "xz"), (zstd, "zst")])
def test_compressed_text_stops_at_the_limit(tmp_path, monkeypatch, module, suffix):
    path = tmp_path / f"a.csv.{suffix}"
    path.write_bytes(module.compress(b"score,label\n" + b"0.5,1\n0.4,0\n" * 50_000))
    assert read_table(path).height == 100_000
    monkeypatch.setenv(bounds.LIMIT, "0.0001")
    with pytest.raises(FileError, match="unpacks to more"):
        read_table(path)


def test_zstandard_of_repeated_bytes_stops_at_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.zst"
    text = b"score,label\n" + b"0.5,1\n0.4,0\n" * 5
    blocks = (len(text) << 3).to_bytes(3, "little") + text  # as it is
    for last in (0, 1):  # then a byte, repeated 2¹⁷ times
        blocks += ((1 << 17 << 3) | 2 | last).to_bytes(3, "little") + b"\n"
    path.write_bytes(bytes.fromhex("28b52ffd0058") + blocks)
    assert len(bounds.open_bytes(path)) == len(text) + 2**18
    assert read_table(path).height >= 10
    monkeypatch.setenv(bounds.LIMIT, "0.0001")
    with pytest.raises(FileError, match="unpacks to more") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def without_a_size(text):
    """Compress as a stream does: the frame does not declare what it holds."""
    writer = zstd.ZstdCompressor()
    return writer.compress(text[:50], mode=writer.FLUSH_BLOCK) + writer.compress(text[50:]) + writer.flush()


@pytest.mark.parametrize(
    "packed",
    [
        without_a_size(TEXT),
        zstd.compress(TEXT[:3000]) + without_a_size(TEXT[3000:]) + zstd.compress(b""),
        SKIPPED + zstd.compress(TEXT),  # parallel zstd
        zstd.compress(TEXT) + SKIPPED,  # zstd that can seek
        zstd.compress(TEXT.decode().encode("utf-16")),
    ],
    ids=["no size", "several frames", "skipped first", "skipped last", "utf-16"],
)
def test_zstandard_is_read_as_programs_write_it(tmp_path, packed):
    path = tmp_path / "a.csv.zst"
    path.write_bytes(packed)
    assert read_table(path)["label"].to_list() == [1, 0] * 500


def test_zstandard_keeps_every_byte(tmp_path):
    path = tmp_path / "a.csv.zst"
    text = "score,label\r\n0.5,caf\xe9\x01b\r\n0.4,th\xe9\r\n".encode("cp1252")
    path.write_bytes(zstd.compress(text))
    assert bounds.open_bytes(path) == text
    assert read_table(path)["label"].to_list() == ["caf\xe9\x01b", "th\xe9"]


@pytest.mark.parametrize(
    "packed",
    [zstd.compress(TEXT)[:-3], without_a_size(TEXT)[:40], zstd.compress(TEXT)[:4], zstd.compress(TEXT) + b"garbage",
     zstd.compress(TEXT) + bytes(512)],
    ids=["no end", "half", "a mark alone", "garbage", "zeros"],
)  # fmt: skip
def test_damaged_zstandard_is_refused_in_one_line(tmp_path, packed):
    path = tmp_path / "a.csv.zst"
    path.write_bytes(packed)
    with pytest.raises(FileError, match=r"a\.csv\.zst cannot be read: .*check that it is complete") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_ZSTANDARD])
def test_a_table_in_a_zip_is_read_and_measured(tmp_path, monkeypatch, method):
    path = tmp_path / "a.csv.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.csv", TEXT * 100)
    assert bounds.open_bytes(path) == TEXT * 100
    monkeypatch.setenv(bounds.LIMIT, "0.0001")
    with pytest.raises(FileError, match="unpacks to more"):
        read_table(path)


def write_log(path, method=zipfile.ZIP_ZSTANDARD):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", "{}")
        for i in range(20):
            score = {"value": "C" if i % 3 else "I", "metadata": {"confidence": i / 20}}
            archive.writestr(f"samples/{i}_epoch_1.json", json.dumps({"id": i, "scores": {"m": score}}, indent=1))


def test_a_log_compressed_with_zstandard_is_read(tmp_path):
    path = tmp_path / "a.eval"
    write_log(path)
    with zipfile.ZipFile(path) as archive:
        assert {member.compress_type for member in archive.infolist()} == {93}
    assert read_predictions(path).scores.tolist() == [i / 20 for i in range(20)]


def test_a_member_gives_no_more_than_it_declares(tmp_path):
    """A bomb may declare little: it is cut there, and its check sum does not fit."""
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_ZSTANDARD) as archive:
        archive.writestr("samples/1.json", "{}" + " " * 500_000)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = (2).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FileError, match="cannot be read: Bad CRC-32"):
        read_predictions(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_ZSTANDARD])
def test_a_damaged_log_is_refused_in_one_line(tmp_path, method):
    path = tmp_path / "a.eval"
    write_log(path, method)
    data = bytearray(path.read_bytes())
    at = data.index(b"samples/7_epoch_1.json") + 30
    data[at : at + 20] = bytes(range(20))
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"a\.eval cannot be read: .*inspect log dump") as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)


def test_a_log_is_measured_too(tmp_path, monkeypatch):
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1.json", " " * 500_000 + "{}")
    monkeypatch.setenv(bounds.LIMIT, "0.0001")
    with pytest.raises(FileError, match="unpacks to more"):
        read_predictions(path)


def test_many_columns_are_read_in_bounded_time(tmp_path):
    k = 40_000
    path = tmp_path / "wide.csv"
    names = [f"a_long_name_of_a_column_{i}" for i in range(k)]  # a first line of more than a MB
    lines = [",".join([*names, "score", "label"])]
    lines += [",".join([*["0"] * k, f"0.{i}", str(i % 2)]) for i in range(1, 4)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    start = time.process_time()
    frame = read_table(path)
    assert time.process_time() - start < 30
    assert frame.columns[-2:] == ["score", "label"]
    assert frame.width == k + 2


@pytest.fixture
def pipe(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")

    def make(name):
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    return make


def test_a_pipe_holds_text_alone(pipe):
    for name in ("a.npz", "a.npy", "a.parquet", "a.arrow", "a.eval"):
        with pytest.raises(FileError, match="is a pipe"):
            read_predictions(pipe(name))
    with pytest.raises(FileError, match="is a pipe"):
        expand(pipe("b.csv"))


def test_a_pipe_with_a_slow_writer_is_read(pipe):
    path = pipe("a.csv")

    def write():
        time.sleep(0.1)
        with path.open("w", encoding="utf-8") as file:
            time.sleep(0.1)
            file.write("score,label\n0.9,1\n")
            file.flush()
            time.sleep(0.1)
            file.write("0.2,0\n")

    writer = threading.Thread(target=write)
    writer.start()
    assert read_predictions(path).scores.tolist() == [0.9, 0.2]
    writer.join()


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_too_many_columns_are_refused_before_an_engine_sees_them(engine, tmp_path, monkeypatch):
    """DuckDB's time grows with their square: 4,000 took 11 seconds."""
    from calibrant.engines.scans import Scan

    pytest.importorskip(engine, reason=f"{engine} is absent")
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"p_{i}" for i in range(500)) + ",label\n" + "0.002," * 500 + "3\n", encoding="utf-8")
    monkeypatch.setattr(Scan, "open", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(InputError, match="at most 64 wide columns on an engine; got 500"):
        calibrant.evaluate(path, engine=engine)


def test_columns_of_text_cost_next_to_nothing(tmp_path):
    """Words are no numbers at the first look; every one of 5,000 columns had five passes, together 15 seconds."""
    path = tmp_path / "text.csv"
    path.write_text(",".join(f"c_{i}" for i in range(5000)) + "\n" + ",".join(["x"] * 5000) + "\n", encoding="utf-8")
    start = time.process_time()
    with pytest.raises(FileError, match="has no probabilities"):
        calibrant.evaluate(path)
    assert time.process_time() - start < 5
