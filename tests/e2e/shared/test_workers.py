"""Workers: they take no writes, and are the same everywhere."""

from __future__ import annotations

from tests.support.clusters.cluster import (
    HTTP,
    UPDATE,
    Cluster,
    applied_at,
    index_of,
    name,
    nothing_logged,
    objects,
    recount,
)


def test_workers_refuse_whatever_writes(cluster: Cluster) -> None:
    subject = name()
    text = f"INSERT DATA {{ {subject} <urn:is> 1 }}"
    with nothing_logged(cluster):
        for url in cluster.workers.values():
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


def test_a_worker_is_not_asked_to_evaluate_with_nonsense(cluster: Cluster) -> None:
    for url in cluster.workers.values():
        for body in (b"", b"x", b"[]", b"{}", b'{"term": 1}', b'{"term": "00"}', b'{"term": "zz"}', b"\xff"):
            answer = HTTP.post(f"{url}/evaluate", content=body)
            assert (answer.status_code, answer.json()["error"]) == (400, "UserError"), body
        elsewhere = HTTP.post(
            f"{url}/evaluate", json={"dc": "dc9", "term": "00" * 32, "handover": 0, "epoch": 1}
        )
        assert (elsewhere.status_code, elsewhere.json()["error"]) == (403, "Forbidden")
        assert HTTP.get(f"{url}/status").json()["state"] == "serving"


def test_a_masters_query_door_takes_no_updates(cluster: Cluster) -> None:
    text = f"INSERT DATA {{ {name()} <urn:is> 1 }}"
    url = f"{cluster.masters[0]}/sparql"
    with nothing_logged(cluster):
        tries = [
            HTTP.post(url, content=text, headers=UPDATE),
            HTTP.post(url, data={"update": text}),
            HTTP.post(url, data={"query": text}),
            HTTP.get(url, params={"query": text}),
        ]
        assert [answer.status_code for answer in tries] == [403] * len(tries)


def test_blank_nodes_have_one_label_on_all_workers(cluster: Cluster) -> None:
    subject, graph = name(), name()
    text = (
        f"INSERT DATA {{ {subject} <urn:has> _:a, [ <urn:is> 1 ], ( 1 2 ) . _:a <urn:is> 2 }} ;"
        f"INSERT DATA {{ GRAPH {graph} {{ _:b <urn:is> {subject} }} }}"
    )
    answer = cluster.update(text, master=1)
    assert answer.status_code == 204, answer.text
    applied_at(cluster, index_of(answer))
    seen = set()
    for url in cluster.workers.values():
        lines = [line for line in HTTP.get(f"{url}/statements").text.split("\n") if "_:" in line]
        assert sum(subject in line for line in lines) == 4
        assert [line.endswith(f"{subject} {graph} .") for line in lines].count(True) == 1
        seen.add("\n".join(sorted(lines)))
    assert len(seen) == 1


def test_at_the_end_every_signature_is_what_anybody_can_count(cluster: Cluster) -> None:
    index = cluster.wait_until_equal()
    told = {worker["signature"] for number in range(3) for worker in cluster.status(number)["workers"]}
    counted = {recount(url)[0] for url in cluster.workers.values()}
    assert counted == told
    assert len(told) == 1
    for url in cluster.workers.values():
        quads = [
            line for line in recount(url)[1] if not line.startswith("#")
        ]  # a comment names an empty graph
        assert HTTP.get(f"{url}/status").json()["quads"] == len(quads)
    assert cluster.wait_until_equal() == index
