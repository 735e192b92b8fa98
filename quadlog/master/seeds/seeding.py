"""`/cluster/seed`: the seed that the log begins with, its delivery to all workers, and the agreement on it.

    GET   /cluster/seed          status here and, without `?here`, at a master of each other data centre
    PUT   /cluster/seed/files    a seed's files: to every worker here and, without `?here`, once to each data centre
    GET   /cluster/seed/files    the files again, for a data centre that lacks them
    POST  /cluster/seed          agree on it: the home's effects state that the log begins with it

The files are sent first: they have no meaning until the effects state the seed, and block no writer.  The
first record among the home's effects, the seed or the effect of an entry, decides.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from quadlog.clock import now, wall
from quadlog.core.model import HASH_SIZE
from quadlog.core.records import Seed
from quadlog.errors import OutcomeUnknown, Unavailable, UserError
from quadlog.master.clients.write_guards import refuse_writes
from quadlog.master.seeds.fan_out import TIMEOUT, message_of
from quadlog.master.seeds.seed_files import SeedFiles, refuse_other
from quadlog.web.http_body import read_query
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from starlette.requests import Request

    from producers.effects import EffectsMirror
    from quadlog.master.node.node import Node
    from quadlog.master.workers.worker_registry import Worker
    from quadlog.settings import MasterSettings

log = structlog.get_logger()

PASSED_BACK: Final = ("location", "retry-after")
SEED: Final = "/cluster/seed"
LOOK_S: Final = 0.02
"""Seconds between two checks whether the seed was received."""


class Seeding:
    """HTTP handlers for seeds.  Used in the server's loop only."""

    def __init__(self, node: Node, settings: MasterSettings, effects: EffectsMirror) -> None:
        """Prepare; `effects` writes to the local data centre's effects topic; that of the home decides."""
        self._node, self._settings, self._effects = node, settings, effects
        self._client = new_client(TIMEOUT)
        self._files = SeedFiles(node, settings, self._client)

    def routes(self) -> list[Route]:
        """Return the HTTP routes."""
        return [
            Route(SEED, self.status, methods=["GET"]),
            Route(SEED, self.agree, methods=["POST"]),
            Route("/cluster/seed/files", self._files.put, methods=["PUT"]),
            Route("/cluster/seed/files", self._files.get, methods=["GET"]),
        ]

    @property
    def _home(self) -> str:
        return self._node.cluster.view.home

    # --- status -----------------------------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        """Return for each data centre what its log begins with, and which workers keep the seed."""
        dcs = {self._settings.dc: await self._here()}
        if "here" not in request.query_params:
            others = self._files.other_dcs()
            found = await asyncio.gather(*(self._files.there(peers) for peers in others.values()))
            dcs |= dict(zip(others, found, strict=True))
        return JSONResponse({"home": self._home, "dcs": dcs}, headers={"Cache-Control": "no-store"})

    async def _here(self) -> dict[str, Any]:
        worker_registry, moment, seed = self._node.worker_registry, now().steady, self._node.seed
        workers = worker_registry.all()
        kept = await asyncio.gather(*map(self._files.kept_by, workers))
        return {
            "master": self._settings.node_id,
            "role": self._settings.role,
            "begun": self._node.has_begun,
            "seed": seed
            and {"signature": seed.signature.hex(), "quads": seed.quads, "sources": seed.sources},
            "workers": {
                worker.beat.worker: {"state": worker_registry.state(worker, moment), "keeps": keeps}
                for worker, keeps in zip(workers, kept, strict=True)
            },
        }

    async def bring(self, worker: Worker) -> None:
        """Have the seed brought to a worker that lacks it."""
        if (seed := self._node.seed) is not None:
            await self._files.bringing.bring(worker, seed.signature.hex())

    # --- agreement --------------------------------------------------------------------------------------

    async def agree(self, request: Request) -> Response:
        """Have the log begin with a seed; repeating the request has no further effect.

        Raises:
            NotEmpty: the log begins with something else.
            NotAPeer: only peers decide that.
            ReadOnly: only read-write masters decide that.
            Unavailable: no master of the home can be reached, or it has no majority; nothing was changed.
            OutcomeUnknown: the seed was published, and did not arrive in time.

        """
        refuse_writes(self._node.cluster, self._settings)
        body = await read_query(request)
        seed = _seed_of(body, by=self._settings.node_id)
        if self._settings.dc != self._home:
            return await self._agree_at_home(body)
        signature = seed.signature.hex()
        refuse_other(self._node, signature, seed.quads, may_begin=True)
        if self._node.seed is None:
            self._refuse_alone()
            await asyncio.to_thread(self._effects.publish_seed, seed)
            await self._heard()
            refuse_other(self._node, signature, seed.quads, may_begin=False)
        return JSONResponse({"signature": signature, "quads": seed.quads})

    def _refuse_alone(self) -> None:
        """Refuse in a minority: a side that gives way goes back to the common log, but no worker drops a seed.

        Raises:
            Unavailable: the view has no majority.

        """
        cluster = self._node.cluster
        if not cluster.has_majority:
            members = cluster.view.names
            raise Unavailable(
                f"the view of this master ({members}) is no majority of the peers, and only one says what the log"
                " begins with; nothing was changed. Import at a master of the majority, or again"
                " when the split is over",
                retry_after=5,
            )

    async def _heard(self) -> None:
        """Wait until the effects state what the log begins with."""
        deadline = now().steady + self._settings.request_timeout * 1000
        while self._node.seed is None and not self._node.has_effects:
            if now().steady > deadline:
                raise OutcomeUnknown(_NOT_HEARD, ask=SEED, retry_after=5)
            await asyncio.sleep(LOOK_S)

    async def _agree_at_home(self, body: bytes) -> Response:
        why = f"no master of {self._home} is known here"
        for peer in self._files.other_dcs().get(self._home, []):
            try:
                answer = await self._client.post(f"{peer.url}{SEED}", content=body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                why = f"{peer.id} of {self._home} cannot be reached: {error}"
            except httpx.HTTPError as error:
                raise OutcomeUnknown(
                    f"{_NOT_HEARD} ({type(error).__name__} {error})", ask=SEED, retry_after=5
                ) from error
            else:
                if not answer.is_success:
                    log.warning("seed_refused", reason=message_of(answer))
                place = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
                return Response(answer.content, answer.status_code, place, media_type="application/json")
        raise Unavailable(
            f"{why}; its effects say what the log begins with. Nothing was changed", retry_after=5
        )


_NOT_HEARD: Final = (
    "the seed was said and is not heard yet: it may still count. Run the same import again, it finishes"
)


def _seed_of(body: bytes, *, by: str) -> Seed:
    try:
        said = json.loads(body)
        seed = Seed(
            signature=bytes.fromhex(said["signature"]),
            quads=int(said["quads"]),
            digest=bytes.fromhex(said["digest"]),
            at=wall(),
            by=by,
            sources=tuple(map(str, said["sources"])),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise UserError('the body is {"signature", "quads", "digest", "sources"}') from error
    if not len(seed.signature) == len(seed.digest) == HASH_SIZE or seed.quads < 1:
        raise UserError(
            f"signature and digest have {HASH_SIZE} bytes each, in hex, and there is a quad at least"
        )
    return seed
