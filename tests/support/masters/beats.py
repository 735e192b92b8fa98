"""Heartbeats of workers, as a master's crew hears them."""

from __future__ import annotations

from quadlog.core.model import START, LogPosition
from quadlog.core.records import Heartbeat, WorkerState


def beat(
    worker: str, *, index: int = 0, evaluating: bool = False, state: WorkerState = WorkerState.SERVING
) -> Heartbeat:
    return Heartbeat(
        worker=worker,
        dc="dc1",
        url=f"http://{worker}",
        state=state,
        evaluating=evaluating,
        attempt=1,
        applied=LogPosition(index, START.chain),
        signature=bytes(32),
        quads=0,
        sent=0,
    )
