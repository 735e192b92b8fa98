"""A small compaction, from which Java writes an archive of Spark's classes.

python -m quadlog.replay.rehearsal BROKER DIRECTORY ARCHIVE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.broker import Admin, KafkaOutlet
from quadlog.core.effects import signature
from quadlog.core.model import GENESIS, START, LogPosition, TransactionKind, effects_chain, hash_of
from quadlog.core.records import Effect, Fence, LoggedEntry, Outcome
from quadlog.replay.compact import CompactOptions, run_compact
from quadlog.replay.replay import CompactedRange
from quadlog.replay.spark import SparkSettings
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

EFFECTS: Final = 5_000
"""Enough for runs of 1,024 records and for records outside of runs."""
SUBJECTS: Final = 100
TERM: Final = hash_of(b"rehearsal")
PRODUCE_TIMEOUT: Final = 30.0


def rehearse(kafka: str, directory: Path, archive: Path) -> None:
    """Compact artificial effects; Java writes the archive when it ends."""
    topics = Topics("rehearsal", "dc1")
    Admin(kafka).ensure([topics.agreed, topics.effects], replication=1, config={})
    outlet = KafkaOutlet(kafka, client="rehearsal", failed=sys.exit)
    with outlet.together():
        begun = codec.encode(Fence(term=TERM, attempt=1, worker="rehearsal"))
        outlet.produce(topics.effects, key=b"", values=[begun], headers=[])
        for entry, effect in _log():
            outlet.produce(topics.agreed, key=b"", values=codec.encode_entry(entry), headers=[])
            outlet.produce(topics.effects, key=b"", values=codec.encode_effect(effect), headers=[])
    outlet.close(PRODUCE_TIMEOUT)
    spark = SparkSettings(archive=archive)
    wanted = CompactOptions(
        kafka=kafka, topics=topics, target=directory / "bundle", range=CompactedRange(), spark=spark
    )
    run_compact(wanted, print)


def _log() -> Iterator[tuple[LoggedEntry, Effect]]:
    """Yield entries with their effects; each gives one of the subjects another value."""
    held: dict[int, str] = {}
    total, chain, last = 0, GENESIS, START
    for index in range(1, EFFECTS + 1):
        subject, before = index % SUBJECTS, total
        old, line = held.get(subject), f'<urn:s{subject}> <urn:p> "{index}" .'
        held[subject] = line
        deleted = () if old is None else (old,)
        total = signature.add(signature.remove(before, deleted), [line])
        identity = index.to_bytes(16, "big")
        last_chain, last = last.chain, LogPosition(index, hash_of(last.chain, identity))
        chain = effects_chain(chain, last.chain, Outcome.APPLIED, signature.as_bytes(total))
        entry = LoggedEntry(
            index=index,
            kind=TransactionKind.TX,
            id=identity,
            timestamp=index,
            digest=bytes(32),
            options={},
            previous=last_chain,
            chain=last.chain,
            epoch=1,
            lineage=bytes(32),
            origin="dc1-m1",
            created=0,
            media_type="application/sparql-update",
            body=b"",
        )
        effect = Effect(
            index=index,
            id=identity,
            entry_chain=last.chain,
            term=TERM,
            attempt=1,
            outcome=Outcome.APPLIED,
            deleted=deleted,
            inserted=(line,),
            quads=len(held),
            signature_before=signature.as_bytes(before),
            signature_after=signature.as_bytes(total),
            chain=chain,
        )
        yield entry, effect


if __name__ == "__main__":
    rehearse(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
