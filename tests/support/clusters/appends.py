"""Clients that make one list longer at all masters at once, and what of it may be seen in the end."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import httpx

from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, ask, until

if TYPE_CHECKING:
    from collections.abc import Iterator

PAUSE_S = 0.4
"""Between two appends of a client: what a cluster can do is not the question, and each costs it 50 ms of a core."""
NOBODY_S = 0.5
"""Before a client tries again where nobody is: in the end every master is asked for every try."""


class Amiss(NamedTuple):
    """Keys of appends that are not in the list as their clients know it."""

    lost: tuple[str, ...] = ()
    """Acknowledged, and not there."""
    twice: tuple[str, ...] = ()
    displaced: tuple[tuple[str, int], ...] = ()
    """Those whose number is not their place, with it: there is a gap before them, or two have one number."""
    unasked: tuple[str, ...] = ()
    """There, and nobody asked for it."""
    untrue: tuple[tuple[str, str, str], ...] = ()
    """Not acknowledged, and `/tx` does not tell whether it is there; with a master, and what that one tells."""


@dataclass
class Appends:
    """What was asked for, with its outcome as its client knows it."""

    cluster: Cluster
    to: str = field(default_factory=lambda: f"urn:append:{uuid.uuid4()}")
    acknowledged: dict[str, float] = field(default_factory=dict[str, float])
    """Key to when it was told; of master n they begin with `n-`."""
    other: dict[str, str] = field(default_factory=dict[str, str])
    """Key to what it was told instead."""
    waited: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Of each answer of 204: when it was asked for, and the seconds until it came."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def begin(self) -> None:
        """A client at each master; returns when each has been told of one append.

        All have the beginning before: if it were agreed by one side of a split alone, appends of the other side could
        stand before it in the end, and would change nothing.
        """
        begin = f"INSERT DATA {{ <{self.to}> <urn:append:last> 0 }}"
        answer = self.cluster.update(begin)
        assert answer.status_code == 204, answer.text
        until(lambda: len(self.cluster.chains()) == 1)
        masters = range(len(self.cluster.masters))
        self._threads = [threading.Thread(target=self.client, args=[number]) for number in masters]
        for thread in self._threads:
            thread.start()
        until(lambda: all(self.told(number, 0.0) for number in masters))

    def client(self, master: int) -> None:
        """One append after the other at one master."""
        url = f"{self.cluster.masters[master]}/update"
        with httpx.Client(timeout=30) as client:
            while not self._stop.is_set():
                key, began = f"{master}-{uuid.uuid4().hex}", time.monotonic()
                headers = UPDATE | {"Idempotency-Key": key}
                try:
                    answer = client.post(url, content=_append(self.to, key).encode(), headers=headers)
                except httpx.ConnectError as error:
                    self.other[key] = repr(error)
                    self._stop.wait(NOBODY_S)
                except httpx.HTTPError as error:
                    self.other[key] = repr(error)
                else:
                    self._note(key, answer, began)
                time.sleep(PAUSE_S)

    def _note(self, key: str, answer: httpx.Response, began: float) -> None:
        if answer.status_code == 204:
            self.acknowledged[key] = now = time.monotonic()
            self.waited.append((began, now - began))
        else:
            self.other[key] = f"{answer.status_code} {answer.text}"

    def told(self, master: int, since: float) -> int:
        """How many a master acknowledged since a moment."""
        acknowledged = self.acknowledged.copy()  # clients go on
        return sum(key.startswith(f"{master}-") and at > since for key, at in acknowledged.items())

    def longest_s(self, since: float = 0.0) -> float:
        """That a client waited for an answer of 204 that it asked for since a moment."""
        return max((seconds for began, seconds in self.waited if began >= since), default=0.0)

    def stop(self) -> None:
        """Ask for no more, and wait until each client has its last answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def amiss(self) -> Amiss:
        """What of the list, as it is at the first master, and of `/tx` at all masters is not as it has to be."""
        query = (
            f"SELECT ?key ?n {{ ?item <urn:append:to> <{self.to}> ; <urn:append:key> ?key ; <urn:append:n> ?n }}"
            " ORDER BY ?n"
        )
        found = ask(self.cluster.masters[0], query).json()["results"]["bindings"]
        numbers = [(row["key"]["value"], int(row["n"]["value"])) for row in found]
        times = Counter(key for key, _ in numbers)
        print(
            f"{len(self.acknowledged)} appends acknowledged, {len(self.other)} not; {len(times)} in the list;"
            f" the longest took {self.longest_s():.2f} s"
        )
        if lost := self.acknowledged.keys() - times.keys():
            last = max(self.acknowledged.values())
            told = {key: f"{last - self.acknowledged[key]:.1f} s before the last one" for key in sorted(lost)}
            for key in sorted(lost):
                print(key, [HTTP.get(f"{url}/tx/{key}").json() for url in self.cluster.masters])
            again = len(ask(self.cluster.masters[0], query).json()["results"]["bindings"])
            print(f"lost, by when they were acknowledged: {told}; asked again, {again} are in the list")
        return Amiss(
            lost=tuple(sorted(self.acknowledged.keys() - times.keys())),
            twice=tuple(sorted(key for key, count in times.items() if count > 1)),
            displaced=tuple(found for place, found in enumerate(numbers, start=1) if found[1] != place),
            unasked=tuple(sorted(times.keys() - self.acknowledged.keys() - self.other.keys())),
            untrue=tuple(
                (key, url, state)
                for key in self.other
                for url in self.cluster.masters
                if (state := HTTP.get(f"{url}/tx/{key}").json()["state"])
                != ("applied" if key in times else "unknown")
            ),
        )


@contextmanager
def appending(cluster: Cluster) -> Iterator[Appends]:
    """A client at each master until the block ends."""
    appends = Appends(cluster)
    try:
        appends.begin()
        yield appends
    finally:
        appends.stop()


def _append(to: str, key: str) -> str:
    return f"""
DELETE {{ <{to}> <urn:append:last> ?last }}
INSERT {{
  <{to}> <urn:append:last> ?n .
  <urn:append:{key}> <urn:append:to> <{to}> ; <urn:append:key> "{key}" ; <urn:append:n> ?n .
}}
WHERE {{ <{to}> <urn:append:last> ?last BIND(?last + 1 AS ?n) }}"""
