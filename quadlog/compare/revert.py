"""`quadlog tx revert`: the inverse of a transaction as a new one, and what has changed since.

The effect of a transaction lists all that it did, so its inverse is a patch: it deletes the inserted quads and inserts
the deleted ones, with blank nodes named by their labels.  The patch is always the same and has an idempotency key of
its own, so it runs once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from quadlog.codec.envelope import text_id
from quadlog.compare.dumps import status_of
from quadlog.compare.history import effects_from
from quadlog.core.effects.patch import MEDIA_TYPE, exact
from quadlog.errors import StateError, UserError
from quadlog.topics import Topics
from quadlog.web.master_client import request_master

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import httpx

    from quadlog.core.records import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertOptions:
    """Options of a revert."""

    name: str
    """Id of the transaction, or its Idempotency-Key."""
    master: str
    kafka: str | None
    """Bootstrap servers; None: those that the master reports."""
    dry_run: bool
    shown: int
    """Number of lines of each kind to report; all are counted."""


def revert(question: RevertOptions, say: Callable[[str], None]) -> None:
    """Report on a transaction, and submit its inverse unless it is a dry run or there is nothing to revert.

    Raises:
        UserError: the transaction does not exist, or is not applied yet.
        Unavailable: the master or its Kafka does not answer.
        StateError: the effects topic does not have the effect that the master names.

    """
    known = _asked(question, "GET", f"/tx/{quote(question.name, safe='')}").json()
    match known["state"]:
        case "applied":
            pass
        case "rejected":
            say(f"{known['id']} was rejected, nothing to revert: {known.get('reason')}")
            return
        case "pending":
            raise UserError(f"{known['id']} is not applied yet: wait, and try again")
        case _:
            raise UserError(f"{question.master} knows no transaction {question.name}: is it an id, or a key?")
    effect, since = _effects(question, known)
    _report(effect, since, question.shown, say)
    if not effect.inserted and not effect.deleted:
        say("it changed no quads: nothing to revert")
    elif question.dry_run:
        say("nothing was submitted")
    else:
        say(_submitted(question, effect))


@dataclass(slots=True, kw_only=True)
class LaterChanges:
    """Changes of the quads of a transaction by later entries."""

    index: int
    """Index of the last effect that was read."""
    there: dict[str, bool]
    """For each quad that the transaction changed: True if the quad exists."""
    touched: dict[int, tuple[bytes, int]] = field(default_factory=dict[int, tuple[bytes, int]])
    """For each later entry that changed any of these quads: its id, and how many it changed."""

    @classmethod
    def of(cls, effect: Effect) -> LaterChanges:
        """Return the state directly after an effect."""
        there = dict.fromkeys(effect.deleted, False) | dict.fromkeys(effect.inserted, True)
        return cls(index=effect.index, there=there)

    def on_effect(self, later: Effect) -> None:
        """Process the next effect."""
        self.index, count = later.index, 0
        for lines, there in ((later.deleted, False), (later.inserted, True)):
            for line in lines:
                if line in self.there:
                    self.there[line] = there
                    count += 1
        if count:
            self.touched[later.index] = (later.id, count)


def _effects(question: RevertOptions, known: dict[str, Any]) -> tuple[Effect, LaterChanges]:
    """Return the effect of the transaction, and later changes of its quads."""
    status = status_of(question.master)
    topic = Topics(status["repository"], status["dc"]).effects
    found = effects_from(question.kafka or status["kafka"], topic, known["index"])
    effect = next(found, None)
    if effect is None or effect.index != known["index"] or effect.entry_chain.hex() != known["chain"]:
        raise StateError(
            f"{topic} does not hold the effect of entry {known['index']} ({known['id']}): were its records deleted,"
            " or is --kafka another data centre's?"
        )
    since = LaterChanges.of(effect)
    for later in found:
        since.on_effect(later)
    return effect, since


def _report(effect: Effect, since: LaterChanges, shown: int, say: Callable[[str], None]) -> None:
    """Report what the transaction did, what has changed since, and what its inverse leaves unchanged."""
    say(
        f"entry {effect.index} ({text_id(effect.id)}): {len(effect.inserted)} quads inserted,"
        f" {len(effect.deleted)} deleted"
    )
    gone = [line for line in effect.inserted if not since.there[line]]
    back = [line for line in effect.deleted if since.there[line]]
    later = since.index - effect.index
    say(f"of {later} entries since, up to index {since.index}, {len(since.touched)} changed the same quads")
    _list([f"{i} ({text_id(tx)}): {n} of them" for i, (tx, n) in since.touched.items()], "entry", shown, say)
    if gone or back:
        say(
            f"CHANGED SINCE: {len(gone)} that it inserted are gone, {len(back)} that it deleted are there again"
        )
        _list(gone, "gone already:", shown, say)
        _list(back, "there again:", shown, say)
    for graph in left_as_they_are(effect):
        say(f"not reverted: {graph}")


def left_as_they_are(effect: Effect) -> Iterator[str]:
    """Yield what a patch cannot revert: it names quads, and graphs only as part of quads."""
    deleted = {graph for graph in (*effect.emptied, *effect.dropped) if _any_in(graph, effect.deleted)}
    filled = {graph for graph in effect.filled if _any_in(graph, effect.inserted)}
    for graph in effect.emptied:
        if graph not in deleted:
            yield f"{graph}, an empty graph that it made, stays"
    for graph in effect.filled:
        if graph not in filled:
            yield f"{graph}, an empty graph that it dropped, does not come back"
    if effect.inserted:
        yield "graphs that it made by its quads stay, empty"


def _any_in(graph: str, lines: Iterable[str]) -> bool:
    end = f" {graph} ."
    return any(line.endswith(end) for line in lines)


def _list(lines: list[str], head: str, shown: int, say: Callable[[str], None]) -> None:
    for line in islice(lines, shown):
        say(f"  {head} {line}")
    if len(lines) > shown:
        say(f"  and {len(lines) - shown} more")


def inverse_of(effect: Effect) -> bytes:
    """Return the patch that reverts an effect, whatever was done since; blank nodes are those of the stores.

    Deletions are first.  No quad is in both lists, so the order has no significance.
    """
    lines = (
        f"{code} {exact(line)}\n"
        for code, of in (("D", effect.inserted), ("A", effect.deleted))
        for line in of
    )
    return "".join(lines).encode()


def _submitted(question: RevertOptions, effect: Effect) -> str:
    key = f"revert/{text_id(effect.id)}"
    headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": key}
    answer = _asked(question, "POST", "/update", content=inverse_of(effect), headers=headers)
    index = answer.headers["Quadlog-Index"].partition(":")[0]
    return f"reverted by {answer.headers['Quadlog-Tx']} at index {index} (Idempotency-Key {key})"


def _asked(question: RevertOptions, method: str, path: str, **rest: Any) -> httpx.Response:  # noqa: ANN401  httpx's own
    """Send a request to the master, and return its successful answer; raises as `request_master` does."""
    again = "The revert may have been taken: run it again, it runs once." * (method == "POST")
    return request_master(question.master, method, path, unsure=again, **rest)
