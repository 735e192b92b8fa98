"""A master's store, and entries for it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from quadlog.core.model import (
    START,
    Entry,
    LogPosition,
    Pair,
    Payload,
    Transaction,
    TransactionKind,
    chain_hash,
    first_view,
    payload_digest,
)
from quadlog.masterstore.store import MasterStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


VIEW = first_view({"m1": "dc1", "m2": "dc2"})


def payload_of(number: int, body: bytes | None = None) -> Payload:
    body = body or f"INSERT DATA {{ <urn:s> <urn:p> {number} }}".encode()
    digest = payload_digest(origin="m1", created=number, media_type="text", traceparent="", body=body)
    return Payload(
        transaction=Transaction(id=number.to_bytes(16, "big"), digest=digest, options={"a": str(number)}),
        origin="m1",
        origin_dc="dc1",
        created=number,
        media_type="text",
        body=body,
        traceparent="t",
    )


def pair_of(payload: Payload, timestamp: int) -> Pair:
    return Pair(timestamp, *payload.transaction.key)


def entries_of(payloads: Sequence[Payload], *, after: LogPosition = START) -> list[Entry]:
    """A log with a timestamp that is the index."""
    log: list[Entry] = []
    for payload in payloads:
        index = after.index + 1
        chain = chain_hash(after.chain, payload.transaction, index)
        log.append(
            Entry(
                index=index,
                pair=pair_of(payload, index),
                kind=TransactionKind.TX,
                options=payload.transaction.options,
                previous=after.chain,
                chain=chain,
                view=VIEW,
            )
        )
        after = LogPosition(index, chain)
    return log


@contextmanager
def opened(path: Path) -> Iterator[MasterStore]:
    store = MasterStore(path)
    try:
        yield store
    finally:
        store.close()
