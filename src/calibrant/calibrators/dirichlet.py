"""Dirichlet calibration: matrix scaling of log-probabilities."""

from __future__ import annotations

from typing import ClassVar

from calibrant.calibrators._scores import View
from calibrant.calibrators.matrix import MatrixScaling
from calibrant.core.docstrings import fill


class DirichletCalibration(MatrixScaling):
    """Map log-probabilities by a matrix and a shift: softmax(W log p + b), shrunk off the diagonal (Dir-ODIR).

    The multiclass form of beta calibration: exact when each class's probability vectors follow a
    Dirichlet distribution. Like matrix scaling it needs many rows and may change the predicted class.

    Parameters
    ----------
    space : {"proba", "logit"}, default "proba"
        What X holds; logits are turned into log-probabilities by log-softmax.

    Notes
    -----
    The objective and solver of `MatrixScaling` on x = log p. The published code clips p at 2.2e-16;
    here exact zeros are a matter of `floor`, and nothing else is clipped.

    References
    ----------
    [1] Kull et al. (2019), "Beyond temperature scaling: Obtaining well-calibrated multi-class
        probabilities with Dirichlet calibration", NeurIPS, eq. (2) and section 4.

    Examples
    --------
    >>> p = [[0.9, 0.1]] * 10 + [[0.1, 0.9]] * 10
    >>> cal = DirichletCalibration(odir=(0, 0)).fit(p, [0] * 8 + [1] * 11 + [0])
    >>> cal.predict_proba([[0.9, 0.1], [0.1, 0.9]]).round(2)  # 8 and 9 of 10 were right
    array([[0.8, 0.2],
           [0.1, 0.9]])
    """

    short_name = "dirichlet"
    title = "Dirichlet calibration (ODIR)"
    paper = "Kull et al. (2019), Beyond temperature scaling, NeurIPS, eq. (2)"
    when = (
        "For any probabilistic classifier, not only networks, with a thousand rows or more for ten classes. "
        "Not for hundreds of classes, and not when the predicted class must stay."
    )
    view: ClassVar[View] = "log"


fill(DirichletCalibration, MatrixScaling.__doc__ or "")
