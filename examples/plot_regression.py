"""
Forecasts with mean and variance
================================

A simulated model whose variances are half of what they should be, before and after variance scaling.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from calibrant.plots import plot_pit, plot_variance
from calibrant.regression import VarianceScaling, evaluate

rng = np.random.default_rng(0)
mean, variance = rng.normal(size=2000), rng.uniform(0.5, 3.0, 2000)
y = mean + rng.normal(size=2000) * np.sqrt(2 * variance)
fit, test = slice(0, 1000), slice(1000, 2000)
print(evaluate(y[test], mean[test], variance[test], rng=0).verdict)

# %%
# The PIT piles up at both ends: the truth falls into the tails too often.
_, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plot_pit(y[test], mean[test], variance[test], ax=left)
plot_variance(y[test], mean[test], variance[test], ax=right)

# %%
# Repaired on other rows, it is flat.
repair = VarianceScaling().fit(mean[fit], variance[fit], y[fit])
better = repair.predict(mean[test], variance[test])
_, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plot_pit(y[test], *better, ax=left)
plot_variance(y[test], *better, ax=right)
