"""Does the own effects topic take records?  What workers and the own outlet say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror
from quadlog.core.model import GENESIS
from quadlog.core.records import Rewind
from quadlog.master.effects.pending_effects import PendingEffects
from quadlog.master.effects.topic_health import AGAIN_MS, KEPT_MS, PATIENCE_MS, TopicHealth
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.worker.evaluate.publish_health import HOARSE_MS, PublishHealth
from quadlog.worker.evaluate.publish_health import PATIENCE_MS as VOICE_MS
from tests.support.agreement.topics import FIRST, effect, effects_topic, fence
from tests.support.masters.outlets import Spout
from tests.support.masters.watched import beat

if TYPE_CHECKING:
    import pytest

    from quadlog.ports import Record


class Rig:
    """A master's, with one worker that beats."""

    def __init__(self) -> None:
        self.worker_registry, self.spout = WorkerRegistry(timeout_ms=2000.0), Spout()
        self.topic_health = TopicHealth(self.worker_registry, self.spout, "main.dc1.effects")

    def look(self, moment: float, *, unsaid: str = "", beats: bool = True) -> bool:
        if beats:
            self.worker_registry.on_heartbeat(replace(beat("w", 1), unsaid=unsaid), moment)
        self.topic_health.check(moment)
        return self.topic_health.is_full


def test_a_worker_says_so_and_it_counts_for_a_while() -> None:
    rig = Rig()
    assert not rig.look(0.0)
    assert rig.look(1000.0, unsaid="taken nothing")
    assert rig.look(1000.0 + KEPT_MS - 1)
    assert not rig.look(1000.0 + KEPT_MS)
    assert rig.spout.given_up == 0


def test_what_this_master_says_is_not_taken_while_heartbeats_come() -> None:
    rig = Rig()
    rig.spout.waits_since = 0.0
    assert not any(rig.look(moment) for moment in (500.0, 1000.0, PATIENCE_MS - 1))
    assert rig.look(PATIENCE_MS)
    assert (rig.spout.given_up, rig.topic_health.is_silent) == (1, True)
    [trouble] = rig.topic_health.troubles()
    assert trouble.reason == "main.dc1.effects has taken nothing that this master said for 1.5 s"


def test_a_kafka_that_is_away_is_not_full() -> None:
    """Nothing of it comes; and when it is back all that waits is taken, if not at once."""
    rig = Rig()
    rig.look(0.0)
    rig.spout.waits_since = 0.0
    assert not any(rig.look(moment, beats=False) for moment in (1000.0, 5000.0, 9000.0))
    assert not rig.look(9000.0), "the first heartbeat"
    rig.spout.waits_since = None
    assert not rig.look(9500.0)


def test_what_is_refused_for_good_is_told_and_tried_again_ever_more_seldom() -> None:
    rig = Rig()
    rig.spout.refusal = "too large"
    assert rig.look(0.0)
    assert [trouble.reason for trouble in rig.topic_health.troubles()] == ["too large"]
    at, pause = 0.0, AGAIN_MS[0]
    for _ in range(6):
        assert not rig.topic_health.tries_again(at + pause - 1)
        assert rig.topic_health.tries_again(at + pause)
        rig.spout.refusal = "too large"
        at, pause = at + pause, min(2 * pause, AGAIN_MS[1])
        assert rig.look(at)
    assert rig.spout.renewed == 6
    rig.topic_health.heard()
    assert list(rig.topic_health.troubles()) == []
    assert rig.topic_health.tries_again(at + AGAIN_MS[0])


def test_nothing_is_said_again_while_what_waited_may_still_be_taken() -> None:
    """It would come between what is said now, or behind it."""
    rig = Rig()
    rig.spout.waits_since, rig.spout.is_settled = 0.0, False
    assert [rig.look(moment) for moment in (500.0, 1000.0, PATIENCE_MS)] == [False, False, True]
    assert not rig.topic_health.tries_again(PATIENCE_MS + 10 * AGAIN_MS[1])
    rig.spout.is_settled = True
    assert rig.topic_health.tries_again(PATIENCE_MS + 10 * AGAIN_MS[1])
    assert (rig.spout.given_up, rig.spout.renewed) == (1, 1)


# --- what is foreseen -------------------------------------------------------------------------------


def foreseen_rig(*, last: int = 100) -> tuple[PendingEffects, EffectsLedger, Spout]:
    ledger, spout = EffectsLedger(duty=FIRST), Spout()
    for record in effects_topic(fence(1), effect(1), effect(2)):
        ledger.on_record(record)

    class Desk:
        rejected: dict[int, str] = {}  # noqa: RUF012 - of this one

    chains = {index: effect(index).entry_chain for index in range(1, 10)}
    pending_effects = PendingEffects(spout, ledger, Desk(), last=lambda: last, chain_at=chains.get)  # type: ignore[arg-type]
    return pending_effects, ledger, spout


def reach(pending_effects: PendingEffects) -> int | None:
    return pending_effects.index


def say(pending_effects: PendingEffects, *records: Record) -> None:
    for record in records:
        pending_effects.produce(record.topic, key=record.key, values=[record.value], headers=record.headers)


def test_what_is_said_behind_the_topics_end_is_followed_without_it() -> None:
    pending_effects, ledger, _ = foreseen_rig()
    say(pending_effects, *effects_topic(effect(3)))
    assert reach(pending_effects) is None, "as long as the topic takes it"
    pending_effects.begin()
    assert reach(pending_effects) == 2
    say(pending_effects, *effects_topic(effect(3), effect(4)))
    assert (reach(pending_effects), ledger.index) == (4, 2)
    assert ledger.state_after(3) is None, "the topic has not got it"
    pending_effects.tick(is_full=False, applied=4)
    assert reach(pending_effects) == 4, "the topic has not got it yet"
    for record in effects_topic(effect(3), effect(4)):
        ledger.on_record(record)
    pending_effects.tick(is_full=False, applied=3)
    assert reach(pending_effects) == 4, "no worker here shows it yet"
    pending_effects.tick(is_full=True, applied=4)
    assert reach(pending_effects) == 4
    say(pending_effects, *effects_topic(effect(5)))
    pending_effects.tick(is_full=False, applied=4)
    assert reach(pending_effects) == 5
    for record in effects_topic(effect(5)):
        ledger.on_record(record)
    say(pending_effects, *effects_topic(effect(6)))
    pending_effects.tick(is_full=False, applied=5)
    assert reach(pending_effects) is None, "whatever comes all the time"


def test_whoever_asks_meanwhile_is_told_that_something_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door's thread does, in the middle of it: its read would wait for a worker here that never shows it."""
    pending_effects, _, _ = foreseen_rig()
    pending_effects.begin()
    seen = list[tuple[bool, int | None]]()
    monkeypatch.setattr(
        EffectsLedger, "_remember", lambda *_: seen.append((pending_effects.is_begun, pending_effects.index))
    )
    say(pending_effects, *effects_topic(effect(3)))
    assert seen == [(True, None)]


def test_what_is_foreseen_of_another_log_or_beyond_the_own_one_answers_nobody() -> None:
    pending_effects, _, _ = foreseen_rig(last=3)
    pending_effects.begin()
    say(pending_effects, *effects_topic(effect(3), effect(4)))
    assert reach(pending_effects) == 3
    pending_effects._chain_at = lambda _: b"another"
    assert reach(pending_effects) is None


def test_a_rewind_is_followed_as_it_will_be() -> None:
    pending_effects, _, spout = foreseen_rig()
    pending_effects.begin()
    mirror = EffectsMirror(pending_effects, "effects", "m1")
    mirror.publish_rewind(Rewind(epoch=2, index=1, term=GENESIS, attempt=0, cut=2), at=0)
    assert reach(pending_effects) == 1
    assert spout.said == ["effects"]


# --- a worker's voice -------------------------------------------------------------------------------


def voice_rig() -> tuple[PublishHealth, Spout]:
    spout = Spout()
    return PublishHealth(spout, topic="main.dc1.effects", why=lambda: "it is full"), spout


def test_a_worker_gives_up_what_is_not_taken_while_its_heartbeats_are() -> None:
    publish_health, spout = voice_rig()
    spout.waits_since, publish_health._beat_at = 0.0, 400.0
    publish_health.check(VOICE_MS - 1)
    assert (publish_health.reason, publish_health.take_loss()) == ("", False)
    publish_health.check(VOICE_MS)
    assert publish_health.reason.startswith("main.dc1.effects has taken nothing for 1.0 s")
    assert (spout.given_up, publish_health.take_loss(), publish_health.take_loss()) == (1, True, False)
    assert not publish_health.clear(VOICE_MS + HOARSE_MS - 1), "not at once again"
    publish_health.heard(VOICE_MS + 1)
    assert publish_health.reason, "what was on its way may have come"
    assert publish_health.clear(VOICE_MS + HOARSE_MS)
    assert spout.renewed == 1
    publish_health.heard(VOICE_MS + HOARSE_MS)
    assert publish_health.reason == ""


def test_a_worker_whose_heartbeats_are_not_taken_either_waits() -> None:
    publish_health, spout = voice_rig()
    spout.waits_since, publish_health._beat_at = 0.0, 100.0
    publish_health.check(60_000.0)
    assert (publish_health.reason, spout.given_up) == ("", 0)


def test_a_refusal_is_given_up_at_once_and_nothing_is_said_while_something_may_still_come() -> None:
    publish_health, spout = voice_rig()
    spout.refusal = "too large"
    publish_health.check(10.0)
    assert publish_health.reason.startswith("too large")
    spout.is_settled = False
    assert not publish_health.clear(9000.0)
    spout.is_settled = True
    assert publish_health.clear(9000.0)
