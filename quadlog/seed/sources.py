"""What can be imported: files and folders, each read as what its name says."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pyoxigraph import RdfFormat

from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyoxigraph import NamedNode

ZIPPED: Final = ".gz"

BUFFER: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One document."""

    name: str
    """As its author knows it: in errors, and in what the log says of its seed."""
    path: Path
    format: RdfFormat
    is_zipped: bool = False
    graph: NamedNode | None = None
    """Where its triples go; None: the default graph, or where it says itself."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size

    def open(self) -> tuple[BinaryIO, BinaryIO]:
        """What to read, and the file on disk, which tells how far that is.

        Raises:
            UserError: it cannot be opened.

        """
        try:
            file = self.path.open("rb", buffering=BUFFER)
        except OSError as error:
            raise UserError(f"{self.name} cannot be read: {error.strerror}") from error
        return (cast("BinaryIO", gzip.open(file)) if self.is_zipped else file), file


def source_of(path: Path) -> Source | None:
    """A file as a source; None if its name says nothing of what it is.

    >>> [source and source.format.name for source in map(source_of, (Path("people.nq.gz"), Path("README")))]
    ['N-Quads', None]
    """
    is_zipped = path.suffix == ZIPPED
    bare = path.with_suffix("") if is_zipped else path
    kind = RdfFormat.from_extension(bare.suffix.removeprefix(".")) if bare.suffix else None
    return kind and Source(name=str(path), path=path, format=kind, is_zipped=is_zipped)


def files_of(names: Iterable[str]) -> Iterator[Source]:
    """The files of that name, and all in folders of that name that can be read, in the order of their paths.

    Raises:
        UserError: there is none, or what it is cannot be told.

    """
    for name in names:
        path = Path(name)
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            found = [source for file in inside if (source := source_of(file))]
            if not found:
                raise UserError(
                    f"{name} has no file whose name ends with .nq, .nt, .ttl, .trig, .rdf, .jsonld or .n3"
                )
            yield from found
        elif not path.is_file():
            raise UserError(
                f"{name} is neither a file nor a folder, nor begins with sparql+http or rdf4j+http"
            )
        elif (source := source_of(path)) is None:
            raise UserError(
                f"what {name} holds cannot be told: name it .nq, .nt, .ttl, .trig, .rdf, .jsonld or .n3"
            )
        else:
            yield source
