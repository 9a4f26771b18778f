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
