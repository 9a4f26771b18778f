"""
How sure can one be?
====================

Binned errors depend on the bins and on the number of rows; a calibrated model does not score 0 either.
"""

# %%
# ECE against the number of bins: the dashed line is a calibrated model at the same n.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from calibrant import evaluate
from calibrant.plots import plot_against_bins, plot_against_sample_size, plot_class_errors

images, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
images = (images + rng.normal(scale=5, size=images.shape)) / 16  # a worn scanner
train, cal, test = np.split(rng.permutation(len(digit)), [400, 1000])
model = LogisticRegression(C=10, max_iter=1000).fit(images[train], digit[train])
y, p = digit[test], model.predict_proba(images[test])

by_bins = plot_against_bins(y, p, n_bins=(5, 10, 15, 30, 60, 120))

# %%
# Metrics of random parts of the rows: mean and 90% range.
by_size = plot_against_sample_size(y, p, sizes=(50, 100, 200, 400, len(y)), n_repeats=10)

# %%
# Classes differ.
by_class = plot_class_errors(y, p)

# %%
# The table puts the same comparison beside every number.
print(evaluate(y, p, n_resamples=200, rng=0))
