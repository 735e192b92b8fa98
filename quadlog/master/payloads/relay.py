"""Relay: records that do not arrive from a data centre directly arrive by way of another data centre.

    posts      a master that hears a data centre which another one does not hear copies its posts verbatim to
               its own topic
    payloads   each data centre's topic has copies of the payloads of all others: those of an unreachable data
               centre are read there, also if no data centre hears it any more
    effects    are copied from another data centre that copies those of the home (`effects_copying`)

A relayed record is not relayed again and does not count as heard, so there are no loops; the agreement
ignores duplicates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.model import Post
    from quadlog.master.payloads.intake import Intake
    from quadlog.master.payloads.reachability import Reachability
    from quadlog.ports import Record

log = structlog.get_logger()

LOOK_MS: Final = 50.0
"""Minimum milliseconds between two updates of the reachability."""


class PayloadRelay:
    """Relay of one master.  Owned by the node's thread; times are steady milliseconds."""

    def __init__(
        self,
        reachability: Reachability,
        *,
        intakes: Mapping[str, Intake],
        pass_on: Callable[[Record, str], None],
        read: Callable[[str, int], None],
    ) -> None:
        """Start with all data centres in reach.

        `intakes`: of the payloads topic of each other data centre.  `pass_on` publishes a post of another data centre
        in the local topic; `read` rewinds the reading of a data centre's payloads to an offset.
        """
        self.reachability: Final = reachability
        self._intakes, self._pass_on, self._read = intakes, pass_on, read
        self._newest: dict[str, Record] = {}
        """For each master of another data centre, the last post that arrived from its own topic."""
        self._passed: frozenset[str] = frozenset()
        """Data centres whose posts are passed on."""
        self._looked_at = float("-inf")

    def on_post(self, post: Post, record: Record, dc: str, moment: float) -> None:
        """Process a post that arrived from the topic of data centre `dc`."""
        directly = self.reachability.dc_of.get(post.node) == dc
        self.reachability.on_post(post, moment, directly=directly)
        if directly and dc in self._intakes:
            self._newest[post.node] = record
            if dc in self._passed:
                self._pass_on(record, dc)

    def tick(self, moment: float, *, leads: bool) -> None:
        """Update the reachability now and then; if this master leads, pass on posts that others miss."""
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        reach = self.reachability
        before = reach.unheard
        reach.update(moment)
        if reach.unheard != before:
            log.warning("reachability_changed", unreachable=reach.unheard, ways=reach.ways)
        missed = reach.missed if leads else frozenset[str]()
        self._begin_to_pass_on(missed - self._passed)
        self._passed = missed
        self._take_payloads()

    def _begin_to_pass_on(self, dcs: frozenset[str]) -> None:
        """Pass on the last posts first: a master that finds gaps before them requests the others at once."""
        for node, record in self._newest.items():
            dc = self.reachability.dc_of[node]
            if dc in dcs:
                self._pass_on(record, dc)

    def _take_payloads(self) -> None:
        """Read payloads of an unheard origin from the first way to it, or if there is none, from all heard ones."""
        reach = self.reachability
        left = [dc for dc in self._intakes if dc not in reach.unheard]
        for dc, intake in self._intakes.items():
            origins = {dc, *(origin for origin, ways in reach.ways.items() if dc in (ways[:1] or left))}
            if (offset := intake.take_from(origins)) is not None:
                log.info("payload_origins_changed", dc=dc, origins=sorted(origins), offset=offset)
                self._read(dc, offset)
