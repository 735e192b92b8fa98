"""Compaction on a real broker and a real Spark: what a bundle says is what a worker does that hears every record."""

from __future__ import annotations

import gzip
import random
import shutil
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest
from pyoxigraph import Store

from consumers.effects import Run
from quadlog import codec
from quadlog.broker import end_of, ranges
from quadlog.codec import transactions
from quadlog.core.effects import control
from quadlog.core.effects.lines import graph_of, quads_of
from quadlog.core.effects.signature import as_bytes, empty_graph_line
from quadlog.errors import StateError, UserError
from quadlog.ports import Record
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.commit import NetChange, UpdateText, net_of
from quadlog.quadstore.quadstore import QuadStore
from quadlog.replay import proof, survey
from quadlog.replay.bundle import MANIFEST, BundleManifest, LastWord, lines_of
from quadlog.replay.compact import source
from quadlog.replay.replay import CompactedRange
from quadlog.replay.survey import Surveyor
from quadlog.worker.catchup import bundle_loader
from quadlog.worker.catchup.bundle_loader import load_bundle
from tests.bench.catching_up import line_of
from tests.bench.catching_up import log_of as log_of_bench
from tests.support.agreement.random_entries import heard_from, random_agreed
from tests.support.brokers import delete_before
from tests.support.masters.lineages import runs_of
from tests.support.masters.random_effects import (
    RandomTopic,
    World,
    counting_effects,
    difference,
    random_topic,
    with_small_chunks,
)
from tests.support.workers.replayed import agreed_for, compaction, log_of, produced, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from quadlog.core.effects.control import Control
    from quadlog.core.records import Effect, LoggedEntry

T = TypeVar("T")
# PySpark leaves the sockets to the collector that it talks to Java by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs, many chunks; processes of their own prove the files, as where they are large."""
    with_small_chunks(monkeypatch)
    monkeypatch.setattr(survey, "RUN", 16)
    monkeypatch.setattr(proof, "SMALL", 0)
    monkeypatch.setattr(transactions, "CHUNK", 600)


def net_in(lines: dict[LastWord, list[str]]) -> NetChange:
    """As a worker makes it."""
    quads = dict.fromkeys(lines[LastWord.DELETED], False)
    quads |= dict.fromkeys([*lines[LastWord.INSERTED], *lines[LastWord.KEPT]], True)
    graphs = dict.fromkeys([*lines[LastWord.FILLED], *lines[LastWord.DROPPED]], False)
    return NetChange(quads, graphs | dict.fromkeys(lines[LastWord.EMPTIED], True))


def heard_on(kafka: str, agreed: str, state: Applied) -> list[LoggedEntry]:
    """What a worker hears that goes on from there."""
    place = state.in_agreed
    with ranges(kafka, agreed) as between:
        return heard_from(list(between(place.offset, end_of(kafka, agreed)[0])), place.last, place.epoch)


def store_of(world: World) -> Store:
    store = Store()
    store.extend(quads_of(world.quads))
    for graph in world.graphs:
        store.add_graph(graph_of(graph))
    return store


def world_in(store: Store) -> World:
    return World(frozenset(f"{quad} ." for quad in store), frozenset(map(str, store.named_graphs())))


def changed_by(world: World, net: NetChange) -> World:
    store, update = store_of(world), UpdateText.of(net)
    store.update(update.text(), custom_functions=update.functions())
    for graph in update.unnamed:
        store.remove_graph(graph)
    return world_in(store)


@pytest.mark.parametrize("seed", [1, pytest.param(0, marks=pytest.mark.soak)])
def test_a_bundle_is_the_net_of_the_effects_that_count(
    seed: int, spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    topic = random_topic(random.Random(seed), steps=80)
    consumer, effects = counting_effects(topic.records, Applied())
    log, agreed = log_of(effects), agreed_for(kafka, effects)
    with compaction(spark, kafka, produced(kafka, topic.records), agreed) as job:
        lineage = job.follow(Applied())
        assert lineage.index == consumer.index > 40
        half = random.Random(seed).randrange(2, lineage.index)
        for after, until in ((0, lineage.index), (half // 2, half)):
            bundle = tmp_path / f"{after}-{until}"
            manifest = job.write(CompactedRange(after=after, until=until), bundle).proven()
            lines, before, expected = said(bundle, manifest), topic.worlds[after], topic.worlds[until]
            exact = difference(before, expected)
            for word in (LastWord.DELETED, LastWord.INSERTED, LastWord.EMPTIED, LastWord.FILLED):
                assert sorted(lines[word]) == sorted(exact[word]), (after, until, word)
            in_range = [effects[index] for index in range(after + 1, until + 1)]
            assert changed_by(before, net_of(in_range)) == expected
            assert changed_by(before, net_in(lines)) == expected
            assert manifest.before.signature == before.signature()
            assert (manifest.after.index, manifest.after.signature) == (until, expected.signature())
            assert manifest.after.effects_chain == effects[until].chain
            assert manifest.after.chain == effects[until].entry_chain
            pairs = [(one, effects[one.index]) for one in log[after:until]]
            assert list(manifest.controls) == control.changes_of(pairs)
            for state in (manifest.before, manifest.after):
                assert heard_on(kafka, agreed, state) == log[state.index :]


def test_lines_that_are_cut_are_read_together(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a proof in this process, of what is small."""
    monkeypatch.setattr(proof, "SMALL", 1 << 20)
    topic = RandomTopic(random.Random(7))
    while len(topic.effects) < 80:
        topic.say()
    with compaction(spark, kafka, produced(kafka, topic.records), agreed_for(kafka, topic.effects)) as job:
        spans = job.follow(Applied()).spans(0, topic.index)
        assert sum(span.group >= 0 for span in spans) > 5
        manifest = job.write(CompactedRange(), tmp_path / "bundle").proven()
    lines = said(tmp_path / "bundle", manifest)
    assert sorted(lines[LastWord.INSERTED]) == sorted(topic.worlds[topic.index].quads)
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
    with compaction(spark, kafka, produced(kafka, topic.records), agreed_for(kafka, topic.effects)) as job:
        with pytest.raises(StateError, match=r"effects 1 to 21 leads to the signature .* are not exact"):
            job.write(CompactedRange(), tmp_path / "bundle").proven()
        assert not list(tmp_path.iterdir())
        job.write(CompactedRange(until=20), tmp_path / "bundle").proven()
    assert (tmp_path / "bundle" / MANIFEST).is_file()


def test_a_topic_that_lacks_effects_says_so(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = plain_topic(40)
    name, agreed = produced(kafka, topic.records), agreed_for(kafka, topic.effects)
    with compaction(spark, kafka, name, agreed) as job:
        state = job.follow(Applied()).state_at(20)
        with pytest.raises(UserError, match="goes up to effect 40 now: there is no 41"):
            job.write(CompactedRange(until=41), tmp_path / "bundle").proven()
        with pytest.raises(UserError, match="no effects between 40 and 40"):
            job.write(CompactedRange(after=40), tmp_path / "bundle").proven()
    delete_before(kafka, name, state.effects_offset)
    with compaction(spark, kafka, name, agreed) as job:
        with pytest.raises(
            StateError, match=f"lacks effect 1, .* it begins at offset {state.effects_offset}"
        ):
            job.write(CompactedRange(), tmp_path / "bundle").proven()
        manifest = job.write(CompactedRange(applied=state), tmp_path / "bundle").proven()
    assert manifest.effects == 20
    gone = said(tmp_path / "bundle", manifest)[LastWord.DELETED]
    assert sorted(gone) == sorted(topic.worlds[20].quads - topic.worlds[40].quads)


def test_a_bundle_is_not_overwritten(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = plain_topic(3)
    with (
        compaction(spark, kafka, produced(kafka, topic.records), agreed_for(kafka, topic.effects)) as job,
        pytest.raises(UserError, match="is there already"),
    ):
        job.write(CompactedRange(), tmp_path).proven()


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
    with compaction(spark, kafka, produced(kafka, topic.records), agreed_for(kafka, topic.effects)) as job:
        lineage = job.follow(Applied())
    assert lineage.index == 400
    assert lineage.looked_at <= prefix + 4 * survey.RUN


def test_spark_finds_the_runs_of_effects(spark: SparkSession, kafka: str) -> None:
    """Each place but the first is one in which a single record is another one."""
    effects = [effect for _, effect in log_of_bench(6 * survey.RUN, 5)]
    first, last = effects[0], effects[survey.RUN - 1]
    places = [at for place in range(1, 6) for at in range(place * survey.RUN, (place + 1) * survey.RUN)]
    for at, change in (
        (places[5], {"attempt": 2}),
        (places[20], {"term": bytes(32)}),
        (places[33], {"signature_after": bytes(32)}),
        (places[48 + 15], {"index": 1}),
        (places[64 + 15], {"deleted": tuple(f"{line_of(n, 1)}" for n in range(20)), "inserted": ()}),
    ):
        effects[at] = replace(effects[at], **change)
    values = [value for effect in effects for value in codec.encode_effect(effect)]
    surveyor = Surveyor(spark)
    records = (Record("", 0, b"1", value, []) for value in values)
    with source(surveyor, kafka, produced(kafka, records)) as found:
        [run] = surveyor.effects(found.topic, 0, knows_epochs=False)
    assert run == Run(
        offset=0,
        first=1,
        last=survey.RUN,
        epoch=1,
        term=first.term,
        attempt=first.attempt,
        before=first.signature_before,
        after=last.signature_after,
    )


def test_spark_finds_the_runs_of_entries(spark: SparkSession, kafka: str) -> None:
    topic = random_agreed(random.Random(5), steps=60)
    surveyor = Surveyor(spark)
    with source(surveyor, kafka, produced(kafka, topic.records)) as found:
        for start in (0, 100):
            runs = surveyor.entries(found.topic, start)
            assert runs == list(runs_of(topic.records, survey.RUN, start))
            assert len(runs) > 3


def test_an_entry_that_is_missing_is_told(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = plain_topic(20)
    agreed = agreed_for(kafka, {index: effect for index, effect in topic.effects.items() if index < 20})
    with compaction(spark, kafka, produced(kafka, topic.records), agreed) as job:
        with pytest.raises(StateError, match=r"has no entry 20 with the chain that its effect names"):
            job.write(CompactedRange(), tmp_path / "bundle").proven()
        assert job.write(CompactedRange(until=19), tmp_path / "bundle").proven().after.index == 19


class Bundles(NamedTuple):
    """From the beginning of a topic to an effect, and from there to the end."""

    topic: RandomTopic
    half: int
    first: Path
    second: Path


@pytest.fixture(scope="module")
def bundles(spark: SparkSession, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """A test that changes one takes a copy."""
    directory = tmp_path_factory.mktemp("bundles")
    with pytest.MonkeyPatch.context() as patched:
        make_small(patched)
        found = Bundles(plain_topic(90), 40, directory / "first", directory / "second")
        name, agreed = produced(kafka, found.topic.records), agreed_for(kafka, found.topic.effects)
        with compaction(spark, kafka, name, agreed) as job:
            state = job.write(CompactedRange(until=found.half), found.first).proven().after
            job.write(CompactedRange(applied=state), found.second).proven()
    return found


def controls_at(effects: Mapping[int, Effect], index: int) -> dict[str, Control]:
    pairs = ((one, effects[one.index]) for one in log_of(effects)[:index])
    return control.after({}, control.changes_of(pairs))


def test_a_store_takes_bundles(bundles: Bundles, tmp_path: Path) -> None:
    topic, store = bundles.topic, QuadStore.open(tmp_path / "store")
    for path, index in ((bundles.first, bundles.half), (bundles.second, 90)):
        manifest = load_bundle(store, path)
        assert store.applied == manifest.after
        assert store.applied.index == index
        world = topic.worlds[index]
        empty = map(empty_graph_line, world.empty())
        assert sorted(store.lines()) == sorted([*world.quads, *empty])
        assert store.controls == controls_at(topic.effects, index)
    with pytest.raises(StateError, match=r"begins behind effect 40, and the store is at 90"):
        load_bundle(store, bundles.second)
    store.close()
    again = QuadStore.open(tmp_path / "store")
    assert (again.applied.index, again.controls) == (90, controls_at(topic.effects, 90))
    assert again.recount() == (topic.worlds[90].signature(), len(topic.worlds[90].quads))


def test_a_file_that_was_damaged_is_told(bundles: Bundles, tmp_path: Path) -> None:
    path = tmp_path / BundleManifest.read(bundles.first).files[0].name
    path.write_bytes((bundles.first / path.name).read_bytes()[:-3])
    with pytest.raises(StateError, match="ends within a line: make the bundle again"):
        list(lines_of(path))


def test_a_bundle_that_was_changed_changes_nothing(bundles: Bundles, tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    shutil.copytree(bundles.first, path)
    [file, *_] = [one for one in BundleManifest.read(path).files if one.word is LastWord.INSERTED]
    lines = gzip.decompress((path / file.name).read_bytes())
    (path / file.name).write_bytes(gzip.compress(lines + b'<urn:s> <urn:p> "more" .\n'))
    store = QuadStore.open(tmp_path / "store")
    with pytest.raises(StateError, match=r"is not the file that was proven: .* make the bundle again"):
        load_bundle(store, path)
    assert (store.applied, list(store.lines()), store.is_ahead) == (Applied(), [], False)
    (path / file.name).unlink()
    with pytest.raises(StateError, match=r"cannot be read: .* make the bundle again"):
        load_bundle(store, path)


class _Dies(BaseException):
    """In the place of a process."""


def dying(pieces: Iterable[T], after: int) -> Iterator[T]:
    yield from islice(pieces, after)
    raise _Dies


def test_a_death_on_the_way_is_made_good_by_the_log(
    bundles: Bundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of a bundle is there: who hears the effects again comes to the same, or takes it again."""
    topic, _, first, second = bundles
    monkeypatch.setattr(bundle_loader, "PIECE", 1)
    monkeypatch.setattr(bundle_loader, "BULK", 1)
    manifest = BundleManifest.read(second)
    number = len(list(bundle_loader.pieces_of(second, manifest)))
    assert number > 8
    effects = [topic.effects[index] for index in range(41, 91)]
    for round_, dies_after in enumerate(range(number + 1)):
        store = QuadStore.open(tmp_path / f"store{round_}")
        load_bundle(store, first)
        with pytest.raises(_Dies):
            store.apply_in_pieces(
                dying(bundle_loader.pieces_of(second, manifest), dies_after), manifest.after
            )
        store.close()
        again = QuadStore.open(tmp_path / f"store{round_}")
        assert (again.applied.index, again.half_made) == (40, 90)
        if round_ % 2:
            again.apply(effects[:20], Applied.after(effects[19]))
            assert again.is_ahead
            again.apply(effects[20:], Applied.after(effects[-1]))
        else:
            load_bundle(again, second)
        assert again.recount() == (topic.worlds[90].signature(), len(topic.worlds[90].quads))
        assert not again.is_ahead
        again.close()
