"""Live endpoints as sources: whole, or an error and nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pyoxigraph import QueryResultsFormat, QuerySolutions, QueryTriples, RdfFormat, Store

from quadlog.errors import QuadlogError, Unavailable, UserError
from quadlog.progress import Phases
from quadlog.seed.build import build
from quadlog.seed.endpoints import Endpoint
from tests.support.web import Web, running_web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

DATA = """
<urn:a> <urn:p> "x", 1, _:b .
<urn:g> { <urn:b> <urn:p> "y"@en, _:b . }
<urn:h> { <urn:c> <urn:p> <urn:d> . }
"""


@pytest.fixture
def store() -> Store:
    held = Store()
    held.load(DATA, RdfFormat.TRIG)
    return held


@pytest.fixture
def web() -> Iterator[Web]:
    with running_web() as running:
        yield running


def said(request: BaseHTTPRequestHandler, body: bytes, media_type: str, *, announced: int = 0) -> None:
    request.send_response(200)
    request.send_header("Content-Type", media_type)
    request.send_header("Content-Length", str(announced or len(body)))
    request.end_headers()
    request.wfile.write(body)
    request.close_connection = bool(announced)


def sparql(web: Web, store: Store, *, limit: int | None = None) -> str:
    """An endpoint in front of a store; with a limit it gives that many triples and says nothing of it."""

    class Endpoint(dict[str, object]):
        def __contains__(self, path: object) -> bool:
            return str(path).startswith("/sparql")

        def __getitem__(self, path: str) -> object:
            def answer(request: BaseHTTPRequestHandler) -> None:
                [query] = parse_qs(urlsplit(path).query)["query"]
                found = store.query(query)
                if isinstance(found, QueryTriples):
                    lines = (found.serialize(format=RdfFormat.N_TRIPLES) or b"").splitlines(keepends=True)
                    said(request, b"".join(lines[:limit]), "application/n-triples")
                else:
                    assert isinstance(found, QuerySolutions)
                    body = found.serialize(format=QueryResultsFormat.JSON) or b""
                    said(request, body, "application/sparql-results+json")

            return answer

    web.special = Endpoint()  # type: ignore[assignment]
    return f"sparql+{web.url}/sparql"


def imported(name: str, tmp_path: Path) -> list[str]:
    """The shapes of the lines in what is built, with all blank nodes alike."""
    directory = tmp_path / "fetched"
    directory.mkdir()
    with httpx.Client() as client:
        sources = list(Endpoint(name, directory, client, lambda _: None).fetch())
    build(sources, tmp_path / "built", Phases(), keep_blank_nodes=False)
    return shapes(Store.read_only(str(tmp_path / "built" / "files")))


def shapes(store: Store) -> list[str]:
    return sorted(" ".join("_" if word.startswith("_:") else word for word in str(q).split()) for q in store)


def test_sparql(tmp_path: Path, web: Web, store: Store) -> None:
    assert imported(sparql(web, store), tmp_path) == shapes(store)


def test_rdf4j(tmp_path: Path, web: Web, store: Store) -> None:
    body = b"".join(f"{quad} .\n".encode() for quad in store)
    web.documents["/repositories/x/statements"] = ("application/n-quads;charset=UTF-8", body)
    assert imported(f"rdf4j+{web.url}/repositories/x", tmp_path) == shapes(store)


def test_an_endpoint_that_limits_its_answers(tmp_path: Path, web: Web, store: Store) -> None:
    with pytest.raises(Unavailable, match="gave 2 triples and counts 3"):
        imported(sparql(web, store, limit=2), tmp_path)


def test_a_transfer_that_breaks(tmp_path: Path, web: Web) -> None:
    line = b"<urn:a> <urn:b> <urn:c> .\n"
    web.special["/repositories/x/statements"] = lambda request: said(
        request, line * 100, "application/n-quads", announced=len(line) * 200
    )
    with pytest.raises(Unavailable, match="broke off"):
        imported(f"rdf4j+{web.url}/repositories/x", tmp_path)
    assert not (tmp_path / "built").exists()


@pytest.mark.parametrize("name", ["rdf4j+{}/nothing", "sparql+{}/nothing", "sparql+ftp://x", "rdf4j+{}/html"])
def test_what_is_no_endpoint(tmp_path: Path, web: Web, name: str) -> None:
    web.special["/html/statements"] = lambda request: said(request, b"<html>", "text/html")
    with pytest.raises(QuadlogError) as found:
        imported(name.format(web.url), tmp_path)
    assert isinstance(found.value, UserError), json.dumps(str(found.value))
    assert not (tmp_path / "built").exists()
