"""LOAD and SERVICE on a real cluster: fetched once, the same everywhere, and refused as an outcome."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.support.clusters.cluster import HTTP, Cluster, name, objects, recount

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from tests.support.web import Web


def test_every_data_centre_has_what_one_worker_fetched(cluster: Cluster, web: Web) -> None:
    for master in range(3):
        subject, path = name(), f"/open/{master}.ttl"
        web.documents[path] = ("text/turtle", f"{subject} <urn:is> 1, [ <urn:of> _:b ], _:b .".encode())
        answer = cluster.update(f"LOAD <{web.url}{path}> INTO GRAPH {subject}", master=master)
        assert answer.status_code == 204, answer.text
        assert len(objects(cluster.masters[master], subject)) == 3
        assert web.asked.count(path) == 1
        cluster.wait_until_equal()
        assert len({recount(url)[0] for url in cluster.workers.values()}) == 1


def test_every_data_centre_has_what_an_endpoint_told_one_worker(cluster: Cluster, web: Web) -> None:
    subject, path = name(), "/open/sparql"
    row = {"o": {"type": "literal", "value": "SERVICE's"}}
    body = json.dumps({"head": {"vars": ["o"]}, "results": {"bindings": [row]}}).encode()

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers["Content-Length"]))
        web.documents["/answer"] = ("application/sparql-results+json", body)
        request.path = "/answer"
        web.answer(request)

    web.special[path] = answer
    text = f"INSERT {{ {subject} <urn:is> ?o }} WHERE {{ SERVICE <{web.url}{path}> {{ ?s ?p ?o }} }}"
    assert cluster.update(text, master=1).status_code == 204
    assert objects(cluster.masters[1], subject) == ["SERVICE's"]
    assert web.asked.count(path) == 1
    refused = cluster.update(text.replace(path, "/shut/sparql"), master=2)
    assert (refused.status_code, refused.json()["error"]) == (409, "Rejected")
    assert "service-endpoints" in refused.json()["message"]
    cluster.wait_until_equal()
    assert len({recount(url)[0] for url in cluster.workers.values()}) == 1


def test_what_cannot_be_loaded_is_rejected_unless_silent(cluster: Cluster, web: Web) -> None:
    web.documents["/shut.ttl"] = ("text/turtle", b"<urn:s> <urn:p> 1 .")
    for number, (path, said) in enumerate((("/shut.ttl", "load-from"), ("/open/none", "404"))):
        subject = name()
        text = f"INSERT DATA {{ {subject} <urn:is> 1 }} ; LOAD <{web.url}{path}>"
        answer = cluster.update(text, master=number)
        assert (answer.status_code, answer.json()["error"]) == (409, "Rejected")
        assert said in answer.json()["message"]
        assert objects(cluster.masters[number], subject) == []
        silent = cluster.update(text.replace("LOAD", "LOAD SILENT"), master=number)
        assert silent.status_code == 204
        assert objects(cluster.masters[number], subject) == ["1"]
    assert "/shut.ttl" not in web.asked


def test_whoever_takes_over_loads_anew(cluster: Cluster, web: Web) -> None:
    """The evaluating worker is killed while it loads; reads go on, other workers show what was decided before."""
    free, subject, path = threading.Event(), name(), "/open/slow.ttl"
    web.documents["/second"] = ("text/turtle", f"{subject} <urn:is> 2 .".encode())

    def answer(request: BaseHTTPRequestHandler) -> None:
        if web.asked.count(path) == 1:
            free.wait(60)  # whoever asked first is dead by then
            request.close_connection = True
            return
        request.path = "/second"
        web.answer(request)

    web.special[path] = answer
    before = cluster.update(f"INSERT DATA {{ {subject} <urn:is> 1 }}")
    assert before.status_code == 204
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(cluster.update, f"LOAD <{web.url}{path}>")
        while path not in web.asked:
            time.sleep(0.01)
        assert objects(cluster.masters[0], subject) == ["1"]
        (busy,) = [
            worker
            for worker, url in cluster.workers.items()
            if HTTP.get(f"{url}/status").json()["evaluating"]
        ]
        cluster.lab.kill(busy)
        try:
            assert waiting.result(timeout=30).status_code == 204
            assert objects(cluster.masters[0], subject) == ["1", "2"]
        finally:
            free.set()
            cluster.lab.start(busy)
    assert web.asked.count(path) == 2
    cluster.wait_until_equal()
    assert len({recount(url)[0] for url in cluster.workers.values()}) == 1
