"""What may be a control, and how it stands in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.core.effects.control import (
    IS,
    LIMIT,
    NAME,
    Control,
    ControlChange,
    ControlKind,
    after,
    change_of,
    check,
    options_of,
)
from quadlog.core.model import GENESIS, TransactionKind
from quadlog.core.records import LoggedEntry
from quadlog.errors import Forbidden, SyntaxRefused, TooLarge, Unsupported, UserError

SHAPE = "<urn:S> <http://www.w3.org/ns/shacl#targetNode> <urn:a> ."
ENTRY = LoggedEntry(
    index=7,
    kind=TransactionKind.CONFIG,
    id=bytes(16),
    timestamp=1,
    digest=GENESIS,
    options=options_of("c", ControlKind.ASK),
    previous=GENESIS,
    chain=GENESIS,
    epoch=1,
    lineage=GENESIS,
    origin="m1",
    created=1,
    media_type="application/sparql-query",
    body=b"ASK {}",
)


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        (ControlKind.ASK, "SELECT * {}", UserError),
        (ControlKind.ASK, "PREFIX ask: <urn:x> SELECT * { ask:ASK ?p ?o }", UserError),
        (ControlKind.ASK, "ASK", SyntaxRefused),
        (ControlKind.ASK, "DROP ALL", SyntaxRefused),
        (ControlKind.ASK, "ASK { SERVICE SILENT ?s { ?s ?p ?o } }", Unsupported),
        (ControlKind.ASK, f"ASK {{ {'?s ?p ?o . ' * 500} }}", Unsupported),
        (ControlKind.ASK, "ASK { GRAPH <urn:quadlog:state:1> { ?s ?p ?o } }", Forbidden),
        (ControlKind.ASK, f"ASK {{}} # {'x' * LIMIT}", TooLarge),
        (ControlKind.SHACL, "", UserError),
        (ControlKind.SHACL, "<urn:a> <urn:b> 1 .", UserError),
        (ControlKind.SHACL, "<urn:a> <urn:b>", SyntaxRefused),
        (ControlKind.SHACL, SHAPE.replace("urn:a", "a"), SyntaxRefused),
        (ControlKind.SHACL, SHAPE.replace("targetNode", "js"), Unsupported),
        (
            ControlKind.SHACL,
            f"{SHAPE} <urn:a> <http://www.w3.org/2002/07/owl#imports> <urn:b> .",
            Unsupported,
        ),
        (ControlKind.SHACL, SHAPE.replace("<urn:a>", "<<( <urn:a> <urn:b> " * 200), Unsupported),
        (
            ControlKind.SHACL,
            "<urn:S> <http://www.w3.org/ns/shacl#select> 'SELECT * { SERVICE <urn:a> { ?s ?p ?o } }' .",
            Unsupported,
        ),
    ],
)
def test_what_is_none_is_refused(kind: ControlKind, text: str, error: type[UserError]) -> None:
    with pytest.raises(UserError) as raised:
        check(kind, text)
    assert type(raised.value) is error
    entry = replace(ENTRY, options=options_of("c", kind), body=text.encode())
    with pytest.raises(error):
        change_of(entry)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "ä", "x" * 65, "a\n"])
def test_a_name_is_a_short_word(name: str) -> None:
    with pytest.raises(UserError, match="1 to 64"):
        options_of(name, None)
    with pytest.raises(UserError, match="1 to 64"):
        change_of(replace(ENTRY, options={NAME: name, IS: ""}))


def test_what_another_version_may_say_is_not_understood() -> None:
    for options in ({}, {NAME: "c"}, {NAME: "c", IS: "SHEX"}):
        with pytest.raises(UserError, match="not known to this version"):
            change_of(replace(ENTRY, options=options))
    with pytest.raises(UserError, match="UTF-8"):
        change_of(replace(ENTRY, body=b"ASK { } # \xff"))


def test_the_last_word_of_a_name_counts() -> None:
    one = change_of(ENTRY)
    assert one.control == Control(name="c", kind=ControlKind.ASK, text="ASK {}", index=7)
    gone = change_of(replace(ENTRY, options=options_of("c", None), body=b""))
    other = change_of(
        replace(ENTRY, index=8, options=options_of("a", ControlKind.SHACL), body=SHAPE.encode())
    )
    assert gone == ControlChange(name="c", control=None)
    assert list(after({}, [one, other])) == ["a", "c"]
    assert after({}, [one, gone, gone]) == {}
    assert after({"c": one.control}, [gone, one]) == {"c": one.control}
