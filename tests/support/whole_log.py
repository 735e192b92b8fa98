"""A log whose records are all as masters and workers write them: each digest, chain hash and signature is right."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import EPOCH, RELAYED
from quadlog.core.effects.lines import ChangeLines
from quadlog.core.effects.signature import after, as_bytes
from quadlog.core.model import (
    GENESIS,
    START,
    LogPosition,
    Post,
    Transaction,
    TransactionKind,
    chain_hash,
    effects_chain,
    hash_of,
    payload_digest,
)
from quadlog.core.records import (
    Cut,
    Effect,
    Fence,
    Handover,
    Heartbeat,
    LoggedEntry,
    Outcome,
    Rewind,
    Seed,
    WorkerState,
)
from quadlog.core.synchronous import marked
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.model import Rank, View
    from quadlog.ports import Headers

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
    media_type: str = "text",
) -> LoggedEntry:
    """The entry behind another one."""
    index, previous = (before.index + 1, before.chain) if before else (1, GENESIS)
    body, options = (text or f"entry {index}").encode(), options or {}
    transaction_id = hash_of(body)[:16]
    digest = payload_digest(
        origin="m1", created=index, media_type=media_type, traceparent="", body=body, options=options
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
        media_type=media_type,
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
    line = line or f"<urn:s:{of.index}> <urn:p> <urn:o> ."
    return change(of, before, ChangeLines(inserted=(line,)), term=term, attempt=attempt)


def change(
    of: LoggedEntry,
    before: Effect | None,
    lines: ChangeLines,
    *,
    outcome: Outcome = Outcome.APPLIED,
    reason: str | None = None,
    term: bytes = TERM,
    attempt: int = 1,
) -> Effect:
    """The effect of an entry, which changes these lines."""
    signature, chain, quads = (
        (before.signature_after, before.chain, before.quads) if before else (bytes(32), GENESIS, 0)
    )
    one = Effect(
        index=of.index,
        id=of.id,
        entry_chain=of.chain,
        term=term,
        attempt=attempt,
        outcome=outcome,
        reason=reason,
        **lines._asdict(),
        quads=quads + len(lines.inserted) - len(lines.deleted),
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


@dataclass
class History:
    """A log and its effects; a copy of it is one side of a split."""

    entries: list[LoggedEntry] = field(default_factory=list[LoggedEntry])
    effects: list[Effect] = field(default_factory=list[Effect])

    def branch(self) -> History:
        return History([*self.entries], [*self.effects])

    def add(
        self,
        text: str,
        lines: ChangeLines | None = None,
        *,
        outcome: Outcome = Outcome.APPLIED,
        kind: TransactionKind = TransactionKind.TX,
        media_type: str = "application/sparql-update",
        options: Mapping[str, str] | None = None,
        term: bytes = TERM,
    ) -> LoggedEntry:
        """Add the next entry, with its effect.  Entries of one text have one id."""
        last = self.entries[-1] if self.entries else None
        one = entry(last, text, kind=kind, media_type=media_type, options=options)
        before = self.effects[-1] if self.effects else None
        self.entries.append(one)
        self.effects.append(change(one, before, lines or ChangeLines(), outcome=outcome, term=term))
        return one


def post(node: str, rank: Rank, *, view: View, sequence: int = 1, incarnation: bytes = bytes(16)) -> Post:
    """A snapshot without a queue."""
    return Post(
        node=node,
        incarnation=incarnation,
        sequence=sequence,
        view=view,
        base=START,
        counter=0,
        queue=(),
        rank=rank,
    )


def records_of(
    *said: LoggedEntry | Cut | Effect | Fence | Handover | Rewind | Seed | Post,
    epoch: int | None = None,
    relayed_from: str | None = None,
) -> list[Record]:
    """Records with these values, whose headers say the epoch of their writer's view and where they come from."""
    headers: Headers = []
    if epoch is not None:
        headers.append((EPOCH, b"%d" % epoch))
    if relayed_from is not None:
        headers.append((RELAYED, relayed_from.encode()))
    values = [value for one in said for value in _encoded(one)]
    return [Record("", offset, b"", value, headers) for offset, value in enumerate(values)]


def _encoded(one: LoggedEntry | Cut | Effect | Fence | Handover | Rewind | Seed | Post) -> list[bytes]:
    if isinstance(one, LoggedEntry):
        return codec.encode_entry(one)
    if isinstance(one, Effect):
        return codec.encode_effect(one)
    return [codec.encode(one)]
