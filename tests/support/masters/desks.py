"""A master's log on a real store, and clients that wait for what becomes of theirs."""

from __future__ import annotations

from dataclasses import dataclass, field

from quadlog.core.messages import Adopted, Save
from quadlog.core.model import (
    GENESIS,
    Entry,
    HardState,
    LogPosition,
    Pair,
    Payload,
    Transaction,
    TransactionKind,
    body_hash,
    chain_hash,
    first_view,
    payload_digest,
)
from quadlog.master.clients.pending_requests import PendingRequests, TxAnswer, Waiter
from quadlog.master.log.log_publisher import logged_entry
from quadlog.masterstore.store import MasterStore, Taken


def payload_of(number: int, body: bytes, created: int = 0) -> Payload:
    digest = payload_digest(origin="m1", created=created, media_type="text", traceparent="", body=body)
    return Payload(
        transaction=Transaction(id=number.to_bytes(16, "big"), digest=digest),
        origin="m1",
        origin_dc="dc1",
        created=created,
        media_type="text",
        body=body,
    )


@dataclass
class Log:
    """A store and the entries that were saved in it, one after the other."""

    store: MasterStore
    index: int = 0
    chain: bytes = GENESIS
    payloads: dict[tuple[bytes, bytes], Payload] = field(default_factory=dict)

    def agree(self, payload: Payload, rejected: dict[int, str] | None = None) -> Entry:
        """Save an entry as the node does."""
        pair = Pair(self.index + 1, *payload.transaction.key)
        previous, self.chain = self.chain, chain_hash(self.chain, payload.transaction, pair.timestamp)
        self.index += 1
        entry = Entry(
            index=self.index,
            pair=pair,
            kind=TransactionKind.TX,
            options={},
            previous=previous,
            chain=self.chain,
            view=first_view({"m1": "dc1"}),
        )
        self.payloads[payload.transaction.key] = payload
        save = Save(
            counter=self.index,
            sequence=self.index,
            acquired=(),
            enqueued=(),
            dequeued=(),
            entries=(entry,),
            released=(),
        )
        taken = Taken(positions={}, effects=(0, 0, 0), rejected=rejected or {})
        self.store.save(save, payloads=self.payloads, taken=taken, unneeded=())
        return entry


@dataclass
class Client:
    """Somebody who waits."""

    body: bytes
    told: list[TxAnswer | Exception] = field(default_factory=list)

    @property
    def waiter(self) -> Waiter:
        return Waiter(body_hash=body_hash(self.body), tell=self.told.append)


def agree(log: Log, pending_requests: PendingRequests, payload: Payload) -> Entry:
    entry = log.agree(payload)
    pending_requests.agreed([entry], log.payloads, confirms=lambda _: False)
    return entry


def give_way(
    log: Log,
    kept: int,
    theirs: list[Payload],
    waiting: list[Payload],
    ended: dict[bytes, int] | None = None,
) -> list[Entry]:
    """Another log behind an entry; what waits again, and what has ended, is saved with it.  Its entries."""
    store = log.store
    before = store.entry(kept)
    fork = LogPosition(kept, before[0] if before else GENESIS)
    own = store.entry(log.index)
    assert own is not None
    log.payloads |= {payload.transaction.key: payload for payload in theirs}
    entries: list[Entry] = []
    chain = fork.chain
    for index, payload in enumerate(theirs, start=kept + 1):
        pair = Pair(1000 + index, *payload.transaction.key)
        previous, chain = chain, chain_hash(chain, payload.transaction, pair.timestamp)
        entries.append(
            Entry(
                index=index, pair=pair, kind=TransactionKind.TX, options={}, previous=previous, chain=chain,
                view=first_view({"m1": "dc1"}),
            )
        )  # fmt: skip
    store.beside.begin(fork, bytes(32), LogPosition(log.index, own[0]))
    store.beside.add([logged_entry(entry, log.payloads[entry.pair.key]) for entry in entries])
    branch = store.beside.joined_log()
    assert branch is not None
    store.save(
        Save(
            counter=1000, sequence=1000, standing=HardState(view=first_view({"m1": "dc1"})),
            adopted=Adopted(branch, branch.last, ended or {}), acquired=tuple(p.transaction for p in waiting),
            enqueued=(), dequeued=(), entries=(), released=(),
        ),
        payloads=log.payloads,
        taken=Taken(positions={}, effects=(0, 0, 0), rejected={}),
        unneeded=(),
    )  # fmt: skip
    return entries
