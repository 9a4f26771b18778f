"""Calibration metrics while training: constant memory, the library's own cells, one all-reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibrant.calibrators._torch_module import WideStates
from calibrant.core.tables import Table
from calibrant.errors import input_error
from calibrant.torch.batch import IGNORE
from calibrant.torch.stream import Stream
from calibrant.views import View

CALLER = "StreamingCalibration"
#: What a training loop wants to see.
DEFAULT_METRICS = ("accuracy", "ece", "ks", "uce", "brier", "nll")


class StreamingCalibration(WideStates):
    """Any one-dimensional metric of the library over a stream of batches.

    Parameters
    ----------
    n_classes : int
        K.
    metrics : sequence of str, default=("accuracy", "ece", "ks", "uce", "brier", "nll")
        Short names, see `calibrant.list_metrics`; metrics that need all rows are refused by name.
    space : {"logit", "proba"}, default="logit"
        What `update` is given; networks give logits.
    ignore_index : int, default=-100
        Rows with this label do not count: padding, unlabeled pixels.
    weighted : bool, default=False
        Whether `update` takes a `sample_weight`; the state is half as large again.

    Notes
    -----
    The state is one flat float64 tensor on the model's device: a fine table (76,800 cells, the end cells split by
    octave) for the top label and for the entropy, a coarse one for each class where a metric asks for it, and
    score sums; `update` adds to it by counting on the device, `compute` finishes it with the same estimators as
    `calibrant.evaluate`. Equal-width bins, accuracy and proper scores are exact; KS, MMCE, KDE and equal-mass bins
    err by a cell. The state is no buffer: `.half()` leaves it float64 and DistributedDataParallel leaves it alone,
    also as a part of the model. Under torch.distributed `compute` makes one all-reduce; every process gets the same
    numbers. Update, compute, merge_state and reset as in torchmetrics; `calibrant.torch.torchmetrics` has a real
    `torchmetrics.Metric`.

    Examples
    --------
    >>> import torch
    >>> meter = StreamingCalibration(2, ["ece", "accuracy"], space="proba")
    >>> meter.update(torch.tensor([[0.1, 0.9], [0.1, 0.9]]), torch.tensor([1, 0]))
    >>> meter.update(torch.tensor([[0.4, 0.6], [0.4, 0.6]]), torch.tensor([1, 1]))
    >>> meter.compute()
    {'ece': 0.4, 'accuracy': 0.75}
    """

    def __init__(
        self,
        n_classes: int,
        metrics: Sequence[str] = DEFAULT_METRICS,
        space: Literal["logit", "proba"] = "logit",
        *,
        ignore_index: int = IGNORE,
        weighted: bool = False,
    ) -> None:
        super().__init__()
        self._stream = Stream(n_classes, metrics, space, CALLER, ignore_index=ignore_index, weighted=weighted)
        self.n_classes, self.space, self.metrics = self._stream.n_classes, space, self._stream.metrics
        self.add_wide("state", torch.zeros(self._stream.size, dtype=torch.float64), persistent=False)

    @property
    def state(self) -> Tensor:
        """All sums, flat, float64."""
        return self._wide["state"]

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add one batch: scores (batch, K) or (batch, K, …) and class indices (batch, …); one column is binary."""
        self._stream.add(self.state, preds, target, sample_weight)

    forward = update

    def compute(self) -> dict[str, float]:
        """Return every metric by its short name, over all processes."""
        state = self.state
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            state = _for_backend(state.clone())
            torch.distributed.all_reduce(state)
        return self._stream.finish(state.cpu().numpy())

    def tables(self, view: View | str, sums: np.ndarray[Any, Any] | None = None) -> tuple[Table, ...]:
        """Return the occupied cells of a view ("top-1", "entropy", "classwise", …) as the library's tables."""
        return self._stream.tables(view, self.state.cpu().numpy() if sums is None else sums)

    def merge_state(self, other: StreamingCalibration) -> None:
        """Add another meter's state to this one; the other stays as it is."""
        if not (isinstance(other, StreamingCalibration) and self._stream.same_as(other._stream)):
            raise input_error("other", CALLER, "hold the same metrics and classes", repr(other), "build both alike")
        self.state.add_(other.state.to(self.state.device))

    def reset(self) -> None:
        """Forget everything."""
        self.state.zero_()

    def extra_repr(self) -> str:
        """Show the parameters."""
        return f"n_classes={self.n_classes}, metrics={list(self.metrics)}, space={self.space!r}"


def _for_backend(state: Tensor) -> Tensor:
    """Return the state where the default group can reduce it: NCCL works on GPUs alone."""
    if state.device.type == "cpu" and torch.distributed.get_backend() == "nccl":
        return state.to("cuda")
    return state
