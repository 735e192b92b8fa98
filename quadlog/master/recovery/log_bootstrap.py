"""Start of a master without a disk, in a data centre whose topics were shortened (decision 35).

It continues at the checkpoint that was published before anything was deleted.  Another master supplies the
entries up to the checkpoint; the local agreed topic has those after it.  The result is the state of a master
that lost its disk where nothing was shortened, and has read all: blank, and about to be let in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
import structlog
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from consumers import checkpoint as checkpoints
from consumers.agreed import AgreedConsumer
from quadlog.broker import STARTING_S, Admin, beginning_of, end_of, last_records, records_between
from quadlog.core.model import START, LogPosition, Pair, body_hash
from quadlog.core.records import Cut
from quadlog.errors import QuadlogError, SetupError, StateError, Unavailable
from quadlog.master.topics.foreign_records import understood
from quadlog.masterstore.rows import Row, unpack_rows
from quadlog.masterstore.staged_log import payload_of
from quadlog.masterstore.store import Taken
from quadlog.web.answers import handle_error
from quadlog.web.http_pool import trust

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from quadlog.core.records import Checkpoint, LoggedEntry
    from quadlog.masterstore.store import MasterStore
    from quadlog.settings import MasterSettings
    from quadlog.topics import Topics
    from quadlog.web.server import Server

log = structlog.get_logger()

LOOKED_AT: Final = 1_000
"""Maximum checkpoints that are read: the topic keeps one of each master, and those that are not compacted yet."""
ASK_S: Final = 30.0
"""Timeout in seconds of a request for a page of rows."""
AGAIN_S: Final = 2.0
"""Seconds until all masters are asked again, if none had what is needed."""
BATCH: Final = 500
"""Maximum entries of the local topic that are written at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """Deleted records that no checkpoint covers: something else than a master deleted them."""

    topic: str
    covered: int
    """Offset up to which records may be missing."""
    beginning: int
    """Offset of the first record in the topic."""

    def __str__(self) -> str:
        """Describe the gap for an error message."""
        return (
            f"{self.topic} begins at offset {self.beginning}, and its records from offset {self.covered} on are needed:"
            " something else than a master deleted them, Kafka's own retention for one"
        )


def uncovered(kafka: str, topics: Topics, beginnings: Mapping[str, int]) -> list[Uncovered]:
    """Return the uncovered gaps at the beginning of the agreed and the effects topic.

    Args:
        kafka: bootstrap servers of the data centre.
        topics: topics of the data centre.
        beginnings: offset of the first record of these two topics.

    Raises:
        Unavailable: no broker answers.

    """
    found = _furthest(kafka, topics) if any(beginnings.values()) else None
    return _beyond(found, topics, beginnings)


def newest_checkpoint(kafka: str, topics: Topics) -> Checkpoint | None:
    """Return where a master without a disk continues; None if nothing was deleted, so that it starts at the beginning.

    Raises:
        SetupError: no checkpoint covers the deleted records.
        Unavailable: no broker answers.

    """
    found = _furthest(kafka, topics)
    beginnings = {
        topic: beginning_of(kafka, topic, timeout=STARTING_S) for topic in (topics.agreed, topics.effects)
    }
    for gone in _beyond(found, topics, beginnings):
        raise SetupError(
            f"{gone}, no checkpoint in {topics.checkpoint} goes so far, and this master's disk is new. Put its disk"
            " back; or stop all masters and workers of this data centre and run `quadlog dc rebuild --config"
            " MASTER.toml`. And set retention.ms of the topic to -1. Nothing was changed"
        )
    return found


def _furthest(kafka: str, topics: Topics) -> Checkpoint | None:
    ids = Admin(kafka).ids([topics.agreed, topics.effects])
    records = last_records(kafka, topics.checkpoint, count=LOOKED_AT, timeout=STARTING_S)
    said = [checkpoint for _, checkpoint in understood(records, checkpoints.hear)]
    these = ids.get(topics.agreed), ids.get(topics.effects)
    of_these = [one for one in said if one is not None and (one.agreed_id, one.effects_id) == these]
    return checkpoints.furthest(of_these)


def _beyond(checkpoint: Checkpoint | None, topics: Topics, beginnings: Mapping[str, int]) -> list[Uncovered]:
    covered = {
        topics.agreed: 0 if checkpoint is None else checkpoint.reached.offset,
        topics.effects: 0 if checkpoint is None else checkpoint.effects.offset,
    }
    return [
        Uncovered(topic=topic, covered=offset, beginning=beginnings[topic])
        for topic, offset in covered.items()
        if beginnings.get(topic, 0) > offset
    ]


class LogBootstrap:
    """Recovery of one master's log, before it takes part."""

    def __init__(self, settings: MasterSettings, store: MasterStore, topics: Topics, server: Server) -> None:
        """Prepare; no request is sent yet.  `server` holds the port."""
        self._kafka, self._store, self._topics, self._server = settings.kafka, store, topics, server
        others = sorted(settings.peer.values(), key=lambda peer: peer.dc != settings.dc)
        self._urls: Final = [peer.url for peer in others]
        """URLs of all other masters, those of the local data centre first."""
        self._state = ""

    def bring_log(self) -> None:
        """Fetch the entries that the topics lack, if this master's store is new, and continue at the checkpoint.

        Waits until another master has these entries.  If the process dies meanwhile, the next one continues
        where it was.

        Raises:
            SetupError: no other master is known that could have them.
            Unavailable: no broker answers.

        """
        if not self._store.is_new or (checkpoint := newest_checkpoint(self._kafka, self._topics)) is None:
            return
        if not self._urls:
            raise SetupError(
                f"{self._topics.agreed} was shortened: the entries up to {checkpoint.last.index} are known to masters"
                " alone. Name the others in the settings (peer.N), or put this one's disk back"
            )
        with self._server.early(self._app()):
            self._bring(checkpoint)
            self._take_tail(checkpoint)
        self._go_on(checkpoint)
        log.info(
            "checkpoint_restored",
            checkpoint=checkpoint.last.index,
            last=self._store.bootstrap_log.last.index,
        )

    # --- entries from other masters -------------------------------------------------------------------

    def _bring(self, checkpoint: Checkpoint) -> None:
        bootstrap_log, until = self._store.bootstrap_log, checkpoint.last
        if bootstrap_log.last.index > until.index:
            bootstrap_log.forget_behind(until.index)  # a process before this one died in `_take_tail`
        while bootstrap_log.last != until:
            reasons: list[str] = []
            for url in self._urls:
                try:
                    self._bring_from(url, until)
                except (httpx.HTTPError, QuadlogError) as error:
                    reasons.append(f"{url}: {error or type(error).__name__}")
                else:
                    break
            else:
                self._state = f"waits for a master that has entry {until.index}"
                log.warning("log_fetch_failed", until=until.index, reasons="; ".join(reasons))
                time.sleep(AGAIN_S)

    def _bring_from(self, url: str, until: LogPosition) -> None:
        bootstrap_log = self._store.bootstrap_log
        with httpx.Client(base_url=url, timeout=ASK_S, verify=trust(), trust_env=False) as client:
            while (last := bootstrap_log.last).index < until.index:
                self._state = f"takes the log from {url}: {last.index} of {until.index} entries"
                asked: dict[str, str | int] = {
                    "after": last.index,
                    "until": until.index,
                    "chain": until.chain.hex(),
                }
                answer = client.get("/cluster/log", params=asked)
                if not answer.is_success:
                    raise Unavailable(answer.text.strip())
                rows = list(unpack_rows(answer.content))
                if not rows:
                    raise StateError("it answers with no entries")
                bootstrap_log.append(rows)
        if bootstrap_log.last != until:
            bootstrap_log.forget_behind(START.index)
            raise StateError(f"its entry {until.index} is another one than {self._topics.checkpoint} says")

    # --- entries from the local topic -------------------------------------------------------------------

    def _take_tail(self, checkpoint: Checkpoint) -> None:
        """Store the entries after the checkpoint with their payloads: those of entries that are cut wait again."""
        bootstrap_log, reached, topic = self._store.bootstrap_log, checkpoint.reached, self._topics.agreed
        self._state = f"reads {topic}"
        end, _ = end_of(self._kafka, topic, count=0, timeout=STARTING_S)
        consumer = AgreedConsumer(reached.end, cut=reached.epoch or 1)
        records = records_between(self._kafka, topic, reached.offset, end)
        last = bootstrap_log.last
        waiting: list[LoggedEntry] = []
        for _, said in understood(records, consumer.on_record):
            if isinstance(said, Cut):
                self._take(waiting)
                waiting = []
                bootstrap_log.forget_behind(max(said.index, checkpoint.last.index))
                last = bootstrap_log.last
            elif said is not None and (said.index, said.previous) == (last.index + 1, last.chain):
                waiting.append(said)
                last = LogPosition(said.index, said.chain)
                if len(waiting) >= BATCH:
                    self._take(waiting)
                    waiting = []
        self._take(waiting)

    def _take(self, entries: Sequence[LoggedEntry]) -> None:
        if entries:
            self._store.bootstrap_log.append(map(_row_of, entries), map(payload_of, entries))

    # --- state of the checkpoint ------------------------------------------------------------------------

    def _go_on(self, checkpoint: Checkpoint) -> None:
        effects, topics = checkpoint.effects, self._topics
        self._store.go_on(
            Taken(
                positions={topics.effects: effects.offset},
                effects=(effects.index, effects.attempt, effects.epoch),
                rejected={},
                seed=checkpoint.seed,
                duty=checkpoint.duty,
                topics={topics.agreed: checkpoint.agreed_id, topics.effects: checkpoint.effects_id},
                reached=checkpoint.reached,
            )
        )

    # --- requests during recovery -------------------------------------------------------------------------

    def _app(self) -> Starlette:
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        routes = [
            Route("/healthz/alive", self._alive, methods=["GET"]),
            Route("/{path:path}", self._refuse, methods=methods),
        ]
        return Starlette(routes=routes, exception_handlers={QuadlogError: handle_error})

    async def _alive(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _refuse(self, _: Request) -> Response:
        raise Unavailable(
            f"this master lost its disk and {self._state}; nothing was logged: ask another one", retry_after=5
        )


def _row_of(entry: LoggedEntry) -> Row:
    return Row(
        LogPosition(entry.index, entry.chain),
        Pair(entry.timestamp, entry.id, entry.digest),
        body_hash(entry.body, entry.options),
        None,
    )
