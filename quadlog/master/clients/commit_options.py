"""How a client asks for a synchronous or lazy transaction, and what the answer says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.synchronous import COMMIT_MODE, CommitMode
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.master.clients.pending_requests import TxAnswer

HEADER: Final = "Quadlog-Commit"
DURABILITY: Final = "Quadlog-Durability"
IS_SYNC: Final = "is_sync"
IS_LAZY: Final = "is_lazy"
PARAMETERS: Final = (IS_SYNC, IS_LAZY)
"""Parameters of a write, in the URL or in a form."""


def commit_options(request: Request, given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the options of a transaction for how it is committed; none for the default.

    Args:
        request: the request, whose header counts.
        given: values of its parameters, by name.

    Raises:
        UserError: a value is not understood, or two contradict each other.

    """
    modes = {_mode_of(value) for value in request.headers.getlist(HEADER)}
    modes |= {CommitMode.SYNC for value in given.get(IS_SYNC, ()) if _is_true(IS_SYNC, value)}
    modes |= {CommitMode.LAZY for value in given.get(IS_LAZY, ()) if _is_true(IS_LAZY, value)}
    refused = {CommitMode.SYNC for value in given.get(IS_SYNC, ()) if not _is_true(IS_SYNC, value)}
    refused |= {CommitMode.LAZY for value in given.get(IS_LAZY, ()) if not _is_true(IS_LAZY, value)}
    if len(modes) > 1 or modes & refused:
        raise UserError(
            f"{HEADER}, {IS_SYNC} and {IS_LAZY} contradict each other: send one of them; nothing was logged"
        )
    mode = next(iter(modes), CommitMode.DEFAULT)
    return {} if mode is CommitMode.DEFAULT else {COMMIT_MODE: mode.value}


def _mode_of(value: str) -> CommitMode:
    try:
        return CommitMode(value.strip().lower())
    except ValueError:
        known = ", ".join(CommitMode)
        raise UserError(f"{HEADER} is one of {known}, not {value[:100]!r}; nothing was logged") from None


def _is_true(name: str, value: str) -> bool:
    if value not in {"true", "false"}:
        raise UserError(f"{name} is true or false, not {value[:100]!r}; nothing was logged")
    return value == "true"


def commit_headers(options: Mapping[str, str], cluster: ClusterView, answer: TxAnswer) -> dict[str, str]:
    """Return the headers of an answer that tell how a transaction was committed, and how many data centres have it.

    `options` are those of the transaction, `answer` is its place in the log.
    """
    centres = {peer.node: peer.dc for peer in cluster.peers}
    members = answer.members or cluster.view.members
    durable = 1 if answer.index is None else len({centres[name] for name in members if name in centres})
    return {
        HEADER: CommitMode.SYNC if answer.is_synchronous else options.get(COMMIT_MODE, CommitMode.DEFAULT),
        DURABILITY: f"{durable} of {len(set(centres.values()))} data centres",
    }
