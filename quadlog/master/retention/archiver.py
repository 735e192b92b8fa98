"""The archiver: what is to go from the topics is archived before, by `quadlog archive`, a process of its own."""

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
    """Of one data centre.  Used beside the node's thread."""

    def __init__(self, directory: Path, settings: MasterSettings, topics: Topics) -> None:
        """Nothing is looked at yet.

        Args:
            directory: the archive.
            settings: where Kafka and Spark are.
            topics: of the own data centre.

        """
        self._directory, self._settings, self._topics = directory, settings, topics

    def extend(self, index: int) -> dict[str, int]:
        """Archive all up to an entry that is not archived yet.

        Returns:
            Of the agreed and the effects topic, the offset before which all is archived.

        Raises:
            QuadlogError: it cannot be, or not now.

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
        done = subprocess.run(command, check=False)  # noqa: S603 - our own program
        if done.returncode:
            raise QuadlogError(f"quadlog archive ended with {done.returncode}; what it said stands above")
        topics = [self._topics.agreed, self._topics.effects]
        ids = Admin(settings.kafka).ids(topics)
        return {
            topic: Stretches(self._directory, topic, ids[topic]).end if topic in ids else 0
            for topic in topics
        }
