"""Settings that all masters share are changed while the cluster runs."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.cli.config import change
from quadlog.errors import UserError
from tests.support.clusters.appends import appending
from tests.support.clusters.cluster import HTTP, Cluster, nothing_logged, until
from tests.support.clusters.ending import in_turn
from tests.support.clusters.log_limits import until_they_begin_behind, write
from tests.support.clusters.trouble import logged
from tests.support.labs import quadlog
from tests.support.settings import WRONG
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab

TWO_ROUNDS_S = 2.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with BROKERS.lab(
        tmp_path_factory.mktemp("config") / "lab",
        dcs=3,
        workers=1,
        environment={"QUADLOG_LOG_TRIM_EVERY": "1"},
        settings=["min-time-to-consider-full-replication=50", "tx-log-max-size=500"],
    ) as lab:
        yield lab


@pytest.fixture
def cluster(running: RunningLab) -> Iterator[Cluster]:
    with in_turn(running) as cluster:
        yield cluster


def silence_of_those_given_up(cluster: Cluster, who: str) -> list[float]:
    """For how many seconds each was silent, as the log of the master has it that gave them up.

    With `max-peer-lag` of 5 s it is not 5 or more each time: a master is also given up that lacks for 5 s what all
    others have, and its last post may be younger.  On a busy machine it is more.  The default is 20 s.
    """
    [*_, event] = re.findall(
        r"event=members_given_up .*", (cluster.lab.directory / "logs" / f"{who}.log").read_text()
    )
    return [float(seconds) for seconds in re.findall(r"'dc\d-m1': ([\d.]+)", event)]


def setting(cluster: Cluster, name: str, master: int) -> dict[str, Any]:
    found: dict[str, Any] = HTTP.get(f"{cluster.masters[master]}/cluster/settings/{name}").json()
    return found


def test_a_lab_is_started_with_settings(cluster: Cluster, tmp_path: Path) -> None:
    """By their names in files, at all masters; one that does not exist starts nothing."""
    refused = quadlog("lab", "up", "--set", "max-lag=5", "--dir", str(tmp_path / "none"))
    assert (refused.returncode, refused.stderr) == (1, "UserError: --set: there is no setting max-lag\n")
    for number in range(3):
        for name, value in (("min-time-to-consider-full-replication", "50"), ("log-max-size", "500")):
            found = setting(cluster, name, number)
            assert (found["value"], found["source"]) == (value, "file")


def test_a_setting_counts_at_all_masters_and_survives_restarts(cluster: Cluster) -> None:
    done = quadlog("config", "set", "max-peer-lag", "5", "--at", cluster.masters[1])
    assert (done.returncode, "max-peer-lag = 5  (entry " in done.stdout) == (0, True), done
    until(lambda: all(setting(cluster, "max-peer-lag", n)["value"] == "5" for n in range(3)), TWO_ROUNDS_S)
    for one in ("dc1-m1", "dc2-m1", "dc3-m1"):
        cluster.lab.kill(one)
    cluster.lab.start("dc1-m1")
    cluster.lab.start("dc2-m1")
    cluster.lab.start("dc3-m1", QUADLOG_MAX_PEER_LAG="30")
    entries = [setting(cluster, "max-peer-lag", number) for number in range(3)]
    assert {(one["value"], one["source"], one["file"]) for one in entries[:2]} == {("5", "agreed", None)}
    assert (entries[2]["value"], entries[2]["file"]) == ("5", "30")
    assert len({(one["index"], one["at"], one["by"]) for one in entries}) == 1
    [alarm] = until(lambda: [one for one in cluster.status(2)["alarms"] if one["name"] == "settings-differ"])
    assert "dc3-m1 has 30 in its file, and entry " in alarm["reason"]
    shown = quadlog("config", "show", "--at", cluster.masters[2]).stdout
    assert "; the file has 30)" in shown
    assert "settings-differ: dc3-m1 has 30" in shown
    assert "split-recovery = Quorum  (default)" in shown

    with appending(cluster) as appends:
        cluster.cut("dc3", "dc1")
        cluster.cut("dc3", "dc2")
        cut = time.monotonic()
        until(lambda: all(appends.told(number, cut + 3) for number in (0, 1)), 5 + 15)
        for who in ("dc1-m1", "dc3-m1"):
            silent = silence_of_those_given_up(cluster, who)
            assert silent, who
            assert all(3 <= seconds < 15 for seconds in silent), (who, silent)
        refused = quadlog("config", "set", "split-recovery", "smart", "--at", cluster.masters[0])
        assert "SettingStays: dc3-m1 is apart" in refused.stderr
        cluster.heal()
    cluster.lab.kill("dc3-m1")
    cluster.lab.start("dc3-m1")
    until(lambda: not [one for one in cluster.status(2)["alarms"] if one["name"] == "settings-differ"])
    assert logged(cluster, "setting_changed", "dc1-m1", name="max-peer-lag", value="5") == 1


FEW = [*{name: (name, text) for name, text in WRONG}.values()]
"""One for each setting; the others are given to a master without a cluster, too (`test_settings_door.py`)."""


@pytest.mark.parametrize("wrong", [FEW, pytest.param(WRONG, marks=pytest.mark.soak)], ids=["few", "all"])
def test_wrong_values_are_refused_at_the_command_line_and_nothing_is_logged(
    cluster: Cluster, wrong: list[tuple[str, str]]
) -> None:
    with nothing_logged(cluster):
        for name, text in wrong:
            with pytest.raises(UserError, match=f"^{name} is "):
                change(name, text, cluster.masters[0])
    one = quadlog("config", "set", "log-max-size", "7d", "--at", cluster.masters[0])
    assert one.returncode == 1
    assert one.stderr == "UserError: log-max-size is a number of entries, 200 or more, or off, not '7d'\n"


def test_a_worker_that_starts_takes_what_is_agreed_for_its_start(cluster: Cluster) -> None:
    done = quadlog(
        "config", "set", "min-time-to-consider-full-replication-s", "7", "--at", cluster.masters[1]
    )
    assert "min-time-to-consider-full-replication = 7  (entry " in done.stdout
    cluster.lab.kill("dc3-w1")
    write(cluster, 1, 3)
    cluster.lab.start("dc3-w1")
    cluster.wait_until_equal()
    log = (cluster.lab.directory / "logs" / "dc3-w1.log").read_text()
    [chosen] = [line for line in log.splitlines() if "event=catch_up_started" in line]
    assert "not above 7 s" in chosen


def test_a_limit_that_is_set_while_it_runs_shortens_the_log(cluster: Cluster) -> None:
    answer = HTTP.put(f"{cluster.masters[2]}/cluster/settings/log-max-size", json={"value": 200})
    assert (answer.status_code, answer.json()["value"], answer.json()["by"]) == (200, "200", "127.0.0.1")
    write(cluster, 1, 420)
    until_they_begin_behind(cluster.lab, 50, 30)
