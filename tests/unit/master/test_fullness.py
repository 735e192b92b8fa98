"""Does the own effects topic take records?  What workers and the own outlet say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror
from quadlog.core.model import GENESIS
from quadlog.core.records import Rewind
from quadlog.master.effects.foreseen import Foreseen
from quadlog.master.effects.fullness import AGAIN_MS, KEPT_MS, PATIENCE_MS, Fullness
from quadlog.master.workers.crew import Crew
from quadlog.worker.evaluate.voice import HOARSE_MS, Voice
from quadlog.worker.evaluate.voice import PATIENCE_MS as VOICE_MS
from tests.support.agreement.topics import FIRST, effect, effects_topic, fence
from tests.support.masters.outlets import Spout
from tests.support.masters.watched import beat

if TYPE_CHECKING:
    import pytest

    from quadlog.ports import Record


class Rig:
    """A master's, with one worker that beats."""

    def __init__(self) -> None:
        self.crew, self.spout = Crew(timeout_ms=2000.0), Spout()
        self.fullness = Fullness(self.crew, self.spout, "main.dc1.effects")

    def look(self, moment: float, *, unsaid: str = "", beats: bool = True) -> bool:
        if beats:
            self.crew.hear(replace(beat("w", 1), unsaid=unsaid), moment)
        self.fullness.look(moment)
        return self.fullness.is_full


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
    assert (rig.spout.given_up, rig.fullness.is_silent) == (1, True)
    [trouble] = rig.fullness.troubles()
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
    assert [trouble.reason for trouble in rig.fullness.troubles()] == ["too large"]
    at, pause = 0.0, AGAIN_MS[0]
    for _ in range(6):
        assert not rig.fullness.tries_again(at + pause - 1)
        assert rig.fullness.tries_again(at + pause)
        rig.spout.refusal = "too large"
        at, pause = at + pause, min(2 * pause, AGAIN_MS[1])
        assert rig.look(at)
    assert rig.spout.renewed == 6
    rig.fullness.heard()
    assert list(rig.fullness.troubles()) == []
    assert rig.fullness.tries_again(at + AGAIN_MS[0])


def test_nothing_is_said_again_while_what_waited_may_still_be_taken() -> None:
    """It would come between what is said now, or behind it."""
    rig = Rig()
    rig.spout.waits_since, rig.spout.is_settled = 0.0, False
    assert [rig.look(moment) for moment in (500.0, 1000.0, PATIENCE_MS)] == [False, False, True]
    assert not rig.fullness.tries_again(PATIENCE_MS + 10 * AGAIN_MS[1])
    rig.spout.is_settled = True
    assert rig.fullness.tries_again(PATIENCE_MS + 10 * AGAIN_MS[1])
    assert (rig.spout.given_up, rig.spout.renewed) == (1, 1)


# --- what is foreseen -------------------------------------------------------------------------------


def foreseen_rig(*, last: int = 100) -> tuple[Foreseen, EffectsLedger, Spout]:
    ledger, spout = EffectsLedger(duty=FIRST), Spout()
    for record in effects_topic(fence(1), effect(1), effect(2)):
        ledger.hear(record)

    class Desk:
        rejected: dict[int, str] = {}  # noqa: RUF012 - of this one

    chains = {index: effect(index).entry_chain for index in range(1, 10)}
    foreseen = Foreseen(spout, ledger, Desk(), last=lambda: last, chain_at=chains.get)  # type: ignore[arg-type]
    return foreseen, ledger, spout


def reach(foreseen: Foreseen) -> int | None:
    return foreseen.index


def say(foreseen: Foreseen, *records: Record) -> None:
    for record in records:
        foreseen.produce(record.topic, key=record.key, values=[record.value], headers=record.headers)


def test_what_is_said_behind_the_topics_end_is_followed_without_it() -> None:
    foreseen, ledger, _ = foreseen_rig()
    say(foreseen, *effects_topic(effect(3)))
    assert reach(foreseen) is None, "as long as the topic takes it"
    foreseen.begin()
    assert reach(foreseen) == 2
    say(foreseen, *effects_topic(effect(3), effect(4)))
    assert (reach(foreseen), ledger.index) == (4, 2)
    assert ledger.state_after(3) is None, "the topic has not got it"
    foreseen.tend(is_full=False, applied=4)
    assert reach(foreseen) == 4, "the topic has not got it yet"
    for record in effects_topic(effect(3), effect(4)):
        ledger.hear(record)
    foreseen.tend(is_full=False, applied=3)
    assert reach(foreseen) == 4, "no worker here shows it yet"
    foreseen.tend(is_full=True, applied=4)
    assert reach(foreseen) == 4
    say(foreseen, *effects_topic(effect(5)))
    foreseen.tend(is_full=False, applied=4)
    assert reach(foreseen) == 5
    for record in effects_topic(effect(5)):
        ledger.hear(record)
    say(foreseen, *effects_topic(effect(6)))
    foreseen.tend(is_full=False, applied=5)
    assert reach(foreseen) is None, "whatever comes all the time"


def test_whoever_asks_meanwhile_is_told_that_something_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door's thread does, in the middle of it: its read would wait for a worker here that never shows it."""
    foreseen, _, _ = foreseen_rig()
    foreseen.begin()
    seen = list[tuple[bool, int | None]]()
    monkeypatch.setattr(
        EffectsLedger, "_remember", lambda *_: seen.append((foreseen.is_begun, foreseen.index))
    )
    say(foreseen, *effects_topic(effect(3)))
    assert seen == [(True, None)]


def test_what_is_foreseen_of_another_log_or_beyond_the_own_one_answers_nobody() -> None:
    foreseen, _, _ = foreseen_rig(last=3)
    foreseen.begin()
    say(foreseen, *effects_topic(effect(3), effect(4)))
    assert reach(foreseen) == 3
    foreseen._chain_at = lambda _: b"another"
    assert reach(foreseen) is None


def test_a_rewind_is_followed_as_it_will_be() -> None:
    foreseen, _, spout = foreseen_rig()
    foreseen.begin()
    mirror = EffectsMirror(foreseen, "effects", "m1")
    mirror.rewind(Rewind(epoch=2, index=1, term=GENESIS, attempt=0), at=0)
    assert reach(foreseen) == 1
    assert spout.said == ["effects"]


# --- a worker's voice -------------------------------------------------------------------------------


def voice_rig() -> tuple[Voice, Spout]:
    spout = Spout()
    return Voice(spout, topic="main.dc1.effects", why=lambda: "it is full"), spout


def test_a_worker_gives_up_what_is_not_taken_while_its_heartbeats_are() -> None:
    voice, spout = voice_rig()
    spout.waits_since, voice._beat_at = 0.0, 400.0
    voice.look(VOICE_MS - 1)
    assert (voice.reason, voice.is_lost()) == ("", False)
    voice.look(VOICE_MS)
    assert voice.reason.startswith("main.dc1.effects has taken nothing for 1.0 s")
    assert (spout.given_up, voice.is_lost(), voice.is_lost()) == (1, True, False)
    assert not voice.clear(VOICE_MS + HOARSE_MS - 1), "not at once again"
    voice.heard(VOICE_MS + 1)
    assert voice.reason, "what was on its way may have come"
    assert voice.clear(VOICE_MS + HOARSE_MS)
    assert spout.renewed == 1
    voice.heard(VOICE_MS + HOARSE_MS)
    assert voice.reason == ""


def test_a_worker_whose_heartbeats_are_not_taken_either_waits() -> None:
    voice, spout = voice_rig()
    spout.waits_since, voice._beat_at = 0.0, 100.0
    voice.look(60_000.0)
    assert (voice.reason, spout.given_up) == ("", 0)


def test_a_refusal_is_given_up_at_once_and_nothing_is_said_while_something_may_still_come() -> None:
    voice, spout = voice_rig()
    spout.refusal = "too large"
    voice.look(10.0)
    assert voice.reason.startswith("too large")
    spout.is_settled = False
    assert not voice.clear(9000.0)
    spout.is_settled = True
    assert voice.clear(9000.0)
