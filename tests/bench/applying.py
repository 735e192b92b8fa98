"""What a worker does for an update, evaluating and following, beside pyoxigraph's own `update` of the same text.

The real replica on a real store, without Kafka: what it hears is decoded, what it says is encoded.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyoxigraph import Store

from tests.bench.figures import Applying
from tests.bench.workload import Workload, setup, texts
from tests.integration.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

BATCHES: Final = (1, 10, 100, 1000)
EVALUATED: Final = 50
"""Entries that an evaluating worker has before it hears its effects back, as under load."""

PREFIX: Final = "urn:bench:0:"


def inserts(quads: int, count: int) -> Iterator[str]:
    """Updates with so many new quads each."""
    for number in range(count):
        body = " ; ".join(f'<urn:p{n}> "v{number}-{n}"' for n in range(quads))
        yield f"INSERT DATA {{ <{PREFIX}{number}> {body} }}"


def appends(count: int) -> Iterator[str]:
    """The list append of the other measurements."""
    prepared = setup(Workload.APPEND, PREFIX)
    assert prepared is not None
    yield prepared
    yield from islice(texts(Workload.APPEND, PREFIX), count - 1)


def measure(directory: Path, *, updates: int) -> list[Applying]:
    """All workloads, each plain, evaluated, and followed in batches."""
    workloads = {
        "insert 1 quad": list(inserts(1, updates)),
        "insert 10 quads": list(inserts(10, updates)),
        "append": list(appends(updates)),
    }
    found: list[Applying] = []
    for name, said in workloads.items():
        place = directory / name.replace(" ", "-")
        plain = _plain(place / "plain", said)
        evaluated, log = _evaluated(place, said)
        followed = {batch: _followed(place, log, batch) for batch in BATCHES}
        found.append(Applying(workload=name, plain=plain, evaluated=evaluated, followed=followed))
    return found


def _plain(path: Path, said: Sequence[str]) -> float:
    path.mkdir(parents=True)
    store = Store(path)
    began = time.perf_counter()
    for text in said:
        store.update(text)
    return len(said) / (time.perf_counter() - began)


def _evaluated(place: Path, said: Sequence[str]) -> tuple[float, Log]:
    log = Log()
    worker = Worker(place, log, "evaluates")
    worker.take_over()
    for text in said:
        log.agree(text)
    began = time.perf_counter()
    while worker.store.applied.index < len(said):
        worker.hear(TOPICS.agreed, EVALUATED)
        worker.turn()
        worker.hear(TOPICS.effects)
        worker.turn()
    rate = len(said) / (time.perf_counter() - began)
    worker.close()
    return rate, log


def _followed(place: Path, log: Log, batch: int) -> float:
    """`batch` effects are there at once; a commit takes what it takes."""
    worker = Worker(place, log, f"follows-{batch}")
    count = len(log.records[TOPICS.agreed])
    began = time.perf_counter()
    while worker.store.applied.index < count:
        worker.hear(TOPICS.agreed, batch)
        worker.hear(TOPICS.effects, batch)
        worker.turn()
    rate = count / (time.perf_counter() - began)
    worker.close()
    return rate
