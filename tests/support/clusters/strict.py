"""Strict reads of a list that clients make longer: each is refused, or shows all that was acknowledged before it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clusters.appends import Appends

PAUSE_S = 0.02
CLIENTS = 2
"""Their reads overlap: those that wait together share a barrier."""


@dataclass
class StrictReads:
    """At one master, while all masters take appends."""

    appends: Appends
    master: int
    acknowledged: Callable[[], set[str]]
    """Keys of what a read that is sent now has to show."""
    refused: list[float] = field(default_factory=list[float])
    """When each 503 came."""
    fresh: list[float] = field(default_factory=list[float])
    """When each 200 came that showed all it had to."""
    wrong: list[str] = field(default_factory=list[str])
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def count(self) -> int:
        return len(self.refused) + len(self.fresh) + len(self.wrong)

    def stop(self) -> None:
        self._stop.set()

    def client(self) -> None:
        url = f"{self.appends.cluster.masters[self.master]}/sparql"
        query = f"SELECT ?key {{ ?item <urn:append:to> <{self.appends.to}> ; <urn:append:key> ?key }}"
        headers = {"Quadlog-Consistency": "strict", "Accept": "application/sparql-results+json"}
        with httpx.Client(timeout=60, trust_env=False) as client:
            while not self._stop.is_set():
                before = self.acknowledged()
                self._note(client.get(url, params={"query": query}, headers=headers), before)
                time.sleep(PAUSE_S)

    def _note(self, answer: httpx.Response, before: set[str]) -> None:
        at = time.monotonic()
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            is_told = answer.json()["definite"] and "Retry-After" in answer.headers
            self.refused.append(at) if is_told else self.wrong.append(answer.text)
        elif answer.status_code == httpx.codes.OK:
            found = {row["key"]["value"] for row in answer.json()["results"]["bindings"]}
            missing = before - found
            self.wrong.append(f"lacks {len(missing)}") if missing else self.fresh.append(at)
        else:
            self.wrong.append(f"{answer.status_code} {answer.text}")


@contextmanager
def reading_strictly(
    appends: Appends, master: int, acknowledged: Callable[[], set[str]]
) -> Iterator[StrictReads]:
    """Clients that read at a master until the block ends."""
    reads = StrictReads(appends, master, acknowledged)
    threads = [threading.Thread(target=reads.client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield reads
    finally:
        reads.stop()
        for thread in threads:
            thread.join()
    print(
        f"strict reads at {master}: {len(reads.fresh)} fresh, {len(reads.refused)} refused, {len(reads.wrong)} wrong"
    )
