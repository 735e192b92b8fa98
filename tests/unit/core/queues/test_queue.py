"""The compact incoming queue behaves as the plain one would: sets of pairs, and a set of payloads."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from quadlog.core.model import Pair, Transaction, TransactionKind
from quadlog.core.queues.pairs import Pairs
from quadlog.core.queues.queue import IncomingQueue

ids = st.sampled_from([bytes([n]) * 16 for n in range(3)])
digests = st.sampled_from([bytes([n]) * 32 for n in range(2)])
pairs = st.builds(Pair, st.integers(1, 4), ids, digests)
transactions = st.builds(
    Transaction,
    id=ids,
    digest=digests,
    kind=st.sampled_from([TransactionKind.TX, TransactionKind.CONFIG]),
    options=st.sampled_from([{}, {"a": "b"}]),
)
steps = st.lists(pairs | transactions | ids, max_size=40)


@dataclass
class Plain:
    """What it is, said in the simplest way."""

    pairs: set[Pair] = field(default_factory=set)
    payloads: dict[tuple[bytes, bytes], Transaction] = field(default_factory=dict)

    def acquired(self) -> list[Pair]:
        return sorted(pair for pair in self.pairs if pair.key in self.payloads)


def take(queue: IncomingQueue, plain: Plain, step: Pair | Transaction | bytes) -> None:
    """One step at both; what they return has to be the same."""
    match step:
        case Pair():
            if step not in plain.pairs:
                plain.pairs.add(step)
                assert queue.add(step) == (step.key in plain.payloads)
        case Transaction():
            if step.key not in plain.payloads:
                plain.payloads[step.key] = step
                assert sorted(queue.acquire(step)) == sorted(p for p in plain.pairs if p.key == step.key)
        case _:
            agreed = next((pair for pair in plain.acquired() if pair.id == step), None)
            if agreed is None:
                return
            gone, twins = queue.spend(agreed)
            assert sorted(gone) == sorted(pair for pair in plain.pairs if pair.id == step)
            plain.pairs = {pair for pair in plain.pairs if pair.id != step}
            del plain.payloads[agreed.key]
            assert sorted(twins) == sorted(key for key in plain.payloads if key[0] == step)


def assert_equal(queue: IncomingQueue, plain: Plain) -> None:
    """Whatever is asked."""
    assert queue.acquired() == plain.acquired()
    named = {pair.key for pair in plain.pairs}
    early = {(name, digest) for name, digests in queue._early.items() for digest in digests}
    assert early == plain.payloads.keys() - named, "a payload is noted once"
    waiting = {pair.id for pair in plain.pairs}
    assert len(queue) == len(waiting)
    for n in range(3):
        name = bytes([n]) * 16
        assert (name in queue) == (name in waiting)
        assert sorted(queue.pairs(name)) == sorted(pair for pair in plain.pairs if pair.id == name)
        for digest in (bytes(32), bytes([1]) * 32):
            assert queue.has_payload((name, digest)) == ((name, digest) in plain.payloads)
            assert queue.transaction(Pair(1, name, digest)) == plain.payloads.get((name, digest))


@given(steps)
def test_the_compact_queue_is_the_plain_one(given_steps: list[Pair | Transaction | bytes]) -> None:
    queue, plain = IncomingQueue((), ()), Plain()
    for step in given_steps:
        take(queue, plain, step)
        assert_equal(queue, plain)
    again = IncomingQueue(plain.pairs, plain.payloads.values())
    assert_equal(again, plain)
    for pair in again.everything():
        if pair.id in again:
            again.spend(pair)
    for key in list(again.early()):
        again.forget(key)
    kept = (again._first, again._twins, again._lacking, again._early, again._special)
    assert not any(kept), "nothing is left of what is gone"


@given(st.lists(st.integers(0, 20) | st.none(), max_size=60))
def test_pairs_leave_in_order(given_steps: list[int | None]) -> None:
    """A number comes; None: the lowest goes."""
    compact, plain = Pairs(), list[Pair]()
    for number in given_steps:
        if number is not None:
            pair = Pair(number, bytes(16), bytes(32))
            compact.push(pair)
            plain.append(pair)
        elif plain:
            assert compact.pop() == min(plain)
            plain.remove(min(plain))
        assert compact.first == min(plain, default=None)
        assert sorted(compact) == sorted(plain)
