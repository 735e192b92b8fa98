"""One Idempotency-Key, one run: at whichever masters it is tried."""

from __future__ import annotations

import asyncio
import uuid
from urllib.parse import quote

import httpx
import pytest

from tests.support.clusters.cluster import (
    HTTP,
    UPDATE,
    Cluster,
    applied_at,
    index_of,
    name,
    nothing_logged,
    objects,
)


def test_a_key_runs_once_wherever_it_is_tried_again(cluster: Cluster) -> None:
    key, subject = f"again/{uuid.uuid4()}", name()
    text = f"INSERT DATA {{ {subject} <urn:is> [] }}"  # twice would leave two blank nodes
    first = cluster.update(text, master=0, Idempotency_Key=key)
    assert first.status_code == 204, first.text
    for master in (0, 1, 2, 0):
        again = cluster.update(text, master=master, Idempotency_Key=key)
        assert again.status_code == 204, again.text
        for header in ("Quadlog-Tx", "Quadlog-Index"):
            assert again.headers[header] == first.headers[header]
    assert cluster.wait_until_equal() == index_of(first)
    assert len(objects(cluster.masters[1], subject)) == 1


def all_at_once(cluster: Cluster, key: str, texts: list[str]) -> list[httpx.Response]:
    """Each text at one master after the other, all at the same time under one key."""

    async def send() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=60) as session:
            return await asyncio.gather(
                *(
                    session.post(
                        f"{cluster.masters[number % 3]}/update",
                        content=text,
                        headers=UPDATE | {"Idempotency-Key": key},
                    )
                    for number, text in enumerate(texts)
                )
            )

    return asyncio.run(send())


def test_a_key_tried_everywhere_at_once_runs_once(cluster: Cluster) -> None:
    for _ in range(5):
        before, subject = cluster.wait_until_equal(), name()
        answers = all_at_once(
            cluster, f"once-{uuid.uuid4()}", [f"INSERT DATA {{ {subject} <urn:is> [] }}"] * 9
        )
        assert {answer.status_code for answer in answers} == {204}
        assert (
            len({(answer.headers["Quadlog-Tx"], answer.headers["Quadlog-Index"]) for answer in answers}) == 1
        )
        assert cluster.wait_until_equal() == before + 1
        assert len(objects(cluster.masters[0], subject)) == 1


def test_a_key_with_another_body_is_422(cluster: Cluster) -> None:
    key, first, second = f"other-{uuid.uuid4()}", name(), name()
    assert cluster.update(f"INSERT DATA {{ {first} <urn:p> 1 }}", Idempotency_Key=key).status_code == 204
    with nothing_logged(cluster):
        for master in (0, 1, 2):
            answer = cluster.update(
                f"INSERT DATA {{ {second} <urn:p> 1 }}", master=master, Idempotency_Key=key
            )
            assert (answer.status_code, answer.json()["error"]) == (422, "KeyReused")
    assert objects(cluster.masters[0], second) == []


def test_of_two_bodies_under_one_key_one_wins_everywhere(cluster: Cluster) -> None:
    for _ in range(8):
        before, subject = cluster.wait_until_equal(), name()
        texts = [f"INSERT DATA {{ {subject} <urn:is> {number} }}" for number in range(2)]
        answers = all_at_once(cluster, f"race-{uuid.uuid4()}", texts)
        assert sorted(answer.status_code for answer in answers) == [204, 422]
        winner = next(number for number, answer in enumerate(answers) if answer.status_code == 204)
        assert cluster.wait_until_equal() == before + 1
        for url in cluster.workers.values():
            assert objects(url, subject) == [str(winner)]


@pytest.mark.parametrize("key", ["", "x" * 256, "clé"])
def test_keys_are_short_and_ascii(cluster: Cluster, key: str) -> None:
    """A header has no encoding, the path of /tx/{key} has one: another key would be asked for."""
    headers = [(b"Content-Type", UPDATE["Content-Type"].encode()), (b"Idempotency-Key", key.encode())]
    answer = HTTP.post(f"{cluster.masters[0]}/update", content=b"INSERT DATA {}", headers=headers)
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["message"]


def test_tx_tells_of_ids_and_keys_at_every_master(cluster: Cluster) -> None:
    key = f"tx/?{uuid.uuid4()} #%2F"
    answer = cluster.update(f"INSERT DATA {{ {name()} <urn:p> 1 }}", Idempotency_Key=key)
    applied_at(cluster, index_of(answer))
    for master in cluster.masters:
        for known in (answer.headers["Quadlog-Tx"], key):
            told = HTTP.get(f"{master}/tx/{quote(known, safe='')}").json()
            assert told["state"] == "applied"
            assert told["id"] == answer.headers["Quadlog-Tx"]
            assert answer.headers["Quadlog-Index"] == f"{told['index']}:{told['chain'][:16]}"
        for unknown in (str(uuid.uuid4()), "no such key", "é", "%00", "x" * 4000):
            found = HTTP.get(f"{master}/tx/{quote(unknown)}")
            assert (found.status_code, found.json()["state"]) == (200, "unknown")
