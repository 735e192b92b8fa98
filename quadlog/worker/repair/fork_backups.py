"""Fork backups: a worker's store as it was before a split, under `split-recovery` Smart and Simple.

    forks/fork-7-1234/         made in the view of epoch 7, with effects up to index 1234 applied
        fork.json              view, applied state, time, and what became of it
        quads/                 the store, by hard links

A master requests one as soon as members of its view are silent: until the view changes nothing is agreed, so
that the backup holds nothing of a branch.  Once a view without some peers has followed, the backup is that of a
split; otherwise it is never used.  Under Simple the master requests, once all are together again, that the worker goes
back: its process ends in order, and the next one continues with that store, and reads the log from there on.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.responses import Response

from quadlog.clock import wall
from quadlog.codec.envelope import text_moment
from quadlog.errors import Unavailable, UserError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import link_store, new_copy_id
from quadlog.web.http_body import read_query
from quadlog.worker.repair.mender import FORKS, QUADS, put_aside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

    from quadlog.quadstore.quadstore import QuadStore

log = structlog.get_logger()

KEPT: Final = 2
"""Number of backups that are kept beside one that may be needed: each holds files that the store may have replaced."""
_SAID: Final = "fork.json"
_MAKING: Final = "making"
_DROPPING: Final = "dropping"
_LINKING: Final = "quads.linking"
_RETURNING: Final = "quads.returning"
"""Directories of a store that is being made of a backup, and of one that is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkBackup:
    """A store from before a split."""

    view: str
    """Id of the view in which members were silent, in hex."""
    epoch: int
    """Its epoch."""
    applied: str
    """Applied state of the store, encoded."""
    at: int
    """When it was made, in milliseconds since 1970."""
    is_split: bool = False
    """True if a view without some peers followed."""
    is_used: bool = False
    """True if all are together again, and the worker has gone back if it had to."""

    @property
    def state(self) -> Applied:
        """Applied state of the store."""
        return Applied.decode(self.applied)

    @property
    def name(self) -> str:
        """Name of its directory."""
        return f"fork-{self.epoch}-{self.state.index}"


class ForkBackups:
    """Fork backups of one worker, and the handlers of requests of masters that concern them."""

    def __init__(
        self,
        data_dir: Path,
        store: QuadStore,
        leave: Callable[[], None],
        *,
        lacks: Callable[[Applied], str] = lambda _: "",
    ) -> None:
        """Find the backups that are kept.  `leave` ends the process in order, from any thread.

        `lacks` returns which records after a state the topics do not have any more; empty: none are missing.
        """
        self._data_dir, self._store, self._leave, self._lacks = data_dir, store, leave, lacks
        self._directory: Final = data_dir / FORKS
        self._lock = threading.Lock()
        self.wanted: ForkBackup | None = None
        """Backup with which the next process must continue."""
        for left in (data_dir / _LINKING, data_dir / _RETURNING):
            shutil.rmtree(left, ignore_errors=True)
        whole = {one.name for one in self.kept()}
        for path in self._directory.glob("*"):
            if path.name not in whole:
                shutil.rmtree(path, ignore_errors=True)

    def kept(self) -> list[ForkBackup]:
        """Return the backups that are kept, oldest first."""
        found: list[ForkBackup] = []
        for path in self._directory.glob("fork-*"):
            with suppress(OSError, ValueError, TypeError):
                found.append(ForkBackup(**json.loads((path / _SAID).read_text())))
        return sorted(found, key=attrgetter("at"))

    def make(self, view: str, epoch: int, most: int) -> bool:
        """Make a backup for a view, which replaces an earlier one of the same view; return False if that is the same.

        `view` is the view's id in hex; the backup holds no entry after the index `most`.

        Raises:
            Unavailable: it cannot be made now.

        """
        if not self._lock.acquire(blocking=False):
            raise Unavailable("a fork backup is being made")
        try:
            before = [one for one in self.kept() if one.view == view]
            is_there = any(one.is_split or one.state.index == self._store.applied.index for one in before)
            if is_there or self.wanted is not None:
                return False
            made = self._made(view, epoch, most, before)
        except OSError as error:
            raise Unavailable(f"no fork backup can be made: {error}") from error
        finally:
            self._lock.release()
        log.info("fork_backup_made", name=made.name, index=made.state.index)
        return True

    def _made(self, view: str, epoch: int, most: int, before: list[ForkBackup]) -> ForkBackup:
        making = self._directory / _MAKING
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        applied = self._store.copy(making / QUADS)
        if applied.index > most:
            raise Unavailable(f"effect {applied.index} is applied, which may be of a branch")
        new_copy_id(making / QUADS)
        made = ForkBackup(view=view, epoch=epoch, applied=applied.encode(), at=wall())
        _save(making, made)
        for old in before:
            self._drop(old)
        making.rename(self._directory / made.name)
        needed = next((one for one in self.kept() if one.is_split and not one.is_used), None)
        for old in [one for one in self.kept() if one != needed][:-KEPT]:
            self._drop(old)
        return made

    def _drop(self, backup: ForkBackup) -> None:
        """Delete a backup; after a crash the next start deletes the rest."""
        dropping = self._directory / _DROPPING
        shutil.rmtree(dropping, ignore_errors=True)
        (self._directory / backup.name).rename(dropping)
        shutil.rmtree(dropping, ignore_errors=True)

    def confirm(self, view: str) -> bool:
        """Note that a view without some peers has followed on this one; return whether there is a backup of it."""
        with self._lock:
            found = [one for one in self.kept() if one.view == view]
            for one in found:
                if not one.is_split:
                    _save(self._directory / one.name, replace(one, is_split=True))
        return bool(found)

    def end(self, *, goes_back: bool) -> ForkBackup | None:
        """Note that all are together again, and go back if that is required and possible.

        A worker that has undone a branch of its side since has gone back already.  The next process continues with
        the backup that is returned, the store from before the split; None: it stays as it is.

        Raises:
            Unavailable: it is not known whether the log reaches back to the backup.

        """
        with self._lock:
            splits = [one for one in self.kept() if one.is_split and not one.is_used]
            first = splits[0] if splits and goes_back and self._may_go_back(splits[0]) else None
            for one in splits:
                if one != first:
                    _save(self._directory / one.name, replace(one, is_used=True))
            if first is None or self.wanted is not None:
                return first
            self.wanted = first
        log.info("fork_return_started", name=first.name, applied=self._store.applied.index)
        self._leave()
        return first

    def _may_go_back(self, backup: ForkBackup) -> bool:
        state, applied = backup.state, self._store.applied
        if applied.rewound > backup.epoch or state.index >= applied.index:
            return False
        if lacking := self._lacks(state):
            log.warning("fork_return_refused", name=backup.name, reason=lacking)
        return not lacking

    def put_back(self) -> None:
        """Replace the store, which must not be open, by the wanted backup, which stays.

        After a crash between any two steps the next process has one of both stores.  If the backup cannot be used, for
        lack of space, the store stays.
        """
        assert self.wanted is not None, "a backup is wanted"
        source, linking = self._directory / self.wanted.name, self._data_dir / _LINKING
        try:
            link_store(source / QUADS, linking)
            linking.rename(self._data_dir / _RETURNING)
            put_aside(self._data_dir)
            finish_return(self._data_dir)
        except OSError as error:
            log.warning("fork_return_refused", name=self.wanted.name, reason=str(error))
        with suppress(OSError):
            _save(source, replace(self.wanted, is_used=True))

    # --- requests of masters --------------------------------------------------------------------------

    async def post(self, request: Request) -> Response:
        """Make a backup: 201, or 204 if it is there already; raises as `make`."""
        view, epoch, most = _asked(await read_query(request), view=str, epoch=int, most=int)
        is_new = await asyncio.to_thread(self.make, view, epoch, most)
        return Response(status_code=201 if is_new else 204)

    async def split(self, request: Request) -> Response:
        """Note that a split followed: 204, whether there is a backup or not."""
        (view,) = _asked(await read_query(request), view=str)
        await asyncio.to_thread(self.confirm, view)
        return Response(status_code=204)

    async def together(self, request: Request) -> Response:
        """Go back if that is required: 202, or 204 if the store stays as it is."""
        (goes_back,) = _asked(await read_query(request), goes_back=bool)
        found = await asyncio.to_thread(self.end, goes_back=goes_back)
        return Response(status_code=204 if found is None else 202)

    def status(self) -> dict[str, Any]:
        """Return the backups as `/status` shows them."""
        return {
            "fork_backups": [
                {
                    "name": one.name,
                    "epoch": one.epoch,
                    "index": one.state.index,
                    "at": text_moment(one.at),
                    "is_split": one.is_split,
                    "is_used": one.is_used,
                }
                for one in self.kept()
            ]
        }


def finish_return(data_dir: Path) -> None:
    """Give the store that was made of a backup its place, if there is none there; at a start, before it is opened."""
    returning, store = data_dir / _RETURNING, data_dir / QUADS
    if returning.exists() and not store.exists():
        returning.rename(store)


def _save(directory: Path, backup: ForkBackup) -> None:
    draft = directory / f"{_SAID}.new"
    draft.write_text(f"{json.dumps(asdict(backup))}\n")
    draft.replace(directory / _SAID)


def _asked(body: bytes, **kinds: type) -> list[Any]:
    """Return the values of these names in a JSON object.

    Raises:
        UserError: one is missing, or of another kind.

    """
    try:
        asked = json.loads(body)
        values = [asked[name] for name in kinds]
    except (ValueError, TypeError, KeyError):
        values = []
    if not values or any(type(value) is not kind for value, kind in zip(values, kinds.values(), strict=True)):
        keys = ", ".join(f'"{name}": a {kind.__name__}' for name, kind in kinds.items())
        raise UserError(f"the body is {{{keys}}}")
    return values
