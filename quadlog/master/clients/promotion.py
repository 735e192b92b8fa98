"""`POST /cluster/promote`: has this master propose the decisions on synchronous transactions that are due.

That happens by itself: the first member of the view does it at once, any other one after two idle rounds.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from quadlog.clock import now
from quadlog.errors import NoMajority, OutcomeUnknown, UserError
from quadlog.master.clients.limbo_state import lacking, limbo_status
from quadlog.master.clients.write_guards import refuse_writes
from quadlog.web.http_body import parameters_of
from quadlog.web.http_parameters import refuse_others

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.settings import MasterSettings

TIMEOUT_S: Final = 5.0
"""Seconds to wait if the request names none."""
LONGEST_S: Final = 60.0
LOOK_S: Final = 0.02
MOST_BYTES: Final = 1024
"""Maximum size of a request's body."""


async def promote(
    request: Request,
    *,
    current: Callable[[], ClusterView],
    settings: MasterSettings,
    ask: Callable[[float], None],
) -> Response:
    """Wait until everything is decided that was undecided at the time of the request.

    `current` returns the cluster as this master knows it; `ask` has it propose until a time, in steady milliseconds.

    Raises:
        UserError: the body is not understood.
        ReadOnly, NotAPeer: this master takes no writes.
        NoMajority: its view holds no majority; nothing can be decided here.
        OutcomeUnknown: something is still undecided after the time-out; it names the votes that are missing.

    """
    refuse_others(parameters_of(request), ())
    seconds = _timeout_of(await _body_of(request))
    cluster = current()
    refuse_writes(cluster, settings)
    if not cluster.has_majority:
        members = cluster.view.names
        raise NoMajority(
            f"{cluster.node} has no majority of the voting data centres (members of its view: {members}), and"
            " decides nothing: promote a master of the majority, or this one when the split is over",
            retry_after=5,
        )
    before, last = cluster.limbo.length, cluster.last.index
    until = now().steady + seconds * 1000
    ask(until)
    while (first := (cluster := current()).limbo.first) and first[0].index <= last:
        if now().steady > until:
            raise OutcomeUnknown(
                f"entry {first[0].index} and {cluster.limbo.length - 1} more are undecided after {seconds:g} s:"
                f" {lacking(cluster, first[0].index)}. What was proposed may still be decided: see limbo in"
                " /cluster/status",
                retry_after=5,
            )
        await asyncio.sleep(LOOK_S)
    status = limbo_status(cluster, now().steady)
    return JSONResponse({"decided": before, "last_decision": status["last_decision"]})


async def _body_of(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            break
    return body


def _timeout_of(body: bytes) -> float:
    if not body:
        return TIMEOUT_S
    try:
        given = json.loads(body)
        seconds = given.pop("timeout_s", TIMEOUT_S)
        is_known = not given and type(seconds) in {int, float} and 0 < seconds <= LONGEST_S
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        is_known, seconds = False, 0.0
    if not is_known:
        raise UserError(f'the body is empty or {{"timeout_s": seconds}}, above 0 and at most {LONGEST_S:g}')
    return float(seconds)
