"""CPU time per training step of calibrant.torch beside another checkout: two processes, interleaved rounds, medians.

``python benchmarks/src/calibrant_benchmarks/torch_overhead.py OTHER/src -o docs/tables/torch-overhead.md``, where OTHER
is a worktree of the version to be compared with. The workers import torch and calibrant alone, so any version will do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROUNDS = 15
#: CPU seconds of one item in one round, about.
SLICE = 0.05


def _with_penalty(regularized: Any, kind: Any) -> Any:
    return regularized(penalty=kind())


def jobs() -> dict[str, Callable[[], None]]:
    """Return the steps that are timed, by name; every version of calibrant.torch since 0.1 has them."""
    import torch
    from torch import nn

    from calibrant import torch as own

    torch.set_num_threads(1)
    torch.manual_seed(0)
    activations = torch.zeros(30 << 20, dtype=torch.uint8)
    del activations  # as after any network's pass: the C library now keeps freed memory instead of asking for it anew
    ct: Any = own  # any version
    regularized: Any = getattr(ct, "RegularizedLoss", None) or ct.RegularizedLoss
    found: dict[str, Callable[[], None]] = {}

    def loss(name: str, make: Callable[[], Any], n: int, k: int) -> None:
        logits, target = torch.randn(n, k, requires_grad=True), torch.randint(0, k, (n,))
        part = make()

        def step() -> None:
            logits.grad = None
            part(logits, target).backward()

        found[f"{name}, {n} × {k}"] = step

    for n, k in ((256, 10), (256, 100), (4096, 10)):
        loss("cross-entropy of torch", nn.CrossEntropyLoss, n, k)
        for kind in (ct.UCELoss, ct.MMCELoss, ct.EntropyPenalty, ct.SoftECELoss):
            loss(f"cross-entropy + {kind.__name__}", partial(_with_penalty, regularized, kind), n, k)
    for kind in (ct.FocalLoss, ct.BrierLoss, ct.LabelSmoothing):
        loss(kind.__name__, kind, 256, 10)
    for n, k in ((256, 10), (256, 1000)):
        meter = ct.StreamingCalibration(k)
        logits, target = torch.randn(n, k), torch.randint(0, k, (n,))
        found[f"StreamingCalibration.update, {n} × {k}"] = partial(meter.update, logits, target)
    x = torch.randn(256, 256)
    for kind in (nn.Linear, ct.GaussianDropout, ct.BayesLinear):
        layer = kind(256, 64)

        def step(layer: Any = layer) -> None:
            layer(x).square().sum().backward()

        found[f"{kind.__name__} 256 → 64, forward and backward"] = step
    network = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    swag = ct.SWAG(network, rank=10)
    for _ in range(12):
        swag.collect()
    found["SWAG.collect, 68,000 weights, rank 10"] = swag.collect
    last = ct.SWAG(network, layers="last")
    for _ in range(3):
        last.collect()

    def passes() -> None:
        ct.predict(last, [x], samples=25, rng=0)

    found["predict of SWAG of the last layer, 25 samples"] = passes
    return found


def worker() -> None:
    """Answer each name on a line with the CPU seconds of one step."""
    steps, counts = jobs(), {}
    sys.stdout.write("|".join(steps) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        step = steps[line.strip()]
        if line not in counts:
            step()
            start = time.process_time()
            step()
            counts[line] = max(1, min(500, int(SLICE / max(time.process_time() - start, 1e-6))))
        start = time.process_time()
        for _ in range(counts[line]):
            step()
        sys.stdout.write(f"{(time.process_time() - start) / counts[line]!r}\n")
        sys.stdout.flush()


def measure(sources: list[str], rounds: int) -> tuple[list[str], list[dict[str, list[float]]]]:
    """Ask both processes for every item in turn."""
    workers = [
        subprocess.Popen(  # noqa: S603  # this program itself
            [sys.executable, str(Path(__file__).resolve()), "--worker", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        )
        for source in sources
    ]

    def ask(process: Any, line: str) -> str:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return str(process.stdout.readline()).strip()

    names = [str(process.stdout.readline()).strip().split("|") for process in workers]  # type: ignore[union-attr]
    found: list[dict[str, list[float]]] = [{name: [] for name in names[0]} for _ in workers]
    for number in range(rounds):
        for name in names[0]:
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for i in order:
                found[i][name].append(float(ask(workers[i], name)))
    for process in workers:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()
    return names[0], found


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", help="folder src of the other version")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--name", default="0.1", help="name of the other version")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return 0
    from statistics import median

    import calibrant
    from calibrant_papers.studies.writing import markdown, stamp

    own = str(Path(calibrant.__file__).resolve().parents[1])
    names, (new, old) = measure([own, options.other], options.rounds)
    rows = [["step", "now, µs", f"{options.name}, µs", f"now / {options.name}", "smallest … largest ratio"]]
    for name in names:
        ratios = sorted(a / b for a, b in zip(new[name], old[name], strict=True))
        numbers = [f"{1e6 * median(part[name]):,.0f}" for part in (new, old)]
        rows.append([name, *numbers, f"{median(ratios):.2f}", f"{ratios[0]:.2f} … {ratios[-1]:.2f}"])
    command = f"python benchmarks/src/calibrant_benchmarks/torch_overhead.py OTHER/src --rounds {options.rounds}"
    text = "\n".join(
        [
            f"# calibrant.torch: CPU time per step beside {options.name}",
            "",
            stamp(command, "torch"),
            "",
            (
                "Forward and backward of one batch (losses, layers), one update, one collect, one prediction: CPU time "
                f"of one thread in two processes that take turns, median of {options.rounds} rounds; ratios are of the "
                "two times of one round. Before, 30 MB are taken and given back, as a network's activations are: "
                "without that the C library returns the memory of a batch of 1,000 classes after each step."
            ),
            "",
            *markdown(rows, right_from=1),
            "",
        ]
    )
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
