"""Old address of the papers' tables and figures: now `calibrant_papers`."""

from functools import partial

from calibrant._deprecated import moved_attribute

__getattr__ = partial(moved_attribute, __name__, "calibrant_papers", stacklevel=3)
