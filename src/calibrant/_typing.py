"""Shared aliases."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
#: The names tell the reader the element type; NumPy's stubs lose it in most sums and counts.
Floats: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]
Bools: TypeAlias = NDArray[Any]

#: Anything the door accepts: lists, NumPy, pandas, Polars, Arrow, torch tensors.
ArrayLike: TypeAlias = Any
#: None (fresh entropy), an integer seed or a Generator (SPEC 7).
RNG: TypeAlias = "int | np.random.Generator | None"
Space: TypeAlias = Literal["proba", "logit"]
