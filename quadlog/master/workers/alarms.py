"""Alarms: what is wrong with the workers of this data centre now, and since when.

Their names and fields are relied on outside; `docs/operating.md` explains each.
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
    """What kind of trouble."""

    DIVERGED = "worker-diverged"
    """Its heartbeat contradicts the effect of the index that it applied."""
    DAMAGED = "worker-damaged"
    """A recount of its stored quads gave another signature than the one that it applied."""
    DEAD = "worker-dead"
    """No heartbeat, and nobody is at its door."""
    HUNG = "worker-hung"
    """No heartbeat, and its door takes connections without an answer."""
    UNHEARD = "worker-unheard"
    """No heartbeat, but its door answers."""
    STOPPED = "worker-stopped"
    """It said that it stops."""
    UNSEEDED = "worker-unseeded"
    """It lacks the seed that the log begins with."""
    LAGGING = "worker-lagging"
    """It serves, and has not applied what was decided long ago."""
    SET_ASIDE = "store-set-aside"
    """Files of its store were damaged: it was set aside, and another one serves."""
    UNSCRUBBED = "worker-unscrubbed"
    """Its stored quads cannot be recounted."""
    UNDECIDED = "entries-undecided"
    """Entries are agreed, and no effect of theirs came."""
    FULL = "effects-topic-full"
    """The effects topic of this data centre takes no records."""
    UNFOLLOWED = "source-out-of-reach"
    """Of a muted data centre: the one that it copies does not answer."""
    MISSET = "topic-misconfigured"
    """A setting of a topic of this data centre is not as quadlog needs it."""
    DELETED = "log-records-deleted"
    """Something else than a master deleted the oldest records of the agreed or the effects topic."""

    LOST = "source-lost"
    """Of a muted data centre: the one that it copies has other topics now, or they went back."""
    WENT_BACK = "peer-topic-went-back"
    """Topics of another data centre do not go on where they were read up to."""


WHAT_TO_DO: Final = {
    AlarmName.DIVERGED: "nothing, it is rebuilt from the log and gets no reads until then",
    AlarmName.DAMAGED: "nothing, it is rebuilt from the log and gets no reads until then; look at its disk",
    AlarmName.DEAD: "read the last lines of its log, then start it again",
    AlarmName.HUNG: "SIGCONT if somebody suspended it; else look at its disk, then SIGKILL and start it again",
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
    AlarmName.MISSET: "set it as the reason says",
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
    """What an alarm is raised for."""

    name: AlarmName
    worker: str | None
    index: int
    transaction: bytes | None = None
    reason: str
    obstacle: str = ""
    """Why it does not mend by itself though it should."""
    topic: str | None = None
    """Which topic it is about."""
    setting: str | None = None
    """And which of its settings."""
    value: str | None = None
    """Of that setting."""
    advice: str = ""
    """What to do, where that differs from trouble to trouble."""

    @property
    def key(self) -> tuple[AlarmName, str | None, str | None, str | None]:
        """What has at most one alarm."""
        return self.name, self.worker, self.topic, self.setting


@dataclass(frozen=True, slots=True)
class Alarm:
    """A trouble, and since when it has been there; milliseconds since 1970."""

    trouble: Trouble
    since: int

    def as_json(self) -> dict[str, Any]:
        """What `/cluster/status` shows of it."""
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
    """Those that are raised.  One thread changes them, any may read `all`."""

    def __init__(self) -> None:
        """All is well."""
        self._raised: dict[tuple[AlarmName, str | None, str | None, str | None], Alarm] = {}

    def all(self) -> list[Alarm]:
        """The raised ones, oldest first."""
        return sorted(self._raised.values(), key=lambda alarm: (alarm.since, alarm.trouble.name))

    def set(self, troubles: Iterable[Trouble], wall: int) -> None:
        """What is wrong now: what was not wrong before is logged, once, and so is what ended."""
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
    """For the log, where `name` says something else."""
    fields = alarm.as_json()
    return {"alarm": fields.pop("name"), **fields}
