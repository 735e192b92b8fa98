"""HTTP interface of a worker for seeds: receives a seed, or sends one to another worker that lacks it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.errors import NoSuchSeed, Unavailable, UserError
from quadlog.snapshots.store_archive import ArchiveManifest, pieces_of, rechunk
from quadlog.worker.seeds.local_seeds import files_near, is_seen, place_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from quadlog.worker.seeds.seedbed import Seedbed, SeedDraft


class SeedDoor:
    """Handlers of `PUT /seed`, `PUT /seed?near=…`, `GET /seed?signature=…` and `GET /seed/near?…`."""

    def __init__(self, bed: Seedbed) -> None:
        self._bed = bed

    def status(self) -> dict[str, Any]:
        """Return the signatures of the seeds that are kept here, and the place of the worker's directory."""
        return {"seeds": self._bed.kept(), "place": place_of(self._bed.data_dir)}

    async def near(self, request: Request) -> Response:
        """Answer whether the place of another worker is visible from here."""
        found = await asyncio.to_thread(is_seen, dict(request.query_params))
        return JSONResponse({"near": found})

    async def put(self, request: Request) -> Response:
        """Keep a seed, from the body or from a neighbour's place; it is used when the log begins with it.

        Raises:
            UserError: it did not arrive completely.
            NotEmpty: this log does not begin with it.
            Unavailable: it cannot be read or written.

        """
        label, near = ArchiveManifest.of(request.headers), request.query_params.get("near")
        draft = await asyncio.to_thread(self._bed.begin, label)
        if draft is None:
            async for _ in request.stream():
                pass
        else:
            # Piece by piece in both cases: this process may have to end in the middle.
            try:
                if near is None:
                    await self._take(request.stream(), draft)
                else:
                    async for _ in iterate_in_threadpool(draft.copy(files_near(Path(near), label.signature))):
                        pass
            except OSError as error:
                raise Unavailable(f"the seed cannot be read or written: {error}") from error
            finally:
                await asyncio.to_thread(draft.close)
        return JSONResponse({"seeds": self._bed.kept()}, HTTPStatus.CREATED)

    async def _take(self, stream: AsyncIterator[bytes], draft: SeedDraft) -> None:
        try:
            async for piece in rechunk(stream):
                await asyncio.to_thread(draft.feed, piece)
        except ClientDisconnect as error:
            raise UserError(
                "the sender of the seed disconnected before its end: nothing of it is kept"
            ) from error
        await asyncio.to_thread(draft.end)

    async def get(self, request: Request) -> Response:
        """Send a seed that is kept here.

        Raises:
            NoSuchSeed: no seed of this signature is kept here.

        """
        signature = request.query_params.get("signature", "")
        found = await asyncio.to_thread(self._bed.find, signature)
        if found is None:
            raise NoSuchSeed(f"no seed with the signature {signature[:16]}… is kept here")
        label, files = found
        headers = label.headers() | {"Content-Length": str(label.size)}
        return StreamingResponse(iterate_in_threadpool(pieces_of(files)), headers=headers)
