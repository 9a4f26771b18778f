"""One palette for plots and report: Okabe–Ito, warm for overconfident, cool for underconfident."""

from __future__ import annotations

from dataclasses import dataclass

#: Okabe & Ito (2008), chosen to be told apart by color-blind readers.
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


@dataclass(frozen=True)
class Ink:
    """The colors of one style."""

    over: str
    under: str
    neutral: str
    band: str
    cycle: tuple[str, ...]


OURS = Ink(OVER, UNDER, NEUTRAL, BAND, CYCLE)


def reader_ink() -> Ink:
    """Return the colors of the reader's matplotlib settings: their color cycle, their text, their grid."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    cycle = tuple(to_hex(color) for color in mpl.rcParams["axes.prop_cycle"].by_key().get("color", CYCLE))
    neutral, grid = to_hex(mpl.rcParams["axes.labelcolor"]), to_hex(mpl.rcParams["grid.color"])
    return Ink(cycle[1 % len(cycle)], cycle[0], neutral, grid, cycle)
