"""`POST /update`: turns a client's update into a payload, and its outcome into an answer.

An update is SPARQL text or a patch; RDF data have been turned into a patch before (`statements.py`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from quadlog.clock import now, wall
from quadlog.codec.envelope import text_id
from quadlog.core.effects.patch import MEDIA_TYPE as PATCH
from quadlog.core.effects.patch import parse_patch
from quadlog.core.model import Payload, Transaction, TransactionKind, id_of_key, payload_digest
from quadlog.core.sparql.update import parse_update
from quadlog.core.sparql.using import GRAPH, NAMED, Using, options_of
from quadlog.errors import OutcomeUnknown, QuadlogError, TooLarge, Unavailable, UserError
from quadlog.master.clients.pending_requests import TxAnswer, Waiter
from quadlog.master.clients.write_guards import (
    refuse_protected,
    refuse_strict,
    refuse_writes,
    taken_before,
    without_majority,
)
from quadlog.master.events import ClientLeftEarly, TransactionOffered
from quadlog.settings import Role
from quadlog.web.answers import error_response
from quadlog.web.http_body import form_of, media_type_of, parameters_of, read_body, text_of, too_large
from quadlog.web.http_parameters import merged, only, refuse_others

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request

    from quadlog.master.clients.body_budget import BodyBudget, BodyLease
    from quadlog.master.node.node import Node
    from quadlog.settings import MasterSettings

    DryRun = Callable[[Request, "UpdateRequest"], Awaitable[Response]]

SPARQL_UPDATE: Final = "application/sparql-update"
FORM: Final = "application/x-www-form-urlencoded"
UPDATE: Final = "update"

DRY_RUN: Final = "dry-run"
PARAMETERS: Final = (GRAPH, NAMED, DRY_RUN)
"""Parameters of an update, in the URL or in a form."""

LONG_TEXT: Final = 64 * 1024
"""Bytes above which a text is checked outside the event loop: a few milliseconds of parsing."""

TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,64})?")

KEY_LIMIT: Final = 255
"""Maximum number of characters of an Idempotency-Key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest:
    """An update as read from its request."""

    body: bytes
    media_type: str
    given: Mapping[str, Sequence[str]]
    """Values of the parameters, by name."""


_NOTHING: Final = UpdateRequest(body=b"", media_type=SPARQL_UPDATE, given={})


class UpdateHandler:
    """Accepts updates."""

    def __init__(self, node: Node, settings: MasterSettings, room: BodyBudget) -> None:
        """`settings` has the limits; `room` limits the bodies of open requests."""
        self._node, self._settings = node, settings
        self._room: Final = room

    async def answer(self, request: Request, dry_run: DryRun) -> Response:
        """Answer an update: 204 when it is agreed and applied by a worker here.

        A dry run is answered by `dry_run` with what the update would do.

        Raises:
            UserError: definite; nothing was logged.
            Unavailable: definite; nothing was logged: no worker, no room, or too many transactions wait.
            OutcomeUnknown: not decided within `request-timeout`.
            Rejected: agreed, and rejected by its evaluation.

        """
        with self._room.lease() as lease:
            return await self.take(request, await self._update_of(request, lease), dry_run)

    async def take(self, request: Request, asked: UpdateRequest, dry_run: DryRun) -> Response:
        """Check an update that was read, and answer it; raises as `answer` does."""
        options = options_of(asked.given.get(GRAPH, ()), asked.given.get(NAMED, ()))
        transaction_id = self.id_of(request)
        await _check(asked, transaction_id, options)
        if _is_dry(asked.given.get(DRY_RUN, ())):
            return await dry_run(request, asked)
        return await self.agreed(request, transaction_id, asked, options)

    async def agreed(
        self,
        request: Request,
        transaction_id: bytes,
        asked: UpdateRequest,
        options: Mapping[str, str],
        *,
        kind: TransactionKind = TransactionKind.TX,
    ) -> Response:
        """Answer a request with a checked transaction once that is agreed and applied, or rejected.

        A transaction that is already known here gets its first outcome, or an error that leaves the outcome
        open; never one that says that nothing was logged.

        Raises:
            Unavailable: definite; nothing was logged: there is no worker, or this master accepts no writes.
            WriteProtected: definite; nothing was logged: one of two workers is out of sync.

        """
        if not self._node.knows(transaction_id):
            self._refuse_new(kind)
        elif self._settings.role is Role.READ_ONLY:
            name = text_id(transaction_id)
            return _failure(taken_before(name, self._node.agreement, self._settings), transaction_id)
        payload = self._payload(transaction_id, asked, options, _traceparent(request), kind=kind)
        try:
            answer = await self._outcome(payload)
        except QuadlogError as error:
            return _failure(error, transaction_id)
        return Response(
            status_code=204,
            headers={
                "Quadlog-Tx": text_id(transaction_id),
                "Quadlog-Index": f"{answer.index}:{answer.chain.hex()[:16]}",
            },
        )

    def _refuse_new(self, kind: TransactionKind) -> None:
        """Refuse a transaction that is not known here if none can be accepted; raises as `agreed` does."""
        refuse_writes(self._node.agreement, self._settings)
        worker_registry, moment = self._node.worker_registry, now().steady
        if not worker_registry.live(moment):
            reasons = "; ".join(worker_registry.obstacles(moment))
            message = "no worker of this data centre is in service; nothing was logged, try again"
            raise Unavailable(f"{message}. {reasons}" if reasons else message, retry_after=2)
        if kind is TransactionKind.TX:
            refuse_protected(self._node.worker_registry)

    async def barrier(self) -> int:
        """Return the index of an entry that changes nothing, was agreed after this call, and is applied here.

        Raises:
            NoMajority: the view of this master holds no majority, or held none when the entry was appended.
            Unavailable: the entry could not be submitted, or was not agreed within `request-timeout`: a
                master is silent.

        """
        agreement = self._node.agreement
        refuse_writes(agreement, self._settings)
        refuse_strict(agreement)
        try:
            answer = await self._outcome(self._payload(new_id(), _NOTHING, {}, ""))
        except OutcomeUnknown as error:
            message = f"strict reads need a majority of masters, which did not answer: see /cluster/status ({error})"
            raise Unavailable(message, retry_after=5) from error
        if not answer.by_majority:
            raise without_majority(agreement)
        return answer.index

    async def _update_of(self, request: Request, lease: BodyLease) -> UpdateRequest:
        """Return the update and its parameters, from the URL and from a form."""
        limit = self._settings.max_transaction_size
        given = parameters_of(request)
        refuse_others(given, PARAMETERS)
        media_type = media_type_of(request)
        if media_type in {SPARQL_UPDATE, PATCH}:
            body = await read_body(request, limit, lease.grow)
            return UpdateRequest(body=body, media_type=media_type, given=given)
        if media_type == FORM:
            # A form may encode each byte as three.
            raw = await read_body(request, limit * 3, lease.grow)
            form = await asyncio.to_thread(form_of, raw) if len(raw) > LONG_TEXT else form_of(raw)
            body = only(form, UPDATE).encode()
            given = merged(given, form)
            refuse_others(given, (UPDATE, *PARAMETERS))
            if len(body) > limit:
                raise TooLarge(too_large(limit))
            return UpdateRequest(body=body, media_type=SPARQL_UPDATE, given=given)
        message = (
            f"an update comes as {SPARQL_UPDATE}, as {PATCH} or as {FORM} with 'update';"
            f" this is '{media_type or 'nothing'}'"
        )
        raise UnsupportedMediaType(message)

    def id_of(self, request: Request) -> bytes:
        """Return the transaction id of a request; UserError if its Idempotency-Key is invalid."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return new_id()
        if not key or len(key) > KEY_LIMIT or not key.isascii():
            message = (
                f"an Idempotency-Key has 1 to {KEY_LIMIT} ASCII characters, this one {len(key)}: {key!r}"
            )
            raise UserError(message)
        return id_of_key(self._settings.repository, key)

    def _payload(
        self,
        transaction_id: bytes,
        asked: UpdateRequest,
        options: Mapping[str, str],
        traceparent: str,
        *,
        kind: TransactionKind = TransactionKind.TX,
    ) -> Payload:
        created = wall()
        digest = payload_digest(
            origin=self._settings.node_id,
            created=created,
            media_type=asked.media_type,
            traceparent=traceparent,
            body=asked.body,
            options=options,
        )
        return Payload(
            transaction=Transaction(id=transaction_id, digest=digest, kind=kind, options=options),
            origin=self._settings.node_id,
            origin_dc=self._settings.dc,
            created=created,
            media_type=asked.media_type,
            body=asked.body,
            traceparent=traceparent,
        )

    async def _outcome(self, payload: Payload) -> TxAnswer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TxAnswer | Exception] = loop.create_future()

        def tell(result: TxAnswer | Exception) -> None:
            loop.call_soon_threadsafe(settle, result)

        def settle(result: TxAnswer | Exception) -> None:
            if not future.done():  # else its client has left, or was told to ask again
                future.set_result(result)

        waiter = Waiter(body_hash=payload.body_hash, tell=tell)
        self._node.put(TransactionOffered(payload, waiter))
        try:
            result = await asyncio.wait_for(future, self._settings.request_timeout)
        except (TimeoutError, asyncio.CancelledError) as ended:
            self._node.put(ClientLeftEarly(payload.transaction.id, waiter))
            # Cancelled: the server stops, and gives open requests no more time.
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


class UnsupportedMediaType(UserError):
    """The body has a media type that is not accepted."""

    status = 415


def new_id() -> bytes:
    """Return a UUID of version 7: 48 bits of time, so that ids of one time are adjacent, and 74 random bits."""
    value = (wall() << 80) | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return value.to_bytes(16, "big")


def _traceparent(request: Request) -> str:
    """Return the W3C trace context of a request; empty if it is invalid.

    An invalid one is not passed on, because it would be kept in three topics for ever.
    """
    given = request.headers.get("traceparent", "")
    return given if TRACEPARENT.fullmatch(given) else ""


def _is_dry(given: Sequence[str]) -> bool:
    """Return whether nothing must be logged; a value that is not understood must not become a write."""
    if any(value not in {"true", "false"} for value in given) or len(set(given)) > 1:
        message = f"{DRY_RUN} is true or false, not {' and '.join(given)}"
        raise UserError(message)
    return "true" in given


async def _check(asked: UpdateRequest, transaction_id: bytes, options: Mapping[str, str]) -> None:
    """Refuse a text that is not an update, or not supported, before it is logged."""

    def check() -> None:
        if asked.media_type == PATCH:
            if options:
                raise UserError(f"{GRAPH} and {NAMED} mean nothing to a patch: its lines name their graphs")
            deque(parse_patch(asked.body, tx_id=transaction_id), maxlen=0)
        else:
            parse_update(text_of(asked.body), tx_id=transaction_id, using=Using.of(options))

    if len(asked.body) > LONG_TEXT:
        await asyncio.to_thread(check)
    else:
        check()


def _failure(error: QuadlogError, transaction_id: bytes) -> Response:
    """Return an error response with the transaction's id and, unless the error has one, the location of its outcome."""
    name = text_id(transaction_id)
    return error_response(error, {"Quadlog-Tx": name, "Location": f"/tx/{name}"})
