"""Lineages of effects: how far the effects of two data centres are the same, by their terms.

The terms work like leader epochs in Kafka: a data centre that gets a term continues after the effects before
it, so two histories are the same up to the start of the first term that only one of them has.
"""

from __future__ import annotations

from itertools import zip_longest
from math import inf
from typing import TYPE_CHECKING

from quadlog.core.model import GENESIS, EffectsPosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quadlog.core.model import View
    from quadlog.core.records import Term


def fork(own: Sequence[Term], index: int, theirs: Sequence[Term]) -> int:
    """Return the index of the last effect that both have; the own effects end at `index`.

    >>> from quadlog.core.records import Term
    >>> one, two, other = Term(2, b"1", 100), Term(4, b"2", 140), Term(3, b"x", 103)
    >>> fork([other], 130, [one, two]), fork([], 97, [one, two]), fork([one], 120, [one, two])
    (100, 97, 120)
    """
    for mine, other in zip_longest(own, theirs):
        if mine != other:
            return min(index, *(term.after for term in (mine, other) if term is not None))
    return index


def is_of(terms: Sequence[Term], view: View) -> bool:
    """Return whether the last of these terms is this view's; the first view has no term among them."""
    return terms[-1].id == view.id if terms else view.epoch == 1


def held(terms: Sequence[Term], index: int) -> EffectsPosition:
    """Return what a post reports about effects that end at `index`."""
    return EffectsPosition(terms[-1].id if terms else GENESIS, index)


def follows(there: EffectsPosition, view: View) -> bool:
    """Return whether a data centre that reports `there` about its effects has the view's handover."""
    return there.term == (GENESIS if view.epoch == 1 else view.id)


def furthest(
    own: Sequence[Term], index: int, others: Mapping[str, Iterable[EffectsPosition]]
) -> tuple[str, int] | None:
    """Return which data centre has most of the own history beyond `index`, and up to where; None if none has more.

    The own effects end at `index`; `others`: effects as reported by the masters' last posts, by data centre.

    >>> from quadlog.core.records import Term
    >>> one, two = Term(2, b"1", 100), Term(4, b"2", 140)
    >>> others = [EffectsPosition(b"x", 190), EffectsPosition(GENESIS, 120)]
    >>> furthest([one], 103, {"dc2": [EffectsPosition(b"1", 105)], "dc3": others})
    ('dc2', 105)
    """
    names = [GENESIS, *(term.id for term in own)]
    ends = [*(term.after for term in own), inf]
    best = None
    for dc, said in others.items():
        for there in said:
            if there.term in names:
                end = int(min(there.index, ends[names.index(there.term)]))
                if end > index:
                    best, index = (dc, end), end
    return best
