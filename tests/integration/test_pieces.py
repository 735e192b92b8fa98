"""A change that is too large for one update is made in several: never read, copied or left half done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quadlog.commit import PIECE, WHOLE
from quadlog.core.patch import MEDIA_TYPE
from quadlog.errors import Unavailable
from quadlog.quadstore import QuadStore
from quadlog.worker.ahead import LARGE
from tests.integration.rehearsal import TOPICS, Log, Worker
from tests.integration.test_forms import state_of

if TYPE_CHECKING:
    from pathlib import Path

GRAPHS = (
    "CREATE GRAPH <urn:empty> ; CREATE GRAPH <urn:fills> ; INSERT DATA { GRAPH <urn:gone> { <urn:a> a 1 } }"
)
ROWS = [
    "DP * * * <urn:gone> .",
    "A _:x <urn:p> _:y <urn:fills> .",
    *(f'A <urn:s> <urn:p> "{n}" <urn:fills> .' for n in range(5)),
    "A <urn:s> <urn:p> <urn:fills> .",
    "D <urn:s> <urn:p> <urn:was> .",
]
AND_DROPS = "DROP GRAPH <urn:gone> ; DROP GRAPH <urn:empty> ; INSERT DATA { GRAPH <urn:fills> { _:b a 1, 2, 3 , _:c } }"


class Dies(Exception):
    """Stands for kill -9."""


class Dying:
    """pyoxigraph's store, whose process dies before one of the updates to come."""

    def __init__(self, inner: Any, after: int) -> None:  # noqa: ANN401  as much of a store as is asked for
        self.inner, self.left = inner, after

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401, D105
        return getattr(self.inner, name)

    def __contains__(self, quad: object) -> bool:  # noqa: D105
        return quad in self.inner

    def update(self, *args: Any, **options: Any) -> None:  # noqa: ANN401
        if not self.left:
            raise Dies
        self.left -= 1
        self.inner.update(*args, **options)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadlog.quadstore.WHOLE", 2)
    monkeypatch.setattr("quadlog.commit.PIECE", 2)


def begun(path: Path, *updates: tuple[str, str]) -> tuple[Log, Worker]:
    """A log whose last effect no store but the evaluator's has, and a follower that has all before."""
    log = Log()
    evaluating, following = Worker(path, log, "w1"), Worker(path, log, "w2")
    evaluating.take_over()
    for text, media_type in updates:
        following.catch_up()
        log.agree(text, media_type=media_type)
        evaluating.catch_up()
    evaluating.close()
    return log, following


SPARQL = "application/sparql-update"
START = f"INSERT DATA {{ <urn:s> <urn:p> <urn:was> }} ; {GRAPHS}"


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "update", [("\n".join(ROWS), MEDIA_TYPE), (AND_DROPS, SPARQL)], ids=["patch", "drops"]
)
def test_what_a_death_leaves_is_made_again_and_never_read(tmp_path: Path, update: tuple[str, str]) -> None:
    log, whole = begun(tmp_path, (START, SPARQL), update)
    whole.catch_up()
    wanted, after = state_of(whole), 0
    whole.close()
    while True:
        follower = Worker(tmp_path, log, f"f{after}")
        follower.hear(TOPICS.agreed, 1)
        follower.hear(TOPICS.effects, 2)  # a fence before
        follower.turn()
        assert follower.store.applied.index == 1
        before = state_of(follower)
        follower.store._store = Dying(follower.store._store, after)  # type: ignore[assignment]
        try:
            follower.catch_up()
        except Dies:
            follower.store._store = follower.store._store.inner  # type: ignore[attr-defined]
            follower.close()
        else:
            break
        store = QuadStore.open(tmp_path / f"f{after}")
        assert store.applied.index == 1
        store.gate.patience_s = 0.01
        # Only the quad that says so stands there before the first piece: even that is not read.
        with pytest.raises(Unavailable):
            store.query("ASK { }")
        with pytest.raises(Unavailable):
            store.copy(tmp_path / "copy")
        with pytest.raises(OSError, match="entry 2 is applied to the half"):
            store.copy_to(tmp_path / "copy")
        store.close()
        again = Worker(tmp_path, log, f"f{after}")
        again.catch_up()
        assert state_of(again) == wanted != before
        assert again.store.recount() == (again.store.applied.signature, again.store.applied.quads)
        again.store.copy(tmp_path / f"copy{after}")
        again.close()
        after += 1
    assert state_of(follower) == wanted
    assert after >= 3
    follower.close()


def test_a_large_one_is_made_in_pieces_and_not_kept(tmp_path: Path) -> None:
    """Read back it is gone from memory; what comes behind it is evaluated upon it."""
    log = Log()
    evaluating, following = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    evaluating.take_over()
    rows = "\n".join(f"A <urn:{n}> <urn:p> <urn:large> ." for n in range(WHOLE + 1))
    log.agree(rows, media_type=MEDIA_TYPE)
    log.agree("DP * * <urn:large> * .\nA <urn:s> <urn:p> _:x .", media_type=MEDIA_TYPE)
    evaluating.hear(TOPICS.agreed)
    evaluating.turn()
    evaluator = evaluating.replica.tenure.evaluator
    assert evaluator is not None
    assert evaluator.index == 1
    assert evaluator._ahead.weight == WHOLE + 1 > LARGE
    assert not evaluator._ahead.in_memory
    evaluating.catch_up()
    following.catch_up()
    assert len(log.effects()[1].deleted) == WHOLE + 1
    assert state_of(evaluating) == state_of(following)
    assert len(state_of(following)[0]) == 1
    assert PIECE < WHOLE
    for worker in (evaluating, following):
        assert worker.store.recount()[0] == worker.store.applied.signature
        worker.close()
