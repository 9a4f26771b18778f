"""
Repair and proof
================

Try many repairs on calibration rows, look at the comparison, and prove on other rows how much the chosen one helped.
"""

# %%
# An overconfident classifier of noisy digits, with rows to repair it and rows to judge it.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from calibrant import compare
from calibrant.calibrators import AutoCalibrator, TemperatureScaling
from calibrant.plots import plot_calibration_map, plot_methods, plot_reliability

images, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
images = (images + rng.normal(scale=5, size=images.shape)) / 16  # a worn scanner
train, cal, test = np.split(rng.permutation(len(digit)), [400, 1000])
model = LogisticRegression(C=10, max_iter=1000).fit(images[train], digit[train])
p_cal, y_cal = model.predict_proba(images[cal]), digit[cal]
p_test, y_test = model.predict_proba(images[test]), digit[test]

auto = AutoCalibrator(fast=True).fit(p_cal, y_cal)
print(auto.reason_)

# %%
# Gain of each method over the uncalibrated forecast, on rows it was not fitted on.
methods = plot_methods(auto)

# %%
# Before and after on the test rows, and the honest improvement of the proper scores.
after = auto.predict_proba(p_test)
_, axes = plt.subplots(1, 2, figsize=(9, 6), layout="constrained")
for ax, forecast, title in zip(axes, (p_test, after), ("before", "after"), strict=True):
    plot_reliability(y_test, forecast, ax=ax)
    ax.text(0.05, 0.9, title, weight="bold")
print(compare(y_test, p_test, after))

# %%
# What one temperature does to a probability.
shape = plot_calibration_map(TemperatureScaling().fit(p_cal, y_cal))
