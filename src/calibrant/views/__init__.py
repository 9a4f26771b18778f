"""Views: which one-dimensional question is asked of the probability vectors.

A view turns checked predictions into pairs (score s in [0, 1], outcome t), in one group or one per class. It also
answers what others need to know about it, so that nobody asks for its class:

============================  =========================================================================
``name``, ``label(names)``    short name as in ``--view``; words for an axis
``top_label_only``            top-label pairs suffice, no probability vector is needed
``canonical``                 it is the whole vector: there are no pairs
``single_group``              there is one group of pairs
``group_count(n_classes)``    how many groups there are
``per_class``                 the groups are the classes
``one_table``                 one table of independent outcomes holds all pairs: a null distribution redraws its rows;
                              otherwise one label per row is drawn for all groups together
``mirrored(n_classes)``       of two groups one is the mirror of the other
``own_expectation``           the forecast expects something else of t than the score (entropy)
``has_interval``              its errors have a verified interval
``lowest``                    scores up to this value are left out (a threshold), or None
``largest``                   the largest value an error can take
``additive``                  parts of a score may be joined over its groups
``plain()``                   the view whose cells it reads: without threshold and way of joining
``keepable(pairs, caller)``   the form a summary keeps, or an error that says why it cannot
``grid(coarse)``              number of cells a summary keeps for a group
``sources(n_classes)``        plain views whose kept cells suffice, best first
``derive(source, tables)``    its tables from the kept tables of such a source
``numbered(forecast)``        the groups with their numbers; ``numbered_bins`` the same in bins of all groups
``occupied(tables)``          the tables that enter the join (all, or those that hold a row)
``occupied_bins(bins)``       the same of bins
``select(source)``            its pairs from an engine, a frame or a tensor (`PairSource`), None where it has none
``join(powers, norm)``        the joined p-th powers of the groups
``spec()``, ``from_spec``     as plain values for a file, and back
============================  =========================================================================
"""

from __future__ import annotations

from calibrant.views.classes import ClassK, Classwise, Pooled
from calibrant.views.entropy import Entropy
from calibrant.views.ranks import RankR, WithinTopR
from calibrant.views.view import Canonical, PairSource, TopLabel, View, as_view, from_spec, needs_rows

__all__ = [
    "Canonical", "ClassK", "Classwise", "Entropy", "PairSource", "Pooled", "RankR", "TopLabel", "View", "WithinTopR",
    "as_view", "from_spec", "needs_rows"
]  # fmt: skip
