"""Catching up: a worker that is far behind the log takes all it lacks as one change, before it serves.

Whatever goes wrong on the way, the log is heard from where the store is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import structlog

from quadlog import codec
from quadlog.broker import backwards, end_of
from quadlog.core.catchup import Choice, Way, choose
from quadlog.core.records import Effect
from quadlog.errors import ForeignRecord, QuadlogError
from quadlog.kafka.leash import leashed
from quadlog.taking import take
from quadlog.worker.rates import LEAST

if TYPE_CHECKING:
    from quadlog.bundle import Manifest
    from quadlog.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.rates import RatesFile

log = structlog.get_logger()

BUNDLE: Final = "bundle"
"""In a worker's data-dir, while it takes one."""
_LOOK_S: Final = 3.0
"""How long Kafka has to tell where a topic ends: else this worker begins as it is."""
_LOOKED_AT: Final = 10_000
"""Records at the topic's end among which its newest effect is looked for."""


class CatchingUp:
    """At a worker's start, by its main thread; nobody else has the store open, and nothing is served."""

    def __init__(self, settings: WorkerSettings, topics: Topics, store: QuadStore, rates: RatesFile) -> None:
        """Nothing is looked at yet."""
        self._settings, self._topics, self._store = settings, topics, store
        self._bundle: Final = settings.data_dir / BUNDLE
        self._rates = rates

    def run(self) -> None:
        """Take a bundle, if that is the better way."""
        self._tidy()
        try:
            behind = self._newest() - self._store.applied.index
            choice = self._choose(behind)
            if behind > 0:
                log.info("catches up", way=choice.way, behind=behind, reason=choice.reason)
            if choice.way is Way.COMPACTED:
                self._take(behind)
        except (QuadlogError, OSError) as error:
            log.warning("no bundle is taken: the log is heard from where the store is", reason=str(error))
        finally:
            self._tidy()

    def _tidy(self) -> None:
        for path in (self._bundle, self._bundle.with_name(f"{BUNDLE}.making")):
            shutil.rmtree(path, ignore_errors=True)

    def _newest(self) -> int:
        """Index of the newest effect on the topic; whether it counts nobody has looked."""
        kafka, topic = self._settings.kafka, self._topics.effects
        end, _ = end_of(kafka, topic, count=0, timeout=_LOOK_S)
        records = backwards(kafka, topic, end)
        for _, record in zip(range(_LOOKED_AT), records, strict=False):
            try:
                said, _, _ = codec.decode_chunk(record.value)
            except ForeignRecord:
                continue
            if isinstance(said, Effect):
                return said.index
        return 0

    def _choose(self, behind: int) -> Choice:
        settings = self._settings
        if settings.catch_up != "auto":
            way = Way(settings.catch_up)
            return Choice(way=way if behind > 0 else Way.INCREMENTAL, reason="by the setting catch-up")
        return choose(
            behind,
            self._rates.read(),
            least_s=settings.min_time_to_consider_full_replication,
            factor=settings.full_replication_time_factor,
        )

    def _take(self, behind: int) -> None:
        began = time.monotonic()
        self._compact()
        made = time.monotonic()
        manifest = take(self._store, self._bundle)
        taken = time.monotonic()
        self._keep_rate(manifest, taken - began)
        log.info(
            "took a bundle",
            first=manifest.before.index + 1,
            last=manifest.after.index,
            behind=behind,
            lines=sum(file.lines for file in manifest.files),
            made_s=round(made - began, 1),
            taken_s=round(taken - made, 1),
        )

    def _compact(self) -> None:
        """By `quadlog compact`, a process that dies with this one; what it says goes to this one's log.

        Raises:
            QuadlogError: there is no bundle.

        """
        settings = self._settings
        options = {
            "--kafka": settings.kafka,
            "--dc": settings.dc,
            "--repository": settings.repository,
            "--applied": self._store.applied.encode(),
            "--spark": settings.spark_master,
            "--memory": str(settings.spark_memory),
        }
        words = [word for option in options.items() for word in option]
        command = leashed([sys.executable, "-m", "quadlog", "compact", str(self._bundle), *words])
        done = subprocess.run(command, check=False)  # noqa: S603 - our own program
        if done.returncode:
            raise QuadlogError(f"quadlog compact ended with {done.returncode}; what it said stands above")

    def _keep_rate(self, manifest: Manifest, seconds: float) -> None:
        worked = seconds - self._rates.read().start_s
        if manifest.effects >= 10 * LEAST and worked > 0:
            self._rates.keep(compacted=manifest.effects / worked)
