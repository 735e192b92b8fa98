"""All workers of the data centre that evaluates are gone: another one goes on, and nothing of the old is seen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from quadlog.failpoints import Failpoint
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.duty import (
    DCS,
    Load,
    check,
    during,
    evaluating_in,
    goes_on,
    handovers,
    hardly_noticed,
    too_small,
    wait_for,
    workers_in,
)
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three data centres whose evaluating workers come and go."""
    with BROKERS.lab(tmp_path_factory.mktemp("duty") / "lab", dcs=3, workers=2) as lab:
        yield Cluster(lab)


def test_the_duty_moves_when_its_workers_die_and_clients_elsewhere_hardly_notice(moving: Cluster) -> None:
    wait_for(moving, "dc1")
    load = Load(moving, ("dc2", "dc3"))

    def kill() -> None:
        for worker in workers_in("dc1"):
            moving.lab.kill(worker)

    asyncio.run(during(load, (1.0, kill), (0.0, lambda: wait_for(moving, "dc2"))))
    for worker in workers_in("dc1"):
        moving.lab.start(worker)
    hardly_noticed(load)
    check(moving, load)
    assert evaluating_in(moving) == {"dc2"}, "it stays where it is"


def test_what_an_old_evaluator_says_when_it_wakes_up_is_seen_nowhere(moving: Cluster) -> None:
    """Suspended in the middle of its work, both workers; the duty goes on; then they wake up."""
    wait_for(moving, "dc2")
    load = Load(moving, ("dc1", "dc3"))

    def signal(name: str) -> None:
        for worker in workers_in("dc2"):
            moving.lab.kill(worker, name)

    asyncio.run(
        during(
            load,
            (1.0, lambda: signal("STOP")),
            (0.0, lambda: wait_for(moving, "dc3")),
            (2.0, lambda: signal("CONT")),
            (1.0, lambda: wait_for(moving, "dc3")),
        )
    )
    hardly_noticed(load)
    check(moving, load)


def test_a_master_that_dies_before_a_handover_says_it_when_it_is_back(moving: Cluster) -> None:
    """The move is agreed, the home's master dies by itself, and is started again."""
    wait_for(moving, "dc3")
    moving.lab.kill("dc1-m1")
    moving.lab.start("dc1-m1", QUADLOG_FAILPOINT=Failpoint.BEFORE_HANDOVER)
    load = Load(moving, ("dc2",))

    def kill() -> None:
        for worker in workers_in("dc3"):
            moving.lab.kill(worker)
        until(lambda: moving.lab.exited("dc1-m1"))
        assert handovers(moving)[-1] == "dc3"
        moving.lab.start("dc1-m1")

    asyncio.run(during(load, (1.0, kill), (0.0, lambda: wait_for(moving, "dc1"))))
    assert handovers(moving) == ["dc2", "dc3", "dc1"]
    for worker in workers_in("dc3"):
        moving.lab.start(worker)
    check(moving, load)


def test_where_a_data_centre_that_is_not_the_home_is_full_the_duty_goes_on_to_the_next(
    moving: Cluster,
) -> None:
    """Its effects topic takes no record; more of that: `test_full_effects.py`."""
    wait_for(moving, "dc1")
    epoch, before = moving.status()["view"]["epoch"], handovers(moving)
    for worker in workers_in("dc1"):
        moving.lab.kill(worker)
    assert moving.update("INSERT DATA { <urn:a> <urn:p> 1 }", master=1).status_code == 204
    wait_for(moving, "dc2")
    for worker in workers_in("dc1"):
        moving.lab.start(worker)
    moving.wait_until_equal()
    load = Load(moving, DCS)
    with too_small(moving, 1) as (fill, empty):
        there = (0.0, lambda: wait_for(moving, "dc3"))
        asyncio.run(
            during(load, (1.0, fill), there, (0.0, lambda: goes_on(moving)), (1.0, empty), (1.0, there[1]))
        )
        hardly_noticed(load)
        assert handovers(moving) == [*before, "dc2", "dc3"]
        assert moving.status()["view"]["epoch"] == epoch, "the home can hand it over"
        check(moving, load)
