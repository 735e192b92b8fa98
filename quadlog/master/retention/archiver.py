"""Archiver: runs `quadlog archive` as a separate process before records are deleted from the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.broker import Admin
from quadlog.replay.job import remove_scratch, run_job
from quadlog.replay.stretches import Stretches

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.settings import MasterSettings
    from quadlog.topics import Topics


class Archiver:
    """Archiver of one data centre.  Used outside the node's thread."""

    def __init__(self, directory: Path, settings: MasterSettings, topics: Topics) -> None:
        """Prepare; nothing is read yet, and what a killed job left is removed.

        Args:
            directory: the archive.
            settings: addresses of Kafka and Spark.
            topics: of the local data centre.

        """
        self._directory, self._settings, self._topics = directory, settings, topics
        remove_scratch(settings)

    def extend(self, index: int) -> dict[str, int]:
        """Archive all entries up to an index that are not archived yet.

        Returns:
            For the agreed and the effects topic, the offset before which all records are archived.

        Raises:
            QuadlogError: the entries cannot be archived, or not now.

        """
        run_job("archive", self._directory, self._settings, {"--until": str(index)})
        topics = [self._topics.agreed, self._topics.effects]
        ids = Admin(self._settings.kafka).ids(topics)
        return {
            topic: Stretches(self._directory, topic, ids[topic]).end if topic in ids else 0
            for topic in topics
        }
