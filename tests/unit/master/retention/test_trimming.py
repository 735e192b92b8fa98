"""What a log may be shortened by, and the checkpoint that is published before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quadlog.core.limits import Needs
from quadlog.core.model import EffectsPosition, LogPosition
from quadlog.core.records import Checkpoint, EffectsPlace, Reached
from quadlog.master.retention.trimming import Stock, checkpoint_in, stock_of
from quadlog.topics import Topics


def scene() -> dict[str, Any]:
    """Two masters in one view, both with its handover, and a worker."""
    posts = {
        name: SimpleNamespace(
            said=SimpleNamespace(
                node=name, effects=EffectsPosition(b"term", index), base=LogPosition(900, b"")
            )
        )
        for name, index in (("m1", 950), ("m2", 920))
    }
    return {
        "agreement": SimpleNamespace(
            view=SimpleNamespace(members=("m1", "m2"), epoch=3),
            standing=SimpleNamespace(ballot=None),
            members=posts,
            peers=(SimpleNamespace(node="m1"), SimpleNamespace(node="m2")),
            last=LogPosition(1000, b""),
            settled=900,
        ),
        "effects_follower": SimpleNamespace(fork=None, held=EffectsPosition(b"term", 950)),
        "worker_registry": SimpleNamespace(
            all=lambda: [
                SimpleNamespace(beat=SimpleNamespace(worker="w", applied=LogPosition(940, b""), fork=None))
            ],
            goes_back=lambda _: False,
        ),
    }


@pytest.mark.parametrize(("held", "settled"), [(1000, 900), (900, 900), (890, 890)])
def test_what_there_is(held: int, settled: int) -> None:
    """An entry that its topic is not known to hold is not settled here: nobody else could say it there again."""
    found = stock_of(**scene(), held=held)
    assert found == Stock(
        last=1000,
        needs=Needs({"w": 940}, {"m1": 950, "m2": 920, "what may be cut": 900}),
        settled=settled,
    )


def test_a_worker_that_keeps_a_branch_needs_none_of_the_log() -> None:
    parts = scene()
    beat = parts["worker_registry"].all()[0].beat
    beat.fork = 900
    parts["worker_registry"].all = lambda: [SimpleNamespace(beat=beat)]
    found = stock_of(**parts, held=1000)
    assert found is not None
    assert found.needs == Needs({}, {"m1": 950, "m2": 920, "what may be cut": 900})


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("agreement", "standing", SimpleNamespace(ballot=SimpleNamespace(epoch=4))),
        ("agreement", "peers", (SimpleNamespace(node="m1"), SimpleNamespace(node="m3"))),
        ("agreement", "members", {"m1": scene()["agreement"].members["m1"]}),
        ("agreement", "members", scene()["agreement"].members | {"m2": SimpleNamespace(said=None)}),
        ("effects_follower", "fork", 0),
        ("effects_follower", "held", EffectsPosition(b"of another view", 950)),
        ("worker_registry", "goes_back", lambda _: True),
    ],
)
def test_nothing_goes_while_somebody_may_need_it(part: str, name: str, value: Any) -> None:  # noqa: ANN401
    parts = scene()
    setattr(parts[part], name, value)
    assert stock_of(**parts, held=1000) is None


def saved(**changes: object) -> SimpleNamespace:
    """A store, as far as a checkpoint is made of it."""
    parts: dict[str, object] = {
        "beside": SimpleNamespace(is_moving=False),
        "last": LogPosition(1000, b"1"),
        "reached": lambda: Reached(1003, LogPosition(990, b"2"), 1, 990),
        "position": lambda topic: {"main.dc1.effects": 955}[topic],
        "topic_id": {"main.dc1.agreed": "A", "main.dc1.effects": "E"}.get,
        "effects": lambda: (950, 3, 2),
        "duty": lambda: None,
        "seed": lambda: None,
    }
    return SimpleNamespace(**parts | changes)


def test_a_checkpoint_is_what_is_saved() -> None:
    found = checkpoint_in(saved(), Topics("main", "dc1"))  # type: ignore[arg-type]
    assert found == Checkpoint(
        last=LogPosition(1000, b"1"),
        reached=Reached(1003, LogPosition(990, b"2"), 1, 990),
        effects=EffectsPlace(955, 950, 3, 2),
        duty=None,
        seed=None,
        agreed_id="A",
        effects_id="E",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beside", SimpleNamespace(is_moving=True)),
        ("reached", lambda: None),
        ("position", lambda _: None),
        ("topic_id", {"main.dc1.agreed": "A"}.get),
        ("topic_id", {"main.dc1.effects": "E"}.get),
    ],
)
def test_there_is_none_where_not_all_is_known(name: str, value: object) -> None:
    assert checkpoint_in(saved(**{name: value}), Topics("main", "dc1")) is None  # type: ignore[arg-type]
