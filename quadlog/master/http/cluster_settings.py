"""`/cluster/settings`: the settings that all masters share, and changes of them.

    GET  /cluster/settings          all of them: value, where it comes from, who set it and when
    GET  /cluster/settings/{name}   one of them
    PUT  /cluster/settings/{name}   the new value, as text or as {"value": …}

A change is an entry of the log: it counts at every master from its index on, also for what already waits.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.responses import JSONResponse

from quadlog.clock import now
from quadlog.codec.envelope import text_moment
from quadlog.core.cluster_settings import SETTINGS, VALUE, ClusterSettings, canonical, options_of
from quadlog.errors import SettingStays, UnsupportedMediaType, UserError
from quadlog.master.clients.split_state import silent_members
from quadlog.master.clients.write_guards import refuse_writes
from quadlog.web.http_body import media_type_of, parameters_of, read_query, text_of
from quadlog.web.http_parameters import refuse_others

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.http.proposals import Proposals
    from quadlog.master.node.node import Node
    from quadlog.settings import MasterSettings

JSON: Final = "application/json"
TEXT: Final = "text/plain"
STRATEGY: Final = "split-recovery"
_DEFAULTS: Final = ClusterSettings()


class ClusterSettingsHandler:
    """Lists and changes the settings that all masters share.  Used on the server's loop only."""

    def __init__(self, node: Node, proposals: Proposals, settings: MasterSettings) -> None:
        self._node, self._proposals, self._settings = node, proposals, settings

    async def listed(self, request: Request) -> Response:
        """Return all settings, as they count at this master."""
        refuse_others(parameters_of(request), ())
        answer = {"node": self._settings.node_id, "settings": [self._entry(name) for name in SETTINGS]}
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def one(self, request: Request) -> Response:
        """Return one setting.

        Raises:
            NoSuchSetting: there is none of this name.

        """
        refuse_others(parameters_of(request), ())
        entry = self._entry(canonical(request.path_params["name"]))
        return JSONResponse(entry, headers={"Cache-Control": "no-store"})

    def _entry(self, name: str) -> dict[str, Any]:
        cluster, files = self._node.cluster, self._settings
        agreed = next((one for one in cluster.standing.settings if one.name == name), None)
        is_filed = SETTINGS[name].field in files.model_fields_set
        return {
            "name": name,
            "value": cluster.settings.text(name),
            "source": "agreed" if agreed else "file" if is_filed else "default",
            "index": agreed and agreed.index,
            "at": agreed and text_moment(agreed.at),
            "by": agreed and agreed.by,
            "file": files.cluster.text(name) if is_filed else None,
            "default": _DEFAULTS.text(name),
        }

    async def change(self, request: Request) -> Response:
        """Set a setting; answer 200 when the change is agreed.

        Raises:
            NoSuchSetting: there is none of this name.
            UserError: the value is not allowed.
            SettingStays: the strategy of a split is not changed while data centres are apart.
            Unavailable: definite; nothing was logged.

        """
        refuse_others(parameters_of(request), ())
        name = canonical(request.path_params["name"])
        options = options_of(name, _value_in(request, await read_query(request)), by=_who_asks(request))
        transaction_id = self._proposals.id_of(request)
        if not self._node.knows(transaction_id):
            refuse_writes(self._node.cluster, self._settings)
            self._settings.with_cluster(self._node.cluster.settings.changed(name, options[VALUE]))
            if name == STRATEGY:
                self._refuse_apart()
        answer = await self._proposals.configure(request, transaction_id, options)
        if answer.status_code != HTTPStatus.NO_CONTENT:
            return answer
        told = {header: text for header, text in answer.headers.items() if header.startswith("quadlog-")}
        return JSONResponse(self._entry(name), headers=told)

    def _refuse_apart(self) -> None:
        """Refuse a change of the strategy unless all data centres are together.

        Raises:
            SettingStays: they are not, or a master is silent.

        """
        cluster = self._node.cluster
        absent = sorted({peer.node for peer in cluster.peers}.difference(cluster.view.members))
        silent = [one.node for one in silent_members(cluster, now().steady)]
        if absent or silent or cluster.standing.joining:
            raise SettingStays(
                f"{', '.join([*absent, *silent]) or 'this master'} is apart: {STRATEGY} stays"
                f" {cluster.settings.split_recovery} until the split is over; nothing was logged"
            )


def _value_in(request: Request, body: bytes) -> str:
    """Return the value that a body holds.

    Raises:
        UserError: the body is malformed.
        UnsupportedMediaType: it is neither text nor JSON.

    """
    media_type = media_type_of(request)
    if media_type in {TEXT, ""}:
        return text_of(body).strip()
    if media_type != JSON:
        raise UnsupportedMediaType(f"a value comes as {TEXT} or as {JSON}; this is '{media_type}'")
    try:
        said: Any = json.loads(body)
        value: Any = cast("dict[str, Any]", said)["value"] if isinstance(said, dict) else said
    except (ValueError, KeyError):
        raise UserError('the body is {"value": …} or the value; nothing was logged') from None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"a value is text or a number, not {json.dumps(value)[:100]}; nothing was logged")
    return str(value)


def _who_asks(request: Request) -> str:
    """Return who requests a change: the `From` header, or else the address of the client."""
    given = request.headers.get("from", "").strip()
    if given:
        return given[:200]
    return request.client.host if request.client else ""
