"""Deep ensembles: several networks from different seeds, averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.core.options import check_count
from calibrant.errors import input_error
from calibrant.torch.seeding import seeded


class DeepEnsemble(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Networks built (and trained) from different seeds, whose probabilities are averaged.

    Parameters
    ----------
    build : callable
        Returns a fresh network; called once per member, under the member's seed.
    n_members : int, default=3
        Number of members; the UCE paper's.
    seeds : sequence of int, optional
        One per member; 0 … n_members − 1 by default. Kept as a buffer, so a checkpoint tells them.

    Notes
    -----
    `forward` returns the logits of all members, shape (members, batch, K); `predict` averages their softmax.

    References
    ----------
    .. [1] Lakshminarayanan, Pritzel and Blundell (2017), "Simple and Scalable Predictive Uncertainty Estimation
       using Deep Ensembles", NeurIPS.

    Examples
    --------
    >>> import torch
    >>> ensemble = DeepEnsemble(lambda: torch.nn.Linear(4, 3))
    >>> ensemble(torch.ones(2, 4)).shape, ensemble.seeds.tolist()
    (torch.Size([3, 2, 3]), [0, 1, 2])
    """

    def __init__(self, build: Callable[[], nn.Module], n_members: int = 3, seeds: Sequence[int] | None = None) -> None:
        super().__init__()
        check_count(n_members, "n_members", "DeepEnsemble", 1, "3", 10_000)
        chosen = list(range(n_members)) if seeds is None else [int(seed) for seed in seeds]
        if len(chosen) != n_members or len(set(chosen)) != n_members:
            raise input_error(
                "seeds", "DeepEnsemble", f"be {n_members} different integers", repr(chosen), "leave it out for 0, 1, …"
            )
        self.register_buffer("seeds", torch.tensor(chosen, dtype=torch.long))
        members = []
        for seed in chosen:
            with seeded(seed, "DeepEnsemble"):
                members.append(build())
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of every member, (members, batch, K)."""
        return torch.stack([member(x) for member in self.members])

    def fit(self, train: Callable[[nn.Module, int], Any]) -> DeepEnsemble:
        """Call ``train(member, seed)`` for each member, torch seeded with the member's seed."""
        for member, seed in zip(self.members, self.seeds.tolist(), strict=True):
            with seeded(seed, "DeepEnsemble"):
                train(member, seed)
        return self

    def draws(self, samples: int) -> Iterator[nn.Module]:  # noqa: ARG002  # an ensemble has as many as it has
        """Yield the members."""
        yield from self.members
