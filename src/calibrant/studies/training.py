"""Old address of the training experiment: now `calibrant_papers.training`."""

from functools import partial

from calibrant._deprecated import moved_attribute

__getattr__ = partial(moved_attribute, __name__, "calibrant_papers.training", stacklevel=3)
