"""Every streaming metric of the library as a `torchmetrics.Metric` (extra: torchmetrics)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from calibrant.calibrators._torch_module import follow
from calibrant.errors import require
from calibrant.torch.batch import IGNORE
from calibrant.torch.metrics import DEFAULT_METRICS
from calibrant.torch.stream import Stream

require("torchmetrics", "torchmetrics", "calibrant.torch.torchmetrics")

import torchmetrics  # noqa: E402  # it is checked first

CALLER = "CalibrationMetric"
__all__ = ["CalibrationMetric", "calibration_metrics"]


class CalibrationMetric(torchmetrics.Metric):  # type: ignore[misc]  # torchmetrics is untyped here
    """One metric of the library for `self.log`, `MetricCollection`, `forward` and `sync`.

    Parameters
    ----------
    n_classes : int
        K.
    metric : str, default="ece"
        Short name, see `calibrant.list_metrics`; metrics that need all rows are refused by name.
    space : {"logit", "proba"}, default="logit"
        What `update` is given.
    ignore_index : int, default=-100
        Rows with this label do not count.
    weighted : bool, default=False
        Whether `update` takes a `sample_weight`.
    **options
        Of `torchmetrics.Metric`.

    Notes
    -----
    The state is the flat float64 tensor of `calibrant.torch.StreamingCalibration` with what this metric needs, summed
    over processes. In a `MetricCollection` metrics of the same view (ECE, KS, MCE) share one state.

    Examples
    --------
    >>> import torch
    >>> ece = CalibrationMetric(2, "ece", space="proba")
    >>> ece(torch.tensor([[0.1, 0.9], [0.1, 0.9]]), torch.tensor([1, 0]))  # of this batch
    tensor(0.4000)
    >>> ece.compute()  # of all batches
    tensor(0.4000)
    """

    is_differentiable = False
    full_state_update = False
    state: Tensor

    def __init__(
        self,
        n_classes: int,
        metric: str = "ece",
        space: Literal["logit", "proba"] = "logit",
        *,
        ignore_index: int = IGNORE,
        weighted: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._stream = Stream(n_classes, [metric], space, CALLER, ignore_index=ignore_index, weighted=weighted)
        self.metric = metric
        self.add_state("state", torch.zeros(self._stream.size, dtype=torch.float64), dist_reduce_fx="sum")

    def set_dtype(self, dst_type: Any) -> CalibrationMetric:  # noqa: ARG002  # torchmetrics' signature
        """Stay float64: sums of short floats drift."""
        return self

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> CalibrationMetric:
        kept, default = self.state, self._defaults["state"]
        super()._apply(fn, *args, **kwargs)  # `.to(torch.bfloat16)` would round the sums
        self.state, self._defaults["state"] = follow(kept, fn), follow(default, fn)
        self._computed = None  # a cached value would be rounded too
        return self

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add one batch, as `StreamingCalibration.update`."""
        self._stream.add(self.state, preds, target, sample_weight)

    def compute(self) -> Tensor:
        """Return the metric of all batches, float32 on the metric's device."""
        value = self._stream.finish(self.state.cpu().numpy())[self.metric]
        return torch.tensor(value, dtype=torch.float32, device=self.state.device)


def calibration_metrics(
    n_classes: int, metrics: Sequence[str] = DEFAULT_METRICS, space: Literal["logit", "proba"] = "logit", **options: Any
) -> Any:
    """Return a `torchmetrics.MetricCollection` of several metrics, by their short names.

    Parameters
    ----------
    n_classes, space
        As in `CalibrationMetric`.
    metrics : sequence of str
        Short names.
    **options
        ``prefix``, ``postfix`` and ``compute_groups`` go to the collection, others to each metric.

    Returns
    -------
    MetricCollection
        For ``self.log_dict(collection)``.

    Examples
    --------
    >>> import torch
    >>> both = calibration_metrics(2, ["ece", "accuracy"], space="proba", prefix="val_")
    >>> both.update(torch.tensor([[0.1, 0.9], [0.1, 0.9]]), torch.tensor([1, 0]))
    >>> {name: round(float(value), 4) for name, value in both.compute().items()}
    {'val_accuracy': 0.5, 'val_ece': 0.4}
    """
    outer = {name: options.pop(name) for name in ("prefix", "postfix", "compute_groups") if name in options}
    each = {name: CalibrationMetric(n_classes, name, space, **options) for name in metrics}
    return torchmetrics.MetricCollection(each, **outer)
