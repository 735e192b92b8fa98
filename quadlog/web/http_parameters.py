"""Parameters of SPARQL requests: in the URL, in a form, or in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    Parameters = Mapping[str, Sequence[str]]

LANGUAGE: Final = "queryLn"

WITHOUT_MEANING: Final = frozenset(("infer", LANGUAGE, "format", "output", "results"))
"""Parameters without effect that clients add on their own: RDF4J the first two, SPARQLWrapper the last three in
addition to an Accept header.  Nothing is inferred here, and the Accept header determines the format."""


def merged(url: Parameters, form: Parameters) -> dict[str, list[str]]:
    """Return the parameters of a request that has some in its URL and some in its form.

    >>> merged({"default-graph-uri": ["urn:g"]}, {"query": ["ASK {}"]})
    {'default-graph-uri': ['urn:g'], 'query': ['ASK {}']}

    Raises:
        UserError: a parameter has different values in the URL and in the form.

    """
    for name in url.keys() & form.keys():
        if sorted(set(url[name])) != sorted(set(form[name])):
            raise UserError(
                f"{name} is {' and '.join(url[name])[:200]} in the URL, and something else in the form:"
                " say it in one place; nothing was done"
            )
    return {name: list(form.get(name) or url[name]) for name in (*url, *(form.keys() - url.keys()))}


def only(given: Parameters, name: str) -> str:
    """Return the value of a parameter that must occur exactly once.

    Raises:
        UserError: it is missing, or occurs more than once.

    """
    values = given.get(name, ())
    if len(values) != 1:
        raise UserError(f"exactly one '{name}' is needed, this request has {len(values)}")
    return values[0]


def refuse_others(given: Parameters, known: Collection[str]) -> None:
    """Refuse unknown parameters: one of them may request something other than what would be done.

    >>> refuse_others({"query": ["ASK {}"], "infer": ["true"]}, ["query"])

    Raises:
        UserError: a parameter is unknown, or the text is in a language other than SPARQL.

    """
    if others := sorted(given.keys() - known - WITHOUT_MEANING):
        raise UserError(
            f"there is no parameter {', '.join(others)[:200]} here, only {', '.join(known)}; nothing was done"
        )
    if languages := [value for value in given.get(LANGUAGE, ()) if value.lower() != "sparql"]:
        raise UserError(f"{LANGUAGE} is SPARQL, not {languages[0][:200]}")
