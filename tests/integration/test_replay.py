"""Compaction on a real broker and a real Spark: what a bundle says is what a worker does that hears every record."""

from __future__ import annotations

import random
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyoxigraph import Store

from consumers import replay
from consumers.replay import Compaction, Range, Topic
from quadlog.applied import Applied
from quadlog.broker import beginning_of, end_of, ranges
from quadlog.bundle import MANIFEST, Manifest, Word, lines_of
from quadlog.commit import Net, UpdateText, net_of
from quadlog.core.lines import graph_of, quads_of
from quadlog.core.signature import as_bytes
from quadlog.errors import StateError, UserError
from quadlog.spark import SparkSettings, session
from tests.core.random_effects import (
    RandomTopic,
    World,
    counting_effects,
    difference,
    random_topic,
    with_small_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from quadlog.ports import Record

TOPICS = 3
_numbers = count()
# PySpark leaves the sockets to the collector that it talks to Java by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session(SparkSettings(), print) as running:
        yield running


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs, many chunks."""
    with_small_chunks(monkeypatch)
    monkeypatch.setattr(replay, "RUN", 16)


def produced(kafka: str, records: Iterable[Record]) -> str:
    """A topic with these records."""
    name = f"replayed-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": kafka})
    for made in admin.create_topics([NewTopic(name, 1, 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20})
    for record in records:
        producer.produce(name, key=record.key, value=record.value, headers=list(record.headers))
    producer.flush()
    return name


@contextmanager
def compaction(spark: SparkSession, kafka: str, name: str) -> Iterator[Compaction]:
    end, _ = end_of(kafka, name, count=0)
    topic = Topic(kafka=kafka, name=name, beginning=beginning_of(kafka, name), end=end)
    with ranges(kafka, name) as between:
        yield Compaction(spark, topic, between, lambda _: nullcontext())


def said(bundle: Path, manifest: Manifest) -> dict[Word, list[str]]:
    lines: dict[Word, list[str]] = {word: [] for word in Word}
    for file in manifest.files:
        lines[file.word] += [line.decode() for some in lines_of(bundle / file.name) for line in some]
    return lines


def net_in(lines: dict[Word, list[str]]) -> Net:
    """As a worker makes it."""
    quads = dict.fromkeys(lines[Word.DELETED], False)
    quads |= dict.fromkeys([*lines[Word.INSERTED], *lines[Word.KEPT]], True)
    graphs = dict.fromkeys([*lines[Word.FILLED], *lines[Word.DROPPED]], False)
    return Net(quads, graphs | dict.fromkeys(lines[Word.EMPTIED], True))


def store_of(world: World) -> Store:
    store = Store()
    store.extend(quads_of(world.quads))
    for graph in world.graphs:
        store.add_graph(graph_of(graph))
    return store


def world_in(store: Store) -> World:
    return World(frozenset(f"{quad} ." for quad in store), frozenset(map(str, store.named_graphs())))


def changed_by(world: World, net: Net) -> World:
    store, update = store_of(world), UpdateText.of(net)
    store.update(update.text(), custom_functions=update.functions())
    for graph in update.unnamed:
        store.remove_graph(graph)
    return world_in(store)


@pytest.mark.parametrize("seed", range(TOPICS))
def test_a_bundle_is_the_net_of_the_effects_that_count(
    seed: int, spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    topic = random_topic(random.Random(seed), steps=80)
    consumer, effects = counting_effects(topic.records, Applied())
    with compaction(spark, kafka, produced(kafka, topic.records)) as job:
        lineage = job.follow(Applied())
        assert lineage.index == consumer.index > 40
        half = random.Random(seed).randrange(2, lineage.index)
        for after, until in ((0, lineage.index), (half // 2, half)):
            bundle = tmp_path / f"{after}-{until}"
            manifest = job.write(Range(after=after, until=until), bundle)
            lines, before, expected = said(bundle, manifest), topic.worlds[after], topic.worlds[until]
            exact = difference(before, expected)
            for word in (Word.DELETED, Word.INSERTED, Word.EMPTIED, Word.FILLED):
                assert sorted(lines[word]) == sorted(exact[word]), (after, until, word)
            in_range = [effects[index] for index in range(after + 1, until + 1)]
            assert changed_by(before, net_of(in_range)) == expected
            assert changed_by(before, net_in(lines)) == expected
            assert manifest.before.signature == before.signature()
            assert (manifest.after.index, manifest.after.signature) == (until, expected.signature())
            assert manifest.after.effects_chain == effects[until].chain
            assert manifest.after.chain == effects[until].entry_chain


def test_lines_that_are_cut_are_read_together(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = RandomTopic(random.Random(7))
    while len(topic.effects) < 80:
        topic.say()
    with compaction(spark, kafka, produced(kafka, topic.records)) as job:
        spans = job.follow(Applied()).spans(0, topic.index)
        assert sum(span.group >= 0 for span in spans) > 5
        manifest = job.write(Range(), tmp_path / "bundle")
    lines = said(tmp_path / "bundle", manifest)
    assert sorted(lines[Word.INSERTED]) == sorted(topic.worlds[topic.index].quads)
    assert manifest.effects == topic.index


def plain_topic(effects: int, seed: int = 3) -> RandomTopic:
    topic = RandomTopic(random.Random(seed))
    while topic.index < effects:
        topic.say()
    return topic


def test_an_effect_that_is_not_exact_makes_no_bundle(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """It counts for all who look at signatures alone; the proof is of the lines."""
    topic = plain_topic(20)
    lying = plain_topic(20)
    lying.say()
    effect = replace(lying.effects[21], inserted=(*lying.effects[21].inserted, '<urn:s> <urn:p> "more" .'))
    topic._made |= lying._made
    topic.append(effect)
    with compaction(spark, kafka, produced(kafka, topic.records)) as job:
        with pytest.raises(StateError, match=r"effects 1 to 21 leads to the signature .* are not exact"):
            job.write(Range(), tmp_path / "bundle")
        assert not list(tmp_path.iterdir())
        job.write(Range(until=20), tmp_path / "bundle")
    assert (tmp_path / "bundle" / MANIFEST).is_file()


def test_a_topic_that_lacks_effects_says_so(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = plain_topic(40)
    name = produced(kafka, topic.records)
    with compaction(spark, kafka, name) as job:
        state = job.follow(Applied()).state_at(20)
        with pytest.raises(UserError, match="goes up to effect 40 now: there is no 41"):
            job.write(Range(until=41), tmp_path / "bundle")
        with pytest.raises(UserError, match="no effects between 40 and 40"):
            job.write(Range(after=40), tmp_path / "bundle")
    admin = AdminClient({"bootstrap.servers": kafka})
    for cut in admin.delete_records([TopicPartition(name, 0, state.effects_offset)]).values():
        cut.result()
    with compaction(spark, kafka, name) as job:
        with pytest.raises(
            StateError, match=f"lacks effect 1, .* it begins at offset {state.effects_offset}"
        ):
            job.write(Range(), tmp_path / "bundle")
        manifest = job.write(Range(applied=state), tmp_path / "bundle")
    assert manifest.effects == 20
    gone = said(tmp_path / "bundle", manifest)[Word.DELETED]
    assert sorted(gone) == sorted(topic.worlds[20].quads - topic.worlds[40].quads)


def test_a_bundle_is_not_overwritten(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    with (
        compaction(spark, kafka, produced(kafka, plain_topic(3).records)) as job,
        pytest.raises(UserError, match="is there already"),
    ):
        job.write(Range(), tmp_path)


def test_a_file_that_was_damaged_is_told(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    with compaction(spark, kafka, produced(kafka, plain_topic(30).records)) as job:
        manifest = job.write(Range(), tmp_path / "bundle")
    path = tmp_path / "bundle" / manifest.files[0].name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StateError, match="ends within a line: make the bundle again"):
        list(lines_of(path))


def test_only_what_stands_alone_is_heard_record_by_record(spark: SparkSession, kafka: str) -> None:
    """The driver of a long topic reads next to nothing itself."""
    topic = plain_topic(10)
    quiet, prefix = random.Random(1), len(topic.records)
    while topic.index < 400:
        world = World(frozenset({f'<urn:s:{quiet.randrange(9)}> <urn:p> "{topic.index}" .'}), frozenset())
        before = topic.worlds[topic.index]
        effect = topic.next_effect(before, topic.effects[topic.index], topic.index + 1)
        topic._made[as_bytes(world.signature())] = world
        topic.append(
            replace(
                effect,
                **difference(before, world),
                signature_after=as_bytes(world.signature()),
                quads=len(world.quads),
            )
        )
    with compaction(spark, kafka, produced(kafka, topic.records)) as job:
        lineage = job.follow(Applied())
    assert lineage.index == 400
    assert lineage.looked_at <= prefix + 2 * replay.RUN
