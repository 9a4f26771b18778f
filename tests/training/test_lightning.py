"""torchmetrics and Lightning as installed: collections, logging, sync, callbacks, two processes (make test-lightning)."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from calibrant.torch import StreamingCalibration

pytestmark = pytest.mark.lightning
METRICS = ("accuracy", "confidence", "ece", "mce", "ks", "uce", "brier", "nll", "rbs", "sce", "cwce", "ace", "mmce")


def batch(seed=0, n=600, k=4):
    draw = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(n, k, generator=draw), torch.randint(0, k, (n,), generator=draw)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning warns about loaders, loggers and processes
        yield


@pytest.mark.parametrize("name", ["torchmetrics", "lightning"])
def test_examples(name):
    module = __import__(f"calibrant.torch.{name}", fromlist=["x"])
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("metric", METRICS)
def test_every_streaming_metric_is_a_real_metric(metric):
    import torchmetrics

    from calibrant.torch.torchmetrics import CalibrationMetric

    logits, target = batch()
    found, meter = CalibrationMetric(4, metric), StreamingCalibration(4, [metric])
    assert isinstance(found, torchmetrics.Metric)
    for rows in torch.arange(600).split(250):
        value = found(logits[rows], target[rows])  # forward: of this batch
        alone = StreamingCalibration(4, [metric])
        alone.update(logits[rows], target[rows])
        assert float(value) == pytest.approx(alone.compute()[metric], abs=1e-6)
        meter.update(logits[rows], target[rows])
    assert float(found.compute()) == pytest.approx(meter.compute()[metric], abs=1e-6)
    for move in (found.half, lambda: found.to(torch.bfloat16), lambda: found.set_dtype(torch.float16)):
        move()
        assert found.state.dtype == torch.float64
    assert float(found.compute()) == pytest.approx(meter.compute()[metric], abs=1e-6)
    found.reset()
    assert not found.state.any()


def test_collection_shares_states_and_merges():
    from calibrant.torch.torchmetrics import CalibrationMetric, calibration_metrics

    logits, target = batch()
    target[::7] = -100
    collection = calibration_metrics(4, METRICS, prefix="val_")
    for rows in torch.arange(600).split(200):
        collection.update(logits[rows], target[rows])
    meter = StreamingCalibration(4, METRICS)
    meter.update(logits, target)
    expected = {f"val_{name}": value for name, value in meter.compute().items()}
    assert {name: float(value) for name, value in collection.compute().items()} == pytest.approx(expected, abs=1e-6)
    groups = [set(group) for group in collection.compute_groups.values()]
    assert any({"ece", "mce", "ks"} <= group for group in groups)
    left, right = CalibrationMetric(4), CalibrationMetric(4)
    left.update(logits[:300], target[:300])
    right.update(logits[300:], target[300:])
    left.merge_state(right)
    assert float(left.compute()) == pytest.approx(expected["val_ece"], abs=1e-6)


TRAIN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset
from calibrant.torch import RegularizedLoss, StreamingCalibration, UCELoss, predict
from calibrant.torch.lightning import CalibrationCallback, SWAGCallback, TemperatureCallback
from calibrant.torch.torchmetrics import calibration_metrics

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        self.loss = RegularizedLoss(penalty=UCELoss(), weight=0.1, warmup=5)
        self.inside = StreamingCalibration(4, ["accuracy", "ece"])
        self.collection = calibration_metrics(4, ["accuracy", "ece"], prefix="tm_")
        self.rows = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        logits = self(batch[0])
        self.inside.update(logits, batch[1])  # a meter inside the module, gradients on
        self.rows.append((logits.detach().float(), batch[1]))
        loss = self.loss(logits, batch[1])
        self.log_dict(self.loss.parts())
        return loss

    def on_train_epoch_end(self):
        self.train_found = self.inside.compute()
        self.inside.reset()
        self.train_rows, self.rows = self.rows, []

    def validation_step(self, batch, _):
        logits = self(batch[0])
        self.collection.update(logits, batch[1])
        self.log_dict(self.collection)
        return {"logits": logits}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)

def main(devices, precision, folder):
    lightning.seed_everything(0, verbose=False)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(402, 6, generator=draw)
    y = (x[:, 0] > 0).long() * 2 + (x[:, 1] + 0.7 * torch.randn(402, generator=draw) > 0).long()
    train = DataLoader(TensorDataset(x[:202], y[:202]), 40, shuffle=True)
    val = DataLoader(TensorDataset(x[202:], y[202:]), 50)
    module = Net()
    swag = SWAGCallback(start=0.5, network=lambda m: m.net, rank=2, refresh=[x[:202]])
    temperature = TemperatureCallback()
    trainer = lightning.Trainer(
        max_epochs=4, accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", precision=precision,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=1, default_root_dir=folder,
        callbacks=[CalibrationCallback(4, ["accuracy", "ece", "nll"]), swag, temperature],
    )
    trainer.fit(module, train, val)
    found = {name: float(value) for name, value in trainer.callback_metrics.items()}
    # what the numbers should be
    rows = [None] * devices
    if devices > 1:
        torch.distributed.all_gather_object(rows, module.train_rows)
    else:
        rows = [module.train_rows]
    whole = StreamingCalibration(4, ["accuracy", "ece"])
    for part in rows:
        for logits, target in part:
            whole._stream.add(whole.state, logits, target)
    expected = whole._stream.finish(whole.state.numpy())
    for name in expected:
        assert abs(module.train_found[name] - expected[name]) < (1e-12 if precision == "32-true" else 1e-9), (module.train_found, expected)
    assert abs(found["val_ece"] - found["tm_ece"]) < 1e-5, found
    assert abs(found["val_accuracy"] - found["tm_accuracy"]) < 1e-5, found
    assert int(swag.swag.count) == 2
    assert {"loss", "base", "penalty", "weight"} <= set(found)
    assert 0.2 < temperature.scaling.temperature < 5
    assert module.inside.state.dtype == torch.float64
    swag.swag.float()  # the network, not the moments
    posterior = predict(swag.swag, [(x[202:], y[202:])], samples=3, rng=0)
    assert posterior.sample_logits.shape == (3, 200, 4)
    print(json.dumps(found))

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


@pytest.mark.parametrize(
    ("devices", "precision"), [(1, "32-true"), (1, "bf16-true"), (1, "bf16-mixed"), (2, "32-true")]
)
def test_a_whole_training(tmp_path, devices, precision):
    script = tmp_path / "program.py"
    script.write_text(TRAIN)
    done = subprocess.run(
        [sys.executable, str(script), str(devices), precision, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=900,  # four processes on a loaded machine
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("hold", [list, lambda two: dict(zip("ab", two, strict=True))], ids=["list", "dict"])
def test_temperature_of_several_validation_loaders(tmp_path, hold):
    import lightning

    from calibrant.torch.lightning import TemperatureCallback

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.scale * x

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            return None

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    x, _ = batch(n=300)
    y = torch.multinomial((x / 2).softmax(1), 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    rows = torch.utils.data.TensorDataset(x, y)
    halves = [torch.utils.data.Subset(rows, range(*ends)) for ends in ((0, 100), (100, 300))]
    found = {}
    for name, val in (("one", torch.utils.data.DataLoader(rows, 50)), ("two", None)):
        callback = TemperatureCallback()
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=str(tmp_path), callbacks=[callback],
        )  # fmt: skip
        several = hold([torch.utils.data.DataLoader(half, 50) for half in halves])
        trainer.fit(Net(), torch.utils.data.DataLoader(rows, 50), val or several)
        found[name] = callback.scaling.temperature
    assert found["two"] == pytest.approx(found["one"], rel=1e-6)


def test_callbacks_resume_from_a_checkpoint(tmp_path):
    from calibrant.torch.lightning import SWAGCallback, TemperatureCallback

    net = torch.nn.Linear(3, 2)
    callback = SWAGCallback(start=0)
    callback.on_fit_start(None, net)
    for _ in range(3):
        torch.nn.init.normal_(net.weight)
        callback.swag.collect()
    again = SWAGCallback(start=0)
    again.load_state_dict(callback.state_dict())
    again.on_fit_start(None, net)
    assert torch.equal(again.swag.mean, callback.swag.mean)
    assert int(again.swag.count) == 3
    warm, cold = TemperatureCallback(), TemperatureCallback()
    torch.nn.init.constant_(warm.scaling.log_temperature, 0.7)
    cold.load_state_dict(warm.state_dict())
    assert cold.scaling.temperature == pytest.approx(np.exp(0.7))


def test_steps_that_return_no_logits_are_told(tmp_path):
    from calibrant.errors import InputError
    from calibrant.torch.lightning import CalibrationCallback, SWAGCallback

    with pytest.raises(InputError, match="'logits'"):
        CalibrationCallback(3).on_validation_batch_end(None, None, torch.tensor(1.0), (1, torch.tensor([0])), 0)
    with pytest.raises(InputError, match="fraction"):
        SWAGCallback(start=1.5)
