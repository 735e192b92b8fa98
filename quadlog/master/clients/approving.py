"""`POST /cluster/splits/approve`: approves that a side gives way to a stronger one, or that others give way to it.

The body is `{"plan": …, "index": …, "chain": …, "drop": […]}`: the plan hash of a preview, the last entry of this side
as the preview has it, and the ids of the updates that are dropped.  The approval is an entry of this side's log, and
counts if it directly follows that entry.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from quadlog.core.approval import LONGEST_DROP, Approval
from quadlog.core.cluster_settings import SplitApproval
from quadlog.core.model import HASH_SIZE, LogPosition, hash_of
from quadlog.errors import PlanOutdated, UnsupportedMediaType, UserError
from quadlog.master.clients.write_guards import refuse_writes
from quadlog.web.http_body import media_type_of, parameters_of, read_query
from quadlog.web.http_parameters import refuse_others

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.settings import MasterSettings

JSON: Final = "application/json"
LOOK_S: Final = 0.02
ID_SIZE: Final = 16
SHAPE: Final = (
    'the body is {"plan": "64 hexadecimal digits", "index": number, "chain": "64 hexadecimal digits", "drop": [ids]},'
    f" with at most {LONGEST_DROP} ids of 32 hexadecimal digits; nothing was logged"
)


async def approve(
    request: Request,
    *,
    current: Callable[[], ClusterView],
    settings: MasterSettings,
    index_of: Callable[[bytes], int | None],
    propose: Callable[[Request, bytes, Mapping[str, str]], Awaitable[Response]],
) -> Response:
    """Answer 200 once the approval is agreed, with the index of its entry.

    A repeated request has the same answer.

    `current` returns the cluster as this master knows it; `index_of` the index at which a transaction was agreed, also
    on a branch that has ended; `propose` submits a CONFIG transaction for a request, and waits for its outcome.

    Raises:
        UserError: the body is not understood.
        PlanOutdated: this side has moved on, or nothing has to be approved.
        Unavailable: definite; nothing was logged.

    """
    refuse_others(parameters_of(request), ())
    if media_type_of(request) != JSON:
        raise UnsupportedMediaType(f"an approval comes as {JSON}")
    approval = approval_of(await read_query(request))
    options = approval.options
    transaction_id = hash_of(b"split-approval", json.dumps(options, sort_keys=True).encode())[:ID_SIZE]
    if index_of(transaction_id) is None:
        _refuse(approval, current(), settings)
    offered = asyncio.ensure_future(propose(request, transaction_id, options))
    try:
        # The side gives way as soon as it is agreed, before a worker has applied it.
        while index_of(transaction_id) is None:
            done, _ = await asyncio.wait({offered}, timeout=LOOK_S)
            if done:
                break
    finally:
        if not offered.done():
            offered.cancel()
            with suppress(asyncio.CancelledError):
                await offered
    index = index_of(transaction_id)
    if index is None:
        return offered.result()
    if index != approval.after.index + 1:
        raise PlanOutdated(
            f"this side has agreed on more after entry {approval.after.index}: the approval is entry {index} and"
            " does not count; make another preview"
        )
    told = {"approved": approval.plan.hex(), "index": index, "dropped": len(approval.drop)}
    return JSONResponse(told, HTTPStatus.OK)


def _refuse(approval: Approval, cluster: ClusterView, settings: MasterSettings) -> None:
    refuse_writes(cluster, settings)
    if cluster.settings.split_approval is not SplitApproval.MANUAL:
        raise PlanOutdated(
            "split-approval is auto: sides that hear each other come together by themselves; nothing was logged"
        )
    if {peer.node for peer in cluster.peers} <= {*cluster.view.members}:
        raise PlanOutdated("all masters are in one view: there is no split to end; nothing was logged")
    if cluster.last != approval.after:
        raise PlanOutdated(
            f"this side ends with entry {cluster.last.index} ({cluster.last.chain.hex()[:16]}…), not with"
            f" {approval.after.index} ({approval.after.chain.hex()[:16]}…) as the preview says: it has moved on;"
            " make another preview. Nothing was logged"
        )


def approval_of(body: bytes) -> Approval:
    """Return what the body of a request approves.

    Raises:
        UserError: it is malformed.

    """
    try:
        said: dict[str, Any] = json.loads(body)
        plan, chain = bytes.fromhex(said.pop("plan")), bytes.fromhex(said.pop("chain"))
        index, drop = said.pop("index"), [bytes.fromhex(one) for one in said.pop("drop", [])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(SHAPE) from None
    sizes = {len(plan), len(chain)} == {HASH_SIZE} and {len(one) for one in drop} <= {ID_SIZE}
    if said or not sizes or type(index) is not int or index < 0 or len(drop) > LONGEST_DROP:
        raise UserError(SHAPE)
    return Approval(plan, LogPosition(index, chain), frozenset(drop))
