"""Submission of a transaction for an HTTP request: refused, agreed and applied, rejected, or open.

Updates, controls and changes of the peers are proposals, and so is the barrier of strict reads.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from quadlog.clock import now, wall
from quadlog.codec.envelope import text_id
from quadlog.core.cluster_settings import BY
from quadlog.core.membership.electorate import FORCED
from quadlog.core.model import Payload, Transaction, TransactionKind, id_of_key, payload_digest
from quadlog.core.synchronous import COMMIT_MODE, CommitMode, marked
from quadlog.errors import OutcomeUnknown, QuadlogError, Unavailable, UserError
from quadlog.master.clients.commit_options import commit_headers, commit_options
from quadlog.master.clients.pending_requests import TxAnswer, Waiter
from quadlog.master.clients.write_guards import (
    refuse_protected,
    refuse_undecidable,
    refuse_writes,
    taken_before,
    without_majority,
    write_obstacle,
)
from quadlog.master.events import ClientLeftEarly, TransactionOffered
from quadlog.settings import Role
from quadlog.web.answers import error_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from quadlog.master.node.node import Node
    from quadlog.settings import MasterSettings

TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,64})?")

KEY_LIMIT: Final = 255
"""Maximum number of characters of an Idempotency-Key."""

SPARQL_UPDATE: Final = "application/sparql-update"


class Proposals:
    """Submits transactions to the agreement, and waits for their outcomes."""

    def __init__(self, node: Node, settings: MasterSettings) -> None:
        self._node, self._settings = node, settings

    async def answer(
        self,
        request: Request,
        transaction_id: bytes,
        *,
        body: bytes,
        media_type: str,
        options: Mapping[str, str],
        kind: TransactionKind = TransactionKind.TX,
    ) -> Response:
        """Answer a request with a checked transaction once that is agreed and applied, or rejected.

        A transaction that is already known here gets its first outcome, or an error that leaves the outcome
        open; never one that says that nothing was logged.

        Raises:
            Unavailable: definite; nothing was logged: there is no worker, this master accepts no writes, or
                none can be agreed now.
            WriteProtected: definite; nothing was logged: one of two workers is out of sync.

        """
        if kind is not TransactionKind.TX and commit_options(request, {}):
            raise UserError(
                "controls, settings and peers are changed by ordinary transactions: send no Quadlog-Commit, or default;"
                " nothing was logged"
            )
        if not self._node.knows(transaction_id):
            self._refuse_new(kind, options)
        elif self._settings.role is Role.READ_ONLY:
            name = text_id(transaction_id)
            return _failure(taken_before(name, self._node.cluster, self._settings), transaction_id)
        payload = self._payload(
            transaction_id,
            body=body,
            media_type=media_type,
            options=options,
            traceparent=_traceparent(request),
            kind=kind,
        )
        try:
            answer = await self._outcome(payload)
        except QuadlogError as error:
            return _failure(error, transaction_id)
        return Response(
            status_code=204,
            headers={
                "Quadlog-Tx": text_id(transaction_id),
                **_index_of(answer),
                **commit_headers(options, self._node.cluster, answer),
            },
        )

    async def configure(
        self, request: Request, transaction_id: bytes, options: Mapping[str, str]
    ) -> Response:
        """Answer a request with a CONFIG transaction that consists of its options, as `answer` does."""
        # A retry from another address stays a retry.
        body = {name: value for name, value in options.items() if name != BY}
        return await self.answer(
            request,
            transaction_id,
            body=json.dumps(body).encode(),
            media_type="application/json",
            options=options,
            kind=TransactionKind.CONFIG,
        )

    def _refuse_new(self, kind: TransactionKind, options: Mapping[str, str]) -> None:
        """Refuse a transaction that is not known here if none can be accepted; raises as `answer` does."""
        worker_registry, moment = self._node.worker_registry, now().steady
        refuse_writes(self._node.cluster, self._settings)
        # With FORCED an operator declares that the silent masters are lost.
        if FORCED not in options and (why := write_obstacle(self._node.cluster, moment)):
            raise why
        if options.get(COMMIT_MODE) == CommitMode.SYNC:
            refuse_undecidable(self._node.cluster)
        if not worker_registry.live(moment):
            reasons = "; ".join(worker_registry.obstacles(moment))
            message = "no worker of this data centre is in service; nothing was logged, try again"
            raise Unavailable(f"{message}. {reasons}" if reasons else message, retry_after=2)
        if kind is TransactionKind.TX:
            refuse_protected(self._node.worker_registry)

    async def barrier(self) -> int:
        """Agree on an entry that changes nothing; return the index that a strict read of before must show.

        A worker here shows it.  It is the index of the entry, or a lower one if the entry follows an undecided
        synchronous transaction (`ReadIndex`).

        Raises:
            NoMajority: the view of this master holds no majority, or held none when the entry was appended.
            Unavailable: the entry could not be submitted, or was not agreed within `request-timeout`, because a
                master is silent, or no worker here showed the index.

        """
        cluster = self._node.cluster
        refuse_writes(cluster, self._settings)
        if not cluster.has_majority:
            raise without_majority(cluster)
        try:
            payload = self._payload(new_id(), body=b"", media_type=SPARQL_UPDATE)
            answer = await self._outcome(payload, is_barrier=True)
        except OutcomeUnknown as error:
            message = (
                "strict reads need a majority of masters that answer, and a worker of this data centre that shows what"
                f" they agreed on: see /cluster/status ({error})"
            )
            raise Unavailable(message, retry_after=5) from error
        if not answer.by_majority:
            raise without_majority(self._node.cluster)
        assert answer.index is not None, "a barrier is not lazy"
        return answer.index

    def id_of(self, request: Request) -> bytes:
        """Return the transaction id of a request; UserError if its Idempotency-Key is invalid."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return new_id()
        if not key or len(key) > KEY_LIMIT or not key.isascii():
            raise UserError(
                f"an Idempotency-Key has 1 to {KEY_LIMIT} ASCII characters, this one {len(key)}: {key!r}"
            )
        return id_of_key(self._settings.repository, key)

    def _payload(
        self,
        transaction_id: bytes,
        *,
        body: bytes,
        media_type: str,
        options: Mapping[str, str] | None = None,
        traceparent: str = "",
        kind: TransactionKind = TransactionKind.TX,
    ) -> Payload:
        created, options = wall(), options or {}
        digest = payload_digest(
            origin=self._settings.node_id,
            created=created,
            media_type=media_type,
            traceparent=traceparent,
            body=body,
            options=options,
        )
        transaction = Transaction(
            id=transaction_id, digest=marked(digest, options), kind=kind, options=options
        )
        return Payload(
            transaction=transaction,
            origin=self._settings.node_id,
            origin_dc=self._settings.dc,
            created=created,
            media_type=media_type,
            body=body,
            traceparent=traceparent,
        )

    async def _outcome(self, payload: Payload, *, is_barrier: bool = False) -> TxAnswer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TxAnswer | Exception] = loop.create_future()

        def tell(result: TxAnswer | Exception) -> None:
            loop.call_soon_threadsafe(settle, result)

        def settle(result: TxAnswer | Exception) -> None:
            if not future.done():  # else its client has left, or was told to ask again
                future.set_result(result)

        is_lazy = payload.transaction.options.get(COMMIT_MODE) == CommitMode.LAZY
        waiter = Waiter(body_hash=payload.body_hash, tell=tell, is_lazy=is_lazy, is_barrier=is_barrier)
        self._node.put(TransactionOffered(payload, waiter))
        try:
            result = await asyncio.wait_for(future, self._settings.request_timeout)
        except (TimeoutError, asyncio.CancelledError) as ended:
            self._node.put(ClientLeftEarly(payload.transaction.id, waiter))
            # Cancelled: the server stops, and gives open requests no more time; or nobody waits for this any more.
            late = f"not decided within {self._settings.request_timeout:g} s"
            why = late if isinstance(ended, TimeoutError) else "this master stops before it is decided"
            message = (
                f"accepted, but {why}; it may still be applied:"
                f" ask /tx/{text_id(payload.transaction.id)}, or send it again with the same Idempotency-Key"
            )
            raise OutcomeUnknown(message, retry_after=5) from None
        if isinstance(result, Exception):
            raise result
        return result


def new_id() -> bytes:
    """Return a UUID of version 7: 48 bits of time, so that ids of one time are adjacent, and 74 random bits."""
    value = (wall() << 80) | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return value.to_bytes(16, "big")


def _index_of(answer: TxAnswer) -> dict[str, str]:
    """Return the header with the place of a transaction; none if it is not agreed yet."""
    if answer.index is None:
        return {}
    return {"Quadlog-Index": f"{answer.index}:{answer.chain.hex()[:16]}"}


def _traceparent(request: Request) -> str:
    """Return the W3C trace context of a request; empty if it is invalid.

    An invalid one is not passed on, because it would be kept in three topics for ever.
    """
    given = request.headers.get("traceparent", "")
    return given if TRACEPARENT.fullmatch(given) else ""


def _failure(error: QuadlogError, transaction_id: bytes) -> Response:
    """Return an error response with the transaction's id and, unless the error has one, the location of its outcome."""
    name = text_id(transaction_id)
    return error_response(error, {"Quadlog-Tx": name, "Location": f"/tx/{name}"})
