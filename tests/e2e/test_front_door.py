"""The door of every master and worker, knocked at as clients do: over HTTP, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import time
import uuid
from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

import httpx
import pytest

from quadlog import codec
from quadlog.core.model import Effect, LoggedEntry, Payload
from tests.e2e.cluster import UPDATE, Cluster, records, recount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MIB = 1024 * 1024
LIMIT = 64 * MIB
"""The default of max-transaction-size."""
HTTP = httpx.Client(timeout=60)
"""Connections that stay open: a new client for every request would be most of this file's time."""


class Door(Cluster):
    """The cluster through `HTTP`."""

    def update(self, text: str, *, master: int = 0, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return HTTP.post(f"{self.masters[master]}/update", content=text.encode(), headers=UPDATE | named)

    def status(self, master: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = HTTP.get(f"{self.masters[master]}/cluster/status").json()
        return found

    def wait_until_equal(self, *, seconds: float = 60) -> int:
        deadline = time.monotonic() + seconds
        while True:
            agreed = {self.status(number)["agreed_index"] for number in range(len(self.masters))}
            states = [HTTP.get(f"{url}/status").json() for url in self.workers.values()]
            applied = {(state["applied_index"], state["signature"]) for state in states}
            if len(agreed) == len(applied) == 1 and next(iter(applied))[0] in agreed:
                return int(agreed.pop())
            assert time.monotonic() < deadline, f"masters at {agreed}, workers at {applied}"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def door(cluster: Cluster) -> Iterator[Door]:
    """The session's cluster."""
    with HTTP:
        yield Door(cluster.lab)


def name() -> str:
    """An IRI that no other test has."""
    return f"<urn:front-door:{uuid.uuid4()}>"


def index_of(answer: httpx.Response) -> int:
    """The index in an answer's Quadlog-Index."""
    return int(answer.headers["Quadlog-Index"].split(":")[0])


@contextmanager
def nothing_logged(door: Door) -> Iterator[None]:
    """Whatever the block does, the next update gets the very next index."""
    before = door.wait_until_equal()
    yield
    answer = door.update(f"INSERT DATA {{ {name()} <urn:is> 'the next one' }}", master=1)
    assert answer.status_code == 204, answer.text
    assert index_of(answer) == before + 1


def ask(url: str, query: str, accept: str = "application/sparql-results+json") -> httpx.Response:
    """A query by GET."""
    return HTTP.get(f"{url}/sparql", params={"query": query}, headers={"Accept": accept}, timeout=30)


def objects(url: str, subject: str) -> list[str]:
    """Values of `subject`'s properties, sorted, as a master or worker answers."""
    answer = ask(url, f"SELECT ?o {{ {{ {subject} ?p ?o }} UNION {{ GRAPH ?g {{ {subject} ?p ?o }} }} }}")
    assert answer.status_code == 200, answer.text
    return sorted(binding["o"]["value"] for binding in answer.json()["results"]["bindings"])


def applied_at(door: Door, index: int) -> None:
    """All workers are there."""
    assert door.wait_until_equal() >= index


# --- updates ----------------------------------------------------------------------------------------


def test_an_update_comes_as_it_is(door: Door) -> None:
    subject = name()
    answer = door.update(f'INSERT DATA {{ {subject} <urn:is> "dïrect 🐍" }}')
    assert (answer.status_code, answer.text) == (204, "")
    uuid.UUID(answer.headers["Quadlog-Tx"])
    index, chain = answer.headers["Quadlog-Index"].split(":")
    assert int(index) > 0
    assert len(bytes.fromhex(chain)) == 8
    # Read your write: at the same master, at once.
    assert objects(door.masters[0], subject) == ["dïrect 🐍"]


def test_an_update_comes_as_a_form(door: Door) -> None:
    subject = name()
    update = f'INSERT DATA {{ {subject} <urn:is> "a+b & c=ü" }}'
    answer = HTTP.post(f"{door.masters[1]}/update", data={"update": update}, timeout=30)
    assert answer.status_code == 204, answer.text
    assert answer.headers["Quadlog-Tx"]
    assert objects(door.masters[1], subject) == ["a+b & c=ü"]


def test_every_write_is_read_back_at_its_master(door: Door) -> None:
    """Least busy worker or not: it shows what was acknowledged there."""
    for number in range(30):
        subject, master = name(), number % 3
        answer = door.update(f"INSERT DATA {{ {subject} <urn:is> {number} }}", master=master)
        assert answer.status_code == 204
        read = ask(door.masters[master], f"SELECT ?o {{ {subject} <urn:is> ?o }}", "text/csv")
        assert read.text.split() == ["o", str(number)]
        assert index_of(read) >= index_of(answer)


def test_declarations_may_follow_a_semicolon(door: Door) -> None:
    """Legal, and pyoxigraph alone refuses it."""
    subject = name()
    text = (
        f"PREFIX a: <urn:a:> INSERT DATA {{ {subject} a:p 1, 2 }} ;\n"
        f"PREFIX b: <urn:b:> BASE <http://b.example/> DELETE DATA {{ {subject} a:p 1 }} ;\n"
        f"INSERT DATA {{ GRAPH <x> {{ {subject} b:p 3 }} }} ;"
    )
    answer = door.update(text)
    assert answer.status_code == 204, answer.text
    assert objects(door.masters[0], subject) == ["2", "3"]
    where = f"ASK {{ GRAPH <http://b.example/x> {{ {subject} <urn:b:p> 3 }} }}"
    assert ask(door.masters[0], where).json()["boolean"] is True


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("INSERT DATA {\n  <urn:s> <urn:p> }", "line 2, column 19"),
        ("INSERT DATA { <urn:s> <urn:p> <urn:o> }\n\n  INSERT", "line 3, column"),
        ("SELECT * { ?s ?p ?o }", "line 1, column"),
        ("INSERT DATA { ?s <urn:p> 1 }", "line 1, column"),
        ("DELETE DATA { _:b <urn:p> 1 }", "line 1"),
        ("INSERT DATA { x:s <urn:p> 1 }", "line 1, column"),
        (
            "INSERT DATA { <urn:s> <urn:p> 1 } ; PREFIX x: <urn:x:>\nDELETE DATA { x:s x:p",
            "line 2, column 22",
        ),
    ],
)
def test_what_is_no_sparql_is_400_with_its_place(door: Door, text: str, place: str) -> None:
    with nothing_logged(door):
        answer = door.update(text)
        assert answer.status_code == 400
        assert answer.json()["error"] == "SyntaxRefused"
        assert answer.json()["definite"] is True
        assert place in answer.json()["message"]


UNSUPPORTED = (
    "INSERT { ?s <urn:p> 1 } WHERE { ?s ?p ?o }",
    "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "DELETE { ?s ?p ?o } INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
    "DELETE WHERE { ?s ?p ?o }",
    "WITH <urn:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "INSERT { <urn:a> <urn:b> <urn:c> } USING <urn:g> WHERE {}",
    "LOAD <urn:x>",
    "LOAD SILENT <urn:x> INTO GRAPH <urn:g>",
    "CLEAR ALL",
    "CLEAR DEFAULT",
    "DROP ALL",
    "DROP SILENT GRAPH <urn:g>",
    "CREATE GRAPH <urn:g>",
    "ADD <urn:a> TO <urn:b>",
    "MOVE <urn:a> TO DEFAULT",
    "COPY DEFAULT TO <urn:b>",
    "INSERT DATA { <urn:s> <urn:p> 1 } ; CLEAR ALL",
)


def test_forms_that_are_not_supported_yet_are_501(door: Door) -> None:
    with nothing_logged(door):
        answers = {text: door.update(text, master=number % 3) for number, text in enumerate(UNSUPPORTED)}
    for text, answer in answers.items():
        assert (answer.status_code, answer.json()["error"]) == (501, "Unsupported"), text
        assert answer.json()["definite"] is True
    parameters = ("using-graph-uri", "using-named-graph-uri")
    with nothing_logged(door):
        for parameter in parameters:
            text = f"INSERT DATA {{ {name()} <urn:p> 1 }}"
            url = f"{door.masters[0]}/update"
            form = HTTP.post(url, data={"update": text, parameter: "urn:g"})
            direct = HTTP.post(url, params={parameter: "urn:g"}, content=text, headers=UPDATE)
            assert (form.status_code, direct.status_code) == (501, 501)


def test_bodies_that_are_wrong(door: Door) -> None:
    text = f"INSERT DATA {{ {name()} <urn:p> 1 }}".encode()
    plus = quote(text).encode()
    wrong: list[tuple[int, str, bytes, str]] = [
        (415, "text/plain", text, "text/plain"),
        (415, "application/sparql-query", text, "application/sparql-query"),
        (415, "application/json", b"{}", "application/json"),
        (415, "", text, "nothing"),
        (415, "multipart/form-data; boundary=x", text, "multipart/form-data"),
        (400, "application/sparql-update; charset=latin-1", text, "latin-1"),
        (400, "application/sparql-update; charset=UTF-16", text.decode().encode("utf-16"), "utf-16"),
        (400, "application/sparql-update", b'INSERT DATA { <urn:s> <urn:p> "\xff" }', "UTF-8"),
        (400, "application/sparql-update", b'INSERT DATA { <urn:s> <urn:p> "\xed\xa0\x80" }', "UTF-8"),
        (400, FORM["Content-Type"], b"", "has 0"),
        (400, FORM["Content-Type"], b"query=" + plus, "has 0"),
        (400, FORM["Content-Type"], b"update=" + plus + b"&update=" + plus, "has 2"),
        (400, FORM["Content-Type"], b"update=%FF", "UTF-8"),
        (400, FORM["Content-Type"], b"update=" + plus + b"&a=b" * 100_000, "more than 1000 fields"),
        (400, FORM["Content-Type"], b"update=\xff", "UTF-8"),
        (400, FORM["Content-Type"] + "; charset=iso-8859-1", b"update=" + plus, "iso-8859-1"),
    ]
    with nothing_logged(door):
        for status, media_type, body, said in wrong:
            headers = {"Content-Type": media_type} if media_type else {}
            answer = HTTP.post(f"{door.masters[2]}/update", content=body, headers=headers)
            assert answer.status_code == status, (media_type, body, answer.text)
            assert said in answer.json()["message"], (media_type, answer.text)
    for fine in ("application/sparql-update; charset=utf-8", 'Application/SPARQL-Update;charset="UTF-8"'):
        answer = HTTP.post(f"{door.masters[2]}/update", content=text, headers={"Content-Type": fine})
        assert answer.status_code == 204, fine
    assert HTTP.get(f"{door.masters[2]}/update").status_code == 405


# --- size -------------------------------------------------------------------------------------------


def refusal(url: str, head: str, body: Iterable[bytes] = ()) -> tuple[int, bytes]:
    """Send a POST to /update until an answer comes; returns how much of the body went, and the answer."""
    place = urlsplit(url)
    with closing(socket.create_connection((place.hostname or "", place.port or 0), timeout=30)) as line:
        line.sendall(f"POST /update HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
        sent = 0
        for part in body:
            if select.select([line], [], [], 0)[0]:
                break
            line.sendall(part)
            sent += len(part)
        answer = b""
        while b"}" not in answer and (more := line.recv(65536)):
            answer += more
        return sent, answer


@pytest.mark.parametrize("media_type", [UPDATE["Content-Type"], FORM["Content-Type"]])
def test_a_length_above_the_limit_is_413_before_the_body_comes(door: Door, media_type: str) -> None:
    """A form may be three times as long, since it may write every byte as three."""
    length = (LIMIT if media_type == UPDATE["Content-Type"] else 3 * LIMIT) + 1
    with nothing_logged(door):
        _, answer = refusal(door.masters[0], f"Content-Type: {media_type}\r\nContent-Length: {length}")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"max-transaction-size" in answer
        assert b'"TooLarge"' in answer
        assert b'"definite":true' in answer


def test_a_body_without_a_length_is_413_where_it_grows_too_large(door: Door) -> None:
    chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
    with nothing_logged(door):
        sent, answer = refusal(
            door.masters[0],
            f"Content-Type: {UPDATE['Content-Type']}\r\nTransfer-Encoding: chunked",
            (chunk for _ in range(2 * LIMIT // MIB)),
        )
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"max-transaction-size" in answer
        assert LIMIT < sent < 2 * LIMIT


def test_megabytes_travel_in_chunks_to_every_data_centre(door: Door) -> None:
    """Above Kafka's limit of a record: payload, entry and effect are several records each."""
    graph, quads = name(), 8_000
    lines = "\n".join(f'<urn:big:{n}> <urn:is> "{n:0>300}" .' for n in range(quads))
    text = f"INSERT DATA {{ GRAPH {graph} {{ {lines} }} }}"
    assert len(text) > 2.5 * MIB
    answer = door.update(text, master=2)
    assert answer.status_code == 204, answer.text
    index, wanted = index_of(answer), uuid.UUID(answer.headers["Quadlog-Tx"]).bytes
    applied_at(door, index)
    for url in door.workers.values():
        found = ask(url, f"SELECT (COUNT(*) AS ?n) {{ GRAPH {graph} {{ ?s ?p ?o }} }}", "text/csv")
        assert found.text.split() == ["n", str(quads)]
    for dc in door.lab.dcs:
        chunks: Counter[str] = Counter()
        for topic in ("payloads", "agreed", "effects"):
            for record in records(dc["kafka"], f"main.{dc['name']}.{topic}"):
                said, _, count = codec.decode_chunk(record.value() or b"")
                match said:
                    case Payload(transaction=transaction) if transaction.id == wanted:
                        chunks[topic] += 1
                    case LoggedEntry(index=found_at) | Effect(index=found_at) if found_at == index:
                        chunks[topic] += 1
                    case _:
                        continue
                assert count > 2
                assert len(record.value() or b"") < 1_000_000
        assert chunks["payloads"] == chunks["agreed"] > 2, dc["name"]
        assert chunks["effects"] > 2, dc["name"]
    assert door.update(text.replace("INSERT", "DELETE", 1), master=0).status_code == 204
    assert "<urn:big:" not in HTTP.get(f"{door.masters[0]}/repositories/main/statements").text


# --- one key, one run -------------------------------------------------------------------------------


def test_a_key_runs_once_wherever_it_is_tried_again(door: Door) -> None:
    key, subject = f"again/{uuid.uuid4()}", name()
    text = f"INSERT DATA {{ {subject} <urn:is> [] }}"  # twice would leave two blank nodes
    first = door.update(text, master=0, Idempotency_Key=key)
    assert first.status_code == 204, first.text
    for master in (0, 1, 2, 0):
        again = door.update(text, master=master, Idempotency_Key=key)
        assert again.status_code == 204, again.text
        for header in ("Quadlog-Tx", "Quadlog-Index"):
            assert again.headers[header] == first.headers[header]
    assert door.wait_until_equal() == index_of(first)
    assert len(objects(door.masters[1], subject)) == 1


def all_at_once(door: Door, key: str, texts: list[str]) -> list[httpx.Response]:
    """Each text at one master after the other, all at the same time under one key."""

    async def send() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=60) as session:
            return await asyncio.gather(
                *(
                    session.post(
                        f"{door.masters[number % 3]}/update",
                        content=text,
                        headers=UPDATE | {"Idempotency-Key": key},
                    )
                    for number, text in enumerate(texts)
                )
            )

    return asyncio.run(send())


def test_a_key_tried_everywhere_at_once_runs_once(door: Door) -> None:
    for _ in range(5):
        before, subject = door.wait_until_equal(), name()
        answers = all_at_once(door, f"once-{uuid.uuid4()}", [f"INSERT DATA {{ {subject} <urn:is> [] }}"] * 9)
        assert {answer.status_code for answer in answers} == {204}
        assert (
            len({(answer.headers["Quadlog-Tx"], answer.headers["Quadlog-Index"]) for answer in answers}) == 1
        )
        assert door.wait_until_equal() == before + 1
        assert len(objects(door.masters[0], subject)) == 1


def test_a_key_with_another_body_is_422(door: Door) -> None:
    key, first, second = f"other-{uuid.uuid4()}", name(), name()
    assert door.update(f"INSERT DATA {{ {first} <urn:p> 1 }}", Idempotency_Key=key).status_code == 204
    with nothing_logged(door):
        for master in (0, 1, 2):
            answer = door.update(f"INSERT DATA {{ {second} <urn:p> 1 }}", master=master, Idempotency_Key=key)
            assert (answer.status_code, answer.json()["error"]) == (422, "KeyReused")
    assert objects(door.masters[0], second) == []


def test_of_two_bodies_under_one_key_one_wins_everywhere(door: Door) -> None:
    for _ in range(8):
        before, subject = door.wait_until_equal(), name()
        texts = [f"INSERT DATA {{ {subject} <urn:is> {number} }}" for number in range(2)]
        answers = all_at_once(door, f"race-{uuid.uuid4()}", texts)
        assert sorted(answer.status_code for answer in answers) == [204, 422]
        winner = next(number for number, answer in enumerate(answers) if answer.status_code == 204)
        assert door.wait_until_equal() == before + 1
        for url in door.workers.values():
            assert objects(url, subject) == [str(winner)]


@pytest.mark.parametrize("key", ["", "x" * 256, "clé"])
def test_keys_are_short_and_ascii(door: Door, key: str) -> None:
    """A header has no encoding, the path of /tx/{key} has one: another key would be asked for."""
    headers = [(b"Content-Type", UPDATE["Content-Type"].encode()), (b"Idempotency-Key", key.encode())]
    answer = HTTP.post(f"{door.masters[0]}/update", content=b"INSERT DATA {}", headers=headers)
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["message"]


def test_tx_tells_of_ids_and_keys_at_every_master(door: Door) -> None:
    key = f"tx/?{uuid.uuid4()} #%2F"
    answer = door.update(f"INSERT DATA {{ {name()} <urn:p> 1 }}", Idempotency_Key=key)
    applied_at(door, index_of(answer))
    for master in door.masters:
        for known in (answer.headers["Quadlog-Tx"], key):
            told = HTTP.get(f"{master}/tx/{quote(known, safe='')}").json()
            assert told["state"] == "applied"
            assert told["id"] == answer.headers["Quadlog-Tx"]
            assert answer.headers["Quadlog-Index"] == f"{told['index']}:{told['chain'][:16]}"
        for unknown in (str(uuid.uuid4()), "no such key", "é", "%00", "x" * 4000):
            found = HTTP.get(f"{master}/tx/{quote(unknown)}")
            assert (found.status_code, found.json()["state"]) == (200, "unknown")


# --- queries ----------------------------------------------------------------------------------------

XML_LITERAL = "{http://www.w3.org/2005/sparql-results#}literal"


def test_solutions_in_every_format(door: Door) -> None:
    subject = name()
    assert door.update(f'INSERT DATA {{ {subject} <urn:is> "a,b"@en }}').status_code == 204
    query = f"SELECT ?o {{ {subject} <urn:is> ?o }}"

    def answer(accept: str) -> tuple[str, str]:
        got = ask(door.masters[0], query, accept)
        assert got.status_code == 200, got.text
        return got.headers["content-type"].split(";")[0], got.text

    media_type, text = answer("application/sparql-results+json")
    assert media_type == "application/sparql-results+json"
    expected = {"type": "literal", "value": "a,b", "xml:lang": "en"}
    assert json.loads(text)["results"]["bindings"] == [{"o": expected}]
    media_type, text = answer("application/sparql-results+xml")
    assert media_type == "application/sparql-results+xml"
    assert [found.text for found in ET.fromstring(text).iter(XML_LITERAL)] == ["a,b"]  # noqa: S314 - from our own worker
    assert answer("text/csv") == ("text/csv", 'o\r\n"a,b"\r\n')
    assert answer("text/tab-separated-values") == ("text/tab-separated-values", '?o\n"a,b"@en\n')
    # What the header prefers, not what stands first.
    assert answer("text/csv;q=0.3, application/sparql-results+xml;q=0.9, */*;q=0.1")[0].endswith("xml")
    assert answer("application/sparql-results+xml;q=0, text/csv;q=0.001")[0] == "text/csv"
    assert answer("text/*, application/sparql-results+json;q=0.5")[0] == "text/csv"
    assert answer("*/*")[0] == "application/sparql-results+json"
    assert answer("TEXT/CSV; Q=1.0")[0] == "text/csv"


def test_graphs_in_every_format(door: Door) -> None:
    subject = name()
    assert door.update(f'INSERT DATA {{ {subject} <urn:is> "ü" }}').status_code == 204
    query = f"CONSTRUCT WHERE {{ {subject} ?p ?o }}"
    line = f'{subject} <urn:is> "ü" .'
    for accept, expected in (
        ("application/n-triples", "application/n-triples"),
        ("text/turtle", "text/turtle"),
        ("text/turtle;q=0.4, application/n-triples;q=0.5", "application/n-triples"),
        ("application/sparql-results+json, text/turtle;q=0.1", "text/turtle"),
        ("*/*", "text/turtle"),
    ):
        got = ask(door.masters[0], query, accept)
        assert got.headers["content-type"].split(";")[0] == expected
        assert got.text.split() == line.split()
        assert index_of(got) > 0


def test_a_query_comes_in_three_forms(door: Door) -> None:
    subject = name()
    assert door.update(f"INSERT DATA {{ {subject} <urn:is> 1 }}", master=2).status_code == 204
    query = f"ASK {{ {subject} <urn:is> 1 }}"
    for url in (door.masters[2], *(worker["url"] for worker in door.lab.dcs[2]["workers"])):
        door.wait_until_equal()
        direct = HTTP.post(
            f"{url}/sparql",
            content=query,
            headers={"Content-Type": "application/sparql-query; charset=utf-8"},
        )
        form = HTTP.post(f"{url}/sparql", data={"query": query})
        by_get = HTTP.get(f"{url}/sparql", params={"query": query})
        for answer in (direct, form, by_get):
            assert answer.json()["boolean"] is True
            assert index_of(answer) > 0


def test_wrong_queries(door: Door) -> None:
    url = f"{door.masters[0]}/sparql"
    wrong = [
        (HTTP.get(url), 400, "'query'"),
        (HTTP.get(url, params=[("query", "ASK {}"), ("query", "ASK {}")]), 400, "2"),
        (HTTP.get(url, params={"query": "SELECT *\n{ ?s }"}), 400, "line 2, column"),
        (HTTP.post(url, content=b"ASK {}", headers={"Content-Type": "text/plain"}), 400, "text/plain"),
        (HTTP.post(url, content=b"\xff", headers={"Content-Type": "application/sparql-query"}), 400, "UTF-8"),
        (HTTP.post(url, content=b"query=%ff", headers=FORM), 400, "UTF-8"),
    ]
    for answer, status, said in wrong:
        assert answer.status_code == status, answer.text
        assert said in answer.json()["message"]


def test_what_the_dataset_parameters_name_is_all_that_is_seen(door: Door) -> None:
    graph = name()
    assert door.update(f"INSERT DATA {{ GRAPH {graph} {{ {graph} <urn:is> 1 }} }}").status_code == 204
    for parameter, pattern in (
        ("default-graph-uri", "?s ?p ?o"),
        ("named-graph-uri", "GRAPH ?g { ?s ?p ?o }"),
    ):
        answer = HTTP.get(
            f"{door.masters[0]}/sparql",
            params={"query": f"SELECT ?s {{ {pattern} }}", parameter: graph[1:-1]},
            headers={"Accept": "text/csv"},
        )
        assert answer.text.split() == ["s", graph[1:-1]]


# --- workers take no writes ---------------------------------------------------------------------------


def test_workers_refuse_whatever_writes(door: Door) -> None:
    subject = name()
    text = f"INSERT DATA {{ {subject} <urn:is> 1 }}"
    with nothing_logged(door):
        for url in door.workers.values():
            tries = [
                HTTP.post(f"{url}/update", content=text, headers=UPDATE),
                HTTP.post(f"{url}/update", data={"update": text}),
                HTTP.post(f"{url}/sparql", content=text, headers=UPDATE),
                HTTP.post(f"{url}/sparql", data={"update": text}),
                HTTP.get(f"{url}/sparql", params={"update": text}),
                HTTP.get(f"{url}/sparql", params={"query": text}),
                HTTP.post(f"{url}/sparql", data={"query": text}),
                HTTP.post(
                    f"{url}/sparql", content=text, headers={"Content-Type": "application/sparql-query"}
                ),
                HTTP.put(f"{url}/sparql", content=text, headers=UPDATE),
                HTTP.post(
                    f"{url}/statements",
                    content="<urn:a> <urn:b> <urn:c> .",
                    headers={"Content-Type": "text/turtle"},
                ),
                HTTP.delete(f"{url}/statements"),
                HTTP.get(f"{url}/sparql", params={"query": "# c\nPREFIX a: <urn:a> DROP ALL"}),
            ]
            assert [answer.status_code for answer in tries] == [403] * len(tries)
            assert all("/update" in answer.json()["message"] for answer in tries)
            assert objects(url, subject) == []


def test_a_worker_is_not_asked_to_evaluate_with_nonsense(door: Door) -> None:
    for url in door.workers.values():
        for body in (b"", b"x", b"[]", b"{}", b'{"term": 1}', b'{"term": "00"}', b'{"term": "zz"}', b"\xff"):
            answer = HTTP.post(f"{url}/evaluate", content=body)
            assert (answer.status_code, answer.json()["error"]) == (400, "UserError"), body
        elsewhere = HTTP.post(f"{url}/evaluate", json={"dc": "dc9", "term": "00" * 32})
        assert (elsewhere.status_code, elsewhere.json()["error"]) == (403, "Forbidden")
        assert HTTP.get(f"{url}/status").json()["state"] == "serving"


def test_a_masters_query_door_takes_no_updates(door: Door) -> None:
    text = f"INSERT DATA {{ {name()} <urn:is> 1 }}"
    url = f"{door.masters[0]}/sparql"
    with nothing_logged(door):
        tries = [
            HTTP.post(url, content=text, headers=UPDATE),
            HTTP.post(url, data={"update": text}),
            HTTP.post(url, data={"query": text}),
            HTTP.get(url, params={"query": text}),
        ]
        assert [answer.status_code for answer in tries] == [403] * len(tries)


# --- the reserved graph -------------------------------------------------------------------------------


def reserved_graphs(door: Door) -> dict[str, str]:
    """Worker id to the name that it alone knows: read from its disk, as no client can."""
    found = door.lab.directory.rglob("reserved-graph")
    names = {next(p for p in path.parts if p in door.workers): path.read_text().strip() for path in found}
    assert set(names) == set(door.workers)
    return names


def test_nobody_writes_to_the_reserved_graph(door: Door) -> None:
    real = next(iter(reserved_graphs(door).values()))
    with nothing_logged(door):
        for iri in ("urn:quadlog:state:x", real):
            for text in (
                f"INSERT DATA {{ GRAPH <{iri}> {{ <urn:s> <urn:p> 1 }} }}",
                f"DELETE DATA {{ GRAPH <{iri}> {{ <urn:s> <urn:p> 1 }} }}",
                f"PREFIX q: <{iri[:18]}> INSERT DATA {{ GRAPH q:{iri[18:]} {{ <urn:s> <urn:p> 1 }} }}",
                f"BASE <{iri}> INSERT DATA {{ GRAPH <> {{ <urn:s> <urn:p> 1 }} }}",
                f"INSERT DATA {{ GRAPH <{iri.replace('state', chr(92) + 'u0073tate')}> {{ <urn:s> <urn:p> 1 }} }}",
            ):
                answer = door.update(text)
                assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden"), (text, answer.text)


def test_nobody_sees_the_reserved_graph(door: Door) -> None:
    graph = name()
    assert door.update(f"INSERT DATA {{ GRAPH {graph} {{ <urn:s> <urn:p> 1 }} }}").status_code == 204
    door.wait_until_equal()
    names = reserved_graphs(door)
    assert all(found.startswith("urn:quadlog:state:") for found in names.values())
    for worker, url in door.workers.items():
        for query in (
            "SELECT ?g { GRAPH ?g { ?s ?p ?o } }",
            "SELECT DISTINCT * { graph # one of them\n $g { ?s ?p ?o } }",
            "SELECT * { GRAPH ?g {} }",
            "SELECT * { { SELECT * { GRAPH ?g { ?s ?p ?o } } } }",
            "SELECT * { GRAPH ?g { SELECT * { ?s ?p ?o } } }",
            "SELECT * { GRAPH ?g { ?s <urn:quadlog:applied> ?o } }",
            "SELECT * { OPTIONAL { GRAPH ?g { ?s ?p ?o } } }",
            "CONSTRUCT { ?g ?p ?o } WHERE { GRAPH ?g { ?s ?p ?o } }",
        ):
            answer = ask(url, query, "text/csv, application/n-triples")
            assert answer.status_code == 200, answer.text
            assert names[worker] not in answer.text, query
            assert "quadlog:applied" not in answer.text, query
        for pattern in ("?s <urn:quadlog:applied> ?o", "?s ?p ?o FILTER(STRSTARTS(STR(?s), 'urn:quadlog'))"):
            for wrapped in (
                f"GRAPH ?g {{ {pattern} }}",
                f"FILTER EXISTS {{ GRAPH ?g {{ {pattern} }} }}",
                pattern,
            ):
                assert ask(url, f"ASK {{ {wrapped} }}").json()["boolean"] is False, wrapped
        assert "quadlog:" not in HTTP.get(f"{url}/statements").text
    everything = HTTP.get(f"{door.masters[0]}/repositories/main/statements").text
    assert graph in everything
    assert "quadlog:" not in everything
    assert HTTP.get(f"{door.masters[0]}/repositories/other/statements").status_code == 404


# --- the same everywhere ------------------------------------------------------------------------------


def test_blank_nodes_have_one_label_on_all_workers(door: Door) -> None:
    subject, graph = name(), name()
    text = (
        f"INSERT DATA {{ {subject} <urn:has> _:a, [ <urn:is> 1 ], ( 1 2 ) . _:a <urn:is> 2 }} ;"
        f"INSERT DATA {{ GRAPH {graph} {{ _:b <urn:is> {subject} }} }}"
    )
    answer = door.update(text, master=1)
    assert answer.status_code == 204, answer.text
    applied_at(door, index_of(answer))
    seen = set()
    for url in door.workers.values():
        lines = [line for line in HTTP.get(f"{url}/statements").text.split("\n") if "_:" in line]
        assert sum(subject in line for line in lines) == 4
        assert [line.endswith(f"{subject} {graph} .") for line in lines].count(True) == 1
        seen.add("\n".join(sorted(lines)))
    assert len(seen) == 1


# --- status and health --------------------------------------------------------------------------------

STATUS: dict[str, Any] = {
    "node": str,
    "dc": str,
    "role": str,
    "view": {"epoch": int, "members": list},
    "agreed_index": int,
    "agreed_chain": str,
    "incoming": int,
    "limbo": {"length": int, "oldest_s": (int, float), "quorum": (int, type(None))},
    "split": {"state": str, "strategy": (str, type(None)), "fork_index": (int, type(None))},
    "workers": [{"id": str, "state": str, "applied_index": int, "signature": str, "quads": int}],
    "peers": [{"id": str, "dc": str, "state": str, "lag_ms": (int, float), "agreed_index": int}],
}
"""What DESIGN section 10 promises to tools outside the project."""


def check_shape(value: Any, shape: Any, path: str) -> None:  # noqa: ANN401 - any JSON
    match shape:
        case dict():
            for key, inner in shape.items():
                assert key in value, f"{path}.{key} is missing"
                check_shape(value[key], inner, f"{path}.{key}")
        case list():
            assert value, f"{path} is empty"
            for one in value:
                check_shape(one, shape[0], f"{path}[]")
        case _:
            assert isinstance(value, shape), f"{path} is {value!r}"


def test_status_has_what_tools_rely_on(door: Door) -> None:
    index = door.wait_until_equal()
    ids = [master["id"] for master in door.lab.masters]
    for number, dc in enumerate(door.lab.dcs):
        status = door.status(number)
        check_shape(status, STATUS, "status")
        assert (status["node"], status["dc"], status["role"]) == (ids[number], dc["name"], "read-write")
        assert status["view"]["members"] == sorted(ids)
        assert status["agreed_index"] == index
        assert [worker["id"] for worker in status["workers"]] == [worker["id"] for worker in dc["workers"]]
        assert {(worker["state"], worker["applied_index"]) for worker in status["workers"]} == {
            ("serving", index)
        }
        assert {peer["id"] for peer in status["peers"]} == set(ids) - {ids[number]}
        assert {(peer["state"], peer["agreed_index"]) for peer in status["peers"]} == {("connected", index)}
    assert len({door.status(number)["agreed_chain"] for number in range(3)}) == 1
    evaluating = [
        worker["id"] for n in range(3) for worker in door.status(n)["workers"] if worker["evaluating"]
    ]
    assert len(evaluating) == 1


def test_health(door: Door) -> None:
    for master in door.masters:
        for what in ("started", "alive", "ready"):
            assert HTTP.get(f"{master}/healthz/{what}").status_code == 200
        assert HTTP.get(f"{master}/healthz/other").status_code == 404


def test_at_the_end_every_signature_is_what_anybody_can_count(door: Door) -> None:
    index = door.wait_until_equal()
    told = {worker["signature"] for number in range(3) for worker in door.status(number)["workers"]}
    counted = {recount(url)[0] for url in door.workers.values()}
    assert counted == told
    assert len(told) == 1
    for url in door.workers.values():
        quads = [
            line for line in recount(url)[1] if not line.startswith("#")
        ]  # a comment names an empty graph
        assert HTTP.get(f"{url}/status").json()["quads"] == len(quads)
    assert door.wait_until_equal() == index
