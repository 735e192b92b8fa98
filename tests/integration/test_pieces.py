"""A change that is too large for one update is made in several: never read, copied or left half done."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from quadlog.core.effects.lines import change_of, lines_of
from quadlog.core.effects.patch import MEDIA_TYPE
from quadlog.errors import Unavailable
from quadlog.quadstore.commit import PIECE, WHOLE
from quadlog.quadstore.quadstore import Applied, QuadStore
from quadlog.worker.evaluate.speculative import LARGE
from tests.support.workers.pieces import Dies, Dying, dying, seed
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.updates import state_of

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


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadlog.quadstore.commit.WHOLE", 2)
    monkeypatch.setattr("quadlog.quadstore.commit.PIECE", 2)


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
        if not dying(follower, after):
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
    evaluator = evaluating.replica.evaluator_term.evaluator
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


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("taken_back", [False, True])
def test_what_is_anticipated_in_pieces_is_taken_back_from_anywhere(tmp_path: Path, taken_back: bool) -> None:  # noqa: FBT001
    """Whenever the worker dies: while the changes are made, or while they are undone."""
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    log.agree(START)
    log.agree(AND_DROPS)
    log.agree("DELETE WHERE { GRAPH <urn:fills> { ?s a 2 } } ; INSERT DATA { <urn:a> a 1, 2, 3, 4, 5 }")
    worker.catch_up()
    worker.close()
    first, *changes = map(change_of, log.effects())
    after = 0
    while True:
        path = tmp_path / f"f{after}"
        store = QuadStore.open(path)
        store.apply([lines_of(first)], Applied.after(log.effects()[0]))
        before = set(store.lines()), set(store.graphs())
        assert store.gate.close()
        if taken_back:
            store.anticipate(changes, [lines_of(change) for change in changes])
        mortal = Dying(store._store, after)
        store._store = mortal  # type: ignore[assignment]
        with suppress(Dies):
            if taken_back:
                store.take_back()
            else:
                store.anticipate(changes, [lines_of(change) for change in changes])
        store._store, mortal.inner = mortal.inner, None
        store.close()
        store = QuadStore.open(path)
        assert (set(store.lines()), set(store.graphs())) == before
        assert store.recount()[0] == store.applied.signature
        store.close()
        if mortal.left:  # it came to its end
            break
        after += 1
    assert after > 5


@pytest.mark.usefixtures("small_pieces")
def test_a_large_one_behind_one_that_does_nothing(tmp_path: Path) -> None:
    """They come in one batch: that is made in pieces too."""
    log, follower = begun(tmp_path, ("CREATE GRAPH <urn:g>", SPARQL), (START, SPARQL))
    log.agree("CREATE GRAPH <urn:g>")
    log.agree("\n".join(ROWS), media_type=MEDIA_TYPE)
    evaluating = Worker(tmp_path, log, "w1")
    evaluating.take_over()
    follower.catch_up()
    assert (
        follower.store.recount()[0] == follower.store.applied.signature == evaluating.store.applied.signature
    )
    follower.close()
    evaluating.close()


# --- graphs named by blank nodes: only seeds bring them ----------------------------------------------------


@pytest.mark.parametrize(
    "drop",
    [
        "DROP ALL",
        "DROP NAMED",
        "DROP NAMED ; INSERT { GRAPH <urn:g> { ?s ?p <urn:new> } } WHERE { ?s ?p ?o } ; DELETE WHERE { ?s ?p ?s }",
    ],
)
def test_graphs_that_no_text_can_name_are_dropped(tmp_path: Path, drop: str) -> None:
    """Also if the worker dies, and hears the log in other batches."""
    seed(tmp_path / "w1")
    log = Log()
    evaluating = Worker(tmp_path, log, "w1")
    evaluating.take_over()
    log.agree("INSERT { GRAPH <urn:h> { ?s ?p ?o } } WHERE { ?s ?p ?o }")
    log.agree(drop)
    log.agree("INSERT DATA { <urn:s> <urn:p> <urn:later> }")
    evaluating.catch_up()
    assert [effect.reason for effect in log.effects()] == [None, None, None]
    wanted, after = state_of(evaluating), 0
    assert not any("_:" in text for part in wanted for text in part)
    assert evaluating.store.recount() == (evaluating.store.applied.signature, evaluating.store.applied.quads)
    evaluating.close()
    while True:
        seed(tmp_path / f"f{after}")
        follower = Worker(tmp_path, log, f"f{after}")
        if not dying(follower, after):
            break
        follower = Worker(tmp_path, log, f"f{after}")
        for records in range(2, 5):
            follower.hear(TOPICS.agreed, 1)
            follower.hear(TOPICS.effects, 1 + (records == 2))  # a fence before
            follower.turn()
            assert follower.store.applied.index == records - 1
            if not follower.store._begun:
                assert follower.store.recount()[0] == follower.store.applied.signature
        assert state_of(follower) == wanted
        follower.close()
        after += 1
    assert state_of(follower) == wanted
    follower.close()
    assert after >= 3
