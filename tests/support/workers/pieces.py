"""Work in pieces that dies between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyoxigraph import BlankNode, NamedNode, Quad, Store

from quadlog.core.effects import signature
from quadlog.quadstore.quaddir import FILES
from quadlog.quadstore.quadstore import Applied, QuadStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.workers.rehearsal import Worker


class Dies(Exception):
    """Stands for kill -9."""


class Dying:
    """pyoxigraph's store, whose process dies before one of the updates to come."""

    def __init__(self, inner: Any, after: int) -> None:  # noqa: ANN401  as much of a store as is asked for
        self.inner, self.left = inner, after

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401, D105
        return getattr(self.inner, name)

    def __contains__(self, quad: object) -> bool:  # noqa: D105
        return quad in self.inner

    def update(self, *args: Any, **options: Any) -> None:  # noqa: ANN401
        self._step()
        self.inner.update(*args, **options)

    def remove_graph(self, graph: BlankNode) -> None:
        self._step()
        self.inner.remove_graph(graph)

    def _step(self) -> None:
        if not self.left:
            raise Dies
        self.left -= 1


def dying(worker: Worker, after: int) -> bool:
    """Let it catch up; whether it died on the way, at this update to come."""
    store = worker.store._store
    worker.store._store = Dying(store, after)  # type: ignore[assignment]
    try:
        worker.catch_up()
    except Dies:
        worker.store._store = store
        worker.close()
        return True
    worker.store._store = store
    return False


def seed(path: Path) -> None:
    """A store as an import makes it."""
    path.mkdir()
    s, p = NamedNode("urn:s"), NamedNode("urn:p")
    quads = [Quad(s, p, s, BlankNode("full")), Quad(s, p, s, NamedNode("urn:g")), Quad(s, p, s)]
    store = Store(path / FILES)
    store.extend(quads)
    store.add_graph(BlankNode("empty"))
    store.flush()
    del store
    lines = [*map(signature.quad_line, quads), signature.empty_graph_line(BlankNode("empty"))]
    QuadStore.adopt(path, Applied(signature=signature.add(signature.EMPTY, lines), quads=len(quads)))
