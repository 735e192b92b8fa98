"""Followed: which topics were copied, and into which.  Offsets in them mean nothing in any other ones."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final

from quadlog.errors import StateError, TopicLost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "followed.json"
"""In the data-dir of a muted master."""


class Followed:
    """Of one muted master: topics, each with the id that Kafka gave it."""

    def __init__(self, path: Path) -> None:
        """Read what was noted.

        Raises:
            StateError: it cannot be read.

        """
        self._path: Final = path
        self._lock = threading.Lock()
        self._ids: dict[str, str] = {}
        try:
            found: Any = json.loads(path.read_text())
        except FileNotFoundError:
            return
        except ValueError as error:
            message = (
                f"{path} cannot be read: {error}; remove it, and the topics are taken for those it followed"
            )
            raise StateError(message) from error
        self._ids = {str(topic): str(identity) for topic, identity in found.items()}

    def known(self, topic: str) -> str | None:
        """The id that it had; None: it was never seen."""
        return self._ids.get(topic)

    def refuse_others(self, there: Mapping[str, str], topics: tuple[str, ...]) -> None:
        """Refuse own topics that are gone or made anew; `there`: those that are there, each with its id.

        Raises:
            TopicLost: one is.

        """
        for topic in topics:
            known = self.known(topic)
            if known is not None and there.get(topic) != known:
                seen = "is another topic than the one that was written" if topic in there else "is gone"
                raise TopicLost(f"{topic} {seen}")

    def recognise(self, topic: str, identity: str | None, is_other: bool) -> None:  # noqa: FBT001 - as `Watched` has it
        """Note which topic it is.

        Raises:
            TopicLost: it is another one than before, or gone.

        """
        if identity is None:
            raise TopicLost(f"{topic}, which is followed, is gone")
        if is_other:
            raise TopicLost(f"{topic}, which is followed, is another topic than the one that was copied")
        self.note({topic: identity})

    def note(self, ids: Mapping[str, str]) -> None:
        """Remember ids.  A death between any two steps is harmless."""
        with self._lock:  # each topic is read by a thread of its own
            self._ids |= ids
            making = self._path.with_suffix(".new")
            self._path.parent.mkdir(parents=True, exist_ok=True)
            making.write_text(json.dumps(self._ids))
            making.replace(self._path)
