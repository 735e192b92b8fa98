"""A log whose records are all as masters and workers write them: each digest, chain hash and signature is right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quadlog.core.effects.signature import after, as_bytes
from quadlog.core.model import (
    GENESIS,
    LogPosition,
    Transaction,
    TransactionKind,
    chain_hash,
    effects_chain,
    hash_of,
    payload_digest,
)
from quadlog.core.records import Effect, Fence, Heartbeat, LoggedEntry, Outcome, WorkerState
from quadlog.core.synchronous import marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VIEW = hash_of(b"view")
TERM = hash_of(b"term")
FENCE = Fence(term=TERM, attempt=1, worker="dc1-w1")


def entry(
    before: LoggedEntry | None,
    text: str = "",
    *,
    view: bytes = VIEW,
    epoch: int = 1,
    kind: TransactionKind = TransactionKind.TX,
    options: Mapping[str, str] | None = None,
) -> LoggedEntry:
    """The entry behind another one."""
    index, previous = (before.index + 1, before.chain) if before else (1, GENESIS)
    body, options = (text or f"entry {index}").encode(), options or {}
    transaction_id = hash_of(body)[:16]
    digest = payload_digest(
        origin="m1", created=index, media_type="text", traceparent="", body=body, options=options
    )
    transaction = Transaction(id=transaction_id, digest=marked(digest, options), kind=kind, options=options)
    return LoggedEntry(
        index=index,
        kind=kind,
        id=transaction_id,
        timestamp=index,
        digest=transaction.digest,
        options=options,
        previous=previous,
        chain=chain_hash(previous, transaction, index),
        epoch=epoch,
        lineage=view,
        origin="m1",
        created=index,
        media_type="text",
        body=body,
    )


def log_of(count: int, behind: LoggedEntry | None = None, **more: str | int | bytes) -> list[LoggedEntry]:
    log = list[LoggedEntry]()
    for _ in range(count):
        log.append(entry(log[-1] if log else behind, **more))  # type: ignore[arg-type]
    return log


def effect(
    of: LoggedEntry, before: Effect | None, line: str = "", *, term: bytes = TERM, attempt: int = 1
) -> Effect:
    """The effect of an entry, which adds a quad."""
    signature, chain, quads = (
        (before.signature_after, before.chain, before.quads) if before else (bytes(32), GENESIS, 0)
    )
    one = Effect(
        index=of.index,
        id=of.id,
        entry_chain=of.chain,
        term=term,
        attempt=attempt,
        outcome=Outcome.APPLIED,
        inserted=(line or f"<urn:s:{of.index}> <urn:p> <urn:o> .",),
        quads=quads + 1,
        signature_before=signature,
        signature_after=b"",
        chain=b"",
    )
    then = as_bytes(after(int.from_bytes(signature, "big"), one))
    return replace(one, signature_after=then, chain=effects_chain(chain, of.chain, one.outcome, then))


def effects_of(log: Iterable[LoggedEntry], before: Effect | None = None, **more: bytes | str) -> list[Effect]:
    found = list[Effect]()
    for one in log:
        found.append(effect(one, found[-1] if found else before, **more))  # type: ignore[arg-type]
    return found


def beat(of: Effect, *, worker: str = "dc1-w1", signature: bytes | None = None) -> Heartbeat:
    return Heartbeat(
        worker=worker,
        dc=worker[:3],
        url="",
        state=WorkerState.SERVING,
        evaluating=False,
        attempt=1,
        applied=LogPosition(of.index, of.entry_chain),
        signature=signature or of.signature_after,
        quads=of.quads,
        sent=0,
    )
