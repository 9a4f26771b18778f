"""Old address of the variance regressions of the proper-scores paper: now `calibrant_papers.variance_regression`."""

from functools import partial

from calibrant._deprecated import moved_attribute

__getattr__ = partial(moved_attribute, __name__, "calibrant_papers.variance_regression", stacklevel=3)
