"""Fork backups: a worker's store as it was before a split, under `split-recovery` Smart and Simple.

    forks/fork-7-1234/         made in the view of epoch 7, with effects up to index 1234 applied
        fork.json              epoch, index, time, and whether the worker has gone back to it
        quads/                 the store, by hard links

A master requests one as soon as members of its view are silent: until the view changes nothing is agreed, so
that the backup holds nothing of a branch.  Under Simple it requests, once all are together again, that the worker
goes back: its process ends in order, and the next one continues with that store, and reads the log from there on.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.responses import Response

from quadlog.clock import wall
from quadlog.errors import Unavailable, UserError
from quadlog.quadstore.quaddir import link_store
from quadlog.web.http_body import read_query
from quadlog.worker.repair.mender import QUADS, put_aside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

    from quadlog.quadstore.quadstore import QuadStore

log = structlog.get_logger()

FORKS: Final = "forks"
"""Directory of the backups, in a worker's data-dir."""
KEPT: Final = 2
"""Number of backups that are kept: each holds files that the store itself may have replaced."""
_SAID: Final = "fork.json"
_MAKING: Final = "making"
_RETURNING: Final = "quads.returning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkBackup:
    """A store from before a split."""

    epoch: int
    """Epoch of the view in which members were silent."""
    index: int
    """Index of the last effect applied."""
    at: int
    """When it was made, in milliseconds since 1970."""
    is_used: bool = False
    """True if the worker has gone back, to this state or another one from before the split."""

    @property
    def name(self) -> str:
        """Name of its directory."""
        return f"fork-{self.epoch}-{self.index}"


class ForkBackups:
    """Fork backups of one worker, and the handlers of `POST /fork-backup` and `POST /fork-backup/return`."""

    def __init__(self, data_dir: Path, store: QuadStore, leave: Callable[[], None]) -> None:
        """`leave` ends the process in order, from any thread."""
        self._data_dir, self._store, self._leave = data_dir, store, leave
        self._directory: Final = data_dir / FORKS
        self._lock = threading.Lock()
        self.wanted: ForkBackup | None = None
        """Backup with which the next process must continue."""
        for left in (self._directory / _MAKING, data_dir / _RETURNING):
            shutil.rmtree(left, ignore_errors=True)

    def kept(self) -> list[ForkBackup]:
        """Return the backups that are kept, oldest first."""
        found: list[ForkBackup] = []
        for path in self._directory.glob("fork-*"):
            with suppress(OSError, ValueError, TypeError):
                found.append(ForkBackup(**json.loads((path / _SAID).read_text())))
        return sorted(found, key=lambda one: (one.epoch, one.index))

    def make(self, epoch: int, most: int) -> bool:
        """Make a backup for a view, which replaces an earlier one of the same view; return False if that is the same.

        Args:
            epoch: epoch of the view.
            most: index of the last entry; the backup holds none after it.

        Raises:
            Unavailable: it cannot be made now.

        """
        with self._lock:
            before = [one for one in self.kept() if one.epoch == epoch]
            if any(one.index == self._store.applied.index for one in before):
                return False
            making = self._directory / _MAKING
            shutil.rmtree(making, ignore_errors=True)
            try:
                making.mkdir(parents=True)
                index = self._store.copy(making / QUADS).index
            except OSError as error:
                raise Unavailable(f"no fork backup can be made: {error}") from error
            if index > most:
                raise Unavailable(f"effect {index} is applied, which may be of a branch")
            made = ForkBackup(epoch=epoch, index=index, at=wall())
            _save(making, made)
            making.rename(self._directory / made.name)
            for old in (*before, *self.kept()[:-KEPT]):
                shutil.rmtree(self._directory / old.name, ignore_errors=True)
        log.info("fork_backup_made", name=made.name, index=index)
        return True

    def go_back(self, epoch: int) -> ForkBackup | None:
        """Have the next process continue with the store from before the split that a view ended; None: there is none.

        A worker that has undone a branch of its side has gone back already.

        Args:
            epoch: epoch of the view.

        """
        with self._lock:
            unused = [one for one in self.kept() if not one.is_used and one.epoch < epoch]
            for one in unused:
                _save(self._directory / one.name, replace(one, is_used=True))
            applied = self._store.applied
            if not unused or applied.rewound > unused[0].epoch or unused[0].index >= applied.index:
                return None
            self.wanted = unused[0]
        log.info("fork_return_started", name=self.wanted.name, applied=applied.index)
        self._leave()
        return self.wanted

    def put_back(self) -> None:
        """Replace the store, which must not be open, by the wanted backup, which stays.

        A crash between any two steps leaves one of both stores, or none: then the log is read from its beginning.
        """
        assert self.wanted is not None, "a backup is wanted"
        source, target = self._directory / self.wanted.name / QUADS, self._data_dir / _RETURNING
        link_store(source, target)
        put_aside(self._data_dir)
        target.rename(self._data_dir / QUADS)

    # --- requests of masters --------------------------------------------------------------------------

    async def post(self, request: Request) -> Response:
        """Make a backup: 201, or 204 if it is there already.

        Raises:
            Unavailable: it cannot be made now.

        """
        asked = _numbers_in(await read_query(request), "epoch", "most")
        is_new = await asyncio.to_thread(self.make, *asked)
        return Response(status_code=201 if is_new else 204)

    async def return_(self, request: Request) -> Response:
        """Go back: 202, or 204 if there is nothing to go back to."""
        (epoch,) = _numbers_in(await read_query(request), "epoch")
        found = await asyncio.to_thread(self.go_back, epoch)
        return Response(status_code=204 if found is None else 202)

    def status(self) -> dict[str, Any]:
        """Return the backups as `/status` shows them."""
        return {"fork_backups": [{"name": one.name, **asdict(one)} for one in self.kept()]}


def _save(directory: Path, backup: ForkBackup) -> None:
    draft = directory / f"{_SAID}.new"
    draft.write_text(f"{json.dumps(asdict(backup))}\n")
    draft.replace(directory / _SAID)


def _numbers_in(body: bytes, *names: str) -> list[int]:
    try:
        asked = json.loads(body)
        return [int(asked[name]) for name in names]
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        keys = ", ".join(f'"{name}": a number' for name in names)
        raise UserError(f"the body is {{{keys}}}") from error
