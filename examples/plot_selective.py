"""
Refusing what is unsure
=======================

The error of what is kept when unsure forecasts are refused, and how a softmax temperature moves the metrics.
"""

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from calibrant.plots import plot_against_temperature, plot_rejection, plot_risk_coverage

images, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
images = (images + rng.normal(scale=5, size=images.shape)) / 16  # a worn scanner
train, cal, test = np.split(rng.permutation(len(digit)), [400, 1000])
model = LogisticRegression(C=10, max_iter=1000).fit(images[train], digit[train])
y, p = digit[test], model.predict_proba(images[test])

kept = plot_risk_coverage(y, p, by="confidence")
print(f"AURC {kept.aurc:.4f}")

# %%
# Error of the kept rows against the uncertainty allowed.
rejected = plot_rejection(y, p)

# %%
# Every metric has its own best temperature; the proper score decides.
logits = model.decision_function(images[test])
warm = plot_against_temperature(y, logits, metrics=("ece", "ks", "nll"))
print(f"NLL is least at T = {warm.x[warm.values['nll'].argmin()]:.2f}")
