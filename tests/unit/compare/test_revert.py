"""The inverse of an effect, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.compare.history import counted
from quadlog.compare.revert import LaterChanges, inverse_of, left_as_they_are
from quadlog.core.effects.patch import parse_patch
from quadlog.core.sparql.operations import DeleteData, InsertData
from tests.support.agreement.topics import effects_topic, fence
from tests.support.masters.effects import effect

if TYPE_CHECKING:
    from quadlog.core.records import Effect

NEW = '_:b1 <urn:p> "_:no" .'
OLD = "<urn:s> <urn:p> <<( _:b2 <urn:p> _:b3 )>> <urn:g> ."


def only(said: Effect) -> Effect:
    [found] = counted(effects_topic(fence(1), said))
    return found


def test_the_inverse_names_the_nodes_of_the_store() -> None:
    patch = inverse_of(only(effect(1, inserted=(NEW,), deleted=(OLD,))))
    assert patch.decode().splitlines() == [
        'D <_:b1> <urn:p> "_:no" .',
        "A <urn:s> <urn:p> <<( <_:b2> <urn:p> <_:b3> )>> <urn:g> .",
    ]
    removed, added = parse_patch(patch, tx_id=b"any")
    assert isinstance(removed, DeleteData)
    assert isinstance(added, InsertData)
    assert [f"{quad} ." for quad in (*removed.quads, *added.quads)] == [NEW, OLD]


def test_later_effects_are_counted_where_they_touch_the_same() -> None:
    first, *later = counted(
        effects_topic(
            fence(1),
            effect(1, inserted=("a", "b"), deleted=("c",)),
            effect(2, inserted=("x",)),
            effect(3, deleted=("a", "y"), inserted=("c",)),
            effect(4, inserted=("a",)),
            effect(5, deleted=("b",)),
        )
    )
    since = LaterChanges.of(first)
    for one in later:
        since.on_effect(one)
    assert since.index == 5
    assert since.there == {"a": True, "b": False, "c": True}
    assert {index: count for index, (_, count) in since.touched.items()} == {3: 2, 4: 1, 5: 1}


def test_graphs_without_quads_are_told() -> None:
    quad = "<urn:s> <urn:p> <urn:o> {} ."
    change = effect(
        1,
        deleted=(quad.format("<urn:emptied>"), quad.format("<urn:dropped>")),
        emptied=("<urn:emptied>", "<urn:made>"),
        dropped=("<urn:dropped>",),
    )
    assert list(left_as_they_are(only(change))) == ["<urn:made>, an empty graph that it made, stays"]
