"""Kinds of inputs and the workers that run them: every input has a number, and its number and the seed make it."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from shrink import shrink

#: A worker may not use more memory than this; an input that needs it is a finding.
MEMORY = 6 << 30
#: Seconds after which an input that has not ended is a finding (a loaded machine is slow).
PATIENCE = 300.0

Case = dict[str, Any]
#: Seed → the two halves of a kind: draw a case, check a case (its outcome in a few words, or any exception).
Open = Callable[[int], AbstractContextManager[tuple[Callable[[np.random.Generator], Case], Callable[[Case], str]]]]


class FindingError(Exception):
    """Something that must not happen."""


@dataclass(frozen=True)
class Kind:
    """One kind of inputs."""

    name: str
    open: Open
    #: Inputs out of every thousand of the campaign.
    share: float
    #: Inputs a worker takes at once.
    chunk: int = 50


@dataclass
class Result:
    """What was counted and found."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)

    def count(self, kind: str, outcome: str) -> None:
        """Count one input."""
        of_kind = self.counts.setdefault(kind, {})
        of_kind[outcome] = of_kind.get(outcome, 0) + 1

    @property
    def total(self) -> int:
        """All inputs."""
        return sum(sum(outcomes.values()) for outcomes in self.counts.values())


def generator(seed: int, kind: str, number: int) -> np.random.Generator:
    """Return the generator of one input; it knows nothing of the inputs before it."""
    return np.random.default_rng([seed, zlib.crc32(kind.encode()), number])


def signature(error: BaseException) -> str:
    """Return what makes two findings the same one: the type, the place and the first words."""
    line = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {line.filename.rpartition('/')[2]}:{line.lineno} {str(error)[:60]}"


def run_one(number: int, kind: str, seed: int, draw: Any, check: Any) -> tuple[str, str, str]:
    """Run one input; return outcome, signature and text of a finding ("" without one)."""
    case: Case = {}
    try:
        case = draw(generator(seed, kind, number))
        return check(case), "", ""
    except Exception as error:
        key = signature(error)

    def same(smaller: Case) -> bool:
        try:
            check(smaller)
        except Exception as other:
            return signature(other) == key
        return False

    with contextlib.suppress(Exception):
        case = shrink(case, same)
    return "FINDING", key, f"--replay {kind!r}:{number} (seed {seed}): {case!r}"[:4000]


def work(kinds: dict[str, Kind], seed: int, report: int) -> None:
    """Be a worker: take chunks from standard input, report every outcome to a pipe, until there are no more."""
    faulthandler.register(signal.SIGUSR1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with contextlib.ExitStack() as stack:
        opened: dict[str, tuple[Any, Any]] = {}
        for line in sys.stdin:
            name, first, count = json.loads(line)
            if name not in opened:
                opened[name] = stack.enter_context(kinds[name].open(seed))
            for number in range(first, first + count):
                told = run_one(number, name, seed, *opened[name])
                os.write(report, json.dumps(told).encode() + b"\n")


class Worker:
    """A process that runs chunks; what ends it is a finding, and another one goes on."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.start()

    def start(self) -> None:
        """Start the process."""
        read, write = os.pipe()
        self.process = subprocess.Popen(
            [*self.command, "--report", str(write)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[write],
            text=True,
        )
        os.close(write)
        self.orders: Any = self.process.stdin
        self.errors: Any = self.process.stderr
        self.said: list[str] = []
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.outcomes, self.waiting = read, b""

    def _listen(self) -> None:
        for line in self.errors:
            self.said = [*self.said[-200:], line]

    def _outcome(self) -> bytes:
        """Return the next line of the worker; nothing if it has ended."""
        while b"\n" not in self.waiting:
            if not select.select([self.outcomes], [], [], PATIENCE)[0]:
                self._stop()
            more = os.read(self.outcomes, 1 << 16)
            if not more:
                return b""
            self.waiting += more
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line + b"\n"

    def run(self, kind: str, first: int, count: int) -> Iterator[tuple[str, str, str]]:
        """Yield the outcomes of a chunk."""
        number = first
        while number < first + count:
            with contextlib.suppress(BrokenPipeError):
                self.orders.write(json.dumps([kind, number, first + count - number]) + "\n")
                self.orders.flush()
            while number < first + count:
                line = self._outcome()
                if not line:
                    break
                yield tuple(json.loads(line))
                number += 1
            else:
                return
            code = self.process.wait()
            self.listener.join(5)
            told = next((line.strip() for line in self.said if line.strip()), "")
            key = f"{kind}: the process ended with {code} {told[:60]}"
            yield "FINDING", key, f"--replay {kind!r}:{number}: {''.join(self.said[-30:])}"
            number += 1
            self.close()
            self.start()

    def _stop(self) -> None:
        """Let a process that does not come back say where it is, and end it."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        self.process.kill()

    def close(self) -> None:
        """Let the process end; its folders go with it."""
        with contextlib.suppress(BrokenPipeError):
            self.orders.close()
        self.process.wait()
        self.listener.join(5)
        self.errors.close()
        os.close(self.outcomes)


def counts_of(kinds: list[Kind], inputs: int) -> dict[str, int]:
    """Spread so many inputs over the kinds by their shares, at least one each."""
    whole = sum(kind.share for kind in kinds)
    return {kind.name: max(1, round(inputs * kind.share / whole)) for kind in kinds}


def chunks(kinds: list[Kind], inputs: int | None) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, first number, count): the kinds in turn, each as far as its share, until the inputs are spent."""
    goal = counts_of(kinds, inputs) if inputs is not None else None
    done = {kind.name: 0 for kind in kinds}
    spent = 0.0
    while goal is None or any(done[name] < goal[name] for name in done):
        spent += 1.0  # so many thousand inputs by now
        for kind in kinds:
            until = max(1, round(spent * kind.share)) if goal is None else goal[kind.name]
            while done[kind.name] < until:
                count = min(kind.chunk, until - done[kind.name])
                yield kind.name, done[kind.name], count
                done[kind.name] += count


def run(
    kinds: list[Kind], *, seed: int, inputs: int | None = None, seconds: float | None = None, jobs: int = 1
) -> Result:
    """Run so many inputs, or for so many seconds, with some workers side by side."""
    result = Result()
    lock = threading.Lock()
    todo = chunks(kinds, inputs)
    end = time.monotonic() + (seconds if inputs is None and seconds is not None else float("inf"))
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--seed", str(seed)]

    def job() -> None:
        worker = Worker(command)
        try:
            while time.monotonic() < end:
                with lock:
                    chunk = next(todo, None)
                if chunk is None:
                    return
                for outcome, key, text in worker.run(*chunk):
                    with lock:
                        result.count(chunk[0], outcome)
                        if key and key not in result.findings:
                            result.findings[key] = text
                            sys.stderr.write(f"{key}: {text}\n")
        finally:
            worker.close()

    threads = [threading.Thread(target=job) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result
