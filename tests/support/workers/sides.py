"""Two sides of a split, as logs in memory: what a master says of the other side's when its own gives way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.agreed import AgreedConsumer
from consumers.effects import EffectsConsumer
from producers.agreed import AgreedProducer
from quadlog import codec
from quadlog.codec.envelope import EPOCH
from quadlog.core.model import GENESIS, START
from quadlog.core.records import Cut, Handover, LoggedEntry, Rewind
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.updates import Update, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EPOCH_2 = 2
"""Of the view in which our side gives way."""

COMMON = [
    "INSERT DATA { <urn:s> <urn:n> 1 GRAPH <urn:g> { <urn:a> a 1, 2 } GRAPH <urn:f> { <urn:a> a 3 } }",
    "CREATE GRAPH <urn:empty> ; INSERT DATA { GRAPH <urn:g> { _:x <urn:p> _:y } }",
]
"""What both sides have."""
OURS = [
    "INSERT DATA { GRAPH <urn:new> { _:a a _:b } GRAPH <urn:empty> { <urn:a> a 1 } GRAPH <urn:g> { <urn:a> a 9 } }",
    "DELETE WHERE { GRAPH <urn:f> { ?s ?p ?o } } ; CREATE GRAPH <urn:made> ; DROP GRAPH <urn:g>",
    "INSERT DATA { GRAPH <urn:f> { <urn:a> a 4 } GRAPH <urn:made> { <urn:a> a 4 } GRAPH <urn:g> { <urn:b> a 1 } }",
    "DROP GRAPH <urn:new> ; DROP GRAPH <urn:f> ; DELETE WHERE { GRAPH <urn:empty> { ?s ?p ?o } }",
    "DROP GRAPH <urn:empty>",
]
THEIRS = [
    "INSERT DATA { <urn:s> <urn:n> 2 GRAPH <urn:new> { <urn:t> a 1 } }",
    "DROP GRAPH <urn:f>",
    "CLEAR GRAPH <urn:g>",
]


def copy_of(log: Log) -> Log:
    """What a data centre has that heard all of another one's so far."""
    other = Log()
    other.records = {topic: list(records) for topic, records in log.records.items()}
    other._last, other._index = log._last, log._index
    return other


def agreed(log: Log) -> list[LoggedEntry]:
    """The log that a topic ends with."""
    consumer, entries = AgreedConsumer(START), list[LoggedEntry]()
    for record in log.records[TOPICS.agreed]:
        match consumer.on_record(record):
            case LoggedEntry() as entry:
                entries.append(entry)
            case Cut() as cut:
                del entries[cut.index :]
            case None:
                pass
    return entries


def fork_of(ours: Log, theirs: Log) -> LoggedEntry:
    """The last entry that both have."""
    pairs = zip(agreed(ours), agreed(theirs), strict=False)
    return [entry for entry, other in pairs if entry.chain == other.chain][-1]


def write_cut(ours: Log, theirs: Log, *, epoch: int = EPOCH_2) -> None:
    """What the master that leads says of entries when its side gives way."""
    fork = fork_of(ours, theirs)
    cut = Cut(epoch=epoch, lineage=GENESIS, index=fork.index, chain=fork.chain)
    ours.produce(TOPICS.agreed, key=b"cut", values=[codec.encode(cut)], headers=[])
    for entry in agreed(theirs)[fork.index :]:
        AgreedProducer(ours, TOPICS.agreed, "m1").publish(replace(entry, epoch=epoch), lambda _: None)
    ours._last, ours._index, ours.epoch = theirs._last, theirs._index, epoch


def write_handover(log: Log, epoch: int = EPOCH_2) -> EvaluateRequest:
    """A view gives the duty to this data centre; what a worker is asked then."""
    home = Handover(index=0, term=b"%032d" % epoch, dc="dc1", epoch=epoch)
    headers = [(EPOCH, b"%d" % epoch)]
    log.produce(TOPICS.effects, key=b"handover", values=[codec.encode(home)], headers=headers)
    return EvaluateRequest(home.term, epoch=epoch)


def write_rewind(
    ours: Log,
    theirs: Log,
    index: int,
    *,
    epoch: int = EPOCH_2,
    cut: int | None = None,
    kept_at: int | None = None,
) -> None:
    """And of effects: copies of the other side's behind the one that stays."""
    records = theirs.records[TOPICS.effects]
    consumer, at = EffectsConsumer(index=0, signature=bytes(32), term=GENESIS, attempt=0), 0
    while consumer.index < index:
        consumer.on_record(records[at])
        at += 1
    cut = epoch if cut is None else cut
    rewind = Rewind(
        epoch=epoch, index=index, term=consumer.term, attempt=consumer.attempt, cut=cut, kept_at=kept_at
    )
    headers = [(EPOCH, b"%d" % epoch)]
    ours.produce(TOPICS.effects, key=b"rewind", values=[codec.encode(rewind)], headers=headers)
    for record in records[at:]:
        ours.produce(
            TOPICS.effects, key=record.key, values=[record.value], headers=[*record.headers, *headers]
        )


def say(log: Log, worker: Worker, updates: Sequence[Update | str]) -> None:
    """Agree them, and have them evaluated."""
    for update in updates:
        if isinstance(update, Update):
            log.agree(update.text, options=update.options)
        elif update.startswith("control "):
            log.control("c", update.removeprefix("control ").removesuffix("-") or None)
        else:
            log.agree(update)
        worker.catch_up()


class Split:
    """Two data centres' topics, in common up to a point; each side has a worker that evaluated."""

    def __init__(
        self,
        path: Path,
        common: Sequence[Update | str],
        ours: Sequence[Update | str],
        theirs: Sequence[Update | str],
    ) -> None:
        self.path, self.ours = path, Log()
        self.a = Worker(path, self.ours, "a")
        self.a.take_over()
        say(self.ours, self.a, common)
        self.fork = len(common)
        self.theirs = copy_of(self.ours)
        self.b = Worker(path, self.theirs, "b")
        self.b.catch_up()
        self.b.replica.evaluator_term.take_over(EvaluateRequest(TERM))
        self.b.catch_up()
        say(self.ours, self.a, ours)
        say(self.theirs, self.b, theirs)

    def give_way(self, index: int | None = None, *, kept_at: int | None = None) -> None:
        """Our side does."""
        write_cut(self.ours, self.theirs)
        write_rewind(self.ours, self.theirs, self.fork if index is None else index, kept_at=kept_at)

    def close(self) -> None:
        self.a.close()
        self.b.close()


def whole_of(worker: Worker) -> dict[str, object]:
    """All that workers of one history have in common; what is stored is counted anew."""
    applied = worker.store.applied
    return {
        "state": state_of(worker),
        "controls": worker.store.controls,
        "entry": applied.point,
        "effects": (applied.effects_chain, applied.attempt),
        "said": (applied.signature, applied.quads),
        "counted": worker.store.recount(),
        "ahead": worker.store.is_ahead,
        "read": worker.store.gate.is_open,
    }
