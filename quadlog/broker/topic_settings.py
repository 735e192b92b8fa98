"""Settings of topics: those of a new topic, and faults in the settings of an existing one.

One table serves both.  Names and values are Kafka's, see "Topic Configs" in Kafka's documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quadlog.topics import Topics

NEEDED_MESSAGE_BYTES: Final = 1_000_000
"""Size of the largest batch that quadlog's producers send."""
SAFE_REPLICATION: Final = 3
MIN_IN_SYNC: Final = "min.insync.replicas"
PARTITIONS: Final = "partitions"
"""Not a topic config, but reported like one."""
_FOREVER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One setting of a topic."""

    name: str
    value: str
    """Value for a new topic."""
    least: int | None = None
    """Smallest accepted value, apart from -1 (no limit); None: only `value` is accepted."""
    harm: str
    """Consequence of any other value."""

    def accepts(self, value: str) -> bool:
        """Return whether a topic may have this value."""
        if self.least is None:
            return value == self.value
        return int(value) >= self.least or int(value) == _FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic as its broker describes it."""

    topic: str
    config: Mapping[str, str | None]
    partitions: int = 1
    replicas: int = 1
    """Replicas of partition 0."""
    in_sync: int = 1
    """Replicas of partition 0 that are in sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misset:
    """A setting that has to be changed."""

    topic: str
    setting: str
    value: str
    harm: str
    advice: str
    """A command that changes it, or other advice."""

    def __str__(self) -> str:
        """Return a sentence for messages."""
        return f"{self.topic} has {self.setting}={self.value}: {self.harm}"


_SIZE: Final = Rule(
    name="max.message.bytes",
    value="1048588",
    least=NEEDED_MESSAGE_BYTES,
    harm=f"records of up to {NEEDED_MESSAGE_BYTES} bytes are written, and larger ones than that are refused",
)
_UNCLEAN: Final = Rule(
    name="unclean.leader.election.enable",
    value="false",
    harm="Kafka may drop acknowledged records when a broker fails",
)
_NO_SIZE_LIMIT: Final = Rule(
    name="retention.bytes",
    value=str(_FOREVER),
    harm="Kafka deletes the oldest records, and nodes that need them cannot go on from the log",
)
_ORDERED: Final = (
    Rule(
        name="cleanup.policy",
        value="delete",
        harm="compaction removes records from the middle of the topic, and a log with holes cannot be applied",
    ),
    Rule(
        name="retention.ms",
        value=str(_FOREVER),
        harm="Kafka deletes old records, and nodes that need them cannot go on from the log",
    ),
    _NO_SIZE_LIMIT,
    _SIZE,
    _UNCLEAN,
)
_STATUS: Final = (
    Rule(name="cleanup.policy", value="delete", harm="heartbeats stay for ever"),
    Rule(
        name="retention.ms",
        value="3600000",
        least=60_000,
        harm="heartbeats are deleted before masters and workers that start have read them",
    ),
    _NO_SIZE_LIMIT,
    _SIZE,
    _UNCLEAN,
)
_CHECKPOINT: Final = (
    Rule(
        name="cleanup.policy",
        value="compact",
        harm="Kafka deletes the checkpoint that a master without a disk begins at",
    ),
    _SIZE,
    _UNCLEAN,
)


AUDIT: Final = _ORDERED
"""Rules of the topic for violations, which masters neither make nor check."""


def rules_of(topics: Topics) -> dict[str, tuple[Rule, ...]]:
    """Return the rules of each topic of a data centre."""
    return {
        **dict.fromkeys(topics.followed, _ORDERED),
        topics.status: _STATUS,
        topics.checkpoint: _CHECKPOINT,
    }


def config_of(rules: tuple[Rule, ...], *, replication: int) -> dict[str, str]:
    """Return the settings of a new topic."""
    return {rule.name: rule.value for rule in rules} | {MIN_IN_SYNC: _in_sync_for(replication)}


def misset(state: TopicState, rules: tuple[Rule, ...], *, kafka: str) -> list[Misset]:
    """Return the faulty settings of a topic of the broker at `kafka`.

    >>> [retention] = [rule for rule in _ORDERED if rule.name == "retention.ms"]
    >>> state = TopicState(topic="main.dc1.agreed", config={"retention.ms": "1000"})
    >>> [one] = misset(state, (retention,), kafka="k:9092")
    >>> one.advice.partition(" --entity-type ")
    ('kafka-configs --bootstrap-server k:9092 --alter', ' --entity-type ', \
'topics --entity-name main.dc1.agreed --add-config retention.ms=-1')
    """
    command = (
        f"kafka-configs --bootstrap-server {kafka} --alter --entity-type topics --entity-name {state.topic}"
        " --add-config"
    )
    return [
        *_wrong_values(state, rules, command),
        *_wrong_replicas(state, command),
        *_wrong_partitions(state),
    ]


def _wrong_values(state: TopicState, rules: tuple[Rule, ...], command: str) -> Iterator[Misset]:
    for rule in rules:
        value = state.config.get(rule.name)
        if value is not None and not rule.accepts(value):
            advice = f"{command} {rule.name}={rule.value}"
            yield Misset(topic=state.topic, setting=rule.name, value=value, harm=rule.harm, advice=advice)


def _wrong_replicas(state: TopicState, command: str) -> Iterator[Misset]:
    needed = state.config.get(MIN_IN_SYNC) or "1"
    wrong = partial(Misset, topic=state.topic, setting=MIN_IN_SYNC, value=needed)
    advice = f"{command} {MIN_IN_SYNC}={_in_sync_for(state.replicas)}"
    if int(needed) > state.replicas:
        harm = f"it has {state.replicas} replicas, and some versions of Kafka take no records then"
        yield wrong(harm=harm, advice=advice)
    elif int(needed) > state.in_sync:
        meanwhile = f"{command} {MIN_IN_SYNC}={max(1, state.in_sync)}"
        yield wrong(
            harm=f"{state.in_sync} of {state.replicas} replicas are in sync, so the topic takes no records",
            advice=f"start the brokers of the other replicas; or, until they are back, {meanwhile}",
        )
    elif state.replicas >= SAFE_REPLICATION and int(needed) < SAFE_REPLICATION - 1:
        harm = "acks=all may mean one broker, whose disk is then the only one with acknowledged records"
        yield wrong(harm=harm, advice=advice)


def _wrong_partitions(state: TopicState) -> Iterator[Misset]:
    if state.partitions != 1:
        yield Misset(
            topic=state.topic,
            setting=PARTITIONS,
            value=str(state.partitions),
            harm="quadlog writes and reads partition 0 alone, and other programs may read the topic out of order",
            advice=(
                "nothing at once: the log in partition 0 is whole. Kafka cannot remove partitions; where that"
                " matters, stop all of this data centre, delete the topic and run `quadlog dc rebuild`"
            ),
        )


def _in_sync_for(replicas: int) -> str:
    return str(max(1, replicas - 1))
