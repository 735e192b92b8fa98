"""With the defaults a side without a majority waits, says so, and loses nothing; the others go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, ask, until
from tests.support.clusters.ending import AGAIN_S, ending, in_turn
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.support.labs import RunningLab

LAG_S = 20.0
"""`max-peer-lag` by default."""
PATIENCE_S = 5.5
"""Writes are taken, and wait, until a member was silent for five idle rounds."""
AGREES_AGAIN_S = 25.0
"""After a master was lost, the others take writes again within this time."""
BACK_S = 10.0
"""A master that is started again is one of them within this time."""
SOON_S = 1.0
"""Within which a write is refused where it is known that there is no majority."""
CUT_LAG_S = 3.0


def insert(cluster: Cluster, master: int, key: str) -> httpx.Response:
    headers = UPDATE | {"Idempotency-Key": key}
    text = f"INSERT DATA {{ <urn:quorum:{key}> <urn:is> 1 }}"
    return HTTP.post(f"{cluster.masters[master]}/update", content=text, headers=headers)


def stored(cluster: Cluster, keys: list[str]) -> list[str]:
    """Those of them that any master shows."""
    found = [
        ask(url, f"ASK {{ <urn:quorum:{key}> ?p ?o }}").json() for key in keys for url in cluster.masters
    ]
    return [
        key
        for key, one in zip((k for k in keys for _ in cluster.masters), found, strict=True)
        if one["boolean"]
    ]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with BROKERS.lab(tmp_path_factory.mktemp("quorum") / "lab", dcs=3, workers=1) as lab:
        yield lab


@pytest.fixture(scope="module")
def impatient(lab: RunningLab) -> RunningLab:
    """It gives a member up sooner from now on."""
    answer = HTTP.put(f"{lab.masters[0]['url']}/cluster/settings/max-peer-lag", json={"value": CUT_LAG_S})
    assert answer.status_code == 200, answer.text
    return lab


@pytest.mark.long("proves the defaults: max-peer-lag is 20 s")
def test_a_master_is_gone_for_good(lab: RunningLab) -> None:
    """Those that are left say from the first missed round what they wait for, refuse definitely, and go on."""
    with in_turn(lab) as cluster:
        with appending(cluster) as appends:
            lab.kill("dc3-m1")
            killed = time.monotonic()
            until(lambda: all(cluster.status(number)["split"]["waits_for"] for number in (0, 1)), 6)
            [waits] = cluster.status(0)["split"]["waits_for"]
            assert (waits["id"], waits["dc"], waits["of_s"]) == ("dc3-m1", "dc3", LAG_S)
            until(lambda: cluster.status(1)["split"]["waits_for"][0]["silent_s"] > PATIENCE_S, 6)
            refused = insert(cluster, 1, "between")
            ready = HTTP.get(f"{cluster.masters[1]}/healthz/ready")
            for answer in (refused, ready):
                assert answer.status_code == 503
                assert "dc3-m1 silent, " in answer.text
                assert 1 <= int(answer.headers["Retry-After"]) <= LAG_S
            assert refused.json()["definite"]
            assert ask(cluster.masters[1], "ASK { }").status_code == 200

            until(lambda: all(appends.told(number, killed + 2) >= 2 for number in (0, 1)), AGREES_AGAIN_S)
            again = time.monotonic() - killed
            print(f"the others take writes again {again:.1f} s after the kill")
            assert again < AGREES_AGAIN_S
            assert HTTP.get(f"{cluster.masters[1]}/healthz/ready").status_code == 200
            assert [cluster.status(number)["view"]["members"] for number in (0, 1)] == [
                ["dc1-m1", "dc2-m1"]
            ] * 2
            assert cluster.status(0)["split"]["side"] == "majority"

            lab.start("dc3-m1")
            started = time.monotonic()
            until(lambda: appends.told(2, started) >= 1, BACK_S)
            print(f"it takes writes {time.monotonic() - started:.1f} s after it was started again")
            end = ending(cluster, appends, started)
        assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
        assert end.amiss == Amiss()
        assert stored(cluster, ["between"]) == []


@pytest.mark.parametrize(
    "evaluates",
    [
        pytest.param(False, id="another", marks=pytest.mark.soak),
        pytest.param(True, id="the one that evaluates"),
    ],
)
def test_the_side_that_is_cut_off_waits(impatient: RunningLab, evaluates: bool) -> None:  # noqa: FBT001
    """It refuses every write at once, shows what it has, and has nothing to take back.

    Another one than that which evaluates is cut off in the soak; in short: `test_split_stories.py`, with Quorum.
    """
    with in_turn(impatient) as cluster:
        home: str = cluster.status()["view"]["home"]
        dc = home if evaluates else max({"dc1", "dc2", "dc3"} - {home})
        alone, others = int(dc[2]) - 1, [number for number in range(3) if f"dc{number + 1}" != dc]
        with appending(cluster) as appends:
            for number in others:
                cluster.cut(dc, f"dc{number + 1}")
            cut = time.monotonic()
            until(lambda: cluster.status(alone)["split"]["side"] == "minority", 2 * CUT_LAG_S + 5)
            known = time.monotonic()
            print(f"the side knows that it is alone {known - cut:.1f} s after the cut")
            until(lambda: all(appends.told(number, cut + CUT_LAG_S) >= 3 for number in others), 20)
            before = cluster.status(alone)["agreed_index"]
            keys = [f"alone-{evaluates}-{number}" for number in range(20)]
            for key in keys:
                began = time.monotonic()
                answer = insert(cluster, alone, key)
                assert (answer.status_code, answer.json()["error"]) == (503, "NoMajority"), answer.text
                assert answer.json()["definite"]
                assert time.monotonic() - began < SOON_S
            assert appends.told(alone, known) == 0
            assert cluster.status(alone)["agreed_index"] == before
            url = cluster.masters[alone]
            assert HTTP.get(f"{url}/healthz/ready").status_code == 503
            assert HTTP.get(f"{url}/healthz/alive").status_code == 200
            assert ask(url, "ASK { }").status_code == 200
            strict = {"Quadlog-Consistency": "strict"}
            refused = HTTP.get(f"{url}/sparql", params={"query": "ASK { }"}, headers=strict)
            assert (refused.status_code, refused.json()["error"]) == (503, "NoMajority")
            told = f"fork={before}; side=minority"
            answers = [answer, refused, HTTP.get(f"{url}/sparql", params={"query": "ASK { }"})]
            assert [one.headers.get("Quadlog-Split") for one in answers] == [told] * 3
            assert "Quadlog-Split" not in insert(cluster, others[0], f"told-{evaluates}").headers
            cluster.heal()
            end = ending(cluster, appends, time.monotonic())
        assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
        assert end.seconds < AGAIN_S
        assert end.amiss == Amiss()
        assert stored(cluster, keys) == [], "a refusal is definite"
        assert {HTTP.get(f"{url}/tx/{key}").json()["state"] for key in keys for url in cluster.masters} == {
            "unknown"
        }
        assert cluster.status(alone)["split"]["rejoined"]["gave_way"] == 0
