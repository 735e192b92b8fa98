"""LOAD on a real cluster: fetched once, the same everywhere, and refused as an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.cluster import Cluster, name, objects, recount

if TYPE_CHECKING:
    from tests.web import Web


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
