"""LOAD: what a real server says, as pyoxigraph's own ``update`` stores it, within limits and beside everything else."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pyoxigraph as ox
import pytest
from pyoxigraph import Store

from quadlog.core.records import Outcome
from quadlog.worker.replica.replica import DocumentsLoaded
from tests.support.web import Web, running_web
from tests.support.workers.loads import Pair, wait_for_effects
from tests.support.workers.updates import same, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from tests.support.workers.rehearsal import Worker

TURTLE = b"""
@prefix x: <urn:x:> .
<s> x:p <>, <#f>, 01, 'x'@EN, "1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>, _:b, [ x:q _:b ; x:q [] ] .
_:b x:p ( 1 _:c [] ), <<( _:b x:q 007 )>> .
_:c x:p true .
"""
DOCUMENTS = {
    "/all.ttl": ("text/turtle; charset=utf-8", TURTLE),
    "/none.ttl": ("text/turtle", b""),
    "/lines.nt": ("application/n-triples", b'<urn:s> <urn:p> "x" .\n_:a <urn:p> _:b .'),
    "/quads.nq": ("application/n-quads", b"<urn:s> <urn:p> _:b ."),
    "/x.rdf": (
        "application/rdf+xml",
        b"""<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">
        <r:Description r:about="a"><x:p r:parseType="Resource"><x:q>1</x:q></x:p></r:Description></r:RDF>""",
    ),
    "/x.jsonld": ("application/ld+json", b'{"@id": "urn:s", "urn:p": [{"urn:q": 1}, {"@id": "y"}]}'),
}
WRONG = {
    "/named.trig": ("application/trig", b"<urn:g> { <urn:s> <urn:p> 1 }"),
    "/page.html": ("text/html", b"<html>"),
    "/open.ttl": ("text/turtle", b"<urn:s> <urn:p> 1 . <urn:s> "),
    "/wrong.nt": ("application/n-triples", b"<urn:s> <urn:p> 1 ."),
}


@pytest.fixture
def web() -> Iterator[Web]:
    with running_web() as web:
        web.documents |= DOCUMENTS | WRONG
        yield web


@pytest.mark.parametrize("path", [*DOCUMENTS, *WRONG, "/none"])
def test_what_is_loaded_is_what_pyoxigraph_loads(tmp_path: Path, web: Web, path: str) -> None:
    pair, twin = Pair(tmp_path, load_from=f"{web.url}/"), Store()
    for into in ("", " INTO GRAPH <urn:g>"):
        for silent in ("", "SILENT "):
            text = f"LOAD {silent}<{web.url}{path}>{into}"
            runs = True
            try:
                twin.update(text)
            except (OSError, RuntimeError, SyntaxError):
                runs = False
            effect = pair.run(f"INSERT DATA {{ <urn:before> <urn:p> 1 }} ; {text}")
            assert runs is (effect.outcome is Outcome.APPLIED), (text, effect.reason)
            if runs:
                twin.update("INSERT DATA { <urn:before> <urn:p> 1 }")
            same(pair.following, twin)
    assert web.asked.count(path) == 8  # four each: once for one LOAD, by one worker


def test_what_is_not_allowed_is_not_fetched(tmp_path: Path, web: Web) -> None:
    inside = f"{web.url}/open/"
    web.documents = {"/open/a.ttl": DOCUMENTS["/all.ttl"], "/shut/a.ttl": DOCUMENTS["/all.ttl"]}
    web.redirects = {"/open/away": f"{web.url}/shut/a.ttl", "/open/round": f"{inside}a.ttl"}
    pair = Pair(tmp_path, load_from=inside)
    port = web.port
    for iri in (
        f"{web.url}/shut/a.ttl",
        f"{web.url}/open/../shut/a.ttl",
        f"{web.url}/open/%2e%2E/shut/a.ttl",
        f"{web.url}/open/x%2F..%2f../shut/a.ttl",
        f"{web.url}/open/..;x/shut/a.ttl",
        f"{web.url}/open/%252e%252e/shut/a.ttl",
        f"http://127.0.0.1:{port + 1}/open/a.ttl",
        f"http://127.0.0.1:{port}@127.0.0.1:{port}/open/a.ttl",
        f"https://127.0.0.1:{port}/open/a.ttl",
        f"http://127.0.0.1:{port}0/open/a.ttl",
        f"http://localhost:{port}/open/a.ttl",
        f"file://127.0.0.1:{port}/open/a.ttl",
        f"urn:{inside}a.ttl",
    ):
        effect = pair.run(f"LOAD <{iri}>")
        assert effect.outcome is Outcome.REJECTED
        assert "load-from" in (effect.reason or ""), effect.reason
        assert pair.run(f"LOAD SILENT <{iri}> INTO GRAPH <urn:g>").outcome is Outcome.APPLIED
    assert web.asked == []
    assert "load-from" in (pair.run(f"LOAD <{inside}away>").reason or "")
    assert web.asked == ["/open/away"]
    assert not state_of(pair.following)[0]
    assert pair.run(f"LOAD <{inside}round>").outcome is Outcome.APPLIED
    assert f"<{inside}s>" in "".join(state_of(pair.following)[0])


def test_without_the_setting_nothing_is_fetched(tmp_path: Path, web: Web) -> None:
    assert "load-from" in (Pair(tmp_path).run(f"LOAD <{web.url}/all.ttl>").reason or "")
    assert web.asked == []


def test_redirects_come_to_an_end(tmp_path: Path, web: Web) -> None:
    web.redirects = {"/a": "/b", "/b": "/a", "/bad": "http://h:x/", "/1": "/2", "/2": "all.ttl"}
    pair = Pair(tmp_path, load_from=f"{web.url}/")
    assert "redirects" in (pair.run(f"LOAD <{web.url}/a>").reason or "")
    assert "Invalid URL" in (pair.run(f"LOAD <{web.url}/bad>").reason or "")
    too_long = pair.run(f"LOAD <{web.url}/{'x' * 3_000_000}>")
    assert (too_long.outcome, len(too_long.reason or "")) == (Outcome.REJECTED, 2_000)
    assert pair.run(f"LOAD <{web.url}/1>").outcome is Outcome.APPLIED


def test_size_is_that_of_all_documents_together(tmp_path: Path, web: Web) -> None:
    web.documents = {f"/{n}": ("text/turtle", b"# " + b"x" * n) for n in (400, 1022, 1023)}
    pair = Pair(tmp_path, load_from=f"{web.url}/", max_transaction_size=1024)
    assert pair.run(f"LOAD <{web.url}/1022>").outcome is Outcome.APPLIED
    two, one = (f"LOAD <{web.url}/{n}>" for n in (400, 1023))
    for text in (one, f"{two} ; {two} ; {two}"):
        assert "max-transaction-size" in (pair.run(text).reason or "")
    assert pair.run(f"{two} ; {two}").outcome is Outcome.APPLIED


def test_what_is_written_short_may_not_be_too_long(tmp_path: Path, web: Web) -> None:
    """A prefix of 200 bytes makes 40,000 of 1,000."""
    text = f"@prefix x: <urn:{'x' * 200}:> . x:s x:p " + ", ".join(f"x:{n}" for n in range(100)) + "."
    web.documents["/short"] = ("text/turtle", text.encode())
    for size, outcome in ((4_096, Outcome.REJECTED), (16_384, Outcome.APPLIED)):
        path = tmp_path / str(size)
        pair = Pair(path, load_from=f"{web.url}/", max_transaction_size=size)
        assert pair.run(f"LOAD <{web.url}/short>").outcome is outcome


def _drip(request: BaseHTTPRequestHandler) -> None:
    """Headers that never end, a byte at a time: no wait for one of them is long."""
    try:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000:
            request.wfile.write(bytes([byte]))
            time.sleep(0.02)
    except OSError:
        request.close_connection = True


@pytest.mark.waits
def test_time_is_that_of_all_documents_together(tmp_path: Path, web: Web) -> None:
    web.special["/drip"] = _drip
    pair = Pair(tmp_path, load_from=f"{web.url}/", load_timeout=0.4)
    began = time.monotonic()
    text = f"LOAD SILENT <{web.url}/all.ttl> ; LOAD <{web.url}/drip> ; LOAD SILENT <{web.url}/all.ttl>"
    assert "load-timeout" in (pair.run(text).reason or "")
    assert 0.4 < time.monotonic() - began < 2


XML = b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">'
KILLERS = {
    "triple terms": (
        "text/turtle",
        b"<urn:s> a " + b"<<( <urn:s> a " * 20_000 + b"1" + b")>>" * 20_000 + b".",
    ),
    "deep triple terms": (
        "text/turtle",
        b"<urn:s> a " + b"<<( <urn:s> a " * 500 + b"1" + b")>>" * 500 + b".",
    ),
    "objects": ("application/ld+json", b'{"urn:p":' * 20_000 + b"1" + b"}" * 20_000),
    "lists": ("application/ld+json", b'{"urn:p":' + b'{"@list":[' * 20_000 + b"1" + b"]}" * 20_000 + b"}"),
    "elements": (
        "application/rdf+xml",
        XML + b"<r:Description><x:p>" * 200_000 + b"</x:p></r:Description>" * 200_000 + b"</r:RDF>",
    ),
}


@pytest.mark.parametrize("document", KILLERS.values(), ids=KILLERS)
def test_what_kills_or_hangs_its_reader_is_rejected(
    tmp_path: Path, web: Web, document: tuple[str, bytes]
) -> None:
    web.documents["/killer"] = document
    pair = Pair(tmp_path, load_from=f"{web.url}/", load_timeout=2)
    began = time.monotonic()
    effect = pair.run(f"INSERT DATA {{ <urn:s> <urn:p> 1 }} ; LOAD <{web.url}/killer>")
    assert effect.outcome is Outcome.REJECTED
    assert time.monotonic() - began < 6
    assert pair.run("INSERT DATA { <urn:s> <urn:p> 1 }").outcome is Outcome.APPLIED


def test_while_it_loads_everything_else_goes_on(tmp_path: Path, web: Web) -> None:
    """What is decided is applied and read; only evaluation waits, and goes on in the order of the log."""
    free = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        free.wait(20)
        del web.special["/slow"]
        web.documents["/slow"] = ("text/turtle", b"<urn:s> <urn:loaded> 1 .")
        web.answer(request)

    web.special["/slow"] = answer
    pair = Pair(tmp_path, load_from=f"{web.url}/")
    worker, log = pair.evaluating, pair.log
    log.agree("INSERT DATA { <urn:s> <urn:first> 1 }")
    log.agree(f"LOAD <{web.url}/slow>")
    log.agree("INSERT { ?s <urn:after> ?o } WHERE { ?s <urn:loaded> ?o }")
    worker.catch_up()
    assert len(log.effects()) == worker.store.applied.index == 1
    assert b"true" in b"".join(_ask(worker, "ASK { ?s <urn:first> 1 }"))
    assert not worker.replica._more  # it does not look again and again
    free.set()
    assert isinstance(worker.replica._inbox.get(timeout=20), DocumentsLoaded)  # this wakes it
    worker.turn()
    assert len(log.effects()) == 3
    worker.catch_up()
    assert b"true" in b"".join(_ask(worker, "ASK { ?s <urn:after> 1 }"))


def test_a_successor_loads_anew_and_the_first_effect_counts(tmp_path: Path, web: Web) -> None:
    gate = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        number = web.asked.count("/changing")
        if number == 1:
            gate.wait(20)
        web.documents[f"/{number}"] = ("text/turtle", f"<urn:s> <urn:p> {number} .".encode())
        request.path = f"/{number}"
        web.answer(request)

    web.special["/changing"] = answer
    pair = Pair(tmp_path, load_from=f"{web.url}/")
    pair.log.agree(f"LOAD <{web.url}/changing>")
    pair.evaluating.catch_up()
    while not web.asked:
        time.sleep(0.005)
    pair.following.catch_up()
    pair.following.take_over()
    # Its predecessor may have died of it: it is tried in a process of its own, and loaded there.
    wait_for_effects(pair.following, 1)
    gate.set()
    pair.evaluating.catch_up()
    pair.following.catch_up()
    assert state_of(pair.evaluating) == state_of(pair.following)
    assert len(state_of(pair.following)[0]) == 1


def test_nodes_of_two_loads_are_not_the_same(tmp_path: Path, web: Web) -> None:
    pair = Pair(tmp_path, load_from=f"{web.url}/")
    load = f"LOAD <{web.url}/lines.nt>"
    pair.run(f"{load} ; {load}")
    pair.run(load)
    nodes = {
        str(quad.subject) for quad in ox.parse("\n".join(state_of(pair.following)[0]), ox.RdfFormat.N_QUADS)
    }
    assert len(nodes) == 1 + 3


def _ask(worker: Worker, query: str) -> list[bytes]:
    class Output:
        def __init__(self) -> None:
            self.pieces: list[bytes] = []

        def write(self, piece: bytes) -> int:
            self.pieces.append(bytes(piece))
            return len(piece)

        def flush(self) -> None:
            pass

    output = Output()
    worker.store.query(query).write_to(output)
    return output.pieces
