"""Alarms: current troubles of the workers and topics of this data centre, each with its beginning.

Other programs rely on their names and fields; `docs/operating.md` explains each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import structlog

from quadlog.codec.envelope import text_id, text_moment

if TYPE_CHECKING:
    from collections.abc import Iterable

log = structlog.get_logger()


class AlarmName(StrEnum):
    """Kind of a trouble."""

    DIVERGED = "worker-diverged"
    """The worker's heartbeat contradicts the effect of the index that it applied, or it keeps a branch."""
    DAMAGED = "worker-damaged"
    """A recount of the worker's stored quads gave another signature than the one that it applied."""
    DEAD = "worker-dead"
    """No heartbeat arrives, and nothing listens at the worker's URL."""
    HUNG = "worker-hung"
    """No heartbeat arrives, and the worker's URL accepts connections without an answer."""
    UNHEARD = "worker-unheard"
    """No heartbeat arrives, but the worker's URL answers."""
    STOPPED = "worker-stopped"
    """The worker reported that it stops."""
    UNSEEDED = "worker-unseeded"
    """The worker lacks the seed that the log begins with."""
    LAGGING = "worker-lagging"
    """The worker serves, and has not applied an entry that was decided long ago."""
    SET_ASIDE = "store-set-aside"
    """Files of the worker's store were damaged: this store was set aside, and another one serves."""
    UNSCRUBBED = "worker-unscrubbed"
    """The worker's stored quads cannot be recounted."""
    UNDECIDED = "entries-undecided"
    """Entries are agreed, and their effects do not arrive."""
    FULL = "effects-topic-full"
    """The effects topic of this data centre accepts no records."""
    UNFOLLOWED = "source-out-of-reach"
    """Muted data centre: the source that it copies does not answer."""
    MISSET = "topic-misconfigured"
    """A setting of a topic of this data centre is not as quadlog needs it."""
    DELETED = "log-records-deleted"
    """Something else than a master deleted the oldest records of the agreed or the effects topic."""
    VIOLATIONS = "audit-violations"
    """An audit has found records that contradict others."""

    SILENT = "members-silent"
    """Members of the view are not heard: writes wait, and are refused after some rounds."""
    WITHOUT_MAJORITY = "without-majority"
    """This side of a split has no majority of the voting data centres, and agrees on nothing."""
    MISSING = "peers-missing"
    """Peers are not in the view, and this side continues without them."""
    UNAPPROVED = "split-unapproved"
    """This side hears a stronger one, and gives way to it once an operator approves."""
    UNWITNESSED = "no-witness"
    """Of two voting data centres neither is a majority without the other one."""
    LIMBO = "limbo-waits"
    """Synchronous transactions are not decided, and all that was agreed behind them waits."""
    QUORUM = "synchro-quorum-unsuitable"
    """The synchronous quorum is half of the data centres or less, or more than all."""
    SETTINGS_DIFFER = "settings-differ"
    """The file of this master, or of another one, has another value of a setting that all masters share."""
    LOST = "source-lost"
    """Muted data centre: the topics of its source were replaced, or went back."""
    WENT_BACK = "peer-topic-went-back"
    """Topics of another data centre do not continue where they were read up to."""


WHAT_TO_DO: Final = {
    AlarmName.DIVERGED: "nothing, it is rebuilt from the log and gets no reads until then",
    AlarmName.DAMAGED: "nothing, it is rebuilt from the log and gets no reads until then; look at its disk",
    AlarmName.DEAD: "read the last lines of its log, then start it again",
    AlarmName.HUNG: "SIGCONT if it was suspended; else look at its disk, then SIGKILL and start it again",
    AlarmName.UNHEARD: "look whether it reaches the Kafka of this data centre",
    AlarmName.STOPPED: "start it again when what it was stopped for is done",
    AlarmName.UNSEEDED: "nothing if another worker anywhere has the seed: it is brought; else import the same again",
    AlarmName.LAGGING: "look at its CPU and disk; wait where it just started, catches up or takes in a large update",
    AlarmName.SET_ASIDE: "look at the disk of that directory, then remove it: quadlog never does",
    AlarmName.UNSCRUBBED: "read the reason; free space on the disk of its data-dir",
    AlarmName.UNDECIDED: "start a worker in the evaluating data centre; look at the way to its Kafka",
    AlarmName.FULL: (
        "have that topic take records again: look at its replicas in sync and min.insync.replicas, its"
        " max.message.bytes (1000000), its broker's disk, quotas and ACLs; another data centre evaluates meanwhile"
    ),
    AlarmName.UNFOLLOWED: "look at the way to that Kafka; it goes on by itself where it was",
    AlarmName.LOST: "what the reason says: until then nothing is copied, and reads show the state of before",
    AlarmName.WENT_BACK: (
        "nothing here: what was read is kept. In that data centre: have that Kafka back as it was, or stop all masters"
        " and workers there and run `quadlog dc rebuild --config MASTER.toml` once"
    ),
    AlarmName.SILENT: "look at those masters and at the way to their Kafka; start them again",
    AlarmName.WITHOUT_MAJORITY: (
        "repair the way to the other data centres, or start their masters; if they are lost for good, name all masters"
        " that are left: `quadlog peer remove ID --force --survivor ID --at MASTER`"
    ),
    AlarmName.MISSING: "start those masters, or repair the way to them; they join by themselves",
    AlarmName.UNAPPROVED: (
        "foresee the end of the split with `quadlog split preview`, and approve it with `quadlog split approve`"
    ),
    AlarmName.UNWITNESSED: (
        "add a third data centre with a Kafka and one read-only master, a witness: see Witness in docs/operating.md; or"
        " accept that the loss of one data centre stops writes until it is back"
    ),
    AlarmName.LIMBO: (
        "repair the way to the data centres that are missing, or start their masters: it ends by itself, and after"
        " synchro-timeout what waits is rolled back where a majority is; or lower the quorum: `quadlog config set"
        " synchro-quorum`"
    ),
    AlarmName.QUORUM: "set another one, as N/2 + 1: `quadlog config set synchro-quorum`",
    AlarmName.SETTINGS_DIFFER: "make the files equal, or agree on a value: `quadlog config set`",
    AlarmName.MISSET: "set it as the reason says",
    AlarmName.VIOLATIONS: (
        "see all of them with `quadlog audit report`, and what each means in docs/audit.md; the alarm ends when the"
        " records of that topic are deleted (kafka-delete-records), or have expired"
    ),
    AlarmName.DELETED: (
        "find out what deleted them (retention.ms, retention.bytes, kafka-delete-records) and stop that; keep the"
        " data-dirs of the workers of this data centre, and make a backup: `quadlog backup`. A worker that needs the"
        " records copies another worker or takes a backup by itself; where there is neither, stop all masters and"
        " workers of this data centre and run `quadlog dc rebuild --config MASTER.toml`"
    ),
}
INSTEAD: Final = "it is not rebuilt by itself ({why}): stop it, remove its data-dir, start it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Condition for which an alarm is raised."""

    name: AlarmName
    worker: str | None = None
    index: int = 0
    transaction: bytes | None = None
    reason: str
    obstacle: str = ""
    """Reason why the worker is not rebuilt automatically, though it should be."""
    topic: str | None = None
    """Topic that the trouble is about."""
    setting: str | None = None
    """Setting of that topic."""
    value: str | None = None
    """Value of that setting."""
    advice: str = ""
    """Advice to the operator, if it differs from that in `WHAT_TO_DO`."""

    @property
    def key(self) -> tuple[AlarmName, str | None, str | None, str | None]:
        """Key of the trouble: each has at most one alarm."""
        return self.name, self.worker, self.topic, self.setting


@dataclass(frozen=True, slots=True)
class Alarm:
    """A trouble and when it began, in milliseconds since 1970."""

    trouble: Trouble
    since: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `/cluster/status` shows."""
        trouble = self.trouble
        usual = trouble.advice or WHAT_TO_DO[trouble.name]
        advice = INSTEAD.format(why=trouble.obstacle) if trouble.obstacle else usual
        return {
            "name": trouble.name.value,
            "worker": trouble.worker,
            "topic": trouble.topic,
            "setting": trouble.setting,
            "value": trouble.value,
            "index": trouble.index,
            "transaction": text_id(trouble.transaction) if trouble.transaction else None,
            "since": text_moment(self.since),
            "reason": trouble.reason,
            "what_to_do": advice,
        }


class Alarms:
    """Raised alarms.  One thread changes them, any may read `all`."""

    def __init__(self) -> None:
        self._raised: dict[tuple[AlarmName, str | None, str | None, str | None], Alarm] = {}

    def all(self) -> list[Alarm]:
        """Return the raised alarms, oldest first."""
        return sorted(self._raised.values(), key=lambda alarm: (alarm.since, alarm.trouble.name))

    def set(self, troubles: Iterable[Trouble], wall: int) -> None:
        """Replace the troubles by the current ones; log each new one and each that ended, once."""
        before = self._raised
        now = {trouble.key: trouble for trouble in troubles}
        self._raised = {
            key: Alarm(trouble, before[key].since if key in before else wall) for key, trouble in now.items()
        }
        for key in now.keys() - before.keys():
            log.error("alarm_raised", **_told(self._raised[key]))
        for key in before.keys() - now.keys():
            name, worker, topic, setting = key
            log.info("alarm_ended", alarm=name.value, worker=worker, topic=topic, setting=setting)


def _told(alarm: Alarm) -> dict[str, Any]:
    """Return the fields for the log, where `name` has another meaning."""
    fields = alarm.as_json()
    return {"alarm": fields.pop("name"), **fields}
