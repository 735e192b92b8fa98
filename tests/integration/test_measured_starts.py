"""What a worker keeps of a start is what the start took: the next choice reckons with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from quadlog.topics import Topics
from quadlog.worker.replica.rates import RatesFile
from tests.bench.catching_up import has_applied, log_of, make_topics, produce_log, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.waits

EFFECTS = 60_000
"""Some two seconds."""


def test_the_rate_is_that_of_the_whole_start(kafka: str, tmp_path: Path) -> None:
    topics = Topics(tmp_path.name, "dc1")
    make_topics(kafka, topics)
    produce_log(kafka, topics, log_of(EFFECTS, EFFECTS // 10))
    with running(kafka, tmp_path.name, tmp_path / "worker", catch_up="incremental") as (url, _):
        while "worker_started" not in (tmp_path / "worker" / "log").read_text():
            time.sleep(0.01)
        began = time.monotonic()
        while not has_applied(url, EFFECTS):
            time.sleep(0.02)
        took = time.monotonic() - began
    rate = RatesFile(tmp_path / "worker" / "data" / "rates.json").read().incremental
    assert 0.7 < EFFECTS / rate / took < 1.3
