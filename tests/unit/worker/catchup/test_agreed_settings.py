"""Of an entry, the worker's file, the master's file and the default, the first one that says a value counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadlog.core.catchup import FACTOR
from quadlog.core.model import AgreedSetting
from quadlog.settings import WorkerSettings
from quadlog.worker.catchup.agreed_settings import applied_to

NAME = "full-replication-time-factor"


def settings(**given: float) -> WorkerSettings:
    common = {"node_id": "w1", "dc": "dc1", "kafka": "127.0.0.1:1", "port": 1, "data_dir": Path()}
    return WorkerSettings.model_validate(common | {"worker_url": "http://127.0.0.1:1"} | given)


@pytest.mark.parametrize(
    ("own", "said", "counts"),
    [
        ({}, (), FACTOR),
        ({}, ((0, "2"),), 2.0),
        ({"full_replication_time_factor": 3.0}, ((0, "2"),), 3.0),
        ({"full_replication_time_factor": 3.0}, ((7, "4"),), 4.0),
        ({}, ((7, "of-tomorrow"),), FACTOR),
    ],
)
def test_which_value_counts(own: dict[str, float], said: tuple[tuple[int, str], ...], counts: float) -> None:
    agreed = tuple(AgreedSetting(NAME, value, index, 0, "") for index, value in said)
    others = (AgreedSetting("max-peer-lag", "9", 3, 0, "ada"), AgreedSetting("of-tomorrow", "1", 4, 0, "ada"))
    assert applied_to(settings(**own), agreed + others).full_replication_time_factor == counts
