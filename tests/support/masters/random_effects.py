"""Random effects topics: exact effects of random changes, and all that may stand between them and does not count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from consumers.effects import EffectsConsumer
from quadlog import codec
from quadlog.codec import effects as codec_effects
from quadlog.codec.envelope import EPOCH
from quadlog.core.effects import signature
from quadlog.core.model import GENESIS, effects_chain, hash_of
from quadlog.core.records import Effect, Fence, Handover, Outcome, Rewind, Seed
from quadlog.errors import ForeignRecord
from quadlog.ports import Record

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    import pytest

    from quadlog.quadstore.applied import Applied

GRAPHS = ("", "<urn:g:1>", "<urn:g:2>", "<urn:g:3>", "_:b1")
CHUNK = 600
"""Characters: some effects stand in several records, and some lines are cut."""


def with_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is encoded from here on stands in small records."""
    monkeypatch.setattr(codec_effects, "CHUNK", CHUNK)
    monkeypatch.setattr(codec_effects, "_PIECE", CHUNK // 4)


class World(NamedTuple):
    """All quads, and the named graphs that there are."""

    quads: frozenset[str] = frozenset()
    graphs: frozenset[str] = frozenset()

    def full(self) -> set[str]:
        """Graphs with quads."""
        return {graph for line in self.quads if (graph := graph_of(line))}

    def empty(self) -> set[str]:
        """Graphs without."""
        return set(self.graphs) - self.full()

    def signature(self) -> int:
        """As anybody counts it."""
        lines = [*self.quads, *map(signature.empty_graph_line, self.empty())]
        return signature.add(signature.EMPTY, lines)


def graph_of(line: str) -> str:
    """The graph of a line of ours; empty: the default graph."""
    return next((graph for graph in GRAPHS[1:] if line.endswith(f'" {graph} .')), "")


def quad(subject: int, value: str, graph: str) -> str:
    return f'<urn:s:{subject}> <urn:p> "{value}" {graph} .'.replace("  ", " ")


def changed(rng: random.Random, world: World) -> World:
    """Another one: quads come and go, graphs are made, emptied, dropped."""
    quads, graphs = set(world.quads), set(world.graphs)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        graph = rng.choice(GRAPHS)
        of_graph = sorted(line for line in quads if graph_of(line) == graph)
        match rng.randrange(10):
            case 0 if graph:
                graphs.add(graph)
            case 1 if graph:  # CLEAR
                quads.difference_update(of_graph)
            case 2 if graph:  # DROP
                quads.difference_update(of_graph)
                graphs.discard(graph)
            case 3 | 4 | 5:
                quads.difference_update(rng.sample(of_graph, min(len(of_graph), rng.randrange(1, 3))))
            case _:
                size = rng.choice((1, 1, 1, 1, 1, 1, 1, 200, 400, 2000))
                quads.add(quad(rng.randrange(6), rng.choice("ab\u00e4") * size, graph))
                graphs.update({graph} - {""})
    return World(frozenset(quads), frozenset(graphs))


def difference(before: World, after: World) -> dict[str, Any]:
    """The lists of the exact effect."""
    return {
        "deleted": tuple(sorted(before.quads - after.quads)),
        "inserted": tuple(sorted(after.quads - before.quads)),
        "emptied": tuple(sorted(after.empty() - before.empty())),
        "filled": tuple(sorted(before.empty() - after.empty())),
        "dropped": tuple(sorted(before.full() - after.graphs)),
    }


def heard(consumer: EffectsConsumer, record: Record) -> Effect | Fence | Handover | Rewind | Seed | None:
    try:
        return consumer.on_record(record)
    except ForeignRecord:
        return None


def counting_effects(
    records: Iterable[Record], applied: Applied
) -> tuple[EffectsConsumer, dict[int, Effect]]:
    """What the workers' consumer makes of a topic: the effects that count in the end, by index."""
    base = signature.as_bytes(applied.signature)
    consumer = EffectsConsumer(
        index=applied.index,
        signature=base,
        term=applied.term,
        attempt=applied.attempt,
        order=applied.in_effects.order,
        rewound=applied.rewound,
        cut=applied.cut,
    )
    found: dict[int, Effect] = {}
    for record in records:
        match heard(consumer, record):
            case Effect() as effect:
                found[effect.index] = effect
            case Seed() as seed:
                base = seed.signature
            case Rewind(index=index):
                found = {i: effect for i, effect in found.items() if i <= index}
                base = base if index else bytes(32)
                consumer.set_signature(found[index].signature_after if index in found else base)
            case _:
                pass
    return consumer, found


@dataclass
class _Stale:
    """A writer that goes on though nobody listens any more."""

    world: World
    newest: Effect
    epoch: int


class RandomTopic:
    """Writes a topic, and knows what became of it as a worker that hears it does."""

    def __init__(self, rng: random.Random, *, seeded: bool = False) -> None:
        self.rng, self.records = rng, list[Record]()
        self.consumer = EffectsConsumer(index=0, signature=bytes(32), term=GENESIS, attempt=0)
        self.worlds: dict[int, World] = {0: World()}
        self.effects: dict[int, Effect] = {}
        self.epoch, self.attempts, self.moves = 1, 0, 0
        self.stale: list[_Stale] = []
        self._made: dict[bytes, World] = {}
        if seeded:
            self.worlds[0] = changed(
                rng, changed(rng, World(frozenset({quad(1, "seed", "<urn:g:1>")}), frozenset({"<urn:g:1>"})))
            )
            self.append(self._seed())
        self.fence()

    def _seed(self) -> Seed:
        world = self.worlds[0]
        total = signature.as_bytes(world.signature())
        return Seed(signature=total, quads=len(world.quads), digest=bytes(32), at=0, by="m1", sources=())

    @property
    def index(self) -> int:
        return self.consumer.index

    def append(
        self, said: Effect | Fence | Handover | Rewind | Seed, *, epoch: int = 0, parts: int = 0
    ) -> None:
        """`parts`: only so many records of it."""
        match said:
            case Effect():
                values = codec.encode_effect(said)
            case _:
                values = [codec.encode(said)]
        for value in values[: parts or None]:
            self.put(value, [(EPOCH, b"%d" % (epoch or self.epoch))])

    def put(self, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        record = Record("effects", len(self.records), b"k", value, headers)
        self.records.append(record)
        match heard(self.consumer, record):
            case Effect() as effect:
                self.effects[effect.index] = effect
                self.worlds[effect.index] = self._made[effect.signature_after]
            case Rewind(index=index):
                self.worlds = {i: world for i, world in self.worlds.items() if i <= index}
                self.effects = {i: effect for i, effect in self.effects.items() if i <= index}
                if not index:
                    self.worlds[0] = World()
                self.consumer.set_signature(signature.as_bytes(self.worlds[index].signature()))
            case _:
                pass

    def next_effect(self, before: World, newest: Effect | None, index: int) -> Effect:
        """What the one whose turn it is says of a world."""
        rng = self.rng
        outcome = Outcome.REJECTED if rng.random() < 0.05 else Outcome.APPLIED
        after = before if outcome is Outcome.REJECTED else changed(rng, before)
        total, entry = signature.as_bytes(after.signature()), hash_of(b"entry", index.to_bytes(8, "big"))
        self._made[total] = after
        return Effect(
            index=index,
            id=index.to_bytes(16, "big"),
            entry_chain=entry,
            term=self.consumer.term,
            attempt=self.consumer.attempt,
            outcome=outcome,
            reason="no" if outcome is Outcome.REJECTED else None,
            quads=len(after.quads),
            signature_before=signature.as_bytes(before.signature()),
            signature_after=total,
            chain=effects_chain(newest.chain if newest else GENESIS, entry, outcome, total),
            **difference(before, after),
        )

    def say(self, *, parts: int = 0) -> None:
        effect = self.next_effect(self.worlds[self.index], self.effects.get(self.index), self.index + 1)
        self.append(effect, parts=parts)

    def fence(self, term: bytes | None = None) -> None:
        self._leave_stale()
        self.attempts += 1
        known = self.consumer.term if self.consumer.term != GENESIS else hash_of(b"first")
        self.append(Fence(term=term or known, attempt=self.attempts, worker="w"))

    def _leave_stale(self) -> None:
        if newest := self.effects.get(self.index):
            self.stale.append(_Stale(self.worlds[self.index], newest, self.epoch))

    def say_stale(self) -> None:
        """One that was fenced, handed over or rewound goes on."""
        if not self.stale:
            return
        one = self.rng.choice(self.stale)
        effect = self.next_effect(one.world, one.newest, one.newest.index + 1)
        effect = replace(effect, term=one.newest.term, attempt=one.newest.attempt)
        self.append(effect, epoch=one.epoch)
        one.world, one.newest = self._made[effect.signature_after], effect

    def step(self) -> None:  # noqa: C901, PLR0912 - a table of what may happen
        rng = self.rng
        match rng.randrange(24):
            case 0:
                self.fence()
            case 1:
                self.append(
                    Fence(term=self.consumer.term, attempt=rng.randrange(self.attempts + 1), worker="old")
                )
            case 2 | 3:
                for _ in range(rng.randrange(1, 12)):
                    self.say_stale()
            case 4 | 5:  # another master copies what stands here already
                first = rng.randrange(len(self.records))
                for record in self.records[first : first + rng.randrange(1, 30)]:
                    self.put(record.value, record.headers)
            case 6:
                self.moves += 1
                self._leave_stale()
                term = hash_of(b"move", self.moves.to_bytes(4, "big"))
                self.append(Handover(index=self.moves, term=term, dc="dc2", epoch=self.epoch))
                self.say_stale()
                self.fence()
            case 7 if self.index:
                self._leave_stale()
                self.epoch += 1
                back = max(0, self.index - rng.choice((0, 1, 3, 10, 40)))
                rewind = Rewind(
                    epoch=self.epoch,
                    index=back,
                    term=self.consumer.term,
                    attempt=self.attempts,
                    cut=self.epoch,
                )
                self.append(rewind)
                if rng.random() < 0.5:
                    self.append(rewind)
                if not back and rng.random() < 0.5:
                    self.append(self._seed())
                self.say_stale()
            case 8:
                self.put(rng.randbytes(rng.randrange(40)), [])
            case 9:
                self.put(self.records[-1].value, [(EPOCH, b"of another program")])
            case 10:
                gap = self.next_effect(self.worlds[self.index], None, self.index + 2)
                self.append(gap)
            case 11:
                other = self.next_effect(changed(rng, World()), None, self.index + 1)
                self.append(other)
            case 12:  # it dies in the middle
                self.say(parts=1)
                self.fence()
            case 13 if len(self.records) > 1:
                self.append(
                    Handover(
                        index=rng.randrange(self.moves + 1), term=hash_of(b"x"), dc="dc1", epoch=self.epoch
                    )
                )
            case _:
                for _ in range(rng.choice((1, 3, 20, 60))):
                    self.say()


def random_topic(rng: random.Random, *, steps: int) -> RandomTopic:
    topic = RandomTopic(rng, seeded=rng.random() < 0.3)
    for _ in range(steps):
        topic.step()
    return topic
