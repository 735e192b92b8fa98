"""Ids of the topics that were copied, and of the copies: an offset is valid only in the topic of its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.broker.identity import TopicIds
from quadlog.errors import TopicLost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "followed.json"
"""File in the data-dir of a muted master."""


class FollowedTopics(TopicIds):
    """Topics of one muted master, each with the id that Kafka gave it."""

    def __init__(self, path: Path) -> None:
        """Read the stored ids from the file in `path`."""
        super().__init__(path, "the topics are taken for those it followed")

    def refuse_others(self, there: Mapping[str, str], topics: tuple[str, ...]) -> None:
        """Refuse own topics that are gone or were re-created; `there`: ids of the existing topics.

        Raises:
            TopicLost: one of them is.

        """
        for topic in topics:
            known = self.get(topic)
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
