"""Whatever happens below, a command ends with one true line and the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant import cli
from calibrant.calibrators import TemperatureScaling
from calibrant.cli._errors import in_one_line
from calibrant.core.atomic import atomic_path, write_text
from calibrant.errors import FileError

RNG = np.random.default_rng(0)
P = RNG.dirichlet([2, 1], 60)
Y = (RNG.random(60) > P[:, 0]).astype(int)


class PanicException(BaseException):
    """What a library written in Rust throws."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("Unable to allocate 72.8 TiB"), "not enough memory (Unable to allocate 72.8 TiB)"),
        (RecursionError("maximum recursion depth"), "nested too deeply"),
        (OSError(28, "No space left on device", "/x/.a.json.1-2.tmp"), "the disk is full"),
        (FileNotFoundError(2, "No such file or directory", "/x/y"), "/x/y: No such file or directory"),
        (TypeError("a\nb"), "calibrant failed (TypeError: a b)"),
        (PanicException("index out of bounds"), "calibrant failed (PanicException"),
    ],
)
def test_anything_becomes_one_line(error, said, monkeypatch, capsys):
    def fail(**_):
        raise error

    monkeypatch.setattr(cli.cli, "main", fail)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    line = capsys.readouterr().err
    assert stop.value.code == 1
    assert said in line
    assert line.count("\n") == 1
    assert ".tmp" not in line
    assert in_one_line(error) in line


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "calibrant", *map(os.fspath, arguments)], capture_output=True, check=False, **options
    )


def test_a_header_that_claims_everything(tmp_path):
    path = tmp_path / "huge.npy"
    head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000, 2), }"
    path.write_bytes(head.ljust(127) + b"\n" + bytes(160))
    np.save(tmp_path / "labels.npy", Y)
    done = run("evaluate", path, "--label", tmp_path / "labels.npy")
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_is_written_through_and_leftovers_go(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    with atomic_path(link) as temporary:
        name = temporary.name
        temporary.write_text("new", encoding="utf-8")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    mine, theirs = name.split("-")[1], dead.stdout.decode().strip()
    leftover, running = (tmp_path / name.replace(f"-{mine}-", f"-{pid}-") for pid in (theirs, os.getppid()))
    for path in (leftover, running):
        path.write_text("half", encoding="utf-8")
    write_text(link, "newer")
    assert not leftover.exists()
    assert running.exists()


def test_what_cannot_be_written_is_named(tmp_path):
    fitted = TemperatureScaling().fit(P, Y)
    for goal, said in ((tmp_path / "no" / "cal.json", "its folder does not exist"), (tmp_path, "it is a directory")):
        with pytest.raises(FileError, match=said) as caught:
            fitted.save(goal)
        assert ".tmp" not in str(caught.value)
        assert str(goal) in str(caught.value)

    def full(path: Path) -> None:
        with atomic_path(path):
            raise OSError(28, "No space left on device")

    with pytest.raises(FileError, match=r"a.json cannot be written: the disk is full"):
        full(tmp_path / "a.json")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_not_the_inputs_fault(tmp_path):
    path, cal = tmp_path / "a.npz", tmp_path / "cal.json"
    np.savez(path, probs=P, labels=Y)
    TemperatureScaling().fit(P, Y).save(cal)
    (tmp_path / "out.npz").symlink_to("/dev/full")
    done = run("apply", cal, path, "-o", tmp_path / "out.npz")
    assert done.returncode == 1
    assert b"the disk is full" in done.stderr
    assert b"Traceback" not in done.stderr
    assert Path("/dev/full").is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_what_cannot_be_said_stops_no_work(tmp_path):
    """Notes go to standard error; where nobody can read them the answer comes all the same, with its exit code."""
    path = tmp_path / "a.npz"
    np.savez(path, probs=P, labels=Y)
    for words, code, answer in ((("explain", "ece"), 0, b"ece"), (("evaluate", path), 0, b"60"), (("x",), 2, b"")):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "calibrant", *map(os.fspath, words)],
                stdout=subprocess.PIPE,
                stderr=full,
                check=False,
            )
        assert done.returncode == code, words
        assert answer in done.stdout


def test_a_name_cannot_steer_the_terminal(capsys):
    from calibrant.cli._text import emit

    emit("a\x1b]0;title\x07b\rc\x1b[2Jd\u202ee\x1b[31mred\x1b[0m\tf\ng")
    said = capsys.readouterr().out
    assert said.startswith("a\\x1b]0;title\\x07b\\rc\\x1b[2Jd\\u202ee")
    assert said.endswith("\tf\ng\n")


def test_a_full_disk_in_the_words_of_a_library(tmp_path):
    """DuckDB passes the number of the error on in its text alone, and the disk may have room again."""
    from calibrant.io.paths import plain_errors

    words = 'IO Error: Async write failed: {"exception_message":"Could not write file: No space left on device"}'
    with (
        pytest.raises(FileError, match=r"out.parquet cannot be written: the disk is full"),
        plain_errors("rows.csv"),
        atomic_path(tmp_path / "out.parquet"),
    ):
        raise RuntimeError(words)
    with pytest.raises(RuntimeError), plain_errors("rows.csv"):
        raise RuntimeError(words)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are others there")
def test_what_was_private_stays_private(tmp_path, monkeypatch):
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o600)
    link.symlink_to(path)
    write_text(link, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o400)
    real = os.access  # root may write everything
    monkeypatch.setattr(os, "access", lambda where, mode: Path(where) != path and real(where, mode))
    with pytest.raises(FileError, match=r"link.txt cannot be written: permission denied"):
        write_text(link, "newer")
    assert path.read_text(encoding="utf-8") == "new"


def test_a_killed_partition_is_swept_and_never_shown(tmp_path):
    import polars as pl

    import calibrant
    from calibrant.core.atomic import temporary_name

    rows = {"p_0": P[:, 0], "p_1": P[:, 1], "label": Y, "day": ["a", "b"] * 30}
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    mine = temporary_name(tmp_path, ".out.")
    left = mine.with_name(mine.name.replace(f"-{os.getpid()}-", "-999999999-"))
    (left / "day=a").mkdir(parents=True)
    (left / "day=a" / "0.parquet").write_bytes(b"half")
    calibrant.apply(TemperatureScaling().fit(P, Y), tmp_path / "a.parquet", tmp_path / "out", partition_by=["day"])
    assert not left.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", "out", "out.in-sample.json"]
    assert "out" in in_one_line(OSError(5, "failed", str(mine)))
    assert ".tmp" not in in_one_line(OSError(5, "failed", str(mine)))


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 there")
def test_the_page_of_a_day_whose_name_is_no_utf8(tmp_path):
    day = tmp_path / os.fsdecode(b"\xff\xfe.npz")
    with day.open("wb") as file:
        np.savez(file, probs=P, labels=Y)
    done = run("monitor", tmp_path / "store", day, "--report", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_name_as_long_as_names_can_be(tmp_path):
    """What is written beside a file must not need a longer name than there can be."""
    import calibrant

    path, out = tmp_path / f"{'x' * 251}.npz", tmp_path / f"{'y' * 251}.npz"
    np.savez(path, probs=P, labels=Y)
    fitted = TemperatureScaling().fit(P, Y)
    assert "Cannot tell" in str(calibrant.evaluate(path, n_resamples=19, rng=0))
    calibrant.apply(fitted, path, out)
    assert "n-sample" in str(calibrant.evaluate(out, n_resamples=19, rng=0))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device without an end")
def test_what_has_no_end_is_refused(tmp_path):
    limit = os.environ | {"CALIBRANT_UNPACKED_GIB": "0.01"}
    np.savez(tmp_path / "a.npz", probs=P, labels=Y)
    ways = (
        ("evaluate", "/dev/zero", "--input-format", "csv"),
        ("evaluate", "-"),
        ("apply", "/dev/zero", tmp_path / "a.npz", "-o", tmp_path / "out.npz"),
    )
    for words in ways:
        with Path("/dev/zero").open("rb") as endless:
            done = run(*words, env=limit, stdin=endless, timeout=100)
        assert done.returncode == 1, words
        assert b"gives more than 0.01 GiB" in done.stderr, done.stderr
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [("evaluate", ""), ("fit", "", "-o", "x.json"), ("compare", "", ""), ("report", "")])
def test_an_empty_name_is_not_this_folder(tmp_path, words):
    np.savez(tmp_path / "a.npz", probs=P, labels=Y)
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert b"the name of the file is empty" in done.stderr


def denied(folder, monkeypatch):
    """Make a folder one that may not be written to, for root too."""
    real, opened = os.access, Path.open

    def guarded(self, mode="r", *more, **options):
        if self.parent == folder and "w" in mode:
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, mode, *more, **options)

    monkeypatch.setattr(os, "access", lambda where, mode: Path(where) != folder and real(where, mode))
    monkeypatch.setattr(Path, "open", guarded)


def test_a_place_that_may_not_be_written_is_named_and_not_the_input(tmp_path, monkeypatch):
    import polars as pl

    import calibrant

    store, shut = tmp_path / "store", tmp_path / "shut"
    pl.DataFrame({"p_0": P[:, 0], "p_1": P[:, 1], "label": Y, "day": ["a", "b"] * 30}).write_parquet(
        tmp_path / "a.parquet"
    )
    shut.mkdir()
    calibrant.monitor(store, Y, P, name="one")
    with monkeypatch.context() as patch:
        denied(store, patch)
        with pytest.raises(FileError, match=r"store cannot be written: permission denied"):
            calibrant.monitor(store, 1 - Y, P, name="two")
    denied(shut, monkeypatch)
    fitted = TemperatureScaling().fit(P, Y)
    with pytest.raises(FileError, match=r"parts cannot be written: permission denied"):
        calibrant.apply(fitted, tmp_path / "a.parquet", shut / "parts", partition_by=["day"])
