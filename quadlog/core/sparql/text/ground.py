"""Removal of ground triples, patterns without variables, from a pattern that has too many of them.

Their order among the joins does not matter: a group has solutions only if the state contains all of them.  So a
single filter in the group checks that none is missing, however many there are.

>>> print(without_ground_triples("{ ?s a <urn:c> . <urn:a> a <urn:b> , 1 }"))  # doctest: +NORMALIZE_WHITESPACE
{{ FILTER NOT EXISTS { VALUES (?quadlog_s ?quadlog_p ?quadlog_o) {
 (<urn:a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:b>)
 (<urn:a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> 1)
 } FILTER NOT EXISTS { ?quadlog_s ?quadlog_p ?quadlog_o } } } ?s a <urn:c> .  }
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.text.terms import RDF_TYPE
from quadlog.core.sparql.text.tokens import CLOSING, OPENING, edited, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

_IRIS: Final = frozenset(("iri", "pname"))
_VARIABLES: Final = "?quadlog_s ?quadlog_p ?quadlog_o"
_RESERVED: Final = "quadlog_"


def without_ground_triples(text: str) -> str:
    """Return the same pattern, or SELECT or ASK query, with the ground triples of each group in one filter."""
    if _RESERVED in text:
        return text
    return edited(text, sorted(_edits(text)))


@dataclass(slots=True)
class _Group:
    """An open bracket and its contents; only triples in ``{`` are considered."""

    holds_triples: bool
    start: int = 0
    block: _Block | None = None
    """The block of triples that is being read."""
    reads: bool = True
    """True if a block may begin at the next token."""
    after_word: bool = False
    """True after a keyword, within the construct that it begins."""
    blocks: list[_Block] = field(default_factory=list["_Block"])


@dataclass(slots=True)
class _Block:
    """Ground triples of one subject: ``subject verb object , object ; verb object``."""

    start: int
    end: int
    subject: str
    verb: str = ""
    value: str = ""
    expects: str = "verb"
    triples: list[str] = field(default_factory=list[str])

    def add(self, kind: str, value: str, end: int) -> bool:
        """Add a token; return False if the block cannot continue with it."""
        match self.expects:
            case "verb" if kind in _IRIS or value == "a":
                self.verb, self.expects = value if value != "a" else str(RDF_TYPE), "object"
            case "verb" if value == ";" and self.triples:
                pass
            case "object" if kind in {*_IRIS, "string", "number"} or value in {"true", "false"}:
                self.value, self.expects = value, "more"
            case "more" if kind == "lang" and self.value[-1] in "\"'":
                self.value += value
            case "more" if value == "^^":
                self.expects = "datatype"
            case "datatype" if kind in _IRIS:
                self.value, self.expects = f"{self.value}^^{value}", "more"
            case "more" if value in {",", ";"}:
                self._finish_triple()
                self.expects = "object" if value == "," else "verb"
            case _:
                return False
        self.end = end
        return True

    def finish(self) -> bool:
        """Complete the last triple; return whether the block may end here."""
        if self.expects == "more":
            self._finish_triple()
        return self.expects == "more" or (self.expects == "verb" and bool(self.triples))

    def _finish_triple(self) -> None:
        self.triples.append(f"({self.subject} {self.verb} {self.value})")


def _edits(text: str) -> Iterator[tuple[int, int, str]]:
    for group in _groups(text):
        rows = "\n".join(triple for block in group.blocks for triple in block.triples)
        missing = f"VALUES ({_VARIABLES}) {{\n{rows}\n}} FILTER NOT EXISTS {{ {_VARIABLES} }}"
        # At the beginning of the group, where it does not separate triples that share a blank node.
        yield group.start, group.start, f"{{ FILTER NOT EXISTS {{ {missing} }} }}"
        for block in group.blocks:
            yield block.start, block.end, ""


def _groups(text: str) -> Iterator[_Group]:
    """Yield the groups that have ground triples."""
    opened = [_Group(holds_triples=False)]
    values = False
    for token in tokens(text):
        kind = token.lastgroup or ""
        value, group = token[kind], opened[-1]
        if kind == "mark" and value in OPENING:
            group.block = None  # it continues with something that is not ground
            group.reads = False
            opened.append(_Group(holds_triples=value == "{" and not values, start=token.end()))
            values = values and value != "{"
        elif kind == "mark" and value in CLOSING and len(opened) > 1:
            _end(group, token.start(kind))
            if group.blocks:
                yield group
            opened.pop()
            # Triples may begin after a group, or after the brackets of a FILTER or BIND.
            opened[-1].reads = value == "}" or (value == ")" and opened[-1].after_word)
            opened[-1].after_word = opened[-1].after_word and not opened[-1].reads
        else:
            values = values or (kind == "word" and value.upper().endswith("VALUES"))
            _pass(group, kind, value, token.start(kind), token.end())


def _pass(group: _Group, kind: str, value: str, start: int, end: int) -> None:
    """Process a token that is no bracket."""
    if not group.holds_triples:
        return
    if group.block is not None:
        if group.block.add(kind, value, end):
            return
        if value != "." and kind != "word":
            group.block = None
            return
    if kind == "mark" and value == ".":
        _end(group, end)
        group.reads, group.after_word = True, False
    elif kind == "word" and value not in {"a", "true", "false"}:
        _end(group, start)
        group.reads, group.after_word = False, True
    elif group.reads and kind in _IRIS:
        group.reads = False
        group.block = _Block(start, end, value)
    else:
        group.reads = False


def _end(group: _Group, end: int) -> None:
    """End the current block, and add it to the group if it may end here."""
    if group.block is not None and group.block.finish():
        group.block.end = end
        group.blocks.append(group.block)
    group.block = None
