"""Updates that are too large, and those that are larger than a Kafka record."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from quadlog import codec
from quadlog.core.model import Payload
from quadlog.core.records import Effect, LoggedEntry
from tests.support.clusters.cluster import (
    FORM,
    HTTP,
    UPDATE,
    Cluster,
    applied_at,
    counted,
    index_of,
    name,
    nothing_logged,
    records,
)
from tests.support.clusters.sizes import LIMIT, MIB, refusal


@pytest.mark.parametrize("media_type", [UPDATE["Content-Type"], FORM["Content-Type"]])
def test_a_length_above_the_limit_is_413_before_the_body_comes(cluster: Cluster, media_type: str) -> None:
    """A form may be three times as long, since it may write every byte as three."""
    length = (LIMIT if media_type == UPDATE["Content-Type"] else 3 * LIMIT) + 1
    with nothing_logged(cluster):
        _, answer = refusal(cluster.masters[0], f"Content-Type: {media_type}\r\nContent-Length: {length}")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"max-transaction-size" in answer
        assert b'"TooLarge"' in answer
        assert b'"definite":true' in answer


def test_a_body_without_a_length_is_413_where_it_grows_too_large(cluster: Cluster) -> None:
    chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
    with nothing_logged(cluster):
        sent, answer = refusal(
            cluster.masters[0],
            f"Content-Type: {UPDATE['Content-Type']}\r\nTransfer-Encoding: chunked",
            (chunk for _ in range(2 * LIMIT // MIB)),
        )
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"max-transaction-size" in answer
        assert LIMIT < sent < 2 * LIMIT


def test_an_update_above_the_limit_is_413_also_in_a_form_that_is_not(cluster: Cluster) -> None:
    with nothing_logged(cluster):
        answer = HTTP.post(
            f"{cluster.masters[0]}/update", content="update=" + "+" * (LIMIT + 1), headers=FORM, timeout=60
        )
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge"), answer.text
        assert "max-transaction-size" in answer.json()["message"]


def test_megabytes_travel_in_chunks_to_every_data_centre(cluster: Cluster) -> None:
    """Above Kafka's limit of a record: payload, entry and effect are several records each."""
    graph, quads = name(), 8_000
    lines = "\n".join(f'<urn:big:{n}> <urn:is> "{n:0>300}" .' for n in range(quads))
    text = f"INSERT DATA {{ GRAPH {graph} {{ {lines} }} }}"
    assert len(text) > 2.5 * MIB
    answer = cluster.update(text, master=2)
    assert answer.status_code == 204, answer.text
    index, wanted = index_of(answer), uuid.UUID(answer.headers["Quadlog-Tx"]).bytes
    applied_at(cluster, index)
    for url in cluster.workers.values():
        assert counted(url, f"GRAPH {graph} {{ ?s ?p ?o }}") == quads
    for dc in cluster.lab.dcs:
        chunks: Counter[str] = Counter()
        for topic in ("payloads", "agreed", "effects"):
            for record in records(dc["kafka"], f"main.{dc['name']}.{topic}", last=100):
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
    assert cluster.update(text.replace("INSERT", "DELETE", 1), master=0).status_code == 204
    assert "<urn:big:" not in HTTP.get(f"{cluster.masters[0]}/repositories/main/statements").text
