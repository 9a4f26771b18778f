"""Old address of the races against other libraries: now `calibrant_benchmarks`."""

from functools import partial

from calibrant._deprecated import moved_attribute

__getattr__ = partial(moved_attribute, __name__, "calibrant_benchmarks", stacklevel=3)
