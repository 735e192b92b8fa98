"""What a strict read must show when its barrier follows synchronous transactions that are not decided."""

from __future__ import annotations

from math import inf

import pytest

from quadlog.core.messages import LocalStatus
from quadlog.core.model import OF_A_BRANCH, EffectsPosition, Transaction
from quadlog.core.synchronous import COMMIT_MODE, RESUMES_INDEX, CommitMode, marked
from tests.support.agreement.scenario import Scenario

TERM = bytes(32)
LIMBO = """
quorum N + 1
timeout 600
masters m1 m2 m3
rounds 2
submit m1 A
sync m1 S
submit m2 W
acquire all
rounds 2
submit m1 BARRIER
acquire all
"""
"""A is entry 1, S is 2 and undecided, W is 3."""
BARRIER = 4


def limbo(text: str = "rounds 3") -> Scenario:
    story = Scenario()
    story.run(LIMBO + text)
    return story


def assert_needed(story: Scenario, expected: list[int], barrier: int = BARRIER) -> None:
    """What reads must show at the first masters."""
    found = [member.core.read_index(barrier) for member in story.members.values()]
    assert found[: len(expected)] == expected, f"reads must show {found}"


def report(story: Scenario, master: str, index: int, *, term: bytes = TERM, full: bool = False) -> None:
    member = story.members[master]
    status = LocalStatus(effects=EffectsPosition(term, index), full=full)
    member.core.step(status, member.now(story.at))


def test_a_read_needs_what_precedes_the_first_undecided_entry() -> None:
    story = limbo()
    assert_needed(story, [1, 1, 1])
    assert_needed(story, [1, 1, 1], barrier=1)


def test_without_an_undecided_entry_a_read_needs_its_barrier() -> None:
    story = Scenario()
    story.run(LIMBO.replace("quorum N + 1\n", "") + "rounds 9")
    assert not story.members["m1"].core.limbo.undecided
    assert_needed(story, [BARRIER] * 3)


@pytest.mark.parametrize("index", [1, 2, 3])
def test_a_read_needs_all_effects_that_a_member_has_once_it_has_appended_the_barrier(index: int) -> None:
    """It may have shown them: by another evaluation, an entry that was found to be synchronous is not."""
    story = limbo()
    report(story, "m3", index)
    story.run("round")
    assert_needed(story, [index, index])


def test_a_read_waits_until_all_members_have_posted_behind_the_barrier() -> None:
    """What was said before does not tell what was acknowledged when the read came."""
    story = limbo("round\npost m3\ncollect m2 m3\nrounds 3 m1<->m2")
    barrier = story.members["m1"].core.last.index
    assert barrier == BARRIER, "m1 learns from m2 that it is agreed"
    assert_needed(story, [BARRIER])
    story.run("collect m1 m3\nround\nround")
    assert_needed(story, [1])


def test_a_read_waits_where_a_topic_is_full() -> None:
    """Clients are answered there by effects that no topic has yet."""
    story = limbo()
    report(story, "m2", 1, full=True)
    story.run("round")
    assert_needed(story, [BARRIER] * 3)


def test_a_data_centre_that_gave_way_has_acknowledged_nothing_of_this_log() -> None:
    story = limbo()
    report(story, "m2", OF_A_BRANCH.index, term=OF_A_BRANCH.term)
    story.run("round")
    assert_needed(story, [1, 1, 1])


def test_an_entry_that_is_found_to_be_synchronous_counts_from_then_on() -> None:
    story = Scenario()
    story.run(LIMBO.replace("sync m1 S", "submit m1 S") + "rounds 3")
    assert_needed(story, [BARRIER] * 3)
    story.run("found m2 S")
    assert_needed(story, [BARRIER, 1, BARRIER])


def test_a_decision_ends_it() -> None:
    story = limbo()
    for member in story.members.values():
        member.core._views.settings = story.settings.__class__(max_peer_lag=inf, synchro_quorum="2")
    story.run("rounds 4")
    assert not story.members["m1"].core.limbo.undecided
    assert_needed(story, [BARRIER] * 3)


def test_after_a_restart_a_read_waits_for_what_was_undecided_before() -> None:
    story = limbo()
    story.run("crash m1\nrounds 3")
    assert_needed(story, [BARRIER, 1, 1])
    story.run("sync m2 T\nacquire all\nrounds 3\nsubmit m1 LATER\nacquire all\nrounds 3")
    first, last = story.members["m1"].core.limbo.undecided, story.members["m1"].core.last.index
    assert [one.point.index for one in first] == [2, 5]
    assert_needed(story, [last, 1, 1], last)


def test_what_another_view_may_have_agreed_on_waits_for_its_decision() -> None:
    """Another view may have set it aside, and shown what follows: a side without a majority does."""
    story = Scenario()
    story.run("lag 20\n" + LIMBO + "rounds 3\nsleep m3\nrounds 40 m1<->m2")
    assert story.members["m1"].core.view.members == ("m1", "m2")
    story.run("submit m1 NEXT\nacquire all\nrounds 4 m1<->m2")
    assert_needed(story, [5, 5], 5)


def test_what_was_submitted_in_the_new_view_waits_for_nothing() -> None:
    story = Scenario()
    story.run(
        "lag 20\nquorum N\ntimeout 600\nmasters m1 m2 m3\nrounds 2\nsleep m3\nrounds 40 m1<->m2\n"
        "submit m2 A\nsync m1 S\nacquire all\nrounds 4 m1<->m2\nsubmit m1 B\nacquire all\nrounds 4 m1<->m2"
    )
    assert story.members["m1"].core.last.index == 3
    assert_needed(story, [1, 1], 3)


def test_an_inherited_entry_counts_as_one_of_the_view_before() -> None:
    """It was posted by all: a master that is gone may have agreed on it, and answered for what follows."""
    story = Scenario()
    story.run("lag 20\nquorum N\ntimeout 600\nmasters m1 m2 m3\nrounds 2\nsync m1 S\nacquire all\nround")
    assert story.members["m1"].core.last.index == 0
    story.run("sleep m3\nrounds 40 m1<->m2\nsubmit m1 B\nacquire all\nrounds 4 m1<->m2")
    m1 = story.members["m1"].core
    assert [one.point.index for one in m1.limbo.undecided] == [1]
    assert m1.view.members == ("m1", "m2")
    assert_needed(story, [2, 2], 2)


def test_a_read_waits_for_what_continues_a_suspended_transaction() -> None:
    """A decision on that may have been acted on before the split: its effect is shown with the continuation."""
    story = limbo()
    options = {COMMIT_MODE: CommitMode.SYNC.value, RESUMES_INDEX: "1"}
    plain = story._transaction("R")
    digest = marked(plain.digest, options)
    story.asked["R"] = Transaction(id=plain.id, digest=digest, options=options)
    story.run("submit m2 R\nsubmit m1 LATER\nacquire all\nrounds 3")
    m1 = story.members["m1"].core
    assert [(one.point.index, one.resumes) for one in m1.limbo.undecided] == [(2, 0), (5, 1)]
    assert_needed(story, [1, 1, 1], BARRIER)
    assert_needed(story, [6, 6, 6], 6)
