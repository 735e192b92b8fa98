"""How posts come to the masters of the weather: late, twice, in leaps, or passed on by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from tests.support.agreement.cluster import Member
    from tests.support.agreement.coverage import Coverage
    from tests.support.agreement.links import Links


class Delivery:
    """What each master has read of each other one."""

    def __init__(
        self,
        members: Mapping[str, Member],
        links: Links,
        *,
        chance: random.Random,
        leaps: float,
        coverage: Coverage,
        hear: Callable[[Member, Member, int], None],
    ) -> None:
        """`leaps`: how often a reader misses all posts but the newest; `hear`: lets it happen."""
        self._members, self._links = members, links
        self._random, self._leaps = chance, leaps
        self._coverage = coverage
        self._play = hear
        self._read: dict[tuple[str, str], int] = {}
        self._relayed: dict[str, list[tuple[str, int]]] = {name: [] for name in members}
        self._read_relayed: dict[tuple[str, str], int] = {}

    def begin_again(self, member: Member) -> None:
        """It reads all that others said once more."""
        for other in self._members:
            self._read[member.name, other] = 0

    def go_back(self, member: Member) -> None:
        """What it had read and not saved it reads again."""
        for other in self._members:
            at = self._read.get((member.name, other), 0)
            self._read[member.name, other] = max(0, at - self._random.randrange(40))

    def deliver(self, sender: Member, reader: Member) -> None:
        """The next post, or in a leap the newest; now and then an old one again.  Then what others pass on."""
        if reader.name == self._links.deaf:
            self._coverage.note("deaf")
            return
        if not self._links.is_heard(sender.dc, reader.dc):
            self._note_cut(sender, reader)
            return
        at = self._read.get((reader.name, sender.name), 0)
        if at < len(sender.posts):
            if self._random.random() < self._leaps:
                at = len(sender.posts) - 1
                self._coverage.note("leap")
            self._read[reader.name, sender.name] = at + 1
            self._hear(reader, sender, at)
            if any(not self._links.is_heard(sender.dc, dc) for dc in self._links.centres):
                self._relayed[reader.name].append((sender.name, at))
        elif at and self._random.random() < 0.05:
            self._coverage.note("repeat")
            self._hear(reader, sender, self._random.randrange(at))
        passed_on = self._relayed[sender.name]
        at = self._read_relayed.get((reader.name, sender.name), 0)
        if at < len(passed_on):
            self._read_relayed[reader.name, sender.name] = at + 1
            name, number = passed_on[at]
            if name != reader.name:
                self._coverage.note("relay")
                self._hear(reader, self._members[name], number)

    def deliver_all(self, sender: Member, reader: Member) -> None:
        """Every post that it has not read, in order, if the link is not cut."""
        if not self._links.is_heard(sender.dc, reader.dc):
            return
        at, end = self._read.get((reader.name, sender.name), 0), len(sender.posts)
        if at == end:
            return
        self._read[reader.name, sender.name] = end
        for number in range(at, end):
            self._coverage.events += 1
            self._play(reader, sender, number)

    def _hear(self, reader: Member, sender: Member, number: int) -> None:
        self._play(reader, sender, number)
        self._coverage.reach("collect")
        if any(pair.key not in reader.told for pair in sender.posts[number].queue):
            self._coverage.note("late payload")

    def _note_cut(self, sender: Member, reader: Member) -> None:
        both = self._links.is_heard(reader.dc, sender.dc)
        kind = "one way" if both else "pair cut" if len(self._links.cut) == 2 else "split"
        self._coverage.note(kind)
