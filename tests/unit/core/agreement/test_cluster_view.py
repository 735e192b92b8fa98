"""What other threads see of the agreement."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from quadlog.core.messages import LocalStatus
from quadlog.core.model import OF_A_BRANCH, EffectsPosition
from tests.support.agreement.scenario import SPLIT, Scenario


def test_a_joiner_passes_its_phases_in_order() -> None:
    story = Scenario()
    story.run(SPLIT.replace("follow m3 m1\n", ""))
    m3 = story.members["m3"]
    m3.core.step(LocalStatus(effects=EffectsPosition(bytes(32), 2)), m3.now(story.at))
    phases = list[str]()

    def note() -> None:
        phase = m3.core.cluster().join_phase.value
        if [phase] != phases[-1:]:
            phases.append(phase)

    note()
    for command in ("follow m3 m1", "post m3", "collect m1 m3", "collect m2 m3", "round", "round"):
        story.run(command)
        note()
    m3.core.step(LocalStatus(effects=OF_A_BRANCH), m3.now(story.at))
    note()
    m3.core.step(LocalStatus(effects=EffectsPosition(bytes(32), 1)), m3.now(story.at))
    note()
    assert phases == ["joining", "beside-begun", "vote-saved", "installed", "none"]
    assert m3.core.cluster().view.members == ("m1", "m2", "m3")


def test_nobody_changes_a_view_that_was_published() -> None:
    story = Scenario()
    story.run("masters m1 m2\nround\nround")
    before = story.members["m1"].core.cluster()
    heard, masters = dict(before.heard_at), dict(before.masters)
    story.run("submit m1 A\nacquire all\nround\nround")
    assert (before.heard_at, before.masters, before.last.index) == (heard, masters, 0)
    assert story.members["m1"].core.cluster().last.index == 1
    with pytest.raises(FrozenInstanceError):
        before.incoming = 1  # type: ignore[misc]
