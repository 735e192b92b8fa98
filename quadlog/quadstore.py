"""The one door to a worker's quads on disk.

A directory holds pyoxigraph's files and one small file with the name of a reserved graph.  That
graph has one quad, whose literal says up to where the log has been applied; it is replaced in the
same atomic update as the quads, so that after any crash the two agree.  pyoxigraph does not
fsync: after a power loss both may be older, but still agree.
"""

from __future__ import annotations

import os
import secrets
import time
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyoxigraph import Literal, NamedNode, Quad, Store

from quadlog.commit import UpdateText, net_of
from quadlog.core import signature
from quadlog.core.model import GENESIS
from quadlog.core.sparql.syntax import RESERVED_PREFIX
from quadlog.errors import SetupError, StateError
from quadlog.quadquery import run_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from quadlog.core.effect import Change, NamedGraph
    from quadlog.quadquery import Answer, Dataset

_APPLIED = NamedNode("urn:quadlog:applied")
# Iterating over quads holds the GIL: lines between two chances for other threads, some 5 ms.
_CHUNK = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Up to where a store has applied the log, and what it holds then."""

    index: int = 0
    chain: bytes = GENESIS
    effects_chain: bytes = GENESIS
    signature: int = signature.EMPTY
    quads: int = 0
    agreed_offset: int = 0
    effects_offset: int = 0
    term: bytes = GENESIS
    attempt: int = 0

    def encode(self) -> str:
        """One line of text, short: oxigraph's dictionary keeps every string for ever.

        >>> Applied.decode(Applied(index=7, chain=b"x").encode()) == Applied(index=7, chain=b"x")
        True
        """
        numbers = (
            self.index, self.quads, self.agreed_offset, self.effects_offset, self.attempt
        )  # fmt: skip
        total = self.signature.to_bytes(32, "big")
        texts = (b64encode(v).decode() for v in (total, self.chain, self.effects_chain, self.term))
        return ",".join((*map(str, numbers), *texts))

    @staticmethod
    def decode(text: str) -> Applied:
        """The inverse of ``encode``."""
        numbers, values = text.split(",")[:5], text.split(",")[5:]
        index, quads, agreed_offset, effects_offset, attempt = map(int, numbers)
        total, chain, effects_chain, term = map(b64decode, values)
        return Applied(
            index=index,
            chain=chain,
            effects_chain=effects_chain,
            signature=int.from_bytes(total, "big"),
            quads=quads,
            agreed_offset=agreed_offset,
            effects_offset=effects_offset,
            term=term,
            attempt=attempt,
        )


class QuadStore:
    """A worker's quads with the applied state; a ``State`` of ``quadlog.core.effect``.

    One thread applies; any number may query.
    """

    def __init__(self, store: Store, reserved: NamedNode, applied: Applied) -> None:
        """Use ``open``."""
        self._store = store
        self._reserved = reserved
        self._applied = applied

    @classmethod
    def open(cls, path: Path) -> QuadStore:
        """Open or create the store in this directory."""
        path.mkdir(parents=True, exist_ok=True)
        store = _open_locked(path)
        reserved = _reserved_graph(path, store)
        found = list(store.quads_for_pattern(None, None, None, reserved))
        match found:
            case []:
                applied = Applied()
                store.add(_applied_quad(reserved, applied))
            case [quad] if isinstance(quad.object, Literal):
                applied = Applied.decode(quad.object.value)
            case _:
                raise StateError(f"{path}: {len(found)} applied states where there is one; rebuild it")
        return cls(store, reserved, applied)

    @property
    def applied(self) -> Applied:
        """Up to where the log is applied; read from disk once, at ``open``."""
        return self._applied

    def apply(self, changes: Sequence[Change], applied: Applied) -> None:
        """Make consecutive changes and say so, in one atomic update.

        Trusts its caller that the changes are exact and that ``applied`` tells their result.
        """
        update = UpdateText()
        update.add(net_of(changes))
        for verb, state in (("DELETE", self._applied), ("INSERT", applied)):
            quad = _applied_quad(self._reserved, state)
            update.operations.append(f"{verb} DATA {{ GRAPH {self._reserved} {{ {quad.triple} }} }}")
        self._store.update(update.text(), custom_functions=update.functions())
        self._applied = applied

    def query(
        self,
        text: str,
        *,
        accept: str = "*/*",
        base_iri: str | None = None,
        dataset: Dataset | None = None,
    ) -> Answer:
        """Begin to answer a SPARQL query; updates are Forbidden, wrong syntax is SyntaxRefused.

        The answer is of this moment, however much later it is written out.
        """
        return run_query(
            self._store,
            text,
            reserved=self._reserved,
            accept=accept,
            base_iri=base_iri,
            dataset=dataset,
        )

    def contains(self, quad: Quad) -> bool:
        """Whether the quad is there."""
        return quad in self._store

    def has_graph(self, graph: NamedGraph) -> bool:
        """Whether the named graph exists, with quads or empty."""
        return self._store.contains_named_graph(graph)

    def quads_in(self, graph: NamedGraph) -> Iterator[Quad]:
        """The quads of a named graph."""
        return self._store.quads_for_pattern(None, None, None, graph)

    def lines(self) -> Iterator[str]:
        """The line of every quad and every empty graph, as the signature has them.

        As of one moment only while nobody applies.
        """
        for quad in self._store.quads_for_pattern(None, None, None, None):
            if quad.predicate != _APPLIED or quad.graph_name != self._reserved:
                yield signature.quad_line(quad)
        for graph in self._store.named_graphs():
            if next(self.quads_in(graph), None) is None:
                yield signature.empty_graph_line(graph)

    def dump(self) -> Iterator[bytes]:
        """N-Quads in chunks, with comments that name the empty graphs."""
        chunk: list[str] = []
        for line in self.lines():
            chunk.append(line)
            if len(chunk) == _CHUNK:
                yield "\n".join((*chunk, "")).encode()
                chunk.clear()
                time.sleep(0)  # lets another thread have the GIL
        if chunk:
            yield "\n".join((*chunk, "")).encode()

    def recount(self) -> tuple[int, int]:
        """Signature and number of quads, from what is stored."""
        total = quads = 0
        for number, line in enumerate(self.lines()):
            total += signature.digest(line)
            quads += not line.startswith("#")
            if number % _CHUNK == 0:
                time.sleep(0)
        return total % (1 << 256), quads

    def close(self) -> None:
        """Flush, and let go of the directory."""
        self._store.flush()
        del self._store


def _applied_quad(reserved: NamedNode, applied: Applied) -> Quad:
    return Quad(reserved, _APPLIED, Literal(applied.encode()), reserved)


def _open_locked(path: Path) -> Store:
    owner = path / "owner"
    try:
        store = Store(path / "quads")
    except OSError as error:
        if "lock" not in str(error).lower():
            raise SetupError(f"StoreUnusable: {path}: {error}") from error
        held_by = "another process"
        with suppress(OSError):
            held_by = f"process {owner.read_text().strip()}"
        raise SetupError(
            f"StoreLocked: {path} is held by {held_by}; stop it, or give this worker another directory"
        ) from error
    owner.write_text(f"{os.getpid()}\n")
    return store


def _reserved_graph(path: Path, store: Store) -> NamedNode:
    """The graph's name, made up when the store is: nobody can guess it."""
    file = path / "reserved-graph"
    if file.exists():
        return NamedNode(file.read_text().strip())
    if next(store.named_graphs(), None) is not None or len(store):
        raise StateError(f"{path}: the file {file.name} is missing beside the quads; rebuild the store")
    name = NamedNode(f"{RESERVED_PREFIX}{secrets.token_hex(16)}")
    draft = file.with_suffix(".new")
    draft.write_text(f"{name.value}\n")
    with draft.open() as written:
        os.fsync(written.fileno())
    draft.replace(file)
    return name
