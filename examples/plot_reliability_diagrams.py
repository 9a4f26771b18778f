"""
Reading a reliability diagram
=============================

Four ways to draw how often a forecast comes true, each with what a calibrated model would show at this number of
rows (gray). Only what leaves the gray is news.
"""

# %%
# An overconfident classifier on scikit-learn's digits: few noisy digits train it, others judge.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from calibrant import metric
from calibrant.plots import plot_ks, plot_reliability

images, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
images = (images + rng.normal(scale=5, size=images.shape)) / 16  # a worn scanner
train, cal, test = np.split(rng.permutation(len(digit)), [400, 1000])
model = LogisticRegression(C=10, max_iter=1000).fit(images[train], digit[train])
y, p = digit[test], model.predict_proba(images[test])

# %%
# Dots are bins, their area is the number of rows; the weighted mean length of the gaps is the ECE.
bins = plot_reliability(y, p)
print(f"ECE {metric('ece', y, p):.4f}, from the picture {(bins.weight * abs(bins.x - bins.y)).sum() / len(y):.4f}")

# %%
# No bins to choose: the isotonic (CORP) curve and the smooth curve.
isotonic = plot_reliability(y, p, curve="isotonic")
smooth = plot_reliability(y, p, curve="smooth")

# %%
# One small diagram per class.
classes = plot_reliability(y, p, view="classwise", n_bins=10)

# %%
# The cumulative graphs: their largest distance is the KS error, again without bins.
graphs = plot_ks(y, p)
print(f"KS {graphs.ks:.4f} at {100 * graphs.at:.0f}% of the rows")
