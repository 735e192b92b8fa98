"""What stands in the topics, as tools see it that know nothing of quadlog."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

import schemas
from quadlog import codec
from quadlog.core.model import LogPosition, Payload, Post
from quadlog.core.records import Effect, Fence, Heartbeat, LoggedEntry, Seed
from tests.support.clusters.cluster import TOPICS, Cluster, records, until
from tests.support.clusters.second_broker import Topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TYPES = {
    "payloads": {"quadlog.payload"},
    "rounds": {"quadlog.post"},
    "agreed": {"quadlog.entry"},
    "effects": {"quadlog.effect", "quadlog.effect.rejected", "quadlog.effect.rolled-back", "quadlog.fence"},
    "status": {"quadlog.heartbeat"},
}
"""What `ce_type` may be."""


@dataclass(frozen=True)
class Written:
    """What the tests look for: a small update with a trace, and a large one."""

    name: str
    index: int
    large_index: int
    text: str


@pytest.fixture(scope="module")
def written(cluster: Cluster) -> Written:
    text = f'INSERT DATA {{ <urn:topics:{uuid.uuid4()}> <urn:is> _:b, "ü" }}'
    answer = cluster.update(text, master=1, traceparent=TRACE)
    assert answer.status_code == 204, answer.text
    lines = " . ".join(f'<urn:topics:{n}> <urn:is> "{n:0>1000}"' for n in range(1200))
    large = cluster.update(f"INSERT DATA {{ {lines} }}", master=2, traceparent="nonsense")
    assert large.status_code == 204, large.text
    cluster.wait_until_equal()
    index, large_index = (int(one.headers["Quadlog-Index"].split(":")[0]) for one in (answer, large))
    return Written(answer.headers["Quadlog-Tx"], index, large_index, text)


@pytest.fixture(scope="module")
def everything(cluster: Cluster, written: Written) -> dict[tuple[str, str], list[Message]]:
    """Data centre and topic to all its records."""
    del written
    return {
        (dc["name"], topic): list(records(dc["kafka"], f"main.{dc['name']}.{topic}"))
        for dc in cluster.lab.dcs
        for topic in TOPICS
    }


def headers_of(message: Message) -> dict[str, str]:
    found: Any = message.headers()
    return {name: value.decode() for name, value in found}


# --- Avro, with nothing but the registry's address ------------------------------------------------------


def test_confluents_deserializer_reads_every_record(
    cluster: Cluster, everything: dict[tuple[str, str], list[Message]]
) -> None:
    """Of every topic, through another data centre's master than the one it stands in."""
    counts: defaultdict[str, int] = defaultdict(int)
    for number, dc in enumerate(cluster.lab.dcs):
        registry = {"url": f"{cluster.masters[(number + 1) % 3]}/registry"}
        with closing(SchemaRegistryClient(registry)) as client:
            read = AvroDeserializer(client)
            for topic in TOPICS:
                context = SerializationContext(f"main.{dc['name']}.{topic}", MessageField.VALUE)
                for message in everything[dc["name"], topic]:
                    value: Any = read(message.value(), context)
                    said, chunk, chunks = codec.decode_chunk(message.value() or b"")
                    counts[type(said).__name__] += 1
                    assert (value.get("chunk", 0), value.get("chunks", 1)) == (chunk, chunks)
                    check_same(said, value)
    assert set(counts) == {"Payload", "Post", "LoggedEntry", "Effect", "Fence", "Heartbeat"}


def check_same(said: codec.Said, value: Mapping[str, Any]) -> None:
    """What anybody's Avro gives is what quadlog means."""
    match said:
        case Payload():
            assert (value["id"], value["digest"]) == said.transaction.key
            assert (value["origin"], value["body"]) == (said.origin, said.body)
            assert value["kind"] == said.transaction.kind
            assert value["created"] == datetime.fromtimestamp(said.created / 1000, UTC)
        case LoggedEntry():
            assert (value["index"], value["id"], value["body"]) == (said.index, said.id, said.body)
            assert (value["previous"], value["chain"], value["lineage"]) == (
                said.previous,
                said.chain,
                said.lineage,
            )
        case Effect():
            assert (value["index"], value["outcome"], value["quads"]) == (
                said.index,
                said.outcome,
                said.quads,
            )
            assert tuple(value["inserted"]) == said.inserted
            assert tuple(value["deleted"]) == said.deleted
            assert tuple(value["dropped"]) == said.dropped
            assert value["signature_after"] == said.signature_after
        case Fence():
            assert (value["term"], value["attempt"], value["worker"]) == (
                said.term,
                said.attempt,
                said.worker,
            )
        case Post():
            assert (value["node"], value["sequence"], value["counter"]) == (
                said.node,
                said.sequence,
                said.counter,
            )
            assert [tuple(pair.values()) for pair in value["queue"]] == list(said.queue)
            assert LogPosition(**value["base"]) == said.base
            assert tuple(value["view"]["members"]) == said.view.members
        case Seed():
            assert (value["signature"], value["quads"], value["digest"]) == (
                said.signature,
                said.quads,
                said.digest,
            )
        case Heartbeat():
            assert (value["worker"], value["state"]) == (said.worker, said.state.value)
            assert LogPosition(value["applied_index"], value["applied_chain"]) == said.applied
            assert value["signature"] == said.signature


def test_the_update_is_found_in_payload_entry_and_effect(
    written: Written, everything: dict[tuple[str, str], list[Message]]
) -> None:
    """As it was sent, in every data centre, under its trace."""
    for dc in ("dc1", "dc2", "dc3"):
        [payload] = [m for m in everything[dc, "payloads"] if (m.key() or b"").decode() == written.name]
        [entry] = [m for m in everything[dc, "agreed"] if m.key() == str(written.index).encode()]
        [effect] = [m for m in everything[dc, "effects"] if m.key() == str(written.index).encode()]
        for message in (payload, entry, effect):
            assert headers_of(message)["traceparent"] == TRACE
        said = codec.decode(entry.value() or b"")
        assert isinstance(said, LoggedEntry)
        assert said.body.decode() == written.text
        assert said.traceparent == TRACE
        done = codec.decode(effect.value() or b"")
        assert isinstance(done, Effect)
        assert (done.entry_chain, done.id) == (said.chain, said.id)
        assert len(done.inserted) == 2
        assert headers_of(payload)["origin-dc"] == "dc2"
        assert headers_of(payload)["ce_source"] == "dc2-m1"


def test_a_trace_that_is_none_is_not_passed_on(
    written: Written, everything: dict[tuple[str, str], list[Message]]
) -> None:
    for dc in ("dc1", "dc2", "dc3"):
        chunks = [m for m in everything[dc, "agreed"] if m.key() == str(written.large_index).encode()]
        assert len(chunks) > 1
        assert all("traceparent" not in headers_of(message) for message in chunks)


def test_effects_are_the_same_bytes_everywhere(everything: dict[tuple[str, str], list[Message]]) -> None:
    """Each copy names its original.  Where a data centre copied from another one for a while, it may repeat some."""
    topics = {dc: everything[dc, "effects"] for dc in ("dc1", "dc2", "dc3")}
    for dc in ("dc2", "dc3"):
        for copy in topics[dc]:
            said = headers_of(copy)
            original = topics[said["mirrored-from"]][int(said["mirrored-offset"])]
            assert (original.key(), original.value()) == (copy.key(), copy.value())
    different = {dc: list(dict.fromkeys((m.key(), m.value()) for m in topics[dc])) for dc in topics}
    assert different["dc1"] == different["dc2"] == different["dc3"]


def test_agreed_topics_are_one_log(everything: dict[tuple[str, str], list[Message]]) -> None:
    """But for who took it: one key, one body and one millisecond at two masters are one transaction."""
    logs = [[entry_of(message) for message in everything[dc, "agreed"]] for dc in ("dc1", "dc2", "dc3")]
    assert logs[0] == logs[1] == logs[2]
    last = LogPosition(0, bytes(32))
    for entry in logs[0]:
        if entry.index != last.index:  # else a later chunk
            assert (entry.index, entry.previous) == (last.index + 1, last.chain)
        last = LogPosition(entry.index, entry.chain)


def entry_of(message: Message) -> LoggedEntry:
    """The entry, or a chunk of it."""
    entry, _, _ = codec.decode_chunk(message.value() or b"")
    assert isinstance(entry, LoggedEntry)
    return entry


# --- keys, headers, partitions ------------------------------------------------------------------------


def test_every_topic_has_exactly_one_partition(cluster: Cluster) -> None:
    for dc in cluster.lab.dcs:
        known = AdminClient({"bootstrap.servers": dc["kafka"]}).list_topics(timeout=20).topics
        mine = {name: len(topic.partitions) for name, topic in known.items() if name.startswith("main.")}
        assert mine == {f"main.{dc['name']}.{topic}": 1 for topic in (*TOPICS, "checkpoint")}


def printable(text: str) -> bool:
    return text.isprintable() and bool(text)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt-get install kcat")
def test_kcat_reads_readable_keys_and_headers(
    cluster: Cluster, written: Written, everything: dict[tuple[str, str], list[Message]]
) -> None:
    """With Debian's build, which has no Avro: values are bytes, keys and headers are text."""
    for dc in cluster.lab.dcs:
        for topic in TOPICS:
            name = f"main.{dc['name']}.{topic}"
            # So many, not to the end (-e): where heartbeats keep coming there is none.
            count = str(len(everything[dc["name"], topic]))
            command = ["kcat", "-C", "-q", "-c", count, "-b", dc["kafka"], "-t", name, "-o", "beginning"]
            read = subprocess.run([*command, "-f", "%o|%k|%h\n"], capture_output=True, check=True, timeout=60)
            lines = read.stdout.decode("utf-8").splitlines()
            assert [int(line.split("|")[0]) for line in lines] == list(range(len(lines)))
            assert lines
            events = set[tuple[str, str]]()
            repeated = set[str]()
            for line in lines:
                _, key, listed = line.split("|", 2)
                assert printable(key)
                assert printable(listed)
                headers = dict(one.split("=", 1) for one in listed.split(","))
                assert {"ce_id", "ce_source", "ce_type", "ce_time", "ce_specversion", "content-type"} <= set(
                    headers
                )
                assert all(map(printable, headers.values()))
                assert headers["ce_type"] in TYPES[topic]
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", headers["ce_time"])
                assert headers["content-type"] == "application/avro"
                event = (headers["ce_source"], headers["ce_id"])
                if event in events:
                    repeated.add(headers["ce_source"])
                events.add(event)
            if topic == "rounds":  # posts of others are passed on where a link is slow, perhaps twice
                repeated = {source for source in repeated if source.startswith(f"{dc['name']}-")}
            assert not repeated or topic in {"payloads", "agreed", "effects"}, "chunks share theirs"
    # And as JSON, as scripts use it.
    dc = cluster.lab.dcs[0]
    command = ["kcat", "-C", "-q", "-e", "-J", "-b", dc["kafka"], "-t", "main.dc1.agreed", "-o", "beginning"]
    said = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.splitlines()
    keys = [re.search(rb'"key":"(\d+)"', line) for line in said]
    assert str(written.index).encode() in [key.group(1) for key in keys if key]


# --- the registry -----------------------------------------------------------------------------------------


def test_the_registry_of_every_master(cluster: Cluster) -> None:
    for master in cluster.masters:
        with httpx.Client(base_url=f"{master}/registry") as registry:
            subjects = registry.get("/subjects").json()
            assert subjects == sorted(subjects)
            assert set(subjects) == {
                f"quadlog.{name}"
                for name in (
                    *("Payload", "Post", "Entry", "Cut", "Effect", "Fence", "Handover", "Rewind"),
                    *("Heartbeat", "Seed", "Checkpoint", "Undecided", "Violation"),
                )
            }
            for subject in subjects:
                versions = registry.get(f"/subjects/{subject}/versions").json()
                assert versions == list(range(1, len(schemas.versions(subject)) + 1))
                newest = registry.get(f"/subjects/{subject}/versions/latest").json()
                assert registry.get(f"/subjects/{subject}/versions/{versions[-1]}").json() == newest
                by_id = registry.get(f"/schemas/ids/{newest['id']}").json()
                assert by_id["schema"] == newest["schema"]
                schema = json.loads(newest["schema"])
                assert f"{schema['namespace']}.{schema['name']}" == subject == newest["subject"]
                where = registry.get(f"/schemas/ids/{newest['id']}/versions").json()
                assert where == [{"subject": subject, "version": versions[-1]}]
            assert registry.get("/mode").json() == {"mode": "READONLY"}
            assert (
                registry.get("/subjects").headers["content-type"] == "application/vnd.schemaregistry.v1+json"
            )


def test_what_the_registry_does_not_have(cluster: Cluster) -> None:
    with httpx.Client(base_url=f"{cluster.masters[0]}/registry") as registry:
        for path, code in (
            ("/schemas/ids/99", 40403),
            ("/schemas/ids/99/versions", 40403),
            ("/subjects/none/versions", 40401),
            ("/subjects/none/versions/1", 40401),
            ("/subjects/quadlog.Post/versions/99", 40402),
        ):
            answer = registry.get(path)
            assert (answer.status_code, answer.json()["error_code"]) == (404, code), path


def test_the_registry_takes_nothing(cluster: Cluster) -> None:
    schema = {"schema": '{"type": "string"}'}
    with httpx.Client(base_url=f"{cluster.masters[0]}/registry") as registry:
        before = registry.get("/subjects").json()
        for answer in (
            registry.post("/subjects/mine/versions", json=schema),
            registry.post("/subjects/quadlog.Post/versions", json=schema),
            registry.delete("/subjects/quadlog.Post"),
        ):
            assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
        for method, path in (
            ("DELETE", "/subjects/quadlog.Post/versions/1"),
            ("PUT", "/config"),
            ("PUT", "/mode"),
        ):
            assert registry.request(method, path, json={}).status_code in {405, 422}
        assert registry.get("/subjects").json() == before


def test_a_wrong_setting_is_told_within_seconds(cluster: Cluster) -> None:
    """With the command that corrects it, at the master of its data centre; the long version: `test_retention.py`."""
    topic = Topic(cluster, 1, "agreed")
    topic.configure("retention.ms", "1000000000")
    [alarm] = until(lambda: cluster.status(1)["alarms"], 15)
    assert (alarm["name"], alarm["topic"], alarm["setting"], alarm["value"]) == (
        "topic-misconfigured",
        "main.dc2.agreed",
        "retention.ms",
        "1000000000",
    )
    assert alarm["what_to_do"].endswith("--entity-name main.dc2.agreed --add-config retention.ms=-1")
    topic.configure("retention.ms", "-1")
    until(lambda: not cluster.status(1)["alarms"], 15)
