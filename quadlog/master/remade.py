"""Remade: topics that are not those that they were when they were read last.

Nothing that is read of such a one counts twice: posts have incarnations, payloads ids, entries and effects chains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from quadlog.errors import TopicLost

if TYPE_CHECKING:
    from quadlog.master.acquiring import Acquiring
    from quadlog.master.chores import Chores
    from quadlog.master.events import Recognised
    from quadlog.master.joining import Joining
    from quadlog.master.listening import Ears
    from quadlog.master.saving import Saving

log = structlog.get_logger()


class Remade:
    """Owned by the node's thread."""

    def __init__(
        self, ears: Ears, saving: Saving, acquiring: Acquiring, chores: Chores, joining: Joining
    ) -> None:
        """Whatever has an offset in a topic of a peer's."""
        self._ears: Final = ears
        self._saving, self._acquiring = saving, acquiring
        self._chores, self._joining = chores, joining

    def recognise(self, seen: Recognised) -> None:
        """Which topic it is that is read.  A peer's that was made anew is heard from its beginning.

        Raises:
            TopicLost: one of this data centre is another one, or gone.

        """
        topic, ears = seen.topic, self._ears
        if seen.is_other and topic in ears.own:
            raise TopicLost(f"{topic} is {'gone' if seen.identity is None else 'another topic now'}")
        if seen.identity is None:
            return  # whoever makes it anew ends that
        self._saving.recognise(topic, seen.identity)
        if not seen.is_other:
            return
        log.warning("a peer's topic was made anew: it is read from its beginning", topic=topic)
        if topic in self._acquiring.topics:
            for other, offset in self._acquiring.begin_again(topic).items():
                self._chores.read(other, offset)
        elif source := ears.sources.get(topic):
            self._chores.copying.begin_again(source)
        elif side := ears.sides.get(topic):
            self._joining.begin_again(side)
