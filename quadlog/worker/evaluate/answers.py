"""Answers of endpoints to a SERVICE, as text that replaces it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyoxigraph import Literal, NamedNode

from quadlog.core.sparql.text.terms import Literals
from quadlog.core.sparql.text.tokens import token_pattern
from quadlog.rdf.documents import DocumentError
from quadlog.worker.evaluate.fetch import body_of, url_of

if TYPE_CHECKING:
    import httpx

    from quadlog.core.sparql.operations import Service
    from quadlog.worker.evaluate.fetch import LoadLimits

ACCEPT: Final = "application/sparql-results+json"
NOTHING: Final = "{}"
"""Answer for a SERVICE SILENT that failed: one solution without bindings (SPARQL 1.1 Federated Query, 2.3)."""
UNBOUND: Final = "UNDEF"


async def asked(
    client: httpx.AsyncClient, service: Service, limits: LoadLimits, *, size: int
) -> tuple[str, int]:
    """Return an endpoint's answer as a group with VALUES, and its number of bytes, which is at most `size`.

    Raises:
        DocumentError: the endpoint is not allowed or not available, or its answer is too large or not valid.

    """
    url = url_of(service.endpoint.value)
    limits.check_endpoint(url)
    headers = {"Accept": ACCEPT, "Accept-Encoding": "identity"}
    async with client.stream("POST", url, data={"query": service.query}, headers=headers) as answer:
        if not answer.is_success:
            raise DocumentError(f"{url} answered {answer.status_code}")
        body = await body_of(answer, size, limits)
    return values_of(body), len(body)


def values_of(body: bytes) -> str:
    """Return solutions in JSON as a group with VALUES.

    >>> values_of(b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "uri", "value": "urn:x"}}, {}]}}')
    '{ VALUES (?a) { (<urn:x>) (UNDEF) } }'

    Raises:
        DocumentError: the body has no solutions, or has blank nodes, which mean nothing elsewhere, or triple
            terms.

    """
    try:
        said = json.loads(body)
        names = [str(name) for name in said["head"]["vars"]]
        literals = Literals()
        rows = [[_term(row.get(name), literals) for name in names] for row in said["results"]["bindings"]]
    except DocumentError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError) as error:
        raise DocumentError(f"its answer is no {ACCEPT}: {type(error).__name__} {error}") from None
    columns = [f"?{name}" for name in names]
    for column in columns:
        if (token := token_pattern().fullmatch(column)) is None or token["var"] != column:
            raise DocumentError(f"its answer has a column that is no variable: {column[:40]}")
    lines = [f"({' '.join(row)})" for row in rows]
    return f"{{ VALUES ({' '.join(columns)}) {{ {' '.join(lines)} }} }}"


def _term(said: Any, literals: Literals) -> str:  # noqa: ANN401 - JSON
    if said is None:
        return UNBOUND
    kind, value = said["type"], said["value"]
    if kind == "uri":
        return str(NamedNode(value))
    if kind not in {"literal", "typed-literal"}:
        raise DocumentError(f"its answer has a {kind}, which cannot stand in an update")
    if "xml:lang" in said:
        return str(Literal(value, language=said["xml:lang"]))
    return str(literals.typed(value, NamedNode(said["datatype"])) if "datatype" in said else Literal(value))
