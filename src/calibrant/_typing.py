"""Shared aliases."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict
from typing import Unpack as Unpack  # noqa: PLC0414 -- given on to those who take `RowOptions`

import numpy as np
from numpy.typing import NDArray

#: An array of any element type: scores in their own precision, keys, labels.
Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

#: Anything that is accepted: lists, NumPy, pandas, Polars, Arrow, torch tensors.
ArrayLike: TypeAlias = Any
#: None (fresh entropy), an integer seed or a Generator (SPEC 7).
RNG: TypeAlias = "int | np.random.Generator | None"
Space: TypeAlias = Literal["proba", "logit"]


class RowOptions(TypedDict, total=False):
    """What metrics of class probabilities take next to truth and forecast: ``**rows: Unpack[RowOptions]``."""

    sample_weight: ArrayLike | None
    classes: ArrayLike | None
    space: Space
    normalize: bool
