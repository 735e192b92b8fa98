"""`/cluster/peers`: the masters that agree on the order, by the agreed log, and changes of them.

    GET     /cluster/peers        every master that the settings or the log name
    POST    /cluster/peers        {"id", "dc"}: add one
    DELETE  /cluster/peers/{id}   remove one; with ?survivor=…, all but those, where no majority is left

A change is an entry of the log.  A change that could not take effect, or would leave a master behind that
cannot hear the new one, is refused before it is logged.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import JSONResponse

from quadlog.clock import now
from quadlog.core.membership.electorate import options_of
from quadlog.errors import NoSuchPeer, PeersStay, Unavailable, UserError
from quadlog.master.clients.write_guards import refuse_writes, role_of, roles_of, urls_of, voting_of
from quadlog.master.http.status import is_silent
from quadlog.settings import Role
from quadlog.web.http_body import parameters_of, read_query
from quadlog.web.http_parameters import refuse_others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.http.introduction import Introduction
    from quadlog.master.http.proposals import Proposals
    from quadlog.master.node.node import Node
    from quadlog.settings import MasterSettings


class PeersHandler:
    """Lists and changes the peers.  Used on the server's loop only."""

    def __init__(
        self,
        node: Node,
        proposals: Proposals,
        settings: MasterSettings,
        dc_of: Mapping[str, str],
        introduction: Introduction,
    ) -> None:
        """`dc_of`: data centre of each master that the settings name."""
        self._node, self._proposals, self._settings = node, proposals, settings
        self._dc_of, self._urls = dc_of, urls_of(settings)
        self._voting, self._roles = voting_of(settings), roles_of(settings)
        self._introduction: Final = introduction

    # --- listing ----------------------------------------------------------------------------------------

    async def listed(self, request: Request) -> Response:
        """Return all masters, as this master knows them."""
        del request
        return JSONResponse(self._answer(), headers={"Cache-Control": "no-store"})

    def _answer(self) -> dict[str, Any]:
        cluster, settings = self._node.cluster, self._settings
        dc_of = {**self._dc_of} | {peer.node: peer.dc for peer in cluster.peers}
        return {
            "node": settings.node_id,
            "dc": settings.dc,
            "role": role_of(cluster, settings),
            "peers": [self._entry(name, dc) for name, dc in sorted(dc_of.items())],
        }

    def _entry(self, name: str, dc: str) -> dict[str, Any]:
        cluster = self._node.cluster
        return {
            "id": name,
            "dc": dc,
            "url": self._urls.get(name),
            "peer": self._is_peer(name),
            "decided": name not in cluster.undecided,
            "voting": self._voting.get(name, False),
            "role": self._roles.get(name),
            "reachable": name == cluster.node or not is_silent(self._node, name, now().steady),
        }

    def _is_peer(self, name: str) -> bool:
        return any(peer.node == name for peer in self._node.cluster.peers)

    # --- changes ----------------------------------------------------------------------------------------

    async def add(self, request: Request) -> Response:
        """Make a master a peer; answer 200 when the change is agreed.

        Raises:
            NoSuchPeer: the settings of this master do not name it.
            UserError: the settings name another data centre for it, or the body is malformed.
            PeersStay: it is a peer already, or the settings of another master contradict the change.
            Unavailable: definite; nothing was logged: a peer or the new master cannot be reached.

        """
        refuse_others(parameters_of(request), ())
        name, dc = _named_in(await read_query(request))
        transaction_id = self._proposals.id_of(request)
        if not self._node.knows(transaction_id):
            self._check_place()
            await self._check_new(name, dc)
        return await self._change(request, transaction_id, name, dc=dc)

    async def remove(self, request: Request) -> Response:
        """Remove a peer, or all peers but the named survivors; answer 200 when the change is agreed.

        Raises:
            NoSuchPeer: the master, or a survivor, is not a peer.
            PeersStay: it is the last peer that accepts writes; or it serves, and others of its data centre
                remain; or the survivors are not exactly the members that are together here, or the view here
                is a majority.
            Unavailable: definite; nothing was logged.

        """
        refuse_others(parameters_of(request), ("survivor",))
        if await read_query(request):
            raise UserError(
                "a peer is removed by its id in the path: the request has no body; nothing was logged"
            )
        name, survivors = request.path_params["id"], frozenset(request.query_params.getlist("survivor"))
        transaction_id = self._proposals.id_of(request)
        if not self._node.knows(transaction_id):
            if survivors:
                self._check_left(name, survivors)
            else:
                self._check_place()
                self._check_gone(name)
        return await self._change(request, transaction_id, name, is_forced=bool(survivors))

    async def _change(
        self,
        request: Request,
        transaction_id: bytes,
        name: str,
        *,
        dc: str = "",
        is_forced: bool = False,
    ) -> Response:
        """Submit the change, and return its outcome once it is agreed."""
        options = options_of(name, dc, left=self._node.cluster.view if is_forced else None)
        answer = await self._proposals.configure(request, transaction_id, options)
        if answer.status_code != HTTPStatus.NO_CONTENT:
            return answer
        told = {header: answer.headers[header] for header in ("Quadlog-Tx", "Quadlog-Index")}
        if self._is_peer(name) != bool(dc):
            raise PeersStay(
                f"it was agreed at {told['Quadlog-Index']}, and {name} is {'not ' * bool(dc)}a peer all the same: it is"
                " the last one, or another change came since; see GET /cluster/peers"
            )
        return JSONResponse(self._answer(), headers=told)

    def _check_place(self) -> None:
        """Check that an entry submitted here can change the peers.

        Raises:
            Unavailable: it cannot.

        """
        cluster = self._node.cluster
        refuse_writes(cluster, self._settings)
        if not cluster.has_majority:
            members = cluster.view.names
            raise Unavailable(
                f"the view of this master ({members}) is no majority of the peers, and only one changes them; nothing"
                " was logged. Ask a master of the majority, or again when the split is over",
                retry_after=30,
            )

    def _check_gone(self, name: str) -> None:
        peers = self._node.cluster.peers
        dc = next((peer.dc for peer in peers if peer.node == name), None)
        if dc is None:
            raise NoSuchPeer(f"{name} is not a peer: see GET /cluster/peers; nothing was logged")
        if not any(peer.node != name and self._roles.get(peer.node) is not Role.READ_ONLY for peer in peers):
            raise PeersStay(
                f"{name} is the only peer that takes writes: nobody would any more; nothing was logged"
            )
        if sum(peer.dc == dc for peer in peers) > 1 and not is_silent(self._node, name, now().steady):
            raise PeersStay(
                f"{name} serves, and {dc} has other masters, with which it shares topics: stop it first, and leave it"
                " stopped; nothing was logged"
            )

    def _check_left(self, name: str, survivors: frozenset[str]) -> None:
        """Check that exactly the survivors are left, so that an operator may decide for the other peers.

        Raises as `remove` does.
        """
        cluster = self._node.cluster
        refuse_writes(cluster, self._settings)
        view, known = cluster.view, {peer.node for peer in cluster.peers}
        if strangers := sorted({name, *survivors} - known):
            raise NoSuchPeer(f"{', '.join(strangers)}: no peer; see GET /cluster/peers; nothing was logged")
        if cluster.has_majority:
            raise PeersStay(
                f"the view of this master ({', '.join(view.members)}) is a majority: remove {name} without naming"
                " survivors; nothing was logged"
            )
        heard = [one for one in sorted(known - survivors) if not is_silent(self._node, one, now().steady)]
        if heard:
            raise PeersStay(
                f"{', '.join(heard)} is heard, so it is not gone: stop it, and leave it stopped; nothing was logged"
            )
        if survivors.symmetric_difference(view.members) or name in survivors or view.blank:
            raise PeersStay(
                f"the members of this view are {', '.join(view.members)}, and the request says that just"
                f" {', '.join(sorted(survivors))} are left: name all that are, and no others; a lost master must be"
                " given up first (max-peer-lag), and one that lost its disk does not count; nothing was logged"
            )

    async def _check_new(self, name: str, dc: str) -> None:
        """Check that the new master and all peers know each other's data centres.

        Raises as `add` does.
        """
        if self._roles.get(name) is Role.MUTED:
            raise PeersStay(
                f"{name} is muted by the settings of {self._settings.node_id}: it never votes. Give it another role in"
                " the settings of every master first; nothing was logged"
            )
        if name not in self._dc_of:
            raise NoSuchPeer(
                f"the settings of {self._settings.node_id} do not name {name}: add peer.N.id, .dc, .url, .kafka and"
                " .voting = false of it to the settings of every master, and start them again one by one; nothing was"
                " logged"
            )
        if self._dc_of[name] != dc:
            raise UserError(
                f"{name} is in {self._dc_of[name]} by the settings, not in {dc}; nothing was logged"
            )
        if self._is_peer(name):
            raise PeersStay(f"{name} is a peer already: see GET /cluster/peers; nothing was logged")
        await self._introduction.check(name, dc, self._answer())


def _named_in(body: bytes) -> tuple[str, str]:
    """Return the id and the data centre that a body names.

    >>> _named_in(b'{"id": "m4", "dc": "dc4"}')
    ('m4', 'dc4')
    """
    try:
        said = _PeersForm.model_validate_json(body)
    except ValidationError as error:
        message = 'the body is {"id": "…", "dc": "…"}: a master, and its data centre; nothing was logged'
        raise UserError(message) from error
    return said.id, said.dc


class _PeersForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(min_length=1)]
    dc: Annotated[str, Field(min_length=1)]
