"""The relay: what does not come from a data centre itself comes by way of another one.

    posts      whoever hears a data centre that somebody else does not writes its posts to its own topic, verbatim
    payloads   a data centre has copies of all others' in its topic: those of who is out of reach are taken there, also
               when nobody hears it any more
    effects    are copied from another data centre that copies the home's (`copying`)

Nothing that was passed on is passed on again, or counts as heard, so there are no loops; what comes twice is passed
over by the agreement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.model import Post
    from quadlog.master.payloads.hearing import Hearing
    from quadlog.master.payloads.intake import Intake
    from quadlog.ports import Record

log = structlog.get_logger()

LOOK_MS: Final = 50.0
"""How often it is looked at who is out of reach, at most."""


class Relay:
    """Owned by the node's thread; times are steady milliseconds."""

    def __init__(
        self,
        hearing: Hearing,
        *,
        intakes: Mapping[str, Intake],
        pass_on: Callable[[Record, str], None],
        read: Callable[[str, int], None],
    ) -> None:
        """Begin with everybody in reach.

        Args:
            hearing: who is.
            intakes: of the payloads topic of each other data centre.
            pass_on: says a post of another data centre in the own topic.
            read: has the payloads of a data centre read from an offset on, again.

        """
        self._hearing, self._intakes, self._pass_on, self._read = hearing, intakes, pass_on, read
        self._newest: dict[str, Record] = {}
        """Of each master of another data centre the last post that came out of its own topic."""
        self._passed: frozenset[str] = frozenset()
        """Data centres whose posts are passed on."""
        self._looked_at = float("-inf")

    @property
    def unheard(self) -> tuple[str, ...]:
        """Data centres out of whose topics nothing comes."""
        return self._hearing.unheard

    @property
    def ways(self) -> Mapping[str, tuple[str, ...]]:
        """By way of which data centres each of them is heard of."""
        return self._hearing.ways

    def heard_at(self, node: str) -> float | None:
        """When a master said something new last, a peer or not."""
        return self._hearing.heard_at(node)

    def hear(self, post: Post, record: Record, dc: str, moment: float) -> None:
        """A post came out of the topic of data centre `dc`."""
        directly = self._hearing.dc_of.get(post.node) == dc
        self._hearing.hear(post, moment, directly=directly)
        if directly and dc in self._intakes:
            self._newest[post.node] = record
            if dc in self._passed:
                self._pass_on(record, dc)

    def tend(self, moment: float, *, leads: bool) -> None:
        """See now and then who is out of reach; pass on what others miss, if this master leads its data centre."""
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        before = self.unheard
        self._hearing.look(moment)
        if self.unheard != before:
            log.warning("reachability_changed", unreachable=self.unheard, ways=self.ways)
        missed = self._hearing.missed if leads else frozenset[str]()
        self._begin_to_pass_on(missed - self._passed)
        self._passed = missed
        self._take_payloads()

    def _begin_to_pass_on(self, dcs: frozenset[str]) -> None:
        """The last posts first: who finds gaps before them asks for what it lacks, and need not wait for the next."""
        for node, record in self._newest.items():
            dc = self._hearing.dc_of[node]
            if dc in dcs:
                self._pass_on(record, dc)

    def _take_payloads(self) -> None:
        """What several have is taken from the first one; the last of who is gone may be with any who are left."""
        left = [dc for dc in self._intakes if dc not in self.unheard]
        for dc, intake in self._intakes.items():
            origins = {dc, *(origin for origin, ways in self.ways.items() if dc in (ways[:1] or left))}
            if (offset := intake.take_from(origins)) is not None:
                log.info("payload_origins_changed", dc=dc, origins=sorted(origins), offset=offset)
                self._read(dc, offset)
