"""Requests to workers around a split: a backup before it and, under `split-recovery` Simple, the way back to it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.core.cluster_settings import SplitRecovery
from quadlog.master.clients.split_state import silent_members

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""Milliseconds between two checks."""
AGAIN_MS: Final = 1_000.0
"""Milliseconds between two requests to a worker."""


@dataclass(slots=True)
class ForkRequest:
    """A request to a worker."""

    path: str
    epoch: int
    index: int
    """Index of the last effect that the worker had applied."""
    at: float
    """Steady milliseconds."""
    store: str
    """Name of the worker's store."""
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
        ask: Callable[[Worker, str, dict[str, int], Callable[[int], None]], None],
    ) -> None:
        """`ask` sends a worker a request to a path with a body; the function gets the status of the response."""
        self._worker_registry, self._ask = worker_registry, ask
        self._looked_at = float("-inf")
        self._sent: dict[str, ForkRequest] = {}
        """By worker: its last request."""
        self._was_apart = True
        """True if workers may have to go back once all are together: after a start this is not known."""

    def tick(self, cluster: ClusterView, moment: float) -> None:
        """Send the requests that are due, for the master that leads; `moment`: steady milliseconds."""
        recovery = cluster.settings.split_recovery
        if moment - self._looked_at < LOOK_MS or recovery not in {SplitRecovery.SMART, SplitRecovery.SIMPLE}:
            return
        self._looked_at = moment
        if not cluster.is_peer:
            return
        self._was_apart |= not cluster.is_together
        if silent_members(cluster, moment):
            for worker in self._worker_registry.live(moment):
                self._have_backed_up(worker, cluster, moment)
        elif recovery is SplitRecovery.SIMPLE and cluster.is_together and self._was_apart:
            self._have_one_go_back(cluster, moment)

    def _have_backed_up(self, worker: Worker, cluster: ClusterView, moment: float) -> None:
        epoch, index = cluster.view.epoch, worker.beat.applied.index
        sent = self._sent.get(worker.beat.worker)
        if sent is not None and sent.epoch == epoch and sent.path == BACKUP:
            is_done = sent.index == index and sent.status in {HTTPStatus.CREATED, HTTPStatus.NO_CONTENT}
            if is_done or moment - sent.at < AGAIN_MS:
                return
        self._send(BACKUP, worker, epoch, moment, {"epoch": epoch, "most": cluster.last.index})

    def _have_one_go_back(self, cluster: ClusterView, moment: float) -> None:
        """Have the next worker go back, once the one before it serves again and has caught up."""
        workers, epoch = self._worker_registry.all(), cluster.view.epoch
        for worker in workers:
            sent = self._sent.get(worker.beat.worker)
            if sent is None or sent.path != RETURN or sent.epoch != epoch:
                if self._worker_registry.is_live(worker, moment):
                    self._send(RETURN, worker, epoch, moment, {"epoch": epoch})
                return
            if not self._is_back(worker, sent, moment):
                if sent.status != HTTPStatus.ACCEPTED and moment - sent.at >= AGAIN_MS:
                    del self._sent[worker.beat.worker]
                return
        self._was_apart = not workers

    def _is_back(self, worker: Worker, sent: ForkRequest, moment: float) -> bool:
        """Return whether a worker has gone back and caught up, or had nothing to go back to."""
        if sent.status != HTTPStatus.ACCEPTED:
            return sent.status == HTTPStatus.NO_CONTENT
        is_other = worker.beat.store != sent.store and self._worker_registry.is_live(worker, moment)
        return is_other and worker.beat.applied.index >= sent.index

    def _send(self, path: str, worker: Worker, epoch: int, moment: float, body: dict[str, int]) -> None:
        beat = worker.beat
        sent = ForkRequest(path=path, epoch=epoch, index=beat.applied.index, at=moment, store=beat.store)
        self._sent[beat.worker] = sent
        self._ask(worker, path, body, sent.set_status)


BACKUP: Final = "/fork-backup"
RETURN: Final = "/fork-backup/return"
"""Paths at a worker."""
