"""Clients append to lists and read them while masters die, stand still and are cut off: one order explains it all.

Synchronous and other transactions meet in the same lists.  Everything is recorded and judged by `check`.
`-s` prints figures; `TEST_HISTORY_SEED` is the seed of the short run, and the first one of the long ones.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.clusters.cluster import HTTP, Cluster, until
from tests.support.clusters.ending import nothing_waits, one_view
from tests.support.histories.checker import check
from tests.support.histories.faults import PLANTS, plant
from tests.support.histories.model import (
    AnomalyKind,
    AppendOutcome,
    AppendTransaction,
    ListAppend,
    ListRead,
    ReadKind,
    ReportedState,
    VotingMasters,
    load,
)
from tests.support.histories.nemesis import QUORUM, Nemesis, set_quorum
from tests.support.histories.recorder import (
    SYNC_GRAPH,
    SYNC_NAME,
    AskedAppend,
    HistoryRecorder,
    RecordingClient,
)
from tests.support.labs import NEW_PROCESSES
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SETTINGS: Final = [
    "max-peer-lag=2",
    "synchro-timeout=1.5",
    "request-timeout=5",
    f"sync-graphs={SYNC_GRAPH}",
]
SHORT_S: Final = 24.0
LONG_S: Final = 180.0
SEED: Final = int(os.environ.get("TEST_HISTORY_SEED", "1"))
RUNS: Final = range(SEED, SEED + 8)
"""So many long ones fit into the 30 minutes that `make soak` gives a module."""
EACH: Final = 3
"""Clients of a master."""
KEYS: Final = 2
"""Of each kind, at one time."""
MOST_VALUES: Final = 40
"""Of a key; then another one is in use."""
PAUSE_S: Final = (0.02, 0.25)
TOGETHER_S: Final = 120.0
"""For what has to come when all is healed."""
HOWS: Final = {"header": 0.17, "parameter": 0.15, "graph": 0.2, "default": 0.43, "lazy": 0.05}
"""How transactions are asked for, by chance."""
AGAIN: Final = {
    AppendOutcome.DONE: 0.03,
    AppendOutcome.REFUSED: 0.3,
    AppendOutcome.ROLLED_BACK: 0.2,
    AppendOutcome.UNKNOWN: 0.5,
}
"""The chance that the same transaction is sent again, to any master."""
NOT_THERE: Final = {ReportedState.ROLLED_BACK, ReportedState.UNKNOWN}
"""What `/tx` may tell in the end of what is not in the lists."""
REPORTS: Final = 3
"""So often `/tx` is asked of a transaction during the run."""


class ListKeys:
    """Keys in use: some of both kinds, and new ones when they have `MOST_VALUES`."""

    def __init__(self, run: str, each: int) -> None:
        self._run, self._given = run, Counter[str]()
        self._in_use: dict[str, list[str]] = {SYNC_NAME: [], "other": []}
        self._before = list[str]()
        self._lock = threading.Lock()
        for kind, keys in self._in_use.items():
            keys += [self._new(kind) for _ in range(each)]

    def _new(self, kind: str) -> str:
        self._given[kind] += 1
        return f"{self._run}-{kind}-{self._given[kind]}"

    def take(self, chance: Random, kinds: Sequence[str]) -> list[str]:
        """Different keys of these kinds, each for one value."""
        taken = list[str]()
        with self._lock:
            for kind in kinds:
                keys = self._in_use[kind]
                key = chance.choice([one for one in keys if one not in taken])
                taken.append(key)
                self._given[key] += 1
                if self._given[key] == MOST_VALUES:
                    keys[keys.index(key)] = self._new(kind)
                    self._before.append(key)
        return taken

    def some(self, chance: Random) -> list[str]:
        """For a read."""
        with self._lock:
            keys = [*self._in_use[SYNC_NAME], *self._in_use["other"], *self._before[-2:]]
        return chance.sample(keys, chance.randint(2, len(keys)))


class HistoryLoad:
    """Clients of one run."""

    def __init__(self, name: str, seed: int, urls: dict[str, str], recorder: HistoryRecorder) -> None:
        """`urls`: of masters, by id."""
        self.name, self.seed, self.urls, self.recorder = name, seed, urls, recorder
        self.stop = threading.Event()
        self._keys, self._values = ListKeys(name, KEYS), count(1)
        self._unresolved = SimpleQueue[tuple[float, int, str]]()
        """When to ask, how often it was asked so far, which transaction."""

    def clients(self) -> list[Callable[[], None]]:
        """What runs at the same time until `stop` is set."""
        names = [(f"{master}-c{number}", master) for master in self.urls for number in range(EACH)]
        return [lambda name=name, master=master: self._client(name, master) for name, master in names] + [
            self._ask_later
        ]

    def _client(self, name: str, master: str) -> None:
        chance, client = Random(f"{self.seed} {name}"), RecordingClient(name, self.urls, self.recorder)
        while not self.stop.is_set():
            if chance.random() < 0.55:
                self._append(client, master, chance)
            else:
                self._read(client, master, chance)
            self.stop.wait(chance.uniform(*PAUSE_S))
        client.close()

    def _append(self, client: RecordingClient, master: str, chance: Random) -> None:
        [how] = chance.choices(list(HOWS), list(HOWS.values()))
        other = "other" if how == "default" else chance.choice((SYNC_NAME, "other"))
        kinds = [SYNC_NAME if how == "graph" else other]
        if chance.random() < 0.35:
            kinds.append(other)
        appends = [ListAppend(key, next(self._values)) for key in self._keys.take(chance, kinds)]
        asked = AskedAppend(f"{self.name}-t{appends[0].value}", how, tuple(appends))
        sent = client.append(asked, master, with_view=chance.random() < 0.15)
        outcomes = [sent.outcome]
        while chance.random() < AGAIN[outcomes[-1]] and len(outcomes) < 4:
            self.stop.wait(chance.uniform(0.0, 1.0))
            sent = client.append(asked, chance.choice(list(self.urls)), is_again=True)
            outcomes.append(sent.outcome)
        if AppendOutcome.UNKNOWN in outcomes or chance.random() < 0.05:
            self._unresolved.put((time.monotonic() + chance.uniform(0.0, 3.0), 0, asked.tx))

    def _read(self, client: RecordingClient, own: str, chance: Random) -> None:
        """Of a session at the own master: what this client was told by another one, it has to ask for."""
        [kind] = chance.choices((ReadKind.STRICT, ReadKind.SESSION, ReadKind.PREFIX), (0.35, 0.4, 0.25))
        master, least = chance.choice(list(self.urls)), None
        if kind is ReadKind.SESSION:
            master = own
            if client.last is not None and (client.last[2] != own or chance.random() < 0.2):
                least = client.last[1]
        client.read(kind, self._keys.some(chance), self.urls[master], master, least=least)

    def _ask_later(self) -> None:
        """Ask `/tx` of any master for what is not known, a few times."""
        chance, client = Random(f"{self.seed} later"), RecordingClient("later", self.urls, self.recorder)
        while not self.stop.is_set():
            try:
                due, asked, tx = self._unresolved.get(timeout=0.2)
            except Empty:
                continue
            if due > (now := time.monotonic()):
                self._unresolved.put((due, asked, tx))
                self.stop.wait(0.02)
                continue
            report = client.report(tx, chance.choice(list(self.urls)))
            is_open = report is None or report.state in {ReportedState.PENDING, ReportedState.UNKNOWN}
            if is_open and asked + 1 < REPORTS:
                self._unresolved.put((now + chance.uniform(0.2, 3.0), asked + 1, tx))
        client.close()


@dataclass(frozen=True)
class RecordedRun:
    """What is left of a run."""

    recorder: HistoryRecorder
    nemesis: Nemesis
    file: Path
    signatures: set[str]

    def figures(self) -> str:
        """For the reader of the run."""
        counts = defaultdict[str, Counter[str]](Counter)
        for (what, how, text), number in sorted(self.recorder.counts.items()):
            counts[f"{what} {how}".strip()][text] += number
        lines = [f"  {what}: {dict(of)}" for what, of in counts.items()]
        return "\n".join([*lines, f"  nemesis: {dict(self.nemesis.counts)}"])

    def faults(self) -> list[str]:
        """Why one order does not explain all; the file is read back first, and the operations are printed."""
        with self.file.open() as file:
            history = load(file)
        assert history == self.recorder.operations
        anomalies = check(history)
        for one in anomalies[:20]:
            print(f"{one.kind}: {one.explanation}", *one.operations, sep="\n    ")
        faults = [f"{one.kind}: {one.explanation}" for one in anomalies] + self.recorder.problems
        return faults if len(self.signatures) == 1 else [*faults, f"signatures: {self.signatures}"]


def run(
    cluster: Cluster, directory: Path, seed: int, *, seconds: float, longest_s: float, quiet_s: float
) -> RecordedRun:
    """Load and disturbances; then wait until all are together again, and read what is left."""
    recorder, name = HistoryRecorder(), f"r{seed}x{int(seconds)}"
    urls = {str(master["id"]): str(master["url"]) for master in cluster.lab.masters}
    clients = HistoryLoad(name, seed, urls, recorder)
    nemesis = Nemesis(cluster, Random(f"{seed} nemesis"), clients.stop, longest_s, quiet_s)
    began = cluster.lab.output.read_text()
    file = directory / f"{name}.jsonl"
    print(f"\n{name}: {file}; its clock is {time.time() - time.monotonic():.3f} s behind that of the logs")
    try:
        nemesis.mend()
        until(lambda: is_together(cluster), TOGETHER_S)
        tasks = [*clients.clients(), nemesis.run]
        with ThreadPoolExecutor(len(tasks)) as pool:
            under_way = [pool.submit(task) for task in tasks]
            time.sleep(seconds)
            clients.stop.set()
        for one in under_way:
            one.result()
        nemesis.mend()
        healed = time.monotonic()
        until(lambda: set_quorum(QUORUM, cluster.masters[0]) == 200, TOGETHER_S)
        until(lambda: is_together(cluster), TOGETHER_S)
        index = cluster.wait_until_equal(seconds=TOGETHER_S)
        print(f"  all at {index} {time.monotonic() - healed:.1f} s after the heal")
        read_the_end(cluster, recorder, urls)
    finally:
        recorder.write(file)
        actions = "".join(f"{at:.3f} {text}\n" for at, text in nemesis.actions)
        file.with_suffix(".nemesis").write_text(actions)
    died = " by itself" not in cluster.lab.output.read_text()[len(began) :]
    recorder.check(holds=died, problem=f"a process ended by itself, see {cluster.lab.output}")
    signatures = {HTTP.get(f"{url}/status").json()["signature"] for url in cluster.workers.values()}
    recorded = RecordedRun(recorder, nemesis, file, signatures)
    print(recorded.figures())
    return recorded


def is_together(cluster: Cluster) -> bool:
    """Whether all masters are in one view, and nothing waits or is undecided."""
    if not one_view(cluster, members=len(cluster.masters)) or not nothing_waits(cluster):
        return False
    return not any(cluster.status(number)["limbo"]["length"] for number in range(len(cluster.masters)))


def read_the_end(cluster: Cluster, recorder: HistoryRecorder, urls: dict[str, str]) -> None:
    """All lists at each worker, and what each master tells of transactions that were not simply done."""
    appends = [one for one in recorder.operations if isinstance(one, AppendTransaction)]
    outcomes = defaultdict[str, list[AppendOutcome]](list)
    for one in appends:
        outcomes[one.tx].append(one.outcome)
    end = RecordingClient("end", urls, recorder)
    keys = {append.key for one in appends for append in one.appends}
    finals = [end.read(ReadKind.FINAL, sorted(keys), url, worker) for worker, url in cluster.workers.items()]
    there = {(key, value) for final in finals[:1] for key, values in final.lists.items() for value in values}
    for one in {one.tx: one for one in appends}.values():
        if outcomes[one.tx] == [AppendOutcome.DONE]:
            continue
        reports = [end.report(one.tx, master) for master in urls]
        states = {report and report.state for report in reports}
        is_there = there.issuperset(one.appends)
        is_right = states == {ReportedState.APPLIED} if is_there else states <= NOT_THERE
        recorder.check(holds=is_right, problem=f"{one.tx} is {'' if is_there else 'not '}there: {reports}")
    recorder.check(holds=all(final.is_ok for final in finals), problem="a worker does not answer")
    recorder.operations.append(VotingMasters({master: master.split("-")[0] for master in urls}))
    end.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("histories") / "lab"
    with BROKERS.lab(directory, dcs=3, workers=2, settings=SETTINGS, node_command=NEW_PROCESSES) as running:
        yield Cluster(running)


@pytest.fixture(scope="module")
def short_run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return run(cluster, tmp_path_factory.mktemp("short"), SEED, seconds=SHORT_S, longest_s=4.0, quiet_s=3.0)


@pytest.mark.long("clients and disturbances for 24 s")
def test_one_order_explains_a_run(short_run: RecordedRun) -> None:
    assert short_run.faults() == []
    is_not_trivial(short_run)


@pytest.mark.long("the run, if it was not there already")
@pytest.mark.parametrize("kind", PLANTS)
def test_a_fault_in_the_recorded_run_is_found(short_run: RecordedRun, kind: AnomalyKind) -> None:
    for seed in range(3):
        found = {one.kind for one in check(plant(short_run.recorder.operations, kind, Random(seed)))}
        assert kind in found, (seed, found)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", RUNS)
def test_one_order_explains_a_long_run(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    recorded = run(cluster, tmp_path, seed, seconds=LONG_S, longest_s=8.0, quiet_s=6.0)
    assert recorded.faults() == []
    is_not_trivial(recorded)


def is_not_trivial(recorded: RecordedRun) -> None:
    """All that was to meet was there."""
    operations, disturbed = recorded.recorder.operations, recorded.nemesis.counts
    how = Counter[str]()
    for (what, asked, text), number in recorded.recorder.counts.items():
        if what == "append" and text.startswith(AppendOutcome.DONE):
            how[asked] += number
    assert min(how[asked] for asked in HOWS if asked != "lazy") >= 2, how
    reads = Counter(one.kind for one in operations if isinstance(one, ListRead) and one.is_ok)
    assert min(reads[kind] for kind in ReadKind) >= 6, reads
    assert min(disturbed[kind] for kind in ("kill", "pause", "cut")) >= 1, disturbed
    other = [
        one
        for one in operations
        if isinstance(one, AppendTransaction) and one.outcome is not AppendOutcome.DONE
    ]
    assert len(other) >= 3
