"""Gruber's simulated model with 100 classes, the same rows on every machine."""

from __future__ import annotations

import base64

import numpy as np

from calibrant.core.links import softmax
from calibrant.datasets import SimulatedForecast

__all__ = ["hundred_classes"]

#: Orientation of the 100 × 100 singular vectors in the published run. The sign of a singular vector is a matter of the
#: LAPACK build, and 4 of these 10,000 differ between builds of today; one bit each (largest entry positive or not)
#: makes the simulation the same on every machine. Base64 of packed bits.
SIGNS = (
    "t2Bn6n7fsvB1NJayOv6WJrWMou/rsWhxQaLhV3f6MejfEp4ElfIN4Pg2/J9PLD9mioKuWSgsDutBrbrjC/YOVMM1L7nPp6DHJPLBJt717oi/Kc"
    "fpEmbWPyiLcKwhueyTi8fKm50ZRntp972E3FRDvdPz8FJlCDU4L1qHoQe0wGPmq8Zr7yF9C46YoJNCDQBGNziStmMVOikEW8ZKC2P7wg6S6gP6"
    "nCQYzUXzGyPgJlW2S+a0SBtYEVW5fAvHWWjtNe7lI/eK8J+HbRztU4Pl16dPS9MzlAg6rIQctheac9NmjDFzqVrvRAvUn3ZuTSN0ma29FmFeZg"
    "EMdwtJOqL3+9wxm4qTrvh/02L0emi0hTrxJc5b1FJOfnWvCqqizYdZoxn2Yjo8/xb+YiRXVbncr0T02VFniHUQxmuUDE3h17SCas4reBlJ+QuB"
    "KHQxTLWATh+iKqCtMA3WgrXMGmdMzGjwx/ACJBabrpwdt1xWExrgO3p2tJlpVojQW06ux74bBjvtNqh1xkGfe38VV7ct0jwTjL0dMHyTjgu9pB"
    "W7cVkAOCQYFqNXdReD8KfaFYbajhfbe1q9zOuXDg6gbduhIPsAyfEc+MRbSTovEUwxArZBMDHH8R+AkPDpvQ8EQW0ME+bEYpv251Jn6Q6mjoAG"
    "5v+LY4BtE+uBd3qfsUgGAMUH2q2P/qTKsj7dQRhPxUK2BoCRl6FALpEv8BnveLzfAVdzWSKgCxfTGd03zhI8EPYn7HGzK9/bDD5+Dtden7QNXP"
    "QPU132FvrRqK3BV5RT6HcxidrBUEbLGaOla2uksCxJBknsgtEgGMNu+VLr1LHwF56Mrpg23EJ0HNV8iKlwB5uWyBCAbavo4orUitvERMpbOgRk"
    "6jNGkcriSTnW3Vi2O5a/XO25yuj+mb5Dds4vB8JZ6v/cONueQo06yx/hMbPF6Uu3gok1LiwkWRiJfLpA5x2o+OEBwDYzfgLlheowCypYgE4mdN"
    "tIRa1p/ImSAXAwsyd31+ylsrGp2Az424ne/BjPI8uWuU2RyX9JtfN32SM/oXi4FXLEmZ4DBRBP6sZbtnhw//NemxyJMta7kgqYka9wSmXPhBVa"
    "tc2+xLldA1nfsnvlAOX+qtX9GgQUH/8aEGHrSuEkasgB7vzpuE+EbohswJNpHYir/JsZNxFzTgdlfLWWPpVd4VL+FeoQ1qc3KJTYyxKruHYDMK"
    "Tw6yKWN9sLSbb98fN7epHRDqEeGZXtwA8fPBer2kK/btsvO4+M7yOWlupfeGBdcjJH6f12fJFAMFF9WTpQJToRHgrkkGeLdQCMF7gE5CTSNrXS"
    "T7ndOiACgWA8e2ZR16YnQiGbn+otiIQ7priI49KlaUvMiL3qS4bgSI3fKmrL4fwNWYocpsucGIBGNnGc/1yrnnezprJAt4MZPkfi+Kvcpaswhi"
    "eeNhfL0yLwQfKzApVT6/JIBioYXC4sOBZCOTDWnFiqrmy/VR5jKwcOxW6Xq9qLmMX4Z4LmfxOpj+VHbx/a+S/bpgYqq8qF7w7UsfzQoPKT+zfB"
    "95YIzD5hI9hMnMnxwU3Bd7pU4t1ofqGTlmqjGNPKIkyvG70WKEygNcM5j+jmNhrg0TNpN09T5cBWpTcbVOAX6zmCBzNiT2psSxmuBhb3m/Egod"
    "SX9YeI5fU564nmEyY="
)


def hundred_classes(*, part: str = "test", scale: float = 1.0, seed: int = 1) -> SimulatedForecast:
    """Gruber & Buettner's simulated 100-class model: 10,000 rows of calibrated forecasts with realistic confidence.

    For each class i 200 logits ~ N(e_i, S_i), S_i inverse Wishart with scale 100·I and 100 degrees of freedom; labels
    are drawn from the softmax. The first 10,000 rows are the calibration part, the last 10,000 the test part.

    Parameters
    ----------
    part : {"test", "cal", "all"}, default "test"
    scale : float, default 1.0
        The forecast is softmax(scale · logits): 1 is calibrated, 1.5 "mediocre", 2.5 "bad" in the paper.
    seed : int, default 1
        Seed 1 is the published run, with accuracy 0.8763 on the calibration part (0.8635 on the test part).

    Returns
    -------
    SimulatedForecast
        `truth` is the softmax of the logits; `errors` are exact for the distribution of labels given these rows:
        ``ce1``, ``ce2``, and ``gap``, mean confidence minus expected accuracy.

    Notes
    -----
    The published stream of random numbers (NumPy's legacy generator, Bartlett's decomposition, singular value
    decomposition), with the orientation of singular vectors fixed, so that every machine draws the same rows.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, figure 2, appendix G.1.
    """
    k, each = 100, 200
    stream = np.random.RandomState(seed)  # the published stream
    lower, diagonal = np.tril_indices(k, -1), np.diag_indices(k)
    normals = stream.normal(size=(k, k * (k - 1) // 2))
    roots = np.stack([np.sqrt(stream.chisquare(k - i, size=k)) for i in range(k)], axis=1)
    bits = np.frombuffer(base64.b64decode(SIGNS), dtype=np.uint8)
    up = np.unpackbits(bits)[: k * k].reshape(k, k).astype(bool) if seed == 1 else np.ones((k, k), dtype=bool)
    logits = np.empty((k * each, k))
    for i in range(k):
        factor = np.zeros((k, k))
        factor[lower], factor[diagonal] = normals[i], roots[i]  # Bartlett: factor·factorᵀ is Wishart(I, 100)
        inverse = 10.0 * np.linalg.inv(factor)
        _, values, vectors = np.linalg.svd(inverse.T @ inverse)  # S_i = inverseᵀ·inverse
        peak = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)[:, 0]
        vectors *= np.where((peak > 0) == up[i], 1.0, -1.0)[:, None]
        draws = stream.standard_normal((each, k)) @ (np.sqrt(values)[:, None] * vectors)
        draws[:, i] += 1.0
        logits[i * each : (i + 1) * each] = draws
    truth = softmax(logits)
    cumulative = np.cumsum(truth, axis=1)
    cumulative /= cumulative[:, -1:]
    label = (cumulative <= stream.random_sample(k * each)[:, None]).sum(axis=1)
    rows = {"cal": slice(0, 10_000), "test": slice(10_000, None), "all": slice(None)}[part]
    truth, label, forecast = truth[rows], label[rows], softmax(scale * logits[rows])
    gap = np.abs(forecast - truth)
    top = forecast.argmax(axis=1)[:, None]
    errors = {f"ce{p}": float((gap**p).sum(axis=1).mean() ** (1 / p)) for p in (1, 2)}
    over = np.take_along_axis(forecast, top, axis=1) - np.take_along_axis(truth, top, axis=1)
    errors["gap"] = float(over.mean())
    return SimulatedForecast(
        "hundred_classes", label, forecast, errors, truth, about="100 classes, calibrated by construction at scale 1"
    )
