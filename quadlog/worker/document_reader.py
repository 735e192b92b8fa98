"""Reading a document in a process of its own: some kill their reader, or keep it busy for ever.

20,000 nested triple terms or 4,000 nested lists of JSON-LD overflow the stack, and RDF/XML takes quadratic
time in its depth: 12 s for 40,000 elements.  A worker that read them itself would die or hang, and so
would its successors.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pyoxigraph as ox
from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat

from quadlog.core.sparql.terms import BlankNodes
from quadlog.kafka.leash import leashed
from quadlog.worker.documents import Document, DocumentError, lines_of

if TYPE_CHECKING:
    from quadlog.core.operations import Load

_REFUSED: Final = 3
"""The exit code with which a reader says a reason instead of quads."""

MEMORY: Final = 2 * 1024**3
"""Bytes of address space that a reader may have; 50 MB are there before it begins."""


def read(load: Load, tx_id: bytes, document: Document, *, seconds: float, most: int) -> tuple[Quad, ...]:
    """The quads of a document, as the store will have them.

    Raises:
        DocumentError: it cannot be read, or not in this time, or its N-Quads are of more than `most` bytes.

    """
    asked = {
        "tx_id": tx_id.hex(),
        "number": load.number,
        "graph": None if isinstance(load.graph, DefaultGraph) else load.graph.value,
        "media_type": document.media_type,
        "base": document.base,
        "most": most,
        # A second more: who asks is to be the one who gives up.
        "seconds": max(math.ceil(seconds), 0) + 1,
    }
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            leashed([sys.executable, "-m", "quadlog.worker.document_reader"]),
            input=json.dumps(asked).encode() + b"\n" + document.body,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DocumentError("it was not read within load-timeout of the worker") from None
    if done.returncode == _REFUSED:
        raise DocumentError(done.stderr.decode())
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise DocumentError(f"it cannot be read: its reader ended with {done.returncode} {last}".rstrip())
    return tuple(quad for quad in ox.parse(done.stdout, RdfFormat.N_QUADS) if isinstance(quad, Quad))


def main() -> int:
    """Read what is asked for on standard input; say its quads, or why there are none."""
    request, _, body = sys.stdin.buffer.read().partition(b"\n")
    asked = json.loads(request)
    resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError):  # macOS reserves more than that for every process
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    graph = DefaultGraph() if asked["graph"] is None else NamedNode(asked["graph"])
    document = Document(body=body, media_type=asked["media_type"], base=asked["base"])
    nodes = BlankNodes(bytes.fromhex(asked["tx_id"]), asked["number"])
    written, reason = 0, f"its quads are more than {asked['most']} bytes of N-Quads"
    try:
        for line in lines_of(document, graph, nodes):
            written += sys.stdout.buffer.write(line.encode())
            if written > asked["most"]:
                break
        else:
            return 0
    except DocumentError as error:
        reason = str(error)
    sys.stderr.buffer.write(reason.encode())
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main())
