"""Numbers of other libraries on small fixed inputs: how peers.json was made.

Run ``python tests/golden/peer_values.py`` in an environment with the peers of requirements/bench.txt.
"""

from __future__ import annotations

import json
import os
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
STORE = HERE / "peers.json"
_DATA = HERE.parent.parent.parent / "shared" / "data"


def _weyl(n: int, prime: int) -> np.ndarray:
    """Evenly spread numbers in [0, 1) that no random generator can change."""
    return np.modf(np.arange(1, n + 1) * np.sqrt(prime))[0]


def smooth_input(n: int = 407) -> tuple[np.ndarray, np.ndarray]:
    """Four classes, no ties; over-confident."""
    p = np.stack([_weyl(n, prime) for prime in (2, 3, 5, 7)], axis=1) ** 3
    p /= p.sum(axis=1, keepdims=True)
    truth = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    return p, (truth.cumsum(axis=1)[:, :-1] < _weyl(n, 11)[:, None]).sum(axis=1)


def decimal_input(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Three classes with multiples of 0.05: ties, exact 0 and 1, scores on bin edges."""
    first = np.floor(21 * _weyl(n, 2)).astype(int)
    second = np.floor((21 - first) * _weyl(n, 3)).astype(int)
    p = np.stack([first, second, 20 - first - second], axis=1) / 20
    return p, np.where(_weyl(n, 5) < 0.7, p.argmax(axis=1), np.floor(3 * _weyl(n, 7)).astype(int))


def network_input() -> tuple[np.ndarray, np.ndarray] | None:
    """Test part of cifar10_resnet110, float64 softmax; None when the file is absent."""
    path = Path(os.environ.get("CALIBRANT_DATA", _DATA)) / "cifar10_resnet110.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        logits, labels = archive["logits_test"].astype(np.float64), archive["labels_test"].astype(np.int64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), labels


INPUTS = {"smooth": smooth_input, "decimals": decimal_input, "cifar10_resnet110": network_input}


def _torchmetrics(name: str, p: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    import torch
    from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

    rows, k = [], p.shape[1]
    for m in (10, 15):
        for word, norm in (("l1", 1), ("l2", 2), ("max", "inf")):
            many = multiclass_calibration_error(torch.tensor(p), torch.tensor(y), k, n_bins=m, norm=word)
            one = binary_calibration_error(
                torch.tensor(p[:, 0].astype(np.float32)), torch.tensor((y == 0).astype(int)), n_bins=m, norm=word
            )
            call = f"n_bins={m}, norm={word!r})"
            rows += [
                _row("torchmetrics", name, f"multiclass_calibration_error(p, y, {k}, {call}", "top-1", many, m, norm),
                _row(
                    "torchmetrics",
                    name,
                    f"binary_calibration_error(float32(p[:, 0]), y == 0, {call}",
                    "class-0",
                    one,
                    m,
                    norm,
                ),
            ]
    return rows


def _netcal(name: str, p: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    from netcal.metrics import ACE, ECE, MCE, MMCE

    rows = []
    for m in (10, 15):
        for metric in (ECE, MCE, ACE):
            for equal in (True, False):
                try:
                    value = metric(m, equal_intervals=equal).metric(p, y)
                except ValueError:  # repeated quantiles
                    continue
                rows.append(
                    _row(
                        "netcal",
                        name,
                        f"{metric.__name__}({m}, equal_intervals={equal}).metric(p, y)",
                        "top-1",
                        value,
                        m,
                        "inf" if metric is MCE else 1,
                        bins="width" if equal else "mass",
                        average="range" if metric is ACE else "count",
                    )
                )
    rows.append(
        {
            "peer": "netcal",
            "data": name,
            "command": "MMCE().metric(p[:1000], y[:1000])",
            "measure": "mmce",
            "value": float(MMCE().metric(p[:1000], y[:1000])),
            "rows": 1000,
            "parameters": {},
        }
    )
    return rows


def _uncertainty_calibration(name: str, p: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    from calibration import utils

    rows = []
    for m in (10, 15):
        for mode, view in (("top-label", "top-1"), ("marginal", "classwise")):
            for norm, debias in ((1, False), (2, False), (2, True)):
                for bins in ("width", "mass"):
                    if bins == "mass" and len(y) % m:  # its blocks differ by one row from Gruber & Buettner's
                        continue
                    scheme = utils.get_equal_prob_bins if bins == "width" else utils.get_equal_bins
                    value = utils.lower_bound_scaling_ce(p, y, norm, debias, m, scheme, mode)
                    rows.append(
                        _row(
                            "uncertainty-calibration",
                            name,
                            f"lower_bound_scaling_ce(p, y, {norm}, {debias}, {m}, {scheme.__name__}, {mode!r})",
                            view,
                            value,
                            m,
                            norm,
                            bins=bins,
                            debias=debias,
                        )
                    )
    return rows


def _relplot(name: str, p: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    import relplot

    top, hit = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    return [
        {
            "peer": "relplot",
            "data": name,
            "command": "smECE(p.max(axis=1), p.argmax(axis=1) == y)",
            "measure": "smece",
            "value": float(relplot.smECE(top, hit)),
            "rows": None,
            "parameters": {},
        }
    ]


def _row(
    peer: str, data: str, command: str, view: str, value: Any, n_bins: int, norm: int | str, **more: Any
) -> dict[str, Any]:
    return {
        "peer": peer,
        "data": data,
        "command": command,
        "measure": "binned",
        "value": float(value),
        "rows": None,
        "parameters": {"view": view, "n_bins": n_bins, "norm": norm, **more},
    }


def measure(peer: str) -> list[dict[str, Any]]:
    """Run one peer on every input that is there."""
    run = {
        "torchmetrics": _torchmetrics,
        "netcal": _netcal,
        "uncertainty-calibration": _uncertainty_calibration,
        "relplot": _relplot,
    }[peer]
    rows = []
    for name, make in INPUTS.items():
        given = make()
        if given is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows += run(name, *given)
    return rows


if __name__ == "__main__":
    peers = ("torchmetrics", "netcal", "uncertainty-calibration", "relplot")
    lines = [json.dumps(row) for peer in peers for row in measure(peer)]
    versions = json.dumps({name: version(name) for name in (*peers, "numpy", "torch", "scipy")})
    STORE.write_text(
        '{"versions": ' + versions + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n]}\n", encoding="utf-8"
    )
