"""Reading of a document in a separate process: some documents crash their reader, or keep it busy for ever.

20,000 nested triple terms or 4,000 nested lists of JSON-LD overflow the stack, and RDF/XML needs quadratic
time in its depth: 12 s for 40,000 elements.  A worker that read such a document itself would die or hang, and
so would its successors; a master would fail together with its clients.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pyoxigraph as ox
from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat

from quadlog.core.sparql.text.terms import BlankNodes
from quadlog.leash import leashed
from quadlog.rdf.documents import Document, DocumentError, DocumentTooLarge, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.core.sparql.operations import Load

_REFUSED: Final = 3
_LARGE: Final = 4
"""Exit codes with which a reader returns a reason instead of quads."""

MEMORY: Final = 2 * 1024**3
"""Maximum bytes of a reader's address space, of which 50 MB are used before it begins."""


def read(load: Load, tx_id: bytes, document: Document, *, seconds: float, most: int) -> tuple[Quad, ...]:
    """Return the quads of a loaded document, as the store will contain them.

    Raises:
        DocumentError: the document cannot be read, or not in `seconds`, or its N-Quads exceed `most` bytes.

    """
    asked = DocumentRequest(
        into=(None if isinstance(load.graph, DefaultGraph) else load.graph.value,),
        named_graphs=False,
        media_type=document.media_type,
        base=document.base,
        seconds=seconds,
        most=most,
        tx_id=tx_id.hex(),
        number=load.number,
    )
    lines = read_lines(asked, document.body, "it was not read within load-timeout of the worker")
    return tuple(quad for quad in ox.parse(lines, RdfFormat.N_QUADS) if isinstance(quad, Quad))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRequest:
    """Parameters of a reader, in addition to the document."""

    into: Sequence[str | None] | None
    """Target graphs, each None for the default graph; without a list, the graphs that the document names."""
    named_graphs: bool
    """True if the document may have named graphs."""
    media_type: str
    base: str
    seconds: float
    most: int
    """Maximum bytes of output."""
    tx_id: str = ""
    number: int = 0
    """Number that the names of its blank nodes depend on, together with `tx_id`."""
    prefix: str = ""
    """Prefix of every line."""

    def lines(self, body: bytes) -> Iterator[bytes]:
        """Yield the output lines.

        Raises:
            DocumentError: the document cannot be read, or its output exceeds `most` bytes.

        """
        into = None if self.into is None else [NamedNode(g) if g else DefaultGraph() for g in self.into]
        nodes = BlankNodes(bytes.fromhex(self.tx_id), self.number)
        document = Document(body=body, media_type=self.media_type, base=self.base)
        written = 0
        for line in lines_of(document, into, nodes, named_graphs=self.named_graphs):
            text = (self.prefix + line).encode()
            written += len(text)
            if written > self.most:
                raise DocumentTooLarge(f"its quads are more than {self.most} bytes of N-Quads")
            yield text


def read_lines(asked: DocumentRequest, body: bytes, late: str) -> bytes:
    """Return the output of a reader; `late`: error text for a document that is not read in time.

    Raises:
        DocumentError: the document cannot be read, or not in time, or its output exceeds the maximum.

    """
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            leashed([sys.executable, "-m", "quadlog.rdf.document_reader"]),
            input=json.dumps(asdict(asked)).encode() + b"\n" + body,
            capture_output=True,
            timeout=asked.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DocumentError(late) from None
    if done.returncode in {_REFUSED, _LARGE}:
        raise (DocumentError if done.returncode == _REFUSED else DocumentTooLarge)(done.stderr.decode())
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise DocumentError(f"it cannot be read: its reader ended with {done.returncode} {last}".rstrip())
    return done.stdout


def main() -> int:
    """Read the request from standard input; write its quads, or the reason why there are none."""
    request, _, body = sys.stdin.buffer.read().partition(b"\n")
    asked = DocumentRequest(**json.loads(request))
    # One second more, so that the requesting process gives up first.
    seconds = max(math.ceil(asked.seconds), 0) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError):  # macOS reserves more than that for every process
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        sys.stdout.buffer.writelines(asked.lines(body))
    except DocumentError as error:
        sys.stderr.buffer.write(str(error).encode())
        return _LARGE if isinstance(error, DocumentTooLarge) else _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
