"""Files appear whole or not at all, also when threads write one target together."""

from __future__ import annotations

import threading

import pytest

from calibrant.core.atomic import atomic_path, write_text


def test_threads_do_not_share_a_temporary_name(tmp_path):
    goal = tmp_path / "a.txt"
    with atomic_path(goal) as one, atomic_path(goal) as two:
        assert one != two
        one.write_text("one")
        two.write_text("two")
    texts = ["x" * 10_000, "y" * 10_000]
    threads = [threading.Thread(target=write_text, args=(goal, text)) for text in texts * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert goal.read_text() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_nothing_is_left_of_a_failure(tmp_path):
    def fail():
        with atomic_path(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert not list(tmp_path.iterdir())
