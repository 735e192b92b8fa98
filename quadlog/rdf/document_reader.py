"""Reading a document in a process of its own: some kill their reader, or keep it busy for ever.

20,000 nested triple terms or 4,000 nested lists of JSON-LD overflow the stack, and RDF/XML takes quadratic
time in its depth: 12 s for 40,000 elements.  A worker that read them itself would die or hang, and so
would its successors; and a master would take its clients with it.
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
"""The exit codes with which a reader says a reason instead of quads."""

MEMORY: Final = 2 * 1024**3
"""Bytes of address space that a reader may have; 50 MB are there before it begins."""


def read(load: Load, tx_id: bytes, document: Document, *, seconds: float, most: int) -> tuple[Quad, ...]:
    """The quads of a document that is loaded, as the store will have them.

    Raises:
        DocumentError: it cannot be read, or not in this time, or its N-Quads are of more than `most` bytes.

    """
    asked = Asked(
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
class Asked:
    """What a reader has to know beside the document."""

    into: Sequence[str | None] | None
    """The graphs, None being the default graph; none at all: as the document says."""
    named_graphs: bool
    """Whether it may have named graphs."""
    media_type: str
    base: str
    seconds: float
    most: int
    """Bytes of what is written."""
    tx_id: str = ""
    number: int = 0
    """What its blank nodes hang on."""
    prefix: str = ""
    """Of every line."""

    def lines(self, body: bytes) -> Iterator[bytes]:
        """What is written.

        Raises:
            DocumentError: it cannot be read, or more would be written than may be.

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


def read_lines(asked: Asked, body: bytes, late: str) -> bytes:
    """What a reader writes; `late`: what is said of one that is not read in time.

    Raises:
        DocumentError: it cannot be read, or not in this time, or more would be written than may be.

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
    """Read what is asked for on standard input; say its quads, or why there are none."""
    request, _, body = sys.stdin.buffer.read().partition(b"\n")
    asked = Asked(**json.loads(request))
    # A second more: who asks is to be the one who gives up.
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
