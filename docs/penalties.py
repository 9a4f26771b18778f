"""Measure how the weight λ of each penalty acts, on several data sets and seeds; write docs/tables/penalties.md.

Run from the repository: ``python docs/penalties.py`` (a few minutes on one core).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from calibrant.metrics import accuracy, expected_calibration_error, log_score
from calibrant.torch import EntropyPenalty, MMCELoss, RegularizedLoss, SoftECELoss, TemperatureScaling, UCELoss
from calibrant_papers.studies.writing import stamp
from calibrant_papers.training.images import load_images

TABLE = Path(__file__).resolve().parent / "tables" / "penalties.md"
SEEDS = range(5)
#: λ as a multiple of the default.
TIMES = (0.2, 1.0, 5.0)
PENALTIES = {
    "MMCE": MMCELoss,
    "MMCE, authors' program": lambda: MMCELoss(normalization="official"),
    "UCE": UCELoss,
    "entropy": EntropyPenalty,
    "soft ECE": SoftECELoss,
}
EPOCHS, BATCH = 40, 100


def data_sets() -> dict[str, tuple[torch.Tensor, torch.Tensor, int]]:
    """Images, labels and the number of training rows by name."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    grain = 0.35 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    sets = {"digits with grain": (x + grain, y, 300), "digits, few rows": (x, y, 100)}
    fashion = load_images("auto", 1000, 1000, 1000)
    if "fashion" in fashion.name.lower():
        rows = [
            np.concatenate([getattr(fashion, f"{part}_{name}") for name in ("train", "cal", "test")]) for part in "xy"
        ]
        flat = torch.tensor(rows[0].reshape(len(rows[0]), -1), dtype=torch.float32)
        sets["Fashion-MNIST, 500 rows"] = (flat, torch.tensor(rows[1].astype(np.int64)), 500)
    return sets


def measured(x: torch.Tensor, y: torch.Tensor, n: int, seed: int, loss: torch.nn.Module) -> list[float]:
    """Train one network; return accuracy, ECE at T = 1, and ECE and NLL after a temperature, on held-out rows."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    train, cal, test = order[:n], order[n : n + 300], order[n + 300 :]
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for rows in train[torch.randperm(n)].split(BATCH):
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        held, logits = model(x[cal]), model(x[test])
    tempered = TemperatureScaling().fit(held, y[cal])(logits).detach()
    return [
        accuracy(y[test], logits, space="logit"),
        expected_calibration_error(y[test], logits, space="logit"),
        expected_calibration_error(y[test], tempered, space="logit"),
        log_score(y[test], tempered, space="logit"),
    ]


def main() -> None:
    torch.set_num_threads(1)
    sets = data_sets()
    lines = [
        "# Penalties and their weight λ",
        "",
        stamp("python docs/penalties.py", "torch"),
        "",
        f"One hidden layer of 128 units, {EPOCHS} epochs, batches of {BATCH}.",
        f"Mean ± standard deviation over {len(SEEDS)} seeds on held-out rows, in percent; NLL in nats.",
        "T: one temperature fitted on 300 other rows. Better: seeds in which the number lies below that of no penalty.",
    ]
    for name, (x, y, n) in sets.items():
        lines += [
            "",
            f"## {name}",
            "",
            "| penalty | λ | accuracy | ECE, T = 1 | better | ECE, optimal T | NLL, optimal T | better |",
            "|---|---|---|---|---|---|---|---|",
        ]
        plain = np.zeros(0)
        cells = [("none", "–", torch.nn.CrossEntropyLoss)]
        for penalty, make in PENALTIES.items():
            for times in TIMES:
                weight = times * make().default_weight
                mark = " (default)" if times == 1 else ""
                cells.append(
                    (
                        penalty,
                        f"{weight:g}{mark}",
                        lambda make=make, weight=weight: RegularizedLoss(penalty=make(), weight=weight),
                    )
                )
        for penalty, weight, build in cells:
            found = np.array([measured(x, y, n, seed, build()) for seed in SEEDS])
            mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1)
            plain = found if penalty == "none" else plain
            better = ["–" if penalty == "none" else f"{(found < plain)[:, i].sum()} of {len(SEEDS)}" for i in (1, 3)]
            shown = [f"{100 * mean[i]:.1f} ± {100 * spread[i]:.1f}" for i in range(3)]
            shown = [*shown[:2], better[0], shown[2], f"{mean[3]:.3f} ± {spread[3]:.3f}", better[1]]
            lines.append(f"| {penalty} | {weight} | " + " | ".join(shown) + " |")
            print(lines[-1], flush=True)
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
