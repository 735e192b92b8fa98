"""Topics of three data centres in a split: dc1 and dc2 on one side, dc3 on the other; and of the time after it."""

from __future__ import annotations

import uuid
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror, EffectsProducer
from producers.rounds import RoundsProducer
from producers.status import StatusProducer
from quadlog import codec
from quadlog.broker import Admin, KafkaOutlet
from quadlog.core.effects.lines import ChangeLines
from quadlog.core.model import (
    GENESIS,
    LogPosition,
    Post,
    Rank,
    Transaction,
    TransactionKind,
    View,
    chain_hash,
    hash_of,
    payload_digest,
)
from quadlog.core.records import Cut, Effect, LoggedEntry, Outcome, Rewind
from quadlog.ports import Record
from quadlog.topics import Topics
from tests.support.brokers import never
from tests.support.plain_updates import is_quad
from tests.support.whole_log import FENCE, TERM, beat, change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.support.plain_updates import Updates

DCS = ("dc1", "dc2", "dc3")
FIRST = View(epoch=1, members=("dc1-m1", "dc2-m1", "dc3-m1"))
MAJORITY = View(epoch=2, members=("dc1-m1", "dc2-m1"), parent=FIRST.id)
MINORITY = View(epoch=2, members=("dc3-m1",), parent=FIRST.id)
SECOND = View(epoch=2, members=("dc2-m1",), parent=FIRST.id)
"""Of a third side."""
AGAIN = View(epoch=3, members=FIRST.members, parent=MAJORITY.id)


def quad(subject: str, value: object = 1, predicate: str = "urn:p") -> str:
    """A line of an effect."""
    return f'<{subject}> <{predicate}> "{value}" .'


@dataclass
class SideLog:
    """Entries and effects of one side."""

    view: View = FIRST
    entries: list[LoggedEntry] = field(default_factory=list[LoggedEntry])
    effects: list[Effect] = field(default_factory=list[Effect])

    def fork(self, view: View) -> SideLog:
        """Another side with the same beginning."""
        return SideLog(view, copy(self.entries), copy(self.effects))

    @property
    def last(self) -> LogPosition:
        return LogPosition(self.entries[-1].index, self.entries[-1].chain)

    def agree(
        self,
        text: str,
        deleted: Sequence[str] = (),
        inserted: Sequence[str] = (),
        *,
        reason: str | None = None,
        kind: TransactionKind = TransactionKind.TX,
        options: Mapping[str, str] | None = None,
        created: int = 1,
    ) -> LoggedEntry:
        """An update with this effect; the id is that of its text."""
        entry = self._entry(text, kind=kind, options=options, created=created)
        self._evaluated(entry, ChangeLines(tuple(deleted), tuple(inserted)), reason)
        return entry

    def _entry(
        self,
        text: str,
        *,
        kind: TransactionKind = TransactionKind.TX,
        options: Mapping[str, str] | None = None,
        created: int = 1,
    ) -> LoggedEntry:
        index = len(self.entries) + 1
        previous = self.entries[-1].chain if self.entries else GENESIS
        body, options = text.encode(), options or {}
        digest = payload_digest(
            origin="dc1-m1",
            created=created,
            media_type="application/sparql-update",
            traceparent="",
            body=body,
            options=options,
        )
        transaction = Transaction(id=hash_of(body)[:16], digest=digest, kind=kind, options=options)
        entry = LoggedEntry(
            index=index,
            kind=kind,
            id=transaction.id,
            timestamp=index,
            digest=digest,
            options=options,
            previous=previous,
            chain=chain_hash(previous, transaction, index),
            epoch=self.view.epoch,
            lineage=self.view.id,
            origin="dc1-m1",
            created=created,
            media_type="application/sparql-update",
            body=body,
        )
        self.entries.append(entry)
        return entry

    def agree_again(
        self, entry: LoggedEntry, deleted: Sequence[str] = (), inserted: Sequence[str] = ()
    ) -> None:
        """An update of the other side, behind this log."""
        self.agree(entry.body.decode(), deleted, inserted, options=entry.options, created=entry.created)

    def _evaluated(self, entry: LoggedEntry, lines: ChangeLines, reason: str | None) -> None:
        outcome = Outcome.APPLIED if reason is None else Outcome.REJECTED
        before = self.effects[-1] if self.effects else None
        self.effects.append(change(entry, before, lines, outcome=outcome, reason=reason))

    def evaluate(self, text: str, updates: Updates) -> LoggedEntry:
        """An update with the effect that it has on this store, which is that of this side."""
        entry = self._entry(text)
        graphs = updates.graphs()
        found = updates.evaluate(entry)
        assert found is not None, "it needs no other server"
        there = found.changes.items()
        empties = {
            line.removeprefix("# empty graph "): is_there for line, is_there in there if not is_quad(line)
        }
        left = {*updates.graphs(), *(graph for graph, is_empty in empties.items() if is_empty)}
        lines = ChangeLines(
            deleted=tuple(sorted(line for line, is_there in there if is_quad(line) and not is_there)),
            inserted=tuple(sorted(line for line, is_there in there if is_quad(line) and is_there)),
            emptied=tuple(sorted(graph for graph, is_empty in empties.items() if is_empty)),
            filled=tuple(sorted(graph for graph, is_empty in empties.items() if not is_empty)),
            dropped=tuple(sorted(graphs - left)),
        )
        reason = None if found.outcome is Outcome.APPLIED else "refused"
        self._evaluated(entry, lines, reason)
        return entry


class SplitTopics:
    """The topics of three data centres, in one Kafka, or of others."""

    def __init__(self, kafka: str, dcs: Sequence[str] = DCS) -> None:
        """Empty."""
        self._dcs = dcs
        self.kafka, self.repository = kafka, f"r{uuid.uuid4().hex[:8]}"
        self._outlet = KafkaOutlet(kafka, client="writer", failed=never)
        for dc in dcs:
            topics = Topics(self.repository, dc)
            names = [topics.agreed, topics.effects, topics.rounds, topics.status]
            Admin(kafka).ensure(names, replication=1, config={})
            self._effects(dc).publish_fence(FENCE, at=0)

    def close(self) -> None:
        self._outlet.close()

    @property
    def kafkas(self) -> dict[str, str]:
        return dict.fromkeys(self._dcs, self.kafka)

    def _effects(self, dc: str) -> EffectsProducer:
        return EffectsProducer(self._outlet, Topics(self.repository, dc).effects, f"{dc}-w1", dc)

    def _agreed(self, dc: str) -> AgreedProducer:
        return AgreedProducer(self._outlet, Topics(self.repository, dc).agreed, f"{dc}-m1")

    def write(
        self, dc: str, entries: Iterable[LoggedEntry], effects: Iterable[Effect] = (), *, epoch: int = 1
    ) -> None:
        agreed, evaluated = self._agreed(dc), self._effects(dc)
        for entry in entries:
            agreed.publish(entry, lambda _: None)
        for effect in effects:
            evaluated.publish(effect, at=0, epoch=epoch)
        self._outlet.flush()

    def post(self, dc: str, view: View, base: LogPosition, *, epoch: int, sequence: int = 1) -> None:
        """The newest post of a data centre's master; `epoch`: that of its rank."""
        rounds = RoundsProducer(self._outlet, Topics(self.repository, dc).rounds)
        rounds.publish(self._post(dc, view, base, epoch=epoch, sequence=sequence), at=0)
        self._outlet.flush()

    def pass_on(self, dc: str, to: str, view: View, base: LogPosition, *, epoch: int) -> None:
        """A post of a data centre's master, which a master of another one passes on to those that do not hear it."""
        value = codec.encode(self._post(dc, view, base, epoch=epoch, sequence=9))
        record = Record("", 0, f"{dc}-m1".encode(), value, [])
        RoundsProducer(self._outlet, Topics(self.repository, to).rounds).pass_on(record, dc)
        self._outlet.flush()

    def _post(self, dc: str, view: View, base: LogPosition, *, epoch: int, sequence: int) -> Post:
        return Post(
            node=f"{dc}-m1",
            incarnation=bytes(16),
            sequence=sequence,
            view=view,
            base=base,
            counter=0,
            queue=(),
            rank=Rank(epoch, decided=True, members=len(view.members), ids=view.members),
        )

    def beat(self, dc: str, effect: Effect) -> None:
        StatusProducer(self._outlet, Topics(self.repository, dc).status).publish(
            beat(effect, worker=f"{dc}-w1")
        )
        self._outlet.flush()

    def apart(self, ours: SideLog, theirs: SideLog) -> None:
        """Write the two sides, as they are while the split lasts."""
        for dc in ("dc1", "dc2"):
            self.write(dc, ours.entries, ours.effects)
            self.post(dc, ours.view, ours.last, epoch=2)
            self.beat(dc, ours.effects[-1])
        self.write("dc3", theirs.entries, theirs.effects)
        self.post("dc3", theirs.view, theirs.last, epoch=1)
        self.beat("dc3", theirs.effects[-1])

    def together(self, fork: int, ours: SideLog, then: SideLog) -> None:
        """Have dc3 give way: `then` is the winner's log with what followed in the common view."""
        behind = len(ours.entries)
        for dc in ("dc1", "dc2"):
            self.write(dc, then.entries[behind:], then.effects[behind:])
        kept = then.entries[fork - 1]
        cut = Cut(epoch=AGAIN.epoch, lineage=AGAIN.id, index=fork, chain=kept.chain)
        self._agreed("dc3").publish_cut(cut, lambda _: None, at=0)
        rewind = Rewind(epoch=AGAIN.epoch, index=fork, term=TERM, attempt=1, cut=AGAIN.epoch)
        EffectsMirror(self._outlet, Topics(self.repository, "dc3").effects, "dc3-m1").publish_rewind(
            rewind, at=0
        )
        again = [replace(entry, epoch=AGAIN.epoch, lineage=AGAIN.id) for entry in then.entries[fork:]]
        self.write("dc3", again, then.effects[fork:], epoch=AGAIN.epoch)
        for dc in DCS:
            self.post(dc, AGAIN, then.last, epoch=3, sequence=2)
