"""What is wrong with a topic's settings, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.broker.topic_settings import TopicState, config_of, misset, rules_of
from quadlog.topics import Topics

TOPICS = Topics("main", "dc1")
RULES = rules_of(TOPICS)


def state(topic: str, *, replicas: int = 1, in_sync: int | None = None, **config: str) -> TopicState:
    """As quadlog creates it, but for what is given; dots in names are underscores here."""
    changed = {name.replace("_", "."): value for name, value in config.items()}
    return TopicState(
        topic=topic,
        config=config_of(RULES[topic], replication=replicas) | changed,
        replicas=replicas,
        in_sync=replicas if in_sync is None else in_sync,
    )


def wrong(there: TopicState) -> list[tuple[str, str]]:
    return [
        (one.setting, one.advice.rpartition(" ")[2]) for one in misset(there, RULES[there.topic], kafka="k:1")
    ]


@pytest.mark.parametrize("topic", TOPICS.all())
@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_new_topics_are_right(topic: str, replicas: int) -> None:
    assert wrong(state(topic, replicas=replicas)) == []


@pytest.mark.parametrize("topic", TOPICS.followed)
def test_a_log_is_kept_whole(topic: str) -> None:
    """Each setting by itself, and what the advice sets."""
    for setting, value, right in (
        ("retention.ms", "1000", "-1"),
        ("retention.bytes", "1", "-1"),
        ("cleanup.policy", "compact", "delete"),
        ("cleanup.policy", "compact,delete", "delete"),
        ("max.message.bytes", "999999", "1048588"),
        ("unclean.leader.election.enable", "true", "false"),
    ):
        there = replace(state(topic), config={**state(topic).config, setting: value})
        assert wrong(there) == [(setting, f"{setting}={right}")]
    assert wrong(state(topic, max_message_bytes="20000000")) == []


def test_heartbeats_may_go_after_a_while_and_checkpoints_never() -> None:
    assert wrong(state(TOPICS.status, retention_ms="60000")) == []
    assert wrong(state(TOPICS.status, retention_ms="-1")) == []
    assert wrong(state(TOPICS.status, retention_ms="59999")) == [("retention.ms", "retention.ms=3600000")]
    assert wrong(state(TOPICS.checkpoint, retention_ms="1000")) == [], (
        "compaction alone takes no newest record"
    )
    for policy in ("delete", "compact,delete"):
        assert wrong(state(TOPICS.checkpoint, cleanup_policy=policy)) == [
            ("cleanup.policy", "cleanup.policy=compact")
        ]


def test_replicas() -> None:
    """Above what there is, or what is in sync, nothing can be written; below 2 of 3 one disk has all."""
    for there, right in (
        (state(TOPICS.agreed, min_insync_replicas="2"), "1"),
        (state(TOPICS.agreed, replicas=3, min_insync_replicas="4"), "2"),
        (state(TOPICS.agreed, replicas=3, in_sync=1), "1"),
        (state(TOPICS.agreed, replicas=3, min_insync_replicas="1"), "2"),
    ):
        assert wrong(there) == [("min.insync.replicas", f"min.insync.replicas={right}")]
    assert wrong(state(TOPICS.agreed, replicas=3, in_sync=2)) == []
    assert wrong(state(TOPICS.agreed, replicas=2, min_insync_replicas="2")) == []


def test_partitions() -> None:
    [one] = misset(replace(state(TOPICS.agreed), partitions=3), RULES[TOPICS.agreed], kafka="k:1")
    assert str(one).startswith("main.dc1.agreed has partitions=3: quadlog writes and reads partition 0 alone")


def test_what_a_broker_does_not_tell_is_not_wrong() -> None:
    assert misset(TopicState(topic=TOPICS.agreed, config={}), RULES[TOPICS.agreed], kafka="k:1") == []
