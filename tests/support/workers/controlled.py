"""Controls, updates that hold or break them, and what becomes of those at a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.records import Outcome
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from tests.support.workers.rehearsal import Worker

NAMED = "ASK { FILTER NOT EXISTS { ?s a <urn:Person> FILTER NOT EXISTS { ?s <urn:name> ?n } } }"
SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
<urn:PersonShape> a sh:NodeShape ; sh:targetClass <urn:Person> ;
  sh:property [ sh:path <urn:name> ; sh:minCount 1 ; sh:message "a person has a name" ] ;
  sh:property [ sh:path <urn:knows> ; sh:class <urn:Person> ] .
"""
EVE, NAME_OF_EVE = "INSERT DATA { <urn:eve> a <urn:Person> }", "INSERT DATA { <urn:eve> <urn:name> 'Eve' }"
BOTH = "INSERT DATA { <urn:eve> a <urn:Person> ; <urn:name> 'Eve' }"


def outcome(worker: Worker) -> str | None:
    """Why the newest entry was rejected, once it is decided and applied; None: it was not."""
    worker.catch_up()
    effect = worker.log.effects()[-1]
    assert worker.store.applied.index == effect.index
    assert worker.store.recount() == (worker.store.applied.signature, worker.store.applied.quads)
    assert (effect.outcome is Outcome.REJECTED) == (effect.reason is not None)
    return effect.reason


def after_update(worker: Worker, text: str) -> str | None:
    worker.log.agree(text)
    return outcome(worker)


def after_control(worker: Worker, name: str, text: str | None) -> str | None:
    worker.log.control(name, text)
    return outcome(worker)


def breaks(worker: Worker, text: str) -> str:
    """Why an update is rejected, of which nothing is left."""
    before, quads = worker.store.applied, state_of(worker)
    reason = after_update(worker, text)
    assert reason is not None
    after = worker.store.applied
    assert (after.signature, after.quads, state_of(worker)) == (before.signature, before.quads, quads)
    assert not worker.store.is_ahead
    assert worker.store.gate.is_open
    return reason
