"""What the clients send."""

from __future__ import annotations

from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTS = 50


class Workload(StrEnum):
    """Which updates are sent."""

    INSERT = "insert"
    """A new subject with two quads."""
    APPEND = "append"
    """One of 50 lists grows by an item: reads what it changes, one quad deleted, four inserted."""


def setup(workload: Workload, prefix: str) -> str | None:
    """The update that has to be there before the first one, if any."""
    if workload is Workload.INSERT:
        return None
    lists = " ".join(f"{_list(prefix, number)} <urn:len> 0 ." for number in range(LISTS))
    return f"INSERT DATA {{ {lists} }}"


def texts(workload: Workload, prefix: str) -> Iterator[str]:
    """Updates without an end; `prefix` is part of every subject, so that two runs do not meet.

    >>> next(texts(Workload.INSERT, "urn:a:"))
    'INSERT DATA { <urn:a:0> <urn:p> 0 ; <urn:q> "v0" }'
    """
    make = _insert if workload is Workload.INSERT else _append
    return (make(prefix, number) for number in count())


def _insert(prefix: str, number: int) -> str:
    return f'INSERT DATA {{ <{prefix}{number}> <urn:p> {number} ; <urn:q> "v{number}" }}'


def _list(prefix: str, number: int) -> str:
    return f"<{prefix}list:{number % LISTS}>"


APPEND = """
DELETE { ?k <urn:len> ?n } INSERT { ?k <urn:len> ?m . ?e <urn:of> ?k ; <urn:pos> ?m ; <urn:val> "v" } WHERE {
 VALUES ?k { LIST } ?k <urn:len> ?n BIND(?n + 1 AS ?m) BIND(IRI(CONCAT(STR(?k), "/", STR(?m))) AS ?e) }
""".strip()


def _append(prefix: str, number: int) -> str:
    return APPEND.replace("LIST", _list(prefix, number))
