"""Report of a split as RDF 1.1 in Turtle: the fields of `report.json` with names under `urn:quadlog:split:`.

Nodes are named after the plan, so that the reports of several splits can be in one graph:

    urn:quadlog:plan:HASH                   a prov:Plan; planHash
    urn:quadlog:plan:HASH:KIND:MADE_AT      a Report, prov:Entity; kind, repository, strategy, reason, plan,
                                            prov:generatedAtTime; side, behind, unreachable, branch, worker
    ...:side:N                              a Side; dataCentre, wins, lastIndex, lastChain, forkIndex, entries, firstAt,
                                            lastAt, master, epoch, decided, members, memberId
    ...:branch:NAME                         a Branch, prov:Entity; name, dataCentre, forkIndex, forkChain, lastIndex,
                                            lastChain, entries, updates, decisions, disputed, disputedListed
                                            count, ended, update, disputedQuad
    ...:branch:NAME:count:CLASS             a Count; class, updates, listed
    ...:branch:NAME:count:CLASS:ANSWER      a Count; class, answer, updates
    ...:branch:NAME:ended:INDEX             an EndedEntry; index, id, what
    ...:branch:NAME:update:INDEX            an Update; index, id, class, answer, answerReason, outcome, reason, became,
                                            deleted, inserted, deletedThere, insertedThere, synchronous
    ...:branch:NAME:disputed:N              a DisputedQuad; line (N-Quads), inBase, inWinner, inBranch, inResult,
                                            winnerIndex, branchIndex
    ...:behind:DC                           a Behind; dataCentre, index, entries
    ...:unreachable:DC                      an Unreachable; dataCentre, reason, unknown
    ...:worker:DC:NAME                      a WorkerCost; name, dataCentre, applied, back, forward, bytes, seconds
    ...:rejoin                              only in a report: a prov:Activity; prov:used the branches

`class` has one of `urn:quadlog:split:class:CLASS` as its value, `answer` one of `urn:quadlog:split:answer:ANSWER`; each
of these has its meaning as its `rdfs:comment`.  What a report does not know is absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, serialize

from quadlog.core.sparql.text.terms import RDF_TYPE
from quadlog.splits.glossary import ANSWERS, CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TERMS: Final = "urn:quadlog:split:"
_PROV: Final = "http://www.w3.org/ns/prov#"
_RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_PREFIXES: Final = {"": _TERMS, "prov": _PROV, "rdfs": _RDFS, "xsd": _XSD}
_ONE: Final = (str, int, float, NamedNode, Literal, type(None))
_SIDE: Final = {
    "wins": "wins", "fork": "forkIndex", "length": "entries", "masters": "master", "dcs": "dataCentre",
}  # fmt: skip
_RANK: Final = {"epoch": "epoch", "decided": "decided", "members": "members", "ids": "memberId"}
_BRANCH: Final = {
    "name": "name", "dcs": "dataCentre", "entries": "entries", "updates": "updates", "decisions": "decisions",
    "disputed": "disputed",
}  # fmt: skip
_UPDATE: Final = {
    "index": "index", "id": "id", "reason_there": "answerReason", "outcome": "outcome", "reason": "reason",
    "became": "became", "deleted": "deleted", "inserted": "inserted", "deleted_there": "deletedThere",
    "inserted_there": "insertedThere", "synchronous": "synchronous",
}  # fmt: skip
_DISPUTED: Final = {
    "line": "line", "base": "inBase", "winner": "inWinner", "branch": "inBranch", "result": "inResult",
    "winner_index": "winnerIndex", "branch_index": "branchIndex",
}  # fmt: skip
_ENDED: Final = {"index": "index", "id": "id", "what": "what"}
_BEHIND: Final = {"dc": "dataCentre", "index": "index", "entries": "entries"}
_UNREACHABLE: Final = {"dc": "dataCentre", "reason": "reason", "unknown": "unknown"}
_WORKER: Final = {
    "worker": "name", "dc": "dataCentre", "applied": "applied", "back": "back", "forward": "forward",
    "bytes": "bytes", "seconds": "seconds",
}  # fmt: skip


def turtle_of(report: Mapping[str, Any]) -> str:
    """Return a report, as `docs/split-report.schema.json` describes it, in Turtle; equal reports give equal texts."""
    plan = NamedNode(f"urn:quadlog:plan:{quote(report['plan'], safe='')}")
    whole = _below(plan, report["kind"], report["made_at"])
    prefixes = {**_PREFIXES, "report": f"{whole.value}:"}
    text = serialize(_triples(report, plan, whole), format=RdfFormat.TURTLE, prefixes=prefixes)
    assert text is not None, "without an output the text is returned"
    return text.decode()


def _triples(report: Mapping[str, Any], plan: NamedNode, whole: NamedNode) -> Iterator[Triple]:
    yield from _about(plan, _type("prov:Plan"), ("planHash", report["plan"]))
    sides = [_below(whole, "side", number) for number in range(1, len(report["sides"]) + 1)]
    branches = [_below(whole, "branch", one["name"]) for one in report["branches"]]
    behind = [_below(whole, "behind", one["dc"]) for one in report["behind"]]
    unreachable = [_below(whole, "unreachable", one["dc"]) for one in report["unreachable"]]
    workers = [_below(whole, "worker", one["dc"], one["worker"]) for one in report["workers"]]
    yield from _about(
        whole,
        _type("Report"),
        _type("prov:Entity"),
        ("prov:generatedAtTime", _moment(report["made_at"])),
        ("plan", plan),
        ("kind", report["kind"]),
        ("repository", report["repository"]),
        ("strategy", report["strategy"]),
        ("reason", report["reasons"]),
        ("side", sides),
        ("branch", branches),
        ("behind", behind),
        ("unreachable", unreachable),
        ("worker", workers),
    )
    for node, side in zip(sides, report["sides"], strict=True):
        yield from _side(node, side)
    rejoin = _below(whole, "rejoin") if report["kind"] == "report" else None
    if rejoin is not None:
        yield from _about(rejoin, _type("prov:Activity"), ("prov:used", branches))
    for node, branch in zip(branches, report["branches"], strict=True):
        yield from _branch(node, branch, rejoin)
    for kind, nodes, values, names in (
        ("Behind", behind, report["behind"], _BEHIND),
        ("Unreachable", unreachable, report["unreachable"], _UNREACHABLE),
        ("WorkerCost", workers, report["workers"], _WORKER),
    ):
        for node, value in zip(nodes, values, strict=True):
            yield from _about(node, _type(kind), *_fields(value, names))
    for name, meaning in CLASSES.items():
        yield from _about(_class(name), _type("UpdateClass"), ("rdfs:comment", meaning))
    for name, meaning in ANSWERS.items():
        yield from _about(_answer(name), _type("Answer"), ("rdfs:comment", meaning))


def _side(node: NamedNode, side: Mapping[str, Any]) -> Iterator[Triple]:
    yield from _about(
        node,
        _type("Side"),
        *_fields(side, _SIDE),
        *_fields(side["rank"] or {}, _RANK),
        ("lastIndex", side["last"]["index"]),
        ("lastChain", side["last"]["chain"]),
        ("firstAt", _moment(side["first_at"])),
        ("lastAt", _moment(side["last_at"])),
    )


def _branch(node: NamedNode, branch: Mapping[str, Any], rejoin: NamedNode | None) -> Iterator[Triple]:
    counts = {
        _below(node, "count", name): (
            ("class", _class(name)),
            ("updates", count),
            ("listed", branch["shown"].get(name, 0)),
        )
        for name, count in sorted(branch["classes"].items())
    } | {
        _below(node, "count", name, told): (
            ("class", _class(name)),
            ("answer", _answer(told)),
            ("updates", count),
        )
        for told, classes in sorted(branch["answers"].items())
        for name, count in sorted(classes.items())
    }
    ended = [_below(node, "ended", one["index"]) for one in branch["ended"]]
    updates = [_below(node, "update", one["index"]) for one in branch["transactions"]]
    disputed = [_below(node, "disputed", number) for number in range(1, len(branch["disputed_quads"]) + 1)]
    yield from _about(
        node,
        _type("Branch"),
        _type("prov:Entity"),
        ("prov:wasInvalidatedBy", rejoin),
        *_fields(branch, _BRANCH),
        ("forkIndex", branch["fork"]["index"]),
        ("forkChain", branch["fork"]["chain"]),
        ("lastIndex", branch["last"]["index"]),
        ("lastChain", branch["last"]["chain"]),
        ("disputedListed", len(disputed)),
        ("count", list(counts)),
        ("ended", ended),
        ("update", updates),
        ("disputedQuad", disputed),
    )
    for count_node, pairs in counts.items():
        yield from _about(count_node, _type("Count"), *pairs)
    for one_node, one in zip(ended, branch["ended"], strict=True):
        yield from _about(one_node, _type("EndedEntry"), *_fields(one, _ENDED))
    for one_node, one in zip(updates, branch["transactions"], strict=True):
        told = (("class", _class(one["class"])), ("answer", _answer(one["told"])))
        yield from _about(one_node, _type("Update"), *told, *_fields(one, _UPDATE))
    for one_node, one in zip(disputed, branch["disputed_quads"], strict=True):
        yield from _about(one_node, _type("DisputedQuad"), *_fields(one, _DISPUTED))


def _below(node: NamedNode, *names: str | int) -> NamedNode:
    return NamedNode(":".join((node.value, *(quote(str(name), safe="") for name in names))))


def _class(name: str) -> NamedNode:
    return NamedNode(f"{_TERMS}class:{quote(name, safe='')}")


def _answer(name: str) -> NamedNode:
    return NamedNode(f"{_TERMS}answer:{quote(name, safe='')}")


def _moment(text: str | None) -> Literal | None:
    return None if text is None else Literal(text, datatype=NamedNode(f"{_XSD}dateTime"))


def _type(name: str) -> tuple[NamedNode, NamedNode]:
    return RDF_TYPE, _term(name)


def _term(name: str) -> NamedNode:
    prefix, _, local = name.rpartition(":")
    return NamedNode(f"{_PREFIXES[prefix]}{local}")


def _fields(values: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, Any]]:
    return [(name, values[field]) for field, name in names.items() if field in values]


def _about(node: NamedNode, *pairs: tuple[NamedNode | str, Any]) -> Iterator[Triple]:
    """Yield one triple for each pair of a property and a value, or for each value of a list; None is no value."""
    for name, value in pairs:
        predicate = name if isinstance(name, NamedNode) else _term(name)
        values: Iterable[Any] = (value,) if isinstance(value, _ONE) else value
        for one in values:
            if one is not None:
                yield Triple(node, predicate, one if isinstance(one, NamedNode | Literal) else Literal(one))
