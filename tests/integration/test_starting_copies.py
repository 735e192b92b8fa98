"""A worker that starts takes a copy where it has to, or where that is faster, and logs which."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from quadlog.broker import Hole
from quadlog.cli.backing_up import run_backup
from quadlog.core.catchup import SPEED
from quadlog.core.records import CatchUpProgress as Progress
from quadlog.errors import QuadlogError
from quadlog.snapshots.backups import LogExtent
from quadlog.topics import Topics
from quadlog.worker.catchup import catch_up, store_transfer, stream
from quadlog.worker.catchup.catch_up import CatchUp
from quadlog.worker.catchup.partial_copy import COMING, PartialCopy
from quadlog.worker.catchup.restoring import Restoring
from quadlog.worker.catchup.store_transfer import StoreTransfer
from quadlog.worker.repair.kept_branch import KeptBranch, save_branch
from quadlog.worker.repair.mender import QUADS
from quadlog.worker.replica import out_of_log
from quadlog.worker.replica.out_of_log import KnownHoles
from quadlog.worker.replica.rates import RatesFile
from tests.support.workers.copies import FED, Taker, filled, given_by, giving

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from pathlib import Path

    from quadlog.quadstore.applied import Applied


@dataclass
class Starting:
    """A worker's start, with what its topics say."""

    taker: Taker
    monkeypatch: pytest.MonkeyPatch
    newest: int = 7
    """Index of the newest effect."""
    beginnings: list[int] = field(default_factory=list)
    """Where the effects topic begins, each time it is asked; at 0 behind these."""
    looks: list[Callable[[], Progress]] = field(default_factory=list)
    """What it has said of itself, each by the next one."""

    def run(self, **settings: float | str | Path) -> tuple[int, list[str]]:
        """The index that it begins to hear the log at, and what it said."""
        self.monkeypatch.setattr(catch_up, "AGAIN_S", 0.0)
        self.monkeypatch.setattr(CatchUp, "_look_for_the_newest", lambda _: self.newest)
        self.monkeypatch.setattr(catch_up, "run_job", _refused)
        self.monkeypatch.setattr(catch_up, "with_agreed", lambda settings, _: settings)  # no master is there
        beginnings = self.beginnings

        def beginning_of(_: str, topic: str, **__: float) -> int:
            return beginnings.pop(0) if beginnings and topic.endswith("effects") else 0

        self.monkeypatch.setattr(out_of_log, "beginning_of", beginning_of)
        chosen = self.taker.settings.model_copy(update=settings)
        rates = RatesFile(self.taker.directory / "rates.json", speed=chosen.net_speed_bits_per_sec)
        with capture_logs() as said:
            store = CatchUp(
                chosen, Topics("main", "dc1"), self.taker.opened(), rates, self.looks.append
            ).run()
        index = store.applied.index
        store.close()
        return index, [_named(one) for one in said if one["event"] != "copy_requested"]


def _named(one: MutableMapping[str, Any]) -> str:
    """An event, with the field that tells why a whole store is taken."""
    return f"{one['event']}: {one['cause']}" if "cause" in one else str(one["event"])


def _refused(*_: object) -> None:
    raise QuadlogError("no Spark here")


@pytest.fixture
def starting(taker: Taker, monkeypatch: pytest.MonkeyPatch) -> Starting:
    """It took an effect in ten seconds the last time."""
    (taker.directory / "rates.json").write_text('{"incremental": 0.1}')
    return Starting(taker, monkeypatch)


HURRIED = {"min_time_to_consider_full_replication": 0.0, "full_replication_time_factor": 1.0}
HEARD = "catch_up_failed"
OUT = "full_replication_started: out_of_sync"


def test_the_chooser_takes_a_copy_where_that_is_faster(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run() == (3, ["catch_up_started"]), "40 s are not above 600"
        slow = HURRIED | {"net_speed_bits_per_sec": 1.0}
        assert starting.run(**slow) == (3, ["catch_up_started", HEARD]), "a bundle, which nobody makes here"
        assert starting.run(**HURRIED) == (
            7,
            ["catch_up_started", "full_replication_started: catch_up", "copy_taken"],
        )
        assert starting.run(**HURRIED) == (7, []), "nothing is missing"
        assert (giver.made, giver.asked) == (1, [0])


def test_a_store_that_keeps_a_branch_stays_as_it_is(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is rebuilt: a copy, which is nearer to the log, would be the end of the branch."""
    store = filled(tmp_path / "store", 500)
    opened = starting.taker.opened()
    save_branch(starting.taker.directory, KeptBranch(fork=1, epoch=2, store=opened.name))
    opened.close()
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run(catch_up="full") == (3, [])
        assert giver.asked == []


def test_who_has_nothing_takes_a_copy_at_once(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    shutil.rmtree(starting.taker.directory / QUADS)
    given_by(monkeypatch)
    assert starting.run() == (0, ["catch_up_started"]), "nobody has anything"
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run() == (7, ["catch_up_started", "full_replication_started: empty", "copy_taken"])


def test_a_size_that_nobody_knows(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out", offers=False) as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run(**HURRIED) == (3, ["donor_size_unknown", "catch_up_started", HEARD])


def test_out_of_the_log(starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is out of it again was given in vain."""
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        starting.beginnings = [100, 100]
        again, took = "full_replication_started: copy_out_of_sync", "copy_taken"
        assert starting.run() == (7, [OUT, took, again, took])


def test_a_store_before_a_hole_in_a_topic_is_copied_over_it(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found by hearing the topic; behind it the log is heard as usual."""
    KnownHoles(starting.taker.directory).note(Hole(topic="main.dc1.effects", first=50, end=60))
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run() == (7, [OUT, "copy_taken"])
    assert starting.run() == (7, [])


def test_it_says_how_far_it_is(starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Progress] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            if starting.looks:
                said.append(starting.looks[-1]())

    store = filled(tmp_path / "store", 20_000)
    with giving(store, tmp_path / "out", bandwidth=1_000_000.0) as giver, ThreadPoolExecutor() as pool:
        given_by(monkeypatch, giver.url)
        looking = pool.submit(look)
        starting.run(**HURRIED)
        ended.set()
        looking.result()
    said.append(starting.looks[-1]())
    assert {(one.way, one.behind, one.obstacle) for one in said} == {("full", 4, "")}
    percents = [one.percent for one in said]
    assert percents == sorted(percents)
    assert len(set(percents)) > 5
    assert percents[-1] == 100
    half = next(one for one in said if one.percent >= 50)
    assert half.left_s is not None
    assert str(half).startswith(f"full, {half.percent} %, about ")


def test_it_says_what_it_waits_for(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    given_by(monkeypatch)
    starting.beginnings = [100, 100]
    starting.run()
    [_, second] = starting.looks
    assert (second().way, second().behind, second().percent) == ("full", 4, 0)
    assert str(second()).startswith(
        "full, but main.dc1.effects begins at offset 100, and this worker needs it from offset 30 on;"
        " no worker of this data centre gives a copy: none is there: start another worker"
    )
    assert "quadlog dc rebuild" in str(second())


def test_what_a_bundle_takes_is_told_by_what_it_took(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [0.0]
    monkeypatch.setattr(catch_up, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    (starting.taker.directory / "rates.json").write_text('{"compacted": 0.1, "start_s": 20}')
    given_by(monkeypatch)
    starting.run(catch_up="compacted")
    [look] = starting.looks
    for now, percent, left_s in ((0.0, 0, 60), (30.0, 50, 30), (70.0, 99, None)):
        moment[0] = now
        assert look() == Progress(way="compacted", behind=4, percent=percent, left_s=left_s)


def test_the_speed_is_measured(starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_transfer, "_TELLING", 10_000)
    store = filled(tmp_path / "store", 2_000)
    with giving(store, tmp_path / "out", bandwidth=100_000.0) as giver:
        given_by(monkeypatch, giver.url)
        starting.run(**HURRIED)
    rates = RatesFile(starting.taker.directory / "rates.json").read()
    assert rates.incremental == 0.1
    assert 10_000 < rates.copied < 1_000_000


LOOKED = "backup_search_started"
IS_THAT = "store_replaced"


@pytest.fixture
def backups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One, up to entry 7, that the log goes on behind."""
    monkeypatch.setattr(Restoring, "_log", lambda _: LogExtent(FED, (0, 1000), (0, 1000)))
    store = filled(tmp_path / "backed-up", 20_000)
    with giving(store, tmp_path / "out-to-backup") as giver:
        run_backup(tmp_path / "backups", giver.url, print)
    store.close()
    return tmp_path / "backups"


def test_where_no_donor_is_a_backup_is_taken(
    starting: Starting, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_by(monkeypatch, "http://127.0.0.1:1")
    monkeypatch.setattr(stream, "TRIES", 1)
    starting.beginnings = [100]
    events = [out, *_, took] = starting.run(backups=backups)[1]
    assert (out, took) == (OUT, "backup_restored")
    assert LOOKED in events
    assert IS_THAT in events
    [look] = starting.looks
    assert (look().way, look().percent) == ("full", 100)


def test_what_a_donor_began_makes_room_for_a_backup(
    starting: Starting, backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies half-way."""
    store = filled(tmp_path / "store", 20_000, index=9)
    monkeypatch.setattr(stream, "TRIES", 2)
    put_into, coming = PartialCopy.put_into, starting.taker.directory / COMING

    def alone(here: PartialCopy, data_dir: Path) -> Applied:
        assert not coming.exists()
        return put_into(here, data_dir)

    monkeypatch.setattr(PartialCopy, "put_into", alone)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        giver.cut_after = [40_000, 0, 0]
        starting.beginnings = [100]
        index, said = starting.run(backups=backups)
    assert (index, said[-1]) == (7, "backup_restored")
    assert giver.asked[0] == 0


def test_a_donor_goes_before_a_backup(
    starting: Starting, backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500, index=9)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        starting.beginnings = [100]
        assert starting.run(backups=backups) == (9, [OUT, "copy_taken"])


def test_where_there_is_neither_both_reasons_are_told(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_by(monkeypatch)
    monkeypatch.setattr(Restoring, "_log", lambda _: LogExtent(FED, (0, 1000), (0, 1000)))
    (tmp_path / "none").mkdir()
    starting.beginnings = [100, 100]
    starting.run(backups=tmp_path / "none")
    assert (
        "; no worker of this data centre gives a copy: none is there; and no backup is usable: there is none in"
        f" {tmp_path / 'none'}: start another worker"
    ) in str(starting.looks[-1]())


def test_the_chooser_reckons_with_a_backup_and_what_came_behind_it(
    starting: Starting, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds for each effect that it lacks."""
    given_by(monkeypatch)
    monkeypatch.setattr(store_transfer, "_TELLING", 10_000)
    hurried = HURRIED | {"backups": backups}
    rates = starting.taker.directory / "rates.json"
    rates.write_text('{"incremental": 0.1, "compacted": 0.07}')
    starting.newest = 10
    patient = hurried | {"full_replication_time_factor": 2.5}
    assert starting.run(**patient)[0] == 3, "70 s, and 30 behind the backup"
    index, said = starting.run(**hurried)
    assert (index, said[1:3]) == (7, ["full_replication_started: catch_up", LOOKED])
    assert RatesFile(rates).read().restored not in {0.0, SPEED}
    assert RatesFile(rates).read().copied == SPEED


def test_who_has_nothing_takes_a_backup_at_once(
    starting: Starting, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_by(monkeypatch)
    shutil.rmtree(starting.taker.directory / QUADS)
    index, said = starting.run(backups=backups)
    assert (index, said) == (
        7,
        ["catch_up_started", "full_replication_started: empty", LOOKED, IS_THAT, "backup_restored"],
    )


def test_whether_a_rebuilt_worker_would_be_given_a_store(
    starting: Starting, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one or of a backup; else it keeps the store that is wrong."""
    settings, topics = starting.taker.settings, Topics("main", "dc1")
    rates = RatesFile(starting.taker.directory / "rates.json")
    with_backups = settings.model_copy(update={"backups": backups})
    given_by(monkeypatch)
    assert not StoreTransfer(settings, topics, rates).is_there()
    assert StoreTransfer(with_backups, topics, rates).is_there()
    shutil.rmtree(next(backups.iterdir()))
    assert not StoreTransfer(with_backups, topics, rates).is_there()
    given_by(monkeypatch, "http://127.0.0.1:1")
    assert StoreTransfer(settings, topics, rates).is_there()
