"""One thread: small tensors are faster so, and every run gives the same bits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
torch.set_num_threads(1)
