"""What the first post in a view says of effects: by it the others choose where the next view has its home."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.core.messages import LocalStatus, Now
from quadlog.core.model import GENESIS, OF_A_BRANCH, EffectsPosition
from tests.support.agreement.scenario import SPLIT, Scenario

if TYPE_CHECKING:
    from quadlog.core.messages import Input


@pytest.mark.parametrize(
    ("index", "said"),
    [(3, OF_A_BRANCH), (2, OF_A_BRANCH), (1, EffectsPosition(GENESIS, 1)), (0, EffectsPosition(GENESIS, 0))],
)
def test_who_gives_way_says_at_once_whether_its_effects_are_of_a_branch(
    index: int, said: EffectsPosition
) -> None:
    """One that did not was chosen as the home, and went back by itself instead of copying (seen on a lab)."""
    story = Scenario()
    story.run(SPLIT)
    m3 = story.members["m3"]
    m3.core.step(LocalStatus(effects=EffectsPosition(GENESIS, index)), m3.now(story.at))
    story.run("rounds 4")
    assert m3.core.view.members == ("m1", "m2", "m3")
    before = [post.effects for post in m3.posts if post.view.members == ("m3",)]
    assert before[-1] == EffectsPosition(GENESIS, index)
    first = next(post for post in m3.posts if post.view == m3.core.view)
    assert first.effects == said


def test_a_report_before_the_log_was_replaced_changes_nothing() -> None:
    """The node reports what it follows in every turn, also between the installation and the save."""
    story = Scenario()
    story.run(SPLIT)
    m3 = story.members["m3"]
    step, held = m3.core.step, EffectsPosition(GENESIS, 3)

    def with_report(given: Input, now: Now) -> None:
        step(given, now)
        step(LocalStatus(effects=held), now)

    m3.core.step = with_report  # type: ignore[method-assign]
    story.run("rounds 4")
    first = next(post for post in m3.posts if post.view == m3.core.view)
    assert first.effects == OF_A_BRANCH
