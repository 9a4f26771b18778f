"""Where a network does not know: Monte-Carlo dropout, rejection of unsure rows, out-of-distribution data.
===========================================================================================
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from calibrant.selective import coverage_at_risk, ood_detection, rejection_curve
from calibrant.torch import MCDropout, MonteCarloTemperature, predict

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = images.astype("float32") / 16
known = labels < 8  # the network never sees an 8 or a 9
x_train, x_rest, y_train, y_rest = train_test_split(images[known], labels[known], train_size=300, random_state=0)
x_cal, x_test, y_cal, y_test = train_test_split(x_rest, y_rest, random_state=0)

model = torch.nn.Sequential(
    torch.nn.Linear(64, 128),
    torch.nn.ReLU(),
    MCDropout(0.2),
    torch.nn.Linear(128, 8),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
x, y = torch.tensor(x_train), torch.tensor(y_train)
for _ in range(200):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()

held_out = predict(model, [(torch.tensor(x_cal), torch.tensor(y_cal))], samples=25, rng=0)
temper = MonteCarloTemperature().fit(held_out)
test = temper.predict(predict(model, torch.tensor(x_test), samples=25, rng=1))
foreign = temper.predict(predict(model, torch.tensor(images[~known]), samples=25, rng=2))

print(test)
print(rejection_curve(y_test, test.proba, thresholds=np.array([1.0, 0.5, 0.25, 0.1])))
print(coverage_at_risk(y_test, test.proba, risk=0.05, delta=0.1))
print("out-of-distribution digits by total entropy:    ", ood_detection(test.proba, foreign.proba, rng=0))
print(
    "out-of-distribution digits by what weights differ:",
    ood_detection(test.epistemic, foreign.epistemic, by="score", rng=0),
)
