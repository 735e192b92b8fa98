"""Ids of the topics that were copied, and of the copies: an offset is valid only in the topic of its id."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final

from quadlog.errors import StateError, TopicLost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "followed.json"
"""File in the data-dir of a muted master."""


class FollowedTopics:
    """Topics of one muted master, each with the id that Kafka gave it."""

    def __init__(self, path: Path) -> None:
        """Read the stored ids.

        Raises:
            StateError: the file cannot be read.

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
        """Return the stored id of a topic; None if it was never seen."""
        return self._ids.get(topic)

    def refuse_others(self, there: Mapping[str, str], topics: tuple[str, ...]) -> None:
        """Refuse own topics that are gone or were re-created; `there`: ids of the existing topics.

        Raises:
            TopicLost: one of them is.

        """
        for topic in topics:
            known = self.known(topic)
            if known is not None and there.get(topic) != known:
                seen = "is another topic than the one that was written" if topic in there else "is gone"
                raise TopicLost(f"{topic} {seen}")

    def recognise(self, topic: str, identity: str | None, is_other: bool) -> None:  # noqa: FBT001 - as `Watched` has it
        """Store the id of a followed topic.

        Raises:
            TopicLost: it is another topic than before, or gone.

        """
        if identity is None:
            raise TopicLost(f"{topic}, which is followed, is gone")
        if is_other:
            raise TopicLost(f"{topic}, which is followed, is another topic than the one that was copied")
        self.note({topic: identity})

    def note(self, ids: Mapping[str, str]) -> None:
        """Store ids.  A crash between any two steps is harmless."""
        with self._lock:  # each topic is read by its own thread
            self._ids |= ids
            making = self._path.with_suffix(".new")
            self._path.parent.mkdir(parents=True, exist_ok=True)
            making.write_text(json.dumps(self._ids))
            making.replace(self._path)
