"""Old address of the variance tables of the proper-scores paper: now `calibrant_papers.variance_tables`."""

from functools import partial

from calibrant._deprecated import moved_attribute

__getattr__ = partial(moved_attribute, __name__, "calibrant_papers.variance_tables", stacklevel=3)
