"""A master that its peers do not count any more begins anew at its next start, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.core.membership.incarnations import just_after
from quadlog.errors import TopicLost
from quadlog.master.recovery import startup_checks
from quadlog.master.recovery.superseded import MARK, Superseded, marked
from quadlog.settings import MasterSettings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MasterSettings:
    """Of a master whose topics tell of nothing that its disk does not know."""
    monkeypatch.setattr(startup_checks, "last_said", lambda *_: None)
    monkeypatch.setattr(startup_checks, "lost_topics", lambda *_: [])
    monkeypatch.setattr(startup_checks, "_before", lambda *_: None)
    monkeypatch.setattr(startup_checks, "refuse_taken_topics", lambda *_: None)
    return MasterSettings(
        node_id="m1", dc="dc1", data_dir=tmp_path, port=1, kafka="none", master_url="http://m1"
    )


def test_it_begins_as_one_that_lost_its_disk(settings: MasterSettings) -> None:
    store = startup_checks.open_store(settings)
    first = store.incarnation
    store.close()
    asked, failures = list[object](), list[str]()
    superseded = Superseded(
        "m1", first, {}, data_dir=settings.data_dir, soon=asked.append, failed=failures.append
    )
    superseded.tick(0.0, is_outside=False)
    assert asked == []
    superseded.tick(1.0, is_outside=True)
    superseded.tick(2.0, is_outside=True)
    assert len(asked) == 1
    superseded._end("m2", just_after(first))
    assert "m2 does not count what m1 said" in failures[0]
    again = startup_checks.open_store(settings)
    assert again.durable().blank
    assert again.incarnation > just_after(first)
    second = again.incarnation
    again.close()
    assert marked(settings.data_dir) is None
    last = startup_checks.open_store(settings)
    assert last.incarnation == second, "the mark is used once"
    last.close()


def test_topics_that_went_back_are_rebuilt_first(
    settings: MasterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer may tell of it sooner than the own tails see it: what is to be done is the same."""
    store = startup_checks.open_store(settings)
    store.close()
    later = just_after(store.incarnation)
    (settings.data_dir / MARK).write_text(later.hex())
    monkeypatch.setattr(startup_checks, "lost_topics", lambda *_: ["rounds went back"])
    with pytest.raises(TopicLost, match="rounds went back"):
        startup_checks.open_store(settings)
    assert marked(settings.data_dir) == later
    monkeypatch.setattr(
        startup_checks, "last_said", lambda *_: startup_checks.PostOrder(just_after(later), 1)
    )  # as a rebuild leaves it
    monkeypatch.setattr(
        startup_checks, "lost_topics", lambda *_: ["rounds is another topic than the one that was read"]
    )
    again = startup_checks.open_store(settings)
    assert again.durable().blank
    again.close()


def test_a_mark_of_an_earlier_incarnation_means_nothing(settings: MasterSettings) -> None:
    """It was left by a process that this one came after."""
    (settings.data_dir / MARK).write_text("01" * 16)
    store = startup_checks.open_store(settings)
    store.close()
    (settings.data_dir / MARK).write_text("01" * 16)
    again = startup_checks.open_store(settings)
    assert again.incarnation == store.incarnation
    assert marked(settings.data_dir) is None
    again.close()
