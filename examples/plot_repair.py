"""
Repair and proof
================

Try many repairs on calibration rows, look at the league, and prove on other rows how much the chosen one helped.
"""

# %%
# An over-confident network on the digits, with rows to repair it and rows to judge it.
import matplotlib.pyplot as plt

from calibrant import compare
from calibrant.calibrators import AutoCalibrator, TemperatureScaling
from calibrant.plots import plot_calibration_map, plot_league, plot_reliability
from calibrant.studies.demo import digits_models

model = digits_models()[0]
auto = AutoCalibrator(fast=True).fit(model.cal, model.y_cal)
print(auto.reason_)

# %%
# Gain of each method over doing nothing, on rows it was not fitted on.
league = plot_league(auto)

# %%
# Before and after on the test rows, and the honest improvement of the proper scores.
after = auto.predict_proba(model.test)
_, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, forecast, title in zip(axes, (model.test, after), ("before", "after"), strict=True):
    plot_reliability(model.y_test, forecast, ax=ax)
    ax.set_title(title)
print(compare(model.y_test, model.test, after))

# %%
# What one temperature does to a probability.
shape = plot_calibration_map(TemperatureScaling().fit(model.cal, model.y_cal))
