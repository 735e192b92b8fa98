"""What several of these tests begin with."""

from __future__ import annotations

import gc
import shutil
import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from quadlog.broker import KafkaOutlet
from quadlog.masterstore.store import MasterStore
from quadlog.replay.spark import SparkSettings, session
from quadlog.worker.repair.mender import QUADS
from tests.support.brokers import never, new_topic
from tests.support.labs import INTERPRETED, QUICK_JAVA
from tests.support.masters.centre import Centre
from tests.support.workers.branches import Logs
from tests.support.workers.copies import Taker, new_taker
from tests.support.workers.damaged import large_store
from tests.support.workers.rehearsal import Log, Worker
from tests.support.workers.sides import COMMON, OURS, THEIRS, Split

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MasterStore]:
    """A master's store, with nothing in it."""
    store = MasterStore(tmp_path / "store")
    yield store
    store.close()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One session for all tests of jobs.  PySpark has one at a time: what begins another one has its own process."""
    is_soak = any(item.get_closest_marker("soak") for item in request.session.items)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in QUICK_JAVA.items():
            patched.setenv(name, value)
        running = session(SparkSettings(), print, options=None if is_soak else INTERPRETED)
        begun = running.__enter__()
    try:
        yield begun
    finally:
        running.__exit__(None, None, None)
        with (
            warnings.catch_warnings()
        ):  # PySpark leaves the sockets to the collector that it talked to Java by
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def topic(kafka: str) -> str:
    """A new one, of one partition."""
    return new_topic(kafka)


@pytest.fixture
def outlet(kafka: str) -> Iterator[KafkaOutlet]:
    """Says records to the broker."""
    with closing(KafkaOutlet(kafka, client="test", failed=never)) as outlet:
        yield outlet


@pytest.fixture
def centre(tmp_path: Path, kafka: str) -> Iterator[Centre]:
    """A data centre whose topics a test loses."""
    centre = Centre(tmp_path, kafka)
    yield centre
    centre.outlet.close()


@pytest.fixture
def log() -> Log:
    """Topics as lists, without anything in them."""
    return Log()


@pytest.fixture
def worker(tmp_path: Path, log: Log) -> Worker:
    """It evaluates."""
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    return worker


@pytest.fixture
def logs() -> Logs:
    """Two logs that part."""
    return Logs()


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Each side has gone on by itself."""
    return Split(tmp_path, COMMON, OURS, THEIRS)


@pytest.fixture
def taker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taker:
    """It has a store, at index 3."""
    return new_taker(tmp_path, monkeypatch)


@pytest.fixture
def anyio_backend() -> str:
    """What asynchronous tests run on."""
    return "asyncio"


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody has open."""
    path = tmp_path_factory.mktemp("whole") / QUADS
    large_store(path).close()
    return path


@pytest.fixture
def data(whole_store: Path, tmp_path: Path) -> Path:
    """A worker's directory with a copy of it."""
    shutil.copytree(whole_store, tmp_path / QUADS)
    return tmp_path
