"""
Reading a reliability diagram
=============================

Four ways to draw how often a forecast comes true, each with what a calibrated model would show at this number of
rows (grey). Only what leaves the grey is news.
"""

# %%
# An over-confident classifier on scikit-learn's digits: 600 digits train it, the rest judges.
from calibrant import measure
from calibrant.plots import plot_ks, plot_reliability
from calibrant.studies.demo import digits_models

model = digits_models()[0]
y, p = model.y_test, model.test

# %%
# Dots are bins, their area is the number of rows; the weighted mean length of the gaps is the ECE.
bins = plot_reliability(y, p)
print(f"ECE {measure('ece', y, p):.4f}, from the picture {(bins.weight * abs(bins.x - bins.y)).sum() / len(y):.4f}")

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
print(f"KS {graphs.ks:.4f} at {100 * graphs.at:.0f} % of the rows")
