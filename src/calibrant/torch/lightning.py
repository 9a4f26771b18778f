"""Lightning callbacks: calibration metrics, SWAG, and the temperature after fit (extra: lightning)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from calibrant.errors import input_error, require
from calibrant.torch.batch import IGNORE
from calibrant.torch.metrics import DEFAULT_METRICS, StreamingCalibration
from calibrant.torch.passes import each_loader, evaluating, logits_of, run, split_batch
from calibrant.torch.scaling import TemperatureScaling
from calibrant.torch.swag import SWAG

require("lightning", "lightning", "calibrant.torch.lightning")

from lightning.pytorch import Callback  # noqa: E402  # it is checked first

__all__ = ["CalibrationCallback", "SWAGCallback", "TemperatureCallback"]


def _from_step(outputs: Any, batch: Any, caller: str) -> tuple[Tensor, Tensor]:
    """Return logits and targets from what a step returned: {"logits": …}, with the batch's own targets if need be."""
    target = split_batch(batch)[1]
    if isinstance(outputs, Mapping) and "logits" in outputs:
        target = next((outputs[name] for name in ("target", "labels", "y") if name in outputs), target)
        if target is not None:
            return outputs["logits"], target
    raise input_error(
        "validation_step",
        caller,
        "return a dictionary with 'logits' (and 'target', where the batch has none)",
        type(outputs).__name__,
        'end it with return {"loss": loss, "logits": logits}',
    )


class CalibrationCallback(Callback):  # type: ignore[misc]  # lightning is untyped here
    """Log calibration metrics of every validation and test epoch.

    Parameters
    ----------
    n_classes, metrics, space, ignore_index
        As in `calibrant.torch.StreamingCalibration`.
    prefix : str, default="{stage}_"
        In front of each name; ``{stage}`` becomes val or test.

    Notes
    -----
    The step returns ``{"loss": loss, "logits": logits}``; targets come from it or from the batch. One all-reduce per
    epoch; every process logs the same numbers.

    Examples
    --------
    >>> callback = CalibrationCallback(10, ["ece", "nll"])
    """

    def __init__(
        self,
        n_classes: int,
        metrics: Sequence[str] = DEFAULT_METRICS,
        space: Literal["logit", "proba"] = "logit",
        *,
        ignore_index: int = IGNORE,
        prefix: str = "{stage}_",
    ) -> None:
        self.meter = StreamingCalibration(n_classes, metrics, space, ignore_index=ignore_index)
        self.prefix = prefix

    def _start(self, pl_module: Any) -> None:
        self.meter.to(pl_module.device)
        self.meter.reset()

    def _end(self, pl_module: Any, stage: str) -> None:
        found = self.meter.compute()  # over all processes
        names = {self.prefix.format(stage=stage) + name: value for name, value in found.items()}
        pl_module.log_dict(names, sync_dist=False, rank_zero_only=False)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002  # lightning's signature
        """Forget the last epoch."""
        self._start(pl_module)

    def on_validation_batch_end(
        self,
        trainer: Any,  # noqa: ARG002  # lightning's signature
        pl_module: Any,  # noqa: ARG002
        outputs: Any,
        batch: Any,
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,  # noqa: ARG002
    ) -> None:
        """Count one batch."""
        self.meter.update(*_from_step(outputs, batch, "CalibrationCallback"))

    on_test_epoch_start, on_test_batch_end = on_validation_epoch_start, on_validation_batch_end

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002  # lightning's signature
        """Log."""
        self._end(pl_module, "val")

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002  # lightning's signature
        """Log."""
        self._end(pl_module, "test")


class SWAGCallback(Callback):  # type: ignore[misc]  # lightning is untyped here
    """Collect the weights of late epochs into a `SWAG`.

    Parameters
    ----------
    start : float or int, default=0.75
        First epoch to collect, as a number or as a fraction of ``max_epochs``.
    network : callable, default=None
        Takes the LightningModule and returns the network; the module itself by default.
    **options
        Of `calibrant.torch.SWAG`: rank, layers, layer, refresh, device.

    Attributes
    ----------
    swag : SWAG
        Ready for `calibrant.torch.predict` after fit; saved in checkpoints.

    Examples
    --------
    >>> callback = SWAGCallback(start=0.5, rank=10)
    """

    def __init__(
        self, start: float = 0.75, network: Callable[[Any], torch.nn.Module] | None = None, **options: Any
    ) -> None:
        if start < 0 or (isinstance(start, float) and start > 1):
            raise input_error("start", "SWAGCallback", "be an epoch, or a fraction in [0, 1]", repr(start), "use 0.75")
        self.start, self.network, self.options = start, network, options
        self.swag: SWAG | None = None
        self._saved: dict[str, Any] | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002  # lightning's signature
        """Build the posterior around the network."""
        self.swag = SWAG(pl_module if self.network is None else self.network(pl_module), **self.options)
        if self._saved is not None:
            self.swag.load_state_dict(self._saved, strict=False)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002  # lightning's signature
        """Collect, once the start is reached."""
        first = self.start * trainer.max_epochs if isinstance(self.start, float) else self.start
        if self.swag is not None and trainer.current_epoch >= first:
            self.swag.collect()

    def state_dict(self) -> dict[str, Any]:
        """Return the moments, without the network's own weights."""
        states = {} if self.swag is None else self.swag.state_dict()
        return {name: value for name, value in states.items() if not name.startswith("model.")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._saved = state_dict or None


class TemperatureCallback(Callback):  # type: ignore[misc]  # lightning is untyped here
    """Fit one temperature on the validation rows when training ends.

    Parameters
    ----------
    network : callable, default=None
        Takes the LightningModule and returns what gives logits for the inputs of a batch; the module itself by default.
    ignore_index : int, default=-100
        Rows with this label do not count.

    Attributes
    ----------
    scaling : calibrant.torch.TemperatureScaling
        The layer to put behind the network: ``torch.nn.Sequential(network, callback.scaling)``.

    Notes
    -----
    Logits of all processes are gathered, so every process finds the same temperature.

    Examples
    --------
    >>> callback = TemperatureCallback()
    """

    def __init__(self, network: Callable[[Any], torch.nn.Module] | None = None, *, ignore_index: int = IGNORE) -> None:
        self.network, self.ignore_index = network, ignore_index
        self.scaling = TemperatureScaling()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Walk the validation rows once and fit."""
        loaders = trainer.val_dataloaders
        if loaders is None:
            raise input_error(
                "val_dataloaders", "TemperatureCallback", "hold held-out rows", "None", "pass them to trainer.fit"
            )
        network = pl_module if self.network is None else self.network(pl_module)
        logits, targets = [], []
        plugin = trainer.precision_plugin
        with evaluating(network), plugin.forward_context():
            every = ((place, batch) for place, loader in enumerate(each_loader(loaders)) for batch in loader)
            for place, batch in every:
                moved = pl_module.transfer_batch_to_device(plugin.convert_input(batch), pl_module.device, place)
                inputs, target = split_batch(moved)
                if target is None:
                    raise input_error("val_dataloaders", "TemperatureCallback", "give targets", "none", "yield pairs")
                logits.append(logits_of(run(network, inputs, pl_module.device), "TemperatureCallback").cpu())
                targets.append(target.cpu())
        held, labels = torch.cat(logits), torch.cat(targets)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(parts, (held, labels))
            held, labels = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        self.scaling.fit(held, labels, ignore_index=self.ignore_index)

    def state_dict(self) -> dict[str, Any]:
        """Return the temperature."""
        return dict(self.scaling.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the temperature of a checkpoint."""
        self.scaling.load_state_dict(state_dict)
