"""`/cluster/splits`: the reports of splits that are over, as this master has them.

GET    /cluster/splits          what each of them found in total, what is being made, and what failed
GET    /cluster/splits/{name}   one of them, as JSON, HTML or Turtle; or the net change of its branches, as RDF Patch
DELETE /cluster/splits/{name}   removes it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.clock import now
from quadlog.errors import NoSuchReport
from quadlog.quadstore.quadquery import negotiate
from quadlog.web.http_body import parameters_of
from quadlog.web.http_parameters import refuse_others

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from starlette.requests import Request

    from quadlog.master.split_reports.split_reporter import SplitReporter

SUFFIXES: Final = {
    "application/json": "json",
    "text/html": "html",
    "text/turtle": "ttl",
    "application/rdf-patch": "rdfp",
}
"""Suffix of the file of each media type; the first one is the default."""
PATH: Final = "/cluster/splits"
PIECE: Final = 64 * 1024
"""Bytes that are read at once."""


class SplitsHandler:
    """Lists and sends reports.  Used on the server's loop only; files are read in other threads."""

    def __init__(self, reporter: SplitReporter, node: str, dc: str) -> None:
        """`reporter` has the reports; `node` and `dc`: this master and its data centre."""
        self._reporter = reporter
        self._node, self._dc = node, dc

    async def listed(self, request: Request) -> Response:
        """Return all of them."""
        refuse_others(parameters_of(request), ())
        found = self._reporter.listed(now().steady)
        answer = {
            "node": self._node,
            "dc": self._dc,
            "is_reporter": self._reporter.is_reporter,
            **found,
            "reports": [_linked(one) for one in reversed(found["reports"])],
        }
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def one(self, request: Request) -> Response:
        """Send one of them in the format that the client prefers.

        Raises:
            NoSuchReport: there is none of this name.

        """
        refuse_others(parameters_of(request), ())
        media_type = negotiate(request.headers.get("accept", "*/*"), tuple(SUFFIXES))
        name = request.path_params["name"]
        path, size = await to_thread.run_sync(self._found, name, SUFFIXES[media_type])
        headers = {
            "Content-Length": str(size),
            "Content-Type": media_type
            if media_type == "application/json"
            else f"{media_type}; charset=utf-8",
            "Vary": "Accept",
            "Cache-Control": "no-store",
        }
        return StreamingResponse(iterate_in_threadpool(_pieces(path)), headers=headers)

    async def drop(self, request: Request) -> Response:
        """Remove one of them.

        Raises:
            NoSuchReport: there is none of this name.

        """
        refuse_others(parameters_of(request), ())
        await to_thread.run_sync(self._reporter.drop, request.path_params["name"])
        return Response(status_code=204)

    def _found(self, name: str, suffix: str) -> tuple[Path, int]:
        """Return the path of a file of a report, and its size, which does not change."""
        path = self._reporter.files.file(name, suffix)
        try:
            return path, path.stat().st_size
        except OSError as error:
            raise NoSuchReport(f"the report {name} cannot be read: {error.strerror}") from error


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _linked(summary: Mapping[str, Any]) -> dict[str, Any]:
    url = f"{PATH}/{summary['name']}"
    return {**summary, "links": dict.fromkeys(SUFFIXES, url)}
