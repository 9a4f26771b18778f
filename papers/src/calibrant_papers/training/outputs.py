"""Real features to train on: what published networks say about the CIFAR test images, joined row by row."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from calibrant.errors import FileError
from calibrant_papers.targets.sources import load
from calibrant_papers.training.images import Images

#: Data set -> files of probabilities whose rows are the same images in the same order.
OUTPUTS = {
    "cifar10-outputs": ("cifar10_lenet5", "cifar10_vgg16", "cifar10_resnet110_b"),
    "cifar100-outputs": ("cifar100_wrn16_4",),
}
#: Training and calibration rows; the rest is for testing.
TRAIN, CAL = 5000, 2000


def load_outputs(name: str, rows: int | None = None, folder: str | None = None) -> Images:
    """Return centered log-probabilities of the networks as features; the labels are those of the images.

    `folder` holds the files; by default the one of the variable CALIBRANT_DATA. The networks never saw these images, so
    the features are honest; the head trained on them is ours. Out-of-distribution rows mix the networks' answers to
    different images (one network: its classes in another order).
    """
    folder = folder or os.environ.get("CALIBRANT_DATA")
    if not folder:
        raise FileError(f"{name} needs the folder of real predictions. Hint: set CALIBRANT_DATA.")
    parts, labels = [], None
    for file in OUTPUTS[name]:
        arrays = load(Path(folder), file)
        logs = np.log(np.clip(arrays["probs_test"].astype(np.float64), 1e-6, 1))
        parts.append(logs - logs.mean(axis=1, keepdims=True))
        found = arrays["labels_test"].astype(np.int64)
        if labels is not None and not np.array_equal(found, labels):
            raise FileError(f"{file}.npz is in another order than the files before. Hint: fetch it again.")
        labels = found
    rng = np.random.default_rng(0)
    order = rng.permutation(len(found))
    x = np.concatenate(parts, axis=1)[order]
    x = ((x - x[:TRAIN].mean(axis=0)) / x[:TRAIN].std(axis=0)).astype(np.float32)
    y = found[order]
    train, cal, test = slice(0, min(TRAIN, rows or TRAIN)), slice(TRAIN, TRAIN + CAL), slice(TRAIN + CAL, None)
    foreign = x[test].copy()
    width = parts[0].shape[1]
    for i in range(len(parts)):
        block = foreign[:, i * width : (i + 1) * width]
        block[:] = block[rng.permutation(len(block))] if len(parts) > 1 else block[:, rng.permutation(width)]
    return Images(
        f"outputs of {len(parts)} network{'s' * (len(parts) > 1)} on CIFAR-{width}",
        "answers of the networks to different images" if len(parts) > 1 else "the same features in another order",
        x[train],
        y[train],
        x[cal],
        y[cal],
        x[test],
        y[test],
        foreign,
        "",
    )
