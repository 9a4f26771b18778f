"""A small fully connected network with a mean and a variance output, trained on DSS by full-batch Adam, in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from calibrant._typing import Floats

__all__ = ["VarianceNetwork", "train"]

Head = Literal["absolute", "exp"]
FLOOR = 1e-10


@dataclass
class VarianceNetwork:
    """Mixture density network of one component: ReLU layers, two outputs (mean, spread).

    `head` says how the second output s becomes a variance: |s| or exp(s) + 1e-10 (the two notebooks of
    Gruber & Buettner 2022 use one each). Glorot-uniform weights, zero biases.
    """

    sizes: tuple[int, ...]
    head: Head
    rng: np.random.Generator
    weights: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self.weights = []
        for fan_in, fan_out in zip(self.sizes, self.sizes[1:], strict=False):
            reach = np.sqrt(6 / (fan_in + fan_out))
            self.weights += [self.rng.uniform(-reach, reach, (fan_in, fan_out)), np.zeros(fan_out)]

    def forward(self, x: Floats) -> tuple[list[Floats], Floats, Floats]:
        """Return the input of every layer, the mean and the raw spread."""
        inputs = [x]
        for layer in range(0, len(self.weights), 2):
            out = inputs[-1] @ self.weights[layer] + self.weights[layer + 1]
            if layer + 2 < len(self.weights):
                out = np.maximum(out, 0)
            inputs.append(out)
        return inputs, inputs[-1][:, 0], inputs[-1][:, 1]

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each row."""
        _, mean, spread = self.forward(x)
        return mean, self._variance(spread)

    def _variance(self, spread: Floats) -> Floats:
        if self.head == "exp":
            return np.exp(np.clip(spread, -50, 50)) + FLOOR
        return np.maximum(np.abs(spread), FLOOR)

    def gradient(self, x: Floats, y: Floats) -> list[Floats]:
        """Gradient of mean((y − μ)²/v + log v)."""
        inputs, mean, spread = self.forward(x)
        variance = self._variance(spread)
        residual = mean - y
        by_variance = (1 - residual**2 / variance) / variance
        slope = variance - FLOOR if self.head == "exp" else np.sign(spread)
        delta = np.stack([2 * residual / variance, by_variance * slope], axis=1) / len(y)
        out: list[Floats] = []
        for layer in range(len(self.weights) - 2, -1, -2):
            out[:0] = [inputs[layer // 2].T @ delta, delta.sum(axis=0)]
            if layer:
                delta = (delta @ self.weights[layer].T) * (inputs[layer // 2] > 0)
        return out


def train(network: VarianceNetwork, x: Floats, y: Floats, steps: int) -> Iterator[int]:
    """Take Adam steps (0.001, 0.9, 0.999) on all rows; yield the number of steps done after each."""
    first = [np.zeros_like(w) for w in network.weights]
    second = [np.zeros_like(w) for w in network.weights]
    for step in range(1, steps + 1):
        for i, g in enumerate(network.gradient(x, y)):
            first[i] += 0.1 * (g - first[i])
            second[i] += 0.001 * (g * g - second[i])
            scale = np.sqrt(second[i] / (1 - 0.999**step)) + 1e-8
            network.weights[i] -= 0.001 / (1 - 0.9**step) * first[i] / scale
        yield step
