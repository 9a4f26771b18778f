"""Calibrated fine-tuning of any torch model in twenty lines.

The lines marked with an arrow are all that a training loop of your own needs.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from calibrant.metrics import expected_calibration_error, log_score
from calibrant.torch import MMCELoss, RegularizedLoss, StreamingCalibration

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
grainy = torch.tensor(images / 16, dtype=torch.float32) + 0.35 * torch.randn(images.shape)
x_train, x_test, y_train, y_test = train_test_split(grainy, torch.tensor(labels), train_size=300, random_state=0)


def fit(loss: torch.nn.Module) -> torch.nn.Module:
    """An ordinary training loop."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    meter = StreamingCalibration(n_classes=10, metrics=["accuracy", "ece"])  # <-- metrics while training
    for _ in range(100):
        for rows in torch.randperm(len(x_train)).split(100):
            logits = model(x_train[rows])
            optimizer.zero_grad()
            loss(logits, y_train[rows]).backward()
            optimizer.step()
        meter.update(model(x_test).detach(), y_test)  # <--
        found = meter.compute()  # <--
        meter.reset()  # <--
    print(f"   last epoch: {100 * found['accuracy']:.1f}% right, ECE {100 * found['ece']:.1f}%")
    return model


for name, loss in {
    "cross-entropy": torch.nn.CrossEntropyLoss(),
    "cross-entropy + MMCE": RegularizedLoss(penalty=MMCELoss()),  # <-- the penalty
}.items():
    print(name)
    logits = fit(loss)(x_test).detach()
    ece = expected_calibration_error(y_test, logits, space="logit")
    print(f"   test rows: ECE {100 * ece:.1f}%, NLL {log_score(y_test, logits, space='logit'):.3f}")
