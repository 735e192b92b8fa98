"""A broker that its controller takes for gone for a moment has no leader then; whoever looks just then reads on soon.

With librdkafka 2.16, and a session of 2 s, two of thirty such consumers never found a leader again (its issue 5430).
"""

from __future__ import annotations

import signal
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from quadlog.broker import Admin
from tests.support.brokers import fill, until
from tests.support.labs import RunningBroker, running_broker
from tests.support.topic_reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

FENCED_AFTER_S = 6.6
"""Behind `broker.session.timeout.ms`."""


@pytest.mark.soak
def test_who_looks_while_it_is_fenced_reads_on(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as broker:
        for number in range(30):
            look_while_fenced(broker, after_s=(number % 8) * 0.04)
        assert "Fencing broker" in (tmp_path / "broker" / "broker.log").read_text()


def look_while_fenced(broker: RunningBroker, *, after_s: float) -> None:
    """A process that was suspended is fenced when it goes on, and is not some tenths of a second later."""
    reader = Reader(broker.bootstrap, [f"test.{uuid.uuid4()}" for _ in range(2)])
    for name in reader.names:
        fill(reader.outlet, name, 5)
    ids = Admin(broker.bootstrap).ids(reader.names)
    assert broker.popen is not None
    broker.popen.send_signal(signal.SIGSTOP)
    time.sleep(FENCED_AFTER_S)
    broker.popen.send_signal(signal.SIGCONT)
    time.sleep(after_s)
    reader.begin(dict.fromkeys(reader.names, 0), ids)
    assert reader.tail is not None
    try:
        until(lambda: all((name, 4) in reader.heard for name in reader.names), 20)
    finally:
        reader.tail.close()
        reader.outlet.close()
    assert reader.failures == []
