"""`POST /update`: reads and checks a client's update, and submits it.

An update is SPARQL text or a patch; RDF data have been turned into a patch before (`statements.py`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.core.effects.patch import MEDIA_TYPE as PATCH
from quadlog.core.effects.patch import parse_patch
from quadlog.core.sparql.update import parse_update
from quadlog.core.sparql.using import GRAPH, NAMED, Using, options_of
from quadlog.errors import TooLarge, UnsupportedMediaType, UserError
from quadlog.master.clients.commit_options import PARAMETERS as COMMIT_PARAMETERS
from quadlog.master.clients.commit_options import commit_options
from quadlog.master.http.proposals import SPARQL_UPDATE
from quadlog.web.http_body import form_of, media_type_of, parameters_of, read_body, text_of, too_large
from quadlog.web.http_parameters import merged, only, refuse_others

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.clients.body_budget import BodyBudget
    from quadlog.master.http.proposals import Proposals
    from quadlog.settings import MasterSettings

    DryRun = Callable[[Request, "UpdateRequest"], Awaitable[Response]]

FORM: Final = "application/x-www-form-urlencoded"
UPDATE: Final = "update"

DRY_RUN: Final = "dry-run"
PARAMETERS: Final = (GRAPH, NAMED, DRY_RUN, *COMMIT_PARAMETERS)
"""Parameters of an update, in the URL or in a form."""

LONG_TEXT: Final = 64 * 1024
"""Bytes above which a text is checked outside the event loop: a few milliseconds of parsing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest:
    """An update as read from its request."""

    body: bytes
    media_type: str
    given: Mapping[str, Sequence[str]]
    """Values of the parameters, by name."""


class UpdateHandler:
    """Accepts updates."""

    def __init__(
        self, proposals: Proposals, settings: MasterSettings, body_budget: BodyBudget, dry_run: DryRun
    ) -> None:
        self._proposals, self._settings = proposals, settings
        self._body_budget: Final = body_budget
        self._dry_run: Final = dry_run

    async def answer(self, request: Request) -> Response:
        """Answer an update: 204 when it is agreed and applied by a worker here.

        Raises:
            UserError: definite; nothing was logged.
            Unavailable: definite; nothing was logged: no worker, no room, or too many transactions wait.

        """
        with self._body_budget.lease() as grow:
            return await self.submit(request, await self._update_of(request, grow))

    async def submit(self, request: Request, asked: UpdateRequest) -> Response:
        """Check an update that was read, and answer it; raises as `answer` does."""
        dataset = options_of(asked.given.get(GRAPH, ()), asked.given.get(NAMED, ()))
        options = dataset | commit_options(request, asked.given)
        transaction_id = self._proposals.id_of(request)
        await _check(asked, transaction_id, dataset)
        if _is_dry(asked.given.get(DRY_RUN, ())):
            return await self._dry_run(request, asked)
        return await self._proposals.answer(
            request, transaction_id, body=asked.body, media_type=asked.media_type, options=options
        )

    async def _update_of(self, request: Request, grow: Callable[[int], None]) -> UpdateRequest:
        """Return the update and its parameters, from the URL and from a form."""
        limit = self._settings.max_transaction_size
        given = parameters_of(request)
        refuse_others(given, PARAMETERS)
        media_type = media_type_of(request)
        if media_type in {SPARQL_UPDATE, PATCH}:
            body = await read_body(request, limit, grow)
            return UpdateRequest(body=body, media_type=media_type, given=given)
        if media_type == FORM:
            # A form may encode each byte as three.
            raw = await read_body(request, limit * 3, grow)
            form = await asyncio.to_thread(form_of, raw) if len(raw) > LONG_TEXT else form_of(raw)
            body = only(form, UPDATE).encode()
            given = merged(given, form)
            refuse_others(given, (UPDATE, *PARAMETERS))
            if len(body) > limit:
                raise TooLarge(too_large(limit))
            return UpdateRequest(body=body, media_type=SPARQL_UPDATE, given=given)
        raise UnsupportedMediaType(
            f"an update comes as {SPARQL_UPDATE}, as {PATCH} or as {FORM} with 'update';"
            f" this is '{media_type or 'nothing'}'"
        )


def _is_dry(given: Sequence[str]) -> bool:
    """Return whether nothing must be logged; a value that is not understood must not become a write."""
    if any(value not in {"true", "false"} for value in given) or len(set(given)) > 1:
        raise UserError(f"{DRY_RUN} is true or false, not {' and '.join(given)}")
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
