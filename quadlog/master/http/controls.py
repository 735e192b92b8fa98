"""`PUT` and `DELETE /controls/{name}`: conditions that must hold after every transaction, agreed like transactions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from quadlog.core.effects.control import MEDIA_TYPES, check, options_of
from quadlog.core.model import TransactionKind
from quadlog.errors import UnsupportedMediaType, UserError
from quadlog.web.http_body import media_type_of, read_body, text_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.clients.body_budget import BodyBudget
    from quadlog.master.http.proposals import Proposals
    from quadlog.settings import MasterSettings


async def change_control(
    request: Request, *, proposals: Proposals, settings: MasterSettings, body_budget: BodyBudget
) -> Response:
    """Set or delete a control; answer 204 when the change is agreed and applied by a worker here.

    Raises:
        UserError: definite; nothing was logged.
        Unavailable: definite; nothing was logged.

    """
    if request.query_params:
        raise UserError(f"controls take no parameters: {', '.join(request.query_params)}")
    with body_budget.lease() as grow:
        media_type = media_type_of(request)
        kind = MEDIA_TYPES.get(media_type) if request.method == "PUT" else None
        options = options_of(request.path_params["name"], kind)
        body = await read_body(request, settings.max_transaction_size, grow)
        if kind is not None:
            await asyncio.to_thread(check, kind, text_of(body))
        elif request.method == "PUT":
            message = f"a control comes as {' or as '.join(MEDIA_TYPES)}; this is '{media_type or 'nothing'}'"
            raise UnsupportedMediaType(message)
        elif body:
            raise UserError("a control is deleted by its name: the request has no body")
        return await proposals.answer(
            request,
            proposals.id_of(request),
            body=body,
            media_type=media_type,
            options=options,
            kind=TransactionKind.CONFIG,
        )
