"""Files that appear whole or not at all: written to a temporary file beside the target, then renamed."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibrant.errors import CalibrantError, FileError

__all__ = ["atomic_path", "disk_is_full", "write_bytes", "write_text"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WHY = {
    errno.ENOENT: ("its folder does not exist", "make the folder first"),
    errno.ENOTDIR: ("its folder is a file", "name another folder"),
    errno.EISDIR: ("it is a directory", "name a file"),
    errno.EACCES: ("permission denied", "choose a place you may write to"),
    errno.EPERM: ("permission denied", "choose a place you may write to"),
    errno.EROFS: ("the disk cannot be written to", "choose another folder"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.EINVAL: ("its name holds a null character", "choose another name"),
    errno.ELOOP: ("its links go round in a circle", "name a file"),
}
#: Seconds after which a leftover of another machine is swept too.
_OLD = 7 * 24 * 3600


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; it replaces the target when the block ends without an error.

    A link is followed, so that its target is written; what a killed run left behind is swept; a device or a pipe gets
    the bytes. Whatever cannot be written is a `FileError` that names the target, never the temporary file.

    Examples
    --------
    >>> import tempfile
    >>> goal = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_path(goal) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> goal.read_text(), [p.name for p in goal.parent.iterdir()]
    ('whole', ['a.txt'])
    """
    asked = Path(target)
    if _is_stream(asked):
        with _stream_path(asked) as temporary:
            yield temporary
        return
    goal = Path(os.path.realpath(asked)) if asked.is_symlink() else asked
    refuse(goal, asked)
    short = f".{goal.name[:40]}.".encode("utf-8", "replace").decode()  # libraries take names in UTF-8 alone
    temporary = temporary_name(goal.parent, short)
    sweep(goal.parent, short)
    try:
        with explained(asked, temporary):
            yield temporary
            if goal.exists():  # what only its owner may read stays so
                temporary.chmod(stat.S_IMODE(goal.stat().st_mode))
            temporary.replace(goal)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def explained(asked: Path, temporary: Path) -> Iterator[None]:
    """Turn what goes wrong while a temporary file is written into an error that names what was asked for."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        found = _told(error, asked, temporary)
        if found is None:
            raise
        raise found from error


def disk_is_full(error: BaseException) -> bool:
    """Whether an error, or the one behind it, says by its number or its words that there is no space left."""
    behind = error.__cause__ or error.__context__
    said = getattr(error, "errno", None) in _FULL or any(os.strerror(number) in str(error) for number in _FULL[:2])
    return said or (behind is not None and disk_is_full(behind))


def refuse(goal: Path, asked: Path) -> None:
    """Look before anything is computed whether there is a folder in which a file may be made."""
    number = 0
    if "\0" in str(goal):
        number = errno.EINVAL
    elif not goal.parent.exists():
        number = errno.ENOENT
    elif not goal.parent.is_dir():
        number = errno.ENOTDIR
    elif goal.is_dir():
        number = errno.EISDIR
    elif goal.is_symlink():  # after all links were followed
        number = errno.ELOOP
    elif not os.access(goal.parent, os.W_OK) or (goal.exists() and not os.access(goal, os.W_OK)):
        number = errno.EACCES
    if number:
        raise _because(number, asked)


def _because(number: int, asked: Path, said: str | None = None) -> FileError:
    why, hint = _WHY.get(number, (said or "it failed", "choose another place"))
    return FileError(f"{asked} cannot be written: {why}", hint=hint)


def _told(error: Exception, asked: Path, temporary: Path) -> FileError | None:
    """Return what to say of an error while writing; None if it is not about the file that is written."""
    # libraries do not always pass the number of an error on
    if disk_is_full(error) or (hasattr(os, "statvfs") and os.statvfs(temporary.parent).f_bavail == 0):
        return FileError(f"{asked} cannot be written: the disk is full", hint="free some space, or choose another disk")
    names = (getattr(error, "filename", None), getattr(error, "filename2", None))
    if isinstance(error, OSError) and str(temporary) in map(str, names):
        return _because(error.errno or 0, asked, error.strerror)
    return None


def _is_stream(path: Path) -> bool:
    """Whether a path is there and is neither file nor directory: a device, a pipe, standard output."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _stream_path(goal: Path) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "out"
        yield temporary
        with temporary.open("rb") as source, goal.open("wb") as sink:
            shutil.copyfileobj(source, sink)


def _host() -> str:
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return f"{zlib.crc32(name.encode()):08x}"


def temporary_name(folder: Path, short: str) -> Path:
    """Return a new name that begins so; processes and threads are kept apart."""
    return folder / f"{short}{_host()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def sweep(folder: Path, short: str) -> None:
    """Remove what killed runs left: temporary files and directories of processes that are no more."""
    for leftover in folder.glob(f"{glob.escape(short)}*-*-*.tmp"):
        host, _, rest = leftover.name.removeprefix(short).partition("-")
        with suppress(OSError, ValueError):
            gone = not _alive(int(rest.partition("-")[0])) if host == _host() else False
            if gone or time.time() - leftover.stat().st_mtime > _OLD:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_bytes(target: str | Path, data: bytes) -> None:
    """Write bytes atomically and make sure that they have reached the disk."""
    _write(target, lambda path: path.write_bytes(data))


def write_text(target: str | Path, text: str) -> None:
    """Write UTF-8 text atomically, line ends as they are; what is no character is written as a question mark."""
    _write(target, lambda path: path.write_bytes(text.encode("utf-8", "replace")))


def _write(target: str | Path, write: Callable[[Path], object]) -> None:
    with atomic_path(target) as temporary:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
