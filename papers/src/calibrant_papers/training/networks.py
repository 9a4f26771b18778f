"""The networks of the experiment and the loop that trains them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.torch import (
    BayesLinear,
    EntropyPenalty,
    GaussianDropout,
    MCDropout,
    MMCELoss,
    RegularizedLoss,
    UCELoss,
    kl,
)

#: Penalties by name, with the papers' weights; λ = 10 of MMCE belongs to its authors' program, not to its formula.
PENALTIES: dict[str, Callable[[], nn.Module] | None] = {
    "none": None,
    "entropy": EntropyPenalty,
    "mmce": lambda: MMCELoss(normalization="official"),
    "uce": UCELoss,
}
#: Units of the two layers of the wide network.
WIDTH = 256
#: Batch size when nothing is learned.
WALK = 2000


def features(kind: str, inputs: int = 784) -> nn.Sequential:
    """Everything before the last layer; its width is `features(kind).width`."""
    if kind == "wide":  # fits its training rows whatever they are
        body = nn.Sequential(nn.Flatten(), nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        body.width = WIDTH
        return body
    if kind == "two-layer":  # Nixon et al. (2019), appendix: 32 and 64 filters 5 × 5, pooling, 3136 – 1024
        body = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3136, 1024),
            nn.ReLU(),
        )
        body.width = 1024
        return body
    body = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(784, 64),
        nn.ReLU(),
    )
    body.width = 64
    return body


def build(kind: str, method: str, n_classes: int, inputs: int = 784) -> nn.Sequential:
    """Return a network whose last layer is made the method's way (UCE paper, appendix A.3)."""
    body = features(kind, inputs)
    heads: dict[str, Callable[[], list[nn.Module]]] = {
        "mc-dropout": lambda: [MCDropout(0.2), nn.Linear(body.width, n_classes)],
        "gaussian-dropout": lambda: [GaussianDropout(body.width, n_classes, p=0.2)],
        "bbb": lambda: [BayesLinear(body.width, n_classes)],
    }
    return nn.Sequential(body, *heads.get(method, lambda: [nn.Linear(body.width, n_classes)])())


def loss_of(penalty: str, weight: float | None = None) -> nn.Module:
    """Cross-entropy, plus the named penalty with its weight λ, the published one by default."""
    make = PENALTIES[penalty]
    return nn.CrossEntropyLoss() if make is None else RegularizedLoss(penalty=make(), weight=weight)


def batches(x: Tensor, y: Tensor, size: int, generator: torch.Generator | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches, in a random order if a generator is given; a last batch of one row is dropped."""
    order = torch.arange(len(x)) if generator is None else torch.randperm(len(x), generator=generator)
    for rows in order.split(size):
        if generator is None or len(rows) > 1:
            yield x[rows], y[rows]


def walk(x: Tensor) -> list[Tensor]:
    """Cut rows into batches for prediction."""
    return list(x.split(WALK))


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of right predictions of one pass."""
    model.eval()
    with torch.no_grad():
        hits = sum(int((model(part).argmax(dim=1) == y_part).sum()) for part, y_part in batches(x, y, WALK, None))
    return hits / len(y)


def train(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    penalty: str,
    weight: float | None = None,
    epochs: int,
    lr: float,
    batch_size: int,
    seed: int,
    held_out: tuple[Tensor, Tensor] | None = None,
    after_step: Callable[[int], bool | None] | None = None,
) -> None:
    """Train with Adam; with `held_out` rows keep the weights of the epoch with the best accuracy on them.

    `after_step` is called with the number of each step; True ends the training there.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=1e-6, fused=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.1, patience=20)
    loss = loss_of(penalty, weight)
    generator = torch.Generator().manual_seed(seed)
    best, kept, step = -1.0, None, 0
    for _ in range(epochs):
        model.train()
        for x_part, y_part in batches(x, y, batch_size, generator):
            value = loss(model(x_part), y_part) + kl(model) / len(x)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            step += 1
            if after_step is not None:
                if after_step(step):
                    return
                model.train()
        if held_out is not None:
            found = accuracy(model, *held_out)
            plateau.step(found)
            if found > best:
                best = found
                kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if kept is not None:
        model.load_state_dict(kept)


def tensors(images: Any, part: str) -> tuple[Tensor, Tensor]:
    """Return a part of the images as (rows, 1, 28, 28) and their labels."""
    return torch.from_numpy(getattr(images, f"x_{part}"))[:, None], torch.from_numpy(getattr(images, f"y_{part}"))
