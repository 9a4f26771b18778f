"""Old address of the generators that break intervals: now `calibrant_papers.validation.generators`."""

from functools import partial

from calibrant._deprecated import moved_attribute

__getattr__ = partial(moved_attribute, __name__, "calibrant_papers.validation.generators", stacklevel=3)
