"""Anything that can be said on a topic, by chance, and its records."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from quadlog import codec
from quadlog.core.model import (
    AgreedSetting,
    Ask,
    EffectsPosition,
    LogPosition,
    Pair,
    Payload,
    Peer,
    Post,
    Rank,
    RejoinedMember,
    Transaction,
    TransactionKind,
    View,
)
from quadlog.core.records import (
    CatchUpProgress,
    Checkpoint,
    Cut,
    Effect,
    EffectsPlace,
    Fence,
    Handover,
    Heartbeat,
    LoggedEntry,
    Outcome,
    Reached,
    Rewind,
    Scrub,
    Seed,
    Term,
    Undecided,
    Violation,
    ViolationKind,
    WorkerState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.codec import Said

T = TypeVar("T")
ids = st.binary(min_size=16, max_size=16)
hashes = st.binary(min_size=32, max_size=32)
longs = st.integers(min_value=0, max_value=2**63 - 1)
moments = st.integers(min_value=0, max_value=4_102_444_800_000)
"""Milliseconds from 1970 to 2100."""
names = st.text(max_size=12)
options = st.dictionaries(names, names, max_size=3)
peers = st.lists(st.builds(Peer, names, names), max_size=3).map(tuple)
views = st.builds(
    View,
    epoch=longs,
    members=st.lists(names, max_size=4).map(tuple),
    parent=hashes,
    home=names,
    returned=st.lists(st.builds(RejoinedMember, names, ids, st.booleans()), max_size=3).map(tuple),
    peers=peers,
    before=peers,
)
points = st.builds(LogPosition, longs, hashes)
pairs = st.builds(Pair, longs, ids, hashes)
kinds = st.sampled_from(TransactionKind)
submission: dict[str, st.SearchStrategy[Any]] = {
    "origin": names,
    "created": moments,
    "media_type": names,
    "body": st.binary(max_size=64),
    "traceparent": names,
}
payloads = st.builds(
    Payload,
    transaction=st.builds(Transaction, id=ids, digest=hashes, kind=kinds, options=options),
    origin_dc=names,
    **submission,
)
entries = st.builds(
    LoggedEntry,
    index=longs,
    kind=kinds,
    id=ids,
    timestamp=longs,
    digest=hashes,
    options=options,
    previous=hashes,
    chain=hashes,
    epoch=longs,
    lineage=hashes,
    **submission,
)
lines = st.lists(st.text(max_size=20), max_size=4).map(tuple)
effects = st.builds(
    Effect,
    index=longs,
    id=ids,
    entry_chain=hashes,
    term=hashes,
    attempt=longs,
    outcome=st.sampled_from(Outcome),
    reason=st.none() | names,
    deleted=lines,
    inserted=lines,
    emptied=lines,
    filled=lines,
    dropped=lines,
    quads=longs,
    signature_before=hashes,
    signature_after=hashes,
    chain=hashes,
)
posts = st.builds(
    Post,
    node=names,
    incarnation=ids,
    sequence=longs,
    view=views,
    base=points,
    counter=longs,
    base_sequence=st.none() | longs,
    asks=st.lists(st.builds(Ask, names, longs), max_size=3).map(tuple),
    queue=st.lists(pairs, max_size=4).map(tuple),
    added=st.lists(pairs, max_size=4).map(tuple),
    ballot=st.none() | views,
    rank=st.builds(
        Rank,
        longs,
        st.booleans(),
        st.integers(min_value=0, max_value=2**31 - 1),
        st.lists(names, max_size=3).map(tuple),
    ),
    joining=st.none() | views,
    whole=st.booleans(),
    beside=st.none() | points,
    effects=st.builds(EffectsPosition, term=hashes, index=longs),
    given_up=st.lists(names, max_size=3).map(tuple),
    unheard=st.lists(names, max_size=3).map(tuple),
    changes=st.lists(peers, max_size=2).map(tuple),
    full=st.booleans(),
    settings=st.lists(st.builds(AgreedSetting, names, names, longs, moments, names), max_size=2).map(tuple),
).map(lambda post: replace(post, rank=post.rank._replace(decided=not post.view.before)))  # as its view says
fences = st.builds(Fence, term=hashes, attempt=longs, worker=names)
seeds = st.builds(
    Seed,
    signature=hashes,
    quads=longs,
    digest=hashes,
    at=moments,
    by=names,
    sources=st.lists(names, max_size=3).map(tuple),
)
terms = st.lists(st.builds(Term, epoch=longs, id=hashes, after=longs), max_size=3).map(tuple)
handovers = st.builds(Handover, index=longs, term=hashes, dc=names, start=longs, epoch=longs, terms=terms)
points = st.builds(LogPosition, longs, hashes)
checkpoints = st.builds(
    Checkpoint,
    last=points,
    reached=st.builds(Reached, longs, points, longs, longs),
    effects=st.builds(EffectsPlace, longs, longs, longs, longs),
    duty=st.none() | st.tuples(handovers, handovers),
    seed=st.none() | seeds,
    agreed_id=names,
    effects_id=names,
)
heartbeats = st.builds(
    Heartbeat,
    worker=names,
    dc=names,
    url=names,
    state=st.sampled_from(WorkerState),
    evaluating=st.booleans(),
    attempt=longs,
    applied=points,
    signature=hashes,
    quads=longs,
    sent=moments,
    store=names,
    scrub=st.none() | st.builds(Scrub, index=longs, at=moments, expected=hashes, found=hashes, quads=longs),
    scrub_failure=names,
    mend=names,
    epoch=longs,
    catching_up=st.none()
    | st.builds(
        CatchUpProgress,
        way=names,
        behind=longs,
        percent=st.integers(0, 100),
        left_s=st.none() | longs,
        obstacle=names,
    ),
    unsaid=names,
    set_aside=names,
)
cuts = st.builds(Cut, epoch=longs, lineage=hashes, index=longs, chain=hashes)
rewinds = st.builds(Rewind, epoch=longs, index=longs, term=hashes, attempt=longs, cut=longs)
undecided = st.builds(Undecided, index=longs, id=ids, entry_chain=hashes, term=hashes, attempt=longs)
violations = st.builds(
    Violation,
    kind=st.sampled_from(ViolationKind),
    dc=names,
    topic=names,
    offset=longs,
    index=longs,
    explanation=names,
)
anything: st.SearchStrategy[Said] = st.one_of(
    *(payloads, entries, effects, posts, fences, handovers, heartbeats, seeds, cuts, rewinds, checkpoints),
    undecided,
    violations,
)


def encode(said: Said) -> list[bytes]:
    """The records of anything that can be said."""
    match said:
        case Payload():
            return codec.encode_payload(said)
        case LoggedEntry():
            return codec.encode_entry(said)
        case Effect():
            return codec.encode_effect(said)
        case _:
            return [codec.encode(said)]


def example(strategy: st.SearchStrategy[T], change: Callable[[T], T]) -> T:
    """One value of a strategy, changed."""
    found: list[T] = []

    @settings(max_examples=1, database=None, derandomize=True)
    @given(strategy)
    def take(value: T) -> None:
        found.append(value)

    take()
    return change(found[0])


def large_payload(seed: int, size: int) -> Payload:
    body = random.Random(seed).randbytes(size)
    key = Transaction(id=bytes([seed]) * 16, digest=bytes([seed]) * 32)
    return example(payloads, lambda payload: replace(payload, transaction=key, body=body))


def large_effect(index: int, attempt: int, count: int) -> Effect:
    many = tuple(f'<urn:s:{index}> <urn:p:{n}> "{"ü" * 1000}" .' for n in range(count))
    return example(
        effects,
        lambda effect: replace(
            effect, index=index, attempt=attempt, deleted=many[::2], inserted=many[1::2], emptied=("<urn:e>",)
        ),
    )
