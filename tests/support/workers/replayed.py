"""Topics that are compacted in tests."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from quadlog import codec
from quadlog.broker import Admin
from quadlog.core.model import START, LogPosition, TransactionKind
from quadlog.ports import Record
from quadlog.replay.bundle import BundleManifest, LastWord, lines_of
from quadlog.replay.compact import source
from quadlog.replay.replay import Compaction
from quadlog.replay.survey import Surveyor
from tests.support.agreement.random_entries import ASK, entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from quadlog.core.records import Effect, LoggedEntry

_numbers = count()


def produced(kafka: str, records: Iterable[Record], name: str = "") -> str:
    """A topic with these records."""
    name = name or f"replayed-{next(_numbers)}"
    Admin(kafka).ensure([name], replication=1, config={})
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20})
    for record in records:
        producer.produce(name, key=record.key, value=record.value, headers=list(record.headers))
    producer.flush()
    return name


def log_of(effects: Mapping[int, Effect]) -> list[LoggedEntry]:
    """Entries that have these effects; some set a control."""
    log: list[LoggedEntry] = []
    last = START
    for index, effect in sorted(effects.items()):
        kind, name = (
            (TransactionKind.CONFIG, f"control{index % 3}") if index % 7 == 0 else (TransactionKind.TX, "")
        )
        body = ASK if name else b"-" * (2000 if index % 31 == 0 else 20)
        log.append(entry(last, 1, kind=kind, name=name, body=body, chain=effect.entry_chain))
        last = LogPosition(index, effect.entry_chain)
    return log


def agreed_for(kafka: str, effects: Mapping[int, Effect], name: str = "") -> str:
    """An agreed topic with the entries of these effects."""
    values = (codec.encode_entry(one) for one in log_of(effects))
    return produced(kafka, (Record("", 0, b"1", value, []) for some in values for value in some), name)


@contextmanager
def compaction(
    spark: SparkSession, kafka: str, name: str, agreed: str, archive: Path | None = None
) -> Iterator[Compaction]:
    """Of these two topics, as far as they go now."""
    surveyor = Surveyor(spark)
    with (
        source(surveyor, kafka, name, archive) as effects,
        source(surveyor, kafka, agreed, archive) as entries,
    ):
        yield Compaction(spark, effects, entries, lambda _: nullcontext())


def said(bundle: Path, manifest: BundleManifest) -> dict[LastWord, list[str]]:
    """The lines of a bundle."""
    lines: dict[LastWord, list[str]] = {word: [] for word in LastWord}
    for file in manifest.files:
        lines[file.word] += [line.decode() for some in lines_of(bundle / file.name) for line in some]
    return lines
