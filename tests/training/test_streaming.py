"""Streaming metrics: equal to the library on all rows, mergeable, one all-reduce."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from calibrant.core.declare import lookup
from calibrant.core.inputs import check_forecast
from calibrant.core.tables import COARSE, FINE, cell_key, cell_table
from calibrant.errors import InputError
from calibrant.torch import StreamingCalibration
from calibrant.torch.stream import _keys, cell_index
from calibrant.views import Classwise, Entropy, TopLabel
from helpers import load_data

EXACT = ("accuracy", "confidence", "entropy", "brier", "rbs", "nll", "ece", "mce", "tce", "uce", "sce", "cwce")
CLOSE = ("ks", "mmce", "kde", "ace")


def batch(seed=0, n=3000, k=5, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * scale
    return torch.tensor(logits, dtype=torch.float32), torch.tensor(rng.integers(0, k, n))


@pytest.mark.parametrize("m", [FINE, COARSE])
def test_cells_are_the_librarys(m):
    rng = np.random.default_rng(1)
    s = np.concatenate(
        [
            rng.random(2000),
            10.0 ** -rng.uniform(0, 20, 500),
            1 - 10.0 ** -rng.uniform(0, 16, 500),
            [0, 1, 0.5, 1 / 3, 0.1, 0.7],
            np.float32([0.1, 0.3, 0.6, 0.7, 1]).astype(float),
        ]
    )
    np.testing.assert_array_equal(_keys(m)[cell_index(torch.tensor(s), m).numpy()], cell_key(s, m))


def test_tables_are_the_librarys():
    logits, target = batch()
    meter = StreamingCalibration(5, ["ece", "uce", "sce"])
    for rows in torch.arange(3000).split(701):
        meter.update(logits[rows], target[rows])
    forecast = check_forecast(target.numpy(), logits.numpy(), caller="test", space="logit")
    for view, grid in ((TopLabel(), FINE), (Entropy(), FINE), (Classwise(), COARSE)):
        for ours, pairs in zip(meter.tables(view.name), view.groups(forecast), strict=True):
            theirs = cell_table(pairs, grid)
            np.testing.assert_array_equal(ours.key, theirs.key)
            for name in ("n", "w", "ws", "wt", "we", "w2"):
                np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("space", ["logit", "proba"])
def test_equal_to_the_library(space):
    logits, target = batch(2)
    scores = logits if space == "logit" else torch.softmax(logits.double(), dim=1)
    meter = StreamingCalibration(5, EXACT + CLOSE, space=space)
    for rows in torch.arange(3000).split(512):
        meter.update(scores[rows], target[rows])
    values = meter.compute()
    assert list(values) == list(EXACT + CLOSE)
    for name in EXACT:
        assert values[name] == pytest.approx(lookup(name)(target, scores, space=space), abs=1e-10), name
    for name in CLOSE:
        assert values[name] == pytest.approx(lookup(name)(target, scores, space=space), abs=2e-3), name


def test_real_network_is_sharp():
    data = load_data("cifar10_resnet110")
    meter = StreamingCalibration(10, ["ece", "ks", "ace", "mmce", "uce"])
    logits, labels = torch.tensor(data["logits_test"]), torch.tensor(data["labels_test"].astype(np.int64))
    for rows in torch.arange(len(labels)).split(1000):
        meter.update(logits[rows], labels[rows])
    values = meter.compute()
    assert values["ece"] == pytest.approx(0.047504, abs=1e-6)
    assert values["uce"] == pytest.approx(0.045340, abs=1e-6)
    assert values["ks"] == pytest.approx(0.047504, abs=1e-4)
    assert values["mmce"] == pytest.approx(0.0427735, abs=1e-4)
    assert values["ace"] == pytest.approx(0.003583, abs=1e-4)


def test_merge_reset_and_empty():
    logits, target = batch(3)
    whole, left, right = (StreamingCalibration(5) for _ in range(3))
    assert all(np.isnan(value) for value in whole.compute().values())
    whole.update(logits, target)
    left.update(logits[:1000], target[:1000])
    right.update(logits[1000:], target[1000:])
    kept = right.state.clone()
    left.merge_state(right)
    assert torch.equal(right.state, kept)
    for name, value in whole.compute().items():
        assert left.compute()[name] == pytest.approx(value, abs=1e-12)
    size = left.state.numel()
    left.update(logits[:0], target[:0])
    left.reset()
    assert not left.state.any()
    assert left.state.numel() == size
    assert "state" not in left.state_dict()
    with pytest.raises(InputError, match="same metrics"):
        left.merge_state(StreamingCalibration(5, ["sce"]))


def test_half_precision_and_infinite_log_score():
    logits, target = batch(4)
    meter = StreamingCalibration(5, ["nll", "ece"])
    meter.update(logits.bfloat16(), target)
    assert meter.compute()["nll"] == pytest.approx(lookup("nll")(target, logits.bfloat16().float(), space="logit"))
    hard = StreamingCalibration(2, ["nll", "brier"], space="proba")
    hard.update(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    assert hard.compute() == {"nll": np.inf, "brier": 2.0}


def test_misuse_is_named():
    with pytest.raises(InputError, match="have a form that adds up over batches"):
        StreamingCalibration(3, ["skce"])
    with pytest.raises(InputError, match="did you mean 'ece'"):
        StreamingCalibration(3, ["ecee"])
    with pytest.raises(InputError, match=r"shape \(batch, 3\) or"):
        StreamingCalibration(3).update(torch.zeros(2, 4), torch.zeros(2, dtype=torch.long))
    with pytest.raises(InputError, match="7 at row 1"):
        StreamingCalibration(3).update(torch.zeros(2, 3), torch.tensor([0, 7]))


WORKER = """
import sys, warnings
import torch
warnings.simplefilter("ignore")
from calibrant.torch import StreamingCalibration
rank, path = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
logits = torch.randn(600, 4, generator=torch.Generator().manual_seed(0)) * 3
target = torch.randint(0, 4, (600,), generator=torch.Generator().manual_seed(1))
meter = StreamingCalibration(4)
meter.update(logits[rank * 250 : 250 + rank * 350], target[rank * 250 : 250 + rank * 350])
both = meter.compute()
torch.distributed.destroy_process_group()
whole = StreamingCalibration(4)
whole.update(logits, target)
assert all(abs(both[name] - value) < 1e-12 for name, value in whole.compute().items()), (both, whole.compute())
assert meter.state[0] == (250, 350)[rank]
"""


INSIDE = """
import sys, warnings
import torch
warnings.simplefilter("ignore")
from calibrant.torch import RegularizedLoss, StreamingCalibration, UCELoss
rank, path = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4))
        self.meter = StreamingCalibration(4)
        self.loss = RegularizedLoss(penalty=UCELoss(), warmup=3)

    def forward(self, x, y):
        logits = self.body(x)
        self.meter.update(logits, y)  # gradients are on, so buffers are broadcast from rank 0 before every pass
        seen.append((logits.detach(), y))
        return self.loss(logits, y)

seen = []
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(40 + 10 * rank, 6, generator=draw), torch.randint(0, 4, (40 + 10 * rank,), generator=draw)).backward()
    optimizer.step()
both = model.module.meter.compute()
flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
other = [torch.zeros_like(flat) for _ in range(2)]
torch.distributed.all_gather(other, flat)
rows = [None, None]
torch.distributed.all_gather_object(rows, seen)
torch.distributed.destroy_process_group()
assert torch.equal(*other)
whole = StreamingCalibration(4)
for part in rows:
    for logits, y in part:
        whole.update(logits, y)
expected = whole.compute()
assert all(abs(both[name] - value) < 1e-12 for name, value in expected.items()), (both, expected)
assert int(model.module.loss.steps) == 4
"""


@pytest.mark.parametrize("program", [WORKER, INSIDE], ids=["beside", "inside DistributedDataParallel"])
def test_two_processes_agree_after_one_all_reduce(tmp_path, program):
    workers = [
        subprocess.Popen([sys.executable, "-c", program, str(rank), str(tmp_path / "meet")], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=900)
        assert worker.returncode == 0, errors.decode()
