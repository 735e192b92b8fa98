"""Reading processes that are killed in the middle of an answer, and clients that must not take a part for the whole."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
import xml.etree.ElementTree as ET
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode

import httpx
import pyoxigraph as ox
import rdflib
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from rdflib.query import Result

from quadlog.kafka.ports import free_ports
from quadlog.leash import leashed
from tests.support.raw_http import connected, parts_of, request, status_of, until_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NGINX: Final = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

SELECT: Final = (
    'SELECT ?a ?x ?f { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . BIND(CONCAT(?c, ", or\\n") AS ?x) }'
)
"""Cells of CSV that are quoted, on two lines."""
CONSTRUCT: Final = (
    "CONSTRUCT { ?a ?b ?x } WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . BIND(CONCAT(?c, ?f, ?i) AS ?x) }"
)
"""Of a triple that was there before nothing is written."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of answers, and how a whole document is read."""

    media_type: str
    query: str
    read: Callable[[bytes], object]
    """Raises where the document is not whole."""


def _of_rdf(form: ox.RdfFormat) -> Callable[[bytes], object]:
    return lambda body: [None for _ in ox.parse(body, form)]


def _of_csv(body: bytes) -> object:
    return list(csv.reader(io.StringIO(body.decode(), newline=""), strict=True))


def _of_tsv(body: bytes) -> object:
    return list(Result.parse(io.BytesIO(b"\n".join([body[:10], *body.split(b"\n")[-3:]])), format="tsv"))


FORMATS: Final = {
    "json": Format(media_type="application/sparql-results+json", query=SELECT, read=json.loads),
    "xml": Format(media_type="application/sparql-results+xml", query=SELECT, read=ET.fromstring),
    "csv": Format(media_type="text/csv", query=SELECT, read=_of_csv),
    "tsv": Format(media_type="text/tab-separated-values", query=SELECT, read=_of_tsv),
    "nt": Format(media_type="application/n-triples", query=CONSTRUCT, read=_of_rdf(ox.RdfFormat.N_TRIPLES)),
    "nquads": Format(media_type="application/n-quads", query=CONSTRUCT, read=_of_rdf(ox.RdfFormat.N_QUADS)),
    "turtle": Format(media_type="text/turtle", query=CONSTRUCT, read=_of_rdf(ox.RdfFormat.TURTLE)),
    "trig": Format(media_type="application/trig", query=CONSTRUCT, read=_of_rdf(ox.RdfFormat.TRIG)),
    "rdfxml": Format(media_type="application/rdf+xml", query=CONSTRUCT, read=_of_rdf(ox.RdfFormat.RDF_XML)),
}


@dataclass(frozen=True, kw_only=True)
class Doors:
    """One door, and the ways to it."""

    direct: str
    nginx: str | None
    """Through nginx as it is installed: its version 1.22 speaks HTTP/1.0 to what is behind it."""
    nginx_1_1: str | None
    """Through nginx with `proxy_http_version 1.1`."""

    def ways(self) -> list[str]:
        """All there are."""
        return [way for way in (self.direct, self.nginx, self.nginx_1_1) if way]


@contextmanager
def behind_nginx(url: str, directory: Path) -> Iterator[Doors]:
    """Run nginx before a door, where it is installed."""
    if NGINX is None:
        yield Doors(direct=url, nginx=None, nginx_1_1=None)
        return
    directory.mkdir()
    ports = free_ports(2)
    kinds = ("", "proxy_http_version 1.1;")
    servers = " ".join(
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; {kind} }} }}"
        for port, kind in zip(ports, kinds, strict=True)
    )
    temporary = " ".join(
        f"{name}_temp_path {name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = directory / "nginx.conf"
    config.write_text(
        "daemon off; master_process off; pid nginx.pid; events {} "
        f"http {{ access_log off; {temporary} proxy_read_timeout 60s; {servers} }}"
    )
    command = [NGINX, "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(config)]
    process = subprocess.Popen(leashed(command), stderr=subprocess.DEVNULL)
    try:
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        for one in urls:
            _until_open(one, process)
        yield Doors(direct=url, nginx=urls[0], nginx_1_1=urls[1])
    finally:
        process.terminate()
        process.wait(10)


def _until_open(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            connected(url).close()
        except OSError:
            assert process.poll() is None, "nginx ended"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return


def _kill(door: str, mark: str, answered: threading.Event) -> None:
    """Kill the process that reads for the query of this mark, once it has begun to answer.

    It never does where no process was free for it: that is an error to the client, too.
    """
    deadline = time.monotonic() + 60
    with httpx.Client(base_url=door, timeout=10) as client:
        while not answered.is_set():
            assert time.monotonic() < deadline, "the query was not seen under way"
            for read in client.get("/queries").json()["queries"]:
                if mark in read["text"] and read["sent"] > 0:
                    with suppress(ProcessLookupError):  # its client has left meanwhile, which ends it as well
                        os.kill(read["pid"], signal.SIGKILL)
                    return
            time.sleep(0.003)


@contextmanager
def killing(door: str, form: Format) -> Iterator[str]:
    """A query whose process is killed in the middle of its answer, while the block asks it."""
    mark, answered = uuid.uuid4().hex, threading.Event()
    killer = threading.Thread(target=_kill, args=(door, mark, answered))
    killer.start()
    try:
        yield f"{form.query} # {mark}"
    finally:
        answered.set()
        killer.join()


def by_hand(doors: Doors, way: str, form: Format, version: str) -> tuple[bytes, bool]:
    """What is answered, and whether HTTP says that it is whole."""
    with killing(doors.direct, form) as query, connected(way) as one:
        headers = {"Accept": form.media_type, "Connection": "close"}
        one.sendall(request("GET", f"/sparql?{urlencode({'query': query})}", headers, version=version))
        answer = until_closed(one)
    return answer, _is_whole(answer)


def _is_whole(answer: bytes) -> bool:
    headers, body = parts_of(answer)
    if status_of(answer) != 200:
        return False  # an error says so itself
    if "content-length" in headers:
        return len(body) == int(headers["content-length"])
    if headers.get("transfer-encoding") == "chunked":
        return answer.endswith(b"\r\n0\r\n\r\n")
    return True


def document(answer: bytes) -> bytes:
    """The body, without chunks."""
    headers, rest = parts_of(answer)
    if headers.get("transfer-encoding") != "chunked":
        return rest
    pieces: list[bytes] = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return b"".join(pieces)


def by_httpx(way: str, query: str, form: Format) -> None:
    """As httpx's users ask; raises where the answer is not whole."""
    answer = httpx.get(
        f"{way}/sparql", params={"query": query}, headers={"Accept": form.media_type}, timeout=60
    )
    answer.raise_for_status()


def by_rdflib(way: str, query: str, form: Format) -> None:
    """As rdflib's users ask."""
    [name] = [name for name, known in FORMATS.items() if known is form]
    if form.query is CONSTRUCT:
        url = f"{way}/sparql?{urlencode({'query': query})}"
        rdflib.Dataset().parse(url, format="xml" if name == "rdfxml" else name)
    else:
        SPARQLStore(f"{way}/sparql", returnFormat=name).query(query)


def by_sparqlwrapper(way: str, query: str, form: Format) -> None:
    """As SPARQLWrapper's users ask, where it is installed."""
    client = importlib.import_module("SPARQLWrapper").SPARQLWrapper(f"{way}/sparql")
    client.addCustomHttpHeader("Accept", form.media_type)
    client.setQuery(query)
    client.query().response.read()


class Rdf4j:
    """RDF4J's parsers, in a process of their own; its jars come through Maven."""

    PLACE: Final = Path(__file__).with_name("rdf4j")

    def __init__(self, jars: Path) -> None:
        """Fetch the jars into a directory, and start the process."""
        fetch = ["mvn", "-q", "-B", "-f", str(self.PLACE / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*fetch, f"-DoutputDirectory={jars}"], check=True, timeout=600)
        command = ["java", "-cp", f"{jars}/*", str(self.PLACE / "ReadAnswers.java")]
        self._process = subprocess.Popen(
            leashed(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._turn = threading.Lock()

    def __call__(self, way: str, query: str, form: Format) -> None:
        """As RDF4J's users ask; raises where an answer is not read as a whole one."""
        source, out = self._process.stdout, self._process.stdin
        assert source is not None, "a pipe"
        assert out is not None, "a pipe"
        with self._turn:
            out.write(f"{form.media_type}\t{way}/sparql?{urlencode({'query': query})}\n")
            out.flush()
            said = source.readline().strip()
        if said != "whole":
            raise ValueError(said)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


Client: TypeAlias = "Callable[[str, str, Format], None]"
CLIENTS: Final[list[Client]] = [by_httpx, by_rdflib]
if importlib.util.find_spec("SPARQLWrapper"):
    CLIENTS.append(by_sparqlwrapper)
