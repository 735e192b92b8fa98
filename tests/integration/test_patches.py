"""Patches, evaluated as a worker does it, against sets of lines in Python."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from quadlog.core.effects.patch import MEDIA_TYPE, exact
from quadlog.core.records import Effect, Outcome
from quadlog.core.sparql.text.terms import BlankNodes
from quadlog.quadstore.journal import JOURNAL
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.updates import NO_BLANKS, Generator, blank_nodes, state_of
from tests.support.workers.updates import exact as is_difference

if TYPE_CHECKING:
    from pathlib import Path


PATCHES = int(os.environ.get("TEST_PATCHES", "1500"))
SEED = int(os.environ.get("TEST_SEED", "0")) or random.randrange(1, 1 << 32)

NODES = ("<urn:a>", "<urn:b>")
PREDICATES = ("<urn:p>", "<urn:q>")
STORED = {
    "<urn:a>": "<urn:a>",
    '"x"': '"x"',
    '"02"^^<http://www.w3.org/2001/XMLSchema#int>': '"2"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"x"@EN': '"x"@en',
    '<<( <urn:a> <urn:p> "01"^^<http://www.w3.org/2001/XMLSchema#integer> )>>': (
        '<<( <urn:a> <urn:p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> )>>'
    ),
}
"""Values as they are sent and as they are stored."""
GRAPHS = ("", "<urn:g1>", "<urn:g2>")

State = tuple[set[str], set[str]]


class Patches:
    """Patches from a seed, and what they make of a state."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.kinds = {"A": 0, "D": 0, "DP": 0}

    def patch(self, state: State, tx_id: bytes) -> tuple[str, State]:
        """A patch, and the state after it."""
        nodes = BlankNodes(tx_id, 0)
        quads = {line for line in state[0] if not line.startswith("#")}
        graphs = set(state[1])
        rows: list[str] = []
        for _ in range(self.chance.choice((0, 1, 2, 4, 8))):
            kind = self.chance.choices(("A", "D", "DP"), (5, 3, 2))[0]
            self.kinds[kind] += 1
            there = self.chance.choice(sorted(quads)) if quads and self.chance.random() < 0.6 else None
            if kind == "DP":
                rows.append(self.pattern(quads, there))
                continue
            sent, stored = (exact(there), there) if there else self.quad(kind, nodes)
            rows.append(f"{kind} {sent}")
            if kind == "A":
                quads.add(stored)
                graphs.update(filter(None, [graph_in(stored)]))
            else:
                quads.discard(stored)
        if self.chance.random() < 0.3:
            rows = ["H id <urn:x> .", "TX .", 'PA "x" "urn:x:" .', *rows, "TC ."]
        empty = {f"# empty graph {graph}" for graph in graphs - set(map(graph_in, quads))}
        return self.chance.choice(("\n", "\r\n", "\n# x\n\n")).join(rows), (quads | empty, graphs)

    def quad(self, kind: str, nodes: BlankNodes) -> tuple[str, str]:
        subject, value = self.chance.choice(NODES), self.chance.choice(list(STORED))
        graph, predicate = self.chance.choice(GRAPHS), self.chance.choice(PREDICATES)
        sent, stored = [subject, predicate, value], [subject, predicate, STORED[value]]
        if kind == "A" and self.chance.random() < 0.2:
            at, label = self.chance.choice((0, 2)), self.chance.choice(("_:x", "_:y"))
            sent[at], stored[at] = label, str(nodes.labelled(label))
        elif kind == "A" and self.chance.random() < 0.1:
            sent[0], stored[0] = "<_:given>", "_:given"
        end = [graph, "."] if graph else ["."]
        return " ".join(sent + end), " ".join(stored + end)

    def pattern(self, quads: set[str], there: str | None) -> str:
        """Takes what fits out of the quads."""
        parts = parts_of(there or '<urn:a> <urn:p> "x" .')
        asked = [part if self.chance.random() < 0.5 else None for part in parts]
        if asked == [None] * 4 and self.chance.random() < 0.8:
            asked[3] = " <urn:g1>"
        *terms, graph = asked
        quads -= {
            quad
            for quad in quads
            if all(part in {None, there} for part, there in zip(asked, parts_of(quad), strict=True))
        }
        written = [exact(part or "*") for part in terms]
        return f"DP {' '.join(written)} {'*' if graph is None else graph.strip() or 'DEFAULT'} ."


def graph_in(line: str) -> str:
    """The graph that a quad is in, not one that it is about; empty: the default graph."""
    return parts_of(line)[3].strip()


def parts_of(line: str) -> tuple[str, ...]:
    found = re.fullmatch(r"(\S+) (\S+) (.*?)( <urn:g\d>)? \.", line)
    assert found is not None
    return found.groups("")


@pytest.mark.parametrize("most", [0, 1_000_000], ids=["in pieces", "whole"])
@pytest.mark.parametrize("count", [400, pytest.param(PATCHES, marks=pytest.mark.soak)])
def test_random_patches(tmp_path: Path, most: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """State as sets have it, effect the difference, signature as recounted; between updates with a WHERE, too."""
    print("TEST_SEED =", SEED)
    monkeypatch.setattr("quadlog.quadstore.commit.WHOLE", most)
    monkeypatch.setattr("quadlog.quadstore.commit.PIECE", 2)
    updates, log = Generator(SEED), Log()
    patches = Patches(updates.chance)
    evaluating, step_by_step = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    evaluating.take_over()
    seen = ahead = applied = 0
    for number in range(count):
        before, expected = state_of(step_by_step), None
        if updates.chance.random() < 0.3 or blank_nodes(before[0]) > 12:
            log.agree(NO_BLANKS if blank_nodes(before[0]) > 12 else updates.update().text)
        else:
            tx_id = (number + 1).to_bytes(16, "big")
            text, expected = patches.patch(before, tx_id)
            assert log.agree(text, media_type=MEDIA_TYPE).id == tx_id
            seen += 1
        evaluating.hear(TOPICS.agreed)
        evaluating.turn()
        ahead += evaluating.store.is_ahead and expected is not None
        if number == count - 1:
            evaluating.catch_up()
        elif updates.chance.random() < 0.3:
            evaluating.hear(TOPICS.effects, updates.chance.randint(1, 8))
            evaluating.turn()
        step_by_step.catch_up()
        effect = codec.decode(log.records[TOPICS.effects][-1].value)
        assert isinstance(effect, Effect)
        assert effect.index == number + 1
        after = state_of(step_by_step)
        is_difference(effect, before, after)
        assert step_by_step.store.recount()[0] == step_by_step.store.applied.signature
        if expected is not None:
            assert effect.outcome is Outcome.APPLIED, effect.reason
            assert after == expected, text
            applied += bool(effect.deleted or effect.inserted)
    assert state_of(evaluating) == state_of(step_by_step)
    print(f"{seen} patches, {applied} changed something, {ahead} on what is not shown yet: {patches.kinds}")
    assert ahead > seen / 20
    assert applied > seen / 3
    for worker in (evaluating, step_by_step):
        worker.close()


class Pair:
    """A worker that evaluates, and one that follows."""

    def __init__(self, path: Path) -> None:
        self.log = Log()
        self.evaluating, self.following = Worker(path, self.log, "w1"), Worker(path, self.log, "w2")
        self.evaluating.take_over()

    def run(self, text: str, media_type: str = MEDIA_TYPE) -> Effect:
        """Its effect."""
        self.log.agree(text, media_type=media_type)
        self.evaluating.catch_up()
        self.following.catch_up()
        assert state_of(self.following) == state_of(self.evaluating)
        return self.log.effects()[-1]


def test_patterns_stand_in_the_order_of_the_lines(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    assert len(pair.run("A <urn:s> <urn:p> <urn:1> .\nA <urn:s> <urn:p> <urn:2> <urn:g> .").inserted) == 2
    rows = ["A <urn:s> <urn:p> <urn:3> .", "DP <urn:s> * * DEFAULT .", "A <urn:s> <urn:p> <urn:4> ."]
    effect = pair.run("\n".join([*rows, "A <urn:s> <urn:p> <urn:1> ."]))
    assert effect.deleted == ()
    assert effect.inserted == ("<urn:s> <urn:p> <urn:4> .",)
    effect = pair.run("DP * * <urn:2> * .")
    assert effect.deleted == ("<urn:s> <urn:p> <urn:2> <urn:g> .",)
    assert effect.emptied == ("<urn:g>",)
    assert len(pair.run("DP * * * * .").deleted) == 2


def test_the_reserved_graph_is_never_removed(tmp_path: Path) -> None:
    """It holds what is applied, and what was anticipated."""
    pair = Pair(tmp_path)
    pair.log.agree("A <urn:s> <urn:n> <urn:1> .", media_type=MEDIA_TYPE)
    pair.log.agree("INSERT { ?s <urn:n> <urn:2> } WHERE { ?s <urn:n> <urn:1> }")
    pair.evaluating.hear(TOPICS.agreed)
    pair.evaluating.turn()
    assert pair.evaluating.store.is_ahead
    records = list(pair.evaluating.store._store.quads_for_pattern(None, JOURNAL, None, None))
    assert records
    pair.log.agree("DP * * * * .", media_type=MEDIA_TYPE)
    pair.evaluating.hear(TOPICS.agreed)
    pair.evaluating.turn()
    assert len(pair.log.effects()[-1].deleted) == 2
    pair.evaluating.catch_up()
    pair.following.catch_up()
    assert state_of(pair.evaluating) == state_of(pair.following) == (set(), set())
    assert pair.evaluating.store.applied.index == 3


def test_a_patch_that_cannot_be_read_is_rejected(tmp_path: Path) -> None:
    """A master refuses it before it is logged; one of another version may not."""
    pair = Pair(tmp_path)
    effect = pair.run("A <urn:s> <urn:p> <urn:o> .\nX <urn:s> .")
    assert effect.outcome is Outcome.REJECTED
    assert "line 2" in (effect.reason or "")
    assert not effect.inserted
    assert pair.run("A <urn:s> <urn:p> <urn:o> .").inserted


def test_trials_read_patches(tmp_path: Path) -> None:
    """What a successor finds without an effect is evaluated by a process of its own."""
    pair = Pair(tmp_path)
    pair.run("A <urn:s> <urn:p> _:x .")
    pair.log.agree("A _:x <urn:p> <urn:o> .\nDP <urn:s> * * * .", media_type=MEDIA_TYPE)
    pair.following.hear(TOPICS.agreed)
    pair.following.take_over()
    effect = pair.log.effects()[-1]
    assert effect.outcome is Outcome.APPLIED
    assert len(effect.deleted) == len(effect.inserted) == 1
