"""Disturbances of a lab by chance: masters and workers that die or stand still, links that are cut, other quorums."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random
    from threading import Event

    from tests.support.clusters.cluster import Cluster

KINDS: Final = ("cut", "cut one way", "isolate", "pause", "kill", "worker", "quorum")
WEIGHTS: Final = (3, 2, 2, 4, 3, 2, 2)
FIRST: Final = ("cut", "kill", "pause", "worker", "cut one way")
"""Each happens once before chance has its way, after a data centre was isolated while the quorum was `ALL`."""
USUAL: Final = "usual quorum"
AT_ONCE: Final = 2
"""So many disturbances overlap."""
QUORUM: Final = "N/2 + 1"
ALL: Final = "N"
QUORUMS: Final = (QUORUM, ALL, "2")
SHORTEST_S: Final = 0.5
ISOLATED_S: Final = 4.0
"""At least, so that a data centre is given up."""
SETTING_S: Final = 6.0


@dataclass
class Nemesis:
    """Of one run; everything but time is decided by its chance."""

    cluster: Cluster
    chance: Random
    stop: Event
    longest_s: float
    """Of one disturbance."""
    quiet_s: float
    """At most, between the beginnings of two."""
    actions: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """When, and what."""
    counts: Counter[str] = field(default_factory=Counter[str])
    _busy: set[str] = field(default_factory=set[str])
    """Processes and links that are disturbed."""

    def run(self) -> None:
        """Disturb until `stop` is set; then end each disturbance."""
        planned = self.chance.sample(FIRST, len(FIRST))
        planned = [*planned[:-2], USUAL, *planned[-2:], "isolate"]  # the last one first
        self._set_quorum(ALL, self.cluster.masters[0])
        under_way = list[Future[None]]()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while not self.stop.wait(self.chance.uniform(0.2, self.quiet_s)):
                if sum(not one.done() for one in under_way) < AT_ONCE:
                    kind = planned.pop() if planned else self.chance.choices(KINDS, WEIGHTS)[0]
                    lasts_s = self.chance.uniform(SHORTEST_S, self.longest_s)
                    under_way.append(pool.submit(self._disturbance(kind, lasts_s)))
        for one in under_way:
            one.result()

    def _disturbance(self, kind: str, lasts_s: float) -> Callable[[], None]:
        """Decide what to do; return how to do it."""
        chance, lab = self.chance, self.cluster.lab
        dcs = [dc["name"] for dc in lab.dcs]
        if kind in {"quorum", USUAL}:
            value, master = chance.choice(QUORUMS), chance.choice(self.cluster.masters)
            value = QUORUM if kind == USUAL else value
            return lambda: self._set_quorum(value, master)
        if kind in {"pause", "kill", "worker"}:
            nodes = lab.workers if kind == "worker" else lab.masters
            node = chance.choice([node["id"] for node in nodes if node["id"] not in self._busy])
            is_killed = kind == "kill" or (kind == "worker" and chance.random() < 0.6)
            self._busy.add(node)
            return lambda: self._disturb_process(node, kind, lasts_s, is_killed=is_killed)
        dc = chance.choice(dcs)
        links = [(dc, other) for other in dcs if other != dc]
        if kind != "isolate":
            links = [chance.choice(list(permutations(dcs, 2)))]
            return lambda: self._cut(kind, links, lasts_s)
        return lambda: self._cut(kind, links, max(lasts_s, ISOLATED_S))

    def _note(self, text: str) -> None:
        self.actions.append((time.monotonic(), text))

    def _disturb_process(self, node: str, kind: str, lasts_s: float, *, is_killed: bool) -> None:
        self._note(f"{'kill' if is_killed else 'stop'} {node} for {lasts_s:.1f} s")
        self.cluster.lab.kill(node, "KILL" if is_killed else "STOP")
        self.counts[kind] += 1
        self.stop.wait(lasts_s)
        if is_killed:
            self.cluster.lab.start(node)
        else:
            self.cluster.lab.kill(node, "CONT")
        self._note(f"{node} goes on")
        self._busy.discard(node)

    def _cut(self, kind: str, links: list[tuple[str, str]], lasts_s: float) -> None:
        self._note(f"{kind} {links} for {lasts_s:.1f} s")
        for one, other in links:
            self.cluster.cut(one, other, one_way=kind == "cut one way")
        self.counts[kind] += 1
        self.stop.wait(lasts_s)
        for link in links:
            self.cluster.heal(*link)
        self._note(f"heal {links}")

    def _set_quorum(self, value: str, master: str) -> None:
        try:
            told: Any = set_quorum(value, master)
        except httpx.HTTPError as error:
            told = type(error).__name__
        self._note(f"synchro-quorum {value} at {master}: {told}")
        self.counts[f"quorum {told}"] += 1

    def mend(self) -> None:
        """Heal all links, and start all that does not run."""
        self.cluster.heal()
        for node, state in self.cluster.lab.states().items():
            if state == "stopped":
                self.cluster.lab.kill(node, "CONT")
            elif state != "running":
                self.cluster.lab.start(node)
        self._note("all healed, all started")


def set_quorum(value: str, master: str) -> int:
    """Ask a master for another `synchro-quorum`; return the status."""
    url, headers = f"{master}/cluster/settings/synchro-quorum", {"Content-Type": "text/plain"}
    return httpx.put(url, content=value, headers=headers, timeout=SETTING_S, trust_env=False).status_code
