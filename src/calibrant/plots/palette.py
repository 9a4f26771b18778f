"""One palette for plots and report: Okabe–Ito, warm for over-confident, cool for under-confident."""

from __future__ import annotations

#: Okabe & Ito (2008), chosen to be told apart by colour-blind readers.
OKABE_ITO = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
}
OVER = OKABE_ITO["vermilion"]
UNDER = OKABE_ITO["blue"]
NEUTRAL = "#6B7280"
BAND = "#9CA3AF"
CYCLE = tuple(OKABE_ITO[name] for name in ("blue", "vermilion", "green", "purple", "orange", "sky", "black"))


def direction_colour(gap: float) -> str:
    """Return the colour of a gap outcome − score: below zero is over-confident."""
    return OVER if gap < 0 else UNDER
