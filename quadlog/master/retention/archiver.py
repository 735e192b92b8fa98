"""Archiver: runs `quadlog archive` as a separate process before records are deleted from the topics."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from quadlog.broker import Admin
from quadlog.errors import QuadlogError
from quadlog.leash import leashed
from quadlog.replay.stretches import Stretches

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.settings import MasterSettings
    from quadlog.topics import Topics


class Archiver:
    """Archiver of one data centre.  Used outside the node's thread."""

    def __init__(self, directory: Path, settings: MasterSettings, topics: Topics) -> None:
        """Prepare; nothing is read yet.

        Args:
            directory: the archive.
            settings: addresses of Kafka and Spark.
            topics: of the local data centre.

        """
        self._directory, self._settings, self._topics = directory, settings, topics

    def extend(self, index: int) -> dict[str, int]:
        """Archive all entries up to an index that are not archived yet.

        Returns:
            For the agreed and the effects topic, the offset before which all records are archived.

        Raises:
            QuadlogError: the entries cannot be archived, or not now.

        """
        settings = self._settings
        options = {
            "--kafka": settings.kafka,
            "--dc": settings.dc,
            "--repository": settings.repository,
            "--until": str(index),
            "--spark": settings.spark_master,
            "--memory": str(settings.spark_memory),
        }
        words = [word for option in options.items() for word in option]
        command = leashed([sys.executable, "-m", "quadlog", "archive", str(self._directory), *words])
        done = subprocess.run(  # noqa: S603 - our own program
            command, check=False, env=settings.credentials().environment()
        )
        if done.returncode:
            raise QuadlogError(f"quadlog archive ended with {done.returncode}; what it said stands above")
        topics = [self._topics.agreed, self._topics.effects]
        ids = Admin(settings.kafka).ids(topics)
        return {
            topic: Stretches(self._directory, topic, ids[topic]).end if topic in ids else 0
            for topic in topics
        }
