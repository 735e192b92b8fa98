"""A broker that comes back under another address: clients that were told both addresses go on by themselves."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quadlog.broker import Admin
from quadlog.kafka.ports import free_ports
from tests.support.brokers import fill, until
from tests.support.labs import running_broker
from tests.support.topic_reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak

SOON_S = 30.0


def test_records_are_written_and_read_on_at_the_other_address(tmp_path: Path) -> None:
    """Each once, in both directions, twice; and it is the same topic for whoever reads it."""
    with running_broker(tmp_path / "broker") as broker:
        here, there = broker.bootstrap, f"127.0.0.1:{free_ports(1)[0]}"
        reader = Reader(f"{here},{there}", [f"test.{uuid.uuid4()}"])
        [topic] = reader.names
        fill(reader.outlet, topic, 5)
        reader.begin({topic: 0}, {topic: None})
        until(lambda: (topic, 4) in reader.heard)
        count = 5
        for address in (there, here):
            broker.kill()
            broker.process = replace(broker.process, port=int(address.rpartition(":")[2]))
            broker.start()
            began = time.monotonic()
            fill(reader.outlet, topic, 5)
            count += 5
            until(lambda: (topic, count - 1) in reader.heard, SOON_S)  # noqa: B023 - it is waited for here
            print(f"written and read at {address} after {time.monotonic() - began:.1f} s")
        assert [record.offset for record in reader.records] == list(range(count))
        assert [identity for _, identity, is_other in reader.told if is_other] == []
        assert reader.gaps == []
        assert Admin(reader.kafka).ids([topic]) == {topic: reader.told[0][1]}
        assert reader.tail is not None
        reader.tail.close()
        reader.outlet.close()
        assert reader.failures == []
