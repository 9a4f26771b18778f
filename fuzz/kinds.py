"""All kinds of inputs, in the order of the table."""

from __future__ import annotations

from arrays import maps, metrics
from callables import callables, objects
from campaign import Kind
from commands import commands, threads_and_forks
from deaths import killed_commands, two_commands
from fits import fits
from options import one_wrong
from stored import artifacts, files, kills

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("metrics against the oracle", metrics, 600, 100),
        Kind("public callables", callables, 20, 25),
        Kind("public classes", objects, 20, 25),
        Kind("one wrong option", one_wrong, 20, 50),
        Kind("fits", fits, 10, 10),
        Kind("fitted maps", maps, 250, 100),
        Kind("damaged artifacts", artifacts, 80, 25),
        Kind("damaged files", files, 13, 25),
        Kind("commands", commands, 4, 10),
        Kind("threads and forks", threads_and_forks, 4, 10),
        Kind("two writers, both killed", kills, 0.3, 2),
        Kind("killed commands", killed_commands, 0.7, 10),
        Kind("two commands at once", two_commands, 0.3, 10),
    )
}
