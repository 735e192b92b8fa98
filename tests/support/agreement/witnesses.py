"""Data centres that evaluate nothing: which ones in a run, and that none is the home of a view without need."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.model import View


class Homes:
    """Where the views of a run have their homes."""

    def __init__(self, masters: Mapping[str, str], witnesses: frozenset[str]) -> None:
        """`masters`: the data centre of each."""
        self._masters, self._witnesses = masters, witnesses
        self._views: dict[bytes, View] = {}
        self._homes: dict[bytes, str] = {}

    def installed(self, view: View) -> None:
        """A master saved that it is in this view."""
        home = self._homes.setdefault(view.id, view.home)
        assert home == view.home, f"two homes of one view, {view} and {home}: its id does not tell them apart"
        if view.id in self._views or not self._witnesses or not view.members:
            return
        self._views[view.id] = view
        parent = self._views.get(view.parent)
        stay = [name for name in view.members if parent is None or name in parent.members]
        assert self._may_be(view.home, stay), f"a witness is the home of {view}, and somebody else stayed"

    def may_be(self, view: View) -> bool:
        """Whether the home of a view is as it has to be in the end."""
        return self._may_be(view.home, view.members)

    def _may_be(self, home: str, names: Iterable[str]) -> bool:
        return home not in self._witnesses or {self._masters[name] for name in names} <= self._witnesses


def some_witnesses(seed: int, masters: Mapping[str, str], voting: int) -> frozenset[str]:
    """In one run of eight some data centres, but for one that the log begins with: the first masters, `voting` of them.

    Of chance of their own, so that all other runs are what they were.
    """
    chance = random.Random(f"{seed}/witness")
    centres = sorted(set(masters.values()))
    if len(centres) == 1 or chance.random() > 1 / 8:
        return frozenset()
    full = chance.choice(sorted(set(list(masters.values())[:voting])))
    others = [centre for centre in centres if centre != full]
    return frozenset(chance.sample(others, chance.randint(1, len(others))))
