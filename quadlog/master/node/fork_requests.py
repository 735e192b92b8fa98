"""Requests to workers around a split: a backup before it and, under `split-recovery` Simple, the way back to it.

What a worker has to do is kept by the worker: a master that was started again, or that begins to lead, sends the
requests again.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.core.cluster_settings import SplitRecovery
from quadlog.master.clients.split_state import silent_members

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""Milliseconds between two checks."""
AGAIN_MS: Final = 1_000.0
"""Milliseconds between two requests to a worker."""
AWAY_MS: Final = 60_000.0
"""Milliseconds of silence of a worker that goes back after which the others do not wait for it."""

LOST_MS: Final = 5_000.0
"""Milliseconds after which a worker that serves as before has not got a request, or cannot answer it."""

BACKUP: Final = "/fork-backup"
SPLIT: Final = "/fork-backup/split"
TOGETHER: Final = "/fork-backup/together"
"""Paths at a worker."""

DONE: Final = frozenset({HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT})


@dataclass(slots=True)
class ForkRequest:
    """A request to a worker."""

    body: Mapping[str, object]
    at: float
    """Steady milliseconds."""
    index: int
    """Index of the last effect that the worker had applied."""
    store: str
    """Name of the worker's store."""
    seen: tuple[int, float]
    """Index that the worker had applied last, and since when, in steady milliseconds."""
    status: int | None = None
    """Status of the response; None: there was none."""

    def set_status(self, status: int) -> None:
        """Set the status; on any thread."""
        self.status = status


class ForkRequests:
    """Requests of the leading master to the workers of its data centre.  Owned by the node's thread."""

    def __init__(
        self,
        worker_registry: WorkerRegistry,
        ask: Callable[[Worker, str, Mapping[str, object], Callable[[int], None]], None],
    ) -> None:
        """`ask` sends a worker a request to a path with a body; the function gets the status of the response."""
        self._worker_registry, self._ask = worker_registry, ask
        self._looked_at = float("-inf")
        self._sent: dict[tuple[str, str], ForkRequest] = {}
        """By worker and path: the last request."""
        self._ended: dict[str, int] = {}
        """By worker: epoch of the view in which it was told that all are together."""
        self._away: dict[str, ForkRequest] = {}
        """By worker: the request by which it goes back now."""
        self.is_pending = False
        """True if workers may still need the log from before a split on."""

    def tick(self, cluster: ClusterView, moment: float) -> None:
        """Send the requests that are due, for the master that leads; `moment`: steady milliseconds."""
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        recovery = cluster.settings.split_recovery
        if recovery not in {SplitRecovery.SMART, SplitRecovery.SIMPLE} or not cluster.is_peer:
            self.is_pending = False
            return
        view, silent = cluster.view, silent_members(cluster, moment)
        backup = {"view": view.id.hex(), "epoch": view.epoch, "most": cluster.last.index}
        for worker in self._worker_registry.live(moment):
            if {peer.node for peer in cluster.peers}.difference(view.members):
                self._ask_once(worker, SPLIT, {"view": view.parent.hex()}, moment)
            if silent:
                self._ask_once(worker, BACKUP, backup, moment)
        if cluster.is_together and not silent:
            self._end(cluster, moment, goes_back=recovery is SplitRecovery.SIMPLE)

    def _end(self, cluster: ClusterView, moment: float, *, goes_back: bool) -> None:
        """Tell the workers that all are together; under Simple one after the other, as they go back."""
        self._note_answers()
        self._away = {
            name: sent for name, sent in self._away.items() if self._is_away(name, sent, cluster, moment)
        }
        epoch = cluster.view.epoch
        live = self._worker_registry.live(moment)
        left = [worker for worker in live if self._ended.get(worker.beat.worker) != epoch]
        self.is_pending = goes_back and bool(left or self._away)
        body = {"goes_back": goes_back, "epoch": epoch}
        for worker in left:
            if self._away:
                return
            before = self._sent.get((worker.beat.worker, TOGETHER))
            sent = self._ask_once(worker, TOGETHER, body, moment)
            if goes_back and sent is not before:
                self._away[worker.beat.worker] = sent

    def _note_answers(self) -> None:
        for (name, path), sent in self._sent.items():
            if path == TOGETHER and sent.status in DONE:
                self._ended[name] = int(str(sent.body["epoch"]))

    def _is_away(self, name: str, sent: ForkRequest, cluster: ClusterView, moment: float) -> bool:
        """Return whether a worker may be going back, and has not caught up since."""
        worker = self._worker_registry.known(name)
        if worker is None or sent.status not in {None, HTTPStatus.ACCEPTED}:
            return False
        is_live = self._worker_registry.is_live(worker, moment)
        index = worker.beat.applied.index
        if worker.beat.store != sent.store and is_live:
            sent.seen = sent.seen if sent.seen[0] == index else (index, moment)
            return index < min(sent.index, cluster.last.index) and moment - sent.seen[1] <= AWAY_MS
        patience = AWAY_MS if sent.status else LOST_MS
        since = sent.at if is_live else max(sent.at, worker.heard_at)
        if moment - since <= (patience if is_live else AWAY_MS):
            return True
        log.warning("fork_return_missing", worker=name)
        return False

    def _ask_once(self, worker: Worker, path: str, body: Mapping[str, object], moment: float) -> ForkRequest:
        """Send a request unless it was answered, or sent just now; return the last one."""
        beat = worker.beat
        sent = self._sent.get((beat.worker, path))
        if sent is not None and sent.body == body:
            has_moved = path == BACKUP and sent.index != beat.applied.index
            if moment - sent.at < AGAIN_MS or (sent.status in DONE and not has_moved):
                return sent
        index = beat.applied.index
        sent = ForkRequest(body=body, at=moment, index=index, store=beat.store, seen=(index, moment))
        self._sent[beat.worker, path] = sent
        self._ask(worker, path, body, sent.set_status)
        return sent
