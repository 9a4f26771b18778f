"""
Refusing what is unsure
=======================

The error of what is kept when unsure forecasts are refused, and how a softmax temperature moves the measures.
"""

# %%
import numpy as np

from calibrant.plots import plot_against_temperature, plot_rejection, plot_risk_coverage
from calibrant.studies.demo import digits_models

model = digits_models()[0]
y, p = model.y_test, model.test
kept = plot_risk_coverage(y, p, by="confidence")
print(f"AURC {kept.aurc:.4f}")

# %%
# Error of the kept rows against the uncertainty allowed.
rejected = plot_rejection(y, p)

# %%
# Every measure has its own best temperature; the proper score decides.
logits = np.log(np.clip(p, 1e-12, None))
warm = plot_against_temperature(y, logits, measures=("ece", "ks", "nll"))
print(f"NLL is least at T = {warm.x[warm.values['nll'].argmin()]:.2f}")
