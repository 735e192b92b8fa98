"""Catching up: a worker that is far behind the log applies all it lacks as one change, before it serves.

If anything fails, the log is read from the store's position on.  A store that the log does not reach back to
waits for a worker that provides a copy, or for a backup.
"""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from quadlog import codec
from quadlog.broker import backwards, end_of
from quadlog.core.catchup import CatchUpMethod, Choice, choose
from quadlog.core.records import CatchUpProgress as Progress
from quadlog.core.records import Effect
from quadlog.errors import ForeignRecord, QuadlogError, StoreDamaged
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quadstore import QuadStore
from quadlog.replay.job import remove_scratch, run_job
from quadlog.snapshots.chunk_codec import Compression, speed_of
from quadlog.worker.catchup.agreed_settings import with_agreed
from quadlog.worker.catchup.bundle_loader import load_bundle
from quadlog.worker.catchup.store_transfer import StoreTransfer
from quadlog.worker.repair.kept_branch import saved_branch
from quadlog.worker.repair.mender import QUADS
from quadlog.worker.replica.out_of_log import WAY_OUT, missing_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.replica.rates import RatesFile

log = structlog.get_logger()

BUNDLE: Final = "bundle"
"""Directory of a bundle that is being applied, in a worker's data-dir."""
_LOOK_S: Final = 3.0
"""Seconds that Kafka has to report where a topic ends; otherwise this worker starts as it is."""
AGAIN_S: Final = 5.0
"""Seconds between two attempts, if there is no other way."""
_LOOKED_AT: Final = 10_000
"""Records at the topic's end that are searched for its newest effect."""


class CatchUp:
    """Catching up at a worker's start, on its main thread: nothing else has the store open, and nothing is served."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: Topics,
        store: QuadStore,
        rates: RatesFile,
        tell: Callable[[Callable[[], Progress]], None],
    ) -> None:
        """Prepare; nothing is read yet.  `tell` accepts a function that returns the progress from now on."""
        self._settings, self._topics, self._store = settings, topics, store
        self._bundle: Final = settings.data_dir / BUNDLE
        self._rates, self._full, self._tell = rates, StoreTransfer(settings, topics, rates), tell
        self._behind, self._obstacle = 0, ""
        self.newest = 0
        """Index of the newest effect at this start; 0: unknown."""

    def run(self) -> QuadStore:
        """Apply a bundle or fetch a copy, if that is the better or the only way; return the store to continue with.

        A store that keeps a branch stays as it is.
        """
        self._tidy()
        if saved_branch(self._settings.data_dir, self._store.name) is not None:
            return self._store
        try:
            self._come_into_the_log()
            self.newest = self._look_for_the_newest()
            behind = self.newest - self._store.applied.index
            if behind > 0:
                self._behind = behind
                self._catch_up(behind)
        except StoreDamaged:
            raise
        except (QuadlogError, OSError) as error:
            log.warning("catch_up_failed", reason=str(error))
        finally:
            self._tidy()
            self._full.forget()
        return self._store

    def _come_into_the_log(self) -> None:
        """Wait for a copy or a backup while the topics do not reach back to the store: nothing else helps."""
        cause = "out_of_sync"
        while lacking := missing_after(self._settings, self._topics, self._store.applied, timeout=_LOOK_S):
            log.warning("full_replication_started", cause=cause, reason=lacking)
            try:
                before = self._store.applied
                self._copy()
                if self._store.applied == before:
                    time.sleep(AGAIN_S)  # no worker here is further yet
                cause = "copy_out_of_sync"  # the copy was reported as one that the log reaches back to
            except StoreDamaged:
                raise
            except (QuadlogError, OSError) as error:
                self._obstacle = f"{lacking}; {error}: {WAY_OUT}"
                log.warning(
                    "full_replication_failed",
                    reason=f"{lacking}; {error}",
                    what_to_do=WAY_OUT,
                    again_in_s=AGAIN_S,
                )
                time.sleep(AGAIN_S)

    def _catch_up(self, behind: int) -> None:
        choice = self._choose(behind)
        log.info("catch_up_started", way=choice.way, behind=behind, reason=choice.reason)
        match choice.way:
            case CatchUpMethod.INCREMENTAL:
                pass
            case CatchUpMethod.COMPACTED:
                self._take(behind)
            case CatchUpMethod.FULL:
                log.info("full_replication_started", cause="empty" if self._is_empty else "catch_up")
                self._copy()

    def _choose(self, behind: int) -> Choice:
        if self._settings.catch_up != "auto":
            return Choice(way=CatchUpMethod(self._settings.catch_up), reason="by the setting catch-up")
        settings = with_agreed(self._settings, self._topics)
        how = Compression(settings.copy_compression)
        self._rates.speed = speed_of(settings.net_speed_bits_per_sec, how)
        index = self._store.applied.index
        offer = self._full.offer(self._store.applied)
        return choose(
            behind,
            self._rates.read(),
            size=offer.size if offer is not None else None,
            left=max(0, index + behind - offer.index) if offer is not None else 0,
            is_backup=offer is not None and offer.is_backup,
            is_empty=self._is_empty and offer is not None,
            least_s=settings.min_time_to_consider_full_replication,
            factor=settings.full_replication_time_factor,
        )

    @property
    def _is_empty(self) -> bool:
        return self._store.applied == Applied()

    def _copy(self) -> None:
        """Fetch a copy; in any case there is a store afterwards: the old one, or the copy."""
        before = self._store.applied
        self._tell(self._copied)
        self._store.close()
        try:
            self._full.transfer(before)
        finally:
            self._store = QuadStore.open(self._settings.data_dir / QUADS)

    def _copied(self) -> Progress:
        progress = self._full.progress
        return Progress(
            way=CatchUpMethod.FULL,
            behind=self._behind,
            percent=progress.percent,
            left_s=progress.left_s,
            obstacle="" if progress.percent else self._obstacle,
        )

    def _tidy(self) -> None:
        for path in (self._bundle, self._bundle.with_name(f"{BUNDLE}.making")):
            shutil.rmtree(path, ignore_errors=True)
        remove_scratch(self._settings)

    def _look_for_the_newest(self) -> int:
        """Return the index of the newest effect on the topic, which need not count; 0: none was found."""
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

    def _take(self, behind: int) -> None:
        began = time.monotonic()
        self._tell(partial(self._taken, behind, began))
        run_job("compact", self._bundle, self._settings, {"--applied": self._store.applied.encode()})
        made = time.monotonic()
        manifest = load_bundle(self._store, self._bundle)
        taken = time.monotonic()
        self._rates.keep_bundle(manifest.effects, taken - began)
        log.info(
            "bundle_taken",
            first=manifest.before.index + 1,
            last=manifest.after.index,
            behind=behind,
            lines=sum(file.lines for file in manifest.files),
            made_s=round(made - began, 1),
            taken_s=round(taken - made, 1),
        )

    def _taken(self, behind: int, began: float) -> Progress:
        """Estimate the progress from the last measurement: Spark does not report any."""
        rates, gone = self._rates.read(), time.monotonic() - began
        whole = rates.start_s + behind / rates.compacted
        return Progress(
            way=CatchUpMethod.COMPACTED,
            behind=behind,
            percent=min(99, int(100 * gone / whole)),
            left_s=round(whole - gone) if gone < whole else None,
        )
