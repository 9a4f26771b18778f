"""What is to be run: data, methods, penalties, seeds and sizes, in one plain record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from calibrant.core.inputs import check_names
from calibrant.errors import input_error

METHODS = ("plain", "mc-dropout", "gaussian-dropout", "bbb", "swag", "ensemble")
PENALTIES = ("none", "entropy", "mmce", "uce")
INITIALISATIONS = ("glorot", "normal")
NETWORKS = ("small", "two-layer", "wide")
#: λ tried for each penalty where it is chosen on the calibration rows; the published one is among them.
GRID = (("entropy", (0.1, 0.3, 1.0)), ("mmce", (1.0, 3.0, 10.0)), ("uce", (1.0, 3.0, 10.0)))
#: Methods that start from the plain network of the same penalty and seed.
BUILT_ON_PLAIN = ("swag", "ensemble")


@dataclass(frozen=True)
class Cell:
    """One trained model of the table."""

    method: str
    penalty: str
    seed: int

    @property
    def name(self) -> str:
        """Stem of the cell's files."""
        return f"{self.method}-{self.penalty}-{self.seed}"


@dataclass(frozen=True)
class Plan:
    """Everything that decides the numbers; two runs with equal plans give equal results."""

    data: str = "auto"
    methods: tuple[str, ...] = METHODS
    penalties: tuple[str, ...] = PENALTIES
    seeds: tuple[int, ...] = (0, 1, 2)
    network: str = "small"
    rows: int | None = None
    n_cal: int = 5000
    n_test: int | None = None
    epochs: int = 20
    lr: float = 1e-3
    batch_size: int = 256
    early_stopping: bool = True
    samples: int = 25
    members: int = 3
    average_epochs: int = 20
    trace_steps: int = 6000
    trace_every: int = 150
    grid: tuple[tuple[str, tuple[float, ...]], ...] = ()
    weights: tuple[tuple[str, float], ...] = ()

    @classmethod
    def make(
        cls,
        *,
        quick: bool = False,
        data: str = "auto",
        methods: Sequence[str] = (),
        penalties: Sequence[str] = (),
        seeds: int | None = None,
        seed: int = 0,
        epochs: int | None = None,
        rows: int | None = None,
        network: str = "small",
        traces: bool = True,
        choose: bool = False,
    ) -> Plan:
        """Fill in the form asked for: the full one, or the quick one (2000 training rows, one seed, 40 epochs).

        The quick form trains until the network is overconfident, so there is something to repair: it keeps the
        last weights instead of the best ones. So does the wide network, on all rows. `choose`: λ of every penalty
        is chosen on the calibration rows (`GRID`).
        """
        for name in methods:
            check_names(name, METHODS, "method", "train")
        for name in penalties:
            check_names(name, PENALTIES, "penalty", "train")
        check_names(network, NETWORKS, "network", "train")
        chosen = tuple(methods) or METHODS, tuple(penalties) or PENALTIES
        plan = cls(data=data, methods=chosen[0], penalties=chosen[1], network=network)
        if network == "wide":
            plan = replace(plan, seeds=(0, 1, 2, 3, 4), epochs=40, lr=3e-3, early_stopping=False, average_epochs=10)
        if choose:
            plan = replace(plan, grid=tuple(row for row in GRID if row[0] in plan.penalties))
        if quick:
            plan = replace(
                plan,
                rows=2000,
                epochs=40,
                lr=3e-3,
                batch_size=128,
                early_stopping=False,
                seeds=(0,),
                trace_steps=600,
                trace_every=40,
            )
        count = len(plan.seeds) if seeds is None else seeds
        if count < 1 or (epochs is not None and epochs < 1):
            raise input_error("seeds", "train", "be at least 1, and so must epochs", f"{count}, {epochs}", "use 3")
        plan = replace(plan, seeds=tuple(range(seed, seed + count)), trace_steps=plan.trace_steps if traces else 0)
        return replace(plan, epochs=epochs or plan.epochs, rows=rows or plan.rows)

    def cells(self) -> Iterator[Cell]:
        """Yield all cells of the table."""
        for seed in self.seeds:
            for penalty in self.penalties:
                for method in self.methods:
                    yield Cell(method, penalty, seed)

    def weight(self, penalty: str) -> float | None:
        """Return λ of a penalty; None: the published one."""
        return dict(self.weights).get(penalty)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: value for key, value in values.items() if value or key not in ("grid", "weights")}
