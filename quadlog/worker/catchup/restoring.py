"""Restoring: a worker gets its store from a backup, the newest one after which the log continues.

A backup is not opened in its place: its files are copied like those of another worker, compared with its
digest, opened, and compared with the applied state that it states.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.errors import QuadlogError, StateError, Unavailable, UserError
from quadlog.snapshots.backups import backups_in, log_of, looked_through
from quadlog.snapshots.store_archive import pieces_of
from quadlog.worker.catchup.partial_copy import CopyDescription, CopyProgress, PartialCopy
from quadlog.worker.catchup.store_copying import CopiedStore, CopyOffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from quadlog.quadstore.applied import Applied
    from quadlog.settings import WorkerSettings
    from quadlog.snapshots.backups import Backup, LogExtent
    from quadlog.topics import Topics

log = structlog.get_logger()

COMING: Final = "backup.coming"
"""Directory of a backup that is being copied, in a worker's data-dir."""
TOLD: Final = 3
"""Reasons that are reported if no backup is usable; this worker's log has all of them."""


class Restoring:
    """Restoring at a worker's start, on its main thread."""

    def __init__(self, settings: WorkerSettings, topics: Topics) -> None:
        self._settings, self._topics = settings, topics
        self._directory: Final = settings.data_dir / COMING
        self._damaged: dict[Path, str] = {}
        """Backups that were read, and why they are not read again."""
        self.progress: Final = CopyProgress()

    @property
    def is_set(self) -> bool:
        """True if there may be backups."""
        return self._settings.backups is not None

    def offer(self, applied: Applied) -> CopyOffer | None:
        """Return the newest usable backup as an offer; None if there is none."""
        if not self.is_set:
            return None
        try:
            usable, _ = self._look(applied)
        except QuadlogError as error:
            log.warning("backup_search_failed", reason=str(error))
            return None
        for backup in usable[:1]:
            path, size = str(backup.path), backup.label.size
            return CopyOffer(donor=path, index=backup.applied.index, size=size, is_backup=True)
        return None

    def restore(self, applied: Applied, make_room: Callable[[], None]) -> CopiedStore:
        """Replace the store here, which must not be open and is in the state `applied`, by a backup.

        `make_room` is called before anything is copied.

        Raises:
            Unavailable: no backup is usable.

        """
        usable, reasons = self._look(applied)
        if usable:
            make_room()
        for backup in usable:
            try:
                return self._whole(backup)
            except (QuadlogError, OSError) as error:
                reasons.append(_refused(backup.path, str(error)))
        self.progress.restart()
        raise Unavailable(f"no backup is usable: {_told(reasons, self._settings.backups)}")

    def _look(self, applied: Applied) -> tuple[list[Backup], list[str]]:
        """Return the usable backups, the newest first, and why others are not."""
        directory = self._settings.backups
        assert directory is not None, "backups are set"
        try:
            paths = backups_in(directory)
        except OSError as error:
            raise Unavailable(f"{directory} cannot be read, where backups must be: {error}") from error
        usable, refused = looked_through(paths, self._log())
        here = applied.effects_offset, applied.agreed_offset
        refused |= {
            backup.path: self._damaged[backup.path] for backup in usable if backup.path in self._damaged
        }
        refused |= {
            backup.path: f"it is no newer than the store here, with entry {backup.applied.index}"
            for backup in usable
            if backup.place <= here
        }
        reasons = [_refused(path, reason) for path, reason in sorted(refused.items())]
        return [backup for backup in usable if backup.path not in refused], reasons

    def _log(self) -> LogExtent:
        return log_of(self._settings.kafka, self._topics)

    def forget(self) -> None:
        """Delete the copied part of a backup."""
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- its files ----------------------------------------------------------------------------------

    def _whole(self, backup: Backup) -> CopiedStore:
        coming, progress = self._begun(backup), self.progress
        progress.restart()
        progress.came = 0
        try:
            for figures in coming.take(pieces_of(backup.files, start=coming.size), progress):
                log.info("restore_progress", backup=str(backup.path), **figures)
            applied = coming.put_into(self._settings.data_dir)
        except QuadlogError as error:
            self.forget()
            what = "its files are not those that were counted" if isinstance(error, UserError) else error
            self._damaged[backup.path] = why = f"it is damaged: {what}"
            raise StateError(why) from error
        finally:
            coming.close()
        log.info("store_replaced", backup=str(backup.path), made=backup.made)
        return CopiedStore(applied, backup.label.size, progress.came)

    def _begun(self, backup: Backup) -> PartialCopy:
        """Return the copy of this backup that was begun, or a new one."""
        announced = CopyDescription(
            donor=str(backup.path),
            label=backup.label,
            applied=backup.applied.encode(),
            reserved=backup.reserved,
            fed_from=backup.fed_from.encode(),
        )
        if (begun := PartialCopy.resumed(self._directory, announced)) is not None:
            return begun
        self.forget()
        return PartialCopy.begin(self._directory, announced)


def _refused(path: Path, reason: str) -> str:
    log.warning("backup_refused", backup=str(path), reason=reason)
    return f"{path.name}: {reason}"


def _told(reasons: Sequence[str], directory: Path | None) -> str:
    more = len(reasons) - TOLD
    told = [*reasons[-TOLD:], *([f"and {more} more, see this worker's log"] if more > 0 else [])]
    return "; ".join(told) or f"there is none in {directory}"
