"""Monitor of the data centre's topics, every few seconds: their settings, deleted records, what audits have found.

It runs in its own thread: a broker that does not answer delays nothing else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.broker import Admin, last_records
from quadlog.broker.topic_settings import misset, rules_of
from quadlog.compare.violations import lines_of, violations_of
from quadlog.errors import QuadlogError
from quadlog.master.recovery.log_bootstrap import uncovered
from quadlog.master.workers.alarms import AlarmName, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.broker.topic_settings import Misset
    from quadlog.core.records import Violation
    from quadlog.master.recovery.log_bootstrap import Uncovered
    from quadlog.topics import Topics

log = structlog.get_logger()

EVERY_S: Final = 5.0
"""Seconds between two checks: one request for metadata, one for settings, one for offsets."""


class TopicMonitor:
    """Monitor of topics.  Any thread may read its results, which are empty without `start`."""

    def __init__(self, kafka: str, topics: Topics) -> None:
        """Prepare; nothing is requested before `start`."""
        self._kafka, self._topics = kafka, topics
        self._rules: Final = rules_of(topics)
        self._admin: Admin | None = None
        self._beginnings: dict[str, int] = {}
        self._gone: Sequence[Uncovered] = ()
        self._audited: tuple[int, list[Violation]] = 0, []
        """End of the topic of audits when its newest violation was read, and that one."""
        self._ended: Final = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-monitor", daemon=True)
        self.troubles: Sequence[Trouble] = ()
        """Troubles found by the last check that was answered."""
        self.lacks_checkpoint = False
        """True if records of the log were deleted that no checkpoint covers."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop; a check that waits for its answer ends with that."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.check()
            except QuadlogError as error:
                # A client whose request was not answered may retry without a pause (decision 41).
                self._admin = None
                log.debug("topic_settings_unknown", reason=str(error))
            except Exception:
                log.exception("topic_settings_unknown")
            self._ended.wait(EVERY_S)

    def check(self) -> None:
        """Check once.

        Raises:
            Unavailable: no broker answers; the former results remain.

        """
        if self._admin is None:
            self._admin = Admin(self._kafka)
        wrong = [
            _trouble_of(one)
            for state in self._admin.describe(list(self._rules))
            for one in misset(state, self._rules[state.topic], kafka=self._kafka)
        ]
        beginnings = self._admin.beginnings([self._topics.agreed, self._topics.effects, self._topics.audit])
        violations = self._violations(self._admin, beginnings.pop(self._topics.audit, None))
        if beginnings != self._beginnings or self._gone:
            self._gone = uncovered(self._kafka, self._topics, beginnings)
            self._beginnings = beginnings
        self.lacks_checkpoint = bool(self._gone)
        deleted = (Trouble(name=AlarmName.DELETED, reason=str(one), topic=one.topic) for one in self._gone)
        self.troubles = (*wrong, *deleted, *violations)

    def _violations(self, admin: Admin, beginning: int | None) -> list[Trouble]:
        """Return what audits have found, as far as their topic, which begins at `beginning`, still has it."""
        topic = self._topics.audit
        end = None if beginning is None else admin.ends([topic]).get(topic)
        if beginning is None or end is None or end <= beginning:
            return []
        if end != self._audited[0]:
            self._audited = end, violations_of(last_records(self._kafka, topic, count=1))
        newest = [f"; the newest one is {one}" for one in lines_of(self._audited[1])[1:]]
        return [
            Trouble(
                name=AlarmName.VIOLATIONS,
                index=self._audited[1][-1].index if self._audited[1] else 0,
                reason="".join([f"the audit has written {end - beginning} violations to {topic}", *newest]),
                topic=topic,
            )
        ]


def _trouble_of(one: Misset) -> Trouble:
    return Trouble(
        name=AlarmName.MISSET,
        reason=str(one),
        topic=one.topic,
        setting=one.setting,
        value=one.value,
        advice=one.advice,
    )
