"""Live endpoints as sources: their content is first fetched into files, completely or not at all.

rdf4j+http://SERVER/repositories/ID    its statements, as N-Quads
sparql+http://ENDPOINT                 the default graph, then each named graph, by CONSTRUCT
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
from pyoxigraph import NamedNode, QueryResultsFormat, QuerySolutions, RdfFormat, parse_query_results

from quadlog.errors import Unavailable, UserError
from quadlog.seed.sources import ImportSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

RDF4J: Final = "rdf4j+"
SPARQL: Final = "sparql+"

TIMEOUT: Final = httpx.Timeout(300.0, connect=10.0)
"""300 s until the first byte of a query's answer, and between two pieces."""

_DEFAULT: Final = "?s ?p ?o"


def is_endpoint(name: str) -> bool:
    """Return whether a source is an endpoint.

    >>> is_endpoint("sparql+http://localhost:7200/sparql"), is_endpoint("people.nq")
    (True, False)
    """
    return name.startswith((RDF4J, SPARQL))


@dataclass(slots=True)
class Endpoint:
    """One endpoint, and the directory for its content."""

    name: str
    directory: Path
    client: httpx.Client
    told: Callable[[int], None]
    """Called with the number of bytes of each piece received."""
    _files: int = 0

    def fetch(self) -> Iterator[ImportSource]:
        """Fetch the content into files, and yield these as sources.

        Raises:
            Unavailable: the connection broke, or the endpoint sent another number of triples than it counts.
            UserError: it is not such an endpoint.

        """
        kind, _, url = self.name.partition("+")
        if not url.startswith(("http://", "https://")):
            raise UserError(f"{self.name} has no http:// or https:// behind {kind}+")
        if self.name.startswith(RDF4J):
            path = self._get(url.rstrip("/") + "/statements", {}, RdfFormat.N_QUADS.media_type)
            yield ImportSource(name=self.name, path=path, format=RdfFormat.N_QUADS)
            return
        yield self._graph(url, None)
        for graph in self._graphs(url):
            yield self._graph(url, graph)

    def _get(self, url: str, parameters: Mapping[str, str], accept: str) -> Path:
        """Write the body of an answer into a file, and return its path."""
        self._files += 1
        path = self.directory / f"fetched-{self._files}"
        try:
            with (
                self.client.stream("GET", url, params=dict(parameters), headers={"Accept": accept}) as answer,
                path.open("wb") as file,
            ):
                if not answer.is_success:
                    said = answer.read().decode(errors="replace")[:300]
                    raise UserError(f"{self.name} answered {answer.status_code}: {said}")
                given = answer.headers.get("content-type", "").partition(";")[0]
                if given not in {accept, "text/plain", "application/json"}:
                    raise UserError(
                        f"{self.name} gives {given or 'nothing that it names'}, asked for was {accept}"
                    )
                for piece in answer.iter_bytes():
                    file.write(piece)
                    self.told(len(piece))
        except httpx.HTTPError as error:
            raise Unavailable(
                f"{self.name} broke off: {type(error).__name__} {error}; nothing was imported, try again"
            ) from error
        return path

    def _select(self, url: str, query: str) -> QuerySolutions:
        path = self._get(url, {"query": query}, QueryResultsFormat.JSON.media_type)
        try:
            found = parse_query_results(path.read_bytes(), QueryResultsFormat.JSON)
            assert isinstance(found, QuerySolutions), "a SELECT has solutions"
        except (SyntaxError, ValueError) as error:
            raise UserError(f"{self.name} gives no results of a query: {error}") from error
        return found

    def _graphs(self, url: str) -> list[NamedNode]:
        found = self._select(url, "SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }")
        return [graph for solution in found if isinstance(graph := solution["g"], NamedNode)]

    def _graph(self, url: str, graph: NamedNode | None) -> ImportSource:
        """Fetch the triples of a graph; compare their number with the endpoint's count, since some limit answers."""
        pattern = _DEFAULT if graph is None else f"GRAPH {graph} {{ {_DEFAULT} }}"
        where = f"{self.name} (graph {graph.value if graph else 'default'})"
        path = self._get(
            url, {"query": f"CONSTRUCT {{ {_DEFAULT} }} {{ {pattern} }}"}, RdfFormat.N_TRIPLES.media_type
        )
        [counted] = self._select(url, f"SELECT (COUNT(*) AS ?n) {{ {pattern} }}")
        with path.open("rb") as file:
            came = sum(1 for line in file if line.strip() and not line.startswith(b"#"))
        expected = int(getattr(counted["n"], "value", -1))
        if came != expected:
            raise Unavailable(
                f"{where} gave {came} triples and counts {expected}: it was written meanwhile, or it limits its"
                " answers. Nothing was imported; try again, or import a dump of it"
            )
        return ImportSource(name=where, path=path, format=RdfFormat.N_TRIPLES, graph=graph)
