"""Which workers are asked for a copy of their stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from producers.status import StatusProducer
from quadlog.clock import wall
from quadlog.core.model import LogPosition
from quadlog.settings import WorkerSettings
from quadlog.topics import Topics
from quadlog.worker.catchup import store_copying
from quadlog.worker.catchup.store_copying import StoreCopying
from tests.support.masters.beats import beat
from tests.support.workers.rehearsal import TOPICS, Log

if TYPE_CHECKING:
    import pytest


def test_those_that_serve_a_state_of_the_log_the_furthest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    told = StatusProducer(log, TOPICS.status)
    here = replace(beat("near"), sent=wall(), applied=LogPosition(7, bytes(32)))
    for one in (
        here,
        replace(here, worker="far", url="http://far", applied=LogPosition(9, bytes(32))),
        replace(here, worker="diverged", url="http://diverged", applied=LogPosition(11, bytes(32)), fork=5),
        replace(here, worker="behind", url="http://behind", applied=LogPosition(3, bytes(32))),
        replace(here, worker="w", url="http://itself"),
    ):
        told.publish(one)
    monkeypatch.setattr(store_copying, "last_records", lambda *_, **__: log.records[TOPICS.status])
    common = {"node_id": "w", "dc": "dc1", "kafka": "127.0.0.1:1", "port": 1, "data_dir": Path()}
    settings = WorkerSettings.model_validate(common | {"worker_url": "http://127.0.0.1:1"})
    assert StoreCopying(settings, Topics("main", "dc1")).donors(7) == ["http://far", "http://near"]
