"""Controls: set and deleted by agreed entries, evaluated on the state that an update would leave."""

from __future__ import annotations

import subprocess
import sys
from threading import Event

import pytest

from quadlog.core.approval import Approval
from quadlog.core.effects.control import ControlKind
from quadlog.core.model import LogPosition, TransactionKind
from quadlog.core.records import Outcome
from quadlog.errors import Forbidden, Unsupported
from quadlog.quadstore.quadview import QuadView
from quadlog.worker.evaluate.controls import LONG_REPORT
from quadlog.worker.evaluate.dry_runs import DryRuns
from tests.support.workers.controlled import (
    BOTH,
    EVE,
    NAME_OF_EVE,
    NAMED,
    SHAPES,
    after_control,
    after_update,
    breaks,
    outcome,
)
from tests.support.workers.rehearsal import TOPICS, Log, Worker

SPARQL = "application/sparql-update"


@pytest.mark.parametrize(("text", "kind"), [(NAMED, ControlKind.ASK), (SHAPES, ControlKind.SHACL)])
def test_set_held_broken_deleted(worker: Worker, text: str, kind: ControlKind) -> None:
    assert after_control(worker, "names", text) is None
    assert [(c.name, c.kind, c.text, c.index) for c in worker.store.controls.values()] == [
        ("names", kind, text, 1)
    ]
    assert after_update(worker, BOTH) is None
    reason = breaks(worker, "DELETE DATA { <urn:eve> <urn:name> 'Eve' }")
    assert reason.startswith("control names: ")
    assert (NAMED if kind is ControlKind.ASK else "a person has a name") in reason
    assert after_control(worker, "names", None) is None
    assert not worker.store.controls
    assert after_update(worker, "DELETE DATA { <urn:eve> <urn:name> 'Eve' }") is None


def test_only_the_end_of_a_sequence_counts(worker: Worker) -> None:
    assert after_control(worker, "names", NAMED) is None
    assert (
        after_update(worker, f"{EVE} ; INSERT {{ ?s <urn:name> 'x' }} WHERE {{ ?s a <urn:Person> }}") is None
    )
    named = "INSERT DATA { <urn:bob> a <urn:Person> ; <urn:name> 'Bob' } ;"
    assert breaks(worker, f"{named} DELETE {{ ?s <urn:name> ?n }} WHERE {{ ?s <urn:name> ?n }} ; {EVE}")
    assert after_update(worker, f"{EVE} ; CLEAR DEFAULT ; {BOTH}") is None
    assert breaks(worker, f"{named} CLEAR GRAPH <urn:none>").startswith("CLEAR: "), "no control is to blame"


def test_it_sees_what_is_decided_and_not_heard_back(worker: Worker, log: Log) -> None:
    """Also where that lies in memory only."""
    log.control("names", NAMED)
    for text in (BOTH, EVE, "DELETE DATA { <urn:eve> <urn:name> 'Eve' }", "INSERT DATA { <urn:a> a 1 }"):
        log.agree(text)
    log.control("names", None)
    log.agree("DELETE DATA { <urn:eve> <urn:name> 'Eve' }")
    log.control("names", NAMED)
    log.agree("INSERT DATA { <urn:a> a 2 }")
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert worker.store.is_ahead
    outcome(worker)
    rejected = [effect.index for effect in log.effects() if effect.outcome is Outcome.REJECTED]
    assert rejected == [4, 8]
    assert (log.effects()[7].reason or "").startswith("control names: it is not true")


@pytest.mark.parametrize("text", [NAMED, SHAPES])
def test_what_does_not_hold_already_is_not_set(worker: Worker, text: str) -> None:
    assert after_update(worker, EVE) is None
    assert (after_control(worker, "names", text) or "").startswith("control names: ")
    assert not worker.store.controls
    assert after_update(worker, NAME_OF_EVE) is None
    assert after_control(worker, "names", text) is None
    assert after_control(worker, "names", "ASK { <urn:nobody> ?p ?o }") is not None
    assert worker.store.controls["names"].text == text, "the one before holds on"
    assert after_control(worker, "names", "ASK {}") is None
    assert worker.store.controls["names"].text == "ASK {}"


def test_all_have_to_hold_and_the_first_by_name_is_told(worker: Worker) -> None:
    for number in (3, 1, 2):
        assert (
            after_control(worker, f"c{number}", f"ASK {{ FILTER NOT EXISTS {{ ?s <urn:no> {number} }} }}")
            is None
        )
    assert list(worker.store.controls) == ["c1", "c2", "c3"]
    assert breaks(worker, "INSERT DATA { <urn:a> <urn:no> 3, 2 }").startswith("control c2: ")
    assert breaks(worker, "INSERT DATA { <urn:a> <urn:no> 3 }").startswith("control c3: ")


def test_it_sees_named_graphs_and_not_the_reserved_one(worker: Worker) -> None:
    assert after_update(worker, "INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:n> 1 } }") is None
    one = "ASK { { SELECT (COUNT(DISTINCT ?g) AS ?n) { GRAPH ?g { ?s ?p ?o } } } FILTER(?n <= 1) }"
    assert after_control(worker, "one-graph", one) is None
    assert (
        after_control(worker, "own", "ASK { FILTER NOT EXISTS { GRAPH ?g { ?s <urn:quadlog:applied> ?o } } }")
        is None
    )
    assert after_update(worker, "INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:n> 2 } }") is None
    assert breaks(worker, "INSERT DATA { GRAPH <urn:h> { <urn:a> <urn:n> 2 } }").startswith(
        "control one-graph"
    )
    assert breaks(worker, "COPY <urn:g> TO <urn:i>").startswith("control one-graph")
    lines = list(worker.store.lines())
    assert len(lines) == worker.store.applied.quads == 2
    assert not any("ASK" in line for line in lines)


def test_shapes_find_what_is_missing_and_what_is_no_instance(worker: Worker) -> None:
    assert after_control(worker, "people", SHAPES) is None
    assert after_update(worker, BOTH) is None
    report = breaks(
        worker, "INSERT DATA { <urn:eve> <urn:knows> <urn:bob>, <urn:eve> . <urn:al> a <urn:Person> }"
    )
    assert report.startswith("control people: Validation Report")
    assert "Results (2)" in report
    assert "ClassConstraintComponent" in report
    assert "Value Node: <urn:bob>" in report
    assert "Focus Node: <urn:al>" in report
    student = "INSERT DATA { <urn:Student> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:Person> }"
    assert after_update(worker, student) is None
    assert "a person has a name" in breaks(worker, "INSERT DATA { <urn:pat> a <urn:Student> }")
    assert (
        after_update(worker, f"{NAME_OF_EVE} ; INSERT DATA {{ GRAPH <urn:g> {{ <urn:x> a <urn:Person> }} }}")
        is None
    )


SPARQL_SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<urn:prefixes> sh:declare [ sh:prefix "u" ; sh:namespace "urn:"^^xsd:anyURI ] .
<urn:S> a sh:NodeShape ; sh:targetClass <urn:Person> ; sh:sparql [ sh:prefixes <urn:prefixes> ;
  sh:message "{$this} is listed in {?g}" ;
  sh:select "SELECT $this ?g WHERE { $this a u:Person GRAPH ?g { ?x ?p $this } }" ] .
"""


def test_sparql_constraints_see_named_graphs_and_not_the_reserved_one(worker: Worker) -> None:
    everything = SPARQL_SHAPES.replace("?x ?p $this", "?x ?p ?o")
    assert after_update(worker, BOTH) is None
    assert after_control(worker, "any", everything) is None
    assert "urn:h" in breaks(worker, "INSERT DATA { GRAPH <urn:h> { <urn:a> a 1 } }")
    assert after_control(worker, "any", SPARQL_SHAPES) is None
    assert after_update(worker, "INSERT DATA { GRAPH <urn:h> { <urn:a> a 1 } }") is None
    assert "urn:eve is listed in urn:h" in breaks(
        worker, "INSERT DATA { GRAPH <urn:h> { <urn:a> a <urn:eve> } }"
    )
    blank = breaks(worker, "INSERT DATA { _:b a <urn:Person> GRAPH <urn:h> { <urn:a> a _:b } }")
    assert "is listed in urn:h" in blank


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHAPES.replace("minCount 1", "minCount 'one'"), "sh:minCount"),
        (SHAPES.replace("sh:path <urn:name>", "sh:path 7"), "sh:path"),
        (SHAPES.replace("sh:class <urn:Person>", "sh:class <<( <urn:a> <urn:b> 1 )>>"), "not understood"),
        ("ASK { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }", "SERVICE"),
        ("ASK ", "not SPARQL"),
        (SPARQL_SHAPES.replace("GRAPH ?g", "SERVICE ?g"), "SERVICE"),
        (
            SPARQL_SHAPES + "<urn:x> <http://www.w3.org/2002/07/owl#imports> <http://127.0.0.1:1/> .",
            "owl:imports",
        ),
    ],
)
def test_what_is_not_understood_is_rejected_when_it_is_set(worker: Worker, text: str, words: str) -> None:
    """Also where nothing is there yet that it concerns; masters refuse most of it before."""
    reason = after_control(worker, "wrong", text)
    assert reason is not None
    assert words in reason
    assert not worker.store.controls


def test_an_approval_of_a_split_is_no_control(worker: Worker, log: Log) -> None:
    assert after_control(worker, "true", "ASK {}") is None
    for drop in (frozenset[bytes](), frozenset((bytes(16),))):
        approval = Approval(bytes(32), LogPosition(1, bytes(32)), drop)
        log.agree("", kind=TransactionKind.CONFIG, options=approval.options)
        assert outcome(worker) is None
    assert list(worker.store.controls) == ["true"]


def test_entries_of_kinds_to_come_are_rejected(worker: Worker, log: Log) -> None:
    log.agree("", kind=TransactionKind.CONFIG, options={"split-recovery": "smart"})
    assert "not known to this version" in (outcome(worker) or "")
    assert after_control(worker, "none", None) == "control none: there is none of this name"


@pytest.mark.parametrize(
    "text",
    [
        SHAPES.replace("minCount 1", "minCount 'Corruption: none'"),
        "ASK { FILTER(<urn:Corruption:>(1)) }",
        "ASK { FILTER(<Corruption:>(1)) }",
    ],
)
def test_no_text_of_a_client_is_taken_for_damage_of_the_store(worker: Worker, text: str) -> None:
    after_control(worker, "wrong", text)
    after_update(worker, BOTH)
    assert not worker.store.damage.reason


def test_what_cannot_be_evaluated_breaks_the_control(worker: Worker) -> None:
    broken = SPARQL_SHAPES.replace("$this a u:Person", "$this a nobody:Person")
    assert after_control(worker, "wrong", broken) is None, "nothing is there that it concerns"
    assert "it cannot be evaluated" in breaks(worker, BOTH)
    assert after_control(worker, "wrong", None) is None
    assert after_update(worker, BOTH) is None


def test_now_and_chance_are_the_transactions(worker: Worker, log: Log) -> None:
    assert (
        after_control(
            worker, "early", "ASK { FILTER(YEAR(NOW()) < 2024 && RAND() >= 0 && STRLEN(STRUUID()) = 36) }"
        )
        is None
    )
    assert after_update(worker, BOTH) is None
    log.agree(EVE.replace("eve", "late"), created=1_800_000_000_000)
    assert (outcome(worker) or "").startswith("control early: ")


def test_a_long_report_is_cut(worker: Worker) -> None:
    assert after_control(worker, "people", SHAPES) is None
    people = " ".join(f"<urn:é{number}> a <urn:Person> ." for number in range(500))
    reason = breaks(worker, f"INSERT DATA {{ {people} }}")
    assert LONG_REPORT - 100 < len(reason.encode()) < LONG_REPORT + 100
    assert reason.endswith(" … (cut)")


def test_a_dry_run_tells_what_came_out_for_all(worker: Worker) -> None:
    assert after_control(worker, "names", NAMED) is None
    assert after_control(worker, "people", SHAPES) is None
    assert after_control(worker, "true", "ASK {}") is None
    dry_runs = DryRuns(worker.store, worker.settings)
    found = dry_runs.run(EVE.encode(), SPARQL, {}, b"1" * 16, Event()).answer()
    assert found["outcome"] == Outcome.REJECTED
    assert found["reason"].startswith("control names: ")
    assert [(told["name"], told["kind"], told["holds"]) for told in found["controls"]] == [
        ("names", "ASK", False),
        ("people", "SHACL", False),
        ("true", "ASK", True),
    ]
    assert "a person has a name" in found["controls"][1]["report"]
    assert "report" not in found["controls"][2]
    fine = dry_runs.run(BOTH.encode(), SPARQL, {}, b"1" * 16, Event()).answer()
    assert (fine["outcome"], [told["holds"] for told in fine["controls"]]) == (Outcome.APPLIED, [True] * 3)
    nothing = dry_runs.run(b"INSERT DATA {}", SPARQL, {}, b"1" * 16, Event()).answer()
    assert (nothing["outcome"], len(nothing["controls"])) == (Outcome.APPLIED, 3)
    assert worker.store.applied.index == 3


def test_no_read_sees_what_a_control_is_evaluated_on(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert after_control(worker, "true", "ASK {}") is None
    gates: list[bool] = []
    holds = QuadView.holds

    def looked_at(visible: QuadView, ask: str) -> bool:
        gates.append(worker.store.gate.is_open)
        return holds(visible, ask)

    monkeypatch.setattr(QuadView, "holds", looked_at)
    with worker.store.gate.reading():
        worker.log.agree(BOTH)
        worker.hear(TOPICS.agreed)
        worker.turn()
        assert (gates, worker.replica._more) == ([], True), "it waits for the read to start"
    assert outcome(worker) is None
    assert after_update(worker, "INSERT DATA {}") is None
    assert gates == [False], "what changes nothing is not looked at again"


def test_no_query_of_shapes_leaves_the_worker_or_names_the_reserved_graph(worker: Worker) -> None:
    """Whatever becomes of their texts before they are queries."""
    visible = worker.store.visible(lambda text: (text, {}))
    with pytest.raises(Unsupported):
        visible.query("ASK { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }")
    with pytest.raises(Forbidden):
        visible.query(f"ASK {{ GRAPH {worker.store._reserved} {{ ?s ?p ?o }} }}")
    assert list(visible.quads_for_pattern(None, None, None)) == list(visible.named_graphs()) == []


def test_core_shapes_read_no_more_than_what_they_concern(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length of a graph is a scan of it all, and pyshacl asks for it by asking whether there is one."""
    assert after_control(worker, "people", SHAPES) is None
    monkeypatch.delattr(QuadView, "query")
    assert after_update(worker, BOTH) is None
    assert "a person has a name" in breaks(worker, "DELETE DATA { <urn:eve> <urn:name> 'Eve' }")


def test_a_worker_starts_without_pyshacl() -> None:
    code = "import sys, quadlog.worker.process; sys.exit('rdflib' in sys.modules or 'pyshacl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
