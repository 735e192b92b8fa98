"""What lies between the data centres of the weather: which links are cut, and where payloads do not pass."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence


class Links:
    """All of them."""

    def __init__(self, centres: Iterable[str]) -> None:
        """Nothing is cut."""
        self.centres = sorted(set(centres))
        self.cut: set[tuple[str, str]] = set()
        """(from, to): what is said in the one is not heard in the other."""
        self.dry: set[tuple[str, str]] = set()
        """(from, to): posts are heard, payloads do not come."""
        self.deaf = ""
        """Of all masters this one alone hears nothing, not even what is said beside it."""

    def heal(self) -> None:
        """Nothing is cut any more."""
        self.cut, self.dry, self.deaf = set(), set(), ""

    def is_heard(self, source: str, reader: str) -> bool:
        """Whether what is said in the one data centre is heard in the other."""
        return (source, reader) not in self.cut

    def part(self, left: set[str]) -> None:
        """Cut all links between these data centres and the others."""
        self.cut = {(a, b) for a, b in permutations(self.centres, 2) if (a in left) != (b in left)}

    def turn(self, chance: random.Random, names: Sequence[str]) -> None:
        """Which links are cut from now on, and which of the masters is deaf."""
        self.heal()
        if chance.random() < 0.16:
            self.deaf = chance.choice(names)
        if len(self.centres) < 2:
            return
        if chance.random() < 0.15:
            dry = chance.choice(self.centres)
            self.dry = {(other, dry) for other in self.centres if other != dry}
        kind = chance.random()
        if 0.25 <= kind < 0.6:
            one, other = chance.sample(self.centres, 2)
            self.cut = {(one, other)} if kind < 0.4 else {(one, other), (other, one)}
        elif kind >= 0.6:
            self.part(set(chance.sample(self.centres, chance.randrange(1, len(self.centres)))))

    def sides(self) -> list[frozenset[str]] | None:
        """Who hears whom, if that is clear: each link is cut both ways, and nobody is between two sides."""
        centres = self.centres
        reach = {a: frozenset(b for b in centres if not {(a, b), (b, a)} & self.cut) for a in centres}
        if any((b, a) not in self.cut for a, b in self.cut):
            return None
        if any(reach[a] != reach[b] for a in centres for b in reach[a]):
            return None
        return sorted(set(reach.values()), key=sorted)
