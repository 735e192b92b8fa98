"""Lineages of effects: how far two data centres' effects are the same, as their terms tell.

Like leader epochs in Kafka: whoever is given a term goes on behind what stood before it, so two histories are
the same up to where the first term begins that only one of them has.
"""

from __future__ import annotations

from itertools import zip_longest
from math import inf
from typing import TYPE_CHECKING

from quadlog.core.model import GENESIS, Held

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quadlog.core.model import View
    from quadlog.core.records import Term


def fork(own: Sequence[Term], index: int, theirs: Sequence[Term]) -> int:
    """Index of the last effect that both have, where the own ones go up to `index`.

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
    """Whether the last of these terms is this view's; the first view's is not among them."""
    return terms[-1].id == view.id if terms else view.epoch == 1


def held(terms: Sequence[Term], index: int) -> Held:
    """What a post says of effects that go up to `index`."""
    return Held(terms[-1].id if terms else GENESIS, index)


def follows(there: Held, view: View) -> bool:
    """Whether a data centre that says this of its effects has the view's handover."""
    return there.term == (GENESIS if view.epoch == 1 else view.id)


def furthest(own: Sequence[Term], index: int, others: Mapping[str, Iterable[Held]]) -> tuple[str, int] | None:
    """Who has more of the own history, and up to where; None: nobody.

    Args:
        own: terms of the own history.
        index: up to where it is here.
        others: of other data centres what their masters' last posts say.

    >>> from quadlog.core.records import Term
    >>> one, two = Term(2, b"1", 100), Term(4, b"2", 140)
    >>> furthest([one], 103, {"dc2": [Held(b"1", 105)], "dc3": [Held(b"x", 190), Held(GENESIS, 120)]})
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
