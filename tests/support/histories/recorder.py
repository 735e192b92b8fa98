"""Requests of clients to a real cluster, recorded as operations of a history.

A list is RDF: a value is an item with its position, which the update computes from the last position of its key.  So
a read gives the order, and a position that is missing, or there twice, is a problem that no rule of `check` knows.
Lists of synchronous keys are in the graph `SYNC_GRAPH`, which is to be one of `sync-graphs`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from tests.support.clusters.cluster import index_of
from tests.support.histories.model import (
    AppendMode,
    AppendOutcome,
    AppendTransaction,
    ListAppend,
    ListRead,
    Operation,
    ReadKind,
    ReportedState,
    TxReport,
    dump,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SYNC_GRAPH: Final = "urn:lists:sync"
OTHER_GRAPH: Final = "urn:lists:other"
SYNC_NAME: Final = "sync"
"""In the names of keys whose lists are in `SYNC_GRAPH`."""
ANSWER_S: Final = 6.0
"""A client gives up after it: longer than `request-timeout`, shorter than a long pause of a master."""
CONSISTENCY: Final = {ReadKind.STRICT: "strict", ReadKind.PREFIX: "eventual", ReadKind.SESSION: ""}
MODE: Final = "Quadlog-Commit"


@dataclass(eq=False)
class HistoryRecorder:
    """What all clients of a run asked for and were told."""

    operations: list[Operation] = field(default_factory=list[Operation])
    problems: list[str] = field(default_factory=list[str])
    """What is wrong, and no operation can say."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """Requests: `append` or a kind of read, how it was asked for, and what came of it."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, operation: Operation, what: str, how: str, outcome: str) -> None:
        with self._lock:
            self.operations.append(operation)
            self.counts[what, how, outcome] += 1

    def check(self, *, holds: bool, problem: str) -> None:
        """Note a problem if something does not hold."""
        if not holds:
            self.problems.append(f"{time.monotonic():.3f} {problem}")

    def write(self, path: Path) -> None:
        with path.open("w") as file:
            dump(self.operations, file)


class AskedAppend(NamedTuple):
    """A transaction, as each request for it is sent."""

    tx: str
    """Also its Idempotency-Key."""
    how: str
    """`header`, `parameter`, `graph`, `default` or `lazy`."""
    appends: tuple[ListAppend, ...]

    @property
    def mode(self) -> AppendMode:
        is_sync = self.how in {"header", "parameter"} or any(SYNC_NAME in one.key for one in self.appends)
        return AppendMode.SYNC if is_sync else AppendMode.ASYNC

    def request(self) -> dict[str, Any]:
        """Arguments of `httpx.Client.post`."""
        asked = {"header": {MODE: "sync"}, "lazy": {MODE: "lazy"}}.get(self.how, {})
        form = {"update": update_of(self.appends)} | ({"is_sync": "true"} if self.how == "parameter" else {})
        return {"data": form, "headers": {"Idempotency-Key": self.tx, **asked}}


class RecordingClient:
    """One client, in one thread."""

    def __init__(self, name: str, masters: Mapping[str, str], recorder: HistoryRecorder) -> None:
        """`masters`: URLs by id."""
        self.name, self._masters, self._recorder = name, masters, recorder
        self._http = httpx.Client(timeout=ANSWER_S, trust_env=False)
        self.last: tuple[int, str, str] | None = None
        """Index, `Quadlog-Index` and master of the highest index that it was acknowledged."""

    def close(self) -> None:
        self._http.close()

    def append(
        self, asked: AskedAppend, master: str, *, with_view: bool = False, is_again: bool = False
    ) -> AppendTransaction:
        """Send it once.

        With `with_view`, `view_members` is set if the master was in that view before and after the request:
        epochs only rise.  `is_again`: it was sent before, so that the headers may be those of another view.
        """
        before = self._view(master) if with_view else None
        index, invoked = None, time.monotonic()
        try:
            answer = self._http.post(f"{self._masters[master]}/update", **asked.request())
        except (httpx.ConnectError, httpx.ConnectTimeout):
            outcome, text = AppendOutcome.REFUSED, "not connected"  # so it was not sent
        except httpx.HTTPError as error:
            outcome, text = AppendOutcome.UNKNOWN, type(error).__name__
        else:
            outcome, text = self._outcome(asked, answer, master, is_again=is_again), str(answer.status_code)
            index = index_of(answer) if outcome is AppendOutcome.DONE else None
            if index is not None and (self.last is None or index > self.last[0]):
                self.last = index, answer.headers["Quadlog-Index"], master
        completed = time.monotonic()
        is_known = before is not None and outcome is AppendOutcome.DONE and self._view(master) == before
        done = AppendTransaction(
            asked.tx,
            self.name,
            master,
            asked.mode,
            asked.appends,
            invoked,
            completed,
            outcome,
            index,
            view_members=before[1] if before is not None and is_known else (),
        )
        self._recorder.add(done, "append", asked.how, f"{outcome} ({text})")
        return done

    def _outcome(
        self, asked: AskedAppend, answer: httpx.Response, master: str, *, is_again: bool
    ) -> AppendOutcome:
        told = (
            f"{asked.tx} ({asked.how}) at {master}: {answer.status_code} {dict(answer.headers)} {answer.text}"
        )
        check = self._recorder.check
        match answer.status_code, answer.text and answer.json()["error"]:
            case 204, _ if asked.how == "lazy":
                check(holds=answer.headers[MODE] in {"lazy", "sync"}, problem=told)
                return AppendOutcome.UNKNOWN  # its outcome may not be known yet
            case 204, _:
                mode = "sync" if asked.mode is AppendMode.SYNC else "default"
                durable, _, of = answer.headers["Quadlog-Durability"].removesuffix(" data centres").split()
                is_right = answer.headers[MODE] == mode and (mode == "default" or 2 * int(durable) > int(of))
                check(holds=is_right or is_again, problem=told)
                return AppendOutcome.DONE
            case 409, "RolledBack":
                check(holds=asked.mode is AppendMode.SYNC, problem=told)
                return AppendOutcome.ROLLED_BACK
            case 503, _:
                check(holds=answer.json()["definite"], problem=told)
                return AppendOutcome.REFUSED
            case 504, "OutcomeUnknown":
                return AppendOutcome.UNKNOWN
            case _:
                check(holds=False, problem=told)
                return AppendOutcome.UNKNOWN

    def _view(self, master: str) -> tuple[int, tuple[str, ...]] | None:
        """Epoch and members."""
        try:
            view = self._http.get(f"{self._masters[master]}/cluster/status").json()["view"]
        except httpx.HTTPError:
            return None
        return view["epoch"], tuple(view["members"])

    def read(
        self, kind: ReadKind, keys: Iterable[str], url: str, master: str, *, least: str | None = None
    ) -> ListRead:
        """Read lists; `least` is for `Quadlog-Min-Index`."""
        asked = {"Quadlog-Consistency": CONSISTENCY.get(kind), "Quadlog-Min-Index": least}
        headers = {name: value for name, value in asked.items() if value}
        lists: dict[str, tuple[int, ...]] = dict.fromkeys(keys, ())
        index, invoked = None, time.monotonic()
        headers["Accept"] = "application/sparql-results+json"
        try:
            answer = self._http.post(f"{url}/sparql", data={"query": query_of(lists)}, headers=headers)
        except httpx.HTTPError as error:
            text = type(error).__name__
        else:
            text = str(answer.status_code)
            told = f"{kind} read of {self.name} at {master}: {answer.status_code} {answer.text[:1000]}"
            self._recorder.check(holds=answer.status_code in {200, 503}, problem=told)
            if answer.is_success:
                lists, index = self._lists(lists, answer.json(), told), index_of(answer)
        ended = time.monotonic()
        read = ListRead(self.name, master, kind, lists, invoked, ended, index, is_ok=index is not None)
        self._recorder.add(read, kind, "least" if least else "", text)
        return read

    def _lists(self, keys: Iterable[str], found: Any, told: str) -> dict[str, tuple[int, ...]]:  # noqa: ANN401
        items = defaultdict[str, list[tuple[int, int]]](list)
        for row in found["results"]["bindings"]:
            key = row["key"]["value"].removeprefix("urn:list:")
            items[key].append((int(row["place"]["value"]), int(row["value"]["value"])))
        for key, of_key in items.items():
            of_key.sort()
            has_all = [place for place, _ in of_key] == list(range(1, len(of_key) + 1))
            self._recorder.check(holds=has_all, problem=f"places of {key}: {of_key}, {told[:100]}")
        return {key: tuple(value for _, value in items[key]) for key in keys}

    def report(self, tx: str, master: str) -> TxReport | None:
        """What `/tx` tells; None if there is no answer."""
        try:
            answer = self._http.get(f"{self._masters[master]}/tx/{tx}")
        except httpx.HTTPError:
            return None
        self._recorder.check(holds=answer.is_success, problem=f"/tx/{tx}: {answer.status_code} {answer.text}")
        told = answer.json() if answer.is_success else {}
        state = ReportedState(str(told.get("state", "unknown")).replace(" ", "_"))
        report = TxReport(tx, master, time.monotonic(), state, told.get("index"))
        self._recorder.add(report, "report", "", state)
        return report


def update_of(appends: Sequence[ListAppend]) -> str:
    """An update that appends values to different keys."""
    deleted, inserted, where = list[str](), list[str](), list[str]()
    for number, (key, value) in enumerate(appends):
        graph = f"GRAPH <{SYNC_GRAPH if SYNC_NAME in key else OTHER_GRAPH}>"
        last = f"{graph} {{ <urn:list:{key}> <urn:list:last> ?last{number} }}"
        item = f"<urn:item:{key}:{value}> <urn:item:in> <urn:list:{key}> ; <urn:item:place> ?place{number}"
        deleted.append(last)
        inserted.append(f"{last.replace('?last', '?place')} {graph} {{ {item} ; <urn:item:value> {value} }}")
        where.append(f"OPTIONAL {{ {last} }} BIND(COALESCE(?last{number}, 0) + 1 AS ?place{number})")
    return f"DELETE {{ {' '.join(deleted)} }} INSERT {{ {' '.join(inserted)} }} WHERE {{ {' '.join(where)} }}"


def query_of(keys: Iterable[str]) -> str:
    """For the items of these lists."""
    lists = " ".join(f"<urn:list:{key}>" for key in keys)
    item = "?item <urn:item:in> ?key ; <urn:item:place> ?place ; <urn:item:value> ?value"
    return f"SELECT ?key ?place ?value {{ VALUES ?key {{ {lists} }} GRAPH ?graph {{ {item} }} }}"
