"""Consumer of the agreed, effects and status topics of all data centres, for an audit: what contradicts what.

Each record is compared with its own content, with what its topic contained before, and with what the other data centres
say of the same entry.  A record that is only late in one topic contradicts nothing: it is reported once `PATIENCE_MS`
have passed.

    agreed     an entry's digest and chain hash are those of its content; a view has one entry at an index; an entry
               follows the one before it
    effects    the signature after an effect is that before it and its lines; its chain hash continues; an attempt has
               one effect for an entry, and the entry was agreed; an effect follows the one before it
    status     a worker's signature is that after the effect that it applied last

Which records count is decided by the consumers that masters and workers use: what these pass over, as two masters may
write the same entry, is no violation.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from consumers.agreed import AgreedConsumer
from consumers.effects import EffectsConsumer, epoch_of
from quadlog import codec
from quadlog.core.approval import implied_by
from quadlog.core.effects.signature import after, as_bytes
from quadlog.core.model import (
    GENESIS,
    START,
    LogPosition,
    Transaction,
    TransactionKind,
    chain_hash,
    effects_chain,
    payload_digest,
)
from quadlog.core.records import (
    Cut,
    Effect,
    Heartbeat,
    LoggedEntry,
    Rewind,
    Seed,
    Violation,
    ViolationKind,
)
from quadlog.core.synchronous import marked
from quadlog.errors import ForeignRecord, StateError
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.ports import Record

K = TypeVar("K")
V = TypeVar("V")

PATIENCE_MS: Final = 4_000.0
"""How long one topic may lack what another one has, or what follows there."""
WINDOW: Final = 50_000
"""Number of entries, and of effects, that are remembered: what is said of older ones is not compared."""
ALL: Final = 1 << 62
"""An index behind all."""
EMPTY: Final = bytes(32)
"""Signature of the empty state."""


class _Waiting(NamedTuple):
    """A violation, unless a later record explains it."""

    violation: Violation
    since: float

    def is_overdue(self, now: float) -> bool:
        return now - self.since > PATIENCE_MS


class _Newest(OrderedDict[K, V]):
    """A mapping of the newest `WINDOW` keys."""

    @property
    def oldest(self) -> K | None:
        """The key that was remembered first."""
        return next(iter(self), None)

    def note(self, key: K, value: V) -> V:
        """Remember a value, if the key has none; return that of the key."""
        if (there := self.get(key)) is not None:
            return there
        self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember a value instead of the one that the key has."""
        self[key] = value
        if len(self) > WINDOW:
            self.popitem(last=False)


@dataclass(slots=True)
class _DataCentre:
    """What was read in the topics of one data centre."""

    name: str
    entries: AgreedConsumer | None = None
    """None: nothing was read, or what was read last does not say how it continues."""
    entry_chunks: codec.ChunkJoiner = field(default_factory=codec.ChunkJoiner)
    effects: EffectsConsumer | None = None
    """None: as above."""
    effect_chunks: codec.ChunkJoiner = field(default_factory=codec.ChunkJoiner)
    states: _Newest[int, tuple[bytes, int, bytes]] = field(
        default_factory=_Newest[int, tuple[bytes, int, bytes]]
    )
    """Effect chain, number of quads and signature after each index, as the newest effect there says."""
    gaps: dict[tuple[str, int], _Waiting] = field(default_factory=dict[tuple[str, int], _Waiting])
    """By kind of topic and the index that is expected."""

    def begin_effects(self) -> None:
        """Read the effects topic from the beginning of the log."""
        self.effects = EffectsConsumer(index=0, signature=EMPTY, term=GENESIS, attempt=0)
        self.states.put(0, (GENESIS, 0, EMPTY))

    def expect(self, what: str, index: int, violation: Violation, now: float) -> None:
        """Note that a topic lacks an index, which a later record may bring."""
        self.gaps.setdefault((what, index), _Waiting(violation, now))

    def begin_anew(self, what: str) -> None:
        """Continue a topic behind a gap, with the record that comes next."""
        if what == "agreed":
            self.entries = None
        else:
            self.effects = None
        self.close_gaps(what, ALL)

    def close_gaps(self, what: str, index: int) -> None:
        """Forget the gaps of a topic up to an index, which it has now."""
        if self.gaps:
            self.gaps = {gap: one for gap, one in self.gaps.items() if gap[0] != what or gap[1] > index}

    def on_effect(self, effect: Effect) -> list[str]:
        """Note an effect that counts; return what does not continue the effect before it."""
        wrong = list[str]()
        before = self.states.get(effect.index - 1)
        if before is not None:
            chain, quads, _ = before
            if (
                effects_chain(chain, effect.entry_chain, effect.outcome, effect.signature_after)
                != effect.chain
            ):
                wrong.append("its chain hash does not continue that of the effect before it")
            if quads + len(effect.inserted) - len(effect.deleted) != effect.quads:
                wrong.append(
                    f"it says that there are {effect.quads} quads after it, and there were {quads} before"
                )
        self.states.put(effect.index, (effect.chain, effect.quads, effect.signature_after))
        return wrong

    def go_back(self, index: int) -> None:
        """Continue after a rewind to this index."""
        assert self.effects is not None
        if not index:
            self.states.put(0, (GENESIS, 0, EMPTY))
        if (state := self.states.get(index)) is not None:
            self.effects.set_signature(state[2])
        self.close_gaps("effects", ALL)


class Auditor:
    """Compares the records of all data centres, which come in any order but that of each topic.

    It can be pickled between records: so a reader may continue where another one has stopped.
    """

    def __init__(self, repository: str, dcs: Iterable[str]) -> None:
        """Start before the first record of each topic, or before its oldest one that is left."""
        self._dcs: Final = [_DataCentre(name) for name in dcs]
        self._hears: Final[dict[str, tuple[_DataCentre, str]]] = {}
        for dc in self._dcs:
            topics = Topics(repository, dc.name)
            for what in ("agreed", "effects", "status"):
                self._hears[getattr(topics, what)] = dc, what
        self._entries: Final = _Newest[tuple[bytes, int], bytes]()
        """Chain hash of each entry, by view and index."""
        self._agreed: Final = _Newest[LogPosition, None]()
        self._effects: Final = _Newest[tuple[bytes, bytes, int], bytes]()
        """Digest of each effect, by the chain hash of its entry, term and attempt."""
        self._signatures: Final = _Newest[LogPosition, set[bytes]]()
        """Signatures after an entry: sides of a split may have evaluated it to different effects."""
        self._beginnings: Final = {EMPTY}
        """Signatures of the states with which the log may begin."""
        self._unknown_entries: Final = dict[tuple[str, int], tuple[LogPosition, _Waiting]]()
        """Effects of entries that were not read yet, by topic and offset."""
        self._unknown_states: Final = dict[tuple[str, LogPosition, bytes], _Waiting]()
        """Heartbeats whose effects were not read yet, by worker, point and signature."""
        self._wrong: Final = set[str]()
        """Workers whose wrong state was reported, and not right since."""

    def topics_of(self, dc: str) -> tuple[str, ...]:
        """Return the names of the topics of a data centre that it reads."""
        return tuple(topic for topic, (of, _) in self._hears.items() if of.name == dc)

    def on_record(self, record: Record, now: float) -> list[Violation]:
        """Return what a record contradicts.  `now`: steady milliseconds, at which it was read."""
        dc, what = self._hears[record.topic]
        try:
            if what == "agreed":
                return self._on_agreed(dc, record, now)
            if what == "effects":
                return self._on_effects(dc, record, now)
            self._on_status(dc, record, now)
        except ForeignRecord as error:
            return [_violation(ViolationKind.FOREIGN_RECORD, dc, record, 0, str(error))]
        return []

    def on_time(self, now: float) -> list[Violation]:
        """Return what is overdue.  `now`: steady milliseconds, up to which everything was read."""
        return [*self._gaps_until(now), *self._entries_until(now), *self._states_until(now)]

    def _gaps_until(self, now: float) -> Iterator[Violation]:
        """Report each gap once: the next record is a new beginning."""
        for dc in self._dcs:
            for (what, _), waiting in [*dc.gaps.items()]:
                if waiting.is_overdue(now):
                    yield waiting.violation
                    dc.begin_anew(what)

    def _entries_until(self, now: float) -> Iterator[Violation]:
        for place, (point, waiting) in [*self._unknown_entries.items()]:
            if point in self._agreed:
                del self._unknown_entries[place]
            elif waiting.is_overdue(now):
                del self._unknown_entries[place]
                yield waiting.violation

    def _states_until(self, now: float) -> Iterator[Violation]:
        for (worker, point, signature), waiting in [*self._unknown_states.items()]:
            is_known = self._is_known(point, signature)
            if not is_known and not waiting.is_overdue(now):
                continue
            del self._unknown_states[worker, point, signature]
            if not is_known and worker not in self._wrong:
                self._wrong.add(worker)
                yield waiting.violation

    def resume(self, now: float) -> None:
        """Continue in another process: what waits began to wait now, by its clock."""
        for dc in self._dcs:
            dc.gaps = {gap: one._replace(since=now) for gap, one in dc.gaps.items()}
        for place, (point, waiting) in self._unknown_entries.items():
            self._unknown_entries[place] = point, waiting._replace(since=now)
        for beat, waiting in self._unknown_states.items():
            self._unknown_states[beat] = waiting._replace(since=now)

    # --- agreed -----------------------------------------------------------------------------------

    def _on_agreed(self, dc: _DataCentre, record: Record, now: float) -> list[Violation]:
        match dc.entry_chunks.join(record.value):
            case Cut() as cut:
                if dc.entries is None:
                    dc.entries = AgreedConsumer(LogPosition(cut.index, cut.chain), cut=cut.epoch)
                else:
                    dc.entries.on_record(record, (cut, 0, 1))
                dc.close_gaps("agreed", ALL)
                return []
            case LoggedEntry() as entry:
                return self._on_entry(dc, entry, record, now)
            case None:
                return []
            case _:
                raise record.foreign("it is neither an entry nor a cut")

    def _on_entry(self, dc: _DataCentre, entry: LoggedEntry, record: Record, now: float) -> list[Violation]:
        point = LogPosition(entry.index, entry.chain)
        if dc.entries is None and entry.index == 1:
            dc.entries = AgreedConsumer(START)
        if dc.entries is None:  # the topic was shortened, or continues behind a gap
            dc.entries = AgreedConsumer(point, cut=entry.epoch)
        elif dc.entries.on_record(record, (entry, 0, 1)) is None and entry.epoch >= dc.entries.epoch:
            last = dc.entries.last.index
            if entry.index > last:
                why = f"after {last} comes {entry.index}, which does not follow it"
                violation = _violation(ViolationKind.MISSING_ENTRY, dc, record, last + 1, why)
                dc.expect("agreed", last + 1, violation, now)
        dc.close_gaps("agreed", dc.entries.last.index)
        found = [
            _violation(ViolationKind.FORGED_ENTRY, dc, record, entry.index, why) for why in _forged(entry)
        ]
        known = self._entries.note((entry.lineage, entry.index), entry.chain)
        if known != entry.chain:
            why = (
                f"the view {entry.lineage.hex()[:16]} has the entry {known.hex()[:16]} at this index,"
                f" and this is {entry.chain.hex()[:16]}"
            )
            found.append(_violation(ViolationKind.TWO_ENTRIES, dc, record, entry.index, why))
        if not found:
            self._agreed.note(point, None)
        return found

    # --- effects ----------------------------------------------------------------------------------

    def _on_effects(self, dc: _DataCentre, record: Record, now: float) -> list[Violation]:
        epoch = epoch_of(record)
        said = dc.effect_chunks.join(record.value)
        if said is None:
            return []
        if isinstance(said, Effect):
            return self._on_effect(dc, said, record, epoch, now)
        if dc.effects is None and record.offset:
            return []  # the next effect says what it continues
        if dc.effects is None:
            dc.begin_effects()
        assert dc.effects is not None
        try:
            counts = dc.effects.on_record(record, (said, 0, 1))
        except StateError:
            assert isinstance(said, Rewind)
            why = f"it goes back to effect {said.index}, and {dc.effects.index} is the newest one there"
            dc.effects = None
            return [_violation(ViolationKind.MISSING_EFFECT, dc, record, said.index, why)]
        match counts:
            case Seed() as seed:
                self._beginnings.add(seed.signature)
                dc.states.put(0, (GENESIS, seed.quads, seed.signature))
            case Rewind() as rewind:
                dc.go_back(rewind.index)
            case _:
                pass
        return []

    def _on_effect(
        self, dc: _DataCentre, effect: Effect, record: Record, epoch: int, now: float
    ) -> list[Violation]:
        """Check an effect, whether it counts or not, and what it continues if it does."""
        point = LogPosition(effect.index, effect.entry_chain)
        if dc.effects is None and not record.offset:
            dc.begin_effects()
        if dc.effects is None:
            dc.states = _Newest()
            dc.effects = EffectsConsumer(
                index=effect.index - 1,
                signature=effect.signature_before,
                term=effect.term,
                attempt=effect.attempt,
                rewound=epoch,
            )
        elif dc.effects.signature is None:  # it went back to an effect that is not remembered
            dc.effects.set_signature(effect.signature_before)
        why = _forged_effect(effect)
        expected, newest = dc.effects.index + 1, (dc.effects.term, dc.effects.attempt)
        if dc.effects.on_record(record, (effect, 0, 1)) is not None:
            why += dc.on_effect(effect)
            self._note_state(point, effect.signature_after)
            dc.close_gaps("effects", effect.index)
        elif (
            (effect.term, effect.attempt) == newest
            and epoch >= dc.effects.rewound
            and effect.index >= expected
        ):
            text = f"after {expected - 1} comes {effect.index}, which does not follow it"
            violation = _violation(ViolationKind.MISSING_EFFECT, dc, record, expected, text)
            dc.expect("effects", expected, violation, now)
        found = [_violation(ViolationKind.FORGED_EFFECT, dc, record, effect.index, one) for one in why]
        digest = _digest(effect)
        if self._effects.note((effect.entry_chain, effect.term, effect.attempt), digest) != digest:
            text = f"the attempt {effect.attempt} of the term {effect.term.hex()[:16]} has another effect there, too"
            found.append(_violation(ViolationKind.TWO_EFFECTS, dc, record, effect.index, text))
        agreed = self._agreed.oldest
        if point not in self._agreed and not (agreed and effect.index < agreed.index):
            text = f"no data centre has an entry {effect.index} with the chain hash {point.chain.hex()[:16]}"
            waiting = _Waiting(_violation(ViolationKind.WITHOUT_ENTRY, dc, record, effect.index, text), now)
            self._unknown_entries[record.topic, record.offset] = point, waiting
        return found

    def _note_state(self, point: LogPosition, signature: bytes) -> None:
        self._signatures.note(point, set()).add(signature)

    # --- status -----------------------------------------------------------------------------------

    def _on_status(self, dc: _DataCentre, record: Record, now: float) -> None:
        said = codec.decode(record.value)
        if not isinstance(said, Heartbeat):
            return
        point = said.applied
        if self._is_known(point, said.signature):
            self._wrong.discard(said.worker)
            return
        if said.worker in self._wrong:
            return
        oldest = self._signatures.oldest
        if oldest is not None and point.index < oldest.index:
            return  # a store of before the oldest effect that is known
        why = f"{said.worker} says that the signature is {said.signature.hex()[:16]} there"
        violation = _violation(ViolationKind.WRONG_STATE, dc, record, point.index, why)
        self._unknown_states.setdefault((said.worker, point, said.signature), _Waiting(violation, now))

    def _is_known(self, point: LogPosition, signature: bytes) -> bool:
        known = self._beginnings if point == START else self._signatures.get(point)
        return known is not None and signature in known


def _violation(
    kind: ViolationKind, dc: _DataCentre, record: Record, index: int, explanation: str
) -> Violation:
    return Violation(
        kind=kind, dc=dc.name, topic=record.topic, offset=record.offset, index=index, explanation=explanation
    )


def _forged(entry: LoggedEntry) -> list[str]:
    """Return what of an entry is not that of its content."""
    transaction = Transaction(id=entry.id, digest=entry.digest, kind=entry.kind, options=entry.options)
    wrong = list[str]()
    if chain_hash(entry.previous, transaction, entry.timestamp) != entry.chain:
        wrong.append("its chain hash is not that of its content")
    if (implied := implied_by(transaction.key)) is not None:
        if implied != transaction:
            wrong.append("it is not the transaction that its digest states")
        return wrong
    digest = payload_digest(
        origin=entry.origin,
        created=entry.created,
        media_type=entry.media_type,
        traceparent=entry.traceparent,
        body=entry.body,
        # The options of a move of the duty are in its body, too.
        options={} if entry.kind is TransactionKind.EVALUATOR else entry.options,
    )
    if marked(digest, entry.options) != entry.digest:
        wrong.append("its digest is not that of its payload")
    return wrong


def _forged_effect(effect: Effect) -> list[str]:
    before = int.from_bytes(effect.signature_before, "big")
    if as_bytes(after(before, effect)) == effect.signature_after:
        return []
    return ["its signature is not that before it with its lines"]


def _digest(effect: Effect) -> bytes:
    """Return a digest of what an effect says."""
    found = blake2b(effect.signature_before + effect.signature_after + effect.chain, digest_size=16)
    for lines in (effect.deleted, effect.inserted, effect.emptied, effect.filled, effect.dropped):
        found.update(f"{len(lines)}".encode())
        for line in lines:
            found.update(b"\n" + line.encode())
    found.update(f"{effect.index} {effect.outcome} {effect.reason} {effect.quads}".encode())
    return found.digest()
